//! Conversations: who owns them, where their head is, and which client states stand for which revision.
//!
//! Must never know: what a client state is made of, or how a run decides.

use sqlx::{FromRow, SqliteConnection};

use super::history_cache::History;
use super::revisions::{self, Appended, RevisionKey};
use super::{Store, StoreError};
use crate::model::{ConversationId, Message, RevisionId, RunId, StateDigest};

/// A conversation and its key in the database.
pub(super) struct Conversation {
    pub(super) key: i64,
    pub(super) id: ConversationId,
}

/// A conversation as its owning run sees it in a transaction.
pub(super) struct Owned {
    pub(super) run_key: i64,
    pub(super) conversation: Conversation,
    pub(super) head: RevisionId,
}

impl Store {
    /// The revision without messages. Makes the conversation if it is new.
    pub async fn empty_revision(&self, conversation: &ConversationId) -> Result<RevisionId, StoreError> {
        let empty = revisions::empty_id(conversation);
        let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM conversations WHERE id = ?)")
            .bind(conversation.as_str())
            .fetch_one(&mut *self.read().await?)
            .await
            .map_err(StoreError::database("find a conversation"))?;
        if !known {
            let mut tx = self.write().await?;
            create(&mut tx, conversation).await?;
            tx.commit()
                .await
                .map_err(StoreError::database("commit a conversation"))?;
        }
        self.histories.insert(empty.clone(), History::default());
        Ok(empty)
    }

    /// The head of the conversation, if it is known.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn head(&self, conversation: &ConversationId) -> Result<Option<RevisionId>, StoreError> {
        let head: Option<Vec<u8>> =
            sqlx::query_scalar("SELECT head_revision FROM conversations WHERE id = ?")
                .bind(conversation.as_str())
                .fetch_optional(&mut *self.read().await?)
                .await
                .map_err(StoreError::database("find a head"))?;
        Ok(head.as_deref().map(revisions::id_of))
    }

    /// The revision recorded for this state of the conversation, if any.
    pub async fn revision_of_state(
        &self,
        conversation: &ConversationId,
        digest: StateDigest,
    ) -> Result<Option<RevisionId>, StoreError> {
        find_state(&mut *self.read().await?, conversation, digest).await
    }

    /// Records that this state stands for this revision. A state that is recorded already keeps its revision: a
    /// client that sends one event twice reaches the same state by two revisions that say the same.
    ///
    /// # Errors
    /// [`StoreError::UnknownConversation`], [`StoreError::UnknownRevision`] and [`StoreError::ForeignRevision`].
    pub async fn record_state(
        &self,
        conversation: &ConversationId,
        digest: StateDigest,
        revision: &RevisionId,
    ) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let known = find(&mut tx, conversation).await?;
        let target = revisions::find_in(&mut tx, &known, revision).await?;
        if find_state(&mut tx, conversation, digest).await?.is_some() {
            return Ok(());
        }
        sqlx::query("INSERT INTO client_states (conversation_key, digest, revision) VALUES (?, ?, ?)")
            .bind(known.key)
            .bind(digest.0.as_slice())
            .bind(target.key.as_slice())
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("record a client state"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit a client state"))
    }

    /// Takes a client's own history over as a revision on top of the empty one. Makes the conversation if it
    /// is new; moves no head; the same history again gives the same revision.
    ///
    /// # Errors
    /// [`StoreError::MessageConflict`] where a message id exists with other content.
    pub async fn import(
        &self,
        conversation: &ConversationId,
        messages: &[Message],
    ) -> Result<RevisionId, StoreError> {
        let mut tx = self.write().await?;
        let known = create(&mut tx, conversation).await?;
        let empty = revisions::empty_id(conversation);
        let Appended { revision, messages } = revisions::append(&mut tx, &known, &empty, messages).await?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit an import"))?;
        self.histories.insert(revision.clone(), messages.into());
        Ok(revision)
    }

    /// Appends the messages that the head's history does not have yet, each exactly once, and moves the head.
    /// Where nothing is new the head stays.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] and [`StoreError::HeadMoved`]; [`StoreError::MessageConflict`] where a message
    /// id exists with other content. Nothing is kept of a refused append.
    pub async fn append(
        &self,
        run: &RunId,
        expected_head: &RevisionId,
        messages: &[Message],
    ) -> Result<RevisionId, StoreError> {
        let mut tx = self.write().await?;
        let owned = owned_at(&mut tx, run, expected_head).await?;
        let appended = advance(&mut tx, &owned, messages).await?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit messages"))?;
        Ok(self.remember(&owned, appended))
    }

    /// Keeps the history of a head that has just been committed.
    pub(super) fn remember(&self, owned: &Owned, appended: Appended) -> RevisionId {
        if appended.revision != owned.head {
            self.histories
                .extend(&owned.head, &appended.revision, appended.messages);
        }
        appended.revision
    }
}

