//! An earlier message that the person changed after a summary had taken its place: the state goes back to what it was
//! before that summary, so that it can be cut there.
//!
//! Must never know: how a state is cut, or how a summary is made.

use std::collections::HashSet;
use std::sync::Arc;

use prost::Message as _;

use super::edit::first_root_of;
use super::hydrate::{fetch_messages, references};
use super::origin_of_wire_id;
use crate::cursor::blob::{Blob, BlobId};
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::ClientState;
use crate::cursor::projection::{DecodedRoot, decode_root};
use crate::cursor::proto::agent::{ConversationSummary, ConversationSummaryArchive};
use crate::model::{RunFailure, UserOrigin};

/// The events whose messages summaries stand for.
///
/// # Errors
/// If a blob of the archives is missing, false or unreadable.
pub(super) async fn archived_events(
    state: &ClientState,
    blobs: &BlobSync,
) -> Result<HashSet<Arc<str>>, RunFailure> {
    let archives: Vec<ConversationSummaryArchive> =
        fetch_messages(blobs, &state.summary_archives, "summary_archives").await?;
    let mut events = HashSet::new();
    for archive in &archives {
        let ids = references(&archive.summarized_messages, "summarized_messages")?;
        let roots = blobs.fetch(&ids, "summarized_messages").await?;
        for (id, root) in ids.iter().zip(&roots) {
            let root = decode_root(&id.to_string(), root)
                .map_err(|error| RunFailure::Protocol(error.to_string()))?;
            if let DecodedRoot::User {
                wire_id: Some(wire_id),
                ..
            } = root
                && let UserOrigin::Turn { event_id } = origin_of_wire_id(&wire_id)
            {
                events.insert(event_id);
            }
        }
    }
    Ok(events)
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
    let archives: Vec<ConversationSummaryArchive> =
        fetch_messages(blobs, &state.summary_archives, "summary_archives").await?;
    for (index, archive) in archives.iter().enumerate().rev() {
        let archived = references(&archive.summarized_messages, "summarized_messages")?;
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
