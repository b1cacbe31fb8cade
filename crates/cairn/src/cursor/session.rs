//! One run as the client sees it: joins the run's events with the wire.
//!
//! Owns the tool runtime, what the turn shows, and the order of what goes out. Must never know: how the run decides,
//! or how a provider is called.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::blob_sync::BlobSync;
use super::checkpoint::{CheckpointJob, FinalCheckpoints, StagedAssistant, checkpoint_message};
use super::connect::ConnectError;
use super::delegations::Delegations;
use super::inbox::{Inbound, InboxError, InboxReceiver};
use super::interaction;
use super::lifecycle::{end_of, failed};
use super::presentation::Presentation;
use super::proto::agent::{
    AgentServerMessage, ConversationTokenDetails, agent_client_message, conversation_action,
};
use super::request::{ContextLink, completion_messages};
use super::run_sse::RunWriter;
use super::tools::{DerivedFact, Effect, ToolProtocolError, ToolRuntime};
use crate::client::{Barrier, ClientCommand, ClientEvent, ClientHandle, StateCause};
use crate::clock;
use crate::model::{
    Assistant, ConversationId, Delegation, HistoryItem, Message, RevisionId, RunFailure, RunOutcome,
    ToolRound, Usage,
};

/// One run as the client sees it.
pub(super) struct Session {
    pub request_id: String,
    pub writer: RunWriter,
    pub blobs: BlobSync,
    pub link: ContextLink,
    pub tools: ToolRuntime,
    pub run: ClientHandle,
    pub jobs: mpsc::UnboundedSender<CheckpointJob>,
    /// Size of the model's context in tokens, if known.
    pub context_window: Option<u32>,
    pub presentation: Presentation,
    /// Subagents whose end the run is still to be told of.
    pub delegations: Delegations,
    /// What each model call of the run reported.
    pub usage: Vec<Option<Usage>>,
    /// When the current model call began; freezes the time of a staged answer.
    pub call_started_at_ms: u64,
    pub final_checkpoints: Option<oneshot::Receiver<FinalCheckpoints>>,
}

impl Session {
    /// Lives until the run has ended and all that belongs to its end has been sent, but for the end frame itself.
    pub(super) async fn live(
        mut self,
        mut inbound: InboxReceiver,
        mut worker: AbortOnDropHandle<Result<(), RunFailure>>,
        shutdown: CancellationToken,
    ) -> Result<(), ConnectError> {
        let mut inbound_open = true;
        let mut worker_runs = true;
        let mut client_there = true;
        let stop = self.run.cancel.clone();
        let closed = self.writer.clone();
        self.tell_ended().await;
        let outcome = loop {
            tokio::select! {
                () = shutdown.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                () = closed.closed(), if client_there => {
                    // Closing the response is how the client cancels. [sdk]
                    client_there = false;
                    stop.cancel();
                }
                message = inbound.recv(), if inbound_open => match message {
                    Some(message) => self.take(message).await,
                    None => inbound_open = false,
                },
                ended = &mut worker, if worker_runs => {
                    worker_runs = false;
                    self.worker_ended(ended);
                }
                () = self.delegations.may_have_ended() => self.tell_ended().await,
                event = self.run.events.recv() => match event {
                    Some(ClientEvent::Ended(outcome)) => break outcome,
                    Some(event) => self.present(event).await,
                    // The run's task always says how it ended; if it did not, it died.
                    None => {
                        return Err(failed(&RunFailure::Store("the run ended without a word".to_owned())));
                    }
                },
            }
        };
        self.end(&outcome).await;
        end_of(&outcome)
    }

    /// Sends what belongs before the end frame. A client that is gone misses it and nothing else.
    async fn end(&mut self, outcome: &RunOutcome) {
        match (outcome, self.final_checkpoints.take()) {
            (RunOutcome::Completed, Some(ready)) => {
                let Ok(checkpoints) = ready.await else { return };
                self.send(&interaction::turn_ended(Usage::sum(self.usage.iter().copied())))
                    .await;
                if let Some(staged) = checkpoints.staged {
                    self.send(&checkpoint_message(staged)).await;
                }
                // The same settled state twice, as the official order has it. [capture]
                let settled = checkpoint_message(checkpoints.settled);
                self.send(&settled).await;
                self.send(&settled).await;
            }
            _ => {
                for effect in self.tools.abort_all() {
                    self.apply(effect).await;
                }
            }
        }
    }

