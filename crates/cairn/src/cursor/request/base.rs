//! Where a conversation stands when a request comes: by the state that the client holds, or, where a subagent's client has
//! forgotten it, by what is stored here.
//!
//! Must never know: what the request says next, or how the run goes on.

use super::delegation::note_taken_over;
use super::error::protocol;
use super::hydrate::fetch_one;
use crate::cursor::actor::CursorContext;
use crate::cursor::blob_sync::BlobSync;
use crate::cursor::checkpoint::{ClientState, Frontier};
use crate::cursor::projection::{DecodedRoot, ProjectionError, decode_root, import_history};
use crate::cursor::prompting::PromptNote;
use crate::model::{ConversationId, Delegation, PendingAssistant, RevisionId, RunFailure};

/// Where the client's state stands.
pub(super) struct Base {
    pub revision: RevisionId,
    /// The system root, if it was read.
    pub system: Option<DecodedRoot>,
    /// Of a history that was taken over: work in the background that only what was summarised shows.
    pub summarised: Vec<Delegation>,
}

impl Base {
    /// Of a history that is known here.
    const fn known(revision: RevisionId) -> Self {
        Self {
            revision,
            system: None,
            summarised: Vec::new(),
        }
    }
}

/// The revision that the client's roots stand for: known from their digest, or imported from the blobs themselves.
pub(super) async fn base_revision(
    conversation: &ConversationId,
    state: &ClientState,
    context: &CursorContext,
    blobs: &BlobSync,
) -> Result<Base, RunFailure> {
    let store = &context.services.store;
    if state.roots.is_empty() {
        if !state.turns.is_empty() || !state.pending.is_empty() {
            return Err(protocol(
                "the conversation state has turns but no messages; start a new conversation",
            ));
        }
        return Ok(Base::known(store.empty_revision(conversation).await?));
    }
    let digest = Frontier::digest_of(&state.roots);
    if let Some(revision) = store.revision_of_state(conversation, digest).await? {
        return Ok(Base::known(revision));
    }
    let data = blobs.fetch(&state.roots, "root_prompt_messages_json").await?;
    let mut roots = state.roots.iter().zip(&data);
    let system = match roots.next() {
        Some((id, first)) => match decode_root(&id.to_string(), first).map_err(protocol)? {
            system @ DecodedRoot::System { .. } => Some(system),
            DecodedRoot::User { .. } | DecodedRoot::Assistant { .. } | DecodedRoot::Tool(_) => {
                return Err(protocol(format!(
                    "root {id}, the first one of the conversation state, is no system root; start a new conversation"
                )));
            }
        },
        None => None,
    };
    let decoded = roots
        .map(|(id, bytes)| Ok((*id, decode_root(&id.to_string(), bytes)?)))
        .collect::<Result<Vec<_>, ProjectionError>>()
        .map_err(protocol)?;
    let messages = import_history(&decoded).map_err(protocol)?;
    let revision = store.import(conversation, &messages).await?;
    let history = store.history(&revision).await?;
    let summarised = note_taken_over(store, conversation, &history, state, blobs).await?;
    store.record_state(conversation, digest, &revision).await?;
    tracing::info!(conversation = %conversation, messages = messages.len(), "history taken over from the client");
    Ok(Base {
        revision,
        system,
        summarised,
    })
}

/// The note about the conversation's latest prompt in the client's system root, for a server that has lost its own.
pub(super) async fn note_of_client(
    state: &ClientState,
    system: Option<DecodedRoot>,
    blobs: &BlobSync,
) -> Result<Option<PromptNote>, RunFailure> {
    let system = match (system, state.roots.first()) {
        (Some(system), _) => system,
        (None, None) => return Ok(None),
        (None, Some(id)) => {
            let data = fetch_one(blobs, *id, "root_prompt_messages_json").await?;
            decode_root(&id.to_string(), &data).map_err(protocol)?
        }
    };
    match system {
        DecodedRoot::System {
            prompt_note: Some(note),
        } => PromptNote::read(note.as_bytes()).map(Some).map_err(protocol),
        // Another server's conversation, or one of an earlier cairn.
        DecodedRoot::System { prompt_note: None }
        | DecodedRoot::User { .. }
        | DecodedRoot::Assistant { .. }
        | DecodedRoot::Tool(_) => Ok(None),
    }
}

/// Where a subagent's conversation stands.
pub(super) struct LeftOff {
    pub revision: RevisionId,
    /// The round that its last run did not finish.
    pub interrupted: Option<PendingAssistant>,
}

/// Where a subagent's conversation stands, however its last run ended. None for one in which nothing was said yet.
///
/// The official client goes on with a subagent under its old id, and with an empty state unless the parent's run is
/// still the same [sdk]: what the subagent knew is known here alone.
pub(super) async fn left_off(
    conversation: &ConversationId,
    empty: &RevisionId,
    context: &CursorContext,
) -> Result<Option<LeftOff>, RunFailure> {
    let store = &context.services.store;
    let round = store.left_round(conversation).await?;
    let head = store.head(conversation).await?;
    Ok(match round {
        Some(round) => Some(LeftOff {
            revision: round.parent,
            interrupted: Some(PendingAssistant {
                round: Some(round.id),
                said: round.said,
                calls: round.calls,
                started_at_ms: round.started_at_ms,
            }),
        }),
        None => head.filter(|head| head != empty).map(|revision| LeftOff {
            revision,
            interrupted: None,
        }),
    })
}
