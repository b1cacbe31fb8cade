//! The JSON that message rows and tool round rows hold: versioned structs, converted by hand.
//!
//! Owns the format on disk; the plain values know no serialisation. A row that does not decode is
//! [`StoreError::Damaged`]. Must never know: SQL, or what any client or endpoint writes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::cas::{BlobHash, hash_of};
use crate::model::{
    Assistant, CallId, Image, MessageBody, Part, Reasoning, ReplayState, ToolCall, ToolContent, ToolResult,
    ToolRoundId, UserOrigin,
};

/// Written into every row. A row of another version is refused, never guessed at.
const VERSION: u32 = 1;

/// The outer shape of every row; the version is read before the content.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    row: T,
}

#[derive(Deserialize)]
struct VersionOnly {
    v: u32,
}

/// A message's body; images are references into the cas.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum BodyRow {
    User {
        origin: OriginRow,
        parts: Vec<PartRow>,
    },
    Assistant(AssistantRow),
    ToolCall {
        round: Arc<str>,
        index: usize,
        batch_size: usize,
        call: CallRow,
        #[serde(skip_serializing_if = "Option::is_none")]
        said: Option<AssistantRow>,
    },
    ToolResult {
        round: Arc<str>,
        call: Arc<str>,
        content: ContentRow,
        is_error: bool,
    },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum OriginRow {
    Turn { event_id: Arc<str> },
    RequestContext { event_id: Arc<str> },
    Summary { event_id: Arc<str> },
    SummaryRequest,
    Imported,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum PartRow {
    Text(Arc<str>),
    Image { mime_type: Arc<str>, sha256: String },
}

/// What a tool gave: a text alone as a string, anything else as a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ContentRow {
    Text(Arc<str>),
    Parts(Vec<PartRow>),
}

