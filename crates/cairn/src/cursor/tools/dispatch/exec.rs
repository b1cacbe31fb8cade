//! Tools that are one exec with one answer. Must never know: cards in progress, streams.

use super::super::arguments::{DeleteArguments, GlobArguments, GrepArguments, ReadArguments};
use super::super::codec::request;
use super::super::result::Outcome;
use super::super::result::exec::{delete as delete_result_text, mcp as mcp_text, read as read_text, search};
use super::{Awaiting, Step};
use crate::cursor::proto::agent::{
    McpArgs, delete_result, exec_server_message::Message, grep_result, mcp_result, read_result,
};
use crate::model::CallId;

pub(super) fn read(call: &CallId, read: ReadArguments) -> Step {
    Step::Exec {
        message: Message::ReadArgs(request::read_args(call, &read)),
        awaiting: Awaiting::Read(read),
    }
}

pub(super) fn read_done(read: &ReadArguments, result: read_result::Result) -> Outcome {
    read_text::outcome(read, result)
}

pub(super) fn delete(call: &CallId, delete: DeleteArguments) -> Step {
    Step::Exec {
        message: Message::DeleteArgs(request::delete_args(call, &delete)),
        awaiting: Awaiting::Delete(delete),
    }
}

pub(super) fn delete_done(call: &CallId, delete: &DeleteArguments, result: delete_result::Result) -> Outcome {
    delete_result_text::outcome(request::delete_args(call, delete), result)
}

pub(super) fn grep(call: &CallId, grep: GrepArguments) -> Step {
    Step::Exec {
        message: Message::GrepArgs(request::grep_args(call, &grep)),
        awaiting: Awaiting::Grep(grep),
    }
}

pub(super) fn grep_done(call: &CallId, grep: &GrepArguments, result: grep_result::Result) -> Outcome {
    search::grep(grep, request::grep_args(call, grep), result)
}

pub(super) fn glob(call: &CallId, glob: GlobArguments) -> Step {
    Step::Exec {
        message: request::glob_args(call, &glob),
        awaiting: Awaiting::Glob(glob),
    }
}

pub(super) fn glob_done(glob: &GlobArguments, result: grep_result::Result) -> Outcome {
    search::glob(glob, result)
}

pub(super) fn mcp(args: McpArgs) -> Step {
    Step::Exec {
        message: Message::McpArgs(args.clone()),
        awaiting: Awaiting::Mcp(args),
    }
}

pub(super) fn mcp_done(args: McpArgs, result: mcp_result::Result) -> Outcome {
    mcp_text::outcome(args, result)
}
