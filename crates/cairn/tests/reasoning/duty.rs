//! Endpoints that refuse a request unless every answer comes back with the thinking that was streamed with it.

use cairn::config::ModelConfig;
use cairn::cursor::sessions::SessionLimits;
use tempfile::TempDir;

use crate::support::cairn_server::{CairnServer, KEY, chat_model};
use crate::support::fake_cursor::FakeCursor;
use crate::support::strict_chat::{Reply, StrictChat};

/// A model whose endpoint wants all thinking back; nothing in its name says so.
fn model(chat: &StrictChat) -> ModelConfig {
    let mut model = chat_model(&chat.base_url());
    for (key, value) in [
        ("reasoning_replay", "always"),
        ("reasoning_field", "reasoning_content"),
    ] {
        model.options.insert(key.to_owned(), value.into());
    }
    model
}

#[tokio::test]
async fn every_answer_comes_back_with_its_thinking_or_an_empty_one_also_from_the_clients_checkpoint() {
    let chat = StrictChat::start().await;
    chat.one_conversation();
    chat.requires_reasoning();
    let workspace = TempDir::new().unwrap();
    std::fs::write(workspace.path().join("a.txt"), "one\n").unwrap();
    let read = |id| (id, "Read", r#"{"path":"a.txt"}"#);
    let serve = |data: TempDir| {
        let models = vec![model(&chat)];
        async move {
            let server = CairnServer::with_models(data.path(), models, SessionLimits::default()).await;
            (server, data)
        }
    };
    let (server, data) = serve(TempDir::new().unwrap()).await;
    let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
    chat.reply(Reply::answer(
        Some(" I \u{1f914},\n\"read\". "),
        "",
        &[read("call_1")],
    ));
    // A call without a thought, then a thought without a call.
    chat.reply(Reply::answer(None, "", &[read("call_2")]));
    chat.reply(Reply::answer(Some("Easy."), "One line.", &[]));
    cursor.send("Read it.").await.success();
    server.stop().await;
    // The same data, then none: the client's checkpoint is all there is.
    for data in [data, TempDir::new().unwrap()] {
        let (server, data) = serve(data).await;
        cursor.reconnect(&server.base_url, KEY).await;
        chat.reply_text("Again.");
        cursor.send("Again?").await.success();
        server.stop().await;
        drop(data);
    }
    assert_eq!(chat.requests().len(), 5);
    cursor.assert_clean();
    chat.assert_clean();
}
