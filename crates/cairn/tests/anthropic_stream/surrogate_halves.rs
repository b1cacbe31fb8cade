//! Surrogate pairs that a sender cut between two deltas: joined within their block, and reported where a half is left.

use cairn::model::ProviderFault;
use serde_json::json;

use crate::model_events::Answer;
use crate::streams::{JOINED_HALVES, LONE_HALF, LONE_HALVES};
use crate::{block, end, fails, reason, start, stop, stream, tool, whole};

/// The block, its delta's kind and member, and what shows its text.
type Channel = (&'static str, &'static str, &'static str, fn(&Answer) -> String);

const CHANNELS: [Channel; 3] = [
    ("text", "text_delta", "text", |answer| answer.text.clone()),
    ("thinking", "thinking_delta", "thinking", |answer| {
        let replay = answer.replay.as_ref().unwrap();
        let record: serde_json::Value = serde_json::from_str(&replay.payload).unwrap();
        assert_eq!(record["blocks"][0]["raw"]["thinking"], *answer.thinking);
        answer.thinking.clone()
    }),
    ("tool_use", "input_json_delta", "partial_json", |answer| {
        answer.calls[0].2.clone()
    }),
];

/// The start of a message and of a block with these deltas, given as JSON text, because no JSON value can hold half of a
/// surrogate pair.
fn opened((kind, delta, member, _): Channel, pieces: &[&str]) -> String {
    let begun = match kind {
        "tool_use" => tool(0, json!({}), &[])[0].clone(),
        kind => block(0, json!({"type": kind, kind: ""})),
    };
    let mut sse = stream(&[start(json!(null)), begun]);
    for piece in pieces {
        sse.push_str(&format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"{delta}\",\"{member}\":\"{piece}\"}}}}\n\n"
        ));
    }
    sse
}

fn closed(channel: Channel, pieces: &[&str], why: &str) -> String {
    opened(channel, pieces) + &stream(&[end(0), reason(why), stop()])
}

/// The pieces of a JSON string, made the pieces of an object for the input of a call.
fn pieces_for(channel: Channel, pieces: &[&str]) -> Vec<String> {
    let mut pieces: Vec<String> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
    if channel.0 == "tool_use" {
        pieces.insert(0, r#"{\"x\":"#.to_owned());
        pieces.push("}".to_owned());
    }
    pieces
}

#[test]
fn surrogate_halves_of_one_block_are_joined_across_deltas() {
    for channel in CHANNELS {
        for pieces in JOINED_HALVES {
            let pieces = pieces_for(channel, pieces);
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let answer = whole(&closed(channel, &pieces, "end_turn"));
            let text = (channel.3)(&answer);
            assert_eq!(
                text.trim_start_matches("{\"x\":").trim_end_matches('}'),
                "\"a😀b\"",
                "{} {pieces:?}",
                channel.0
            );
        }
    }
}

#[test]
fn a_half_that_is_never_completed_is_reported_and_not_patched() {
    for channel in CHANNELS {
        for pieces in LONE_HALVES {
            let (_, failure) = fails(&closed(channel, pieces, "end_turn"));
            assert_eq!(
                failure.fault,
                ProviderFault::Malformed,
                "{} {pieces:?}",
                channel.0
            );
            assert!(
                failure.message.contains(LONE_HALF),
                "{} {pieces:?}: {failure}",
                channel.0
            );
        }
    }
    // The next block does not complete it.
    let next = [
        end(0),
        block(1, json!({"type": "text", "text": ""})),
        end(1),
        reason("end_turn"),
        stop(),
    ];
    let (_, failure) = fails(&(opened(CHANNELS[0], &[r"a\ud83d"]) + &stream(&next)));
    assert!(failure.message.contains(LONE_HALF), "{failure}");
}

#[test]
fn an_end_inside_a_pair_keeps_the_failure_that_explains_it() {
    for channel in CHANNELS {
        let (_, limit) = fails(&closed(channel, &[r"a\ud83d"], "max_tokens"));
        assert_eq!(limit.fault, ProviderFault::OutputLimit, "{}", channel.0);
        let (_, cut) = fails(&opened(channel, &[r"a\ud83d"]));
        assert_eq!(cut.fault, ProviderFault::Cut, "{}", channel.0);
    }
}
