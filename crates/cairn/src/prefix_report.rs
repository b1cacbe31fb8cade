//! What `cairn prefix` shows: the model calls of a conversation, and how much of each repeats the one before.
//!
//! Reads the records beside a running server and changes nothing. Must never know: how a request is made or compared.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::DATABASE_FILE;
use crate::model::{ConversationId, ItemDigest, ItemKind, Usage, estimate_bytes};
use crate::store::{ModelCallRecord, PrefixVerdict, Records, StoreError};

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum PrefixReportError {
    /// There is no database in the data folder.
    #[error(
        "there is no database at {0}; name the data folder that `cairn serve` uses, by --data-dir or by its --config"
    )]
    NoDatabase(PathBuf),
    /// The database does not know the conversation.
    #[error(
        "conversation {conversation} is unknown in {path}; its id is the agent's id, which the client calls agentId"
    )]
    UnknownConversation {
        /// The conversation.
        conversation: ConversationId,
        /// The database.
        path: PathBuf,
    },
    /// The records cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The report cannot be written.
    #[error("the report could not be written: {0}")]
    Write(#[from] io::Error),
}

/// The model calls of a conversation in the order in which they were sent.
///
/// # Errors
/// See [`PrefixReportError`].
pub async fn read(
    data_dir: &Path,
    conversation: &ConversationId,
) -> Result<Vec<ModelCallRecord>, PrefixReportError> {
    let path = data_dir.join(DATABASE_FILE);
    let mut records = Records::open(&path).await.map_err(|error| match error {
        StoreError::Open { path, source } if source.kind() == io::ErrorKind::NotFound => {
            PrefixReportError::NoDatabase(path)
        }
        other => other.into(),
    })?;
    records
        .model_calls(conversation)
        .await
        .map_err(|error| match error {
            StoreError::UnknownConversation(conversation) => {
                PrefixReportError::UnknownConversation { conversation, path }
            }
            other => other.into(),
        })
}

/// Writes the calls as a table for people.
///
/// # Errors
/// If the output does not take it.
pub fn write_table(out: &mut dyn Write, calls: &[ModelCallRecord]) -> io::Result<()> {
    if calls.is_empty() {
        return writeln!(out, "no model call of this conversation was sent yet");
    }
    let mut rows =
        vec![["call", "model", "items", "bytes", "shared", "cached", "input", ""].map(str::to_owned)];
    for (number, call) in calls.iter().enumerate() {
        let usage = usage(call);
        rows.push([
            (number + 1).to_string(),
            call.model_id.clone(),
            call.items.len().to_string(),
            total(&call.items).to_string(),
            shared(call).to_string(),
            counted(usage.cache_read),
            match usage.input() {
                Some(tokens) => tokens.to_string(),
                None => format!("~{}", estimated(call)),
            },
            remark(call),
        ]);
    }
    let widths: [usize; 8] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Names and remarks begin where their column does, numbers end there.
            let cell = match column {
                1 | 7 => format!("{cell:<width$}  "),
                _ => format!("{cell:>width$}  "),
            };
            line.push_str(&cell);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    if calls.iter().any(|call| usage(call).input().is_none()) {
        writeln!(
            out,
            "~ is an estimate, for the endpoint counted nothing: a token for every three bytes of the request, far too many where it holds pictures"
        )?;
    }
    let broken = calls.iter().filter(|call| is_broken(call)).count();
    match broken {
        0 => writeln!(out, "every request extends the one before it, or says why not"),
        _ => writeln!(
            out,
            "{broken} of {} requests broke their prefix: a defect of cairn",
            calls.len()
        ),
    }
}

/// Writes the calls as JSON for programs.
///
/// # Errors
/// If the output does not take it.
pub fn write_json(
    out: &mut dyn Write,
    conversation: &ConversationId,
    calls: &[ModelCallRecord],
) -> io::Result<()> {
    let calls: Vec<Value> = calls.iter().map(to_json).collect();
    let report = json!({ "conversation": conversation.as_str(), "calls": calls });
    writeln!(out, "{report:#}")
}

