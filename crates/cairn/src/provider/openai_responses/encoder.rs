//! From a model request to the exact bytes of a Responses body.
//!
//! Pure: the same request and profile give the same bytes, and nothing of a single call enters. `input` comes last, so
//! that the body of a longer history repeats the shorter one's bytes up to the end of its items. Nothing is stored at the
//! endpoint: each request is whole. Must never know: who sends the bytes.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::profile::ResponsesProfile;
use super::replay::{OutputItem, Piece, PieceKind, ReplayRecord, is_reset};
use crate::model::{
    Assistant, HistoryItem, ItemDigest, ItemKind, ModelRequest, ModelSpec, ProviderFailure, ProviderFault,
    ReasoningEffort, ToolCall, ToolDefinition, ToolResult,
};
use crate::provider::bodies::Growing;
use crate::provider::effort;
use crate::provider::json::Json;
use crate::provider::list::{List, Whole};
use crate::provider::names;
use crate::provider::parts::{Shown, only_text, shown};
use crate::provider::sent::Decided;
use crate::provider::{openai, sent};

/// What an output says where a tool gave nothing; endpoints refuse empty ones.
const NOTHING: &str = "(The tool gave nothing.)";

/// An encoded request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResponsesRequest {
    /// The body as it is sent.
    pub body: Bytes,
    head: Range<usize>,
    items: Vec<Range<usize>>,
    digests: Vec<ItemDigest>,
    carries_reasoning: bool,
}

impl ResponsesRequest {
    /// What the request is remembered by: its tools, its instructions, its input items.
    pub fn digests(&self) -> &[ItemDigest] {
        &self.digests
    }

    /// Everything before the input: model, parameters, tools and instructions.
    pub fn head(&self) -> &[u8] {
        &self.body[self.head.clone()]
    }

    /// The input items one by one. Of two requests of one conversation, the earlier one's are the first of the later one's.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.items.iter().map(|range| &self.body[range.clone()])
    }

    /// Whether the endpoint's own encrypted reasoning is in it.
    pub fn carries_reasoning(&self) -> bool {
        self.carries_reasoning
    }
}

/// Encodes a request, or says what the endpoint has no way to do.
pub fn encode(
    request: &ModelRequest,
    profile: &ResponsesProfile,
) -> Result<ResponsesRequest, ProviderFailure> {
    let reset = last_reset(&request.history, profile);
    encode_from(request, profile, reset.unwrap_or(0))
}

/// The last answer that came after a reset: it says that the reasoning before it is refused for good.
fn last_reset(items: &[Arc<HistoryItem>], profile: &ResponsesProfile) -> Option<usize> {
    items.iter().rposition(|item| match item.as_ref() {
        HistoryItem::Assistant { said, .. } => own_payload(said, profile).is_some_and(is_reset),
        HistoryItem::User { .. } | HistoryItem::ToolResult(_) => false,
    })
}

impl Growing for ResponsesRequest {
    type Profile = ResponsesProfile;

    fn encode(request: &ModelRequest, profile: &ResponsesProfile) -> Result<Self, ProviderFailure> {
        encode(request, profile)
    }

    fn extend(
        self,
        known: usize,
        request: &ModelRequest,
        profile: &ResponsesProfile,
    ) -> Result<Self, ProviderFailure> {
        let new = &request.history[known..];
        if last_reset(new, profile).is_some() {
            return encode(request, profile);
        }
        let Self {
            body,
            head,
            items,
            digests,
            carries_reasoning,
        } = self;
        let mut input = Input {
            list: List::reopen(Whole {
                body,
                head,
                entries: items,
                digests,
            }),
            carries_reasoning,
        };
        for item in new {
            input.encode(item, true, &request.model, profile)?;
        }
        Ok(input.finish())
    }

    fn size(&self) -> usize {
        self.body.len()
    }
}

