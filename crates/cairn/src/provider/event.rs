//! The one sequence of events that every provider adapter produces for a model call.
//!
//! Must never know: any endpoint's JSON.

use std::sync::Arc;

use crate::model::{ReplayState, RequestDigest, Usage};

/// One event of a model call.
///
/// A correct sequence begins with `Sending` unless nothing can be sent, opens and closes each block, ends with exactly one `Done`, and holds at most one `Usage`
/// and one `ReplayState`, both before `Done`. Blocks of text and thinking never overlap, and either kind may come
/// several times; tool calls may interleave. `Usage` may also come before a failure. The adapter emits `Done` only
/// for the endpoint's own terminal event.
#[derive(Clone, PartialEq, Debug)]
pub enum ModelEvent {
    /// A request is about to be sent: it goes out only when the next event is asked for. Comes once more, before
    /// `Start`, where the adapter sends another body because the endpoint refused a part of the first.
    Sending(Arc<RequestDigest>),
    /// The endpoint accepted the request and began to answer.
    Start,
    /// Answer text follows.
    TextStart,
    /// A piece of answer text.
    TextDelta(Arc<str>),
    /// The answer text is whole.
    TextEnd,
    /// Thinking follows.
    ThinkingStart,
    /// A piece of thinking.
    ThinkingDelta(Arc<str>),
    /// The thinking is whole.
    ThinkingEnd,
    /// A tool call begins: its name is known.
    ToolCallStart {
        /// Zero-based place in the answer; calls start in this order.
        index: usize,
        /// The endpoint's id for the call; absent where it gave none.
        id: Option<Arc<str>>,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A piece of a call's argument text.
    ToolCallArguments {
        /// The call's place.
        index: usize,
        /// The piece.
        delta: Arc<str>,
    },
    /// The call's arguments are whole by the endpoint's own word.
    ToolCallEnd {
        /// The call's place.
        index: usize,
    },
    /// What the endpoint wants back with this answer later; one whole record for the call.
    ReplayState(ReplayState),
    /// The call's final token counts.
    Usage(Usage),
    /// The endpoint's own terminal event; nothing follows.
    Done(StopReason),
}

/// Why the model stopped, by the endpoint's own word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// The answer is whole and asks for no tool.
    Stop,
    /// The answer is whole and asks for tools.
    ToolUse,
}
