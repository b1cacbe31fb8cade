//! `record` and `report`, as a person or CI calls them: every form, every exit code, and what cannot be read.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use prefix_conformance::Api;
use prefix_conformance::recording::{NewCall, RecordingWriter};
use prefix_conformance::report::Report;
use serde_json::{Value, json};

const COMMAND: &str = env!("CARGO_BIN_EXE_prefix-conformance");

fn command(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(COMMAND).args(arguments).output().unwrap();
    (
        status.code(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn recording(&self, bodies: &[Vec<u8>]) -> String {
        let file = std::fs::File::create(self.path("recording.jsonl")).unwrap();
        let mut writer = RecordingWriter::new(file).unwrap();
        for body in bodies {
            let call = NewCall {
                at_ms: 0,
                api: Api::OpenAiChat,
                body: body.clone(),
            };
            writer.call(call).unwrap();
        }
        self.text("recording.jsonl")
    }
}

fn body(system: &str, said: usize) -> Vec<u8> {
    let mut messages = vec![json!({"role": "system", "content": format!("{system}{}", "s".repeat(400))})];
    messages.extend((0..said).map(|index| json!({"role": "user", "content": format!("turn {index}")})));
    json!({"model": "m", "messages": messages})
        .to_string()
        .into_bytes()
}

/// Three calls, of which the last one breaks.
fn one_break() -> Vec<Vec<u8>> {
    vec![body("monday ", 1), body("monday ", 2), body("tuesday ", 3)]
}

#[test]
fn each_form_goes_where_it_is_told() {
    let folder = Folder::new();
    let file = folder.recording(&one_break());
    let report = Report::read(Path::new(&file)).unwrap();
    let json = serde_json::to_string_pretty(&report).unwrap() + "\n";
    let forms: [(&[&str], String); 3] = [
        (&[], report.text()),
        (&["--json"], json),
        (&["--html"], report.html()),
    ];
    for (form, expected) in forms {
        let with = |more: &[&str]| {
            let mut words = vec!["report", file.as_str()];
            words.extend(form);
            words.extend(more);
            command(&words)
        };
        assert_eq!(with(&[]), (Some(0), expected.clone(), String::new()), "{form:?}");
        let out = folder.text("out");
        assert_eq!(with(&["--out", &out]), (Some(0), String::new(), String::new()));
        assert_eq!(std::fs::read_to_string(&out).unwrap(), expected);
    }
    let value: Value = serde_json::from_str(&command(&["report", &file, "--json"]).1).unwrap();
    assert_eq!(
        (
            &value["calls"],
            &value["pairs"],
            &value["resets"],
            &value["lost_tokens"]
        ),
        (&json!(3), &json!(2), &json!([3]), &json!(report.lost_tokens))
    );
    let boundary = &value["lanes"][0]["calls"][2]["kept"]["boundary"];
    assert_eq!(
        (
            &boundary["change"],
            &boundary["message"],
            &boundary["difference"]["previous"]
        ),
        (&json!("changed"), &json!(0), &json!("mon"))
    );
    assert_eq!(value["lanes"][0]["caches"][0]["rule"], "openai-steps");
}

#[test]
fn expected_resets_decide_the_exit_code_in_every_form() {
    let folder = Folder::new();
    let file = folder.recording(&one_break());
    for form in [&[][..], &["--json"], &["--html"]] {
        for (expected, exit) in [("0", 1), ("1", 0), ("2", 1)] {
            let mut words = vec!["report", &file, "--expect-resets", expected];
            words.extend(form);
            let (code, out, err) = command(&words);
            assert_eq!(code, Some(exit), "{expected} {form:?}");
            assert!(!out.is_empty());
            let said = match exit {
                0 => String::new(),
                _ => format!("prefix-conformance: 1 call(s) broke [3], {expected} were expected\n"),
            };
            assert_eq!(err, said);
        }
    }
    // What counts as a break is the caller's to say.
    let strict = |share: &'static str, expected: &'static str| {
        command(&[
            "report",
            &file,
            "--min-continuity",
            share,
            "--expect-resets",
            expected,
        ])
        .0
    };
    assert_eq!(
        (strict("0", "0"), strict("1", "1"), strict("1", "0")),
        (Some(0), Some(0), Some(1))
    );
}

#[test]
fn what_was_not_measured_does_not_pass_an_expectation() {
    let folder = Folder::new();
    for (bodies, why) in [
        (
            vec![body("monday ", 1)],
            "Nothing to compare: no call has a measured one before it",
        ),
        (
            vec![body("monday ", 1), body("monday ", 2), b"{".to_vec()],
            "Every call kept all of the one before it (1 pair); 1 call could not be measured: 3",
        ),
    ] {
        let file = folder.recording(&bodies);
        assert_eq!(command(&["report", &file]).0, Some(0));
        let (code, _, err) = command(&["report", &file, "--expect-resets", "0"]);
        assert_eq!(code, Some(2));
        assert_eq!(
            err,
            format!("prefix-conformance: --expect-resets cannot be judged: {why}\n")
        );
    }
}

#[test]
fn what_cannot_be_read_or_makes_no_sense_ends_with_2_and_says_why() {
    let folder = Folder::new();
    let file = folder.recording(&one_break());
    let write = |name: &str, content: &[u8]| {
        std::fs::write(folder.path(name), content).unwrap();
        folder.text(name)
    };
    let whole = std::fs::read_to_string(&file).unwrap();
    let head = whole.lines().next().unwrap();
    let empty = write("empty", b"");
    let other = write("other", b"{\"type\":\"something else\"}\n");
    let endless = write("endless", &vec![b'x'; 5 << 20]);
    let later = write("later", head.replace(":1}", ":2}\n").as_bytes());
    let long = write("long", format!("{head}\n{}", "x".repeat(5 << 20)).as_bytes());
    let damaged = write(
        "damaged",
        whole.replacen("\"keep\":0", "\"keep\":-1", 1).as_bytes(),
    );
    let missing = folder.text("missing");
    let no_recording = "is no recording of version 1; make one with `prefix-conformance record`";
    for (words, fault) in [
        (vec!["report", &missing], "No such file or directory"),
        (vec!["report", &empty], no_recording),
        (vec!["report", &other], no_recording),
        (vec!["report", &endless], no_recording),
        (vec!["report", &later], no_recording),
        (
            vec!["report", &long],
            "long, line 2: is longer than any line of a recording",
        ),
        (
            vec!["report", &damaged],
            "damaged, line 2: invalid value: integer `-1`",
        ),
        (
            vec!["report", &file, "--out", &missing, "--min-continuity", "95"],
            "--min-continuity: a fraction from 0 to 1",
        ),
        (vec!["report", &file, "--html", "--json"], "cannot be used with"),
        (vec!["report"], "required arguments"),
        (
            vec!["report", &file, "--out", "/no/such/folder/out"],
            "--out /no/such/folder/out: No such file",
        ),
        (
            vec!["run", "--api", "chat", "--", "true"],
            "chat is no API; use openai-chat, openai-responses or anthropic",
        ),
        (
            vec!["record", "--upstream", "ftp://h", "--out", &missing],
            "--upstream: ftp://h is no http or https URL",
        ),
        (
            vec!["record", "--upstream", "http://h", "--out", &file],
            "File exists",
        ),
        (
            vec![
                "record",
                "--upstream",
                "http://h",
                "--out",
                &missing,
                "--listen",
                "nowhere",
            ],
            "--listen nowhere:",
        ),
    ] {
        let (code, out, err) = command(&words);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{words:?}: {err}");
        assert!(err.contains(fault), "{words:?}: {err}");
    }
    assert!(
        !folder.path("missing").exists(),
        "a mistake leaves no file behind"
    );
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        whole,
        "a recording is never written over"
    );
}

#[test]
fn a_cut_recording_is_reported_up_to_its_cut() {
    let folder = Folder::new();
    let file = folder.recording(&one_break());
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 3]).unwrap();
    let (code, out, err) = command(&["report", &file]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.contains("The recording ends inside a line: its recorder was stopped while it wrote.\n"),
        "{out}"
    );
    assert!(
        out.ends_with("Every call kept all of the one before it (1 pair).\n"),
        "{out}"
    );
}

