//! A strict fake OpenAI Responses endpoint on loopback that stores nothing: scripted answers out, every request checked.
//!
//! It is an oracle, not a mock: whatever a test is about, each request must be valid by the rules of stateless replay and
//! must extend an earlier request byte for byte. A breach is answered with 400 or 404, as a real endpoint would, and
//! recorded until [`StrictResponses::assert_clean`]. Every test that uses it calls that at its end.
//!
//! It knows which encrypted reasoning it has issued, and takes no other. Replies are used in the order in which they were
//! queued, one for each request that broke no rule.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::strict_chat::endpoint::lineage::{Lineages, Sent};
use super::strict_chat::endpoint::{Breach, RecordedRequest, Reply, Rules, StrictEndpoint, pieces};

/// The fake endpoint. Ends when dropped.
pub type StrictResponses = StrictEndpoint<ResponsesRules>;

impl RecordedRequest {
    /// The request's input items.
    pub fn input(&self) -> &[Value] {
        self.json["input"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The rules of stateless Responses, and what was seen by them.
pub struct ResponsesRules {
    lineages: Lineages,
    /// Encrypted contents that were given out and are still understood.
    issued: BTreeSet<String>,
    /// Code and text of the refusal of what is not understood any more.
    revoked: Option<(Option<&'static str>, &'static str)>,
    knows_ids: bool,
}

impl Default for ResponsesRules {
    fn default() -> Self {
        Self {
            lineages: Lineages::of_one_conversation(),
            issued: BTreeSet::new(),
            revoked: None,
            knows_ids: false,
        }
    }
}

impl StrictResponses {
    /// The next request need not extend the earlier one.
    pub fn allow_reset(&self) {
        self.rules(|rules| rules.lineages.allow_reset());
    }

    /// Zero-based numbers of the requests that began anew with a summary.
    pub fn resets(&self) -> Vec<usize> {
        self.rules(|rules| rules.lineages.resets().to_vec())
    }

    /// From now on the endpoint understands none of the reasoning that it has issued. A request that carries some is
    /// refused with this code and text without being a breach, and the next one is a reset.
    pub fn revoke_reasoning(&self, code: Option<&'static str>, text: &'static str) {
        self.rules(|rules| {
            rules.issued.clear();
            rules.revoked = Some((code, text));
        });
    }

    /// The endpoint demands its own ids back instead of refusing them.
    pub fn knows_ids(&self) {
        self.rules(|rules| rules.knows_ids = true);
    }
}

/// A scripted answer, built item by item.
#[derive(Default)]
pub struct Items(Vec<Value>);

impl Items {
    /// An answer without items yet.
    pub fn answer() -> Self {
        Self::default()
    }

    pub fn reasoning(mut self, encrypted_content: &str, summary: &[&str]) -> Self {
        let summary: Vec<Value> = summary
            .iter()
            .map(|text| json!({"type": "summary_text", "text": text}))
            .collect();
        let id = format!("rs_{}", self.0.len());
        self.0
            .push(json!({"id": id, "type": "reasoning", "summary": summary,
            "encrypted_content": encrypted_content}));
        self
    }

    pub fn message(mut self, phase: Option<&str>, text: &str) -> Self {
        let id = format!("msg_{}", self.0.len());
        let mut item = json!({"id": id, "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]});
        if let Some(phase) = phase {
            item["phase"] = json!(phase);
        }
        self.0.push(item);
        self
    }

    pub fn call(mut self, call_id: &str, name: &str, arguments: &str) -> Self {
        let id = format!("fc_{}", self.0.len());
        self.0.push(
            json!({"id": id, "type": "function_call", "status": "completed", "call_id": call_id,
            "name": name, "arguments": arguments}),
        );
        self
    }
}

impl From<Items> for Reply {
    fn from(items: Items) -> Self {
        let mut reply = Self::raw(stream(&items.0));
        reply.issues = items
            .0
            .iter()
            .filter_map(|item| item["encrypted_content"].as_str().map(str::to_owned))
            .collect();
        reply
    }
}

/// The events of an answer, in small pieces.
fn stream(items: &[Value]) -> String {
    let mut sse = String::new();
    let mut number = 0;
    let mut push = |kind: &str, mut event: Value| {
        event["type"] = json!(kind);
        event["sequence_number"] = json!(number);
        number += 1;
        sse.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    };
    push(
        "response.created",
        json!({"response": {"status": "in_progress", "output": []}}),
    );
    for (index, item) in items.iter().enumerate() {
        let place = |mut event: Value| {
            event["output_index"] = json!(index);
            event["item_id"] = item["id"].clone();
            event
        };
        let mut begun = item.clone();
        for (key, empty) in [
            ("content", json!([])),
            ("summary", json!([])),
            ("arguments", json!("")),
            // Only the whole item's is whole.
            ("encrypted_content", json!("not yet whole")),
        ] {
            if let Some(value) = begun.get_mut(key) {
                *value = empty;
            }
        }
        push(
            "response.output_item.added",
            json!({"output_index": index, "item": begun}),
        );
        for (number, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
            push(
                "response.reasoning_summary_part.added",
                place(json!({"summary_index": number})),
            );
            for piece in pieces(part["text"].as_str().unwrap()) {
                push(
                    "response.reasoning_summary_text.delta",
                    place(json!({"summary_index": number, "delta": piece})),
                );
            }
        }
        for piece in pieces(item["content"][0]["text"].as_str().unwrap_or_default()) {
            push(
                "response.output_text.delta",
                place(json!({"content_index": 0, "delta": piece})),
            );
        }
        for piece in pieces(item["arguments"].as_str().unwrap_or_default()) {
            push(
                "response.function_call_arguments.delta",
                place(json!({"delta": piece})),
            );
        }
        push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }
    let usage = json!({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110});
    push(
        "response.completed",
        json!({"response": {"status": "completed", "output": items, "usage": usage}}),
    );
    sse
}

impl Rules for ResponsesRules {
    const BASE: &'static str = "/v1";

    fn intercept(&mut self, request: &RecordedRequest) -> Option<Breach> {
        let carries_reasoning = request.input().iter().any(|item| item["type"] == "reasoning");
        let (code, text) = self.revoked?;
        if !carries_reasoning || self.is_understood(request) {
            return None;
        }
        self.lineages.allow_reset();
        Some(Breach {
            status: 400,
            code,
            text: text.to_owned(),
        })
    }

    fn check(&mut self, request: &RecordedRequest) -> Vec<Breach> {
        let mut breaches = Vec::new();
        self.check_body(request, &mut breaches);
        // What is refused for another reason is nothing that a later request must extend.
        if breaches.is_empty() {
            let sent = Sent::of(request, "input", Value::clone);
            breaches.extend(self.lineages.judge(sent).err().map(Breach::from));
        }
        breaches
    }

    fn sends(&mut self, reply: &Reply) {
        self.issued.extend(reply.issues.iter().cloned());
    }
}

impl ResponsesRules {
    fn is_understood(&self, request: &RecordedRequest) -> bool {
        request
            .input()
            .iter()
            .filter_map(|item| item["encrypted_content"].as_str())
            .all(|content| self.issued.contains(content))
    }

    fn check_body(&self, request: &RecordedRequest, breaches: &mut Vec<Breach>) {
        let json = &request.json;
        if request.path != "/v1/responses" {
            breach(breaches, format!("path {}", request.path));
        }
        if json["stream"] != json!(true) || json["store"] != json!(false) || !json["model"].is_string() {
            breach(breaches, "stream, store or model is missing");
        }
        if json.get("previous_response_id").is_some() {
            breach(breaches, "nothing is stored that previous_response_id could name");
        }
        if json["include"] != json!(["reasoning.encrypted_content"]) {
            breach(breaches, "encrypted reasoning is not asked for");
        }
        if json
            .as_object()
            .and_then(|body| body.keys().next_back())
            .map(String::as_str)
            != Some("input")
        {
            breach(breaches, "input is not the last member");
        }
        if request.input().is_empty() {
            breach(breaches, "there is no input");
        }
        check_tools(json, breaches);
        self.check_input(request.input(), breaches);
    }

    fn check_input(&self, input: &[Value], breaches: &mut Vec<Breach>) {
        let mut call_ids = BTreeSet::new();
        let mut open: BTreeSet<&str> = BTreeSet::new();
        let mut reasoning = BTreeSet::new();
        for (index, item) in input.iter().enumerate() {
            let kind = item["type"].as_str().unwrap_or_default();
            match item.get("id").and_then(Value::as_str) {
                Some(id) if !self.knows_ids => breaches.push(Breach {
                    status: 404,
                    code: None,
                    text: format!(
                        "Item with id '{id}' not found. Items are not persisted when `store` is false."
                    ),
                }),
                None if self.knows_ids && kind == "reasoning" => {
                    breach(breaches, format!("item {index}: its id is missing"));
                }
                _ => {}
            }
            let is_call = kind == "function_call";
            if !is_call && kind != "function_call_output" && !open.is_empty() && !follows_call(kind, item) {
                breach(
                    breaches,
                    format!("item {index}: no tool output found for calls {open:?}"),
                );
                open.clear();
            }
            match kind {
                "message" => check_message(index, item, breaches),
                "reasoning" => {
                    let content = item["encrypted_content"].as_str().unwrap_or_default();
                    if !item["summary"].is_array() {
                        breach(
                            breaches,
                            format!("Missing required parameter: 'input[{index}].summary'."),
                        );
                    }
                    if item.get("content").is_some() || item.get("status").is_some() {
                        breach(breaches, format!("item {index}: a member that no input may have"));
                    }
                    if !self.issued.contains(content) {
                        breaches.push(Breach {
                            status: 400,
                            code: Some("invalid_encrypted_content"),
                            text: format!("item {index}: the encrypted content was not issued here"),
                        });
                    }
                    if !reasoning.insert(content) {
                        breach(breaches, format!("Duplicate item found at {index}"));
                    }
                    let follower = input[index + 1..].iter().find(|next| next["type"] != "reasoning");
                    let is_followed = follower.is_some_and(|next| {
                        next["type"] == "function_call"
                            || next["type"] == "message" && next["role"] == "assistant"
                    });
                    if !is_followed {
                        breach(
                            breaches,
                            format!(
                                "item {index} of type 'reasoning' was provided without its required following item"
                            ),
                        );
                    }
                }
                "function_call" => {
                    let id = item["call_id"].as_str().unwrap_or_default();
                    if id.is_empty() || id.len() > 64 || !call_ids.insert(id) {
                        breach(
                            breaches,
                            format!("item {index}: call_id {id:?} is empty, too long or not unique"),
                        );
                    }
                    let arguments = item["arguments"].as_str().unwrap_or_default();
                    if serde_json::from_str::<Value>(arguments).is_err()
                        || item["name"].as_str().is_none_or(str::is_empty)
                    {
                        breach(
                            breaches,
                            format!("item {index}: no name, or arguments that are no JSON text"),
                        );
                    }
                    open.insert(id);
                }
                "function_call_output" => {
                    let id = item["call_id"].as_str().unwrap_or_default();
                    if !open.remove(id) {
                        breach(
                            breaches,
                            format!("item {index}: no tool call found for the output of {id:?}"),
                        );
                    }
                    if !is_good_output(&item["output"]) {
                        breach(breaches, format!("item {index}: the output says nothing"));
                    }
                }
                _ => breach(breaches, format!("item {index}: type {kind:?} is unknown")),
            }
        }
        if !open.is_empty() {
            breach(breaches, format!("no tool output found for calls {open:?}"));
        }
    }
}

/// Whether an item may stand between a call and its output: one of the same answer.
fn follows_call(kind: &str, item: &Value) -> bool {
    kind == "reasoning" || kind == "message" && item["role"] == "assistant"
}

fn breach(breaches: &mut Vec<Breach>, text: impl Into<String>) {
    breaches.push(Breach::from(text.into()));
}

fn check_tools(json: &Value, breaches: &mut Vec<Breach>) {
    let mut names = BTreeSet::new();
    for tool in json["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) || !names.insert(name) {
            breach(
                breaches,
                format!("tool name {name:?} is not allowed or there twice"),
            );
        }
        if tool["type"] != "function" || !tool["parameters"].is_object() || tool["strict"] != json!(false) {
            breach(
                breaches,
                format!("tool {name} has no type or parameters, or would be made strict"),
            );
        }
    }
    if json.get("tools").is_some_and(|_| names.is_empty()) {
        breach(breaches, "tools must be a list that is not empty");
    }
}

fn is_good_output(output: &Value) -> bool {
    let filled = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    match output.as_array() {
        None => filled(output),
        Some(parts) => {
            !parts.is_empty()
                && parts.iter().all(|part| match part["type"].as_str() {
                    Some("input_text") => filled(&part["text"]),
                    Some("input_image") => part["image_url"]
                        .as_str()
                        .is_some_and(|url| url.starts_with("data:image/")),
                    _ => false,
                })
        }
    }
}

fn check_message(index: usize, item: &Value, breaches: &mut Vec<Breach>) {
    let filled = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let is_good = |part: &Value| match (item["role"].as_str(), part["type"].as_str()) {
        (Some("user"), Some("input_text")) | (Some("assistant"), Some("output_text")) => {
            filled(&part["text"])
        }
        (Some("assistant"), Some("refusal")) => filled(&part["refusal"]),
        (Some("user"), Some("input_image")) => part["image_url"]
            .as_str()
            .is_some_and(|url| url.starts_with("data:image/")),
        _ => false,
    };
    let parts = item["content"].as_array();
    if parts.is_none_or(|parts| parts.is_empty() || !parts.iter().all(is_good)) {
        breach(
            breaches,
            format!("item {index}: role and content do not fit, or a part is empty"),
        );
    }
}
