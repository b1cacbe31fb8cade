//! Work in the background ends: the agent is woken once, in the mode that it was in, and told whose end it was.

use cairn::cursor::proto::agent::{
    AgentMode, BackgroundTaskCompletion, BackgroundTaskCompletionAction, BackgroundTaskCompletionReason,
    BackgroundTaskKind, BackgroundTaskStatus, ConversationAction, SimulatedMsgReason, UserMessage,
    agent_client_message::Message as ClientMessage, conversation_action,
};
use serde_json::Value;

use crate::support::fake_cursor::{ExecAnswer, FakeCursor, Turn};
use crate::support::wire_bench::{APIS, Bench, messages, roles};

fn completion(
    call: &str,
    subagent: &str,
    status: BackgroundTaskStatus,
    words: &str,
) -> BackgroundTaskCompletion {
    BackgroundTaskCompletion {
        task_id: format!("task of {subagent}"),
        kind: BackgroundTaskKind::Subagent.into(),
        status: status.into(),
        title: "look".to_owned(),
        detail: Some(words.to_owned()),
        reason: BackgroundTaskCompletionReason::TaskFinished.into(),
        subagent_id: Some(subagent.to_owned()),
        tool_call_id: Some(call.to_owned()),
        ..Default::default()
    }
}

fn told(subagent: &str, status: &str, words: &str) -> String {
    format!(
        "<background_task kind=\"subagent\" id=\"{subagent}\" status=\"{status}\">\nlook\n{words}\n</background_task>"
    )
}

/// What the client's turn shows for what woke the agent.
fn simulated(text: &str, mode: AgentMode) -> UserMessage {
    UserMessage {
        text: text.to_owned(),
        mode: mode.into(),
        is_simulated_msg: Some(true),
        simulated_msg_reason: Some(SimulatedMsgReason::BackgroundTaskCompletion.into()),
        ..Default::default()
    }
}

async fn ended(turn: Turn<'_>) -> String {
    turn.finish().await.success().text
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap()
}

async fn plan_turn(cursor: &mut FakeCursor) {
    let message = UserMessage {
        text: "Plan it.".to_owned(),
        mode: AgentMode::Plan.into(),
        ..Default::default()
    };
    cursor.start_message(message).await.finish().await.success();
}

#[tokio::test]
async fn the_parent_is_woken_once_with_the_childs_words_in_its_stored_mode() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("It works in the background.");
    plan_turn(&mut bench.cursor).await;
    let words = told("child-1", "success", "It is in a.rs:7.");
    let done = || {
        completion(
            "call-1",
            "child-1",
            BackgroundTaskStatus::Success,
            "It is in a.rs:7.",
        )
    };
    bench.endpoint.reply_text("Found.");
    let message = simulated(&words, AgentMode::Plan);
    let turn = bench.cursor.start_wake(vec![done()], Some(message)).await;
    assert_eq!(ended(turn).await, "Found.");
    let added = bench.added();
    assert_eq!(roles(&added), ["assistant", "user"]);
    assert_eq!(text(&added[1]), words);
    assert_eq!(bench.cursor.state().mode(), AgentMode::Plan);

    // Told again, in a new request: there is nothing to answer, and no model is called.
    let turn = bench.cursor.start_wake(vec![done()], None).await;
    let report = turn.finish().await.success();
    assert_eq!(
        report.text,
        "The last message is answered already; nothing was left to do."
    );
    assert_eq!(bench.bodies().len(), 2);
    bench.assert_clean();
}

#[tokio::test]
async fn two_ends_at_once_are_two_messages_and_a_failure_says_so() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("Both work.");
    bench.cursor.send("Start both.").await.success();
    let words = [
        told("child-1", "success", "one"),
        told("child-2", "error", "[unavailable] down"),
    ];
    let completions = vec![
        completion("call-1", "child-1", BackgroundTaskStatus::Success, "one"),
        completion(
            "call-2",
            "child-2",
            BackgroundTaskStatus::Error,
            "[unavailable] down",
        ),
        completion("call-1", "child-1", BackgroundTaskStatus::Success, "one"),
    ];
    bench.endpoint.reply_text("One of them failed.");
    let message = simulated(&words.join("\n"), AgentMode::Agent);
    let turn = bench.cursor.start_wake(completions, Some(message)).await;
    ended(turn).await;
    let added = bench.added();
    assert_eq!(roles(&added), ["assistant", "user", "user"]);
    assert_eq!([text(&added[1]), text(&added[2])], words);
    bench.assert_clean();
}

