//! Plays the events of a scripted model as each API's endpoint would send them, so that one script runs over every API.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

#[path = "any_endpoint.rs"]
mod any_endpoint;

use cairn::config::Api;
use cairn::model::{ProviderFailure, Usage};
use cairn::provider::{ModelEvent, StopReason};
use serde_json::{Value, json};

pub use any_endpoint::Endpoint;

/// Where the events of a script go before a run sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// Straight to the run.
    Nothing,
    /// Through HTTP and the adapter of this API, to and from its strict endpoint.
    Http(Api),
}

/// Declares each of these functions as one test over nothing and over each API.
#[macro_export]
macro_rules! over_every_api {
    ($($name:ident),+ $(,)?) => {
        $crate::over_every_api! { in_process: $crate::support::over_http::Over::Nothing, $($name),+ }
        $crate::over_every_http_api! { $($name),+ }
    };
    ($module:ident: $over:expr, $($name:ident),+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($over).await;
                }
            )+
        }
    };
}

/// The same over each API only.
#[macro_export]
macro_rules! over_every_http_api {
    ($($name:ident),+ $(,)?) => {
        $crate::over_every_api! { openai_chat:
            $crate::support::over_http::Over::Http(cairn::config::Api::OpenAiChat), $($name),+ }
        $crate::over_every_api! { openai_responses:
            $crate::support::over_http::Over::Http(cairn::config::Api::OpenAiResponses), $($name),+ }
        $crate::over_every_api! { anthropic:
            $crate::support::over_http::Over::Http(cairn::config::Api::Anthropic), $($name),+ }
    };
}

/// What no script holds: the adapter itself says what it sends.
const NOT_SCRIPTED: &str = "an endpoint does not say what is sent to it";

/// Turns events into the bytes of one API's stream.
pub struct Writer {
    api: Api,
    /// The block, item or call that is open, and its number.
    number: usize,
    thinking: String,
    text: String,
    usage: Option<Usage>,
    /// Calls by their index: id, name, arguments so far, number of their block.
    calls: Vec<(String, String, String, usize)>,
    started: bool,
    /// Encrypted reasoning that was given out.
    pub issued: Vec<String>,
    /// Blocks as a later request must bring them back.
    pub blocks: Vec<Value>,
}

