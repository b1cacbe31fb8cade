//! Edits through the tool runtime, against a client that reads and writes files as the official one does: it reads on
//! LF without a byte order mark, searches the bytes, keeps a file's mark, and writes CRLF for each LF where the file
//! has any CRLF.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test may fail"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cairn::cursor::proto::agent::{
    self as pb, agent_server_message::Message, edit_result, exec_client_message as answer,
    exec_server_message as exec, grep_result, grep_union_result, interaction_update as update, read_result,
    read_success, tool_call::Tool, tool_call_delta, write_result,
};
use cairn::cursor::request::Mode;
use cairn::cursor::tools::{Effect, SubagentScope, ToolRuntime, ToolRuntimeConfig};
use cairn::model::{CallId, ModelSpec, ToolCall, ToolResult};
use proptest::prelude::*;

const MARK: &[u8] = b"\xef\xbb\xbf";

fn runtime() -> ToolRuntime {
    ToolRuntime::new(ToolRuntimeConfig {
        result_limit: 100_000,
        conversation_id: "conversation".into(),
        offered: BTreeSet::from(["Write".into(), "StrReplace".into(), "EditNotebook".into()]),
        mcp: BTreeMap::new(),
        todos: Vec::new(),
        mode: Mode::Agent,
        working_directory: None,
        terminals_folder: None,
        subagents: SubagentScope {
            root: "conversation".into(),
            parent_model: Arc::new(ModelSpec {
                model_id: "main".into(),
                display_name: None,
                reasoning: Default::default(),
                latency: Default::default(),
                max_output_tokens: None,
                context_window: None,
                vision: false,
                entry: Default::default(),
            }),
            models: Arc::default(),
            defined: BTreeMap::new(),
            children: Vec::new(),
            at_work: BTreeSet::new(),
            readonly: false,
            cloud: false,
        },
    })
}

/// The client's disk, and what it was asked for.
#[derive(Default)]
struct Disk {
    files: BTreeMap<String, Vec<u8>>,
    asked: Vec<&'static str>,
}

impl Disk {
    fn with(path: &str, bytes: &[u8]) -> Self {
        Self {
            files: BTreeMap::from([(path.to_owned(), bytes.to_vec())]),
            asked: Vec::new(),
        }
    }

    fn execute(&mut self, message: exec::Message) -> answer::Message {
        match message {
            exec::Message::ReadArgs(args) => {
                self.asked.push("read");
                answer::Message::ReadResult(pb::ReadResult {
                    result: Some(self.read(&args.path)),
                })
            }
            exec::Message::GrepArgs(args) => {
                assert_eq!(args.pattern, "\\r$");
                self.asked.push(if args.output_mode() == "count" {
                    "count"
                } else {
                    "lines"
                });
                answer::Message::GrepResult(self.search(args.path(), args.output_mode()))
            }
            exec::Message::WriteArgs(args) => {
                self.asked.push(if args.file_bytes.is_empty() {
                    "write text"
                } else {
                    "write bytes"
                });
                self.write(&args);
                answer::Message::WriteResult(pb::WriteResult {
                    result: Some(write_result::Result::Success(pb::WriteSuccess {
                        path: args.path,
                        ..Default::default()
                    })),
                })
            }
            other => panic!("{other:?}"),
        }
    }

