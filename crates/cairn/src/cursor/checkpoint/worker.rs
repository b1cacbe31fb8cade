//! The one task that builds, secures and publishes checkpoints, in order.
//!
//! A checkpoint goes out only after the client has acknowledged every blob that it names and the store knows which
//! revision it stands for. Must never know: how the run decides.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::derived::DerivedState;
use super::frontier::Frontier;
use crate::client::Barrier;
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::projection::{PendingContext, encode_pending};
use crate::cursor::proto::agent::{AgentServerMessage, ConversationStep, agent_server_message};
use crate::cursor::run_sse::RunWriter;
use crate::model::{
    Assistant, ConversationId, HistoryItem, MeasuredHistory, RevisionId, RunFailure, ToolCall,
};
use crate::store::Store;

/// An assistant message to stage: whole, frozen, not yet part of the roots.
#[derive(Clone, Debug)]
pub struct StagedAssistant {
    /// Text, reasoning and replay state.
    pub said: Assistant,
    /// Its calls in the model's order.
    pub calls: Vec<ToolCall>,
    /// Names the message: the round's id where it has calls, the model call's id where it has none.
    pub provider_message_id: String,
    /// Frozen creation time in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
}

/// One step of the client's state. Each value in it is consumed once.
#[derive(Debug)]
pub enum CheckpointJob {
    /// Publish what the run starts from.
    Initial {
        /// What the model's view grew by.
        appended: Vec<Arc<HistoryItem>>,
        /// The revision that the state stands for.
        revision: RevisionId,
        /// Released once the checkpoint is out.
        barrier: Barrier,
    },
    /// Publish an assistant message with calls as pending.
    Staged {
        /// The message.
        assistant: StagedAssistant,
        /// Thinking and text steps of the model call.
        steps: Vec<ConversationStep>,
        /// How full the context is, if the history was measured.
        measured: Option<MeasuredHistory>,
    },
    /// Fold a whole round, or messages about events, into the stable state.
    Settled {
        /// What the model's view grew by.
        appended: Vec<Arc<HistoryItem>>,
        /// The revision that the state stands for.
        revision: RevisionId,
        /// Steps that are not yet in the turn.
        steps: Vec<ConversationStep>,
        /// What follows from its calls.
        derived: DerivedState,
        /// Released once the checkpoint is out.
        barrier: Barrier,
    },
    /// Publish a history that begins anew.
    Compacted {
        /// All that the model sees of it.
        history: Vec<Arc<HistoryItem>>,
        /// The summary in it, in the model's own words.
        summary: Arc<str>,
        /// The revision that the state stands for.
        revision: RevisionId,
        /// Released once the checkpoint is out.
        barrier: Barrier,
    },
    /// Secure both stages of the final answer; the session publishes them after the turn has ended.
    Final {
        /// What the model's view grew by.
        appended: Vec<Arc<HistoryItem>>,
        /// The final answer, if there is one to stage.
        assistant: Option<StagedAssistant>,
        /// The revision that the state stands for.
        revision: RevisionId,
        /// Thinking and text steps of the model call.
        steps: Vec<ConversationStep>,
        /// How full the context is, if the history was measured.
        measured: Option<MeasuredHistory>,
        /// Gets both stages before the barrier is released.
        reply: oneshot::Sender<FinalCheckpoints>,
        /// Released once the client holds every blob that the stages name.
        barrier: Barrier,
    },
}

impl CheckpointJob {
    fn into_barrier(self) -> Option<Barrier> {
        match self {
            Self::Initial { barrier, .. }
            | Self::Settled { barrier, .. }
            | Self::Compacted { barrier, .. }
            | Self::Final { barrier, .. } => Some(barrier),
            Self::Staged { .. } => None,
        }
    }
}

/// Both stages of the final answer, ready to go out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinalCheckpoints {
    /// Roots unchanged, the answer pending. Absent where there is no answer to stage.
    pub staged: Option<Bytes>,
    /// The answer folded in.
    pub settled: Bytes,
}

/// Builds, secures and publishes checkpoints.
#[derive(Debug)]
pub struct CheckpointWorker {
    /// Where the client's state stands.
    pub frontier: Frontier,
    /// The client's blobs.
    pub blobs: BlobSync,
    /// The stream.
    pub writer: RunWriter,
    /// Remembers which revision a state stands for.
    pub store: Arc<Store>,
    /// The conversation.
    pub conversation: ConversationId,
    /// How many tokens the model's context holds; 0 where that is unknown.
    pub context_window: u32,
    /// The names of all tools in the prompt.
    pub tool_names: Vec<Arc<str>>,
    /// Those of them that MCP servers brought.
    pub dynamic_tools: HashSet<Arc<str>>,
}

impl CheckpointWorker {
    /// Works until the session drops its end of the queue, or until a state cannot be secured.
    ///
    /// # Errors
    /// Why a state could not be secured. The run waits at that state's barrier, which has failed with the same cause.
    pub async fn work(mut self, mut jobs: mpsc::UnboundedReceiver<CheckpointJob>) -> Result<(), RunFailure> {
        let done = self.serve(&mut jobs).await;
        if let Err(failure) = &done {
            // A state that waits behind the one that failed would else end the run first, without the cause.
            jobs.close();
            while let Some(job) = jobs.recv().await {
                if let Some(barrier) = job.into_barrier() {
                    barrier.fail(failure.clone());
                }
            }
        }
        done
    }

