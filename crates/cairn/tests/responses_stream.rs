//! Raw OpenAI Responses streams, with the oddities of several endpoints, and cuts: each gives exactly one outcome, the
//! same however it was cut into pieces, and never a success without the endpoint's own terminal event.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests fail by panicking"
)]

#[path = "support/model_events.rs"]
mod model_events;
#[path = "support/provider_input.rs"]
mod provider_input;
#[path = "support/recorded.rs"]
mod recorded;
#[path = "responses_stream/recorded.rs"]
mod recordings;
#[path = "support/streams.rs"]
mod streams;
#[path = "responses_stream/surrogate_halves.rs"]
mod surrogate_halves;

use std::sync::LazyLock;
use std::time::Duration;

use cairn::model::{ProviderFailure, ProviderFault, Usage};
use cairn::provider::openai_responses::{OpenAiResponses, ResponsesDecoder};
use cairn::provider::{ModelEvent, StopReason};
use model_events::{Answer, call};
use serde_json::{Value, json};
use streams::{assert_cuts, assert_same_in_all_pieces};

struct Outcome {
    events: Vec<ModelEvent>,
    failure: Option<ProviderFailure>,
    unknown: usize,
}

/// Decodes pieces of a stream as the transport does.
fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    // Making a provider loads the machine's certificates, which is too slow for every cut of every fixture.
    static PLAIN: LazyLock<OpenAiResponses> = LazyLock::new(|| {
        OpenAiResponses::new(&provider_input::responses_model("http://127.0.0.1:1/v1", "")).unwrap()
    });
    let mut decoder = ResponsesDecoder::new(PLAIN.profile());
    let (events, failure) = streams::decode_pieces(pieces, |event, events| match event {
        Some(event) => decoder.push(event, events),
        None => decoder.finish(events),
    });
    Outcome {
        events,
        failure,
        unknown: decoder.unknown_events(),
    }
}

fn decode(stream: &str) -> Outcome {
    decode_pieces([stream.as_bytes()])
}

/// A stream of events.
fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": []}})
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn read_call(call_id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{call_id}"), "call_id": call_id, "name": "Read",
        "arguments": arguments})
}

fn text_delta(index: u64, text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "delta": text})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn reasoning(encrypted_content: &str) -> Value {
    json!({"type": "reasoning", "id": encrypted_content, "summary": [], "encrypted_content": encrypted_content})
}

#[track_caller]
fn whole(events: &[Value]) -> Answer {
    let outcome = decode(&stream(events));
    assert_eq!(outcome.failure, None);
    Answer::join(&outcome.events, true)
}

#[track_caller]
fn fails(stream: &str) -> ProviderFailure {
    let outcome = decode(stream);
    assert_eq!(Answer::join(&outcome.events, false).stop, None);
    outcome.failure.expect("the stream was taken as whole")
}

/// The items of an answer's replay state.
fn replayed(answer: &mut Answer) -> Option<Value> {
    answer.replay.take().map(|state| {
        assert!(
            state
                .issuer
                .starts_with("openai-responses|http://127.0.0.1:1/v1|up/stream-1|")
        );
        let payload: Value = serde_json::from_str(&state.payload).unwrap();
        assert_eq!(payload["version"], 1);
        payload["items"].clone()
    })
}

struct Fixture {
    name: &'static str,
    stream: &'static str,
    /// The answer, or the fault.
    expected: Result<Answer, ProviderFault>,
    /// The items of the replay state.
    replay: Option<Value>,
    unknown: usize,
}