    fn read(&self, path: &str) -> read_result::Result {
        let Some(bytes) = self.files.get(path) else {
            return read_result::Result::FileNotFound(pb::ReadFileNotFound { path: path.into() });
        };
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(),
            // The client takes what is no UTF-8 for Latin-1.
            Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
        }
        .replace("\r\n", "\n");
        read_result::Result::Success(pb::ReadSuccess {
            path: path.into(),
            total_lines: i32::try_from(text.matches('\n').count()).unwrap() + 1,
            file_size: i64::try_from(bytes.len()).unwrap(),
            output: Some(read_success::Output::Content(text)),
            ..Default::default()
        })
    }

    fn search(&self, path: &str, output_mode: &str) -> pb::GrepResult {
        let bytes = &self.files[path];
        let numbers: Vec<i32> = (1..)
            .zip(bytes.split(|byte| *byte == b'\n'))
            .filter(|(_, line)| line.ends_with(b"\r"))
            .map(|(number, _)| number)
            .collect();
        let count = i32::try_from(numbers.len()).unwrap();
        let found = match output_mode {
            "count" => grep_union_result::Result::Count(pb::GrepCountResult {
                total_matches: count,
                total_files: 1,
                ..Default::default()
            }),
            _ => grep_union_result::Result::Content(pb::GrepContentResult {
                matches: vec![pb::GrepFileMatch {
                    file: path.into(),
                    matches: numbers
                        .into_iter()
                        .map(|line_number| pb::GrepContentMatch {
                            line_number,
                            ..Default::default()
                        })
                        .collect(),
                }],
                ..Default::default()
            }),
        };
        pb::GrepResult {
            result: Some(grep_result::Result::Success(pb::GrepSuccess {
                workspace_results: BTreeMap::from([(
                    "/w".into(),
                    pb::GrepUnionResult { result: Some(found) },
                )]),
                ..Default::default()
            })),
        }
    }

    fn write(&mut self, args: &pb::WriteArgs) {
        let old = self.files.get(&args.path).cloned().unwrap_or_default();
        let new = match args.file_bytes.is_empty() {
            false => args.file_bytes.to_vec(),
            true => {
                let text = match old.windows(2).any(|pair| pair == b"\r\n") {
                    true => args.file_text.replace('\n', "\r\n"),
                    false => args.file_text.clone(),
                };
                let mark = if old.starts_with(MARK) { MARK } else { b"" };
                [mark, text.as_bytes()].concat()
            }
        };
        self.files.insert(args.path.clone(), new);
    }
}

/// Executes calls of one round until nothing is left to do.
fn run(tools: &mut ToolRuntime, disk: &mut Disk, calls: &[ToolCall]) -> Vec<ToolResult> {
    let mut todo: VecDeque<Effect> = calls
        .iter()
        .flat_map(|call| tools.execute(call, 0).unwrap())
        .collect();
    let mut results = Vec::new();
    while let Some(effect) = todo.pop_front() {
        match effect {
            Effect::Complete(result) => results.push(result),
            Effect::Send(Message::ExecServerMessage(message)) => {
                let answer = disk.execute(message.message.unwrap());
                let answer = pb::ExecClientMessage {
                    id: message.id,
                    message: Some(answer),
                    ..Default::default()
                };
                todo.extend(tools.exec_message(answer, 1).unwrap());
            }
            Effect::Send(_) => {}
            Effect::Serve { .. } => panic!("an edit asks no service"),
            Effect::Wake { .. } => panic!("an edit pauses for nothing"),
            Effect::Delegated(_) => panic!("an edit starts nobody"),
        }
    }
    results
}

fn write(id: &str, contents: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        name: "Write".into(),
        arguments: serde_json::json!({"path": "f", "contents": contents})
            .to_string()
            .into(),
    }
}

fn replace(id: &str, old: &str, new: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        name: "StrReplace".into(),
        arguments: serde_json::json!({"path": "f", "old_string": old, "new_string": new})
            .to_string()
            .into(),
    }
}

/// What one call makes of a file: its bytes afterwards, the result, and what the client was asked for.
fn edit(before: &[u8], call: ToolCall) -> (Vec<u8>, ToolResult, Vec<&'static str>) {
    let mut disk = Disk::with("f", before);
    let results = run(&mut runtime(), &mut disk, &[call]);
    assert_eq!(results.len(), 1);
    (disk.files["f"].clone(), results[0].clone(), disk.asked)
}

