//! What each model call was sent, as digests: written before the request goes out, read back after a restart.
//!
//! Owns how a request's items are kept as what they add to the request before. Must never know: how requests are
//! compared, or what an item says.

use std::collections::HashMap;

use sqlx::{FromRow, SqliteConnection};

use super::error::column;
use super::usage_columns::{self, UsageColumns};
use super::{Store, StoreError, conversations, revisions};
use crate::model::{
    ConversationId, ItemDigest, ItemHash, ItemKind, PrefixReset, PromptChange, RevisionId, RunId, Usage,
};

const TABLE: &str = "model_calls";
/// Bytes of an item's kind, length and digest.
const ITEM_BYTES: usize = 21;
/// What an item's first byte says of its settled bytes, beside its kind: that they are all of its bytes, none, or those
/// with the digest that follows.
const ALL_SETTLED: u8 = 0x00;
const NONE_SETTLED: u8 = 0x10;
const SOME_SETTLED: u8 = 0x20;

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct NewModelCall<'a> {
    /// The run that sends it.
    pub run: &'a RunId,
    /// Zero-based index of the call in its run.
    pub index: u32,
    /// The head that its history stands for.
    pub revision: &'a RevisionId,
    /// Who answers.
    pub lineage: &'a str,
    /// A digest over what is configured of the model and may decide how a history is written.
    pub settings: ItemHash,
    /// How many items of the lineage's request before it begins with.
    pub kept: usize,
    /// Its items after those.
    pub added: &'a [ItemDigest],
    /// It asks for something beside the conversation: the next request extends not this one but the one before.
    pub beside: bool,
    /// The endpoint has just refused the reasoning of the history.
    pub without_reasoning: bool,
    /// How it relates to the request before.
    pub verdict: PrefixVerdict,
}

/// How a request relates to the one before it to the same lineage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixVerdict {
    /// It extends it, or it is the first.
    Extends,
    /// It differs, and this was declared.
    Reset(PrefixReset),
    /// It differs from this item on, and nothing declared it.
    Broken {
        /// Zero-based place of the first item that differs.
        item: usize,
    },
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelCallEnd {
    /// Whether the whole answer came.
    pub answered: bool,
    /// What the endpoint counted.
    pub usage: Option<Usage>,
}

/// The latest request of a conversation to a lineage, those beside the conversation left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LatestModelCall {
    /// Names the call in this store.
    pub key: i64,
    /// The head that its history stood for.
    pub revision: RevisionId,
    /// A digest over the model's configuration as it was.
    pub settings: ItemHash,
    /// Its items.
    pub items: Vec<ItemDigest>,
    /// It was sent because the endpoint had refused the reasoning of the history, and no whole answer to it is known.
    pub refusal_unsettled: bool,
}

/// A recorded call, for reports.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelCallRecord {
    /// The run.
    pub run: RunId,
    /// Zero-based index of the call in its run.
    pub index: u32,
    /// The configured model's id.
    pub model_id: String,
    /// Who answers.
    pub lineage: String,
    /// The request's items.
    pub items: Vec<ItemDigest>,
    /// How many of them, from the first on, are those of the lineage's request before.
    pub kept: usize,
    /// It asked for something beside the conversation.
    pub beside: bool,
    /// How it relates to the lineage's request before.
    pub verdict: PrefixVerdict,
    /// How it ended; absent while that is not known.
    pub end: Option<ModelCallEnd>,
}

impl Store {
    /// The conversation's latest request to a lineage: what the next one has to extend.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where a row does not decode.
    pub async fn latest_model_call(
        &self,
        conversation: &ConversationId,
        lineage: &str,
    ) -> Result<Option<LatestModelCall>, StoreError> {
        let mut connection = self.read().await?;
        let mut rows = calls(&mut connection, conversation, Some(lineage)).await?;
        rows.retain(|row| !row.beside);
        let mut items = Vec::new();
        for row in &rows {
            row.grow(&mut items)?;
        }
        rows.last()
            .map(|row| {
                Ok(LatestModelCall {
                    key: row.key,
                    revision: revisions::id_of(&row.revision),
                    settings: row.settings()?,
                    items,
                    refusal_unsettled: row.without_reasoning && row.answered != Some(true),
                })
            })
            .transpose()
    }

