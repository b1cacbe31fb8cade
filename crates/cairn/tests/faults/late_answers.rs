//! An answer comes when a newer run has taken the conversation over from the one that asked: it changes nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::conversation::{NEXT, Reference, Turn as Played};
use super::cuts::asks;
use super::facts::Facts;
use super::inside::{Inside, until_silent};
use super::rig::{Fault, block_on, try_all};
use super::support::fake_cursor::{End, ExecAnswer, FakeCursor, SetAnswer};

/// A question of the server that the client keeps its answer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Exec(u32),
    Set,
}

/// The client keeps its answer to one question of the turn (by its number, from 0) to itself. Tells which it was, once
/// it has come.
fn withhold(cursor: &mut FakeCursor, question: usize) -> Arc<OnceLock<Asked>> {
    let asked = Arc::new(OnceLock::new());
    let questions = Arc::new(AtomicUsize::new(0));
    let (noted, counted) = (asked.clone(), questions.clone());
    cursor.hooks.set = Box::new(move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) == question {
            noted.set(Asked::Set).unwrap();
            return SetAnswer::Withhold;
        }
        SetAnswer::Acknowledge
    });
    let (noted, counted) = (asked.clone(), questions);
    cursor.hooks.exec = Box::new(move |exec| {
        if counted.fetch_add(1, Ordering::Relaxed) == question {
            noted.set(Asked::Exec(exec.id)).unwrap();
            return ExecAnswer::Hold;
        }
        ExecAnswer::RunAlone
    });
    asked
}

async fn trial(played: Played, question: usize, reference: Arc<Reference>) {
    let mut inside = Inside::new().await;
    let data = inside.data();
    let cursor = &mut inside.conversation.cursor;
    let asked = withhold(cursor, question);
    let mut old = cursor.start_turn(played.message()).await;
    while asked.get().is_none() {
        assert!(old.next().await.is_some(), "the question did not come");
    }
    until_silent(&mut old).await;

    // A newer run of another window has the conversation, and waits for its own first state to be confirmed.
    let mut window = old.twin();
    let held = window.state();
    let request = old.request_id.clone();
    window.hooks.exec = Box::new(|_| ExecAnswer::RunAlone);
    let confirms = Arc::new(AtomicBool::new(false));
    let confirmed = confirms.clone();
    window.hooks.set = Box::new(move |_| match confirmed.load(Ordering::Relaxed) {
        true => SetAnswer::Acknowledge,
        false => SetAnswer::Withhold,
    });
    let mut new = window.start_turn(NEXT).await;
    while new.report().sets == 0 {
        assert!(new.next().await.is_some(), "the newer run has no state");
    }
    until_silent(&mut new).await;
    // Whether it had begun or was still asked for its request context.
    while old.next().await.is_some() {}
    let before = Facts::read_beside(&data).await;
    match (asked.get().unwrap(), question % 2) {
        (Asked::Exec(id), _) => old.release(*id).await,
        (Asked::Set, 0) => old.acknowledge_withheld().await,
        (Asked::Set, _) => old.refuse_withheld("disk full").await,
    }
    while old.next().await.is_some() {}
    until_silent(&mut new).await;
    assert_eq!(
        Facts::read_beside(&data).await,
        before,
        "a late answer changed the database"
    );
    let report = old.report();
    assert_eq!(report.error().0, "canceled");
    assert!(!report.refused.is_empty(), "a late answer was taken");
    for refused in &report.refused {
        assert!(refused.contains("has ended and takes no append"), "{refused}");
    }
    drop(old);
    confirms.store(true, Ordering::Relaxed);
    new.acknowledge_withheld().await;
    assert_eq!(new.finish().await.end, End::Success);
    window.assert_clean();
    inside.taken_over(&held, &request, &reference).await;
}

#[test]
fn a_late_answer_to_a_run_that_was_taken_over_changes_nothing() {
    for played in Played::ALL {
        let reference = Arc::new(block_on(Inside::reference(played)));
        let questions = reference.report.frames.iter().filter(|frame| asks(frame)).count();
        let faults = (0..questions).map(|question| {
            let reference = reference.clone();
            Fault::new(format!("question {}", question + 1), move || {
                trial(played, question, reference)
            })
        });
        try_all(
            &format!("answer after the next run began, {played:?}"),
            faults.collect(),
        );
    }
}
