//! What a report tells a person: a verdict that is true, and a page that shows which turn broke, what changed and what it cost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use prefix_conformance::Api;
use prefix_conformance::recording::{NewCall, RecordingWriter};
use prefix_conformance::report::Report;
use serde_json::json;

fn report_of(bodies: &[String]) -> Report {
    report_at(0.95, bodies)
}

fn report_at(min_continuity: f64, bodies: &[String]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.jsonl");
    let mut writer = RecordingWriter::new(std::fs::File::create(&path).unwrap()).unwrap();
    for body in bodies {
        let call = NewCall {
            at_ms: 0,
            api: Api::OpenAiChat,
            body: body.clone().into_bytes(),
        };
        writer.call(call).unwrap();
    }
    Report::read_with(&path, min_continuity).unwrap()
}

/// A body of the model with these messages, each `role: content`.
fn body_of(model: &str, messages: &[(&str, &str)]) -> String {
    let messages: Vec<_> = messages
        .iter()
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect();
    json!({"model": model, "messages": messages}).to_string()
}

fn body(messages: &[(&str, &str)]) -> String {
    body_of("m", messages)
}

/// Two turns; the second request of the second one says something else at `place` of the first turn.
fn conversation(place: &str, said: &str) -> Vec<String> {
    let system = "s".repeat(4000);
    let mut bodies = Vec::new();
    let mut messages: Vec<(&str, &str)> = vec![("system", &system), ("user", "first")];
    bodies.push(body(&messages));
    messages.extend([("assistant", "calls"), ("tool", "found"), ("assistant", "answer")]);
    messages.push(("user", "second"));
    bodies.push(body(&messages));
    for message in &mut messages {
        if message.0 == place {
            message.1 = said;
        }
    }
    messages.extend([("assistant", "calls again"), ("tool", "more")]);
    bodies.push(body(&messages));
    bodies
}

#[test]
fn a_report_is_green_only_where_everything_was_kept() {
    let report = report_of(&conversation("none", ""));
    assert_eq!(
        report.verdict(),
        "Every call kept all of the one before it (2 pairs)"
    );
    assert!(
        report
            .html()
            .contains("<p class=\"verdict good\">Every call kept all of the one before it (2 pairs).</p>")
    );
}

#[test]
fn a_change_that_keeps_the_minimum_is_said_and_listed() {
    let report = report_of(&conversation("tool", "found something else"));
    assert_eq!((&report.resets[..], &report.changed[..]), (&[][..], &[3][..]));
    let kept = report.lanes[0].calls[2].kept.as_ref().unwrap();
    assert!(kept.continuity >= 0.95 && kept.continuity < 1.0 && !kept.broke);
    assert_eq!(report.lost_tokens, kept.lost_tokens);
    assert!(report.lost_tokens > 0);
    let verdict = "No break below 95.0%; 1 call changed something already sent: 3";
    assert_eq!(report.verdict(), verdict);
    let page = report.html();
    assert!(
        page.contains(&format!("<p class=\"verdict noted\">{verdict}.</p>")),
        "{page}"
    );
    assert!(!page.contains("verdict good"));
    assert!(report.text().ends_with(&format!("{verdict}.\n")));
}

#[test]
fn a_break_is_named_with_its_turn_and_what_else_changed() {
    let mut bodies = conversation("system", "t");
    let report = report_of(&bodies);
    assert_eq!(report.verdict(), "The prefix broke once, at call 3 (turn 2)");
    assert!(
        report
            .html()
            .contains("<p class=\"verdict bad\">The prefix broke once, at call 3 (turn 2).</p>")
    );
    bodies.extend(conversation("tool", "found something else"));
    let report = report_of(&bodies);
    assert_eq!((&report.resets[..], &report.changed[..]), (&[3, 4][..], &[6][..]));
    assert_eq!(
        report.verdict(),
        "The prefix broke 2 times, first at call 3 (turn 2); 1 call more changed something already sent: 6"
    );
}

#[test]
fn what_was_not_compared_is_not_praised() {
    let one = report_of(&conversation("none", "")[..1]);
    assert_eq!(
        one.verdict(),
        "Nothing to compare: no call has a measured one before it"
    );
    let mut bodies = conversation("none", "");
    bodies.insert(0, "{\"model\":\"m\",".to_owned());
    let report = report_of(&bodies);
    assert_eq!((report.pairs, &report.unmeasured[..]), (2, &[1][..]));
    assert_eq!(
        report.verdict(),
        "Every call kept all of the one before it (2 pairs); 1 call could not be measured: 1"
    );
    assert!(report.html().contains("verdict noted"));
}

