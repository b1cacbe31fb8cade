//! Which run is active in each conversation of this process, which are asked for and still to begin, and which of them are
//! whose subagents: a newer run stops the older ones of its conversation, and a run that is stopped stops all that were
//! started for it.
//!
//! Owns only that index: who may write to a conversation is decided by the store. Must never know: what a run does.

use std::collections::{BTreeMap, BTreeSet};
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
    asked: Arc<Mutex<AskedRuns>>,
    beginning: Arc<tokio::sync::Mutex<()>>,
    ends: broadcast::Sender<ConversationId>,
}

impl Default for RunRegistry {
    fn default() -> Self {
        Self {
            active: Arc::default(),
            asked: Arc::default(),
            beginning: Arc::default(),
            ends: broadcast::Sender::new(ENDS),
        }
    }
}

#[derive(Debug)]
struct ActiveRun {
    run: RunId,
    lineage: Lineage,
    cancel: CancellationToken,
}

/// Runs that are still to begin, in the order in which they were asked for.
#[derive(Debug, Default)]
struct AskedRuns {
    last: u64,
    waiting: BTreeMap<u64, (ConversationId, RunId, CancellationToken)>,
}

impl AskedRuns {
    fn is_overtaken(&self, run: &RunId) -> bool {
        self.waiting
            .values()
            .any(|(_, waiting, overtaken)| waiting == run && overtaken.is_cancelled())
    }

    /// Cancels what was asked for before this run in its conversation.
    fn overtake(&self, run: &PreparedRun) {
        let earlier = self
            .waiting
            .values()
            .take_while(|(_, waiting, _)| *waiting != run.id)
            .filter(|(conversation, ..)| *conversation == run.conversation);
        for (_, older, overtaken) in earlier {
            tracing::info!(conversation = %run.conversation, run = %older, by = %run.id, "a newer run has begun first");
            overtaken.cancel();
        }
    }
}

/// A run that is asked for and still to begin. Forgotten when dropped.
#[derive(Debug)]
pub struct AskedRun {
    asked: Arc<Mutex<AskedRuns>>,
    place: u64,
    overtaken: CancellationToken,
}

impl AskedRun {
    /// Cancelled when a run of the conversation that was asked for later has begun: this one must not begin any more.
    pub const fn overtaken(&self) -> &CancellationToken {
        &self.overtaken
    }
}

impl Drop for AskedRun {
    fn drop(&mut self) {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .waiting
            .remove(&self.place);
    }
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
    /// Notes that a run is asked for: it takes time to prepare, and another one may begin meanwhile.
    pub fn asked(&self, conversation: ConversationId, run: RunId) -> AskedRun {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.last += 1;
        let place = asked.last;
        let overtaken = CancellationToken::new();
        asked
            .waiting
            .insert(place, (conversation, run, overtaken.clone()));
        AskedRun {
            asked: self.asked.clone(),
            place,
            overtaken,
        }
    }

    /// Whether a run of the conversation is active, or asked for and still to begin.
    pub fn is_coming(&self, conversation: &ConversationId) -> bool {
        // In this order: who was asked for becomes active before it is no longer waiting.
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = asked
            .waiting
            .values()
            .any(|(waiting, ..)| waiting == conversation);
        drop(asked);
        waits || self.lock().contains_key(conversation)
    }

    /// The conversations in which a run is active, or asked for and still to begin.
    pub fn coming(&self) -> BTreeSet<ConversationId> {
        // In this order: see `is_coming`.
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut coming: BTreeSet<_> = asked
            .waiting
            .values()
            .map(|(waiting, ..)| waiting.clone())
            .collect();
        drop(asked);
        coming.extend(self.lock().keys().cloned());
        coming
    }

    /// Makes a run the active one of its conversation and cancels the one it replaces, and those that were asked for
    /// before it and have not begun. A run that was overtaken itself is cancelled instead.
    pub fn register(&self, run: &PreparedRun, cancel: &CancellationToken) {
        // Held to the end: of two runs that come here at once, the one that was asked for earlier gives way.
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_overtaken(&run.id) {
            cancel.cancel();
            return;
        }
        asked.overtake(run);
        let mut active = self.lock();
        let entry = ActiveRun {
            run: run.id.clone(),
            lineage: lineage(run, &active),
            cancel: cancel.clone(),
        };
        let replaced = active.insert(run.conversation.clone(), entry);
        drop(active);
        drop(asked);
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
