//! Plain values of an agent run: identities, messages, history, prompts, model requests, usage and outcomes.
//!
//! Owns the one provider-independent and client-independent shape of a conversation.
//! Must never know: I/O, async, serialisation (serde, prost), SQL, any client's wire or any provider's JSON.

mod compaction;
mod failure;
mod frame;
mod history;
mod id;
mod inference;
mod message;
mod prefix;
mod run;
mod size;
mod spec;
mod subagent;
mod tool;
mod usage;

pub use compaction::{CompactionSpec, CompactionTrigger};
pub use failure::{FailureKind, ProviderFailure, ProviderFault, RunFailure};
pub use frame::{Frame, keep_inside};
pub use history::{HistoryError, HistoryItem, project};
pub use id::{CallId, ConversationId, MessageId, ParentCall, RevisionId, RunId, StateDigest, ToolRoundId};
pub use inference::{ModelRequest, PromptSpec, ToolDefinition};
pub use message::{
    Assistant, Image, Message, MessageBody, PICTURE_UNSEEN, Part, Reasoning, ReplayState, UserOrigin,
};
pub use prefix::{
    ItemDigest, ItemHash, ItemKind, PrefixReset, PromptChange, Repeats, RequestDigest, first_break,
    first_head_break, first_message_break, first_settled_break, shared_items,
};
pub use run::{PendingAssistant, PreparedRun, PromptBasis, RunAction, RunKind, RunOutcome};
pub use size::{
    BYTES_PER_TOKEN, ConversationSize, MeasuredHistory, TOKENS_PER_PICTURE, estimate_answer, estimate_bytes,
    estimate_history, estimate_prompt, estimate_text,
};
pub use spec::{EntryLimits, Latency, ModelSpec, ReasoningEffort, ReasoningSpec};
pub use subagent::{
    Delegation, DelegationOrigin, NoSubagentModel, SubagentKind, SubagentModel, SubagentModels,
};
pub use tool::{ToolCall, ToolContent, ToolResult, ToolRound};
pub use usage::Usage;
