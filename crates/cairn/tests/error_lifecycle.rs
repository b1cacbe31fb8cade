//! Whatever goes wrong, a run ends once, says why, and leaves nothing of a cut answer behind.
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

use cairn::cursor::blob::Blob;
use cairn::cursor::blob_sync::{BlobSync, BlobSyncError};
use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::{AgentRunRequest, interaction_update};
use cairn::cursor::sessions::{SessionLimits, SessionRegistry};
use cairn::demo::executor::{closed, thrown};
use cairn::demo::wire_client::RunFrame;
use serde_json::Value;
use support::fake_cursor::{End, ExecAnswer, SetAnswer, TurnReport};
use support::strict_chat::Reply;
use support::wire_bench::{Bench, Database, added, roles};
use tokio_util::sync::CancellationToken;

/// A turn that fails between two good ones. Gives its report and how often the endpoint was asked in it.
///
/// The third turn's request must extend the second one's by the third message alone: nothing of the failed answer is
/// kept, and neither is the failed message asked again in another form.
async fn failing_turn(replies: Vec<Reply>) -> (TurnReport, usize) {
    let mut bench = Bench::new().await;
    bench.chat.reply_text("First answer.");
    bench.cursor.send("First question.").await.success();
    for reply in replies {
        bench.chat.reply(reply);
    }
    let failed = bench.cursor.send("Second question.").await;
    assert!(matches!(failed.end, End::Error { .. }), "{failed}");
    assert_eq!(failed.turn_ended, None);
    assert_eq!(
        failed.checkpoints.len(),
        1,
        "more than the state that the turn began with"
    );
    let asked = bench.bodies().len() - 1;
    bench.chat.reply_text("Third answer.");
    bench.cursor.send("Third question.").await.success();
    let bodies = bench.bodies();
    let [first, second, .., third] = &bodies[..] else {
        panic!("{} requests", bodies.len());
    };
    assert_eq!(roles(&added(first, second)), ["assistant", "user"]);
    let new = added(second, third);
    assert_eq!(roles(&new), ["user"], "something of the failed turn was kept");
    for retry in &bodies[1..=asked] {
        assert_eq!(retry, second, "a retry had other bytes");
    }
    bench.assert_clean();
    (failed, asked)
}

fn failed(status: u16) -> Reply {
    Reply::status(
        status,
        &[],
        r#"{"error":{"message":"The endpoint says no to sk-canary-123.","type":"x"}}"#,
    )
}

#[tokio::test]
async fn a_refused_key_ends_the_run_at_once() {
    let (report, asked) = failing_turn(vec![failed(401)]).await;
    let (code, message) = report.error();
    assert_eq!((code, asked), ("unavailable", 1));
    assert!(message.contains("The endpoint says no"), "{message}");
    assert!(!message.contains("sk-canary-123"), "{message}");
}

#[tokio::test]
async fn an_endpoint_that_stays_broken_ends_the_run_after_the_last_try() {
    let (report, asked) = failing_turn(vec![failed(500), failed(500)]).await;
    assert_eq!((report.error().0, asked), ("unavailable", 2));
}

