//! From roots and pending texts back to messages. Strict: what cannot be read whole is a named error, never a guess.
//!
//! Must never know: where the bytes came from.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::wire::{CapsuleFault, ContentIn, PartIn, RootIn, open_capsule};
use crate::cursor::blob::BlobId;
use crate::cursor::request::{message_id, origin_of_wire_id};
use crate::model::{
    Assistant, CallId, Image, Message, MessageBody, MessageId, Part, PendingAssistant, Reasoning, ToolCall,
    ToolContent, ToolResult, ToolRoundId, UserOrigin,
};

/// A root that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProjectionError {
    /// The bytes are not JSON of a message.
    #[error("root {root} is not a message: {fault}")]
    NotAMessage {
        /// The blob, or the place of a pending text.
        root: String,
        /// What the JSON reader says; never the content.
        fault: String,
    },
    /// A role that a history cannot have at this place.
    #[error("root {root} has the role {role:?}, which cannot stand here")]
    UnexpectedRole {
        /// The blob.
        root: String,
        /// The role.
        role: String,
    },
    /// A content part that this version cannot carry.
    #[error("root {root} holds a content part of type {kind:?}, which cannot be read")]
    UnknownPart {
        /// The blob.
        root: String,
        /// The part's type.
        kind: String,
    },
    /// A part without a key that its type needs.
    #[error("a {kind} part of root {root} has no {key}")]
    MissingKey {
        /// The blob.
        root: String,
        /// The part's type.
        kind: String,
        /// The key.
        key: &'static str,
    },
    /// A reasoning signature with our mark in a version that this cairn does not know.
    #[error(
        "the replay state in root {root} has version {version}, which this cairn does not know; serve the \
         conversation with the newer cairn that wrote it"
    )]
    UnknownReplayVersion {
        /// The blob.
        root: String,
        /// The version.
        version: u32,
    },
    /// A reasoning signature with our mark that cannot be read.
    #[error("the replay state in root {root} is damaged")]
    DamagedReplay {
        /// The blob.
        root: String,
    },
    /// Calls and results do not pair.
    #[error("root {root}: {fault}")]
    Unpaired {
        /// The blob.
        root: String,
        /// What is missing or too much.
        fault: String,
    },
}

/// One root, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodedRoot {
    /// The system prompt. It is never part of the history.
    System {
        /// The note about what the prompt was made of, as JSON, if it was this server's own.
        prompt_note: Option<String>,
    },
    /// A message in the user role.
    User {
        /// Its wire id, if it has one.
        wire_id: Option<String>,
        /// Text and images.
        parts: Vec<Part>,
    },
    /// An assistant message with its calls.
    Assistant {
        /// Text, reasoning, replay state.
        said: Assistant,
        /// The calls in order.
        calls: Vec<ToolCall>,
    },
    /// Tool results.
    Tool(Vec<ToolResult>),
}

/// Reads one root.
pub fn decode_root(label: &str, json: &[u8]) -> Result<DecodedRoot, ProjectionError> {
    let not_a_message = |error| ProjectionError::NotAMessage {
        root: label.to_owned(),
        fault: describe(&error),
    };
    let root: RootIn = serde_json::from_slice(json).map_err(not_a_message)?;
    let content = root.content().map_err(not_a_message)?;
    match root.role.as_str() {
        "system" => Ok(DecodedRoot::System {
            prompt_note: root
                .provider_options
                .and_then(|options| options.cairn)
                .map(|options| options.prompt.get().to_owned()),
        }),
        "user" => Ok(DecodedRoot::User {
            wire_id: root.id,
            parts: user_parts(label, content)?,
        }),
        "assistant" => {
            let (said, calls) = assistant(label, content)?;
            Ok(DecodedRoot::Assistant { said, calls })
        }
        "tool" => {
            let is_error = root
                .provider_options
                .and_then(|options| options.cursor)
                .and_then(|cursor| cursor.result)
                .is_some_and(|result| result.is_error);
            Ok(DecodedRoot::Tool(results(label, content, is_error)?))
        }
        _ => Err(ProjectionError::UnexpectedRole {
            root: label.to_owned(),
            role: root.role,
        }),
    }
}

