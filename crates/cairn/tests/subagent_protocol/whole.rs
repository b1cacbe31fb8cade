//! A Task from the model's call to the model's next request, with the child's own run in between: in front and in the
//! background, nested, stopped, and whichever way the child says whose it is.

use cairn::cursor::proto::agent::{TaskSuccess, task_result, tool_call::Tool};
use serde_json::Value;

use super::family::{Family, Link, PERSON, asked, begun, failed, finished, task, told};
use crate::support::fake_cursor::{End, TurnReport};
use crate::support::strict_chat::{Reply, StrictChat};

/// The result of this call in the latest body.
pub fn result_of(chat: &StrictChat, call: &str) -> String {
    let body: Value = serde_json::from_slice(&chat.requests().last().unwrap().body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let result = messages.iter().find(|message| message["tool_call_id"] == call);
    result.unwrap()["content"].as_str().unwrap().to_owned()
}

fn links(request: &str, call: &str) -> [Link; 2] {
    let (request, call) = (request.to_owned(), call.to_owned());
    [Link::Group, Link::Headers { request, call }]
}

/// The card of the only call, as it was completed.
fn card(report: &TurnReport) -> (Option<String>, Option<task_result::Result>) {
    let [call] = &report.calls[..] else {
        panic!("{report}")
    };
    match call.completed.clone().unwrap().tool {
        Some(Tool::TaskToolCall(card)) => (card.args.unwrap().model, card.result.unwrap().result),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn in_front_the_childs_words_are_the_result_and_name_it() {
    for link in links("agent-1-request-1", "call-1") {
        let family = Family::new().await;
        let mut person = family.person().await;
        family.chat.reply_calls([("call-1", "Task", &*task(false))]);
        let mut turn = person.start_turn("Find it.").await;
        let (exec_id, args) = asked(&mut turn, 1).await;
        assert_eq!(args.tool_call_id, "call-1");
        assert_eq!(args.subagent_type, "generalPurpose");
        assert_eq!(args.model_id, "test");
        assert_eq!(args.run_in_background, Some(false));
        assert_eq!(args.parent_conversation_id.as_deref(), Some(PERSON));
        assert_eq!(args.root_parent_conversation_id.as_deref(), Some(PERSON));

        let mut child = family.child("child-1", &args, &link).await;
        family.chat.reply_text("It is in a.rs:7.");
        let words = child.send(&args.prompt).await.success().text;
        let said = family.said();
        assert!(
            said[0].starts_with("<subagent kind=\"generalPurpose\">\n"),
            "{said:?}"
        );
        assert!(said[1].contains("Where is it?"), "{said:?}");

        family.chat.reply_text("In a.rs, then.");
        finished(&mut turn, exec_id, "child-1", &words).await;
        let report = turn.finish().await.success();
        assert_eq!(report.text, "In a.rs, then.");
        let result = "The generalPurpose subagent child-1 has finished and says:\nIt is in a.rs:7.";
        assert_eq!(result_of(&family.chat, "call-1"), result);
        let (model, result) = card(&report);
        assert_eq!(model.as_deref(), Some("test"));
        let Some(task_result::Result::Success(TaskSuccess {
            agent_id,
            is_background,
            ..
        })) = result
        else {
            panic!("{result:?}")
        };
        assert_eq!((agent_id.as_deref(), is_background), (Some("child-1"), false));
        assert_eq!(family.chat.requests().len(), 3);

        // The same child goes on, and remembers; one that nobody knows is not started.
        let resume = |id: &str| {
            format!(
                r#"{{"description":"d","prompt":"And then?","subagent_type":"generalPurpose","resume":"{id}"}}"#
            )
        };
        family.chat.reply_calls([
            ("call-2", "Task", &*resume("child-1")),
            ("call-3", "Task", &*resume("child-9")),
        ]);
        let mut turn = person.start_turn("Go on.").await;
        let (exec_id, args) = asked(&mut turn, 1).await;
        assert_eq!(args.resume_agent_id.as_deref(), Some("child-1"));
        child.set_state(&Default::default());
        family.chat.reply_text("Then b.rs.");
        let words = child.send(&args.prompt).await.success().text;
        assert_eq!(family.said().len(), 3, "{:?}", family.said());
        family.chat.reply_text("I see.");
        finished(&mut turn, exec_id, "child-1", &words).await;
        let report = turn.finish().await.success();
        assert_eq!(report.execs.len(), 2, "the request context and one subagent");
        assert_eq!(
            result_of(&family.chat, "call-3"),
            "The subagent was not started: this conversation has no subagent child-9 that could go on. The latest are: \
             child-1. To start a new one, leave resume out and put all that it has to know into the prompt."
        );
        person.assert_clean();
        child.assert_clean();
        family.chat.assert_clean();
    }
}

#[tokio::test]
async fn a_child_that_failed_is_a_tool_error_and_can_go_on() {
    let family = Family::new().await;
    let mut person = family.person().await;
    family.chat.reply_calls([("call-1", "Task", &*task(false))]);
    let mut turn = person.start_turn("Find it.").await;
    let (exec_id, args) = asked(&mut turn, 1).await;
    let mut child = family.child("child-1", &args, &Link::Group).await;
    family
        .chat
        .reply_status(400, &[], r#"{"error":{"message":"out of order"}}"#);
    let report = child.send(&args.prompt).await;
    let (code, message) = report.error();
    family.chat.reply_text("It failed.");
    failed(&mut turn, exec_id, "child-1", &format!("[{code}] {message}")).await;
    let report = turn.finish().await.success();
    let result = result_of(&family.chat, "call-1");
    assert!(
        result.starts_with("The generalPurpose subagent child-1 failed: [unavailable] ")
            && result.contains("out of order"),
        "{result}"
    );
    assert!(matches!(card(&report).1, Some(task_result::Result::Error(_))));
    person.assert_clean();
    child.assert_clean();
    family.chat.assert_clean();
}

#[tokio::test]
async fn in_the_background_the_parent_goes_on_and_is_told_of_the_end() {
    for link in links("agent-1-request-1", "call-1") {
        let family = Family::new().await;
        let mut person = family.person().await;
        family.chat.reply_calls([("call-1", "Task", &*task(true))]);
        let mut turn = person.start_turn("Find it.").await;
        let (exec_id, args) = asked(&mut turn, 1).await;
        assert_eq!(args.run_in_background, Some(true));
        let mut child = family.child("child-1", &args, &link).await;
        let (reply, gate) = Reply::text("It is in a.rs:7.").hold_headers();
        family.chat.reply(reply);
        let mut child_turn = child.start_turn(&args.prompt).await;
        child_turn.until_checkpoint(0).await;
        gate.arrived().await;
        family.chat.reply_text("It works.");
        begun(&mut turn, exec_id, "child-1").await;
        let report = turn.finish().await.success();
        let result = result_of(&family.chat, "call-1");
        assert!(
            result.starts_with("The generalPurpose subagent child-1 works in the background."),
            "{result}"
        );
        let Some(task_result::Result::Success(success)) = card(&report).1 else {
            panic!("{report}")
        };
        assert!(success.is_background);
        // The parent's end does not stop it.
        gate.open();
        assert_eq!(child_turn.finish().await.success().text, "It is in a.rs:7.");
        family.chat.reply_text("In a.rs, then.");
        person.send("And?").await.success();
        assert_eq!(family.told(), [told("child-1", "success", "It is in a.rs:7.")]);
        person.assert_clean();
        child.assert_clean();
        family.chat.assert_clean();
    }
}

#[tokio::test]
async fn stopping_the_parent_ends_what_all_its_descendants_spend() {
    for headers in [false, true] {
        let family = Family::new().await;
        let chat = &family.chat;
        let link = |request: &str, call: &str| links(request, call)[usize::from(headers)].clone();
        let mut person = family.person().await;
        chat.reply_calls([
            ("call-1", "Task", &*task(true)),
            ("call-2", "Task", &*task(false)),
        ]);
        let mut turn = person.start_turn("Find it.").await;
        let (_, args) = asked(&mut turn, 2).await;
        let background = turn.until_held(2).await[0].id;
        // One child works in the background, the other waits for a grandchild.
        let mut first = family
            .child("child-1", &args, &link("agent-1-request-1", "call-1"))
            .await;
        let (reply, first_gate) = Reply::text("never said").hold_headers();
        chat.reply(reply);
        let mut first_turn = first.start_turn("One.").await;
        first_turn.until_checkpoint(0).await;
        first_gate.arrived().await;
        begun(&mut turn, background, "child-1").await;
        let mut second = family
            .child("child-2", &args, &link("agent-1-request-1", "call-2"))
            .await;
        chat.reply_calls([("call-3", "Task", &*task(false))]);
        let mut second_turn = second.start_turn("Two.").await;
        let (_, args) = asked(&mut second_turn, 1).await;
        assert_eq!(args.parent_conversation_id.as_deref(), Some("child-2"));
        let mut third = family
            .child("child-3", &args, &link("child-2-request-1", "call-3"))
            .await;
        let (reply, third_gate) = Reply::text("never said").hold_headers();
        chat.reply(reply);
        let mut third_turn = third.start_turn("Three.").await;
        third_turn.until_checkpoint(0).await;
        third_gate.arrived().await;
        assert_eq!(chat.requests().len(), 4);

        assert_eq!(turn.close().end, End::Closed);
        first_gate.gone().await;
        third_gate.gone().await;
        for turn in [first_turn, second_turn, third_turn] {
            let report = turn.finish().await;
            assert_eq!(report.error().0, "canceled", "{report}");
        }
        assert_eq!(chat.requests().len(), 4, "nothing more was asked");
        for cursor in [person, first, second, third] {
            cursor.assert_clean();
        }
    }
}
