//! An earlier message that the person changed after a summary had taken its place: the state goes back to what it was
//! before that summary, so that it can be cut there.
//!
//! The store decides whether a message was changed; with its database lost, one that was summarised cannot be told from
//! a new one. Must never know: how a state is cut, or how a summary is made.

use prost::Message as _;

use super::edit::{content_of, first_root_of, message_of};
use crate::cursor::actor::CursorContext;
use crate::cursor::blob::{Blob, BlobId, InvalidBlobId};
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::ClientState;
use crate::cursor::proto::agent::{ConversationSummary, ConversationSummaryArchive, UserMessage};
use crate::model::{ConversationId, RevisionId, RunFailure};

/// Whether a history behind a compaction of the base holds this message with other content.
pub(super) async fn is_archived_edit(
    message: &UserMessage,
    conversation: &ConversationId,
    base: &RevisionId,
    context: &CursorContext,
) -> Result<bool, RunFailure> {
    let store = &context.services.store;
    let event = message.message_id.as_str();
    if event.is_empty() || !store.knows_input(conversation, event).await? {
        return Ok(false);
    }
    let mut revision = base.clone();
    while let Some(compaction) = store.compaction_behind(&revision).await? {
        let history = store.history(&compaction.archived).await?;
        if let Some(held) = message_of(history.iter().map(AsRef::as_ref), event) {
            return Ok(!store
                .input_became(conversation, event, content_of(message), held)
                .await?);
        }
        revision = compaction.archived;
    }
    Ok(false)
}

/// Puts the state back to what it was before the summary that took an event's place. Returns whether an archive names it.
///
/// # Errors
/// If a blob that this depends on is missing, false or unreadable.
pub(super) async fn reopen_archive(
    state: &mut ClientState,
    event: &str,
    blobs: &BlobSync,
) -> Result<bool, RunFailure> {
    let protocol = |error: &dyn std::fmt::Display| RunFailure::Protocol(error.to_string());
    let data = blobs.fetch(&state.summary_archives, "summary_archives").await?;
    let archives = data
        .into_iter()
        .map(ConversationSummaryArchive::decode)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| protocol(&error))?;
    for (index, archive) in archives.iter().enumerate().rev() {
        let archived = archive
            .summarized_messages
            .iter()
            .map(|id| BlobId::from_wire(id))
            .collect::<Result<Vec<_>, InvalidBlobId>>()
            .map_err(|error| protocol(&error))?;
        let system = state.roots.first().copied();
        let roots: Vec<BlobId> = system.into_iter().chain(archived).collect();
        if first_root_of(event, &roots, blobs).await?.is_none() {
            continue;
        }
        state.roots = roots;
        state.summary_archives.truncate(index);
        let before = index.checked_sub(1).and_then(|before| archives.get(before));
        state.summary = before.map(|archive| {
            let summary = ConversationSummary {
                summary: archive.summary.clone(),
            };
            Blob::new(summary.encode_to_vec()).id
        });
        return Ok(true);
    }
    Ok(false)
}
