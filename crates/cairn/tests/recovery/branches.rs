//! A conversation that goes on from an earlier place: the branch that is left is kept, and nobody sees it.

use bytes::Bytes;
use cairn::cursor::proto::agent::{AgentMode, ConversationStateStructure, UserMessage};
use serde_json::Value;

use super::support::cairn_server::KEY;
use super::support::fake_cursor::{FakeCursor, TurnReport};
use super::support::wire_bench::{Bench, Database, added, roles};

/// What the endpoint was sent last, as text and as bytes.
fn last(bench: &Bench) -> (String, Bytes) {
    let body = bench.bodies().pop().unwrap();
    (String::from_utf8(body.to_vec()).unwrap(), body)
}

async fn say(bench: &mut Bench, question: &str, answer: &str) -> ConversationStateStructure {
    bench.endpoint.reply_text(answer);
    bench.cursor.send(question).await.success();
    bench.cursor.state()
}

#[tokio::test]
async fn an_older_checkpoint_begins_a_branch_and_both_branches_go_on() {
    for database in [None, Some(Database::Kept), Some(Database::Lost)] {
        let mut bench = Bench::new().await;
        let fork = say(&mut bench, "Question one.", "Answer one.").await;
        let first_body = last(&bench).1;
        let old = say(&mut bench, "Question two.", "Answer two.").await;
        let old_body = last(&bench).1;
        if let Some(database) = database {
            bench = bench.restart(database).await;
        }

        bench.cursor.set_state(&fork);
        bench.endpoint.allow_reset();
        let new = say(&mut bench, "Another question.", "Another answer.").await;
        let (text, body) = last(&bench);
        assert_eq!(roles(&added(&first_body, &body)), ["assistant", "user"]);
        assert!(!text.contains("two."), "the branch that was left was shown");

        // Back to the first branch, which is as it was.
        bench.cursor.set_state(&old);
        bench.endpoint.allow_reset();
        say(&mut bench, "Question three.", "Answer three.").await;
        let (text, body) = last(&bench);
        assert_eq!(roles(&added(&old_body, &body)), ["assistant", "user"]);
        assert!(!text.contains("Another"), "the other branch was shown");

        bench.cursor.set_state(&new);
        bench.endpoint.allow_reset();
        say(&mut bench, "Yet another question.", "Yes.").await;
        assert!(!last(&bench).0.contains("two."));
        bench.assert_clean();
    }
}

/// Sends a message that has an id of its own.
async fn send_as(bench: &mut Bench, id: &str, text: &str) -> TurnReport {
    let message = UserMessage {
        text: text.to_owned(),
        message_id: id.to_owned(),
        ..Default::default()
    };
    bench.cursor.start_message(message).await.finish().await.success()
}

