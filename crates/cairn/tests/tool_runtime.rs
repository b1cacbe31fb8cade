//! The tool runtime against a scripted client: ids, order, cards, streams and failures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "a test may fail"
)]

#[path = "tool_runtime/mcp.rs"]
mod mcp;
#[path = "tool_runtime/poor_words.rs"]
mod poor_words;
#[path = "tool_runtime/schemas.rs"]
mod schemas;
#[path = "support/tool_calls.rs"]
mod tool_calls;

use std::collections::{BTreeMap, BTreeSet};

use cairn::cursor::proto::agent::{
    self as pb, agent_server_message::Message, exec_client_message as answer, exec_server_message as exec,
    interaction_update as update, mcp_result, tool_call::Tool,
};
use cairn::cursor::request::Mode;
use cairn::cursor::tools::{
    DerivedFact, Effect, McpTool, ToolProtocolError, ToolRuntime, ToolRuntimeConfig, derived_facts,
};
use cairn::model::ToolResult;
use prost::Message as _;
use prost_types::value::Kind;

use tool_calls::*;

#[test]
fn a_call_is_shown_from_placeholder_to_completion() {
    let mut tools = runtime();
    let partial = |path: &str, delta: &str| {
        vec![update::Message::PartialToolCall(pb::PartialToolCallUpdate {
            call_id: "c\n1".into(),
            tool_call: Some(pb::ToolCall {
                tool_call_id: Some("c\n1".into()),
                tool: Some(read_card(path)),
                ..Default::default()
            }),
            args_text_delta: delta.into(),
            model_call_id: "m".into(),
        })]
    };
    let effects = tools.call_started(&id("c\n1"), "Read", "m").unwrap();
    assert_eq!(updates(&effects), partial("", ""));
    let effects = tools.arguments_delta(&id("c\n1"), r#"{"path":"/w"#).unwrap();
    assert_eq!(updates(&effects), partial("", r#"{"path":"/w"#));
    let effects = tools.arguments_delta(&id("c\n1"), r#"/a","limit"#).unwrap();
    assert_eq!(updates(&effects), partial("/w/a", r#"/a","limit"#));

    let effects = tools
        .execute(&call("c\n1", "Read", r#"{"path":"/w/a","limit":5}"#), 1_000)
        .unwrap();
    let args = pb::ReadToolArgs {
        path: "/w/a".into(),
        limit: Some(5),
        include_line_numbers: Some(true),
        ..Default::default()
    };
    assert_eq!(
        updates(&effects),
        vec![update::Message::ToolCallStarted(pb::ToolCallStartedUpdate {
            call_id: "c\n1".into(),
            tool_call: Some(pb::ToolCall {
                tool_call_id: Some("c\n1".into()),
                started_at_ms: Some(1_000),
                completed_at_ms: None,
                tool: Some(Tool::ReadToolCall(pb::ReadToolCall {
                    args: Some(args.clone()),
                    result: None,
                })),
            }),
            model_call_id: "m".into(),
        })]
    );
    assert_eq!(
        one_exec(&effects),
        (
            1,
            exec::Message::ReadArgs(pb::ReadArgs {
                path: "/w/a".into(),
                tool_call_id: "c\n1".into(),
                limit: Some(5),
                ..Default::default()
            })
        )
    );
    assert_eq!(tools.committed(&id("c\n1")), None);

    let effects = tools.exec_message(read_text(1, "x\n"), 1_250).unwrap();
    assert_eq!(
        effects,
        vec![Effect::Complete(ToolResult {
            call: id("c\n1"),
            content: "     1|x\n".into(),
            is_error: false,
        })]
    );
    assert_eq!(tools.exec_control(close(1), 1_251).unwrap(), vec![]);

    let committed = tools.committed(&id("c\n1")).unwrap();
    let (message, tool_call) = committed.shown.unwrap();
    assert_eq!(
        derived_facts(tool_call.tool.as_ref().unwrap()),
        [DerivedFact::ReadPath("/w/a".into())]
    );
    assert_eq!(
        (tool_call.started_at_ms, tool_call.completed_at_ms),
        (Some(1_000), Some(1_250))
    );
    let Some(Tool::ReadToolCall(card)) = &tool_call.tool else {
        panic!("{tool_call:?}")
    };
    assert_eq!(card.args, Some(args));
    assert!(card.result.is_some());
    assert_eq!(
        updates(&[Effect::Send(message)]),
        vec![update::Message::ToolCallCompleted(pb::ToolCallCompletedUpdate {
            call_id: "c\n1".into(),
            tool_call: Some(tool_call),
            model_call_id: "m".into(),
        })]
    );
    assert_eq!(tools.committed(&id("c\n1")), None, "a result is handed over once");
}

#[test]
fn results_arrive_in_any_order() {
    let mut tools = runtime();
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let effects = tools
            .execute(&call(name, "Read", &format!(r#"{{"path":"{name}"}}"#)), 0)
            .unwrap();
        ids.push(one_exec(&effects).0);
    }
    assert_eq!(ids, vec![1, 2, 3]);
    for (exec, name) in [(2, "b"), (1, "a"), (3, "c")] {
        let done = result(&tools.exec_message(read_text(exec, name), 1).unwrap());
        assert_eq!(
            (done.call, &*done.content.text()),
            (id(name), &*format!("     1|{name}\n"))
        );
    }
}

#[test]
fn ids_are_never_reused_and_shared_with_questions_that_are_no_tools() {
    let mut tools = runtime();
    assert_eq!(tools.reserve_exec_id(), 1);
    let effects = tools.execute(&call("a", "Delete", r#"{"path":"x"}"#), 0).unwrap();
    assert_eq!(one_exec(&effects).0, 2);
    tools
        .exec_message(
            client(
                2,
                answer::Message::DeleteResult(pb::DeleteResult {
                    result: Some(pb::delete_result::Result::Success(Default::default())),
                }),
            ),
            1,
        )
        .unwrap();
    tools.committed(&id("a")).unwrap();
    tools.round_ended();
    let effects = tools.execute(&call("b", "Delete", r#"{"path":"x"}"#), 0).unwrap();
    assert_eq!(one_exec(&effects).0, 3);
    assert_eq!(tools.exec_control(close(1), 1).unwrap(), vec![]);
    assert_eq!(tools.exec_control(close(2), 1).unwrap(), vec![]);
}

#[test]
fn a_breach_of_the_order_is_named_with_its_ids() {
    let mut tools = runtime();
    tools.execute(&call("a", "Read", r#"{"path":"x"}"#), 0).unwrap();
    assert_eq!(
        tools.exec_message(read_text(0, ""), 1),
        Err(ToolProtocolError::MissingExecId)
    );
    assert_eq!(
        tools.exec_message(read_text(7, ""), 1),
        Err(ToolProtocolError::UnknownExec { exec_id: 7 })
    );
    assert_eq!(
        tools.exec_control(close(7), 1),
        Err(ToolProtocolError::UnknownExec { exec_id: 7 })
    );
    assert_eq!(
        tools.exec_message(stdout(1, "x"), 1),
        Err(ToolProtocolError::WrongAnswer {
            exec_id: 1,
            call: id("a"),
            expected: "read_result",
            got: "shell_stream",
        })
    );
    assert_eq!(
        tools.exec_message(
            client(1, answer::Message::ReadResult(pb::ReadResult { result: None })),
            1
        ),
        Err(ToolProtocolError::EmptyAnswer {
            exec_id: 1,
            call: id("a"),
            expected: "read_result",
        })
    );
    // None of it cost the call its result.
    result(&tools.exec_message(read_text(1, "x"), 1).unwrap());
    assert_eq!(
        tools.exec_message(read_text(1, "x"), 1),
        Err(ToolProtocolError::FinishedExec {
            exec_id: 1,
            call: Some(id("a"))
        })
    );
    tools.round_ended();
    assert_eq!(
        tools.exec_message(read_text(1, "x"), 1),
        Err(ToolProtocolError::FinishedExec {
            exec_id: 1,
            call: None
        })
    );
    assert_eq!(
        tools.exec_control(pb::ExecClientControlMessage::default(), 1),
        Err(ToolProtocolError::EmptyControl)
    );
    assert_eq!(
        tools.call_started(&id(""), "Read", "m"),
        Err(ToolProtocolError::MissingCallId)
    );
    assert_eq!(
        tools.arguments_delta(&id("q"), "{"),
        Err(ToolProtocolError::MisplacedCall {
            call: id("q"),
            what: "given arguments"
        })
    );
}

#[test]
fn a_call_is_begun_and_executed_once() {
    let mut tools = runtime();
    tools.call_started(&id("a"), "Read", "m").unwrap();
    assert_eq!(
        tools.call_started(&id("a"), "Read", "m"),
        Err(ToolProtocolError::MisplacedCall {
            call: id("a"),
            what: "begun"
        })
    );
    tools.execute(&call("a", "Read", r#"{"path":"x"}"#), 0).unwrap();
    assert_eq!(
        tools.execute(&call("a", "Read", r#"{"path":"x"}"#), 0),
        Err(ToolProtocolError::MisplacedCall {
            call: id("a"),
            what: "executed"
        })
    );
    result(&tools.exec_message(read_text(1, "x"), 1).unwrap());
}

#[test]
fn a_thrown_exec_is_a_tool_error() {
    let mut tools = runtime();
    tools
        .execute(&call("a", "Grep", r#"{"pattern":"x"}"#), 0)
        .unwrap();
    let done = result(&tools.exec_control(throw(1), 5).unwrap());
    assert_eq!(
        done,
        ToolResult {
            call: id("a"),
            content: "The client could not execute the tool: no handler".into(),
            is_error: true,
        }
    );
    let (_, tool_call) = tools.committed(&id("a")).unwrap().shown.unwrap();
    let Some(Tool::GrepToolCall(card)) = tool_call.tool else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(pb::grep_result::Result::Error(pb::GrepError {
            error: done.content.text().to_string()
        }))
    );
}

#[test]
fn an_unknown_tool_is_an_error_that_the_model_sees() {
    let mut tools = runtime();
    assert_eq!(tools.call_started(&id("a"), "Bash", "m").unwrap(), vec![]);
    assert_eq!(tools.arguments_delta(&id("a"), "{}").unwrap(), vec![]);
    let done = result(&tools.execute(&call("a", "Bash", "{}"), 0).unwrap());
    assert!(done.is_error);
    assert_eq!(
        &*done.content.text(),
        "There is no tool named Bash here. The tools are: AwaitShell, Delete, EditNotebook, Glob, Grep, Read, \
         ReadLints, Shell, StrReplace, TodoWrite, Write, db-query."
    );
    assert_eq!(tools.committed(&id("a")).unwrap().shown, None);
}

#[test]
fn a_tool_that_is_not_offered_does_not_exist() {
    let mut tools = ToolRuntime::new(ToolRuntimeConfig {
        result_limit: 100_000,
        conversation_id: String::new(),
        offered: BTreeSet::from(["Read".into()]),
        mcp: BTreeMap::new(),
        todos: Vec::new(),
        mode: cairn::cursor::request::Mode::Agent,
        working_directory: None,
        terminals_folder: None,
        subagents: subagents(),
    });
    let effects = tools
        .execute(&call("a", "Write", r#"{"path":"a","contents":""}"#), 0)
        .unwrap();
    assert_eq!(
        &*result(&effects).content.text(),
        "There is no tool named Write here. The tools are: Read."
    );
}

#[test]
fn a_call_of_a_tool_whose_server_is_gone_is_answered_at_once_and_names_the_server() {
    let mut tools = ToolRuntime::new(ToolRuntimeConfig {
        conversation_id: String::new(),
        offered: BTreeSet::from(["db__query".into()]),
        mcp: BTreeMap::from([(
            "db__query".into(),
            McpTool {
                name: "db-query".into(),
                provider_identifier: "db".into(),
                server_identifier: "user-db".into(),
                tool_name: "query".into(),
                connected: false,
            },
        )]),
        mode: Mode::Agent,
        result_limit: 100_000,
        todos: Vec::new(),
        working_directory: None,
        terminals_folder: None,
        subagents: subagents(),
    });
    assert_eq!(tools.call_started(&id("a"), "db__query", "m").unwrap(), vec![]);
    let done = result(&tools.execute(&call("a", "db__query", "{}"), 0).unwrap());
    assert!(done.is_error);
    assert_eq!(
        &*done.content.text(),
        "db__query was not executed: the MCP server db is not connected, or does not offer this tool now. Go on without \
         it, or ask the user to connect the server again."
    );
    assert_eq!(tools.committed(&id("a")).unwrap().shown, None);
}

#[test]
fn arguments_that_miss_the_schema_are_an_error_that_names_field_and_mend() {
    let many_paths = serde_json::json!({"paths": vec!["a"; 51]}).to_string();
    for (name, arguments, text) in [
        (
            "Read",
            r#"{"offset":"5","lines":1}"#,
            "Read was not executed, its arguments do not fit: `path` is missing (a string); `offset` must be an \
             integer, not a string; `lines` is unknown. The arguments are: path, offset, limit.",
        ),
        (
            "Read",
            r#"{"path":"","limit":0}"#,
            "Read was not executed, its arguments do not fit: `path` is empty; `limit` must be an integer from 1 to \
             2147483647, not 0. The arguments are: path, offset, limit.",
        ),
        (
            "Shell",
            r#"{"command":"x","block_until_ms":1.5}"#,
            "Shell was not executed, its arguments do not fit: `block_until_ms` must be an integer from 0 to \
             86400000, not 1.5. The arguments are: command, working_directory, block_until_ms, description.",
        ),
        (
            "StrReplace",
            r#"{"path":"a","old_string":"b","new_string":"c","replace_all":"yes"}"#,
            "StrReplace was not executed, its arguments do not fit: `replace_all` must be true or false, not a \
             string. The arguments are: path, old_string, new_string, replace_all.",
        ),
        (
            "TodoWrite",
            r#"{"todos":[{"id":"1","content":"a","status":"open"},3,{"id":"1","content":"b","status":"pending","x":1}]}"#,
            "TodoWrite was not executed, its arguments do not fit: todos[0]: `status` must be one of pending, \
             in_progress, completed, cancelled; todos[1] must be an object, not a number; todos[2]: `x` is unknown; \
             `todos` repeats the id `1`; `merge` is missing (true or false). The arguments are: todos, merge.",
        ),
        (
            "ReadLints",
            &*many_paths,
            "ReadLints was not executed, its arguments do not fit: `paths` has 51 entries, at most 50 are taken. The \
             arguments are: paths.",
        ),
        (
            "Glob",
            "[]",
            "Glob was not executed, its arguments do not fit: they must be a JSON object, not an array.",
        ),
    ] {
        let mut tools = runtime();
        let effects = tools.execute(&call("a", name, arguments), 3).unwrap();
        assert_eq!(execs(&effects), vec![]);
        assert!(
            matches!(updates(&effects)[..], [update::Message::ToolCallStarted(_)]),
            "{name}"
        );
        let done = result(&effects);
        assert!(done.is_error);
        assert_eq!(&*done.content.text(), text);
        assert!(tools.committed(&id("a")).unwrap().shown.is_some(), "{name}");
    }
}

#[test]
fn integers_may_be_written_as_any_number_of_that_value() {
    let mut tools = runtime();
    let effects = tools
        .execute(&call("a", "Read", r#"{"path":"x","offset":3.0,"limit":null}"#), 0)
        .unwrap();
    let (_, exec::Message::ReadArgs(args)) = one_exec(&effects) else {
        panic!()
    };
    assert_eq!((args.offset, args.limit), (Some(3), None));
}

#[test]
fn todos_complete_at_once_and_build_on_each_other() {
    let mut tools = runtime();
    let first = r#"{"todos":[{"id":"a","content":"A","status":"in_progress"},{"id":"b","content":"B","status":"pending"}],"merge":false}"#;
    let done = result(&tools.execute(&call("1", "TodoWrite", first), 0).unwrap());
    assert_eq!(
        &*done.content.text(),
        "The to-do list is now:\n- [in_progress] a: A\n- [pending] b: B"
    );
    let second = r#"{"todos":[{"id":"a","content":"A","status":"completed"},{"id":"c","content":"C","status":"pending"}],"merge":true}"#;
    let done = result(&tools.execute(&call("2", "TodoWrite", second), 0).unwrap());
    assert_eq!(
        &*done.content.text(),
        "The to-do list is now:\n- [completed] a: A\n- [pending] b: B\n- [pending] c: C"
    );
    let (_, card) = tools.committed(&id("2")).unwrap().shown.unwrap();
    let facts = derived_facts(card.tool.as_ref().unwrap());
    let [DerivedFact::Todos(todos)] = &facts[..] else {
        panic!("{facts:?}")
    };
    assert_eq!(
        todos.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
}

#[test]
fn an_mcp_call_carries_its_identity_and_exact_values() {
    let mut tools = runtime();
    let arguments = r#"{"n":3,"f":2.5,"list":[true,null,{"x":"y"}]}"#;
    let effects = tools.execute(&call("m", "db-query", arguments), 0).unwrap();
    let (_, exec::Message::McpArgs(args)) = one_exec(&effects) else {
        panic!()
    };
    assert_eq!(
        (
            args.name.as_str(),
            args.tool_name.as_str(),
            args.provider_identifier.as_str(),
            args.server_identifier.as_str()
        ),
        ("db-query", "query", "db", "user-db")
    );
    assert_eq!(args.tool_call_id, "m");
    let kind = |name: &str| prost_types::Value::decode(args.args[name].clone()).unwrap().kind;
    assert_eq!(kind("n"), Some(Kind::NumberValue(3.0)));
    assert_eq!(kind("f"), Some(Kind::NumberValue(2.5)));
    let success = pb::McpSuccess {
        content: vec![
            pb::McpToolResultContentItem {
                content: Some(pb::mcp_tool_result_content_item::Content::Text(
                    pb::McpTextContent {
                        text: "one".into(),
                        ..Default::default()
                    },
                )),
            },
            pb::McpToolResultContentItem {
                content: Some(pb::mcp_tool_result_content_item::Content::Image(
                    pb::McpImageContent {
                        data: vec![0; 4].into(),
                        mime_type: "image/png".into(),
                    },
                )),
            },
        ],
        is_error: true,
        ..Default::default()
    };
    let answer = answer::Message::McpResult(pb::McpResult {
        result: Some(mcp_result::Result::Success(success)),
    });
    let done = result(&tools.exec_message(client(1, answer), 1).unwrap());
    assert_eq!(
        (&*done.content.text(), done.is_error),
        ("one\n[Picture 1 of this result stands here.]", true)
    );
    let pictures: Vec<_> = done.content.images().collect();
    assert_eq!(
        pictures,
        [&cairn::model::Image {
            mime_type: "image/png".into(),
            data: vec![0; 4].into()
        }]
    );
}

#[test]
fn a_number_that_a_double_would_change_is_refused() {
    let mut tools = runtime();
    let effects = tools
        .execute(&call("m", "db-query", r#"{"ids":[1,9007199254740993]}"#), 0)
        .unwrap();
    assert_eq!(execs(&effects), vec![]);
    let done = result(&effects);
    assert!(done.is_error);
    assert_eq!(
        &*done.content.text(),
        "db-query was not executed, its arguments do not fit: the number 9007199254740993 at `ids[1]` cannot be \
         passed on unchanged: the client's number type is a double. Pass it as a string if the tool takes one."
    );
}

#[test]
fn what_has_no_result_is_aborted() {
    let mut tools = runtime();
    tools.execute(&call("a", "Read", r#"{"path":"x"}"#), 0).unwrap();
    tools.execute(&call("b", "Read", r#"{"path":"y"}"#), 0).unwrap();
    tools.exec_message(read_text(1, "x"), 1).unwrap();
    let effects = tools.abort_all();
    let [Effect::Send(Message::ExecServerControlMessage(message))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(
        message.message,
        Some(pb::exec_server_control_message::Message::Abort(
            pb::ExecServerAbort { id: 2 }
        ))
    );
    assert_eq!(tools.abort_all(), vec![]);
    assert_eq!(tools.exec_message(read_text(2, "late"), 2).unwrap(), vec![]);
    assert_eq!(tools.exec_control(close(2), 2).unwrap(), vec![]);
}

#[test]
fn lints_are_asked_for_one_path_after_the_other() {
    let ask = |answers: [pb::diagnostics_result::Result; 2]| {
        let mut tools = runtime();
        let mut effects = tools
            .execute(&call("l", "ReadLints", r#"{"paths":["/w/a","/w/b"]}"#), 0)
            .unwrap();
        for (path, answered) in ["/w/a", "/w/b"].into_iter().zip(answers) {
            let (exec_id, message) = one_exec(&effects);
            assert_eq!(
                message,
                exec::Message::DiagnosticsArgs(pb::DiagnosticsArgs {
                    path: path.into(),
                    tool_call_id: "l".into(),
                })
            );
            let answered = answer::Message::DiagnosticsResult(pb::DiagnosticsResult {
                result: Some(answered),
            });
            effects = tools.exec_message(client(exec_id, answered), 1).unwrap();
            assert_eq!(tools.exec_control(close(exec_id), 1).unwrap(), vec![]);
        }
        let (_, tool_call) = tools.committed(&id("l")).unwrap().shown.unwrap();
        let Some(Tool::ReadLintsToolCall(card)) = tool_call.tool else {
            panic!("{tool_call:?}")
        };
        let result = result(&effects);
        (
            result.content.text().into_owned(),
            result.is_error,
            card.result.unwrap().result.unwrap(),
        )
    };
    let found = |diagnostics: Vec<pb::Diagnostic>| {
        pb::diagnostics_result::Result::Success(pb::DiagnosticsSuccess {
            total_diagnostics: i32::try_from(diagnostics.len()).unwrap(),
            diagnostics,
            ..Default::default()
        })
    };
    let at = |line, column| pb::Range {
        start: Some(pb::Position { line, column }),
        end: None,
    };
    let problem = pb::Diagnostic {
        severity: pb::DiagnosticSeverity::Error.into(),
        range: Some(at(4, 2)),
        message: "x is not defined".into(),
        source: "ts".into(),
        code: "2304".into(),
        is_stale: true,
    };
    let missing =
        || pb::diagnostics_result::Result::FileNotFound(pb::DiagnosticsFileNotFound { path: "/w/b".into() });
    let (text, is_error, card) = ask([found(vec![problem.clone()]), missing()]);
    assert_eq!(
        (&*text, is_error),
        (
            "/w/a: 1 problem\n  4:2 error: x is not defined [ts 2304] (may be out of date)\n/w/b: it does not \
             exist.\n",
            false
        )
    );
    let shown = pb::DiagnosticItem {
        severity: problem.severity,
        range: Some(pb::DiagnosticRange {
            start: Some(pb::Position { line: 4, column: 2 }),
            end: None,
        }),
        message: problem.message,
        source: problem.source,
        code: problem.code,
        is_stale: true,
    };
    assert_eq!(
        card,
        pb::read_lints_tool_result::Result::Success(pb::ReadLintsToolSuccess {
            file_diagnostics: vec![pb::FileDiagnostics {
                path: "/w/a".into(),
                diagnostics: vec![shown],
                diagnostics_count: 1,
            }],
            total_files: 1,
            total_diagnostics: 1,
        })
    );

    let (text, is_error, _) = ask([found(Vec::new()), found(Vec::new())]);
    assert_eq!(
        (&*text, is_error),
        (
            "/w/a: nothing reported.\n/w/b: nothing reported.\n[The editor may not have checked these files: a build \
             or a linter decides.]\n",
            false
        )
    );

    let (text, is_error, card) = ask([missing(), missing()]);
    assert_eq!(
        (&*text, is_error),
        ("/w/a: it does not exist.\n/w/b: it does not exist.\n", true)
    );
    assert_eq!(
        card,
        pb::read_lints_tool_result::Result::Error(pb::ReadLintsToolError {
            error_message: text.to_string()
        })
    );
}
