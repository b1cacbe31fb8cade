//! Run records: how a run began, how far it came, how it ended and what it used.
//!
//! Owns the hand-over of a conversation from run to run. Must never know: prompts, events or how a run works.

use std::sync::Arc;

use sqlx::{FromRow, SqliteConnection};

use super::error::column;
use super::{Store, StoreError, conversations, revisions, tool_rounds};
use crate::model::{
    CallId, ConversationId, FailureKind, ParentCall, PreparedRun, ProviderFault, RevisionId, RunFailure,
    RunId, RunKind, RunOutcome, Usage,
};

const TABLE: &str = "runs";

/// Longest cause in a record, in characters.
const CAUSE_LIMIT: usize = 300;

/// What the beginning of a run did to its conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BegunRun {
    /// The run that owned the conversation until now. Its record says cancelled; it is still to be stopped.
    pub superseded: Option<RunId>,
}

/// How a run ended, for its record.
#[derive(Clone, Copy, Debug)]
pub struct RunRecordEnd<'a> {
    /// The outcome.
    pub outcome: &'a RunOutcome,
    /// The sum over its model calls; a count that no endpoint reported stays absent.
    pub usage: Option<Usage>,
    /// When it ended, in milliseconds since the Unix epoch.
    pub ended_at_ms: u64,
}

/// What is known of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRecord {
    /// The run.
    pub id: RunId,
    /// Its conversation.
    pub conversation: ConversationId,
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

impl Store {
    /// Begins a run: in one transaction it is recorded, becomes the one owner of its conversation and makes
    /// its base the head. A run that owned the conversation is recorded as cancelled and its open tool round
    /// as abandoned; nothing that it committed is lost.
    ///
    /// # Errors
    /// [`StoreError::RunExists`], [`StoreError::UnknownConversation`], [`StoreError::UnknownRevision`] and
    /// [`StoreError::ForeignRevision`].
    pub async fn begin_run(&self, run: &PreparedRun, started_at_ms: u64) -> Result<BegunRun, StoreError> {
        let mut tx = self.write().await?;
        let owner: Option<Option<String>> =
            sqlx::query_scalar("SELECT active_run_id FROM conversations WHERE id = ?")
                .bind(run.conversation.as_str())
                .fetch_optional(&mut *tx)
                .await
                .map_err(StoreError::database("find a conversation"))?;
        let Some(owner) = owner else {
            return Err(StoreError::UnknownConversation(run.conversation.clone()));
        };
        revisions::expect_in(&mut tx, &run.conversation, &run.base).await?;
        insert(&mut tx, run, started_at_ms).await?;
        let superseded = owner.map(RunId::new);
        if let Some(old) = &superseded {
            sqlx::query("UPDATE runs SET outcome = 'cancelled', superseded_by = ? WHERE id = ?")
                .bind(run.id.as_str())
                .bind(old.as_str())
                .execute(&mut *tx)
                .await
                .map_err(StoreError::database("supersede a run"))?;
            tool_rounds::abandon_open(&mut tx, old).await?;
        }
        sqlx::query("UPDATE conversations SET active_run_id = ?, head_revision_id = ? WHERE id = ?")
            .bind(run.id.as_str())
            .bind(run.base.as_str())
            .bind(run.conversation.as_str())
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("hand a conversation over"))?;
        tx.commit().await.map_err(StoreError::database("commit a run"))?;
        Ok(BegunRun { superseded })
    }

    /// Records that the run is about to send this model call. A repeat of the latest index is a retry of the
    /// same call and is counted too.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`], and [`StoreError::ProviderCallOrder`] where the index is neither the latest
    /// nor the next one.
    pub async fn record_provider_call(
        &self,
        run: &RunId,
        provider_call_index: u32,
    ) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        conversations::owned(&mut tx, run).await?;
        let latest: Option<u32> = sqlx::query_scalar("SELECT provider_call_index FROM runs WHERE id = ?")
            .bind(run.as_str())
            .fetch_one(&mut *tx)
            .await
            .map_err(StoreError::database("read a run"))?;
        let next = latest.map_or(0, |latest| latest.saturating_add(1));
        if latest != Some(provider_call_index) && next != provider_call_index {
            return Err(StoreError::ProviderCallOrder {
                run: run.clone(),
                latest,
                given: provider_call_index,
            });
        }
        sqlx::query(
            "UPDATE runs SET provider_call_index = ?, provider_calls = provider_calls + 1 WHERE id = ?",
        )
        .bind(provider_call_index)
        .bind(run.as_str())
        .execute(&mut *tx)
        .await
        .map_err(StoreError::database("record a provider call"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit a provider call"))
    }

    /// Ends the run's record and frees its conversation if the run still owns it. A run that a newer one
    /// superseded stays cancelled; its end time and usage are recorded. An open tool round is abandoned.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], and [`StoreError::RunEnded`] the second time.
    pub async fn end_run(&self, run: &RunId, end: &RunRecordEnd<'_>) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let Some(row) = RunRow::find(&mut tx, run).await? else {
            return Err(StoreError::UnknownRun(run.clone()));
        };
        let stopping = row.superseded_by.is_some() && row.ended_at_ms.is_none();
        if row.outcome.is_some() && !stopping {
            return Err(StoreError::RunEnded(run.clone()));
        }
        if !stopping {
            record_outcome(&mut tx, run, end.outcome).await?;
            tool_rounds::abandon_open(&mut tx, run).await?;
        }
        record_end(&mut tx, run, end).await?;
        sqlx::query("UPDATE conversations SET active_run_id = NULL WHERE id = ? AND active_run_id = ?")
            .bind(&row.conversation_id)
            .bind(run.as_str())
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("free a conversation"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit the end of a run"))
    }

    /// The run's record, if it has begun.
    pub async fn run_record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        let row = RunRow::find(&mut *self.read().await?, run).await?;
        row.map(RunRow::into_record).transpose()
    }

    /// The records of the conversation's runs, oldest first.
    pub async fn runs_of(&self, conversation: &ConversationId) -> Result<Vec<RunRecord>, StoreError> {
        let rows: Vec<RunRow> =
            sqlx::query_as("SELECT * FROM runs WHERE conversation_id = ? ORDER BY started_at_ms, id")
                .bind(conversation.as_str())
                .fetch_all(&mut *self.read().await?)
                .await
                .map_err(StoreError::database("read the runs of a conversation"))?;
        rows.into_iter().map(RunRow::into_record).collect()
    }

    /// Closes what a dead process left: nobody else can have the file open now.
    pub(super) async fn interrupt_unfinished_runs(&self) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let runs: Vec<String> =
            sqlx::query_scalar("SELECT active_run_id FROM conversations WHERE active_run_id IS NOT NULL")
                .fetch_all(&mut *tx)
                .await
                .map_err(StoreError::database("find unfinished runs"))?;
        for run in runs {
            sqlx::query("UPDATE runs SET outcome = 'interrupted' WHERE id = ?")
                .bind(&run)
                .execute(&mut *tx)
                .await
                .map_err(StoreError::database("interrupt a run"))?;
            tool_rounds::abandon_open(&mut tx, &RunId::new(run)).await?;
        }
        sqlx::query("UPDATE conversations SET active_run_id = NULL WHERE active_run_id IS NOT NULL")
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("free conversations"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit interrupted runs"))
    }
}

