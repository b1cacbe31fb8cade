//! A tool round enters the history pair by pair, in the order in which its calls were completed.

use cairn::model::{
    CallId, ConversationId, HistoryItem, Message, MessageBody, MessageId, ToolRoundId, project,
};
use sqlx::Row;

use crate::support::{Fixture, call, refusal, result, round, said, user};

#[tokio::test]
async fn pairs_are_stored_in_completion_order_and_only_the_first_says_what_the_assistant_said() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let parent = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let open = round("round", &run, &parent, &["x", "y", "z"]);
    f.store.begin_tool_round(&open).await.unwrap();
    assert_eq!(f.ids(&parent).await, ["a"]);

    let mut head = parent;
    let mut settled = Vec::new();
    for id in ["z", "x", "y"] {
        let committed = f
            .store
            .commit_tool_result(&run, &head, &open.id, &result(id))
            .await
            .unwrap();
        head = committed.revision;
        settled.push(committed.settled);
    }
    assert_eq!(settled, [false, false, true]);

    let mut expected = vec![user("a", "A")];
    for (index, id) in [(2, "z"), (0, "x"), (1, "y")] {
        expected.push(Message {
            id: MessageId::tool_call(&open.id, index),
            body: MessageBody::ToolCall {
                round: open.id.clone(),
                index,
                call: call(id),
                batch_size: 3,
                said: (id == "z").then(said),
            },
        });
        expected.push(Message {
            id: MessageId::tool_result(&open.id, index),
            body: MessageBody::ToolResult {
                round: open.id.clone(),
                result: result(id),
            },
        });
    }
    let (_folder, cold) = f.killed_and_reopened().await;
    for store in [&f.store, &cold] {
        let history = store.history(&head).await.unwrap();
        let messages: Vec<Message> = history.iter().map(|message| Message::clone(message)).collect();
        assert_eq!(messages, expected);
    }

    let history = f.store.history(&head).await.unwrap();
    let items = project(history.iter().map(|message| &**message)).unwrap();
    let HistoryItem::Assistant { calls, .. } = &*items[1] else {
        panic!("{items:?}");
    };
    assert_eq!(*calls, open.calls);

    let rows = sqlx::query("SELECT position, completion_seq FROM tool_completions ORDER BY completion_seq")
        .fetch_all(&mut f.sql().await)
        .await
        .unwrap();
    let order: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(order, [(2, 0), (0, 1), (1, 2)]);
}

#[tokio::test]
async fn a_result_that_no_open_call_waits_for_is_refused_and_changes_nothing() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let open = round("round", &run, &f.empty, &["x", "y"]);
    f.store.begin_tool_round(&open).await.unwrap();
    let commit = async |head, round: &ToolRoundId, id: &str| {
        f.store.commit_tool_result(&run, head, round, &result(id)).await
    };
    assert_eq!(refusal(commit(&f.empty, &open.id, "none").await), "UnknownCall");
    assert_eq!(
        refusal(commit(&f.empty, &ToolRoundId::new("none"), "x").await),
        "UnknownRound"
    );

    let first = commit(&f.empty, &open.id, "x").await.unwrap();
    assert_eq!(
        refusal(commit(&first.revision, &open.id, "x").await),
        "RepeatedResult"
    );
    let second = commit(&first.revision, &open.id, "y").await.unwrap();
    assert!(second.settled);
    assert_eq!(
        refusal(commit(&second.revision, &open.id, "y").await),
        "RoundClosed"
    );
    assert_eq!(f.ids(&second.revision).await.len(), 4);
}

#[tokio::test]
async fn a_round_belongs_to_the_run_that_began_it() {
    let f = Fixture::new().await;
    let old = f.begin("old", &f.empty).await;
    let open = round("round", &old, &f.empty, &["x"]);
    f.store.begin_tool_round(&open).await.unwrap();
    let new = f.begin("new", &f.empty).await;
    let taken = f
        .store
        .commit_tool_result(&new, &f.empty, &open.id, &result("x"))
        .await;
    assert_eq!(refusal(taken), "UnknownRound");
    let again = round("round", &new, &f.empty, &["x"]);
    assert_eq!(refusal(f.store.begin_tool_round(&again).await), "RoundConflict");
}

#[tokio::test]
async fn a_run_waits_for_one_round_at_a_time() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let first = round("first", &run, &f.empty, &["x"]);
    f.store.begin_tool_round(&first).await.unwrap();
    let second = |head| round("second", &run, head, &["y"]);
    assert_eq!(
        refusal(f.store.begin_tool_round(&second(&f.empty)).await),
        "RoundConflict"
    );
    let settled = f
        .store
        .commit_tool_result(&run, &f.empty, &first.id, &result("x"))
        .await
        .unwrap();
    f.store
        .begin_tool_round(&second(&settled.revision))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_round_needs_calls_with_ids_of_their_own() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    for calls in [&[][..], &["x", "x"]] {
        let malformed = round("round", &run, &f.empty, calls);
        assert_eq!(
            refusal(f.store.begin_tool_round(&malformed).await),
            "MalformedRound"
        );
    }
}

#[tokio::test]
async fn a_call_id_may_hold_any_characters() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let ids = ["functions.Read:0", "a\nb", "a\u{0}b", "a", "A", "|é "];
    let open = round("round", &run, &f.empty, &ids);
    f.store.begin_tool_round(&open).await.unwrap();
    let mut head = f.empty.clone();
    for id in ids.iter().rev() {
        head = f
            .store
            .commit_tool_result(&run, &head, &open.id, &result(id))
            .await
            .unwrap()
            .revision;
    }
    let answered: Vec<CallId> = f
        .store
        .history(&head)
        .await
        .unwrap()
        .iter()
        .filter_map(|message| match &message.body {
            MessageBody::ToolResult { result, .. } => Some(result.call.clone()),
            _ => None,
        })
        .collect();
    let expected: Vec<CallId> = ids.iter().rev().map(|id| CallId::new(*id)).collect();
    assert_eq!(answered, expected);
}

#[tokio::test]
async fn the_round_that_the_latest_run_left_is_known_and_a_settled_one_is_not() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    assert_eq!(f.store.left_round(&f.conversation).await.unwrap(), None);
    let parent = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let first = round("first", &run, &parent, &["x", "y"]);
    f.store.begin_tool_round(&first).await.unwrap();
    let committed = f
        .store
        .commit_tool_result(&run, &parent, &first.id, &result("y"))
        .await
        .unwrap();
    let (_folder, cold) = f.killed_and_reopened().await;
    for store in [&f.store, &cold] {
        assert_eq!(
            store.left_round(&f.conversation).await.unwrap(),
            Some(first.clone())
        );
    }
    let settled = f
        .store
        .commit_tool_result(&run, &committed.revision, &first.id, &result("x"))
        .await
        .unwrap();
    assert_eq!(f.store.left_round(&f.conversation).await.unwrap(), None);
    let second = round("second", &run, &settled.revision, &["z"]);
    f.store.begin_tool_round(&second).await.unwrap();
    assert_eq!(f.store.left_round(&f.conversation).await.unwrap(), Some(second));
    // What an older run left is the newer one's to know.
    f.begin("newer", &settled.revision).await;
    assert_eq!(f.store.left_round(&f.conversation).await.unwrap(), None);
    let stranger = ConversationId::new("stranger");
    assert_eq!(f.store.left_round(&stranger).await.unwrap(), None);
}
