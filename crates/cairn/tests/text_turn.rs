//! A turn without tools: what the client is told, what is stored, what the next request starts with.
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

use cairn::model::{HistoryItem, Part, RunAction, RunOutcome};
use cairn::provider::ModelEvent;
use cairn::store::RecordedOutcome;
use support::fake_client::{Bench, prepared};
use support::fake_provider::{FakeProvider, text, with_thinking, with_usage};
use support::over_http::Over;

async fn a_text_turn_streams_commits_and_completes_in_this_order(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(with_usage(10, 3, with_thinking("hm", "fake", text("hello"))));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(
        client.log,
        [
            "initial +1 barrier",
            "model 0",
            "thinking(",
            "thinking hm",
            ")thinking",
            "text(",
            "text hello",
            ")text",
            "usage",
            "final +1 barrier",
            "completed",
        ]
    );
    let record = bench
        .services
        .store
        .run_record(&"run-1".into_id())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.outcome, Some(RecordedOutcome::Completed));
    let usage = record.usage.unwrap();
    assert_eq!(
        (usage.fresh_input, usage.output, usage.cache_read),
        (Some(10), Some(3), None)
    );
    assert_eq!(record.provider_calls, 1);
}

async fn the_next_turn_extends_what_the_model_saw(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(text("one"));
    provider.answer(text("two"));
    let mut first = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    first.finish(|_| unreachable!()).await;
    let base = first.settled.clone().unwrap();
    let mut second = bench.start(&provider, bench.user_turn("run-2", Some(&base), "again").await);
    assert_eq!(second.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();
    let seen: Vec<_> = provider.requests()[1]
        .history
        .iter()
        .map(|item| match item.as_ref() {
            HistoryItem::User { parts, .. } => match &parts[..] {
                [Part::Text(text)] => format!("user {text}"),
                other => panic!("{other:?}"),
            },
            HistoryItem::Assistant { said, .. } => format!("assistant {}", said.text),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, ["user hi", "assistant one", "user again"]);
}

async fn an_empty_answer_ends_the_turn_with_a_notice_and_leaves_no_message(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(vec![
        cairn::provider::ModelEvent::Start,
        cairn::provider::ModelEvent::Done(cairn::provider::StopReason::Stop),
    ]);
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(
        client.log,
        [
            "initial +1 barrier",
            "model 0",
            "notice The model ended its turn without an answer.",
            "final +0 barrier",
            "completed",
        ]
    );
    let head = client.settled.clone().unwrap();
    assert_eq!(bench.services.store.history(&head).await.unwrap().len(), 1);
}

/// Endpoints refuse a message that is nothing but thinking, and then every later request of the conversation.
async fn an_answer_of_nothing_but_thinking_leaves_no_message(over: Over) {
    for words in ["", "\n\n"] {
        let bench = Bench::new().await;
        let provider = FakeProvider::over(over).await;
        let mut thought = with_thinking("hm", "fake", text(words));
        if words.is_empty() {
            let is_empty_block = |event: &ModelEvent| {
                matches!(
                    event,
                    ModelEvent::TextStart | ModelEvent::TextDelta(_) | ModelEvent::TextEnd
                )
            };
            thought.retain(|event| !is_empty_block(event));
        }
        provider.answer(thought);
        let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
        assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
        let notice = "notice The model ended its turn without an answer.".to_owned();
        assert!(client.log.contains(&notice), "{:?}", client.log);
        let head = client.settled.clone().unwrap();
        assert_eq!(bench.services.store.history(&head).await.unwrap().len(), 1);
        provider.answer(text("two"));
        let mut next = bench.start(&provider, bench.user_turn("run-2", Some(&head), "again").await);
        assert_eq!(next.finish(|_| unreachable!()).await, RunOutcome::Completed);
        provider.assert_clean();
    }
}

/// A model that is called with its own answer at the end refuses, or goes on with it.
async fn what_is_answered_is_not_answered_again(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(text("one"));
    let mut first = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    first.finish(|_| unreachable!()).await;
    let base = first.settled.clone().unwrap();
    let repeat = RunAction::Start {
        interrupted: None,
        messages: Vec::new(),
    };
    for (run, action) in [("run-2", RunAction::Resume { pending: None }), ("run-3", repeat)] {
        let mut client = bench.start(&provider, prepared(run, base.clone(), action));
        assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
        assert_eq!(
            client.log,
            [
                "notice The last message is answered already; nothing was left to do.",
                "final +0 barrier",
                "completed"
            ]
        );
        assert_eq!(client.settled, Some(base.clone()));
    }
    assert_eq!(provider.requests().len(), 1);
}

trait IntoId {
    fn into_id(self) -> cairn::model::RunId;
}

impl IntoId for &str {
    fn into_id(self) -> cairn::model::RunId {
        cairn::model::RunId::new(self)
    }
}

async fn the_index_of_a_model_call_is_durable_before_the_call_is_made(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let feed = provider.feed();
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    client
        .until(|event| matches!(event, cairn::client::ClientEvent::ModelCallStarted { .. }))
        .await;
    let record = bench
        .services
        .store
        .run_record(&"run-1".into_id())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((record.provider_call_index, record.provider_calls), (Some(0), 1));
    assert_eq!(record.outcome, None);
    text("hello").into_iter().for_each(|event| feed.event(event));
    drop(feed);
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
}

over_every_api! {
    a_text_turn_streams_commits_and_completes_in_this_order,
    the_next_turn_extends_what_the_model_saw,
    an_empty_answer_ends_the_turn_with_a_notice_and_leaves_no_message,
    an_answer_of_nothing_but_thinking_leaves_no_message,
    what_is_answered_is_not_answered_again,
    the_index_of_a_model_call_is_durable_before_the_call_is_made,
}
