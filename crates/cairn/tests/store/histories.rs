//! A history holds each message once, as it was, and only grows.

use std::sync::Arc;

use bytes::Bytes;
use cairn::model::{
    Assistant, ConversationId, Image, Message, MessageBody, MessageId, Part, Reasoning, ReplayState,
    RevisionId, StateDigest, ToolContent, ToolResult, ToolRoundId, UserOrigin,
};
use cairn::store::StoreError;

use crate::support::{Fixture, call, refusal, result, said, user};

/// One message of each kind, with every optional field both present and absent.
fn one_of_each() -> Vec<Message> {
    let round = ToolRoundId::new("round");
    let bodies = vec![
        MessageBody::User {
            origin: UserOrigin::RequestContext {
                event_id: "e\n1".into(),
            },
            parts: vec![
                Part::Text("rules \u{0} \"quoted\" \u{1f600}".into()),
                Part::Text("".into()),
            ],
        },
        MessageBody::User {
            origin: UserOrigin::Summary {
                event_id: "run/2".into(),
            },
            parts: vec![Part::Text("the gist".into())],
        },
        MessageBody::User {
            origin: UserOrigin::SummaryRequest,
            parts: vec![Part::Text("summarise".into())],
        },
        MessageBody::User {
            origin: UserOrigin::Imported,
            parts: vec![
                Part::Text("before".into()),
                image(b"first picture"),
                Part::Text("between".into()),
                image(b"second picture"),
                image(b"first picture"),
            ],
        },
        MessageBody::Assistant(Assistant {
            text: "Answer.".into(),
            reasoning: Some(Reasoning {
                text: "thought".into(),
                foreign_signature: Some("signature".into()),
            }),
            replay: Some(ReplayState {
                issuer: "openai-chat".into(),
                payload: r#"{"a":1.0,"b":1e3}"#.into(),
            }),
        }),
        MessageBody::ToolCall {
            round: round.clone(),
            index: 1,
            call: call("call\n1"),
            batch_size: 4,
            said: Some(said()),
        },
        MessageBody::ToolResult {
            round: round.clone(),
            result: result("call\n1"),
        },
        MessageBody::ToolCall {
            round: round.clone(),
            index: 0,
            call: call("0"),
            batch_size: 4,
            said: None,
        },
        MessageBody::ToolResult {
            round: round.clone(),
            result: result("0"),
        },
        MessageBody::ToolCall {
            round: round.clone(),
            index: 2,
            call: call("with pictures"),
            batch_size: 4,
            said: None,
        },
        MessageBody::ToolResult {
            round: round.clone(),
            result: ToolResult {
                content: ToolContent::new([
                    Part::Text("two:".into()),
                    image(b"third picture"),
                    image(b"first picture"),
                ]),
                ..result("with pictures")
            },
        },
        MessageBody::ToolCall {
            round: round.clone(),
            index: 3,
            call: call("empty"),
            batch_size: 4,
            said: None,
        },
        MessageBody::ToolResult {
            round,
            result: ToolResult {
                content: ToolContent::default(),
                ..result("empty")
            },
        },
    ];
    bodies
        .into_iter()
        .enumerate()
        .map(|(at, body)| Message {
            id: MessageId::new(format!("message/{at}")),
            body,
        })
        .collect()
}

fn image(data: &'static [u8]) -> Part {
    Part::Image(Image {
        mime_type: "image/png".into(),
        data: Bytes::from_static(data),
    })
}

#[tokio::test]
async fn every_kind_of_message_comes_back_as_it_was() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let messages = one_of_each();
    let revision = f.store.append(&run, &f.empty, &messages).await.unwrap();
    let (_folder, cold) = f.killed_and_reopened().await;
    for store in [&f.store, &cold] {
        let history = store.history(&revision).await.unwrap();
        let history: Vec<Message> = history.iter().map(|message| Message::clone(message)).collect();
        assert_eq!(history, messages);
    }
}

#[tokio::test]
async fn appending_the_same_messages_again_adds_nothing() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let messages = one_of_each();
    let head = f.store.append(&run, &f.empty, &messages).await.unwrap();
    assert_eq!(f.store.append(&run, &head, &messages).await.unwrap(), head);
    assert_eq!(f.store.append(&run, &head, &[]).await.unwrap(), head);

    let new = [
        user("a", "A"),
        messages[0].clone(),
        user("b", "B"),
        user("a", "A"),
    ];
    let longer = f.store.append(&run, &head, &new).await.unwrap();
    let mut expected: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
    expected.extend(["a".to_owned(), "b".to_owned()]);
    assert_eq!(f.ids(&longer).await, expected);
}

