//! Typed arguments to the cards that the client shows. Must never know: execs, streams.

use crate::cursor::proto::agent::{
    AwaitArgs, AwaitError, AwaitResult, AwaitToolCall, DeleteError, DeleteResult, DeleteToolCall, EditArgs,
    EditError, EditResult, EditToolCall, GetMcpToolsAgentResult, GetMcpToolsError, GetMcpToolsToolCall,
    GlobToolArgs, GlobToolCall, GlobToolError, GlobToolResult, GrepError, GrepResult, GrepToolCall,
    McpToolCall, McpToolError, McpToolResult, ReadLintsToolArgs, ReadLintsToolCall, ReadLintsToolError,
    ReadLintsToolResult, ReadMcpResourceError, ReadMcpResourceExecResult, ReadMcpResourceToolCall,
    ReadToolArgs, ReadToolCall, ReadToolError, ReadToolResult, ShellResult, ShellSpawnError, ShellToolCall,
    TaskError, TaskResult, TaskToolCall, UpdateTodosArgs, UpdateTodosError, UpdateTodosResult,
    UpdateTodosToolCall, await_result, delete_result, edit_result, get_mcp_tools_agent_result,
    glob_tool_result, grep_result, mcp_tool_result, read_lints_tool_result, read_mcp_resource_exec_result,
    read_tool_result, shell_result, task_result, tool_call::Tool, update_todos_result,
};
use crate::model::CallId;

use super::super::arguments::{
    Arguments, AwaitShellArguments, EditArguments, GlobArguments, ReadArguments, ReadLintsArguments,
};
use super::super::lines::to_lf;
use super::super::mcp::{self, CallMcpToolArguments};
use super::super::progress;
use super::super::result::asked::failed_card;
use super::{request, task};

/// The card of a call whose arguments are whole. `directory` is where a command runs unless the model named one.
pub(in super::super) fn card(
    call: &CallId,
    arguments: &Arguments,
    directory: &str,
    conversation: &str,
) -> Tool {
    match arguments {
        Arguments::Shell(shell) => Tool::ShellToolCall(ShellToolCall {
            args: Some(request::shell_args(call, shell, directory, conversation)),
            result: None,
            description: shell.description.clone(),
        }),
        Arguments::Read(read) => Tool::ReadToolCall(ReadToolCall {
            args: Some(read_card_args(read)),
            result: None,
        }),
        Arguments::Edit(edit) => Tool::EditToolCall(EditToolCall {
            args: Some(edit_card_args(edit)),
            result: None,
        }),
        Arguments::Delete(delete) => Tool::DeleteToolCall(DeleteToolCall {
            args: Some(request::delete_args(call, delete)),
            result: None,
        }),
        Arguments::Grep(grep) => Tool::GrepToolCall(GrepToolCall {
            args: Some(request::grep_args(call, grep)),
            result: None,
        }),
        Arguments::Glob(glob) => Tool::GlobToolCall(GlobToolCall {
            args: Some(glob_card_args(glob)),
            result: None,
        }),
        Arguments::TodoWrite(todos) => Tool::UpdateTodosToolCall(UpdateTodosToolCall {
            args: Some(UpdateTodosArgs {
                todos: todos.todos.clone(),
                merge: todos.merge,
            }),
            result: None,
        }),
        Arguments::Asked(asked) => asked.clone().with_call_id(call).card(),
        Arguments::AwaitShell(asked) => await_card(asked),
        Arguments::ReadLints(asked) => Tool::ReadLintsToolCall(ReadLintsToolCall {
            args: Some(lints_card_args(asked)),
            result: None,
        }),
        Arguments::Mcp(args) => Tool::McpToolCall(McpToolCall {
            args: Some(args.clone()),
            result: None,
            description: None,
        }),
        Arguments::CallMcpTool(asked) => named_mcp_tool(asked),
        Arguments::GetMcpTools(asked) => Tool::GetMcpToolsToolCall(GetMcpToolsToolCall {
            args: Some(request::get_mcp_tools_args(call, asked)),
            result: None,
        }),
        Arguments::FetchMcpResource(asked) => Tool::ReadMcpResourceToolCall(ReadMcpResourceToolCall {
            args: Some(request::read_mcp_resource_args(call, asked)),
            result: None,
        }),
        Arguments::Task(asked) => Tool::TaskToolCall(TaskToolCall {
            args: Some(task::card_args(asked)),
            ..TaskToolCall::default()
        }),
        Arguments::UpdateCurrentStep(update) => Tool::CommunicateUpdateToolCall(progress::card(update)),
    }
}

/// The card of a call by server and name, before its definition is looked up.
pub(in super::super) fn named_mcp_tool(asked: &CallMcpToolArguments) -> Tool {
    Tool::McpToolCall(mcp::named(asked.server.clone(), asked.tool_name.clone()))
}

/// What a Read card shows.
pub(in super::super) fn read_card_args(read: &ReadArguments) -> ReadToolArgs {
    ReadToolArgs {
        path: read.path.clone(),
        offset: read.offset,
        limit: read.limit,
        include_line_numbers: Some(true),
    }
}

/// What an edit card shows: the new text on LF.
pub(in super::super) fn edit_card_args(edit: &EditArguments) -> EditArgs {
    EditArgs {
        path: edit.path.clone(),
        stream_content: Some(to_lf(edit.change.new_text())),
    }
}

