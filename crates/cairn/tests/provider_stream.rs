//! Raw OpenAI Chat streams in many dialects and cuts: each gives exactly one outcome, the same however it was cut into
//! pieces, and never a success without the endpoint's own terminal event.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests fail by panicking"
)]

#[path = "support/model_events.rs"]
mod model_events;
#[path = "provider_stream/options.rs"]
mod options;
#[path = "provider_stream/presets.rs"]
mod presets;
#[path = "support/provider_input.rs"]
mod provider_input;
#[path = "support/recorded.rs"]
mod recorded;
#[path = "support/streams.rs"]
mod streams;
#[path = "provider_stream/surrogate_halves.rs"]
mod surrogate_halves;

use std::sync::LazyLock;

use cairn::model::{ProviderFailure, ProviderFault, Usage};
use cairn::provider::StopReason;
use cairn::provider::openai_chat::{ChatDecoder, OpenAiChat};
use cairn::provider::sse::{SseError, SseReader};
use model_events::{Answer, call};
use serde_json::{Value, json};
use streams::{Outcome, assert_cuts, assert_same_in_all_pieces};

fn provider(options: &str) -> OpenAiChat {
    OpenAiChat::new(&provider_input::chat_model("http://127.0.0.1:1/v1", options)).unwrap()
}

/// Decodes pieces of a stream as the transport does.
fn decode_pieces<'a>(options: &str, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    // Making a provider loads the machine's certificates, which is too slow for every cut of every fixture.
    static PLAIN: LazyLock<OpenAiChat> = LazyLock::new(|| provider(""));
    let mut decoder = match options {
        "" => ChatDecoder::new(PLAIN.profile()),
        options => ChatDecoder::new(provider(options).profile()),
    };
    streams::decode_pieces(pieces, |event, events| match event {
        Some(event) => decoder.push(event, events),
        None => decoder.finish(events),
    })
}

fn decode(options: &str, stream: &[u8]) -> Outcome {
    decode_pieces(options, [stream])
}

