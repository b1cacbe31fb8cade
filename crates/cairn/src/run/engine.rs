//! The loop: call the model, commit, run the tools, commit, wait for the client's barrier, again.
//!
//! Must never know: a client's words, a tool's name, an endpoint, or SQL.

mod compaction;
mod kept;
mod shortening;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;

use compaction::Compactor;

use super::lifecycle::{Halt, Lifecycle, RunState};
use super::model_cycle::{ModelCycle, ModelCycleFailure, ModelOutput};
use super::proof::{Outgoing, PrefixBreaks, Proof};
use super::tool_round::OpenToolRound;
use super::views::{View, Views};
use crate::client::{ClientCommand, ClientEvent, RunHandle, StateCause, barrier};
use crate::clock;
use crate::model::{
    HistoryItem, Message, MessageBody, MessageId, ModelRequest, PendingAssistant, PreparedRun, RequestDigest,
    RevisionId, RunAction, RunFailure, ToolResult, ToolRound, ToolRoundId, Usage, UserOrigin, project,
};
use crate::provider::{ModelEvent, ModelInvocation, Provider};
use crate::store::{ModelCallEnd, Store};

/// What the model reads as the result of a call whose run was stopped or broke off before the result was stored.
const INTERRUPTED: &str =
    "This call was interrupted. It may have run in part or in full; its outcome is unknown.";

/// What a model call is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// The next answer of the conversation.
    Answer,
    /// A summary of it.
    Summary,
}

impl Purpose {
    /// Whether the client is told of this event of the call. A summary is not the model's answer to anyone.
    fn shows(self, event: &ClientEvent) -> bool {
        self == Self::Answer || matches!(event, ClientEvent::Usage(_))
    }
}

