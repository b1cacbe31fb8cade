//! What a compaction leaves of a history word for word, and how much of a history a summary can be asked about.
//!
//! Pure. Must never know: when a history is compacted, or what a summary says.

use std::collections::HashSet;
use std::sync::Arc;

use crate::model::{HistoryItem, Message, MessageBody, MessageId, UserOrigin};

/// What stays of a history word for word.
pub(super) struct Kept {
    /// The latest request context.
    pub(super) context: Option<Message>,
    /// The messages of the current turn that the summary covers.
    pub(super) current: Vec<Message>,
    /// What the summary does not cover.
    pub(super) uncovered: Vec<Message>,
}

impl Kept {
    /// What stays if the first `covered` messages are summarised. `None` where that would leave nothing out.
    pub(super) fn of(stored: &[Arc<Message>], covered: usize, current: &HashSet<MessageId>) -> Option<Self> {
        let context = stored.iter().rfind(|message| is_context(message));
        // What the person said since the model last answered was answered by nobody yet.
        let answered = stored
            .iter()
            .rposition(|message| !matches!(message.body, MessageBody::User { .. }))
            .map_or(0, |last| last + 1);
        let mut kept = Self {
            context: context.map(|message| (**message).clone()),
            current: Vec::new(),
            uncovered: Vec::new(),
        };
        let mut leaves_out = false;
        for (position, message) in stored.iter().enumerate() {
            if is_context(message) {
                continue;
            }
            let said = is_said_by_person(message);
            if position >= covered {
                kept.uncovered.push((**message).clone());
            } else if said && (position >= answered || current.contains(&message.id)) {
                kept.current.push((**message).clone());
            } else {
                leaves_out |= !is_summary(message);
            }
        }
        leaves_out.then_some(kept)
    }
}

/// Whether a message tells of one of these events.
pub(super) fn tells_of(message: &Message, events: &[Arc<str>]) -> bool {
    match &message.body {
        MessageBody::User {
            origin: UserOrigin::Turn { event_id },
            ..
        } => events.contains(event_id),
        _ => false,
    }
}

/// Whether a message is a request context.
pub(super) fn is_context(message: &Message) -> bool {
    matches!(
        message.body,
        MessageBody::User {
            origin: UserOrigin::RequestContext { .. },
            ..
        }
    )
}

/// Whether a message is a summary of earlier ones.
pub(super) fn is_summary(message: &Message) -> bool {
    matches!(
        message.body,
        MessageBody::User {
            origin: UserOrigin::Summary { .. },
            ..
        }
    )
}

/// Whether a message is what the person said, or was told in the person's place.
pub(super) fn is_said_by_person(message: &Message) -> bool {
    matches!(
        message.body,
        MessageBody::User {
            origin: UserOrigin::Turn { .. } | UserOrigin::Imported,
            ..
        }
    )
}

/// How much of the history an endpoint has certainly taken: all up to its last plain answer, or all before its last
/// answer with calls, whose results can be of any length.
pub(super) fn answered_length(items: &[Arc<HistoryItem>]) -> usize {
    let last = items
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, item)| match &**item {
            HistoryItem::Assistant { calls, .. } => Some((at, calls.is_empty())),
            HistoryItem::User { .. } | HistoryItem::ToolResult(_) => None,
        });
    match last {
        Some((at, true)) => at + 1,
        Some((at, false)) => at,
        None => 0,
    }
}

/// How much of a history may be taken where all of it is too much: what an endpoint has certainly taken, of that the first
/// half, and so on. A round is in it whole or not at all.
pub(super) fn halved(items: &[Arc<HistoryItem>]) -> Vec<usize> {
    let mut cuts = vec![answered_length(items)];
    while let Some(&last) = cuts.last().filter(|last| **last > 0) {
        cuts.push(answered_length(items.get(..last / 2).unwrap_or_default()));
    }
    cuts
}

/// The number of stored messages that items stand for; a batch is whole in both.
pub(super) fn stored_length(items: &[Arc<HistoryItem>]) -> usize {
    let length = |item: &Arc<HistoryItem>| match &**item {
        HistoryItem::User { .. } => 1,
        HistoryItem::Assistant { calls, .. } => (2 * calls.len()).max(1),
        // Counted with its call.
        HistoryItem::ToolResult(_) => 0,
    };
    items.iter().map(length).sum()
}