    /// Takes one message of the client.
    async fn take(&mut self, message: Result<Inbound, InboxError>) {
        let inbound = match message {
            Ok(inbound) => inbound,
            Err(error) => return self.refuse(RunFailure::Protocol(error.to_string())),
        };
        let seqno = inbound.seqno;
        match inbound.message.message {
            Some(agent_client_message::Message::KvClientMessage(message)) => {
                let id = message.id;
                if let Err(error) = self.blobs.answer(message) {
                    tracing::warn!(seqno, kv_id = id, %error, "unexpected blob answer");
                    self.refuse(error.into());
                }
            }
            Some(agent_client_message::Message::ExecClientMessage(message)) => {
                let id = message.id;
                tracing::trace!(seqno, exec_id = id, "exec answer");
                let effects = self.tools.exec_message(message, clock::unix_ms());
                self.apply_or_refuse(effects).await;
            }
            // The end of the question for the request context may come after its answer has started the run.
            Some(agent_client_message::Message::ExecClientControlMessage(message))
                if self.link.owns(&message) =>
            {
                if let Err(error) = self.link.control(message) {
                    self.refuse(RunFailure::Protocol(error));
                }
            }
            Some(agent_client_message::Message::ExecClientControlMessage(message)) => {
                let effects = self.tools.exec_control(message, clock::unix_ms());
                self.apply_or_refuse(effects).await;
            }
            Some(agent_client_message::Message::ConversationAction(action)) => match action.action {
                Some(conversation_action::Action::CancelAction(_)) => {
                    // A run that has ended meanwhile needs no stopping.
                    let _ = self.run.commands.send(ClientCommand::Cancel);
                }
                Some(conversation_action::Action::BackgroundTaskCompletionAction(action)) => {
                    match completion_messages(&action) {
                        Ok(messages) => self.tell(messages),
                        Err(error) => self.refuse(error.into()),
                    }
                }
                Some(
                    conversation_action::Action::UserMessageAction(_)
                    | conversation_action::Action::ResumeAction(_),
                )
                | None => self.refuse(RunFailure::Protocol(format!(
                    "message {seqno} of request {} holds an action that a running request cannot take",
                    self.request_id
                ))),
            },
            Some(agent_client_message::Message::ClientHeartbeat(_)) => {}
            Some(agent_client_message::Message::RunRequest(_)) => self.refuse(RunFailure::Protocol(format!(
                "message {seqno} of request {} is a second run_request; start a new request for it",
                self.request_id
            ))),
            // A kind that this version does not know asks for nothing that it could do.
            None => tracing::warn!(seqno, "the client sent a message of an unknown kind"),
        }
    }

