//! The result of waiting for a command in the background. Must never know: exec ids, how the waiting was done.

use super::super::super::arguments::AwaitShellArguments;
use super::super::super::codec::card::await_card_args;
use super::super::super::terminal_file::TerminalFile;
use super::super::{ModelText, Outcome};
use crate::cursor::proto::agent::{
    AwaitResult, AwaitSuccess, AwaitTaskComplete, AwaitTaskStillRunning, AwaitToolCall, await_result,
    await_success, tool_call::Tool,
};

/// What was seen of the command.
#[derive(Debug)]
pub(in super::super::super) struct Seen<'a> {
    /// The file that holds its output.
    pub path: &'a str,
    pub file: &'a TerminalFile,
    /// How long the call has waited.
    pub waited_ms: u32,
    pub now_ms: u64,
}

/// How the command stands.
pub(in super::super::super) fn outcome(asked: &AwaitShellArguments, seen: &Seen<'_>) -> Outcome {
    let id = asked.shell_id;
    let matched = seen.file.matched();
    let lacking = seen.file.may_lack_output();
    let mut text = match (seen.file.ended(), matched) {
        (Some(ended), _) => {
            let code = match ended.exit_code {
                Some(code) => code.to_string(),
                None => "unknown (it was killed, or stopped with an earlier turn)".to_owned(),
            };
            format!(
                "The command of shell {id} has ended.\nExit code: {code}\nDuration: {} ms\n",
                ended.elapsed_ms
            )
        }
        (None, Some(_)) => format!("The command of shell {id} is still running.\n"),
        (None, None) => format!(
            "The command of shell {id} is still running, after {} ms of waiting.\n",
            seen.waited_ms
        ),
    };
    match (&asked.pattern, matched) {
        (Some(_), Some(line)) => text.push_str(&format!("The pattern fits this line: {line}\n")),
        (Some(_), None) if lacking => {
            text.push_str("No line of the output that was kept fits the pattern.\n")
        }
        (Some(_), None) => text.push_str("No line of its output fits the pattern.\n"),
        (None, _) => {}
    }
    let (output, cut) = seen.file.output_end();
    if output.is_empty() {
        text.push_str("No output.\n");
    } else {
        let gap = if output.ends_with('\n') { "" } else { "\n" };
        let heading = match (lacking, cut) {
            (true, _) => "The end of the output that was kept:",
            (false, true) => "The end of its output:",
            (false, false) => "Output:",
        };
        text.push_str(&format!("{heading}\n{output}{gap}"));
    }
    text.push_str(&match lacking {
        true => format!(
            "[The client keeps about the first megabyte of a command's output, in {}: what came later may be missing. \
             Where the end matters, have the command write to a file of its own, or print less.]\n",
            seen.path
        ),
        false => format!("[The whole output is in {}.]\n", seen.path),
    });
    Outcome::success(card(asked, seen), ModelText::new(&text))
}

fn card(asked: &AwaitShellArguments, seen: &Seen<'_>) -> Tool {
    let task_id = asked.shell_id.to_string();
    let output_length = u64::try_from(seen.file.output_bytes()).unwrap_or(u64::MAX);
    let regex_match = seen.file.matched().map(str::to_owned);
    let state = match seen.file.ended() {
        Some(ended) => await_success::AwaitResult::Complete(AwaitTaskComplete {
            task_id,
            runtime_ms: ended.elapsed_ms,
            output_file_path: seen.path.to_owned(),
            output_length,
            regex_requested: asked.pattern.is_some(),
            regex_match,
            exit_code: ended.exit_code,
            wake_reason: None,
        }),
        None => await_success::AwaitResult::StillRunning(AwaitTaskStillRunning {
            task_id,
            runtime_ms: seen
                .file
                .started_at_ms()
                .map(|started| seen.now_ms.saturating_sub(started))
                .unwrap_or_default(),
            output_file_path: seen.path.to_owned(),
            output_length,
            regex_requested: asked.pattern.is_some(),
            regex_match,
            wake_reason: None,
        }),
    };
    Tool::AwaitToolCall(AwaitToolCall {
        args: Some(await_card_args(asked)),
        result: Some(AwaitResult {
            result: Some(await_result::Result::Success(AwaitSuccess {
                await_result: Some(state),
            })),
        }),
    })
}