    /// Whether any request of the conversation went to another lineage.
    pub async fn has_other_lineage(
        &self,
        conversation: &ConversationId,
        lineage: &str,
    ) -> Result<bool, StoreError> {
        sqlx::query_scalar(
            "SELECT EXISTS (
                 SELECT 1 FROM model_calls JOIN conversations ON conversations.key = model_calls.conversation_key
                 JOIN lineages ON lineages.key = model_calls.lineage_key
                 WHERE conversations.id = ? AND lineages.name <> ?)",
        )
        .bind(conversation.as_str())
        .bind(lineage)
        .fetch_one(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("find other lineages"))
    }

    /// Why the prompts of the conversation changed in the runs after the one that sent a call.
    pub async fn prompt_changes_since(
        &self,
        call: &LatestModelCall,
    ) -> Result<Vec<PromptChange>, StoreError> {
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT runs.prompt_change FROM model_calls
             JOIN runs ON runs.conversation_key = model_calls.conversation_key AND runs.key > model_calls.run_key
             WHERE model_calls.key = ? AND runs.prompt_change IS NOT NULL ORDER BY runs.key DESC",
        )
        .bind(call.key)
        .fetch_all(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("read the changes of a prompt"))?;
        let known = |name: &str| {
            PromptChange::ALL
                .into_iter()
                .find(|change| change.as_str() == name)
        };
        names
            .iter()
            .map(|name| {
                known(name).ok_or_else(|| {
                    StoreError::damaged("runs", call.key.to_string(), "prompt_change holds no valid value")
                })
            })
            .collect()
    }

    /// Whether a revision is another one or stands in its history.
    pub async fn is_in_history(&self, revision: &RevisionId, of: &RevisionId) -> Result<bool, StoreError> {
        sqlx::query_scalar(
            "WITH RECURSIVE history (id, parent) AS (
                 SELECT id, parent FROM revisions WHERE id = ?
                 UNION ALL
                 SELECT revisions.id, revisions.parent FROM revisions JOIN history ON revisions.id = history.parent)
             SELECT EXISTS (SELECT 1 FROM history WHERE id = ?)",
        )
        .bind(revisions::key_of(of)?.as_slice())
        .bind(revisions::key_of(revision)?.as_slice())
        .fetch_one(&mut *self.read().await?)
        .await
        .map_err(StoreError::database("follow a history"))
    }

    /// Records that the run is about to send a model call, with what it sends; and how the run's call before ended.
    /// A repeat of the latest index is another body for the same call and is counted too. Returns the call's key.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`], and [`StoreError::ProviderCallOrder`] where the index is neither the latest
    /// nor the next one.
    pub async fn record_model_call(
        &self,
        call: &NewModelCall<'_>,
        before: Option<ModelCallEnd>,
    ) -> Result<i64, StoreError> {
        let mut tx = self.write().await?;
        let owned = conversations::owned(&mut tx, call.run).await?;
        let latest: Option<u32> = sqlx::query_scalar("SELECT provider_call_index FROM runs WHERE key = ?")
            .bind(owned.run_key)
            .fetch_one(&mut *tx)
            .await
            .map_err(StoreError::database("read a run"))?;
        let next = latest.map_or(0, |latest| latest.saturating_add(1));
        if latest != Some(call.index) && next != call.index {
            return Err(StoreError::ProviderCallOrder {
                run: call.run.clone(),
                latest,
                given: call.index,
            });
        }
        if let Some(end) = before {
            end_latest(&mut tx, owned.run_key, &end).await?;
        }
        let (reset, broken) = match call.verdict {
            PrefixVerdict::Extends => (None, None),
            PrefixVerdict::Reset(reset) => (Some(reset.as_str()), None),
            PrefixVerdict::Broken { item } => (None, Some(column("an item's place", item as u64)?)),
        };
        sqlx::query(
            "UPDATE runs SET provider_call_index = ?, provider_calls = provider_calls + 1,
                             prefix_breaks = prefix_breaks + ?
             WHERE key = ?",
        )
        .bind(call.index)
        .bind(broken.is_some())
        .bind(owned.run_key)
        .execute(&mut *tx)
        .await
        .map_err(StoreError::database("record a provider call"))?;
        sqlx::query("INSERT INTO lineages (name) VALUES (?) ON CONFLICT (name) DO NOTHING")
            .bind(call.lineage)
            .execute(&mut *tx)
            .await
            .map_err(StoreError::database("record a lineage"))?;
        let key = sqlx::query_scalar(
            "INSERT INTO model_calls (conversation_key, run_key, lineage_key, call_index, revision, settings, kept,
                                      added, beside, without_reasoning, reset, broken_item)
             VALUES (?, ?, (SELECT key FROM lineages WHERE name = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key",
        )
        .bind(owned.conversation.key)
        .bind(owned.run_key)
        .bind(call.lineage)
        .bind(call.index)
        .bind(revisions::key_of(call.revision)?.as_slice())
        .bind(call.settings.as_slice())
        .bind(column("a number of items", call.kept as u64)?)
        .bind(encode_items(call.added))
        .bind(call.beside)
        .bind(call.without_reasoning)
        .bind(reset)
        .bind(broken)
        .fetch_one(&mut *tx)
        .await
        .map_err(StoreError::database("record a model call"))?;
        tx.commit()
            .await
            .map_err(StoreError::database("commit a model call"))?;
        Ok(key)
    }
}

