//! What the client answered, as typed results. Must never know: which call it belongs to.

use crate::cursor::proto::agent::{
    ListMcpResourcesExecResult, delete_result, diagnostics_result, exec_client_message::Message,
    fetch_result, grep_result, mcp_result, mcp_state_exec_result, read_mcp_resource_exec_result, read_result,
    shell_stream, subagent_result, write_result,
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
    McpState(mcp_state_exec_result::Result),
    ListMcpResources(ListMcpResourcesExecResult),
    ReadMcpResource(read_mcp_resource_exec_result::Result),
    Subagent(subagent_result::Result),
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
        Message::McpStateExecResult(result) => result.result.map(ExecAnswer::McpState),
        Message::ListMcpResourcesExecResult(result) => Some(ExecAnswer::ListMcpResources(result)),
        Message::ReadMcpResourceExecResult(result) => result.result.map(ExecAnswer::ReadMcpResource),
        Message::SubagentResult(result) => result.result.map(ExecAnswer::Subagent),
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
        Message::McpStateExecResult(_) => "mcp_state_exec_result",
        Message::ListMcpResourcesExecResult(_) => "list_mcp_resources_exec_result",
        Message::ReadMcpResourceExecResult(_) => "read_mcp_resource_exec_result",
        Message::SubagentResult(_) => "subagent_result",
        Message::ShellStream(_) => "shell_stream",
        Message::MiniSweAgentBashResult(_) => "mini_swe_agent_bash_result",
    }
}
