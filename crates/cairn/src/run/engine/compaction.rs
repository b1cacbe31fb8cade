//! Compaction: when a run has its history summarised, what stays of it word for word, and what happens if that fails.
//!
//! A summary is asked for with the history as it is and one instruction behind it, so that the request extends the one
//! before. The history then begins anew: the latest request context, the summary, the messages of the current turn, and
//! what the summary does not cover. Where that does not help against a refusal, what is too long by itself is shortened,
//! in the same way and as often as there are steps (see `shortening`). Must never know: how the instruction is worded, or where the sizes come from.

use std::collections::HashSet;
use std::sync::Arc;

use super::kept::{Kept, halved, is_said_by_person, stored_length, tells_of};
use super::shortening::{Shortened, Step, Untouched, length_of, shorten};
use super::{Engine, Purpose};
use crate::client::{ClientEvent, StateCause};
use crate::model::{
    CompactionSpec, CompactionTrigger, ConversationSize, HistoryItem, MeasuredHistory, Message, MessageBody,
    MessageId, Part, ProviderFailure, ProviderFault, RunAction, RunFailure, UserOrigin, estimate_answer,
    estimate_history, estimate_prompt, project,
};
use crate::run::lifecycle::{Halt, RunState};
use crate::run::model_cycle::{ModelCycleFailure, ModelOutput};

/// A history that no summary brings below the threshold is compacted again when it has grown by this part of the
/// threshold: less would cost a summary for every few messages, more would come to the endpoint's refusal first.
const GROWTH_PARTS: u64 = 16;

/// How often a history is summarised for one answer at most. Each summary is of what the model can hold; what is still too
/// much after so many is shortened.
const SUMMARIES_PER_ANSWER: usize = 8;

/// What a run knows about the size of its history.
#[derive(Debug, Default)]
pub(super) struct Compactor {
    /// What the last model call held and said; absent right after a compaction.
    size: Option<ConversationSize>,
    /// How many items of the history the size counts, the answer left out.
    measured: usize,
    /// What the first model call after the latest compaction held and said, in tokens.
    after_compaction: Option<u64>,
    /// A compaction of all that could be summarised waits for its first model call to be measured. Holds what the
    /// compaction before came to.
    unmeasured: Option<Option<u64>>,
    /// A compaction by size failed in this run; another try would fail alike after every round.
    gave_up: bool,
    /// What was done about refusals since the last answer.
    refusals: Refusals,
}

/// What was done about a history that is refused as too long, until an answer comes. Each summary takes something away,
/// and no step of shortening is taken twice.
#[derive(Debug, Default)]
struct Refusals {
    /// How often a summary was asked for.
    summaries: usize,
    /// How many steps of shortening were taken or would have changed nothing.
    steps: usize,
}

impl Compactor {
    pub(super) fn new(spec: Option<&CompactionSpec>) -> Self {
        let base = spec.and_then(|spec| spec.base);
        Self {
            size: base.map(|base| base.size),
            after_compaction: base.and_then(|base| base.after_compaction),
            ..Self::default()
        }
    }

    /// The run's base history has so many items, all of which its size counts.
    pub(super) fn count_base(&mut self, items: usize) {
        self.measured = items;
    }

    /// The size from which on the history is compacted: the threshold, or a little more than what the latest compaction
    /// came to if that was no less. Follows from what the client's state tells, with and without our database.
    fn limit(&self, threshold: u64) -> u64 {
        match self.after_compaction {
            Some(after) if after >= threshold => {
                after.saturating_add(threshold / GROWTH_PARTS).max(after + 1)
            }
            Some(_) | None => threshold,
        }
    }
}

/// Why a history stays as it is.
enum NotCompacted {
    /// Nothing in it could be left out.
    NothingToLeaveOut,
    /// No summary came.
    NoSummary(ProviderFailure),
}

