//! A history can begin anew: the old one stays, and the row says that it is no accident.

use cairn::model::{CompactionTrigger, RevisionId, RunId};
use cairn::store::Compaction;

use crate::support::{Fixture, refusal, user};

#[tokio::test]
async fn a_compaction_begins_a_history_anew_and_names_the_one_that_it_took_the_place_of() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let old = f
        .store
        .append(&run, &f.empty, &[user("a", "A"), user("b", "B"), user("c", "C")])
        .await
        .unwrap();
    let kept = [user("summary", "S"), user("c", "C")];
    let new = f
        .store
        .compact(&run, &old, CompactionTrigger::Refusal, 3, &kept)
        .await
        .unwrap();
    let grown = f.store.append(&run, &new, &[user("d", "D")]).await.unwrap();
    let expected = Compaction {
        revision: new.clone(),
        archived: old.clone(),
        run: run.clone(),
        provider_call_index: 3,
        trigger: CompactionTrigger::Refusal,
    };
    assert_eq!(f.store.compaction_behind(&old).await.unwrap(), None);
    {
        let (_folder, cold) = f.killed_and_reopened().await;
        for store in [&f.store, &cold] {
            assert_eq!(crate::support::ids(store, &old).await, ["a", "b", "c"]);
            assert_eq!(crate::support::ids(store, &new).await, ["summary", "c"]);
            assert_eq!(crate::support::ids(store, &grown).await, ["summary", "c", "d"]);
            for revision in [&new, &grown] {
                let behind = store.compaction_behind(revision).await.unwrap();
                assert_eq!(behind.as_ref(), Some(&expected));
            }
            let all = store.compactions_of(&f.conversation).await.unwrap();
            assert_eq!(all, std::slice::from_ref(&expected));
            store.check_integrity().await.unwrap();
        }
    }
}

#[tokio::test]
async fn only_the_owner_compacts_and_only_its_own_head() {
    let f = Fixture::new().await;
    let old = f.begin("old", &f.empty).await;
    let head = f.store.append(&old, &f.empty, &[user("a", "A")]).await.unwrap();
    let kept = [user("summary", "S")];
    let trigger = CompactionTrigger::Manual;
    let compact = |run: RunId, head: RevisionId| {
        let (store, kept) = (&f.store, &kept);
        async move { refusal(store.compact(&run, &head, trigger, 0, kept).await) }
    };
    assert_eq!(compact(old.clone(), f.empty.clone()).await, "HeadMoved");
    let nothing = f.store.compact(&old, &head, trigger, 0, &[]).await;
    assert_eq!(refusal(nothing), "MalformedCompaction");
    f.begin("new", &head).await;
    assert_eq!(compact(old.clone(), head.clone()).await, "NotOwner");
    assert_eq!(f.store.compactions_of(&f.conversation).await.unwrap(), []);
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM messages")
        .fetch_one(&mut f.sql().await)
        .await
        .unwrap();
    assert_eq!(rows, 1, "a refused compaction left its summary");
}

#[tokio::test]
async fn a_compaction_with_an_unknown_reason_is_damage() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let head = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let trigger = CompactionTrigger::Threshold;
    let new = f
        .store
        .compact(&run, &head, trigger, 0, &[user("summary", "S")])
        .await
        .unwrap();
    let mut sql = f.sql().await;
    for change in [
        "PRAGMA ignore_check_constraints = ON",
        "UPDATE compactions SET reason = 'whim'",
    ] {
        sqlx::query(change).execute(&mut sql).await.unwrap();
    }
    assert_eq!(refusal(f.store.compaction_behind(&new).await), "Damaged");
}
