//! The result of a command. Must never know: exec ids, how the output arrived.

use super::super::{BoundedText, ModelText, Outcome};
use super::{because, counted};
use crate::cursor::proto::agent::{
    HookAdditionalContext, ShellAbortReason, ShellArgs, ShellBackgroundReason, ShellFailure,
    ShellPermissionDenied, ShellRejected, ShellResult, ShellSandboxUnsupported, ShellStreamBackgrounded,
    ShellStreamExit, ShellSuccess, ShellToolCall, shell_result, tool_call::Tool,
};

/// How many lines before its last one the end of a file is said to begin.
const END_LINES: i64 = 100;

/// What a command has put out so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in super::super::super) struct Output {
    stdout: BoundedText,
    stderr: BoundedText,
    /// Both, as they arrived.
    interleaved: BoundedText,
    /// The size of both, as they arrived.
    bytes: usize,
}

impl Output {
    /// Takes a piece of what the command wrote to its output.
    pub(in super::super::super) fn push_stdout(&mut self, piece: &str) {
        self.stdout.push(piece);
        self.push(piece);
    }

    /// Takes a piece of what the command wrote to its error output.
    pub(in super::super::super) fn push_stderr(&mut self, piece: &str) {
        self.stderr.push(piece);
        self.push(piece);
    }

    fn push(&mut self, piece: &str) {
        self.interleaved.push(piece);
        self.bytes += piece.len();
    }
}

/// How a command in the foreground ended.
#[derive(Clone, PartialEq, Debug)]
pub(in super::super::super) enum Ended {
    /// It ran; `elapsed_ms` is the time between its start and its end as seen here.
    Exit { exit: ShellStreamExit, elapsed_ms: u64 },
    /// The person, or a hook of the workspace, refused it.
    Rejected(ShellRejected),
    /// The client may not run it.
    Denied(ShellPermissionDenied),
    /// The client has no sandbox of the kind that it would need.
    Unsupported(ShellSandboxUnsupported),
}

/// The result of a command in the foreground, with what hooks of the workspace add to it.
pub(in super::super::super) fn outcome(
    args: ShellArgs,
    output: &Output,
    ended: Ended,
    hooks: &[HookAdditionalContext],
) -> Outcome {
    let mut added = String::new();
    for hook in hooks.iter().filter(|hook| !hook.content.trim().is_empty()) {
        let event = match hook.hook_event_name.as_str() {
            "" => String::new(),
            event => format!(" ({event})"),
        };
        let mut words = BoundedText::default();
        words.push(hook.content.trim_end_matches('\n'));
        added.push_str(&format!(
            "[A hook of the workspace{event} adds:]\n{}\n",
            words.finish()
        ));
    }
    match ended {
        Ended::Exit { exit, elapsed_ms } => exited(args, output, exit, elapsed_ms, &added),
        Ended::Rejected(event) => {
            let text = format!("The command was refused and not run{}", sentence(&event.reason));
            not_run(args, shell_result::Result::Rejected(event), text, &added)
        }
        Ended::Denied(event) => {
            let text = format!(
                "The command was not run, permission was denied{}",
                sentence(&event.error)
            );
            not_run(args, shell_result::Result::PermissionDenied(event), text, &added)
        }
        Ended::Unsupported(event) => {
            let text = format!(
                "The command was not run, the client has no sandbox for it{}",
                sentence(&event.reason)
            );
            // The card has no kind of its own for this; a denial is what it comes to.
            let denied = ShellPermissionDenied {
                command: event.command,
                working_directory: event.working_directory,
                error: event.reason,
                is_readonly: event.is_readonly,
            };
            not_run(args, shell_result::Result::PermissionDenied(denied), text, &added)
        }
    }
}

fn not_run(args: ShellArgs, result: shell_result::Result, text: String, added: &str) -> Outcome {
    let gap = if added.is_empty() { "" } else { "\n" };
    Outcome::error(card(args, result, false), format!("{text}{gap}{added}"))
}

