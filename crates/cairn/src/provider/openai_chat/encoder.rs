//! From a model request to the exact bytes of a Chat Completions body.
//!
//! Pure: the same request and profile give the same bytes, and nothing of a single call enters. `messages` comes last, so
//! that the body of a longer history repeats the shorter one's bytes up to the end of its messages. Must never know: who
//! sends the bytes.

use std::ops::Range;

use bytes::Bytes;

use super::profile::{ChatProfile, EffortParameter, ThinkingParameter};
use super::reasoning;
use super::results::{PICTURES, Results};
use crate::model::{
    Assistant, HistoryItem, ItemDigest, ItemKind, ModelRequest, ModelSpec, ProviderFailure, ProviderFault,
    ReasoningEffort, ToolCall, ToolDefinition,
};
use crate::provider::bodies::Growing;
use crate::provider::json::Json;
use crate::provider::names;
use crate::provider::parts::{Shown, only_text, shown};
use crate::provider::sent::Decided;
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
    let writer = Messages {
        json,
        messages,
        items,
    };
    encode_messages(writer, head, 0, request, profile)
}

impl Growing for ChatRequest {
    type Profile = ChatProfile;

    fn encode(request: &ModelRequest, profile: &ChatProfile) -> Result<Self, ProviderFailure> {
        encode(request, profile)
    }

    fn extend(
        self,
        known: usize,
        request: &ModelRequest,
        profile: &ChatProfile,
    ) -> Result<Self, ProviderFailure> {
        let Self {
            body,
            head,
            messages,
            items,
        } = self;
        let mut bytes = Vec::from(body);
        bytes.truncate(bytes.len() - END.len());
        let writer = Messages {
            json: Json { bytes },
            messages,
            items,
        };
        encode_messages(writer, head, known, request, profile)
    }

    fn size(&self) -> usize {
        self.body.len()
    }
}

/// Appends the history from the item `known` on to the messages, and ends the body.
fn encode_messages(
    mut writer: Messages,
    head: Range<usize>,
    known: usize,
    request: &ModelRequest,
    profile: &ChatProfile,
) -> Result<ChatRequest, ProviderFailure> {
    let model = &request.model;
    let mut results = Results::default();
    for item in request.history.iter().skip(known) {
        match item.as_ref() {
            HistoryItem::User { parts, .. } => writer.user(&shown(parts, model), Decided::of_parts(parts))?,
            HistoryItem::Assistant { said, calls, .. } => {
                results.expect(calls.len());
                writer.message(|json| encode_assistant(json, said, calls, profile))?;
            }
            HistoryItem::ToolResult(result) => {
                let mut pictures = Vec::new();
                writer.message(|json| {
                    pictures = results.write(json, result, model);
                    Ok(Decided::of_parts(result.content.parts()))
                })?;
                if !pictures.is_empty() {
                    let pictures = pictures.into_iter().map(Shown::Image);
                    writer.user(
                        &std::iter::once(Shown::Text(PICTURES))
                            .chain(pictures)
                            .collect::<Vec<_>>(),
                        Decided::Everything,
                    )?;
                }
            }
        }
    }
    let Messages {
        mut json,
        messages,
        items,
    } = writer;
    json.raw(END);
    Ok(ChatRequest {
        body: json.bytes.into(),
        head,
        messages,
        items,
    })
}

/// The messages under construction. What surrounds an item of the history never changes the item's bytes.
struct Messages {
    json: Json,
    messages: Vec<Range<usize>>,
    items: Vec<ItemDigest>,
}

impl Messages {
    /// A message, of which `write` says what the settings decide, by places in the message.
    fn message(
        &mut self,
        write: impl FnOnce(&mut Json) -> Result<Decided, ProviderFailure>,
    ) -> Result<(), ProviderFailure> {
        if !self.messages.is_empty() {
            self.json.raw(",");
        }
        let start = self.json.bytes.len();
        let decided = write(&mut self.json)?;
        self.messages.push(start..self.json.bytes.len());
        self.items.push(sent::message(&self.json.bytes[start..], decided));
        Ok(())
    }

