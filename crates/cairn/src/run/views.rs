//! What the model sees of a history, and the views of the heads that runs ended on: the next run goes on from one
//! instead of folding the whole history again.
//!
//! Only copies of what the projection gives for a revision: one can be missing, never wrong. (The ids of calls that a
//! compaction took out of it stay taken as long as the copy lives.) Must never know: how the projection works.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{CallId, HistoryItem, RevisionId};

/// Most heads whose view is kept. A view shares its texts with the store's copy of the history.
const CAPACITY: usize = 16;

/// What the model sees of a history. It only grows, until it begins anew.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct View {
    items: Vec<Arc<HistoryItem>>,
    call_ids: Arc<HashSet<CallId>>,
}

impl View {
    pub(super) fn extend(&mut self, items: impl IntoIterator<Item = Arc<HistoryItem>>) {
        for item in items {
            if let HistoryItem::Assistant { calls, .. } = item.as_ref()
                && !calls.is_empty()
            {
                let call_ids = Arc::make_mut(&mut self.call_ids);
                call_ids.extend(calls.iter().map(|call| call.id.clone()));
            }
            self.items.push(item);
        }
    }

    /// The view of a history that begins anew. The call ids of the old one stay taken: the client still shows them.
    pub(super) fn restart(&mut self, items: impl IntoIterator<Item = Arc<HistoryItem>>) {
        self.items.clear();
        self.extend(items);
    }

    pub(super) fn items(&self) -> &[Arc<HistoryItem>] {
        &self.items
    }

    /// The ids of all calls in it.
    pub(super) fn call_ids(&self) -> Arc<HashSet<CallId>> {
        self.call_ids.clone()
    }
}

/// The views of the latest heads, the newest one at the back.
#[derive(Clone, Debug, Default)]
pub struct Views(Arc<Mutex<VecDeque<(RevisionId, View)>>>);

impl Views {
    /// Takes the view of a revision out: who goes on from it leaves a longer one.
    pub(super) fn take(&self, revision: &RevisionId) -> Option<View> {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = views.iter().position(|(known, _)| known == revision)?;
        views.remove(index).map(|(_, view)| view)
    }

    /// Keeps the view of a revision.
    pub(super) fn keep(&self, revision: RevisionId, view: View) {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        views.retain(|(known, _)| *known != revision);
        views.push_back((revision, view));
        if views.len() > CAPACITY {
            views.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Assistant, ToolCall};

    fn view(items: usize) -> View {
        let mut view = View::default();
        for item in 0..items {
            let call = ToolCall {
                id: CallId::new(item.to_string()),
                name: "tool".into(),
                arguments: "{}".into(),
            };
            view.extend([Arc::new(HistoryItem::Assistant {
                said: Assistant::default(),
                round: None,
                calls: vec![call],
            })]);
        }
        view
    }

    #[test]
    fn a_view_knows_the_calls_in_it_and_leaves_those_alone_that_were_handed_out() {
        let mut view = view(2);
        let before = view.call_ids();
        view.extend(super::tests::view(3).items()[2..].iter().cloned());
        let ids = |set: &HashSet<CallId>| {
            let mut ids: Vec<_> = set.iter().map(|id| id.as_str().to_owned()).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(&before), ["0", "1"]);
        assert_eq!(ids(&view.call_ids()), ["0", "1", "2"]);
        assert_eq!(view, super::tests::view(3));
    }

    #[test]
    fn a_view_is_given_once_for_the_revision_that_it_belongs_to() {
        let views = Views::default();
        let (one, two) = (RevisionId::new("one"), RevisionId::new("two"));
        views.keep(one.clone(), view(1));
        views.keep(two.clone(), view(2));
        assert_eq!(views.take(&two), Some(view(2)));
        assert_eq!(views.take(&two), None);
        assert_eq!(views.take(&one), Some(view(1)));
    }

    #[test]
    fn the_oldest_view_leaves_first() {
        let views = Views::default();
        let id = |n: usize| RevisionId::new(n.to_string());
        for n in 0..=CAPACITY {
            views.keep(id(n), view(n));
        }
        assert_eq!(views.take(&id(0)), None);
        assert_eq!(views.take(&id(1)), Some(view(1)));
        assert_eq!(views.take(&id(CAPACITY)), Some(view(CAPACITY)));
    }
}
