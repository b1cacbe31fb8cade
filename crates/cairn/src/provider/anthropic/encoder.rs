//! From a model request to the exact bytes of a Messages body.
//!
//! Pure: the same request and profile give the same bytes, and nothing of a single call enters. `messages` comes last.
//! What stays the same from one request of a conversation to the next:
//!
//! - everything before the messages, byte for byte;
//! - each message, byte for byte but for `cache_control` members (see [`super::cache`]). Every history item is a message of
//!   its own, except that the results of a batch share one; the API itself joins neighbouring messages of one role. So a
//!   new item never reaches into an old message, and the blocks of a request are the first blocks of the next one;
//! - with `cache_control = "automatic"` and fewer than three long steps, the whole body up to the end of its messages.
//!
//! Must never know: who sends the bytes.

use std::ops::Range;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::blocks::{Messages, Role};
use super::profile::{AnthropicProfile, CacheMode, ThinkingMode, ThinkingOff};
use super::replay::{self, Entry};
use crate::model::{
    Assistant, HistoryItem, Image, ItemDigest, ItemKind, ModelRequest, ModelSpec, ProviderFailure,
    ProviderFault, ReasoningEffort, ToolCall, ToolDefinition, ToolResult,
};
use crate::provider::bodies::Growing;
use crate::provider::effort;
use crate::provider::json::Json;
use crate::provider::names;
use crate::provider::parts::{Shown, only_text, shown};
use crate::provider::sent;

/// What stands in the result of a failed call in place of a picture: there the API takes only text.
const PICTURE_OF_A_FAILURE: &str = "[A picture that came with the failure and cannot be shown stands here.]";

/// Longest name of a tool that the API takes.
const LONGEST_NAME: usize = 128;

/// An encoded request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnthropicRequest {
    /// The body as it is sent.
    pub body: Bytes,
    head: Range<usize>,
    messages: Vec<Range<usize>>,
    items: Vec<ItemDigest>,
}

impl AnthropicRequest {
    /// What the request is remembered by: its tools, its system prompt, its messages, all without `cache_control`
    /// members, which are no part of what the endpoint compares.
    pub fn items(&self) -> &[ItemDigest] {
        &self.items
    }

    /// Everything before the messages: model, parameters, tools and system prompt.
    pub fn head(&self) -> &[u8] {
        &self.body[self.head.clone()]
    }

    /// The messages one by one. Of two requests of one conversation, the earlier one's are the first of the later one's,
    /// but for `cache_control` members.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.messages.iter().map(|range| &self.body[range.clone()])
    }
}

/// Encodes a request, or says what the endpoint has no way to do.
pub fn encode(
    request: &ModelRequest,
    profile: &AnthropicProfile,
) -> Result<AnthropicRequest, ProviderFailure> {
    Unmarked::encode(request, profile)?.marked(profile)
}

/// A body before it is marked for the cache, from which the next one grows.
#[derive(Debug)]
pub(crate) struct Unmarked {
    head: Range<usize>,
    messages: Messages,
}

impl Unmarked {
    /// The body as it is sent.
    pub(crate) fn marked(&self, profile: &AnthropicProfile) -> Result<AnthropicRequest, ProviderFailure> {
        let finished = self.messages.finish(profile.cache, profile.cache_marker);
        if finished.messages.is_empty() {
            let text = "the conversation holds nothing that could be sent; say something first";
            return Err(profile.endpoint.failure(ProviderFault::InvalidRequest, text));
        }
        Ok(AnthropicRequest {
            body: finished.body.into(),
            head: self.head.clone(),
            messages: finished.messages,
            items: self.messages.items().to_vec(),
        })
    }

    fn push(
        &mut self,
        items: &[Arc<HistoryItem>],
        model: &ModelSpec,
        profile: &AnthropicProfile,
    ) -> Result<(), ProviderFailure> {
        let messages = &mut self.messages;
        let mut in_results = false;
        for item in items {
            let is_result = matches!(**item, HistoryItem::ToolResult(_));
            match &**item {
                HistoryItem::User { parts, .. } => {
                    messages.begin(Role::User);
                    messages.decided_by(parts);
                    for part in shown(parts, model) {
                        encode_part(messages, part);
                    }
                }
                HistoryItem::Assistant { said, calls, .. } => {
                    messages.begin(Role::Assistant);
                    encode_assistant(messages, said, calls, profile)?;
                }
                HistoryItem::ToolResult(result) => {
                    if !in_results {
                        messages.begin(Role::User);
                    }
                    messages.decided_by(result.content.parts());
                    encode_result(messages, result, model);
                }
            }
            in_results = is_result;
        }
        messages.close();
        Ok(())
    }
}

