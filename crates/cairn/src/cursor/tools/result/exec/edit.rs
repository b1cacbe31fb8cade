//! Results of Write and StrReplace. Must never know: exec ids, how the text was made.

use super::super::super::arguments::EditArguments;
use super::super::super::codec::card::edit_card_args;
use super::super::super::edit::shown_diff;
use super::super::{ModelText, Outcome};
use super::{because, counted};
use crate::cursor::proto::agent::{
    EditError, EditFileNotFound, EditReadPermissionDenied, EditRejected, EditResult, EditSuccess,
    EditToolCall, EditWritePermissionDenied, edit_result, read_result, tool_call::Tool, write_result,
};

/// The file as it was and as it shall be, on LF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super::super) struct Planned {
    /// None if the file does not exist yet.
    pub before: Option<String>,
    pub after: String,
}

/// What came of writing the file.
pub(in super::super::super) fn written(
    edit: &EditArguments,
    planned: Planned,
    result: write_result::Result,
) -> Outcome {
    use write_result::Result;
    let path = &edit.path;
    match result {
        Result::Success(_) => success(edit, planned),
        Result::PermissionDenied(denied) => error(
            edit,
            edit_result::Result::WritePermissionDenied(EditWritePermissionDenied {
                path: path.clone(),
                error: denied.error.clone(),
                is_readonly: denied.is_readonly,
            }),
            format!("No permission to write {path}{}", because(&denied.error)),
        ),
        Result::Rejected(rejected) => refused(edit, rejected.reason),
        Result::NoSpace(_) => failed(
            edit,
            format!("{path} was not written: no space is left on the device."),
        ),
        Result::Error(fault) => failed(
            edit,
            format!("{path} could not be written{}", because(&fault.error)),
        ),
    }
}

/// Why the file could not be read before the edit. None for results that let the edit go on.
pub(in super::super::super) fn unreadable(
    edit: &EditArguments,
    result: &read_result::Result,
) -> Option<Outcome> {
    use read_result::Result;
    let path = &edit.path;
    match result {
        Result::Success(_) => None,
        Result::FileNotFound(_) => Some(error(
            edit,
            edit_result::Result::FileNotFound(EditFileNotFound { path: path.clone() }),
            format!("{path} does not exist. Use Write to create it."),
        )),
        Result::PermissionDenied(_) => Some(error(
            edit,
            edit_result::Result::ReadPermissionDenied(EditReadPermissionDenied { path: path.clone() }),
            format!("No permission to read {path}, so it was not edited."),
        )),
        Result::Rejected(rejected) => Some(refused(edit, rejected.reason.clone())),
        Result::Error(fault) => Some(failed(
            edit,
            format!(
                "{path} was not edited: reading it failed{}",
                because(&fault.error)
            ),
        )),
        Result::InvalidFile(invalid) => Some(failed(
            edit,
            format!(
                "{path} was not edited: it is no text file{}",
                because(&invalid.reason)
            ),
        )),
    }
}

/// An edit that failed for a reason of its own.
pub(in super::super::super) fn failed(edit: &EditArguments, text: String) -> Outcome {
    let result = edit_result::Result::Error(EditError {
        path: edit.path.clone(),
        error: text.clone(),
        model_visible_error: Some(text.clone()),
    });
    error(edit, result, text)
}

fn success(edit: &EditArguments, planned: Planned) -> Outcome {
    let diff = shown_diff(planned.before.as_deref().unwrap_or_default(), &planned.after);
    let path = &edit.path;
    let text = match (&planned.before, diff.added, diff.removed) {
        (None, added, _) => format!("Created {path} with {}.", counted(added, "line")),
        (Some(_), 0, 0) => format!("{path} already had this text."),
        (Some(_), added, removed) => format!(
            "Edited {path}: {} added, {removed} removed.",
            counted(added, "line")
        ),
    };
    let result = EditSuccess {
        path: path.clone(),
        lines_added: i32::try_from(diff.added).ok(),
        lines_removed: i32::try_from(diff.removed).ok(),
        diff_string: Some(diff.unified),
        before_full_file_content: planned.before,
        after_full_file_content: planned.after,
        message: Some(text.clone()),
    };
    Outcome::success(
        card(edit, edit_result::Result::Success(result)),
        ModelText::new(&text),
    )
}

fn refused(edit: &EditArguments, reason: String) -> Outcome {
    let text = format!("The edit of {} was refused{}", edit.path, because(&reason));
    let result = edit_result::Result::Rejected(EditRejected {
        path: edit.path.clone(),
        reason,
    });
    error(edit, result, text)
}

fn error(edit: &EditArguments, result: edit_result::Result, text: String) -> Outcome {
    Outcome::error(card(edit, result), text)
}

fn card(edit: &EditArguments, result: edit_result::Result) -> Tool {
    Tool::EditToolCall(EditToolCall {
        args: Some(edit_card_args(edit)),
        result: Some(EditResult { result: Some(result) }),
    })
}
