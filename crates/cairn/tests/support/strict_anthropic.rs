//! A strict fake Anthropic Messages endpoint on loopback: scripted answers out, every request checked.
//!
//! It is an oracle, not a mock: each request must obey the API's rules, must bring back every answer that this endpoint
//! gave as it was given (thinking, signatures and order included; of its own model only), and must extend the earlier request
//! of its conversation to the same model.
//! It also keeps a prompt cache by the API's rules: a request that extends the one before it must find that one's entry. A breach is
//! answered with 400, as the real endpoint would, and recorded until [`StrictAnthropic::assert_clean`].
//!
//! Answers are built from [`Said`] blocks; faults with [`Reply`], as for the strict chat endpoint.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::strict_chat::endpoint::lineage::{Lineages, Sent};
use super::strict_chat::endpoint::{Breach, RecordedRequest, Reply, Rules, StrictEndpoint, pieces};

/// A block of a scripted answer.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// Words and signature.
    Thinking(&'a str, &'a str),
    /// Words of an endpoint that signs nothing.
    Unsigned(&'a str),
    Redacted(&'a str),
    Text(&'a str),
    /// Id, name, argument text.
    Call(&'a str, &'a str, &'a str),
}

/// The fake endpoint. Ends when dropped.
pub type StrictAnthropic = StrictEndpoint<AnthropicRules>;

/// The rules of Messages, and what was seen by them.
#[derive(Default)]
pub struct AnthropicRules {
    /// By model: each has one conversation, and reads no other's thinking.
    models: BTreeMap<String, ModelRules>,
    /// The model of the latest request.
    asked: String,
    reset_allowed: bool,
    cache: PromptCache,
}

/// What was seen of one model.
struct ModelRules {
    lineages: Lineages,
    /// The blocks of every answer given, blank texts left out.
    given: Vec<Vec<Value>>,
}

impl Default for ModelRules {
    fn default() -> Self {
        Self {
            lineages: Lineages::of_one_conversation(),
            given: Vec::new(),
        }
    }
}

impl StrictAnthropic {
    /// Queues a whole answer, which later requests must bring back as it is.
    pub fn say(&self, blocks: &[Said<'_>]) {
        self.reply(answer(blocks));
    }

    /// The next request need not extend the one before it.
    pub fn allow_reset(&self) {
        self.rules(|rules| rules.reset_allowed = true);
    }

    /// Zero-based numbers of the requests that began anew with a summary.
    pub fn resets(&self) -> Vec<usize> {
        self.rules(|rules| {
            let models = rules.models.values();
            models
                .flat_map(|model| model.lineages.resets().to_vec())
                .collect()
        })
    }
}

/// A whole answer as an event stream in small pieces, with usage.
pub fn answer(blocks: &[Said<'_>]) -> Reply {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "content": [], "model": "m", "stop_reason": null,
        "usage": {"input_tokens": 100, "output_tokens": 1}}}),
    ];
    let mut reason = "end_turn";
    for (index, said) in blocks.iter().enumerate() {
        let mut start = |block: Value| {
            events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        };
        let deltas: Vec<Value> = match said {
            Said::Thinking(words, signature) => {
                start(json!({"type": "thinking", "thinking": "", "signature": ""}));
                let words = pieces(words).into_iter();
                words
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .chain([json!({"type": "signature_delta", "signature": signature})])
                    .collect()
            }
            Said::Unsigned(words) => {
                start(json!({"type": "thinking", "thinking": ""}));
                let words = pieces(words).into_iter();
                words
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .collect()
            }
            Said::Redacted(data) => {
                start(json!({"type": "redacted_thinking", "data": data}));
                Vec::new()
            }
            Said::Text(text) => {
                start(json!({"type": "text", "text": ""}));
                let words = pieces(text).into_iter();
                words
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect()
            }
            Said::Call(id, name, arguments) => {
                reason = "tool_use";
                start(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                let parts = pieces(arguments).into_iter();
                parts
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect()
            }
        };
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 10}}),
    );
    events.push(json!({"type": "message_stop"}));
    let line = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let mut reply = Reply::raw(events.iter().map(line).collect::<String>());
    reply.issues = blocks
        .iter()
        .filter_map(given)
        .map(|block| block.to_string())
        .collect();
    reply
}