impl Growing for Unmarked {
    type Profile = AnthropicProfile;

    fn encode(request: &ModelRequest, profile: &AnthropicProfile) -> Result<Self, ProviderFailure> {
        let mut json = Json::default();
        let mut items = Vec::with_capacity(request.prompt.tools.len() + request.history.len() + 1);
        encode_head(&mut json, &mut items, request, profile)?;
        let mut body = Self {
            head: 0..json.bytes.len(),
            messages: Messages::new(json, items),
        };
        body.push(&request.history, &request.model, profile)?;
        Ok(body)
    }

    fn extend(
        mut self,
        known: usize,
        request: &ModelRequest,
        profile: &AnthropicProfile,
    ) -> Result<Self, ProviderFailure> {
        self.push(&request.history[known..], &request.model, profile)?;
        Ok(self)
    }

    fn size(&self) -> usize {
        self.messages.size()
    }
}

fn encode_head(
    json: &mut Json,
    items: &mut Vec<ItemDigest>,
    request: &ModelRequest,
    profile: &AnthropicProfile,
) -> Result<(), ProviderFailure> {
    let unsupported = |text: &str| Err(profile.endpoint.failure(ProviderFault::Unsupported, text));
    let Some(max_tokens) = request.model.max_output_tokens else {
        return unsupported("the API needs the largest answer in tokens; set max_output_tokens");
    };
    json.raw("{\"model\":");
    json.string(&profile.upstream_model);
    json.raw(&format!(",\"max_tokens\":{max_tokens},\"stream\":true,"));
    if profile.cache == CacheMode::Automatic {
        json.raw(&format!("\"cache_control\":{},", profile.cache_marker));
    }
    encode_asked(json, &request.model, max_tokens, profile)?;
    profile
        .extra_body
        .write(json, request.model.latency, &profile.endpoint)?;
    let marker = match profile.cache {
        CacheMode::Off => String::new(),
        CacheMode::Automatic | CacheMode::Explicit => {
            format!(",\"cache_control\":{}", profile.cache_marker)
        }
    };
    let instructions = &request.prompt.instructions;
    let has_system = !instructions.trim().is_empty();
    let tools = &request.prompt.tools;
    if !tools.is_empty() {
        json.raw("\"tools\":[");
        for (index, tool) in tools.iter().enumerate() {
            if index > 0 {
                json.raw(",");
            }
            let start = json.bytes.len();
            encode_tool(json, tool, profile)?;
            items.push(sent::item(ItemKind::Tool, &json.bytes[start..]));
            if !has_system && index + 1 == tools.len() {
                json.raw(&marker);
            }
            json.raw("}");
        }
        json.raw("],");
    }
    if has_system {
        let start = json.bytes.len();
        json.raw("\"system\":[{\"type\":\"text\",\"text\":");
        json.string(instructions);
        items.push(sent::item(ItemKind::Instructions, &json.bytes[start..]));
        json.raw(&marker);
        json.raw("}],");
    }
    Ok(())
}

