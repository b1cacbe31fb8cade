//! From a model request to the exact bytes of a Chat Completions body.
//!
//! Pure: the same request and profile give the same bytes, and nothing of a single call enters. `messages` comes last, so
//! that the body of a longer history repeats the shorter one's bytes up to the end of its messages. Must never know: who
//! sends the bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::profile::{ChatProfile, EffortParameter, ThinkingParameter};
use super::reasoning;
use super::results::{PICTURES, Results};
use crate::model::{
    Assistant, HistoryItem, ItemDigest, ModelRequest, ModelSpec, ProviderFailure, ProviderFault,
    ReasoningEffort, ToolCall, ToolDefinition,
};
use crate::provider::bodies::Growing;
use crate::provider::effort;
use crate::provider::json::Json;
use crate::provider::list::{List, Whole};
use crate::provider::names;
use crate::provider::openai;
use crate::provider::parts::{Shown, only_text, shown};
use crate::provider::sent::Decided;

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
    let (mut json, mut items) = (Json::default(), Vec::new());
    encode_head(&mut json, &mut items, request, profile)?;
    let mut messages = List::begin(json, items, "messages");
    if !request.prompt.instructions.is_empty() {
        messages.instructions(|json| {
            json.raw(r#"{"role":"system","content":"#);
            json.string(&request.prompt.instructions);
            json.raw("}");
        });
    }
    encode_messages(messages, &request.history, &request.model, profile)
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
        let messages = List::reopen(Whole {
            body,
            head,
            entries: messages,
            digests: items,
        });
        encode_messages(messages, &request.history[known..], &request.model, profile)
    }

    fn size(&self) -> usize {
        self.body.len()
    }
}

/// Appends these items of the history, and ends the body. What surrounds an item never changes the item's bytes.
fn encode_messages(
    mut messages: List,
    history: &[Arc<HistoryItem>],
    model: &ModelSpec,
    profile: &ChatProfile,
) -> Result<ChatRequest, ProviderFailure> {
    let mut results = Results::default();
    for item in history {
        match item.as_ref() {
            HistoryItem::User { parts, .. } => {
                encode_user(&mut messages, &shown(parts, model), Decided::of_parts(parts))?;
            }
            // It says nothing, and some endpoints refuse an empty answer.
            HistoryItem::Assistant { said, calls, .. } if said.text.is_empty() && calls.is_empty() => {}
            HistoryItem::Assistant { said, calls, .. } => {
                results.expect(calls.len());
                messages.message(|json| encode_assistant(json, said, calls, profile))?;
            }
            HistoryItem::ToolResult(result) => {
                let mut pictures = Vec::new();
                messages.message(|json| {
                    pictures = results.write(json, result, model);
                    Ok(Decided::of_parts(result.content.parts()))
                })?;
                if !pictures.is_empty() {
                    let pictures = pictures.into_iter().map(Shown::Image);
                    let parts: Vec<_> = std::iter::once(Shown::Text(PICTURES)).chain(pictures).collect();
                    encode_user(&mut messages, &parts, Decided::Everything)?;
                }
            }
        }
    }
    let Whole {
        body,
        head,
        entries,
        digests,
    } = messages.end();
    Ok(ChatRequest {
        body,
        head,
        messages: entries,
        items: digests,
    })
}

/// A user message; none if it says nothing. Text alone goes out as a string, which every dialect takes.
fn encode_user(messages: &mut List, parts: &[Shown<'_>], decided: Decided) -> Result<(), ProviderFailure> {
    if parts.is_empty() {
        return Ok(());
    }
    messages.message(|json| {
        json.raw("{\"role\":\"user\",\"content\":");
        match only_text(parts) {
            Some(text) => json.string(&text),
            None => encode_parts(json, parts),
        }
        json.raw("}");
        Ok(decided)
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
    openai::write_rest(
        json,
        items,
        request,
        profile.prompt_cache_key,
        &profile.extra_body,
        &profile.endpoint,
        encode_tool,
    )
}

/// What the run asks of the model beyond an answer.
fn encode_asked(json: &mut Json, model: &ModelSpec, profile: &ChatProfile) -> Result<(), ProviderFailure> {
    let unsupported = |text: &str| Err(profile.endpoint.failure(ProviderFault::Unsupported, text));
    let asked = model.reasoning.effort;
    // Two parameters may be members of it.
    let mut reasoning = Vec::new();
    if let Some(effort) = asked {
        effort::check(effort, profile.efforts.as_deref(), &profile.endpoint)?;
        let word = effort::word(effort);
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
    // An effort above none is a wish to think.
    let by_default = || {
        profile
            .think_by_default
            .then_some(asked != Some(ReasoningEffort::None))
    };
    if let Some(enabled) = model.reasoning.enabled.or_else(by_default) {
        let members = &profile.thinking_members;
        let says_so = |effort: ReasoningEffort| enabled == (effort != ReasoningEffort::None);
        match profile.thinking {
            // An effort above none already asks for thinking, and none already asks for no thinking.
            ThinkingParameter::Absent if asked.is_some_and(says_so) => {}
            ThinkingParameter::Absent => {
                return unsupported(
                    "this endpoint has no switch for thinking; leave thinking as it is, or set thinking_parameter",
                );
            }
            ThinkingParameter::ThinkingType => {
                let word = if enabled { "enabled" } else { "disabled" };
                json.raw(&format!("\"thinking\":{{\"type\":\"{word}\"{members}}},"));
            }
            ThinkingParameter::EnableThinking => json.raw(&format!("\"enable_thinking\":{enabled},")),
            ThinkingParameter::ChatTemplate => {
                json.raw(&format!(
                    "\"chat_template_kwargs\":{{\"enable_thinking\":{enabled}{members}}},"
                ));
            }
            ThinkingParameter::ReasoningObject => reasoning.push(format!("\"enabled\":{enabled}{members}")),
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
    if said.text.is_empty() {
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