#[tokio::test]
async fn an_end_while_the_parent_works_is_told_after_the_round_and_not_again_later() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    bench
        .endpoint
        .reply_calls([("call_a", "Read", r#"{"path":"a.txt"}"#)]);
    bench.endpoint.reply_text("Both are known.");
    let mut held = 0;
    bench.cursor.hooks.exec = Box::new(move |_| {
        held += 1;
        // The first question is for the request context.
        if held == 1 {
            ExecAnswer::Run
        } else {
            ExecAnswer::Hold
        }
    });
    let done = || completion("call-1", "child-1", BackgroundTaskStatus::Success, "one");
    let action = || ConversationAction {
        action: Some(conversation_action::Action::BackgroundTaskCompletionAction(
            BackgroundTaskCompletionAction {
                completions: vec![done()],
            },
        )),
        ..Default::default()
    };
    let mut turn = bench.cursor.start_turn("Read it.").await;
    let exec_id = turn.until_held(1).await[0].id;
    // The client repeats itself.
    for _ in 0..2 {
        turn.append(ClientMessage::ConversationAction(action())).await;
    }
    turn.release(exec_id).await;
    assert_eq!(ended(turn).await, "Both are known.");
    let added = bench.added();
    assert_eq!(roles(&added), ["assistant", "tool", "user"]);
    assert_eq!(text(&added[2]), told("child-1", "success", "one"));
    bench.cursor.hooks.exec = Box::new(|_| ExecAnswer::Run);
    let turn = bench.cursor.start_wake(vec![done()], None).await;
    turn.finish().await.success();
    assert_eq!(bench.bodies().len(), 2);
    bench.assert_clean();
}

#[tokio::test]
async fn progress_is_told_each_time_that_it_changes() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("It works.");
    bench.cursor.send("Start it.").await.success();
    let mut seen = Vec::new();
    for (words, known) in [("half", false), ("half", true), ("most", false)] {
        let mut completion = completion("call-1", "child-1", BackgroundTaskStatus::Unspecified, words);
        completion.reason = BackgroundTaskCompletionReason::TaskProgress.into();
        let message = (!known).then(|| simulated(&told("child-1", "running", words), AgentMode::Agent));
        if !known {
            bench.endpoint.reply_text("Noted.");
            seen.push(words);
        }
        let turn = bench.cursor.start_wake(vec![completion], message).await;
        turn.finish().await.success();
        assert_eq!(bench.bodies().len(), 1 + seen.len());
    }
    bench.assert_clean();
}

/// Nobody wrote the notice, so nobody is told to write less: it is shortened in the run that it begins.
#[tokio::test]
async fn an_end_in_more_words_than_the_model_can_hold_is_shortened_at_once() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_text("It works.");
        bench.cursor.send("Start it.").await.success();
        let words = "words ".repeat(10_000);
        let refused = r#"{"error":{"message":"This model's maximum context length is 8192 tokens."}}"#;
        bench.endpoint.reply_status(400, &[], refused);
        bench.endpoint.reply_text("The gist.");
        bench.endpoint.reply_status(400, &[], refused);
        bench.endpoint.reply_text("Noted.");
        let done = completion("call-1", "child-1", BackgroundTaskStatus::Success, &words);
        let shown = simulated(&told("child-1", "success", &words), AgentMode::Agent);
        let turn = bench.cursor.start_wake(vec![done], Some(shown)).await;
        let report = turn.finish().await.success();
        assert_eq!(report.text, "Noted.");
        let summaries = ["The gist.", "Messages that were shortened: 1."];
        let expected: Vec<&str> = summaries
            .into_iter()
            .flat_map(|summary| ["started", summary, "completed"])
            .collect();
        // A shortening has no model call of its own that would begin it.
        assert_eq!(report.summaries, expected, "{api:?}");
        let sent = messages(&bench.bodies().pop().unwrap());
        let notice = text(sent.last().unwrap());
        assert!(notice.starts_with("<background_task kind=\"subagent\" id=\"child-1\""));
        assert!(notice.chars().count() < 16_200);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn an_end_that_names_nothing_breaks_the_protocol() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("It works.");
    bench.cursor.send("Start it.").await.success();
    let turn = bench
        .cursor
        .start_wake(vec![BackgroundTaskCompletion::default()], None)
        .await;
    let report = turn.finish().await;
    assert_eq!(
        report.error(),
        (
            "invalid_argument",
            "a background task completion names neither its tool_call_id nor its subagent_id nor its task_id"
        )
    );
    bench.assert_clean();
}

