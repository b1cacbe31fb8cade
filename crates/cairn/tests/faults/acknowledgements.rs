//! The client does not acknowledge a blob: it refuses it, it answers late, it never answers, or the person cancels meanwhile.

use std::sync::Arc;
use std::time::Duration;

use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::interaction_update::Message as Update;
use cairn::cursor::proto::agent::kv_server_message;
use cairn::demo::wire_client::RunFrame;
use cairn::model::FailureKind;
use tokio::time::Instant;

use super::conversation::{Broken, GoOn, Reference, Turn as Played};
use super::inside::{Inside, pass, until_silent};
use super::rig::{Fault, block_on, try_all};
use super::support::fake_cursor::{FakeCursor, SetAnswer, Turn, checkpoint_of};

/// How long a client may take to answer for one blob.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// What a SET is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Initial,
    /// The calls of this many whole rounds are done when it is withheld.
    Staged,
    Settled,
    Final,
}

/// Each SET of a turn in which nothing breaks: what the next checkpoint after it is.
fn purposes(reference: &Reference) -> Vec<Purpose> {
    let frames = &reference.report.frames;
    let sets = frames.iter().enumerate().filter(|(_, frame)| is_set(frame));
    sets.map(|(at, _)| {
        let first_checkpoint = frames.iter().position(|frame| checkpoint_of(frame).is_some());
        let next = frames[at..]
            .iter()
            .find(|frame| is_turn_ended(frame) || checkpoint_of(frame).is_some());
        match next.and_then(checkpoint_of) {
            None => Purpose::Final,
            Some(_) if Some(at) < first_checkpoint => Purpose::Initial,
            Some(state) if state.pending_tool_calls.len() == 1 => Purpose::Staged,
            Some(_) => Purpose::Settled,
        }
    })
    .collect()
}

/// Tries a fault with each SET of each turn.
fn with_each_set<F: Future<Output = ()>>(
    kind: &str,
    trial: impl Fn(Played, usize, Purpose, Arc<Reference>) -> F + Copy + Send + 'static,
) {
    let mut faults = Vec::new();
    for turn in Played::ALL {
        let reference = Arc::new(block_on(Inside::reference(turn)));
        let purposes = purposes(&reference);
        assert_eq!(purposes[0], Purpose::Initial);
        assert_eq!(purposes.last(), Some(&Purpose::Final));
        for (at, purpose) in purposes.into_iter().enumerate() {
            let reference = reference.clone();
            let name = format!("SET {} of the turn {turn:?}, for a state {purpose:?}", at + 1);
            faults.push(Fault::new(name, move || trial(turn, at, purpose, reference)));
        }
    }
    try_all(kind, faults);
}

/// From now on the SET with this place in its run is answered so.
fn answer_set(cursor: &mut FakeCursor, at: usize, answer: fn() -> SetAnswer) {
    let mut seen = 0;
    cursor.hooks.set = Box::new(move |_| {
        seen += 1;
        if seen == at + 1 {
            answer()
        } else {
            SetAnswer::Acknowledge
        }
    });
}

/// Plays the turn until the SET has come, is not answered, and nothing more comes. What must not wait is done then, and
/// what must has not happened.
async fn until_it_waits<'a>(inside: &'a mut Inside, played: Played, at: usize, purpose: Purpose) -> Turn<'a> {
    let conversation = &mut inside.conversation;
    answer_set(&mut conversation.cursor, at, || SetAnswer::Withhold);
    let mut turn = conversation.cursor.start_turn(played.message()).await;
    while turn.report().sets <= at {
        assert!(turn.next().await.is_some(), "the SET did not come");
    }
    let checkpoints = turn.report().checkpoints.len();
    let model_calls = conversation.chat.requests().len();
    if purpose == Purpose::Staged {
        // The round itself does not wait for its checkpoint.
        let is_done = |turn: &Turn<'_>| {
            let calls = &turn.report().calls;
            calls.len() == 3 && calls.iter().all(|call| call.completed.is_some())
        };
        while !is_done(&turn) {
            assert!(turn.next().await.is_some(), "the round did not go on");
        }
    }
    until_silent(&mut turn).await;
    let report = turn.report();
    assert_eq!(report.checkpoints.len(), checkpoints, "a checkpoint was out");
    assert_eq!(report.turn_ended, None);
    assert_eq!(
        conversation.chat.requests().len(),
        model_calls,
        "the model was called"
    );
    turn
}

