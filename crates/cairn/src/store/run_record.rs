//! Run records: what the `runs` table knows of a run, as typed values.
//!
//! Must never know: how a run is begun or ended.

use std::sync::Arc;

use sqlx::{FromRow, SqliteConnection};

use super::usage_columns::UsageColumns;
use super::{StoreError, revisions};
use crate::model::{
    CallId, ConversationId, FailureKind, ParentCall, ProviderFault, RevisionId, RunId, RunKind, SubagentKind,
    Usage,
};

const TABLE: &str = "runs";

/// What is known of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRecord {
    /// The run.
    pub id: RunId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// The conversation in which the person speaks.
    pub root: ConversationId,
    /// A run of its own or a subagent's.
    pub kind: RunKind,
    /// The revision that it began upon.
    pub base: RevisionId,
    /// The configured model's id.
    pub model_id: Arc<str>,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Zero-based index of its latest model call, written before the call's HTTP request.
    pub provider_call_index: Option<u32>,
    /// How many times such an index was written.
    pub provider_calls: u32,
    /// How many of its requests broke their prefix without a declared reset: always a defect.
    pub prefix_breaks: u32,
    /// Absent while it goes on.
    pub outcome: Option<RecordedOutcome>,
    /// When it ended. Absent where nobody saw it end: it still stops after it was superseded, or its process
    /// died.
    pub ended_at_ms: Option<u64>,
    /// The newer run that took the conversation over.
    pub superseded_by: Option<RunId>,
    /// The sum over its model calls, as far as it was reported.
    pub usage: Option<Usage>,
}

/// How a run ended, as its record keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordedOutcome {
    /// The model finished and the client holds the final state.
    Completed,
    /// The person or a newer run stopped it.
    Cancelled,
    /// It could not go on.
    Failed(RecordedFailure),
    /// Its process died.
    Interrupted,
}

/// Why a run failed, as its record keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedFailure {
    /// Whose fault it was.
    pub kind: FailureKind,
    /// What was wrong with the model call, if it was one.
    pub provider_fault: Option<ProviderFault>,
    /// The failure's own words, cut to 300 characters, without control characters.
    pub cause: String,
}

/// A row of `runs`, with the keys that it holds turned into ids.
#[derive(FromRow)]
pub(super) struct RunRow {
    id: String,
    conversation_id: String,
    root_conversation_id: String,
    kind: String,
    subagent_kind: Option<String>,
    parent_run_id: Option<String>,
    parent_call_id: Option<String>,
    base_revision: Vec<u8>,
    model_id: String,
    started_at_ms: i64,
    provider_call_index: Option<i64>,
    provider_calls: i64,
    prefix_breaks: i64,
    outcome: Option<String>,
    ended_at_ms: Option<i64>,
    superseded_by: Option<String>,
    failure_category: Option<String>,
    provider_fault: Option<String>,
    cause: Option<String>,
    #[sqlx(flatten)]
    usage: UsageColumns,
}