async fn insert(
    connection: &mut SqliteConnection,
    run: &PreparedRun,
    started_at_ms: u64,
) -> Result<(), StoreError> {
    let (kind, subagent_kind, parent) = match &run.kind {
        RunKind::Main => ("main", None, None),
        RunKind::Subagent { kind, parent } => ("subagent", Some(&**kind), parent.as_ref()),
    };
    let inserted = sqlx::query(
        "INSERT INTO runs (id, conversation_id, kind, subagent_kind, parent_run_id, parent_call_id,
                           base_revision_id, model_id, started_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
    )
    .bind(run.id.as_str())
    .bind(run.conversation.as_str())
    .bind(kind)
    .bind(subagent_kind)
    .bind(parent.map(|parent| parent.run.as_str()))
    .bind(parent.map(|parent| parent.call.as_str()))
    .bind(run.base.as_str())
    .bind(&*run.model.model_id)
    .bind(column("a start time", started_at_ms)?)
    .execute(connection)
    .await
    .map_err(StoreError::database("record a run"))?
    .rows_affected();
    if inserted == 0 {
        return Err(StoreError::RunExists(run.id.clone()));
    }
    Ok(())
}

async fn record_outcome(
    connection: &mut SqliteConnection,
    run: &RunId,
    outcome: &RunOutcome,
) -> Result<(), StoreError> {
    let (name, failure) = match outcome {
        RunOutcome::Completed => ("completed", None),
        RunOutcome::Cancelled => ("cancelled", None),
        RunOutcome::Failed(failure) => ("failed", Some(failure)),
    };
    let provider_fault = match failure {
        Some(RunFailure::Provider(failure)) => Some(failure.fault.as_str()),
        _ => None,
    };
    sqlx::query(
        "UPDATE runs SET outcome = ?, failure_category = ?, provider_fault = ?, cause = ? WHERE id = ?",
    )
    .bind(name)
    .bind(failure.map(|failure| failure.kind().as_str()))
    .bind(provider_fault)
    .bind(failure.map(|failure| short_cause(&failure.to_string())))
    .bind(run.as_str())
    .execute(connection)
    .await
    .map_err(StoreError::database("record an outcome"))?;
    Ok(())
}

