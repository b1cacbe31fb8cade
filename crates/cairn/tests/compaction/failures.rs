//! No summary comes, or the run ends in the middle: the history is as it was, and the person is told.

use cairn::client::ClientEvent;
use cairn::model::{ConversationId, ProviderFault, RunFailure, RunOutcome};
use cairn::provider::{ModelEvent, StopReason};

use crate::support::fake_provider::{calls, text, with_thinking};
use crate::talk::{THRESHOLD, Talk};

/// A conversation whose next turn is compacted first.
async fn large() -> Talk {
    let mut talk = Talk::new().await;
    talk.answer("First.", THRESHOLD);
    talk.say("One?").await;
    talk.base_size = Some(THRESHOLD);
    talk
}

fn fault_of(outcome: &RunOutcome) -> (ProviderFault, &str) {
    match outcome {
        RunOutcome::Failed(RunFailure::Provider(failure)) => (failure.fault, &failure.message),
        other => panic!("no failure of the provider: {other:?}"),
    }
}

/// Scripts the next answers.
type Script = Box<dyn Fn(&Talk)>;

/// The ways in which a summary does not come, and what the person reads of each.
fn no_summary() -> Vec<(&'static str, Script)> {
    let thought = || {
        let mut events = with_thinking("hm", "i", text("x"));
        events.retain(|event| {
            !matches!(
                event,
                ModelEvent::TextStart | ModelEvent::TextDelta(_) | ModelEvent::TextEnd
            )
        });
        events
    };
    vec![
        (
            "the endpoint is down",
            Box::new(|talk| talk.fail(ProviderFault::Unavailable, "the endpoint is down")),
        ),
        (
            "nothing came for 300 s",
            Box::new(|talk| talk.fail(ProviderFault::Timeout, "nothing came for 300 s")),
        ),
        (
            "the model's summary was empty.",
            Box::new(|talk| talk.provider.answer(text(" \n"))),
        ),
        (
            "the model's summary was empty.",
            Box::new(move |talk| talk.provider.answer(thought())),
        ),
        (
            "the model's summary was empty.",
            Box::new(|talk| {
                talk.provider
                    .answer(vec![ModelEvent::Start, ModelEvent::Done(StopReason::Stop)]);
            }),
        ),
        (
            "the model asked for tools instead of summarising; none of them was run.",
            Box::new(|talk| talk.provider.answer(calls(" \n", &[("c", "alpha", "{}")]))),
        ),
        (
            "The model's answer was cut off before its end. Nothing of it was kept; send the message again.",
            Box::new(|talk| {
                talk.provider.answer(vec![
                    ModelEvent::Start,
                    ModelEvent::TextStart,
                    ModelEvent::TextDelta("half a".into()),
                ]);
            }),
        ),
    ]
}

#[tokio::test]
async fn without_a_summary_the_history_stays_as_it_was_and_the_run_goes_on() {
    for (words, script) in no_summary() {
        let mut talk = large().await;
        script(&talk);
        // Above the threshold all the time, and not tried again in this run.
        talk.call("call_1", THRESHOLD + 1);
        talk.answer("Second.", THRESHOLD + 2);
        assert_eq!(talk.say("Two?").await, RunOutcome::Completed, "{words}");
        let told = format!("no summary The conversation could not be summarised and stays as it is: {words}");
        assert_eq!(talk.shown(), ["summary 0", &told]);
        let requests = talk.requests();
        assert_eq!(
            requests[2],
            [
                &requests[0][..],
                &["assistant: First.".to_owned(), "user: Two?".to_owned()]
            ]
            .concat()
        );
        assert_eq!(talk.provider.resets(), Vec::<usize>::new());
        assert_eq!(talk.compactions().await, []);
        // The next run tries again.
        talk.answer("the gist", 500);
        talk.answer("Third.", 200);
        talk.say("Three?").await;
        assert_eq!(talk.shown(), ["summary 0", "compacted +3 barrier"]);
    }
}

#[tokio::test]
async fn a_summary_that_was_asked_for_and_does_not_come_is_a_failure() {
    for (words, script) in no_summary() {
        let mut talk = large().await;
        let head = talk.head.clone();
        script(&talk);
        let outcome = talk.summarise().await;
        assert_eq!(fault_of(&outcome).1, words);
        assert_eq!(talk.head, head);
        assert_eq!(talk.compactions().await, []);
    }
}

#[tokio::test]
async fn without_a_summary_a_refused_history_ends_the_run_with_the_endpoints_refusal() {
    for (words, script) in no_summary() {
        let mut talk = large().await;
        talk.base_size = None;
        talk.refuse();
        script(&talk);
        let outcome = talk.say("Two?").await;
        assert_eq!(fault_of(&outcome), (ProviderFault::ContextLength, "too long"));
        let told = format!("no summary The conversation could not be summarised and stays as it is: {words}");
        assert_eq!(talk.shown(), ["summary 1", &told]);
    }
}

#[tokio::test]
async fn a_history_that_is_refused_twice_ends_the_run() {
    let mut talk = large().await;
    talk.base_size = None;
    talk.refuse();
    talk.answer("the gist", 500);
    talk.refuse();
    let outcome = talk.say("Two?").await;
    assert_eq!(fault_of(&outcome), (ProviderFault::ContextLength, "too long"));
    assert_eq!(talk.requests().len(), 4);
}

