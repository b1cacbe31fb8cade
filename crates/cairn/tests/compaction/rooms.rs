//! Conversations that are much larger than the model that is to go on with them: an endpoint that judges each request by its
//! size alone. Whatever the history is made of, the conversation goes on.

use cairn::model::RunOutcome;

use crate::support::fake_provider::{calls, characters, text, with_usage};
use crate::talk::{ALLOWANCE, Talk};

/// What the model that takes over can hold, in characters: half as much again as what shortened messages keep.
const ROOM: usize = ALLOWANCE + ALLOWANCE / 2;

/// The size that the large model reports; nothing is summarised by it.
const SMALL: u64 = 100;

/// Goes on with the conversation on a model of little room: it answers, in this turn and in the next one, and sees what the
/// person says whole.
async fn goes_on_with_little_room(talk: &mut Talk, shape: &str) {
    let large = talk.provider.requests().len();
    talk.provider.set_room(ROOM);
    let asked = format!("And now? {}", "words ".repeat(20));
    assert_eq!(talk.say(&asked).await, RunOutcome::Completed, "{shape}");
    let requests = talk.provider.requests();
    let last = requests.last().unwrap();
    assert!(characters(&last.history) <= ROOM, "{shape}");
    let said = crate::talk::said(last);
    assert_eq!(said[0], "context: the rules", "{shape}");
    assert!(said[1].starts_with("summary: "), "{shape}: {said:?}");
    assert!(said.contains(&format!("user: {asked}")), "{shape}: {said:?}");
    let asked = requests.len() - large;
    assert!(asked <= 80, "{shape}: {asked} requests");
    assert_eq!(talk.say("Sure?").await, RunOutcome::Completed, "{shape}");
    let next = talk.provider.requests().pop().unwrap();
    assert_eq!(next.history[..last.history.len()], last.history, "{shape}");
}

/// A turn of the large model with rounds of one call each.
async fn long_turn(talk: &mut Talk, turn: usize, rounds: usize, arguments: &str) {
    for round in 0..rounds {
        let id = format!("call_{turn}_{round}");
        talk.provider
            .answer(with_usage(SMALL, 1, calls("Next.", &[(&id, "alpha", arguments)])));
    }
    talk.provider.answer(with_usage(SMALL, 1, text("Done.")));
    assert_eq!(talk.say("Go on.").await, RunOutcome::Completed);
}

#[tokio::test]
async fn many_rounds_with_results_of_middling_length() {
    let mut talk = Talk::new().await;
    talk.result = Some("x".repeat(2_000));
    for turn in 0..4 {
        long_turn(&mut talk, turn, 20, "{}").await;
    }
    goes_on_with_little_room(&mut talk, "results").await;
}

#[tokio::test]
async fn many_rounds_with_long_arguments() {
    let mut talk = Talk::new().await;
    talk.result = Some("ok".to_owned());
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(2_000));
    for turn in 0..2 {
        long_turn(&mut talk, turn, 20, &arguments).await;
    }
    goes_on_with_little_room(&mut talk, "arguments").await;
}

#[tokio::test]
async fn a_long_talk_without_tools() {
    let mut talk = Talk::new().await;
    for _ in 0..60 {
        talk.provider
            .answer(with_usage(SMALL, 1, text(&"y".repeat(1_000))));
        talk.say(&"x".repeat(1_000)).await;
    }
    goes_on_with_little_room(&mut talk, "talk").await;
}

#[tokio::test]
async fn one_answer_that_is_larger_than_the_room() {
    let mut talk = Talk::new().await;
    talk.provider
        .answer(with_usage(SMALL, 1, text(&"y".repeat(3 * ROOM))));
    talk.say("Tell me all.").await;
    goes_on_with_little_room(&mut talk, "answer").await;
}

#[tokio::test]
async fn one_round_of_many_calls() {
    let mut talk = Talk::new().await;
    let ids: Vec<String> = (0..100).map(|number| format!("call_{number}")).collect();
    let list: Vec<(&str, &str, &str)> = ids.iter().map(|id| (&**id, "alpha", "{}")).collect();
    talk.result = Some("x".repeat(1_000));
    talk.provider.answer(with_usage(SMALL, 1, calls("", &list)));
    talk.provider.answer(with_usage(SMALL, 1, text("Done.")));
    talk.say("Do it all.").await;
    goes_on_with_little_room(&mut talk, "calls").await;
}

/// The round is not answered yet when it turns out to be too much.
#[tokio::test]
async fn one_open_round_of_many_calls() {
    let mut talk = Talk::new().await;
    talk.provider.answer(with_usage(SMALL, 1, text("Ready.")));
    talk.say("Are you there?").await;
    let ids: Vec<String> = (0..100).map(|number| format!("call_{number}")).collect();
    let list: Vec<(&str, &str, &str)> = ids.iter().map(|id| (&**id, "alpha", "{}")).collect();
    talk.result = Some("x".repeat(1_000));
    talk.provider.answer(with_usage(SMALL, 1, calls("", &list)));
    talk.provider.set_room(ROOM);
    assert_eq!(talk.say("Do it all.").await, RunOutcome::Completed);
    let last = talk.provider.requests().pop().unwrap();
    assert!(characters(&last.history) <= ROOM);
    assert!(crate::talk::said(&last).contains(&"user: Do it all.".to_owned()));
}
