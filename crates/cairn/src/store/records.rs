//! The records of a data folder, read beside the server that may have it open.
//!
//! Takes no lock, makes nothing and changes nothing. Must never know: how a record is shown.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::StoreError;
use super::model_calls::{self, ModelCallRecord};
use super::sqlite::{BUSY_TIMEOUT, check_schema, unreadable};
use crate::model::ConversationId;

/// A read-only view of a database file.
#[derive(Debug)]
pub struct Records {
    connection: SqliteConnection,
}

impl Records {
    /// Opens the database at `path` to read it.
    ///
    /// # Errors
    /// [`StoreError::Open`] where there is no such file, [`StoreError::Schema`] where it is not ours or was made by
    /// another version, [`StoreError::Database`] for the rest.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        tokio::fs::metadata(path)
            .await
            .map_err(|source| StoreError::Open {
                path: path.to_owned(),
                source,
            })?;
        let mut connection = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging()
            .connect()
            .await
            .map_err(|source| unreadable(path, source))?;
        check_schema(path, &mut connection).await?;
        Ok(Self { connection })
    }

    /// All model calls of a conversation in the order in which they were sent.
    ///
    /// # Errors
    /// [`StoreError::UnknownConversation`], and [`StoreError::Damaged`] where a row does not decode.
    pub async fn model_calls(
        &mut self,
        conversation: &ConversationId,
    ) -> Result<Vec<ModelCallRecord>, StoreError> {
        // One read: the server may add to it meanwhile.
        let mut transaction = self
            .connection
            .begin()
            .await
            .map_err(StoreError::database("begin to read"))?;
        model_calls::of_conversation(&mut transaction, conversation)
            .await?
            .ok_or_else(|| StoreError::UnknownConversation(conversation.clone()))
    }
}