/// A stream of chunks, ended by `[DONE]`.
fn chunks(chunks: &[Value]) -> String {
    let mut stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    stream.push_str("data: [DONE]\n\n");
    stream
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call_delta(piece: Value) -> Value {
    delta(json!({"tool_calls": [piece]}))
}

#[track_caller]
fn whole(stream: &str) -> Answer {
    let (events, failure) = decode("", stream.as_bytes());
    assert_eq!(failure, None);
    Answer::join(&events, true)
}

#[track_caller]
fn fails(stream: &str) -> ProviderFailure {
    let (events, failure) = decode("", stream.as_bytes());
    assert_eq!(Answer::join(&events, false).stop, None);
    failure.expect("the stream was taken as whole")
}

/// The calls that the pieces and a finish reason add up to.
#[track_caller]
fn check_calls(pieces: &[Value], expected: &[(Option<String>, String, String)]) {
    let mut stream: Vec<Value> = pieces.iter().cloned().map(call_delta).collect();
    stream.push(finish("tool_calls"));
    assert_eq!(whole(&chunks(&stream)).calls, expected);
}

fn usage(
    fresh: u64,
    read: Option<u64>,
    write: Option<u64>,
    output: u64,
    reasoning: Option<u64>,
) -> Option<Usage> {
    Some(Usage {
        fresh_input: Some(fresh),
        cache_read: read,
        cache_write: write,
        output: Some(output),
        reasoning,
    })
}

struct Fixture {
    name: &'static str,
    stream: &'static [u8],
    answer: Answer,
    /// The fields of the replay state.
    replay: Option<Value>,
}

fn fixtures() -> Vec<Fixture> {
    macro_rules! fixture {
        ($name:literal, $replay:expr, $answer:expr) => {
            Fixture {
                name: $name,
                stream: include_bytes!(concat!("fixtures/openai_chat/", $name, ".sse")),
                answer: $answer,
                replay: $replay,
            }
        };
    }
    let stop = Answer {
        stop: Some(StopReason::Stop),
        ..Answer::default()
    };
    let tools = Answer {
        stop: Some(StopReason::ToolUse),
        ..Answer::default()
    };
    vec![
        fixture!(
            "openai_text",
            None,
            Answer {
                text: "Grüße, 世界 😀 \"q\"\n".into(),
                usage: usage(6, Some(1920), Some(80), 300, Some(12)),
                ..stop.clone()
            }
        ),
        fixture!(
            "openai_parallel_calls",
            None,
            Answer {
                calls: vec![
                    call("call_a", "Read", r#"{"path": "ä.txt"}"#),
                    call("call_b", "Shell", r#"{"command":"ls"}"#),
                ],
                usage: usage(10, None, None, 4, None),
                ..tools.clone()
            }
        ),
        fixture!(
            "deepseek_thinking_call",
            Some(json!({"reasoning_content": "I need the \"file\"."})),
            Answer {
                text: "Reading.".into(),
                thinking: "I need the \"file\".".into(),
                calls: vec![call("call_00_x", "Read", r#"{"path":"a"}"#)],
                usage: usage(19, Some(320), None, 83, Some(37)),
                ..tools.clone()
            }
        ),
        fixture!(
            "openrouter_details",
            Some(json!({"reasoning": "Let me see", "reasoning_details": [
                {"type": "reasoning.text", "text": "Let me see", "format": "anthropic-claude-v1", "index": 0,
                 "signature": "c2ln"},
                {"type": "reasoning.encrypted", "data": "ZW5j", "id": "r1", "index": 1}]})),
            Answer {
                text: "Done.".into(),
                thinking: "Let me see".into(),
                usage: usage(50, Some(0), None, 9, None),
                ..stop.clone()
            }
        ),
        fixture!(
            "groq_whole_call",
            Some(json!({"reasoning": "Hm."})),
            Answer {
                thinking: "Hm.".into(),
                calls: vec![call("fc_1", "Read", r#"{"path":"a"}"#)],
                usage: usage(7, None, None, 3, None),
                ..tools.clone()
            }
        ),
        fixture!(
            "ollama_shared_index",
            Some(json!({"reasoning": "two files"})),
            Answer {
                thinking: "two files".into(),
                calls: vec![
                    call("call_1", "Read", r#"{"path":"a"}"#),
                    call("call_2", "Read", r#"{"path":"b"}"#),
                ],
                ..tools.clone()
            }
        ),
        fixture!(
            "mistral_parts",
            None,
            Answer {
                text: "Reading.".into(),
                thinking: "Both.".into(),
                calls: vec![
                    call("aB1", "Read", r#"{"path": "a"}"#),
                    call("aB2", "Read", r#"{"path": "b"}"#),
                ],
                usage: usage(5, None, None, 4, None),
                ..tools.clone()
            }
        ),
        fixture!(
            "qwen_empty_ids",
            Some(json!({"reasoning_content": ""})),
            Answer {
                calls: vec![call("call_q", "Read", r#"{"path": "a"}"#)],
                usage: usage(44, Some(256), None, 20, None),
                ..tools.clone()
            }
        ),
        fixture!(
            "vllm_cumulative_usage",
            None,
            Answer {
                text: "one two".into(),
                usage: usage(9, None, None, 2, None),
                ..stop.clone()
            }
        ),
        fixture!(
            "llamacpp_no_done",
            None,
            Answer {
                text: "ok".into(),
                usage: usage(1, Some(3), None, 1, None),
                ..stop
            }
        ),
        fixture!(
            "surrogate_halves",
            Some(json!({"reasoning": "Why 🤔?", "reasoning_details": [
                {"type": "reasoning.text", "text": "Why 🤔?", "format": "unknown", "index": 0,
                 "signature": "c2ln"}]})),
            Answer {
                text: "😀😀🌍 世".into(),
                thinking: "Why 🤔?".into(),
                calls: vec![
                    call("call_a", "Write", r#"{"text": "😀\ud83d\ude00"}"#),
                    call("call_b", "Write", r#"{"text": "🌍"}"#),
                ],
                ..tools.clone()
            }
        ),
        fixture!(
            "azure_legacy_call",
            None,
            Answer {
                calls: vec![(None, "Read".into(), r#"{"path":"a"}"#.into())],
                usage: usage(2, Some(6), None, 2, None),
                ..tools
            }
        ),
    ]
}

#[test]
fn every_dialect_is_read_whole() {
    let names = fixtures().into_iter().map(|fixture| fixture.name);
    recorded::assert_all_of_the_folder("openai_chat", ".sse", names.chain(presets::streams()));
    for fixture in fixtures() {
        let (events, failure) = decode("", fixture.stream);
        assert_eq!(failure, None, "{}", fixture.name);
        let mut answer = Answer::join(&events, true);
        let replay = answer.replay.take().map(|state| {
            assert!(
                state
                    .issuer
                    .starts_with("openai-chat|http://127.0.0.1:1/v1|up/stream-1|")
            );
            let payload: Value = serde_json::from_str(&state.payload).unwrap();
            assert_eq!(payload["version"], 1);
            payload["fields"].clone()
        });
        assert_eq!(answer, fixture.answer, "{}", fixture.name);
        assert_eq!(replay, fixture.replay, "{}", fixture.name);
    }
}

#[test]
fn pieces_line_ends_and_keep_alives_change_nothing() {
    for fixture in fixtures() {
        let text = std::str::from_utf8(fixture.stream).unwrap();
        assert_same_in_all_pieces(fixture.name, text, |pieces| {
            decode_pieces("", pieces.iter().copied())
        });
    }
}

#[test]
fn a_cut_stream_has_one_outcome_and_succeeds_only_after_the_terminal_event() {
    for fixture in fixtures() {
        let text = std::str::from_utf8(fixture.stream).unwrap();
        let decode = |pieces: &[&[u8]]| decode_pieces("", pieces.iter().copied());
        assert_cuts(fixture.name, text, has_finish_reason, decode, |_| false);
    }
}

/// Whether a line of a stream ends the answer.
fn has_finish_reason(line: &str) -> bool {
    line.contains(r#""finish_reason":""#) && !line.contains(r#""finish_reason":"""#)
}

#[test]
fn calls_are_told_apart_however_they_are_numbered() {
    let read = |path: &str| format!(r#"{{"path":"{path}"}}"#);
    let both = [call("a", "Read", &read("1")), call("b", "Read", &read("2"))];
    let piece = |index: Value, id: Value, name: Value, arguments: Value| {
        let mut piece = json!({"function": {"name": name, "arguments": arguments}, "id": id, "index": index});
        piece.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        piece["function"]
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        piece
    };
    let none = Value::Null;
    // All at index 0, without an index, starting at 1, with gaps.
    for (first, second) in [
        (json!(0), json!(0)),
        (none.clone(), none.clone()),
        (json!(1), json!(2)),
        (json!(7), json!(3)),
    ] {
        check_calls(
            &[
                piece(first, json!("a"), json!("Read"), json!(read("1"))),
                piece(second, json!("b"), json!("Read"), json!(read("2"))),
            ],
            &both,
        );
    }
    // Interleaved, with the id on the first fragment only.
    check_calls(
        &[
            piece(json!(0), json!("a"), json!("Read"), json!("{\"path\":")),
            piece(json!(1), json!("b"), json!("Read"), json!("{\"path\":")),
            piece(json!(0), none.clone(), none.clone(), json!("\"1\"}")),
            piece(json!(1), json!(""), json!(""), json!("\"2\"}")),
        ],
        &both,
    );
    // Id and name on each fragment; the last one with another id.
    check_calls(
        &[
            piece(json!(0), json!("a"), json!("Read"), json!("{\"path\":")),
            piece(json!(0), json!("a"), json!("Read"), json!("\"1")),
            piece(json!(0), json!("slip"), none.clone(), json!("\"}")),
        ],
        &both[..1],
    );
    // Without an index, continued by id and then by order.
    check_calls(
        &[
            piece(none.clone(), json!("a"), json!("Read"), json!("{\"path\":")),
            piece(none.clone(), json!("a"), none.clone(), json!("\"1")),
            piece(none.clone(), none.clone(), none.clone(), json!("\"}")),
        ],
        &both[..1],
    );
    // The name late, in fragments, and before the id.
    check_calls(
        &[
            piece(json!(0), json!("a"), json!(""), json!("")),
            piece(json!(0), none.clone(), json!("Re"), none.clone()),
            piece(json!(0), none.clone(), json!("ad"), none.clone()),
            piece(json!(0), none.clone(), none.clone(), json!(read("1"))),
        ],
        &both[..1],
    );
    check_calls(
        &[
            piece(json!(0), none.clone(), json!("Read"), json!("{\"path\":")),
            piece(json!(0), json!("a"), none.clone(), json!("\"1\"}")),
        ],
        &both[..1],
    );
    // No ids at all: a name after complete arguments opens a call.
    let nameless = |path: &str| (None, "Read".to_owned(), read(path));
    for index in [json!(0), none.clone()] {
        check_calls(
            &[
                piece(index.clone(), none.clone(), json!("Read"), json!(read("1"))),
                piece(index, none.clone(), json!("Read"), json!(read("2"))),
            ],
            &[nameless("1"), nameless("2")],
        );
    }
    let together = delta(json!({"tool_calls": [
        piece(none.clone(), none.clone(), json!("Read"), json!("{\"path\":")),
        piece(none.clone(), none.clone(), json!("Read"), json!("{\"path\":"))]}));
    let go_on = delta(json!({"tool_calls": [
        piece(none.clone(), none.clone(), none.clone(), json!("\"1\"}")),
        piece(none.clone(), none.clone(), none.clone(), json!("\"2\"}"))]}));
    assert_eq!(
        whole(&chunks(&[together, go_on, finish("stop")])).calls,
        [nameless("1"), nameless("2")]
    );
    // The same id twice at different places stays two calls; renaming is not the adapter's affair.
    check_calls(
        &[
            piece(json!(0), json!("a"), json!("Read"), json!(read("1"))),
            piece(json!(1), json!("a"), json!("Read"), json!(read("2"))),
        ],
        &[call("a", "Read", &read("1")), call("a", "Read", &read("2"))],
    );
}

#[test]
fn empty_arguments_are_an_empty_object_and_text_is_kept_byte_for_byte() {
    let with = |arguments: Value| json!({"index": 0, "id": "a", "function": {"name": "List", "arguments": arguments}});
    for arguments in [
        json!(""),
        Value::Null,
        json!(" "),
        json!("\n\t"),
        json!("null"),
        json!(" null "),
        json!({}),
        json!("{}"),
    ] {
        check_calls(&[with(arguments)], &[call("a", "List", "{}")]);
    }
    check_calls(
        &[json!({"index": 0, "id": "a", "function": {"name": "List"}})],
        &[call("a", "List", "{}")],
    );
    let odd = " {\"z\": 1.0,\"a\":[{\"k\" :2e3,\"é\":\"\\u00e9\"}], \"n\":9007199254740993}\n";
    check_calls(&[with(json!(odd))], &[call("a", "List", odd)]);
    for size in 1..4 {
        let characters: Vec<char> = odd.chars().collect();
        let mut pieces = vec![with(json!(""))];
        for part in characters.chunks(size) {
            let part: String = part.iter().collect();
            pieces.push(json!({"index": 0, "function": {"arguments": part}}));
        }
        check_calls(&pieces, &[call("a", "List", odd)]);
    }
    // An object instead of text: its own bytes.
    let stream = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"List","arguments":{"b": 1.0, "a":2}}}]},"finish_reason":"stop"}]}"#;
    assert_eq!(whole(stream).calls, [call("a", "List", r#"{"b": 1.0, "a":2}"#)]);
}

#[test]
fn broken_calls_fail_and_do_not_quote_arguments() {
    let call_of = |arguments: &str| {
        call_delta(json!({"index": 0, "id": "a", "function": {"name": "Read", "arguments": arguments}}))
    };
    for arguments in [r#"{"path": "SECRET"#, r#"{"path":"SECRET"}}"#, "SECRET", "nul"] {
        let failure = fails(&chunks(&[call_of(arguments), finish("tool_calls")]));
        assert_eq!(failure.fault, ProviderFault::Malformed, "{arguments}");
        assert!(failure.message.contains("tool call 0 (Read)"), "{failure}");
        assert!(!failure.message.contains("SECRET"), "{failure}");
    }
    for pieces in [
        // No name; more after an object; a name that changes; arguments of another type.
        vec![json!({"index": 0, "id": "a", "function": {"arguments": "{}"}})],
        vec![
            json!({"index": 0, "id": "a", "function": {"name": "Read", "arguments": {"path": "a"}}}),
            json!({"index": 0, "function": {"arguments": "}"}}),
        ],
        vec![
            json!({"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{"}}),
            json!({"index": 0, "function": {"name": "Write", "arguments": "}"}}),
        ],
        vec![json!({"index": 0, "id": "a", "function": {"name": "Read", "arguments": 3}})],
    ] {
        let mut stream: Vec<Value> = pieces.into_iter().map(call_delta).collect();
        stream.push(finish("tool_calls"));
        assert_eq!(
            fails(&chunks(&stream)).fault,
            ProviderFault::Malformed,
            "{stream:?}"
        );
    }
}

#[test]
fn complete_calls_decide_whether_the_run_goes_on() {
    let read = call_delta(json!({"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{}"}}));
    let hello = delta(json!({"content": "hello"}));
    for reason in ["stop", "tool_calls", "function_call"] {
        let answer = whole(&chunks(&[hello.clone(), read.clone(), finish(reason)]));
        assert_eq!(
            (answer.text.as_str(), answer.stop),
            ("hello", Some(StopReason::ToolUse))
        );
    }
    let answer = whole(&chunks(&[hello.clone(), finish("tool_calls")]));
    assert_eq!(
        (answer.text.as_str(), answer.stop),
        ("hello", Some(StopReason::Stop))
    );
    let failure = fails(&chunks(&[
        delta(json!({"role": "assistant"})),
        finish("tool_calls"),
    ]));
    assert_eq!(failure.fault, ProviderFault::Malformed);
    assert!(
        failure.message.contains("asked for tools but named none"),
        "{failure}"
    );
    // A second finish reason, an empty one, content after one, calls after one.
    let late = whole(&chunks(&[finish("stop"), finish("stop"), hello.clone()]));
    assert_eq!(late.text, "hello");
    assert_eq!(
        whole(&chunks(&[
            hello.clone(),
            finish("stop"),
            read,
            finish("tool_calls")
        ]))
        .calls
        .len(),
        1
    );
    assert_eq!(fails(&chunks(&[hello, finish("")])).fault, ProviderFault::Cut);
}

#[test]
fn a_stop_that_is_no_success_is_a_failure_of_its_kind() {
    let hello = delta(json!({"content": "hello"}));
    let report = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}});
    for (reason, fault, keeps_usage) in [
        ("length", ProviderFault::OutputLimit, true),
        ("content_filter", ProviderFault::Filtered, true),
        ("error", ProviderFault::Unavailable, false),
        ("insufficient_system_resource", ProviderFault::Unavailable, false),
    ] {
        let stream = chunks(&[hello.clone(), finish(reason), finish("stop"), report.clone()]);
        let (events, failure) = decode("", stream.as_bytes());
        let failure = failure.unwrap();
        assert_eq!((failure.fault, failure.code.as_deref()), (fault, Some(reason)));
        assert_eq!(
            Answer::join(&events, false).usage.is_some(),
            keeps_usage,
            "{reason}"
        );
    }
    assert_eq!(
        fails(&chunks(&[hello, finish("because")])).fault,
        ProviderFault::Malformed
    );
}

#[test]
fn done_alone_is_terminal_only_where_the_option_says_so() {
    let stream = chunks(&[delta(json!({"content": "hello"}))]);
    assert_eq!(fails(&stream).fault, ProviderFault::Cut);
    let (events, failure) = decode("done_is_terminal = true", stream.as_bytes());
    assert_eq!(failure, None);
    assert_eq!(Answer::join(&events, true).text, "hello");
    let cut = stream.replace("data: [DONE]\n\n", "");
    assert_eq!(
        decode("done_is_terminal = true", cut.as_bytes()).1.unwrap().fault,
        ProviderFault::Cut
    );
}

#[test]
fn an_error_inside_a_stream_is_the_endpoints_own() {
    let hello = format!("data: {}\n\n", delta(json!({"content": "hello"})));
    for (error, fault, words) in [
        (
            r#"data: {"error":{"message":"quota exceeded","code":null}}"#,
            ProviderFault::Quota,
            "quota exceeded",
        ),
        (
            r#"data: {"error":"overloaded, sorry","choices":[]}"#,
            ProviderFault::Unavailable,
            "overloaded, sorry",
        ),
        (
            r#"data: {"error":{"message":"slow","type":"rate_limit_error"},"choices":[]}"#,
            ProviderFault::RateLimited,
            "slow",
        ),
        (
            r#"data: {"error":{"message":"bad","code":400}}"#,
            ProviderFault::InvalidRequest,
            "bad",
        ),
        (
            r#"data: {"object":"error","message":"too long: maximum context length is 8 tokens"}"#,
            ProviderFault::ContextLength,
            "too long",
        ),
        (
            r#"error: {"message":"slot gone","type":"server_error"}"#,
            ProviderFault::Unavailable,
            "slot gone",
        ),
        (
            "event: error\ndata: plain words",
            ProviderFault::Unavailable,
            "plain words",
        ),
        ("event: error", ProviderFault::Unavailable, "overloaded or broken"),
    ] {
        for before in ["", &hello] {
            let failure = fails(&format!("{before}{error}\n\ndata: [DONE]\n\n"));
            assert_eq!(failure.fault, fault, "{error}");
            assert!(failure.message.contains(words), "{failure}");
        }
    }
}

#[test]
fn what_is_no_chunk_is_an_error_and_not_skipped() {
    for stream in [
        "data: {\"choices\":[\n\ndata: [DONE]\n\n",
        "data: {\"type\":\"response.created\"}\n\n",
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"message\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":5}}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":-1}}\n\n",
        "data:\n{\"choices\":[]}\n\n",
    ] {
        assert_eq!(fails(stream).fault, ProviderFault::Malformed, "{stream}");
    }
    // A gateway's own named event is no chunk and no error; an empty data line says nothing.
    let stream = format!(
        "event: ping\ndata: {{\"t\":1}}\n\ndata:\n\n{}",
        chunks(&[finish("stop")])
    );
    assert_eq!(whole(&stream).stop, Some(StopReason::Stop));
}

#[test]
fn bytes_that_are_no_text_are_reported_and_not_patched() {
    let read = |bytes: &[u8]| {
        let mut sse = SseReader::new();
        sse.push(bytes);
        match sse.next_event() {
            Err(fault) => Some(fault),
            Ok(Some(_)) => None,
            Ok(None) => sse.finish().err(),
        }
    };
    assert_eq!(read(b"data: \xff\n\n"), Some(SseError::InvalidUtf8));
    assert_eq!(read(b"data: a\xe4\xb8"), Some(SseError::EndsInsideCharacter));
    assert_eq!(read(b": \xff\ndata: a\n\n"), None);
}

#[test]
fn a_line_of_megabytes_is_read_and_an_endless_one_is_refused() {
    let text = "x".repeat(3 * 1024 * 1024);
    let stream = chunks(&[delta(json!({"content": text})), finish("stop")]);
    let (events, failure) = decode_pieces("", stream.as_bytes().chunks(7001));
    assert_eq!(failure, None);
    assert_eq!(Answer::join(&events, true).text, text);
    let mut sse = SseReader::new();
    sse.push(&vec![b'x'; cairn::provider::sse::MAX_EVENT_BYTES + 1]);
    assert_eq!(sse.next_event(), Err(SseError::TooLong));
    let mut sse = SseReader::new();
    let line = format!(
        "data: {}\n",
        "x".repeat(cairn::provider::sse::MAX_EVENT_BYTES / 2)
    );
    sse.push(line.as_bytes());
    sse.push(line.as_bytes());
    assert_eq!(sse.next_event(), Err(SseError::TooLong));
}
