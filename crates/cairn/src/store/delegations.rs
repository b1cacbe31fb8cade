//! Which calls of a conversation started work in another conversation, and which conversation is told of its end.
//!
//! Must never know: what kind of work that is, or how it is told.

use sqlx::FromRow;

use super::error::column;
use super::{Store, StoreError, conversations};
use crate::model::{CallId, ConversationId, Delegation, DelegationOrigin, SubagentKind};

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

    /// The delegations of all branches whose end is this conversation's to be told of, oldest first.
    ///
    /// # Errors
    /// If the database fails or is damaged.
    pub async fn delegations(&self, conversation: &ConversationId) -> Result<Vec<Delegation>, StoreError> {
        let rows: Vec<DelegationRow> = sqlx::query_as(
            "SELECT maker.id AS maker, call_id, child_conversation_id AS child, since_ms, background, heir_call_id
             FROM conversations AS told
             JOIN delegations ON told.key = coalesce(heir_key, conversation_key)
             JOIN conversations AS maker ON maker.key = conversation_key
             WHERE told.id = ? ORDER BY delegations.key",
        )
        .bind(conversation.as_str())
        .fetch_all(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find delegations"))?;
        rows.into_iter().map(DelegationRow::into_delegation).collect()
    }

    /// Makes the end of a delegation another conversation's to be told of, for whose call the conversation worked that
    /// was told until now. Returns the delegation as the heir has it.
    ///
    /// # Errors
    /// [`StoreError::UnknownConversation`], or if the database fails.
    pub async fn hand_over(
        &self,
        from: &ConversationId,
        delegation: Delegation,
        heir: &ConversationId,
        heir_call: &CallId,
    ) -> Result<Delegation, StoreError> {
        let (maker, made_by) = match delegation.origin {
            DelegationOrigin::Own => (from.clone(), delegation.call),
            DelegationOrigin::Inherited { conversation, call } => (conversation, call),
        };
        let mut tx = self.write().await?;
        let maker_key = conversations::find(&mut tx, &maker).await?.key;
        let heir_key = conversations::find(&mut tx, heir).await?.key;
        sqlx::query(
            "UPDATE delegations SET heir_key = ?, heir_call_id = ?
             WHERE conversation_key = ? AND call_id = ? AND child_conversation_id = ?",
        )
        .bind(heir_key)
        .bind(heir_call.as_str())
        .bind(maker_key)
        .bind(made_by.as_str())
        .bind(delegation.child.as_str())
        .execute(&mut *tx)
        .await
        .map_err(StoreError::database("hand a delegation over"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit a handed over delegation"))?;
        Ok(Delegation {
            call: heir_call.clone(),
            origin: DelegationOrigin::Inherited {
                conversation: maker,
                call: made_by,
            },
            ..delegation
        })
    }

    /// The conversations of subagents that work, or have worked, for this one, by itself or inherited, and whose history is
    /// known here: each once, with the kind of its first run, the one that was started first before the others.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn children(
        &self,
        conversation: &ConversationId,
    ) -> Result<Vec<(ConversationId, SubagentKind)>, StoreError> {
        let children: Vec<(String, String)> = sqlx::query_as(
            "SELECT child_conversation_id, first.subagent_kind FROM delegations
             JOIN conversations ON conversations.key IN (delegations.conversation_key, heir_key)
             JOIN conversations AS child ON child.id = child_conversation_id
             JOIN runs AS first
               ON first.key = (SELECT min(runs.key) FROM runs WHERE runs.conversation_key = child.key)
             WHERE conversations.id = ? AND first.subagent_kind IS NOT NULL
             GROUP BY child_conversation_id ORDER BY min(delegations.key)",
        )
        .bind(conversation.as_str())
        .fetch_all(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find started conversations"))?;
        let typed = |(id, kind): (String, String)| (ConversationId::new(id), SubagentKind::new(kind));
        Ok(children.into_iter().map(typed).collect())
    }
}

#[derive(FromRow)]
struct DelegationRow {
    maker: String,
    call_id: String,
    child: String,
    since_ms: i64,
    background: bool,
    heir_call_id: Option<String>,
}

impl DelegationRow {
    fn into_delegation(self) -> Result<Delegation, StoreError> {
        let since_ms = u64::try_from(self.since_ms)
            .map_err(|_| StoreError::damaged(TABLE, &self.call_id, "its time is before 1970"))?;
        let made_by = CallId::new(self.call_id);
        let (call, origin) = match self.heir_call_id {
            None => (made_by, DelegationOrigin::Own),
            Some(heir_call) => (
                CallId::new(heir_call),
                DelegationOrigin::Inherited {
                    conversation: ConversationId::new(self.maker),
                    call: made_by,
                },
            ),
        };
        Ok(Delegation {
            call,
            child: ConversationId::new(self.child),
            since_ms,
            background: self.background,
            origin,
        })
    }
}
