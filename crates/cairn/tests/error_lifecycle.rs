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
    pub mod over_http;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
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
use support::fake_cursor::{End, ExecAnswer, SetAnswer, TurnReport};
use support::over_http::Endpoint;
use support::strict_chat::Reply;
use support::wire_bench::{APIS, Bench, Database, added, over_each_api, roles};
use tokio_util::sync::CancellationToken;

/// A turn that fails between two good ones, over each API. `replies` says how the endpoint answers it, `seen` judges its
/// report and how often the endpoint was asked in it.
///
/// The third turn's request must extend the second one's by the third message alone: nothing of the failed answer is
/// kept, and neither is the failed message asked again in another form.
async fn failing_turn(replies: impl Fn(&Endpoint) -> Vec<Reply>, seen: impl Fn(&TurnReport, usize)) {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_text("First answer.");
        bench.cursor.send("First question.").await.success();
        for reply in replies(&bench.endpoint) {
            bench.endpoint.reply(reply);
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
        seen(&failed, asked);
        bench.endpoint.reply_text("Third answer.");
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
    }
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
    failing_turn(
        |_| vec![failed(401)],
        |report, asked| {
            let (code, message) = report.error();
            assert_eq!((code, asked), ("unavailable", 1));
            assert!(message.contains("The endpoint says no"), "{message}");
            assert!(!message.contains("sk-canary-123"), "{message}");
        },
    )
    .await;
}

#[tokio::test]
async fn an_endpoint_that_stays_broken_ends_the_run_after_the_last_try() {
    failing_turn(
        |_| vec![failed(500), failed(500)],
        |report, asked| assert_eq!((report.error().0, asked), ("unavailable", 2)),
    )
    .await;
}

