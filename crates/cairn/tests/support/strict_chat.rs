//! A strict fake OpenAI Chat endpoint on loopback: scripted answers out, every request checked.
//!
//! It is an oracle, not a mock: whatever a test is about, each request must be valid, must pair every tool call with its
//! result, and must extend the earlier request of its conversation byte for byte. A breach is answered with 400, as a real
//! endpoint would, and recorded until [`StrictChat::assert_clean`]. Every test that uses it calls that at its end.
//!
//! ```ignore
//! #[path = "support/strict_chat.rs"]
//! mod strict_chat;
//!
//! let chat = StrictChat::start().await;
//! chat.reply_calls([("call_1", "Read", r#"{"path":"a.txt"}"#)]);
//! chat.reply_text("It says hello.");
//! // … run something with base_url = chat.base_url() …
//! assert_eq!(chat.requests().len(), 2);
//! chat.assert_clean();
//! ```
//!
//! Replies are used in the order in which they were queued, one for each request. Faults are built with [`Reply`]:
//! `Reply::text("…").cut_at(40)`, `Reply::disconnect()`, `Reply::text("…").hold_at(0)`.
//!
//! Which requests belong together is decided by their content: a request that shares an assistant message with an earlier
//! one, at the same place, belongs to its conversation. [`StrictChat::one_conversation`] makes it stricter, and
//! [`StrictChat::allow_reset`] excuses the next request. A request for a summary must extend its predecessor and is not
//! extended itself; a request that begins with a summary which none had before begins anew ([`StrictChat::resets`]).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

#[path = "endpoint.rs"]
pub mod endpoint;

use endpoint::lineage::{Lineages, Sent};
use endpoint::{Breach, Rules, StrictEndpoint, pieces};
pub use endpoint::{RecordedRequest, Reply};

/// The fake endpoint. Ends when dropped.
pub type StrictChat = StrictEndpoint<ChatRules>;

impl RecordedRequest {
    /// The request's messages, in this API and in the one of Anthropic.
    pub fn messages(&self) -> &[Value] {
        self.json["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The rules of Chat Completions, and what was seen by them.
#[derive(Default)]
pub struct ChatRules {
    /// The thinking of every answer given, in order, if it must come back; empty where there was none.
    given: Option<Vec<String>>,
    lineages: Lineages,
}

impl StrictChat {
    /// Queues a whole answer of text.
    pub fn reply_text(&self, text: &str) {
        self.reply(Reply::text(text));
    }

    /// Queues a whole answer of tool calls: id, name, argument text.
    pub fn reply_calls<'a>(&self, calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) {
        self.reply(Reply::calls(calls));
    }

    /// Queues a body as it is, as an event stream with status 200.
    pub fn reply_raw(&self, sse: impl Into<Bytes>) {
        self.reply(Reply::raw(sse));
    }

    /// Queues a response with this status, these headers and this body.
    pub fn reply_status(&self, status: u16, headers: &[(&str, &str)], body: &str) {
        self.reply(Reply::status(status, headers, body));
    }

    /// From now on every answer of the conversation must come back with its `reasoning_content`, byte for byte, and with an
    /// empty one where it had none.
    pub fn requires_reasoning(&self) {
        self.rules(|rules| rules.given = Some(Vec::new()));
    }

    /// From now on every request must extend the one before it.
    pub fn one_conversation(&self) {
        self.rules(|rules| rules.lineages.one_conversation());
    }

    /// Zero-based numbers of the requests that began anew with a summary.
    pub fn resets(&self) -> Vec<usize> {
        self.rules(|rules| rules.lineages.resets().to_vec())
    }

    /// The next request need not extend an earlier one (a compaction, an edited message, other parameters).
    pub fn allow_reset(&self) {
        self.rules(|rules| rules.lineages.allow_reset());
    }
}

impl Reply {
    /// A whole answer of text, with usage.
    pub fn text(text: &str) -> Self {
        Self::answer(None, text, &[])
    }

    /// A whole answer of tool calls: id, name, argument text.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        Self::answer(None, "", &calls.into_iter().collect::<Vec<_>>())
    }

    /// A whole answer of thinking (as `reasoning_content`), text and calls, in small pieces.
    pub fn answer(reasoning: Option<&str>, text: &str, calls: &[(&str, &str, &str)]) -> Self {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        for piece in pieces(reasoning.unwrap_or_default()) {
            deltas.push(json!({"reasoning_content": piece}));
        }
        for piece in pieces(text) {
            deltas.push(json!({"content": piece}));
        }
        for (index, (id, name, arguments)) in calls.iter().enumerate() {
            deltas.push(
                json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": ""}}]}),
            );
            for piece in pieces(arguments) {
                deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
            }
        }
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        let mut sse = String::new();
        let mut push = |choices: Value, usage: Value| {
            let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": choices, "usage": usage});
            sse.push_str(&format!("data: {chunk}\n\n"));
        };
        for delta in deltas {
            push(
                json!([{"index": 0, "delta": delta, "finish_reason": null}]),
                Value::Null,
            );
        }
        push(
            json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
            Value::Null,
        );
        push(
            json!([]),
            json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}),
        );
        sse.push_str("data: [DONE]\n\n");
        let mut reply = Self::raw(sse);
        reply.issues = vec![reasoning.unwrap_or_default().to_owned()];
        reply
    }
}

