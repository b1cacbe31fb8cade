//! The record of an answer's output items that later requests repeat.
//!
//! It holds what the canonical history does not: reasoning items as they came, the order of all items, the phase and the
//! borders of messages, ids where the endpoint wants them. Text and calls stay where they are, in the history; the record
//! only says where they stand. Must never know: a stream, or the shape of a request.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::provider::json::Json;

const VERSION: u32 = 1;
/// How the payload of an answer begins that came after a reset.
const RESET_HEAD: &str = r#"{"version":1,"reset":true,"#;

/// An output item in the order of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OutputItem {
    /// Reasoning that only the endpoint can read.
    Reasoning {
        id: Option<String>,
        /// JSON text of the summary, as it came.
        summary: String,
        encrypted_content: String,
    },
    /// A message: the next pieces of the answer's text.
    Message {
        id: Option<String>,
        phase: Option<String>,
        parts: Vec<Piece>,
    },
    /// The next call of the answer.
    Call { id: Option<String> },
}

/// A part of a message: its kind, and how many bytes of the answer's text it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) kind: PieceKind,
    pub(super) bytes: usize,
}

/// What a part of a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PieceKind {
    Text,
    Refusal,
}

impl PieceKind {
    /// The API's name for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "output_text",
            Self::Refusal => "refusal",
        }
    }
}

/// What an answer leaves for later requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReplayRecord {
    /// The endpoint refused the reasoning of the history before this answer: it is never sent there again.
    pub(super) reset: bool,
    /// The items in their order. None stands for the history's own form: text, then calls.
    pub(super) items: Option<Vec<OutputItem>>,
}

impl ReplayRecord {
    /// The record of an answer; `None` if its text and calls say it all.
    pub(super) fn new(mut items: Vec<OutputItem>, reset: bool) -> Option<Self> {
        // The API refuses reasoning that nothing follows, so the endpoint could never take it back.
        while matches!(items.last(), Some(OutputItem::Reasoning { .. })) {
            items.pop();
        }
        let is_plain = match items.split_first() {
            None => true,
            Some((
                OutputItem::Message {
                    id: None,
                    phase: None,
                    parts,
                },
                rest,
            )) => {
                matches!(parts.as_slice(), [piece] if piece.kind == PieceKind::Text) && are_plain_calls(rest)
            }
            Some(_) => are_plain_calls(&items),
        };
        let items = (!is_plain).then_some(items);
        (reset || items.is_some()).then_some(Self { reset, items })
    }

    /// The record as the payload of a replay state.
    pub(super) fn payload(&self) -> String {
        let mut json = Json::default();
        match self.reset {
            true => json.raw(RESET_HEAD),
            false => json.raw(&format!("{{\"version\":{VERSION},")),
        }
        json.raw("\"items\":");
        match &self.items {
            None => json.raw("null"),
            Some(items) => {
                json.raw("[");
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        json.raw(",");
                    }
                    write_item(&mut json, item);
                }
                json.raw("]");
            }
        }
        json.raw("}");
        String::from_utf8_lossy(&json.bytes).into_owned()
    }

    /// Reads a payload; an error says what is wrong with it.
    pub(super) fn read(payload: &str) -> Result<Self, String> {
        let stored: Stored<'_> = serde_json::from_str(payload).map_err(|fault| fault.to_string())?;
        if stored.version != VERSION {
            return Err(format!("its version is {}, not {VERSION}", stored.version));
        }
        let items = stored
            .items
            .map(|items| items.into_iter().map(OutputItem::from).collect());
        Ok(Self {
            reset: stored.reset,
            items,
        })
    }
}

/// Whether a payload's answer came after a reset. Cheap, because it is asked of every answer for every request.
pub(super) fn is_reset(payload: &str) -> bool {
    payload.starts_with(RESET_HEAD)
}

fn are_plain_calls(items: &[OutputItem]) -> bool {
    items
        .iter()
        .all(|item| matches!(item, OutputItem::Call { id: None }))
}

fn write_item(json: &mut Json, item: &OutputItem) {
    let write_text = |json: &mut Json, key: &str, text: &Option<String>| {
        if let Some(text) = text {
            json.raw(&format!(",\"{key}\":"));
            json.string(text);
        }
    };
    match item {
        OutputItem::Reasoning {
            id,
            summary,
            encrypted_content,
        } => {
            json.raw("{\"type\":\"reasoning\"");
            write_text(json, "id", id);
            json.raw(",\"summary\":");
            json.raw(summary);
            json.raw(",\"encrypted_content\":");
            json.string(encrypted_content);
        }
        OutputItem::Message { id, phase, parts } => {
            json.raw("{\"type\":\"message\"");
            write_text(json, "id", id);
            write_text(json, "phase", phase);
            json.raw(",\"parts\":[");
            for (index, part) in parts.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                json.raw(&format!(
                    "{comma}{{\"type\":\"{}\",\"bytes\":{}}}",
                    part.kind.as_str(),
                    part.bytes
                ));
            }
            json.raw("]");
        }
        OutputItem::Call { id } => {
            json.raw("{\"type\":\"function_call\"");
            write_text(json, "id", id);
        }
    }
    json.raw("}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'a> {
    version: u32,
    #[serde(default)]
    reset: bool,
    #[serde(borrow)]
    items: Option<Vec<StoredItem<'a>>>,
}

// Not an enum tagged by `type`: serde would buffer such an item and lose its raw summary.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredItem<'a> {
    #[serde(rename = "type")]
    kind: StoredKind,
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(default)]
    encrypted_content: String,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    parts: Vec<StoredPiece>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Reasoning,
    Message,
    FunctionCall,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPiece {
    #[serde(rename = "type")]
    kind: StoredPieceKind,
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredPieceKind {
    OutputText,
    Refusal,
}

impl From<StoredItem<'_>> for OutputItem {
    fn from(stored: StoredItem<'_>) -> Self {
        let id = stored.id;
        match stored.kind {
            StoredKind::Reasoning => Self::Reasoning {
                id,
                summary: stored
                    .summary
                    .map_or_else(|| "[]".to_owned(), |raw| raw.get().to_owned()),
                encrypted_content: stored.encrypted_content,
            },
            StoredKind::Message => Self::Message {
                id,
                phase: stored.phase,
                parts: stored
                    .parts
                    .into_iter()
                    .map(|part| Piece {
                        kind: match part.kind {
                            StoredPieceKind::OutputText => PieceKind::Text,
                            StoredPieceKind::Refusal => PieceKind::Refusal,
                        },
                        bytes: part.bytes,
                    })
                    .collect(),
            },
            StoredKind::FunctionCall => Self::Call { id },
        }
    }
}