impl RunRow {
    pub(super) async fn find(
        connection: &mut SqliteConnection,
        run: &RunId,
    ) -> Result<Option<Self>, StoreError> {
        sqlx::query_as(
            "SELECT runs.*, conversations.id AS conversation_id, newer.id AS superseded_by
             FROM runs JOIN conversations ON conversations.key = runs.conversation_key
             LEFT JOIN runs AS newer ON newer.key = runs.superseded_by_key
             WHERE runs.id = ?",
        )
        .bind(run.as_str())
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database("read a run"))
    }

    pub(super) async fn all(
        connection: &mut SqliteConnection,
        conversation: &ConversationId,
    ) -> Result<Vec<Self>, StoreError> {
        sqlx::query_as(
            "SELECT runs.*, conversations.id AS conversation_id, newer.id AS superseded_by
             FROM conversations JOIN runs ON runs.conversation_key = conversations.key
             LEFT JOIN runs AS newer ON newer.key = runs.superseded_by_key
             WHERE conversations.id = ? ORDER BY runs.started_at_ms, runs.key",
        )
        .bind(conversation.as_str())
        .fetch_all(connection)
        .await
        .map_err(StoreError::database("read the runs of a conversation"))
    }

    pub(super) fn into_record(self) -> Result<RunRecord, StoreError> {
        let kind = self.kind()?;
        let outcome = self.outcome()?;
        let usage = self.usage.usage(|column| self.damaged(column))?;
        Ok(RunRecord {
            kind,
            outcome,
            usage,
            started_at_ms: self.number("started_at_ms", self.started_at_ms)?,
            provider_call_index: self.count("provider_call_index", self.provider_call_index)?,
            provider_calls: self.number("provider_calls", self.provider_calls)?,
            prefix_breaks: self.number("prefix_breaks", self.prefix_breaks)?,
            ended_at_ms: self.count("ended_at_ms", self.ended_at_ms)?,
            id: RunId::new(self.id),
            conversation: ConversationId::new(self.conversation_id),
            root: ConversationId::new(self.root_conversation_id),
            base: revisions::id_of(&self.base_revision),
            model_id: self.model_id.into(),
            superseded_by: self.superseded_by.map(RunId::new),
        })
    }

    fn kind(&self) -> Result<RunKind, StoreError> {
        match (self.kind.as_str(), self.subagent_kind.as_deref()) {
            ("main", None) => Ok(RunKind::Main),
            ("subagent", Some(kind)) => Ok(RunKind::Subagent {
                kind: SubagentKind::new(kind),
                parent: self
                    .parent_run_id
                    .as_deref()
                    .zip(self.parent_call_id.as_deref())
                    .map(|(run, call)| ParentCall {
                        run: RunId::new(run),
                        call: CallId::new(call),
                    }),
            }),
            _ => Err(self.damaged("kind")),
        }
    }

    fn outcome(&self) -> Result<Option<RecordedOutcome>, StoreError> {
        Ok(match self.outcome.as_deref() {
            None => None,
            Some("completed") => Some(RecordedOutcome::Completed),
            Some("cancelled") => Some(RecordedOutcome::Cancelled),
            Some("interrupted") => Some(RecordedOutcome::Interrupted),
            Some("failed") => Some(RecordedOutcome::Failed(self.failure()?)),
            Some(_) => return Err(self.damaged("outcome")),
        })
    }

    fn failure(&self) -> Result<RecordedFailure, StoreError> {
        let category = self.failure_category.as_deref();
        let kind = FAILURE_KINDS
            .into_iter()
            .find(|kind| Some(kind.as_str()) == category)
            .ok_or_else(|| self.damaged("failure_category"))?;
        let provider_fault = match self.provider_fault.as_deref() {
            None => None,
            Some(name) => Some(
                PROVIDER_FAULTS
                    .into_iter()
                    .find(|fault| fault.as_str() == name)
                    .ok_or_else(|| self.damaged("provider_fault"))?,
            ),
        };
        let cause = self.cause.clone().ok_or_else(|| self.damaged("cause"))?;
        Ok(RecordedFailure {
            kind,
            provider_fault,
            cause,
        })
    }

    fn number<T: TryFrom<i64>>(&self, column: &str, value: i64) -> Result<T, StoreError> {
        T::try_from(value).map_err(|_| self.damaged(column))
    }

    fn count<T: TryFrom<i64>>(&self, column: &str, value: Option<i64>) -> Result<Option<T>, StoreError> {
        value.map(|value| self.number(column, value)).transpose()
    }

    fn damaged(&self, column: &str) -> StoreError {
        StoreError::damaged(TABLE, self.id.as_str(), format!("{column} holds no valid value"))
    }
}

const FAILURE_KINDS: [FailureKind; 4] = [
    FailureKind::Protocol,
    FailureKind::Provider,
    FailureKind::Store,
    FailureKind::Client,
];

const PROVIDER_FAULTS: [ProviderFault; 16] = [
    ProviderFault::Authentication,
    ProviderFault::Permission,
    ProviderFault::Quota,
    ProviderFault::NotFound,
    ProviderFault::InvalidRequest,
    ProviderFault::ContextLength,
    ProviderFault::MessageTooLong,
    ProviderFault::RateLimited,
    ProviderFault::Unavailable,
    ProviderFault::Connection,
    ProviderFault::Timeout,
    ProviderFault::Cut,
    ProviderFault::Malformed,
    ProviderFault::OutputLimit,
    ProviderFault::Filtered,
    ProviderFault::Unsupported,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A fault that the model gains must be readable here as well: its place in the list is its number.
    #[test]
    fn every_fault_and_kind_is_found_by_its_name() {
        for (at, fault) in PROVIDER_FAULTS.into_iter().enumerate() {
            let place = match fault {
                ProviderFault::Authentication => 0,
                ProviderFault::Permission => 1,
                ProviderFault::Quota => 2,
                ProviderFault::NotFound => 3,
                ProviderFault::InvalidRequest => 4,
                ProviderFault::ContextLength => 5,
                ProviderFault::MessageTooLong => 6,
                ProviderFault::RateLimited => 7,
                ProviderFault::Unavailable => 8,
                ProviderFault::Connection => 9,
                ProviderFault::Timeout => 10,
                ProviderFault::Cut => 11,
                ProviderFault::Malformed => 12,
                ProviderFault::OutputLimit => 13,
                ProviderFault::Filtered => 14,
                ProviderFault::Unsupported => 15,
            };
            assert_eq!(at, place);
        }
        for (at, kind) in FAILURE_KINDS.into_iter().enumerate() {
            let place = match kind {
                FailureKind::Protocol => 0,
                FailureKind::Provider => 1,
                FailureKind::Store => 2,
                FailureKind::Client => 3,
            };
            assert_eq!(at, place);
        }
    }
}
