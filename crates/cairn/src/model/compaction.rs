//! How a conversation that has outgrown its model goes on from a summary of itself.
//!
//! Compaction is the one declared reset of the prefix: the history begins anew with the latest request context, a
//! summary of what was before, and the messages of the current turn. Must never know: who words the instruction, or
//! where the sizes come from.

use std::sync::Arc;

use super::{Frame, MeasuredHistory};

/// When a run compacts its history, and what is said to the model for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionSpec {
    /// Said in the user role behind the whole history to get a summary; never part of the history itself.
    pub instruction: Arc<str>,
    /// Stands around the summary in the message that takes the history's place.
    pub summary: Frame,
    /// Stands around the account of what was shortened where no summary could help.
    pub shortened: Frame,
    /// How much all that is shortened may keep together, in characters.
    pub shortened_characters: usize,
    /// Size of the history, in tokens, from which on it is compacted before the next model call. Absent: only when the
    /// endpoint refuses it as too long.
    pub threshold: Option<u64>,
    /// What was known of the base revision's history after its last model call.
    pub base: Option<MeasuredHistory>,
}

/// Why a history was compacted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompactionTrigger {
    /// Its reported size passed the threshold.
    Threshold,
    /// The endpoint refused it as too long.
    Refusal,
    /// The endpoint refused it as too long, and no summary helped: messages that are too long by themselves were
    /// shortened.
    Shortening,
    /// The person asked for it.
    Manual,
}

impl CompactionTrigger {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Threshold, Self::Refusal, Self::Shortening, Self::Manual];

    /// The trigger's name as records and logs hold it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Refusal => "refusal",
            Self::Shortening => "shortening",
            Self::Manual => "manual",
        }
    }
}
