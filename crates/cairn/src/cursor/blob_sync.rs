//! The blobs of one session: fetched from the client, stored at the client, each stored once and only if it is new.
//!
//! Owns the KV ids and what waits for their answers. Must never know: which field refers to a blob, or what a
//! checkpoint is.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::blob::{Blob, BlobId};
use super::proto::agent::{
    AgentServerMessage, GetBlobArgs, KvClientMessage, KvServerMessage, SetBlobArgs, agent_server_message,
    kv_client_message, kv_server_message,
};
use super::run_sse::RunWriter;
use crate::model::RunFailure;

/// How long the client may take to answer for one blob.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Why a blob could not be fetched or stored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlobSyncError {
    /// The client does not hold a blob that its own state names.
    #[error("the client has no blob {blob}, which its state names as {what}")]
    Missing {
        /// The blob.
        blob: BlobId,
        /// The field that names it.
        what: &'static str,
    },
    /// The bytes are not those that the id names.
    #[error("the client sent other bytes for blob {blob} ({what}): their SHA-256 is {got}")]
    WrongHash {
        /// The blob asked for.
        blob: BlobId,
        /// The field that names it.
        what: &'static str,
        /// What the bytes hash to.
        got: BlobId,
    },
    /// The client could not store a blob.
    #[error("the client refused to store blob {blob}: {reason}")]
    Refused {
        /// The blob.
        blob: BlobId,
        /// The client's words.
        reason: String,
    },
    /// The client did not answer.
    #[error("the client did not answer for blob {blob} within {} seconds", ANSWER_LIMIT.as_secs())]
    NoAnswer {
        /// The blob.
        blob: BlobId,
    },
    /// An answer with an id that nothing waits for, or of the other kind.
    #[error("the client answered blob request {id}, which is not open")]
    UnknownId {
        /// The KV id.
        id: u32,
    },
    /// The client closed the stream.
    #[error("the client closed the stream")]
    Closed,
}

impl From<BlobSyncError> for RunFailure {
    fn from(error: BlobSyncError) -> Self {
        match error {
            BlobSyncError::Missing { .. }
            | BlobSyncError::WrongHash { .. }
            | BlobSyncError::UnknownId { .. } => Self::Protocol(error.to_string()),
            BlobSyncError::Refused { .. } | BlobSyncError::NoAnswer { .. } | BlobSyncError::Closed => {
                Self::Client(error.to_string())
            }
        }
    }
}

/// The blobs of one session.
#[derive(Clone, Debug)]
pub struct BlobSync {
    writer: RunWriter,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    last_id: u32,
    /// Sent along by the client; checked when used.
    prefetched: HashMap<BlobId, Bytes>,
    /// Held by the client besides those: named by its state, or stored and acknowledged in this session.
    held: HashSet<BlobId>,
    gets: HashMap<u32, oneshot::Sender<Option<Bytes>>>,
    sets: HashMap<u32, oneshot::Sender<Result<(), String>>>,
}

impl BlobSync {
    /// A session without any blob yet.
    pub fn new(writer: RunWriter) -> Self {
        Self {
            writer,
            shared: Arc::default(),
        }
    }

    /// Takes blobs that the client sent unasked. They are checked when they are used.
    pub fn offer(&self, blobs: impl IntoIterator<Item = (BlobId, Bytes)>) {
        self.lock().prefetched.extend(blobs);
    }

    /// Notes blobs that the client's state names: they are never sent to it.
    pub fn note_held(&self, ids: impl IntoIterator<Item = BlobId>) {
        let Shared { prefetched, held, .. } = &mut *self.lock();
        // Nearly all of them came along with the state, which can be large.
        held.extend(ids.into_iter().filter(|id| !prefetched.contains_key(id)));
    }

