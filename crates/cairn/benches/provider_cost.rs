//! What reading an endpoint's stream costs beside parsing its JSON, and what the next request costs beside a copy of the
//! last one.
//!
//! `docs/benchmarks.md` says what each figure means and how to read them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark stops where something is wrong, and prints its figures"
)]

mod support;

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use cairn::config::{Api, EntryLimits, ModelConfig};
use cairn::model::{
    Assistant, CallId, ConversationId, HistoryItem, Latency, MessageId, ModelRequest, ModelSpec, Part,
    PromptSpec, ReasoningSpec, RunId, ToolCall, ToolResult, ToolRoundId, UserOrigin,
};
use cairn::provider::anthropic::{self, Anthropic, AnthropicDecoder};
use cairn::provider::openai_chat::{self, ChatDecoder, OpenAiChat};
use cairn::provider::openai_responses::{self, OpenAiResponses, ResponsesDecoder};
use cairn::provider::sse::{SseEvent, SseReader};
use cairn::provider::{ModelEvent, ModelInvocation, Progress, Provider};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use support::statistics::{median, quantile};
use support::{number, wanted};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes that arrive at once.
const PIECE: usize = 4096;
/// Deltas of text, of thinking and of arguments in a stream, each.
const DELTAS: usize = 6000;
/// Bytes of one tool result in the history.
const RESULT: usize = 2000;

