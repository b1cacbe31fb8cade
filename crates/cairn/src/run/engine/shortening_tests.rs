//! What is left of messages, step by step. Must never know: a run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what it saw by failing"
)]

use super::*;
use crate::model::{Assistant, CallId, Image, ToolRoundId};

fn said(id: &str, parts: Vec<Part>) -> Arc<Message> {
    let origin = UserOrigin::Turn { event_id: id.into() };
    Arc::new(Message {
        id: MessageId::new(id),
        body: MessageBody::User { origin, parts },
    })
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn picture() -> Part {
    Part::Image(Image {
        mime_type: "image/png".into(),
        data: bytes::Bytes::from_static(b"p"),
    })
}

fn pair(round: &str, index: usize, of: usize, arguments: &str, result: Vec<Part>) -> [Arc<Message>; 2] {
    let round = ToolRoundId::new(round);
    let call = ToolCall {
        id: CallId::new(format!("{round}-{index}")),
        name: "Look".into(),
        arguments: arguments.into(),
    };
    let result = ToolResult {
        call: call.id.clone(),
        content: ToolContent::new(result),
        is_error: false,
    };
    let message = |id, body| Arc::new(Message { id, body });
    [
        message(
            MessageId::tool_call(&round, index),
            MessageBody::ToolCall {
                round: round.clone(),
                index,
                call,
                batch_size: of,
                said: (index == 0).then(Assistant::default),
            },
        ),
        message(
            MessageId::tool_result(&round, index),
            MessageBody::ToolResult { round, result },
        ),
    ]
}

fn words(message: &Message) -> String {
    match &message.body {
        MessageBody::ToolResult { result, .. } => result.content.text().into_owned(),
        MessageBody::User { parts, .. } => ToolContent::new(parts.iter().cloned()).text().into_owned(),
        MessageBody::ToolCall { call, .. } => call.arguments.to_string(),
        MessageBody::Assistant(said) => said.text.to_string(),
    }
}

#[test]
fn a_text_keeps_beginning_and_end_by_whole_characters() {
    let long = format!("{}{}{}", "é".repeat(700), "x".repeat(301), "😀".repeat(300));
    let note = |what: &str| format!("[{what} were left out here: this was too long for the model.]");
    let expected = format!(
        "{}\n{}\n{}",
        "é".repeat(700),
        note("301 characters"),
        "😀".repeat(300)
    );
    assert_eq!(bounded(&long, 0, 1000), expected);
    // A note would not be shorter.
    let barely = "x".repeat(1000 + NOTE);
    assert_eq!(bounded(&barely, 0, 1000), barely);
    assert_eq!(bounded("see", 2, 1000), format!("see\n{}", note("Pictures (2)")));
    assert_eq!(bounded("", 1, 1000), note("Pictures (1)"));
    let both = bounded(&"x".repeat(2000), 3, 1000);
    assert!(
        both.contains(&note("1000 characters and all pictures (3)")),
        "{both}"
    );
}

#[test]
fn what_is_short_enough_stays_as_it_is() {
    let stored = [said("one", vec![text("hello")])];
    for step in Step::IN_ORDER {
        assert_eq!(
            shorten(step, &stored, Untouched::default(), 8000),
            None,
            "{step:?}"
        );
    }
    let stored = [said("own", vec![text(&"x".repeat(9000))])];
    for step in Step::IN_ORDER {
        let own = MessageId::new("own");
        let untouched = Untouched {
            message: Some(&own),
            ..Untouched::default()
        };
        assert_eq!(shorten(step, &stored, untouched, 8000), None);
    }
}

#[test]
fn results_and_messages_share_the_allowance_and_pairs_stay_pairs() {
    let long = "x".repeat(9000);
    let stored = [
        vec![said("one", vec![text(&long), picture()])],
        pair("r", 1, 2, "{}", vec![text(&long)]).to_vec(),
        pair("r", 0, 2, "{}", vec![text("short"), picture()]).to_vec(),
    ]
    .concat();
    let done = shorten(Step::Bounded, &stored, Untouched::default(), 24_000).unwrap();
    let lengths: Vec<usize> = done
        .rest
        .iter()
        .map(|message| words(message).chars().count())
        .collect();
    assert_eq!(lengths.len(), 5);
    assert!(lengths[0] > 8000 && lengths[0] <= 8000 + NOTE, "{lengths:?}");
    assert!(lengths[2] > 8000 && lengths[2] <= 8000 + NOTE, "{lengths:?}");
    // One picture is within the share.
    assert_eq!(&done.rest[4], &*stored[4]);
    let ids: Vec<&str> = done.rest.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "one/shortened/8000",
            "r/1/call",
            "r/1/result/shortened/8000",
            "r/0/call",
            "r/0/result"
        ]
    );
    assert_eq!(
        done.account,
        "Tool results that were shortened: 1.\nMessages that were shortened: 1."
    );
    // The next step goes on from what the first one left.
    let stored: Vec<_> = done.rest.into_iter().map(Arc::new).collect();
    let done = shorten(Step::Narrow, &stored, Untouched::default(), 24_000).unwrap();
    assert!(
        done.rest
            .iter()
            .all(|message| words(message).chars().count() <= 1000 + NOTE)
    );
    assert_eq!(
        done.account,
        "Tool results that were shortened: 2.\nMessages that were shortened: 1."
    );
}

