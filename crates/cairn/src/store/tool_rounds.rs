//! Tool rounds: the calls of one assistant message, and their completion one by one.
//!
//! Owns the transaction in which a call/result pair, its completion order and its revision become one fact.
//! Must never know: what a tool does, or who executes it.

use std::collections::HashSet;

use sqlx::{FromRow, SqliteConnection};

use super::error::column;
use super::row::{self, AssistantRow};
use super::{Store, StoreError, conversations, revisions};
use crate::model::{
    Assistant, CallId, ConversationId, Message, MessageBody, MessageId, RevisionId, RunId, ToolCall,
    ToolResult, ToolRound, ToolRoundId,
};

const TABLE: &str = "tool_rounds";

/// What a committed tool result came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommittedResult {
    /// The new head, whose history ends with the call and its result.
    pub revision: RevisionId,
    /// Whether all calls of the round have their results now.
    pub settled: bool,
}

impl Store {
    /// Makes the round durable. The history does not change: calls enter it with their results.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] and [`StoreError::HeadMoved`]; [`StoreError::RoundConflict`] where the id is
    /// taken or the run has an open round; [`StoreError::MalformedRound`] for no calls or a repeated call id.
    pub async fn begin_tool_round(&self, round: &ToolRound) -> Result<(), StoreError> {
        let mut ids = HashSet::new();
        if round.calls.is_empty() || !round.calls.iter().all(|call| ids.insert(&call.id)) {
            return Err(StoreError::MalformedRound(round.id.clone()));
        }
        let mut tx = self.write().await?;
        let owned = conversations::owned_at(&mut tx, &round.run, &round.parent).await?;
        let said = row::encode(TABLE, round.id.as_str(), &AssistantRow::of(&round.said))?;
        let inserted: Option<i64> = sqlx::query_scalar(
            "INSERT INTO tool_rounds (id, run_key, parent_revision, said, call_count, started_at_ms, state)
             VALUES (?, ?, ?, ?, ?, ?, 'open') ON CONFLICT DO NOTHING RETURNING key",
        )
        .bind(round.id.as_str())
        .bind(owned.run_key)
        .bind(revisions::key_of(&round.parent)?.as_slice())
        .bind(said)
        .bind(revisions::row_count(round.calls.len()))
        .bind(column("a start time", round.started_at_ms)?)
        .fetch_optional(&mut *tx)
        .await
        .map_err(StoreError::database("store a tool round"))?;
        let Some(round_key) = inserted else {
            return Err(StoreError::RoundConflict(round.id.clone()));
        };
        for (call, position) in round.calls.iter().zip(0_i64..) {
            sqlx::query(
                "INSERT INTO tool_calls (round_key, position, call_id, name, arguments) VALUES (?, ?, ?, ?, ?)",
            )
            .bind(round_key)
            .bind(position)
            .bind(call.id.as_str())
            .bind(&*call.name)
            .bind(&*call.arguments)
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("store a tool call"))?;
        }
        tx.commit()
            .await
            .map_err(StoreError::database("commit a tool round"))
    }

    /// Appends the call and its result to the history as neighbours, in the order in which results are
    /// committed, and moves the head. The round's first pair also carries what the assistant said; its last
    /// one settles it.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] and [`StoreError::HeadMoved`]; [`StoreError::UnknownRound`],
    /// [`StoreError::RoundClosed`], [`StoreError::UnknownCall`] and [`StoreError::RepeatedResult`]. Nothing is
    /// kept of a refused result.
    pub async fn commit_tool_result(
        &self,
        run: &RunId,
        expected_head: &RevisionId,
        round: &ToolRoundId,
        result: &ToolResult,
    ) -> Result<CommittedResult, StoreError> {
        let mut tx = self.write().await?;
        let owned = conversations::owned_at(&mut tx, run, expected_head).await?;
        let open = OpenRound::find(&mut tx, owned.run_key, run, round).await?;
        let (position, call) = open_call(&mut tx, open.key, round, &result.call).await?;
        let said = if open.completed == 0 {
            Some(open.said(round)?)
        } else {
            None
        };
        let pair = pair(round, position, call, open.call_count, said, result)
            .ok_or_else(|| StoreError::damaged(TABLE, round.as_str(), "a call has no valid place"))?;
        let appended = conversations::advance(&mut tx, &owned, &pair).await?;
        if appended.messages.len() != pair.len() {
            let reason = "a call without a result is in the history already";
            return Err(StoreError::damaged(TABLE, round.as_str(), reason));
        }
        sqlx::query(
            "INSERT INTO tool_completions (round_key, position, completion_seq, revision) VALUES (?, ?, ?, ?)",
        )
        .bind(open.key)
        .bind(position)
        .bind(open.completed)
        .bind(revisions::key_of(&appended.revision)?.as_slice())
        .execute(&mut *tx)
        .await
        .map_err(StoreError::database("record a completion"))?;
        let settled = open.completed + 1 == open.call_count;
        if settled {
            sqlx::query("UPDATE tool_rounds SET state = 'settled' WHERE key = ?")
                .bind(open.key)
                .execute(&mut *tx)
                .await
                .map_err(StoreError::database("settle a tool round"))?;
        }
        tx.commit()
            .await
            .map_err(StoreError::database("commit a tool result"))?;
        let revision = self.remember(&owned, appended);
        Ok(CommittedResult { revision, settled })
    }
}