/// The block as a later request must bring it back; none for a blank text, which the API refuses.
fn given(said: &Said<'_>) -> Option<Value> {
    Some(match said {
        Said::Thinking(words, signature) => {
            json!({"type": "thinking", "thinking": words, "signature": signature})
        }
        Said::Unsigned(words) => json!({"type": "thinking", "thinking": words}),
        Said::Redacted(data) => json!({"type": "redacted_thinking", "data": data}),
        Said::Text(text) if text.trim().is_empty() => return None,
        Said::Text(text) => json!({"type": "text", "text": text}),
        Said::Call(id, name, arguments) => {
            let arguments = if arguments.trim().is_empty() {
                "{}"
            } else {
                arguments
            };
            // What is no JSON can be brought back by no request.
            let input: Value = serde_json::from_str(arguments).unwrap_or_default();
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
    })
}

impl Rules for AnthropicRules {
    const BASE: &'static str = "";

    fn check(&mut self, request: &RecordedRequest) -> Vec<Breach> {
        self.breaches(request).into_iter().map(Breach::from).collect()
    }

    /// The answer must come back as it is.
    fn sends(&mut self, reply: &Reply) {
        if !reply.issues.is_empty() {
            let blocks = reply
                .issues
                .iter()
                .map(|block| serde_json::from_str(block).unwrap());
            let mut blocks: Vec<Value> = blocks.collect();
            // Thinking that nothing follows can be brought back by no request.
            while blocks.last().is_some_and(is_thought) {
                blocks.pop();
            }
            self.models
                .entry(self.asked.clone())
                .or_default()
                .given
                .push(blocks);
        }
    }
}

impl AnthropicRules {
    fn breaches(&mut self, request: &RecordedRequest) -> Vec<String> {
        let mut breaches = Vec::new();
        let json = &request.json;
        let model = json["model"].as_str().unwrap_or_default();
        // What other models added meanwhile may be more than a look back reaches.
        let is_neighbour = self.asked == model;
        model.clone_into(&mut self.asked);
        if request.path != "/v1/messages" {
            breaches.push(format!("path {}", request.path));
        }
        if request.headers.get("anthropic-version").is_none() {
            breaches.push("anthropic-version is missing".to_owned());
        }
        if !json.is_object() {
            breaches.push("the body is no JSON object".to_owned());
            return breaches;
        }
        if json["stream"] != json!(true)
            || !json["model"].is_string()
            || json["max_tokens"].as_u64().is_none_or(|n| n < 1)
        {
            breaches.push("stream, model or max_tokens is missing".to_owned());
        }
        check_head(json, &mut breaches);
        check_markers(json, &mut breaches);
        check_turns(request.messages(), &mut breaches);
        self.check_given(request.messages(), &mut breaches);
        self.check_extension(request, is_neighbour, &mut breaches);
        breaches
    }

    /// Every answer that this endpoint gave comes back whole, and nothing that claims to be thinking is invented.
    fn check_given(&self, messages: &[Value], breaches: &mut Vec<String>) {
        let answers = self.models.get(&self.asked).map_or(&[][..], |model| &model.given);
        for (index, message) in messages.iter().enumerate() {
            if message["role"] != "assistant" {
                continue;
            }
            let blocks: Vec<Value> = blocks(message).map(unmarked).collect();
            let ids = |blocks: &[Value]| -> Vec<String> {
                blocks
                    .iter()
                    .filter_map(|block| block["id"].as_str().map(str::to_owned))
                    .collect()
            };
            let is_about = |given: &&Vec<Value>| {
                let mut thoughts = blocks.iter().filter(|block| is_thought(block));
                thoughts.any(|block| given.contains(block))
                    || !ids(given).is_empty() && ids(given) == ids(&blocks)
            };
            let known = answers
                .iter()
                .find(|given| **given == blocks)
                .or_else(|| answers.iter().find(is_about));
            match known {
                Some(given) if *given != blocks => breaches.push(format!(
                    "message {index}: blocks in an assistant message cannot be modified:\n  was {}\n  is  {}",
                    json!(given),
                    json!(blocks)
                )),
                None if blocks.iter().any(is_thought) => {
                    breaches.push(format!("message {index}: thinking that was never given"));
                }
                _ => {}
            }
        }
    }

    fn check_extension(&mut self, request: &RecordedRequest, is_neighbour: bool, breaches: &mut Vec<String>) {
        let found = self.cache.ask(&request.json);
        // A marker is no part of what the endpoint compares.
        let unmarked_message = |message: &Value| {
            let mut message = message.clone();
            for block in message["content"].as_array_mut().into_iter().flatten() {
                *block = unmarked(block);
            }
            message
        };
        let lineages = &mut self.models.entry(self.asked.clone()).or_default().lineages;
        if std::mem::take(&mut self.reset_allowed) {
            lineages.allow_reset();
        }
        match lineages.judge(Sent::of(request, "messages", unmarked_message)) {
            Err(breach) => breaches.push(breach),
            Ok(Some(earlier)) if is_neighbour && request.json["cache_control"].is_object() => {
                let cached = PromptCache::positions(&serde_json::from_slice(&earlier).unwrap()).len();
                if found < cached {
                    breaches.push(format!("it found only {found} of {cached} cached blocks"));
                }
            }
            Ok(_) => {}
        }
    }
}

/// The endpoint's prompt cache: entries at marked positions, found by looking back a bounded way from marked positions.
#[derive(Default)]
pub struct PromptCache {
    entries: HashSet<u64>,
}

/// A position of the cache: one block of tools, system prompt or messages.
pub struct Position {
    /// The block without its marker, as JSON.
    pub text: String,
    pub is_marked: bool,
    can_be_marked: bool,
}

/// How many positions are looked at from each marked one, itself included.
const LOOK_BACK: usize = 20;

impl PromptCache {
    /// The request's positions in the order in which they are hashed.
    pub fn positions(json: &Value) -> Vec<Position> {
        let mut positions = Vec::new();
        let mut add = |kind: &str, block: &Value| {
            let kind_of_block = block["type"].as_str().unwrap_or_default();
            positions.push(Position {
                text: format!("{kind} {}", unmarked(block)),
                is_marked: block["cache_control"].is_object(),
                can_be_marked: !kind_of_block.contains("thinking"),
            });
        };
        for key in ["tools", "system"] {
            json[key]
                .as_array()
                .into_iter()
                .flatten()
                .for_each(|block| add(key, block));
        }
        for message in json["messages"].as_array().into_iter().flatten() {
            let role = message["role"].as_str().unwrap_or_default();
            blocks(message).for_each(|block| add(role, block));
        }
        if json["cache_control"].is_object()
            && let Some(last) = positions.iter_mut().rev().find(|position| position.can_be_marked)
        {
            last.is_marked = true;
        }
        positions
    }

    /// How many blocks of this request are found, the longest way; then writes its own entries.
    pub fn ask(&mut self, json: &Value) -> usize {
        let mut hash = DefaultHasher::new();
        let positions = Self::positions(json);
        let prefixes: Vec<u64> = positions
            .iter()
            .map(|position| {
                position.text.hash(&mut hash);
                hash.finish()
            })
            .collect();
        let marked: Vec<usize> = (0..positions.len())
            .filter(|index| positions[*index].is_marked)
            .collect();
        let found = marked
            .iter()
            .flat_map(|marked| (marked + 1).saturating_sub(LOOK_BACK)..=*marked)
            .filter(|index| self.entries.contains(&prefixes[*index]))
            .max();
        self.entries.extend(marked.iter().map(|index| prefixes[*index]));
        found.map_or(0, |index| index + 1)
    }
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

fn unmarked(block: &Value) -> Value {
    let mut block = block.clone();
    if let Some(object) = block.as_object_mut() {
        object.shift_remove("cache_control");
    }
    block
}

fn is_thought(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_none_or(|text| text.trim().is_empty())
}

fn is_picture(block: &Value) -> bool {
    let kind = block["source"]["media_type"].as_str();
    block["source"]["type"] == "base64"
        && kind.is_some_and(|kind| kind.starts_with("image/"))
        && !is_blank(&block["source"]["data"])
}

/// A result's content: text, or blocks of text and pictures; of a failure only text.
fn is_result(content: &Value, block: &Value) -> bool {
    let Some(blocks) = content.as_array() else {
        return !is_blank(content);
    };
    let may_show = block["is_error"] != json!(true);
    !blocks.is_empty()
        && blocks.iter().all(|block| match block["type"].as_str() {
            Some("text") => !is_blank(&block["text"]),
            Some("image") => may_show && is_picture(block),
            _ => false,
        })
}

fn is_name(value: &Value, longest: usize) -> bool {
    value.as_str().is_some_and(|name| {
        (1..=longest).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    })
}

fn check_head(json: &Value, breaches: &mut Vec<String>) {
    let last = json.as_object().and_then(|body| body.keys().next_back());
    if last.is_none_or(|key| key != "messages") {
        breaches.push("messages do not come last".to_owned());
    }
    let mut names = BTreeSet::new();
    for tool in json["tools"].as_array().into_iter().flatten() {
        if !is_name(&tool["name"], 128) || !names.insert(tool["name"].to_string()) {
            breaches.push(format!(
                "tool name {} is not allowed or there twice",
                tool["name"]
            ));
        }
        if tool["input_schema"]["type"] != "object" {
            breaches.push(format!("tool {} has no schema of an object", tool["name"]));
        }
    }
    if json.get("tools").is_some() && names.is_empty() {
        breaches.push("tools must be a list that is not empty".to_owned());
    }
    let system = json.get("system");
    if system.is_some_and(|system| {
        !system
            .as_array()
            .is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(|block| !is_blank(&block["text"])))
    }) {
        breaches.push("system holds no text".to_owned());
    }
    let thinking = &json["thinking"];
    let budget = thinking["budget_tokens"].as_u64();
    match thinking["type"].as_str() {
        Some("enabled")
            if budget.is_some_and(|budget| budget >= 1024 && Some(budget) < json["max_tokens"].as_u64()) => {}
        Some("adaptive" | "disabled") if budget.is_none() => {}
        None if thinking.is_null() => {}
        _ => breaches.push(format!("thinking {thinking} is not allowed")),
    }
}

fn check_markers(json: &Value, breaches: &mut Vec<String>) {
    let mut markers = Vec::new();
    markers.extend(json.get("cache_control"));
    for key in ["tools", "system"] {
        let blocks = json[key].as_array().into_iter().flatten();
        markers.extend(blocks.filter_map(|block| block.get("cache_control")));
    }
    for block in json["messages"].as_array().into_iter().flatten().flat_map(blocks) {
        let Some(marker) = block.get("cache_control") else {
            continue;
        };
        markers.push(marker);
        if block["type"]
            .as_str()
            .is_some_and(|kind| kind.contains("thinking"))
        {
            breaches.push("a block of thinking is marked for the cache".to_owned());
        }
    }
    if markers.len() > 4 {
        breaches.push(format!("{} blocks are marked for the cache", markers.len()));
    }
    if markers
        .iter()
        .any(|marker| *marker != markers[0] || marker["type"] != "ephemeral")
    {
        breaches.push("cache markers are odd or differ".to_owned());
    }
}

/// Checks the turns: neighbouring messages of one role are one.
fn check_turns(messages: &[Value], breaches: &mut Vec<String>) {
    let mut turns: Vec<(&str, Vec<&Value>)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if !matches!(role, "user" | "assistant") {
            breaches.push(format!("message {index}: role {role:?} is unknown"));
        }
        if blocks(message).next().is_none() {
            breaches.push(format!("message {index}: content is empty"));
        }
        if blocks(message).last().is_some_and(is_thought) {
            breaches.push(format!(
                "message {index}: the final block in an assistant message cannot be thinking"
            ));
        }
        match turns.last_mut() {
            Some((last, turn)) if *last == role => turn.extend(blocks(message)),
            _ => turns.push((role, blocks(message).collect())),
        }
    }
    if turns.first().is_none_or(|(role, _)| *role != "user")
        || turns.last().is_none_or(|(role, _)| *role != "user")
    {
        breaches.push("the first and the last message must be the user's".to_owned());
    }
    let mut ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (index, (role, blocks)) in turns.iter().enumerate() {
        let mut results_over = false;
        for block in blocks {
            let kind = block["type"].as_str().unwrap_or_default();
            let id = block["id"]
                .as_str()
                .or(block["tool_use_id"].as_str())
                .unwrap_or_default();
            if kind != "tool_result" {
                results_over = true;
            }
            match (*role, kind) {
                (_, "text") if !is_blank(&block["text"]) => {}
                ("user", "image") if is_picture(block) => {}
                ("user", "tool_result") => {
                    if results_over {
                        breaches.push(format!("turn {index}: tool_result after other blocks"));
                    }
                    if !open.remove(id) {
                        breaches.push(format!(
                            "turn {index}: tool_result for {id:?}, which is no open call"
                        ));
                    }
                    if !block
                        .get("content")
                        .is_none_or(|content| is_result(content, block))
                    {
                        breaches.push(format!("turn {index}: a result's content must say something"));
                    }
                }
                ("assistant", "tool_use") => {
                    if !is_name(&block["id"], 64) || !ids.insert(id) {
                        breaches.push(format!(
                            "turn {index}: call id {id:?} is not allowed or not unique"
                        ));
                    }
                    if !is_name(&block["name"], 128) || !block["input"].is_object() {
                        breaches.push(format!("turn {index}: call {id} has no name or no input object"));
                    }
                    open.insert(id.to_owned());
                }
                ("assistant", "thinking") if block["thinking"].is_string() => {}
                ("assistant", "redacted_thinking") if !is_blank(&block["data"]) => {}
                _ => breaches.push(format!("turn {index}: block {block} is not allowed")),
            }
        }
        if *role == "user" && !open.is_empty() {
            breaches.push(format!(
                "turn {index}: tool_use ids {open:?} were found without tool_result blocks"
            ));
            open.clear();
        }
    }
    if !open.is_empty() {
        breaches.push(format!(
            "tool_use ids {open:?} were found without tool_result blocks"
        ));
    }
}