fn main() {
    if !wanted() {
        println!("provider_cost: nothing to do; run it with `cargo bench -p cairn --bench provider_cost`");
        return;
    }
    let rounds = number("--rounds", 41);
    println!("decoding a stream, medians of {rounds} (10th to 90th percentile):\n");
    println!("| API | events | data, kB | serde_json to a value, µs | cairn, µs | ratio |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let (chat, responses, anthropic) = providers();
    decoding("openai-chat", &chat_stream(), rounds, || {
        let mut decoder = ChatDecoder::new(chat.profile());
        move |event, events: &mut VecDeque<ModelEvent>| decoder.push(event, events).unwrap()
    });
    decoding("openai-responses", &responses_stream(), rounds, || {
        let mut decoder = ResponsesDecoder::new(responses.profile());
        move |event, events: &mut VecDeque<ModelEvent>| decoder.push(event, events).unwrap()
    });
    decoding("anthropic", &anthropic_stream(), rounds, || {
        let mut decoder = AnthropicDecoder::new(anthropic.profile());
        move |event, events: &mut VecDeque<ModelEvent>| decoder.push(event, events).unwrap()
    });
    println!("\nthe next request, medians of {rounds} (10th to 90th percentile):\n");
    println!("| API | history, MB | a copy of the last body, µs | request N+1, µs | ratio | all anew, µs |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for megabytes in [1, 16] {
        let history = history(megabytes * 1_000_000);
        growing("openai-chat", &chat, &history, rounds, |request| {
            openai_chat::encode(request, chat.profile()).unwrap().body
        });
        growing("openai-responses", &responses, &history, rounds, |request| {
            openai_responses::encode(request, responses.profile())
                .unwrap()
                .body
        });
        growing("anthropic", &anthropic, &history, rounds, |request| {
            anthropic::encode(request, anthropic.profile()).unwrap().body
        });
    }
}

fn config(api: Api) -> ModelConfig {
    ModelConfig {
        id: "m".to_owned(),
        name: None,
        api,
        base_url: Some("http://127.0.0.1:1/v1".parse().unwrap()),
        api_key: None,
        upstream_model: "m".to_owned(),
        context_window: None,
        max_output_tokens: Some(8192),
        vision: false,
        limits: EntryLimits::default(),
        options: toml::Table::new(),
    }
}

fn providers() -> (OpenAiChat, OpenAiResponses, Anthropic) {
    (
        OpenAiChat::new(&config(Api::OpenAiChat)).unwrap(),
        OpenAiResponses::new(&config(Api::OpenAiResponses)).unwrap(),
        Anthropic::new(&config(Api::Anthropic)).unwrap(),
    )
}

/// Reads the stream with a fresh reader and decoder, and parses its data lines, in turns.
fn decoding<D>(name: &str, stream: &str, rounds: usize, new_decoder: impl Fn() -> D)
where
    D: FnMut(SseEvent<'_>, &mut VecDeque<ModelEvent>) -> Progress,
{
    let lines: Vec<&str> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| *line != "[DONE]").collect();
    let read = || {
        let mut reader = SseReader::new();
        let mut decoder = new_decoder();
        let mut events = VecDeque::new();
        let mut count = 0;
        let mut progress = Progress::Open;
        for piece in stream.as_bytes().chunks(PIECE) {
            reader.push(piece);
            while let Some(event) = reader.next_event().unwrap() {
                progress = decoder(event, &mut events);
                while let Some(event) = events.pop_front() {
                    count += 1;
                    drop(black_box(event));
                }
            }
        }
        assert!(progress != Progress::Open, "{name}: the stream did not end");
        assert!(count >= 3 * DELTAS, "{name}: {count} events");
    };
    let (mut parsed, mut scanned, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        parsed.push(micros(|| {
            for line in &lines {
                drop(black_box(serde_json::from_str::<Value>(line).unwrap()));
            }
        }));
        decoded.push(micros(read));
        scanned.push(micros(|| {
            for line in &lines {
                black_box(serde_json::from_str::<IgnoredAny>(line).unwrap());
            }
        }));
    }
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    println!(
        "| {name} | {} | {} | {} | {} | {:.2} | (without making values: {})",
        lines.len(),
        bytes / 1000,
        spread(&parsed),
        spread(&decoded),
        median(&decoded) / median(&parsed),
        spread(&scanned),
    );
}

/// Encodes request N, and then, timed, request N+1, next to a copy of N's body.
fn growing(
    name: &str,
    provider: &dyn Provider,
    history: &[Arc<HistoryItem>],
    rounds: usize,
    encode: impl Fn(&ModelRequest) -> bytes::Bytes,
) {
    let spec = Arc::new(ModelSpec {
        model_id: "m".into(),
        display_name: None,
        reasoning: ReasoningSpec::default(),
        latency: Latency::default(),
        max_output_tokens: Some(8192),
        context_window: None,
        vision: false,
        entry: cairn::model::EntryLimits::default(),
    });
    let prompt = Arc::new(PromptSpec {
        instructions: "Be brief.".into(),
        tools: Vec::new(),
    });
    let request = |history: &[Arc<HistoryItem>]| ModelRequest {
        prompt: Arc::clone(&prompt),
        model: Arc::clone(&spec),
        history: history.to_vec(),
        conversation: ConversationId::new("bench"),
    };
    let known = history.len() - 2;
    let (last, next) = (request(&history[..known]), request(history));
    let body = encode(&last);
    // A call that is never polled has encoded its request and sends nothing.
    let call = |request: &ModelRequest| drop(black_box(provider.call(request, invocation())));
    let (mut copied, mut grown, mut anew) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        anew.push(micros(|| call(&last)));
        copied.push(micros(|| drop(black_box(body.to_vec()))));
        grown.push(micros(|| call(&next)));
    }
    println!(
        "| {name} | {:.1} | {} | {} | {:.2} | {} |",
        body.len() as f64 / 1e6,
        spread(&copied),
        spread(&grown),
        median(&grown) / median(&copied),
        spread(&anew),
    );
}

fn invocation() -> ModelInvocation {
    ModelInvocation {
        run: RunId::new("bench"),
        provider_call_index: 0,
        cancel: CancellationToken::new(),
    }
}

fn micros(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}

fn spread(samples: &[f64]) -> String {
    format!(
        "{:.0} ({:.0} to {:.0})",
        median(samples),
        quantile(samples, 0.1),
        quantile(samples, 0.9)
    )
}