#[test]
fn a_replacement_keeps_every_other_byte() {
    let marked = |text: &[u8]| [MARK, text].concat();
    for (before, after, asked) in [
        (
            b"a\nb\nc\n".to_vec(),
            b"a\nB\nx\nc\n".to_vec(),
            vec!["read", "write text"],
        ),
        (
            b"a\r\nb\r\nc".to_vec(),
            b"a\r\nB\r\nx\r\nc".to_vec(),
            vec!["read", "count", "write text"],
        ),
        (
            b"a\rb\rc".to_vec(),
            b"a\rB\rx\rc".to_vec(),
            vec!["read", "write text"],
        ),
        (
            b"a\rb\rc\r".to_vec(),
            b"a\rB\rx\rc\r".to_vec(),
            vec!["read", "write text"],
        ),
        (
            marked(b"a\nb\nc\n"),
            marked(b"a\nB\nx\nc\n"),
            vec!["read", "count", "write text"],
        ),
        (
            marked(b"a\r\nb\r\nc\r\n"),
            marked(b"a\r\nB\r\nx\r\nc\r\n"),
            vec!["read", "count", "write text"],
        ),
        (
            b"a\r\nb\nc\r\n".to_vec(),
            b"a\r\nB\nx\nc\r\n".to_vec(),
            vec!["read", "count", "lines", "write bytes"],
        ),
        (
            marked(b"a\nb\r\nc\n"),
            marked(b"a\nB\r\nx\r\nc\n"),
            vec!["read", "count", "lines", "write bytes"],
        ),
        (
            b"a\rb\r\nc\n".to_vec(),
            b"a\rB\r\nx\r\nc\n".to_vec(),
            vec!["read", "count", "lines", "write bytes"],
        ),
        (
            b"a\r\nb\r\nc\r".to_vec(),
            b"a\r\nB\r\nx\r\nc\r".to_vec(),
            vec!["read", "count", "write text"],
        ),
        (
            "é\r\nb\r\n".into(),
            "é\r\nB\r\nx\r\n".into(),
            vec!["read", "count", "write text"],
        ),
        (
            "é\nb\n".into(),
            "é\nB\nx\n".into(),
            vec!["read", "count", "write text"],
        ),
    ] {
        let (bytes, result, stages) = edit(&before, replace("1", "b", "B\nx"));
        assert_eq!(bytes, after, "{}", before.escape_ascii());
        assert_eq!(&*result.content.text(), "Edited f: 2 lines added, 1 removed.");
        assert_eq!(stages, asked, "{}", before.escape_ascii());
    }
}

fn notebook(change: serde_json::Value) -> ToolCall {
    ToolCall {
        id: CallId::new("n"),
        name: "EditNotebook".into(),
        arguments: change.to_string().into(),
    }
}

/// A notebook with CRLF, a mark, a number and an escape that a new serialisation would change.
const NOTEBOOK: &str = "\u{feff}{\r\n \"cells\": [\r\n  {\r\n   \"cell_type\": \"markdown\",\r\n   \"metadata\": {\"x\": 1.0},\r\n   \
    \"source\": [\r\n    \"caf\\u00e9\\n\",\r\n    \"tea\"\r\n   ]\r\n  }\r\n ],\r\n \"nbformat\": 4,\r\n \"nbformat_minor\": 2\r\n}\r\n";

#[test]
fn a_cell_of_a_notebook_changes_and_every_other_byte_stays() {
    let (after, result, _) = edit(
        NOTEBOOK.as_bytes(),
        notebook(serde_json::json!({
            "path": "f", "cell_index": 0, "is_new_cell": false, "old_string": "tea", "new_string": "tea\nmilk",
        })),
    );
    let expected = NOTEBOOK.replace("\"tea\"\r\n", "\"tea\\n\",\r\n    \"milk\"\r\n");
    assert_eq!(String::from_utf8(after).unwrap(), expected);
    assert_eq!(&*result.content.text(), "Edited f: 2 lines added, 1 removed.");

    let (after, result, _) = edit(
        NOTEBOOK.as_bytes(),
        notebook(serde_json::json!({
            "path": "f", "cell_index": 1, "is_new_cell": true, "cell_type": "raw", "old_string": "", "new_string": "x",
        })),
    );
    let expected = NOTEBOOK.replace(
        "  }\r\n ],",
        "  },\r\n  {\r\n   \"cell_type\": \"raw\",\r\n   \"metadata\": {},\r\n   \"source\": [\r\n    \"x\"\r\n   ]\r\n  }\r\n ],",
    );
    assert_eq!(String::from_utf8(after).unwrap(), expected);
    assert!(!result.is_error, "{}", result.content.text());
}

