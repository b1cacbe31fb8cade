//! The process ends at each commit of a turn: at its first write and at its last one.
//!
//! The system does it: a process may not write a file beyond a length that it is given, and is ended where it tries to, as
//! a kill would end it. The log grows with each commit, so that each length stands for one place between two commits or
//! inside of one. The program itself knows nothing of it.

use std::sync::Arc;

use super::conversation::{GoOn, Reference, Turn};
use super::facts::{Facts, LOG_FRAME, commits};
use super::outside::Outside;
use super::process::Home;
use super::rig::{Fault, block_on, try_all};
use super::support::fake_cursor::{End, TurnReport, checkpoint_of, is_heartbeat};

/// Bytes of the file in which SQLite shares the index of the log.
const SHARED_INDEX: u64 = 32_768;

/// Where in a turn the process ends.
#[derive(Clone, Debug)]
struct Place {
    /// Commits of the turn that are done by then.
    commits: usize,
    /// How far the log may grow from where it stood before the turn.
    room: u64,
    name: String,
    /// Whether the commit that fails is the one that precedes a model call. The last frame before it is a checkpoint.
    precedes_model_call: bool,
}

/// What of the last frames before the end has come to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    All,
    /// All but a checkpoint that was the last of them: the process ended right after the commit before.
    AllButLastCheckpoint,
}

async fn places(turn: Turn) -> (Reference, Vec<Place>) {
    let reference = Outside::reference(turn).await;
    let (before, after) = &reference.commits;
    let start = *before.last().unwrap();
    let mut places = Vec::new();
    for (commits, ends) in after[before.len() - 1..].windows(2).enumerate() {
        let &[begin, end] = ends else { unreachable!() };
        let earlier = Facts::read_until(&reference.home.data(), begin).await;
        let later = Facts::read_until(&reference.home.data(), end).await;
        let place = |what: &str, at: u64| Place {
            commits,
            room: at - start,
            name: format!(
                "at the {what} write of commit {} ({})",
                commits + 1,
                later.added_to(&earlier)
            ),
            precedes_model_call: later.model_calls > earlier.model_calls,
        };
        places.push(place("first", begin));
        if end - begin > LOG_FRAME {
            places.push(place("last", end - LOG_FRAME));
        }
    }
    (reference.reference, places)
}

fn end_at_each_commit(turn: Turn) {
    let (reference, places) = block_on(places(turn));
    assert!(places.len() > 10, "{places:#?}");
    let reference = Arc::new(reference);
    for arrival in [Arrival::All, Arrival::AllButLastCheckpoint] {
        for how in GoOn::ALL {
            let places = places
                .iter()
                .filter(|place| arrival == Arrival::All || place.precedes_model_call);
            let faults = places.map(|place| {
                let (place, reference) = (place.clone(), reference.clone());
                Fault::new(format!("{}, then {how:?}", place.name), move || {
                    trial(turn, place, arrival, how, reference)
                })
            });
            let kind = match arrival {
                Arrival::All => format!("end at a commit, {turn:?}, {how:?}"),
                Arrival::AllButLastCheckpoint => format!("end after a commit, {turn:?}, {how:?}"),
            };
            try_all(&kind, faults.collect());
        }
    }
}

#[test]
fn an_end_at_any_commit_of_a_text_turn_is_survived() {
    end_at_each_commit(Turn::Text);
}

#[test]
fn an_end_at_any_commit_of_a_turn_with_tools_is_survived() {
    end_at_each_commit(Turn::Tools);
}

/// Before anything is served: at the first byte, at the first file that is longer than one page, and at the commit that
/// makes the tables.
#[test]
fn an_end_during_the_first_start_is_survived() {
    let reference = Arc::new(block_on(Outside::reference(Turn::Text)).reference);
    let schema = block_on(async {
        let outside = Outside::new().await;
        let commits = commits(&outside.data());
        let longest = commits.windows(2).max_by_key(|ends| ends[1] - ends[0]).unwrap();
        [longest[0].max(SHARED_INDEX), longest[1] - LOG_FRAME]
    });
    let faults = [0, 4096].into_iter().chain(schema).map(|room| {
        let reference = reference.clone();
        Fault::new(format!("end at byte {room} of a file"), move || async move {
            let ended_early = |home: &Home| assert!(home.start_with_room(room).is_none());
            let mut outside = Outside::after(ended_early).await;
            outside
                .conversation
                .cursor
                .send(Turn::Text.message())
                .await
                .success();
            outside.conversation.nothing_happened(&reference).await;
        })
    });
    try_all("end at the first start", faults.collect());
}

/// The server ends again while it writes down that a run was interrupted.
#[test]
fn an_end_during_the_recovery_is_survived() {
    let reference = Arc::new(block_on(Outside::reference(Turn::Tools)).reference);
    let recovery = block_on(async {
        let mut outside = Outside::new().await;
        outside.killed_in_a_round().await;
        let before = *commits(&outside.data()).last().unwrap();
        outside.connect(outside.home.start()).await;
        outside.server.killer()();
        let after = commits(&outside.data());
        assert_eq!(after[after.len() - 2], before, "the recovery is one commit");
        after[after.len() - 1] - before
    });
    let mut faults = Vec::new();
    for room in [0, recovery - LOG_FRAME] {
        for how in GoOn::ALL {
            let reference = reference.clone();
            let name = format!("kill in a round, end {room} bytes into the recovery, then {how:?}");
            faults.push(Fault::new(name, move || async move {
                let mut outside = Outside::new().await;
                let mut broken = outside.killed_in_a_round().await;
                broken.end = End::Broken("killed".to_owned());
                let log = *commits(&outside.data()).last().unwrap();
                assert!(outside.home.start_with_room(log + room).is_none());
                outside.survive(Turn::Tools, how, &broken, &reference).await;
            }));
        }
    }
    try_all("end at the recovery", faults);
}

async fn trial(turn: Turn, place: Place, arrival: Arrival, how: GoOn, reference: Arc<Reference>) {
    let mut outside = Outside::new().await;
    outside.server.killer()();
    let before = commits(&outside.data());
    let room = before.last().unwrap() + place.room;
    let limited = outside.home.start_with_room(room).expect("it ended too early");
    outside.connect(limited).await;
    let cursor = &mut outside.conversation.cursor;
    let base = cursor.state();
    cursor.hooks.may_die = true;
    let broken = cursor.send(turn.message()).await;
    cursor.hooks.may_die = false;
    assert!(matches!(broken.end, End::Broken(_)), "{broken}");
    outside.server.wrote_too_far();
    assert_eq!(
        commits(&outside.home.data()).len(),
        before.len() + place.commits,
        "{broken}"
    );
    if arrival == Arrival::AllButLastCheckpoint && ends_with_a_checkpoint(&broken) {
        cursor.set_state(broken.checkpoints.iter().rev().nth(1).unwrap_or(&base));
    }
    outside.survive(turn, how, &broken, &reference).await;
}

fn ends_with_a_checkpoint(report: &TurnReport) -> bool {
    let last = report.frames.iter().rfind(|frame| !is_heartbeat(frame));
    last.is_some_and(|frame| checkpoint_of(frame).is_some())
}