/// The official client says nothing of the end of a subagent in the background: the parent is told all the same.
mod unsaid {
    use cairn::cursor::proto::agent::{
        ExecClientMessage, ModelDetails, SubagentBackgroundReason, SubagentResult, SubagentSuccess,
        exec_client_message, exec_server_message, subagent_result,
    };
    use tempfile::TempDir;

    use super::*;
    use crate::support::cairn_server::{CairnServer, KEY};
    use crate::support::strict_chat::{Reply, StrictChat};

    fn told(status: &str, words: &str) -> String {
        format!(
            "<background_task kind=\"subagent\" id=\"child-1\" status=\"{status}\">\n{words}\n</background_task>"
        )
    }

    /// A client whose Task starts child-1 in the background.
    async fn parent(server: &CairnServer, workspace: &TempDir) -> FakeCursor {
        let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
        cursor.hooks.exec = Box::new(|exec| match &exec.message {
            Some(exec_server_message::Message::SubagentArgs(_)) => {
                let started = subagent_result::Result::Success(SubagentSuccess {
                    agent_id: "child-1".to_owned(),
                    background_reason: SubagentBackgroundReason::AgentRequest.into(),
                    ..Default::default()
                });
                ExecAnswer::Reply(vec![ClientMessage::ExecClientMessage(ExecClientMessage {
                    id: exec.id,
                    message: Some(exec_client_message::Message::SubagentResult(SubagentResult {
                        result: Some(started),
                    })),
                    ..Default::default()
                })])
            }
            Some(exec_server_message::Message::ReadArgs(_)) => ExecAnswer::Hold,
            _ => ExecAnswer::Run,
        });
        cursor
    }

    async fn child(server: &CairnServer, workspace: &TempDir) -> FakeCursor {
        let mut cursor = FakeCursor::new(&server.base_url, KEY, "child-1", workspace.path()).await;
        cursor.hooks.request = Box::new(|request| {
            let model = request.requested_model.take().unwrap();
            request.model_details = Some(ModelDetails {
                model_id: model.model_id,
                ..Default::default()
            });
            request.subagent_type_name = Some("generalPurpose".to_owned());
            request.conversation_group_id = Some("agent-1".to_owned());
        });
        cursor
    }

    const TASK: (&str, &str, &str) = (
        "call-1",
        "Task",
        r#"{"description":"d","prompt":"p","subagent_type":"generalPurpose","run_in_background":true}"#,
    );

    /// The texts of the user messages in the latest body.
    fn said(chat: &StrictChat) -> Vec<String> {
        let body: Value = serde_json::from_slice(&chat.requests().last().unwrap().body).unwrap();
        let messages = body["messages"].as_array().unwrap().clone();
        messages
            .iter()
            .filter(|message| message["role"] == "user")
            .map(|message| text(message).to_owned())
            .collect()
    }

