//! Tools through the real wire: run on the client, answered in any order, shown to the model once.
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

use cairn::cursor::proto::agent::{exec_server_message, tool_call};
use support::fake_cursor::{AppendFault, ExecAnswer, TurnReport};
use support::wire_bench::{APIS, Bench, over_each_api, roles};

/// One call, run in the workspace, and what the model was told of it.
async fn one_call(bench: &mut Bench, name: &str, arguments: &str) -> (TurnReport, String) {
    bench.endpoint.reply_calls([("call_1", name, arguments)]);
    bench.endpoint.reply_text("Done.");
    let report = bench.cursor.send("Do it.").await.success();
    assert_eq!(report.text, "Done.");
    let added = bench.added();
    assert_eq!(roles(&added), ["assistant", "tool"]);
    let call = &added[0]["tool_calls"][0];
    assert_eq!(
        (&call["id"], &call["function"]["name"]),
        (&"call_1".into(), &name.into())
    );
    assert_eq!(call["function"]["arguments"], arguments);
    assert_eq!(added[1]["tool_call_id"], "call_1");
    assert_eq!(report.calls.len(), 1);
    assert!(report.calls[0].completed.is_some());
    let result = added[1]["content"].as_str().unwrap().to_owned();
    (report, result)
}

#[tokio::test]
async fn a_file_is_read() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\ntwo\n");
        let (report, result) = one_call(&mut bench, "Read", r#"{"path":"a.txt"}"#).await;
        assert_eq!(result, "     1|one\n     2|two\n");
        assert!(matches!(
            report.calls[0].started.tool,
            Some(tool_call::Tool::ReadToolCall(_))
        ));
        assert_eq!(bench.cursor.state().read_paths.len(), 1);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_file_is_written() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        let (report, _) = one_call(&mut bench, "Write", r#"{"path":"new/b.txt","contents":"x\ny\n"}"#).await;
        assert_eq!(bench.read("new/b.txt"), "x\ny\n");
        assert!(matches!(
            report.calls[0].started.tool,
            Some(tool_call::Tool::EditToolCall(_))
        ));
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_text_in_a_file_is_replaced() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\ntwo\nthree\n");
        let arguments = r#"{"path":"a.txt","old_string":"two","new_string":"2"}"#;
        one_call(&mut bench, "StrReplace", arguments).await;
        assert_eq!(bench.read("a.txt"), "one\n2\nthree\n");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_text_that_is_not_in_the_file_changes_nothing() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        let arguments = r#"{"path":"a.txt","old_string":"two","new_string":"2"}"#;
        let (report, _) = one_call(&mut bench, "StrReplace", arguments).await;
        assert_eq!(bench.read("a.txt"), "one\n");
        let written = report
            .execs
            .iter()
            .any(|exec| matches!(exec.message, Some(exec_server_message::Message::WriteArgs(_))));
        assert!(!written);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_file_is_deleted() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        one_call(&mut bench, "Delete", r#"{"path":"a.txt"}"#).await;
        assert!(!bench.workspace.path().join("a.txt").exists());
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_command_is_run_and_its_failure_is_a_result() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        let arguments = r#"{"command":"echo out; echo err >&2; exit 3"}"#;
        let (_, result) = one_call(&mut bench, "Shell", arguments).await;
        for part in ["out", "err", "3"] {
            assert!(result.contains(part), "{part:?} is not in {result:?}");
        }
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_tool_that_the_client_cannot_run_is_an_error_that_the_model_sees() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        let (_, result) = one_call(&mut bench, "Grep", r#"{"pattern":"x"}"#).await;
        assert!(result.contains("No handler found"), "{result}");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn results_reach_the_model_in_the_order_in_which_they_came() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_calls([
            ("call_a", "Shell", r#"{"command":"echo a"}"#),
            ("call_b", "Shell", r#"{"command":"echo b"}"#),
            ("call_c", "Shell", r#"{"command":"echo c"}"#),
        ]);
        bench.endpoint.reply_text("Done.");
        bench.cursor.hooks.exec = Box::new(|exec| match exec.message {
            Some(exec_server_message::Message::ShellStreamArgs(_)) => ExecAnswer::Hold,
            _ => ExecAnswer::Run,
        });
        let mut turn = bench.cursor.start_turn("All three.").await;
        let ids: Vec<u32> = turn.until_held(3).await.iter().map(|exec| exec.id).collect();
        let completed = |turn: &support::fake_cursor::Turn<'_>| {
            turn.report()
                .calls
                .iter()
                .filter(|call| call.completed.is_some())
                .count()
        };
        // Each result is seen to be settled before the next one comes, so the order is one of cause and not of chance.
        for (settled, index) in [2, 0, 1].into_iter().enumerate() {
            turn.release(ids[index]).await;
            while completed(&turn) <= settled {
                turn.next().await.unwrap();
            }
        }
        turn.finish().await.success();
        let added = bench.added();
        let calls: Vec<_> = added[0]["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| &call["id"])
            .collect();
        assert_eq!(calls, ["call_a", "call_b", "call_c"]);
        let results: Vec<_> = added[1..].iter().map(|result| &result["tool_call_id"]).collect();
        assert_eq!(results, ["call_c", "call_a", "call_b"]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn uploads_that_come_in_another_order_or_twice_change_nothing() {
    for (api, fault) in over_each_api([AppendFault::Swap, AppendFault::Repeat]) {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        bench.cursor.hooks.append = Box::new(move |_| fault);
        bench.endpoint.reply_calls([
            ("call_1", "Read", r#"{"path":"a.txt"}"#),
            ("call_2", "Shell", r#"{"command":"cat a.txt"}"#),
        ]);
        bench.endpoint.reply_text("Done.");
        bench.cursor.send("Do it.").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "tool", "tool"]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn several_rounds_are_one_turn() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        bench
            .endpoint
            .reply_calls([("functions.Read:0", "Read", r#"{"path":"a.txt"}"#)]);
        // The same id again: the endpoint's ids are not unique, the history's are.
        bench
            .endpoint
            .reply_calls([("functions.Read:0", "Read", r#"{"path":"a.txt"}"#)]);
        bench.endpoint.reply_text("Twice the same.");
        let report = bench.cursor.send("Read it twice.").await.success();
        assert_eq!(bench.bodies().len(), 3);
        assert_eq!(report.calls.len(), 2);
        assert_ne!(report.calls[0].id, report.calls[1].id);
        assert_eq!(bench.cursor.state().turns.len(), 1);
        bench.assert_clean();
    }
}