#[test]
fn compressed_bodies_are_named_as_such_and_the_others_are_measured() {
    let folder = Folder::new();
    let file = folder.recording(&[
        b"\x1f\x8b\x08 zipped".to_vec(),
        b"\x28\xb5\x2f\xfd zipped".to_vec(),
    ]);
    let (code, out, _) = command(&["report", &file]);
    assert_eq!(code, Some(0));
    for (call, kind) in [(1, "gzip"), (2, "zstd")] {
        let said = format!(
            "call {call}: not measured: the body is compressed ({kind}); let the host send its requests uncompressed"
        );
        assert!(out.contains(&said), "{out}");
    }
}

#[test]
fn a_recorder_that_is_interrupted_ends_well_and_leaves_what_came() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let folder = Folder::new();
    let out = folder.text("out.jsonl");
    let mut child = Command::new(COMMAND)
        .args([
            "record",
            "--upstream",
            &format!("http://{address}"),
            "--out",
            &out,
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let listening = line.trim_end().strip_prefix("listening on http://").unwrap();
    let body = r#"{"model":"m","messages":[]}"#;
    let mut client = TcpStream::connect(listening).unwrap();
    write!(
        client,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let (mut served, _) = upstream.accept().unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(body.as_bytes()) {
        let mut piece = [0; 1024];
        let read = served.read(&mut piece).unwrap();
        assert!(read > 0);
        seen.extend_from_slice(&piece[..read]);
    }
    let answer = r#"{"usage":{"prompt_tokens":7}}"#;
    write!(
        served,
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )
    .unwrap();
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert!(received.ends_with(answer), "{received}");
    let interrupt = format!("kill -INT {}", child.id());
    let killed = Command::new("sh").args(["-c", &interrupt]).status().unwrap();
    assert!(killed.success());
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(0), "{ended}");
    let report = Report::read(Path::new(&out)).unwrap();
    assert_eq!((report.calls, report.cut), (1, false));
}
