//! Runs: how one takes a conversation over, how far it comes and how it ends.
//!
//! Owns the hand-over of a conversation from run to run. Must never know: prompts, events or how a run works.

use bytes::Bytes;
use sqlx::SqliteConnection;

use super::cas::{self, BlobHash};
use super::error::column;
use super::model_calls::{self, ModelCallEnd};
use super::revisions::RevisionKey;
use super::run_record::{RunRecord, RunRow};
use super::{Store, StoreError, conversations, revisions, tool_rounds, usage_columns};
use crate::model::{
    ConversationId, PreparedRun, PromptChange, RunFailure, RunId, RunKind, RunOutcome, Usage,
};

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
    /// How its latest model call ended, if it made one.
    pub last_call: Option<ModelCallEnd>,
    /// When it ended, in milliseconds since the Unix epoch.
    pub ended_at_ms: u64,
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
        let conversation = conversations::find(&mut tx, &run.conversation).await?;
        let base = revisions::find_in(&mut tx, &conversation, &run.base).await?;
        let owner: Option<(i64, String)> = sqlx::query_as(
            "SELECT runs.key, runs.id FROM conversations JOIN runs ON runs.key = conversations.active_run_key
             WHERE conversations.key = ?",
        )
        .bind(conversation.key)
        .fetch_optional(&mut *tx)
        .await
        .map_err(StoreError::database("find an owner"))?;
        let run_key = insert(&mut tx, run, conversation.key, &base.key, started_at_ms).await?;
        if let Some((old, _)) = &owner {
            sqlx::query("UPDATE runs SET outcome = 'cancelled', superseded_by_key = ? WHERE key = ?")
                .bind(run_key)
                .bind(old)
                .execute(&mut *tx)
                .await
                .map_err(StoreError::database("supersede a run"))?;
            tool_rounds::abandon_open(&mut tx, *old).await?;
        }
        sqlx::query("UPDATE conversations SET active_run_key = ?, head_revision = ? WHERE key = ?")
            .bind(run_key)
            .bind(base.key.as_slice())
            .bind(conversation.key)
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("hand a conversation over"))?;
        tx.commit().await.map_err(StoreError::database("commit a run"))?;
        Ok(BegunRun {
            superseded: owner.map(|(_, id)| RunId::new(id)),
        })
    }

    /// The note of the conversation's latest run about how its prompt was made; `None` if no run kept one.
    pub async fn latest_prompt_note(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<Bytes>, StoreError> {
        let mut connection = self.read().await?;
        let hash: Option<Vec<u8>> = sqlx::query_scalar(
            "SELECT prompt_note FROM runs JOIN conversations ON conversations.key = runs.conversation_key
             WHERE conversations.id = ? AND prompt_note IS NOT NULL ORDER BY runs.key DESC LIMIT 1",
        )
        .bind(conversation.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database("find a prompt's note"))?;
        let Some(hash) = hash else {
            return Ok(None);
        };
        let damaged = |reason: &str| StoreError::damaged("runs", hex::encode(&hash), reason);
        let key = BlobHash::try_from(hash.as_slice()).map_err(|_| damaged("prompt_note is no key"))?;
        match cas::fetch(&mut connection, &key).await? {
            Some(note) => Ok(Some(note)),
            None => Err(damaged("the bytes of prompt_note are missing")),
        }
    }

    /// Ends the run's record and frees its conversation if the run still owns it. A run that a newer one
    /// superseded stays cancelled; its end time and usage are recorded. An open tool round is abandoned.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], and [`StoreError::RunEnded`] the second time.
    pub async fn end_run(&self, run: &RunId, end: &RunRecordEnd<'_>) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let progress: Option<(i64, i64, bool, bool, bool)> = sqlx::query_as(
            "SELECT key, conversation_key, outcome IS NOT NULL, superseded_by_key IS NOT NULL,
                    ended_at_ms IS NOT NULL
             FROM runs WHERE id = ?",
        )
        .bind(run.as_str())
        .fetch_optional(&mut *tx)
        .await
        .map_err(StoreError::database("read a run"))?;
        let Some((key, conversation_key, decided, superseded, ended)) = progress else {
            return Err(StoreError::UnknownRun(run.clone()));
        };
        let stopping = superseded && !ended;
        if decided && !stopping {
            return Err(StoreError::RunEnded(run.clone()));
        }
        if !stopping {
            record_outcome(&mut tx, key, end.outcome).await?;
            tool_rounds::abandon_open(&mut tx, key).await?;
        }
        record_end(&mut tx, key, end).await?;
        if let Some(call) = &end.last_call {
            model_calls::end_latest(&mut tx, key, call).await?;
        }
        sqlx::query("UPDATE conversations SET active_run_key = NULL WHERE key = ? AND active_run_key = ?")
            .bind(conversation_key)
            .bind(key)
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
        let rows = RunRow::all(&mut *self.read().await?, conversation).await?;
        rows.into_iter().map(RunRow::into_record).collect()
    }

    /// Closes what a dead process left: nobody else can have the file open now.
    pub(super) async fn interrupt_unfinished_runs(&self) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let runs: Vec<i64> =
            sqlx::query_scalar("SELECT active_run_key FROM conversations WHERE active_run_key IS NOT NULL")
                .fetch_all(&mut *tx)
                .await
                .map_err(StoreError::database("find unfinished runs"))?;
        for run in runs {
            sqlx::query("UPDATE runs SET outcome = 'interrupted' WHERE key = ?")
                .bind(run)
                .execute(&mut *tx)
                .await
                .map_err(StoreError::database("interrupt a run"))?;
            tool_rounds::abandon_open(&mut tx, run).await?;
        }
        sqlx::query("UPDATE conversations SET active_run_key = NULL WHERE active_run_key IS NOT NULL")
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("free conversations"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit interrupted runs"))
    }
}