#[tokio::test]
async fn a_message_id_with_other_content_is_refused_and_nothing_of_the_append_is_kept() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let head = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let refused = f
        .store
        .append(&run, &head, &[user("b", "B"), user("a", "other")])
        .await;
    assert!(matches!(
        refused.unwrap_err(),
        StoreError::MessageConflict { message, .. } if message.as_str() == "a"
    ));
    // Had "b" been kept, this content would be refused now.
    let head = f
        .store
        .append(&run, &head, &[user("b", "second try")])
        .await
        .unwrap();
    assert_eq!(f.ids(&head).await, ["a", "b"]);
}

#[tokio::test]
async fn an_image_of_other_bytes_is_other_content() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let message = |data| Message {
        id: MessageId::new("picture"),
        body: MessageBody::User {
            origin: UserOrigin::Imported,
            parts: vec![image(data)],
        },
    };
    let head = f.store.append(&run, &f.empty, &[message(b"one")]).await.unwrap();
    assert_eq!(
        refusal(f.store.append(&run, &head, &[message(b"two")]).await),
        "MessageConflict"
    );
}

#[tokio::test]
async fn the_bytes_of_an_image_are_kept_once_and_outside_the_message_row() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let data = Bytes::from(vec![7; 100_000]);
    let message = |id: &str| Message {
        id: MessageId::new(id),
        body: MessageBody::User {
            origin: UserOrigin::Imported,
            parts: vec![Part::Image(Image {
                mime_type: "image/png".into(),
                data: data.clone(),
            })],
        },
    };
    f.store
        .append(&run, &f.empty, &[message("a"), message("b")])
        .await
        .unwrap();
    let mut sql = f.sql().await;
    let (blobs, largest_row): (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM cas), (SELECT max(length(body)) FROM messages)")
            .fetch_one(&mut sql)
            .await
            .unwrap();
    assert_eq!(blobs, 1);
    assert!(largest_row < 300, "{largest_row}");
}

#[tokio::test]
async fn a_revision_keeps_only_its_own_messages_and_its_history_is_a_prefix_of_its_childs() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let mut head = f.empty.clone();
    let mut before = Vec::new();
    for turn in 0..20 {
        head = f
            .store
            .append(&run, &head, &[user(&turn.to_string(), "text")])
            .await
            .unwrap();
        let now = f.ids(&head).await;
        assert_eq!(now[..now.len() - 1], before);
        before = now;
    }
    let lengths: Vec<i64> =
        sqlx::query_scalar("SELECT json_array_length(appended) FROM revisions WHERE message_count > 0")
            .fetch_all(&mut f.sql().await)
            .await
            .unwrap();
    assert_eq!(lengths, [1; 20]);
}

#[tokio::test]
async fn a_warm_history_is_shared_and_not_read_again() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let first = f.store.append(&run, &f.empty, &[user("a", "A")]).await.unwrap();
    let second = f.store.append(&run, &first, &[user("b", "B")]).await.unwrap();
    let short = f.store.history(&first).await.unwrap();
    let long = f.store.history(&second).await.unwrap();
    assert!(Arc::ptr_eq(&short[0], &long[0]));
}

#[tokio::test]
async fn the_same_messages_on_the_same_base_are_the_same_revision() {
    let f = Fixture::new().await;
    let messages = [user("a", "A"), user("b", "B")];
    let first = f.begin("first", &f.empty).await;
    let once = f.store.append(&first, &f.empty, &messages).await.unwrap();
    let second = f.begin("second", &f.empty).await;
    let again = f.store.append(&second, &f.empty, &messages).await.unwrap();
    assert_eq!(once, again);
    assert_eq!(f.ids(&again).await, ["a", "b"]);
}

#[tokio::test]
async fn an_import_is_taken_once_and_moves_no_head() {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let head = f
        .store
        .append(&run, &f.empty, &[user("own", "own")])
        .await
        .unwrap();
    let messages = one_of_each();
    let imported = f.store.import(&f.conversation, &messages).await.unwrap();
    assert_eq!(
        f.store.import(&f.conversation, &messages).await.unwrap(),
        imported
    );
    assert_eq!(f.store.import(&f.conversation, &[]).await.unwrap(), f.empty);
    assert_eq!(f.ids(&imported).await.len(), messages.len());

    let head = f
        .store
        .append(&run, &head, &[user("next", "next")])
        .await
        .unwrap();
    assert_eq!(f.ids(&head).await, ["own", "next"]);

    let mut changed = messages;
    changed[0] = user("message/0", "changed");
    assert_eq!(
        refusal(f.store.import(&f.conversation, &changed).await),
        "MessageConflict"
    );
}

