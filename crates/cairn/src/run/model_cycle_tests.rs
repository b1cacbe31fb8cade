//! Each rule of a correct sequence, broken once.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what it saw by failing"
)]

use super::*;
use crate::model::RequestDigest;
use crate::provider::{ModelEvent, StopReason};

fn call(index: usize) -> ModelEvent {
    ModelEvent::ToolCallStart {
        index,
        id: None,
        name: "alpha".into(),
    }
}

fn piece(index: usize, delta: &str) -> ModelEvent {
    ModelEvent::ToolCallArguments {
        index,
        delta: delta.into(),
    }
}

fn end(index: usize) -> ModelEvent {
    ModelEvent::ToolCallEnd { index }
}

fn replay() -> ModelEvent {
    ModelEvent::ReplayState(ReplayState {
        issuer: "i".into(),
        payload: "p".into(),
    })
}

fn sending() -> ModelEvent {
    ModelEvent::Sending(Arc::new(RequestDigest {
        lineage: "l".into(),
        settings: [0; 16],
        items: Vec::new(),
        without_reasoning: false,
    }))
}

#[test]
fn nothing_of_an_answer_comes_before_its_request_was_announced() {
    let mut cycle = ModelCycle::new(Arc::default());
    let failure = cycle.push(ModelEvent::Start).unwrap_err();
    assert!(
        failure.message.contains("was not announced"),
        "{}",
        failure.message
    );
}

/// Reads the events; the error is the rule that was broken.
fn read(events: Vec<ModelEvent>) -> Result<ModelOutput, String> {
    let mut cycle = ModelCycle::new(Arc::default());
    for event in [sending()].into_iter().chain(events) {
        cycle.push(event).map_err(|failure| {
            assert_eq!(failure.fault, ProviderFault::Malformed);
            failure.message
        })?;
    }
    cycle.finish().map_err(|failed| {
        assert_eq!(failed.failure.fault, ProviderFault::Cut);
        failed.failure.message
    })
}

#[test]
fn a_broken_sequence_names_the_rule_and_yields_nothing() {
    let stop = || ModelEvent::Done(StopReason::Stop);
    let tools = || ModelEvent::Done(StopReason::ToolUse);
    for (rule, events) in [
        (
            "announced after its answer had begun",
            vec![ModelEvent::Start, sending()],
        ),
        (
            "the answer started twice",
            vec![ModelEvent::Start, ModelEvent::Start],
        ),
        (
            "the answer text started twice",
            vec![ModelEvent::TextStart, ModelEvent::TextStart],
        ),
        (
            "a piece of the answer text came outside",
            vec![ModelEvent::TextDelta("x".into())],
        ),
        ("the answer text ended without a start", vec![ModelEvent::TextEnd]),
        (
            "the thinking started twice",
            vec![ModelEvent::ThinkingStart, ModelEvent::ThinkingStart],
        ),
        (
            "a piece of the thinking came outside",
            vec![ModelEvent::ThinkingDelta("x".into())],
        ),
        (
            "the thinking ended without a start",
            vec![ModelEvent::ThinkingEnd],
        ),
        ("started twice or out of order", vec![call(1)]),
        ("started twice or out of order", vec![call(0), call(0)]),
        ("a piece of an unknown tool call", vec![piece(0, "{}")]),
        ("a piece of an unknown tool call", vec![end(0)]),
        (
            "went on after its end",
            vec![call(0), piece(0, "{}"), end(0), piece(0, "{}")],
        ),
        (
            "went on after its end",
            vec![call(0), piece(0, "{}"), end(0), end(0)],
        ),
        ("not valid JSON", vec![call(0), piece(0, "{\"a\": "), end(0)]),
        ("the replay state came twice", vec![replay(), replay()]),
        (
            "the token counts came twice",
            vec![
                ModelEvent::Usage(Usage::default()),
                ModelEvent::Usage(Usage::default()),
            ],
        ),
        ("ended inside a block", vec![ModelEvent::TextStart, stop()]),
        ("ended inside a block", vec![ModelEvent::ThinkingStart, stop()]),
        ("ended inside a block", vec![call(0), tools()]),
        (
            "a plain end came with tool calls",
            vec![call(0), piece(0, "{}"), end(0), stop()],
        ),
        ("a tool end came without a tool call", vec![tools()]),
        ("an event followed the end", vec![stop(), stop()]),
        ("an event followed the end", vec![stop(), ModelEvent::TextStart]),
        (
            "cut off before its end",
            vec![
                ModelEvent::Start,
                ModelEvent::TextStart,
                ModelEvent::TextDelta("x".into()),
                ModelEvent::TextEnd,
            ],
        ),
        ("cut off before its end", vec![]),
    ] {
        let broken = read(events.clone()).unwrap_err();
        assert!(broken.contains(rule), "{events:?}: {broken}");
    }
}

#[test]
fn blocks_may_come_again_and_calls_may_interleave() {
    let output = read(vec![
        ModelEvent::Start,
        ModelEvent::ThinkingStart,
        ModelEvent::ThinkingDelta("a".into()),
        ModelEvent::ThinkingEnd,
        ModelEvent::TextStart,
        ModelEvent::TextDelta("b".into()),
        ModelEvent::TextEnd,
        ModelEvent::ThinkingStart,
        ModelEvent::ThinkingDelta("c".into()),
        ModelEvent::ThinkingEnd,
        call(0),
        piece(0, "{\"n\""),
        call(1),
        piece(1, " {} "),
        piece(0, ":1}"),
        end(0),
        end(1),
        ModelEvent::Done(StopReason::ToolUse),
    ])
    .unwrap();
    assert_eq!(
        (&*output.said.text, &*output.said.reasoning.unwrap().text),
        ("b", "ac")
    );
    let calls: Vec<_> = output
        .calls
        .iter()
        .map(|call| (call.id.as_str(), &*call.arguments))
        .collect();
    assert_eq!(calls, [("call_1", "{\"n\":1}"), ("call_2", " {} ")]);
}
