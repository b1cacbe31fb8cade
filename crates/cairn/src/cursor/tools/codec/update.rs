//! The interaction updates of a tool call. Must never know: what a tool does.

use crate::cursor::proto::agent::{
    EditToolCallDelta, InteractionUpdate, PartialToolCallUpdate, ShellToolCallDelta,
    ShellToolCallStderrDelta, ShellToolCallStdoutDelta, ToolCall, ToolCallCompletedUpdate, ToolCallDelta,
    ToolCallDeltaUpdate, ToolCallStartedUpdate, agent_server_message::Message, interaction_update,
    shell_tool_call_delta, tool_call::Tool, tool_call_delta,
};
use crate::model::CallId;

/// A card as the wire has it: with the call's id, not yet begun.
pub(in super::super) fn tool_call(call: &CallId, tool: Tool) -> ToolCall {
    ToolCall {
        tool_call_id: Some(call.to_string()),
        tool: Some(tool),
        ..ToolCall::default()
    }
}

/// The call has begun, or its argument text has grown by `args_text_delta`.
pub(in super::super) fn partial(
    call: &CallId,
    tool: Tool,
    args_text_delta: &str,
    model_call_id: &str,
) -> Message {
    update(interaction_update::Message::PartialToolCall(
        PartialToolCallUpdate {
            call_id: call.to_string(),
            tool_call: Some(tool_call(call, tool)),
            args_text_delta: args_text_delta.to_owned(),
            model_call_id: model_call_id.to_owned(),
        },
    ))
}

/// A running or streaming call has something to show.
pub(in super::super) fn delta(call: &CallId, delta: ToolCallDelta, model_call_id: &str) -> Message {
    update(interaction_update::Message::ToolCallDelta(ToolCallDeltaUpdate {
        call_id: call.to_string(),
        tool_call_delta: Some(delta),
        model_call_id: model_call_id.to_owned(),
    }))
}

/// The arguments are whole and execution begins.
pub(in super::super) fn started(call: &CallId, tool_call: ToolCall, model_call_id: &str) -> Message {
    update(interaction_update::Message::ToolCallStarted(
        ToolCallStartedUpdate {
            call_id: call.to_string(),
            tool_call: Some(tool_call),
            model_call_id: model_call_id.to_owned(),
        },
    ))
}

/// The call has its result.
pub(in super::super) fn completed(call: &CallId, tool_call: ToolCall, model_call_id: &str) -> Message {
    update(interaction_update::Message::ToolCallCompleted(
        ToolCallCompletedUpdate {
            call_id: call.to_string(),
            tool_call: Some(tool_call),
            model_call_id: model_call_id.to_owned(),
        },
    ))
}

/// More of an edit's text.
pub(in super::super) fn edit_delta(text: String) -> ToolCallDelta {
    ToolCallDelta {
        delta: Some(tool_call_delta::Delta::EditToolCallDelta(EditToolCallDelta {
            stream_content_delta: text,
        })),
    }
}

/// More of a command's output.
pub(in super::super) fn stdout_delta(content: String) -> ToolCallDelta {
    shell_delta(shell_tool_call_delta::Delta::Stdout(ShellToolCallStdoutDelta {
        content,
    }))
}

/// More of a command's error output.
pub(in super::super) fn stderr_delta(content: String) -> ToolCallDelta {
    shell_delta(shell_tool_call_delta::Delta::Stderr(ShellToolCallStderrDelta {
        content,
    }))
}

fn shell_delta(delta: shell_tool_call_delta::Delta) -> ToolCallDelta {
    ToolCallDelta {
        delta: Some(tool_call_delta::Delta::ShellToolCallDelta(ShellToolCallDelta {
            delta: Some(delta),
        })),
    }
}

fn update(message: interaction_update::Message) -> Message {
    Message::InteractionUpdate(InteractionUpdate {
        message: Some(message),
    })
}
