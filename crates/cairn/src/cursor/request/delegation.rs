//! Subagents in the background: the ones whose end a conversation has not been told of yet, and how they ended.
//!
//! The official client tells nobody when such a subagent ends [sdk], so the conversation is told from the records of the
//! subagent's own runs; where a client does tell, it is the same event and is told once. What a subagent that has ended
//! left behind in the background, the conversation that it worked for is told of. Must never know: who waits.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::archive::archived_events;
use super::background::event_of_call;
use super::hydrate::{fetch_messages, fetch_turns, references};
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::ClientState;
use crate::cursor::proto::agent::{
    BackgroundTaskCompletion, BackgroundTaskCompletionAction, BackgroundTaskCompletionReason,
    BackgroundTaskKind, BackgroundTaskStatus, ConversationStep, conversation_step,
};
use crate::cursor::tools::{TASK_TOOL, background_delegation};
use crate::model::{
    CallId, ConversationId, Delegation, DelegationOrigin, Message, MessageBody, RevisionId, RunFailure,
    UserOrigin,
};
use crate::store::{RecordedOutcome, Store, StoreError};

const STOPPED: &str = "It was stopped before it had finished. What it did up to then stays done.";
const SERVER_STOPPED: &str = "The server stopped while it worked. What it did up to then stays done.";
const NO_RECORD: &str = "No run of it is on record here: it never began, or its record was lost.";

/// All messages of a history, those included that a summary stands for: what happened is not undone by being summarised.
///
/// # Errors
/// If the database fails.
pub async fn whole_history(store: &Store, revision: &RevisionId) -> Result<Vec<Arc<Message>>, StoreError> {
    let mut revision = revision.clone();
    let mut whole = store.history(&revision).await?.to_vec();
    while let Some(compaction) = store.compaction_behind(&revision).await? {
        revision = compaction.archived;
        whole.extend(store.history(&revision).await?.iter().cloned());
    }
    Ok(whole)
}

/// The delegations that the conversation is to be told the end of: their calls stand in the history, and their end does not.
///
/// # Errors
/// If the database fails.
pub async fn open_delegations(
    store: &Store,
    conversation: &ConversationId,
    revision: &RevisionId,
) -> Result<Vec<Delegation>, StoreError> {
    let mut delegations = store.delegations(conversation).await?;
    delegations.retain(|delegation| delegation.background);
    if delegations.is_empty() {
        return Ok(delegations);
    }
    let history = whole_history(store, revision).await?;
    let results: HashSet<&CallId> = history.iter().filter_map(|message| result_of(message)).collect();
    let events: HashSet<&str> = history.iter().filter_map(|message| event_of(message)).collect();
    let mut open: Vec<Delegation> = Vec::new();
    for delegation in delegations {
        let told = events.contains(event_of_call(&name_of(&delegation)).as_str());
        if results.contains(&delegation.call) && !told {
            // A call that was made anew on another branch belongs to the child that it started last.
            open.retain(|other| name_of(other) != name_of(&delegation));
            open.push(delegation);
        }
    }
    Ok(open)
}

/// The call whose result a message is.
fn result_of(message: &Message) -> Option<&CallId> {
    match &message.body {
        MessageBody::ToolResult { result, .. } => Some(&result.call),
        _ => None,
    }
}

/// The event that a message tells of.
pub(super) fn event_of(message: &Message) -> Option<&str> {
    match &message.body {
        MessageBody::User {
            origin: UserOrigin::Turn { event_id },
            ..
        } => Some(event_id),
        _ => None,
    }
}

/// What the end of a delegation is known by in the conversation that is told of it.
fn name_of(delegation: &Delegation) -> String {
    match &delegation.origin {
        DelegationOrigin::Own => delegation.call.to_string(),
        DelegationOrigin::Inherited { conversation, call } => format!("{conversation}/{call}"),
    }
}

/// Takes out the delegations whose work has ended, as the completions that tell of it. What they left behind in the
/// background takes their place. Where no run of a child is on record, `never_comes` says whether none will be.
///
/// # Errors
/// If the database fails.
pub async fn take_ended(
    store: &Store,
    conversation: &ConversationId,
    open: &mut Vec<Delegation>,
    never_comes: impl Fn(&ConversationId) -> bool,
) -> Result<BackgroundTaskCompletionAction, StoreError> {
    let mut completions = Vec::new();
    let mut going_on = Vec::new();
    let mut looked_for: VecDeque<Delegation> = std::mem::take(open).into();
    while let Some(delegation) = looked_for.pop_front() {
        match end_of(store, &delegation).await? {
            Work::Ended(status, words) => {
                looked_for.extend(inherit(store, conversation, &delegation.call, &delegation.child).await?);
                completions.push(completion(&delegation, status, words));
            }
            Work::NotBegun if never_comes(&delegation.child) => {
                let words = Some(NO_RECORD.to_owned());
                completions.push(completion(&delegation, BackgroundTaskStatus::Error, words));
            }
            Work::NotBegun | Work::GoesOn => going_on.push(delegation),
        }
    }
    *open = going_on;
    Ok(BackgroundTaskCompletionAction { completions })
}