#[test]
fn an_edit_of_a_cell_that_does_not_fit_is_refused_with_the_mend() {
    let refused = |before: &str, change: serde_json::Value| {
        let (after, result, _) = edit(before.as_bytes(), notebook(change));
        assert_eq!(String::from_utf8(after).unwrap(), before);
        assert!(result.is_error);
        result.content.text().into_owned()
    };
    let change = |index: i32, old: &str| {
        serde_json::json!({
            "path": "f", "cell_index": index, "is_new_cell": false, "old_string": old, "new_string": "x",
        })
    };
    assert_eq!(
        &*refused(NOTEBOOK, change(1, "tea")),
        "f was not edited: it has 1 cell, counted from 0, and `cell_index` does not fit them."
    );
    assert_eq!(
        &*refused(NOTEBOOK, change(0, "")),
        "`old_string` is empty, but cell 0 of f is not: name the passage to replace, or set `is_new_cell` to true."
    );
    assert_eq!(
        &*refused(NOTEBOOK, change(0, "a")),
        "`old_string` occurs 2 times in cell 0 of f. Add lines around it until it is unique."
    );
    assert!(refused("a = 1\n", change(0, "a")).starts_with("f was not edited: it is no notebook"));
    assert_eq!(
        &*refused(
            NOTEBOOK,
            serde_json::json!({
                "path": "f", "cell_index": 0, "is_new_cell": true, "old_string": "a", "new_string": "x",
            })
        ),
        "EditNotebook was not executed, its arguments do not fit: `old_string` must be empty for a new cell; \
         `cell_type` is needed for a new cell. The arguments are: path, cell_index, is_new_cell, cell_type, \
         old_string, new_string."
    );
}

#[test]
fn a_whole_text_keeps_the_line_ends_of_the_file() {
    let (bytes, _, _) = edit(b"a\r\nb\r\n", write("1", "a\nB\nc\n"));
    assert_eq!(bytes, b"a\r\nB\r\nc\r\n");
    let (bytes, _, _) = edit(b"a\r\nb\nc\n", write("1", "a\nb\nC\n"));
    assert_eq!(bytes, b"a\r\nb\nC\n");
    let (bytes, _, _) = edit(b"", write("1", "a\r\nb\r\n"));
    assert_eq!(bytes, b"a\r\nb\r\n");
}

#[test]
fn write_creates_what_is_missing_as_it_is_written() {
    let mut disk = Disk::default();
    let results = run(&mut runtime(), &mut disk, &[write("1", "a\r\nb")]);
    assert_eq!(disk.files["f"], b"a\r\nb");
    assert_eq!(&*results[0].content.text(), "Created f with 2 lines.");
}

#[test]
fn a_file_that_is_not_utf8_is_refused_untouched() {
    for before in [
        b"caf\xe9\n".as_slice(),
        b"caf\xe9\r\n",
        b"\xff\xfea\0\n\0",
        b"a\xf0\x9f\x98b\r\n",
    ] {
        for call in [replace("1", "a", "b"), write("1", "x")] {
            let (bytes, result, asked) = edit(before, call);
            assert_eq!(bytes, before);
            assert!(result.is_error);
            assert!(
                result.content.text().contains("not the UTF-8 text that was read"),
                "{}",
                result.content.text()
            );
            assert!(!asked.iter().any(|asked| asked.starts_with("write")), "{asked:?}");
        }
    }
}

#[test]
fn a_passage_that_does_not_fit_is_refused_with_the_mend() {
    for (old, new, text) in [
        (
            "x",
            "y",
            "`old_string` does not occur in f. Read the file and copy the passage exactly, without line numbers.",
        ),
        (
            "a",
            "y",
            "`old_string` occurs 2 times in f. Add lines around it until it is unique, or set `replace_all` to true.",
        ),
        (
            "b",
            "b",
            "`old_string` and `new_string` are the same; f was not changed.",
        ),
    ] {
        let (bytes, result, asked) = edit(b"a\nb\na\n", replace("1", old, new));
        assert_eq!((&*result.content.text(), result.is_error), (text, true));
        assert_eq!(bytes, b"a\nb\na\n");
        assert_eq!(asked, ["read"]);
    }
    let mut disk = Disk::default();
    let results = run(&mut runtime(), &mut disk, &[replace("1", "a", "b")]);
    assert_eq!(
        &*results[0].content.text(),
        "f does not exist. Use Write to create it."
    );
}

