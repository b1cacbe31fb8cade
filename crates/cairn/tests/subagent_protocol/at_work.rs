//! A subagent that is still at work is not gone on with: its newer run would stop the older one.

use super::family::{Family, Link, asked, begun, finished, task, told};
use super::whole::result_of;
use crate::support::fake_cursor::TurnReport;
use crate::support::strict_chat::Reply;

fn resume() -> &'static str {
    r#"{"description":"d","prompt":"And then?","subagent_type":"generalPurpose","resume":"child-1"}"#
}

fn refusal() -> String {
    "The subagent was not started: child-1 is still at work, and going on with it now would stop that. Wait for its final \
     message, which comes to you by itself, and go on with it then; or give this to a new subagent."
        .to_owned()
}

/// How many subagents the client was asked for.
fn started(report: &TurnReport) -> usize {
    use cairn::cursor::proto::agent::exec_server_message::Message;
    let execs = report.execs.iter();
    execs
        .filter(|exec| matches!(exec.message, Some(Message::SubagentArgs(_))))
        .count()
}

#[tokio::test]
async fn until_its_end_was_told() {
    let family = Family::new().await;
    let mut person = family.person().await;
    family.chat.reply_calls([("call-1", "Task", &*task(true))]);
    let mut turn = person.start_turn("Find it.").await;
    let (exec_id, args) = asked(&mut turn, 1).await;
    // The client says that the child works before its run comes.
    family.chat.reply_calls([("call-2", "Task", resume())]);
    family.chat.reply_text("It works.");
    begun(&mut turn, exec_id, "child-1").await;
    assert_eq!(started(&turn.finish().await.success()), 1);
    assert_eq!(result_of(&family.chat, "call-2"), refusal());

    let mut child = family.child("child-1", &args, &Link::Group).await;
    let (reply, gate) = Reply::text("It is in a.rs:7.").hold_headers();
    family.chat.reply(reply);
    let mut child_turn = child.start_turn(&args.prompt).await;
    child_turn.until_checkpoint(0).await;
    gate.arrived().await;
    family.chat.reply_calls([("call-3", "Task", resume())]);
    family.chat.reply_text("It still works.");
    assert_eq!(started(&person.send("And?").await.success()), 0);
    assert_eq!(result_of(&family.chat, "call-3"), refusal());

    gate.open();
    assert_eq!(child_turn.finish().await.success().text, "It is in a.rs:7.");
    family.chat.reply_calls([("call-4", "Task", resume())]);
    let mut turn = person.start_turn("And now?").await;
    let (exec_id, args) = asked(&mut turn, 1).await;
    assert_eq!(args.resume_agent_id.as_deref(), Some("child-1"));
    family.chat.reply_text("Then b.rs.");
    let words = child.send(&args.prompt).await.success().text;
    family.chat.reply_text("I see.");
    finished(&mut turn, exec_id, "child-1", &words).await;
    turn.finish().await.success();
    assert_eq!(family.told(), [told("child-1", "success", "It is in a.rs:7.")]);
    person.assert_clean();
    child.assert_clean();
    family.chat.assert_clean();
}

#[tokio::test]
async fn by_two_calls_of_one_answer() {
    let family = Family::new().await;
    let mut person = family.person().await;
    family.chat.reply_calls([("call-1", "Task", &*task(false))]);
    let mut turn = person.start_turn("Find it.").await;
    let (exec_id, args) = asked(&mut turn, 1).await;
    let mut child = family.child("child-1", &args, &Link::Group).await;
    family.chat.reply_text("It is in a.rs:7.");
    let words = child.send(&args.prompt).await.success().text;
    // Its work has ended: it can go on, once.
    family
        .chat
        .reply_calls([("call-2", "Task", resume()), ("call-3", "Task", resume())]);
    finished(&mut turn, exec_id, "child-1", &words).await;
    let (exec_id, args) = asked(&mut turn, 2).await;
    assert_eq!(args.tool_call_id, "call-2");
    family.chat.reply_text("Then b.rs.");
    let words = child.send(&args.prompt).await.success().text;
    family.chat.reply_text("I see.");
    finished(&mut turn, exec_id, "child-1", &words).await;
    assert_eq!(started(&turn.finish().await.success()), 2);
    assert_eq!(
        result_of(&family.chat, "call-2"),
        "The generalPurpose subagent child-1 has finished and says:\nThen b.rs."
    );
    assert_eq!(result_of(&family.chat, "call-3"), refusal());
    person.assert_clean();
    child.assert_clean();
    family.chat.assert_clean();
}