#[tokio::test]
async fn an_endpoint_that_recovers_before_any_output_is_not_noticed() {
    let mut bench = Bench::new().await;
    bench
        .chat
        .reply_status(429, &[("retry-after-ms", "5")], r#"{"error":{"message":"slow"}}"#);
    bench.chat.reply_text("There.");
    let report = bench.cursor.send("Hello?").await.success();
    assert_eq!(report.text, "There.");
    let bodies = bench.bodies();
    assert_eq!((bodies.len(), &bodies[0]), (2, &bodies[1]));
    bench.assert_clean();
}

#[tokio::test]
async fn a_connection_that_breaks_before_any_output_is_tried_again() {
    let (report, asked) = failing_turn(vec![Reply::disconnect(), Reply::disconnect()]).await;
    assert_eq!((report.error().0, asked), ("unavailable", 2));
}

const HALF_TEXT: &str = concat!(
    "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":",
    "[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Half an ans\"},\"finish_reason\":null}]}\n\n",
);

const HALF_CALL: &str = concat!(
    "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":",
    "[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":",
    "{\"name\":\"Shell\",\"arguments\":\"{\\\"command\\\":\\\"touch ran\"}}]},\"finish_reason\":null}]}\n\n",
);

#[tokio::test]
async fn a_stream_cut_inside_the_text_is_shown_and_not_kept() {
    for reply in [
        Reply::raw(HALF_TEXT),
        Reply::raw(HALF_TEXT).broken_at(HALF_TEXT.len()),
        Reply::raw(HALF_TEXT).cut_at(HALF_TEXT.len() - 1),
    ] {
        let (report, asked) = failing_turn(vec![reply]).await;
        assert_eq!((report.error().0, asked), ("unavailable", 1));
    }
}

#[tokio::test]
async fn a_stream_cut_inside_the_arguments_runs_nothing() {
    for reply in [
        Reply::raw(HALF_CALL),
        Reply::raw(HALF_CALL).broken_at(HALF_CALL.len()),
        Reply::raw(format!("{HALF_CALL}data: [DONE]\n\n")),
    ] {
        let (report, _) = failing_turn(vec![reply]).await;
        assert_eq!(report.error().0, "unavailable");
        assert_eq!(
            report.execs.len(),
            1,
            "only the request context is asked for: {:?}",
            report.execs
        );
        assert_eq!(report.calls, []);
    }
}

#[tokio::test]
async fn an_end_of_file_is_no_end_of_an_answer() {
    let (report, _) = failing_turn(vec![Reply::raw(format!("{HALF_TEXT}data: [DONE]\n\n"))]).await;
    assert_eq!(report.error().0, "unavailable");
    assert_eq!(report.text, "Half an ans");
}

#[tokio::test]
async fn an_error_inside_the_stream_is_an_error_and_not_text() {
    let error = "data: {\"error\":{\"message\":\"quota exceeded\",\"code\":null}}\n\ndata: [DONE]\n\n";
    let (report, _) = failing_turn(vec![Reply::raw(format!("{HALF_TEXT}{error}"))]).await;
    let (code, message) = report.error();
    assert_eq!(code, "unavailable");
    assert!(message.contains("quota exceeded"), "{message}");
    assert!(!report.text.contains("quota"), "{}", report.text);
}

#[tokio::test]
async fn arguments_that_are_no_json_fail_the_run_and_run_nothing() {
    let (report, _) = failing_turn(vec![Reply::calls([("c", "Shell", r#"{"command": "touch"#)])]).await;
    assert_eq!(report.error().0, "unavailable");
    assert_eq!(report.calls, []);
}

/// What the model is told when it calls a tool wrongly; the run goes on.
async fn told_of(name: &str, arguments: &str) -> Value {
    let mut bench = Bench::new().await;
    bench.chat.reply_calls([("call_1", name, arguments)]);
    bench.chat.reply_text("I see.");
    let report = bench.cursor.send("Do it.").await.success();
    assert_eq!(report.text, "I see.");
    assert_eq!(
        report.execs.len(),
        1,
        "only the request context is asked for: {:?}",
        report.execs
    );
    let added = bench.added();
    assert_eq!(roles(&added), ["assistant", "tool"]);
    bench.assert_clean();
    added[1]["content"].clone()
}

#[tokio::test]
async fn an_unknown_tool_is_a_result_that_the_model_sees() {
    let told = told_of("Bash", r#"{"command":"ls"}"#).await;
    assert!(told.as_str().unwrap().contains("Bash"), "{told}");
}

#[tokio::test]
async fn wrong_arguments_are_a_result_that_names_what_is_wrong() {
    let told = told_of("Read", r#"{"file":"a.txt"}"#).await;
    assert!(told.as_str().unwrap().contains("path"), "{told}");
}

#[tokio::test]
async fn an_unknown_model_is_refused_before_anything_happens() {
    let mut bench = Bench::new().await;
    bench.cursor.model = "nope".to_owned();
    let report = bench.cursor.send("Hello?").await;
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument");
    assert!(message.contains("nope"), "{message}");
    assert!(report.checkpoints.is_empty());
    bench.assert_clean();
}

#[tokio::test]
async fn a_second_run_request_ends_the_run() {
    let mut bench = Bench::new().await;
    let (reply, gate) = Reply::text("never read").hold_headers();
    bench.chat.reply(reply);
    let mut turn = bench.cursor.start_turn("Hello?").await;
    turn.until_checkpoint(0).await;
    gate.arrived().await;
    turn.append(ClientMessage::RunRequest(AgentRunRequest::default()))
        .await;
    let report = turn.finish().await;
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument");
    assert!(message.contains("second run_request"), "{message}");
    gate.gone().await;
    bench.assert_clean();
}

#[tokio::test]
async fn a_refused_blob_ends_the_run_before_the_model_is_called() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.set = Box::new(|_| SetAnswer::Refuse("disk full"));
    let report = bench.cursor.send("Hello?").await;
    let (code, message) = report.error();
    assert_eq!(code, "aborted");
    assert!(message.contains("disk full"), "{message}");
    assert!(
        report.checkpoints.is_empty(),
        "a checkpoint named a blob that the client refused"
    );
    assert_eq!(bench.bodies().len(), 0);
    bench.cursor.hooks.set = Box::new(|_| SetAnswer::Acknowledge);
    bench.chat.reply_text("There.");
    bench.cursor.send("Hello?").await.success();
    bench.assert_clean();
}

#[tokio::test]
async fn a_blob_refused_after_a_round_ends_the_run_with_the_round_still_pending() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    bench
        .chat
        .reply_calls([("call_1", "Read", r#"{"path":"a.txt"}"#)]);
    bench.cursor.hooks.set = Box::new(|args| {
        let is_result = args.blob_data.starts_with(br#"{"role":"tool""#);
        if is_result {
            SetAnswer::Refuse("disk full")
        } else {
            SetAnswer::Acknowledge
        }
    });
    let report = bench.cursor.send("Read it.").await;
    assert_eq!(report.error().0, "aborted");
    assert_eq!(bench.bodies().len(), 1);
    assert_eq!(bench.cursor.state().pending_tool_calls.len(), 1);
    bench.cursor.hooks.set = Box::new(|_| SetAnswer::Acknowledge);
    bench.chat.reply_text("One line.");
    bench.cursor.resume().await.success();
    assert_eq!(roles(&bench.added()), ["assistant", "tool"]);
    bench.assert_clean();
}

/// The settled state waits behind the staged one whose blob is refused: the refusal is the cause, not that the settled
/// state never came out.
#[tokio::test]
async fn a_blob_that_is_refused_after_its_round_is_named_as_the_cause() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    let calls = [("call_1", "Read", r#"{"path":"a.txt"}"#)];
    bench.chat.reply(Reply::answer(None, "Look.", &calls));
    bench.cursor.hooks.set = Box::new(|args| {
        let is_staged_step = args.blob_data.windows(5).any(|text| text == b"Look.");
        if is_staged_step {
            SetAnswer::Withhold
        } else {
            SetAnswer::Acknowledge
        }
    });
    let mut turn = bench.cursor.start_turn("Read it.").await;
    turn.until("the result", |frame| {
        let RunFrame::Message(message) = frame else {
            return false;
        };
        matches!(&message.message, Some(ServerMessage::InteractionUpdate(update))
            if matches!(update.message, Some(interaction_update::Message::ToolCallCompleted(_))))
    })
    .await;
    turn.refuse_withheld("disk full").await;
    let report = turn.finish().await;
    let (code, message) = report.error();
    assert_eq!(code, "aborted");
    assert!(message.contains("disk full"), "{message}");
    assert_eq!(bench.bodies().len(), 1);
    bench.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_blob_that_is_never_acknowledged_is_given_up_by_name() {
    let registry = SessionRegistry::new(SessionLimits::default(), CancellationToken::new());
    let (io, _body) = registry.open("request-1").unwrap();
    let blobs = BlobSync::new(io.output.writer());
    let blob = Blob::new(&b"never acknowledged"[..]);
    let error = blobs.store(std::slice::from_ref(&blob)).await.unwrap_err();
    assert_eq!(error, BlobSyncError::NoAnswer { blob: blob.id });
    assert!(error.to_string().contains(&blob.id.to_string()), "{error}");
}

#[tokio::test]
async fn a_client_that_closes_the_stream_ends_the_model_call() {
    let mut bench = Bench::new().await;
    let (reply, gate) = Reply::text("A long answer that is never read to its end.").hold_at(600);
    bench.chat.reply(reply);
    let mut turn = bench.cursor.start_turn("Tell me.").await;
    turn.until("text", |frame| {
        let RunFrame::Message(message) = frame else {
            return false;
        };
        matches!(&message.message, Some(ServerMessage::InteractionUpdate(update))
            if matches!(update.message, Some(interaction_update::Message::TextDelta(_))))
    })
    .await;
    let report = turn.close();
    assert_eq!(report.end, End::Closed);
    gate.gone().await;
    bench.chat.reply_text("Short.");
    bench.cursor.send("Shorter, please.").await.success();
    assert_eq!(roles(&bench.added()), ["user"]);
    bench.assert_clean();
}

#[tokio::test]
async fn a_cancel_action_ends_the_run_with_canceled() {
    let mut bench = Bench::new().await;
    let (reply, gate) = Reply::text("never read").hold_headers();
    bench.chat.reply(reply);
    let mut turn = bench.cursor.start_turn("Tell me.").await;
    turn.until_checkpoint(0).await;
    gate.arrived().await;
    turn.cancel().await;
    let report = turn.finish().await;
    assert_eq!(report.error().0, "canceled");
    gate.gone().await;
    bench.assert_clean();
}

#[tokio::test]
async fn a_stop_of_the_server_ends_an_open_run_with_canceled() {
    let bench = Bench::new().await;
    let (reply, gate) = Reply::text("never read").hold_headers();
    bench.chat.reply(reply);
    let Bench {
        chat,
        server,
        mut cursor,
        workspace: _workspace,
        ..
    } = bench;
    let mut turn = cursor.start_turn("Tell me.").await;
    turn.until_checkpoint(0).await;
    gate.arrived().await;
    let (report, ()) = tokio::join!(turn.finish(), server.stop());
    assert_eq!(report.error().0, "canceled");
    gate.gone().await;
    cursor.assert_clean();
    chat.assert_clean();
}

#[tokio::test]
async fn an_exec_that_is_closed_or_thrown_without_a_result_is_a_result_that_the_model_sees() {
    for answer in [closed as fn(u32) -> ClientMessage, |id| {
        thrown(id, "broken".to_owned())
    }] {
        let mut bench = Bench::new().await;
        bench
            .chat
            .reply_calls([("call_1", "Read", r#"{"path":"a.txt"}"#)]);
        bench.chat.reply_text("I see.");
        let mut first = true;
        bench.cursor.hooks.exec = Box::new(move |exec| {
            // The first exec asks for the request context.
            if std::mem::take(&mut first) {
                ExecAnswer::Run
            } else {
                ExecAnswer::Reply(vec![answer(exec.id)])
            }
        });
        bench.cursor.send("Read it.").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "tool"]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn an_empty_answer_is_said_to_the_person_and_kept_from_the_history() {
    let mut bench = Bench::new().await;
    bench.chat.reply_text("");
    bench.cursor.send("Say nothing.").await.success();
    bench.chat.reply_text("Something.");
    bench.cursor.send("And now?").await.success();
    assert_eq!(roles(&bench.added()), ["user"]);
    bench.assert_clean();
}

#[tokio::test]
async fn two_sends_at_once_leave_one_history() {
    let mut bench = Bench::new().await;
    bench.chat.reply_text("First answer.");
    bench.cursor.send("First question.").await.success();
    let mut other = bench.cursor.twin();
    let (held, gate) = Reply::text("never read").hold_headers();
    bench.chat.reply(held);
    bench.chat.reply_text("Other answer.");
    let mut turn = bench.cursor.start_turn("Second question.").await;
    turn.until_checkpoint(0).await;
    gate.arrived().await;
    // The endpoint sees a branch: both begin with the same first turn.
    bench.chat.allow_reset();
    other.send("Another question.").await.success();
    let report = turn.finish().await;
    assert_eq!(report.error().0, "canceled");
    gate.gone().await;
    bench.assert_clean();
    other.assert_clean();
}

#[tokio::test]
async fn a_failed_turn_is_no_hindrance_after_a_restart() {
    for database in [Database::Kept, Database::Lost] {
        let mut bench = Bench::new().await;
        bench.chat.reply(failed(401));
        bench.cursor.send("First question.").await.error();
        let mut bench = bench.restart(database).await;
        bench.chat.reply_text("Now.");
        bench.cursor.send("Again.").await.success();
        assert_eq!(roles(&bench.added()), ["user"], "{database:?}");
        bench.assert_clean();
    }
}
