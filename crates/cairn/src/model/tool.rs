//! Tool calls, their results and the batch that joins them.
//!
//! Must never know: any tool's name or how a tool is executed.

use std::sync::Arc;

use super::{Assistant, CallId, RevisionId, RunId, ToolRoundId};

/// A complete call that the model made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    /// Unique in the history.
    pub id: CallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The arguments as the model wrote them, byte for byte; `{}` where it wrote none. Always valid JSON.
    pub arguments: Arc<str>,
}

/// What came of a call, as the model reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolResult {
    /// The call that it answers.
    pub call: CallId,
    /// The text for the model.
    pub content: Arc<str>,
    /// Whether the tool failed. The text says so too; APIs with a field for it get this.
    pub is_error: bool,
}

/// The batch of calls that one assistant message asked for, frozen when the model had finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolRound {
    /// The round.
    pub id: ToolRoundId,
    /// The run whose model call asked for it.
    pub run: RunId,
    /// The revision that the assistant message follows.
    pub parent: RevisionId,
    /// What the assistant said with the calls.
    pub said: Assistant,
    /// The calls in the model's order.
    pub calls: Vec<ToolCall>,
    /// When the round was created, in milliseconds since the Unix epoch. Frozen; never enters model input.
    pub started_at_ms: u64,
}
