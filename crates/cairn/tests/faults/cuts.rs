//! The client closes its stream at each frame of a turn and goes on at once, with a server that lives on.
//!
//! What the run that it left still does at that time must not reach the run that goes on.

use std::sync::Arc;

use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::demo::wire_client::RunFrame;

use super::conversation::{GoOn, Reference, Turn, frames_of};
use super::inside::Inside;
use super::rig::{Fault, block_on, try_all};
use super::support::fake_cursor::FakeCursor;

/// Cuts the stream at each frame of a turn: the client has read the frame and says nothing more. A cut after an answer would
/// be a race: the server may have gone on to the model before it sees the cut.
fn cut_at_each_frame(turn: Turn) {
    let reference = Arc::new(block_on(Inside::reference(turn)));
    for how in GoOn::ALL {
        let faults = (1..=frames_of(&reference.report)).map(|at| {
            let reference = reference.clone();
            Fault::new(format!("cut at a frame, {at}, then {how:?}"), move || {
                trial(turn, at, how, reference)
            })
        });
        try_all(&format!("cut at a frame, {turn:?}, {how:?}"), faults.collect());
    }
}

async fn trial(turn: Turn, at: usize, how: GoOn, reference: Arc<Reference>) {
    let mut inside = Inside::new().await;
    let cursor = &mut inside.conversation.cursor;
    leave_at(cursor, at);
    let broken = cursor.send(turn.message()).await;
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
    cut_at_each_frame(Turn::Text);
}

#[test]
fn a_cut_at_any_frame_of_a_turn_with_tools_is_survived() {
    cut_at_each_frame(Turn::Tools);
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
