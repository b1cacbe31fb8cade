//! One run as the client sees it: joins the run's events with the wire.
//!
//! Owns the tool runtime, what the turn shows, and the order of what goes out. Must never know: how the run decides,
//! or how a provider is called.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::blob_sync::BlobSync;
use super::checkpoint::{CheckpointJob, FinalCheckpoints, StagedAssistant, checkpoint_message};
use super::connect::ConnectError;
use super::delegations::Delegations;
use super::inbox::{Inbound, InboxError, InboxReceiver};
use super::interaction;
use super::lifecycle::{end_of, failed};
use super::pictures::{self, Entered};
use super::presentation::Presentation;
use super::proto::agent::{AgentServerMessage, agent_client_message, conversation_action};
use super::request::ContextLink;
use super::run_sse::RunWriter;
use super::shown_text::ShownText;
use super::tools::{Effect, ServiceAnswer, ServiceRequest, ToolProtocolError, ToolRuntime, read_page};
use crate::client::{Barrier, ClientCommand, ClientEvent, ClientHandle, StateCause};
use crate::clock;
use crate::model::{
    Assistant, CallId, Delegation, HistoryItem, MeasuredHistory, Message, ModelSpec, RevisionId, RunFailure,
    RunOutcome, ToolContent, ToolResult, ToolRound, Usage,
};
use crate::web::WebServices;

/// One run as the client sees it.
pub(super) struct Session {
    pub request_id: String,
    pub writer: RunWriter,
    pub blobs: BlobSync,
    pub link: ContextLink,
    pub tools: ToolRuntime,
    /// The pauses that tool calls asked for; each gives its call when it is over.
    pub pauses: JoinSet<CallId>,
    pub run: ClientHandle,
    pub web: Arc<WebServices>,
    /// What services of the server are being asked for; stopped with the session.
    pub serving: JoinSet<(CallId, ServiceAnswer)>,
    pub jobs: mpsc::UnboundedSender<CheckpointJob>,
    /// The run's model.
    pub model: Arc<ModelSpec>,
    /// Remarks for the person; each is made once.
    pub notices: Vec<String>,
    /// Whether the run is a subagent's: its client hands all that is shown to the run above it as the subagent's words.
    pub is_subagent: bool,
    /// What of text was shown last.
    pub shown: ShownText,
    pub presentation: Presentation,
    /// Subagents whose end the run is still to be told of.
    pub delegations: Delegations,
    /// What each model call of the run reported, those for summaries too.
    pub usage: Vec<Option<Usage>>,
    /// How large the history is, by the last model call for an answer.
    pub measured: Option<MeasuredHistory>,
    /// Whether the current model call is for a summary.
    pub summarising: bool,
    /// When the current model call began; freezes the time of a staged answer.
    pub call_started_at_ms: u64,
    pub final_checkpoints: Option<oneshot::Receiver<FinalCheckpoints>>,
    /// States that no worker takes any more.
    pub unserved: Vec<CheckpointJob>,
}