/// Encodes a request without any reasoning of its history, for an endpoint that has just refused it.
pub(super) fn encode_reset(
    request: &ModelRequest,
    profile: &ResponsesProfile,
) -> Result<ResponsesRequest, ProviderFailure> {
    encode_from(request, profile, request.history.len())
}

/// Encodes with the reasoning of the items from `reasoning_from` on.
fn encode_from(
    request: &ModelRequest,
    profile: &ResponsesProfile,
    reasoning_from: usize,
) -> Result<ResponsesRequest, ProviderFailure> {
    let (mut json, mut digests) = (Json::default(), Vec::new());
    encode_head(&mut json, &mut digests, request, profile)?;
    let mut input = Input {
        list: List::begin(json, digests, "input"),
        carries_reasoning: false,
    };
    for (index, item) in request.history.iter().enumerate() {
        input.encode(item, index >= reasoning_from, &request.model, profile)?;
    }
    Ok(input.finish())
}

fn encode_head(
    json: &mut Json,
    digests: &mut Vec<ItemDigest>,
    request: &ModelRequest,
    profile: &ResponsesProfile,
) -> Result<(), ProviderFailure> {
    json.raw("{\"model\":");
    json.string(&profile.upstream_model);
    json.raw(",\"stream\":true,\"store\":false,");
    if profile.include_encrypted_reasoning {
        json.raw("\"include\":[\"reasoning.encrypted_content\"],");
    }
    if let Some(limit) = request.model.max_output_tokens {
        json.raw(&format!("\"max_output_tokens\":{limit},"));
    }
    encode_asked(json, &request.model, profile)?;
    openai::write_rest(
        json,
        digests,
        request,
        profile.prompt_cache_key,
        &profile.extra_body,
        &profile.endpoint,
        encode_tool,
    )?;
    if !request.prompt.instructions.is_empty() {
        let start = json.bytes.len();
        json.raw("\"instructions\":");
        json.string(&request.prompt.instructions);
        digests.push(sent::item(ItemKind::Instructions, &json.bytes[start..]));
        json.raw(",");
    }
    Ok(())
}

/// What the run asks of the model beyond an answer.
fn encode_asked(
    json: &mut Json,
    model: &ModelSpec,
    profile: &ResponsesProfile,
) -> Result<(), ProviderFailure> {
    let unsupported = |text: &str| Err(profile.endpoint.failure(ProviderFault::Unsupported, text));
    let asked = model.reasoning.effort;
    if let Some(effort) = asked {
        if !profile.takes_effort {
            return unsupported(
                "this endpoint takes no thinking effort; choose none, or set effort_parameter",
            );
        }
        effort::check(effort, profile.efforts.as_deref(), &profile.endpoint)?;
    }
    if let Some(enabled) = model.reasoning.enabled {
        // The API has no switch of its own: an effort above none asks for thinking, and none asks for no thinking.
        let says_so = |effort: ReasoningEffort| enabled == (effort != ReasoningEffort::None);
        if !asked.is_some_and(says_so) {
            return unsupported(
                "this API switches thinking only by its effort; leave thinking as it is, or choose an effort that says it",
            );
        }
    }
    let members: Vec<String> = asked
        .map(|effort| format!("\"effort\":\"{}\"", effort::word(effort)))
        .into_iter()
        .chain(
            profile
                .reasoning_summary
                .map(|summary| format!("\"summary\":\"{summary}\"")),
        )
        .collect();
    if !members.is_empty() {
        json.raw(&format!("\"reasoning\":{{{}}},", members.join(",")));
    }
    Ok(())
}

fn encode_tool(json: &mut Json, tool: &ToolDefinition) {
    json.raw("{\"type\":\"function\",\"name\":");
    json.string(&tool.name);
    json.raw(",\"description\":");
    json.string(&tool.description);
    json.raw(",\"parameters\":");
    json.raw(&tool.parameters);
    // Said because this API is strict by default, and then rewrites schemas so that every parameter is required.
    json.raw(",\"strict\":false}");
}

