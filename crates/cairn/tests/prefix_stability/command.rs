//! `cairn prefix` beside a server that has the database open.

use std::path::Path;
use std::process::{Command, Output};

use cairn::cursor::proto::agent::{AgentMode, UserMessage};
use cairn::model::RunId;
use cairn::store::Store;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::program::{Program, log_of};
use super::support::cairn_server::{CairnServer, KEY, MODEL};
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
    assert_eq!(text(&shown.stdout), "");
    assert_eq!(
        text(&shown.stderr),
        format!(
            "cairn: there is no database at {}; name the data folder that `cairn serve` uses, by --data-dir or by its \
             --config\n",
            absent.join("cairn.db").display()
        )
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
    assert_eq!(text(&shown.stdout), "");
    assert_eq!(
        text(&shown.stderr),
        format!(
            "cairn: conversation agent-2 is unknown in {}; its id is the agent's id, which the client calls agentId\n",
            data.path().join("cairn.db").display()
        )
    );
    server.stop().await;
}

/// Changes what the database remembers of the last message of the conversation's latest request.
async fn forge_latest_message(database: &Path) {
    let mut connection = SqliteConnectOptions::new()
        .filename(database)
        .connect()
        .await
        .unwrap();
    let (key, mut added): (i64, Vec<u8>) =
        sqlx::query_as("SELECT key, added FROM model_calls ORDER BY key DESC LIMIT 1")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    *added.last_mut().unwrap() ^= 1;
    sqlx::query("UPDATE model_calls SET added = ? WHERE key = ?")
        .bind(added)
        .bind(key)
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// The table's cells, line by line.
fn cells(table: &str) -> Vec<Vec<&str>> {
    let cells = |line| str::split(line, "  ").map(str::trim);
    table
        .lines()
        .map(|line| cells(line).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

#[tokio::test]
async fn a_declared_reset_and_a_break_are_shown_and_the_break_is_logged_and_counted() {
    let chat = StrictChat::start().await;
    chat.one_conversation();
    let (folder, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = folder.path().join("data");
    let mut program = Program::start(folder.path(), &chat.base_url());
    let mut cursor = FakeCursor::new(&program.address, KEY, "agent-1", workspace.path()).await;
    let turn = async |cursor: &mut FakeCursor, said: &str, mode: AgentMode, cached: u64| {
        let details = json!({ "cached_tokens": cached });
        chat.reply(answer(
            "Aye, albatross.",
            &json!({ "prompt_tokens": 900, "completion_tokens": 1, "prompt_tokens_details": details }),
        ));
        let message = UserMessage {
            text: said.to_owned(),
            mode: mode.into(),
            ..UserMessage::default()
        };
        cursor.start_message(message).await.finish().await.success();
    };
    turn(&mut cursor, "One albatross.", AgentMode::Agent, 0).await;
    chat.allow_reset();
    turn(&mut cursor, "Two albatrosses.", AgentMode::Plan, 17).await;
    drop(program);
    forge_latest_message(&data.join("cairn.db")).await;
    program = Program::start(folder.path(), &chat.base_url());
    cursor.reconnect(&program.address, KEY).await;
    turn(&mut cursor, "Three albatrosses.", AgentMode::Plan, 800).await;
    drop(program);

    let shown = prefix(&["agent-1", "--json"], &data);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let report: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let calls = report["calls"].as_array().unwrap();
    let (items, messages): (Vec<u64>, Vec<usize>) = calls
        .iter()
        .zip(chat.requests())
        .map(|(call, request)| {
            let messages = request.json["messages"].as_array().unwrap().len();
            (call["items"].as_u64().unwrap(), messages)
        })
        .unzip();
    assert_eq!(items.len(), 3);
    // The last message of the second request; the instructions are no message.
    let (item, number) = (items[1] - 1, messages[1] - 2);
    let seen: Vec<[&Value; 2]> = calls
        .iter()
        .map(|call| [&call["reset"], &call["broken"]])
        .collect();
    assert_eq!(
        seen,
        [
            [&Value::Null, &Value::Null],
            [
                &json!({ "name": "mode-switch", "reason": "the mode was switched" }),
                &Value::Null
            ],
            [
                &Value::Null,
                &json!({ "item": item, "kind": "message", "number": number })
            ],
        ]
    );
    assert_eq!(calls[2]["shared_items"], item);

    let shown = prefix(&["agent-1"], &data);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let broken = format!("BROKEN at item {item} (message {number}), and nothing declared it");
    let number_of = |call: usize, name: &str| calls[call][name].to_string();
    let row = |call: usize, cached: &str, remark: &str| {
        let numbers = ["items", "bytes", "shared_bytes"].map(|name| number_of(call, name));
        let mut row = vec![(call + 1).to_string(), MODEL.to_owned()];
        row.extend(numbers);
        row.extend([cached, "900", remark].map(str::to_owned));
        row.retain(|cell| !cell.is_empty());
        row
    };
    assert_eq!(
        cells(text(&shown.stdout)),
        [
            ["call", "model", "items", "bytes", "shared", "cached", "input"]
                .map(str::to_owned)
                .to_vec(),
            row(0, "0", ""),
            row(1, "17", "mode-switch: the mode was switched"),
            row(2, "800", &broken),
            vec!["1 of 3 requests broke their prefix: a defect of cairn".to_owned()],
        ]
    );

    let log = std::fs::read_to_string(log_of(folder.path())).unwrap();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains(" ERROR ")).collect();
    let [error] = errors[..] else { panic!("{errors:?}") };
    let (_, said) = error.split_once("cairn::run::proof: ").unwrap();
    assert_eq!(
        said,
        format!(
            "a request does not extend its predecessor, and no declared reset explains it run=cursor:agent-1-request-3 \
             conversation=agent-1 provider_call_index=0 item={item} kind=\"message\" number={number}"
        )
    );
    assert!(!log.to_lowercase().contains("albatross"));

    let store = Store::open(&data.join("cairn.db")).await.unwrap();
    let mut breaks = Vec::new();
    for request in 1..=3 {
        let run = RunId::new(format!("cursor:agent-1-request-{request}"));
        breaks.push(store.run_record(&run).await.unwrap().unwrap().prefix_breaks);
    }
    assert_eq!(breaks, [0, 0, 1]);
    store.close().await.unwrap();
    cursor.assert_clean();
    chat.assert_clean();
}

/// Both requests were sent, so both are on record: the second one repeats the first.
#[tokio::test]
async fn a_request_that_was_refused_for_its_counting_is_on_record_and_warned_of_once() {
    let chat = StrictChat::start().await;
    let (folder, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = Program::start(folder.path(), &chat.base_url());
    let mut cursor = FakeCursor::new(&program.address, KEY, "agent-1", workspace.path()).await;
    let refused = r#"{"error":{"message":"Unknown parameter: stream_options"}}"#;
    chat.reply_status(400, &[], refused);
    for said in ["One.", "Two."] {
        chat.reply_text(said);
        cursor.send("Go on.").await.success();
    }
    drop(program);
    let shown = prefix(&["agent-1", "--json"], &folder.path().join("data"));
    let report: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let calls = report["calls"].as_array().unwrap();
    let seen: Vec<[&Value; 4]> = calls
        .iter()
        .map(|call| ["index", "answered", "reset", "broken"].map(|name| &call[name]))
        .collect();
    let (zero, nothing) = (&json!(0), &Value::Null);
    assert_eq!(
        seen,
        [
            [zero, &json!(false), nothing, nothing],
            [zero, &json!(true), nothing, nothing],
            [zero, &json!(true), nothing, nothing],
        ]
    );
    assert_eq!(calls[1]["items"], calls[0]["items"]);
    for pair in calls.windows(2) {
        assert_eq!(pair[1]["shared_items"], pair[0]["items"]);
    }
    let log = std::fs::read_to_string(log_of(folder.path())).unwrap();
    let warnings: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(" WARN ") && line.contains("stream_options"))
        .collect();
    let [warning] = warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(
        warning.contains(
            "the endpoint refuses stream_options, so it is asked without and may count no tokens; set include_usage = false \
             in this model's options to spare the refused request model=\"test\""
        ),
        "{warning}"
    );
    cursor.assert_clean();
}