impl Writer {
    pub fn new(api: Api) -> Self {
        Self {
            api,
            number: 0,
            thinking: String::new(),
            text: String::new(),
            usage: None,
            calls: Vec::new(),
            started: false,
            issued: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// What the next step of a script looks like on the wire.
    pub fn step(&mut self, step: &Result<ModelEvent, ProviderFailure>) -> String {
        let events = match step {
            Ok(event) => match self.api {
                Api::OpenAiChat => self.chat(event),
                Api::OpenAiResponses => self.responses(event),
                Api::Anthropic => self.anthropic(event),
                Api::Scripted => panic!("no endpoint speaks it"),
            },
            Err(failure) => vec![json!({"type": "error",
                "error": {"type": "server_error", "message": failure.message}})],
        };
        events
            .into_iter()
            .map(|event| match event["type"].as_str() {
                Some(kind) if self.api != Api::OpenAiChat => format!("event: {kind}\ndata: {event}\n\n"),
                _ => format!("data: {event}\n\n"),
            })
            .collect()
    }

    fn chat(&mut self, event: &ModelEvent) -> Vec<Value> {
        let choice = |delta: Value, finish: Value| json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        let delta = |delta: Value| vec![choice(delta, Value::Null)];
        match event {
            ModelEvent::Sending(_) => panic!("{NOT_SCRIPTED}"),
            ModelEvent::Start => delta(json!({"role": "assistant", "content": ""})),
            ModelEvent::TextDelta(text) => delta(json!({"content": text})),
            ModelEvent::ThinkingDelta(text) => delta(json!({"reasoning_content": text})),
            ModelEvent::ToolCallStart { index, id, name } => delta(json!({"tool_calls": [{"index": index,
                "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]})),
            ModelEvent::ToolCallArguments { index, delta: piece } => {
                delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
            }
            ModelEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            ModelEvent::Done(stop) => {
                let reason = match stop {
                    StopReason::Stop => "stop",
                    StopReason::ToolUse => "tool_calls",
                };
                let usage = self.usage.map(|usage| {
                    json!({"choices": [], "usage": {"prompt_tokens": usage.fresh_input, "completion_tokens": usage.output}})
                });
                [choice(json!({}), json!(reason))]
                    .into_iter()
                    .chain(usage)
                    .collect()
            }
            ModelEvent::TextStart
            | ModelEvent::TextEnd
            | ModelEvent::ThinkingStart
            | ModelEvent::ThinkingEnd
            | ModelEvent::ToolCallEnd { .. }
            | ModelEvent::ReplayState(_) => Vec::new(),
        }
    }

    fn responses(&mut self, event: &ModelEvent) -> Vec<Value> {
        let named = |kind: &str, mut event: Value| {
            event["type"] = json!(format!("response.{kind}"));
            event
        };
        let number = self.number;
        let item = |item: Value| json!({"output_index": number, "item": item});
        match event {
            ModelEvent::Sending(_) => panic!("{NOT_SCRIPTED}"),
            ModelEvent::Start => vec![named("created", json!({"response": {"status": "in_progress"}}))],
            ModelEvent::TextStart => {
                self.text.clear();
                Vec::new()
            }
            ModelEvent::TextDelta(text) => {
                self.text.push_str(text);
                vec![named(
                    "output_text.delta",
                    json!({"output_index": number, "delta": text}),
                )]
            }
            ModelEvent::TextEnd => {
                self.number += 1;
                let content = json!([{"type": "output_text", "text": self.text}]);
                vec![named(
                    "output_item.done",
                    item(json!({"type": "message", "role": "assistant", "content": content})),
                )]
            }
            ModelEvent::ThinkingStart => {
                self.thinking.clear();
                Vec::new()
            }
            ModelEvent::ThinkingDelta(text) => {
                self.thinking.push_str(text);
                vec![named(
                    "reasoning_summary_text.delta",
                    json!({"output_index": number, "delta": text}),
                )]
            }
            ModelEvent::ThinkingEnd => {
                self.number += 1;
                let sealed = format!("sealed {}", self.thinking);
                self.issued.push(sealed.clone());
                let summary = json!([{"type": "summary_text", "text": self.thinking}]);
                vec![named(
                    "output_item.done",
                    item(
                        json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": summary,
                        "encrypted_content": sealed}),
                    ),
                )]
            }
            ModelEvent::ToolCallStart { id, name, .. } => {
                let call = (
                    id.as_deref().unwrap_or_default().to_owned(),
                    name.to_string(),
                    String::new(),
                    number,
                );
                self.number += 1;
                let added = item(
                    json!({"type": "function_call", "call_id": call.0, "name": call.1, "arguments": ""}),
                );
                self.calls.push(call);
                vec![named("output_item.added", added)]
            }
            ModelEvent::ToolCallArguments { index, delta } => {
                let (.., arguments, number) = &mut self.calls[*index];
                arguments.push_str(delta);
                vec![named(
                    "function_call_arguments.delta",
                    json!({"output_index": number, "delta": delta}),
                )]
            }
            ModelEvent::ToolCallEnd { index } => {
                let (id, name, arguments, number) = &self.calls[*index];
                let call =
                    json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
                vec![named(
                    "output_item.done",
                    json!({"output_index": number, "item": call}),
                )]
            }
            ModelEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            ModelEvent::Done(_) => {
                let usage = self
                    .usage
                    .map(|usage| json!({"input_tokens": usage.fresh_input, "output_tokens": usage.output}));
                vec![named(
                    "completed",
                    json!({"response": {"status": "completed", "output": [], "usage": usage}}),
                )]
            }
            ModelEvent::ReplayState(_) => Vec::new(),
        }
    }

    fn anthropic(&mut self, event: &ModelEvent) -> Vec<Value> {
        let number = self.number;
        let start =
            |block: Value| json!({"type": "content_block_start", "index": number, "content_block": block});
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": number, "delta": delta});
        let stop = json!({"type": "content_block_stop", "index": number});
        match event {
            ModelEvent::Sending(_) => panic!("{NOT_SCRIPTED}"),
            ModelEvent::Start => {
                self.started = true;
                vec![json!({"type": "message_start", "message": {"id": "msg", "content": []}})]
            }
            ModelEvent::TextStart => {
                self.text.clear();
                vec![start(json!({"type": "text", "text": ""}))]
            }
            ModelEvent::TextDelta(text) => {
                self.text.push_str(text);
                vec![delta(json!({"type": "text_delta", "text": text}))]
            }
            ModelEvent::TextEnd => {
                self.number += 1;
                self.blocks.push(json!({"type": "text", "text": self.text}));
                vec![stop]
            }
            ModelEvent::ThinkingStart => {
                self.thinking.clear();
                vec![start(
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                )]
            }
            ModelEvent::ThinkingDelta(text) => {
                self.thinking.push_str(text);
                vec![delta(json!({"type": "thinking_delta", "thinking": text}))]
            }
            ModelEvent::ThinkingEnd => {
                self.number += 1;
                let signature = format!("signed {}", self.thinking);
                let block = json!({"type": "thinking", "thinking": self.thinking, "signature": signature});
                self.blocks.push(block);
                vec![
                    delta(json!({"type": "signature_delta", "signature": signature})),
                    stop,
                ]
            }
            ModelEvent::ToolCallStart { id, name, .. } => {
                let id = id.as_deref().unwrap_or_default().to_owned();
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.calls.push((id, name.to_string(), String::new(), number));
                vec![start(block)]
            }
            ModelEvent::ToolCallArguments { index, delta: piece } => {
                self.calls[*index].2.push_str(piece);
                vec![delta(json!({"type": "input_json_delta", "partial_json": piece}))]
            }
            ModelEvent::ToolCallEnd { index } => {
                self.number += 1;
                let (id, name, arguments, _) = &self.calls[*index];
                let input = serde_json::from_str(arguments).ok().filter(Value::is_object);
                let input = input.unwrap_or(json!({}));
                self.blocks
                    .push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
                vec![stop]
            }
            ModelEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            ModelEvent::Done(reason) => {
                let reason = match reason {
                    StopReason::Stop => "end_turn",
                    StopReason::ToolUse => "tool_use",
                };
                let usage = self
                    .usage
                    .map(|usage| json!({"input_tokens": usage.fresh_input, "output_tokens": usage.output}));
                vec![
                    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}),
                    json!({"type": "message_stop"}),
                ]
            }
            ModelEvent::ReplayState(_) => Vec::new(),
        }
    }
}
