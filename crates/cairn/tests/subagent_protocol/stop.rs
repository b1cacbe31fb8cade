//! A run that is stopped stops everything that was started for it, at once and at whatever depth.

use std::path::Path;

use cairn::client::{ClientCommand, ClientEvent};
use cairn::cursor::proto::agent::ModelDetails;
use cairn::model::{
    CallId, ConversationId, ParentCall, PreparedRun, RunAction, RunId, RunKind, RunOutcome, SubagentKind,
};
use cairn::provider::ModelEvent;
use cairn::store::RecordedOutcome;

use tempfile::TempDir;

use crate::support::cairn_server::{CairnServer, KEY};
use crate::support::fake_client::{Bench, FakeClient, prepared, user_message};
use crate::support::fake_cursor::{End, FakeCursor, Turn};
use crate::support::fake_provider::{FakeProvider, Feed, text};
use crate::support::strict_chat::endpoint::Gate;
use crate::support::strict_chat::{Reply, StrictChat};

/// A subagent's run in a conversation of its own; `parent` is the run above it, where the client names it.
async fn child(bench: &Bench, run: &str, parent: Option<&str>) -> PreparedRun {
    let conversation = ConversationId::new(format!("conversation of {run}"));
    let base = bench.services.store.empty_revision(&conversation).await.unwrap();
    let action = RunAction::Start {
        interrupted: None,
        messages: vec![user_message(run, "do it")],
    };
    PreparedRun {
        conversation,
        kind: RunKind::Subagent {
            kind: SubagentKind::new("generalPurpose"),
            parent: parent.map(|parent| ParentCall {
                run: RunId::new(parent),
                call: CallId::new("call"),
            }),
        },
        ..prepared(run, base, action)
    }
}

/// Starts a run and lets it come as far as the middle of its model's answer.
async fn spending(bench: &Bench, provider: &FakeProvider, run: PreparedRun) -> (FakeClient, Feed) {
    let feed = provider.feed();
    let mut client = bench.start(provider, run);
    client
        .until(|event| matches!(event, ClientEvent::ModelCallStarted { .. }))
        .await;
    feed.event(ModelEvent::Start);
    (client, feed)
}

async fn outcome(bench: &Bench, run: &str) -> Option<RecordedOutcome> {
    let record = bench.services.store.run_record(&RunId::new(run)).await.unwrap();
    record.unwrap().outcome
}

