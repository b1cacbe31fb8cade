//! The client closes its stream at each frame of a turn and goes on at once, with a server that lives on.
//!
//! What the run that it left still does at that time must not reach the run that goes on.

use std::sync::Arc;

use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::demo::wire_client::RunFrame;

use super::conversation::{GoOn, Reference, Turn, frames_of};
use super::inside::Inside;
use super::rig::{Fault, block_on, try_all};
use super::support::fake_cursor::{FakeCursor, is_heartbeat};

/// When the client goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// It has read the frame and says nothing more.
    AtFrame,
    /// It has answered the frame, which asked for something, and the server has taken the answer.
    AfterAnswer,
}

/// Cuts the stream at each frame of a turn that the cut is about.
fn cut_at_each_frame(turn: Turn, cut: Cut) {
    let reference = Arc::new(block_on(Inside::reference(turn)));
    let frames = || {
        reference
            .report
            .frames
            .iter()
            .filter(|frame| !is_heartbeat(frame))
    };
    assert_eq!(frames().count(), frames_of(&reference.report) + 1);
    let places: Vec<usize> = (1..=frames_of(&reference.report))
        .zip(frames())
        .filter(|(_, frame)| cut == Cut::AtFrame || asks(frame))
        .map(|(at, _)| at)
        .collect();
    let kind = match cut {
        Cut::AtFrame => "cut at a frame",
        Cut::AfterAnswer => "cut after an answer",
    };
    for how in GoOn::ALL {
        let faults = places.iter().map(|at| {
            let (at, reference) = (*at, reference.clone());
            Fault::new(format!("{kind}, {at}, then {how:?}"), move || {
                trial(turn, cut, at, how, reference)
            })
        });
        try_all(&format!("{kind}, {turn:?}, {how:?}"), faults.collect());
    }
}

async fn trial(turn: Turn, cut: Cut, at: usize, how: GoOn, reference: Arc<Reference>) {
    let mut inside = Inside::new().await;
    let cursor = &mut inside.conversation.cursor;
    let broken = match cut {
        Cut::AtFrame => {
            leave_at(cursor, at);
            cursor.send(turn.message()).await
        }
        Cut::AfterAnswer => {
            let mut running = cursor.start_turn(turn.message()).await;
            let mut frames = 0;
            while frames < at {
                let frame = running.next().await.expect("the turn has so many frames");
                frames += usize::from(!is_heartbeat(&frame));
            }
            running.close()
        }
    };
    cursor.hooks.kill_at = None;
    inside
        .survive_cut(turn, how, &broken.request_id, &reference)
        .await;
}

/// The client goes away when the frame has come. Nobody is killed.
fn leave_at(cursor: &mut FakeCursor, frame: usize) {
    cursor.hooks.kill_at = Some((frame, Box::new(|| {})));
}

/// Whether the client answers a frame.
pub fn asks(frame: &RunFrame) -> bool {
    let RunFrame::Message(message) = frame else {
        return false;
    };
    matches!(
        message.message,
        Some(
            ServerMessage::KvServerMessage(_)
                | ServerMessage::ExecServerMessage(_)
                | ServerMessage::InteractionQuery(_)
        )
    )
}

#[test]
fn a_cut_at_any_frame_of_a_text_turn_is_survived() {
    cut_at_each_frame(Turn::Text, Cut::AtFrame);
}

#[test]
fn a_cut_at_any_frame_of_a_turn_with_tools_is_survived() {
    cut_at_each_frame(Turn::Tools, Cut::AtFrame);
}

#[test]
fn a_cut_after_any_answer_of_a_text_turn_is_survived() {
    cut_at_each_frame(Turn::Text, Cut::AfterAnswer);
}

#[test]
fn a_cut_after_any_answer_of_a_turn_with_tools_is_survived() {
    cut_at_each_frame(Turn::Tools, Cut::AfterAnswer);
}

/// The run that resumes a cut one is cut too, and resumed.
#[test]
fn a_cut_at_any_frame_of_a_resumed_turn_is_survived() {
    let reference = Arc::new(block_on(Inside::reference(Turn::Tools)));
    let frames = block_on(async {
        let mut inside = Inside::new().await;
        inside.conversation.left_in_a_round(|| {}).await;
        frames_of(&inside.conversation.cursor.resume().await.success())
    });
    let faults = (1..=frames).map(|at| {
        let reference = reference.clone();
        let name = format!("cut in a round, resume, cut at frame {at}, resume");
        Fault::new(name, move || async move {
            let mut inside = Inside::new().await;
            inside.conversation.breaks = 2;
            inside.conversation.left_in_a_round(|| {}).await;
            let cursor = &mut inside.conversation.cursor;
            leave_at(cursor, at);
            let broken = cursor.resume().await;
            cursor.hooks.kill_at = None;
            inside
                .survive_cut(Turn::Tools, GoOn::Resume, &broken.request_id, &reference)
                .await;
        })
    });
    try_all("cut at a frame of the resumed turn", faults.collect());
}
