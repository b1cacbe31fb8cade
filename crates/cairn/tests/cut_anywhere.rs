//! A client may go away after any frame of a turn: what it holds then is enough to go on from, in every way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

mod support {
    pub mod cairn_server;
    pub mod fake_cursor;
    pub mod strict_chat;
    pub mod wire_bench;
    pub mod wire_oracle;
}

use support::fake_cursor::End;
use support::strict_chat::Reply;
use support::wire_bench::{Bench, Database, added};

/// A turn with thinking, text and two calls, and an answer; then answers for whatever follows.
fn queue_a_turn(bench: &Bench) {
    bench.file("a", "one\n");
    let calls = [
        ("c1", "Read", r#"{"path":"a"}"#),
        ("c2", "Read", r#"{"path":"b"}"#),
    ];
    bench.chat.reply(Reply::answer(Some("Hm."), "Look.", &calls));
    for _ in 0..3 {
        bench.chat.reply(Reply::answer(Some("So."), "One.", &[]));
    }
}

/// Lets the client go away after each frame of a turn in turn, and go on in another way.
async fn cut_at_each_frame(database: Option<Database>, go_on: AfterCut) {
    let mut bench = Bench::new().await;
    queue_a_turn(&bench);
    let frames = bench.cursor.send("Look at it.").await.success().frames.len();
    assert!(frames > 20, "{frames} frames are no turn with tools");
    for cut in 1..frames {
        let mut bench = Bench::new().await;
        queue_a_turn(&bench);
        bench.cursor.hooks.cut_after = Some(cut);
        let report = bench.cursor.send("Look at it.").await;
        assert_eq!(report.end, End::Closed);
        bench.cursor.hooks.cut_after = None;
        if let Some(database) = database {
            bench = bench.restart(database).await;
        }
        // The endpoint may have seen results that the client never held; the client's state is what counts.
        bench.chat.allow_reset();
        let known = bench.bodies().len();
        let has_turn = !bench.cursor.state().turns.is_empty();
        match go_on {
            AfterCut::Send => drop(bench.cursor.send("Go on.").await.success()),
            AfterCut::Resume if has_turn => drop(bench.cursor.resume().await.success()),
            AfterCut::Resume => continue,
        }
        let bodies = bench.bodies();
        if let (true, [first, .., last]) = (known > 0, &bodies[..]) {
            added(first, last);
        }
        assert_eq!(
            bench.chat.violations(),
            Vec::<String>::new(),
            "cut after frame {cut}"
        );
        bench.cursor.assert_clean();
        assert_eq!(
            bench.cursor.state().pending_tool_calls.len(),
            0,
            "cut after frame {cut}"
        );
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterCut {
    Send,
    Resume,
}

#[tokio::test]
async fn a_client_that_goes_away_after_any_frame_can_send_again() {
    cut_at_each_frame(None, AfterCut::Send).await;
}

#[tokio::test]
async fn a_client_that_goes_away_after_any_frame_can_resume() {
    cut_at_each_frame(None, AfterCut::Resume).await;
}

#[tokio::test]
async fn a_client_that_goes_away_after_any_frame_can_send_to_a_server_without_a_database() {
    cut_at_each_frame(Some(Database::Lost), AfterCut::Send).await;
}

#[tokio::test]
async fn a_client_that_goes_away_after_any_frame_can_resume_at_a_restarted_server() {
    cut_at_each_frame(Some(Database::Kept), AfterCut::Resume).await;
}