fn own_payload<'a>(said: &'a Assistant, profile: &ResponsesProfile) -> Option<&'a str> {
    said.replay
        .as_ref()
        .filter(|replay| replay.issuer == *profile.issuer())
        .map(|replay| replay.payload.as_ref())
}

/// The input under construction.
struct Input {
    list: List,
    carries_reasoning: bool,
}

impl Input {
    fn finish(self) -> ResponsesRequest {
        let Whole {
            body,
            head,
            entries,
            digests,
        } = self.list.end();
        ResponsesRequest {
            body,
            head,
            items: entries,
            digests,
            carries_reasoning: self.carries_reasoning,
        }
    }

    /// Encodes one item of the history by itself: what surrounds it never changes its bytes. It may give several input
    /// items, or none.
    fn encode(
        &mut self,
        item: &HistoryItem,
        with_reasoning: bool,
        model: &ModelSpec,
        profile: &ResponsesProfile,
    ) -> Result<(), ProviderFailure> {
        match item {
            HistoryItem::User { parts, .. } => {
                self.user(&shown(parts, model), Decided::of_parts(parts));
                Ok(())
            }
            HistoryItem::Assistant { said, calls, .. } => {
                self.assistant(said, calls, with_reasoning, profile)
            }
            HistoryItem::ToolResult(result) => {
                self.result(result, model);
                Ok(())
            }
        }
    }

    /// An item, of which `write` says what the settings decide, by places in the item.
    fn item(&mut self, write: impl FnOnce(&mut Json) -> Decided) {
        let Ok(()) = self.list.message(|json| Ok::<_, Infallible>(write(json)));
    }

