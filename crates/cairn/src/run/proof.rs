//! The proof that each request extends the one before it: every body that goes out is held against its predecessor.
//!
//! The predecessor is the latest request of the conversation to the same lineage. A difference must be explained by a
//! reset that somebody declared: by a revision, by the prompt's change, by the endpoint's settings, by the adapter. What
//! nobody declared is a defect. Must never know: what an item says, or how an endpoint is spoken to.

use crate::model::{
    CompactionTrigger, ConversationId, ItemKind, PrefixReset, PreparedRun, PromptChange, Repeats,
    RequestDigest, RevisionId, RunFailure, first_head_break, first_message_break, first_settled_break,
    shared_items,
};
use crate::store::{LatestModelCall, ModelCallEnd, NewModelCall, PrefixVerdict, Store, StoreError};

/// What is done about a request that breaks its prefix although nobody declared a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixBreaks {
    /// It is logged and counted, and the request goes out: the person's work matters more than the cache.
    Report,
    /// The run fails before the request goes out. For tests.
    Fail,
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    /// Zero-based index of the call in its run.
    pub(super) index: u32,
    /// The head that its history stands for.
    pub(super) revision: &'a RevisionId,
    /// What is sent.
    pub(super) digest: &'a RequestDigest,
    /// It asks for something beside the conversation: it extends its predecessor or asks about a part of it, and is
    /// nobody's predecessor.
    pub(super) beside: bool,
}

/// The predecessor of the run's next request.
#[derive(Debug)]
pub(super) struct Proof {
    breaks: PrefixBreaks,
    /// Absent until the first request; then the latest call of the run's lineage, if there is one.
    before: Option<Option<LatestModelCall>>,
}

impl Proof {
    pub(super) fn new(breaks: PrefixBreaks) -> Self {
        Self { breaks, before: None }
    }

    /// Records a request that is about to be sent and holds it against its predecessor. `previous` is how the run's call
    /// before ended.
    ///
    /// # Errors
    /// What the store says; and in [`PrefixBreaks::Fail`] a break that no declared reset explains.
    pub(super) async fn record(
        &mut self,
        store: &Store,
        run: &PreparedRun,
        outgoing: Outgoing<'_>,
        previous: Option<ModelCallEnd>,
    ) -> Result<(), RecordError> {
        let Outgoing {
            index,
            revision,
            digest: sent,
            beside,
        } = outgoing;
        let before = match self.before.take() {
            Some(before) => before,
            None => store.latest_model_call(&run.conversation, &sent.lineage).await?,
        };
        let kept = before
            .as_ref()
            .map_or(0, |before| shared_items(&before.items, &sent.items));
        let verdict = judge(store, run, outgoing, before.as_ref()).await?;
        let added = sent.items.get(kept..).unwrap_or_default();
        let call = NewModelCall {
            run: &run.id,
            index,
            revision,
            lineage: &sent.lineage,
            settings: sent.settings,
            kept,
            added,
            beside,
            without_reasoning: sent.without_reasoning,
            verdict,
        };
        let key = store.record_model_call(&call, previous).await?;
        self.before = Some(match beside {
            true => before,
            false => Some(LatestModelCall {
                key,
                revision: revision.clone(),
                settings: sent.settings,
                items: sent.items.clone(),
                refusal_unsettled: sent.without_reasoning,
            }),
        });
        match verdict {
            PrefixVerdict::Extends => Ok(()),
            PrefixVerdict::Reset(reset) => {
                tracing::info!(
                    run = %run.id,
                    provider_call_index = index,
                    reset = reset.as_str(),
                    shared_items = kept,
                    "the prefix begins anew"
                );
                Ok(())
            }
            PrefixVerdict::Broken { item } => self.broken(run, index, item, sent),
        }
    }

    /// Notes that the latest request got its whole answer.
    pub(super) fn answered(&mut self) {
        if let Some(Some(before)) = &mut self.before {
            before.refusal_unsettled = false;
        }
    }

    fn broken(
        &self,
        run: &PreparedRun,
        index: u32,
        item: usize,
        sent: &RequestDigest,
    ) -> Result<(), RecordError> {
        let kind = sent.items.get(item).map_or("end", |item| item.kind.as_str());
        let number = number_of(sent, item);
        tracing::error!(
            run = %run.id,
            conversation = %run.conversation,
            provider_call_index = index,
            item,
            kind,
            number,
            "a request does not extend its predecessor, and no declared reset explains it"
        );
        match self.breaks {
            PrefixBreaks::Report => Ok(()),
            PrefixBreaks::Fail => Err(RecordError::Broken(RunFailure::Store(format!(
                "request {index} of run {} does not extend its predecessor: item {item} ({kind} {number}) differs and no \
                 declared reset explains it",
                run.id
            )))),
        }
    }
}

