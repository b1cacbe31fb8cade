//! Recordings: what is written comes back, each body once; and what a report says of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

use std::path::{Path, PathBuf};

use prefix_conformance::recording::{Answer, Lane, NewCall, Recording, RecordingError, RecordingWriter};
use prefix_conformance::report::{Report, Rule};
use prefix_conformance::{Api, Position};
use proptest::prelude::*;
use serde_json::json;

fn write(path: &Path, bodies: &[(Api, Vec<u8>)]) {
    let mut writer = RecordingWriter::new(std::fs::File::create(path).unwrap()).unwrap();
    for (index, (api, body)) in bodies.iter().enumerate() {
        let call = NewCall {
            at_ms: index as u64,
            api: *api,
            body: body.clone(),
        };
        assert_eq!(writer.call(call).unwrap(), index + 1);
    }
}

fn read(path: &Path) -> Vec<(usize, Api, Vec<u8>)> {
    let recording = Recording::open(path).unwrap();
    let mut calls = Vec::new();
    for lane in recording.lanes() {
        let mut reader = recording.read_lane(lane).unwrap();
        let mut last = Vec::new();
        while let Some((call, body)) = reader.next(&last, Vec::new()).unwrap() {
            calls.push((call.call, lane.api, body.clone()));
            last = body;
        }
    }
    calls.sort_by_key(|(call, ..)| *call);
    calls
}

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.jsonl");
    (folder, path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_body_comes_back_byte_for_byte(
        bodies in prop::collection::vec((0usize..3, prop_oneof![
            // Characters of one to four bytes, so that shared starts and ends fall inside of them.
            prop::collection::vec(prop::sample::select(vec!["a", "\"", "é", "è", "€", "₤", "😀", "😁"]), 0..12)
                .prop_map(|pieces| pieces.concat().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..12),
        ]), 0..8)
    ) {
        let (_folder, path) = temporary();
        let bodies: Vec<(Api, Vec<u8>)> = bodies.into_iter().map(|(api, body)| (Api::ALL[api], body)).collect();
        write(&path, &bodies);
        let expected: Vec<_> = bodies
            .into_iter()
            .enumerate()
            .map(|(index, (api, body))| (index + 1, api, body))
            .collect();
        prop_assert_eq!(read(&path), expected);
    }
}

