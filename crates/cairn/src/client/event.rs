//! What a run says to its client, in order, ending with exactly one [`ClientEvent::Ended`].
//!
//! Must never know: how a client shows any of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::model::{
    CallId, HistoryItem, MeasuredHistory, RevisionId, RunFailure, RunOutcome, ToolResult, ToolRound, Usage,
};

/// What a run says to its client.
#[derive(Debug)]
pub enum ClientEvent {
    /// A call of the provider begins. The index is zero-based in the run.
    ModelCallStarted {
        /// Zero-based number of the call in its run.
        provider_call_index: u32,
    },
    /// A call of the provider begins that asks for a summary of the conversation. Nothing of its answer is shown but
    /// its token counts: it ends with `CompactionFailed` or with a state of the cause `Compacted`.
    CompactionStarted {
        /// Zero-based number of the call in its run.
        provider_call_index: u32,
    },
    /// The history stays as it was; why, for the person.
    CompactionFailed(Arc<str>),
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
    ThinkingEnd {
        /// Measured between its start and its end.
        duration: Duration,
    },
    /// The model began a call. Nothing may be executed for it yet.
    ToolCallStart {
        /// The call's id in the history.
        call: CallId,
        /// The tool's name as the model wrote it.
        name: Arc<str>,
    },
    /// A piece of the call's argument text.
    ToolCallArguments {
        /// The call.
        call: CallId,
        /// The piece.
        delta: Arc<str>,
    },
    /// What the provider reported for the model call that just completed.
    Usage(Usage),
    /// How large the history is, now that the model has answered it.
    Measured(MeasuredHistory),
    /// Something that the person should read and the model never sees.
    Notice(Arc<str>),
    /// The model finished with these calls and they are durable: execute them.
    ExecuteToolRound(Arc<ToolRound>),
    /// A state of the conversation is durable.
    StateCommitted {
        /// The head revision.
        revision: RevisionId,
        /// What happened.
        cause: StateCause,
        /// What the model's view of the conversation grew by since the last state that carried a barrier.
        /// Empty while a tool round is open: an open round is not part of that view. For `Compacted` it is the whole
        /// view, which replaces what was before.
        appended: Vec<Arc<HistoryItem>>,
        /// Present where the run waits until the client holds this very state.
        barrier: Option<Barrier>,
    },
    /// The run is over; nothing follows.
    Ended(RunOutcome),
}

/// What made a state durable.
#[derive(Clone, Debug)]
pub enum StateCause {
    /// The run's own messages were appended; it has not called the model yet. Carries a barrier.
    Initial,
    /// The model asked for tools; the round is durable and none of its calls has a result.
    ToolRoundStarted(Arc<ToolRound>),
    /// One call of the round has its result.
    ToolResult(ToolResult),
    /// All calls of the round have their results. Carries a barrier.
    ToolRoundSettled(Arc<ToolRound>),
    /// Messages about events were appended between two model calls. Carries a barrier.
    RuntimeEvents,
    /// The history was compacted: it begins anew with a summary, or with an account of what was shortened. Carries a
    /// barrier.
    Compacted {
        /// The summary in the model's own words, or the account.
        summary: Arc<str>,
    },
    /// The model's final answer was appended. Carries a barrier.
    Final,
}

/// The client's side of a barrier: joined to the very event that carries it, used once.
///
/// Dropping it unused fails the run: a state that nobody confirmed is not confirmed.
#[derive(Debug)]
pub struct Barrier(oneshot::Sender<Result<(), RunFailure>>);

/// The run's side of a barrier.
#[derive(Debug)]
pub struct BarrierWait(oneshot::Receiver<Result<(), RunFailure>>);

/// Makes the two sides of a barrier.
pub fn barrier() -> (Barrier, BarrierWait) {
    let (sender, receiver) = oneshot::channel();
    (Barrier(sender), BarrierWait(receiver))
}

impl Barrier {
    /// The client holds the state.
    pub fn release(self) {
        // A run that has ended meanwhile no longer waits; there is nobody to tell.
        let _ = self.0.send(Ok(()));
    }

    /// The client could not take the state; the run fails with this failure.
    pub fn fail(self, failure: RunFailure) {
        let _ = self.0.send(Err(failure));
    }
}

impl BarrierWait {
    /// Waits until the client holds the state.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn released(self) -> Result<(), RunFailure> {
        self.0.await.unwrap_or_else(|_| {
            Err(RunFailure::Client(
                "the client dropped a state that it had to confirm".to_owned(),
            ))
        })
    }
}
