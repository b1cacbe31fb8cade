//! Uploads come twice, late, in another order, or never.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cairn::cursor::inbox::InboxLimits;
use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::{AgentClientMessage, ClientHeartbeat};

use cairn::model::FailureKind;

use super::conversation::{Broken, GoOn, Reference, Turn};
use super::inside::Inside;
use super::rig::{Fault, block_on, try_all};
use super::support::fake_cursor::{AppendFault, TurnReport, Upload};

/// How many orders are tried.
const SHUFFLES: u64 = 60;

/// A turn in which nothing breaks, and how many uploads it has.
async fn reference(turn: Turn) -> (Arc<Reference>, i64) {
    let uploads = Arc::new(AtomicI64::new(0));
    let mut inside = Inside::new().await;
    let counted = uploads.clone();
    inside.conversation.cursor.hooks.append = Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        AppendFault::None
    });
    let report = inside.conversation.cursor.send(turn.message()).await.success();
    let uploads = uploads.load(Ordering::Relaxed);
    (Arc::new(inside.conversation.reference(report).await), uploads)
}

/// Lets one upload of the turn have the fault.
async fn play(turn: Turn, at: i64, fault: AppendFault) -> (Inside, TurnReport) {
    // A good client is never so slow here; where one is lost, nobody should wait long.
    let gap = match fault {
        AppendFault::Drop => Duration::from_millis(100),
        _ => InboxLimits::default().gap,
    };
    let mut inside = Inside::with_gap(gap).await;
    let cursor = &mut inside.conversation.cursor;
    cursor.hooks.append = Box::new(move |seqno| if seqno == at { fault } else { AppendFault::None });
    let report = cursor.send(turn.message()).await;
    cursor.hooks.append = Box::new(|_| AppendFault::None);
    (inside, report)
}

/// A repeat, or a sign of life, may come when the run has just ended, and is told so. Nothing else is refused.
#[track_caller]
fn refused_after_the_end(report: &TurnReport) {
    for refused in &report.refused {
        assert!(refused.contains("has ended and takes no append"), "{refused}");
    }
}

fn harmless(kind: &str, fault: AppendFault) {
    let turn = Turn::Tools;
    let (reference, uploads) = block_on(reference(turn));
    let faults = (0..uploads).map(|at| {
        let reference = reference.clone();
        Fault::new(format!("upload {at}: {fault:?}"), move || async move {
            let (inside, report) = play(turn, at, fault).await;
            refused_after_the_end(&report.success());
            inside.nothing_happened(&reference).await;
        })
    });
    try_all(kind, faults.collect());
}

#[test]
fn each_upload_may_come_twice() {
    harmless("upload twice", AppendFault::Repeat);
}

#[test]
fn each_upload_may_change_places_with_the_next() {
    harmless("upload after the next", AppendFault::After(1));
}

#[test]
fn each_upload_may_be_late() {
    harmless("upload late", AppendFault::After(5));
}

#[test]
fn uploads_may_come_in_any_order() {
    let turn = Turn::Tools;
    let (reference, _) = block_on(reference(turn));
    let faults = (0..SHUFFLES).map(|seed| {
        let reference = reference.clone();
        Fault::new(format!("order {seed}"), move || async move {
            let mut inside = Inside::new().await;
            let cursor = &mut inside.conversation.cursor;
            let mut random = Random(seed);
            cursor.hooks.shuffle = Some(Box::new(move |batch| shuffle(batch, &mut random)));
            let report = cursor.send(turn.message()).await.success();
            cursor.hooks.shuffle = None;
            refused_after_the_end(&report);
            inside.nothing_happened(&reference).await;
        })
    });
    try_all("uploads in any order, some twice", faults.collect());
}

#[test]
fn an_upload_that_never_comes_ends_the_run_by_name() {
    let turn = Turn::Tools;
    let (reference, uploads) = block_on(reference(turn));
    let faults = (0..uploads).map(|at| {
        let reference = reference.clone();
        Fault::new(format!("upload {at} never comes"), move || async move {
            let (inside, report) = play(turn, at, AppendFault::Drop).await;
            let (code, message) = report.error();
            assert_eq!(code, "invalid_argument", "{message}");
            assert!(
                message.contains(&format!("append {at} of the request did not arrive")),
                "{message}"
            );
            let how = if at % 2 == 0 { GoOn::Send } else { GoOn::Resume };
            inside
                .survive(turn, how, Broken::Failed(FailureKind::Protocol), &reference)
                .await;
        })
    });
    try_all("upload never", faults.collect());
}

/// Puts the uploads at hand into another order, with signs of life among them and some of them twice.
fn shuffle(batch: &mut Vec<Upload>, random: &mut Random) {
    let first = batch[0].0 + i64::try_from(batch.len()).unwrap();
    for seqno in first..first + i64::try_from(random.below(4)).unwrap() {
        let heartbeat = ClientMessage::ClientHeartbeat(ClientHeartbeat {});
        let message = Some(heartbeat);
        batch.push((seqno, AgentClientMessage { message }));
    }
    if random.below(3) == 0 {
        batch.push(batch[random.below(batch.len())].clone());
    }
    for last in (1..batch.len()).rev() {
        batch.swap(last, random.below(last + 1));
    }
}

/// SplitMix64: the same numbers for the same seed on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        usize::try_from(z % u64::try_from(limit).unwrap()).unwrap()
    }
}
