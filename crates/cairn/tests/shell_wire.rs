//! Commands on the wire: output while they run, how they end, the background, and waiting for what is there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test may fail"
)]

#[allow(dead_code, reason = "shared with other suites")]
#[path = "support/tool_calls.rs"]
mod tool_calls;

use cairn::cursor::proto::agent::{
    self as pb, await_result, await_success, exec_client_message as answer, exec_server_message as exec,
    interaction_update as update, read_result, shell_result, shell_stream, tool_call::Tool,
};
use cairn::cursor::tools::{Effect, ToolProtocolError, ToolRuntime};
use cairn::model::ToolResult;

use tool_calls::*;

/// The result of the first command of a runtime that ends with this event.
fn ended(tools: &mut ToolRuntime, event: shell_stream::Event) -> ToolResult {
    assert_eq!(tools.exec_message(shell(1, event), 5).unwrap(), vec![]);
    result(&tools.exec_control(close(1), 6).unwrap())
}

fn shell_args(command: &str) -> pb::ShellArgs {
    pb::ShellArgs {
        command: command.into(),
        working_directory: "/w".into(),
        timeout: 30_000,
        tool_call_id: "s".into(),
        parsing_result: Some(pb::ShellCommandParsingResult { parsing_failed: true }),
        file_output_threshold_bytes: Some(40_000),
        timeout_behavior: pb::TimeoutBehavior::Background.into(),
        hard_timeout: Some(86_400_000),
        close_stdin: true,
        conversation_id: Some("conversation".into()),
        ..Default::default()
    }
}

