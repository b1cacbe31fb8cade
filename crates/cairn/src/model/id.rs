//! Identities that enter the history or the store.
//!
//! Every id is made from the id of its source (a request, a blob and its place, a round and its index),
//! never from a clock or a random number: the same facts always get the same id, so a repeat is recognised.
//! Must never know: what the ids of any client look like.

use std::fmt;
use std::sync::Arc;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text of an id.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

text_id!(
    /// One execution attempt. Made by the client adapter from its own attempt id.
    RunId
);
text_id!(
    /// One conversation; lasts over runs and owns their history.
    ConversationId
);
text_id!(
    /// One message; unique in its conversation. The same id always means the same content.
    MessageId
);
text_id!(
    /// One state of a conversation's history: a parent revision plus the messages appended to it.
    RevisionId
);
text_id!(
    /// One batch of tool calls that a single assistant message asked for.
    ToolRoundId
);
text_id!(
    /// A tool call's id as the model, the client and the provider see it.
    ///
    /// Opaque, may hold any characters (line breaks included), unique in the history that the model sees.
    CallId
);

impl ToolRoundId {
    /// The round that the run's provider call with this zero-based index asked for.
    pub fn of_call(run: &RunId, provider_call_index: u32) -> Self {
        Self::new(format!("{run}/round/{provider_call_index}"))
    }

    /// The round that the run took over from its client's state before its first provider call.
    pub fn restored(run: &RunId) -> Self {
        Self::new(format!("{run}/round/restored"))
    }
}

impl MessageId {
    /// The answer that the run took over from its client's state before its first provider call.
    pub fn restored(run: &RunId) -> Self {
        Self::new(format!("{run}/assistant/restored"))
    }

    /// The assistant message that the run's provider call with this zero-based index produced.
    pub fn assistant(run: &RunId, provider_call_index: u32) -> Self {
        Self::new(format!("{run}/assistant/{provider_call_index}"))
    }

    /// The instruction that the run's provider call with this zero-based index answers with a summary.
    pub fn summary_request(run: &RunId, provider_call_index: u32) -> Self {
        Self::new(format!("{run}/summary-request/{provider_call_index}"))
    }

    /// The summary that the run's provider call with this zero-based index produced.
    pub fn summary(run: &RunId, provider_call_index: u32) -> Self {
        Self::new(format!("{run}/summary/{provider_call_index}"))
    }

    /// A message of which no more than this many characters were left, in the place of the whole one.
    pub fn shortened(whole: &Self, characters: usize) -> Self {
        Self::new(format!("{whole}/shortened/{characters}"))
    }

    /// The message that holds the call at `index` of a round.
    pub fn tool_call(round: &ToolRoundId, index: usize) -> Self {
        Self::new(format!("{round}/{index}/call"))
    }

    /// The message that holds the result of the call at `index` of a round.
    pub fn tool_result(round: &ToolRoundId, index: usize) -> Self {
        Self::new(format!("{round}/{index}/result"))
    }
}

/// A client adapter's own fingerprint of a state that it published for a revision.
///
/// Opaque to everyone else: the store only finds the revision that was recorded for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StateDigest(pub [u8; 32]);

/// The tool call of another run that started this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParentCall {
    /// The run that made the call.
    pub run: RunId,
    /// The call itself.
    pub call: CallId,
}
