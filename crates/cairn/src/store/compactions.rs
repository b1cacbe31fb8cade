//! Compactions: a conversation's head becomes a new history that begins with a summary; the old one stays stored.
//!
//! The row is the declared reset of the prefix: whoever compares requests reads here that two of them need not extend
//! each other, and why. Must never know: how a summary is made, or when.

use sqlx::{FromRow, SqliteConnection};

use super::conversations;
use super::revisions::{self, Appended};
use super::{Store, StoreError};
use crate::model::{CompactionTrigger, ConversationId, Message, RevisionId, RunId};

const TABLE: &str = "compactions";

/// A declared reset of a conversation's prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// The revision that begins anew. What grows from it does not extend what was before.
    pub revision: RevisionId,
    /// The head that it took the place of.
    pub archived: RevisionId,
    /// The run that did it.
    pub run: RunId,
    /// Zero-based index of the run's model call that made the summary; of a shortening, of the one that was refused.
    pub provider_call_index: u32,
    /// Why.
    pub trigger: CompactionTrigger,
}

#[derive(FromRow)]
struct CompactionRow {
    revision: Vec<u8>,
    archived: Vec<u8>,
    run: String,
    provider_call_index: i64,
    reason: String,
}

impl Store {
    /// Begins the history anew with these messages and makes it the head. The old head stays as it is.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] and [`StoreError::HeadMoved`]; [`StoreError::MessageConflict`] where a message id
    /// exists with other content; [`StoreError::MalformedCompaction`] where there is no message. Nothing is kept of a
    /// refused compaction.
    pub async fn compact(
        &self,
        run: &RunId,
        expected_head: &RevisionId,
        trigger: CompactionTrigger,
        provider_call_index: u32,
        messages: &[Message],
    ) -> Result<RevisionId, StoreError> {
        if messages.is_empty() {
            return Err(StoreError::MalformedCompaction(run.clone()));
        }
        let mut tx = self.write().await?;
        let owned = conversations::owned_at(&mut tx, run, expected_head).await?;
        let empty = revisions::empty_id(&owned.conversation.id);
        let Appended { revision, messages } =
            revisions::append(&mut tx, &owned.conversation, &empty, messages).await?;
        let key = revisions::key_of(&revision)?;
        sqlx::query(
            "INSERT INTO compactions (revision, archived, run_key, provider_call_index, reason)
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(key.as_slice())
        .bind(revisions::key_of(expected_head)?.as_slice())
        .bind(owned.run_key)
        .bind(provider_call_index)
        .bind(trigger.as_str())
        .execute(&mut *tx)
        .await
        .map_err(StoreError::database("store a compaction"))?;
        conversations::move_head(&mut tx, &owned, &key).await?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit a compaction"))?;
        self.histories.insert(revision.clone(), messages.into());
        Ok(revision)
    }

    /// The compaction that the revision's history began with, if it began with one.
    ///
    /// # Errors
    /// [`StoreError::UnknownRevision`] for an id that no revision has.
    pub async fn compaction_behind(&self, revision: &RevisionId) -> Result<Option<Compaction>, StoreError> {
        let row: Option<CompactionRow> = sqlx::query_as(
            "WITH RECURSIVE chain (id, parent) AS (
                 SELECT id, parent FROM revisions WHERE id = ?
                 UNION ALL
                 SELECT older.id, older.parent FROM chain JOIN revisions AS older ON older.id = chain.parent
             )
             SELECT compactions.*, runs.id AS run
             FROM chain JOIN compactions ON compactions.revision = chain.id
             JOIN runs ON runs.key = compactions.run_key",
        )
        .bind(revisions::key_of(revision)?.as_slice())
        .fetch_optional(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find a compaction"))?;
        row.map(CompactionRow::into_compaction).transpose()
    }

    /// All compactions of a conversation, in the order in which they were made.
    ///
    /// # Errors
    /// If the database fails or is damaged.
    pub async fn compactions_of(&self, conversation: &ConversationId) -> Result<Vec<Compaction>, StoreError> {
        let rows = all(&mut *self.read().await?, conversation).await?;
        rows.into_iter().map(CompactionRow::into_compaction).collect()
    }
}

async fn all(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
) -> Result<Vec<CompactionRow>, StoreError> {
    sqlx::query_as(
        "SELECT compactions.*, runs.id AS run
         FROM conversations JOIN runs ON runs.conversation_key = conversations.key
         JOIN compactions ON compactions.run_key = runs.key
         WHERE conversations.id = ? ORDER BY runs.key, compactions.provider_call_index",
    )
    .bind(conversation.as_str())
    .fetch_all(connection)
    .await
    .map_err(StoreError::database("read the compactions of a conversation"))
}

impl CompactionRow {
    fn into_compaction(self) -> Result<Compaction, StoreError> {
        let revision = revisions::id_of(&self.revision);
        let damaged = |reason: &str| StoreError::damaged(TABLE, revision.as_str(), reason);
        let trigger = CompactionTrigger::ALL
            .into_iter()
            .find(|trigger| trigger.as_str() == self.reason)
            .ok_or_else(|| damaged("its reason is unknown"))?;
        Ok(Compaction {
            archived: revisions::id_of(&self.archived),
            run: RunId::new(self.run),
            provider_call_index: u32::try_from(self.provider_call_index)
                .map_err(|_| damaged("its provider_call_index is out of range"))?,
            trigger,
            revision,
        })
    }
}
