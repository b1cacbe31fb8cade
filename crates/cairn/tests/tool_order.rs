//! Results enter the history in the order in which they came; the model sees one batch with its calls in its own order.
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

use cairn::model::{HistoryItem, MessageBody, RunOutcome};
use support::fake_client::Bench;
use support::fake_provider::{FakeProvider, calls, text, with_thinking};
use support::over_http::Over;

async fn results_are_stored_as_pairs_in_completion_order_and_shown_as_one_batch(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let batch = [
        ("a", "alpha", "{\"n\":1}"),
        ("b", "beta", "{ \"n\" : 2 }"),
        ("c", "gamma", "{}"),
    ];
    provider.answer(with_thinking("hm", "fake", calls("three at once", &batch)));
    provider.answer(text("done"));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    let round = client.until_round().await;
    for index in [1, 0, 2] {
        client.result(&round.calls[index], &format!("result {index}"));
    }
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    provider.assert_clean();

    let head = client.settled.clone().unwrap();
    let stored = bench.services.store.history(&head).await.unwrap();
    let mut order = Vec::new();
    for message in stored.iter() {
        match &message.body {
            MessageBody::ToolCall {
                call,
                said,
                index,
                batch_size,
                ..
            } => {
                order.push(format!(
                    "call {} at {index}/{batch_size} said={}",
                    call.id,
                    said.is_some()
                ));
            }
            MessageBody::ToolResult { result, .. } => order.push(format!("result {}", result.call)),
            MessageBody::User { .. } => order.push("user".to_owned()),
            MessageBody::Assistant(said) => order.push(format!("assistant {}", said.text)),
        }
    }
    assert_eq!(
        order,
        [
            "user",
            "call b at 1/3 said=true",
            "result b",
            "call a at 0/3 said=false",
            "result a",
            "call c at 2/3 said=false",
            "result c",
            "assistant done",
        ]
    );

    let second = &provider.requests()[1];
    let HistoryItem::Assistant { said, calls, .. } = second.history[1].as_ref() else {
        panic!("{:?}", second.history[1]);
    };
    assert_eq!(&*said.text, "three at once");
    assert_eq!(
        said.reasoning.as_ref().map(|reasoning| &*reasoning.text),
        Some("hm")
    );
    assert!(said.replay.as_ref().is_some_and(|state| provider.issued(state)));
    let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(&*calls[1].arguments, "{ \"n\" : 2 }");
    let results: Vec<_> = second.history[2..]
        .iter()
        .map(|item| match item.as_ref() {
            HistoryItem::ToolResult(result) => (result.call.as_str(), result.content.text()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        results,
        [
            ("b", "result 1".into()),
            ("a", "result 0".into()),
            ("c", "result 2".into())
        ]
    );
}

async fn the_model_is_not_called_before_every_result_is_committed(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(calls("", &[("a", "alpha", "{}"), ("b", "beta", "{}")]));
    provider.answer(text("done"));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    let round = client.until_round().await;
    client.result(&round.calls[1], "first");
    client
        .until(|event| matches!(event, cairn::client::ClientEvent::StateCommitted { .. }))
        .await;
    assert_eq!(provider.requests().len(), 1);
    client.result(&round.calls[0], "second");
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(provider.requests().len(), 2);
    provider.assert_clean();
}

async fn ids_that_the_model_repeats_are_told_apart_the_same_way_in_every_replay(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(calls("", &[("x:0", "alpha", "{}"), ("x:0", "beta", "{}")]));
    provider.answer(calls("", &[("x:0", "alpha", "{}"), ("", "beta", "{}")]));
    provider.answer(text("done"));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    let outcome = client.finish(|call| format!("for {}", call.id)).await;
    assert_eq!(outcome, RunOutcome::Completed);
    provider.assert_clean();
    let ids: Vec<_> = client
        .rounds
        .iter()
        .flat_map(|round| &round.calls)
        .map(|call| call.id.to_string())
        .collect();
    assert_eq!(ids, ["x:0", "x:0-2", "x:0-3", "call_4"]);
}

async fn a_result_for_no_open_call_ends_the_run_as_a_protocol_failure(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(calls("", &[("a", "alpha", "{}"), ("b", "beta", "{}")]));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    let round = client.until_round().await;
    client.result(&round.calls[0], "one");
    client.result(&round.calls[0], "two");
    let outcome = client.finish(|_| unreachable!()).await;
    let RunOutcome::Failed(failure) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(failure.kind().as_str(), "protocol");
    assert!(
        failure.to_string().contains("a second result") && failure.to_string().contains("call a"),
        "{failure}"
    );
}

over_every_api! {
    results_are_stored_as_pairs_in_completion_order_and_shown_as_one_batch,
    the_model_is_not_called_before_every_result_is_committed,
    ids_that_the_model_repeats_are_told_apart_the_same_way_in_every_replay,
    a_result_for_no_open_call_ends_the_run_as_a_protocol_failure,
}