/// Writes the end of the run's latest call into its row, unless it is there.
pub(super) async fn end_latest(
    connection: &mut SqliteConnection,
    run_key: i64,
    end: &ModelCallEnd,
) -> Result<(), StoreError> {
    let statement = sqlx::query(
        "UPDATE model_calls SET answered = ?, fresh_input_tokens = ?, cache_read_tokens = ?,
                                cache_write_tokens = ?, output_tokens = ?, reasoning_tokens = ?
         WHERE key = (SELECT max(key) FROM model_calls WHERE run_key = ?) AND answered IS NULL",
    )
    .bind(end.answered);
    usage_columns::bind(statement, end.usage)?
        .bind(run_key)
        .execute(connection)
        .await
        .map_err(StoreError::database("record the end of a model call"))?;
    Ok(())
}

/// All calls of a conversation in the order in which they were sent; `None` if the conversation does not exist.
pub(super) async fn of_conversation(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
) -> Result<Option<Vec<ModelCallRecord>>, StoreError> {
    let known: Option<i64> = sqlx::query_scalar("SELECT key FROM conversations WHERE id = ?")
        .bind(conversation.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database("find a conversation"))?;
    if known.is_none() {
        return Ok(None);
    }
    let rows = calls(connection, conversation, None).await?;
    let mut lineages: HashMap<String, Vec<ItemDigest>> = HashMap::new();
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        let latest = lineages.entry(row.lineage.clone()).or_default();
        let mut items = latest.clone();
        let kept = row.grow(&mut items)?;
        if !row.beside {
            latest.clone_from(&items);
        }
        records.push(ModelCallRecord {
            items,
            kept,
            beside: row.beside,
            index: row.number("call_index", row.call_index)?,
            verdict: row.verdict()?,
            end: row.end()?,
            run: RunId::new(row.run),
            model_id: row.model_id,
            lineage: row.lineage,
        });
    }
    Ok(Some(records))
}

/// The calls of a conversation, or of one lineage in it, oldest first.
async fn calls(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
    lineage: Option<&str>,
) -> Result<Vec<CallRow>, StoreError> {
    sqlx::query_as(
        "SELECT model_calls.*, runs.id AS run, runs.model_id AS model_id, lineages.name AS lineage
         FROM conversations JOIN model_calls ON model_calls.conversation_key = conversations.key
         JOIN runs ON runs.key = model_calls.run_key JOIN lineages ON lineages.key = model_calls.lineage_key
         WHERE conversations.id = ?1 AND (?2 IS NULL OR lineages.name = ?2) ORDER BY model_calls.key",
    )
    .bind(conversation.as_str())
    .bind(lineage)
    .fetch_all(connection)
    .await
    .map_err(StoreError::database("read model calls"))
}

#[derive(FromRow)]
struct CallRow {
    key: i64,
    run: String,
    model_id: String,
    lineage: String,
    call_index: i64,
    revision: Vec<u8>,
    settings: Vec<u8>,
    kept: i64,
    added: Vec<u8>,
    beside: bool,
    without_reasoning: bool,
    reset: Option<String>,
    broken_item: Option<i64>,
    answered: Option<bool>,
    #[sqlx(flatten)]
    usage: UsageColumns,
}

impl CallRow {
    /// Makes the items of the lineage's call before into those of this one. Returns how many were kept.
    fn grow(&self, items: &mut Vec<ItemDigest>) -> Result<usize, StoreError> {
        let kept: usize = self.number("kept", self.kept)?;
        if kept > items.len() {
            return Err(self.damaged("kept"));
        }
        items.truncate(kept);
        let mut added = self.added.as_slice();
        while !added.is_empty() {
            let (item, rest) = decode_item(added).ok_or_else(|| self.damaged("added"))?;
            items.push(item);
            added = rest;
        }
        Ok(kept)
    }

