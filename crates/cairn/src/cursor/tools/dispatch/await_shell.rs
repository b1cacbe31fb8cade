//! Waiting for a command in the background: looks into the command's file now and then until it has ended, a line
//! fits, or the time is over.
//!
//! The client has no other way to be asked. The time is counted in the pauses between the looks, so that it needs no
//! clock. Must never know: exec ids.

use super::super::arguments::AwaitShellArguments;
use super::super::codec::card::await_card;
use super::super::codec::request::read_from;
use super::super::result::exec::await_shell::{self, Seen};
use super::super::result::local;
use super::super::terminal_file::TerminalFile;
use super::{Awaiting, Scope, Step};
use crate::cursor::proto::agent::{ReadSuccess, read_result, read_success};
use crate::model::CallId;

/// The first pause between two looks; each is half as long again as the one before.
const FIRST_PAUSE_MS: u32 = 200;
const LONGEST_PAUSE_MS: u32 = 2_000;

/// A command that is waited for.
#[derive(Debug)]
pub(in super::super) struct AwaitRun {
    asked: AwaitShellArguments,
    path: String,
    file: TerminalFile,
    waited_ms: u32,
    pause_ms: u32,
}

pub(super) fn begin(call: &CallId, asked: AwaitShellArguments, scope: &Scope) -> Step {
    let Some(path) = scope.terminal_file(asked.shell_id) else {
        let text = "The client did not say where it keeps the output of commands in the background, so that they \
                    cannot be waited for here.";
        return Step::Done(local::failure(await_card(&asked), text));
    };
    look(
        call,
        AwaitRun {
            asked,
            path,
            file: TerminalFile::default(),
            waited_ms: 0,
            pause_ms: FIRST_PAUSE_MS,
        },
    )
}

/// Reads what the file has gained.
pub(super) fn look(call: &CallId, run: AwaitRun) -> Step {
    Step::Exec {
        message: read_from(call, &run.path, run.file.next_line()),
        awaiting: Awaiting::TerminalFile(Box::new(run)),
    }
}

pub(super) fn advance(mut run: AwaitRun, result: read_result::Result, now_ms: u64) -> Step {
    use read_result::Result;
    let fail = |run: &AwaitRun, text: String| Step::Done(local::failure(await_card(&run.asked), &text));
    let (id, path) = (run.asked.shell_id, run.path.clone());
    let text = match result {
        Result::Success(ReadSuccess {
            output: Some(read_success::Output::Content(text)),
            truncated: false,
            range_applied,
            ..
        }) if range_applied == run.file.next_line().is_some() => text,
        // A part was asked for and the file is shorter: the client then sends the whole of it. [sdk]
        Result::Success(_) => {
            return fail(
                &run,
                format!("{path} could not be read on: it is cut, or no longer the same file."),
            );
        }
        Result::FileNotFound(_) => {
            return fail(
                &run,
                format!(
                    "There is no command with the shell id {id} in the background ({path} does not exist). Take the \
                     id from Shell's result."
                ),
            );
        }
        Result::Error(error) => return fail(&run, format!("{path} could not be read: {}", error.error)),
        Result::Rejected(rejected) => {
            return fail(&run, format!("Reading {path} was refused: {}", rejected.reason));
        }
        Result::PermissionDenied(_) => return fail(&run, format!("No permission to read {path}.")),
        Result::InvalidFile(invalid) => {
            return fail(&run, format!("{path} cannot be read as text: {}", invalid.reason));
        }
    };
    if run.file.take(&text, run.asked.pattern.as_ref()).is_err() {
        return fail(&run, format!("{path} is not the output of a command."));
    }
    let time_left = run.asked.block_until_ms.saturating_sub(run.waited_ms);
    if run.file.ended().is_some() || run.file.matched().is_some() || time_left == 0 {
        let seen = Seen {
            path: &run.path,
            file: &run.file,
            waited_ms: run.waited_ms,
            now_ms,
        };
        return Step::Done(await_shell::outcome(&run.asked, &seen));
    }
    let after_ms = run.pause_ms.min(time_left);
    run.waited_ms += after_ms;
    run.pause_ms = (run.pause_ms + run.pause_ms / 2).min(LONGEST_PAUSE_MS);
    Step::Pause {
        after_ms,
        awaiting: Awaiting::Time(Box::new(run)),
    }
}
