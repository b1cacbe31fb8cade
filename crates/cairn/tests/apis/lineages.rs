//! Thinking and the past that it belongs to: an edited message, a fork, and an answer that was cut behind its thinking.

use cairn::model::{RevisionId, RunOutcome};
use cairn::provider::ModelEvent;

use crate::support::fake_client::Bench;
use crate::support::fake_provider::{FakeProvider, text, with_thinking};
use crate::support::over_http::Over;
use crate::{api, bodies, conversation, failed_turn, thought, turn};

/// The thoughts that the last request gives back, of those that there were.
fn given_back(over: Over, provider: &FakeProvider, thoughts: &[&str]) -> Vec<String> {
    let body = bodies(&provider.endpoint()).pop().unwrap();
    let comes_back = |words: &&&str| body.contains(&thought(api(over), words));
    thoughts
        .iter()
        .filter(comes_back)
        .map(|words| (*words).to_owned())
        .collect()
}

/// The second of three messages is edited, twice, and the left branch goes on too.
pub async fn each_branch_gives_back_the_thinking_of_its_own_past(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let mut revisions: Vec<RevisionId> = Vec::new();
    // Each turn: what it is called, and the turn that it follows.
    let turns = [
        ("one", None),
        ("two", Some(0)),
        ("three", Some(1)),
        ("two edited", Some(0)),
        ("two again", Some(0)),
        ("four", Some(2)),
        ("after the edit", Some(3)),
    ];
    let pasts: [&[&str]; 7] = [
        &[],
        &["one"],
        &["one", "two"],
        &["one"],
        &["one"],
        &["one", "two", "three"],
        &["one", "two edited"],
    ];
    let names = turns.map(|(name, _)| name);
    for ((name, follows), past) in turns.into_iter().zip(pasts) {
        provider.expect_reset(&conversation());
        provider.answer(with_thinking(name, "fake", text("so")));
        let base = follows.map(|at: usize| &revisions[at]);
        let settled = turn(&bench, &provider, name, base).await;
        revisions.push(settled);
        assert_eq!(given_back(over, &provider, &names), past, "{name}");
    }
    provider.assert_clean();
}

/// Whole thinking whose answer never came is worth nothing: it must not stand in the history without its follower.
pub async fn thinking_whose_answer_was_cut_is_dropped_at_the_cut(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(with_thinking("first", "fake", text("one")));
    let base = turn(&bench, &provider, "turn", None).await;
    let thinking = [
        ModelEvent::Start,
        ModelEvent::ThinkingStart,
        ModelEvent::ThinkingDelta("lost".into()),
        ModelEvent::ThinkingEnd,
    ];
    provider.steps(thinking.into_iter().map(Ok).collect());
    let (failure, client, asked) = failed_turn(&bench, &provider, Some(&base)).await;
    assert!(failure.contains("the stream ended without"), "{failure}");
    assert_eq!(asked, 1);
    let settled = client.settled.unwrap();
    provider.expect_reset(&conversation());
    provider.answer(text("two"));
    let mut client = bench.start(&provider, bench.user_turn("again", Some(&settled), "again").await);
    assert_eq!(client.finish(|_| unreachable!()).await, RunOutcome::Completed);
    assert_eq!(given_back(over, &provider, &["first", "lost"]), ["first"]);
    assert!(!bodies(&provider.endpoint()).pop().unwrap().contains("lost"));
    provider.assert_clean();
}