/// What the run asks of the model beyond an answer.
fn encode_asked(
    json: &mut Json,
    model: &ModelSpec,
    max_tokens: u32,
    profile: &AnthropicProfile,
) -> Result<(), ProviderFailure> {
    let unsupported = |text: &str| Err(profile.endpoint.failure(ProviderFault::Unsupported, text));
    let (asked, effort) = match (model.reasoning.enabled, model.reasoning.effort) {
        (Some(true), Some(ReasoningEffort::None)) => {
            return unsupported("thinking is asked for with the effort none; choose one of them");
        }
        (_, Some(ReasoningEffort::None)) => (Some(false), None),
        (None, None) => (profile.think_by_default.then_some(true), None),
        // An effort to think asks for thinking.
        (enabled, effort) => (enabled.or(Some(true)), effort),
    };
    let display = match profile.thinking_display {
        Some(display) => format!(",\"display\":\"{display}\""),
        None => String::new(),
    };
    match (asked, profile.thinking) {
        (None, _) => {}
        (Some(false), _) => encode_off(json, effort, profile)?,
        (Some(true), ThinkingMode::Adaptive) => {
            json.raw(&format!("\"thinking\":{{\"type\":\"adaptive\"{display}}},"));
        }
        (Some(true), ThinkingMode::Budget(budget)) if budget < max_tokens => json.raw(&format!(
            "\"thinking\":{{\"type\":\"enabled\",\"budget_tokens\":{budget}{display}}},"
        )),
        (Some(true), ThinkingMode::Budget(_)) => {
            return unsupported("thinking_budget_tokens must be below the largest answer that is asked for");
        }
    }
    match (effort, profile.thinking) {
        (None | Some(ReasoningEffort::None), _) => {}
        (Some(_), ThinkingMode::Budget(_)) if profile.efforts.is_none() => {
            return unsupported(
                "this model thinks by a fixed budget and takes no effort; choose none, or set thinking_mode or efforts",
            );
        }
        (Some(ReasoningEffort::Minimal), _) => {
            return unsupported("this API knows no effort below low; choose another");
        }
        (Some(effort), _) => {
            effort::check(effort, profile.efforts.as_deref(), &profile.endpoint)?;
            let word = effort::word(effort);
            json.raw(&format!("\"output_config\":{{\"effort\":\"{word}\"}},"));
        }
    }
    Ok(())
}

/// The wish not to think.
fn encode_off(
    json: &mut Json,
    effort: Option<ReasoningEffort>,
    profile: &AnthropicProfile,
) -> Result<(), ProviderFailure> {
    let unsupported = |text: &str| Err(profile.endpoint.failure(ProviderFault::Unsupported, text));
    match (profile.thinking_off, effort) {
        (ThinkingOff::Disabled, _) => json.raw("\"thinking\":{\"type\":\"disabled\"},"),
        (ThinkingOff::BetweenTools, Some(ReasoningEffort::XHigh | ReasoningEffort::Max)) => {
            return unsupported(
                "with its thinking switched off this model takes no effort above high; choose another",
            );
        }
        (ThinkingOff::BetweenTools, _) => json.raw("\"thinking\":{\"type\":\"between_tools\"},"),
        (ThinkingOff::Absent, _) => {
            return unsupported("this model always thinks; leave thinking as it is, or choose a low effort");
        }
    }
    Ok(())
}

/// Writes a tool without its closing brace.
fn encode_tool(
    json: &mut Json,
    tool: &ToolDefinition,
    profile: &AnthropicProfile,
) -> Result<(), ProviderFailure> {
    let invalid = |text: String| Err(profile.endpoint.failure(ProviderFault::InvalidRequest, &text));
    if !names::is_tool_name(&tool.name, LONGEST_NAME) {
        return invalid(format!(
            "the tool name {:?} is not one that the API takes: at most 128 letters, digits, _ and -",
            tool.name
        ));
    }
    if let Err(fault) = serde_json::from_str::<IgnoredAny>(&tool.parameters) {
        return invalid(format!(
            "the parameters of the tool {} are no JSON: {fault}",
            tool.name
        ));
    }
    json.raw("{\"name\":");
    json.string(&tool.name);
    if !tool.description.is_empty() {
        json.raw(",\"description\":");
        json.string(&tool.description);
    }
    json.raw(",\"input_schema\":");
    json.raw(&tool.parameters);
    Ok(())
}

fn encode_part(messages: &mut Messages, part: Shown<'_>) {
    match part {
        Shown::Text(text) => encode_text(messages, text),
        Shown::Image(image) => messages.block(true, |json| write_image(json, image)),
    }
}