#[test]
fn a_part_of_a_file_is_never_written_back() {
    let mut tools = runtime();
    tools.execute(&replace("1", "a", "b"), 0).unwrap();
    let part = pb::ExecClientMessage {
        id: 1,
        message: Some(answer::Message::ReadResult(pb::ReadResult {
            result: Some(read_result::Result::Success(pb::ReadSuccess {
                truncated: true,
                file_size: 1,
                output: Some(read_success::Output::Content("a".into())),
                ..Default::default()
            })),
        })),
        ..Default::default()
    };
    let effects = tools.exec_message(part, 1).unwrap();
    let [Effect::Complete(result)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(result.is_error && result.content.text().contains("only a part"));
}

#[test]
fn edits_of_one_round_follow_each_other() {
    let mut disk = Disk::with("f", b"a\nb\n");
    let calls = [
        replace("1", "a", "A"),
        replace("2", "b", "B"),
        replace("3", "A\nB", "C"),
    ];
    let results = run(&mut runtime(), &mut disk, &calls);
    assert_eq!(disk.files["f"], b"C\n");
    assert!(results.iter().all(|result| !result.is_error));
    assert_eq!(
        disk.asked,
        ["read", "write text", "read", "write text", "read", "write text"]
    );
}

#[test]
fn the_card_shows_lf_text_and_a_unified_diff() {
    let mut tools = runtime();
    let mut disk = Disk::with("f", b"a\r\nb\r\n");
    run(&mut tools, &mut disk, &[replace("1", "b", "B\r\nc")]);
    let (_, tool_call) = tools.committed(&CallId::new("1")).unwrap().shown.unwrap();
    assert_eq!(
        tool_call.tool,
        Some(Tool::EditToolCall(pb::EditToolCall {
            args: Some(pb::EditArgs {
                path: "f".into(),
                stream_content: Some("B\nc".into()),
            }),
            result: Some(pb::EditResult {
                result: Some(edit_result::Result::Success(pb::EditSuccess {
                    path: "f".into(),
                    lines_added: Some(2),
                    lines_removed: Some(1),
                    diff_string: Some("@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n".into()),
                    before_full_file_content: Some("a\nb\n".into()),
                    after_full_file_content: "a\nB\nc\n".into(),
                    message: Some("Edited f: 2 lines added, 1 removed.".into()),
                })),
            }),
        }))
    );
}

#[test]
fn the_text_grows_while_its_arguments_arrive_at_any_split() {
    let contents = "é\r\n\"x\"\r\\ 😀\n";
    let text = r#"{"path":"f","contents":"\u00e9\r\n\"x\"\r\\ \ud83d\ude00\n"}"#;
    let places: Vec<usize> = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    for step in 1..text.len() {
        let mut tools = runtime();
        let id = CallId::new("1");
        tools.call_started(&id, "Write", "m").unwrap();
        let mut grown = String::new();
        let mut raw = String::new();
        for cut in places.chunks(step) {
            let start = raw.len();
            let end = places[places.iter().position(|at| at == cut.last().unwrap()).unwrap()];
            for effect in tools.arguments_delta(&id, &text[start..end]).unwrap() {
                let Effect::Send(Message::InteractionUpdate(message)) = effect else {
                    panic!()
                };
                match message.message.unwrap() {
                    update::Message::PartialToolCall(partial) => raw.push_str(&partial.args_text_delta),
                    update::Message::ToolCallDelta(delta) => {
                        match delta.tool_call_delta.unwrap().delta.unwrap() {
                            tool_call_delta::Delta::EditToolCallDelta(edit) => {
                                grown.push_str(&edit.stream_content_delta)
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(raw, text);
        assert_eq!(grown, contents.replace("\r\n", "\n").replace('\r', "\n"));
    }
}

fn any_line() -> impl Strategy<Value = (String, &'static str)> {
    ("[abé]{1,3}", prop::sample::select(vec!["\n", "\r\n", "\r"]))
}

proptest! {
    #[test]
    fn any_file_keeps_the_bytes_outside_an_edit(
        before in prop::collection::vec(any_line(), 0..6),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        after in prop::collection::vec(any_line(), 0..6),
        marked in any::<bool>(),
        new in "[xy\n]{0,4}",
    ) {
        let join = |lines: &[(String, &str)]| -> String {
            lines.iter().flat_map(|(text, end)| [text.as_str(), end]).collect()
        };
        let mark: &[u8] = if marked { MARK } else { b"" };
        let file = [mark, join(&before).as_bytes(), b"<TARGET>", end.as_bytes(), join(&after).as_bytes()].concat();
        let (bytes, result, _) = edit(&file, replace("1", "TARGET", &new));
        prop_assert!(!result.is_error, "{}", result.content.text());
        let head = [mark, join(&before).as_bytes(), b"<"].concat();
        let tail = [b">", end.as_bytes(), join(&after).as_bytes()].concat();
        prop_assert!(bytes.starts_with(&head));
        prop_assert!(bytes.ends_with(&tail));
        let middle = &bytes[head.len()..bytes.len() - tail.len()];
        prop_assert_eq!(String::from_utf8_lossy(middle), new.replace('\n', end));
    }
}