/// What a Glob card shows.
pub(in super::super) fn glob_card_args(glob: &GlobArguments) -> GlobToolArgs {
    GlobToolArgs {
        target_directory: glob.target_directory.clone(),
        glob_pattern: glob.pattern.clone(),
    }
}

/// The card of waiting for a command.
pub(in super::super) fn await_card(asked: &AwaitShellArguments) -> Tool {
    Tool::AwaitToolCall(AwaitToolCall {
        args: Some(await_card_args(asked)),
        result: None,
    })
}

/// What an AwaitShell card shows.
pub(in super::super) fn await_card_args(asked: &AwaitShellArguments) -> AwaitArgs {
    AwaitArgs {
        task_id: asked.shell_id.to_string(),
        block_until_ms: Some(asked.block_until_ms),
        regex: asked.pattern.as_ref().map(|pattern| pattern.as_str().to_owned()),
    }
}

/// What a ReadLints card shows.
pub(in super::super) fn lints_card_args(asked: &ReadLintsArguments) -> ReadLintsToolArgs {
    ReadLintsToolArgs {
        paths: asked.paths.clone(),
    }
}

/// A card whose call failed before any result of its own kind came: refused arguments, or a client that threw.
pub(in super::super) fn failed(mut card: Tool, message: &str) -> Tool {
    let error = message.to_owned();
    match &mut card {
        Tool::ShellToolCall(shell) => {
            let (command, working_directory) = shell
                .args
                .as_ref()
                .map(|args| (args.command.clone(), args.working_directory.clone()))
                .unwrap_or_default();
            shell.result = Some(ShellResult {
                result: Some(shell_result::Result::SpawnError(ShellSpawnError {
                    command,
                    working_directory,
                    error,
                })),
                ..ShellResult::default()
            });
        }
        Tool::ReadToolCall(read) => {
            read.result = Some(ReadToolResult {
                result: Some(read_tool_result::Result::Error(ReadToolError {
                    error_message: error,
                })),
            });
        }
        Tool::EditToolCall(edit) => {
            edit.result = Some(EditResult {
                result: Some(edit_result::Result::Error(EditError {
                    path: edit
                        .args
                        .as_ref()
                        .map(|args| args.path.clone())
                        .unwrap_or_default(),
                    error,
                    model_visible_error: Some(message.to_owned()),
                })),
            });
        }
        Tool::DeleteToolCall(delete) => {
            delete.result = Some(DeleteResult {
                result: Some(delete_result::Result::Error(DeleteError {
                    path: delete
                        .args
                        .as_ref()
                        .map(|args| args.path.clone())
                        .unwrap_or_default(),
                    error,
                })),
            });
        }
        Tool::GrepToolCall(grep) => {
            grep.result = Some(GrepResult {
                result: Some(grep_result::Result::Error(GrepError { error })),
            });
        }
        Tool::GlobToolCall(glob) => {
            glob.result = Some(GlobToolResult {
                result: Some(glob_tool_result::Result::Error(GlobToolError { error })),
            });
        }
        Tool::UpdateTodosToolCall(todos) => {
            todos.result = Some(UpdateTodosResult {
                result: Some(update_todos_result::Result::Error(UpdateTodosError { error })),
            });
        }
        Tool::AwaitToolCall(waiting) => {
            waiting.result = Some(AwaitResult {
                result: Some(await_result::Result::Error(AwaitError { error })),
            });
        }
        Tool::ReadLintsToolCall(lints) => {
            lints.result = Some(ReadLintsToolResult {
                result: Some(read_lints_tool_result::Result::Error(ReadLintsToolError {
                    error_message: error,
                })),
            });
        }
        Tool::McpToolCall(mcp) => {
            mcp.result = Some(McpToolResult {
                result: Some(mcp_tool_result::Result::Error(McpToolError {
                    error,
                    ..McpToolError::default()
                })),
            });
        }
        Tool::GetMcpToolsToolCall(tools) => {
            tools.result = Some(GetMcpToolsAgentResult {
                result: Some(get_mcp_tools_agent_result::Result::Error(GetMcpToolsError {
                    error,
                })),
            });
        }
        Tool::ReadMcpResourceToolCall(resource) => {
            let uri = resource.args.as_ref().map(|args| args.uri.clone());
            resource.result = Some(ReadMcpResourceExecResult {
                result: Some(read_mcp_resource_exec_result::Result::Error(
                    ReadMcpResourceError {
                        uri: uri.unwrap_or_default(),
                        error,
                    },
                )),
            });
        }
        Tool::TaskToolCall(task) => {
            task.result = Some(TaskResult {
                result: Some(task_result::Result::Error(TaskError { error })),
            });
        }
        Tool::CommunicateUpdateToolCall(update) => *update = progress::failed(update.clone(), error),
        Tool::AskQuestionToolCall(_)
        | Tool::CreatePlanToolCall(_)
        | Tool::SwitchModeToolCall(_)
        | Tool::WebSearchToolCall(_)
        | Tool::WebFetchToolCall(_)
        | Tool::GenerateImageToolCall(_) => return failed_card(card, message),
    }
    card
}
