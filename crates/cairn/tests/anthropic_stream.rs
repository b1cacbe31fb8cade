//! Raw Anthropic Messages streams and cuts of them: each gives exactly one outcome, the same however it was cut into
//! pieces, and never a success without `message_stop`.

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
#[path = "anthropic_stream/recorded.rs"]
mod recordings;
#[path = "support/streams.rs"]
mod streams;
#[path = "anthropic_stream/surrogate_halves.rs"]
mod surrogate_halves;

use std::sync::LazyLock;

use cairn::model::{ProviderFailure, ProviderFault, Usage};
use cairn::provider::StopReason;
use cairn::provider::anthropic::{Anthropic, AnthropicDecoder};
use model_events::{Answer, call};
use serde_json::{Value, json};
use streams::{Outcome, assert_cuts, assert_same_in_all_pieces};

/// Decodes pieces of a stream as the transport does.
fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    // Making a provider loads the machine's certificates, which is too slow for every cut of every fixture.
    static PROVIDER: LazyLock<Anthropic> = LazyLock::new(|| {
        Anthropic::new(&provider_input::anthropic_model("http://127.0.0.1:1/v1", "")).unwrap()
    });
    let mut decoder = AnthropicDecoder::new(PROVIDER.profile());
    streams::decode_pieces(pieces, |event, events| match event {
        Some(event) => decoder.push(event, events),
        None => decoder.finish(),
    })
}

fn decode(stream: &[u8]) -> Outcome {
    decode_pieces([stream])
}

#[track_caller]
fn whole(stream: &str) -> Answer {
    let (events, failure) = decode(stream.as_bytes());
    assert_eq!(failure, None, "{stream}");
    Answer::join(&events, true)
}

#[track_caller]
fn fails(stream: &str) -> (Answer, ProviderFailure) {
    let (events, failure) = decode(stream.as_bytes());
    let answer = Answer::join(&events, false);
    assert_eq!(answer.stop, None);
    (answer, failure.expect("the stream was taken as whole"))
}

/// A stream of these events.
fn stream(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or("x")
        )
    };
    events.iter().map(line).collect()
}

fn start(usage: Value) -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": usage}})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn reason(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn text(index: u64, text: &str) -> [Value; 3] {
    [
        block(index, json!({"type": "text", "text": ""})),
        delta(index, json!({"type": "text_delta", "text": text})),
        end(index),
    ]
}

fn tool(index: u64, input: Value, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![block(
        index,
        json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": input}),
    )];
    events.extend(
        pieces
            .iter()
            .map(|piece| delta(index, json!({"type": "input_json_delta", "partial_json": piece}))),
    );
    events.push(end(index));
    events
}

/// A stream with these events between its start and its end.
fn answer_of(inner: &[Value], why: &str) -> String {
    let mut events = vec![start(json!({"input_tokens": 5, "output_tokens": 1}))];
    events.extend_from_slice(inner);
    events.extend([reason(why), stop()]);
    stream(&events)
}

struct Fixture {
    name: &'static str,
    stream: &'static [u8],
    answer: Answer,
    /// The blocks of the replay state.
    replay: Option<&'static str>,
}

fn usage(
    fresh: Option<u64>,
    read: Option<u64>,
    write: Option<u64>,
    output: u64,
    reasoning: Option<u64>,
) -> Option<Usage> {
    Some(Usage {
        fresh_input: fresh,
        cache_read: read,
        cache_write: write,
        output: Some(output),
        reasoning,
    })
}

