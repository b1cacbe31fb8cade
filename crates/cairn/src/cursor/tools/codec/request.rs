//! Typed arguments to exec messages. Must never know: cards, results.

use crate::cursor::proto::agent::{
    DeleteArgs, DiagnosticsArgs, ExecServerAbort, ExecServerControlMessage, ExecServerMessage,
    GetMcpToolsArgs, GrepArgs, ListMcpResourcesExecArgs, McpStateExecArgs, ReadArgs, ReadMcpResourceExecArgs,
    ShellArgs, ShellCommandParsingResult, TimeoutBehavior, WriteArgs, agent_server_message::Message,
    exec_server_control_message, exec_server_message,
};
use crate::model::CallId;

use super::super::arguments::{DeleteArguments, GlobArguments, GrepArguments, ReadArguments, ShellArguments};
use super::super::mcp::{FetchMcpResourceArguments, GetMcpToolsArguments};

/// The client stops a command after a day, whatever was asked.
const HARD_TIMEOUT_MS: i32 = 86_400_000;
/// Output beyond this size also goes to a file that the client names.
const FILE_OUTPUT_THRESHOLD_BYTES: u64 = 40_000;
/// Any line that ends in CRLF; the client's search looks at the bytes, its read does not show them.
const CRLF_LINES: &str = "\\r$";

/// Asks the client to execute.
pub(in super::super) fn exec(id: u32, message: exec_server_message::Message) -> Message {
    Message::ExecServerMessage(ExecServerMessage {
        id,
        message: Some(message),
        ..ExecServerMessage::default()
    })
}

/// Asks the client to stop executing.
pub(in super::super) fn abort(id: u32) -> Message {
    Message::ExecServerControlMessage(ExecServerControlMessage {
        message: Some(exec_server_control_message::Message::Abort(ExecServerAbort {
            id,
        })),
    })
}

/// The command as the client runs it. `directory` is where it runs unless the model named one.
pub(in super::super) fn shell_args(
    call: &CallId,
    shell: &ShellArguments,
    directory: &str,
    conversation: &str,
) -> ShellArgs {
    ShellArgs {
        command: shell.command.clone(),
        working_directory: shell
            .working_directory
            .clone()
            .unwrap_or_else(|| directory.to_owned()),
        timeout: shell.block_until_ms,
        tool_call_id: call.to_string(),
        // The client wants to know what a shell grammar makes of the command. None is applied here, and saying so
        // makes the client's own approval rules judge the command as a whole.
        parsing_result: Some(ShellCommandParsingResult { parsing_failed: true }),
        file_output_threshold_bytes: Some(FILE_OUTPUT_THRESHOLD_BYTES),
        timeout_behavior: TimeoutBehavior::Background.into(),
        hard_timeout: Some(HARD_TIMEOUT_MS),
        description: shell.description.clone(),
        close_stdin: true,
        conversation_id: Some(conversation.to_owned()),
        ..ShellArgs::default()
    }
}

/// The lines that the model asked for.
pub(in super::super) fn read_args(call: &CallId, read: &ReadArguments) -> ReadArgs {
    ReadArgs {
        path: read.path.clone(),
        tool_call_id: call.to_string(),
        offset: read.offset,
        limit: read.limit.and_then(|limit| u32::try_from(limit).ok()),
        ..ReadArgs::default()
    }
}

/// A whole file.
pub(in super::super) fn read_whole(call: &CallId, path: &str) -> exec_server_message::Message {
    exec_server_message::Message::ReadArgs(ReadArgs {
        path: path.to_owned(),
        tool_call_id: call.to_string(),
        ..ReadArgs::default()
    })
}

/// A file from this one-based line on, or all of it.
pub(in super::super) fn read_from(
    call: &CallId,
    path: &str,
    line: Option<usize>,
) -> exec_server_message::Message {
    exec_server_message::Message::ReadArgs(ReadArgs {
        path: path.to_owned(),
        tool_call_id: call.to_string(),
        offset: line.and_then(|line| i32::try_from(line).ok()),
        ..ReadArgs::default()
    })
}

/// What the person's editor knows of a file or folder.
pub(in super::super) fn diagnostics(call: &CallId, path: &str) -> exec_server_message::Message {
    exec_server_message::Message::DiagnosticsArgs(DiagnosticsArgs {
        path: path.to_owned(),
        tool_call_id: call.to_string(),
    })
}