/// Reads the element of `pending_tool_calls`: an assistant message that was staged and not settled, with or without
/// calls.
pub fn decode_pending(json: &str) -> Result<PendingAssistant, ProjectionError> {
    let label = "pending_tool_calls[0]";
    let not_a_message = |error| ProjectionError::NotAMessage {
        root: label.to_owned(),
        fault: describe(&error),
    };
    let root: RootIn = serde_json::from_str(json).map_err(not_a_message)?;
    let content = root.content().map_err(not_a_message)?;
    if root.role != "assistant" {
        return Err(ProjectionError::UnexpectedRole {
            root: label.to_owned(),
            role: root.role,
        });
    }
    let (said, calls) = assistant(label, content)?;
    let mut ids = HashSet::new();
    if let Some(repeated) = calls.iter().find(|call| !ids.insert(&call.id)) {
        return Err(unpaired(
            label,
            format!("call {} stands in it twice", repeated.id),
        ));
    }
    let options = root.provider_options.and_then(|options| options.cursor);
    let (round, started_at_ms) = match options {
        Some(options) => (options.provider_message_id, options.started_at_ms),
        None => (None, None),
    };
    let started_at_ms =
        started_at_ms.ok_or_else(|| missing(label, "assistant", "pendingToolCallStartedAtMs"))?;
    if i64::try_from(started_at_ms).is_err() {
        return Err(ProjectionError::NotAMessage {
            root: label.to_owned(),
            fault: "its pendingToolCallStartedAtMs is no time".to_owned(),
        });
    }
    Ok(PendingAssistant {
        round: round.filter(|id| !id.is_empty()).map(ToolRoundId::new),
        said,
        calls,
        started_at_ms,
    })
}

/// Turns a client's roots, the system root left out, into messages with identities made from the blobs.
///
/// Other servers let call ids repeat, and endpoints refuse that: a repeated id is varied in its call and its result
/// together, by the roots before it alone, so that it is the same in every import.
pub fn import_history(roots: &[(BlobId, DecodedRoot)]) -> Result<Vec<Message>, ProjectionError> {
    let mut messages = Vec::with_capacity(roots.len());
    let mut seen = HashSet::new();
    let mut call_ids = HashSet::new();
    let mut open: Option<OpenBatch> = None;
    for (position, (blob, root)) in roots.iter().enumerate() {
        let label = blob.to_string();
        if let (Some(batch), false) = (&open, matches!(root, DecodedRoot::Tool(_))) {
            return Err(unpaired(
                &label,
                format!("call {} has no result before it", batch.missing()),
            ));
        }
        match root {
            DecodedRoot::System { .. } => {
                return Err(ProjectionError::UnexpectedRole {
                    root: label,
                    role: "system".to_owned(),
                });
            }
            DecodedRoot::User { wire_id, parts } => {
                let origin = wire_id.as_deref().map_or(UserOrigin::Imported, origin_of_wire_id);
                let own = message_id(&origin, parts);
                // Our own events keep their identity, so that a repeat is recognised after a lost database.
                let id = own
                    .filter(|id| !seen.contains(id))
                    .unwrap_or_else(|| MessageId::new(format!("root:{label}@{position}")));
                seen.insert(id.clone());
                messages.push(Message {
                    id,
                    body: MessageBody::User {
                        origin,
                        parts: parts.clone(),
                    },
                });
            }
            DecodedRoot::Assistant { said, calls } if calls.is_empty() => {
                let id = MessageId::new(format!("root:{label}@{position}"));
                messages.push(Message {
                    id,
                    body: MessageBody::Assistant(said.clone()),
                });
            }
            DecodedRoot::Assistant { said, calls } => {
                open = Some(OpenBatch {
                    round: round_id(&label, position, &roots[position + 1..]),
                    said: Some(said.clone()),
                    wire_ids: calls.iter().map(|call| call.id.clone()).collect(),
                    calls: calls
                        .iter()
                        .map(|call| {
                            Some(ToolCall {
                                id: unique_id(&call.id, &mut call_ids),
                                ..call.clone()
                            })
                        })
                        .collect(),
                });
            }
            DecodedRoot::Tool(results) => {
                let Some(batch) = open.as_mut() else {
                    return Err(unpaired(&label, "a result has no call before it".to_owned()));
                };
                for result in results {
                    batch.answer(&label, result, &mut messages)?;
                }
                if batch.calls.iter().all(Option::is_none) {
                    open = None;
                }
            }
        }
    }
    match open {
        Some(batch) => Err(unpaired(
            "last",
            format!("call {} has no result", batch.missing()),
        )),
        None => Ok(messages),
    }
}

