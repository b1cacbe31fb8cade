//! Revisions: a parent plus the messages that it appended, named by what it holds.
//!
//! Owns the only way in which a history grows. Must never know: runs, rounds or who may append.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use sqlx::SqliteConnection;

use super::history_cache::History;
use super::{Store, StoreError, messages};
use crate::model::{ConversationId, Message, MessageId, RevisionId};

const TABLE: &str = "revisions";

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

/// Refuses a revision that does not exist or belongs to another conversation. Returns the number of
/// messages in its history.
pub(super) async fn expect_in(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
    revision: &RevisionId,
) -> Result<i64, StoreError> {
    let found: Option<(String, i64)> =
        sqlx::query_as("SELECT conversation_id, message_count FROM revisions WHERE id = ?")
            .bind(revision.as_str())
            .fetch_optional(connection)
            .await
            .map_err(StoreError::database("find a revision"))?;
    match found {
        None => Err(StoreError::UnknownRevision(revision.clone())),
        Some((owner, count)) if owner == conversation.as_str() => Ok(count),
        Some(_) => Err(StoreError::ForeignRevision {
            conversation: conversation.clone(),
            revision: revision.clone(),
        }),
    }
}

/// Makes the child of `parent` that appends the messages which its history does not have yet.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
    parent: &RevisionId,
    messages: &[Message],
) -> Result<Appended, StoreError> {
    let parent_count = expect_in(connection, conversation, parent).await?;
    let mut new: Vec<(i64, &Message)> = Vec::with_capacity(messages.len());
    for message in messages {
        let stored = messages::store(connection, conversation, message).await?;
        // A message that was just written cannot be in a history; only a repeat costs a walk.
        let repeated = stored.existed
            && (new.iter().any(|(key, _)| *key == stored.key)
                || (parent_count > 0 && contains(connection, parent, stored.key).await?));
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
        conversation,
        Some(parent),
        new.iter().map(|(_, message)| &message.id),
    );
    let count = parent_count + row_count(new.len());
    let inserted = sqlx::query(
        "INSERT INTO revisions (id, conversation_id, parent_id, message_count) VALUES (?, ?, ?, ?)
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(revision.as_str())
    .bind(conversation.as_str())
    .bind(parent.as_str())
    .bind(count)
    .execute(&mut *connection)
    .await
    .map_err(StoreError::database("store a revision"))?
    .rows_affected();
    // The same messages on the same parent are the same revision: it is there whole or not at all.
    if inserted > 0 {
        for ((key, _), position) in new.iter().zip(parent_count..) {
            sqlx::query(
                "INSERT INTO revision_messages (revision_id, position, message_key) VALUES (?, ?, ?)",
            )
            .bind(revision.as_str())
            .bind(position)
            .bind(key)
            .execute(&mut *connection)
            .await
            .map_err(StoreError::database("store a revision's messages"))?;
        }
    }
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
    revision: &RevisionId,
    message_key: i64,
) -> Result<bool, StoreError> {
    sqlx::query_scalar(
        "WITH RECURSIVE chain (id, parent_id) AS (
             SELECT id, parent_id FROM revisions WHERE id = ?
             UNION ALL
             SELECT parent.id, parent.parent_id FROM chain JOIN revisions AS parent ON parent.id = chain.parent_id
         )
         SELECT EXISTS (
             SELECT 1 FROM chain JOIN revision_messages AS own ON own.revision_id = chain.id
             WHERE own.message_key = ?
         )",
    )
    .bind(revision.as_str())
    .bind(message_key)
    .fetch_one(connection)
    .await
    .map_err(StoreError::database("search a history"))
}

async fn load(connection: &mut SqliteConnection, revision: &RevisionId) -> Result<History, StoreError> {
    let count: Option<i64> = sqlx::query_scalar("SELECT message_count FROM revisions WHERE id = ?")
        .bind(revision.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database("find a revision"))?;
    let Some(count) = count else {
        return Err(StoreError::UnknownRevision(revision.clone()));
    };
    let mut rows: Vec<(i64, String, String)> = sqlx::query_as(
        "WITH RECURSIVE chain (id, parent_id) AS (
             SELECT id, parent_id FROM revisions WHERE id = ?
             UNION ALL
             SELECT parent.id, parent.parent_id FROM chain JOIN revisions AS parent ON parent.id = chain.parent_id
         )
         SELECT own.position, messages.id, messages.body
         FROM chain
         JOIN revision_messages AS own ON own.revision_id = chain.id
         JOIN messages ON messages.key = own.message_key",
    )
    .bind(revision.as_str())
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
