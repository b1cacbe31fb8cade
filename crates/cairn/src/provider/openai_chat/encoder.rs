//! From a model request to the exact bytes of a Chat Completions body.
//!
//! Pure: the same request and profile give the same bytes, and nothing of a single call enters. `messages` comes last, so
//! that the body of a longer history repeats the shorter one's bytes up to the end of its messages. Must never know: who
//! sends the bytes.

use std::ops::Range;

use bytes::Bytes;

use super::profile::{ChatProfile, EffortParameter, ThinkingParameter};
use super::reasoning;
use crate::model::{
    Assistant, HistoryItem, ItemDigest, ItemKind, Latency, ModelRequest, ModelSpec, Part, ProviderFailure,
    ProviderFault, ReasoningEffort, ToolCall, ToolDefinition,
};
use crate::provider::json::Json;
use crate::provider::{openai, sent};

/// What follows the last message.
const END: &str = "]}";

/// An encoded request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatRequest {
    /// The body as it is sent.
    pub body: Bytes,
    head: Range<usize>,
    messages: Vec<Range<usize>>,
    items: Vec<ItemDigest>,
}

impl ChatRequest {
    /// What the request is remembered by: its tools, its instructions, its messages.
    pub fn items(&self) -> &[ItemDigest] {
        &self.items
    }

    /// Everything before the messages: model, parameters and tools.
    pub fn head(&self) -> &[u8] {
        &self.body[self.head.clone()]
    }

    /// The messages one by one. Of two requests of one conversation, the earlier one's are the first of the later one's.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.messages.iter().map(|range| &self.body[range.clone()])
    }
}