/// Rounds of a call and its result, after what the person said, up to this many bytes of results; then one round more.
fn history(bytes: usize) -> Vec<Arc<HistoryItem>> {
    let line = "fn main() { println!(\"Hello, \\\"world\\\"!\"); }\n";
    let content: Arc<str> = line.repeat(RESULT.div_ceil(line.len())).into();
    let mut items = vec![HistoryItem::User {
        id: MessageId::new("user"),
        origin: UserOrigin::Imported,
        parts: vec![Part::Text("What do these files do?".into())],
    }];
    for number in 0..=bytes.div_ceil(content.len()) {
        let call = CallId::new(format!("call_{number}"));
        items.push(HistoryItem::Assistant {
            said: Assistant {
                text: "Now the next one.".into(),
                ..Assistant::default()
            },
            round: Some(ToolRoundId::new(format!("round {number}"))),
            calls: vec![ToolCall {
                id: call.clone(),
                name: "Read".into(),
                arguments: format!(r#"{{"path":"/project/src/file_{number}.rs"}}"#).into(),
            }],
        });
        items.push(HistoryItem::ToolResult(ToolResult {
            call,
            content: content.as_ref().into(),
            is_error: false,
        }));
    }
    items.into_iter().map(Arc::new).collect()
}

/// Words as models stream them, some with escapes and some beyond ASCII.
fn words() -> impl Iterator<Item = &'static str> {
    [
        " the",
        " function",
        " returns",
        " a",
        "\n",
        " \"quoted\"",
        " größer",
        " value",
        " of",
        ".",
        " 東京",
        " x",
    ]
    .into_iter()
    .cycle()
    .take(DELTAS)
}

/// The arguments of a call, in pieces.
fn arguments() -> impl Iterator<Item = String> {
    let middle = words().skip(2).map(|word| {
        let quoted = serde_json::to_string(word).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    });
    std::iter::once("{\"text\":\"".to_owned())
        .chain(middle)
        .chain(std::iter::once("\"}".to_owned()))
}

fn push(stream: &mut String, name: Option<&str>, data: &Value) {
    if let Some(name) = name {
        stream.push_str(&format!("event: {name}\n"));
    }
    stream.push_str(&format!("data: {data}\n\n"));
}

fn chat_stream() -> String {
    let mut stream = String::new();
    let mut chunk = |delta: Value, finish: Value| {
        push(
            &mut stream,
            None,
            &json!({"id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "object": "chat.completion.chunk",
                "created": 1_741_569_952, "model": "gpt-test-2026-01-01", "service_tier": "default",
                "system_fingerprint": "fp_44709d6fcb", "choices": [{"index": 0, "delta": delta, "logprobs": null,
                "finish_reason": finish}], "usage": null}),
        );
    };
    chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    for word in words() {
        chunk(json!({"reasoning_content": word}), Value::Null);
    }
    for word in words() {
        chunk(json!({"content": word}), Value::Null);
    }
    let call = |function: Value| json!({"tool_calls": [{"index": 0, "function": function}]});
    let mut opening = call(json!({"name": "Write", "arguments": ""}));
    opening["tool_calls"][0]["id"] = json!("call_1");
    opening["tool_calls"][0]["type"] = json!("function");
    chunk(opening, Value::Null);
    for piece in arguments() {
        chunk(call(json!({"arguments": piece})), Value::Null);
    }
    chunk(json!({}), json!("tool_calls"));
    stream.push_str("data: [DONE]\n\n");
    stream
}