/// Why a request was not recorded as one that may go out.
#[derive(Debug)]
pub(super) enum RecordError {
    Store(StoreError),
    Broken(RunFailure),
}

impl From<StoreError> for RecordError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Which one of its kind an item is, from zero.
fn number_of(sent: &RequestDigest, item: usize) -> usize {
    let kind = sent.items.get(item).map_or(ItemKind::Message, |item| item.kind);
    let earlier = sent.items.iter().take(item);
    earlier.filter(|earlier| earlier.kind == kind).count()
}

/// Holds a request against its predecessor. What was declared is looked up only where there is something to explain.
async fn judge(
    store: &Store,
    run: &PreparedRun,
    outgoing: Outgoing<'_>,
    before: Option<&LatestModelCall>,
) -> Result<PrefixVerdict, StoreError> {
    let sent = outgoing.digest;
    let Some(before) = before else {
        return first_of_lineage(store, &run.conversation, sent).await;
    };
    let repeats = match outgoing.beside {
        false => Repeats::Everything,
        true => Repeats::APart,
    };
    let head = first_head_break(&before.items, &sent.items);
    let message = first_message_break(&before.items, &sent.items, repeats);
    // Tools and instructions are the prompt's alone: nothing but its change explains others.
    let head = match head {
        None => None,
        Some(item) => match explanation(&store.prompt_changes_since(before).await?) {
            Some(change) => Some(PrefixReset::Prompt(change)),
            None => return Ok(PrefixVerdict::Broken { item }),
        },
    };
    let message = match message {
        None => None,
        Some(item) => match rewritten(store, outgoing, before, repeats, item).await? {
            Ok(reset) => Some(reset),
            Err(item) => return Ok(PrefixVerdict::Broken { item }),
        },
    };
    Ok(message
        .or(head)
        .map_or(PrefixVerdict::Extends, PrefixVerdict::Reset))
}

/// Why messages are not those of the predecessor, from this item on; or the first item that nothing explains. Settings and
/// a refusal of reasoning explain only what they decide of a message, and a changed prompt explains no message at all.
async fn rewritten(
    store: &Store,
    outgoing: Outgoing<'_>,
    before: &LatestModelCall,
    repeats: Repeats,
    item: usize,
) -> Result<Result<PrefixReset, usize>, StoreError> {
    let (sent, revision) = (outgoing.digest, outgoing.revision);
    if !store.is_in_history(&before.revision, revision).await? {
        return left_behind(store, before, revision).await.map(Ok);
    }
    let reset = if before.settings != sent.settings {
        PrefixReset::SettingsChange
    // A refusal that was never answered is not kept, so the reasoning goes out once more.
    } else if sent.without_reasoning || before.refusal_unsettled {
        PrefixReset::ReasoningRefused
    } else {
        return Ok(Err(item));
    };
    let unexplained = first_settled_break(&before.items, &sent.items, repeats);
    Ok(unexplained.map_or(Ok(reset), Err))
}

/// Why the predecessor's history is no part of this one: it was compacted into its beginning, or left for another branch.
async fn left_behind(
    store: &Store,
    before: &LatestModelCall,
    revision: &RevisionId,
) -> Result<PrefixReset, StoreError> {
    let mut at = revision.clone();
    while let Some(compaction) = store.compaction_behind(&at).await? {
        if store
            .is_in_history(&before.revision, &compaction.archived)
            .await?
        {
            return Ok(match compaction.trigger {
                CompactionTrigger::Shortening => PrefixReset::Shortening,
                CompactionTrigger::Threshold | CompactionTrigger::Refusal | CompactionTrigger::Manual => {
                    PrefixReset::Compaction
                }
            });
        }
        at = compaction.archived;
    }
    Ok(PrefixReset::Branch)
}

async fn first_of_lineage(
    store: &Store,
    conversation: &ConversationId,
    sent: &RequestDigest,
) -> Result<PrefixVerdict, StoreError> {
    Ok(
        match store.has_other_lineage(conversation, &sent.lineage).await? {
            true => PrefixVerdict::Reset(PrefixReset::ModelSwitch),
            false => PrefixVerdict::Extends,
        },
    )
}

/// The change that is named where several came together: the newest one.
fn explanation(newest_first: &[PromptChange]) -> Option<PromptChange> {
    newest_first.first().copied()
}