    fn settings(&self) -> Result<ItemHash, StoreError> {
        ItemHash::try_from(self.settings.as_slice()).map_err(|_| self.damaged("settings"))
    }

    fn verdict(&self) -> Result<PrefixVerdict, StoreError> {
        match (self.reset.as_deref(), self.broken_item) {
            (None, None) => Ok(PrefixVerdict::Extends),
            (None, Some(item)) => Ok(PrefixVerdict::Broken {
                item: self.number("broken_item", item)?,
            }),
            (Some(name), _) => PrefixReset::ALL
                .into_iter()
                .find(|reset| reset.as_str() == name)
                .map(PrefixVerdict::Reset)
                .ok_or_else(|| self.damaged("reset")),
        }
    }

    fn end(&self) -> Result<Option<ModelCallEnd>, StoreError> {
        let Some(answered) = self.answered else {
            return Ok(None);
        };
        Ok(Some(ModelCallEnd {
            answered,
            usage: self.usage.usage(|column| self.damaged(column))?,
        }))
    }

    fn number<T: TryFrom<i64>>(&self, column: &str, value: i64) -> Result<T, StoreError> {
        T::try_from(value).map_err(|_| self.damaged(column))
    }

    fn damaged(&self, column: &str) -> StoreError {
        StoreError::damaged(
            TABLE,
            self.key.to_string(),
            format!("{column} holds no valid value"),
        )
    }
}

fn encode_items(items: &[ItemDigest]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(items.len() * ITEM_BYTES);
    for item in items {
        let kind = match item.kind {
            ItemKind::Tool => 0,
            ItemKind::Instructions => 1,
            ItemKind::Message => 2,
        };
        let (settled, other): (u8, &[u8]) = match &item.settled {
            Some(settled) if *settled == item.hash => (ALL_SETTLED, &[]),
            Some(settled) => (SOME_SETTLED, settled),
            None => (NONE_SETTLED, &[]),
        };
        bytes.push(kind | settled);
        bytes.extend(item.bytes.to_le_bytes());
        bytes.extend(item.hash);
        bytes.extend(other);
    }
    bytes
}

/// The first item, and the bytes behind it.
fn decode_item(bytes: &[u8]) -> Option<(ItemDigest, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_at_checked(4)?;
    let (hash, rest) = rest.split_at_checked(size_of::<ItemHash>())?;
    let hash: ItemHash = hash.try_into().ok()?;
    let (settled, rest) = match first & 0xf0 {
        ALL_SETTLED => (Some(hash), rest),
        NONE_SETTLED => (None, rest),
        SOME_SETTLED => {
            let (settled, rest) = rest.split_at_checked(size_of::<ItemHash>())?;
            (Some(settled.try_into().ok()?), rest)
        }
        _ => return None,
    };
    let item = ItemDigest {
        kind: match first & 0x0f {
            0 => ItemKind::Tool,
            1 => ItemKind::Instructions,
            2 => ItemKind::Message,
            _ => return None,
        },
        bytes: u32::from_le_bytes(length.try_into().ok()?),
        hash,
        settled,
    };
    Some((item, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_survive_their_row() {
        let settled = [Some([0; 16]), None, Some([9; 16])];
        let items: Vec<ItemDigest> = [ItemKind::Tool, ItemKind::Instructions, ItemKind::Message]
            .into_iter()
            .zip(settled)
            .zip(0u8..)
            .map(|((kind, settled), at)| ItemDigest {
                kind,
                bytes: u32::MAX - u32::from(at),
                hash: [at; 16],
                settled,
            })
            .collect();
        let bytes = encode_items(&items);
        assert_eq!(bytes.len(), 3 * ITEM_BYTES + 16);
        let mut rest = bytes.as_slice();
        let mut read = Vec::new();
        while let Some((item, behind)) = decode_item(rest) {
            read.push(item);
            rest = behind;
        }
        assert_eq!((read, rest), (items, [].as_slice()));
        assert_eq!(decode_item(&[3; ITEM_BYTES]), None);
        assert_eq!(decode_item(&[0x32; 2 * ITEM_BYTES]), None);
        assert_eq!(decode_item(&[2; ITEM_BYTES - 1]), None);
        assert_eq!(decode_item(&[0x22; ITEM_BYTES + 15]), None);
    }
}
