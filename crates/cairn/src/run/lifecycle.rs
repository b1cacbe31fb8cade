//! The states of a run and why it stops.
//!
//! ```text
//! Preparing ─▶ RunningModel ─▶ WaitingForTools ◀─▶ CommittingTool
//!     │             │  ▲               │
//!     │             ▼  └───────────────┘
//!     └───────▶ Completing ─▶ Ended
//! ```
//!
//! Every state may go to Ended by cancellation or failure. Must never know: how a client is told.

use super::proof::RecordError;
use crate::model::{ProviderFailure, RevisionId, RunFailure};
use crate::store::StoreError;

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunState {
    Preparing,
    /// Before a model call, or after one that was refused as too long.
    Compacting,
    RunningModel,
    WaitingForTools,
    CommittingTool,
    Completing,
    Ended,
}

/// Why the loop stops before its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// The person or a newer run stopped it.
    Cancelled,
    /// It cannot go on.
    Failed(RunFailure),
}

impl From<RunFailure> for Halt {
    fn from(failure: RunFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ProviderFailure> for Halt {
    fn from(failure: ProviderFailure) -> Self {
        Self::Failed(failure.into())
    }
}

impl From<StoreError> for Halt {
    /// A commit that is refused because a newer run owns the conversation is the end of this run, not a fault.
    fn from(error: StoreError) -> Self {
        if error.is_superseded() {
            Self::Cancelled
        } else {
            Self::Failed(error.into())
        }
    }
}

impl From<RecordError> for Halt {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Store(error) => error.into(),
            RecordError::Broken(failure) => failure.into(),
        }
    }
}

/// Keeps the current state and writes every step into the run's span.
#[derive(Debug)]
pub(super) struct Lifecycle {
    state: RunState,
}

impl Lifecycle {
    pub(super) fn new() -> Self {
        Self {
            state: RunState::Preparing,
        }
    }

    pub(super) fn enter(&mut self, to: RunState, provider_call_index: u32, revision: &RevisionId) {
        let from = std::mem::replace(&mut self.state, to);
        tracing::debug!(?from, ?to, provider_call_index, revision = %revision, "run state");
    }
}