impl Rules for ChatRules {
    const BASE: &'static str = "/v1";

    fn check(&mut self, request: &RecordedRequest) -> Vec<Breach> {
        self.breaches(request).into_iter().map(Breach::from).collect()
    }

    fn sends(&mut self, reply: &Reply) {
        if let Some(given) = &mut self.given {
            given.extend(reply.issues.iter().cloned());
        }
    }
}

impl ChatRules {
    fn breaches(&mut self, request: &RecordedRequest) -> Vec<String> {
        let mut breaches = Vec::new();
        if request.path != "/v1/chat/completions" {
            breaches.push(format!("path {}", request.path));
        }
        if request.json.is_null() {
            breaches.push("the body is no JSON".to_owned());
            return breaches;
        }
        if request.json["stream"] != json!(true) || !request.json["model"].is_string() {
            breaches.push("stream or model is missing".to_owned());
        }
        if request.messages().is_empty() {
            breaches.push("there are no messages".to_owned());
        }
        check_tools(&request.json, &mut breaches);
        check_messages(request.messages(), &mut breaches);
        if let Some(given) = &self.given {
            let answers = request
                .messages()
                .iter()
                .filter(|message| message["role"] == "assistant");
            for (index, (answer, given)) in answers.zip(given).enumerate() {
                if answer["reasoning_content"] != *given {
                    breaches.push(format!(
                        "reasoning_content is missing or changed in answer {index}: {answer}"
                    ));
                }
            }
        }
        let sent = Sent::of(request, "messages", Value::clone);
        breaches.extend(self.lineages.judge(sent).err());
        breaches
    }
}

fn check_tools(json: &Value, breaches: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    match json.get("tools") {
        None => {}
        Some(Value::Array(tools)) if !tools.is_empty() => {
            for tool in tools {
                let function = &tool["function"];
                let name = function["name"].as_str().unwrap_or_default();
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
                    breaches.push(format!("tool name {name:?} is not allowed"));
                }
                if !names.insert(name) {
                    breaches.push(format!("tool {name} is there twice"));
                }
                if tool["type"] != "function" || !function["parameters"].is_object() {
                    breaches.push(format!("tool {name} has no parameters or no type"));
                }
            }
        }
        Some(_) => breaches.push("tools must be a list that is not empty".to_owned()),
    }
}

fn check_messages(messages: &[Value], breaches: &mut Vec<String>) {
    let mut ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            breaches.push(format!("message {index}: calls {open:?} have no result"));
            open.clear();
        }
        match role {
            "system" | "user" => {
                if role == "system" && index > 0 {
                    breaches.push(format!("message {index}: a system message that is not the first"));
                }
                check_content(index, &message["content"], breaches);
            }
            "assistant" => {
                let calls = message.get("tool_calls");
                match (&message["content"], calls) {
                    (Value::Null, Some(_)) => {}
                    (Value::String(text), Some(_)) if text.is_empty() => {
                        breaches.push(format!(
                            "message {index}: empty content beside calls must be null"
                        ));
                    }
                    (content, _) => check_content(index, content, breaches),
                }
                if calls.is_some_and(|calls| calls.as_array().is_none_or(Vec::is_empty)) {
                    breaches.push(format!(
                        "message {index}: tool_calls must be a list that is not empty"
                    ));
                }
                for call in calls.and_then(Value::as_array).into_iter().flatten() {
                    let id = call["id"].as_str().unwrap_or_default().to_owned();
                    let function = &call["function"];
                    let arguments = function["arguments"].as_str().unwrap_or_default();
                    if serde_json::from_str::<Value>(arguments).is_err() {
                        breaches.push(format!(
                            "message {index}: arguments of call {id} are no JSON text"
                        ));
                    }
                    if call["type"] != "function" || function["name"].as_str().is_none_or(str::is_empty) {
                        breaches.push(format!("message {index}: call {id} has no name or type"));
                    }
                    if id.is_empty() || !ids.insert(id.clone()) {
                        breaches.push(format!("message {index}: call id {id:?} is empty or not unique"));
                    }
                    open.insert(id);
                }
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                if !open.remove(id) {
                    breaches.push(format!(
                        "message {index}: result for {id:?}, which is no open call"
                    ));
                }
                if message["content"].as_str().is_none_or(str::is_empty) {
                    breaches.push(format!("message {index}: the result is no string, or is empty"));
                }
            }
            _ => breaches.push(format!("message {index}: role {role:?} is unknown")),
        }
    }
    if !open.is_empty() {
        breaches.push(format!("calls {open:?} have no result"));
    }
}

fn check_content(index: usize, content: &Value, breaches: &mut Vec<String>) {
    let is_good = match content {
        Value::String(text) => !text.is_empty(),
        Value::Array(parts) => {
            !parts.is_empty()
                && parts.iter().all(|part| match part["type"].as_str() {
                    Some("text") => part["text"].as_str().is_some_and(|text| !text.is_empty()),
                    Some("image_url") => part["image_url"]["url"]
                        .as_str()
                        .is_some_and(|url| url.starts_with("data:image/")),
                    _ => false,
                })
        }
        _ => false,
    };
    if !is_good {
        breaches.push(format!(
            "message {index}: content is missing or holds an empty part"
        ));
    }
}