#[test]
fn long_bodies_are_cut_into_short_lines_and_repeated_ones_cost_nothing() {
    let (_folder, path) = temporary();
    let text = "ü\"\n".repeat(100_000);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
    let longer = body.replace("]}", r#",{"role":"user","content":"more"}]}"#);
    let bodies =
        [body.clone(), longer.clone(), longer.clone()].map(|body| (Api::OpenAiChat, body.into_bytes()));
    write(&path, &bodies);
    assert_eq!(
        read(&path).into_iter().map(|(.., body)| body).collect::<Vec<_>>(),
        bodies.map(|(_, body)| body)
    );
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(file.lines().all(|line| line.len() < 256 << 10));
    let after_first = file.split("\"call\":2").nth(1).unwrap();
    assert!(after_first.len() < 400, "{after_first}");
}

#[test]
fn lanes_are_compared_apart() {
    let (_folder, path) = temporary();
    let body = |model: &str, said: &[&str]| {
        let messages: Vec<_> = said
            .iter()
            .map(|said| json!({"role": "user", "content": said}))
            .collect();
        (
            Api::OpenAiChat,
            json!({"model": model, "messages": messages})
                .to_string()
                .into_bytes(),
        )
    };
    write(
        &path,
        &[
            body("big", &["a"]),
            body("small", &["title"]),
            body("big", &["a", "b"]),
            body("small", &["title", "again"]),
        ],
    );
    let report = Report::read(&path).unwrap();
    assert_eq!(
        (report.calls, report.resets.clone(), report.lowest_continuity),
        (4, vec![], 1.0)
    );
    let lanes: Vec<(&str, Vec<usize>)> = report
        .lanes
        .iter()
        .map(|lane| {
            (
                lane.lane.model.as_str(),
                lane.calls.iter().map(|call| call.call).collect(),
            )
        })
        .collect();
    assert_eq!(lanes, [("big", vec![1, 3]), ("small", vec![2, 4])]);
}

#[test]
fn a_report_says_what_broke_where_and_what_it_cost() {
    let (_folder, path) = temporary();
    let body = |system: &str, said: usize, temperature: u32| {
        let mut messages =
            vec![json!({"role": "system", "content": format!("{system}{}", "s".repeat(8000))})];
        messages.extend((0..said).map(|index| json!({"role": "user", "content": format!("turn {index}")})));
        json!({"model": "m", "temperature": temperature, "messages": messages})
            .to_string()
            .into_bytes()
    };
    let bodies = [
        body("monday ", 1, 0),
        body("monday ", 2, 0),
        body("tuesday ", 3, 1),
    ];
    let mut writer = RecordingWriter::new(std::fs::File::create(&path).unwrap()).unwrap();
    for body in bodies {
        writer
            .call(NewCall {
                at_ms: 0,
                api: Api::OpenAiChat,
                body,
            })
            .unwrap();
    }
    writer
        .answer(Answer {
            call: 2,
            status: 200,
            bytes: 10,
            whole: true,
            usage: Some(json!({"prompt_tokens": 2100, "prompt_tokens_details": {"cached_tokens": 1920}})),
        })
        .unwrap();
    let report = Report::read(&path).unwrap();
    assert_eq!(
        (report.calls, report.resets.as_slice(), report.cut),
        (3, &[3][..], false)
    );
    let lane = &report.lanes[0];
    assert_eq!(
        lane.lane,
        Lane {
            api: Api::OpenAiChat,
            model: "m".into()
        }
    );
    let [first, second, third] = &lane.calls[..] else {
        panic!("{lane:?}")
    };
    assert_eq!(first.kept, None);
    let kept = second.kept.as_ref().unwrap();
    assert_eq!(
        (kept.continuity, kept.broke, kept.boundary.clone()),
        (1.0, false, None)
    );
    let usage = second.usage.unwrap();
    assert_eq!(
        (usage.input, usage.cache_read, usage.cache_write, usage.output),
        (Some(2100), Some(1920), None, None)
    );
    assert_eq!(
        (second.status, third.status, third.usage),
        (Some(200), None, None)
    );
    let kept = third.kept.as_ref().unwrap();
    let boundary = kept.boundary.as_ref().unwrap();
    assert!(kept.broke);
    assert_eq!(boundary.first, Position::Message { message: 0, block: 0 });
    assert_eq!(boundary.to_string(), "message 0 (system) changed");
    assert!(boundary.difference.previous == "mon");
    assert!(boundary.difference.later == "tues" && boundary.difference.then.starts_with("day sss"));
    assert_eq!(kept.changed_parameters, ["temperature"]);
    assert_eq!(kept.lost_tokens, (kept.previous_bytes - kept.shared_bytes) / 4);
    assert_eq!(report.lost_tokens, kept.lost_tokens);
    let steps = |index: usize| {
        lane.calls[index]
            .caches
            .iter()
            .find(|served| served.rule == Rule::OpenAiSteps)
            .unwrap()
    };
    assert_eq!((steps(0).served, steps(1).served, steps(2).served), (0, 1920, 0));
    assert_eq!(steps(2).read_again, kept.previous_bytes / 4);

    let text = report.text();
    assert!(text.contains("call 2 → 3: message 0 (system) changed"), "{text}");
    let end = "3 call(s), 1 break(s) below 95.0%, lowest continuity 0.3%, about 2020 tokens sent before and not kept\n\
               The prefix broke once, at call 3 (turn 3).\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_body_that_is_no_request_is_reported_and_the_next_ones_are_measured() {
    let (_folder, path) = temporary();
    let good = br#"{"model":"","messages":[]}"#.to_vec();
    write(
        &path,
        &[
            (Api::Anthropic, good.clone()),
            (Api::Anthropic, b"{".to_vec()),
            (Api::Anthropic, good),
        ],
    );
    let report = Report::read(&path).unwrap();
    let faults: Vec<Option<&str>> = report.lanes[0]
        .calls
        .iter()
        .map(|call| call.fault.as_deref())
        .collect();
    assert_eq!(
        faults,
        [
            None,
            Some("the body is no anthropic request: byte 1: expected a string"),
            None
        ]
    );
    assert!(report.lanes[0].calls.iter().all(|call| call.kept.is_none()));
}

#[test]
fn a_recorder_that_was_stopped_leaves_what_it_had_written() {
    let (_folder, path) = temporary();
    let body = |said: &str| {
        (
            Api::OpenAiChat,
            json!({"messages": [{"role": "user", "content": said}]})
                .to_string()
                .into_bytes(),
        )
    };
    write(&path, &[body("one"), body("two")]);
    let file = std::fs::read(&path).unwrap();
    let first_line = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut seen = Vec::new();
    for end in first_line..=file.len() {
        std::fs::write(&path, &file[..end]).unwrap();
        let report = Report::read(&path).unwrap();
        assert_eq!(report.cut, file[end - 1] != b'\n', "{end}");
        seen.push(report.calls);
    }
    assert!(seen.is_sorted());
    assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&2)));
}

#[test]
fn what_is_no_recording_or_is_damaged_is_an_error() {
    let (_folder, path) = temporary();
    assert!(matches!(Report::read(&path), Err(RecordingError::File { .. })));
    std::fs::write(&path, "{\"version\":1}\n").unwrap();
    assert!(matches!(
        Report::read(&path),
        Err(RecordingError::NoRecording { .. })
    ));
    let head = "{\"type\":\"prefix-conformance-recording\",\"version\":1}\n";
    let call = |bytes: usize, keep: usize| {
        format!(
            "{{\"type\":\"call\",\"call\":1,\"at_ms\":0,\"api\":\"anthropic\",\"model\":\"\",\"bytes\":{bytes},\"keep\":{keep},\"tail\":0}}\n"
        )
    };
    for (rest, line, fault) in [
        ("x\n".to_owned(), 2, "expected value"),
        (
            "{\"type\":\"text\",\"text\":\"a\"}\n".to_owned(),
            2,
            "is a piece of no body",
        ),
        (call(2, 1), 2, "takes more of the body before it than there is"),
        (
            call(1, 0) + "{\"type\":\"text\",\"text\":\"ab\"}\n",
            3,
            "does not belong into the body that is open",
        ),
    ] {
        std::fs::write(&path, format!("{head}{rest}")).unwrap();
        match Report::read(&path) {
            Err(RecordingError::Damaged {
                line: found,
                fault: said,
                ..
            }) => {
                assert!(found == line && said.starts_with(fault), "{found}: {said}");
            }
            other => panic!("{other:?}"),
        }
    }
}
