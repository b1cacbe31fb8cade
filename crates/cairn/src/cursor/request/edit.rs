//! An earlier message that the person changed: the state is cut back to what stood before it.
//!
//! Owns how the place of the cut is found. The branch that is left stays stored and is never shown to the model again.
//! Must never know: how a run goes on from the cut.

use sha2::{Digest, Sha256};

use super::hydrate::{fetch_messages, fetch_turns, references};
use super::origin_of_wire_id;
use crate::cursor::blob::BlobId;
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::{ClientState, DerivedState};
use crate::cursor::projection::{DecodedRoot, decode_root};
use crate::cursor::proto::agent::{ConversationStep, UserMessage};
use crate::model::{Message, MessageBody, MessageId, RunFailure, UserOrigin};

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
    state.token_details = None;
    state.cairn_size = None;
    Ok(Some(DerivedState::of_steps(
        &steps_of(&state.turns, blobs).await?,
    )))
}

/// The message of the history that an input became, whichever content it had.
pub(super) fn message_of<'a>(
    history: impl IntoIterator<Item = &'a Message>,
    event: &str,
) -> Option<&'a MessageId> {
    history.into_iter().find_map(|message| match &message.body {
        MessageBody::User {
            origin: UserOrigin::Turn { event_id },
            ..
        } if **event_id == *event => Some(&message.id),
        _ => None,
    })
}

/// A hash over what the person can change in a message.
pub(super) fn content_of(message: &UserMessage) -> [u8; 32] {
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

/// A hash over the content that the message of an event had by the client's own record of the turn that it began, as
/// [`content_of`] makes it; none where the state holds no such turn.
///
/// # Errors
/// If a blob of the turns is missing, false or unreadable.
pub(super) async fn recorded_content(
    event: &str,
    turns: &[BlobId],
    blobs: &BlobSync,
) -> Result<Option<[u8; 32]>, RunFailure> {
    let turn = turn_of(event, turns, blobs).await?;
    Ok(turn.map(|turn| content_of(&turn.message)))
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
