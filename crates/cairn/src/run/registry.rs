//! Which run is active in each conversation of this process, or about to be, and which of them are whose subagents: a newer run stops
//! the older one of its conversation, and a run that is stopped stops all that were started for it.
//!
//! Owns only that index: who may write to a conversation is decided by the store. Must never know: what a run does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::model::{ConversationId, PreparedRun, RunId, RunKind};

/// Ends that wait for a listener before it has to look for itself.
const ENDS: usize = 64;

/// The active run of each conversation.
#[derive(Clone, Debug)]
pub struct RunRegistry {
    active: Arc<Mutex<BTreeMap<ConversationId, ActiveRun>>>,
    coming: Arc<Mutex<Vec<ConversationId>>>,
    beginning: Arc<tokio::sync::Mutex<()>>,
    ends: broadcast::Sender<ConversationId>,
}

impl Default for RunRegistry {
    fn default() -> Self {
        Self {
            active: Arc::default(),
            coming: Arc::default(),
            beginning: Arc::default(),
            ends: broadcast::Sender::new(ENDS),
        }
    }
}

/// A run that is being prepared.
#[derive(Debug)]
pub struct Announced {
    conversation: ConversationId,
    coming: Arc<Mutex<Vec<ConversationId>>>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = coming.iter().position(|other| *other == self.conversation) {
            coming.swap_remove(at);
        }
    }
}

#[derive(Debug)]
struct ActiveRun {
    run: RunId,
    lineage: Lineage,
    cancel: CancellationToken,
}

/// For whom a run works, as far as its client said so.
#[derive(Clone, Debug, Default)]
struct Lineage {
    /// The runs above it, the nearest one first. A run above may have ended; its place in the line stays.
    ancestors: Vec<RunId>,
    /// The person's conversation, where that is the only link upwards from the top of the line.
    group: Option<ConversationId>,
}

impl RunRegistry {
    /// Says that a run of the conversation is being prepared, until what this returns is dropped.
    pub fn announce(&self, conversation: ConversationId) -> Announced {
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        coming.push(conversation.clone());
        drop(coming);
        Announced {
            conversation,
            coming: self.coming.clone(),
        }
    }

    /// Whether a run of the conversation is active or being prepared.
    pub fn is_coming(&self, conversation: &ConversationId) -> bool {
        // In this order: who is prepared becomes active before it is no longer announced.
        let coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        let announced = coming.contains(conversation);
        drop(coming);
        announced || self.lock().contains_key(conversation)
    }

    /// Makes a run the active one of its conversation and cancels the one it replaces.
    pub fn register(&self, run: &PreparedRun, cancel: &CancellationToken) {
        let mut active = self.lock();
        let entry = ActiveRun {
            run: run.id.clone(),
            lineage: lineage(run, &active),
            cancel: cancel.clone(),
        };
        let replaced = active.insert(run.conversation.clone(), entry);
        drop(active);
        if let Some(old) = replaced {
            tracing::info!(conversation = %run.conversation, run = %old.run, by = %run.id, "a newer run takes over");
            old.cancel.cancel();
        }
    }

    /// The right to begin in the store, which runs have one after the other. A run that was replaced before it had its
    /// turn must not begin: it would take the conversation from the run that replaced it.
    pub async fn turn_to_begin(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.beginning.lock().await
    }

    /// Cancels every active run that was started for this one, at whatever depth.
    pub fn cancel_descendants(&self, of: &PreparedRun) {
        for entry in self.lock().values() {
            let lineage = &entry.lineage;
            let linked = lineage.ancestors.contains(&of.id);
            let grouped = entry.run != of.id && lineage.group.as_ref() == Some(&of.conversation);
            if linked || grouped {
                tracing::info!(run = %entry.run, with = %of.id, "a subagent is stopped with the run above it");
                entry.cancel.cancel();
            }
        }
    }

    /// The conversations in which a run ends from now on. Its end is recorded before it is told here.
    pub fn ends(&self) -> broadcast::Receiver<ConversationId> {
        self.ends.subscribe()
    }

    /// Forgets a run that has ended, and tells of its end. A run that was replaced meanwhile stays replaced.
    pub fn release(&self, conversation: &ConversationId, run: &RunId) {
        let mut active = self.lock();
        if active.get(conversation).is_some_and(|entry| entry.run == *run) {
            active.remove(conversation);
        }
        drop(active);
        // Nobody may be waiting for it.
        let _ = self.ends.send(conversation.clone());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ConversationId, ActiveRun>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line above a run. A parent starts a subagent while it runs itself, so its own line is at hand.
fn lineage(run: &PreparedRun, active: &BTreeMap<ConversationId, ActiveRun>) -> Lineage {
    match &run.kind {
        RunKind::Main => Lineage::default(),
        RunKind::Subagent { parent: None, .. } => Lineage {
            ancestors: Vec::new(),
            group: Some(run.root.clone()),
        },
        RunKind::Subagent {
            parent: Some(parent), ..
        } => {
            let above = active.values().find(|entry| entry.run == parent.run);
            let mut lineage = above.map(|entry| entry.lineage.clone()).unwrap_or_default();
            lineage.ancestors.insert(0, parent.run.clone());
            lineage
        }
    }
}