impl Store {
    /// The results that were stored for a round, in the order of their completion, whatever became of the round. None
    /// for a round that this conversation does not have.
    ///
    /// # Errors
    /// If the database fails or is damaged.
    pub async fn round_results(
        &self,
        conversation: &ConversationId,
        round: &ToolRoundId,
    ) -> Result<Vec<ToolResult>, StoreError> {
        let last: Option<Vec<u8>> = sqlx::query_scalar(
            "SELECT tool_completions.revision
             FROM tool_rounds
             JOIN runs ON runs.key = tool_rounds.run_key
             JOIN conversations ON conversations.key = runs.conversation_key
             JOIN tool_completions ON tool_completions.round_key = tool_rounds.key
             WHERE tool_rounds.id = ? AND conversations.id = ?
             ORDER BY tool_completions.completion_seq DESC LIMIT 1",
        )
        .bind(round.as_str())
        .bind(conversation.as_str())
        .fetch_optional(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find a round's results"))?;
        let Some(last) = last else {
            return Ok(Vec::new());
        };
        let history = self.history(&revisions::id_of(&last)).await?;
        let results = history.iter().filter_map(|message| match &message.body {
            MessageBody::ToolResult { round: of, result } if of == round => Some(result.clone()),
            _ => None,
        });
        Ok(results.collect())
    }

    /// The round that the conversation's latest run left, or has, without all of its results.
    ///
    /// # Errors
    /// If the database fails or is damaged.
    pub async fn left_round(&self, conversation: &ConversationId) -> Result<Option<ToolRound>, StoreError> {
        let mut connection = self.read().await?;
        let found: Option<LeftRoundRow> = sqlx::query_as(
            "SELECT tool_rounds.key, tool_rounds.id, last.id AS run, parent_revision, said, tool_rounds.started_at_ms
             FROM (SELECT runs.key, runs.id FROM runs JOIN conversations ON conversations.key = runs.conversation_key
                   WHERE conversations.id = ? ORDER BY runs.key DESC LIMIT 1) AS last
             JOIN tool_rounds ON tool_rounds.run_key = last.key
             WHERE state <> 'settled' ORDER BY tool_rounds.key DESC LIMIT 1",
        )
        .bind(conversation.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database("find a left tool round"))?;
        let Some(row) = found else {
            return Ok(None);
        };
        let calls: Vec<(String, String, String)> = sqlx::query_as(
            "SELECT call_id, name, arguments FROM tool_calls WHERE round_key = ? ORDER BY position",
        )
        .bind(row.key)
        .fetch_all(&mut *connection)
        .await
        .map_err(StoreError::database("read the calls of a tool round"))?;
        let said: AssistantRow = row::decode(TABLE, &row.id, &row.said)?;
        let calls = calls.into_iter().map(|(id, name, arguments)| ToolCall {
            id: CallId::new(id),
            name: name.into(),
            arguments: arguments.into(),
        });
        Ok(Some(ToolRound {
            started_at_ms: u64::try_from(row.started_at_ms)
                .map_err(|_| StoreError::damaged(TABLE, &row.id, "its time is before 1970"))?,
            id: ToolRoundId::new(row.id),
            run: RunId::new(row.run),
            parent: revisions::id_of(&row.parent_revision),
            said: said.into_assistant(),
            calls: calls.collect(),
        }))
    }
}

#[derive(FromRow)]
struct LeftRoundRow {
    key: i64,
    id: String,
    run: String,
    parent_revision: Vec<u8>,
    said: String,
    started_at_ms: i64,
}

/// Closes the round that the run waits for, if there is one. Its committed results stay.
pub(super) async fn abandon_open(connection: &mut SqliteConnection, run_key: i64) -> Result<(), StoreError> {
    sqlx::query("UPDATE tool_rounds SET state = 'abandoned' WHERE run_key = ? AND state = 'open'")
        .bind(run_key)
        .execute(connection)
        .await
        .map_err(StoreError::database("abandon a tool round"))?;
    Ok(())
}

/// A round that waits for results.
struct OpenRound {
    key: i64,
    said: String,
    call_count: i64,
    completed: i64,
}

impl OpenRound {
    async fn find(
        connection: &mut SqliteConnection,
        run_key: i64,
        run: &RunId,
        round: &ToolRoundId,
    ) -> Result<Self, StoreError> {
        let found: Option<(i64, String, i64, String, i64)> = sqlx::query_as(
            "SELECT key, said, call_count, state,
                    (SELECT count(*) FROM tool_completions WHERE round_key = tool_rounds.key)
             FROM tool_rounds WHERE id = ? AND run_key = ?",
        )
        .bind(round.as_str())
        .bind(run_key)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database("find a tool round"))?;
        match found {
            None => Err(StoreError::UnknownRound {
                run: run.clone(),
                round: round.clone(),
            }),
            Some((key, said, call_count, state, completed)) if state == "open" => Ok(Self {
                key,
                said,
                call_count,
                completed,
            }),
            Some((_, _, _, state, _)) => Err(StoreError::RoundClosed {
                round: round.clone(),
                state,
            }),
        }
    }

