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

#[path = "interrupt/endpoint.rs"]
mod endpoint;
#[path = "interrupt/interleavings.rs"]
mod interleavings;
mod support;

use cairn::client::{ClientCommand, ClientEvent};
use cairn::model::{Assistant, ConversationId, HistoryItem, PendingAssistant, RunAction, RunId, RunOutcome};
use cairn::provider::ModelEvent;
use cairn::store::RecordedOutcome;
use support::fake_client::{Bench, prepared, user_message};
use support::fake_provider::{FakeProvider, calls, text};
use support::over_http::Over;

async fn a_newer_run_stops_the_older_one_and_the_older_one_leaves_nothing(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
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

async fn a_cancelled_tool_wait_ends_at_once_and_late_results_change_nothing(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
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

async fn dropping_the_client_ends_the_run_and_its_model_call(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let feed = provider.feed();
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    client
        .until(|event| matches!(event, ClientEvent::ModelCallStarted { .. }))
        .await;
    // The call is under way once something of its answer is here.
    feed.event(ModelEvent::Start);
    feed.event(ModelEvent::TextStart);
    feed.event(ModelEvent::TextDelta("half".into()));
    client
        .until(|event| matches!(event, ClientEvent::TextDelta(_)))
        .await;
    drop(client);
    feed.closed().await;
    provider.cancellations()[0].cancelled().await;
}

async fn an_interrupted_round_keeps_the_results_it_had_and_says_so_of_the_others(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(calls("both", &[("a", "alpha", "{}"), ("b", "beta", "{}")]));
    provider.answer(text("understood"));
    let mut old = bench.start(&provider, bench.user_turn("old", None, "go").await);
    let round = old.until_round().await;
    old.result(&round.calls[1], "b is done");
    old.until(|event| {
        matches!(
            event,
            ClientEvent::StateCommitted {
                cause: cairn::client::StateCause::ToolResult(_),
                ..
            }
        )
    })
    .await;
    let base = old.settled.clone().unwrap();
    old.handle.commands.send(ClientCommand::Cancel).unwrap();
    assert_eq!(old.finish(|_| unreachable!()).await, RunOutcome::Cancelled);

    let pending = PendingAssistant {
        round: Some(round.id.clone()),
        said: round.said.clone(),
        calls: round.calls.clone(),
        started_at_ms: round.started_at_ms,
    };
    let action = RunAction::Start {
        interrupted: Some(pending),
        messages: vec![user_message("new", "rather this")],
    };
    let mut new = bench.start(&provider, prepared("new", base, action));
    assert_eq!(new.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();
    assert_eq!(new.log[0], "initial +4 barrier");
    let results: Vec<_> = provider.requests()[1]
        .history
        .iter()
        .filter_map(|item| match item.as_ref() {
            HistoryItem::ToolResult(result) => {
                Some((result.call.to_string(), result.content.text().to_string()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(results[0], ("b".to_owned(), "b is done".to_owned()));
    assert_eq!(results[1].0, "a");
    assert!(
        results[1].1.contains("interrupted") && results[1].1.contains("unknown"),
        "{}",
        results[1].1
    );
    assert_eq!(results.len(), 2);
}

async fn an_answer_that_the_client_never_saw_settled_is_taken_over_and_not_asked_for_again(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let base = bench
        .services
        .store
        .empty_revision(&ConversationId::new("conversation"))
        .await
        .unwrap();
    let pending = PendingAssistant {
        round: None,
        said: Assistant {
            text: "the answer".into(),
            ..Assistant::default()
        },
        calls: Vec::new(),
        started_at_ms: 7,
    };
    let mut resumed = bench.start(
        &provider,
        prepared(
            "r",
            base,
            RunAction::Resume {
                pending: Some(pending),
            },
        ),
    );
    assert_eq!(resumed.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(resumed.log, ["final +1 barrier", "completed"]);
    provider.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_runs_at_once_the_one_that_was_started_last_owns_the_conversation() {
    for _ in 0..60 {
        let bench = Bench::new().await;
        let provider = FakeProvider::new();
        provider.answer(text("done"));
        let first = bench.user_turn("first", None, "hi").await;
        let second = bench.user_turn("second", None, "no, this").await;
        let mut first = bench.start(&provider, first);
        let mut second = bench.start(&provider, second);
        let (first, second) = tokio::join!(
            first.finish(|_| unreachable!()),
            second.finish(|_| unreachable!())
        );
        assert_eq!((first, second), (RunOutcome::Cancelled, RunOutcome::Completed));
    }
}

/// Both have been prepared, and the one that was asked for first comes last to its beginning.
#[tokio::test]
async fn a_run_that_was_asked_for_earlier_takes_nothing_from_the_newer_one() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    provider.answer(text("done"));
    let old = bench.user_turn("old", None, "hi").await;
    let new = bench.user_turn("new", None, "no, this").await;
    let registry = &bench.services.registry;
    let asked_old = registry.asked(old.conversation.clone(), old.id.clone());
    let _asked_new = registry.asked(new.conversation.clone(), new.id.clone());
    let mut new = bench.start(&provider, new);
    assert!(asked_old.overtaken().is_cancelled());
    let mut old = bench.start(&provider, old);
    assert_eq!(old.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    assert_eq!(new.finish(|_| unreachable!()).await, RunOutcome::Completed);
    let store = &bench.services.store;
    assert_eq!(store.run_record(&RunId::new("old")).await.unwrap(), None);
    provider.assert_clean();
}

over_every_api! {
    a_newer_run_stops_the_older_one_and_the_older_one_leaves_nothing,
    a_cancelled_tool_wait_ends_at_once_and_late_results_change_nothing,
    dropping_the_client_ends_the_run_and_its_model_call,
    an_interrupted_round_keeps_the_results_it_had_and_says_so_of_the_others,
    an_answer_that_the_client_never_saw_settled_is_taken_over_and_not_asked_for_again,
}