    /// Fetches blobs in order, those at hand without asking. `what` is the field that names them.
    ///
    /// # Errors
    /// If one is missing, false or not answered for.
    pub async fn fetch(&self, ids: &[BlobId], what: &'static str) -> Result<Vec<Bytes>, BlobSyncError> {
        enum Source {
            AtHand(Bytes),
            Asked(oneshot::Receiver<Option<Bytes>>),
        }
        let mut sources = Vec::with_capacity(ids.len());
        for id in ids {
            let at_hand = self.lock().prefetched.get(id).cloned();
            sources.push(match at_hand {
                Some(data) => Source::AtHand(data),
                None => Source::Asked(self.ask(*id).await?),
            });
        }
        let mut blobs = Vec::with_capacity(ids.len());
        for (id, source) in ids.iter().zip(sources) {
            let data = match source {
                Source::AtHand(data) => data,
                Source::Asked(answer) => wait(*id, answer)
                    .await?
                    .ok_or(BlobSyncError::Missing { blob: *id, what })?,
            };
            let got = BlobId::of(&data);
            if got != *id {
                return Err(BlobSyncError::WrongHash { blob: *id, what, got });
            }
            blobs.push(data);
        }
        Ok(blobs)
    }

    /// Has the client store blobs, and returns when it has acknowledged all of them. Those it holds are left out.
    ///
    /// # Errors
    /// If one is refused or not answered for.
    pub async fn store(&self, blobs: &[Blob]) -> Result<(), BlobSyncError> {
        let mut waiting = Vec::new();
        for blob in blobs {
            let (sender, answer) = oneshot::channel();
            let id = {
                let mut shared = self.lock();
                // Marked before the answer: the same blob may occur twice in one batch.
                // What came along under this id may be false bytes; then the client has them nowhere.
                let came_along = shared.prefetched.get(&blob.id) == Some(&blob.data);
                if came_along || !shared.held.insert(blob.id) {
                    continue;
                }
                let id = shared.next_id();
                shared.sets.insert(id, sender);
                id
            };
            let args = SetBlobArgs {
                blob_id: blob.id.to_wire(),
                blob_data: blob.data.clone(),
            };
            self.send(id, kv_server_message::Message::SetBlobArgs(args))
                .await?;
            waiting.push((blob.id, id, tokio::time::Instant::now(), answer));
        }
        for (blob, kv_id, sent, answer) in waiting {
            wait(blob, answer)
                .await?
                .map_err(|reason| BlobSyncError::Refused { blob, reason })?;
            tracing::trace!(%blob, kv_id, ack_ms = sent.elapsed().as_millis(), "blob stored by the client");
        }
        Ok(())
    }

    /// Takes the client's answer to a fetch or a store.
    ///
    /// # Errors
    /// If nothing of that id and kind is open.
    pub fn answer(&self, message: KvClientMessage) -> Result<(), BlobSyncError> {
        let id = message.id;
        let mut shared = self.lock();
        // Whoever waited may have given up with its run; the answer is then of no use to anybody.
        match message.message {
            Some(kv_client_message::Message::GetBlobResult(result)) => {
                let waiter = shared.gets.remove(&id).ok_or(BlobSyncError::UnknownId { id })?;
                let _ = waiter.send(result.blob_data.filter(|_| result.error.is_none()));
            }
            Some(kv_client_message::Message::SetBlobResult(result)) => {
                let waiter = shared.sets.remove(&id).ok_or(BlobSyncError::UnknownId { id })?;
                let _ = waiter.send(result.error.map_or(Ok(()), |error| Err(error.message)));
            }
            None => return Err(BlobSyncError::UnknownId { id }),
        }
        Ok(())
    }

    async fn ask(&self, blob: BlobId) -> Result<oneshot::Receiver<Option<Bytes>>, BlobSyncError> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut shared = self.lock();
            let id = shared.next_id();
            shared.gets.insert(id, sender);
            id
        };
        self.send(
            id,
            kv_server_message::Message::GetBlobArgs(GetBlobArgs {
                blob_id: blob.to_wire(),
            }),
        )
        .await?;
        Ok(answer)
    }

    async fn send(&self, id: u32, message: kv_server_message::Message) -> Result<(), BlobSyncError> {
        let message = KvServerMessage {
            id,
            message: Some(message),
        };
        let message = AgentServerMessage {
            message: Some(agent_server_message::Message::KvServerMessage(message)),
        };
        self.writer
            .send(&message)
            .await
            .map_err(|_| BlobSyncError::Closed)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Ids count up inside a session and start at 1: an id of 0 cannot be told from an absent one. [sdk]
    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }
}

async fn wait<T>(blob: BlobId, answer: oneshot::Receiver<T>) -> Result<T, BlobSyncError> {
    match tokio::time::timeout(ANSWER_LIMIT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(BlobSyncError::Closed),
        Err(_) => Err(BlobSyncError::NoAnswer { blob }),
    }
}
