//! Revisions: a parent plus the messages that it appended, named by what it holds.
//!
//! Owns the only way in which a history grows. Must never know: runs, rounds or who may append.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use sqlx::SqliteConnection;

use super::conversations::Conversation;
use super::history_cache::History;
use super::{Store, StoreError, messages};
use crate::model::{ConversationId, Message, MessageId, RevisionId};

const TABLE: &str = "revisions";

/// A revision in the database: the 32 bytes that its id writes in hex.
pub(super) type RevisionKey = [u8; 32];

/// What an append came to.
pub(super) struct Appended {
    /// The child, or the parent itself where nothing was new.
    pub(super) revision: RevisionId,
    /// The messages that were new to the history.
    pub(super) messages: Vec<Arc<Message>>,
}

impl Store {
    /// All messages of the revision's history, oldest first.
    ///
    /// The histories used last are kept in memory; another one is read from disk once.
    ///
    /// # Errors
    /// [`StoreError::UnknownRevision`], and [`StoreError::Damaged`] where a row does not decode.
    pub async fn history(&self, revision: &RevisionId) -> Result<History, StoreError> {
        if let Some(history) = self.histories.get(revision) {
            return Ok(history);
        }
        let history = load(&mut *self.read().await?, revision).await?;
        self.histories.insert(revision.clone(), history.clone());
        Ok(history)
    }
}

/// The id of the revision that appends these messages to the parent. The same facts always get the same id.
///
/// SHA-256, in lower-case hex, over: a domain tag, then the conversation, the parent's id (empty for none) and
/// the message ids in their order, each as its length in bytes (64 bits, little endian) and its UTF-8 bytes.
pub(super) fn derive_id<'a>(
    conversation: &ConversationId,
    parent: Option<&RevisionId>,
    appended: impl IntoIterator<Item = &'a MessageId>,
) -> RevisionId {
    let mut hash = Sha256::new_with_prefix("cairn revision 1\n");
    let mut field = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    field(conversation.as_str());
    field(parent.map_or("", RevisionId::as_str));
    for message in appended {
        field(message.as_str());
    }
    RevisionId::new(hex::encode(hash.finalize()))
}

/// The revision without messages from which all histories of the conversation grow.
pub(super) fn empty_id(conversation: &ConversationId) -> RevisionId {
    derive_id(conversation, None, [])
}

/// The revision's key in the database.
pub(super) fn key_of(revision: &RevisionId) -> Result<RevisionKey, StoreError> {
    let mut key = RevisionKey::default();
    // No revision has an id of another form.
    hex::decode_to_slice(revision.as_str(), &mut key)
        .map_err(|_| StoreError::UnknownRevision(revision.clone()))?;
    Ok(key)
}

/// The id of the revision with this key in the database.
pub(super) fn id_of(key: &[u8]) -> RevisionId {
    RevisionId::new(hex::encode(key))
}

/// A revision that was found in its conversation.
pub(super) struct Found {
    pub(super) key: RevisionKey,
    /// The number of messages in its history.
    message_count: i64,
}

/// Finds a revision; refuses one that does not exist or belongs to another conversation.
pub(super) async fn find_in(
    connection: &mut SqliteConnection,
    conversation: &Conversation,
    revision: &RevisionId,
) -> Result<Found, StoreError> {
    let key = key_of(revision)?;
    let found: Option<(i64, i64)> =
        sqlx::query_as("SELECT conversation_key, message_count FROM revisions WHERE id = ?")
            .bind(key.as_slice())
            .fetch_optional(connection)
            .await
            .map_err(StoreError::database("find a revision"))?;
    match found {
        None => Err(StoreError::UnknownRevision(revision.clone())),
        Some((owner, message_count)) if owner == conversation.key => Ok(Found { key, message_count }),
        Some(_) => Err(StoreError::ForeignRevision {
            conversation: conversation.id.clone(),
            revision: revision.clone(),
        }),
    }
}

