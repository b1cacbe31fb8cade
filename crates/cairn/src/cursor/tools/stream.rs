//! A call whose arguments are still arriving: its placeholder card and what the person sees grow.
//!
//! Goes by the registry's row, never by a tool's name. Must never know: execution.

use super::codec::update;
use super::lines::LfStream;
use super::registry::{Known, ToolEntry};
use crate::cursor::json_stream::{FieldEvent, StringFieldStream};
use crate::cursor::proto::agent::{McpArgs, McpToolCall, agent_server_message::Message, tool_call::Tool};
use crate::model::CallId;

/// Which card a streaming call has.
#[derive(Debug)]
pub(super) enum Shown {
    /// A built-in tool's.
    BuiltIn(&'static ToolEntry),
    /// A dynamic MCP tool's, with everything but the arguments.
    Mcp(McpArgs),
}

/// A call whose arguments are still arriving.
#[derive(Debug)]
pub(super) struct ArgumentStream {
    shown: Shown,
    model_call_id: String,
    fields: StringFieldStream,
    /// Complete string arguments.
    known: Vec<(&'static str, String)>,
    /// The string argument that is arriving.
    open: String,
    /// Line ends of the content that the client shows as it grows.
    content: LfStream,
}

impl ArgumentStream {
    pub(super) fn new(shown: Shown, model_call_id: &str) -> Self {
        let streamed = match &shown {
            Shown::BuiltIn(entry) => entry.streamed,
            Shown::Mcp(_) => &[],
        };
        Self {
            shown,
            model_call_id: model_call_id.to_owned(),
            fields: StringFieldStream::new(streamed),
            known: Vec::new(),
            open: String::new(),
            content: LfStream::default(),
        }
    }

    pub(super) fn model_call_id(&self) -> &str {
        &self.model_call_id
    }

    /// The card as far as its arguments are known.
    pub(super) fn card(&self) -> Tool {
        match &self.shown {
            Shown::BuiltIn(entry) => (entry.placeholder)(&Known(&self.known)),
            Shown::Mcp(args) => Tool::McpToolCall(McpToolCall {
                args: Some(args.clone()),
                ..McpToolCall::default()
            }),
        }
    }

    /// The placeholder, before any argument.
    pub(super) fn begin(&self, call: &CallId) -> Message {
        update::partial(call, self.card(), "", &self.model_call_id)
    }

    /// Takes more of the argument text.
    pub(super) fn push(&mut self, call: &CallId, delta: &str) -> Vec<Message> {
        let content = match &self.shown {
            Shown::BuiltIn(entry) => entry.content,
            Shown::Mcp(_) => None,
        };
        let mut grown = String::new();
        for event in self.fields.push(delta) {
            match event {
                FieldEvent::Text { field, text } if Some(field) == content => {
                    grown.push_str(&self.content.push(&text));
                }
                FieldEvent::End { field } if Some(field) == content => {}
                FieldEvent::Text { text, .. } => self.open.push_str(&text),
                FieldEvent::End { field } => self.known.push((field, std::mem::take(&mut self.open))),
            }
        }
        let mut messages = vec![update::partial(call, self.card(), delta, &self.model_call_id)];
        if !grown.is_empty() {
            messages.push(update::delta(
                call,
                update::edit_delta(grown),
                &self.model_call_id,
            ));
        }
        messages
    }
}