impl Session {
    /// Lives until the run has ended and all that belongs to its end has been sent, but for the end frame itself.
    pub(super) async fn live(
        mut self,
        mut inbound: InboxReceiver,
        mut worker: AbortOnDropHandle<Result<(), RunFailure>>,
        shutdown: CancellationToken,
    ) -> Result<(), ConnectError> {
        for notice in self.notices.clone() {
            self.show_notice(&notice).await;
        }
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
                Some(Ok(call)) = self.pauses.join_next() => {
                    for effect in self.tools.woke(&call, clock::unix_ms()) {
                        self.apply(effect).await;
                    }
                }
                ended = &mut worker, if worker_runs => {
                    worker_runs = false;
                    self.worker_ended(ended);
                }
                Some(served) = self.serving.join_next() => self.served(served).await,
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
                self.serving.abort_all();
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
                    match self.delegations.news(&action).await {
                        Ok(messages) => self.tell_run(messages),
                        Err(failure) => self.refuse(failure),
                    }
                }
                Some(
                    conversation_action::Action::UserMessageAction(_)
                    | conversation_action::Action::ResumeAction(_)
                    | conversation_action::Action::SummarizeAction(_),
                )
                | None => self.refuse(RunFailure::Protocol(format!(
                    "message {seqno} of request {} holds an action that a running request cannot take",
                    self.request_id
                ))),
            },
            Some(agent_client_message::Message::InteractionResponse(response)) => {
                tracing::trace!(seqno, query_id = response.id, "the person answered");
                let effects = self.tools.responded(response, clock::unix_ms());
                self.apply_or_refuse(effects).await;
            }
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
                self.measured = None;
                self.summarising = false;
                self.call_started_at_ms = clock::unix_ms();
            }
            ClientEvent::CompactionStarted { .. } => {
                self.usage.push(None);
                // A second call for the same summary is not shown.
                if !std::mem::replace(&mut self.summarising, true) {
                    self.send(&interaction::summary_started()).await;
                }
            }
            ClientEvent::CompactionFailed(text) => {
                self.summarising = false;
                self.send(&interaction::summary_completed()).await;
                self.show_notice(&text).await;
            }
            ClientEvent::TextStart | ClientEvent::ThinkingStart => {}
            ClientEvent::TextDelta(delta) => {
                self.presentation.text_delta(&delta);
                if let Some(apart) = self.shown.answer(&delta) {
                    self.send(&interaction::notice(apart)).await;
                }
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
                self.shown.interrupted();
                let effects = self.tools.call_started(&call, &name, &self.model_call_id());
                self.apply_or_refuse(effects).await;
            }
            ClientEvent::ToolCallArguments { call, delta } => {
                let effects = self.tools.arguments_delta(&call, &delta);
                self.apply_or_refuse(effects).await;
            }
            ClientEvent::Measured(measured) => self.measured = Some(measured),
            ClientEvent::Usage(usage) => {
                if let Some(last) = self.usage.last_mut() {
                    *last = Some(usage);
                }
            }
            ClientEvent::Notice(text) => self.show_notice(&text).await,
            ClientEvent::ExecuteToolRound(round) => {
                self.tools.note_at_work(self.delegations.at_work());
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
                let assistant = self.staged_round(&round);
                self.enqueue(CheckpointJob::Staged {
                    assistant,
                    steps,
                    measured: self.measured,
                });
            }
            (StateCause::ToolResult(result), _) => {
                self.tools.place(&result.call, self.presentation.next_position());
                let Some(committed) = self.tools.committed(&result.call) else {
                    return;
                };
                let Some((completed, card)) = committed.shown else {
                    return;
                };
                self.send(&AgentServerMessage {
                    message: Some(completed),
                })
                .await;
                self.presentation.tool_completed(card);
            }
            (StateCause::ToolRoundSettled(_) | StateCause::RuntimeEvents, Some(barrier)) => {
                self.tools.round_ended();
                let settled = self.presentation.take_settled();
                self.enqueue(CheckpointJob::Settled {
                    appended,
                    revision,
                    steps: settled.steps,
                    derived: settled.derived,
                    barrier,
                });
            }
            (StateCause::Compacted { summary }, Some(barrier)) => {
                self.measured = None;
                // A history that is only shortened asks no model for a summary.
                if !std::mem::replace(&mut self.summarising, false) {
                    self.send(&interaction::summary_started()).await;
                }
                self.send(&interaction::summary(&summary)).await;
                self.send(&interaction::summary_completed()).await;
                self.enqueue(CheckpointJob::Compacted {
                    history: appended,
                    summary,
                    revision,
                    barrier,
                });
            }
            (StateCause::Final, Some(barrier)) => {
                let (reply, ready) = oneshot::channel();
                self.final_checkpoints = Some(ready);
                let steps = self.presentation.take_said();
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
                    measured: self.measured,
                    reply,
                    barrier,
                });
            }
            (
                StateCause::Initial
                | StateCause::ToolRoundSettled(_)
                | StateCause::RuntimeEvents
                | StateCause::Compacted { .. }
                | StateCause::Final,
                None,
            ) => tracing::error!("a state that needs a barrier came without one"),
        }
    }

    /// Takes what a service of the server gave.
    async fn served(&mut self, served: Result<(CallId, ServiceAnswer), tokio::task::JoinError>) {
        match served {
            Ok((call, answer)) => {
                let effects = self.tools.served(&call, answer, clock::unix_ms());
                self.apply_or_refuse(effects).await;
            }
            Err(error) => {
                tracing::error!(%error, "a call of a service died");
                self.refuse(RunFailure::Client(
                    "a tool's service could not be asked".to_owned(),
                ));
            }
        }
    }

    /// A subagent works for a call. That is durable before the run has the call's result.
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
            Ok(messages) => self.tell_run(messages),
            Err(failure) => self.refuse(failure),
        }
    }

    /// Tells the run what happened meanwhile. One that has ended is told of it when the conversation goes on.
    fn tell_run(&self, messages: Vec<Message>) {
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

    fn enqueue(&mut self, job: CheckpointJob) {
        // A worker that is gone has failed, and its failure ends the run. Dropping the job would fail its barrier first,
        // without the cause.
        if let Err(unserved) = self.jobs.send(job) {
            self.unserved.push(unserved.0);
        }
    }

    async fn apply_or_refuse(&mut self, effects: Result<Vec<Effect>, ToolProtocolError>) {
        match effects {
            Ok(effects) => {
                for effect in effects {
                    self.apply(effect).await;
                }
            }
            Err(error) => {
                // The run and the conversation stand in the request's span.
                tracing::warn!(
                    call = error.call().map(tracing::field::display),
                    exec_id = error.exec_id(),
                    query_id = error.query_id(),
                    %error,
                    "a tool call's protocol was broken"
                );
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
            Effect::Serve { call, request } => {
                let web = self.web.clone();
                self.serving.spawn(async move {
                    let answer = match request {
                        ServiceRequest::Search(term) => ServiceAnswer::Search(web.search(&term).await),
                        ServiceRequest::Image(request) => ServiceAnswer::Image(web.image(&request).await),
                        ServiceRequest::Page(html) => {
                            // Reading takes up to seconds and would keep a worker from everything else.
                            let read = tokio::task::spawn_blocking(move || read_page(&html)).await;
                            let read =
                                read.inspect_err(|error| tracing::error!(%error, "a page's reader died"));
                            ServiceAnswer::Page(read.ok().flatten())
                        }
                    };
                    (call, answer)
                });
            }
            Effect::Delegated(delegation) => self.delegated(delegation).await,
            Effect::Complete(result) => {
                let result = self.entered(result).await;
                // A run that has ended meanwhile takes no results.
                let _ = self.run.commands.send(ClientCommand::ToolResult(result));
            }
            Effect::Wake { call, after_ms } => {
                let pause = Duration::from_millis(after_ms.into());
                #[allow(clippy::disallowed_methods, reason = "the tool call asked for a pause")]
                self.pauses.spawn(async move {
                    tokio::time::sleep(pause).await;
                    call
                });
            }
        }
    }

    /// The result as it enters the history: its pictures fitted to the model.
    async fn entered(&mut self, result: ToolResult) -> ToolResult {
        let Entered { parts, notices } = pictures::enter(result.content.parts().to_vec(), &self.model).await;
        for notice in notices {
            if !self.notices.contains(&notice) {
                self.show_notice(&notice).await;
                self.notices.push(notice);
            }
        }
        ToolResult {
            content: ToolContent::new(parts),
            ..result
        }
    }

    /// Shows a notice to the person, where there is one.
    async fn show_notice(&mut self, text: &str) {
        if self.is_subagent {
            tracing::info!("a notice is not shown in a subagent's run");
            return;
        }
        let text = self.shown.notice(text);
        self.send(&interaction::notice(&text)).await;
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
}