/// The single writer of one run.
pub(super) struct Engine<'a> {
    store: &'a Store,
    views: &'a Views,
    provider: &'a dyn Provider,
    run: &'a PreparedRun,
    port: &'a mut RunHandle,
    lifecycle: Lifecycle,
    head: RevisionId,
    history: View,
    /// History items that the client was not yet told of in a state with a barrier.
    unannounced: usize,
    compactor: Compactor,
    provider_call_index: u32,
    usage: Vec<Option<Usage>>,
    proof: Proof,
    /// How the latest recorded call ended, until it is recorded too.
    last_call: Option<ModelCallEnd>,
    /// Results that came while the loop was busy committing another one.
    results: VecDeque<ToolResult>,
    /// Events that wait for the next place where the history may grow.
    runtime_events: Vec<Message>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        store: &'a Store,
        views: &'a Views,
        provider: &'a dyn Provider,
        run: &'a PreparedRun,
        port: &'a mut RunHandle,
        breaks: PrefixBreaks,
    ) -> Self {
        Self {
            store,
            views,
            provider,
            run,
            port,
            lifecycle: Lifecycle::new(),
            head: run.base.clone(),
            history: View::default(),
            unannounced: 0,
            compactor: Compactor::new(run.compaction.as_ref()),
            provider_call_index: 0,
            usage: Vec::new(),
            proof: Proof::new(breaks),
            last_call: None,
            results: VecDeque::new(),
            runtime_events: Vec::new(),
        }
    }

    /// What the provider reported over the whole run; a field that any call left out is absent.
    pub(super) fn total_usage(&self) -> Option<Usage> {
        Usage::sum(self.usage.iter().copied())
    }

    /// How the latest model call ended, if it was sent.
    pub(super) fn last_call(&self) -> Option<ModelCallEnd> {
        self.last_call
    }

    /// Runs until the model is done and the client holds the final state.
    pub(super) async fn run(&mut self) -> Result<(), Halt> {
        let mut complete = self.open().await?;
        while !complete {
            self.compact_if_large().await?;
            let (index, output) = self.answer().await?;
            if output.calls.is_empty() {
                complete = self.commit_answer(index, output).await?;
            } else {
                let round = self.begin_round(index, output).await?;
                self.run_tools(round).await?;
                self.commit_runtime_events().await?;
            }
        }
        self.enter(RunState::Ended);
        // Only here: the head of a run that was left inside a round stands for more than its view holds.
        self.views
            .keep(self.head.clone(), std::mem::take(&mut self.history));
        Ok(())
    }

    /// Takes up the base history and what the run adds to it before the model is called. Returns whether the run
    /// is already complete.
    async fn open(&mut self) -> Result<bool, Halt> {
        match self.views.take(&self.run.base) {
            Some(view) => self.history = view,
            None => {
                let messages = self.store.history(&self.run.base).await?;
                let items = project(messages.iter().map(AsRef::as_ref)).map_err(|error| {
                    RunFailure::Store(format!("the stored history is not whole: {error}"))
                })?;
                self.history.extend(items);
            }
        }
        self.unannounced = self.history.items().len();
        self.compactor.count_base(self.unannounced);
        match self.run.action.clone() {
            RunAction::Start {
                interrupted,
                messages,
            } => {
                self.append_interrupted(interrupted).await?;
                self.append(messages).await?;
                self.open_for_answer().await
            }
            RunAction::Compact { interrupted } => {
                self.append_interrupted(interrupted).await?;
                self.announce(StateCause::Initial).await?;
                self.compact_on_demand().await?;
                self.close().await
            }
            RunAction::Resume { pending } => match pending {
                Some(pending) if pending.calls.is_empty() => {
                    self.append_restored(pending).await?;
                    self.announce(StateCause::Final).await?;
                    Ok(true)
                }
                Some(pending) => {
                    self.announce(StateCause::Initial).await?;
                    let round = self.restore_round(pending);
                    self.store.begin_tool_round(&round).await?;
                    self.run_tools(round).await?;
                    Ok(false)
                }
                None => self.open_for_answer().await,
            },
        }
    }

    /// Opens a run whose next step is a model call, unless the history ends with a whole answer: then there is nothing
    /// to answer, and an endpoint would refuse or go on with its own words. Returns whether the run is complete.
    async fn open_for_answer(&mut self) -> Result<bool, Halt> {
        let answered = match self.history.items().last().map(AsRef::as_ref) {
            Some(HistoryItem::Assistant { calls, .. }) => calls.is_empty(),
            Some(HistoryItem::User { origin, .. }) => matches!(origin, UserOrigin::Summary { .. }),
            Some(HistoryItem::ToolResult(_)) | None => false,
        };
        if answered {
            self.emit(ClientEvent::Notice(
                "The last message is answered already; nothing was left to do.".into(),
            ))
            .await?;
            self.announce(StateCause::Final).await?;
        } else {
            self.announce(StateCause::Initial).await?;
        }
        Ok(answered)
    }

    /// Takes over what the client's state holds as not yet settled, before anything new.
    async fn append_interrupted(&mut self, interrupted: Option<PendingAssistant>) -> Result<(), Halt> {
        match interrupted {
            Some(pending) if pending.calls.is_empty() => self.append_restored(pending).await,
            Some(pending) => self.answer_interrupted(pending).await,
            None => Ok(()),
        }
    }

    /// Appends an answer that the client has but never saw settled.
    async fn append_restored(&mut self, pending: PendingAssistant) -> Result<(), Halt> {
        let id = MessageId::restored(&self.run.id);
        self.append(vec![Message {
            id,
            body: MessageBody::Assistant(pending.said),
        }])
        .await
    }

    /// Has the model answer the history. Also returns the index of the call that did. A history that the endpoint
    /// refuses as too long is compacted and asked about again, once for each answer.
    async fn answer(&mut self) -> Result<(u32, ModelOutput), Halt> {
        loop {
            self.enter(RunState::RunningModel);
            let index = self.provider_call_index;
            let history = self.history.items().to_vec();
            match self.call_model(history, Purpose::Answer).await? {
                Ok(output) => {
                    self.note_size(&output).await?;
                    return Ok((index, output));
                }
                Err(failed) => self.compact_after_refusal(failed).await?,
            }
        }
    }

    /// Calls the model once and reads its whole answer, or nothing of it.
    async fn call_model(
        &mut self,
        history: Vec<Arc<HistoryItem>>,
        purpose: Purpose,
    ) -> Result<Result<ModelOutput, ModelCycleFailure>, Halt> {
        let provider_call_index = self.provider_call_index;
        self.provider_call_index += 1;
        // A call that ends without a report leaves the run's total unknown.
        self.usage.push(None);
        let request = ModelRequest {
            prompt: self.run.prompt.clone(),
            model: self.run.model.clone(),
            history,
            conversation: self.run.conversation.clone(),
        };
        let invocation = ModelInvocation {
            run: self.run.id.clone(),
            provider_call_index,
            // Ends the HTTP request in whatever phase it is when this call is left.
            cancel: self.port.cancel.child_token(),
        };
        let _leave = invocation.cancel.clone().drop_guard();
        let mut events = self.provider.call(&request, invocation);
        let mut cycle = ModelCycle::new(self.history.call_ids());
        let mut announced = false;
        while let Some(event) = self.listen(events.next()).await? {
            if let Ok(ModelEvent::Sending(sent)) = &event {
                self.record_call(provider_call_index, sent, purpose).await?;
                if !announced {
                    self.emit(match purpose {
                        Purpose::Answer => ClientEvent::ModelCallStarted { provider_call_index },
                        Purpose::Summary => ClientEvent::CompactionStarted { provider_call_index },
                    })
                    .await?;
                }
                announced = true;
            }
            let told = match event.and_then(|event| cycle.push(event)) {
                Ok(told) => told,
                Err(failure) => return Ok(Err(self.model_failed(cycle.fail(failure)))),
            };
            if let Some(told) = told.filter(|told| purpose.shows(told)) {
                self.emit(told).await?;
            }
        }
        Ok(match cycle.finish() {
            Ok(output) => {
                self.report(output.usage);
                self.proof.answered();
                self.last_call = Some(ModelCallEnd {
                    answered: true,
                    usage: output.usage,
                });
                Ok(output)
            }
            Err(failed) => Err(self.model_failed(*failed)),
        })
    }

    /// Makes a request durable that goes out next, and proves that it extends its predecessor.
    async fn record_call(&mut self, index: u32, sent: &RequestDigest, purpose: Purpose) -> Result<(), Halt> {
        let previous = self.last_call.take();
        let outgoing = Outgoing {
            index,
            revision: &self.head,
            digest: sent,
            beside: purpose == Purpose::Summary,
        };
        self.proof
            .record(self.store, self.run, outgoing, previous)
            .await?;
        // Until more is known of it.
        self.last_call = Some(ModelCallEnd {
            answered: false,
            usage: None,
        });
        Ok(())
    }

    /// Takes what the provider reported for the call that was made last.
    fn report(&mut self, usage: Option<Usage>) {
        if let Some(last) = self.usage.last_mut() {
            *last = usage;
        }
    }

    fn model_failed(&mut self, failed: ModelCycleFailure) -> ModelCycleFailure {
        tracing::debug!(
            provider_call_index = self.provider_call_index.saturating_sub(1),
            fault = failed.failure.fault.as_str(),
            status = failed.failure.status,
            partial_text = failed.partial_text,
            partial_reasoning = failed.partial_reasoning,
            "the model call failed; nothing of it is kept"
        );
        self.report(failed.usage);
        if let Some(call) = &mut self.last_call {
            call.usage = failed.usage;
        }
        failed
    }

    /// Commits an answer without calls. Returns whether the run is complete; it goes on where events wait.
    async fn commit_answer(&mut self, index: u32, output: ModelOutput) -> Result<bool, Halt> {
        self.enter(RunState::Completing);
        let said = output.said;
        if said.text.trim().is_empty() {
            // A message without a word says nothing, whatever was thought before it, and many endpoints refuse it in every
            // later request: the person is told, the history is not.
            self.emit(ClientEvent::Notice(
                "The model ended its turn without an answer.".into(),
            ))
            .await?;
        } else {
            let id = MessageId::assistant(&self.run.id, index);
            self.append(vec![Message {
                id,
                body: MessageBody::Assistant(said),
            }])
            .await?;
        }
        self.close().await
    }

    /// Has the client hold the final state. Returns whether the run is complete; it goes on where events wait.
    async fn close(&mut self) -> Result<bool, Halt> {
        if self.runtime_events.is_empty() {
            self.announce(StateCause::Final).await?;
            // A message that came while the client stored the final state is not lost: the run goes on for it.
            if self.runtime_events.is_empty() {
                return Ok(true);
            }
        }
        self.commit_runtime_events().await?;
        Ok(false)
    }

    /// Makes a batch of calls durable before anyone acts on it.
    async fn begin_round(&mut self, index: u32, output: ModelOutput) -> Result<Arc<ToolRound>, Halt> {
        let round = Arc::new(ToolRound {
            id: ToolRoundId::of_call(&self.run.id, index),
            run: self.run.id.clone(),
            parent: self.head.clone(),
            said: output.said,
            calls: output.calls,
            started_at_ms: clock::unix_ms(),
        });
        self.store.begin_tool_round(&round).await?;
        Ok(round)
    }

    fn restore_round(&self, pending: PendingAssistant) -> Arc<ToolRound> {
        Arc::new(ToolRound {
            id: ToolRoundId::restored(&self.run.id),
            run: self.run.id.clone(),
            parent: self.head.clone(),
            said: pending.said,
            calls: pending.calls,
            started_at_ms: pending.started_at_ms,
        })
    }

    /// Has a durable round executed and commits each result as it comes.
    async fn run_tools(&mut self, round: Arc<ToolRound>) -> Result<(), Halt> {
        self.enter(RunState::WaitingForTools);
        self.emit(ClientEvent::StateCommitted {
            revision: self.head.clone(),
            cause: StateCause::ToolRoundStarted(round.clone()),
            appended: Vec::new(),
            barrier: None,
        })
        .await?;
        self.emit(ClientEvent::ExecuteToolRound(round.clone())).await?;
        let mut open = OpenToolRound::new(round);
        while !open.is_settled() {
            let result = self.next_result().await?;
            self.enter(RunState::CommittingTool);
            self.commit_result(&mut open, result.clone()).await?;
            self.emit(ClientEvent::StateCommitted {
                revision: self.head.clone(),
                cause: StateCause::ToolResult(result),
                appended: Vec::new(),
                barrier: None,
            })
            .await?;
            self.enter(RunState::WaitingForTools);
        }
        let round = open.round().clone();
        self.history.extend(open.into_history());
        self.announce(StateCause::ToolRoundSettled(round)).await
    }

    /// Answers every call of a round that the person left behind; none of them is executed again. A call that had its
    /// result keeps it; the outcome of the others is unknown, and the model is told so.
    async fn answer_interrupted(&mut self, pending: PendingAssistant) -> Result<(), Halt> {
        let stored = match &pending.round {
            Some(round) => self.store.round_results(&self.run.conversation, round).await?,
            None => Vec::new(),
        };
        let round = self.restore_round(pending);
        self.store.begin_tool_round(&round).await?;
        let mut open = OpenToolRound::new(round.clone());
        for result in stored
            .into_iter()
            .filter(|result| round.calls.iter().any(|call| call.id == result.call))
        {
            self.commit_result(&mut open, result).await?;
        }
        for call in &round.calls {
            if open.waits_for(&call.id) {
                let result = ToolResult {
                    call: call.id.clone(),
                    content: INTERRUPTED.into(),
                    is_error: true,
                };
                self.commit_result(&mut open, result).await?;
            }
        }
        self.history.extend(open.into_history());
        Ok(())
    }

    async fn commit_result(&mut self, open: &mut OpenToolRound, result: ToolResult) -> Result<(), Halt> {
        open.accept(&result)?;
        let committed = self
            .store
            .commit_tool_result(&self.run.id, &self.head, &open.round().id, &result)
            .await?;
        debug_assert_eq!(committed.settled, open.is_settled());
        self.head = committed.revision;
        tracing::debug!(call = %result.call, is_error = result.is_error, revision = %self.head, "result committed");
        Ok(())
    }

    /// Appends what happened meanwhile, now that the history may grow.
    async fn commit_runtime_events(&mut self) -> Result<(), Halt> {
        if self.runtime_events.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut self.runtime_events);
        self.append(events).await?;
        self.announce(StateCause::RuntimeEvents).await
    }

    /// Commits messages in one transaction and lets the model's view grow by those that are new.
    async fn append(&mut self, messages: Vec<Message>) -> Result<(), Halt> {
        let before = self.store.history(&self.head).await?.len();
        self.head = self.store.append(&self.run.id, &self.head, &messages).await?;
        let stored = self.store.history(&self.head).await?;
        let new = project(stored.iter().skip(before).map(AsRef::as_ref))
            .map_err(|error| RunFailure::Store(format!("appended messages are not whole: {error}")))?;
        self.history.extend(new);
        Ok(())
    }

    /// Tells the client of a durable state and waits until it holds it.
    async fn announce(&mut self, cause: StateCause) -> Result<(), Halt> {
        let items = self.history.items();
        let appended = items.get(self.unannounced..).unwrap_or_default().to_vec();
        self.unannounced = items.len();
        let (barrier, wait) = barrier();
        self.emit(ClientEvent::StateCommitted {
            revision: self.head.clone(),
            cause,
            appended,
            barrier: Some(barrier),
        })
        .await?;
        Ok(self.listen(wait.released()).await??)
    }

    async fn emit(&mut self, event: ClientEvent) -> Result<(), Halt> {
        tokio::select! {
            biased;
            () = self.port.cancel.cancelled() => Err(Halt::Cancelled),
            sent = self.port.events.send(event) => {
                sent.map_err(|_| RunFailure::Client("the client went away".to_owned()).into())
            }
        }
    }

    async fn next_result(&mut self) -> Result<ToolResult, Halt> {
        loop {
            if let Some(result) = self.results.pop_front() {
                return Ok(result);
            }
            tokio::select! {
                biased;
                () = self.port.cancel.cancelled() => return Err(Halt::Cancelled),
                command = self.port.commands.recv() => self.take(command)?,
            }
        }
    }

    /// Waits for something while the client may speak.
    async fn listen<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Halt> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.port.cancel.cancelled() => return Err(Halt::Cancelled),
                command = self.port.commands.recv() => self.take(command)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    fn take(&mut self, command: Option<ClientCommand>) -> Result<(), Halt> {
        match command {
            Some(ClientCommand::ToolResult(result)) => self.results.push_back(result),
            Some(ClientCommand::RuntimeEvent(message)) => {
                // Whoever tells of an event, it is told once.
                if !self.knows(&message) {
                    self.runtime_events.push(message);
                }
            }
            Some(ClientCommand::Cancel) => return Err(Halt::Cancelled),
            Some(ClientCommand::ClientClosed(failure)) => return Err(failure.into()),
            None => return Err(RunFailure::Client("the client went away".to_owned()).into()),
        }
        Ok(())
    }

    /// Whether the history holds the event of this message, or is about to.
    fn knows(&self, message: &Message) -> bool {
        let MessageBody::User { origin, .. } = &message.body else {
            return false;
        };
        let held =
            self.history.items().iter().any(
                |item| matches!(item.as_ref(), HistoryItem::User { origin: held, .. } if held == origin),
            );
        let waiting = self.runtime_events.iter().any(
            |waiting| matches!(&waiting.body, MessageBody::User { origin: waiting, .. } if waiting == origin),
        );
        held || waiting
    }

    fn enter(&mut self, to: RunState) {
        self.lifecycle.enter(to, self.provider_call_index, &self.head);
    }
}
