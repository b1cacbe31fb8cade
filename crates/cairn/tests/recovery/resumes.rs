//! Going on after something broke, as often as it takes: each resume advances or says why it does not.

use bytes::Bytes;
use cairn::cursor::proto::agent::{ConversationStateStructure, exec_server_message};
use serde_json::{Value, json};

use super::support::fake_cursor::{ExecAnswer, GetAnswer, SetAnswer, TurnReport, set_of};
use super::support::wire_bench::{Bench, Database, over_each_api, roles};

/// The execs of a run that are tools.
fn tools(report: &TurnReport) -> usize {
    report
        .execs
        .iter()
        .filter(|exec| {
            !matches!(
                exec.message,
                Some(exec_server_message::Message::RequestContextArgs(_))
            )
        })
        .count()
}

#[tokio::test]
async fn repeated_resumes_end_with_a_reason_until_one_advances() {
    for (api, database) in over_each_api([None, Some(Database::Kept), Some(Database::Lost)]) {
        let mut bench = Bench::over(api).await;
        let append = r#"{"command":"echo x >> runs.txt"}"#;
        bench.endpoint.reply_calls([("call_1", "Shell", append)]);
        // Three pieces of text, then the line breaks.
        let answer = bench.endpoint.text("One two three four five six seven.");
        let begun = answer.behind("ree f");
        bench.endpoint.reply(answer.broken_at(begun));
        let report = bench.cursor.send("Run it once.").await;
        assert_eq!(report.error().0, "unavailable");
        assert!(!report.text.is_empty());
        assert_eq!(tools(&report), 1);
        let state = bench.cursor.state();
        assert_eq!(state.pending_tool_calls.len(), 0);
        let cut = bench.bodies().pop().unwrap();
        bench = bench.maybe_restart(database).await;
        for _ in 0..3 {
            bench
                .endpoint
                .reply_status(401, &[], r#"{"error":{"message":"no credit left"}}"#);
            let report = bench.cursor.resume().await;
            let (code, message) = report.error();
            assert_eq!(code, "unavailable");
            assert!(message.contains("no credit left"), "{message}");
            assert_eq!((tools(&report), report.text.as_str()), (0, ""));
            // The very same request: no second message, no second reminder, the result as it was.
            assert_eq!(bench.bodies().pop().unwrap(), cut, "{database:?}");
            assert_eq!(
                bench.cursor.state().root_prompt_messages_json,
                state.root_prompt_messages_json
            );
        }
        bench.endpoint.reply_text("Done.");
        let report = bench.cursor.resume().await.success();
        assert_eq!((tools(&report), report.text.as_str()), (0, "Done."));
        assert_eq!(bench.bodies().pop().unwrap(), cut);
        assert_eq!(bench.read("runs.txt"), "x\n");
        assert_eq!(bench.cursor.state().turns.len(), 1);

        // There is nothing left to resume: that is said, and the model is not asked again.
        let requests = bench.bodies().len();
        bench.cursor.resume().await.success();
        assert_eq!(bench.bodies().len(), requests);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_restored_round_is_the_one_that_was_pending() {
    for (api, database) in over_each_api([Database::Kept, Database::Lost]) {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        bench.endpoint.reply(bench.endpoint.said(
            Some("Two files, then."),
            "Look.",
            &[
                ("call_b", "Read", r#"{"path": "a.txt" }"#),
                ("call_a", "Read", r#"{"path":"b.txt"}"#),
            ],
        ));
        bench.cursor.hooks.exec = Box::new(|exec| match exec.message {
            Some(exec_server_message::Message::RequestContextArgs(_)) => ExecAnswer::Run,
            _ => ExecAnswer::Hold,
        });
        let mut turn = bench.cursor.start_turn("Read both.").await;
        let cut = turn.until_checkpoint(1).await;
        turn.close();
        bench.cursor.hooks.exec = Box::new(|_| ExecAnswer::Run);
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Done.");
        let report = bench.cursor.resume().await.success();
        let pending = |state: &ConversationStateStructure| -> Value {
            let mut pending: Value = serde_json::from_str(&state.pending_tool_calls[0]).unwrap();
            // A round that is run again is a new one; all else of it is as it was.
            pending["providerOptions"]["cursor"]["modelProviderMessageId"].take();
            pending
        };
        let staged = report
            .checkpoints
            .iter()
            .find(|state| !state.pending_tool_calls.is_empty())
            .unwrap();
        assert_eq!(pending(staged), pending(&cut), "{database:?}");
        assert!(pending(staged)["providerOptions"]["cursor"]["pendingToolCallStartedAtMs"].is_u64());
        let added = bench.added();
        assert_eq!(roles(&added), ["assistant", "tool", "tool"]);
        assert_eq!(added[0]["reasoning_content"], "Two files, then.");
        assert_eq!(added[0]["content"], "Look.");
        let calls = added[0]["tool_calls"].as_array().unwrap();
        let calls: Vec<_> = calls
            .iter()
            .map(|call| (&call["id"], &call["function"]["arguments"]))
            .collect();
        assert_eq!(
            calls,
            [
                (&json!("call_b"), &json!(r#"{"path": "a.txt" }"#)),
                (&json!("call_a"), &json!(r#"{"path":"b.txt"}"#)),
            ]
        );
        assert_eq!(report.text, "Done.", "text that the client has was sent again");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_resume_without_a_turn_says_so() {
    let mut bench = Bench::new().await;
    let report = bench.cursor.resume().await;
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument");
    assert!(message.contains("resume_action"), "{message}");
    assert_eq!(bench.bodies().len(), 0);
    bench.assert_clean();
}

#[tokio::test]
async fn three_turns_go_on_after_a_restart_from_blobs_that_only_the_client_has() {
    for (api, database) in over_each_api([Database::Kept, Database::Lost]) {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        for turn in 1..=3 {
            let call = format!("call_{turn}");
            bench
                .endpoint
                .reply_calls([(call.as_str(), "Read", r#"{"path":"a.txt"}"#)]);
            bench.endpoint.reply_text("One line.");
            bench.cursor.send("Read it.").await.success();
        }
        let mut bench = bench.restart(database).await;
        let requests = bench.bodies().len();
        bench.cursor.hooks.request = Box::new(|request| request.pre_fetched_blobs.clear());
        let roots = bench.cursor.state().root_prompt_messages_json;
        if database == Database::Lost {
            for fault in [0, 1] {
                // One in the middle is not there, or is another one.
                let wanted = roots[roots.len() / 2].clone();
                let faulty = wanted.clone();
                bench.cursor.hooks.get = Box::new(move |args| match (args.blob_id == faulty, fault) {
                    (false, _) => GetAnswer::Stored,
                    (true, 0) => GetAnswer::Missing,
                    (true, _) => GetAnswer::Bytes(Bytes::from_static(b"{}")),
                });
                let report = bench.cursor.send("Go on.").await;
                let (code, message) = report.error();
                assert_eq!(code, "invalid_argument");
                assert!(
                    message.contains(&hex::encode(&wanted)) && message.contains("root_prompt_messages_json"),
                    "{message}"
                );
                assert_eq!(bench.bodies().len(), requests);
            }
        }
        bench.cursor.hooks.get = Box::new(|_| GetAnswer::Stored);
        bench.endpoint.reply_text("Still one.");
        let report = bench.cursor.send("Go on.").await.success();
        match database {
            Database::Kept => assert_eq!(report.gets, Vec::<Bytes>::new()),
            Database::Lost => assert_eq!(report.gets, roots),
        }
        assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_cut_between_a_blob_and_its_acknowledgement_loses_at_most_the_open_round() {
    for (api, database) in over_each_api([None, Some(Database::Kept), Some(Database::Lost)]) {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        bench
            .endpoint
            .reply_calls([("call_1", "Read", r#"{"path":"a.txt"}"#)]);
        bench
            .endpoint
            .reply_calls([("call_2", "Read", r#"{"path":"a.txt"}"#)]);
        let mut results = 0;
        bench.cursor.hooks.set = Box::new(move |args| {
            results += usize::from(args.blob_data.starts_with(br#"{"role":"tool""#));
            match results {
                0 | 1 => SetAnswer::Acknowledge,
                _ => SetAnswer::Withhold,
            }
        });
        let mut turn = bench.cursor.start_turn("Read it twice.").await;
        for _ in 0..2 {
            turn.until("a result's blob", |frame| {
                set_of(frame).is_some_and(|data| data.starts_with(br#"{"role":"tool""#))
            })
            .await;
        }
        turn.close();
        bench.cursor.hooks.set = Box::new(|_| SetAnswer::Acknowledge);
        // The first round is settled, the second one is pending.
        let state = bench.cursor.state();
        assert_eq!(state.pending_tool_calls.len(), 1);
        bench = bench.maybe_restart(database).await;
        assert_eq!(
            bench.bodies().len(),
            2,
            "the model was called before its state was out"
        );
        bench.endpoint.reply_text("One line.");
        let report = bench.cursor.resume().await.success();
        assert_eq!(tools(&report), 1, "only the open round is run again");
        assert_eq!(roles(&bench.added()), ["assistant", "tool"]);
        bench.assert_clean();
    }
}

/// The client's system root tells what the prompt was made of. One that cannot be read is not guessed at.
#[tokio::test]
async fn a_note_of_the_prompt_that_cannot_be_read_is_named_and_nothing_is_sent() {
    for (note, fault) in [
        (r#""version":2"#, "its version is 2, not 1"),
        (r#""version":"one""#, "invalid type: string \"one\", expected u32"),
    ] {
        let mut bench = Bench::new().await;
        bench.endpoint.reply_text("One.");
        bench.cursor.send("One?").await.success();
        let whole = bench.cursor.state();
        let mut state = whole.clone();
        let root = bench.cursor.blobs().get(&whole.root_prompt_messages_json[0]);
        let root = String::from_utf8(root.unwrap().to_vec()).unwrap();
        let changed = root.replace(r#""version":1"#, note);
        assert_ne!(changed, root);
        state.root_prompt_messages_json[0] = bench.cursor.hold(changed);
        bench.cursor.set_state(&state);
        let mut bench = bench.restart(Database::Lost).await;
        let report = bench.cursor.send("Two?").await;
        let (code, message) = report.error();
        assert_eq!(code, "invalid_argument");
        let (named, mend) = (
            format!("the note about the conversation's earlier prompt cannot be read: {fault}"),
            "serve it with the cairn that wrote the note, or start a new conversation",
        );
        assert!(message.contains(&named) && message.ends_with(mend), "{message}");
        assert_eq!(bench.bodies().len(), 1);
        bench.cursor.set_state(&whole);
        bench.endpoint.reply_text("Two.");
        bench.cursor.send("Two?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"]);
        bench.assert_clean();
    }
}
