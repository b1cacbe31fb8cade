//! One turn a tool over the whole wire: what the client is asked for, what it shows, what the model reads, what stands
//! on disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

mod asked;
mod mcp;
mod progress;
mod protocol_log;
mod refused;
mod services;

#[path = "../support"]
mod support {
    pub mod cairn_server;
    pub mod fake_cursor;
    pub mod over_http;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod wire_bench;
    pub mod wire_oracle;
}

use std::collections::BTreeMap;
use std::path::Path;

use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::exec_client_message::Message as Answer;
use cairn::cursor::proto::agent::exec_server_message::Message as Exec;
use cairn::cursor::proto::agent::{self as pb, tool_call::Tool};
use cairn::demo::executor::{answered, closed};
use cairn::demo::wire_client::RunFrame;
use serde_json::{Value, json};
use support::fake_cursor::{ExecAnswer, TurnReport};
use support::wire_bench::Bench;

/// A round of one call and a closing text; returns what the client saw and the text that the model reads.
async fn round(bench: &mut Bench, name: &str, arguments: Value) -> (TurnReport, String) {
    round_in(bench, pb::AgentMode::Unspecified, name, arguments).await
}

/// [`round`] for a message that names its mode.
async fn round_in(
    bench: &mut Bench,
    mode: pb::AgentMode,
    name: &str,
    arguments: Value,
) -> (TurnReport, String) {
    let arguments = arguments.to_string();
    bench.endpoint.reply_calls([("call_1", name, arguments.as_str())]);
    bench.endpoint.reply_text("Done.");
    let message = pb::UserMessage {
        text: "Go.".to_owned(),
        mode: mode.into(),
        ..Default::default()
    };
    let report = bench.cursor.start_message(message).await.finish().await.success();
    bench.assert_clean();
    let body: Value = serde_json::from_slice(bench.bodies().last().unwrap()).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let result = messages.iter().find(|message| message["role"] == "tool").unwrap();
    assert_eq!(result["tool_call_id"], "call_1");
    (report, result["content"].as_str().unwrap().to_owned())
}

/// The one card of the turn, as it was completed; it was begun before, with the same id.
fn card(report: &TurnReport) -> Tool {
    let [call] = &report.calls[..] else {
        panic!("{:?}", report.calls)
    };
    assert!(call.started.tool.is_some());
    let completed = call.completed.clone().unwrap();
    assert_eq!(completed.tool_call_id.as_deref(), Some("call_1"));
    completed.tool.unwrap()
}

/// What the client was asked to execute, but for the request context.
fn execs(report: &TurnReport) -> Vec<Exec> {
    let asked = report.execs.iter().filter_map(|exec| exec.message.clone());
    asked
        .filter(|exec| !matches!(exec, Exec::RequestContextArgs(_)))
        .collect()
}

/// An answer with the end of its exec.
fn answer(id: u32, answer: Answer) -> ExecAnswer {
    ExecAnswer::Reply(vec![answered(id, answer), closed(id)])
}

/// What the client finds, for a search.
fn found(result: pb::grep_union_result::Result) -> Answer {
    Answer::GrepResult(pb::GrepResult {
        result: Some(pb::grep_result::Result::Success(pb::GrepSuccess {
            workspace_results: BTreeMap::from([("/w".into(), pb::GrepUnionResult { result: Some(result) })]),
            ..Default::default()
        })),
    })
}

#[tokio::test]
async fn shell() {
    let mut bench = Bench::new().await;
    let (report, text) = round(
        &mut bench,
        "Shell",
        json!({"command": "echo out > made; cat made"}),
    )
    .await;
    assert_eq!(bench.read("made"), "out\n");
    assert!(
        text.contains("Exit code: 0\n") && text.ends_with("Output:\nout\n"),
        "{text}"
    );
    let Tool::ShellToolCall(shell) = card(&report) else {
        panic!()
    };
    let Some(pb::shell_result::Result::Success(success)) = shell.result.unwrap().result else {
        panic!()
    };
    assert_eq!((success.stdout.as_str(), success.exit_code), ("out\n", 0));
    assert!(matches!(execs(&report)[..], [Exec::ShellStreamArgs(_)]));
}

