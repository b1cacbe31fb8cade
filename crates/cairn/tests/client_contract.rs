//! Any client can drive the run core through its port; a state that it must hold holds the run back until it does.
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

use cairn::client::{ClientCommand, ClientEvent, StateCause};
use cairn::model::{RunFailure, RunOutcome};
use support::fake_client::Bench;
use support::fake_provider::{FakeProvider, calls, text};
use support::over_http::Over;

async fn the_model_is_called_only_after_the_initial_barrier(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(text("hello"));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    let initial = client
        .until(|event| {
            matches!(
                event,
                ClientEvent::StateCommitted {
                    cause: StateCause::Initial,
                    ..
                }
            )
        })
        .await;
    assert_eq!(provider.requests().len(), 0);
    client.release(initial);
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(provider.requests().len(), 1);
}

async fn a_settled_round_holds_the_next_model_call_until_the_client_has_it(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(calls("", &[("a", "alpha", "{}")]));
    provider.answer(text("done"));
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "go").await);
    let round = client.until_round().await;
    client.result(&round.calls[0], "r");
    let settled = client
        .until(|event| {
            matches!(
                event,
                ClientEvent::StateCommitted {
                    cause: StateCause::ToolRoundSettled(_),
                    ..
                }
            )
        })
        .await;
    assert_eq!(provider.requests().len(), 1);
    client.release(settled);
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(
        client.log,
        [
            "initial +1 barrier",
            "model 0",
            "call a alpha",
            "arguments a {}",
            "round +0",
            "execute 1",
            "result a +0",
            "settled +2 barrier",
            "model 1",
            "text(",
            "text done",
            ")text",
            "final +1 barrier",
            "completed",
        ]
    );
}

async fn a_final_state_that_the_client_cannot_take_is_no_completed_run(over: Over) {
    for dropped in [false, true] {
        let bench = Bench::new().await;
        let provider = FakeProvider::over(over).await;
        provider.answer(text("hello"));
        let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
        let last = client
            .until(|event| {
                matches!(
                    event,
                    ClientEvent::StateCommitted {
                        cause: StateCause::Final,
                        ..
                    }
                )
            })
            .await;
        let ClientEvent::StateCommitted {
            barrier: Some(barrier),
            ..
        } = last
        else {
            unreachable!()
        };
        let failure = RunFailure::Client("disk full".to_owned());
        if dropped {
            drop(barrier);
        } else {
            barrier.fail(failure.clone());
        }
        let outcome = client.finish(|_| unreachable!()).await;
        match (dropped, &outcome) {
            (false, RunOutcome::Failed(got)) => assert_eq!(*got, failure),
            (true, RunOutcome::Failed(got)) => assert_eq!(got.kind().as_str(), "client"),
            other => panic!("{other:?}"),
        }
    }
}

async fn a_client_that_fails_ends_the_run_with_its_own_words(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let feed = provider.feed();
    let mut client = bench.start(&provider, bench.user_turn("run-1", None, "hi").await);
    client.until_under_way(&feed).await;
    let failure = RunFailure::Protocol("message 3 makes no sense".to_owned());
    client
        .handle
        .commands
        .send(ClientCommand::ClientClosed(failure.clone()))
        .unwrap();
    assert_eq!(
        client.finish(|_| unreachable!()).await,
        RunOutcome::Failed(failure)
    );
    feed.closed().await;
}

over_every_api! {
    the_model_is_called_only_after_the_initial_barrier,
    a_settled_round_holds_the_next_model_call_until_the_client_has_it,
    a_final_state_that_the_client_cannot_take_is_no_completed_run,
    a_client_that_fails_ends_the_run_with_its_own_words,
}
