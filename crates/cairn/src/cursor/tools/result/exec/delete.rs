//! The result of Delete. Must never know: exec ids.

use super::super::{ModelText, Outcome};
use super::because;
use crate::cursor::proto::agent::{DeleteArgs, DeleteResult, DeleteToolCall, delete_result, tool_call::Tool};

/// What became of the file.
pub(in super::super::super) fn outcome(args: DeleteArgs, result: delete_result::Result) -> Outcome {
    use delete_result::Result;
    let path = &args.path;
    let (text, is_error) = match &result {
        Result::Success(_) => (format!("Deleted {path}."), false),
        Result::FileNotFound(_) => (format!("{path} does not exist."), true),
        Result::NotFile(found) => (
            format!(
                "{path} was not deleted, it is not a file{}\nDelete takes one file; a command removes folders.",
                because(&found.actual_type)
            ),
            true,
        ),
        Result::PermissionDenied(denied) => (
            format!(
                "No permission to delete {path}{}",
                because(&denied.client_visible_error)
            ),
            true,
        ),
        Result::FileBusy(_) => (format!("{path} is in use and was not deleted."), true),
        Result::Rejected(rejected) => (
            format!("Deleting {path} was refused{}", because(&rejected.reason)),
            true,
        ),
        Result::Error(error) => (
            format!("{path} could not be deleted{}", because(&error.error)),
            true,
        ),
    };
    let tool = Tool::DeleteToolCall(DeleteToolCall {
        args: Some(args),
        result: Some(DeleteResult { result: Some(result) }),
    });
    match is_error {
        true => Outcome::error(tool, text),
        false => Outcome::success(tool, ModelText::new(&text)),
    }
}