/// A search for the lines of one file that end in CRLF; as a count, or with their numbers.
pub(in super::super) fn crlf_lines(
    call: &CallId,
    path: &str,
    output_mode: &str,
) -> exec_server_message::Message {
    exec_server_message::Message::GrepArgs(GrepArgs {
        pattern: CRLF_LINES.to_owned(),
        path: Some(path.to_owned()),
        output_mode: Some(output_mode.to_owned()),
        tool_call_id: call.to_string(),
        ..GrepArgs::default()
    })
}

/// What a file shall hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum FileContent {
    /// Text; the client keeps a file's byte order mark, and writes CRLF where the file has any CRLF.
    Text(String),
    /// Exact bytes.
    Bytes(Vec<u8>),
}

/// Writes a whole file.
pub(in super::super) fn write_whole(
    call: &CallId,
    path: &str,
    content: FileContent,
) -> exec_server_message::Message {
    let (file_text, file_bytes) = match content {
        FileContent::Text(text) => (text, Vec::new()),
        FileContent::Bytes(bytes) => (String::new(), bytes),
    };
    exec_server_message::Message::WriteArgs(WriteArgs {
        path: path.to_owned(),
        file_text,
        file_bytes: file_bytes.into(),
        tool_call_id: call.to_string(),
        ..WriteArgs::default()
    })
}

/// The file to delete.
pub(in super::super) fn delete_args(call: &CallId, delete: &DeleteArguments) -> DeleteArgs {
    DeleteArgs {
        path: delete.path.clone(),
        tool_call_id: call.to_string(),
    }
}

/// The search that the model asked for.
pub(in super::super) fn grep_args(call: &CallId, grep: &GrepArguments) -> GrepArgs {
    GrepArgs {
        pattern: grep.pattern.clone(),
        path: grep.path.clone(),
        glob: grep.glob.clone(),
        output_mode: Some(grep.output_mode.clone()),
        context_before: grep.before,
        context_after: grep.after,
        context: grep.context,
        case_insensitive: grep.case_insensitive,
        r#type: grep.file_type.clone(),
        head_limit: grep.head_limit,
        multiline: grep.multiline,
        tool_call_id: call.to_string(),
        offset: grep.offset,
        ..GrepArgs::default()
    }
}

/// A file search: every file of the glob in which the empty pattern matches, the latest changed first. The client
/// has no listing of its own, so files without any text are not among them.
pub(in super::super) fn glob_args(call: &CallId, glob: &GlobArguments) -> GrepArgs {
    GrepArgs {
        path: glob.target_directory.clone(),
        glob: Some(glob.pattern.clone()),
        output_mode: Some("files_with_matches".to_owned()),
        sort: Some("modified".to_owned()),
        tool_call_id: call.to_string(),
        ..GrepArgs::default()
    }
}

/// What GetMcpTools asks for, as its card shows it.
pub(in super::super) fn get_mcp_tools_args(call: &CallId, asked: &GetMcpToolsArguments) -> GetMcpToolsArgs {
    GetMcpToolsArgs {
        server: asked.server.clone(),
        tool_name: asked.tool_name.clone(),
        pattern: asked.pattern.clone(),
        tool_call_id: call.to_string(),
    }
}

/// The servers as they are now. The client lists all of them, so none is named: what was asked for is picked here. [sdk]
pub(in super::super) fn mcp_state() -> exec_server_message::Message {
    exec_server_message::Message::McpStateExecArgs(McpStateExecArgs::default())
}

/// A resource to read.
pub(in super::super) fn read_mcp_resource_args(
    call: &CallId,
    asked: &FetchMcpResourceArguments,
) -> ReadMcpResourceExecArgs {
    ReadMcpResourceExecArgs {
        server: asked.server.clone(),
        uri: asked.uri.clone(),
        tool_call_id: call.to_string(),
        ..ReadMcpResourceExecArgs::default()
    }
}

/// What a server has to read.
pub(in super::super) fn list_mcp_resources(server: &str) -> exec_server_message::Message {
    exec_server_message::Message::ListMcpResourcesExecArgs(ListMcpResourcesExecArgs {
        server: Some(server.to_owned()),
    })
}
