//! Which calls of a conversation started work in another conversation.
//!
//! Must never know: what kind of work that is, or who is told of its end.

use super::error::column;
use super::{Store, StoreError, conversations};
use crate::model::{CallId, ConversationId, Delegation};

const TABLE: &str = "delegations";

impl Store {
    /// Notes a delegation. Noting it again does nothing.
    ///
    /// # Errors
    /// [`StoreError::UnknownConversation`], or if the database fails.
    pub async fn note_delegation(
        &self,
        conversation: &ConversationId,
        delegation: &Delegation,
    ) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let known = conversations::find(&mut tx, conversation).await?;
        sqlx::query(
            "INSERT INTO delegations (conversation_key, call_id, child_conversation_id, since_ms, background)
             VALUES (?, ?, ?, ?, ?)
             ON CONFLICT DO NOTHING",
        )
        .bind(known.key)
        .bind(delegation.call.as_str())
        .bind(delegation.child.as_str())
        .bind(column("a start time", delegation.since_ms)?)
        .bind(delegation.background)
        .execute(&mut *tx)
        .await
        .map_err(StoreError::database("note a delegation"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit a delegation"))
    }

    /// The delegations of all branches of a conversation, oldest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn delegations(&self, conversation: &ConversationId) -> Result<Vec<Delegation>, StoreError> {
        let rows: Vec<(String, String, i64, bool)> = sqlx::query_as(
            "SELECT call_id, child_conversation_id, since_ms, background FROM delegations
             JOIN conversations ON conversations.key = delegations.conversation_key
             WHERE conversations.id = ? ORDER BY delegations.key",
        )
        .bind(conversation.as_str())
        .fetch_all(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find delegations"))?;
        rows.into_iter()
            .map(|(call, child, since_ms, background)| {
                Ok(Delegation {
                    since_ms: u64::try_from(since_ms)
                        .map_err(|_| StoreError::damaged(TABLE, &call, "its time is before 1970"))?,
                    call: CallId::new(call),
                    child: ConversationId::new(child),
                    background,
                })
            })
            .collect()
    }

    /// The conversations in which this one has started work and whose history is known here, each once, the one that
    /// was started first before the others.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn children(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>, StoreError> {
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT child_conversation_id FROM delegations
             JOIN conversations ON conversations.key = delegations.conversation_key
             WHERE conversations.id = ? AND EXISTS (
                 SELECT 1 FROM conversations AS child JOIN runs ON runs.conversation_key = child.key
                 WHERE child.id = child_conversation_id
             )
             GROUP BY child_conversation_id ORDER BY min(delegations.key)",
        )
        .bind(conversation.as_str())
        .fetch_all(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find started conversations"))?;
        Ok(ids.into_iter().map(ConversationId::new).collect())
    }
}
