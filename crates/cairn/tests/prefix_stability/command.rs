//! `cairn prefix` beside a server that has the database open.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::support::cairn_server::{CairnServer, KEY};
use super::support::fake_cursor::FakeCursor;
use super::support::strict_chat::{Reply, StrictChat};

fn prefix(arguments: &[&str], data_dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cairn"))
        .arg("prefix")
        .args(arguments)
        .arg("--data-dir")
        .arg(data_dir)
        .env_clear()
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A text answer with this usage.
fn answer(text: &str, usage: &Value) -> Reply {
    let chunk =
        |choices: Value, usage: Value| format!("data: {}\n\n", json!({ "choices": choices, "usage": usage }));
    let said = chunk(json!([{ "index": 0, "delta": { "content": text } }]), Value::Null);
    let end = chunk(
        json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]),
        Value::Null,
    );
    let usage = chunk(json!([]), usage.clone());
    Reply::raw(format!("{said}{end}{usage}data: [DONE]\n\n"))
}

#[tokio::test]
async fn the_command_shows_each_call_beside_the_running_server() {
    let chat = StrictChat::start().await;
    chat.one_conversation();
    let (data, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = CairnServer::start(data.path(), &chat.base_url()).await;
    let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
    chat.reply(answer(
        "one",
        &json!({ "prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": { "cached_tokens": 64 } }),
    ));
    chat.reply(answer(
        "two",
        &json!({ "prompt_tokens": 120, "completion_tokens": 1 }),
    ));
    cursor.send("First.").await.success();
    cursor.send("Second.").await.success();

    let shown = prefix(&["agent-1", "--json"], data.path());
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let report: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(report["conversation"], "agent-1");
    let calls = report["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!(
        calls[0],
        json!({
            "run": "cursor:agent-1-request-1", "index": 0, "model": "test",
            "items": calls[0]["items"], "bytes": calls[0]["bytes"], "shared_items": 0, "shared_bytes": 0,
            "beside": false, "reset": null, "broken": null, "answered": true,
            "cached_tokens": 64, "input_tokens": 100,
        })
    );
    // The answer and the next message are new; all of the first request is in the second.
    let items = calls[0]["items"].as_u64().unwrap();
    assert_eq!(calls[1]["items"], items + 2);
    assert_eq!(
        (&calls[1]["shared_items"], &calls[1]["shared_bytes"]),
        (&calls[0]["items"], &calls[0]["bytes"])
    );
    assert_eq!(
        (&calls[1]["cached_tokens"], &calls[1]["input_tokens"]),
        (&Value::Null, &json!(120))
    );

    let shown = prefix(&["agent-1"], data.path());
    let table: Vec<Vec<&str>> = text(&shown.stdout)
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let number = |value: &Value| value.to_string();
    let (items, bytes) = (number(&calls[0]["items"]), number(&calls[0]["bytes"]));
    let (later_items, later_bytes) = (number(&calls[1]["items"]), number(&calls[1]["bytes"]));
    assert_eq!(
        table[0],
        ["call", "model", "items", "bytes", "shared", "cached", "input"]
    );
    assert_eq!(table[1], ["1", "test", &items, &bytes, "0", "64", "100"]);
    assert_eq!(
        table[2],
        ["2", "test", &later_items, &later_bytes, &bytes, "-", "120"]
    );
    assert_eq!(table.len(), 4);

    cursor.assert_clean();
    chat.assert_clean();
    server.stop().await;
}

#[test]
fn what_is_not_there_is_said_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("nowhere");
    let shown = prefix(&["agent-1"], &absent);
    assert!(!shown.status.success());
    let said = text(&shown.stderr);
    assert!(
        said.contains("there is no database at") && said.contains("--data-dir"),
        "{said}"
    );
    assert!(!absent.exists());
}

#[tokio::test]
async fn an_unknown_conversation_is_named() {
    let chat = StrictChat::start().await;
    let data = tempfile::tempdir().unwrap();
    let server = CairnServer::start(data.path(), &chat.base_url()).await;
    let shown = prefix(&["agent-2"], data.path());
    assert!(!shown.status.success());
    let said = text(&shown.stderr);
    assert!(said.contains("conversation agent-2 is unknown"), "{said}");
    server.stop().await;
}