    /// A user message; none if it says nothing.
    fn user(&mut self, parts: &[Shown<'_>], decided: Decided) {
        if parts.is_empty() {
            return;
        }
        self.item(|json| {
            json.raw("{\"type\":\"message\",\"role\":\"user\",\"content\":");
            encode_parts(json, parts);
            json.raw("}");
            decided
        });
    }

    fn result(&mut self, result: &ToolResult, model: &ModelSpec) {
        let parts = shown(result.content.parts(), model);
        self.item(|json| {
            json.raw("{\"type\":\"function_call_output\",\"call_id\":");
            json.string(&names::call_id(result.call.as_str()));
            json.raw(",\"output\":");
            match only_text(&parts) {
                Some(text) if text.is_empty() => json.string(NOTHING),
                Some(text) => json.string(&text),
                None => encode_parts(json, &parts),
            }
            json.raw("}");
            Decided::of_parts(result.content.parts())
        });
    }

    fn assistant(
        &mut self,
        said: &Assistant,
        calls: &[ToolCall],
        with_reasoning: bool,
        profile: &ResponsesProfile,
    ) -> Result<(), ProviderFailure> {
        let damaged = |fault: &str| {
            profile.endpoint.failure(
                ProviderFault::InvalidRequest,
                &format!("the conversation holds a damaged replay state of this model: {fault}"),
            )
        };
        let record = match own_payload(said, profile) {
            Some(payload) => {
                ReplayRecord::read(payload)
                    .map_err(|fault| damaged(&fault))?
                    .items
            }
            None => None,
        };
        let Some(items) = record else {
            self.plain_assistant(said, calls);
            return Ok(());
        };
        let mut text = said.text.as_ref();
        let mut calls = calls.iter();
        for item in &items {
            match item {
                OutputItem::Reasoning {
                    id,
                    summary,
                    encrypted_content,
                } => {
                    if with_reasoning {
                        self.reasoning(sent_id(id, profile), summary, encrypted_content);
                    }
                }
                OutputItem::Message { id, phase, parts } => {
                    let mut pieces = Vec::with_capacity(parts.len());
                    for Piece { kind, bytes } in parts {
                        let (piece, rest) = text
                            .split_at_checked(*bytes)
                            .ok_or_else(|| damaged("its message is longer than the text"))?;
                        pieces.push((*kind, piece));
                        text = rest;
                    }
                    self.message(sent_id(id, profile), phase.as_deref(), &pieces);
                }
                OutputItem::Call { id } => {
                    let call = calls
                        .next()
                        .ok_or_else(|| damaged("it has more calls than the history"))?;
                    self.call(sent_id(id, profile), call);
                }
            }
        }
        if !text.is_empty() || calls.next().is_some() {
            return Err(damaged("the history holds more than it"));
        }
        Ok(())
    }

    /// An answer of which nothing but its text and calls is known here.
    fn plain_assistant(&mut self, said: &Assistant, calls: &[ToolCall]) {
        if !said.text.is_empty() {
            self.message(None, None, &[(PieceKind::Text, &said.text)]);
        }
        for call in calls {
            self.call(None, call);
        }
    }

    fn reasoning(&mut self, id: Option<&str>, summary: &str, encrypted_content: &str) {
        self.carries_reasoning = true;
        self.item(|json| {
            json.raw("{\"type\":\"reasoning\"");
            member(json, "id", id);
            json.raw(",\"summary\":");
            json.raw(summary);
            member(json, "encrypted_content", Some(encrypted_content));
            json.raw("}");
            Decided::Everything
        });
    }

    fn message(&mut self, id: Option<&str>, phase: Option<&str>, pieces: &[(PieceKind, &str)]) {
        self.item(|json| {
            let id = written_id(json, "{\"type\":\"message\"", id);
            json.raw(",\"role\":\"assistant\"");
            member(json, "phase", phase);
            json.raw(",\"content\":[");
            for (index, (kind, text)) in pieces.iter().enumerate() {
                if index > 0 {
                    json.raw(",");
                }
                let (kind, key) = match kind {
                    PieceKind::Text => (kind.as_str(), "text"),
                    PieceKind::Refusal => (kind.as_str(), "refusal"),
                };
                json.raw(&format!("{{\"type\":\"{kind}\""));
                member(json, key, Some(text));
                json.raw("}");
            }
            json.raw("]}");
            id
        });
    }

    fn call(&mut self, id: Option<&str>, call: &ToolCall) {
        self.item(|json| {
            let id = written_id(json, "{\"type\":\"function_call\"", id);
            member(json, "call_id", Some(&names::call_id(call.id.as_str())));
            member(
                json,
                "name",
                Some(&names::call_name(&call.name, openai::LONGEST_NAME)),
            );
            member(json, "arguments", Some(&call.arguments));
            json.raw("}");
            id
        });
    }
}

fn encode_parts(json: &mut Json, parts: &[Shown<'_>]) {
    json.raw("[");
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            json.raw(",");
        }
        match part {
            Shown::Text(text) => {
                json.raw("{\"type\":\"input_text\",\"text\":");
                json.string(text);
            }
            Shown::Image(image) => {
                json.raw("{\"type\":\"input_image\",\"image_url\":");
                json.string(&openai::data_url(image));
            }
        }
        json.raw("}");
    }
    json.raw("]");
}

/// Writes a further member of an object, if there is one.
fn member(json: &mut Json, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        json.raw(&format!(",\"{key}\":"));
        json.string(value);
    }
}

/// Begins an item and writes the endpoint's own id of it, if it goes back: that is for a setting to decide.
fn written_id(json: &mut Json, begin: &str, id: Option<&str>) -> Decided {
    json.raw(begin);
    let start = json.bytes.len();
    member(json, "id", id);
    let written = json.bytes.len() - start;
    Decided::Members(begin.len()..begin.len() + written)
}

fn sent_id<'a>(id: &'a Option<String>, profile: &ResponsesProfile) -> Option<&'a str> {
    id.as_deref().filter(|_| profile.replay_item_ids)
}