fn to_json(call: &ModelCallRecord) -> Value {
    let usage = usage(call);
    let (reset, broken) = match call.verdict {
        PrefixVerdict::Extends => (Value::Null, Value::Null),
        PrefixVerdict::Reset(reset) => (
            json!({ "name": reset.as_str(), "reason": reset.reason() }),
            Value::Null,
        ),
        PrefixVerdict::Broken { item } => {
            let (kind, number) = place(&call.items, item);
            (
                Value::Null,
                json!({ "item": item, "kind": kind, "number": number }),
            )
        }
    };
    let mut report = json!({
        "run": call.run.as_str(),
        "index": call.index,
        "model": call.model_id,
        "items": call.items.len(),
        "bytes": total(&call.items),
        "shared_items": call.kept,
        "shared_bytes": shared(call),
        "beside": call.beside,
        "reset": reset,
        "broken": broken,
        "answered": call.end.map(|end| end.answered),
        "cached_tokens": usage.cache_read,
        "input_tokens": usage.input(),
    });
    if usage.input().is_none() {
        // Under a name of its own: nobody counted it.
        report["estimated_input_tokens"] = estimated(call).into();
    }
    report
}

fn usage(call: &ModelCallRecord) -> Usage {
    call.end.and_then(|end| end.usage).unwrap_or_default()
}

/// The input's tokens where the endpoint did not count them. Pictures are bytes like all others here, so with them it is
/// far too high; nothing is decided by it.
fn estimated(call: &ModelCallRecord) -> u64 {
    estimate_bytes(total(&call.items))
}

fn total(items: &[ItemDigest]) -> u64 {
    items.iter().map(|item| u64::from(item.bytes)).sum()
}

fn shared(call: &ModelCallRecord) -> u64 {
    total(call.items.get(..call.kept).unwrap_or_default())
}

/// What the endpoint did not count is not a zero.
fn counted(tokens: Option<u64>) -> String {
    tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string())
}

fn is_broken(call: &ModelCallRecord) -> bool {
    matches!(call.verdict, PrefixVerdict::Broken { .. })
}

fn remark(call: &ModelCallRecord) -> String {
    match call.verdict {
        PrefixVerdict::Extends if call.beside => "beside the conversation".to_owned(),
        PrefixVerdict::Extends => String::new(),
        PrefixVerdict::Reset(reset) => format!("{}: {}", reset.as_str(), reset.reason()),
        PrefixVerdict::Broken { item } => {
            let (kind, number) = place(&call.items, item);
            format!("BROKEN at item {item} ({kind} {number}), and nothing declared it")
        }
    }
}

/// What an item is, and which one of its kind, from zero. An item behind the last one is the end.
fn place(items: &[ItemDigest], item: usize) -> (&'static str, usize) {
    let kind = items.get(item).map(|item| item.kind);
    let earlier = items.iter().take(item);
    let number = earlier
        .filter(|earlier| earlier.kind == kind.unwrap_or(ItemKind::Message))
        .count();
    (kind.map_or("end", ItemKind::as_str), number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::model::RunId;
    use crate::store::ModelCallEnd;

    #[test]
    fn an_input_that_nobody_counted_is_an_estimate_and_says_so() {
        let call = |usage| ModelCallRecord {
            run: RunId::new("run"),
            index: 0,
            model_id: "m".into(),
            lineage: "l".into(),
            items: vec![ItemDigest {
                kind: ItemKind::Message,
                bytes: 301,
                hash: [0; 16],
                settled: Some([0; 16]),
            }],
            kept: 0,
            beside: false,
            verdict: PrefixVerdict::Extends,
            end: Some(ModelCallEnd {
                answered: true,
                usage,
            }),
        };
        let reported = Usage {
            fresh_input: Some(90),
            output: Some(1),
            ..Usage::default()
        };
        let calls = [call(Some(reported)), call(None)];
        let mut out = Vec::new();
        write_table(&mut out, &calls).unwrap();
        let table = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["1", "m", "1", "301", "0", "-", "90"]);
        assert_eq!(lines[2], ["2", "m", "1", "301", "0", "-", "~101"]);
        assert_eq!(
            lines[3].join(" "),
            "~ is an estimate, for the endpoint counted nothing: a token for every three bytes of the request, far too many where it holds pictures"
        );
        let json = calls.each_ref().map(to_json);
        assert_eq!(json[0]["input_tokens"], 90);
        assert_eq!(json[0].get("estimated_input_tokens"), None);
        assert_eq!(json[1]["input_tokens"], Value::Null);
        assert_eq!(json[1]["estimated_input_tokens"], 101);
    }
}