impl Engine<'_> {
    /// Compacts the history if its reported size has passed the threshold. If that fails, the run goes on as it is.
    pub(super) async fn compact_if_large(&mut self) -> Result<(), Halt> {
        let Some(spec) = &self.run.compaction else {
            return Ok(());
        };
        let (Some(threshold), Some(size)) = (spec.threshold, self.compactor.size) else {
            return Ok(());
        };
        if size.tokens() < self.compactor.limit(threshold) || self.compactor.gave_up {
            return Ok(());
        }
        let cuts = cuts_of_all(self.history.items());
        match self.compact(spec, CompactionTrigger::Threshold, &cuts).await? {
            Ok(()) => {}
            Err(NotCompacted::NoSummary(failure)) => {
                self.compactor.gave_up = true;
                self.tell_of_no_summary(&failure).await?;
            }
            Err(NotCompacted::NothingToLeaveOut) => {
                self.compactor.gave_up = true;
                self.say_too_large(size, threshold).await?;
            }
        }
        Ok(())
    }

    /// Compacts a history that the endpoint refused as too long. Any other failure, or a refusal of what was just
    /// compacted, ends the run.
    pub(super) async fn compact_after_refusal(&mut self, failed: ModelCycleFailure) -> Result<(), Halt> {
        // After a part of the answer was shown, another answer would stand beside it.
        let refused = failed.failure.fault == ProviderFault::ContextLength
            && failed.partial_text == 0
            && failed.partial_reasoning == 0;
        let spec = match &self.run.compaction {
            Some(spec) if refused => spec,
            Some(_) | None => return Err(failed.failure.into()),
        };
        let mut no_summary = None;
        if self.compactor.refusals.summaries < SUMMARIES_PER_ANSWER {
            self.compactor.refusals.summaries += 1;
            let cuts = halved(self.history.items());
            match self.compact(spec, CompactionTrigger::Refusal, &cuts).await? {
                Ok(()) => return Ok(()),
                Err(NotCompacted::NothingToLeaveOut) => {}
                Err(NotCompacted::NoSummary(failure)) => no_summary = Some(failure),
            }
        }
        // A shorter history can be summarised although a longer one could not. All of it is given up only where its length
        // is the only trouble: another summary may come of it tomorrow.
        let steps = match no_summary.as_ref().map(|failure| failure.fault) {
            None | Some(ProviderFault::ContextLength) => Step::IN_ORDER.as_slice(),
            Some(fault) if blames_the_history(fault) => Step::SPARING.as_slice(),
            Some(_) => &[],
        };
        if self.shorten(spec, steps).await? {
            return Ok(());
        }
        if let Some(failure) = &no_summary {
            self.tell_of_no_summary(failure).await?;
        }
        Err(self.refused_for_good(spec, failed.failure).await?.into())
    }

    /// Begins the history anew with the messages that are too long shortened. Returns whether any was.
    async fn shorten(&mut self, spec: &CompactionSpec, steps: &[Step]) -> Result<bool, Halt> {
        let stored = self.store.history(&self.head).await?;
        // The person must know that the message was too long, so in the run that it begins it stays as it is.
        let own = self.own_message().cloned();
        let untouched = Untouched {
            message: own.as_ref(),
            standing: &self.run.standing,
        };
        let mut done = None;
        while let (None, Some(step)) = (&done, steps.get(self.compactor.refusals.steps)) {
            self.compactor.refusals.steps += 1;
            done = shorten(*step, &stored, untouched, spec.shortened_characters);
        }
        let Some(Shortened {
            context,
            summary,
            rest,
            account,
        }) = done
        else {
            return Ok(false);
        };
        self.enter(RunState::Compacting);
        // The call that was refused: each has a number of its own.
        let index = self.provider_call_index.saturating_sub(1);
        let note = Part::Text(spec.shortened.around(&account).into());
        let carrier = self.carrier(index, summary.into_iter().chain([note]).collect());
        let messages = context.into_iter().chain([carrier]).chain(rest).collect();
        self.restart(CompactionTrigger::Shortening, index, messages, account.into())
            .await?;
        Ok(true)
    }

    /// The failure that ends a run whose history the endpoint goes on to refuse.
    async fn refused_for_good(
        &self,
        spec: &CompactionSpec,
        refusal: ProviderFailure,
    ) -> Result<ProviderFailure, Halt> {
        let stored = self.store.history(&self.head).await?;
        let own = self.own_message();
        let is_to_blame = stored
            .iter()
            .rev()
            .take_while(|message| matches!(message.body, MessageBody::User { .. }))
            .any(|message| Some(&message.id) == own && length_of(message) > spec.shortened_characters);
        if !is_to_blame {
            return Ok(refusal);
        }
        Ok(ProviderFailure {
            fault: ProviderFault::MessageTooLong,
            message: format!(
                "Your message is too long for the model \"{}\", even with all that was said before it summarised. Send \
                 a shorter one, attach less, or choose a model with a larger context. The conversation goes on: from \
                 your next message on, the model sees the beginning and the end of this one.",
                self.run.model.model_id
            ),
            ..refusal
        })
    }

    /// The message that the person began this run with. None where an event did.
    fn own_message(&self) -> Option<&MessageId> {
        let messages = match &self.run.action {
            RunAction::Start { messages, .. } if !self.run.woken => messages,
            RunAction::Start { .. } | RunAction::Resume { .. } | RunAction::Compact { .. } => return None,
        };
        let last = messages.iter().rfind(|message| is_said_by_person(message));
        last.map(|message| &message.id)
    }

    /// Compacts the history because the person asked for it.
    pub(super) async fn compact_on_demand(&mut self) -> Result<(), Halt> {
        let Some(spec) = &self.run.compaction else {
            let fault = "the run is to summarise its history but brings no instruction for it";
            return Err(RunFailure::Protocol(fault.to_owned()).into());
        };
        let cuts = cuts_of_all(self.history.items());
        match self.compact(spec, CompactionTrigger::Manual, &cuts).await? {
            Ok(()) => Ok(()),
            Err(NotCompacted::NoSummary(failure)) => {
                self.tell_of_no_summary(&failure).await?;
                Err(failure.into())
            }
            Err(NotCompacted::NothingToLeaveOut) => {
                let text = "There is nothing to summarise yet; the conversation stays as it is.";
                self.emit(ClientEvent::Notice(text.into())).await
            }
        }
    }

    /// Takes what the endpoint reported for an answer: that is how large the history is now. Where it reported nothing,
    /// the size is estimated, from the last known one on if there is one.
    pub(super) async fn note_size(&mut self, output: &ModelOutput) -> Result<(), Halt> {
        // A history that is answered is short enough; it may outgrow the endpoint again.
        self.compactor.refusals = Refusals::default();
        let reported = output.usage.and_then(|usage| usage.size());
        let size = match reported {
            Some(tokens) => ConversationSize::Reported(tokens),
            None => self.estimate(output),
        };
        if size.is_estimate() {
            tracing::debug!(
                provider_call_index = self.provider_call_index.saturating_sub(1),
                estimated_tokens = size.tokens(),
                "the endpoint reported no usage; the conversation's size is an estimate"
            );
        }
        self.compactor.size = Some(size);
        self.compactor.measured = self.history.items().len();
        let mut told = None;
        if let Some(before) = self.compactor.unmeasured.take() {
            self.compactor.after_compaction = Some(size.tokens());
            let threshold = self.run.compaction.as_ref().and_then(|spec| spec.threshold);
            told = threshold
                .filter(|threshold| size.tokens() >= *threshold)
                // Whoever was told once that no summary helps knows it.
                .filter(|threshold| before.is_none_or(|before| before < *threshold));
        }
        self.emit(ClientEvent::Measured(MeasuredHistory {
            size,
            after_compaction: self.compactor.after_compaction,
        }))
        .await?;
        match told {
            Some(threshold) => self.say_too_large(size, threshold).await,
            None => Ok(()),
        }
    }

    /// What the call that was just answered held and said, for want of a better word.
    fn estimate(&self, output: &ModelOutput) -> ConversationSize {
        let items = self.history.items();
        let said = estimate_answer(&output.said, &output.calls);
        let held = match self.compactor.size {
            Some(known) => {
                let since = items.get(self.compactor.measured..).unwrap_or_default();
                // The answer to what was measured is part of that size.
                let since = match since.split_first() {
                    Some((first, rest)) if matches!(**first, HistoryItem::Assistant { .. }) => rest,
                    Some(_) | None => since,
                };
                known.tokens().saturating_add(estimate_history(since))
            }
            None => estimate_prompt(&self.run.prompt).saturating_add(estimate_history(items)),
        };
        ConversationSize::Estimated(held.saturating_add(said))
    }

    async fn say_too_large(&mut self, size: ConversationSize, threshold: u64) -> Result<(), Halt> {
        let about = if size.is_estimate() { "about " } else { "" };
        let text = format!(
            "The conversation holds {about}{} tokens, and no summary brings it below the {threshold} from which on cairn \
             summarises. It goes on as it is; a model with a larger context would help.",
            size.tokens()
        );
        self.emit(ClientEvent::Notice(text.into())).await
    }

    /// Begins the history anew with a summary of its first items: as many as one of the cuts says, the first one whose
    /// summary the endpoint does not refuse as too long.
    async fn compact(
        &mut self,
        spec: &CompactionSpec,
        trigger: CompactionTrigger,
        cuts: &[usize],
    ) -> Result<Result<(), NotCompacted>, Halt> {
        self.enter(RunState::Compacting);
        let stored = self.store.history(&self.head).await?;
        let mut why = NotCompacted::NothingToLeaveOut;
        let mut tried = None;
        for &cut in cuts {
            if tried.replace(cut) == Some(cut) {
                continue;
            }
            let covered = stored_length(self.history.items().get(..cut).unwrap_or_default());
            let Some(kept) = Kept::of(&stored, covered, &self.current_messages(trigger, &stored)) else {
                continue;
            };
            let index = self.provider_call_index;
            match self.summarise(spec, cut).await? {
                Ok(summary) => {
                    self.begin_anew(spec, trigger, index, kept, summary).await?;
                    return Ok(Ok(()));
                }
                Err(failure) => {
                    let too_long = failure.fault == ProviderFault::ContextLength;
                    why = NotCompacted::NoSummary(failure);
                    if !too_long {
                        break;
                    }
                }
            }
        }
        if let NotCompacted::NoSummary(failure) = &why {
            tracing::warn!(
                trigger = trigger.as_str(),
                fault = failure.fault.as_str(),
                "no summary came"
            );
        }
        Ok(Err(why))
    }

    async fn tell_of_no_summary(&mut self, failure: &ProviderFailure) -> Result<(), Halt> {
        let text = format!("The conversation could not be summarised and stays as it is: {failure}");
        self.emit(ClientEvent::CompactionFailed(text.into())).await
    }

    /// Asks the model for a summary of the first items of the history.
    async fn summarise(
        &mut self,
        spec: &CompactionSpec,
        cut: usize,
    ) -> Result<Result<Arc<str>, ProviderFailure>, Halt> {
        let instruction = HistoryItem::User {
            id: MessageId::summary_request(&self.run.id, self.provider_call_index),
            origin: UserOrigin::SummaryRequest,
            parts: vec![Part::Text(spec.instruction.clone())],
        };
        let covered = self.history.items().iter().take(cut).cloned();
        let history = covered.chain([Arc::new(instruction)]).collect();
        let output = match self.call_model(history, Purpose::Summary).await? {
            Ok(output) => output,
            Err(failed) => return Ok(Err(failed.failure)),
        };
        let missing = |text: &str| Ok(Err(ProviderFailure::new(ProviderFault::Malformed, text)));
        if !output.said.text.trim().is_empty() {
            // A call beside the summary is nobody's: it is not in the history, and nothing runs.
            Ok(Ok(output.said.text))
        } else if output.calls.is_empty() {
            missing("the model's summary was empty.")
        } else {
            missing("the model asked for tools instead of summarising; none of them was run.")
        }
    }

    async fn begin_anew(
        &mut self,
        spec: &CompactionSpec,
        trigger: CompactionTrigger,
        index: u32,
        kept: Kept,
        summary: Arc<str>,
    ) -> Result<(), Halt> {
        let text = spec.summary.around(&summary);
        let message = self.carrier(index, vec![Part::Text(text.into())]);
        let is_whole = kept
            .uncovered
            .iter()
            .all(|message| matches!(message.body, MessageBody::User { .. }));
        let messages: Vec<Message> = kept
            .context
            .into_iter()
            .chain([message])
            .chain(kept.current)
            .chain(kept.uncovered)
            .collect();
        let before = self.compactor.after_compaction;
        self.restart(trigger, index, messages, summary).await?;
        // A round that had to be left as it is says nothing about how small a summary makes the history.
        self.compactor.unmeasured = is_whole.then_some(before);
        Ok(())
    }

    /// The message that stands for what is no longer in the history.
    fn carrier(&self, index: u32, parts: Vec<Part>) -> Message {
        Message {
            id: MessageId::summary(&self.run.id, index),
            body: MessageBody::User {
                origin: UserOrigin::Summary {
                    event_id: format!("{}/{index}", self.run.id).into(),
                },
                parts,
            },
        }
    }

    /// Makes these messages the whole history and has the client hold it. `summary` is what the client shows of it.
    async fn restart(
        &mut self,
        trigger: CompactionTrigger,
        index: u32,
        messages: Vec<Message>,
        summary: Arc<str>,
    ) -> Result<(), Halt> {
        let items = project(&messages)
            .map_err(|error| RunFailure::Store(format!("the compacted history is not whole: {error}")))?;
        let archived = self.head.clone();
        self.head = self
            .store
            .compact(&self.run.id, &archived, trigger, index, &messages)
            .await?;
        let size = self.compactor.size.take();
        tracing::info!(
            trigger = trigger.as_str(),
            tokens = size.map(ConversationSize::tokens),
            estimated = size.is_some_and(ConversationSize::is_estimate),
            archived = %archived,
            revision = %self.head,
            "history compacted"
        );
        self.history.restart(items);
        self.unannounced = 0;
        self.compactor.after_compaction = None;
        self.compactor.unmeasured = None;
        self.announce(StateCause::Compacted { summary }).await
    }

    /// The messages of the current turn, which no summary stands for: those that the run began with, or those that it
    /// goes on with. Where the person only asked for a summary, no turn is current.
    fn current_messages(&self, trigger: CompactionTrigger, stored: &[Arc<Message>]) -> HashSet<MessageId> {
        let mut current: HashSet<MessageId> = match &self.run.action {
            RunAction::Start { messages, .. } if !messages.is_empty() => {
                messages.iter().map(|message| message.id.clone()).collect()
            }
            _ if trigger == CompactionTrigger::Manual => HashSet::new(),
            // All that was said since the last whole answer: beside the person's words, perhaps what happened meanwhile.
            RunAction::Start { .. } | RunAction::Resume { .. } | RunAction::Compact { .. } => {
                let answered = stored
                    .iter()
                    .rposition(|message| matches!(message.body, MessageBody::Assistant(_)));
                stored
                    .iter()
                    .skip(answered.map_or(0, |last| last + 1))
                    .filter(|message| is_said_by_person(message))
                    .map(|message| message.id.clone())
                    .collect()
            }
        };
        // What the agent is told of itself holds on, whoever goes on with it.
        let standing = stored
            .iter()
            .filter(|message| tells_of(message, &self.run.standing));
        current.extend(standing.map(|message| message.id.clone()));
        current
    }
}

/// How much of a history that nobody refused yet is summarised: all of it, or the most that its model can hold. What came
/// since the last call can be too much for one more request; so can all of it, if its model is another one.
fn cuts_of_all(items: &[Arc<HistoryItem>]) -> Vec<usize> {
    [items.len()].into_iter().chain(halved(items)).collect()
}

/// Whether a summary that did not come for this reason may come of a shorter history, or never does: a refusal for
/// other reasons says nothing about the history, and changing it would not help.
fn blames_the_history(fault: ProviderFault) -> bool {
    match fault {
        ProviderFault::ContextLength
        | ProviderFault::MessageTooLong
        | ProviderFault::Malformed
        | ProviderFault::OutputLimit
        | ProviderFault::Filtered => true,
        ProviderFault::Authentication
        | ProviderFault::Permission
        | ProviderFault::Quota
        | ProviderFault::NotFound
        | ProviderFault::InvalidRequest
        | ProviderFault::RateLimited
        | ProviderFault::Unavailable
        | ProviderFault::Connection
        | ProviderFault::Timeout
        | ProviderFault::Cut
        | ProviderFault::Unsupported => false,
    }
}
