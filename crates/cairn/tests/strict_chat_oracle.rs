//! The strict fake endpoint notices what it is there to notice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests fail by panicking"
)]

#[path = "support/model_events.rs"]
mod model_events;
#[path = "support/provider_input.rs"]
mod provider_input;
#[path = "support/strict_chat.rs"]
mod strict_chat;

use cairn::model::{HistoryItem, ProviderFault};
use cairn::provider::Provider;
use cairn::provider::openai_chat::OpenAiChat;
use model_events::collect;
use provider_input::{assistant, chat_model, invocation, request, result, said, user};
use serde_json::json;
use strict_chat::StrictChat;

/// Sends the histories one after another and gives what was noticed about the last one.
async fn noticed(histories: &[&[HistoryItem]]) -> Vec<String> {
    let chat = StrictChat::start().await;
    let provider = OpenAiChat::new(&chat_model(&chat.base_url(), "")).unwrap();
    for (number, history) in histories.iter().enumerate() {
        assert_eq!(chat.violations(), Vec::<String>::new(), "before request {number}");
        chat.reply_text("ok");
        let (_, failure) = collect(provider.call(&request(history.to_vec()), invocation())).await;
        let refused = !chat.violations().is_empty();
        assert_eq!(
            failure.map(|failure| failure.fault),
            refused.then_some(ProviderFault::InvalidRequest)
        );
    }
    chat.violations()
}

#[tokio::test]
async fn unpaired_repeated_and_empty_items_are_noticed() {
    let call = assistant(said(""), &[("c1", "Read", "{}")]);
    let broken = assistant(said(""), &[("c1", "Read", "{")]);
    for (history, expected) in [
        (vec![user("a"), call.clone()], "have no result"),
        (vec![user("a"), call.clone(), user("b")], "have no result"),
        (vec![user("a"), result("c1", "r")], "no open call"),
        (vec![user("a"), call.clone(), result("c2", "r")], "no open call"),
        (
            vec![
                user("a"),
                call.clone(),
                result("c1", "r"),
                call.clone(),
                result("c1", "r"),
            ],
            "not unique",
        ),
        (vec![user("a"), broken, result("c1", "r")], "no JSON text"),
    ] {
        let noticed = noticed(&[&history]).await;
        assert!(
            noticed.iter().any(|breach| breach.contains(expected)),
            "{expected}: {noticed:?}"
        );
    }
    assert_eq!(
        noticed(&[&[user("a"), call, result("c1", "r")]]).await,
        Vec::<String>::new()
    );
}

/// The encoder cannot be made to send these.
#[tokio::test]
async fn empty_messages_are_noticed() {
    for (role, expected) in [("user", "empty part"), ("tool", "is empty")] {
        let chat = StrictChat::start().await;
        chat.reply_text("ok");
        let body = json!({"model": "m", "stream": true, "messages": [{"role": role, "content": ""}]});
        let answer = reqwest::Client::builder()
            .no_proxy()
            .build()
            .unwrap()
            .post(format!("{}/chat/completions", chat.base_url()))
            .body(body.to_string())
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 400);
        let noticed = chat.violations();
        assert!(
            noticed.iter().any(|breach| breach.contains(expected)),
            "{role}: {noticed:?}"
        );
    }
}

#[tokio::test]
async fn a_changed_prefix_is_noticed_and_other_conversations_are_not() {
    let turn =
        |question: &str, answer: &str| vec![user(question), assistant(said(answer), &[]), user("more")];
    let first = turn("a", "b");
    let mut longer = first.clone();
    longer.extend([assistant(said("c"), &[]), user("d")]);
    assert_eq!(
        noticed(&[&first, &longer, &turn("other", "b"), &longer]).await,
        Vec::<String>::new()
    );
    let mut edited = longer.clone();
    edited[2] = user("changed");
    for (later, expected) in [(edited, "message 3 differs"), (first, "message 4 is missing")] {
        let noticed = noticed(&[&longer, &later]).await;
        assert!(
            noticed.iter().any(|breach| breach.contains(expected)),
            "{noticed:?}"
        );
    }
}

#[tokio::test]
async fn a_reset_is_excused_once_and_one_conversation_is_stricter() {
    let chat = StrictChat::start().await;
    chat.one_conversation();
    let provider = OpenAiChat::new(&chat_model(&chat.base_url(), "")).unwrap();
    let send = async |text: &str| {
        chat.reply_text("ok");
        collect(provider.call(&request(vec![user(text)]), invocation()))
            .await
            .1
    };
    assert_eq!(send("a").await, None);
    chat.allow_reset();
    assert_eq!(send("b").await, None);
    assert!(send("c").await.is_some());
    assert!(
        chat.violations()[0].contains("message 1 differs"),
        "{:?}",
        chat.violations()
    );
}

#[tokio::test]
async fn a_request_for_a_summary_stands_beside_and_a_new_summary_begins_anew() {
    let ask = || user("<compaction>\nSummarise.");
    let summary = |gist: &str| user(&format!("<conversation_summary>\n{gist}"));
    let base = vec![user("a"), assistant(said("b"), &[]), user("c")];
    let asked = [&base[..], &[ask()]].concat();
    let shorter = [&base[..2], &[ask()]].concat();
    let anew = vec![user("rules"), summary("one"), user("c")];
    let grown = [&anew[..], &[assistant(said("d"), &[]), user("e")]].concat();
    let again = vec![user("rules"), summary("two"), user("e")];
    let good: [&[HistoryItem]; 7] = [&base, &asked, &shorter, &anew, &grown, &again, &again];
    assert_eq!(noticed(&good).await, Vec::<String>::new());
    // Nothing extends the request for a summary; what it stands beside goes on.
    let further = [&base[..], &[assistant(said("d"), &[]), user("e")]].concat();
    assert_eq!(noticed(&[&base, &asked, &further]).await, Vec::<String>::new());
    let edited = [&anew[..], &[assistant(said("d"), &[]), user("x")]].concat();
    let changed = vec![user("a"), assistant(said("b"), &[]), user("x"), ask()];
    for (histories, expected) in [
        ([&anew[..], &grown, &edited], "message 5 differs"),
        ([&base[..], &asked, &changed], "message 3 differs"),
    ] {
        let noticed = noticed(&histories).await;
        assert!(
            noticed.iter().any(|breach| breach.contains(expected)),
            "{noticed:?}"
        );
    }
}
