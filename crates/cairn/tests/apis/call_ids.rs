//! Ids of calls that an endpoint repeats, leaves out, or writes as no API takes them: told apart once, and the same ever after.

use std::collections::BTreeSet;

use cairn::config::{Api, ModelConfig};
use cairn::cursor::sessions::SessionLimits;
use cairn::provider::ModelEvent;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::cairn_server::{CairnServer, KEY, chat_model};
use crate::support::fake_cursor::FakeCursor;
use crate::support::fake_provider::{calls, text};
use crate::support::over_http::{Endpoint, Over};
use crate::support::strict_chat::RecordedRequest;

const READ: &str = r#"{"path":"a.txt"}"#;

/// What later requests say, in order: of each answer its calls, and of each result whose it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Ids {
    calls: Vec<String>,
    results: Vec<String>,
}

impl Ids {
    fn of(request: &RecordedRequest) -> Self {
        let mut ids = Self::default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for item in list(&request.json["input"]) {
            match item["type"].as_str() {
                Some("function_call") => ids.calls.push(text(&item["call_id"])),
                Some("function_call_output") => ids.results.push(text(&item["call_id"])),
                _ => {}
            }
        }
        for message in list(&request.json["messages"]) {
            for call in list(&message["tool_calls"]) {
                ids.calls.push(text(&call["id"]));
            }
            if message["role"] == "tool" {
                ids.results.push(text(&message["tool_call_id"]));
            }
            for block in list(&message["content"]) {
                match block["type"].as_str() {
                    Some("tool_use") => ids.calls.push(text(&block["id"])),
                    Some("tool_result") => ids.results.push(text(&block["tool_use_id"])),
                    _ => {}
                }
            }
        }
        ids
    }
}

/// Starts a server whose model is behind this endpoint, in an empty data folder.
async fn server(api: Api, endpoint: &Endpoint) -> (CairnServer, TempDir) {
    let data = TempDir::new().unwrap();
    let model = ModelConfig {
        api,
        max_output_tokens: Some(4096),
        ..chat_model(&endpoint.base_url())
    };
    let server = CairnServer::with_models(data.path(), vec![model], SessionLimits::default()).await;
    (server, data)
}

pub async fn each_call_has_an_id_of_its_own_that_outlives_a_lost_database(over: Over) {
    let Over::Http(api) = over else {
        panic!("this is about APIs")
    };
    let endpoint = Endpoint::start(api).await;
    let long = "x".repeat(200);
    // Each answer's ids, and whether the endpoint leaves them out.
    let rounds: [&[&str]; 6] = [
        &["functions.Read:0"],
        &["functions.Read:0"],
        &["functions.Read:0"],
        &["functions.Read:0", "functions.Read:0"],
        &["", ""],
        &[&long, "a|b", &long],
    ];
    for ids in rounds {
        let asked: Vec<_> = ids.iter().map(|id| (*id, "Read", READ)).collect();
        let mut events = calls("", &asked);
        for event in &mut events {
            if let ModelEvent::ToolCallStart { id, .. } = event {
                *id = id.take().filter(|id| !id.is_empty());
            }
        }
        endpoint.reply(endpoint.answer(&events.into_iter().map(Ok).collect::<Vec<_>>()));
    }
    let say = |words| endpoint.answer(&text(words).into_iter().map(Ok).collect::<Vec<_>>());
    endpoint.reply(say("All read."));
    let workspace = TempDir::new().unwrap();
    std::fs::write(workspace.path().join("a.txt"), "one\n").unwrap();
    let (first, _data) = server(api, &endpoint).await;
    let mut cursor = FakeCursor::new(&first.base_url, KEY, "agent-1", workspace.path()).await;
    let report = cursor.send("Read it again and again.").await.success();
    let shown: BTreeSet<_> = report.calls.iter().map(|call| call.id.clone()).collect();
    assert_eq!((report.calls.len(), shown.len()), (10, 10), "{shown:?}");

    let before = Ids::of(endpoint.requests().last().unwrap());
    let distinct: BTreeSet<_> = before.calls.iter().collect();
    assert_eq!((before.calls.len(), distinct.len()), (10, 10), "{before:?}");
    let results: BTreeSet<_> = before.results.iter().collect();
    assert_eq!((before.results.len(), &results), (10, &distinct), "{before:?}");
    let longest = before.calls.iter().map(String::len).max();
    assert!(longest <= Some(64), "{before:?}");
    let as_given = |id: &&str| before.calls.iter().any(|known| known == id);
    let kept: Vec<_> = ["functions.Read:0", "a|b"].into_iter().filter(as_given).collect();
    match api {
        Api::Anthropic => assert!(kept.is_empty(), "the API takes neither: {kept:?}"),
        Api::OpenAiChat | Api::OpenAiResponses => assert_eq!(kept, ["functions.Read:0", "a|b"]),
        Api::Scripted => unreachable!(),
    }

    // What the client holds is all that is left.
    first.stop().await;
    let (second, _data) = server(api, &endpoint).await;
    cursor.reconnect(&second.base_url, KEY).await;
    endpoint.reply(say("Still so."));
    cursor.send("And now?").await.success();
    assert_eq!(Ids::of(endpoint.requests().last().unwrap()), before);
    cursor.assert_clean();
    endpoint.assert_clean();
    second.stop().await;
}
