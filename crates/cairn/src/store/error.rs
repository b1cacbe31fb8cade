//! Why the store refused or failed.
//!
//! Must never know: prompts, results or keys; an error names ids only.

use std::path::PathBuf;

use crate::model::{CallId, ConversationId, MessageId, RevisionId, RunFailure, RunId, ToolRoundId};

/// Why the store refused or failed. The refusals that a run meets in normal life are
/// [`NotOwner`](Self::NotOwner) and [`HeadMoved`](Self::HeadMoved); everything else is a fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database file or its folder could not be made or opened.
    #[error("cannot open {path}: {source}; check that the folder exists, is writable and has space")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process has the database open.
    #[error("{path} is in use by another cairn; stop it, or choose another data folder")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is a database of something else, or of a cairn with another schema.
    #[error(
        "{path} does not hold this cairn's schema ({reason}); choose another data folder or move the file away"
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// SQLite failed.
    #[error("the database failed to {action}: {source}")]
    Database {
        /// What was being done.
        action: &'static str,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// A row breaks the store's own rules.
    #[error("the database is damaged: {table} {id}: {reason}; restore a copy or move the file away")]
    Damaged {
        /// The table.
        table: &'static str,
        /// The row.
        id: String,
        /// What is wrong; never the row's content.
        reason: String,
    },
    /// A number does not fit the column.
    #[error("{what} is too large to store: {value}")]
    OutOfRange {
        /// The value's name.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// The conversation does not exist.
    #[error("conversation {0} is unknown")]
    UnknownConversation(ConversationId),
    /// The revision does not exist.
    #[error("revision {0} is unknown")]
    UnknownRevision(RevisionId),
    /// The revision belongs to another conversation.
    #[error("revision {revision} does not belong to conversation {conversation}")]
    ForeignRevision {
        /// The conversation that was named.
        conversation: ConversationId,
        /// The revision.
        revision: RevisionId,
    },
    /// The run does not exist.
    #[error("run {0} is unknown")]
    UnknownRun(RunId),
    /// The run has begun before.
    #[error("run {0} has begun before; every attempt needs its own id")]
    RunExists(RunId),
    /// The run has ended before.
    #[error("run {0} has ended before")]
    RunEnded(RunId),
    /// The run does not own its conversation any more: a newer run took over, or it has ended.
    #[error("run {run} does not own conversation {conversation}")]
    NotOwner {
        /// The run that was refused.
        run: RunId,
        /// Its conversation.
        conversation: ConversationId,
        /// Who owns the conversation now.
        owner: Option<RunId>,
    },
    /// The head is not the revision that the caller built upon.
    #[error("the head of conversation {conversation} is {head}, not {expected}")]
    HeadMoved {
        /// The conversation.
        conversation: ConversationId,
        /// What the caller expected.
        expected: RevisionId,
        /// The head.
        head: RevisionId,
    },
    /// A message id is already taken by other content.
    #[error("message {message} of conversation {conversation} exists with other content")]
    MessageConflict {
        /// The conversation.
        conversation: ConversationId,
        /// The message.
        message: MessageId,
    },
    /// A provider call's index is neither the latest one nor the next one.
    #[error("provider call {given} of run {run} is out of order")]
    ProviderCallOrder {
        /// The run.
        run: RunId,
        /// The latest index.
        latest: Option<u32>,
        /// The index that was given.
        given: u32,
    },
    /// A round with this id exists, or another round of the run is open.
    #[error("tool round {0} cannot begin: its id is taken or its run still waits for another round")]
    RoundConflict(ToolRoundId),
    /// A round without calls, or with a call id twice.
    #[error("tool round {0} needs calls, each with its own id")]
    MalformedRound(ToolRoundId),
    /// A compaction that keeps no message.
    #[error("run {0} compacts its history to nothing; it needs a summary")]
    MalformedCompaction(RunId),
    /// The round does not exist in the run.
    #[error("run {run} has no tool round {round}")]
    UnknownRound {
        /// The run.
        run: RunId,
        /// The round.
        round: ToolRoundId,
    },
    /// The round waits for nothing any more.
    #[error("tool round {round} is {state}")]
    RoundClosed {
        /// The round.
        round: ToolRoundId,
        /// `settled` or `abandoned`.
        state: String,
    },
    /// The round has no such call.
    #[error("tool round {round} has no call {:?}", call.as_str())]
    UnknownCall {
        /// The round.
        round: ToolRoundId,
        /// The call.
        call: CallId,
    },
    /// The call has its result already.
    #[error("call {:?} of tool round {round} has its result already", call.as_str())]
    RepeatedResult {
        /// The round.
        round: ToolRoundId,
        /// The call.
        call: CallId,
    },
}

impl StoreError {
    /// Whether a newer run took the conversation over: the caller is to stop, and nothing is wrong.
    pub fn is_superseded(&self) -> bool {
        matches!(self, Self::NotOwner { .. })
    }

    pub(super) fn database(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database { action, source }
    }

    pub(super) fn damaged(table: &'static str, id: impl Into<String>, reason: impl ToString) -> Self {
        Self::Damaged {
            table,
            id: id.into(),
            reason: reason.to_string(),
        }
    }
}

/// A number for a column: SQLite holds signed 64-bit integers.
pub(super) fn column(what: &'static str, value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::OutOfRange { what, value })
}

impl From<StoreError> for RunFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}