fn fixtures() -> Vec<Fixture> {
    macro_rules! fixture {
        ($name:literal, $replay:expr, $answer:expr) => {
            Fixture {
                name: $name,
                stream: include_bytes!(concat!("fixtures/anthropic/", $name, ".sse")),
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
            "text",
            None,
            Answer {
                text: "Grüße, 世界 😀 \"q\"\n".into(),
                usage: usage(Some(25), None, None, 15, None),
                ..stop.clone()
            }
        ),
        fixture!(
            "thinking_call",
            Some(
                r#"[{"raw":{"type":"thinking","thinking":"I need the \"文件\".","signature":"c2lnbmVk"}},{"text":8},{"call":0}]"#
            ),
            Answer {
                text: "Reading.".into(),
                thinking: "I need the \"文件\".".into(),
                calls: vec![call(
                    "toolu_1",
                    "Read",
                    "{\"path\": \"ä.txt\",\"n\":1.0,\"a\":1e3}"
                )],
                usage: usage(Some(19), Some(42036), Some(4927), 83, Some(37)),
                ..tools.clone()
            }
        ),
        fixture!(
            "interleaved",
            Some(concat!(
                r#"[{"raw":{"type":"thinking","thinking":"first","signature":"czE="}},"#,
                r#"{"raw":{"type":"redacted_thinking","data":"RW5j+/=="}},{"text":5},{"call":0},"#,
                r#"{"raw":{"type":"thinking","thinking":"","signature":"czI="}},{"text":4},{"call":1}]"#
            )),
            Answer {
                text: "One. Two.".into(),
                thinking: "first".into(),
                calls: vec![
                    call("toolu_a", "Read", r#"{"path":"a"}"#),
                    call("toolu_b", "Shell", r#"{"command":"ls"}"#),
                ],
                usage: usage(Some(10), None, None, 60, None),
                ..tools.clone()
            }
        ),
        fixture!(
            "no_delta_input",
            None,
            Answer {
                calls: vec![
                    call("toolu_1", "List", "{}"),
                    call("toolu_2", "List", "{}"),
                    call("toolu_3", "Read", r#"{"path": "a","b":1.0}"#),
                ],
                usage: usage(Some(4), None, None, 9, None),
                ..tools
            }
        ),
        fixture!(
            "gateway",
            None,
            Answer {
                text: "ok".into(),
                usage: usage(Some(18), Some(8831), None, 426, None),
                ..stop.clone()
            }
        ),
        fixture!(
            "unsigned_thinking",
            Some(r#"[{"raw":{"type":"thinking","thinking":"hm"}},{"text":2}]"#),
            Answer {
                text: "ok".into(),
                thinking: "hm".into(),
                usage: usage(Some(0), None, None, 15, None),
                ..stop
            }
        ),
    ]
}

/// The recorded streams that are no answer.
const NO_ANSWERS: [(&str, &str); 3] = [
    ("max_tokens", include_str!("fixtures/anthropic/max_tokens.sse")),
    ("refusal", include_str!("fixtures/anthropic/refusal.sse")),
    ("overloaded", include_str!("fixtures/anthropic/overloaded.sse")),
];

/// Every recorded stream with its name.
fn streams_of_all_kinds() -> Vec<(&'static str, &'static str)> {
    let answers = fixtures().into_iter();
    let answers = answers.map(|fixture| (fixture.name, std::str::from_utf8(fixture.stream).unwrap()));
    let all: Vec<_> = answers.chain(NO_ANSWERS).collect();
    recorded::assert_all_of_the_folder("anthropic", ".sse", all.iter().map(|(name, _)| *name));
    all
}

#[test]
fn every_answer_is_read_whole() {
    for fixture in fixtures() {
        let (events, failure) = decode(fixture.stream);
        assert_eq!(failure, None, "{}", fixture.name);
        let mut answer = Answer::join(&events, true);
        let replay = answer.replay.take().map(|state| {
            assert!(
                state
                    .issuer
                    .starts_with("anthropic|http://127.0.0.1:1/v1|up/stream-1|"),
                "{}",
                state.issuer
            );
            state.payload.to_string()
        });
        let expected = fixture
            .replay
            .map(|blocks| format!(r#"{{"version":1,"blocks":{blocks}}}"#));
        assert_eq!(answer, fixture.answer, "{}", fixture.name);
        assert_eq!(replay, expected, "{}", fixture.name);
    }
}

#[test]
fn pieces_line_ends_keep_alives_and_pings_change_nothing() {
    for (name, text) in streams_of_all_kinds() {
        assert_same_in_all_pieces(name, text, |pieces| decode_pieces(pieces.iter().copied()));
        let pings = text.replace("\n\n", "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n");
        assert_eq!(decode(pings.as_bytes()), decode(text.as_bytes()), "{name}");
    }
}

#[test]
fn a_cut_stream_has_one_outcome_and_succeeds_only_after_message_stop() {
    let is_terminal = |line: &str| {
        line.contains(r#"{"type":"message_stop"}"#) || line.starts_with(r#"data: {"type":"error""#)
    };
    let decode = |pieces: &[&[u8]]| decode_pieces(pieces.iter().copied());
    for (name, text) in streams_of_all_kinds() {
        // The name of an error event is an error even without its data.
        let is_other =
            |failure: &ProviderFailure| name == "overloaded" && failure.fault == ProviderFault::Unavailable;
        assert_cuts(name, text, is_terminal, decode, is_other);
    }
}

#[test]
fn a_stop_that_is_no_success_is_a_failure_of_its_kind_and_keeps_its_usage() {
    let [max_tokens, refusal, _] = NO_ANSWERS;
    for ((_, text), fault, words) in [
        (max_tokens, ProviderFault::OutputLimit, "raise max_output_tokens"),
        (
            refusal,
            ProviderFault::Filtered,
            "category cyber: This asks for harm",
        ),
    ] {
        let (answer, failure) = fails(text);
        assert_eq!(failure.fault, fault);
        assert!(failure.message.contains(words), "{failure}");
        assert_eq!(answer.usage.unwrap().fresh_input, Some(4));
    }
    for (why, fault) in [
        ("max_tokens", ProviderFault::OutputLimit),
        ("model_context_window_exceeded", ProviderFault::ContextLength),
        ("refusal", ProviderFault::Filtered),
        ("pause_turn", ProviderFault::Unsupported),
    ] {
        let (answer, failure) = fails(&answer_of(&text(0, "hello"), why));
        assert_eq!((failure.fault, failure.code.as_deref()), (fault, Some(why)));
        assert_eq!(answer.usage, usage(Some(5), None, None, 7, None));
    }
    // Cut at the limit inside a block that never ended.
    let open = &text(0, "hello")[..2];
    assert_eq!(
        fails(&answer_of(open, "max_tokens")).1.fault,
        ProviderFault::OutputLimit
    );
    assert_eq!(
        fails(&answer_of(open, "end_turn")).1.fault,
        ProviderFault::Malformed
    );
    assert_eq!(
        fails(&answer_of(&[], "because")).1.fault,
        ProviderFault::Malformed
    );
}

#[test]
fn complete_calls_decide_whether_the_run_goes_on() {
    for why in ["end_turn", "tool_use", "stop_sequence"] {
        let answer = whole(&answer_of(&tool(0, json!({}), &["{}"]), why));
        assert_eq!((answer.calls.len(), answer.stop), (1, Some(StopReason::ToolUse)));
    }
    let answer = whole(&answer_of(&text(0, "hello"), "tool_use"));
    assert_eq!(
        (answer.text.as_str(), answer.stop),
        ("hello", Some(StopReason::Stop))
    );
    let (_, failure) = fails(&answer_of(&[], "tool_use"));
    assert_eq!(failure.fault, ProviderFault::Malformed);
    assert!(
        failure.message.contains("asked for tools but named none"),
        "{failure}"
    );
    // An empty answer is an answer.
    assert_eq!(whole(&answer_of(&[], "end_turn")).stop, Some(StopReason::Stop));
}

#[test]
fn counts_replace_one_another_and_a_zero_wipes_out_nothing() {
    let with = |events: &[Value]| {
        let mut all = events.to_vec();
        all.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
        all.push(stop());
        // The message itself may carry the last counts, with no delta.
        whole(&stream(&all)).usage
    };
    let counts = |usage: Value| json!({"type": "message_delta", "delta": {}, "usage": usage});
    assert_eq!(
        with(&[
            start(json!({"input_tokens": 8834, "output_tokens": 0})),
            counts(json!({"input_tokens": 18, "output_tokens": 426, "cache_read_input_tokens": 8831})),
        ]),
        usage(Some(18), Some(8831), None, 426, None)
    );
    assert_eq!(
        with(&[
            start(json!({"input_tokens": 25, "output_tokens": 1})),
            counts(json!({"output_tokens": 15}))
        ]),
        usage(Some(25), None, None, 15, None)
    );
    assert_eq!(
        with(&[
            start(Value::Null),
            counts(json!({"output_tokens": 5})),
            counts(json!({"output_tokens": 15}))
        ]),
        usage(None, None, None, 15, None)
    );
    assert_eq!(
        with(&[
            start(json!({"input_tokens": 9, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 0})),
            counts(json!({"input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 3})),
        ]),
        usage(Some(9), Some(0), Some(4), 3, None)
    );
    assert_eq!(with(&[start(Value::Null)]), None);
}

#[test]
fn an_input_is_an_object_and_its_text_is_kept_byte_for_byte() {
    for pieces in [&[][..], &[""], &[" "], &["", "\n"], &["{}"]] {
        let calls = whole(&answer_of(&tool(0, json!({}), pieces), "tool_use")).calls;
        assert_eq!(calls, [call("toolu_1", "Read", "{}")], "{pieces:?}");
    }
    // The word for nothing, as text and in place of the text.
    let unsaid = delta(0, json!({"type": "input_json_delta", "partial_json": null}));
    let mut events = tool(0, json!({}), &["nu", "ll"]);
    events.insert(1, unsaid);
    let calls = whole(&answer_of(&events, "tool_use")).calls;
    assert_eq!(calls, [call("toolu_1", "Read", "{}")]);
    let odd = " {\"z\": 1.0,\"a\":[{\"k\" :2e3,\"é\":\"\\u00e9\"}], \"n\":9007199254740993}\n";
    for size in 1..4 {
        let characters: Vec<char> = odd.chars().collect();
        let parts: Vec<String> = characters
            .chunks(size)
            .map(|part| part.iter().collect())
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let calls = whole(&answer_of(&tool(0, json!({}), &parts), "tool_use")).calls;
        assert_eq!(calls, [call("toolu_1", "Read", odd)]);
    }
    for pieces in [
        &["{\"path\": \"SECRET"][..],
        &["[\"SECRET\"]"],
        &["SECRET"],
        &["{}}"],
    ] {
        let (_, failure) = fails(&answer_of(&tool(0, json!({}), pieces), "tool_use"));
        assert_eq!(failure.fault, ProviderFault::Malformed, "{pieces:?}");
        assert!(failure.message.contains("tool call 0 (Read)"), "{failure}");
        assert!(!failure.message.contains("SECRET"), "{failure}");
    }
    let twice = tool(0, json!({"path": "a"}), &["{\"path\":\"b\"}"]);
    assert_eq!(
        fails(&answer_of(&twice, "tool_use")).1.fault,
        ProviderFault::Malformed
    );
}

#[test]
fn an_error_inside_a_stream_is_the_endpoints_own() {
    let [.., (_, overloaded)] = NO_ANSWERS;
    let (answer, failure) = fails(overloaded);
    assert_eq!(
        (answer.text.as_str(), failure.fault, failure.code.as_deref()),
        ("hel", ProviderFault::Unavailable, Some("overloaded_error"))
    );
    for (error, fault, words) in [
        (
            r#"event:error
data:{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
            ProviderFault::RateLimited,
            "slow",
        ),
        (
            r#"data: {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
            ProviderFault::ContextLength,
            "too long",
        ),
        (
            r#"data: {"error":{"type":"authentication_error","message":"who?"}}"#,
            ProviderFault::Authentication,
            "who?",
        ),
        (
            "event: error\ndata: plain words",
            ProviderFault::Unavailable,
            "plain words",
        ),
        ("event: error", ProviderFault::Unavailable, "overloaded or broken"),
    ] {
        for before in [String::new(), stream(&[start(Value::Null)])] {
            let (events, failure) = decode(format!("{before}{error}\n\n{}", stream(&[stop()])).as_bytes());
            let failure = failure.unwrap();
            assert_eq!((events, failure.fault), (vec![], fault), "{error}");
            assert!(failure.message.contains(words), "{failure}");
        }
    }
}

#[test]
fn what_comes_out_of_turn_is_an_error_and_not_skipped() {
    let began = || start(Value::Null);
    let hello = text(0, "hello");
    for (events, words) in [
        (vec![hello[0].clone()], "before message_start"),
        (vec![reason("end_turn")], "before message_start"),
        (vec![json!({"type": "message_start"})], "holds no message"),
        (
            vec![json!({"type": "message_start", "message": {"content": [{"type": "text", "text": "a"}]}})],
            "should be streamed",
        ),
        (
            vec![
                began(),
                json!({"type": "message_start", "message": {"id": "msg_2"}}),
            ],
            "second message",
        ),
        (vec![began(), hello[1].clone()], "not open"),
        (vec![began(), hello[2].clone()], "not open"),
        (
            vec![began(), hello[0].clone(), hello[0].clone()],
            "before block 0 ended",
        ),
        (
            vec![began(), hello[0].clone(), hello[2].clone(), hello[0].clone()],
            "twice or out of order",
        ),
        (
            vec![began(), reason("end_turn"), hello[0].clone()],
            "after the stop reason",
        ),
        (
            vec![began(), reason("end_turn"), reason("tool_use")],
            "stop_reason changed",
        ),
        (vec![began(), stop()], "without a stop_reason"),
        (vec![began(), block(0, json!({"text": ""}))], "no type"),
        (
            vec![began(), block(0, json!({"type": "text", "text": 5}))],
            "cannot be read",
        ),
        (
            vec![began(), block(0, json!({"type": "tool_use", "id": "a"}))],
            "no name",
        ),
        (
            vec![
                began(),
                hello[0].clone(),
                delta(0, json!({"type": "thinking_delta", "thinking": "a"})),
            ],
            "cannot take a thinking_delta",
        ),
        (
            vec![began(), hello[0].clone(), delta(0, json!({"type": "text_delta"}))],
            "empty of its field",
        ),
        (
            vec![
                began(),
                block(
                    0,
                    json!({"type": "server_tool_use", "id": "a", "name": "b", "input": {}}),
                ),
                delta(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
            ],
            "cannot take a input_json_delta",
        ),
        (
            vec![
                began(),
                block(0, json!({"type": "odd"})),
                delta(0, json!({"type": "odd_delta"})),
            ],
            "unknown type odd",
        ),
        (
            vec![began(), json!({"type": "content_block_delta", "delta": 5})],
            "cannot be read",
        ),
        (vec![json!({"choices": []})], "check api and base_url"),
    ] {
        let mut all: String = stream(&events);
        all = all.replace("event: x\n", "");
        let (_, failure) = fails(&all);
        assert_eq!(failure.fault, ProviderFault::Malformed, "{all}");
        assert!(failure.message.contains(words), "{words}: {failure}");
    }
    assert_eq!(fails("data: {\"type\":\n\n").1.fault, ProviderFault::Malformed);
    assert_eq!(fails("data: [DONE]\n\n").1.fault, ProviderFault::Cut);
}

#[test]
fn unknown_events_blocks_and_deltas_take_nothing_away() {
    let mut inner = vec![
        json!({"type": "new_event", "delta": 5}),
        block(0, json!({"type": "fallback", "to": "m"})),
        end(0),
    ];
    inner.extend(text(1, "hello"));
    inner.insert(4, delta(1, json!({"type": "new_delta"})));
    let answer = whole(&answer_of(&inner, "end_turn"));
    assert_eq!(answer.text, "hello");
    assert_eq!(
        &*answer.replay.unwrap().payload,
        r#"{"version":1,"blocks":[{"raw":{"type":"fallback","to":"m"}},{"text":5}]}"#
    );
}

#[test]
fn nothing_is_shown_before_the_first_word() {
    let hidden = [
        start(Value::Null),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        end(0),
        block(1, json!({"type": "redacted_thinking", "data": "ZQ=="})),
        end(1),
        block(2, json!({"type": "text", "text": ""})),
    ];
    let (events, failure) = decode(stream(&hidden).as_bytes());
    assert_eq!((events, failure.unwrap().fault), (vec![], ProviderFault::Cut));
}