/// The identity of a batch: the same call can have been run twice from one state, with other results each time, so the
/// results are part of it.
fn round_id(label: &str, position: usize, following: &[(BlobId, DecodedRoot)]) -> ToolRoundId {
    let mut results = Sha256::new();
    for (blob, _) in following
        .iter()
        .take_while(|(_, root)| matches!(root, DecodedRoot::Tool(_)))
    {
        results.update(blob.as_bytes());
    }
    let results = hex::encode(&results.finalize()[..8]);
    ToolRoundId::new(format!("root:{label}@{position}:{results}"))
}

fn unique_id(wanted: &CallId, taken: &mut HashSet<CallId>) -> CallId {
    let mut candidate = wanted.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        candidate = CallId::new(format!("{wanted}-{number}"));
        number += 1;
    }
    candidate
}

struct OpenBatch {
    round: ToolRoundId,
    said: Option<Assistant>,
    /// The calls' ids as the roots have them.
    wire_ids: Vec<CallId>,
    calls: Vec<Option<ToolCall>>,
}

impl OpenBatch {
    fn answer(
        &mut self,
        label: &str,
        result: &ToolResult,
        messages: &mut Vec<Message>,
    ) -> Result<(), ProjectionError> {
        let batch_size = self.calls.len();
        let index = self
            .wire_ids
            .iter()
            .zip(&self.calls)
            .position(|(id, slot)| *id == result.call && slot.is_some());
        let open = index.and_then(|index| Some((index, self.calls.get_mut(index)?.take()?)));
        let Some((index, call)) = open else {
            return Err(unpaired(
                label,
                format!("result {} answers no open call", result.call),
            ));
        };
        let result = ToolResult {
            call: call.id.clone(),
            ..result.clone()
        };
        messages.push(Message {
            id: MessageId::tool_call(&self.round, index),
            body: MessageBody::ToolCall {
                round: self.round.clone(),
                index,
                call,
                batch_size,
                said: self.said.take(),
            },
        });
        messages.push(Message {
            id: MessageId::tool_result(&self.round, index),
            body: MessageBody::ToolResult {
                round: self.round.clone(),
                result,
            },
        });
        Ok(())
    }

    fn missing(&self) -> String {
        self.calls
            .iter()
            .flatten()
            .next()
            .map(|call| call.id.to_string())
            .unwrap_or_default()
    }
}

fn user_parts(label: &str, content: ContentIn) -> Result<Vec<Part>, ProjectionError> {
    match content {
        ContentIn::Text(text) => Ok(vec![Part::Text(text.into())]),
        ContentIn::Parts(parts) => text_and_images(label, parts),
    }
}

fn text_and_images(label: &str, parts: Vec<PartIn>) -> Result<Vec<Part>, ProjectionError> {
    parts
        .into_iter()
        .map(|part| match part.kind.as_str() {
            "text" => Ok(Part::Text(required(label, "text", "text", part.text)?.into())),
            "image" => {
                let data = required(label, "image", "data", part.data)?;
                let data = STANDARD.decode(&data).map_err(|_| ProjectionError::NotAMessage {
                    root: label.to_owned(),
                    fault: "an image is not base64".to_owned(),
                })?;
                let mime_type = required(label, "image", "mimeType", part.mime_type)?;
                Ok(Part::Image(Image {
                    mime_type: mime_type.into(),
                    data: data.into(),
                }))
            }
            _ => Err(ProjectionError::UnknownPart {
                root: label.to_owned(),
                kind: part.kind,
            }),
        })
        .collect()
}