/// Records a new run and returns its key.
async fn insert(
    connection: &mut SqliteConnection,
    run: &PreparedRun,
    conversation_key: i64,
    base: &RevisionKey,
    started_at_ms: u64,
) -> Result<i64, StoreError> {
    let (kind, subagent_kind, parent) = match &run.kind {
        RunKind::Main => ("main", None, None),
        RunKind::Subagent { kind, parent } => ("subagent", Some(kind.as_str()), parent.as_ref()),
    };
    let note = match &run.basis.note {
        note if note.is_empty() => None,
        note => {
            let hash = cas::hash_of(note);
            cas::insert(connection, &hash, note).await?;
            Some(hash)
        }
    };
    let inserted: Option<i64> = sqlx::query_scalar(
        "INSERT INTO runs (id, conversation_key, root_conversation_id, kind, subagent_kind, parent_run_id, parent_call_id,
                           base_revision, model_id, started_at_ms, prompt_note, prompt_change)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING key",
    )
    .bind(run.id.as_str())
    .bind(conversation_key)
    .bind(run.root.as_str())
    .bind(kind)
    .bind(subagent_kind)
    .bind(parent.map(|parent| parent.run.as_str()))
    .bind(parent.map(|parent| parent.call.as_str()))
    .bind(base.as_slice())
    .bind(&*run.model.model_id)
    .bind(column("a start time", started_at_ms)?)
    .bind(note.as_ref().map(|hash| hash.as_slice()))
    .bind(run.basis.change.map(PromptChange::as_str))
    .fetch_optional(connection)
    .await
    .map_err(StoreError::database("record a run"))?;
    inserted.ok_or_else(|| StoreError::RunExists(run.id.clone()))
}

async fn record_outcome(
    connection: &mut SqliteConnection,
    run_key: i64,
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
        "UPDATE runs SET outcome = ?, failure_category = ?, provider_fault = ?, cause = ? WHERE key = ?",
    )
    .bind(name)
    .bind(failure.map(|failure| failure.kind().as_str()))
    .bind(provider_fault)
    .bind(failure.map(|failure| short_cause(&failure.to_string())))
    .bind(run_key)
    .execute(connection)
    .await
    .map_err(StoreError::database("record an outcome"))?;
    Ok(())
}

async fn record_end(
    connection: &mut SqliteConnection,
    run_key: i64,
    end: &RunRecordEnd<'_>,
) -> Result<(), StoreError> {
    let statement = sqlx::query(
        "UPDATE runs SET ended_at_ms = ?, fresh_input_tokens = ?, cache_read_tokens = ?,
                         cache_write_tokens = ?, output_tokens = ?, reasoning_tokens = ?
         WHERE key = ?",
    )
    .bind(column("an end time", end.ended_at_ms)?);
    usage_columns::bind(statement, end.usage)?
        .bind(run_key)
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
}
