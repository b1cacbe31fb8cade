//! Messages of a conversation as they are stored: immutable, each with one identity.
//!
//! Must never know: how a message looks on any wire or in the database.

use std::sync::Arc;

use super::{MessageId, ToolCall, ToolResult, ToolRoundId};

/// One immutable message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Unique in the conversation; the same id always means the same body.
    pub id: MessageId,
    /// What the message says.
    pub body: MessageBody,
}

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageBody {
    /// Spoken to the model in the user role: by the person, or by the system about something that happened.
    User {
        /// Who made it.
        origin: UserOrigin,
        /// Text and images in their order.
        parts: Vec<Part>,
    },
    /// A whole assistant answer without tool calls.
    Assistant(Assistant),
    /// One call of a tool round. The first stored call of a round also carries what the assistant said with it.
    ToolCall {
        /// The round that the call belongs to.
        round: ToolRoundId,
        /// Zero-based place of the call in the assistant's batch.
        index: usize,
        /// The call.
        call: ToolCall,
        /// Number of calls in the batch.
        batch_size: usize,
        /// The assistant's text, reasoning and replay state; on the first stored call of the round only.
        said: Option<Assistant>,
    },
    /// The result of the call stored right before it.
    ToolResult {
        /// The round that the call belongs to.
        round: ToolRoundId,
        /// The result.
        result: ToolResult,
    },
}

/// Who made a message in the user role. The model sees all of them alike; deduplication and compaction do not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserOrigin {
    /// What the person asked in this turn, with what belongs to the turn (open files, selection, time).
    Turn {
        /// The event's stable id as the client adapter keeps it.
        event_id: Arc<str>,
    },
    /// What holds for the conversation (rules, skills, environment): appended only when it changed.
    RequestContext {
        /// The event's stable id as the client adapter keeps it.
        event_id: Arc<str>,
    },
    /// A summary that stands for everything that was before it: the history was compacted.
    Summary {
        /// The event's stable id as the client adapter keeps it.
        event_id: Arc<str>,
    },
    /// Asks for that summary, at the end of one model request; never part of a history.
    SummaryRequest,
    /// Taken over from a client's history that names no origin.
    Imported,
}

/// A piece of a user message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Text.
    Text(Arc<str>),
    /// A picture.
    Image(Image),
}

/// A picture with its real type and bytes; never a path or a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// MIME type, such as `image/png`.
    pub mime_type: Arc<str>,
    /// The encoded picture.
    pub data: bytes::Bytes,
}

/// What stands where a picture was, for a model that cannot see it. Fixed: it is part of histories and requests.
pub const PICTURE_UNSEEN: &str = "[A picture stands here. You cannot see pictures.]";

/// What an assistant said in one completed model call, apart from its tool calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assistant {
    /// Visible answer text; may be empty.
    pub text: Arc<str>,
    /// Thinking that may be shown to the person.
    pub reasoning: Option<Reasoning>,
    /// What the provider wants back with this message in later requests.
    pub replay: Option<ReplayState>,
}

/// Thinking that may be shown to the person. Never sent to a provider in place of its replay state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reasoning {
    /// The text as it was streamed; may be empty.
    pub text: Arc<str>,
    /// A signature that came with a client's history and that only its maker understands; passed on unread.
    pub foreign_signature: Option<Arc<str>>,
}

/// A provider's own record of its thinking, sent back unchanged and only to the one that made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayState {
    /// Who made it: API, endpoint, upstream model and key fingerprint, as the provider adapter names itself.
    pub issuer: Arc<str>,
    /// The record; only the issuing adapter reads it.
    pub payload: Arc<str>,
}
