//! An earlier message that the person changed: the state is cut back to what stood before it.
//!
//! Owns how the place of the cut is found. The branch that is left stays stored and is never shown to the model again.
//! Must never know: how a run goes on from the cut.

use prost::Message as _;
use sha2::{Digest, Sha256};

use super::origin_of_wire_id;
use crate::cursor::blob::BlobId;
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::ClientState;
use crate::cursor::projection::{DecodedRoot, decode_root};
use crate::cursor::proto::agent::{ConversationTurnStructure, UserMessage, conversation_turn_structure};
use crate::model::{Message, MessageBody, MessageId, RunFailure, UserOrigin};

/// Cuts the state back to what stood before an event, if the state holds it. Returns whether it was cut.
///
/// # Errors
/// If a blob that the place of the cut depends on is missing, false or unreadable.
pub(super) async fn cut_back_to(
    state: &mut ClientState,
    event: &str,
    blobs: &BlobSync,
) -> Result<bool, RunFailure> {
    let Some(root) = first_root_of(event, &state.roots, blobs).await? else {
        return Ok(false);
    };
    state.roots.truncate(root);
    if let Some(turn) = turn_of(event, &state.turns, blobs).await? {
        state.turns.truncate(turn.index);
        state.mode = turn.mode_before;
    }
    // Whatever was pending belongs to the branch that is left.
    state.pending.clear();
    Ok(true)
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
async fn first_root_of(event: &str, roots: &[BlobId], blobs: &BlobSync) -> Result<Option<usize>, RunFailure> {
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
            UserOrigin::Turn { .. } | UserOrigin::RequestContext { .. } | UserOrigin::Imported => {}
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

/// Whether the client's own record of the turn that an event began says that its message had this very content.
///
/// # Errors
/// If a blob of the turns is missing, false or unreadable.
pub(super) async fn is_recorded_as(
    event: &str,
    content: [u8; 32],
    turns: &[BlobId],
    blobs: &BlobSync,
) -> Result<bool, RunFailure> {
    let turn = turn_of(event, turns, blobs).await?;
    Ok(turn.is_some_and(|turn| content_of(&turn.message) == content))
}

/// The turn that the event began.
async fn turn_of(event: &str, turns: &[BlobId], blobs: &BlobSync) -> Result<Option<FoundTurn>, RunFailure> {
    let mut mode_before = None;
    let protocol = |error: &dyn std::fmt::Display| RunFailure::Protocol(error.to_string());
    for (index, turn) in blobs.fetch(turns, "turns").await?.into_iter().enumerate() {
        let turn = ConversationTurnStructure::decode(turn).map_err(|error| protocol(&error))?;
        let Some(conversation_turn_structure::Turn::AgentConversationTurn(turn)) = turn.turn else {
            continue;
        };
        let id = BlobId::from_wire(&turn.user_message).map_err(|error| protocol(&error))?;
        for message in blobs.fetch(&[id], "user_message").await? {
            let message = UserMessage::decode(message).map_err(|error| protocol(&error))?;
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