    fn said(&self, round: &ToolRoundId) -> Result<Assistant, StoreError> {
        let said: AssistantRow = row::decode(TABLE, round.as_str(), &self.said)?;
        Ok(said.into_assistant())
    }
}

/// The place and the call of the round that has this id and no result yet.
async fn open_call(
    connection: &mut SqliteConnection,
    round_key: i64,
    round: &ToolRoundId,
    call: &CallId,
) -> Result<(i64, ToolCall), StoreError> {
    let found: Option<(i64, String, String, bool)> = sqlx::query_as(
        "SELECT position, name, arguments,
                EXISTS (SELECT 1 FROM tool_completions AS done
                        WHERE done.round_key = tool_calls.round_key AND done.position = tool_calls.position)
         FROM tool_calls WHERE round_key = ? AND call_id = ?",
    )
    .bind(round_key)
    .bind(call.as_str())
    .fetch_optional(connection)
    .await
    .map_err(StoreError::database("find a tool call"))?;
    match found {
        None => Err(StoreError::UnknownCall {
            round: round.clone(),
            call: call.clone(),
        }),
        Some((.., true)) => Err(StoreError::RepeatedResult {
            round: round.clone(),
            call: call.clone(),
        }),
        Some((position, name, arguments, false)) => Ok((
            position,
            ToolCall {
                id: call.clone(),
                name: name.into(),
                arguments: arguments.into(),
            },
        )),
    }
}

/// The two messages of a completed call. `None` where a number of the row is out of its range.
fn pair(
    round: &ToolRoundId,
    position: i64,
    call: ToolCall,
    call_count: i64,
    said: Option<Assistant>,
    result: &ToolResult,
) -> Option<[Message; 2]> {
    let index = usize::try_from(position).ok()?;
    Some([
        Message {
            id: MessageId::tool_call(round, index),
            body: MessageBody::ToolCall {
                round: round.clone(),
                index,
                call,
                batch_size: usize::try_from(call_count).ok()?,
                said,
            },
        },
        Message {
            id: MessageId::tool_result(round, index),
            body: MessageBody::ToolResult {
                round: round.clone(),
                result: result.clone(),
            },
        },
    ])
}