#[tokio::test]
async fn await_shell_looks_again_until_the_command_has_ended() {
    let mut bench = Bench::new().await;
    let folder = bench.workspace.path().to_owned();
    let head = "---\ncwd: \"/w\"\ncommand: \"make\"\nstarted_at: 2026-11-30T03:27:30.027Z\n---\n";
    bench.file("7.txt", &format!("{head}building\n"));
    let mut looks = 0;
    bench.cursor.hooks.exec = Box::new(move |exec| match &exec.message {
        Some(Exec::RequestContextArgs(_)) => answer(exec.id, context(&folder)),
        Some(Exec::ReadArgs(_)) => {
            looks += 1;
            if looks == 2 {
                let foot = "\n---\nexit_code: 2\nelapsed_ms: 900\nended_at: 2026-11-30T03:27:31.000Z\n---\n";
                std::fs::write(folder.join("7.txt"), format!("{head}building\nfailed\n{foot}")).unwrap();
            }
            ExecAnswer::Run
        }
        _ => ExecAnswer::Run,
    });
    let (report, text) = round(&mut bench, "AwaitShell", json!({"shell_id": 7})).await;
    let file = bench.workspace.path().join("7.txt");
    assert_eq!(
        text,
        format!(
            "The command of shell 7 has ended.\nExit code: 2\nDuration: 900 ms\nOutput:\nbuilding\nfailed\n[The whole \
             output is in {}.]\n",
            file.display()
        )
    );
    assert!(matches!(
        execs(&report)[..],
        [Exec::ReadArgs(_), Exec::ReadArgs(_)]
    ));
    let Tool::AwaitToolCall(waited) = card(&report) else {
        panic!()
    };
    assert_eq!(waited.args.unwrap().task_id, "7");
}

#[tokio::test]
async fn a_cancelled_wait_ends_at_once_and_is_told_as_interrupted() {
    let mut bench = Bench::new().await;
    let folder = bench.workspace.path().to_owned();
    bench.file("7.txt", "---\ncwd: \"/w\"\n---\n");
    bench.cursor.hooks.exec = Box::new(move |exec| match &exec.message {
        Some(Exec::RequestContextArgs(_)) => answer(exec.id, context(&folder)),
        _ => ExecAnswer::Run,
    });
    let arguments = r#"{"shell_id":7,"block_until_ms":86400000}"#;
    bench.endpoint.reply_calls([("call_1", "AwaitShell", arguments)]);
    let mut turn = bench.cursor.start_turn("Wait.").await;
    let looks = |frame: &RunFrame| match frame {
        RunFrame::Message(message) => matches!(
            &message.message,
            Some(ServerMessage::ExecServerMessage(exec)) if matches!(exec.message, Some(Exec::ReadArgs(_)))
        ),
        RunFrame::End(_) => false,
    };
    turn.until("the first look", looks).await;
    turn.until("the second look", looks).await;
    turn.cancel().await;
    let report = turn.finish().await;
    assert_eq!(report.error().0, "canceled");
    bench.endpoint.reply_text("Fine.");
    bench.cursor.send("Never mind.").await.success();
    let added = bench.added();
    let result = added.iter().find(|message| message["role"] == "tool").unwrap();
    let text = result["content"].as_str().unwrap();
    assert!(text.starts_with("This call was interrupted."), "{text}");
    bench.assert_clean();
}

