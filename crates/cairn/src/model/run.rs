//! What a client adapter hands to the run core, and how a run ends.
//!
//! Must never know: any client's wire, modes or tool names.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    Assistant, CompactionSpec, ConversationId, Message, ModelSpec, ParentCall, PromptChange, PromptSpec,
    RevisionId, RunFailure, RunId, SubagentKind, SubagentModels, ToolCall, ToolRoundId,
};

/// Everything that a run needs, decided before it starts and fixed until it ends.
#[derive(Clone, Debug)]
pub struct PreparedRun {
    /// This attempt.
    pub id: RunId,
    /// The conversation that it continues.
    pub conversation: ConversationId,
    /// The conversation in which the person speaks: this one, or the one whose runs started this subagent's.
    pub root: ConversationId,
    /// Whether it is a run of its own or a subagent's.
    pub kind: RunKind,
    /// The model, fixed for the run.
    pub model: Arc<ModelSpec>,
    /// Which models its own subagents may get.
    pub subagents: Arc<SubagentModels>,
    /// Instructions and tools, fixed for the run.
    pub prompt: Arc<PromptSpec>,
    /// Events of the user role that a compaction keeps word for word: what the agent is told of itself, for as long as the
    /// conversation lasts.
    pub standing: Vec<Arc<str>>,
    /// When and how the history is compacted; absent where the client has no use for it.
    pub compaction: Option<CompactionSpec>,
    /// What the prompt was made of.
    pub basis: PromptBasis,
    /// The revision that the client's history stands for.
    pub base: RevisionId,
    /// What to do on top of it.
    pub action: RunAction,
    /// An event began it: none of its messages are the person's words.
    pub woken: bool,
}

/// What a client adapter keeps of how a run's prompt was made, so that the conversation's next run can be told what changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PromptBasis {
    /// The adapter's own note; nobody else reads it. Empty if it keeps none.
    pub note: Bytes,
    /// Why the prompt is not that of the conversation's run before; absent if it is the same, or if there was none.
    pub change: Option<PromptChange>,
}

/// A run of its own, or one that another run's tool call started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunKind {
    /// Started by a person.
    Main,
    /// Started by a tool call of another run.
    Subagent {
        /// The kind of subagent, as the client named it.
        kind: SubagentKind,
        /// The call that started it, where the client named it.
        parent: Option<ParentCall>,
    },
}

/// What a run does on top of its base revision.
#[derive(Clone, Debug)]
pub enum RunAction {
    /// Append these messages, each exactly once, and go on.
    Start {
        /// An assistant message that the client's state holds as not yet settled. An answer is appended as it is;
        /// the calls of a round are answered as interrupted. Either stands before the messages.
        interrupted: Option<PendingAssistant>,
        /// The new messages in order.
        messages: Vec<Message>,
    },
    /// Go on from the base revision without a new message.
    Resume {
        /// An assistant message that the client's state holds as not yet settled. The tools of a round run before
        /// the model is called again; an answer is appended and ends the run.
        pending: Option<PendingAssistant>,
    },
    /// Compact the base history and end.
    Compact {
        /// As in `Start`: it is part of what is summarised.
        interrupted: Option<PendingAssistant>,
    },
}

/// A whole assistant message that a client's state holds as not yet settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingAssistant {
    /// The round as this server named it when it was staged, if the state says so: results that were stored for it
    /// can be found by it.
    pub round: Option<ToolRoundId>,
    /// What the assistant said with the calls.
    pub said: Assistant,
    /// The calls in the model's order; empty for an answer.
    pub calls: Vec<ToolCall>,
    /// When it was first staged, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
}

/// How a run ended. Each run has exactly one.
#[derive(Clone, PartialEq, Debug)]
pub enum RunOutcome {
    /// The model finished and the client holds the final state.
    Completed,
    /// The person or a newer run stopped it. Not a failure.
    Cancelled,
    /// It could not go on.
    Failed(RunFailure),
}
