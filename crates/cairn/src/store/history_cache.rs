//! The histories that were used last, so that a turn does not read its conversation again.
//!
//! Only a copy of immutable facts: an entry can be missing, never wrong. Must never know: SQL.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Message, RevisionId};

/// All messages of a revision's history, oldest first. Cheap to clone.
pub type History = Arc<[Arc<Message>]>;

/// How many revisions are kept. Revisions of one conversation share their messages, so an entry costs one
/// pointer a message; a conversation that nobody uses any more leaves after this many newer revisions.
const CAPACITY: usize = 64;

#[derive(Default)]
pub(super) struct HistoryCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_revision: HashMap<RevisionId, Entry>,
    clock: u64,
}

struct Entry {
    history: History,
    last_use: u64,
}

impl HistoryCache {
    pub(super) fn get(&self, revision: &RevisionId) -> Option<History> {
        let mut entries = self.entries();
        entries.clock += 1;
        let now = entries.clock;
        let entry = entries.by_revision.get_mut(revision)?;
        entry.last_use = now;
        Some(entry.history.clone())
    }

    pub(super) fn insert(&self, revision: RevisionId, history: History) {
        let mut entries = self.entries();
        entries.clock += 1;
        let last_use = entries.clock;
        entries.by_revision.insert(revision, Entry { history, last_use });
        if entries.by_revision.len() > CAPACITY {
            let oldest = entries
                .by_revision
                .iter()
                .min_by_key(|(_, entry)| entry.last_use)
                .map(|(revision, _)| revision.clone());
            if let Some(oldest) = oldest {
                entries.by_revision.remove(&oldest);
            }
        }
    }

    /// Keeps the child's history if the parent's is here; otherwise the first reader loads it.
    pub(super) fn extend(&self, parent: &RevisionId, child: &RevisionId, appended: Vec<Arc<Message>>) {
        if let Some(history) = self.get(parent) {
            let history = history.iter().cloned().chain(appended).collect();
            self.insert(child.clone(), history);
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // A panic elsewhere cannot leave an entry half made: each holds finished values only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_unused_for_longest_leaves_first() {
        let cache = HistoryCache::default();
        let id = |n: usize| RevisionId::new(n.to_string());
        for n in 0..CAPACITY {
            cache.insert(id(n), History::default());
        }
        assert!(cache.get(&id(0)).is_some());
        cache.insert(id(CAPACITY), History::default());
        assert!(cache.get(&id(1)).is_none());
        assert!(cache.get(&id(0)).is_some());
        assert!(cache.get(&id(CAPACITY)).is_some());
    }

    #[test]
    fn a_child_of_an_absent_parent_is_left_to_its_first_reader() {
        let cache = HistoryCache::default();
        let (parent, child) = (RevisionId::new("parent"), RevisionId::new("child"));
        cache.extend(&parent, &child, Vec::new());
        assert!(cache.get(&child).is_none());
        cache.insert(parent.clone(), History::default());
        cache.extend(&parent, &child, Vec::new());
        assert!(cache.get(&child).is_some());
    }
}
