//! The database file: kept private, kept to one process, and whole after any end.

use std::task::Poll;

use cairn::model::{ConversationId, StateDigest};
use cairn::store::{RecordedOutcome, Store, StoreError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

use crate::support::{Fixture, ids, picture, prepared, refusal, result, round, user};

#[tokio::test]
async fn everything_is_there_again_after_a_close() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let head = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    f.store
        .record_state(&f.conversation, StateDigest([1; 32]), &head)
        .await
        .unwrap();
    let blob = f.store.put_blob(b"blob").await.unwrap();
    f.store.close().await.unwrap();
    assert!(!f.folder.path().join("cairn.db-wal").exists());
    assert_eq!(
        refusal(f.store.append(&run, &head, &[user("b", "B")]).await),
        "Database"
    );
    let Fixture {
        folder,
        store,
        conversation,
        ..
    } = f;
    drop(store);

    let store = Store::open(&folder.path().join("cairn.db")).await.unwrap();
    let state = store
        .revision_of_state(&conversation, StateDigest([1; 32]))
        .await
        .unwrap();
    assert_eq!(state, Some(head.clone()));
    assert_eq!(ids(&store, &head).await, ["a"]);
    assert_eq!(store.get_blob(&blob).await.unwrap().unwrap(), "blob");
    store.check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_kill_loses_no_commit_and_frees_every_conversation() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let parent = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let open = round("round", &run, &parent, &["x", "y"]);
    f.store.begin_tool_round(&open).await.unwrap();
    let half = f
        .store
        .commit_tool_result(&run, &parent, &open.id, &result("x"))
        .await
        .unwrap();

    let (_folder, store) = f.killed_and_reopened().await;
    store.check_integrity().await.unwrap();
    assert_eq!(
        ids(&store, &half.revision).await,
        ["a", "round/0/call", "round/0/result"]
    );
    let record = store.run_record(&run).await.unwrap().unwrap();
    assert_eq!(record.outcome, Some(RecordedOutcome::Interrupted));
    assert_eq!(record.ended_at_ms, None);

    let next = prepared(&f.conversation, "next", &half.revision);
    let begun = store.begin_run(&next, 5_000).await.unwrap();
    assert_eq!(begun.superseded, None);
    let head = store
        .append(&next.id, &half.revision, &[user("b", "B")])
        .await
        .unwrap();
    assert_eq!(
        ids(&store, &head).await,
        ["a", "round/0/call", "round/0/result", "b"]
    );
    let late = store
        .commit_tool_result(&run, &half.revision, &open.id, &result("y"))
        .await;
    assert_eq!(refusal(late), "NotOwner");
}

#[tokio::test]
async fn a_store_that_is_dropped_without_a_close_loses_nothing() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let head = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let Fixture { folder, store, .. } = f;
    drop(store);
    let store = Store::open(&folder.path().join("cairn.db")).await.unwrap();
    assert_eq!(ids(&store, &head).await, ["a"]);
}

#[tokio::test]
async fn a_cut_commit_leaves_all_or_nothing_and_the_store_usable() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let mut head = f.empty.clone();
    for polls in 0..40 {
        let message = [
            user(&polls.to_string(), "text"),
            user(&format!("{polls}+"), "text"),
        ];
        // Dropped at its n-th wait, and so after another statement each time.
        let mut left = polls;
        let mut commit = Box::pin(f.store.append(&run, &head, &message));
        std::future::poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            commit.as_mut().poll(context).map(drop)
        })
        .await;
        drop(commit);
        head = match f.store.append(&run, &head, &message).await {
            Ok(head) => head,
            // The cut one was already on disk.
            Err(StoreError::HeadMoved { head, .. }) => head,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(f.ids(&head).await.len(), 2 * (polls + 1));
    }
    f.store.check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_second_process_is_kept_out_until_the_first_is_gone() {
    let f = Fixture::new().await;
    assert_eq!(refusal(Store::open(&f.path()).await), "InUse");
    let run = f.begin("run", &f.empty).await;
    f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let Fixture { folder, store, .. } = f;
    drop(store);
    Store::open(&folder.path().join("cairn.db")).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_what_is_stored() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let store = Store::open(&data.join("cairn.db")).await.unwrap();
    store.put_blob(b"blob").await.unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let files: Vec<_> = std::fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

async fn plain(path: &std::path::Path) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .connect()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(
        &text,
        "not a database, but long enough to be read as one".repeat(100),
    )
    .unwrap();
    assert_eq!(refusal(Store::open(&text).await), "Schema");

    let foreign = folder.path().join("foreign");
    let mut sql = plain(&foreign).await;
    sqlx::query("CREATE TABLE theirs (id INTEGER)")
        .execute(&mut sql)
        .await
        .unwrap();
    assert_eq!(refusal(Store::open(&foreign).await), "Schema");
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema")
        .fetch_one(&mut sql)
        .await
        .unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn a_schema_of_another_version_is_refused() {
    for change in [
        "UPDATE _sqlx_migrations SET checksum = x'00'",
        "INSERT INTO _sqlx_migrations SELECT 9999, description, installed_on, success, checksum, execution_time
         FROM _sqlx_migrations",
    ] {
        let f = Fixture::new().await;
        sqlx::query(change).execute(&mut f.sql().await).await.unwrap();
        let Fixture { folder, store, .. } = f;
        drop(store);
        assert_eq!(refusal(Store::open(&folder.path().join("cairn.db")).await), "Schema");
    }
}

#[tokio::test]
async fn a_broken_reference_is_found() {
    for damage in [
        "DELETE FROM messages",
        "UPDATE messages SET conversation_key = 2",
        "UPDATE conversations SET active_run_key = 99",
        "DELETE FROM cas",
    ] {
        let f = Fixture::new().await;
        let other = ConversationId::new("other");
        f.store.empty_revision(&other).await.unwrap();
        let run = f.begin("run", &f.empty).await;
        f.store.append(&run, &f.empty, &[picture("a")]).await.unwrap();
        f.store.check_integrity().await.unwrap();
        sqlx::query(damage).execute(&mut f.sql().await).await.unwrap();
        assert_eq!(refusal(f.store.check_integrity().await), "Damaged", "{damage}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("cairn.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }));
    assert!(error.to_string().contains("file/cairn.db"), "{error}");
}
