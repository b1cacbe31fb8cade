//! From the model-visible history to roots and to the pending assistant text of a staged checkpoint.
//!
//! Deterministic: equal items give equal bytes, so that old roots are a prefix for ever. Must never know: how blobs
//! are stored or sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use super::wire::{ASSISTANT_ID, CairnCallOptions, CallOptions, ContentOut, PartOut, RootOut, seal_capsule};
use crate::cursor::blob::Blob;
use crate::cursor::request::wire_id;
use crate::model::{Assistant, CallId, HistoryItem, Part, ToolCall};

/// What the staged text says of its calls besides the calls themselves.
#[derive(Debug)]
pub struct PendingContext<'a> {
    /// Names the message: the round's id, by which its stored results are found again, or the model call's id.
    pub provider_message_id: &'a str,
    /// When the round was created, in milliseconds since the Unix epoch; frozen.
    pub started_at_ms: u64,
    /// The names of all tools in the prompt.
    pub allowed_tools: &'a [Arc<str>],
    /// Those of them that MCP servers brought.
    pub dynamic_tools: &'a HashSet<Arc<str>>,
}

/// The system root: the instructions, and beside them what the prompt was made of, as JSON, for a server that has lost its
/// own note of it.
pub fn encode_system(instructions: &str, prompt_note: &[u8]) -> Result<Blob, serde_json::Error> {
    let options = SystemOptions {
        cairn: SystemNote {
            prompt: serde_json::from_slice(prompt_note)?,
        },
    };
    blob(&RootOut {
        role: "system",
        id: None,
        content: ContentOut::Text(instructions),
        provider_options: Some(raw(&options)?),
    })
}

#[derive(Serialize)]
struct SystemOptions<'a> {
    cairn: SystemNote<'a>,
}

#[derive(Serialize)]
struct SystemNote<'a> {
    prompt: &'a RawValue,
}

/// The roots that new history items add. A result needs its call's name, so a batch must be given whole.
pub fn encode_history(items: &[Arc<HistoryItem>]) -> Result<Vec<Blob>, serde_json::Error> {
    let mut names: HashMap<&CallId, &str> = HashMap::new();
    let mut roots = Vec::with_capacity(items.len());
    for item in items {
        roots.push(match item.as_ref() {
            HistoryItem::User { origin, parts, .. } => {
                let id = wire_id(origin);
                blob(&RootOut {
                    role: "user",
                    id: id.as_deref(),
                    content: ContentOut::Parts(parts.iter().map(part).collect()),
                    provider_options: None,
                })?
            }
            HistoryItem::Assistant { said, calls, .. } => {
                names.extend(calls.iter().map(|call| (&call.id, &*call.name)));
                let arguments = raw_arguments(calls)?;
                blob(&RootOut {
                    role: "assistant",
                    id: Some(ASSISTANT_ID),
                    content: ContentOut::Parts(assistant_parts(said, calls, &arguments)?),
                    provider_options: None,
                })?
            }
            HistoryItem::ToolResult(result) => {
                let text = result.content.text();
                let has_images = result.content.images().next().is_some();
                let answer = PartOut::ToolResult {
                    tool_call_id: result.call.as_str(),
                    tool_name: names.get(&result.call).copied().unwrap_or_default(),
                    result: &text,
                    content: has_images.then(|| result.content.parts().iter().map(part).collect()),
                };
                blob(&RootOut {
                    role: "tool",
                    id: Some(result.call.as_str()),
                    content: ContentOut::Parts(vec![answer]),
                    provider_options: Some(raw(&ResultOptions {
                        cursor: ResultCursor {
                            result: ResultFlag {
                                is_error: result.is_error,
                            },
                        },
                    })?),
                })?
            }
        });
    }
    Ok(roots)
}

/// The one element of `pending_tool_calls`: a whole assistant message with the frozen facts of its calls.
pub fn encode_pending(
    said: &Assistant,
    calls: &[ToolCall],
    context: &PendingContext<'_>,
) -> Result<String, serde_json::Error> {
    let arguments = raw_arguments(calls)?;
    let contracts = calls
        .iter()
        .map(|call| {
            let is_dynamic = context.dynamic_tools.contains(&call.name);
            let tool_identifier = tool_identifier(&call.name, is_dynamic);
            let contract = Contract {
                tool_call_id: call.id.as_str(),
                outer_tool_name: &call.name,
                tool_identifier,
                is_dynamic,
                allowed_tool_names: context.allowed_tools,
            };
            Ok((call.id.as_str().to_owned(), serde_json::to_value(contract)?))
        })
        .collect::<Result<serde_json::Map<_, _>, serde_json::Error>>()?;
    let options = PendingOptions {
        cursor: PendingCursor {
            model_provider_message_id: context.provider_message_id,
            started_at_ms: context.started_at_ms,
            contracts,
        },
    };
    serde_json::to_string(&RootOut {
        role: "assistant",
        id: Some(ASSISTANT_ID),
        content: ContentOut::Parts(assistant_parts(said, calls, &arguments)?),
        provider_options: Some(raw(&options)?),
    })
}