/// Encodes a request, or says what the endpoint has no way to do.
pub fn encode(request: &ModelRequest, profile: &ChatProfile) -> Result<ChatRequest, ProviderFailure> {
    let mut json = Json::default();
    let mut items = Vec::with_capacity(request.prompt.tools.len() + request.history.len() + 1);
    encode_head(&mut json, &mut items, request, profile)?;
    let head = 0..json.bytes.len();
    json.raw("\"messages\":[");
    let mut messages = Vec::with_capacity(request.history.len() + 1);
    if !request.prompt.instructions.is_empty() {
        let start = json.bytes.len();
        json.raw(r#"{"role":"system","content":"#);
        json.string(&request.prompt.instructions);
        json.raw("}");
        messages.push(start..json.bytes.len());
        items.push(sent::item(ItemKind::Instructions, &json.bytes[start..]));
    }
    let begun = Begun {
        json,
        head,
        messages,
        items,
    };
    encode_messages(begun, 0, request, profile)
}

/// Encodes a request whose beginning was encoded before: all but the history from the item `known` on.
///
/// Gives what [`encode`] gives. Copies nothing if nobody else holds the earlier body.
pub(super) fn extend(
    before: ChatRequest,
    known: usize,
    request: &ModelRequest,
    profile: &ChatProfile,
) -> Result<ChatRequest, ProviderFailure> {
    let ChatRequest {
        body,
        head,
        messages,
        items,
    } = before;
    let mut bytes = Vec::from(body);
    bytes.truncate(bytes.len() - END.len());
    let begun = Begun {
        json: Json { bytes },
        head,
        messages,
        items,
    };
    encode_messages(begun, known, request, profile)
}

/// A body up to some of its messages.
struct Begun {
    json: Json,
    head: Range<usize>,
    messages: Vec<Range<usize>>,
    items: Vec<ItemDigest>,
}

/// Appends the history from the item `known` on to the messages, and ends the body.
fn encode_messages(
    begun: Begun,
    known: usize,
    request: &ModelRequest,
    profile: &ChatProfile,
) -> Result<ChatRequest, ProviderFailure> {
    let Begun {
        mut json,
        head,
        mut messages,
        mut items,
    } = begun;
    for item in request.history.iter().skip(known) {
        if !messages.is_empty() {
            json.raw(",");
        }
        let start = json.bytes.len();
        encode_item(&mut json, item, &request.model, profile)?;
        messages.push(start..json.bytes.len());
        items.push(sent::item(ItemKind::Message, &json.bytes[start..]));
    }
    json.raw(END);
    Ok(ChatRequest {
        body: json.bytes.into(),
        head,
        messages,
        items,
    })
}

fn encode_head(
    json: &mut Json,
    items: &mut Vec<ItemDigest>,
    request: &ModelRequest,
    profile: &ChatProfile,
) -> Result<(), ProviderFailure> {
    json.raw("{\"model\":");
    json.string(&profile.upstream_model);
    json.raw(",\"stream\":true,");
    if profile.include_usage {
        json.raw("\"stream_options\":{\"include_usage\":true},");
    }
    if let Some(limit) = request.model.max_output_tokens {
        json.raw(&format!("\"{}\":{limit},", profile.max_tokens_parameter));
    }
    encode_asked(json, &request.model, profile)?;
    if profile.prompt_cache_key {
        json.raw("\"prompt_cache_key\":");
        json.string(&openai::prompt_cache_key(&request.conversation));
        json.raw(",");
    }
    for (key, value) in &profile.extra_body {
        json.string(key);
        json.raw(":");
        json.raw(value);
        json.raw(",");
    }
    if !request.prompt.tools.is_empty() {
        json.raw("\"tools\":[");
        for (index, tool) in request.prompt.tools.iter().enumerate() {
            if index > 0 {
                json.raw(",");
            }
            let start = json.bytes.len();
            encode_tool(json, tool, profile)?;
            items.push(sent::item(ItemKind::Tool, &json.bytes[start..]));
        }
        json.raw("],");
    }
    Ok(())
}

/// What the run asks of the model beyond an answer.
fn encode_asked(json: &mut Json, model: &ModelSpec, profile: &ChatProfile) -> Result<(), ProviderFailure> {
    let unsupported = |text: &str| Err(profile.endpoint.failure(ProviderFault::Unsupported, text));
    if model.latency == Latency::Fast {
        return unsupported("this endpoint has no faster route; switch fast off");
    }
    let effort = model.reasoning.effort;
    if let Some(effort) = effort {
        let word = openai::effort_word(effort);
        match profile.effort {
            EffortParameter::ReasoningEffort => json.raw(&format!("\"reasoning_effort\":\"{word}\",")),
            EffortParameter::ReasoningObject => {
                json.raw(&format!("\"reasoning\":{{\"effort\":\"{word}\"}},"))
            }
            EffortParameter::Absent => {
                return unsupported(
                    "this endpoint takes no thinking effort; choose none, or set effort_parameter",
                );
            }
        }
    }
    if let Some(enabled) = model.reasoning.enabled {
        let says_so = |effort: ReasoningEffort| enabled == (effort != ReasoningEffort::None);
        match profile.thinking {
            // An effort above none already asks for thinking, and none already asks for no thinking.
            ThinkingParameter::Absent if effort.is_some_and(says_so) => {}
            ThinkingParameter::Absent => {
                return unsupported(
                    "this endpoint has no switch for thinking; leave thinking as it is, or set thinking_parameter",
                );
            }
            ThinkingParameter::ThinkingType => {
                let word = if enabled { "enabled" } else { "disabled" };
                json.raw(&format!("\"thinking\":{{\"type\":\"{word}\"}},"));
            }
            ThinkingParameter::EnableThinking => json.raw(&format!("\"enable_thinking\":{enabled},")),
            ThinkingParameter::ChatTemplate => {
                json.raw(&format!(
                    "\"chat_template_kwargs\":{{\"enable_thinking\":{enabled}}},"
                ));
            }
        }
    }
    Ok(())
}

fn encode_tool(json: &mut Json, tool: &ToolDefinition, profile: &ChatProfile) -> Result<(), ProviderFailure> {
    openai::check_parameters(tool, &profile.endpoint)?;
    json.raw("{\"type\":\"function\",\"function\":{\"name\":");
    json.string(&tool.name);
    json.raw(",\"description\":");
    json.string(&tool.description);
    json.raw(",\"parameters\":");
    json.raw(&tool.parameters);
    json.raw("}}");
    Ok(())
}

/// Encodes one item by itself: what surrounds it never changes its bytes.
fn encode_item(
    json: &mut Json,
    item: &HistoryItem,
    model: &ModelSpec,
    profile: &ChatProfile,
) -> Result<(), ProviderFailure> {
    match item {
        HistoryItem::User { parts, .. } => encode_user(json, parts, model, profile)?,
        HistoryItem::Assistant { said, calls, .. } => encode_assistant(json, said, calls, profile)?,
        HistoryItem::ToolResult(result) => {
            json.raw("{\"role\":\"tool\",\"tool_call_id\":");
            json.string(result.call.as_str());
            json.raw(",\"content\":");
            json.string(&result.content);
            json.raw("}");
        }
    }
    Ok(())
}

fn encode_user(
    json: &mut Json,
    parts: &[Part],
    model: &ModelSpec,
    profile: &ChatProfile,
) -> Result<(), ProviderFailure> {
    // Endpoints refuse empty text parts, and they say nothing.
    let parts: Vec<&Part> = parts
        .iter()
        .filter(|part| !matches!(part, Part::Text(text) if text.is_empty()))
        .collect();
    json.raw("{\"role\":\"user\",\"content\":");
    match parts.as_slice() {
        [] => json.string(""),
        [Part::Text(text)] => json.string(text),
        parts => {
            json.raw("[");
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    json.raw(",");
                }
                match part {
                    Part::Text(text) => {
                        json.raw("{\"type\":\"text\",\"text\":");
                        json.string(text);
                        json.raw("}");
                    }
                    Part::Image(image) if model.vision => {
                        json.raw("{\"type\":\"image_url\",\"image_url\":{\"url\":");
                        json.string(&openai::data_url(image));
                        json.raw("}}");
                    }
                    Part::Image(_) => return Err(openai::no_vision(&profile.endpoint)),
                }
            }
            json.raw("]");
        }
    }
    json.raw("}");
    Ok(())
}

fn encode_assistant(
    json: &mut Json,
    said: &Assistant,
    calls: &[ToolCall],
    profile: &ChatProfile,
) -> Result<(), ProviderFailure> {
    json.raw("{\"role\":\"assistant\",\"content\":");
    if said.text.is_empty() && !calls.is_empty() {
        json.raw("null");
    } else {
        json.string(&said.text);
    }
    if let Some(replay) = &said.replay
        && replay.issuer == *profile.issuer()
    {
        let members = reasoning::members(&replay.payload).map_err(|fault| {
            profile.endpoint.failure(
                ProviderFault::InvalidRequest,
                &format!("the conversation holds a damaged replay state of this model: {fault}"),
            )
        })?;
        json.raw(",");
        json.raw(members);
    }
    if !calls.is_empty() {
        json.raw(",\"tool_calls\":[");
        for (index, call) in calls.iter().enumerate() {
            if index > 0 {
                json.raw(",");
            }
            json.raw("{\"id\":");
            json.string(call.id.as_str());
            json.raw(",\"type\":\"function\",\"function\":{\"name\":");
            json.string(&call.name);
            json.raw(",\"arguments\":");
            json.string(&call.arguments);
            json.raw("}}");
        }
        json.raw("]");
    }
    json.raw("}");
    Ok(())
}
