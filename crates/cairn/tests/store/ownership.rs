//! One run owns a conversation; a run that lost it changes nothing any more.

use cairn::model::{ConversationId, RevisionId, RunId, RunOutcome};
use cairn::store::{RecordedOutcome, RunRecordEnd, StoreError};

use crate::support::{Fixture, prepared, refusal, result, round, user};

const END: RunRecordEnd<'static> = RunRecordEnd {
    outcome: &RunOutcome::Completed,
    usage: None,
    last_call: None,
    ended_at_ms: 9_000,
};

#[tokio::test]
async fn a_new_run_takes_the_conversation_over_and_the_old_one_can_commit_nothing() {
    let f = Fixture::new().await;
    let old = f.begin("old", &f.empty).await;
    let base = f.store.append(&old, &f.empty, &[user("a", "A")]).await.unwrap();
    let open = round("round", &old, &base, &["x", "y"]);
    f.store.begin_tool_round(&open).await.unwrap();
    let half = f
        .store
        .commit_tool_result(&old, &base, &open.id, &result("x"))
        .await
        .unwrap();

    let begun = f.store.begin_run(&f.prepared("new", &base), 5_000).await.unwrap();
    assert_eq!(begun.superseded, Some(old.clone()));

    let late = f
        .store
        .append(&old, &half.revision, &[user("late", "late")])
        .await
        .unwrap_err();
    assert!(late.is_superseded());
    assert!(matches!(
        late,
        StoreError::NotOwner { run, owner: Some(owner), .. } if run == old && owner.as_str() == "new"
    ));
    let late = f
        .store
        .commit_tool_result(&old, &half.revision, &open.id, &result("y"))
        .await;
    assert_eq!(refusal(late), "NotOwner");
    assert_eq!(refusal(f.call(&old, 0, 0, &[]).await), "NotOwner");
    let another = round("another", &old, &half.revision, &["z"]);
    assert_eq!(refusal(f.store.begin_tool_round(&another).await), "NotOwner");

    // The new run's head is its base, whatever the old one tried.
    let new = RunId::new("new");
    let head = f.store.append(&new, &base, &[user("b", "B")]).await.unwrap();
    assert_eq!(f.ids(&head).await, ["a", "b"]);
    let state: String = sqlx::query_scalar("SELECT state FROM tool_rounds WHERE id = 'round'")
        .fetch_one(&mut f.sql().await)
        .await
        .unwrap();
    assert_eq!(state, "abandoned");
}

#[tokio::test]
async fn a_superseded_run_stays_cancelled_and_frees_nothing_when_it_ends() {
    let f = Fixture::new().await;
    let old = f.begin("old", &f.empty).await;
    let new = f.begin("new", &f.empty).await;
    let record = f.store.run_record(&old).await.unwrap().unwrap();
    assert_eq!(record.outcome, Some(RecordedOutcome::Cancelled));
    assert_eq!(record.ended_at_ms, None);

    f.store.end_run(&old, &END).await.unwrap();
    let record = f.store.run_record(&old).await.unwrap().unwrap();
    assert_eq!(record.outcome, Some(RecordedOutcome::Cancelled));
    assert_eq!(record.superseded_by, Some(new.clone()));
    assert_eq!(record.ended_at_ms, Some(9_000));
    assert_eq!(refusal(f.store.end_run(&old, &END).await), "RunEnded");

    f.store.append(&new, &f.empty, &[user("a", "A")]).await.unwrap();
}

#[tokio::test]
async fn an_ended_run_frees_its_conversation_and_ends_once() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let open = round("round", &run, &f.empty, &["x"]);
    f.store.begin_tool_round(&open).await.unwrap();
    f.store.end_run(&run, &END).await.unwrap();
    assert_eq!(refusal(f.store.end_run(&run, &END).await), "RunEnded");
    let late = f.store.append(&run, &f.empty, &[user("late", "late")]).await;
    assert!(matches!(
        late.unwrap_err(),
        StoreError::NotOwner { owner: None, .. }
    ));
    let begun = f.store.begin_run(&f.prepared("next", &f.empty), 1).await.unwrap();
    assert_eq!(begun.superseded, None);
}

#[tokio::test]
async fn a_run_that_builds_on_another_revision_than_the_head_is_refused() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let head = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let stale = f
        .store
        .append(&run, &f.empty, &[user("b", "B")])
        .await
        .unwrap_err();
    assert!(!stale.is_superseded());
    assert!(matches!(
        stale,
        StoreError::HeadMoved { expected, head: found, .. } if expected == f.empty && found == head
    ));
    let stale = round("stale", &run, &f.empty, &["x"]);
    assert_eq!(refusal(f.store.begin_tool_round(&stale).await), "HeadMoved");
    let open = round("round", &run, &head, &["x"]);
    f.store.begin_tool_round(&open).await.unwrap();
    let stale = f
        .store
        .commit_tool_result(&run, &f.empty, &open.id, &result("x"))
        .await;
    assert_eq!(refusal(stale), "HeadMoved");
}

#[tokio::test]
async fn runs_of_two_conversations_do_not_meet() {
    let f = Fixture::new().await;
    let other = ConversationId::new("other");
    let other_empty = f.store.empty_revision(&other).await.unwrap();
    let here = f.begin("here", &f.empty).await;
    let begun = f
        .store
        .begin_run(&prepared(&other, "there", &other_empty), 1)
        .await
        .unwrap();
    assert_eq!(begun.superseded, None);
    f.store.append(&here, &f.empty, &[user("a", "A")]).await.unwrap();
    f.store
        .append(&RunId::new("there"), &other_empty, &[user("a", "other")])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_run_that_cannot_begin_leaves_the_owner_in_place() {
    let f = Fixture::new().await;
    let owner = f.begin("owner", &f.empty).await;
    let other = ConversationId::new("other");
    let foreign = f.store.empty_revision(&other).await.unwrap();
    let cases = [
        (f.prepared("owner", &f.empty), "RunExists"),
        (f.prepared("new", &RevisionId::new("none")), "UnknownRevision"),
        (f.prepared("new", &foreign), "ForeignRevision"),
        (
            prepared(&ConversationId::new("none"), "new", &f.empty),
            "UnknownConversation",
        ),
    ];
    for (run, expected) in cases {
        assert_eq!(refusal(f.store.begin_run(&run, 1).await), expected);
    }
    f.store.append(&owner, &f.empty, &[user("a", "A")]).await.unwrap();
    let unknown = RunId::new("none");
    assert_eq!(
        refusal(f.store.append(&unknown, &f.empty, &[]).await),
        "UnknownRun"
    );
    assert_eq!(refusal(f.store.end_run(&unknown, &END).await), "UnknownRun");
}
