//! Which calls of a conversation started work in another conversation that goes on after the call has its result.
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
            "INSERT INTO delegations (conversation_key, call_id, child_conversation_id, since_ms) VALUES (?, ?, ?, ?)
             ON CONFLICT DO NOTHING",
        )
        .bind(known.key)
        .bind(delegation.call.as_str())
        .bind(delegation.child.as_str())
        .bind(column("a start time", delegation.since_ms)?)
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
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT call_id, child_conversation_id, since_ms FROM delegations
             JOIN conversations ON conversations.key = delegations.conversation_key
             WHERE conversations.id = ? ORDER BY delegations.key",
        )
        .bind(conversation.as_str())
        .fetch_all(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find delegations"))?;
        rows.into_iter()
            .map(|(call, child, since_ms)| {
                Ok(Delegation {
                    since_ms: u64::try_from(since_ms)
                        .map_err(|_| StoreError::damaged(TABLE, &call, "its time is before 1970"))?,
                    call: CallId::new(call),
                    child: ConversationId::new(child),
                })
            })
            .collect()
    }
}
