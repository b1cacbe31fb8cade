//! Which run is active in each conversation of this process, so that a newer one can stop it.
//!
//! Owns only that index: who may write to a conversation is decided by the store. Must never know: what a run does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::model::{ConversationId, RunId};

/// The active run of each conversation.
#[derive(Clone, Debug, Default)]
pub struct RunRegistry {
    active: Arc<Mutex<HashMap<ConversationId, ActiveRun>>>,
    beginning: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct ActiveRun {
    run: RunId,
    cancel: CancellationToken,
}

impl RunRegistry {
    /// Makes a run the active one of its conversation and cancels the one it replaces.
    pub fn register(&self, conversation: &ConversationId, run: &RunId, cancel: &CancellationToken) {
        let entry = ActiveRun {
            run: run.clone(),
            cancel: cancel.clone(),
        };
        let replaced = self.lock().insert(conversation.clone(), entry);
        if let Some(old) = replaced {
            tracing::info!(conversation = %conversation, run = %old.run, by = %run, "a newer run takes over");
            old.cancel.cancel();
        }
    }

    /// The right to begin in the store, which runs have one after the other. A run that was replaced before it had its
    /// turn must not begin: it would take the conversation from the run that replaced it.
    pub async fn turn_to_begin(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.beginning.lock().await
    }

    /// Forgets a run that has ended. A run that was replaced meanwhile changes nothing.
    pub fn release(&self, conversation: &ConversationId, run: &RunId) {
        let mut active = self.lock();
        if active.get(conversation).is_some_and(|entry| entry.run == *run) {
            active.remove(conversation);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationId, ActiveRun>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
