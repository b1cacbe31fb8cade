//! The command, as a person or CI calls it: exit codes, the table, the difference, JSON.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use prefix_conformance::Api;
use serde_json::Value;

const HOST: &str = env!("CARGO_BIN_EXE_prefix-conformance-reference-host");

fn command(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_prefix-conformance"))
        .args(arguments)
        .env_remove("OPENAI_BASE_URL")
        .env_remove("OPENAI_API_BASE")
        .env_remove("ANTHROPIC_BASE_URL")
        .output()
        .unwrap();
    (
        status.code(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

#[test]
fn an_append_only_command_passes_in_every_api() {
    for api in Api::ALL {
        let (code, out, err) = command(&["run", "--api", api.as_str(), "--", HOST]);
        assert_eq!(code, Some(0), "{api}\n{out}{err}");
        assert!(
            out.contains("4 requests, provider continuity 100.0%, cacheable continuity 100.0%, resets []"),
            "{out}"
        );
        assert!(out.ends_with("conforms\n"), "{out}");
    }
}

#[test]
fn a_command_that_is_started_once_runs_both_turns() {
    let (code, out, err) = command(&["run", "--api", "anthropic", "--once", "--json", "--", HOST]);
    assert_eq!(code, Some(0), "{out}{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["conforms"], true);
    assert_eq!(value["outcome"]["requests"], 4);
}

#[test]
fn a_break_ends_with_1_and_shows_the_difference_and_the_share() {
    let (code, out, err) = command(&["run", "--api", "openai-chat", "--", HOST, "volatile-context"]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("BREAK"), "{out}");
    assert!(out.contains("message 1 (user) changed"), "{out}");
    assert!(
        out.contains("This is request ") && out.contains("  was   1\n") && out.contains("  is    2\n"),
        "{out}"
    );
    assert!(
        err.contains("of the previous provider prefix (minimum 95.0%)"),
        "{err}"
    );
}

#[test]
fn a_declared_tail_counts_only_where_it_is_asked_for() {
    let run = |assert_on| {
        command(&[
            "run",
            "--api",
            "openai-responses",
            "--min-continuity",
            "1",
            "--assert-on",
            assert_on,
            "--",
            HOST,
            "tail-bodies",
        ])
    };
    assert_eq!(run("provider-prefix").0, Some(1));
    let (code, out, err) = run("cacheable-prefix");
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_dropped_body_ends_with_1_and_what_cannot_be_judged_with_2() {
    let (code, _, err) = command(&["run", "--api", "openai-chat", "--", HOST, "drop-bodies"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("the body of skill `alpha` was loaded in request 1 and never reached"),
        "{err}"
    );
    for (arguments, fault) in [
        (
            &["run", "--api", "openai-chat", "--", "no-such-program"][..],
            "cannot start no-such-program",
        ),
        (
            &["run", "--api", "openai-chat", "--", HOST, "no-such-layout"],
            "ended with exit status: 1",
        ),
        (
            &["run", "--api", "openai-chat", "--input", "one", "--", HOST],
            "--input: give none or two",
        ),
        (
            &["run", "--api", "openai-chat", "--skill-tool", "read", "--", HOST],
            "request 1 has no tool `read` to load a skill with; it has: load_skill",
        ),
        (&["report", "no-such-file"], "no-such-file"),
    ] {
        let (code, out, err) = command(arguments);
        assert_eq!(code, Some(2), "{out}{err}");
        assert!(err.contains(fault), "{err}");
    }
}

/// What `sh` does with these words, as a host of the run.
fn shell<'a>(api: &'a str, options: &[&'a str], script: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["run", "--api", api];
    words.extend(options);
    words.extend(["--", "sh", "-c", script]);
    words.extend(arguments);
    words
}

/// The environment that a command wrote down with `env`.
fn environment(file: &Path) -> BTreeMap<String, String> {
    std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn the_environment_points_each_apis_clients_at_the_fixture() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("env");
    let note = note.to_str().unwrap();
    let script = r#"env > "$0.$PREFIX_CONFORMANCE_TURN"; cat > "$0.in.$PREFIX_CONFORMANCE_TURN"; exec "$1""#;
    for api in Api::ALL {
        let inputs = ["--input", "one word", "--input", "another"];
        let (code, out, err) = command(&shell(api.as_str(), &inputs, script, &[note, HOST]));
        assert_eq!(code, Some(0), "{out}{err}");
        for (turn, input) in [("1", "one word"), ("2", "another")] {
            let seen = environment(Path::new(&format!("{note}.{turn}")));
            let is = |name: &str, value: &str| {
                assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}")
            };
            let origin = &seen["PREFIX_CONFORMANCE_ORIGIN"];
            assert!(origin.starts_with("http://127.0.0.1:"), "{origin}");
            let versioned = format!("{origin}/v1");
            match api {
                Api::OpenAiChat | Api::OpenAiResponses => {
                    is("OPENAI_BASE_URL", &versioned);
                    is("OPENAI_API_BASE", &versioned);
                    is("OPENAI_API_KEY", "fixture");
                    is("PREFIX_CONFORMANCE_BASE_URL", &versioned);
                    assert!(!seen.contains_key("ANTHROPIC_BASE_URL"));
                }
                Api::Anthropic => {
                    is("ANTHROPIC_BASE_URL", origin);
                    is("ANTHROPIC_API_KEY", "fixture");
                    is("PREFIX_CONFORMANCE_BASE_URL", origin);
                    assert!(!seen.contains_key("OPENAI_BASE_URL") && !seen.contains_key("OPENAI_API_BASE"));
                }
            }
            is("PREFIX_CONFORMANCE_API", api.as_str());
            is("PREFIX_CONFORMANCE_MODEL", "fixture-model");
            is("PREFIX_CONFORMANCE_KEY", "fixture");
            is("PREFIX_CONFORMANCE_INPUT", input);
            is("PREFIX_CONFORMANCE_INPUT_1", "one word");
            is("PREFIX_CONFORMANCE_INPUT_2", "another");
            is("PREFIX_CONFORMANCE_TURN", turn);
            is("NO_PROXY", "127.0.0.1,localhost");
            is("no_proxy", "127.0.0.1,localhost");
            for folder in ["SKILLS", "SESSION"] {
                assert!(Path::new(&seen[&format!("PREFIX_CONFORMANCE_{folder}")]).is_absolute());
            }
            assert!(seen["PREFIX_CONFORMANCE_TAIL"].ends_with("tail.jsonl"));
            let given = std::fs::read_to_string(format!("{note}.in.{turn}")).unwrap();
            assert_eq!(given, format!("{input}\n"));
        }
    }
}

#[test]
fn a_command_that_is_started_once_gets_both_inputs_and_no_turn() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("env");
    let note = note.to_str().unwrap();
    let script = r#"env > "$0"; cat > "$0.in"; exec "$1""#;
    let inputs = ["--once", "--input", "one", "--input", "two"];
    let (code, out, err) = command(&shell("openai-chat", &inputs, script, &[note, HOST]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!environment(Path::new(note)).contains_key("PREFIX_CONFORMANCE_TURN"));
    assert_eq!(
        std::fs::read_to_string(format!("{note}.in")).unwrap(),
        "one\ntwo\n"
    );
}

#[test]
fn the_input_and_the_turn_are_filled_into_the_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("words");
    let note = note.to_str().unwrap();
    let script = r#"echo "$2" >> "$0"; exec "$1""#;
    let inputs = ["--input", "a {turn} b", "--input", "c"];
    let words = shell("anthropic", &inputs, script, &[note, HOST, "{turn}: {input}"]);
    let (code, out, err) = command(&words);
    // The reference host takes its layout from its arguments, and gets none here.
    assert_eq!(code, Some(0), "{out}{err}");
    // What an input holds is an input's text, and is not filled in again.
    assert_eq!(std::fs::read_to_string(note).unwrap(), "1: a {turn} b\n2: c\n");
}

#[test]
fn a_command_that_asks_too_little_hangs_or_crashes_could_not_be_judged() {
    let one_request = format!(r#"test "$PREFIX_CONFORMANCE_TURN" = 2 || exec {HOST}"#);
    for (options, script, fault) in [
        (
            &[][..],
            "exit 0",
            "turn 1 ended after 0 request(s) in all; 2 were due, two for each turn; does the host take its base URL from \
             OPENAI_BASE_URL?",
        ),
        (
            &["--once"],
            "exit 0",
            "turn 1 ended after 0 request(s) in all; 2 were due, two for each turn; does the host take its base URL from \
             OPENAI_BASE_URL?",
        ),
        (
            &[],
            one_request.as_str(),
            "turn 2 ended after 2 request(s) in all; 4 were due, two for each turn",
        ),
        (&[], "exit 3", "turn 1: sh ended with exit status: 3"),
        (&[], "kill -9 $$", "turn 1: sh ended with signal: 9 (SIGKILL)"),
        (
            &["--turn-timeout", "0"],
            "exec sleep 600",
            "turn 1 did not end within 0 s",
        ),
    ] {
        let (code, out, err) = command(&shell("openai-chat", options, script, &[]));
        assert_eq!(code, Some(2), "{script}: {out}{err}");
        assert_eq!(err, format!("prefix-conformance: {fault}\n"), "{script}");
        assert_eq!(out, "", "{script}");
    }
}

#[test]
fn json_tells_what_a_table_tells() {
    let run = |layout: &'static str, allowed: &'static str| {
        let (code, out, _) = command(&[
            "run",
            "--api",
            "openai-chat",
            "--json",
            "--allowed-resets",
            allowed,
            "--",
            HOST,
            layout,
        ]);
        (code, serde_json::from_str::<Value>(&out).unwrap())
    };
    let (code, value) = run("volatile-context", "0");
    assert_eq!((code, &value["conforms"]), (Some(1), &Value::Bool(false)));
    assert_eq!(value["outcome"]["resets"], serde_json::json!([3, 4]));
    assert_eq!(
        value["outcome"]["pairs"][0]["provider"]["boundary"]["first"],
        serde_json::json!({"message": {"message": 1, "block": 0}})
    );
    assert!(
        value["error"]
            .as_str()
            .unwrap()
            .starts_with("request 2 → 3 kept ")
    );
    // Declared resets that happen pass; one too few fails.
    assert_eq!(run("volatile-context", "2").0, Some(0));
    let (code, value) = run("append-only", "1");
    assert_eq!(code, Some(1));
    assert!(
        value["error"]
            .as_str()
            .unwrap()
            .contains("a declared reset did not happen")
    );
    // A body that was dropped has its figures too.
    let (code, value) = run("drop-bodies", "0");
    assert_eq!((code, &value["outcome"]["requests"]), (Some(1), &Value::from(4)));
}

/// A command is often a wrapper; what it started must not outlive a run that was given up.
#[test]
fn an_interrupted_run_ends_all_that_its_command_started() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let script = r#"sleep 600 & echo $! > "$0.new"; mv "$0.new" "$0"; wait"#;
    let words = shell("openai-chat", &[], script, &[note.to_str().unwrap()]);
    let child = Command::new(env!("CARGO_BIN_EXE_prefix-conformance"))
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = loop {
        match std::fs::read_to_string(&note) {
            Ok(pid) => break pid.trim().to_owned(),
            Err(_) => std::thread::yield_now(),
        }
    };
    assert!(is_running(&started));
    // The shell's own: not every system has a program for it.
    let interrupt = format!("kill -INT {}", child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &interrupt])
            .status()
            .unwrap()
            .success()
    );
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(2));
    assert_eq!(
        String::from_utf8(stderr).unwrap(),
        "prefix-conformance: interrupted\n"
    );
    while is_running(&started) {
        std::thread::yield_now();
    }
}

/// Whether a process runs. One that has ended may still be waited for by whoever inherits it.
fn is_running(id: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => !stat.rsplit_once(") ").unwrap().1.starts_with('Z'),
        // It is gone, or this system has no such files and says it otherwise.
        Err(_) => Command::new("sh")
            .args(["-c", &format!("kill -0 {id} 2>/dev/null")])
            .status()
            .unwrap()
            .success(),
    }
}
