//! Where anthropic requests are marked for the cache: a simulated cache with the API's rules (four markers, entries only at
//! markers, a look-back of twenty positions) finds the whole of each request again in the next one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests fail by panicking"
)]

#[path = "support/provider_input.rs"]
mod provider_input;
#[path = "support/strict_anthropic.rs"]
mod strict_anthropic;
#[path = "support/strict_chat.rs"]
mod strict_chat;

use std::sync::{Arc, LazyLock};

use cairn::model::{HistoryItem, PromptSpec, ReplayState, first_break};
use cairn::provider::anthropic::{Anthropic, AnthropicRequest, encode};
use proptest::prelude::*;
use provider_input::{anthropic_model, anthropic_spec, assistant, request_of, result, said, user};
use serde_json::Value;
use strict_anthropic::PromptCache;

static AUTOMATIC: LazyLock<Anthropic> = LazyLock::new(|| provider(""));
static EXPLICIT: LazyLock<Anthropic> =
    LazyLock::new(|| provider("cache_control = 'explicit'\ncache_ttl = '1h'"));

fn provider(options: &str) -> Anthropic {
    Anthropic::new(&anthropic_model("http://127.0.0.1:1/v1", options)).unwrap()
}

fn encoded(provider: &Anthropic, history: &[HistoryItem]) -> (AnthropicRequest, Value) {
    let request = request_of(anthropic_spec(), history.to_vec());
    let encoded = encode(&request, provider.profile()).unwrap();
    let json = serde_json::from_slice(&encoded.body).unwrap();
    (encoded, json)
}

/// What one request adds to the one before it.
#[derive(Clone, Debug)]
struct Step {
    thoughts: usize,
    calls: usize,
    messages: usize,
    /// Messages in each of which the person tries again, because the call before failed.
    retries: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (0..20usize, 0..40usize, 1..25usize, 0..4usize).prop_map(|(thoughts, calls, messages, retries)| {
            Step {
                thoughts,
                calls,
                messages,
                retries,
            }
        });
    prop::collection::vec(step, 1..8)
}

/// An answer of thinking and calls, its thoughts first.
fn thought(provider: &Anthropic, step: &Step, number: usize) -> Vec<HistoryItem> {
    let ids: Vec<String> = (0..step.calls).map(|call| format!("c{number}_{call}")).collect();
    let calls: Vec<(&str, &str, &str)> = ids.iter().map(|id| (id.as_str(), "Read", "{}")).collect();
    let mut blocks: Vec<String> = (0..step.thoughts)
        .map(|thought| format!(r#"{{"raw":{{"type":"thinking","thinking":"{thought}","signature":"s"}}}}"#))
        .collect();
    blocks.push(r#"{"text":2}"#.to_owned());
    blocks.extend((0..step.calls).map(|call| format!(r#"{{"call":{call}}}"#)));
    let mut spoken = said("ok");
    spoken.replay = Some(ReplayState {
        issuer: provider.profile().issuer().clone(),
        payload: format!(r#"{{"version":1,"blocks":[{}]}}"#, blocks.join(",")).into(),
    });
    let mut items = vec![assistant(spoken, &calls)];
    items.extend(ids.iter().map(|id| result(id, "r")));
    items
}

fn markers(body: &[u8]) -> usize {
    std::str::from_utf8(body)
        .unwrap()
        .matches("\"cache_control\"")
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn each_request_finds_the_one_before_it_whatever_is_added(steps in steps(), is_automatic: bool) {
        let provider = if is_automatic { &*AUTOMATIC } else { &*EXPLICIT };
        let mut cache = PromptCache::default();
        let mut history = vec![user("begin")];
        // Blocks of the newest request that the endpoint answered.
        let mut answered = 0;
        // What the newest request is remembered by: markers come and go, and are no part of it.
        let mut remembered = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let (request, json) = encoded(provider, &history);
            prop_assert!(markers(&request.body) <= 4);
            prop_assert_eq!(first_break(&remembered, request.items()), None);
            remembered = request.items().to_vec();
            let found = cache.ask(&json);
            prop_assert!(found >= answered, "{found} of {answered} at step {number}");
            answered = PromptCache::positions(&json).len();
            for retry in 0..step.retries {
                // A call that failed wrote nothing; the person goes on.
                history.push(user(&format!("again {retry}")));
            }
            if step.retries > 0 {
                let (_, json) = encoded(provider, &history);
                let found = cache.ask(&json);
                prop_assert!(found >= answered, "{found} of {answered} after failed calls at step {number}");
                answered = PromptCache::positions(&json).len();
            }
            history.extend(thought(provider, step, number));
            history.extend((0..step.messages).map(|message| user(&format!("{message}"))));
        }
    }

    #[test]
    fn but_for_markers_each_request_extends_the_one_before_it_byte_for_byte(steps in steps(), is_automatic: bool) {
        let provider = if is_automatic { &*AUTOMATIC } else { &*EXPLICIT };
        let marker = if is_automatic { r#","cache_control":{"type":"ephemeral"}"# } else { r#","cache_control":{"type":"ephemeral","ttl":"1h"}"# };
        let plain = |request: &AnthropicRequest| String::from_utf8(request.body.to_vec()).unwrap().replace(marker, "");
        let mut history = vec![user("begin")];
        let mut earlier = plain(&encoded(provider, &history).0);
        for (number, step) in steps.iter().enumerate() {
            history.extend(thought(provider, step, number));
            history.push(user("on"));
            let later = plain(&encoded(provider, &history).0);
            prop_assert!(later.starts_with(&earlier[..earlier.len() - 2]));
            earlier = later;
        }
    }
}

#[test]
fn in_automatic_mode_old_bytes_change_only_when_a_third_long_step_begins() {
    let mut history = vec![user("begin")];
    let mut earlier = encoded(&AUTOMATIC, &history).0.body;
    let mut changed = Vec::new();
    for (number, calls) in [2, 12, 3, 5, 40, 1, 1, 30, 2].into_iter().enumerate() {
        let step = Step {
            thoughts: 1,
            calls,
            messages: 0,
            retries: 0,
        };
        history.extend(thought(&AUTOMATIC, &step, number));
        let later = encoded(&AUTOMATIC, &history).0.body;
        if !later.starts_with(&earlier[..earlier.len() - 2]) {
            changed.push(number);
        }
        earlier = later;
    }
    assert_eq!(changed, [7]);
}

#[test]
fn the_head_is_marked_for_other_conversations() {
    let mut cache = PromptCache::default();
    for text in ["one", "two"] {
        let (_, json) = encoded(&AUTOMATIC, &[user(text)]);
        let found = cache.ask(&json);
        assert_eq!(found, if text == "one" { 0 } else { 3 });
    }
    // Without a system prompt the last tool stands for it; without markers there are none.
    let mut request = request_of(anthropic_spec(), vec![user("a")]);
    request.prompt = Arc::new(PromptSpec {
        instructions: " ".into(),
        ..(*request.prompt).clone()
    });
    let body = encode(&request, AUTOMATIC.profile()).unwrap().body;
    let json: Value = serde_json::from_slice(&body).unwrap();
    assert!(json.get("system").is_none() && json["tools"][1]["cache_control"].is_object());
    let body = encode(&request, provider("cache_control = 'none'").profile())
        .unwrap()
        .body;
    assert_eq!(markers(&body), 0);
}
