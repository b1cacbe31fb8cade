//! Surrogate pairs that a sender cut between two deltas: joined within their channel, and reported where a half is left.

use cairn::model::ProviderFault;
use serde_json::json;

use crate::model_events::Answer;
use crate::streams::{JOINED_HALVES, LONE_HALF, LONE_HALVES};
use crate::{added, completed, decode, done, fails, message, read_call, stream};

/// The kind of a delta, and what shows its text.
type Channel = (&'static str, fn(&Answer) -> String);

const CHANNELS: [Channel; 5] = [
    ("output_text", |answer| answer.text.clone()),
    ("refusal", |answer| answer.text.clone()),
    ("reasoning_summary_text", |answer| answer.thinking.clone()),
    ("reasoning_text", |answer| answer.thinking.clone()),
    ("function_call_arguments", |answer| answer.calls[0].2.clone()),
];

/// A delta given as JSON text, because no JSON value can hold half of a surrogate pair.
fn raw_delta(kind: &str, text: &str) -> String {
    format!("data: {{\"type\":\"response.{kind}.delta\",\"output_index\":0,\"delta\":\"{text}\"}}\n\n")
}

fn raw_deltas(kind: &str, pieces: &[&str]) -> String {
    let begun = match kind {
        "function_call_arguments" => stream(&[added(0, read_call("a", ""))]),
        _ => String::new(),
    };
    let deltas: String = pieces.iter().map(|piece| raw_delta(kind, piece)).collect();
    begun + &deltas
}

#[test]
fn surrogate_halves_of_one_channel_are_joined_across_deltas() {
    for (kind, text) in CHANNELS {
        for pieces in JOINED_HALVES {
            let outcome = decode(&(raw_deltas(kind, pieces) + &stream(&[completed()])));
            assert_eq!(outcome.failure, None, "{kind} {pieces:?}");
            let answer = Answer::join(&outcome.events, true);
            assert_eq!(text(&answer), "\"a😀b\"", "{kind} {pieces:?}");
        }
    }
}

#[test]
fn a_half_that_is_never_completed_is_reported_and_not_patched() {
    for (kind, _) in CHANNELS {
        for pieces in LONE_HALVES {
            let failure = fails(&(raw_deltas(kind, pieces) + &stream(&[completed()])));
            assert_eq!(failure.fault, ProviderFault::Malformed, "{kind} {pieces:?}");
            assert!(
                failure.message.contains(LONE_HALF),
                "{kind} {pieces:?}: {failure}"
            );
        }
    }
    // Another part, channel or call does not complete it.
    let part = json!({"type": "response.reasoning_summary_part.added", "output_index": 0});
    let low = |kind: &str| raw_delta(kind, r"\ude00");
    for between_and_after in [
        raw_deltas("reasoning_summary_text", &[r"\ud83d"])
            + &stream(&[part])
            + &low("reasoning_summary_text"),
        raw_deltas("output_text", &[r"\ud83d"]) + &low("refusal"),
        raw_deltas("function_call_arguments", &[r#"\"\ud83d"#])
            + &stream(&[added(1, read_call("b", ""))])
            + &low("function_call_arguments").replace("\"output_index\":0", "\"output_index\":1"),
    ] {
        let failure = fails(&(between_and_after + &stream(&[completed()])));
        assert!(failure.message.contains(LONE_HALF), "{failure}");
    }
}

#[test]
fn a_whole_item_says_what_its_last_delta_lacked() {
    let text = raw_deltas("output_text", &[r"a\ud83d"]) + &stream(&[done(0, message("a😀")), completed()]);
    let arguments = raw_deltas("function_call_arguments", &[r#"{\"path\":\"\ud83d"#])
        + &stream(&[done(0, read_call("a", "{\"path\":\"😀\"}")), completed()]);
    for (stream, expected) in [(text, "a😀"), (arguments, "{\"path\":\"😀\"}")] {
        let outcome = decode(&stream);
        assert_eq!(outcome.failure, None);
        let answer = Answer::join(&outcome.events, true);
        let arguments = answer.calls.first().map(|(.., arguments)| arguments.as_str());
        assert_eq!(arguments.unwrap_or(&answer.text), expected);
    }
}

#[test]
fn an_end_inside_a_pair_keeps_the_failure_that_explains_it() {
    let cut_call = json!({"type": "function_call", "id": "fc_a", "call_id": "a", "name": "Read", "status": "incomplete",
        "arguments": "{\"path\":\""});
    let incomplete = json!({"type": "response.incomplete", "response": {"status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}}});
    for half in [
        raw_deltas("output_text", &[r"a\ud83d"]),
        raw_deltas("function_call_arguments", &[r#"{\"path\":\"\ud83d"#]) + &stream(&[done(0, cut_call)]),
    ] {
        assert_eq!(
            fails(&(half.clone() + &stream(std::slice::from_ref(&incomplete)))).fault,
            ProviderFault::OutputLimit
        );
        assert_eq!(fails(&half).fault, ProviderFault::Cut);
    }
}