/// Makes the child of `parent` that appends the messages which its history does not have yet.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    conversation: &Conversation,
    parent: &RevisionId,
    messages: &[Message],
) -> Result<Appended, StoreError> {
    let found = find_in(connection, conversation, parent).await?;
    let mut new: Vec<(i64, &Message)> = Vec::with_capacity(messages.len());
    for message in messages {
        let stored = messages::store(connection, conversation, message).await?;
        // A message that was just written cannot be in a history; only a repeat costs a walk.
        let repeated = stored.existed
            && (new.iter().any(|(key, _)| *key == stored.key)
                || (found.message_count > 0 && contains(connection, &found.key, stored.key).await?));
        if !repeated {
            new.push((stored.key, message));
        }
    }
    if new.is_empty() {
        return Ok(Appended {
            revision: parent.clone(),
            messages: Vec::new(),
        });
    }
    let revision = derive_id(
        &conversation.id,
        Some(parent),
        new.iter().map(|(_, message)| &message.id),
    );
    let key = key_of(&revision)?;
    let keys: Vec<String> = new.iter().map(|(key, _)| key.to_string()).collect();
    // The same messages on the same parent are the same revision: it is there or not.
    sqlx::query(
        "INSERT INTO revisions (id, conversation_key, parent, message_count, appended) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(key.as_slice())
    .bind(conversation.key)
    .bind(found.key.as_slice())
    .bind(found.message_count + row_count(new.len()))
    .bind(format!("[{}]", keys.join(",")))
    .execute(connection)
    .await
    .map_err(StoreError::database("store a revision"))?;
    Ok(Appended {
        revision,
        messages: new
            .into_iter()
            .map(|(_, message)| Arc::new(message.clone()))
            .collect(),
    })
}

async fn contains(
    connection: &mut SqliteConnection,
    revision: &RevisionKey,
    message_key: i64,
) -> Result<bool, StoreError> {
    sqlx::query_scalar(
        "WITH RECURSIVE chain (parent, appended) AS (
             SELECT parent, appended FROM revisions WHERE id = ?
             UNION ALL
             SELECT older.parent, older.appended FROM chain JOIN revisions AS older ON older.id = chain.parent
         )
         SELECT EXISTS (SELECT 1 FROM chain, json_each(chain.appended) AS own WHERE own.value = ?)",
    )
    .bind(revision.as_slice())
    .bind(message_key)
    .fetch_one(connection)
    .await
    .map_err(StoreError::database("search a history"))
}

async fn load(connection: &mut SqliteConnection, revision: &RevisionId) -> Result<History, StoreError> {
    let key = key_of(revision)?;
    let count: Option<i64> = sqlx::query_scalar("SELECT message_count FROM revisions WHERE id = ?")
        .bind(key.as_slice())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database("find a revision"))?;
    let Some(count) = count else {
        return Err(StoreError::UnknownRevision(revision.clone()));
    };
    let mut rows: Vec<(i64, String, String)> = sqlx::query_as(
        "WITH RECURSIVE chain (parent, message_count, appended) AS (
             SELECT parent, message_count, appended FROM revisions WHERE id = ?
             UNION ALL
             SELECT older.parent, older.message_count, older.appended
             FROM chain JOIN revisions AS older ON older.id = chain.parent
         )
         SELECT chain.message_count - json_array_length(chain.appended) + own.key, messages.id, messages.body
         FROM chain, json_each(chain.appended) AS own JOIN messages ON messages.key = own.value",
    )
    .bind(key.as_slice())
    .fetch_all(&mut *connection)
    .await
    .map_err(StoreError::database("read a history"))?;
    // Sorted here: SQLite would carry every body through its sorter.
    rows.sort_unstable_by_key(|(position, ..)| *position);
    let whole = rows.iter().zip(0..).all(|((position, ..), at)| *position == at);
    if !whole || row_count(rows.len()) != count {
        return Err(StoreError::damaged(
            TABLE,
            revision.as_str(),
            "its history has gaps",
        ));
    }
    let messages = messages::read(connection, rows.into_iter().map(|(_, id, body)| (id, body))).await?;
    Ok(messages.into())
}

/// A length as a column holds it. No list in memory is longer than a column can count.
pub(super) fn row_count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// The first revision, if any, whose messages are not all there.
pub(super) async fn find_broken(connection: &mut SqliteConnection) -> Result<Option<RevisionId>, StoreError> {
    let broken: Option<Vec<u8>> = sqlx::query_scalar(
        "SELECT revisions.id
         FROM revisions, json_each(revisions.appended) AS own LEFT JOIN messages ON messages.key = own.value
         WHERE messages.conversation_key IS NOT revisions.conversation_key LIMIT 1",
    )
    .fetch_optional(connection)
    .await
    .map_err(StoreError::database("check the revisions"))?;
    Ok(broken.as_deref().map(id_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoding is on disk: a change of it needs a new domain tag.
    #[test]
    fn the_encoding_behind_an_id_is_fixed() {
        let conversation = ConversationId::new("c");
        let empty = empty_id(&conversation);
        let mut by_hand = b"cairn revision 1\n".to_vec();
        by_hand.extend([1, 0, 0, 0, 0, 0, 0, 0, b'c', 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(empty.as_str(), hex::encode(Sha256::digest(&by_hand)));

        let child = derive_id(
            &conversation,
            Some(&empty),
            [&MessageId::new("m1"), &MessageId::new("m2")],
        );
        let mut by_hand = b"cairn revision 1\n".to_vec();
        by_hand.extend([1, 0, 0, 0, 0, 0, 0, 0, b'c', 64, 0, 0, 0, 0, 0, 0, 0]);
        by_hand.extend(empty.as_str().bytes());
        by_hand.extend([
            2, 0, 0, 0, 0, 0, 0, 0, b'm', b'1', 2, 0, 0, 0, 0, 0, 0, 0, b'm', b'2',
        ]);
        assert_eq!(child.as_str(), hex::encode(Sha256::digest(&by_hand)));
    }
}
