//! A turn that is stopped, at every point where it can be: what the client is told to stop, and what the model reads of
//! it afterwards.

use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::exec_client_message::Message as ExecAnswerMessage;
use cairn::cursor::proto::agent::interaction_update::Message as Update;
use cairn::cursor::proto::agent::{
    ExecServerMessage, InteractionResponse, ShellRejected, ShellStream, ShellStreamBackgrounded,
    ShellStreamStart, WebFetchRequestResponse, agent_client_message, exec_server_control_message,
    exec_server_message, interaction_response, shell_stream, web_fetch_request_response,
};
use cairn::demo::executor::{answered, closed};
use cairn::demo::wire_client::RunFrame;
use serde_json::Value;

use super::support::fake_cursor::{End, ExecAnswer, FakeCursor, Turn, TurnReport};
use super::support::wire_bench::{APIS, Bench, messages, over_each_api, roles};

const TWO_COMMANDS: [(&str, &str, &str); 2] = [
    ("call_1", "Shell", r#"{"command":"echo first"}"#),
    ("call_2", "Shell", r#"{"command":"echo second"}"#),
];

fn is_context(exec: &ExecServerMessage) -> bool {
    matches!(
        exec.message,
        Some(exec_server_message::Message::RequestContextArgs(_))
    )
}

fn hold_tools(cursor: &mut FakeCursor) {
    cursor.hooks.exec = Box::new(|exec| match is_context(exec) {
        true => ExecAnswer::Run,
        false => ExecAnswer::Hold,
    });
}

fn run_tools(cursor: &mut FakeCursor) {
    cursor.hooks.exec = Box::new(|_| ExecAnswer::Run);
}

fn update_of(frame: &RunFrame) -> Option<&Update> {
    let RunFrame::Message(message) = frame else {
        return None;
    };
    match &message.message {
        Some(ServerMessage::InteractionUpdate(update)) => update.message.as_ref(),
        _ => None,
    }
}

/// The ids of the execs that the client was told to stop.
fn aborted(report: &TurnReport) -> Vec<u32> {
    report
        .frames
        .iter()
        .filter_map(|frame| match frame {
            RunFrame::Message(message) => match &message.message {
                Some(ServerMessage::ExecServerControlMessage(control)) => control
                    .message
                    .as_ref()
                    .map(|exec_server_control_message::Message::Abort(abort)| abort.id),
                _ => None,
            },
            RunFrame::End(_) => None,
        })
        .collect()
}

/// Two commands are asked for, and the first has its result. Gives the id of the exec that has none.
async fn one_of_two(turn: &mut Turn<'_>) -> u32 {
    let ids: Vec<u32> = turn.until_held(2).await.iter().map(|exec| exec.id).collect();
    turn.release(ids[0]).await;
    turn.until("the first result", |frame| {
        matches!(update_of(frame), Some(Update::ToolCallCompleted(_)))
    })
    .await;
    ids[1]
}

fn contents(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect()
}

#[track_caller]
fn assert_one_of_two(added: &[Value]) {
    assert_eq!(roles(added), ["assistant", "tool", "tool", "user"]);
    let results = contents(added);
    assert!(results[0].contains("first"), "{results:?}");
    assert!(
        results[1].contains("interrupted") && results[1].contains("unknown"),
        "{results:?}"
    );
}

#[tokio::test]
async fn a_message_that_is_sent_while_tools_run_is_not_lost() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_calls(TWO_COMMANDS);
        bench.endpoint.reply_text("Understood.");
        hold_tools(&mut bench.cursor);
        let mut turn = bench.cursor.start_turn("Run both.").await;
        let open = one_of_two(&mut turn).await;
        let mut other = turn.twin();
        let report = other.send("Also, hurry.").await.success();
        assert_eq!(report.text, "Understood.");
        let old = turn.finish().await;
        assert_eq!(old.error().0, "canceled");
        assert_eq!(aborted(&old), [open]);
        let added = bench.added();
        assert_one_of_two(&added);
        assert!(added[3]["content"].to_string().contains("Also, hurry."));
        assert_eq!(other.state().pending_tool_calls.len(), 0);
        other.assert_clean();
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_stop_while_arguments_stream_leaves_nothing_of_the_call() {
    for (api, by_action) in over_each_api([true, false]) {
        let mut bench = Bench::over(api).await;
        let whole = bench
            .endpoint
            .calls([("call_1", "Shell", r#"{"command":"echo never run"}"#)]);
        // In the middle of the arguments: after the call's beginning, before its end.
        let begun = whole.behind("o nev");
        let (held, gate) = whole.hold_at(begun);
        bench.endpoint.reply(held);
        let mut turn = bench.cursor.start_turn("Run it.").await;
        turn.until("a piece of the arguments", |frame| {
            matches!(update_of(frame), Some(Update::PartialToolCall(partial)) if !partial.args_text_delta.is_empty())
        })
        .await;
        let report = if by_action {
            turn.cancel().await;
            let report = turn.finish().await;
            assert_eq!(report.error().0, "canceled");
            report
        } else {
            turn.close()
        };
        gate.gone().await;
        assert!(report.execs.iter().all(is_context), "a cut call was run");
        assert_eq!(aborted(&report), [] as [u32; 0]);
        bench.endpoint.reply_text("Good.");
        bench.cursor.send("Leave it.").await.success();
        assert_eq!(roles(&bench.added()), ["user"]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_stop_while_a_command_runs_keeps_the_result_that_came_and_says_so_of_the_other() {
    for (api, by_action) in over_each_api([true, false]) {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_calls(TWO_COMMANDS);
        hold_tools(&mut bench.cursor);
        let mut turn = bench.cursor.start_turn("Run both.").await;
        let open = one_of_two(&mut turn).await;
        if by_action {
            let held = turn.report().checkpoints.len();
            turn.cancel().await;
            let report = turn.finish().await;
            assert_eq!(report.error().0, "canceled");
            assert_eq!(aborted(&report), [open]);
            // No state is made up for the end.
            assert_eq!((report.checkpoints.len(), report.turn_ended), (held, None));
        } else {
            turn.close();
        }
        run_tools(&mut bench.cursor);
        bench.endpoint.reply_text("Good.");
        let report = bench.cursor.send("Leave it.").await.success();
        assert!(
            report.execs.iter().all(is_context),
            "a stopped command was run again"
        );
        assert_one_of_two(&bench.added());
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_stop_and_a_result_at_the_same_time_leave_one_result_for_each_call() {
    for (api, result_first) in over_each_api([true, false]) {
        for _ in 0..4 {
            let mut bench = Bench::over(api).await;
            bench.endpoint.reply_calls(TWO_COMMANDS);
            hold_tools(&mut bench.cursor);
            let mut turn = bench.cursor.start_turn("Run both.").await;
            let open = one_of_two(&mut turn).await;
            // The run may come as far as its next model call, or even to its end.
            bench.endpoint.reply_text("Either.");
            bench.endpoint.reply_text("Or.");
            if result_first {
                turn.release(open).await;
                turn.cancel().await;
            } else {
                turn.cancel().await;
                turn.release(open).await;
            }
            let report = turn.finish().await;
            if report.end != End::Success {
                assert_eq!(report.error().0, "canceled");
            }
            run_tools(&mut bench.cursor);
            bench.cursor.send("Leave it.").await.success();
            let messages = messages(&bench.bodies().pop().unwrap());
            let answered: Vec<&str> = messages
                .iter()
                .filter_map(|message| message["tool_call_id"].as_str())
                .collect();
            assert_eq!(answered, ["call_1", "call_2"]);
            let results = contents(&messages);
            assert!(results[0].contains("first"), "{results:?}");
            assert!(
                results[1].contains("second") || results[1].contains("unknown"),
                "{results:?}"
            );
            assert_eq!(bench.endpoint.violations(), Vec::<String>::new());
            bench.cursor.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_refusal_of_the_person_is_told_as_one_and_a_stop_before_it_is_not() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_calls(TWO_COMMANDS);
        bench.cursor.hooks.exec = Box::new(|exec| {
            if is_context(exec) {
                return ExecAnswer::Run;
            }
            let Some(exec_server_message::Message::ShellStreamArgs(args)) = &exec.message else {
                panic!("{exec:?}")
            };
            if args.command.contains("first") {
                let rejected = shell_stream::Event::Rejected(ShellRejected {
                    command: args.command.clone(),
                    reason: "Not now.".into(),
                    ..Default::default()
                });
                ExecAnswer::Reply(vec![shell(exec.id, rejected), closed(exec.id)])
            } else {
                // It waits for the person's approval.
                ExecAnswer::Hold
            }
        });
        let mut turn = bench.cursor.start_turn("Run both.").await;
        turn.until("the refusal", |frame| {
            matches!(update_of(frame), Some(Update::ToolCallCompleted(_)))
        })
        .await;
        turn.cancel().await;
        turn.finish().await.error();
        run_tools(&mut bench.cursor);
        bench.endpoint.reply_text("Good.");
        bench.cursor.send("Leave it.").await.success();
        let added = bench.added();
        let results = contents(&added);
        assert!(results[0].contains("Not now."), "{results:?}");
        assert!(!results[0].contains("interrupted"), "{results:?}");
        assert!(
            results[1].contains("interrupted") && !results[1].contains("Not now."),
            "{results:?}"
        );
        bench.assert_clean();
    }
}

/// The person says no to a command and to a fetch when another window's run has the conversation: nobody is told of it.
#[tokio::test]
async fn a_refusal_after_a_newer_run_began_is_told_to_nobody() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_calls([
            ("call_1", "Shell", r#"{"command":"echo never run"}"#),
            ("call_2", "WebFetch", r#"{"url":"https://example.com/"}"#),
        ]);
        let (held, gate) = bench.endpoint.text("Understood.").hold_headers();
        bench.endpoint.reply(held);
        hold_tools(&mut bench.cursor);
        bench.cursor.hooks.holds_queries = true;
        let mut old = bench.cursor.start_turn("Do both.").await;
        let exec = old.until_held(1).await[0].id;
        let mut query = None;
        while query.is_none() || old.report().checkpoints.len() < 2 {
            let frame = old.next().await.unwrap();
            query = query.or(query_of(&frame));
        }

        let mut window = old.twin();
        let mut new = window.start_turn("Rather this.").await;
        new.until_checkpoint(0).await;
        gate.arrived().await;
        let rejected = shell_stream::Event::Rejected(ShellRejected {
            reason: "Not now.".into(),
            ..Default::default()
        });
        let fetch = web_fetch_request_response::Rejected {
            reason: "Not there.".into(),
        };
        for late in [
            shell(exec, rejected),
            closed(exec),
            agent_client_message::Message::InteractionResponse(InteractionResponse {
                id: query.unwrap(),
                result: Some(interaction_response::Result::WebFetchRequestResponse(
                    WebFetchRequestResponse {
                        result: Some(web_fetch_request_response::Result::Rejected(fetch)),
                    },
                )),
            }),
        ] {
            old.append(late).await;
        }
        let report = old.finish().await;
        assert_eq!(report.error().0, "canceled");
        assert_eq!(report.refused.len(), 3, "{:?}", report.refused);
        gate.open();
        while new.next().await.is_some() {}
        assert_eq!(new.report().end, End::Success);
        let added = bench.added();
        let told = contents(&added);
        assert_eq!(told.len(), 2);
        assert!(
            told.iter()
                .all(|told| told.contains("interrupted") && told.contains("unknown")),
            "{told:?}"
        );
        bench.endpoint.reply_text("Good.");
        window.send("And?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"]);
        window.assert_clean();
        bench.assert_clean();
    }
}

fn query_of(frame: &RunFrame) -> Option<u32> {
    match frame {
        RunFrame::Message(message) => match &message.message {
            Some(ServerMessage::InteractionQuery(query)) => Some(query.id),
            _ => None,
        },
        RunFrame::End(_) => None,
    }
}

/// A request that its client keeps waiting is older than the run that came and went meanwhile: it begins no run any more.
#[tokio::test]
async fn a_request_that_is_still_prepared_when_a_newer_run_has_ended_begins_nothing() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("Hello.");
    bench.cursor.send("Hello?").await.success();
    bench.cursor.hooks.exec = Box::new(|_| ExecAnswer::Hold);
    let mut old = bench.cursor.start_turn("Old words.").await;
    let context = old.until_held(1).await[0].id;
    let mut window = old.twin();
    bench.endpoint.reply_text("New answer.");
    window.send("New words.").await.success();

    old.release(context).await;
    let report = old.finish().await;
    assert_eq!(report.error().0, "canceled");
    assert_eq!((report.checkpoints.len(), report.sets), (0, 0));
    bench.endpoint.reply_text("Another answer.");
    window.send("More words.").await.success();
    assert_eq!(roles(&bench.added()), ["assistant", "user"]);
    assert_eq!(bench.bodies().len(), 3);
    window.assert_clean();
    bench.assert_clean();
}

fn shell(id: u32, event: shell_stream::Event) -> cairn::cursor::proto::agent::agent_client_message::Message {
    answered(
        id,
        ExecAnswerMessage::ShellStream(ShellStream { event: Some(event) }),
    )
}

#[tokio::test]
async fn a_command_in_the_background_is_not_stopped_with_its_run() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_calls(TWO_COMMANDS);
    bench.cursor.hooks.exec = Box::new(|exec| match &exec.message {
        Some(exec_server_message::Message::ShellStreamArgs(args)) if args.command.contains("first") => {
            ExecAnswer::Reply(vec![
                shell(exec.id, shell_stream::Event::Start(ShellStreamStart {})),
                shell(
                    exec.id,
                    shell_stream::Event::Backgrounded(ShellStreamBackgrounded {
                        shell_id: 7,
                        command: args.command.clone(),
                        ..Default::default()
                    }),
                ),
            ])
        }
        Some(exec_server_message::Message::ShellStreamArgs(_)) => ExecAnswer::Hold,
        _ => ExecAnswer::Run,
    });
    let mut turn = bench.cursor.start_turn("Run both.").await;
    turn.until("the background", |frame| {
        matches!(update_of(frame), Some(Update::ToolCallCompleted(_)))
    })
    .await;
    let open = turn.until_held(1).await[0].id;
    turn.cancel().await;
    let report = turn.finish().await;
    assert_eq!(aborted(&report), [open]);
    bench.assert_clean();
}
