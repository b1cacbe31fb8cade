//! What a request's items are remembered by.
//!
//! Owns how a digest is made. Must never know: what an item says, or who compares.

use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{ModelEvent, ModelStream};
use crate::config::ModelConfig;
use crate::model::{HistoryItem, ItemDigest, ItemHash, ItemKind, ModelRequest, Part, RequestDigest};

/// What of a message follows from the model's settings, or from a refusal of its reasoning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decided {
    /// No byte of it.
    Nothing,
    /// These bytes of it, by their places in the message: members with reasoning, or with the endpoint's own ids.
    Members(Range<usize>),
    /// How it is written at all, or whether it is: reasoning, or pictures.
    Everything,
}

impl Decided {
    /// How a message with these parts is written follows from the settings if the model may be shown pictures.
    pub(crate) fn of_parts(parts: &[Part]) -> Self {
        match parts.iter().any(|part| matches!(part, Part::Image(_))) {
            true => Self::Everything,
            false => Self::Nothing,
        }
    }
}

/// The digest of a tool or of instructions that are written as these bytes.
pub(crate) fn item(kind: ItemKind, bytes: &[u8]) -> ItemDigest {
    let hash = hash(bytes);
    ItemDigest {
        kind,
        // No endpoint takes a body of four gigabytes.
        bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        hash,
        settled: Some(hash),
    }
}

/// The digest of a message that is written as these bytes.
pub(crate) fn message(bytes: &[u8], decided: Decided) -> ItemDigest {
    let whole = item(ItemKind::Message, bytes);
    let settled = match decided {
        Decided::Nothing => whole.settled,
        Decided::Members(members) if members.is_empty() => whole.settled,
        Decided::Members(members) => {
            let (before, behind) = (bytes.get(..members.start), bytes.get(members.end..));
            let rest = [before.unwrap_or_default(), behind.unwrap_or_default()];
            Some(hash_of(rest))
        }
        Decided::Everything => None,
    };
    ItemDigest { settled, ..whole }
}

/// The digest over what is configured of a model and may decide how a history is written: its options, and whether it is
/// shown pictures.
pub(crate) fn settings(config: &ModelConfig) -> ItemHash {
    hash(format!("vision = {}\n{}", config.vision, config.options).as_bytes())
}

fn hash(bytes: &[u8]) -> ItemHash {
    hash_of([bytes])
}

/// The hash over these bytes one behind the other.
fn hash_of<'a>(bytes: impl IntoIterator<Item = &'a [u8]>) -> ItemHash {
    let mut sha = Sha256::new();
    for bytes in bytes {
        sha.update(bytes);
    }
    let digest: [u8; 32] = sha.finalize().into();
    let mut hash = ItemHash::default();
    hash.copy_from_slice(&digest[..16]);
    hash
}

/// Says what is about to be sent, then does it; ends as soon as the call is cancelled.
pub(crate) fn announced(
    digest: RequestDigest,
    cancel: CancellationToken,
    events: ModelStream,
) -> ModelStream {
    let sending = ModelEvent::Sending(Arc::new(digest));
    let events = stream::iter([Ok(sending)]).chain(events);
    Box::pin(events.take_until(cancel.cancelled_owned()))
}

/// The digest of a request to a model that is no endpoint and takes it as it is: each item by its own fields.
pub fn digest_of(lineage: &str, request: &ModelRequest) -> RequestDigest {
    let tools = request.prompt.tools.iter().map(|tool| {
        let fields = [&*tool.name, &*tool.description, &*tool.parameters];
        of_fields(ItemKind::Tool, fields.map(str::as_bytes))
    });
    let instructions = [of_fields(
        ItemKind::Instructions,
        [request.prompt.instructions.as_bytes()],
    )];
    let messages = request.history.iter().map(|item| of_history(item));
    RequestDigest {
        lineage: lineage.into(),
        settings: ItemHash::default(),
        items: tools.chain(instructions).chain(messages).collect(),
        without_reasoning: false,
    }
}

fn of_history(item: &HistoryItem) -> ItemDigest {
    let mut fields: Vec<&[u8]> = Vec::new();
    match item {
        HistoryItem::User { parts, .. } => {
            fields.push(b"user");
            fields.extend(of_parts(parts));
        }
        HistoryItem::Assistant { said, calls, .. } => {
            fields.extend([b"assistant".as_slice(), said.text.as_bytes()]);
            if let Some(reasoning) = &said.reasoning {
                fields.extend([b"reasoning".as_slice(), reasoning.text.as_bytes()]);
            }
            if let Some(replay) = &said.replay {
                fields.extend([replay.issuer.as_bytes(), replay.payload.as_bytes()]);
            }
            for call in calls {
                fields.extend([
                    call.id.as_str().as_bytes(),
                    call.name.as_bytes(),
                    call.arguments.as_bytes(),
                ]);
            }
        }
        HistoryItem::ToolResult(result) => {
            let failed: &[u8] = if result.is_error { b"failed" } else { b"" };
            fields.extend([b"result".as_slice(), result.call.as_str().as_bytes(), failed]);
            fields.extend(of_parts(result.content.parts()));
        }
    }
    of_fields(ItemKind::Message, fields)
}

fn of_parts(parts: &[Part]) -> impl Iterator<Item = &[u8]> {
    parts.iter().flat_map(|part| match part {
        Part::Text(text) => [b"text".as_slice(), text.as_bytes()],
        Part::Image(image) => [image.mime_type.as_bytes(), &image.data],
    })
}

/// Lengths go in, so that no two lists of fields share an input.
fn of_fields<'a>(kind: ItemKind, fields: impl IntoIterator<Item = &'a [u8]>) -> ItemDigest {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.extend((field.len() as u64).to_le_bytes());
        bytes.extend(field);
    }
    item(kind, &bytes)
}
