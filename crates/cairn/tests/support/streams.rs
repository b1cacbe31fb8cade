//! Feeds recorded streams to a decoder as the transport does, in every way of cutting them, and judges each outcome.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::collections::VecDeque;

use cairn::model::{ProviderFailure, ProviderFault};
use cairn::provider::sse::{SseError, SseEvent, SseReader};
use cairn::provider::{ModelEvent, Progress};

use super::model_events::Answer;

/// What a stream came to.
pub type Outcome = (Vec<ModelEvent>, Option<ProviderFailure>);

/// Decodes pieces of a stream with a decoder, which gets each event, and `None` at the end of the stream.
pub fn decode_pieces<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    mut decoder: impl FnMut(Option<SseEvent<'_>>, &mut VecDeque<ModelEvent>) -> Result<Progress, ProviderFailure>,
) -> Outcome {
    let mut sse = SseReader::new();
    let mut events = VecDeque::new();
    let decode = || {
        for piece in pieces {
            sse.push(piece);
            while let Some(event) = sse.next_event().map_err(unreadable)? {
                if decoder(Some(event), &mut events)? == Progress::Done {
                    return Ok(());
                }
            }
        }
        if let Some(event) = sse.finish().map_err(unreadable)?
            && decoder(Some(event), &mut events)? == Progress::Done
        {
            return Ok(());
        }
        decoder(None, &mut events).map(|progress| assert_eq!(progress, Progress::Done))
    };
    let failure = decode().err();
    (events.into(), failure)
}

fn unreadable(fault: SseError) -> ProviderFailure {
    ProviderFailure::new(ProviderFault::Malformed, fault.to_string())
}

/// Sent whole, by line, by byte, with other line ends and a mark at its start, and with keep-alives, the stream comes to
/// the same.
#[track_caller]
pub fn assert_same_in_all_pieces(name: &str, stream: &str, decode: impl Fn(&[&[u8]]) -> Outcome) {
    let expected = decode(&[stream.as_bytes()]);
    let same = |what: &str, pieces: &[&[u8]]| assert_eq!(decode(pieces), expected, "{name} {what}");
    let by_byte = |text: &str, what: &str| same(what, &text.as_bytes().chunks(1).collect::<Vec<_>>());
    let lines: Vec<&[u8]> = stream.as_bytes().split_inclusive(|byte| *byte == b'\n').collect();
    same("by line", &lines);
    by_byte(stream, "by byte");
    for (what, line_end) in [("CRLF", "\r\n"), ("CR", "\r")] {
        let other = stream.replace('\n', line_end);
        same(what, &[other.as_bytes()]);
        by_byte(&other, what);
    }
    let mut mixed = String::from("\u{feff}");
    for (line, line_end) in stream.lines().zip(["\r\n", "\n", "\r"].into_iter().cycle()) {
        mixed.push_str(line);
        mixed.push_str(line_end);
    }
    by_byte(&mixed, "mixed");
    same(
        "keep-alives",
        &[stream.replace('\n', "\n: keep-alive\n").as_bytes()],
    );
}

/// Cut at every offset, the stream has one outcome: before the first line that `is_terminal` is whole, a failure that
/// says so and nothing that could be taken as an answer; from there on that of the whole stream, but for its counts.
/// `is_other_fault` excuses a failure of another kind.
#[track_caller]
pub fn assert_cuts(
    name: &str,
    stream: &str,
    is_terminal: impl Fn(&str) -> bool,
    decode: impl Fn(&[&[u8]]) -> Outcome,
    is_other_fault: impl Fn(&ProviderFailure) -> bool,
) {
    let (events, expected_failure) = decode(&[stream.as_bytes()]);
    let uncounted = |events: &[ModelEvent], is_whole: bool| Answer {
        usage: None,
        ..Answer::join(events, is_whole)
    };
    let expected = uncounted(&events, expected_failure.is_none());
    let mut terminal = 0;
    for line in stream.split_inclusive('\n') {
        terminal += line.len();
        if is_terminal(line) {
            // The line's own end may be missing: its object is whole.
            terminal -= usize::from(line.ends_with('\n'));
            break;
        }
    }
    assert!(
        terminal < stream.len() || is_terminal(stream.lines().last().unwrap()),
        "{name} does not end"
    );
    for cut in 0..stream.len() {
        let (events, failure) = decode(&[&stream.as_bytes()[..cut]]);
        let answer = uncounted(&events, failure.is_none());
        if cut >= terminal {
            assert_eq!(failure, expected_failure, "{name} cut at {cut}");
            assert_eq!(answer, expected, "{name} cut at {cut}");
            continue;
        }
        let failure = failure.unwrap_or_else(|| panic!("{name} cut at {cut} succeeded"));
        assert!(
            failure.fault == ProviderFault::Cut
                || failure.message.contains("inside a character")
                || is_other_fault(&failure),
            "{name} cut at {cut}: {failure:?}"
        );
        assert_eq!((answer.replay, answer.stop), (None, None), "{name} cut at {cut}");
        assert_eq!(Answer::join(&events, false).usage, None, "{name} cut at {cut}");
    }
}

/// Pieces of the JSON text `"a😀b"` (quotes included) in which a surrogate pair is whole once they are joined.
pub const JOINED_HALVES: [&[&str]; 4] = [
    // In one delta; cut; cut with an empty delta between.
    &[r#"\"a"#, r"\ud83d\ude00", r#"b\""#],
    &[r#"\"a\ud83d"#, r#"\ude00b\""#],
    &[r#"\"a"#, r"\ud83d", r"\uDE00", r#"b\""#],
    &[r#"\"a\uD83D"#, "", r#"\ude00b\""#],
];

/// Pieces in which half of a surrogate pair is left alone.
pub const LONE_HALVES: [&[&str]; 7] = [
    // At the end; before other text; low half first, alone and after text; inside one delta.
    &[r#"\"a\ud83d"#],
    &[r#"\"a\ud83d"#, r#"b\""#],
    &[r#"\"a\ud83d"#, r"\ud83d", r#"\ude00b\""#],
    &[r"\ude00"],
    &[r#"\"a"#, r#"\ude00\""#],
    &[r"\ude00", r"\ud83d"],
    &[r#"\"a\ud83db\""#],
];

/// What a failure says that is about a half.
pub const LONE_HALF: &str = "half of a surrogate pair came without its other half";
