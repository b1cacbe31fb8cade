//! What an endpoint was sent, in one form for every API: the messages of Chat Completions, with thinking as
//! `reasoning_content`, in words. Must never know: what a request should be like.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The messages of a request of any API.
pub fn messages(body: &[u8]) -> Vec<Value> {
    let json: Value = serde_json::from_slice(body).unwrap();
    if let Some(items) = json["input"].as_array() {
        return of_responses(&json["instructions"], items);
    }
    let messages = json["messages"].as_array().unwrap();
    match json["system"][0].get("text") {
        Some(system) => of_anthropic(system, messages, body),
        None => messages.clone(),
    }
}

/// An answer of which nothing is known yet.
fn answer() -> Value {
    json!({"role": "assistant", "content": null})
}

/// Adds words to a member of an answer.
fn say(answer: &mut Value, member: &str, words: &Value) {
    let known = answer[member].as_str().unwrap_or_default();
    answer[member] = json!(known.to_owned() + words.as_str().unwrap());
}

fn call(answer: &mut Value, id: &Value, name: &Value, arguments: &str) {
    let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    match answer["tool_calls"].as_array_mut() {
        Some(calls) => calls.push(call),
        None => answer["tool_calls"] = json!([call]),
    }
}

/// A content that is one text alone is that text.
fn content(content: &Value) -> Value {
    match content.as_array().map(Vec::as_slice) {
        Some([part]) if part["text"].is_string() => part["text"].clone(),
        _ => content.clone(),
    }
}

/// Items of the model that stand side by side are one answer.
fn of_responses(instructions: &Value, items: &[Value]) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": instructions})];
    for item in items {
        let (kind, role) = (item["type"].as_str().unwrap(), &item["role"]);
        if kind == "function_call_output" {
            let (id, output) = (&item["call_id"], content(&item["output"]));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
            continue;
        }
        if kind == "message" && role != "assistant" {
            messages.push(json!({"role": role, "content": content(&item["content"])}));
            continue;
        }
        if messages.last().is_some_and(|last| last["role"] != "assistant") {
            messages.push(answer());
        }
        let answer = messages.last_mut().unwrap();
        match kind {
            "reasoning" => {
                for summary in item["summary"].as_array().unwrap() {
                    say(answer, "reasoning_content", &summary["text"]);
                }
            }
            "message" => say(answer, "content", &item["content"][0]["text"]),
            "function_call" => {
                let arguments = item["arguments"].as_str().unwrap();
                call(answer, &item["call_id"], &item["name"], arguments);
            }
            other => panic!("{other} is no item of an answer"),
        }
    }
    messages
}

#[derive(Deserialize)]
struct Body {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    content: Vec<Block>,
}

/// What of a block counts as text.
#[derive(Deserialize)]
struct Block {
    input: Option<Box<RawValue>>,
}

fn of_anthropic(system: &Value, sent: &[Value], body: &[u8]) -> Vec<Value> {
    let raw: Body = serde_json::from_slice(body).unwrap();
    let mut messages = vec![json!({"role": "system", "content": system})];
    for (message, raw) in sent.iter().zip(raw.messages) {
        let blocks = message["content"].as_array().unwrap();
        if blocks.iter().any(|block| block["type"] == "tool_result") {
            messages.extend(blocks.iter().map(|block| {
                json!({"role": "tool", "tool_call_id": block["tool_use_id"], "content": content(&block["content"])})
            }));
            continue;
        }
        if message["role"] == "user" {
            messages.push(json!({"role": "user", "content": content(&message["content"])}));
            continue;
        }
        let mut answer = answer();
        for (block, raw) in blocks.iter().zip(raw.content) {
            match block["type"].as_str().unwrap() {
                "thinking" => say(&mut answer, "reasoning_content", &block["thinking"]),
                "text" => say(&mut answer, "content", &block["text"]),
                "tool_use" => {
                    let input = raw.input.unwrap();
                    call(&mut answer, &block["id"], &block["name"], input.get());
                }
                // Nobody can read it.
                "redacted_thinking" => {}
                other => panic!("{other} is no block of an answer"),
            }
        }
        messages.push(answer);
    }
    messages
}