/// A request context that names this folder as the one for the output of commands.
fn context(terminals: &Path) -> Answer {
    told(pb::RequestContext {
        env: Some(pb::RequestContextEnv {
            terminals_folder: terminals.to_string_lossy().into_owned(),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// The answer that brings this request context.
fn told(request_context: pb::RequestContext) -> Answer {
    Answer::RequestContextResult(pb::RequestContextResult {
        result: Some(pb::request_context_result::Result::Success(
            pb::RequestContextSuccess {
                request_context: Some(request_context),
                served_from_disk_cache: None,
            },
        )),
    })
}

#[tokio::test]
async fn read() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\ntwo\nthree\n");
    let (report, text) = round(
        &mut bench,
        "Read",
        json!({"path": "a.txt", "offset": 2, "limit": 1}),
    )
    .await;
    assert_eq!(
        text,
        "     2|two\n[The file goes on after line 2; its lines number 4.]\n"
    );
    let Tool::ReadToolCall(read) = card(&report) else {
        panic!()
    };
    let Some(pb::read_tool_result::Result::Success(success)) = read.result.unwrap().result else {
        panic!()
    };
    assert_eq!(
        success.output,
        Some(pb::read_tool_success::Output::Content("two".to_owned()))
    );
    assert_eq!(
        bench.cursor.state().read_paths,
        [bench
            .workspace
            .path()
            .join("a.txt")
            .to_string_lossy()
            .into_owned()]
    );
}

#[tokio::test]
async fn a_picture_and_a_missing_file_are_told_apart() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(|exec| match &exec.message {
        Some(Exec::ReadArgs(args)) if args.path.ends_with(".png") => answer(
            exec.id,
            Answer::ReadResult(pb::ReadResult {
                result: Some(pb::read_result::Result::Success(pb::ReadSuccess {
                    path: args.path.clone(),
                    file_size: 9,
                    output: Some(pb::read_success::Output::Data(
                        vec![0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0].into(),
                    )),
                    ..Default::default()
                })),
            }),
        ),
        _ => ExecAnswer::Run,
    });
    bench.endpoint.reply_calls([
        ("call_1", "Read", r#"{"path":"a.png"}"#),
        ("call_2", "Read", r#"{"path":"lost.txt"}"#),
    ]);
    bench.endpoint.reply_text("Done.");
    let report = bench.cursor.send("Go.").await.success();
    let results: Vec<_> = report
        .calls
        .iter()
        .map(|call| match call.completed.clone().unwrap().tool.unwrap() {
            Tool::ReadToolCall(read) => match read.result.unwrap().result.unwrap() {
                pb::read_tool_result::Result::Error(error) => error.error_message,
                pb::read_tool_result::Result::Success(success) => format!("read {}", success.path),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(results, ["read a.png", "lost.txt does not exist."]);
    bench.assert_clean();
}

#[tokio::test]
async fn write() {
    let mut bench = Bench::new().await;
    let arguments = json!({"path": "deep/new.txt", "contents": "é\n"});
    let (report, text) = round(&mut bench, "Write", arguments).await;
    assert_eq!(bench.read("deep/new.txt"), "é\n");
    assert_eq!(text, "Created deep/new.txt with 1 line.");
    assert!(matches!(
        execs(&report)[..],
        [Exec::ReadArgs(_), Exec::WriteArgs(_)]
    ));
    assert!(matches!(edited(&report), pb::edit_result::Result::Success(_)));
}

#[tokio::test]
async fn str_replace() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\ntwo\n");
    let arguments = json!({"path": "a.txt", "old_string": "two", "new_string": "2"});
    let (report, text) = round(&mut bench, "StrReplace", arguments).await;
    assert_eq!(bench.read("a.txt"), "one\n2\n");
    assert_eq!(text, "Edited a.txt: 1 line added, 1 removed.");
    let pb::edit_result::Result::Success(success) = edited(&report) else {
        panic!()
    };
    assert_eq!(success.after_full_file_content, "one\n2\n");
}

#[tokio::test]
async fn edit_notebook() {
    let mut bench = Bench::new().await;
    let before = r#"{"cells":[{"cell_type":"code","source":["a\n","b"]}],"nbformat":4}"#;
    bench.file("n.ipynb", before);
    let arguments = json!({
        "path": "n.ipynb", "cell_index": 0, "is_new_cell": false, "old_string": "b", "new_string": "c",
    });
    let (report, text) = round(&mut bench, "EditNotebook", arguments).await;
    assert_eq!(bench.read("n.ipynb"), before.replace(r#""b""#, r#""c""#));
    assert_eq!(text, "Edited n.ipynb: 1 line added, 1 removed.");
    assert!(matches!(edited(&report), pb::edit_result::Result::Success(_)));
}

fn edited(report: &TurnReport) -> pb::edit_result::Result {
    let Tool::EditToolCall(edit) = card(report) else {
        panic!()
    };
    edit.result.unwrap().result.unwrap()
}

#[tokio::test]
async fn delete() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    let (report, text) = round(&mut bench, "Delete", json!({"path": "a.txt"})).await;
    assert!(!bench.workspace.path().join("a.txt").exists());
    assert_eq!(text, "Deleted a.txt.");
    let Tool::DeleteToolCall(delete) = card(&report) else {
        panic!()
    };
    assert!(matches!(
        delete.result.unwrap().result,
        Some(pb::delete_result::Result::Success(_))
    ));
}

#[tokio::test]
async fn grep_is_cut_here_since_the_client_lists_everything() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(|exec| match &exec.message {
        Some(Exec::GrepArgs(args)) => {
            assert_eq!((args.pattern.as_str(), args.head_limit), ("x", Some(1)));
            let line = |line_number, content: &str| pb::GrepContentMatch {
                line_number,
                content: content.to_owned(),
                ..Default::default()
            };
            let matches = vec![pb::GrepFileMatch {
                file: "./a.txt".to_owned(),
                matches: vec![line(1, "x1\n"), line(2, "x2\n"), line(3, "x3\n")],
            }];
            let content = pb::GrepContentResult {
                matches,
                ..Default::default()
            };
            answer(exec.id, found(pb::grep_union_result::Result::Content(content)))
        }
        _ => ExecAnswer::Run,
    });
    let arguments = json!({"pattern": "x", "head_limit": 1, "offset": 1});
    let (report, text) = round(&mut bench, "Grep", arguments).await;
    assert_eq!(
        text,
        "In /w:\na.txt\n2:x2\n[1 of 3 lines shown: use offset and head_limit for others.]\n"
    );
    assert!(matches!(card(&report), Tool::GrepToolCall(_)));
}

#[tokio::test]
async fn glob_is_a_search_for_files() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(|exec| match &exec.message {
        Some(Exec::GrepArgs(args)) => {
            assert_eq!((args.pattern.as_str(), args.glob()), ("", "*.rs"));
            let files = pb::GrepFilesResult {
                files: vec!["./b.rs".to_owned(), "src/a.rs".to_owned()],
                total_files: 2,
                ..Default::default()
            };
            answer(exec.id, found(pb::grep_union_result::Result::Files(files)))
        }
        _ => ExecAnswer::Run,
    });
    let (report, text) = round(&mut bench, "Glob", json!({"glob_pattern": "*.rs"})).await;
    assert_eq!(text, "In /w:\nb.rs\nsrc/a.rs\n");
    let Tool::GlobToolCall(glob) = card(&report) else {
        panic!()
    };
    let Some(pb::glob_tool_result::Result::Success(success)) = glob.result.unwrap().result else {
        panic!()
    };
    assert_eq!(success.files, ["b.rs", "src/a.rs"]);
}

#[tokio::test]
async fn read_lints() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.exec = Box::new(|exec| match &exec.message {
        Some(Exec::DiagnosticsArgs(args)) => {
            let problem = pb::Diagnostic {
                severity: pb::DiagnosticSeverity::Warning.into(),
                message: "unused".to_owned(),
                ..Default::default()
            };
            let success = pb::DiagnosticsSuccess {
                path: args.path.clone(),
                diagnostics: vec![problem],
                total_diagnostics: 1,
            };
            answer(
                exec.id,
                Answer::DiagnosticsResult(pb::DiagnosticsResult {
                    result: Some(pb::diagnostics_result::Result::Success(success)),
                }),
            )
        }
        _ => ExecAnswer::Run,
    });
    let (report, text) = round(&mut bench, "ReadLints", json!({"paths": ["a.rs"]})).await;
    assert_eq!(text, "a.rs: 1 problem\n  warning: unused\n");
    let Tool::ReadLintsToolCall(lints) = card(&report) else {
        panic!()
    };
    assert_eq!(lints.args.unwrap().paths, ["a.rs"]);
}

#[tokio::test]
async fn todo_write_asks_the_client_for_nothing() {
    let mut bench = Bench::new().await;
    let todos = json!([{"id": "a", "content": "First", "status": "in_progress"}]);
    let (report, text) = round(&mut bench, "TodoWrite", json!({"todos": todos, "merge": false})).await;
    assert_eq!(text, "The to-do list is now:\n- [in_progress] a: First");
    assert_eq!(execs(&report), []);
    assert!(matches!(card(&report), Tool::UpdateTodosToolCall(_)));
    assert_eq!(bench.cursor.state().todos.len(), 1);
}

#[tokio::test]
async fn a_notebook_is_read_cell_by_cell_and_with_a_range_line_by_line() {
    let mut bench = Bench::new().await;
    bench.file(
        "n.ipynb",
        r#"{"cells":[{"cell_type":"code","source":["a\n","b"]}],"nbformat":4}"#,
    );
    bench.endpoint.reply_calls([
        ("call_1", "Read", r#"{"path":"n.ipynb"}"#),
        ("call_2", "Read", r#"{"path":"n.ipynb","offset":1}"#),
    ]);
    bench.endpoint.reply_text("Done.");
    bench.cursor.send("Go.").await.success();
    let mut results: Vec<_> = bench
        .added()
        .into_iter()
        .filter(|message| message["role"] == "tool")
        .collect();
    results.sort_by_key(|message| message["tool_call_id"].to_string());
    assert_eq!(
        results[0]["content"],
        "n.ipynb is a notebook with 1 cell. Its own lines come with offset and limit.\n[cell 0, code]\na\nb\n"
    );
    assert_eq!(
        results[1]["content"],
        "     1|{\"cells\":[{\"cell_type\":\"code\",\"source\":[\"a\\n\",\"b\"]}],\"nbformat\":4}\n"
    );
    bench.assert_clean();
}