    async fn serve(&mut self, jobs: &mut mpsc::UnboundedReceiver<CheckpointJob>) -> Result<(), RunFailure> {
        while let Some(job) = jobs.recv().await {
            // What a run starts from shows no work of it yet.
            if !matches!(job, CheckpointJob::Initial { .. }) {
                self.frontier.measure();
            }
            match job {
                CheckpointJob::Initial {
                    appended,
                    revision,
                    barrier,
                } => {
                    let done = async {
                        self.frontier.append_history(&appended).map_err(defect)?;
                        self.settle(&revision).await
                    };
                    conclude(done.await, Some(barrier))?;
                }
                CheckpointJob::Staged {
                    assistant,
                    steps,
                    measured,
                } => {
                    let done = async {
                        self.frontier.append_steps(steps);
                        self.note_size(measured);
                        let pending = self.pending(&assistant)?;
                        self.secure().await?;
                        self.publish(self.frontier.checkpoint(Some(&pending)), true).await
                    };
                    conclude(done.await, None)?;
                }
                CheckpointJob::Settled {
                    appended,
                    revision,
                    steps,
                    derived,
                    barrier,
                } => {
                    let done = async {
                        self.frontier.append_steps(steps);
                        self.frontier.derive(derived);
                        self.frontier.append_history(&appended).map_err(defect)?;
                        self.settle(&revision).await
                    };
                    conclude(done.await, Some(barrier))?;
                }
                CheckpointJob::Compacted {
                    history,
                    summary,
                    revision,
                    barrier,
                } => {
                    let done = async {
                        self.frontier.begin_anew(&history, &summary).map_err(defect)?;
                        self.settle(&revision).await
                    };
                    conclude(done.await, Some(barrier))?;
                }
                CheckpointJob::Final {
                    appended,
                    assistant,
                    revision,
                    steps,
                    measured,
                    reply,
                    barrier,
                } => {
                    let done = async {
                        // Consumed once: both stages share the turn that results.
                        self.frontier.append_steps(steps);
                        self.note_size(measured);
                        let staged = match &assistant {
                            Some(assistant) => {
                                Some(self.frontier.checkpoint(Some(&self.pending(assistant)?)))
                            }
                            None => None,
                        };
                        self.frontier.append_history(&appended).map_err(defect)?;
                        self.secure().await?;
                        self.record(&revision).await?;
                        let settled = self.frontier.checkpoint(None);
                        // A session that no longer listens has ended, and its run with it.
                        let _ = reply.send(FinalCheckpoints { staged, settled });
                        Ok(())
                    };
                    conclude(done.await, Some(barrier))?;
                }
            }
        }
        Ok(())
    }

    async fn settle(&mut self, revision: &RevisionId) -> Result<(), RunFailure> {
        self.secure().await?;
        self.record(revision).await?;
        self.publish(self.frontier.checkpoint(None), false).await
    }

    async fn secure(&mut self) -> Result<(), RunFailure> {
        let blobs = self.frontier.take_unsent();
        Ok(self.blobs.store(&blobs).await?)
    }

    async fn record(&self, revision: &RevisionId) -> Result<(), RunFailure> {
        Ok(self
            .store
            .record_state(&self.conversation, self.frontier.digest(), revision)
            .await?)
    }

    async fn publish(&self, checkpoint: Bytes, pending: bool) -> Result<(), RunFailure> {
        self.writer
            .send(&checkpoint_message(checkpoint))
            .await
            .map_err(|error| RunFailure::Client(error.to_string()))?;
        tracing::debug!(pending, "checkpoint published");
        Ok(())
    }

    fn note_size(&mut self, measured: Option<MeasuredHistory>) {
        if let Some(measured) = measured {
            self.frontier.set_size(measured, self.context_window);
        }
    }

    fn pending(&self, assistant: &StagedAssistant) -> Result<String, RunFailure> {
        let context = PendingContext {
            provider_message_id: &assistant.provider_message_id,
            started_at_ms: assistant.started_at_ms,
            allowed_tools: &self.tool_names,
            dynamic_tools: &self.dynamic_tools,
        };
        encode_pending(&assistant.said, &assistant.calls, &context).map_err(defect)
    }
}

/// The message that carries a checkpoint.
pub fn checkpoint_message(checkpoint: Bytes) -> AgentServerMessage {
    AgentServerMessage {
        message: Some(agent_server_message::Message::ConversationCheckpointUpdate(
            checkpoint,
        )),
    }
}

fn conclude(done: Result<(), RunFailure>, barrier: Option<Barrier>) -> Result<(), RunFailure> {
    match (&done, barrier) {
        (Ok(()), Some(barrier)) => barrier.release(),
        (Err(failure), Some(barrier)) => barrier.fail(failure.clone()),
        (_, None) => {}
    }
    done
}

fn defect(error: impl std::fmt::Display) -> RunFailure {
    RunFailure::Store(format!("a checkpoint could not be built: {error}"))
}