#[tokio::test]
async fn an_endpoint_that_recovers_before_any_output_is_not_noticed() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench
            .endpoint
            .reply_status(429, &[("retry-after-ms", "5")], r#"{"error":{"message":"slow"}}"#);
        bench.endpoint.reply_text("There.");
        let report = bench.cursor.send("Hello?").await.success();
        assert_eq!(report.text, "There.");
        let bodies = bench.bodies();
        assert_eq!((bodies.len(), &bodies[0]), (2, &bodies[1]));
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_connection_that_breaks_before_any_output_is_tried_again() {
    failing_turn(
        |_| vec![Reply::disconnect(), Reply::disconnect()],
        |report, asked| assert_eq!((report.error().0, asked), ("unavailable", 2)),
    )
    .await;
}

/// The beginning of an answer of text.
fn half_text(endpoint: &Endpoint) -> Reply {
    endpoint.text("Half an answer, no more.").until("an an")
}

/// The beginning of an answer that asks for a command.
fn half_call(endpoint: &Endpoint) -> Reply {
    let whole = endpoint.calls([("c", "Shell", r#"{"command":"touch ran"}"#)]);
    whole.until(":\"tou")
}

#[tokio::test]
async fn a_stream_cut_inside_the_text_is_shown_and_not_kept() {
    let cuts: [fn(Reply, usize) -> Reply; 3] = [
        |reply, _| reply,
        |reply, size| reply.broken_at(size),
        |reply, size| reply.cut_at(size - 1),
    ];
    for cut in cuts {
        failing_turn(
            |endpoint| {
                let size = half_text(endpoint).behind("an an");
                vec![cut(half_text(endpoint), size)]
            },
            |report, asked| {
                assert_eq!((report.error().0, asked), ("unavailable", 1));
                assert!("Half an an".starts_with(&report.text), "{}", report.text);
                assert!(!report.text.is_empty());
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_stream_cut_inside_the_arguments_runs_nothing() {
    let cuts: [fn(Reply, usize) -> Reply; 3] = [
        |reply, _| reply,
        |reply, size| reply.broken_at(size),
        |reply, _| reply.with_body(|body| format!("{body}data: [DONE]\n\n")),
    ];
    for cut in cuts {
        failing_turn(
            |endpoint| {
                let size = half_call(endpoint).behind(":\"tou");
                vec![cut(half_call(endpoint), size)]
            },
            |report, _| {
                assert_eq!(report.error().0, "unavailable");
                assert_eq!(
                    report.execs.len(),
                    1,
                    "only the request context is asked for: {:?}",
                    report.execs
                );
                assert_eq!(report.calls, []);
            },
        )
        .await;
    }
}

#[tokio::test]
async fn an_end_of_file_is_no_end_of_an_answer() {
    failing_turn(
        |endpoint| vec![half_text(endpoint).with_body(|body| format!("{body}data: [DONE]\n\n"))],
        |report, _| {
            assert_eq!(report.error().0, "unavailable");
            assert_eq!(report.text, "Half an an");
        },
    )
    .await;
}

#[tokio::test]
async fn an_error_inside_the_stream_is_an_error_and_not_text() {
    failing_turn(
        |endpoint| {
            let error = endpoint.error_event("quota exceeded");
            vec![half_text(endpoint).with_body(|body| format!("{body}{error}"))]
        },
        |report, _| {
            let (code, message) = report.error();
            assert_eq!(code, "unavailable");
            assert!(message.contains("quota exceeded"), "{message}");
            assert!(!report.text.contains("quota"), "{}", report.text);
        },
    )
    .await;
}

#[tokio::test]
async fn arguments_that_are_no_json_fail_the_run_and_run_nothing() {
    failing_turn(
        |endpoint| vec![endpoint.calls([("c", "Shell", r#"{"command": "touch"#)])],
        |report, _| {
            assert_eq!(report.error().0, "unavailable");
            assert_eq!(report.calls, []);
        },
    )
    .await;
}

/// A call that is wrong is answered with words that hold this, over each API, and the run goes on.
async fn assert_told(name: &str, arguments: &str, words: &str) {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_calls([("call_1", name, arguments)]);
        bench.endpoint.reply_text("I see.");
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
        let told = added[1]["content"].as_str().unwrap();
        assert!(told.contains(words), "{told}");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn an_unknown_tool_is_a_result_that_the_model_sees() {
    assert_told("Bash", r#"{"command":"ls"}"#, "Bash").await;
}

#[tokio::test]
async fn wrong_arguments_are_a_result_that_names_what_is_wrong() {
    assert_told("Read", r#"{"file":"a.txt"}"#, "path").await;
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
    for api in APIS {
        let mut bench = Bench::over(api).await;
        let (reply, gate) = bench.endpoint.text("never read").hold_headers();
        bench.endpoint.reply(reply);
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
    bench.endpoint.reply_text("There.");
    bench.cursor.send("Hello?").await.success();
    bench.assert_clean();
}

#[tokio::test]
async fn a_blob_refused_after_a_round_ends_the_run_with_the_round_still_pending() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        bench
            .endpoint
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
        bench.endpoint.reply_text("One line.");
        bench.cursor.resume().await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "tool"]);
        bench.assert_clean();
    }
}

/// The settled state waits behind the staged one whose blob is refused: the refusal is the cause, not that the settled
/// state never came out.
#[tokio::test]
async fn a_blob_that_is_refused_after_its_round_is_named_as_the_cause() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    let calls = [("call_1", "Read", r#"{"path":"a.txt"}"#)];
    bench.endpoint.reply(Reply::answer(None, "Look.", &calls));
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
    for api in APIS {
        let mut bench = Bench::over(api).await;
        let answer = bench
            .endpoint
            .text("A long answer that is never read to its end.");
        let begun = answer.behind("A lon");
        let (reply, gate) = answer.hold_at(begun);
        bench.endpoint.reply(reply);
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
        bench.endpoint.reply_text("Short.");
        bench.cursor.send("Shorter, please.").await.success();
        assert_eq!(roles(&bench.added()), ["user"]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_cancel_action_ends_the_run_with_canceled() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        let (reply, gate) = bench.endpoint.text("never read").hold_headers();
        bench.endpoint.reply(reply);
        let mut turn = bench.cursor.start_turn("Tell me.").await;
        turn.until_checkpoint(0).await;
        gate.arrived().await;
        turn.cancel().await;
        let report = turn.finish().await;
        assert_eq!(report.error().0, "canceled");
        gate.gone().await;
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_stop_of_the_server_ends_an_open_run_with_canceled() {
    let bench = Bench::new().await;
    let (reply, gate) = bench.endpoint.text("never read").hold_headers();
    bench.endpoint.reply(reply);
    let Bench {
        endpoint,
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
    endpoint.assert_clean();
}

#[tokio::test]
async fn an_exec_that_is_closed_or_thrown_without_a_result_is_a_result_that_the_model_sees() {
    for api in APIS {
        for answer in [closed as fn(u32) -> ClientMessage, |id| {
            thrown(id, "broken".to_owned())
        }] {
            let mut bench = Bench::over(api).await;
            bench
                .endpoint
                .reply_calls([("call_1", "Read", r#"{"path":"a.txt"}"#)]);
            bench.endpoint.reply_text("I see.");
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
}

#[tokio::test]
async fn an_empty_answer_is_said_to_the_person_and_kept_from_the_history() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_text("");
        bench.cursor.send("Say nothing.").await.success();
        bench.endpoint.reply_text("Something.");
        bench.cursor.send("And now?").await.success();
        assert_eq!(roles(&bench.added()), ["user"]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn two_sends_at_once_leave_one_history() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_text("First answer.");
        bench.cursor.send("First question.").await.success();
        let mut other = bench.cursor.twin();
        let (held, gate) = bench.endpoint.text("never read").hold_headers();
        bench.endpoint.reply(held);
        bench.endpoint.reply_text("Other answer.");
        let mut turn = bench.cursor.start_turn("Second question.").await;
        turn.until_checkpoint(0).await;
        gate.arrived().await;
        // The endpoint sees a branch: both begin with the same first turn.
        bench.endpoint.allow_reset();
        other.send("Another question.").await.success();
        let report = turn.finish().await;
        assert_eq!(report.error().0, "canceled");
        gate.gone().await;
        bench.assert_clean();
        other.assert_clean();
    }
}

#[tokio::test]
async fn a_failed_turn_is_no_hindrance_after_a_restart() {
    for (api, database) in over_each_api([Database::Kept, Database::Lost]) {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply(failed(401));
        bench.cursor.send("First question.").await.error();
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Now.");
        bench.cursor.send("Again.").await.success();
        assert_eq!(roles(&bench.added()), ["user"], "{database:?}");
        bench.assert_clean();
    }
}
