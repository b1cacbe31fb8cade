//! Immutable messages: written once for a conversation, found again by their id.
//!
//! Must never know: revisions, runs or the order of a history.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::SqliteConnection;

use super::conversations::Conversation;
use super::row::{self, BodyRow};
use super::{StoreError, cas};
use crate::model::{Message, MessageId};

const TABLE: &str = "messages";

/// Where a message is stored.
pub(super) struct Stored {
    pub(super) key: i64,
    /// Whether it was there before.
    pub(super) existed: bool,
}

/// Stores the message, or finds it if the conversation has it already with the same content.
pub(super) async fn store(
    connection: &mut SqliteConnection,
    conversation: &Conversation,
    message: &Message,
) -> Result<Stored, StoreError> {
    let (body, images) = BodyRow::of(&message.body);
    for (hash, bytes) in &images {
        cas::insert(connection, hash, bytes).await?;
    }
    let inserted: Option<i64> = sqlx::query_scalar(
        "INSERT INTO messages (conversation_key, id, body) VALUES (?, ?, ?)
         ON CONFLICT (conversation_key, id) DO NOTHING RETURNING key",
    )
    .bind(conversation.key)
    .bind(message.id.as_str())
    .bind(row::encode(TABLE, message.id.as_str(), &body)?)
    .fetch_optional(&mut *connection)
    .await
    .map_err(StoreError::database("store a message"))?;
    let Some(key) = inserted else {
        return find_same(connection, conversation, message, &body).await;
    };
    for (hash, _) in &images {
        sqlx::query("INSERT INTO message_blobs (message_key, hash) VALUES (?, ?) ON CONFLICT DO NOTHING")
            .bind(key)
            .bind(hash.as_slice())
            .execute(&mut *connection)
            .await
            .map_err(StoreError::database("store a message's image"))?;
    }
    Ok(Stored { key, existed: false })
}

async fn find_same(
    connection: &mut SqliteConnection,
    conversation: &Conversation,
    message: &Message,
    body: &BodyRow,
) -> Result<Stored, StoreError> {
    let (key, text): (i64, String) =
        sqlx::query_as("SELECT key, body FROM messages WHERE conversation_key = ? AND id = ?")
            .bind(conversation.key)
            .bind(message.id.as_str())
            .fetch_one(connection)
            .await
            .map_err(StoreError::database("read a message"))?;
    // Compared as values: a row stays the same message when a later version writes it in another form.
    if row::decode::<BodyRow>(TABLE, message.id.as_str(), &text)? != *body {
        return Err(StoreError::MessageConflict {
            conversation: conversation.id.clone(),
            message: message.id.clone(),
        });
    }
    Ok(Stored { key, existed: true })
}

/// Reads stored rows back into messages, with their images.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    rows: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Arc<Message>>, StoreError> {
    let mut messages = Vec::new();
    for (id, text) in rows {
        let body: BodyRow = row::decode(TABLE, &id, &text)?;
        let Some(hashes) = body.images() else {
            return Err(StoreError::damaged(TABLE, id, "an image has no valid hash"));
        };
        let mut images = HashMap::new();
        for hash in hashes {
            if let Some(bytes) = cas::fetch(connection, &hash).await? {
                images.insert(hash, bytes);
            }
        }
        let Some(body) = body.into_body(&images) else {
            return Err(StoreError::damaged(TABLE, id, "an image is missing"));
        };
        messages.push(Arc::new(Message {
            id: MessageId::new(id),
            body,
        }));
    }
    Ok(messages)
}