#[test]
fn the_page_begins_with_which_call_changed_what_and_at_what_cost() {
    let report = report_of(&conversation("system", &format!("t{}", "s".repeat(3999))));
    let page = report.html();
    let top = page.split("<ol class=\"events\">").nth(1).unwrap();
    let (event, rest) = top.split_once("</li>").unwrap();
    let kept = report.lanes[0].calls[2].kept.as_ref().unwrap();
    // Of 4,219 bytes, the 29 before the first s were kept.
    assert_eq!((kept.previous_bytes, kept.shared_bytes), (4219, 29));
    assert_eq!(kept.lost_tokens, 1047);
    for expected in [
        "<li class=\"event broke\">",
        "<a href=\"#call-3\">Call 3</a> · turn 2",
        "<h3>Message 0 (system) changed</h3>",
        "<p>0.6% of call 2 was kept. Not kept: ≈\u{a0}1\u{202f}047 tokens.",
        "Read again by cache rule: ≈\u{a0}1\u{202f}054 (OpenAI before 5.6)",
        "<del>s</del>",
        "<ins>t</ins>",
    ] {
        assert!(event.contains(expected), "{expected}\n{event}");
    }
    assert!(rest.contains("id=\"call-3\""), "the link leads to the call");
    // Costly ones first when there are too many, and the number of all of them.
    let bodies: Vec<String> = (0..30)
        .map(|call| body(&[("system", &"s".repeat(100 * (call % 7 + 1)))]))
        .collect();
    let page = report_of(&bodies).html();
    assert!(
        page.contains("<small>the 12 that cost most, of 29 calls</small>"),
        "{page}"
    );
    assert_eq!(page.matches("<li class=\"event").count(), 12);
}

#[test]
fn two_conversations_in_one_lane_break_each_other_and_are_recognised() {
    let one = conversation("none", "");
    let other: Vec<String> = one
        .iter()
        .map(|body| body.replace("first", "something else"))
        .collect();
    let mixed: Vec<String> = one
        .iter()
        .zip(&other)
        .flat_map(|(a, b)| [a.clone(), b.clone()])
        .collect();
    // Without the long system prompt, nearly nothing is shared.
    let mixed: Vec<String> = mixed
        .iter()
        .map(|body| body.replace(&"s".repeat(4000), "s"))
        .collect();
    let report = report_of(&mixed);
    assert_eq!(report.resets, [2, 3, 4, 5, 6]);
    let continues: Vec<Option<usize>> = report.lanes[0]
        .calls
        .iter()
        .map(|call| call.kept.as_ref()?.continues)
        .collect();
    assert_eq!(continues, [None, None, Some(1), Some(2), Some(3), Some(4)]);
    let sentence = "It keeps all of call 3 instead: what had changed since was changed back, or two conversations with this \
                    model are in one recording (record those apart).";
    assert!(report.text().contains(sentence) && report.html().contains(sentence));
    // A change behind an earlier call's end is the same conversation, although it keeps all of that call.
    let report = report_of(&conversation("tool", "found something else"));
    let kept = report.lanes[0].calls[2].kept.as_ref().unwrap();
    assert!(kept.boundary.is_some() && kept.shared_items > 2);
    assert_eq!(kept.continues, None);
}

#[test]
fn a_page_needs_nothing_but_itself_and_fits_light_dark_and_narrow_screens() {
    let page = report_of(&conversation("system", "t")).html();
    for outside in [
        "<script", "<link", "<img", "src=", "http:", "https:", "//", "@import", "url(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let links = page.matches("href=").count();
    assert_eq!(page.matches("href=\"#call-").count(), links);
    for rule in [
        "prefers-color-scheme: dark",
        "max-width: 760px",
        "width=device-width",
    ] {
        assert!(page.contains(rule), "{rule}");
    }
}

#[test]
fn what_a_request_says_cannot_become_part_of_the_page_or_command_a_terminal() {
    let evil = "<script>alert(1)</script>\" onload='x' & \u{202e}\u{1b}[2J";
    let said = |number: u32| format!("{evil}{number}");
    let bodies: Vec<String> = (0..2)
        .map(|call| {
            json!({
                "model": evil, evil: call,
                "tools": [{"type": "function", "function": {"name": said(call)}}],
                "messages": [{"role": evil, "content": said(call)}],
            })
            .to_string()
        })
        .collect();
    // Raw control characters are no JSON, and a host may send them all the same.
    let raw = format!(
        "{{\"model\":{},\"messages\":[{{\"role\":\"user\",\"content\":\"\u{1b}]0;",
        json!(evil)
    );
    let report = report_at(
        1.0,
        &[
            bodies[0].clone(),
            bodies[1].clone(),
            format!("{raw}a\"}}]}}"),
            format!("{raw}b\"}}]}}"),
            format!("{raw}c"),
        ],
    );
    let page = report.html();
    assert_eq!(report.resets, [2, 3, 4]);
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&#39;x&#39; &amp;"),
        "{page}"
    );
    assert!(!page.contains("<script") && !page.contains("' onload"), "{page}");
    for shown in [&page, &report.text()] {
        for hidden in ['\u{1b}', '\u{202e}'] {
            assert!(!shown.contains(hidden), "{hidden:?}\n{shown}");
        }
    }
}