/// What an assistant said: in an assistant message, in a round's first call, and in the round itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AssistantRow {
    text: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayRow>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasoningRow {
    text: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_signature: Option<Arc<str>>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayRow {
    issuer: Arc<str>,
    payload: Arc<str>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallRow {
    id: Arc<str>,
    name: Arc<str>,
    arguments: Arc<str>,
}

/// Writes a row's JSON.
pub(super) fn encode<T: Serialize>(table: &'static str, id: &str, row: &T) -> Result<String, StoreError> {
    serde_json::to_string(&Versioned { v: VERSION, row })
        .map_err(|_| StoreError::damaged(table, id, "the value has no JSON form"))
}

/// Reads a row's JSON.
pub(super) fn decode<T: DeserializeOwned>(
    table: &'static str,
    id: &str,
    text: &str,
) -> Result<T, StoreError> {
    // serde's own words would quote the row's content; the place is enough to find the fault.
    let damaged = |error: serde_json::Error| {
        let reason = format!("not a row of format {VERSION} (column {})", error.column());
        StoreError::damaged(table, id, reason)
    };
    let VersionOnly { v } = serde_json::from_str(text).map_err(damaged)?;
    if v != VERSION {
        let reason = format!("row format {v} is unknown; this cairn knows {VERSION}");
        return Err(StoreError::damaged(table, id, reason));
    }
    let versioned: Versioned<T> = serde_json::from_str(text).map_err(damaged)?;
    Ok(versioned.row)
}

impl BodyRow {
    /// The body as a row, and the images that the row refers to.
    pub(super) fn of(body: &MessageBody) -> (Self, Vec<(BlobHash, Bytes)>) {
        let mut images = Vec::new();
        let row = match body {
            MessageBody::User { origin, parts } => Self::User {
                origin: OriginRow::of(origin),
                parts: PartRow::of(parts, &mut images),
            },
            MessageBody::Assistant(said) => Self::Assistant(AssistantRow::of(said)),
            MessageBody::ToolCall {
                round,
                index,
                call,
                batch_size,
                said,
            } => Self::ToolCall {
                round: round.as_str().into(),
                index: *index,
                batch_size: *batch_size,
                call: CallRow {
                    id: call.id.as_str().into(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                },
                said: said.as_ref().map(AssistantRow::of),
            },
            MessageBody::ToolResult { round, result } => Self::ToolResult {
                round: round.as_str().into(),
                call: result.call.as_str().into(),
                content: match result.content.parts() {
                    [] => ContentRow::Text("".into()),
                    [Part::Text(text)] => ContentRow::Text(text.clone()),
                    parts => ContentRow::Parts(PartRow::of(parts, &mut images)),
                },
                is_error: result.is_error,
            },
        };
        (row, images)
    }

    /// The hashes of the images that the row refers to. `None` where one is not a hash.
    pub(super) fn images(&self) -> Option<Vec<BlobHash>> {
        let parts = match self {
            Self::User { parts, .. } => parts,
            Self::ToolResult {
                content: ContentRow::Parts(parts),
                ..
            } => parts,
            Self::ToolResult { .. } | Self::Assistant(_) | Self::ToolCall { .. } => return Some(Vec::new()),
        };
        parts
            .iter()
            .filter_map(|part| match part {
                PartRow::Text(_) => None,
                PartRow::Image { sha256, .. } => Some(parse_hash(sha256)),
            })
            .collect()
    }

    /// The body, with its images taken from `images`. `None` where one is missing.
    pub(super) fn into_body(self, images: &HashMap<BlobHash, Bytes>) -> Option<MessageBody> {
        Some(match self {
            Self::User { origin, parts } => MessageBody::User {
                origin: origin.into_origin(),
                parts: PartRow::into_parts(parts, images)?,
            },
            Self::Assistant(said) => MessageBody::Assistant(said.into_assistant()),
            Self::ToolCall {
                round,
                index,
                batch_size,
                call,
                said,
            } => MessageBody::ToolCall {
                round: ToolRoundId::new(round),
                index,
                call: ToolCall {
                    id: CallId::new(call.id),
                    name: call.name,
                    arguments: call.arguments,
                },
                batch_size,
                said: said.map(AssistantRow::into_assistant),
            },
            Self::ToolResult {
                round,
                call,
                content,
                is_error,
            } => MessageBody::ToolResult {
                round: ToolRoundId::new(round),
                result: ToolResult {
                    call: CallId::new(call),
                    content: match content {
                        ContentRow::Text(text) => text.into(),
                        ContentRow::Parts(parts) => ToolContent::new(PartRow::into_parts(parts, images)?),
                    },
                    is_error,
                },
            },
        })
    }
}

impl PartRow {
    /// The parts as rows; the images that they refer to are added to `images`.
    fn of(parts: &[Part], images: &mut Vec<(BlobHash, Bytes)>) -> Vec<Self> {
        parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => Self::Text(text.clone()),
                Part::Image(image) => {
                    let hash = hash_of(&image.data);
                    images.push((hash, image.data.clone()));
                    Self::Image {
                        mime_type: image.mime_type.clone(),
                        sha256: hex::encode(hash),
                    }
                }
            })
            .collect()
    }

    /// The parts, with their images taken from `images`. `None` where one is missing.
    fn into_parts(rows: Vec<Self>, images: &HashMap<BlobHash, Bytes>) -> Option<Vec<Part>> {
        rows.into_iter()
            .map(|row| match row {
                Self::Text(text) => Some(Part::Text(text)),
                Self::Image { mime_type, sha256 } => Some(Part::Image(Image {
                    mime_type,
                    data: images.get(&parse_hash(&sha256)?)?.clone(),
                })),
            })
            .collect()
    }
}

impl OriginRow {
    fn of(origin: &UserOrigin) -> Self {
        match origin {
            UserOrigin::Turn { event_id } => Self::Turn {
                event_id: event_id.clone(),
            },
            UserOrigin::RequestContext { event_id } => Self::RequestContext {
                event_id: event_id.clone(),
            },
            UserOrigin::Summary { event_id } => Self::Summary {
                event_id: event_id.clone(),
            },
            UserOrigin::SummaryRequest => Self::SummaryRequest,
            UserOrigin::Imported => Self::Imported,
        }
    }

    fn into_origin(self) -> UserOrigin {
        match self {
            Self::Turn { event_id } => UserOrigin::Turn { event_id },
            Self::RequestContext { event_id } => UserOrigin::RequestContext { event_id },
            Self::Summary { event_id } => UserOrigin::Summary { event_id },
            Self::SummaryRequest => UserOrigin::SummaryRequest,
            Self::Imported => UserOrigin::Imported,
        }
    }
}

impl AssistantRow {
    pub(super) fn of(said: &Assistant) -> Self {
        Self {
            text: said.text.clone(),
            reasoning: said.reasoning.as_ref().map(|reasoning| ReasoningRow {
                text: reasoning.text.clone(),
                foreign_signature: reasoning.foreign_signature.clone(),
            }),
            replay: said.replay.as_ref().map(|replay| ReplayRow {
                issuer: replay.issuer.clone(),
                payload: replay.payload.clone(),
            }),
        }
    }

    pub(super) fn into_assistant(self) -> Assistant {
        Assistant {
            text: self.text,
            reasoning: self.reasoning.map(|reasoning| Reasoning {
                text: reasoning.text,
                foreign_signature: reasoning.foreign_signature,
            }),
            replay: self.replay.map(|replay| ReplayState {
                issuer: replay.issuer,
                payload: replay.payload,
            }),
        }
    }
}

fn parse_hash(text: &str) -> Option<BlobHash> {
    let mut hash = BlobHash::default();
    hex::decode_to_slice(text, &mut hash).ok()?;
    Some(hash)
}