fn exited(args: ShellArgs, output: &Output, exit: ShellStreamExit, measured_ms: u64, added: &str) -> Outcome {
    let code = exit.code.cast_signed();
    let duration = exit
        .local_execution_time_ms
        .and_then(|ms| u64::try_from(ms).ok())
        .unwrap_or(measured_ms);
    // A command that was stopped has no exit code of its own, whatever stands in the field.
    let mut before = match exit.aborted {
        true => format!("The command was stopped {}.\n", stopped_by(exit.abort_reason)),
        false => format!("Exit code: {code}\n"),
    };
    before.push_str(&format!("Duration: {duration} ms\n"));
    if !exit.cwd.is_empty() {
        before.push_str(&format!("Working directory: {}\n", exit.cwd));
    }
    let mut after = String::new();
    if let Some(file) = &exit.output_location {
        let lines = counted(file.line_count, "line");
        let (path, size) = (&file.file_path, file.size_bytes);
        // Of each of the two outputs the client passes on about the first megabyte, and does not say so. [sdk]
        after = match i64::try_from(output.bytes).is_ok_and(|bytes| bytes < size) {
            true => format!(
                "[The client passed on {} bytes: the end of the output is missing above. All of it is in {path} ({size} \
                 bytes, {lines}): for its end read that file from line {} on.]\n",
                output.bytes,
                (file.line_count - END_LINES).max(1),
            ),
            false => format!("[The whole output is in {path} ({size} bytes, {lines}).]\n"),
        };
    }
    after.push_str(added);
    let text = with_output(before, output, &after);
    let execution_time = i32::try_from(duration).unwrap_or(i32::MAX);
    let result = match code == 0 && !exit.aborted {
        true => shell_result::Result::Success(ShellSuccess {
            command: args.command.clone(),
            working_directory: args.working_directory.clone(),
            exit_code: code,
            stdout: output.stdout.finish(),
            stderr: output.stderr.finish(),
            execution_time,
            output_location: exit.output_location,
            interleaved_output: Some(output.interleaved.finish()),
            local_execution_time_ms: exit.local_execution_time_ms,
            ..ShellSuccess::default()
        }),
        false => shell_result::Result::Failure(ShellFailure {
            command: args.command.clone(),
            working_directory: args.working_directory.clone(),
            exit_code: code,
            stdout: output.stdout.finish(),
            stderr: output.stderr.finish(),
            execution_time,
            output_location: exit.output_location,
            interleaved_output: Some(output.interleaved.finish()),
            abort_reason: exit.abort_reason,
            aborted: exit.aborted,
            local_execution_time_ms: exit.local_execution_time_ms,
            ..ShellFailure::default()
        }),
    };
    // A command that fails is a result like any other: only a command that was not run is a tool error.
    Outcome::success(card(args, result, false), text)
}

/// The command goes on in the background.
pub(in super::super::super) fn backgrounded(
    args: ShellArgs,
    output: &Output,
    event: ShellStreamBackgrounded,
    output_file: Option<&str>,
) -> Outcome {
    let why = match event.reason() {
        ShellBackgroundReason::UserRequest => "the user moved it there".to_owned(),
        ShellBackgroundReason::Timeout | ShellBackgroundReason::Unspecified if args.timeout == 0 => {
            "as asked".to_owned()
        }
        ShellBackgroundReason::Timeout | ShellBackgroundReason::Unspecified => {
            format!("it did not end within {} ms", args.timeout)
        }
    };
    let mut before = format!(
        "The command runs on in the background: {why}.\nShell id: {}\n",
        event.shell_id
    );
    if let Some(pid) = event.pid {
        before.push_str(&format!("Process id: {pid}\n"));
    }
    if let Some(file) = output_file {
        before.push_str(&format!("Its output goes to {file}\n"));
    }
    let text = with_output(before, output, "");
    let result = shell_result::Result::Success(ShellSuccess {
        command: args.command.clone(),
        working_directory: args.working_directory.clone(),
        stdout: output.stdout.finish(),
        stderr: output.stderr.finish(),
        interleaved_output: Some(output.interleaved.finish()),
        shell_id: Some(event.shell_id),
        pid: event.pid,
        ms_to_wait: event.ms_to_wait,
        background_reason: event.reason,
        ..ShellSuccess::default()
    });
    Outcome::success(card(args, result, true), text)
}

fn with_output(mut before: String, output: &Output, after: &str) -> ModelText {
    if output.interleaved.is_empty() {
        before.push_str("No output.\n");
        return ModelText::new(&(before + after));
    }
    before.push_str("Output:\n");
    let gap = if output.interleaved.ends_line() { "" } else { "\n" };
    ModelText::framed(&before, &output.interleaved, &format!("{gap}{after}"))
}

fn stopped_by(reason: Option<i32>) -> &'static str {
    match reason.map(ShellAbortReason::try_from) {
        Some(Ok(ShellAbortReason::UserAbort)) => "by the user",
        Some(Ok(ShellAbortReason::Timeout)) => "by its time limit",
        _ => "before its end",
    }
}

fn sentence(reason: &str) -> String {
    let text = because(reason);
    match text.ends_with(['.', '!', '?']) {
        true => text,
        false => text + ".",
    }
}

fn card(args: ShellArgs, result: shell_result::Result, is_background: bool) -> Tool {
    Tool::ShellToolCall(ShellToolCall {
        description: args.description.clone(),
        args: Some(args),
        result: Some(ShellResult {
            is_background: is_background.then_some(true),
            result: Some(result),
            ..ShellResult::default()
        }),
    })
}