#[tokio::test]
async fn a_first_message_that_is_too_long_is_the_endpoints_to_judge() {
    let mut talk = Talk::new().await;
    talk.refuse();
    let outcome = talk.say("A very long message.").await;
    assert_eq!(fault_of(&outcome), (ProviderFault::ContextLength, "too long"));
    assert_eq!((talk.requests().len(), talk.shown()), (1, vec![]));
}

#[tokio::test]
async fn an_answer_that_was_shown_in_part_is_not_begun_again() {
    let mut talk = large().await;
    talk.base_size = None;
    let feed = talk.provider.feed();
    feed.event(ModelEvent::Start);
    feed.event(ModelEvent::TextStart);
    feed.event(ModelEvent::TextDelta("Well,".into()));
    feed.failure(cairn::model::ProviderFailure::new(
        ProviderFault::ContextLength,
        "the answer filled the context",
    ));
    let outcome = talk.say("Two?").await;
    assert_eq!(fault_of(&outcome).1, "the answer filled the context");
    assert_eq!(talk.requests().len(), 2);
}

#[tokio::test]
async fn there_is_nothing_to_summarise_in_what_is_a_summary_already() {
    let mut talk = large().await;
    talk.answer("the gist", 500);
    talk.summarise().await;
    assert_eq!(talk.summarise().await, RunOutcome::Completed);
    assert_eq!(
        talk.shown(),
        ["notice There is nothing to summarise yet; the conversation stays as it is."]
    );
    assert_eq!(talk.compactions().await.len(), 1);
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_it_summarises_leaves_the_history_as_it_was() {
    let mut talk = large().await;
    let head = talk.head.clone();
    let feed = talk.provider.feed();
    feed.event(ModelEvent::Start);
    let mut client = talk.start("Two?").await;
    client
        .until(|event| matches!(event, ClientEvent::CompactionStarted { .. }))
        .await;
    client.handle.cancel.cancel();
    assert_eq!(talk.finish(&mut client).await, RunOutcome::Cancelled);
    feed.closed().await;
    assert_eq!(talk.compactions().await, []);
    // The client sends the message again, on what it held before or on what it holds now.
    for (head, kept) in [(head, 3), (talk.head.clone(), 4)] {
        talk.head = head;
        talk.provider.expect_reset(&ConversationId::new("conversation"));
        talk.answer("the gist", 500);
        talk.answer("Second.", 200);
        assert_eq!(talk.say("Two?").await, RunOutcome::Completed);
        let compacted = format!("compacted +{kept} barrier");
        assert_eq!(talk.shown(), ["summary 0", &compacted]);
    }
}

#[tokio::test]
async fn a_newer_run_takes_over_from_one_that_summarises() {
    let mut talk = large().await;
    let feed = talk.provider.feed();
    feed.event(ModelEvent::Start);
    let mut old = talk.start("Two?").await;
    old.until(|event| matches!(event, ClientEvent::CompactionStarted { .. }))
        .await;
    talk.answer("the gist", 500);
    talk.answer("Third.", 200);
    assert_eq!(talk.say("Three?").await, RunOutcome::Completed);
    assert_eq!(old.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    assert_eq!(talk.compactions().await.len(), 1);
    assert_eq!(
        talk.requests().pop().unwrap(),
        ["context: the rules", "summary: <the gist>", "user: Three?"]
    );
}

#[tokio::test]
async fn a_client_that_never_got_the_summary_begins_from_what_it_has() {
    let mut talk = large().await;
    let head = talk.head.clone();
    talk.answer("the gist", 500);
    let mut client = talk.start("Two?").await;
    let committed = client
        .until(|event| {
            matches!(event, ClientEvent::StateCommitted { cause, .. }
                if matches!(cause, cairn::client::StateCause::Compacted { .. }))
        })
        .await;
    // The summary is durable, and the client goes away before it holds it.
    drop(committed);
    let outcome = talk.finish(&mut client).await;
    assert!(
        matches!(outcome, RunOutcome::Failed(RunFailure::Client(_))),
        "{outcome:?}"
    );
    assert_eq!(talk.compactions().await.len(), 1);
    talk.head = head;
    talk.answer("the same gist", 500);
    talk.answer("Second.", 200);
    talk.say("Two?").await;
    assert_eq!(talk.compactions().await.len(), 2);
    assert_eq!(
        talk.requests().pop().unwrap(),
        ["context: the rules", "summary: <the same gist>", "user: Two?"]
    );
}

#[tokio::test]
async fn a_call_beside_the_summary_is_passed_over() {
    let mut talk = large().await;
    talk.provider.answer(calls("the gist", &[("c", "alpha", "{}")]));
    talk.answer("Second.", 200);
    assert_eq!(talk.say("Two?").await, RunOutcome::Completed);
    assert_eq!(talk.shown(), ["summary 0", "compacted +3 barrier"]);
    assert!(!talk.log.iter().any(|line| line.starts_with("execute")));
    assert_eq!(
        talk.requests().pop().unwrap(),
        ["context: the rules", "summary: <the gist>", "user: Two?"]
    );
}