/// What a child that has ended was still to be told of: from now on that is its parent's, to which this call belongs.
///
/// # Errors
/// If the database fails.
pub async fn inherit(
    store: &Store,
    heir: &ConversationId,
    call: &CallId,
    child: &ConversationId,
) -> Result<Vec<Delegation>, StoreError> {
    let Some(head) = store.head(child).await? else {
        return Ok(Vec::new());
    };
    let mut inherited = Vec::new();
    for delegation in open_delegations(store, child, &head).await? {
        inherited.push(store.hand_over(child, delegation, heir, call).await?);
    }
    Ok(inherited)
}

/// Notes what a history that was taken over from the client left in the background, as its turns show it: the notes of
/// its own were lost with the database. Returns the delegations that the conversation was never told the end of and whose
/// calls a summary stands for: the history itself does not show them any more.
///
/// # Errors
/// If a blob that the turns name is missing or false, or the database fails.
pub(super) async fn note_taken_over(
    store: &Store,
    conversation: &ConversationId,
    history: &[Arc<Message>],
    state: &ClientState,
    blobs: &BlobSync,
) -> Result<Vec<Delegation>, RunFailure> {
    let is_task = |message: &Arc<Message>| matches!(&message.body, MessageBody::ToolCall { call, .. } if *call.name == *TASK_TOOL);
    let summarised = !state.summary_archives.is_empty();
    if !summarised && !history.iter().any(is_task) {
        return Ok(Vec::new());
    }
    let mut ids = Vec::new();
    for turn in fetch_turns(blobs, &state.turns).await?.into_iter().flatten() {
        ids.extend(references(&turn.steps, "steps")?);
    }
    let steps: Vec<ConversationStep> = fetch_messages(blobs, &ids, "steps").await?;
    let mut open = Vec::new();
    for step in &steps {
        if let Some(conversation_step::Message::ToolCall(card)) = &step.message
            && let Some(delegation) = background_delegation(card)
        {
            store.note_delegation(conversation, &delegation).await?;
            open.push(delegation);
        }
    }
    let shown: HashSet<&CallId> = history.iter().filter_map(|message| result_of(message)).collect();
    open.retain(|delegation| !shown.contains(&delegation.call));
    if !open.is_empty() {
        let archived = archived_events(state, blobs).await?;
        let events: HashSet<&str> = history.iter().filter_map(|message| event_of(message)).collect();
        open.retain(|delegation| {
            let end = event_of_call(&name_of(delegation));
            !events.contains(end.as_str()) && !archived.contains(end.as_str())
        });
    }
    Ok(open)
}

/// How delegated work stands.
enum Work {
    NotBegun,
    GoesOn,
    Ended(BackgroundTaskStatus, Option<String>),
}

async fn end_of(store: &Store, delegation: &Delegation) -> Result<Work, StoreError> {
    let runs = store.runs_of(&delegation.child).await?;
    let mut since = runs
        .into_iter()
        .skip_while(|run| run.started_at_ms < delegation.since_ms);
    let Some(run) = since.next() else {
        return Ok(Work::NotBegun);
    };
    Ok(match run.outcome {
        None => Work::GoesOn,
        Some(RecordedOutcome::Completed) => {
            // Whoever went on with the conversation since then went on from where this work had left it.
            let left = match since.next() {
                Some(later) => Some(later.base),
                None => store.head(&delegation.child).await?,
            };
            Work::Ended(BackgroundTaskStatus::Success, last_words(store, left).await?)
        }
        Some(RecordedOutcome::Cancelled) => {
            Work::Ended(BackgroundTaskStatus::Aborted, Some(STOPPED.to_owned()))
        }
        Some(RecordedOutcome::Failed(failure)) => {
            Work::Ended(BackgroundTaskStatus::Error, Some(failure.cause))
        }
        Some(RecordedOutcome::Interrupted) => {
            Work::Ended(BackgroundTaskStatus::Error, Some(SERVER_STOPPED.to_owned()))
        }
    })
}

fn completion(
    delegation: &Delegation,
    status: BackgroundTaskStatus,
    words: Option<String>,
) -> BackgroundTaskCompletion {
    let title = match &delegation.origin {
        DelegationOrigin::Own => String::new(),
        DelegationOrigin::Inherited { conversation, .. } => {
            format!("Started by the subagent {conversation}, which has ended.")
        }
    };
    BackgroundTaskCompletion {
        task_id: delegation.child.to_string(),
        kind: BackgroundTaskKind::Subagent.into(),
        status: status.into(),
        title,
        detail: words,
        reason: BackgroundTaskCompletionReason::TaskFinished.into(),
        subagent_id: Some(delegation.child.to_string()),
        tool_call_id: Some(name_of(delegation)),
        ..BackgroundTaskCompletion::default()
    }
}

/// The text of the history's last message, if that is an answer.
async fn last_words(store: &Store, revision: Option<RevisionId>) -> Result<Option<String>, StoreError> {
    let Some(revision) = revision else {
        return Ok(None);
    };
    let history = store.history(&revision).await?;
    let last = history.iter().last().map(|message| &message.body);
    Ok(match last {
        Some(MessageBody::Assistant(said)) if !said.text.is_empty() => Some(said.text.to_string()),
        _ => None,
    })
}
