//! An event enters the history once, at the end of what was there when it happened, and never between a call and its
//! result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

mod support;

use cairn::client::{ClientCommand, ClientEvent};
use cairn::model::{HistoryItem, Part, RunAction, RunOutcome};
use support::fake_client::{Bench, prepared, user_message};
use support::fake_provider::{FakeProvider, calls, text};
use support::over_http::Over;

fn said(history: &[std::sync::Arc<HistoryItem>]) -> Vec<String> {
    history
        .iter()
        .map(|item| match item.as_ref() {
            HistoryItem::User { parts, .. } => match &parts[..] {
                [Part::Text(text)] => format!("user {text}"),
                other => panic!("{other:?}"),
            },
            HistoryItem::Assistant { said, calls, .. } => format!("assistant {} +{}", said.text, calls.len()),
            HistoryItem::ToolResult(result) => format!("result {}", result.call),
        })
        .collect()
}

async fn an_event_during_a_tool_round_follows_the_round(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(calls("", &[("a", "alpha", "{}"), ("b", "beta", "{}")]));
    provider.answer(text("done"));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    let round = client.until_round().await;
    client.result(&round.calls[0], "one");
    client
        .handle
        .commands
        .send(ClientCommand::RuntimeEvent(user_message(
            "event",
            "a file changed",
        )))
        .unwrap();
    client.result(&round.calls[1], "two");
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();
    assert_eq!(
        said(&provider.requests()[1].history),
        [
            "user go",
            "assistant  +2",
            "result a",
            "result b",
            "user a file changed"
        ]
    );
}

async fn an_event_during_the_answer_makes_the_run_go_on(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let feed = provider.feed();
    provider.answer(text("noted"));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    client
        .until(|event| matches!(event, ClientEvent::ModelCallStarted { .. }))
        .await;
    client
        .handle
        .commands
        .send(ClientCommand::RuntimeEvent(user_message("event", "by the way")))
        .unwrap();
    text("first").into_iter().for_each(|event| feed.event(event));
    drop(feed);
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();
    assert_eq!(
        said(&provider.requests()[1].history),
        ["user go", "assistant first +0", "user by the way"]
    );
}

async fn the_same_event_again_adds_nothing(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let feed = provider.feed();
    provider.answer(text("one"));
    let mut first = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    first.until_under_way(&feed).await;
    first.handle.commands.send(ClientCommand::Cancel).unwrap();
    first.finish(|_| unreachable!()).await;
    drop(feed);
    let base = first.settled.clone().unwrap();
    let again = RunAction::Start {
        interrupted: None,
        messages: vec![user_message("run-1", "hi")],
    };
    let mut second = bench.start(&provider, prepared("run-2", base, again));
    assert_eq!(second.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();
    assert_eq!(said(&provider.requests()[1].history), ["user hi"]);
    assert_eq!(second.log[0], "initial +0 barrier");
}

async fn a_resume_adds_no_message(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let feed = provider.feed();
    provider.answer(text("one"));
    let mut first = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    first.until_under_way(&feed).await;
    first.handle.commands.send(ClientCommand::Cancel).unwrap();
    first.finish(|_| unreachable!()).await;
    drop(feed);
    let base = first.settled.clone().unwrap();
    let mut second = bench.start(
        &provider,
        prepared("run-2", base, RunAction::Resume { pending: None }),
    );
    assert_eq!(second.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();
    assert_eq!(said(&provider.requests()[1].history), ["user hi"]);
    assert_eq!(second.log[0], "initial +0 barrier");
}

async fn a_resume_of_a_finished_turn_does_not_call_the_model_again(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(text("one"));
    let mut first = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    first.finish(|_| unreachable!()).await;
    let base = first.settled.clone().unwrap();
    let mut second = bench.start(
        &provider,
        prepared("run-2", base, RunAction::Resume { pending: None }),
    );
    assert_eq!(second.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(
        second.log,
        [
            "notice The last message is answered already; nothing was left to do.",
            "final +0 barrier",
            "completed",
        ]
    );
    provider.assert_clean();
}

over_every_api! {
    an_event_during_a_tool_round_follows_the_round,
    an_event_during_the_answer_makes_the_run_go_on,
    the_same_event_again_adds_nothing,
    a_resume_adds_no_message,
    a_resume_of_a_finished_turn_does_not_call_the_model_again,
}
