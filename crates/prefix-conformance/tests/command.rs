//! The command, as a person or CI calls it: exit codes, the table, the difference, JSON.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use std::process::{Command, Output};

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
            out.contains("4 requests, provider continuity 1.0000, cacheable continuity 1.0000, resets []"),
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
