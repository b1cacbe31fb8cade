//! Surrogate pairs that a sender cut between two deltas: joined within their channel, and reported where a half is left.

use cairn::model::ProviderFault;
use serde_json::Value;

use crate::model_events::Answer;
use crate::streams::{JOINED_HALVES, LONE_HALF, LONE_HALVES};
use crate::{chunks, fails, finish, whole};

/// A stream whose deltas are given as JSON text, because no JSON value can hold half of a surrogate pair.
fn raw_deltas(deltas: &[&str], reason: &str) -> String {
    let mut stream: String = deltas
        .iter()
        .map(|delta| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n"))
        .collect();
    stream.push_str(&chunks(&[finish(reason)]));
    stream
}

/// A delta with the text `TEXT` in it, and what shows the joined text.
type Channel = (&'static str, fn(&Answer) -> String);

/// Every channel of an answer.
const CHANNELS: [Channel; 8] = [
    (r#"{"content":"TEXT"}"#, |answer| answer.text.clone()),
    (r#"{"refusal":"TEXT"}"#, |answer| answer.text.clone()),
    (r#"{"content":[{"type":"text","text":"TEXT"}]}"#, |answer| {
        answer.text.clone()
    }),
    (
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"TEXT"}]}]}"#,
        |answer| answer.thinking.clone(),
    ),
    (r#"{"reasoning_content":"TEXT"}"#, |answer| {
        recorded(answer, "/reasoning_content")
    }),
    (r#"{"reasoning":"TEXT"}"#, |answer| recorded(answer, "/reasoning")),
    (
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"TEXT","index":0}]}"#,
        |answer| recorded(answer, "/reasoning_details/0/text"),
    ),
    (
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"Write","arguments":"TEXT"}}]}"#,
        |answer| answer.calls[0].2.clone(),
    ),
];

/// A text of the replay state, which must be the thinking that was shown.
#[track_caller]
fn recorded(answer: &Answer, pointer: &str) -> String {
    let payload: Value = serde_json::from_str(&answer.replay.as_ref().unwrap().payload).unwrap();
    let text = payload["fields"].pointer(pointer).unwrap().as_str().unwrap();
    assert_eq!(answer.thinking, text);
    text.to_owned()
}

#[test]
fn surrogate_halves_of_one_channel_are_joined_across_deltas() {
    for (delta, text) in CHANNELS {
        for pieces in JOINED_HALVES {
            let deltas: Vec<String> = pieces.iter().map(|piece| delta.replace("TEXT", piece)).collect();
            let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
            let answer = whole(&raw_deltas(&deltas, "stop"));
            assert_eq!(text(&answer), "\"a😀b\"", "{deltas:?}");
        }
    }
}

#[test]
fn a_half_waits_for_its_own_channel_only() {
    let answer = whole(&raw_deltas(
        &[
            r#"{"reasoning_content":"\ud83d","content":"\ud83c"}"#,
            r#"{"content":"\udf0d","reasoning_content":"\ude00"}"#,
        ],
        "stop",
    ));
    assert_eq!(
        (
            answer.text.as_str(),
            recorded(&answer, "/reasoning_content").as_str()
        ),
        ("🌍", "😀")
    );
    // The same thought in two fields is shown once, even where they are cut at different places.
    let answer = whole(&raw_deltas(
        &[
            r#"{"reasoning_content":"\ud83d","reasoning":"\ud83d\ude00"}"#,
            r#"{"reasoning_content":"\ude00"}"#,
        ],
        "stop",
    ));
    recorded(&answer, "/reasoning_content");
    assert_eq!(recorded(&answer, "/reasoning"), "😀");
}

#[test]
fn a_half_that_is_never_completed_is_reported_and_not_patched() {
    for (delta, _) in CHANNELS {
        for pieces in LONE_HALVES {
            let deltas: Vec<String> = pieces.iter().map(|piece| delta.replace("TEXT", piece)).collect();
            let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
            let failure = fails(&raw_deltas(&deltas, "stop"));
            assert_eq!(failure.fault, ProviderFault::Malformed, "{deltas:?}");
            assert!(failure.message.contains(LONE_HALF), "{deltas:?}: {failure}");
        }
    }
    // Another channel, call or entry does not complete it.
    let call_piece = |index: u64, arguments: &str| {
        format!(
            r#"{{"tool_calls":[{{"index":{index},"id":"{index}","function":{{"name":"W","arguments":"{arguments}"}}}}]}}"#
        )
    };
    let detail = |index: u64, text: &str| {
        format!(r#"{{"reasoning_details":[{{"type":"reasoning.text","text":"{text}","index":{index}}}]}}"#)
    };
    for (deltas, place) in [
        (
            [r#"{"content":"\ud83d"}"#.into(), r#"{"refusal":"\ude00"}"#.into()],
            "in refusal,",
        ),
        (
            [call_piece(0, r#"\"\ud83d"#), call_piece(1, r#"\ude00\""#)],
            "in the arguments of tool call 1,",
        ),
        (
            [call_piece(0, r"\ud83d"), call_piece(1, "{}")],
            "in the arguments of tool call 0 (W),",
        ),
        (
            [detail(0, r"\ud83d"), detail(1, r"\ude00")],
            "in reasoning_details,",
        ),
    ] {
        let failure = fails(&raw_deltas(&[&deltas[0], &deltas[1]], "stop"));
        assert_eq!(failure.fault, ProviderFault::Malformed, "{deltas:?}");
        assert!(failure.message.contains(place), "{deltas:?}: {failure}");
    }
}

#[test]
fn an_end_inside_a_pair_keeps_the_failure_that_explains_it() {
    let half = r#"{"content":"a\ud83d"}"#;
    assert_eq!(
        fails(&raw_deltas(&[half], "length")).fault,
        ProviderFault::OutputLimit
    );
    assert_eq!(fails(&raw_deltas(&[half], "")).fault, ProviderFault::Cut);
}