#[tokio::test]
async fn cancelling_a_run_closes_the_model_calls_of_its_subagents_and_of_theirs() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    let parent = bench.user_turn("parent", None, "go").await;
    let (mut parent, parent_feed) = spending(&bench, &provider, parent).await;
    let run = child(&bench, "child", Some("parent")).await;
    let (mut child_client, child_feed) = spending(&bench, &provider, run).await;
    let run = child(&bench, "grandchild", Some("child")).await;
    let (mut grandchild, grandchild_feed) = spending(&bench, &provider, run).await;
    let run = child(&bench, "stranger", Some("nobody")).await;
    let (mut stranger, stranger_feed) = spending(&bench, &provider, run).await;

    parent.handle.commands.send(ClientCommand::Cancel).unwrap();
    assert_eq!(parent.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    for feed in [&parent_feed, &child_feed, &grandchild_feed] {
        feed.closed().await;
    }
    assert_eq!(
        child_client.finish(|_| unreachable!()).await,
        RunOutcome::Cancelled
    );
    assert_eq!(grandchild.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    assert_eq!(outcome(&bench, "child").await, Some(RecordedOutcome::Cancelled));
    assert_eq!(
        outcome(&bench, "grandchild").await,
        Some(RecordedOutcome::Cancelled)
    );

    // Whoever belongs to another run goes on.
    for event in text("done").into_iter().skip(1) {
        stranger_feed.event(event);
    }
    drop(stranger_feed);
    assert_eq!(stranger.finish(|_| unreachable!()).await, RunOutcome::Completed);
}

#[tokio::test]
async fn a_grandchild_in_the_background_outlives_its_parent_but_not_the_run_above() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    let run = bench.user_turn("parent", None, "go").await;
    let (mut parent, _parent_feed) = spending(&bench, &provider, run).await;
    let run = child(&bench, "child", Some("parent")).await;
    let (mut child_client, child_feed) = spending(&bench, &provider, run).await;
    let run = child(&bench, "grandchild", Some("child")).await;
    let (mut grandchild, grandchild_feed) = spending(&bench, &provider, run).await;
    for event in text("done").into_iter().skip(1) {
        child_feed.event(event);
    }
    drop(child_feed);
    assert_eq!(
        child_client.finish(|_| unreachable!()).await,
        RunOutcome::Completed
    );
    // The child's end did not stop what it left behind.
    grandchild_feed.event(ModelEvent::TextStart);
    grandchild
        .until(|event| matches!(event, ClientEvent::TextStart))
        .await;
    parent.handle.cancel.cancel();
    assert_eq!(parent.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    grandchild_feed.closed().await;
    assert_eq!(grandchild.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
}

#[tokio::test]
async fn a_subagent_that_comes_after_its_parent_was_stopped_never_calls_a_model() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    let run = bench.user_turn("parent", None, "go").await;
    let (mut parent, _feed) = spending(&bench, &provider, run).await;
    parent.handle.cancel.cancel();
    assert_eq!(parent.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    let run = child(&bench, "late", Some("parent")).await;
    let mut late = bench.start(&provider, run);
    assert_eq!(late.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    assert_eq!(provider.requests().len(), 1);
}

#[tokio::test]
async fn a_newer_run_of_the_parents_conversation_stops_the_subagents_of_the_older_one() {
    let bench = Bench::new().await;
    let provider = FakeProvider::new();
    let run = bench.user_turn("old", None, "go").await;
    let (mut old, _old_feed) = spending(&bench, &provider, run).await;
    let run = child(&bench, "child", Some("old")).await;
    let (mut child_client, child_feed) = spending(&bench, &provider, run).await;
    provider.answer(text("second"));
    let base = old.settled.clone().unwrap();
    let mut new = bench.start(
        &provider,
        bench.user_turn("new", Some(&base), "rather this").await,
    );
    assert_eq!(old.finish(|_| unreachable!()).await, RunOutcome::Cancelled);
    child_feed.closed().await;
    assert_eq!(
        child_client.finish(|_| unreachable!()).await,
        RunOutcome::Cancelled
    );
    assert_eq!(new.finish(|_| unreachable!()).await, RunOutcome::Completed);
}

/// A client of a subagent's conversation that names no parent, only the person's conversation, as the official one does.
async fn subagent(server: &CairnServer, conversation: &str, workspace: &Path) -> FakeCursor {
    let mut cursor = FakeCursor::new(&server.base_url, KEY, conversation, workspace).await;
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

/// Starts a turn and lets it come as far as its model call, whose answer never comes.
async fn calling<'a>(chat: &StrictChat, cursor: &'a mut FakeCursor) -> (Turn<'a>, Gate) {
    let (reply, gate) = Reply::text("never said").hold_headers();
    chat.reply(reply);
    let mut turn = cursor.start_turn("Go.").await;
    turn.until_checkpoint(0).await;
    gate.arrived().await;
    (turn, gate)
}

#[tokio::test]
async fn on_the_wire_subagents_stop_with_the_run_of_the_persons_conversation() {
    let chat = StrictChat::start().await;
    let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = CairnServer::start(data.path(), &chat.base_url()).await;
    let mut person = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
    let mut child = subagent(&server, "child", workspace.path()).await;
    let mut grandchild = subagent(&server, "grandchild", workspace.path()).await;
    let mut stranger = FakeCursor::new(&server.base_url, KEY, "agent-2", workspace.path()).await;
    let (person_turn, person_gate) = calling(&chat, &mut person).await;
    let (child_turn, child_gate) = calling(&chat, &mut child).await;
    let (grandchild_turn, grandchild_gate) = calling(&chat, &mut grandchild).await;
    let (stranger_turn, stranger_gate) = calling(&chat, &mut stranger).await;

    assert_eq!(person_turn.close().end, End::Closed);
    for gate in [person_gate, child_gate, grandchild_gate] {
        gate.gone().await;
    }
    for turn in [child_turn, grandchild_turn] {
        let report = turn.finish().await;
        assert_eq!(report.error().0, "canceled", "{report}");
    }
    stranger_gate.open();
    assert_eq!(stranger_turn.finish().await.success().text, "never said");
    for cursor in [person, child, grandchild, stranger] {
        cursor.assert_clean();
    }
}