#[test]
fn only_the_latest_context_stays_and_what_the_summary_said_is_handed_out() {
    let context = |id: &str| {
        Arc::new(Message {
            id: MessageId::new(id),
            body: MessageBody::User {
                origin: UserOrigin::RequestContext { event_id: id.into() },
                parts: vec![text(id)],
            },
        })
    };
    let summary = Arc::new(Message {
        id: MessageId::new("summary"),
        body: MessageBody::User {
            origin: UserOrigin::Summary { event_id: "s".into() },
            parts: vec![text("the gist")],
        },
    });
    let stored = [
        context("old"),
        summary,
        said("one", vec![text(&"x".repeat(9000))]),
        context("new"),
        said("two", vec![text("short")]),
    ];
    let done = shorten(Step::Bounded, &stored, Untouched::default(), 8000).unwrap();
    assert_eq!(done.context.as_ref(), Some(&*stored[3]));
    assert_eq!(done.summary, [text("the gist")]);
    assert_eq!(done.rest.len(), 2);
    assert_eq!(&done.rest[1], &*stored[4]);
}

#[test]
fn a_round_whose_arguments_are_too_long_becomes_an_account_of_itself() {
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(9000));
    let stored = [
        vec![said("one", vec![text("Write it.")])],
        pair("old", 0, 1, &arguments, vec![text("ok")]).to_vec(),
        pair("r", 0, 2, &arguments, vec![text("written")]).to_vec(),
        pair("r", 1, 2, "{\"a\":1}", vec![text("seen"), picture()]).to_vec(),
        vec![said("event", vec![text("It ended.")])],
    ]
    .concat();
    assert_eq!(
        shorten(Step::Bounded, &stored, Untouched::default(), 80_000),
        None
    );
    let done = shorten(Step::Folded, &stored, Untouched::default(), 80_000).unwrap();
    let ids: Vec<&str> = done.rest.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["one", "old/0/call", "old/0/result", "event"]);
    let lines: Vec<&str> = done.account.lines().collect();
    assert_eq!(
        lines[0],
        "Tool calls that were made and are left out with their results:"
    );
    assert!(lines[1].starts_with("- Look {\"text\":\"xxx"), "{}", lines[1]);
    assert_eq!(
        &lines[3..],
        [
            &format!("{}\"}}", "x".repeat(748)),
            "  Its result: written",
            "- Look {\"a\":1}",
            "  Its result: seen",
            "[Pictures (1) were left out here: this was too long for the model.]"
        ]
    );
    // An answered round is nobody's trouble.
    let answer = Arc::new(Message {
        id: MessageId::new("answer"),
        body: MessageBody::Assistant(Assistant::default()),
    });
    let answered = [stored, vec![answer]].concat();
    let done = shorten(Step::Folded, &answered, Untouched::default(), 80_000).unwrap();
    assert_eq!(done.account, "Tool results that were shortened: 1.");
}

#[test]
fn all_that_was_before_becomes_an_account_of_what_came_last() {
    let context = Arc::new(Message {
        id: MessageId::new("context"),
        body: MessageBody::User {
            origin: UserOrigin::RequestContext { event_id: "c".into() },
            parts: vec![text("rules")],
        },
    });
    let summary = Arc::new(Message {
        id: MessageId::new("summary"),
        body: MessageBody::User {
            origin: UserOrigin::Summary { event_id: "s".into() },
            parts: vec![text(&"g".repeat(10_000))],
        },
    });
    let answer = Arc::new(Message {
        id: MessageId::new("answer"),
        body: MessageBody::Assistant(Assistant {
            text: "It is done.".into(),
            ..Assistant::default()
        }),
    });
    let stored = [
        vec![
            context.clone(),
            summary,
            said("self", vec![text("You are a subagent.")]),
        ],
        (0..20)
            .map(|at| said(&format!("m{at}"), vec![text(&"x".repeat(300))]))
            .collect(),
        pair("r", 0, 1, "{\"a\":1}", vec![text("seen"), picture()]).to_vec(),
        vec![answer, said("own", vec![text("And now?")])],
    ]
    .concat();
    let own = MessageId::new("own");
    let standing: [Arc<str>; 1] = ["self".into()];
    let untouched = Untouched {
        message: Some(&own),
        standing: &standing,
    };
    let done = shorten(Step::Account, &stored, untouched, 4_000).unwrap();
    let ids: Vec<&str> = done.rest.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["self", "own"]);
    assert_eq!(done.context.as_ref(), Some(&*context));
    let [Part::Text(summary)] = &done.summary[..] else {
        panic!("{:?}", done.summary);
    };
    assert!(summary.starts_with("ggg") && summary.chars().count() < 4_100);
    let lines: Vec<&str> = done.account.lines().collect();
    assert_eq!(
        lines,
        [
            "What was said and done last, after 19 steps that are left out:",
            &format!("- To you: {}", "x".repeat(300)),
            "- Look {\"a\":1}",
            "  Its result: seen",
            "[Pictures (1) were left out here: this was too long for the model.]",
            "- You: It is done.",
        ]
    );
    // Nothing is left that another account could take the place of.
    let left: Vec<_> = done.rest.into_iter().map(Arc::new).collect();
    assert_eq!(shorten(Step::Account, &left, untouched, 4_000), None);
}