fn assistant(label: &str, content: ContentIn) -> Result<(Assistant, Vec<ToolCall>), ProjectionError> {
    let parts = match content {
        ContentIn::Text(text) => {
            return Ok((
                Assistant {
                    text: text.into(),
                    reasoning: None,
                    replay: None,
                },
                Vec::new(),
            ));
        }
        ContentIn::Parts(parts) => parts,
    };
    let mut text = String::new();
    let mut reasoning: Option<Reasoning> = None;
    let mut replay = None;
    let mut calls = Vec::new();
    for part in parts {
        match part.kind.as_str() {
            "text" => text.push_str(&required(label, "text", "text", part.text)?),
            "reasoning" => {
                let said = required(label, "reasoning", "text", part.text)?;
                let own = match part.signature.as_deref() {
                    Some(signature) => {
                        open_capsule(signature).map_err(|fault| replay_fault(label, &fault))?
                    }
                    None => None,
                };
                let foreign_signature = match own {
                    Some(state) => {
                        replay = Some(state);
                        None
                    }
                    None => part.signature.map(Arc::from),
                };
                reasoning = Some(match reasoning {
                    None => Reasoning {
                        text: said.into(),
                        foreign_signature,
                    },
                    Some(earlier) => Reasoning {
                        text: format!("{}{said}", earlier.text).into(),
                        foreign_signature: foreign_signature.or(earlier.foreign_signature),
                    },
                });
            }
            "tool-call" => calls.push(tool_call(label, part)?),
            _ => {
                return Err(ProjectionError::UnknownPart {
                    root: label.to_owned(),
                    kind: part.kind,
                });
            }
        }
    }
    Ok((
        Assistant {
            text: text.into(),
            reasoning,
            replay,
        },
        calls,
    ))
}

fn tool_call(label: &str, part: PartIn) -> Result<ToolCall, ProjectionError> {
    let exact = part
        .provider_options
        .and_then(|options| options.cairn)
        .map(|own| own.arguments_text);
    let arguments = match exact {
        Some(text) => text,
        None => required(label, "tool-call", "args", part.args)?.get().to_owned(),
    };
    Ok(ToolCall {
        id: CallId::new(required(label, "tool-call", "toolCallId", part.tool_call_id)?),
        name: required(label, "tool-call", "toolName", part.tool_name)?.into(),
        arguments: arguments.into(),
    })
}

fn results(label: &str, content: ContentIn, is_error: bool) -> Result<Vec<ToolResult>, ProjectionError> {
    let ContentIn::Parts(parts) = content else {
        return Err(ProjectionError::UnknownPart {
            root: label.to_owned(),
            kind: "text".to_owned(),
        });
    };
    parts
        .into_iter()
        .map(|part| {
            if part.kind != "tool-result" {
                return Err(ProjectionError::UnknownPart {
                    root: label.to_owned(),
                    kind: part.kind,
                });
            }
            let call = CallId::new(required(label, "tool-result", "toolCallId", part.tool_call_id)?);
            let raw = required(label, "tool-result", "result", part.result)?;
            let content = match part.content {
                Some(parts) => ToolContent::new(text_and_images(label, parts)?),
                // A result that another server stored as an object stays the JSON text that it is.
                None => serde_json::from_str::<String>(raw.get())
                    .unwrap_or_else(|_| raw.get().to_owned())
                    .into(),
            };
            Ok(ToolResult {
                call,
                content,
                is_error,
            })
        })
        .collect()
}

fn required<T>(label: &str, kind: &str, key: &'static str, value: Option<T>) -> Result<T, ProjectionError> {
    value.ok_or_else(|| missing(label, kind, key))
}

fn missing(label: &str, kind: &str, key: &'static str) -> ProjectionError {
    ProjectionError::MissingKey {
        root: label.to_owned(),
        kind: kind.to_owned(),
        key,
    }
}

fn replay_fault(label: &str, fault: &CapsuleFault) -> ProjectionError {
    let root = label.to_owned();
    match fault {
        CapsuleFault::Version(version) => ProjectionError::UnknownReplayVersion {
            root,
            version: *version,
        },
        CapsuleFault::Damaged => ProjectionError::DamagedReplay { root },
    }
}

fn unpaired(label: &str, fault: String) -> ProjectionError {
    ProjectionError::Unpaired {
        root: label.to_owned(),
        fault,
    }
}

/// Where the JSON is wrong, without quoting any of it.
fn describe(error: &serde_json::Error) -> String {
    format!("JSON error at line {}, column {}", error.line(), error.column())
}
