//! The process is killed at each frame that the client gets, before the client can answer it.

use std::sync::Arc;

use super::conversation::{GoOn, Reference, Turn, frames_of};
use super::outside::Outside;
use super::rig::{Fault, block_on, try_all};

fn kill_at_each_frame(turn: Turn) {
    let reference = Arc::new(block_on(Outside::reference(turn)).reference);
    for how in GoOn::ALL {
        let faults = (1..=frames_of(&reference.report)).map(|at| {
            let reference = reference.clone();
            Fault::new(format!("kill at frame {at}, then {how:?}"), move || {
                trial(turn, at, how, reference)
            })
        });
        try_all(&format!("kill at a frame, {turn:?}, {how:?}"), faults.collect());
    }
}

#[test]
fn a_kill_at_any_frame_of_a_text_turn_is_survived() {
    kill_at_each_frame(Turn::Text);
}

#[test]
fn a_kill_at_any_frame_of_a_turn_with_tools_is_survived() {
    kill_at_each_frame(Turn::Tools);
}

/// The run that resumes a killed one is killed too, and resumed.
#[test]
fn a_kill_at_any_frame_of_a_resumed_turn_is_survived() {
    let reference = Arc::new(block_on(Outside::reference(Turn::Tools)).reference);
    let frames = block_on(async {
        let mut outside = Outside::new().await;
        outside.killed_in_a_round().await;
        outside.connect(outside.home.start()).await;
        frames_of(&outside.conversation.cursor.resume().await.success())
    });
    let faults = (1..=frames).map(|at| {
        let reference = reference.clone();
        Fault::new(
            format!("kill in a round, resume, kill at frame {at}, resume"),
            move || second_trial(at, reference),
        )
    });
    try_all("kill at a frame of the resumed turn", faults.collect());
}

async fn second_trial(at: usize, reference: Arc<Reference>) {
    let mut outside = Outside::new().await;
    outside.conversation.breaks = 2;
    outside.killed_in_a_round().await;
    outside.connect(outside.home.start()).await;
    let cursor = &mut outside.conversation.cursor;
    cursor.hooks.kill_at = Some((at, outside.server.killer()));
    let broken = cursor.resume().await;
    cursor.hooks.kill_at = None;
    outside
        .survive(Turn::Tools, GoOn::Resume, &broken, &reference)
        .await;
}

async fn trial(turn: Turn, at: usize, how: GoOn, reference: Arc<Reference>) {
    let mut outside = Outside::new().await;
    let cursor = &mut outside.conversation.cursor;
    cursor.hooks.kill_at = Some((at, outside.server.killer()));
    let broken = cursor.send(turn.message()).await;
    cursor.hooks.kill_at = None;
    outside.survive(turn, how, &broken, &reference).await;
}
