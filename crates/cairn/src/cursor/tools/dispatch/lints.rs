//! ReadLints: one question to the client after the other, one a path. Must never know: exec ids.

use super::super::arguments::ReadLintsArguments;
use super::super::codec::request::diagnostics;
use super::super::result::exec::lints::{self, Answered};
use super::{Awaiting, Step};
use crate::cursor::proto::agent::diagnostics_result;
use crate::model::CallId;

/// The paths that are asked for, and the answers so far: one for each of the first paths.
#[derive(Debug)]
pub(in super::super) struct LintsRun {
    asked: ReadLintsArguments,
    answers: Vec<Answered>,
}

pub(super) fn begin(call: &CallId, asked: ReadLintsArguments) -> Step {
    next(
        call,
        LintsRun {
            asked,
            answers: Vec::new(),
        },
    )
}

pub(super) fn advance(call: &CallId, mut run: LintsRun, result: diagnostics_result::Result) -> Step {
    run.answers.push(lints::answered(result));
    next(call, run)
}

fn next(call: &CallId, run: LintsRun) -> Step {
    match run.asked.paths.get(run.answers.len()) {
        Some(path) => Step::Exec {
            message: diagnostics(call, path),
            awaiting: Awaiting::Lints(Box::new(run)),
        },
        None => Step::Done(lints::outcome(&run.asked, run.answers)),
    }
}
