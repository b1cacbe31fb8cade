//! The conversation state as the client keeps it: a small structure that names content-addressed blobs.
//!
//! Owns the frontier from which every checkpoint grows, and the two stages of each assistant message: staged (roots
//! unchanged, one pending text) and settled (roots grown, nothing pending). Must never know: how the run decides, or
//! what a provider sends.

mod compaction;
mod derived;
mod frontier;
mod state;
mod timing;
mod worker;

pub use derived::DerivedState;
pub use frontier::{CheckpointError, Frontier, TurnStart};
pub use state::{ClientState, InvalidState};
pub use worker::{CheckpointJob, CheckpointWorker, FinalCheckpoints, StagedAssistant, checkpoint_message};
