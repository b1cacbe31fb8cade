//! A message that the state holds already: sent again as it is, it is nothing new; changed by the person, it has the state
//! cut back to what stood before it.
//!
//! The client's own record of its turns tells the one from the other: a database that was lost changes nothing of it. Owns
//! how the place of the cut is found. The branch that is left stays stored and is never shown to the model again.
//! Must never know: how a run goes on from the cut.

use sha2::{Digest, Sha256};

use super::hydrate::{fetch_messages, fetch_turns, references};
use super::origin_of_wire_id;
use crate::cursor::blob::BlobId;
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::{ClientState, DerivedState};
use crate::cursor::projection::{DecodedRoot, decode_root};
use crate::cursor::proto::agent::{ConversationStep, UserMessage};
use crate::model::{Message, MessageBody, RunFailure, UserOrigin};

/// How a message stands to the client's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// The state holds nothing of it.
    New,
    /// The state holds it as it is.
    Repeated,
    /// The state holds it with other content: the person edited it. [capture]
    Edited {
        /// Whether a summary has taken its place.
        is_summarised: bool,
    },
}

/// How a message stands to a state, whose roots stand for this history. A message without an id is always new.
///
/// # Errors
/// If a blob of the turns is missing, false or unreadable, or if no turn of the state tells of a message that is in it.
pub(super) async fn standing_of(
    message: &UserMessage,
    history: impl IntoIterator<Item = &Message>,
    state: &ClientState,
    blobs: &BlobSync,
) -> Result<Standing, RunFailure> {
    let event = message.message_id.as_str();
    if event.is_empty() {
        return Ok(Standing::New);
    }
    let is_in_history = history.into_iter().any(|held| is_of(event, held));
    if !is_in_history && state.summary_archives.is_empty() {
        return Ok(Standing::New);
    }
    match turn_of(event, &state.turns, blobs).await? {
        Some(turn) if content_of(&turn.message) == content_of(message) => Ok(Standing::Repeated),
        Some(_) => Ok(Standing::Edited {
            is_summarised: !is_in_history,
        }),
        None if is_in_history => Err(RunFailure::Protocol(format!(
            "message {event} is in the state, but no turn of the state began with it, so that an edit cannot be told \
             from a repeat; start a new conversation"
        ))),
        None => Ok(Standing::New),
    }
}

/// The failure of an edit whose message is in no part of the state that can be cut.
pub(super) fn nowhere(event: &str) -> RunFailure {
    RunFailure::Protocol(format!(
        "message {event} was edited, but neither the messages nor the archives of the state hold it; go on from an \
         earlier message or start a new conversation"
    ))
}

/// Whether a message of the history is the one that an event brought.
fn is_of(event: &str, message: &Message) -> bool {
    matches!(
        &message.body,
        MessageBody::User { origin: UserOrigin::Turn { event_id }, .. } if **event_id == *event
    )
}

/// Cuts the state back to what stood before an event, if the state holds it. Returns what the turns before it leave
/// beside the history; nothing if the state does not hold the event.
///
/// # Errors
/// If a blob that the place of the cut depends on is missing, false or unreadable.
pub(super) async fn cut_back_to(
    state: &mut ClientState,
    event: &str,
    blobs: &BlobSync,
) -> Result<Option<DerivedState>, RunFailure> {
    let Some(root) = first_root_of(event, &state.roots, blobs).await? else {
        return Ok(None);
    };
    state.roots.truncate(root);
    if let Some(turn) = turn_of(event, &state.turns, blobs).await? {
        // A list that does not match the turns one to one says something else.
        if state.turn_timings.len() == state.turns.len() {
            state.turn_timings.truncate(turn.index);
        }
        state.turns.truncate(turn.index);
        state.mode = turn.mode_before;
        // The turn before can have left its mode on its way.
        let latest = state.turns.len().saturating_sub(1)..;
        let steps = steps_of(state.turns.get(latest).unwrap_or_default(), blobs).await?;
        if let Some(mode) = DerivedState::of_steps(&steps).mode {
            state.mode = Some(mode.to_wire().into());
        }
    }
    // Whatever was pending, listed, planned, read or counted belongs to the branch that is left.
    state.pending.clear();
    state.todos.clear();
    state.plan = None;
    state.read_paths.clear();
    state.progress = Default::default();
    state.token_details = None;
    state.cairn_size = None;
    Ok(Some(DerivedState::of_steps(
        &steps_of(&state.turns, blobs).await?,
    )))
}

/// A hash over what the person can change in a message.
fn content_of(message: &UserMessage) -> [u8; 32] {
    let mut hash = Sha256::new();
    let context = message
        .selected_context
        .as_ref()
        .map(prost::Message::encode_to_vec)
        .unwrap_or_default();
    for part in [
        message.text.as_bytes(),
        message.text_blob_id.as_deref().unwrap_or_default(),
        &context,
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The first root that the event brought: its request context, or its own message.
pub(super) async fn first_root_of(
    event: &str,
    roots: &[BlobId],
    blobs: &BlobSync,
) -> Result<Option<usize>, RunFailure> {
    let data = blobs.fetch(roots, "root_prompt_messages_json").await?;
    for (index, (id, json)) in roots.iter().zip(&data).enumerate() {
        let root =
            decode_root(&id.to_string(), json).map_err(|error| RunFailure::Protocol(error.to_string()))?;
        let DecodedRoot::User {
            wire_id: Some(wire_id),
            ..
        } = root
        else {
            continue;
        };
        match origin_of_wire_id(&wire_id) {
            UserOrigin::Turn { event_id } | UserOrigin::RequestContext { event_id }
                if *event_id == *event =>
            {
                return Ok(Some(index));
            }
            UserOrigin::Turn { .. }
            | UserOrigin::RequestContext { .. }
            | UserOrigin::Summary { .. }
            | UserOrigin::SummaryRequest
            | UserOrigin::Imported => {}
        }
    }
    Ok(None)
}

/// A turn of the client's state.
struct FoundTurn {
    index: usize,
    /// The message that began it.
    message: UserMessage,
    /// The mode of the turn before it.
    mode_before: Option<i32>,
}

/// The turn that the event began.
async fn turn_of(event: &str, turns: &[BlobId], blobs: &BlobSync) -> Result<Option<FoundTurn>, RunFailure> {
    let mut mode_before = None;
    for (index, turn) in fetch_turns(blobs, turns).await?.into_iter().enumerate() {
        let Some(turn) = turn else { continue };
        let id = references(&[turn.user_message], "user_message")?;
        for message in fetch_messages::<UserMessage>(blobs, &id, "user_message").await? {
            if message.message_id == event {
                return Ok(Some(FoundTurn {
                    index,
                    message,
                    mode_before,
                }));
            }
            mode_before = Some(message.mode);
        }
    }
    Ok(None)
}

/// What the turns show, in order.
async fn steps_of(turns: &[BlobId], blobs: &BlobSync) -> Result<Vec<ConversationStep>, RunFailure> {
    let mut steps = Vec::new();
    for turn in fetch_turns(blobs, turns).await?.into_iter().flatten() {
        let ids = references(&turn.steps, "steps")?;
        steps.extend(fetch_messages::<ConversationStep>(blobs, &ids, "steps").await?);
    }
    Ok(steps)
}