#[test]
fn a_late_acknowledgement_holds_back_what_it_must_and_nothing_else() {
    with_each_set("SET acknowledged late", async |played, at, purpose, reference| {
        let mut inside = Inside::new().await;
        let mut turn = until_it_waits(&mut inside, played, at, purpose).await;
        turn.acknowledge_withheld().await;
        turn.finish().await.success();
        inside.nothing_happened(&reference).await;
    });
}

#[test]
fn a_refused_blob_ends_the_run_as_the_clients_fault() {
    with_each_set("SET refused", async |played, at, _, reference| {
        let mut inside = Inside::new().await;
        let cursor = &mut inside.conversation.cursor;
        answer_set(cursor, at, || SetAnswer::Refuse("disk full"));
        let report = cursor.send(played.message()).await;
        cursor.hooks.set = Box::new(|_| SetAnswer::Acknowledge);
        let (code, message) = report.error();
        assert_eq!(code, "aborted");
        assert!(
            message.contains("refused to store blob") && message.contains("disk full"),
            "{message}"
        );
        inside
            .survive(
                played,
                GoOn::Send,
                Broken::Failed(FailureKind::Client),
                &reference,
            )
            .await;
    });
}

#[test]
fn a_cancel_while_a_blob_is_not_acknowledged_ends_the_run_at_once() {
    with_each_set("cancel during a SET", async |played, at, purpose, reference| {
        let mut inside = Inside::new().await;
        let mut turn = until_it_waits(&mut inside, played, at, purpose).await;
        turn.cancel().await;
        let began = Instant::now();
        let report = turn.finish().await;
        assert_eq!(report.error().0, "canceled");
        assert!(began.elapsed() < ANSWER_LIMIT / 4, "{:?}", began.elapsed());
        inside.conversation.cursor.hooks.set = Box::new(|_| SetAnswer::Acknowledge);
        inside
            .survive(played, GoOn::Send, Broken::Cancelled, &reference)
            .await;
    });
}

/// The clock is moved while the server waits, over real connections.
#[test]
fn a_blob_that_is_never_acknowledged_ends_the_run_by_name() {
    with_each_set(
        "SET never acknowledged",
        async |played, at, purpose, reference| {
            let mut inside = Inside::new().await;
            let mut turn = until_it_waits(&mut inside, played, at, purpose).await;
            pass(ANSWER_LIMIT - Duration::from_secs(2)).await;
            until_silent(&mut turn).await;
            pass(Duration::from_secs(3)).await;
            let report = turn.finish().await;
            let (code, message) = report.error();
            assert_eq!(code, "aborted");
            assert!(
                message.contains("did not answer for blob") && message.contains("60 seconds"),
                "{message}"
            );
            inside.conversation.cursor.hooks.set = Box::new(|_| SetAnswer::Acknowledge);
            inside
                .survive(
                    played,
                    GoOn::Send,
                    Broken::Failed(FailureKind::Client),
                    &reference,
                )
                .await;
        },
    );
}

fn is_set(frame: &RunFrame) -> bool {
    let RunFrame::Message(message) = frame else {
        return false;
    };
    matches!(
        &message.message,
        Some(ServerMessage::KvServerMessage(kv))
            if matches!(kv.message, Some(kv_server_message::Message::SetBlobArgs(_)))
    )
}

fn is_turn_ended(frame: &RunFrame) -> bool {
    let RunFrame::Message(message) = frame else {
        return false;
    };
    matches!(
        &message.message,
        Some(ServerMessage::InteractionUpdate(update)) if matches!(update.message, Some(Update::TurnEnded(_)))
    )
}