    #[tokio::test]
    async fn before_the_next_words_once_with_whatever_end_it_had() {
        let failed = r#"{"error":{"message":"down"}}"#;
        for (reply, expected) in [
            (Reply::text("Found."), told("success", "Found.")),
            (
                Reply::status(400, &[], failed),
                told(
                    "error",
                    "model \"test\": the endpoint refused the request (400): down.",
                ),
            ),
        ] {
            let chat = StrictChat::start().await;
            let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            let server = CairnServer::start(data.path(), &chat.base_url()).await;
            let mut parent = parent(&server, &workspace).await;
            let mut child = child(&server, &workspace).await;
            chat.reply_calls([TASK]);
            chat.reply_text("It works.");
            parent.send("Start it.").await.success();
            chat.reply(reply);
            child.send("Do it.").await;
            // Nothing is lost with the server.
            server.stop().await;
            let server = CairnServer::start(data.path(), &chat.base_url()).await;
            parent.reconnect(&server.base_url, KEY).await;
            chat.reply_text("I see.");
            parent.send("And?").await.success();
            let seen = said(&chat);
            let [.., end, words] = &seen[..] else {
                panic!("{seen:?}")
            };
            assert_eq!(*end, expected);
            assert!(words.contains("And?"), "{words}");
            chat.reply_text("Nothing new.");
            parent.send("And now?").await.success();
            assert_eq!(said(&chat).len(), seen.len() + 1);
            parent.assert_clean();
            child.assert_clean();
            chat.assert_clean();
        }
    }

    #[tokio::test]
    async fn after_the_round_of_a_parent_at_work_and_the_clients_own_word_adds_nothing() {
        let chat = StrictChat::start().await;
        let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        std::fs::write(workspace.path().join("a.txt"), "one\n").unwrap();
        let server = CairnServer::start(data.path(), &chat.base_url()).await;
        let mut parent = parent(&server, &workspace).await;
        let mut child = child(&server, &workspace).await;
        chat.reply_calls([TASK]);
        chat.reply_calls([("read_1", "Read", r#"{"path":"a.txt"}"#)]);
        let mut turn = parent.start_turn("Start it, then read.").await;
        let exec_id = turn.until_held(1).await[0].id;
        chat.reply_text("Found.");
        child.send("Do it.").await.success();
        let words = || {
            completion(
                "call-1",
                "child-1",
                BackgroundTaskStatus::Success,
                "In other words.",
            )
        };
        let action =
            conversation_action::Action::BackgroundTaskCompletionAction(BackgroundTaskCompletionAction {
                completions: vec![words()],
            });
        turn.append(ClientMessage::ConversationAction(ConversationAction {
            action: Some(action),
            ..Default::default()
        }))
        .await;
        chat.reply_text("Both are known.");
        turn.release(exec_id).await;
        assert_eq!(ended(turn).await, "Both are known.");
        let seen = said(&chat);
        assert_eq!(seen.last(), Some(&told("success", "Found.")));
        let ends = seen.iter().filter(|text| text.starts_with("<background_task"));
        assert_eq!(ends.count(), 1);
        let turn = parent.start_wake(vec![words()], None).await;
        turn.finish().await.success();
        assert_eq!(said(&chat), seen);
        parent.assert_clean();
        child.assert_clean();
        chat.assert_clean();
    }
}

#[tokio::test]
async fn of_a_childs_long_words_head_and_tail_enter_the_history() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("It works in the background.");
    bench.cursor.send("Start it.").await.success();
    let long = format!("{}{}{}", "é".repeat(70_000), "-".repeat(9), "ü".repeat(30_000));
    let kept = format!(
        "{}\n[9 characters are left out here; ask for them where this came from.]\n{}",
        "é".repeat(70_000),
        "ü".repeat(30_000)
    );
    let words = told("child-1", "success", &kept);
    bench.endpoint.reply_text("Found.");
    let done = completion("call-1", "child-1", BackgroundTaskStatus::Success, &long);
    let message = simulated(&words, AgentMode::Agent);
    let turn = bench.cursor.start_wake(vec![done], Some(message)).await;
    ended(turn).await;
    assert!(
        text(&bench.added()[1]) == words,
        "the words are not bounded as they are to be"
    );
    bench.assert_clean();
}