fn fixtures() -> Vec<Fixture> {
    macro_rules! fixture {
        ($name:literal, $replay:expr, $expected:expr) => {
            fixture!($name, $replay, $expected, 0)
        };
        ($name:literal, $replay:expr, $expected:expr, $unknown:expr) => {
            Fixture {
                name: $name,
                stream: include_str!(concat!("fixtures/openai_responses/", $name, ".sse")),
                expected: $expected,
                replay: $replay,
                unknown: $unknown,
            }
        };
    }
    let usage = |fresh, read, write, output, reasoning| {
        Some(Usage {
            fresh_input: Some(fresh),
            cache_read: read,
            cache_write: write,
            output: Some(output),
            reasoning,
        })
    };
    let stop = Answer {
        stop: Some(StopReason::Stop),
        ..Answer::default()
    };
    let tools = Answer {
        stop: Some(StopReason::ToolUse),
        ..Answer::default()
    };
    let read = || vec![call("call_a", "Read", r#"{"path":"a"}"#)];
    let thought = |encrypted: &str, summary: &[&str]| {
        let summary: Vec<Value> = summary
            .iter()
            .map(|text| json!({"type": "summary_text", "text": text}))
            .collect();
        json!({"type": "reasoning", "summary": summary, "encrypted_content": encrypted})
    };
    let said = |bytes: usize| json!({"type": "message", "parts": [{"type": "output_text", "bytes": bytes}]});
    let called = json!({"type": "function_call"});
    vec![
        fixture!(
            "text",
            None,
            Ok(Answer {
                text: "Grüße, 世界 😀 \"q\"\n".into(),
                usage: usage(6, Some(1920), Some(80), 300, Some(12)),
                ..stop.clone()
            })
        ),
        fixture!(
            "reasoning_parallel_calls",
            Some(json!([
                thought("gAAA+/=one", &["**Look** at both.", "Then \"run\"."]),
                thought("gAAA+/=two", &[]),
                called,
                called
            ])),
            Ok(Answer {
                thinking: "**Look** at both.\n\nThen \"run\".".into(),
                calls: vec![
                    call("call_a", "Read", r#"{"path": "ä.txt"}"#),
                    call("call_b", "Shell", r#"{"command":"ls"}"#),
                ],
                usage: usage(10, Some(0), None, 40, Some(32)),
                ..tools.clone()
            })
        ),
        fixture!(
            "phases",
            Some(json!([
                thought("ENC1", &["Plan."]),
                {"type": "message", "phase": "commentary", "parts": [{"type": "output_text", "bytes": 8}]},
                called,
                thought("ENC2", &[]),
                {"type": "message", "phase": "final_answer", "parts": [{"type": "output_text", "bytes": 5}]}
            ])),
            Ok(Answer {
                text: "Looking.Soon.".into(),
                thinking: "Plan.".into(),
                calls: read(),
                usage: usage(5, None, None, 6, Some(1)),
                ..tools.clone()
            })
        ),
        fixture!(
            "refusal",
            Some(json!([{"type": "message", "parts": [{"type": "refusal", "bytes": 16}]}])),
            Ok(Answer {
                text: "I can't do that.".into(),
                usage: usage(3, None, None, 4, Some(0)),
                ..stop.clone()
            })
        ),
        fixture!("incomplete", None, Err(ProviderFault::OutputLimit)),
        fixture!("failed", None, Err(ProviderFault::RateLimited)),
        fixture!("nested_error", None, Err(ProviderFault::Quota)),
        fixture!(
            "keepalive",
            None,
            Ok(Answer {
                text: "ok".into(),
                ..stop
            }),
            2
        ),
        fixture!(
            "done_only",
            Some(json!([thought("ENC", &["One.", "Two."]), said(8), called])),
            Ok(Answer {
                text: "Reading.".into(),
                thinking: "One.\n\nTwo.".into(),
                calls: read(),
                usage: usage(9, None, None, 9, Some(3)),
                ..tools.clone()
            })
        ),
        fixture!(
            "missing_added",
            Some(json!([thought("ENC", &[]), said(11), called])),
            Ok(Answer {
                text: "Here it is.".into(),
                thinking: "Let me look.".into(),
                calls: read(),
                usage: usage(4, None, None, 2, None),
                ..tools.clone()
            })
        ),
        fixture!(
            "terminal_output",
            Some(json!([thought("ENC", &["Hm."]), said(13), called])),
            Ok(Answer {
                text: "Reading. Now.".into(),
                thinking: "Hm.".into(),
                calls: vec![call("call_a", "List", "{}")],
                usage: usage(4, None, None, 2, None),
                ..tools
            })
        ),
    ]
}

#[test]
fn every_stream_is_read_whole() {
    let names = fixtures().into_iter().map(|fixture| fixture.name);
    recorded::assert_all_of_the_folder("openai_responses", ".sse", names);
    for fixture in fixtures() {
        let name = fixture.name;
        let outcome = decode(fixture.stream);
        assert_eq!(outcome.unknown, fixture.unknown, "{name}");
        match fixture.expected {
            Ok(expected) => {
                assert_eq!(outcome.failure, None, "{name}");
                let mut answer = Answer::join(&outcome.events, true);
                assert_eq!(replayed(&mut answer), fixture.replay, "{name}");
                assert_eq!(answer, expected, "{name}");
            }
            Err(fault) => {
                assert_eq!(Answer::join(&outcome.events, false).replay, None, "{name}");
                assert_eq!(
                    outcome.failure.map(|failure| failure.fault),
                    Some(fault),
                    "{name}"
                );
            }
        }
    }
}

fn decode_all(pieces: &[&[u8]]) -> streams::Outcome {
    let outcome = decode_pieces(pieces.iter().copied());
    (outcome.events, outcome.failure)
}

#[test]
fn pieces_line_ends_and_keep_alives_change_nothing() {
    for fixture in fixtures() {
        assert_same_in_all_pieces(fixture.name, fixture.stream, decode_all);
    }
}

#[test]
fn a_cut_stream_has_one_outcome_and_succeeds_only_after_the_terminal_event() {
    let is_terminal = |line: &str| {
        let ends = [
            "response.completed",
            "response.incomplete",
            "response.failed",
            "error",
        ];
        line.starts_with("data:")
            && ends
                .iter()
                .any(|kind| line.contains(&format!("\"type\":\"{kind}\"")))
    };
    for fixture in fixtures() {
        // The name of an error event is an error even without its data.
        let is_other = |failure: &ProviderFailure| {
            fixture.name == "nested_error" && failure.fault == ProviderFault::Unavailable
        };
        assert_cuts(fixture.name, fixture.stream, is_terminal, decode_all, is_other);
    }
}

#[test]
fn items_are_told_apart_however_they_are_numbered() {
    let both = [
        call("a", "Read", "{\"path\":\"1\"}"),
        call("b", "Read", "{\"path\":\"2\"}"),
    ];
    let first = read_call("a", "{\"path\":\"1\"}");
    let second = read_call("b", "{\"path\":\"2\"}");
    let begun = |call: &Value| {
        let mut call = call.clone();
        call["arguments"] = json!("");
        call
    };
    let piece = |index: Option<u64>, id: &str, delta: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": id, "delta": delta});
    // The same index for all, one after another.
    for (one, two) in [(0, 0), (0, 1), (7, 3)] {
        let events = [
            added(one, begun(&first)),
            piece(Some(one), "fc_a", "{\"path\":\"1\"}"),
            done(one, first.clone()),
            added(two, begun(&second)),
            piece(Some(two), "fc_b", "{\"path\":\"2\"}"),
            done(two, second.clone()),
            completed(),
        ];
        assert_eq!(whole(&events).calls, both, "{one} {two}");
    }
    // Mixed, told apart by the id alone: the same index, or none.
    for index in [Some(0), None] {
        let place = |mut event: Value| {
            event["output_index"] = json!(index);
            event
        };
        let events = [
            place(added(0, begun(&first))),
            place(added(0, begun(&second))),
            piece(index, "fc_a", "{\"path\":"),
            piece(index, "fc_b", "{\"path\":"),
            piece(index, "fc_a", "\"1\"}"),
            piece(index, "fc_b", "\"2\"}"),
            place(done(0, first.clone())),
            place(done(0, second.clone())),
            completed(),
        ];
        assert_eq!(whole(&events).calls, both, "{index:?}");
    }
    // Whole items only, twice the same, with one index and no `added`.
    let mut answer = whole(&[
        done(0, reasoning("E")),
        done(0, first.clone()),
        done(0, first.clone()),
        done(0, second.clone()),
        completed(),
    ]);
    assert_eq!(answer.calls, both);
    assert_eq!(
        replayed(&mut answer),
        Some(json!([
            {"type": "reasoning", "summary": [], "encrypted_content": "E"},
            {"type": "function_call"}, {"type": "function_call"}
        ]))
    );
    // Pieces only: the terminal event ends the call, if its name is known.
    let events = [
        added(0, begun(&first)),
        piece(Some(0), "x", "{\"path\":\"1\"}"),
        completed(),
    ];
    assert_eq!(whole(&events).calls, both[..1]);
    let nameless = fails(&stream(&[piece(Some(0), "x", "{}"), completed()]));
    assert_eq!(nameless.fault, ProviderFault::Malformed);
    assert!(nameless.message.contains("tool call 0 has no name"), "{nameless}");
}

#[test]
fn only_a_whole_items_encrypted_content_is_replayed_and_only_with_its_follower() {
    let partial = reasoning("PARTIAL");
    let mut answer = whole(&[
        added(0, partial.clone()),
        text_delta(1, "hi"),
        done(1, message("hi")),
        completed(),
    ]);
    assert_eq!(replayed(&mut answer), None, "its done item never came");
    let mut trailing = whole(&[
        done(0, reasoning("A")),
        done(1, message("hi")),
        done(2, reasoning("B")),
        completed(),
    ]);
    let kept = replayed(&mut trailing).unwrap();
    assert_eq!(kept.as_array().unwrap().len(), 2);
    assert_eq!(kept[0]["encrypted_content"], "A");
    let mut alone = whole(&[done(0, reasoning("A")), done(1, message("")), completed()]);
    assert_eq!(replayed(&mut alone), None);
    assert_eq!((alone.text.as_str(), alone.stop), ("", Some(StopReason::Stop)));
    let mut plain = reasoning("");
    plain["encrypted_content"] = Value::Null;
    let mut unreadable = whole(&[done(0, plain), done(1, message("hi")), completed()]);
    assert_eq!(replayed(&mut unreadable), None);
}

#[test]
fn arguments_are_kept_byte_for_byte_and_empty_ones_are_an_empty_object() {
    for arguments in [
        json!(""),
        Value::Null,
        json!(" "),
        json!("null"),
        json!("{}"),
        json!({}),
    ] {
        let mut item = read_call("a", "");
        item["arguments"] = arguments;
        assert_eq!(
            whole(&[done(0, item), completed()]).calls,
            [call("a", "Read", "{}")]
        );
    }
    let odd = " {\"z\": 1.0,\"a\":[{\"k\" :2e3,\"é\":\"\\u00e9\"}], \"n\":9007199254740993}\n";
    let answer = whole(&[done(0, read_call("a", odd)), completed()]);
    assert_eq!(answer.calls, [call("a", "Read", odd)]);
    for arguments in [r#"{"path": "SECRET"#, r#"{"path":"SECRET"}}"#, "SECRET"] {
        let failure = fails(&stream(&[done(0, read_call("a", arguments)), completed()]));
        assert_eq!(failure.fault, ProviderFault::Malformed);
        assert!(failure.message.contains("tool call 0 (Read)"), "{failure}");
        assert!(!failure.message.contains("SECRET"), "{failure}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let piece = json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"path\":\"x"});
    for events in [
        // The whole is not what its pieces said.
        vec![text_delta(0, "hello"), done(0, message("goodbye")), completed()],
        vec![
            added(0, read_call("a", "")),
            piece,
            done(0, read_call("a", "{\"path\":\"y\"}")),
            completed(),
        ],
        // Two messages at a time.
        vec![
            text_delta(0, "a"),
            text_delta(1, "b"),
            text_delta(0, "c"),
            completed(),
        ],
        // A tool of a kind that nobody offered.
        vec![
            done(
                0,
                json!({"type": "custom_tool_call", "call_id": "c", "name": "x", "input": "y"}),
            ),
            completed(),
        ],
        vec![json!({"type": "response.completed"})],
        vec![json!({"type": "response.completed", "response": {"status": "in_progress"}})],
        vec![json!({"type": "response.output_item.done", "output_index": 0})],
        vec![json!({"type": "response.output_text.delta", "output_index": 0, "delta": 5})],
        vec![json!({"type": "response.completed", "response": {"usage": {"input_tokens": -1}}})],
        vec![json!({"response": {}})],
    ] {
        assert_eq!(
            fails(&stream(&events)).fault,
            ProviderFault::Malformed,
            "{events:?}"
        );
    }
    let chat = r#"data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
    let failure = fails(&format!("{chat}\n\n"));
    assert_eq!(failure.fault, ProviderFault::Malformed);
    assert!(failure.message.contains("openai-chat"), "{failure}");
    assert_eq!(
        fails("data: {\"type\":\"response.output_text.delta\",\n\n").fault,
        ProviderFault::Malformed
    );
}

#[test]
fn a_reported_failure_is_told_once_in_the_endpoints_words() {
    let failed =
        |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    for (event, fault, words) in [
        (
            json!({"type": "error", "code": "server_error", "message": "oops", "param": null}),
            ProviderFault::Unavailable,
            "oops",
        ),
        (
            json!({"type": "error", "message": "bad input", "error": {"type": "invalid_request_error",
                "message": "bad input"}}),
            ProviderFault::InvalidRequest,
            "bad input",
        ),
        (
            failed(json!({"code": "context_length_exceeded", "message": "too long"})),
            ProviderFault::ContextLength,
            "too long",
        ),
        (
            failed(json!({"code": "invalid_prompt", "message": "no"})),
            ProviderFault::InvalidRequest,
            "no",
        ),
        (
            failed(Value::Null),
            ProviderFault::Unavailable,
            "overloaded or broken",
        ),
        (
            json!({"error": {"message": "quota exceeded", "code": null}}),
            ProviderFault::Quota,
            "quota exceeded",
        ),
    ] {
        for before in [vec![], vec![text_delta(0, "half")]] {
            let events: Vec<Value> = before.into_iter().chain([event.clone(), completed()]).collect();
            let failure = fails(&stream(&events));
            assert_eq!(failure.fault, fault, "{event}");
            assert!(failure.message.contains(words), "{failure}");
            assert!(!failure.message.contains("(error)"), "{failure}");
        }
    }
    for (words, wait) in [
        ("Please try again in 1.5s.", Some(1500)),
        ("Please try again in 20ms.", Some(20)),
        ("Please try again later.", None),
    ] {
        let failure = fails(&stream(&[failed(
            json!({"code": "rate_limit_exceeded", "message": words}),
        )]));
        assert_eq!(failure.retry_after, wait.map(Duration::from_millis), "{words}");
    }
}

#[test]
fn an_incomplete_answer_is_a_failure_of_its_kind() {
    for (reason, fault, keeps_usage) in [
        (
            json!({"reason": "max_output_tokens"}),
            ProviderFault::OutputLimit,
            true,
        ),
        (json!({"reason": "content_filter"}), ProviderFault::Filtered, true),
        (json!({"reason": "else"}), ProviderFault::Unavailable, false),
        (Value::Null, ProviderFault::Unavailable, false),
    ] {
        for kind in ["response.incomplete", "response.completed"] {
            let outcome = decode(&stream(&[
                text_delta(0, "half"),
                json!({"type": kind, "response": {"status": "incomplete", "incomplete_details": reason,
                    "usage": {"input_tokens": 3, "output_tokens": 4}}}),
                completed(),
            ]));
            assert_eq!(outcome.failure.map(|failure| failure.fault), Some(fault));
            assert_eq!(Answer::join(&outcome.events, false).usage.is_some(), keeps_usage);
        }
    }
}