    /// Shows one event of the run.
    async fn present(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::ModelCallStarted { .. } => {
                self.usage.push(None);
                self.call_started_at_ms = clock::unix_ms();
            }
            ClientEvent::TextStart | ClientEvent::ThinkingStart => {}
            ClientEvent::TextDelta(delta) => {
                self.presentation.text_delta(&delta);
                self.send(&interaction::text_delta(&delta)).await;
            }
            ClientEvent::TextEnd => self.presentation.text_end(),
            ClientEvent::ThinkingDelta(delta) => {
                self.presentation.thinking_delta(&delta);
                self.send(&interaction::thinking_delta(&delta)).await;
            }
            ClientEvent::ThinkingEnd { duration } => {
                self.presentation.thinking_end(duration);
                self.send(&interaction::thinking_completed(duration)).await;
            }
            ClientEvent::ToolCallStart { call, name } => {
                let effects = self.tools.call_started(&call, &name, &self.model_call_id());
                self.apply_or_refuse(effects).await;
            }
            ClientEvent::ToolCallArguments { call, delta } => {
                let effects = self.tools.arguments_delta(&call, &delta);
                self.apply_or_refuse(effects).await;
            }
            ClientEvent::Usage(usage) => {
                if let Some(last) = self.usage.last_mut() {
                    *last = Some(usage);
                }
            }
            ClientEvent::Notice(text) => self.send(&interaction::notice(&text)).await,
            ClientEvent::ExecuteToolRound(round) => {
                for call in &round.calls {
                    let effects = self.tools.execute(call, clock::unix_ms());
                    self.apply_or_refuse(effects).await;
                }
            }
            ClientEvent::StateCommitted {
                revision,
                cause,
                appended,
                barrier,
            } => {
                self.committed(revision, cause, appended, barrier).await;
            }
            ClientEvent::Ended(_) => {}
        }
    }

    async fn committed(
        &mut self,
        revision: RevisionId,
        cause: StateCause,
        appended: Vec<Arc<HistoryItem>>,
        barrier: Option<Barrier>,
    ) {
        match (cause, barrier) {
            (StateCause::Initial, Some(barrier)) => {
                self.enqueue(CheckpointJob::Initial {
                    appended,
                    revision,
                    barrier,
                });
            }
            (StateCause::ToolRoundStarted(round), _) => {
                let steps = self.presentation.take_said();
                let token_details = self.token_details();
                let assistant = self.staged_round(&round);
                self.enqueue(CheckpointJob::Staged {
                    assistant,
                    steps,
                    token_details,
                });
            }
            (StateCause::ToolResult(result), _) => {
                self.tools.place(&result.call, self.presentation.next_position());
                let Some(committed) = self.tools.committed(&result.call) else {
                    return;
                };
                let mut started_at_ms = 0;
                if let Some((completed, card)) = committed.shown {
                    started_at_ms = card.started_at_ms.unwrap_or_default();
                    self.send(&AgentServerMessage {
                        message: Some(completed),
                    })
                    .await;
                    self.presentation.tool_completed(card);
                }
                match committed.fact {
                    Some(DerivedFact::Delegated { child }) => {
                        let delegation = Delegation {
                            call: result.call,
                            child: ConversationId::new(child),
                            since_ms: started_at_ms,
                        };
                        self.delegated(delegation).await;
                    }
                    Some(fact) => self.presentation.note(fact),
                    None => {}
                }
            }
            (StateCause::ToolRoundSettled(_) | StateCause::RuntimeEvents, Some(barrier)) => {
                self.tools.round_ended();
                let settled = self.presentation.take_settled();
                self.enqueue(CheckpointJob::Settled {
                    appended,
                    revision,
                    steps: settled.steps,
                    todos: settled.todos,
                    read_paths: settled.read_paths,
                    progress: settled.progress,
                    barrier,
                });
            }
            (StateCause::Final, Some(barrier)) => {
                let (reply, ready) = oneshot::channel();
                self.final_checkpoints = Some(ready);
                let steps = self.presentation.take_said();
                let token_details = self.token_details();
                let assistant = appended.iter().rev().find_map(|item| match item.as_ref() {
                    HistoryItem::Assistant { said, calls, .. } if calls.is_empty() => Some(said.clone()),
                    _ => None,
                });
                let assistant = assistant.map(|said| self.staged_answer(said));
                self.enqueue(CheckpointJob::Final {
                    appended,
                    assistant,
                    revision,
                    steps,
                    token_details,
                    reply,
                    barrier,
                });
            }
            (
                StateCause::Initial
                | StateCause::ToolRoundSettled(_)
                | StateCause::RuntimeEvents
                | StateCause::Final,
                None,
            ) => tracing::error!("a state that needs a barrier came without one"),
        }
    }

    /// A subagent goes on in the background.
    async fn delegated(&mut self, delegation: Delegation) {
        match self.delegations.begun(delegation).await {
            // It may have ended before it was noted.
            Ok(()) => self.tell_ended().await,
            Err(failure) => self.refuse(failure),
        }
    }

    /// Tells the run of the subagents that have ended in the background.
    async fn tell_ended(&mut self) {
        match self.delegations.take_ended().await {
            Ok(messages) => self.tell(messages),
            Err(failure) => self.refuse(failure),
        }
    }

    /// Tells the run what happened meanwhile. One that has ended is told of it when the conversation goes on.
    fn tell(&self, messages: Vec<Message>) {
        for message in messages {
            let _ = self.run.commands.send(ClientCommand::RuntimeEvent(message));
        }
    }

    fn worker_ended(&mut self, ended: Result<Result<(), RunFailure>, tokio::task::JoinError>) {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.refuse(failure),
            Err(error) => {
                tracing::error!(%error, "the checkpoint worker died");
                self.refuse(RunFailure::Store(
                    "the conversation's state could not be written".to_owned(),
                ));
            }
        }
    }

    /// Ends the run because the client cannot go on with it.
    fn refuse(&self, failure: RunFailure) {
        // A run that has ended meanwhile has its outcome already.
        let _ = self.run.commands.send(ClientCommand::ClientClosed(failure));
    }

    fn enqueue(&self, job: CheckpointJob) {
        // A worker that is gone has failed, and its failure ends the run; dropping the job fails its barrier.
        let _ = self.jobs.send(job);
    }

    async fn apply_or_refuse(&mut self, effects: Result<Vec<Effect>, ToolProtocolError>) {
        match effects {
            Ok(effects) => {
                for effect in effects {
                    self.apply(effect).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a tool call's protocol was broken");
                self.refuse(RunFailure::Protocol(error.to_string()));
            }
        }
    }

    async fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Send(message) => {
                self.send(&AgentServerMessage {
                    message: Some(message),
                })
                .await
            }
            Effect::Complete(result) => {
                // A run that has ended meanwhile takes no results.
                let _ = self.run.commands.send(ClientCommand::ToolResult(result));
            }
        }
    }

    async fn send(&self, message: &AgentServerMessage) {
        if let Err(error) = self.writer.send(message).await {
            // A closed stream is noticed by the loop, which cancels the run; anything else is a fault of this frame.
            if !self.writer.is_closed() {
                self.refuse(RunFailure::Client(error.to_string()));
            }
        }
    }

    fn model_call_id(&self) -> String {
        format!("{}:{}", self.request_id, self.usage.len().saturating_sub(1))
    }

    fn staged_round(&self, round: &ToolRound) -> StagedAssistant {
        StagedAssistant {
            said: round.said.clone(),
            calls: round.calls.clone(),
            provider_message_id: round.id.to_string(),
            started_at_ms: round.started_at_ms,
        }
    }

    fn staged_answer(&self, said: Assistant) -> StagedAssistant {
        StagedAssistant {
            said,
            calls: Vec::new(),
            provider_message_id: self.model_call_id(),
            started_at_ms: self.call_started_at_ms,
        }
    }

    /// Input and output of the last model call, where the provider reported both. [capture]
    fn token_details(&self) -> Option<ConversationTokenDetails> {
        let usage = self.usage.last().copied().flatten()?;
        let used = usage.input()?.saturating_add(usage.output?);
        Some(ConversationTokenDetails {
            used_tokens: u32::try_from(used).unwrap_or(u32::MAX),
            max_tokens: self.context_window.unwrap_or_default(),
        })
    }
}