#[tokio::test]
async fn an_import_makes_its_conversation() {
    let f = Fixture::new().await;
    let other = ConversationId::new("other");
    let imported = f.store.import(&other, &[user("a", "A")]).await.unwrap();
    assert_eq!(f.ids(&imported).await, ["a"]);
    let empty = f.store.empty_revision(&other).await.unwrap();
    assert_eq!(f.ids(&empty).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_client_state_stands_for_one_revision() {
    let f = Fixture::new().await;
    let digest = StateDigest([9; 32]);
    let imported = f.store.import(&f.conversation, &[user("a", "A")]).await.unwrap();
    assert_eq!(
        f.store.revision_of_state(&f.conversation, digest).await.unwrap(),
        None
    );
    f.store
        .record_state(&f.conversation, digest, &imported)
        .await
        .unwrap();
    f.store
        .record_state(&f.conversation, digest, &imported)
        .await
        .unwrap();
    assert_eq!(
        f.store.revision_of_state(&f.conversation, digest).await.unwrap(),
        Some(imported.clone())
    );
    f.store
        .record_state(&f.conversation, digest, &f.empty)
        .await
        .unwrap();
    assert_eq!(
        f.store.revision_of_state(&f.conversation, digest).await.unwrap(),
        Some(imported)
    );

    let other = ConversationId::new("other");
    f.store.empty_revision(&other).await.unwrap();
    assert_eq!(f.store.revision_of_state(&other, digest).await.unwrap(), None);
    assert_eq!(
        refusal(f.store.record_state(&other, digest, &f.empty).await),
        "ForeignRevision"
    );
}

#[tokio::test]
async fn an_unknown_revision_has_no_history() {
    let f = Fixture::new().await;
    assert_eq!(
        refusal(f.store.history(&RevisionId::new("none")).await),
        "UnknownRevision"
    );
}

/// Damages the only message, then reads it cold.
async fn damaged_by(sql: &'static str) -> String {
    let f = Fixture::new().await;
    let run = f.begin("run", &f.empty).await;
    let message = Message {
        id: MessageId::new("a"),
        body: MessageBody::User {
            origin: UserOrigin::Imported,
            parts: vec![Part::Text("a secret".into()), image(b"picture")],
        },
    };
    let head = f.store.append(&run, &f.empty, &[message]).await.unwrap();
    sqlx::query(sql).execute(&mut f.sql().await).await.unwrap();
    let (_folder, store) = f.killed_and_reopened().await;
    let error = store.history(&head).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn a_row_that_does_not_decode_is_named_and_its_content_is_not_told() {
    for (sql, expected) in [
        (
            "UPDATE messages SET body = replace(body, '\"v\":1', '\"v\":2')",
            "messages a: row format 2 is unknown",
        ),
        (
            "UPDATE messages SET body = '{\"v\":1,\"row\":\"a secret\"}'",
            "messages a: not a row of format 1",
        ),
        (
            "UPDATE messages SET body = replace(body, '\"parts\"', '\"extra\":1,\"parts\"')",
            "messages a: not a row",
        ),
        ("DELETE FROM cas", "messages a: an image is missing"),
        ("UPDATE cas SET bytes = x'00'", "the bytes have another hash"),
        ("DELETE FROM messages", "its history has gaps"),
    ] {
        let text = damaged_by(sql).await;
        assert!(text.contains(expected), "{sql}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn blobs_are_found_by_their_hash() {
    let f = Fixture::new().await;
    let hash = f.store.put_blob(b"bytes").await.unwrap();
    assert_eq!(f.store.put_blob(b"bytes").await.unwrap(), hash);
    assert_eq!(
        hex::encode(hash),
        "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9"
    );
    assert_eq!(f.store.get_blob(&hash).await.unwrap().unwrap(), "bytes");
    assert_eq!(f.store.get_blob(&[0; 32]).await.unwrap(), None);
    let hashes = f
        .store
        .put_blobs(&[Bytes::from("bytes"), Bytes::new()])
        .await
        .unwrap();
    assert_eq!(hashes[0], hash);
    assert_eq!(f.store.get_blob(&hashes[1]).await.unwrap().unwrap(), "");
}

#[tokio::test]
async fn two_conversations_share_nothing_but_blobs() {
    let f = Fixture::new().await;
    let other = ConversationId::new("other");
    let here = f
        .store
        .import(&f.conversation, &[user("a", "here")])
        .await
        .unwrap();
    let there = f.store.import(&other, &[user("a", "there")]).await.unwrap();
    assert_ne!(here, there);
    assert_eq!(*f.store.history(&here).await.unwrap()[0], user("a", "here"));
    assert_eq!(*f.store.history(&there).await.unwrap()[0], user("a", "there"));
}