#[test]
fn a_command_streams_and_a_failing_one_is_a_result() {
    let mut tools = runtime();
    tools.call_started(&id("s"), "Shell", "m").unwrap();
    let effects = tools
        .execute(&call("s", "Shell", r#"{"command":"false"}"#), 0)
        .unwrap();
    assert_eq!(
        one_exec(&effects),
        (1, exec::Message::ShellStreamArgs(shell_args("false")))
    );
    let start = shell(1, shell_stream::Event::Start(pb::ShellStreamStart {}));
    assert_eq!(tools.exec_message(start, 1).unwrap(), vec![]);
    assert_eq!(
        updates(&tools.exec_message(stdout(1, "out\n"), 1).unwrap()),
        vec![update::Message::ToolCallDelta(pb::ToolCallDeltaUpdate {
            call_id: "s".into(),
            tool_call_delta: Some(pb::ToolCallDelta {
                delta: Some(pb::tool_call_delta::Delta::ShellToolCallDelta(
                    pb::ShellToolCallDelta {
                        delta: Some(pb::shell_tool_call_delta::Delta::Stdout(
                            pb::ShellToolCallStdoutDelta {
                                content: "out\n".into(),
                            }
                        )),
                    }
                )),
            }),
            model_call_id: "m".into(),
        })]
    );
    let stderr = shell(
        1,
        shell_stream::Event::Stderr(pb::ShellStreamStderr { data: "err".into() }),
    );
    assert_eq!(updates(&tools.exec_message(stderr, 1).unwrap()).len(), 1);
    tools.exec_message(stdout(1, "more"), 1).unwrap();
    assert_eq!(tools.exec_message(exit(1, 3), 9).unwrap(), vec![]);
    let done = result(&tools.exec_control(close(1), 10).unwrap());
    assert_eq!(
        done,
        ToolResult {
            call: id("s"),
            content: "Exit code: 3\nDuration: 22 ms\nWorking directory: /w\nOutput:\nout\nerrmore\n".into(),
            is_error: false,
        }
    );
    let (_, tool_call) = tools.committed(&id("s")).unwrap().shown.unwrap();
    let Some(Tool::ShellToolCall(card)) = tool_call.tool else {
        panic!()
    };
    assert_eq!(
        card.result.unwrap().result,
        Some(shell_result::Result::Failure(pb::ShellFailure {
            command: "false".into(),
            working_directory: "/w".into(),
            exit_code: 3,
            stdout: "out\nmore".into(),
            stderr: "err".into(),
            execution_time: 22,
            interleaved_output: Some("out\nerrmore".into()),
            local_execution_time_ms: Some(22),
            ..Default::default()
        }))
    );
}

#[test]
fn a_background_command_outlives_its_call_and_its_run() {
    let mut tools = runtime();
    tools.call_started(&id("s"), "Shell", "m").unwrap();
    let effects = tools
        .execute(
            &call("s", "Shell", r#"{"command":"serve","block_until_ms":0}"#),
            0,
        )
        .unwrap();
    let (_, exec::Message::ShellStreamArgs(args)) = one_exec(&effects) else {
        panic!()
    };
    assert_eq!(args.timeout, 0);
    tools.exec_message(stdout(1, "up\n"), 1).unwrap();
    let event = shell_stream::Event::Backgrounded(pb::ShellStreamBackgrounded {
        shell_id: 42,
        command: "serve".into(),
        pid: Some(7),
        ms_to_wait: Some(0),
        reason: Some(pb::ShellBackgroundReason::Timeout.into()),
        ..Default::default()
    });
    let done = result(&tools.exec_message(shell(1, event), 5).unwrap());
    assert!(!done.is_error);
    assert_eq!(
        &*done.content.text(),
        "The command runs on in the background: as asked.\nShell id: 42\nProcess id: 7\nIts output \
         goes to /t/42.txt\nOutput:\nup\n"
    );
    tools.committed(&id("s")).unwrap();
    tools.round_ended();
    assert_eq!(
        updates(&tools.exec_message(stdout(1, "late"), 6).unwrap()).len(),
        1
    );
    assert_eq!(tools.abort_all(), vec![]);
    assert_eq!(tools.exec_message(exit(1, 0), 7).unwrap(), vec![]);
    assert_eq!(tools.exec_control(close(1), 7).unwrap(), vec![]);
}

#[test]
fn a_refused_command_is_an_error() {
    let mut tools = runtime();
    tools
        .execute(&call("s", "Shell", r#"{"command":"rm"}"#), 0)
        .unwrap();
    let event = shell_stream::Event::Rejected(pb::ShellRejected {
        reason: "not now".into(),
        ..Default::default()
    });
    let done = ended(&mut tools, event);
    assert_eq!(
        (&*done.content.text(), done.is_error),
        ("The command was refused and not run: not now.", true)
    );
}

#[test]
fn a_command_that_may_not_run_is_an_error_that_says_why() {
    let run = |event| {
        let mut tools = runtime();
        tools
            .execute(&call("s", "Shell", r#"{"command":"rm"}"#), 0)
            .unwrap();
        let done = ended(&mut tools, event);
        let (_, tool_call) = tools.committed(&id("s")).unwrap().shown.unwrap();
        let Some(Tool::ShellToolCall(card)) = tool_call.tool else {
            panic!()
        };
        assert!(done.is_error);
        (
            done.content.text().into_owned(),
            card.result.unwrap().result.unwrap(),
        )
    };
    let denied = |error: &str| {
        shell_result::Result::PermissionDenied(pb::ShellPermissionDenied {
            command: "rm".into(),
            error: error.into(),
            ..Default::default()
        })
    };
    assert_eq!(
        run(shell_stream::Event::PermissionDenied(pb::ShellPermissionDenied {
            command: "rm".into(),
            error: "read-only".into(),
            ..Default::default()
        })),
        (
            "The command was not run, permission was denied: read-only.".to_owned(),
            denied("read-only")
        )
    );
    assert_eq!(
        run(shell_stream::Event::SandboxUnsupported(
            pb::ShellSandboxUnsupported {
                command: "rm".into(),
                reason: "no kernel support".into(),
                ..Default::default()
            }
        )),
        (
            "The command was not run, the client has no sandbox for it: no kernel support.".to_owned(),
            denied("no kernel support")
        )
    );
}

#[test]
fn a_stopped_command_says_by_whom() {
    // The client leaves the code out of a command that it ended for its time. [sdk]
    for (reason, code, text) in [
        (pb::ShellAbortReason::UserAbort, u32::MAX, "by the user"),
        (pb::ShellAbortReason::Timeout, 0, "by its time limit"),
    ] {
        let mut tools = runtime();
        tools
            .execute(&call("s", "Shell", r#"{"command":"x"}"#), 0)
            .unwrap();
        let event = shell_stream::Event::Exit(pb::ShellStreamExit {
            code,
            aborted: true,
            abort_reason: Some(reason.into()),
            local_execution_time_ms: Some(4),
            ..Default::default()
        });
        assert_eq!(
            &*ended(&mut tools, event).content.text(),
            format!("The command was stopped {text}.\nDuration: 4 ms\nNo output.\n")
        );
    }
}

#[test]
fn a_command_whose_exec_is_closed_without_an_end_is_a_tool_error() {
    let mut tools = runtime();
    tools
        .execute(&call("a", "Shell", r#"{"command":"ls"}"#), 1)
        .unwrap();
    let result = result(&tools.exec_control(close(1), 2).unwrap());
    assert!(
        result.is_error && result.content.text().contains("without a result"),
        "{}",
        result.content.text()
    );
    assert_eq!(tools.exec_control(close(1), 3), Ok(Vec::new()));
}

/// A hook of the person that runs after a tool speaks between the command's exit and the end of the exec. [sdk]
#[test]
fn what_hooks_add_to_a_command_is_part_of_its_one_result() {
    let hook = |event: &str, content: &str| {
        shell_stream::Event::HookContext(pb::ShellStreamHookContext {
            hook_additional_contexts: vec![pb::HookAdditionalContext {
                hook_event_name: event.into(),
                content: content.into(),
            }],
        })
    };
    let mut tools = runtime();
    tools
        .execute(&call("s", "Shell", r#"{"command":"ls"}"#), 0)
        .unwrap();
    tools.exec_message(stdout(1, "out"), 1).unwrap();
    assert_eq!(tools.exec_message(exit(1, 0), 2).unwrap(), vec![]);
    for added in [
        hook("postToolUse", "run the formatter"),
        hook("", "\n"),
        hook("", "b\n"),
    ] {
        assert_eq!(tools.exec_message(shell(1, added), 3).unwrap(), vec![]);
    }
    // An event of a later version.
    let unknown = client(1, answer::Message::ShellStream(pb::ShellStream { event: None }));
    assert_eq!(tools.exec_message(unknown, 3).unwrap(), vec![]);
    let done = result(&tools.exec_control(close(1), 4).unwrap());
    assert_eq!(
        &*done.content.text(),
        "Exit code: 0\nDuration: 22 ms\nWorking directory: /w\nOutput:\nout\n[A hook of the workspace \
         (postToolUse) adds:]\nrun the formatter\n[A hook of the workspace adds:]\nb\n"
    );
    // Nothing after that changes what was said.
    assert_eq!(tools.exec_message(shell(1, hook("", "late")), 5).unwrap(), vec![]);
}

#[test]
fn a_second_end_of_a_command_breaks_the_protocol() {
    let second = |call| Err(ToolProtocolError::FinishedExec { exec_id: 1, call });
    let mut tools = runtime();
    tools
        .execute(&call("s", "Shell", r#"{"command":"ls"}"#), 0)
        .unwrap();
    tools.exec_message(exit(1, 0), 1).unwrap();
    assert_eq!(tools.exec_message(exit(1, 0), 2), second(Some(id("s"))));
    assert_eq!(tools.exec_message(stdout(1, "x"), 2), second(Some(id("s"))));
    result(&tools.exec_control(close(1), 3).unwrap());
    assert_eq!(tools.exec_message(exit(1, 0), 4), second(Some(id("s"))));
    tools.round_ended();
    assert_eq!(tools.exec_message(exit(1, 0), 5), second(None));
}

/// Of a flood the client passes on about the first megabyte, ends as if that were all, and names the file that has it.
/// [sdk]
#[test]
fn output_that_the_client_did_not_pass_on_is_said_to_be_missing() {
    let ask = |size_bytes: i64| {
        let mut tools = runtime();
        tools
            .execute(&call("s", "Shell", r#"{"command":"make"}"#), 0)
            .unwrap();
        tools.exec_message(stdout(1, "é\n"), 1).unwrap();
        let event = shell_stream::Event::Exit(pb::ShellStreamExit {
            local_execution_time_ms: Some(4),
            output_location: Some(pb::OutputLocation {
                file_path: "/o.txt".into(),
                size_bytes,
                line_count: 700,
            }),
            ..Default::default()
        });
        ended(&mut tools, event).content.text().into_owned()
    };
    assert_eq!(
        ask(3),
        "Exit code: 0\nDuration: 4 ms\nOutput:\né\n[The whole output is in /o.txt (3 bytes, 700 lines).]\n"
    );
    assert_eq!(
        ask(4),
        "Exit code: 0\nDuration: 4 ms\nOutput:\né\n[The client passed on 3 bytes: the end of the output is missing \
         above. All of it is in /o.txt (4 bytes, 700 lines): for its end read that file from line 600 on.]\n"
    );
}

const HEAD: &str = "---\npid: 7\ncwd: \"/w\"\ncommand: \"serve\"\nstarted_at: 1970-01-01T00:00:01Z\nrunning_for_ms: 17       \n---\n";

fn foot(code: &str) -> String {
    format!("\n---\nexit_code: {code}\nelapsed_ms: 2030\nended_at: 1970-01-01T00:00:03Z\n---\n")
}

/// The exec by which a waiting call looks into the file, from this line.
fn look(effects: &[Effect], from: Option<i32>) -> u32 {
    let (exec_id, message) = one_exec(effects);
    assert_eq!(
        message,
        exec::Message::ReadArgs(pb::ReadArgs {
            path: "/t/42.txt".into(),
            tool_call_id: "w".into(),
            offset: from,
            ..Default::default()
        })
    );
    exec_id
}

/// The lines that were asked for.
fn read_part(id: u32, text: &str) -> pb::ExecClientMessage {
    let mut message = read_text(id, text);
    if let Some(answer::Message::ReadResult(pb::ReadResult {
        result: Some(read_result::Result::Success(success)),
    })) = &mut message.message
    {
        success.range_applied = true;
    }
    message
}

fn wake(effects: &[Effect]) -> u32 {
    match effects {
        [Effect::Wake { call, after_ms }] if *call == id("w") => *after_ms,
        other => panic!("{other:?}"),
    }
}

fn await_shell(tools: &mut ToolRuntime, arguments: &str) -> Vec<Effect> {
    tools.execute(&call("w", "AwaitShell", arguments), 2_000).unwrap()
}

fn await_card(tools: &mut ToolRuntime) -> (pb::AwaitArgs, await_result::Result) {
    let (_, tool_call) = tools.committed(&id("w")).unwrap().shown.unwrap();
    let Some(Tool::AwaitToolCall(card)) = tool_call.tool else {
        panic!("{tool_call:?}")
    };
    (card.args.unwrap(), card.result.unwrap().result.unwrap())
}

#[test]
fn waiting_ends_with_the_command_and_reads_only_what_is_new() {
    let mut tools = runtime();
    let effects = await_shell(&mut tools, r#"{"shell_id":42,"block_until_ms":60000}"#);
    let first = look(&effects, None);
    let output: String = (0..20).map(|line| format!("line {line}\n")).collect();
    let pause = wake(
        &tools
            .exec_message(read_text(first, &format!("{HEAD}{output}")), 2_001)
            .unwrap(),
    );
    assert_eq!(pause, 200);
    assert_eq!(tools.exec_control(close(first), 2_002).unwrap(), vec![]);
    // Seven lines of the head, and those of the twenty that can no longer turn out to be the foot.
    let second = look(&tools.woke(&id("w"), 2_200), Some(22));
    let rest: String = (14..20).map(|line| format!("line {line}\n")).collect();
    let effects = tools
        .exec_message(read_part(second, &format!("{rest}end{}", foot("3"))), 2_201)
        .unwrap();
    assert_eq!(
        result(&effects),
        ToolResult {
            call: id("w"),
            content: format!(
                "The command of shell 42 has ended.\nExit code: 3\nDuration: 2030 ms\nOutput:\n{output}end\n[The \
                 whole output is in /t/42.txt.]\n"
            )
            .into(),
            is_error: false,
        }
    );
    assert_eq!(
        await_card(&mut tools),
        (
            pb::AwaitArgs {
                task_id: "42".into(),
                block_until_ms: Some(60_000),
                regex: None,
            },
            await_result::Result::Success(pb::AwaitSuccess {
                await_result: Some(await_success::AwaitResult::Complete(pb::AwaitTaskComplete {
                    task_id: "42".into(),
                    runtime_ms: 2030,
                    output_file_path: "/t/42.txt".into(),
                    output_length: u64::try_from(output.len() + 3).unwrap(),
                    exit_code: Some(3),
                    ..Default::default()
                })),
            })
        )
    );
    assert_eq!(
        tools.woke(&id("w"), 2_300),
        vec![],
        "a call that is over needs no pause"
    );
}

#[test]
fn waiting_ends_when_the_time_is_over() {
    let mut tools = runtime();
    let mut effects = await_shell(&mut tools, r#"{"shell_id":42,"block_until_ms":1000}"#);
    let mut pauses = Vec::new();
    let done = loop {
        let exec_id = look(&effects, if pauses.is_empty() { None } else { Some(8) });
        let answer = match pauses.is_empty() {
            true => read_text(exec_id, HEAD),
            false => read_part(exec_id, ""),
        };
        let answered = tools.exec_message(answer, 3_000).unwrap();
        if matches!(answered[..], [Effect::Complete(_)]) {
            break result(&answered);
        }
        pauses.push(wake(&answered));
        effects = tools.woke(&id("w"), 3_000);
    };
    assert_eq!(pauses, [200, 300, 450, 50]);
    assert_eq!(
        &*done.content.text(),
        "The command of shell 42 is still running, after 1000 ms of waiting.\nNo output.\n[The whole output is in \
         /t/42.txt.]\n"
    );
    let (_, state) = await_card(&mut tools);
    assert_eq!(
        state,
        await_result::Result::Success(pb::AwaitSuccess {
            await_result: Some(await_success::AwaitResult::StillRunning(
                pb::AwaitTaskStillRunning {
                    task_id: "42".into(),
                    runtime_ms: 2_000,
                    output_file_path: "/t/42.txt".into(),
                    ..Default::default()
                }
            )),
        })
    );
}

#[test]
fn waiting_ends_with_a_line_that_fits_and_zero_only_looks() {
    let ask = |arguments: &str, text: &str| {
        let mut tools = runtime();
        let exec_id = look(&await_shell(&mut tools, arguments), None);
        result(&tools.exec_message(read_text(exec_id, text), 2_001).unwrap())
            .content
            .text()
            .into_owned()
    };
    let pattern = r#"{"shell_id":42,"pattern":"listening on \\d+"}"#;
    assert_eq!(
        &*ask(pattern, &format!("{HEAD}up\nnow listening on 80")),
        "The command of shell 42 is still running.\nThe pattern fits this line: now listening on \
         80\nOutput:\nup\nnow listening on 80\n[The whole output is in /t/42.txt.]\n"
    );
    assert_eq!(
        &*ask(pattern, &format!("{HEAD}crash\n{}", foot("unknown"))),
        "The command of shell 42 has ended.\nExit code: unknown (it was killed, or stopped with an earlier \
         turn)\nDuration: 2030 ms\nNo line of its output fits the pattern.\nOutput:\ncrash\n[The whole output is in \
         /t/42.txt.]\n"
    );
    assert_eq!(
        &*ask(r#"{"shell_id":42,"block_until_ms":0}"#, HEAD),
        "The command of shell 42 is still running, after 0 ms of waiting.\nNo output.\n[The whole output is in \
         /t/42.txt.]\n"
    );
}

#[test]
fn what_cannot_be_waited_for_is_an_error() {
    let mut tools = runtime();
    let done = result(&await_shell(&mut tools, r#"{"shell_id":42,"pattern":"("}"#));
    assert_eq!(
        &*done.content.text(),
        "AwaitShell was not executed, its arguments do not fit: `pattern` is no regular expression: unclosed group. \
         The arguments are: shell_id, block_until_ms, pattern."
    );
    let ask = |answer: answer::Message| {
        let mut tools = runtime();
        let exec_id = look(&await_shell(&mut tools, r#"{"shell_id":42}"#), None);
        let done = result(&tools.exec_message(client(exec_id, answer), 2_001).unwrap());
        assert!(done.is_error);
        let (_, state) = await_card(&mut tools);
        assert_eq!(
            state,
            await_result::Result::Error(pb::AwaitError {
                error: done.content.text().into_owned()
            })
        );
        done.content.text().into_owned()
    };
    let missing = read_result::Result::FileNotFound(pb::ReadFileNotFound {
        path: "/t/42.txt".into(),
    });
    assert_eq!(
        &*ask(answer::Message::ReadResult(pb::ReadResult {
            result: Some(missing)
        })),
        "There is no command with the shell id 42 in the background (/t/42.txt does not exist). Take the id from \
         Shell's result."
    );
    assert_eq!(
        &*ask(read_text(1, "notes\n").message.unwrap()),
        "/t/42.txt is not the output of a command."
    );
}

#[test]
fn a_waiting_call_ends_with_its_run() {
    let mut tools = runtime();
    let exec_id = look(&await_shell(&mut tools, r#"{"shell_id":42}"#), None);
    wake(&tools.exec_message(read_text(exec_id, HEAD), 2_001).unwrap());
    assert_eq!(
        tools.abort_all(),
        vec![],
        "a pause is nothing that the client could stop"
    );
    assert_eq!(tools.woke(&id("w"), 2_200), vec![]);
}

#[test]
fn a_file_that_is_no_longer_the_one_it_was_is_an_error() {
    let mut tools = runtime();
    let exec_id = look(&await_shell(&mut tools, r#"{"shell_id":42}"#), None);
    wake(&tools.exec_message(read_text(exec_id, HEAD), 2_001).unwrap());
    let exec_id = look(&tools.woke(&id("w"), 2_200), Some(8));
    let done = result(&tools.exec_message(read_text(exec_id, HEAD), 2_201).unwrap());
    assert!(done.is_error);
    assert_eq!(
        &*done.content.text(),
        "/t/42.txt could not be read on: it is cut, or no longer the same file."
    );
}

/// The client's file holds no more than the first megabyte of the output, and does not say so. [sdk]
#[test]
fn a_file_that_may_be_full_is_not_called_the_whole_output() {
    let ask = |bytes: usize| {
        let mut tools = runtime();
        let arguments = r#"{"shell_id":42,"pattern":"ready"}"#;
        let exec_id = look(&await_shell(&mut tools, arguments), None);
        let output = "0123456\n".repeat(bytes / 8);
        let text = format!("{HEAD}{output}{}", foot("0"));
        let done = result(&tools.exec_message(read_text(exec_id, &text), 2_001).unwrap());
        let text = done.content.text().into_owned();
        let before = text.split("0123456").next().unwrap().to_owned();
        (before, text.lines().last().unwrap().to_owned())
    };
    let ended = "The command of shell 42 has ended.\nExit code: 0\nDuration: 2030 ms\n";
    // One piece of 64 KiB more still fits.
    let (before, after) = ask(1024 * 1024 - 64 * 1024);
    assert_eq!(
        before,
        format!("{ended}No line of its output fits the pattern.\nThe end of its output:\n")
    );
    assert_eq!(after, "[The whole output is in /t/42.txt.]");
    let (before, after) = ask(1024 * 1024 - 64 * 1024 + 8);
    assert_eq!(
        before,
        format!(
            "{ended}No line of the output that was kept fits the pattern.\nThe end of the output that was kept:\n"
        )
    );
    assert_eq!(
        after,
        "[The client keeps about the first megabyte of a command's output, in /t/42.txt: what came later may be \
         missing. Where the end matters, have the command write to a file of its own, or print less.]"
    );
}
