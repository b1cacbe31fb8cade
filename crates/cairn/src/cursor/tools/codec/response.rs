//! What the client answered, as typed results. Must never know: which call it belongs to.

use crate::cursor::proto::agent::{
    delete_result, diagnostics_result, exec_client_message::Message, fetch_result, grep_result, mcp_result,
    read_result, shell_stream, write_result,
};

/// One answer of the client to an exec.
#[derive(Clone, PartialEq, Debug)]
pub(in super::super) enum ExecAnswer {
    Read(read_result::Result),
    Write(write_result::Result),
    Delete(delete_result::Result),
    Grep(grep_result::Result),
    Diagnostics(diagnostics_result::Result),
    Mcp(mcp_result::Result),
    Fetch(fetch_result::Result),
    /// One event of a command; None for a kind that has nothing to say here.
    Shell(Option<shell_stream::Event>),
    /// A kind that no tool here asks for.
    Foreign,
}

/// The answer in a message. None if the message holds a result without a value.
pub(in super::super) fn answer(message: Message) -> Option<ExecAnswer> {
    match message {
        Message::ReadResult(result) => result.result.map(ExecAnswer::Read),
        Message::WriteResult(result) => result.result.map(ExecAnswer::Write),
        Message::DeleteResult(result) => result.result.map(ExecAnswer::Delete),
        Message::GrepResult(result) => result.result.map(ExecAnswer::Grep),
        Message::DiagnosticsResult(result) => result.result.map(ExecAnswer::Diagnostics),
        Message::McpResult(result) => result.result.map(ExecAnswer::Mcp),
        Message::FetchResult(result) => result.result.map(ExecAnswer::Fetch),
        Message::ShellStream(stream) => Some(ExecAnswer::Shell(stream.event)),
        Message::ShellResult(_)
        | Message::RedactedReadResult(_)
        | Message::RequestContextResult(_)
        | Message::MiniSweAgentBashResult(_) => Some(ExecAnswer::Foreign),
    }
}

/// The field name of a message's kind, for errors.
pub(in super::super) fn kind(message: &Message) -> &'static str {
    match message {
        Message::ShellResult(_) => "shell_result",
        Message::WriteResult(_) => "write_result",
        Message::DeleteResult(_) => "delete_result",
        Message::GrepResult(_) => "grep_result",
        Message::ReadResult(_) => "read_result",
        Message::RedactedReadResult(_) => "redacted_read_result",
        Message::RequestContextResult(_) => "request_context_result",
        Message::DiagnosticsResult(_) => "diagnostics_result",
        Message::McpResult(_) => "mcp_result",
        Message::FetchResult(_) => "fetch_result",
        Message::ShellStream(_) => "shell_stream",
        Message::MiniSweAgentBashResult(_) => "mini_swe_agent_bash_result",
    }
}
