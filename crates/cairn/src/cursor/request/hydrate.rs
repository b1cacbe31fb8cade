//! Blobs that a state names, fetched and read as what the field that names them says they are.
//!
//! Must never know: what is done with them.

use bytes::Bytes;

use crate::cursor::blob::BlobId;
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::proto::agent::conversation_turn_structure::Turn;
use crate::cursor::proto::agent::{AgentConversationTurnStructure, ConversationTurnStructure};
use crate::model::RunFailure;

/// Fetches one blob. `field` names it, in errors too.
pub(super) async fn fetch_one(
    blobs: &BlobSync,
    id: BlobId,
    field: &'static str,
) -> Result<Bytes, RunFailure> {
    Ok(blobs
        .fetch(&[id], field)
        .await?
        .into_iter()
        .next()
        .unwrap_or_default())
}

/// Fetches blobs and reads each as the message that the field stands for.
///
/// # Errors
/// A protocol failure that names blob and field if one is missing, has other bytes than its id says, or is another
/// kind of thing.
pub(super) async fn fetch_messages<M: prost::Message + Default>(
    blobs: &BlobSync,
    ids: &[BlobId],
    field: &'static str,
) -> Result<Vec<M>, RunFailure> {
    let data = blobs.fetch(ids, field).await?;
    ids.iter()
        .zip(data)
        .map(|(id, data)| M::decode(data).map_err(|error| wrong_kind(id, field, &error)))
        .collect()
}

/// Fetches turns, and notes what they name as held by the client. One of a kind that is no turn of an agent is `None`.
pub(super) async fn fetch_turns(
    blobs: &BlobSync,
    ids: &[BlobId],
) -> Result<Vec<Option<AgentConversationTurnStructure>>, RunFailure> {
    let turns: Vec<ConversationTurnStructure> = fetch_messages(blobs, ids, "turns").await?;
    let turns: Vec<_> = turns
        .into_iter()
        .map(|turn| turn.turn.map(|Turn::AgentConversationTurn(turn)| turn))
        .collect();
    for turn in turns.iter().flatten() {
        blobs.note_held(references(&turn.steps, "steps")?);
    }
    Ok(turns)
}

/// The ids in a field of a fetched message.
pub(super) fn references(ids: &[Bytes], field: &str) -> Result<Vec<BlobId>, RunFailure> {
    ids.iter().map(|id| reference(id, field)).collect()
}

/// An id in a field of a message.
pub(super) fn reference(id: &Bytes, field: &str) -> Result<BlobId, RunFailure> {
    BlobId::from_wire(id)
        .map_err(|error| RunFailure::Protocol(format!("{field} holds no blob reference: {error}")))
}

fn wrong_kind(id: &BlobId, field: &str, error: &impl std::fmt::Display) -> RunFailure {
    RunFailure::Protocol(format!(
        "blob {id}, which the state names as {field}, is something else ({error}); go on from an earlier message or \
         start a new conversation"
    ))
}
