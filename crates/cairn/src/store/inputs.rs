//! The client's logical inputs: which content of each became which message, so that an edit is told from a repeat.
//!
//! Must never know: what an input says; only a hash of it is kept.

use super::{Store, StoreError, conversations};
use crate::model::{ConversationId, MessageId};

impl Store {
    /// Notes that this content of an input becomes this message. Noting it again does nothing.
    ///
    /// # Errors
    /// [`StoreError::UnknownConversation`], or if the database fails.
    pub async fn note_input(
        &self,
        conversation: &ConversationId,
        input_id: &str,
        content: [u8; 32],
        message: &MessageId,
    ) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let known = conversations::find(&mut tx, conversation).await?;
        sqlx::query(
            "INSERT INTO inputs (conversation_key, input_id, content, message_id) VALUES (?, ?, ?, ?)
             ON CONFLICT DO NOTHING",
        )
        .bind(known.key)
        .bind(input_id)
        .bind(content.as_slice())
        .bind(message.as_str())
        .execute(&mut *tx)
        .await
        .map_err(StoreError::database("note an input"))?;
        tx.commit().await.map_err(StoreError::database("commit an input"))
    }

    /// Whether this content of an input was noted as having become this message.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn input_became(
        &self,
        conversation: &ConversationId,
        input_id: &str,
        content: [u8; 32],
        message: &MessageId,
    ) -> Result<bool, StoreError> {
        sqlx::query_scalar(
            "SELECT EXISTS (
                 SELECT 1 FROM inputs JOIN conversations ON conversations.key = inputs.conversation_key
                 WHERE conversations.id = ? AND input_id = ? AND content = ? AND message_id = ?
             )",
        )
        .bind(conversation.as_str())
        .bind(input_id)
        .bind(content.as_slice())
        .bind(message.as_str())
        .fetch_one(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find an input"))
    }
}