fn responses_stream() -> String {
    let mut stream = String::new();
    let mut number = 0;
    let mut event = |kind: &str, mut members: Value| {
        let mut data = json!({"type": kind, "sequence_number": number});
        data.as_object_mut()
            .unwrap()
            .append(members.as_object_mut().unwrap());
        number += 1;
        push(&mut stream, Some(kind), &data);
    };
    let response = |status: &str, output: Value| {
        json!({"response": {"id": "resp_67c9fdcecf488190bdd9a0409de3a1ec", "object": "response", "status": status,
            "model": "gpt-test", "output": output, "usage": null, "error": null}})
    };
    event("response.created", response("in_progress", json!([])));
    let thought: String = words().collect();
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": thought}],
        "encrypted_content": "gAAAA"});
    event(
        "response.output_item.added",
        json!({"output_index": 0, "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
    );
    event(
        "response.reasoning_summary_part.added",
        json!({"item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
    );
    for word in words() {
        event(
            "response.reasoning_summary_text.delta",
            json!({"item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": word,
                "obfuscation": "AbCdEfGhIjKl"}),
        );
    }
    event(
        "response.output_item.done",
        json!({"output_index": 0, "item": reasoning}),
    );
    let text: String = words().collect();
    let message = |status: &str, content: Value| json!({"id": "msg_1", "type": "message", "status": status, "role": "assistant", "content": content});
    event(
        "response.output_item.added",
        json!({"output_index": 1, "item": message("in_progress", json!([]))}),
    );
    event(
        "response.content_part.added",
        json!({"item_id": "msg_1", "output_index": 1, "content_index": 0,
            "part": {"type": "output_text", "text": "", "annotations": []}}),
    );
    for word in words() {
        event(
            "response.output_text.delta",
            json!({"item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": word, "logprobs": [],
                "obfuscation": "AbCdEfGhIjKl"}),
        );
    }
    let said = message(
        "completed",
        json!([{"type": "output_text", "text": text, "annotations": []}]),
    );
    event(
        "response.output_item.done",
        json!({"output_index": 1, "item": said}),
    );
    let whole: String = arguments().collect();
    let call = |status: &str, arguments: &str| {
        json!({"id": "fc_1", "type": "function_call", "status": status, "call_id": "call_1", "name": "Write",
            "arguments": arguments})
    };
    event(
        "response.output_item.added",
        json!({"output_index": 2, "item": call("in_progress", "")}),
    );
    for piece in arguments() {
        event(
            "response.function_call_arguments.delta",
            json!({"item_id": "fc_1", "output_index": 2, "delta": piece, "obfuscation": "AbCdEfGhIjKl"}),
        );
    }
    event(
        "response.function_call_arguments.done",
        json!({"item_id": "fc_1", "output_index": 2, "arguments": whole}),
    );
    let called = call("completed", &whole);
    event(
        "response.output_item.done",
        json!({"output_index": 2, "item": called}),
    );
    event(
        "response.completed",
        response("completed", json!([reasoning, said, called])),
    );
    stream
}

fn anthropic_stream() -> String {
    let mut stream = String::new();
    let mut event = |kind: &str, mut members: Value| {
        let mut data = json!({"type": kind});
        data.as_object_mut()
            .unwrap()
            .append(members.as_object_mut().unwrap());
        push(&mut stream, Some(kind), &data);
    };
    event(
        "message_start",
        json!({"message": {"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant",
            "content": [], "model": "test", "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 25, "output_tokens": 1}}}),
    );
    let mut block = |index: usize, start: Value, deltas: &mut dyn Iterator<Item = Value>| {
        event(
            "content_block_start",
            json!({"index": index, "content_block": start}),
        );
        for delta in deltas {
            event("content_block_delta", json!({"index": index, "delta": delta}));
        }
        event("content_block_stop", json!({"index": index}));
    };
    let mut thinking = words()
        .map(|word| json!({"type": "thinking_delta", "thinking": word}))
        .chain([json!({"type": "signature_delta", "signature": "EqQBCgIYAhIM"})]);
    block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &mut thinking,
    );
    let mut text = words().map(|word| json!({"type": "text_delta", "text": word}));
    block(1, json!({"type": "text", "text": ""}), &mut text);
    let mut pieces = arguments().map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
    block(
        2,
        json!({"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {}}),
        &mut pieces,
    );
    event(
        "message_delta",
        json!({"delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 20_000}}),
    );
    event("message_stop", json!({}));
    stream
}