fn write_image(json: &mut Json, image: &Image) {
    json.raw(r#"{"type":"image","source":{"type":"base64","media_type":"#);
    json.string(&image.mime_type);
    json.raw(",\"data\":\"");
    json.raw(&STANDARD.encode(&image.data));
    json.raw("\"}}");
}

/// A block of text; nothing where the text says nothing, because the API refuses blank blocks.
fn encode_text(messages: &mut Messages, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    messages.block(true, |json| write_text(json, text));
}

fn write_text(json: &mut Json, text: &str) {
    json.raw(r#"{"type":"text","text":"#);
    json.string(text);
    json.raw("}");
}

fn encode_assistant(
    messages: &mut Messages,
    said: &Assistant,
    calls: &[ToolCall],
    profile: &AnthropicProfile,
) -> Result<(), ProviderFailure> {
    match &said.replay {
        Some(replay) if replay.issuer == *profile.issuer() => {
            encode_recorded(messages, said, calls, &replay.payload).map_err(|fault| {
                profile.endpoint.failure(
                    ProviderFault::InvalidRequest,
                    &format!("the conversation holds a damaged replay state of this model: {fault}"),
                )
            })
        }
        // What another issuer recorded means nothing here: its thinking is left out, and text stands before calls.
        _ => {
            encode_text(messages, &said.text);
            for call in calls {
                encode_call(messages, call);
            }
            Ok(())
        }
    }
}

/// The blocks in the order in which they came, those of thinking byte for byte. The API refuses a message that ends with
/// thinking: what no word and no call follows is left out.
fn encode_recorded(
    messages: &mut Messages,
    said: &Assistant,
    calls: &[ToolCall],
    payload: &str,
) -> Result<(), String> {
    let mut text = &*said.text;
    let mut next_call = 0;
    let mut held: Vec<&RawValue> = Vec::new();
    let release = |messages: &mut Messages, held: &mut Vec<&RawValue>| {
        for block in held.drain(..) {
            messages.block(false, |json| json.raw(block.get()));
        }
    };
    for entry in replay::entries(payload)? {
        match entry {
            Entry::Raw(block) => held.push(block),
            Entry::Text(bytes) => {
                let (block, rest) = text
                    .split_at_checked(bytes)
                    .ok_or("it names more text than there is")?;
                text = rest;
                if !block.trim().is_empty() {
                    release(messages, &mut held);
                    encode_text(messages, block);
                }
            }
            Entry::Call(index) => {
                release(messages, &mut held);
                let call = calls
                    .get(index)
                    .filter(|_| index == next_call)
                    .ok_or("it names calls that are not there")?;
                next_call += 1;
                encode_call(messages, call);
            }
        }
    }
    if !text.is_empty() || next_call != calls.len() {
        return Err("it leaves out a part of the answer".to_owned());
    }
    Ok(())
}

fn encode_call(messages: &mut Messages, call: &ToolCall) {
    messages.block(true, |json| {
        json.raw(r#"{"type":"tool_use","id":"#);
        json.string(&names::plain_call_id(call.id.as_str()));
        json.raw(",\"name\":");
        json.string(&names::call_name(&call.name, LONGEST_NAME));
        json.raw(",\"input\":");
        // The API takes only objects; another model may have written something else.
        if call.arguments.trim_start().starts_with('{') {
            json.raw(&call.arguments);
        } else {
            json.raw("{\"arguments\":");
            json.raw(&call.arguments);
            json.raw("}");
        }
        json.raw("}");
    });
}

fn encode_result(messages: &mut Messages, result: &ToolResult, model: &ModelSpec) {
    let mut parts = shown(result.content.parts(), model);
    // Blank text says nothing, and the API refuses it.
    parts.retain(|part| !matches!(part, Shown::Text(text) if text.trim().is_empty()));
    if result.is_error {
        for part in &mut parts {
            if let Shown::Image(_) = part {
                *part = Shown::Text(PICTURE_OF_A_FAILURE);
            }
        }
    }
    messages.block(true, |json| {
        json.raw(r#"{"type":"tool_result","tool_use_id":"#);
        json.string(&names::plain_call_id(result.call.as_str()));
        match only_text(&parts) {
            Some(text) if text.is_empty() => {}
            Some(text) => {
                json.raw(",\"content\":");
                json.string(&text);
            }
            None => {
                json.raw(",\"content\":[");
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        json.raw(",");
                    }
                    match part {
                        Shown::Text(text) => write_text(json, text),
                        Shown::Image(image) => write_image(json, image),
                    }
                }
                json.raw("]");
            }
        }
        if result.is_error {
            json.raw(",\"is_error\":true");
        }
        json.raw("}");
    });
}
