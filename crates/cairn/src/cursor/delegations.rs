//! The subagents that work in the background of one run, and the moment at which each of them has ended.
//!
//! Owns which of them the run has still to be told of. Must never know: how the run is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::proto::agent::BackgroundTaskCompletionAction;
use super::request::{completion_messages, inherit, new_completions, take_ended, whole_history};
use crate::model::{ConversationId, Delegation, Message, RunFailure};
use crate::run::RunRegistry;
use crate::store::Store;

/// The subagents that work in the background of one run.
#[derive(Debug)]
pub struct Delegations {
    store: Arc<Store>,
    registry: RunRegistry,
    conversation: ConversationId,
    /// Conversations in which a run has ended.
    ends: Receiver<ConversationId>,
    open: Vec<Delegation>,
    /// Most characters of a subagent's words that enter the history.
    limit: usize,
}

impl Delegations {
    /// The ones that earlier runs of the conversation left behind; what ends from now on is noticed. Of each one's words
    /// `limit` characters enter the history at most.
    pub fn new(
        store: Arc<Store>,
        registry: &RunRegistry,
        conversation: ConversationId,
        open: Vec<Delegation>,
        limit: usize,
    ) -> Self {
        Self {
            store,
            conversation,
            ends: registry.ends(),
            registry: registry.clone(),
            open,
            limit,
        }
    }

    /// One more has begun, or has begun and ended. It is durable when this returns, and so is that the run is told of
    /// what it left behind.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn begun(&mut self, delegation: Delegation) -> Result<(), RunFailure> {
        self.store
            .note_delegation(&self.conversation, &delegation)
            .await?;
        if delegation.background {
            self.open.push(delegation);
        } else {
            let Delegation { call, child, .. } = &delegation;
            let left = inherit(&self.store, &self.conversation, call, child).await?;
            self.open.extend(left);
        }
        Ok(())
    }

    /// The conversations that are at work now: those in which a run goes on or is about to, and the ones whose end the run
    /// is still to be told of. A client may start a subagent in the background and let its run come later.
    pub fn at_work(&self) -> BTreeSet<String> {
        let told_later = self.open.iter().map(|open| open.child.to_string());
        let coming = self.registry.coming();
        told_later.chain(coming.iter().map(ToString::to_string)).collect()
    }

    /// What of the client's own news the conversation has not been told yet.
    ///
    /// # Errors
    /// A protocol failure if a completion names nothing; if the database fails.
    pub async fn news(&self, action: &BackgroundTaskCompletionAction) -> Result<Vec<Message>, RunFailure> {
        let Some(head) = self.store.head(&self.conversation).await? else {
            return Ok(completion_messages(action, self.limit)?);
        };
        let whole = whole_history(&self.store, &head).await?;
        Ok(new_completions(
            whole.iter().map(AsRef::as_ref),
            action,
            self.limit,
        )?)
    }

    /// Waits until one of them may have ended. Never returns while there is none.
    pub async fn may_have_ended(&mut self) {
        loop {
            match self.ends.recv().await {
                Ok(conversation) if self.open.iter().any(|open| open.child == conversation) => return,
                // More ended than could be noted here: it may have been any.
                Err(RecvError::Lagged(_)) if !self.open.is_empty() => return,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// What the run has to be told of those that have ended, each once.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn take_ended(&mut self) -> Result<Vec<Message>, RunFailure> {
        // While the run goes on, one that has not begun may still begin.
        let ended = take_ended(&self.store, &self.conversation, &mut self.open, |_| false).await?;
        Ok(completion_messages(&ended, self.limit)?)
    }
}
