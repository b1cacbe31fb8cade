//! Subagents in the background: the ones whose end a history has not been told of yet, and how they ended.
//!
//! The official client tells nobody when such a subagent ends [sdk], so the parent is told from the records of the
//! subagent's own runs; where a client does tell, it is the same event and is told once. Must never know: who waits.

use crate::cursor::proto::agent::{
    BackgroundTaskCompletion, BackgroundTaskCompletionAction, BackgroundTaskCompletionReason,
    BackgroundTaskKind, BackgroundTaskStatus,
};
use crate::model::{ConversationId, Delegation, Message, MessageBody, UserOrigin};
use crate::store::{RecordedOutcome, Store, StoreError};

use super::background::event_of_call;

/// The conversation's delegations that stand in this history and whose end does not.
///
/// # Errors
/// If the database fails.
pub async fn open_delegations(
    store: &Store,
    conversation: &ConversationId,
    history: &[&Message],
) -> Result<Vec<Delegation>, StoreError> {
    let mut open: Vec<Delegation> = Vec::new();
    for delegation in store.delegations(conversation).await? {
        let begun = history.iter().any(|message| {
            matches!(&message.body, MessageBody::ToolResult { result, .. } if result.call == delegation.call)
        });
        let event = event_of_call(delegation.call.as_str());
        let told = history.iter().any(|message| {
            matches!(&message.body, MessageBody::User { origin: UserOrigin::Turn { event_id }, .. } if **event_id == event)
        });
        if delegation.background && begun && !told {
            // A call that was made anew on another branch belongs to the child that it started last.
            open.retain(|other| other.call != delegation.call);
            open.push(delegation);
        }
    }
    Ok(open)
}

/// Takes out the delegations whose work has ended, as the completions that tell of it.
///
/// # Errors
/// If the database fails.
pub async fn take_ended(
    store: &Store,
    open: &mut Vec<Delegation>,
) -> Result<BackgroundTaskCompletionAction, StoreError> {
    let mut completions = Vec::new();
    let mut going_on = Vec::new();
    for delegation in open.drain(..) {
        match end_of(store, &delegation).await? {
            Some(completion) => completions.push(completion),
            None => going_on.push(delegation),
        }
    }
    *open = going_on;
    Ok(BackgroundTaskCompletionAction { completions })
}

/// How the delegated work ended. None while it goes on, or has not begun.
async fn end_of(
    store: &Store,
    delegation: &Delegation,
) -> Result<Option<BackgroundTaskCompletion>, StoreError> {
    let runs = store.runs_of(&delegation.child).await?;
    let run = runs
        .into_iter()
        .find(|run| run.started_at_ms >= delegation.since_ms);
    let Some(outcome) = run.and_then(|run| run.outcome) else {
        return Ok(None);
    };
    let (status, words) = match outcome {
        RecordedOutcome::Completed => (
            BackgroundTaskStatus::Success,
            last_words(store, &delegation.child).await?,
        ),
        RecordedOutcome::Cancelled => (BackgroundTaskStatus::Aborted, None),
        RecordedOutcome::Failed(failure) => (BackgroundTaskStatus::Error, Some(failure.cause)),
        RecordedOutcome::Interrupted => (
            BackgroundTaskStatus::Error,
            Some("The server stopped while the subagent worked.".to_owned()),
        ),
    };
    Ok(Some(BackgroundTaskCompletion {
        task_id: delegation.child.to_string(),
        kind: BackgroundTaskKind::Subagent.into(),
        status: status.into(),
        detail: words,
        reason: BackgroundTaskCompletionReason::TaskFinished.into(),
        subagent_id: Some(delegation.child.to_string()),
        tool_call_id: Some(delegation.call.to_string()),
        ..BackgroundTaskCompletion::default()
    }))
}

/// The text of the conversation's last message, if that is an answer.
async fn last_words(store: &Store, conversation: &ConversationId) -> Result<Option<String>, StoreError> {
    let Some(head) = store.head(conversation).await? else {
        return Ok(None);
    };
    let history = store.history(&head).await?;
    let last = history.iter().last().map(|message| &message.body);
    Ok(match last {
        Some(MessageBody::Assistant(said)) if !said.text.is_empty() => Some(said.text.to_string()),
        _ => None,
    })
}