#[derive(Serialize)]
struct ResultOptions {
    cursor: ResultCursor,
}

#[derive(Serialize)]
struct ResultCursor {
    #[serde(rename = "highLevelToolCallResult")]
    result: ResultFlag,
}

#[derive(Serialize)]
struct ResultFlag {
    #[serde(rename = "isError")]
    is_error: bool,
}

#[derive(Serialize)]
struct PendingOptions<'a> {
    cursor: PendingCursor<'a>,
}

#[derive(Serialize)]
struct PendingCursor<'a> {
    #[serde(rename = "modelProviderMessageId")]
    model_provider_message_id: &'a str,
    #[serde(rename = "pendingToolCallStartedAtMs")]
    started_at_ms: u64,
    #[serde(rename = "pendingToolExecutionContracts")]
    contracts: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Contract<'a> {
    tool_call_id: &'a str,
    outer_tool_name: &'a str,
    tool_identifier: String,
    is_dynamic: bool,
    allowed_tool_names: &'a [Arc<str>],
}

/// The client's own identifier of a tool. The irregular ones are captured; the others are the name in capitals with
/// underscores, as the regular captured ones are. [capture]
fn tool_identifier(name: &str, is_dynamic: bool) -> String {
    match name {
        _ if is_dynamic => "MCP".to_owned(),
        "AwaitShell" => "AWAIT".to_owned(),
        "CallMcpTool" => "MCP".to_owned(),
        "CreatePlan" => "CREATE_PLAN_V2".to_owned(),
        "UpdateCurrentStep" => "COMMUNICATE_UPDATE".to_owned(),
        _ => {
            let mut identifier = String::with_capacity(name.len() + 4);
            for (index, letter) in name.char_indices() {
                if index > 0 && letter.is_ascii_uppercase() {
                    identifier.push('_');
                }
                identifier.push(letter.to_ascii_uppercase());
            }
            identifier
        }
    }
}

fn part(part: &Part) -> PartOut<'_> {
    match part {
        Part::Text(text) => PartOut::Text { text },
        Part::Image(image) => PartOut::Image {
            data: STANDARD.encode(&image.data),
            mime_type: &image.mime_type,
        },
    }
}

/// The argument texts as raw JSON. Whitespace around a JSON value is not part of it and is kept apart.
fn raw_arguments(calls: &[ToolCall]) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
    calls
        .iter()
        .map(|call| RawValue::from_string(call.arguments.to_string()))
        .collect()
}

fn assistant_parts<'a>(
    said: &'a Assistant,
    calls: &'a [ToolCall],
    arguments: &'a [Box<RawValue>],
) -> Result<Vec<PartOut<'a>>, serde_json::Error> {
    let mut parts = Vec::with_capacity(calls.len() + 2);
    let foreign = said
        .reasoning
        .as_ref()
        .and_then(|reasoning| reasoning.foreign_signature.as_deref());
    if said.reasoning.is_some() || said.replay.is_some() {
        parts.push(PartOut::Reasoning {
            text: said.reasoning.as_ref().map_or("", |reasoning| &reasoning.text),
            signature: match &said.replay {
                Some(state) => Some(seal_capsule(state)?),
                None => foreign.map(str::to_owned),
            },
        });
    }
    if !said.text.is_empty() {
        parts.push(PartOut::Text { text: &said.text });
    }
    for (call, args) in calls.iter().zip(arguments) {
        let exact = (args.get() != &*call.arguments).then(|| CallOptions {
            cairn: Some(CairnCallOptions {
                arguments_text: call.arguments.to_string(),
            }),
        });
        parts.push(PartOut::ToolCall {
            tool_call_id: call.id.as_str(),
            tool_name: &call.name,
            args,
            provider_options: exact,
        });
    }
    Ok(parts)
}

fn blob(root: &RootOut<'_>) -> Result<Blob, serde_json::Error> {
    Ok(Blob::new(serde_json::to_vec(root)?))
}

fn raw(value: &impl Serialize) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::value::to_raw_value(value)
}
