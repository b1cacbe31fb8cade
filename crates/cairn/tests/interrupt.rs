//! A run that is stopped stops at once, and a newer run owns the conversation: nothing late changes anything.
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
use cairn::model::{HistoryItem, RunId, RunOutcome};
use cairn::provider::ModelEvent;
use cairn::store::RecordedOutcome;
use support::fake_client::Bench;
use support::fake_provider::{FakeProvider, calls, text};

#[tokio::test]
async fn a_newer_run_stops_the_older_one_and_the_older_one_leaves_nothing() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    let feed = provider.feed();
    provider.answer(text("second"));
    let mut old = bench.start(&provider, bench.user_turn("old", None, "hi").await);
    old.until(|event| matches!(event, ClientEvent::ModelCallStarted { .. }))
        .await;
    feed.event(ModelEvent::Start);
    feed.event(ModelEvent::TextStart);
    feed.event(ModelEvent::TextDelta("half an ans".into()));
    old.until(|event| matches!(event, ClientEvent::TextDelta(_)))
        .await;
    let base = old.settled.clone().unwrap();

    let mut new = bench.start(
        &provider,
        bench.user_turn("new", Some(&base), "stop, rather this").await,
    );
    assert_eq!(old.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    feed.closed().await;
    assert_eq!(new.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();
    let outcome = |run: &str| {
        let store = bench.services.store.clone();
        let run = RunId::new(run);
        async move { store.run_record(&run).await.unwrap().unwrap().outcome }
    };
    assert_eq!(outcome("old").await, Some(RecordedOutcome::Cancelled));
    assert_eq!(outcome("new").await, Some(RecordedOutcome::Completed));
    let kinds: Vec<_> = provider.requests()[1]
        .history
        .iter()
        .map(|item| matches!(item.as_ref(), HistoryItem::User { .. }))
        .collect();
    assert_eq!(kinds, [true, true], "the cut answer is no part of the history");
}

#[tokio::test]
async fn a_cancelled_tool_wait_ends_at_once_and_late_results_change_nothing() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    provider.answer(calls("", &[("a", "alpha", "{}"), ("b", "beta", "{}")]));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    let round = client.until_round().await;
    client.handle.commands.send(ClientCommand::Cancel).unwrap();
    client.result(&round.calls[0], "late");
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    let base = client.settled.clone().unwrap();
    assert_eq!(bench.services.store.history(&base).await.unwrap().len(), 1);
    assert_eq!(client.log.iter().filter(|line| *line == "cancelled").count(), 1);
}

#[tokio::test]
async fn dropping_the_client_ends_the_run_and_its_model_call() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    let feed = provider.feed();
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    client
        .until(|event| matches!(event, ClientEvent::ModelCallStarted { .. }))
        .await;
    drop(client);
    feed.closed().await;
    provider.cancellations()[0].cancelled().await;
}
