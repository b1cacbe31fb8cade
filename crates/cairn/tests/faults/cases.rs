//! Hard cases from the field that are about ends, resumes and time, over real connections.
//! `docs/faults.md` says which test stands for which case.

use std::time::Duration;

use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::{ClientHeartbeat, ConversationStateStructure, exec_server_message};
use cairn::demo::wire_client::RunFrame;
use serde_json::json;

use super::support::fake_cursor::{ExecAnswer, is_heartbeat};
use super::support::strict_chat::Reply;
use super::support::wire_bench::{Bench, Database, added, roles};

/// Case 1: an error of any text ends the run with one short frame.
#[tokio::test]
async fn an_endpoints_error_of_two_megabytes_is_one_short_end_frame() {
    let mut bench = Bench::new().await;
    let long: String = (0..2_000_000_u32)
        .map(|i| char::from_u32(i % 0x80).unwrap())
        .collect();
    let body = json!({"error": {"message": long}}).to_string();
    bench.endpoint.reply_status(400, &[], &body);
    let report = bench.cursor.send("Hello?").await;
    let (code, message) = report.error();
    assert_eq!(code, "unavailable");
    assert!(message.len() <= 4096, "{}", message.len());
    assert!(!message.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    let ends = report
        .frames
        .iter()
        .filter(|frame| matches!(frame, RunFrame::End(_)));
    assert_eq!(ends.count(), 1);
    bench.endpoint.reply_text("Yes.");
    bench.cursor.send("Hello?").await.success();
    bench.assert_clean();
}

/// Case 3: each resume asks the endpoint for the same, and says why it failed; the tool that is done is not run again,
/// and nothing is said again that the client has.
#[tokio::test]
async fn resumes_that_fail_ask_for_the_same_and_the_one_that_works_goes_on() {
    let mut bench = Bench::new().await;
    let calls = [("c1", "Shell", r#"{"command":"echo x >> ran"}"#)];
    bench.endpoint.reply(Reply::answer(None, "Look.", &calls));
    let cut = Reply::answer(None, "One, two, three, four, five.", &[]).broken_at(700);
    bench.endpoint.reply(cut);
    let broken = bench.cursor.send("Do it.").await;
    assert_eq!(broken.error().0, "unavailable");
    assert!(broken.text.starts_with("Look.One, "), "{broken}");
    // The time that a turn takes grows with each of its runs.
    let untimed = |mut state: ConversationStateStructure| {
        for timing in &mut state.turn_timings {
            timing.duration_ms = 0;
        }
        state
    };
    let state = untimed(bench.cursor.state());
    for _ in 0..3 {
        // As often as it is tried before any output.
        bench.endpoint.reply(Reply::disconnect());
        bench.endpoint.reply(Reply::disconnect());
        let failed = bench.cursor.resume().await;
        let (code, message) = failed.error();
        assert_eq!(code, "unavailable");
        assert!(!message.is_empty());
        assert_eq!((failed.text.as_str(), failed.calls.len()), ("", 0));
        assert_eq!(
            untimed(bench.cursor.state()),
            state,
            "a failed resume changed the state"
        );
    }
    bench.endpoint.reply_text("Six.");
    let done = bench.cursor.resume().await.success();
    assert_eq!((done.text.as_str(), done.calls.len()), ("Six.", 0));
    assert_eq!(bench.read("ran"), "x\n");
    let bodies = bench.bodies();
    assert_eq!(bodies.len(), 9);
    assert_eq!(roles(&added(&bodies[0], &bodies[1])), ["assistant", "tool"]);
    for resumed in &bodies[2..] {
        assert_eq!(resumed, &bodies[1]);
    }
    bench.endpoint.reply_text("Good.");
    bench.cursor.send("And?").await.success();
    assert_eq!(roles(&bench.added()), ["assistant", "user"]);
    bench.assert_clean();
}

/// Case 23: three turns come back from the disk or from the client, byte for byte.
#[tokio::test]
async fn three_turns_come_back_after_a_restart_from_wherever_they_are() {
    for database in [Database::Kept, Database::Lost] {
        for is_sent_along in [true, false] {
            let mut bench = Bench::new().await;
            bench.file("a.txt", "one\n");
            for turn in ["First.", "Second.", "Third."] {
                let id = format!("call {turn}\n");
                let arguments = "{ \"path\" : \"a.txt\" }";
                let calls = [(id.as_str(), "Read", arguments)];
                bench.endpoint.reply(Reply::answer(Some("Hm.\r\n"), "", &calls));
                bench.endpoint.reply(Reply::answer(Some(" So."), turn, &[]));
                bench.cursor.send(turn).await.success();
            }
            let mut bench = bench.restart(database).await;
            if !is_sent_along {
                bench.cursor.hooks.request = Box::new(|request| request.pre_fetched_blobs.clear());
            }
            bench.endpoint.reply_text("Fourth.");
            let report = bench.cursor.send("Fourth.").await.success();
            let asks = database == Database::Lost && !is_sent_along;
            assert_eq!(!report.gets.is_empty(), asks, "{database:?}");
            assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
            bench.assert_clean();
        }
    }
}

/// Case 25: ten minutes of a client's signs of life, while a command runs.
#[tokio::test]
async fn ten_minutes_of_signs_of_life_leave_a_run_as_it_was() {
    let mut bench = Bench::new().await;
    let calls = [("c1", "Shell", r#"{"command":"echo done"}"#)];
    bench.endpoint.reply(Reply::answer(None, "", &calls));
    bench.endpoint.reply_text("Done.");
    bench.cursor.hooks.exec = Box::new(hold_commands);
    let mut turn = bench.cursor.start_turn("Wait for it.").await;
    let exec = turn.until_held(1).await[0].id;
    turn.until_checkpoint(1).await;
    for _ in 0..120 {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(5)).await;
        tokio::time::resume();
        let frame = turn.next().await.unwrap();
        assert!(is_heartbeat(&frame), "{frame:?}");
        turn.append(ClientMessage::ClientHeartbeat(ClientHeartbeat {}))
            .await;
    }
    turn.release(exec).await;
    let report = turn.finish().await.success();
    assert_eq!(report.refused, Vec::<String>::new());
    assert_eq!(report.text, "Done.");
    bench.assert_clean();
}

fn hold_commands(exec: &cairn::cursor::proto::agent::ExecServerMessage) -> ExecAnswer {
    match exec.message {
        Some(exec_server_message::Message::ShellStreamArgs(_)) => ExecAnswer::Hold,
        _ => ExecAnswer::Run,
    }
}
