//! Each rule on short conversations whose tokens are easy to count.

use super::*;
use crate::measure::measure;

/// A text whose Anthropic block `{"type":"text","text":"…"}` is this many tokens with its head and ends.
fn block(tokens: usize, letter: &str, marker: &str) -> String {
    let frame = "M".len() + r#""role":"user""#.len() + 1 + r#"{"type":"text","text":""}"#.len() + 1;
    let text = letter.repeat(tokens * BYTES_PER_TOKEN - frame);
    format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"{marker}}}]}}"#)
}

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn anthropic(blocks: &[String]) -> Request {
    let body = format!(r#"{{"messages":[{}]}}"#, blocks.join(","));
    Request::parse(Api::Anthropic, body.into_bytes()).unwrap()
}

/// What the rule says of each call; calls are given with their times in minutes.
fn served(rule: Rule, model: &str, calls: &[(u64, Request)]) -> Vec<(usize, usize, usize)> {
    let lane = Lane {
        api: calls[0].1.api(),
        model: model.to_owned(),
    };
    let mut caches = Caches::new(&lane);
    let mut before: Option<(&Request, Prefix)> = None;
    let mut out = Vec::new();
    for (minute, request) in calls {
        let measured = before.as_ref().map(|(before, _)| measure(before, request));
        let shared_items = measured.as_ref().map_or(0, |measured| measured.shared_items);
        let prefix = Prefix::new(request, before.as_ref().map(|(_, prefix)| prefix), shared_items);
        assert_eq!(
            prefix,
            Prefix::new(request, None, 0),
            "a shared start changes no hash"
        );
        let looked = caches.look(&Looked {
            request,
            prefix: &prefix,
            previous_bytes: measured.as_ref().map(|measured| measured.previous_bytes),
            shared_bytes: measured.as_ref().map_or(0, |measured| measured.shared_bytes),
            at_ms: minute * MINUTE_MS,
        });
        let one = looked.into_iter().find(|served| served.rule == rule).unwrap();
        out.push((one.served, one.written, one.read_again));
        before = Some((request, prefix));
    }
    out
}

#[test]
fn steps_begin_at_1024_and_go_by_128() {
    let calls = |first: usize| {
        vec![
            (0, anthropic(&[block(first, "a", "")])),
            (0, anthropic(&[block(first, "a", ""), block(500, "b", "")])),
        ]
    };
    assert_eq!(
        served(Rule::OpenAiSteps, "m", &calls(1023)),
        [(0, 0, 0), (0, 0, 1023)]
    );
    assert_eq!(
        served(Rule::OpenAiSteps, "m", &calls(1300)),
        [(0, 0, 0), (1280, 0, 20)]
    );
    assert_eq!(
        served(Rule::Block16, "m", &calls(1300)),
        [(0, 0, 0), (1296, 0, 4)]
    );
}

#[test]
fn anthropic_reads_what_was_written_at_a_marker_within_five_minutes() {
    let first = || anthropic(&[block(2000, "a", ""), block(100, "b", MARK)]);
    let second = || anthropic(&[block(2000, "a", ""), block(100, "b", ""), block(50, "c", MARK)]);
    for (minute, expected) in [(5, (2100, 50, 0)), (6, (0, 2150, 2100))] {
        let calls = [(0, first()), (minute, second())];
        assert_eq!(
            served(Rule::Anthropic, "claude-sonnet-5", &calls),
            [(0, 2100, 0), expected]
        );
    }
    // Use lets an entry live on.
    let calls = [(0, first()), (4, first()), (8, first())];
    assert_eq!(
        served(Rule::Anthropic, "claude-sonnet-5", &calls)[2],
        (2100, 0, 0)
    );
    // Below the model's minimum nothing is written.
    let calls = [(0, first()), (1, second())];
    assert_eq!(
        served(Rule::Anthropic, "claude-opus-4.6", &calls),
        [(0, 0, 0), (0, 0, 2100)]
    );
}

#[test]
fn anthropic_looks_back_twenty_blocks_and_no_further() {
    let conversation = |blocks: usize, marked: usize| {
        let blocks: Vec<String> = (0..blocks)
            .map(|index| block(100, "a", if index == marked { MARK } else { "" }))
            .collect();
        anthropic(&blocks)
    };
    for (length, hit) in [(35, true), (36, false)] {
        // The entry is at block 15 (from 0), the marker at the last.
        let calls = [(0, conversation(16, 15)), (1, conversation(length, length - 1))];
        let expected = if hit { 1600 } else { 0 };
        assert_eq!(
            served(Rule::Anthropic, "claude-sonnet-5", &calls)[1].0,
            expected,
            "{length}"
        );
    }
}

#[test]
fn anthropic_without_markers_caches_nothing_and_a_top_level_one_moves_along() {
    let plain = |count: usize| anthropic(&vec![block(1500, "a", ""); count]);
    let calls = [(0, plain(1)), (1, plain(2))];
    assert_eq!(served(Rule::Anthropic, "m", &calls)[1], (0, 0, 1500));
    let automatic = |count: usize| {
        let blocks = vec![block(1500, "a", ""); count].join(",");
        let body = format!(r#"{{"cache_control":{{"type":"ephemeral"}},"messages":[{blocks}]}}"#);
        Request::parse(Api::Anthropic, body.into_bytes()).unwrap()
    };
    let calls = [(0, automatic(1)), (1, automatic(2))];
    assert_eq!(served(Rule::Anthropic, "m", &calls)[1], (1500, 1500, 0));
}

/// Chat messages by role; each is 400 tokens.
fn chat(roles: &[&str]) -> Request {
    let messages: Vec<String> = roles
        .iter()
        .map(|role| {
            let frame = format!(r#"M{{"role":"{role}","content":""}}E"#).len();
            let text = "x".repeat(400 * BYTES_PER_TOKEN - frame);
            format!(r#"{{"role":"{role}","content":"{text}"}}"#)
        })
        .collect();
    let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
    Request::parse(Api::OpenAiChat, body.into_bytes()).unwrap()
}

#[test]
fn breakpoints_match_exactly_at_the_latest_input() {
    let first = || chat(&["system", "user", "user"]);
    let grown = || chat(&["system", "user", "user", "assistant", "user"]);
    assert_eq!(
        served(Rule::OpenAiBreakpoints, "m", &[(0, first()), (30, grown())]),
        [(0, 1200, 0), (1200, 800, 0)]
    );
    assert_eq!(
        served(Rule::OpenAiBreakpoints, "m", &[(0, first()), (31, grown())])[1].0,
        0
    );
    // Shared bytes that end at no breakpoint are worth nothing here, and much where steps count.
    let shorter = || chat(&["system", "user", "assistant", "assistant", "user"]);
    let longer = || chat(&["system", "user", "assistant", "assistant", "tool"]);
    let calls = [(0, shorter()), (1, longer())];
    assert_eq!(served(Rule::OpenAiBreakpoints, "m", &calls)[1].0, 0);
    assert_eq!(served(Rule::OpenAiSteps, "m", &calls)[1].0, 1536);
}

/// With `"mode":"explicit"` nothing is written or found but at markers.
#[test]
fn breakpoints_are_markers_alone_where_the_request_says_so() {
    let request = |messages: usize, marked: Option<usize>| {
        let messages: Vec<String> = (0..messages)
            .map(|index| {
                let marker = match marked == Some(index) {
                    true => r#","prompt_cache_breakpoint":{"mode":"explicit"}"#,
                    false => "",
                };
                let frame = r#"M{"role":"user","content":[{"type":"text","text":""}]}E"#.len();
                let text = "x".repeat(600 * BYTES_PER_TOKEN - frame);
                format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"{marker}}}]}}"#)
            })
            .collect();
        let body = format!(
            r#"{{"prompt_cache_options":{{"mode":"explicit","ttl":"30m"}},"messages":[{}]}}"#,
            messages.join(",")
        );
        Request::parse(Api::OpenAiChat, body.into_bytes()).unwrap()
    };
    let unmarked = [(0, request(2, None)), (1, request(3, None))];
    assert_eq!(
        served(Rule::OpenAiBreakpoints, "m", &unmarked),
        [(0, 0, 0), (0, 0, 1200)]
    );
    let marked = [
        (0, request(2, Some(1))),
        (1, request(3, Some(1))),
        (2, request(4, None)),
    ];
    assert_eq!(
        served(Rule::OpenAiBreakpoints, "m", &marked),
        [(0, 1200, 0), (1200, 0, 0), (0, 0, 1800)]
    );
}

#[test]
fn deepseek_serves_whole_units_with_the_output_that_followed() {
    let first = || chat(&["system", "user"]);
    let grown = || chat(&["system", "user", "assistant", "user"]);
    let other = || chat(&["system", "tool"]);
    assert_eq!(
        served(Rule::DeepSeek, "m", &[(0, first()), (1, grown())])[1].0,
        1200
    );
    // The start that two requests share is a unit for the third.
    let calls = [(0, first()), (1, other()), (2, chat(&["system", "developer"]))];
    let got: Vec<usize> = served(Rule::DeepSeek, "m", &calls)
        .into_iter()
        .map(|(served, ..)| served)
        .collect();
    assert_eq!(got, [0, 0, 400]);
}

#[test]
fn prices_follow_the_documented_factors() {
    let lane = Lane {
        api: Api::Anthropic,
        model: "claude-sonnet-5".into(),
    };
    let request = anthropic(&[block(2000, "a", MARK), block(100, "b", "")]);
    let prefix = Prefix::new(&request, None, 0);
    let mut caches = Caches::new(&lane);
    let looked = Looked {
        request: &request,
        prefix: &prefix,
        previous_bytes: None,
        shared_bytes: 0,
        at_ms: 0,
    };
    let price = |caches: &mut Caches| {
        caches
            .look(&looked)
            .into_iter()
            .find(|served| served.rule == Rule::Anthropic)
            .unwrap()
            .price
    };
    assert_eq!(price(&mut caches), Some(2000.0 * 1.25 + 100.0));
    assert_eq!(price(&mut caches), Some(2000.0 * 0.1 + 100.0));
}

#[test]
fn minimums_follow_the_model() {
    for (model, expected) in [
        ("claude-opus-5-20260101", 512),
        ("anthropic/claude-opus-4.7", 2048),
        ("claude-opus-4-6", 4096),
        ("claude-opus-4-8", 1024),
        ("claude-sonnet-4-5", 1024),
        ("claude-haiku-4-5", 4096),
        ("claude-3-5-haiku-latest", 2048),
        ("something else", 1024),
    ] {
        assert_eq!(anthropic_minimum(model), expected, "{model}");
    }
}