    /// A user message; none if it says nothing. Text alone goes out as a string, which every dialect takes.
    fn user(&mut self, parts: &[Shown<'_>], decided: Decided) -> Result<(), ProviderFailure> {
        if parts.is_empty() {
            return Ok(());
        }
        self.message(|json| {
            json.raw("{\"role\":\"user\",\"content\":");
            match only_text(parts) {
                Some(text) => json.string(&text),
                None => encode_parts(json, parts),
            }
            json.raw("}");
            Ok(decided)
        })
    }
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
    openai::write_cache_key(json, profile.prompt_cache_key, &request.conversation);
    profile
        .extra_body
        .write(json, request.model.latency, &profile.endpoint)?;
    openai::write_tools(json, items, &request.prompt.tools, &profile.endpoint, encode_tool)
}

/// What the run asks of the model beyond an answer.
fn encode_asked(json: &mut Json, model: &ModelSpec, profile: &ChatProfile) -> Result<(), ProviderFailure> {
    let unsupported = |text: &str| Err(profile.endpoint.failure(ProviderFault::Unsupported, text));
    let effort = model.reasoning.effort;
    // Two parameters may be members of it.
    let mut reasoning = Vec::new();
    if let Some(effort) = effort {
        openai::check_effort(effort, profile.efforts.as_deref(), &profile.endpoint)?;
        let word = openai::effort_word(effort);
        match profile.effort {
            EffortParameter::ReasoningEffort => json.raw(&format!("\"reasoning_effort\":\"{word}\",")),
            EffortParameter::ReasoningObject => reasoning.push(format!("\"effort\":\"{word}\"")),
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
            ThinkingParameter::ReasoningObject => reasoning.push(format!("\"enabled\":{enabled}")),
        }
    }
    if !reasoning.is_empty() {
        json.raw(&format!("\"reasoning\":{{{}}},", reasoning.join(",")));
    }
    Ok(())
}

fn encode_tool(json: &mut Json, tool: &ToolDefinition) {
    json.raw("{\"type\":\"function\",\"function\":{\"name\":");
    json.string(&tool.name);
    json.raw(",\"description\":");
    json.string(&tool.description);
    json.raw(",\"parameters\":");
    json.raw(&tool.parameters);
    json.raw("}}");
}

fn encode_parts(json: &mut Json, parts: &[Shown<'_>]) {
    json.raw("[");
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            json.raw(",");
        }
        match part {
            Shown::Text(text) => {
                json.raw("{\"type\":\"text\",\"text\":");
                json.string(text);
                json.raw("}");
            }
            Shown::Image(image) => {
                json.raw("{\"type\":\"image_url\",\"image_url\":{\"url\":");
                json.string(&openai::data_url(image));
                json.raw("}}");
            }
        }
    }
    json.raw("]");
}

fn encode_assistant(
    json: &mut Json,
    said: &Assistant,
    calls: &[ToolCall],
    profile: &ChatProfile,
) -> Result<Decided, ProviderFailure> {
    let start = json.bytes.len();
    json.raw("{\"role\":\"assistant\",\"content\":");
    if said.text.is_empty() && !calls.is_empty() {
        json.raw("null");
    } else {
        json.string(&said.text);
    }
    let own = said
        .replay
        .as_ref()
        .filter(|replay| replay.issuer == *profile.issuer())
        .map(|replay| replay.payload.as_ref());
    let members = json.bytes.len() - start;
    reasoning::write_members(json, own, profile.replay).map_err(|fault| {
        profile.endpoint.failure(
            ProviderFault::InvalidRequest,
            &format!("the conversation holds a damaged replay state of this model: {fault}"),
        )
    })?;
    let members = members..json.bytes.len() - start;
    if !calls.is_empty() {
        json.raw(",\"tool_calls\":[");
        for (index, call) in calls.iter().enumerate() {
            if index > 0 {
                json.raw(",");
            }
            json.raw("{\"id\":");
            json.string(&names::call_id(call.id.as_str()));
            json.raw(",\"type\":\"function\",\"function\":{\"name\":");
            json.string(&names::call_name(&call.name, openai::LONGEST_NAME));
            json.raw(",\"arguments\":");
            json.string(&call.arguments);
            json.raw("}}");
        }
        json.raw("]");
    }
    json.raw("}");
    Ok(Decided::Members(members))
}