fn todo(id: &str, content: &str) -> String {
    format!(r#"{{"merge":true,"todos":[{{"id":"{id}","content":"{content}","status":"pending"}}]}}"#)
}

#[tokio::test]
async fn an_edited_message_begins_a_branch_and_takes_back_all_that_followed_from_the_old_one() {
    for database in [None, Some(Database::Kept), Some(Database::Lost)] {
        let mut bench = Bench::new().await;
        bench.file("kept.txt", "kept\n");
        bench.file("left.txt", "left\n");
        bench.endpoint.reply_calls([
            ("c1", "TodoWrite", todo("kept", "Kept item").as_str()),
            ("c2", "Read", r#"{"path":"kept.txt"}"#),
        ]);
        bench.endpoint.reply_text("Answer one.");
        send_as(&mut bench, "m1", "Question one.").await;
        let fork = bench.cursor.state();
        let fork_body = last(&bench).1;
        bench.endpoint.reply_calls([
            ("c3", "TodoWrite", todo("left", "Left item").as_str()),
            ("c4", "Read", r#"{"path":"left.txt"}"#),
        ]);
        bench.endpoint.reply_text("Answer two.");
        send_as(&mut bench, "m2", "Question two.").await;
        bench.endpoint.reply_text("Answer three.");
        send_as(&mut bench, "m3", "Question three.").await;
        let old = bench.cursor.state();
        let old_body = last(&bench).1;
        assert_eq!(
            (old.todos.len(), old.read_paths.len(), old.turn_timings.len()),
            (2, 2, 3)
        );
        if let Some(database) = database {
            bench = bench.restart(database).await;
        }

        // The client sends its newest state: only the message's id says where the branch begins.
        bench.endpoint.allow_reset();
        bench
            .endpoint
            .reply_calls([("c5", "TodoWrite", todo("new", "New item").as_str())]);
        bench.endpoint.reply_text("Another answer.");
        bench.cursor.cut_back_to = Some(fork.clone());
        let report = send_as(&mut bench, "m2", "Another question two.").await;
        let initial = &report.checkpoints[0];
        assert_eq!(initial.todos, fork.todos);
        assert_eq!(initial.read_paths, fork.read_paths);
        assert_eq!(initial.turn_timings[..1], fork.turn_timings[..]);
        assert_eq!(initial.turn_timings.len(), 2);
        assert_eq!(initial.token_details, None);
        let (text, body) = last(&bench);
        let new = added(&fork_body, &body);
        assert_eq!(roles(&new), ["assistant", "user", "assistant", "tool"]);
        assert!(!text.contains("\"Question two.") && !text.contains("Left item") && !text.contains("three."));
        assert_eq!(
            new[3]["content"],
            Value::from("The to-do list is now:\n- [pending] kept: Kept item\n- [pending] new: New item")
        );
        assert_eq!(bench.cursor.state().turns.len(), 2);

        // The branch that was left is as it was.
        bench.cursor.set_state(&old);
        bench.endpoint.allow_reset();
        bench.endpoint.reply_text("Answer four.");
        send_as(&mut bench, "m4", "Question four.").await;
        let (text, body) = last(&bench);
        assert_eq!(roles(&added(&old_body, &body)), ["assistant", "user"]);
        assert!(!text.contains("Another"));
        bench.assert_clean();
    }
}

#[tokio::test]
async fn the_first_message_can_be_edited_and_the_same_message_again_is_no_edit() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("Answer one.");
    send_as(&mut bench, "m1", "Question one.").await;
    bench.endpoint.reply_text("Answer two.");
    send_as(&mut bench, "m2", "Question two.").await;
    let state = bench.cursor.state();

    bench.endpoint.allow_reset();
    bench.endpoint.reply_text("Another answer.");
    bench.cursor.cut_back_to = Some(ConversationStateStructure::default());
    send_as(&mut bench, "m1", "Another question one.").await;
    let (text, _) = last(&bench);
    assert!(!text.contains("Answer") && !text.contains("two."), "{text}");
    assert_eq!(bench.cursor.state().turns.len(), 1);

    bench.cursor.set_state(&state);
    let requests = bench.bodies().len();
    // It stands in the history already, and is answered.
    let report = send_as(&mut bench, "m2", "Question two.").await;
    assert_eq!(bench.bodies().len(), requests);
    let roots = &report.checkpoints.last().unwrap().root_prompt_messages_json;
    assert_eq!(*roots, state.root_prompt_messages_json);
    bench.assert_clean();
}

/// A message that is sent again is one message in one turn, also where a summary has taken its place.
#[tokio::test]
async fn a_message_that_is_sent_again_is_neither_said_nor_shown_twice() {
    for database in [None, Some(Database::Kept), Some(Database::Lost)] {
        for summarised in [false, true] {
            let mut bench = Bench::new().await;
            for id in ["m1", "m2"] {
                bench.endpoint.reply_text("An answer.");
                send_as(&mut bench, id, &format!("Question {id}.")).await;
            }
            if summarised {
                bench.endpoint.reply_text("The gist.");
                bench.cursor.summarize().await.success();
            }
            let state = bench.cursor.state();
            let requests = bench.bodies().len();
            if let Some(database) = database {
                bench = bench.restart(database).await;
            }
            for id in ["m1", "m2", "m2"] {
                send_as(&mut bench, id, &format!("Question {id}.")).await;
                let case = format!("{id}, {database:?}, summarised: {summarised}");
                assert_eq!(bench.bodies().len(), requests, "{case}");
                let now = bench.cursor.state();
                assert_eq!(
                    now.root_prompt_messages_json, state.root_prompt_messages_json,
                    "{case}"
                );
                assert_eq!(now.turns, state.turns, "{case}");
                assert_eq!(now.summary_archives, state.summary_archives, "{case}");
            }
            bench.endpoint.reply_text("Another answer.");
            send_as(&mut bench, "m3", "Question m3.").await;
            assert_eq!(bench.cursor.state().turns.len(), 3);
            bench.assert_clean();
        }
    }
}

/// What the client's own turns say of a message tells an edit from a repeat, where the database that knew it is lost.
#[tokio::test]
async fn without_a_database_the_same_message_again_is_no_edit_and_an_edit_of_the_edit_is_one() {
    let mut bench = Bench::new().await;
    for (id, question) in [("m1", "Question one."), ("m2", "Question two.")] {
        bench.endpoint.reply_text("An answer.");
        send_as(&mut bench, id, question).await;
    }
    let state = bench.cursor.state();
    let requests = bench.bodies().len();
    let mut bench = bench.restart(Database::Lost).await;
    let report = send_as(&mut bench, "m2", "Question two.").await;
    assert_eq!(bench.bodies().len(), requests);
    let roots = &report.checkpoints.last().unwrap().root_prompt_messages_json;
    assert_eq!(*roots, state.root_prompt_messages_json);
    bench.assert_clean();

    for edited in ["Another question.", "Question two."] {
        bench.endpoint.allow_reset();
        bench.endpoint.reply_text("Another answer.");
        let message = UserMessage {
            text: edited.to_owned(),
            message_id: "m2".to_owned(),
            ..Default::default()
        };
        bench.cursor.edit(message).await.success();
        let messages = serde_json::from_slice::<Value>(&last(&bench).1).unwrap();
        let messages = messages["messages"].as_array().unwrap();
        assert_eq!(roles(&messages[1..]), ["user", "user", "assistant", "user"]);
        assert!(messages[4]["content"].to_string().contains(edited));
        assert_eq!(bench.cursor.state().turns.len(), 2);
        bench = bench.restart(Database::Lost).await;
    }
    bench.assert_clean();
}

#[tokio::test]
async fn a_message_that_was_summarised_can_be_edited_without_a_database() {
    let mut bench = Bench::new().await;
    for (id, question) in [
        ("m1", "Question one."),
        ("m2", "Question two."),
        ("m3", "Question three."),
    ] {
        bench.endpoint.reply_text(&format!("Answer to {id}."));
        send_as(&mut bench, id, question).await;
    }
    bench.endpoint.reply_text("The gist.");
    bench.cursor.summarize().await.success();
    let state = bench.cursor.state();
    assert_eq!((state.turns.len(), state.summary_archives.len()), (3, 1));
    let mut bench = bench.restart(Database::Lost).await;
    bench.endpoint.allow_reset();
    bench.endpoint.reply_text("Other.");
    let message = UserMessage {
        text: "Another question two.".to_owned(),
        message_id: "m2".to_owned(),
        ..Default::default()
    };
    bench.cursor.edit(message).await.success();
    let (text, body) = last(&bench);
    let messages = serde_json::from_slice::<Value>(&body).unwrap();
    let messages = messages["messages"].as_array().unwrap();
    assert_eq!(roles(&messages[1..]), ["user", "user", "assistant", "user"]);
    assert!(
        messages[4]["content"]
            .to_string()
            .contains("Another question two.")
    );
    assert!(!text.contains("The gist.") && !text.contains("Answer to m2."));
    let branch = bench.cursor.state();
    assert_eq!(
        (branch.turns.len(), branch.summary_archives.len(), branch.summary),
        (2, 0, None)
    );
    bench.assert_clean();
}

#[tokio::test]
async fn two_conversations_with_equal_contents_share_nothing() {
    let mut bench = Bench::new().await;
    let mut other = FakeCursor::new(&bench.server.base_url, KEY, "agent-2", bench.workspace.path()).await;
    say(&mut bench, "Question.", "Answer.").await;
    bench.endpoint.allow_reset();
    bench.endpoint.reply_text("Answer.");
    other.send("Question.").await.success();
    let equal = bench.bodies();
    let messages = |body: &Bytes| serde_json::from_slice::<Value>(body).unwrap()["messages"].clone();
    assert_eq!(
        messages(&equal[0]).as_array().unwrap().len(),
        messages(&equal[1]).as_array().unwrap().len()
    );

    // One goes on while the other one runs: neither stops or sees the other.
    bench.endpoint.allow_reset();
    let (held, gate) = super::support::strict_chat::Reply::text("One.").hold_headers();
    bench.endpoint.reply(held);
    bench.endpoint.reply_text("Two.");
    let mut turn = bench.cursor.start_turn("Only here.").await;
    turn.until_checkpoint(0).await;
    gate.arrived().await;
    bench.endpoint.allow_reset();
    assert_eq!(other.send("Only there.").await.success().text, "Two.");
    gate.open();
    assert_eq!(turn.finish().await.success().text, "One.");
    let (there, _) = last(&bench);
    assert!(there.contains("Only there.") && !there.contains("Only here."));
    other.assert_clean();
    bench.cursor.assert_clean();
}

/// The model of a branch was told what stands before the branch, and nothing of the modes behind it.
#[tokio::test]
async fn a_branch_knows_the_mode_of_the_turn_before_it() {
    let message = |id: &str, text: &str, mode: AgentMode| UserMessage {
        text: text.to_owned(),
        message_id: id.to_owned(),
        mode: mode.into(),
        ..Default::default()
    };
    let reminders = |bench: &Bench| last(bench).0.matches("<mode_change>").count();
    // Whether the model itself switched in the first turn, and how often the branch tells of a switch to each mode.
    for (switched, agent, plan) in [(false, 0, 1), (true, 1, 0)] {
        let mut bench = Bench::new().await;
        if switched {
            bench
                .endpoint
                .reply_calls([("c1", "SwitchMode", r#"{"target_mode_id":"plan"}"#)]);
        }
        bench.endpoint.reply_text("Answer one.");
        send_as(&mut bench, "m1", "Question one.").await;
        let fork = bench.cursor.state();
        let mut newest = AgentMode::Agent;
        for (turn, mode, expected) in [
            (2, AgentMode::Plan, plan),
            (3, AgentMode::Agent, agent),
            (4, AgentMode::Plan, plan),
        ] {
            bench.endpoint.allow_reset();
            bench.endpoint.reply_text("An answer.");
            bench.cursor.cut_back_to = (turn > 2).then(|| fork.clone());
            let message = message("m2", &format!("Question {turn}."), mode);
            let turn = bench.cursor.start_message(message).await;
            turn.finish().await.success();
            assert_eq!(
                reminders(&bench),
                expected,
                "{switched}, {mode:?} after {newest:?}"
            );
            newest = mode;
        }
        bench.assert_clean();
    }
}
