//! What is sent to a provider: the frozen prompt, the model and the history.
//!
//! Must never know: ids or times of a single call (they live in the provider port's invocation, so that two
//! requests can be compared), or any provider's JSON.

use std::sync::Arc;

use super::{ConversationId, HistoryItem, MessageId, ModelSpec, UserOrigin};

/// Instructions and tools; compiled once for a run and then frozen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromptSpec {
    /// The system prompt.
    pub instructions: Arc<str>,
    /// The tools in their fixed order: static ones first, dynamic ones after them.
    pub tools: Vec<ToolDefinition>,
}

/// A tool as the model is told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolDefinition {
    /// Its name; unique in the prompt.
    pub name: Arc<str>,
    /// What it does and when to use it.
    pub description: Arc<str>,
    /// JSON Schema of its arguments, as text that goes out byte for byte.
    pub parameters: Arc<str>,
}

/// A replayable model input. Equal requests have equal bytes at every endpoint.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Instructions and tools.
    pub prompt: Arc<PromptSpec>,
    /// The model and what is asked of it.
    pub model: Arc<ModelSpec>,
    /// What the model sees of the conversation.
    pub history: Vec<Arc<HistoryItem>>,
    /// The conversation, from which an adapter may derive an opaque and stable cache key.
    pub conversation: ConversationId,
}

impl ModelRequest {
    /// Whether it asks for a summary of the conversation. Such a request extends its predecessor like any other, but
    /// stands beside the conversation: the next request does not extend it.
    pub fn asks_for_summary(&self) -> bool {
        matches!(
            self.history.last().map(AsRef::as_ref),
            Some(HistoryItem::User {
                origin: UserOrigin::SummaryRequest,
                ..
            })
        )
    }

    /// The summary that the history begins with, if it was compacted. Requests of one conversation with the same answer
    /// extend each other; another answer is a declared reset.
    pub fn compacted_to(&self) -> Option<&MessageId> {
        self.history.iter().find_map(|item| match item.as_ref() {
            HistoryItem::User {
                id,
                origin: UserOrigin::Summary { .. },
                ..
            } => Some(id),
            HistoryItem::User { .. } | HistoryItem::Assistant { .. } | HistoryItem::ToolResult(_) => None,
        })
    }
}
