//! An older revision can be gone on from; the other branch stays and is not seen.

use crate::support::{Fixture, refusal, result, round, user};

#[tokio::test]
async fn a_run_on_an_older_revision_does_not_see_the_newer_branch() {
    let f = Fixture::new().await;
    let run = f.begin("first", &f.empty).await;
    let old = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let branch = f.store.append(&run, &old, &[user("b", "B")]).await.unwrap();

    let run = f.begin("second", &old).await;
    let other = f.store.append(&run, &old, &[user("c", "C")]).await.unwrap();
    assert_eq!(f.ids(&other).await, ["a", "c"]);
    assert_eq!(f.ids(&branch).await, ["a", "b"]);

    let (_folder, cold) = f.killed_and_reopened().await;
    assert_eq!(crate::support::ids(&cold, &other).await, ["a", "c"]);
    assert_eq!(crate::support::ids(&cold, &branch).await, ["a", "b"]);
}

#[tokio::test]
async fn a_message_of_one_branch_is_new_to_another_and_stored_once() {
    let f = Fixture::new().await;
    let run = f.begin("first", &f.empty).await;
    let old = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let branch = f
        .store
        .append(&run, &old, &[user("b", "B"), user("shared", "S")])
        .await
        .unwrap();

    let run = f.begin("second", &old).await;
    let other = f
        .store
        .append(&run, &old, &[user("c", "C"), user("shared", "S")])
        .await
        .unwrap();
    assert_eq!(f.ids(&other).await, ["a", "c", "shared"]);
    assert_eq!(f.ids(&branch).await, ["a", "b", "shared"]);
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM messages")
        .fetch_one(&mut f.sql().await)
        .await
        .unwrap();
    assert_eq!(rows, 4);
}

#[tokio::test]
async fn a_message_id_keeps_its_content_on_every_branch() {
    let f = Fixture::new().await;
    let run = f.begin("first", &f.empty).await;
    f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let run = f.begin("second", &f.empty).await;
    assert_eq!(
        refusal(f.store.append(&run, &f.empty, &[user("a", "other")]).await),
        "MessageConflict"
    );
}

#[tokio::test]
async fn a_round_cut_off_by_a_new_run_is_only_on_its_own_branch() {
    let f = Fixture::new().await;
    let run = f.begin("first", &f.empty).await;
    let old = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let cut = round("round", &run, &old, &["x", "y"]);
    f.store.begin_tool_round(&cut).await.unwrap();
    let half = f
        .store
        .commit_tool_result(&run, &old, &cut.id, &result("y"))
        .await
        .unwrap();

    let run = f.begin("second", &old).await;
    let head = f.store.append(&run, &old, &[user("b", "B")]).await.unwrap();
    assert_eq!(f.ids(&head).await, ["a", "b"]);
    assert_eq!(
        f.ids(&half.revision).await,
        ["a", "round/1/call", "round/1/result"]
    );
}