/// Makes the conversation and its empty revision if they are not there.
async fn create(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
) -> Result<Conversation, StoreError> {
    let empty = revisions::key_of(&revisions::empty_id(conversation))?;
    sqlx::query("INSERT INTO conversations (id, head_revision) VALUES (?, ?) ON CONFLICT (id) DO NOTHING")
        .bind(conversation.as_str())
        .bind(empty.as_slice())
        .execute(&mut *connection)
        .await
        .map_err(StoreError::database("make a conversation"))?;
    let made = find(connection, conversation).await?;
    sqlx::query(
        "INSERT INTO revisions (id, conversation_key, parent, message_count, appended)
         VALUES (?, ?, NULL, 0, '[]')
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(empty.as_slice())
    .bind(made.key)
    .execute(connection)
    .await
    .map_err(StoreError::database("make the empty revision"))?;
    Ok(made)
}

pub(super) async fn find(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
) -> Result<Conversation, StoreError> {
    let key: Option<i64> = sqlx::query_scalar("SELECT key FROM conversations WHERE id = ?")
        .bind(conversation.as_str())
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database("find a conversation"))?;
    match key {
        Some(key) => Ok(Conversation {
            key,
            id: conversation.clone(),
        }),
        None => Err(StoreError::UnknownConversation(conversation.clone())),
    }
}

#[derive(FromRow)]
struct OwnershipRow {
    run_key: i64,
    conversation_key: i64,
    conversation: String,
    head: Vec<u8>,
    owner: Option<String>,
}

/// The run's conversation, if the run still owns it.
pub(super) async fn owned(connection: &mut SqliteConnection, run: &RunId) -> Result<Owned, StoreError> {
    let row: Option<OwnershipRow> = sqlx::query_as(
        "SELECT runs.key AS run_key, conversations.key AS conversation_key, conversations.id AS conversation,
                conversations.head_revision AS head, owner.id AS owner
         FROM runs
         JOIN conversations ON conversations.key = runs.conversation_key
         LEFT JOIN runs AS owner ON owner.key = conversations.active_run_key
         WHERE runs.id = ?",
    )
    .bind(run.as_str())
    .fetch_optional(connection)
    .await
    .map_err(StoreError::database("find a run's conversation"))?;
    let Some(row) = row else {
        return Err(StoreError::UnknownRun(run.clone()));
    };
    let conversation = Conversation {
        key: row.conversation_key,
        id: ConversationId::new(row.conversation),
    };
    if row.owner.as_deref() != Some(run.as_str()) {
        return Err(StoreError::NotOwner {
            run: run.clone(),
            conversation: conversation.id,
            owner: row.owner.map(RunId::new),
        });
    }
    Ok(Owned {
        run_key: row.run_key,
        conversation,
        head: revisions::id_of(&row.head),
    })
}

/// The run's conversation, if the run still owns it and nothing was appended since.
pub(super) async fn owned_at(
    connection: &mut SqliteConnection,
    run: &RunId,
    expected_head: &RevisionId,
) -> Result<Owned, StoreError> {
    let owned = owned(connection, run).await?;
    if owned.head != *expected_head {
        return Err(StoreError::HeadMoved {
            conversation: owned.conversation.id,
            expected: expected_head.clone(),
            head: owned.head,
        });
    }
    Ok(owned)
}

/// Appends to the head and moves it.
pub(super) async fn advance(
    connection: &mut SqliteConnection,
    owned: &Owned,
    messages: &[Message],
) -> Result<Appended, StoreError> {
    let appended = revisions::append(connection, &owned.conversation, &owned.head, messages).await?;
    if appended.revision != owned.head {
        move_head(connection, owned, &revisions::key_of(&appended.revision)?).await?;
    }
    Ok(appended)
}

/// Makes a revision the head.
pub(super) async fn move_head(
    connection: &mut SqliteConnection,
    owned: &Owned,
    revision: &RevisionKey,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE conversations SET head_revision = ? WHERE key = ?")
        .bind(revision.as_slice())
        .bind(owned.conversation.key)
        .execute(connection)
        .await
        .map_err(StoreError::database("move a head"))?;
    Ok(())
}

async fn find_state(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
    digest: StateDigest,
) -> Result<Option<RevisionId>, StoreError> {
    let found: Option<Vec<u8>> = sqlx::query_scalar(
        "SELECT revision FROM client_states
         WHERE conversation_key = (SELECT key FROM conversations WHERE id = ?) AND digest = ?",
    )
    .bind(conversation.as_str())
    .bind(digest.0.as_slice())
    .fetch_optional(connection)
    .await
    .map_err(StoreError::database("find a client state"))?;
    Ok(found.as_deref().map(revisions::id_of))
}