async fn record_end(
    connection: &mut SqliteConnection,
    run: &RunId,
    end: &RunRecordEnd<'_>,
) -> Result<(), StoreError> {
    let usage = end.usage.unwrap_or_default();
    let tokens = |count: Option<u64>| count.map(|count| column("a token count", count)).transpose();
    sqlx::query(
        "UPDATE runs SET ended_at_ms = ?, fresh_input_tokens = ?, cache_read_tokens = ?,
                         cache_write_tokens = ?, output_tokens = ?, reasoning_tokens = ?
         WHERE id = ?",
    )
    .bind(column("an end time", end.ended_at_ms)?)
    .bind(tokens(usage.fresh_input)?)
    .bind(tokens(usage.cache_read)?)
    .bind(tokens(usage.cache_write)?)
    .bind(tokens(usage.output)?)
    .bind(tokens(usage.reasoning)?)
    .bind(run.as_str())
    .execute(connection)
    .await
    .map_err(StoreError::database("record the end of a run"))?;
    Ok(())
}

/// One readable line of bounded length: a cause may quote what an endpoint sent.
fn short_cause(text: &str) -> String {
    let mut cause: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(CAUSE_LIMIT)
        .collect();
    if text.chars().nth(CAUSE_LIMIT).is_some() {
        cause.pop();
        cause.push('…');
    }
    cause
}

#[derive(FromRow)]
struct RunRow {
    id: String,
    conversation_id: String,
    kind: String,
    subagent_kind: Option<String>,
    parent_run_id: Option<String>,
    parent_call_id: Option<String>,
    base_revision_id: String,
    model_id: String,
    started_at_ms: i64,
    provider_call_index: Option<i64>,
    provider_calls: i64,
    outcome: Option<String>,
    ended_at_ms: Option<i64>,
    superseded_by: Option<String>,
    failure_category: Option<String>,
    provider_fault: Option<String>,
    cause: Option<String>,
    fresh_input_tokens: Option<i64>,
    cache_read_tokens: Option<i64>,
    cache_write_tokens: Option<i64>,
    output_tokens: Option<i64>,
    reasoning_tokens: Option<i64>,
}

impl RunRow {
    async fn find(connection: &mut SqliteConnection, run: &RunId) -> Result<Option<Self>, StoreError> {
        sqlx::query_as("SELECT * FROM runs WHERE id = ?")
            .bind(run.as_str())
            .fetch_optional(connection)
            .await
            .map_err(StoreError::database("read a run"))
    }

    fn into_record(self) -> Result<RunRecord, StoreError> {
        let kind = self.kind()?;
        let outcome = self.outcome()?;
        let usage = Usage {
            fresh_input: self.count("fresh_input_tokens", self.fresh_input_tokens)?,
            cache_read: self.count("cache_read_tokens", self.cache_read_tokens)?,
            cache_write: self.count("cache_write_tokens", self.cache_write_tokens)?,
            output: self.count("output_tokens", self.output_tokens)?,
            reasoning: self.count("reasoning_tokens", self.reasoning_tokens)?,
        };
        Ok(RunRecord {
            kind,
            outcome,
            usage: (usage != Usage::default()).then_some(usage),
            started_at_ms: self.number("started_at_ms", self.started_at_ms)?,
            provider_call_index: self.count("provider_call_index", self.provider_call_index)?,
            provider_calls: self.number("provider_calls", self.provider_calls)?,
            ended_at_ms: self.count("ended_at_ms", self.ended_at_ms)?,
            id: RunId::new(self.id),
            conversation: ConversationId::new(self.conversation_id),
            base: RevisionId::new(self.base_revision_id),
            model_id: self.model_id.into(),
            superseded_by: self.superseded_by.map(RunId::new),
        })
    }

    fn kind(&self) -> Result<RunKind, StoreError> {
        match (self.kind.as_str(), self.subagent_kind.as_deref()) {
            ("main", None) => Ok(RunKind::Main),
            ("subagent", Some(kind)) => Ok(RunKind::Subagent {
                kind: kind.into(),
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

const PROVIDER_FAULTS: [ProviderFault; 15] = [
    ProviderFault::Authentication,
    ProviderFault::Permission,
    ProviderFault::Quota,
    ProviderFault::NotFound,
    ProviderFault::InvalidRequest,
    ProviderFault::ContextLength,
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

    #[test]
    fn a_cause_is_one_short_line() {
        assert_eq!(
            short_cause("refused\r\nby\u{1b}[31m peer"),
            "refused  by [31m peer"
        );
        assert_eq!(short_cause(&"é".repeat(CAUSE_LIMIT)), "é".repeat(CAUSE_LIMIT));
        let long = short_cause(&"é".repeat(CAUSE_LIMIT + 1));
        assert_eq!(long, "é".repeat(CAUSE_LIMIT - 1) + "…");
    }

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
                ProviderFault::RateLimited => 6,
                ProviderFault::Unavailable => 7,
                ProviderFault::Connection => 8,
                ProviderFault::Timeout => 9,
                ProviderFault::Cut => 10,
                ProviderFault::Malformed => 11,
                ProviderFault::OutputLimit => 12,
                ProviderFault::Filtered => 13,
                ProviderFault::Unsupported => 14,
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
