//! The openai-responses provider against a strict endpoint on loopback: what is sent, what goes back, and the one reset
//! that an endpoint can force.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    missing_docs,
    dead_code,
    reason = "tests fail by panicking"
)]

mod support;

#[path = "support/model_events.rs"]
mod model_events;
#[path = "support/provider_input.rs"]
mod provider_input;

use std::sync::Arc;

use cairn::model::{
    HistoryItem, Latency, ModelSpec, Part, ProviderFailure, ProviderFault, ReasoningEffort, ReasoningSpec,
    ReplayState, RunOutcome,
};
use cairn::provider::Provider;
use cairn::provider::openai_responses::{OpenAiResponses, encode};
use model_events::{Answer, answer, failure};
use provider_input::{
    assistant, invocation, request, request_of, responses_model, result, said, spec, user, user_parts,
};
use serde_json::{Value, json};
use support::fake_client::Bench;
use support::strict_chat::Reply;
use support::strict_responses::{Items, StrictResponses};

fn provider(base_url: &str, options: &str) -> OpenAiResponses {
    OpenAiResponses::new(&responses_model(base_url, options)).unwrap()
}

/// The history item of an answer.
fn item_of(answer: &Answer) -> HistoryItem {
    let mut spoken = said(&answer.text);
    spoken.replay = answer.replay.clone();
    let calls: Vec<(&str, &str, &str)> = answer
        .calls
        .iter()
        .map(|(id, name, arguments)| (id.as_deref().unwrap(), name.as_str(), arguments.as_str()))
        .collect();
    assistant(spoken, &calls)
}

fn kinds(input: &[Value]) -> Vec<&str> {
    input
        .iter()
        .map(|item| match item["role"].as_str() {
            Some(role) => role,
            None => item["type"].as_str().unwrap(),
        })
        .collect()
}

#[tokio::test]
async fn the_second_request_extends_the_first_and_repeats_the_answer_in_order() {
    let endpoint = StrictResponses::start().await;
    let provider = provider(&endpoint.base_url(), "");
    endpoint.reply(
        Items::answer()
            .reasoning("gAA+/1=", &["I must \"look\"."])
            .message(Some("commentary"), "Looking.")
            .reasoning("gAA+/2=", &[])
            .call("call_1", "Read", r#"{"path": "ä.txt","n":1.0}"#)
            .call("call_2", "Shell", ""),
    );
    endpoint.reply(Items::answer().message(Some("final_answer"), "Done."));
    let mut history = vec![
        user("first"),
        user_parts(vec![Part::Text("a".into()), Part::Text("b".into())]),
    ];
    let first = answer(provider.call(&request(history.clone()), invocation())).await;
    history.push(item_of(&first));
    history.push(result("call_2", "two"));
    history.push(result("call_1", ""));
    let second = answer(provider.call(&request(history.clone()), invocation())).await;
    assert_eq!(second.text, "Done.");
    history.push(item_of(&second));
    history.push(user("more"));
    endpoint.reply(Items::answer().message(None, "."));
    answer(provider.call(&request(history), invocation())).await;

    let requests = endpoint.requests();
    let kept = requests[0].body.len() - "]}".len();
    assert_eq!(requests[0].body[..kept], requests[2].body[..kept]);
    let expected = include_str!("fixtures/openai_responses/requests/rounds.json").trim_end();
    let key = requests[0].json["prompt_cache_key"].as_str().unwrap().to_owned();
    assert_eq!(key.len(), 32);
    let sent = std::str::from_utf8(&requests[2].body)
        .unwrap()
        .replace(&key, "KEY");
    assert_eq!(sent, expected);
    assert_eq!(requests[0].headers["authorization"], "Bearer sk-CANARY-123");
    endpoint.assert_clean();
}

#[tokio::test]
async fn the_loop_holds_under_the_endpoints_rules_over_rounds_turns_and_a_repeated_call_id() {
    let endpoint = StrictResponses::start().await;
    let provider = provider(&endpoint.base_url(), "");
    for number in 1..=2 {
        endpoint.reply(
            Items::answer()
                .reasoning(&format!("enc-{number}"), &["Hm."])
                .message(Some("commentary"), "Now.")
                .call("call_1", "alpha", "{\"n\": 1}")
                .call("call_2", "beta", ""),
        );
    }
    endpoint.reply(Items::answer().reasoning("enc-3", &[]).message(None, "Done."));
    // Reasoning that nothing follows.
    endpoint.reply(Items::answer().reasoning("enc-4", &["Only thinking."]));
    endpoint.reply(Items::answer().message(None, "Bye."));
    let bench = Bench::new().await;
    let mut base = None;
    for (run, question) in [("run-1", "go"), ("run-2", "and"), ("run-3", "well")] {
        let mut client = bench.start(&provider, bench.user_turn(run, base.as_ref(), question).await);
        let outcome = client.finish(|call| format!("result of {}", call.name)).await;
        assert_eq!(outcome, RunOutcome::Completed, "{:?}", endpoint.violations());
        base = client.settled.clone();
    }
    endpoint.assert_clean();
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 5);
    let round = [
        "reasoning",
        "assistant",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ];
    let last = requests[4].input();
    assert_eq!(kinds(last)[..13], [&["user"][..], &round, &round].concat());
    assert_eq!(kinds(last)[13..], ["reasoning", "assistant", "user", "user"]);
    assert_eq!(last[9]["call_id"], "call_1-2");
    assert_eq!(last[1]["encrypted_content"], "enc-1");
}

fn with_replay(issuer: &str, payload: &str) -> Vec<HistoryItem> {
    let mut spoken = said("hi there");
    spoken.replay = Some(ReplayState {
        issuer: issuer.into(),
        payload: payload.into(),
    });
    vec![
        user("a"),
        assistant(spoken, &[("c1", "Read", "{}")]),
        result("c1", "r"),
        user("b"),
    ]
}

fn input_of(provider: &OpenAiResponses, history: Vec<HistoryItem>) -> Result<Vec<String>, ProviderFailure> {
    let encoded = encode(&request(history), provider.profile())?;
    Ok(encoded
        .items()
        .map(|item| String::from_utf8(item.to_vec()).unwrap())
        .collect())
}

#[test]
fn reasoning_goes_back_only_to_who_made_it() {
    let url = "http://127.0.0.1:1/v1";
    let plain = provider(url, "");
    let own = plain.profile().issuer().to_string();
    let payload = r#"{"version":1,"items":[{"type":"reasoning","id":"rs_1","summary":[ {"type":"summary_text","text":"\u00e9"} ],"encrypted_content":"E"},{"type":"message","id":"msg_1","phase":"commentary","parts":[{"type":"output_text","bytes":3},{"type":"refusal","bytes":5}]},{"type":"function_call","id":"fc_1"}]}"#;
    let call = r#"{"type":"function_call","call_id":"c1","name":"Read","arguments":"{}"}"#;
    let items = input_of(&plain, with_replay(&own, payload)).unwrap();
    assert_eq!(
        items[1..4],
        [
            r#"{"type":"reasoning","summary":[ {"type":"summary_text","text":"\u00e9"} ],"encrypted_content":"E"}"#,
            r#"{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"hi "},{"type":"refusal","refusal":"there"}]}"#,
            call
        ]
    );
    let with_ids = input_of(
        &provider(url, "replay_item_ids = true"),
        with_replay(&own, payload),
    )
    .unwrap();
    for (item, id) in with_ids[1..4].iter().zip(["rs_1", "msg_1", "fc_1"]) {
        assert_eq!(serde_json::from_str::<Value>(item).unwrap()["id"], id);
    }
    // An item whose id never came goes back without one.
    let nameless = payload.replace(r#""id":"rs_1","#, "");
    let items = input_of(
        &provider(url, "replay_item_ids = true"),
        with_replay(&own, &nameless),
    )
    .unwrap();
    assert_eq!(
        items[1],
        r#"{"type":"reasoning","summary":[ {"type":"summary_text","text":"\u00e9"} ],"encrypted_content":"E"}"#
    );
    assert!(items[2].contains(r#""id":"msg_1""#), "{}", items[2]);
    // Another endpoint, key, model or API made it: what everyone understands, always the same way.
    for foreign in [
        own.replace("127.0.0.1:1", "elsewhere"),
        own.replace("up/stream-1", "up/stream-2"),
        format!("{own}0"),
        own.replace("openai-responses", "openai-chat"),
    ] {
        let items = input_of(&plain, with_replay(&foreign, "not even JSON")).unwrap();
        let message =
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi there"}]}"#;
        assert_eq!(items[1..3], [message, call]);
    }
    // Damage is named, not papered over.
    for payload in [
        r#"{"version":2,"items":[]}"#,
        "{",
        r#"{"version":1,"items":[{"type":"message","parts":[{"type":"output_text","bytes":9}]},{"type":"function_call"}]}"#,
        r#"{"version":1,"items":[{"type":"message","parts":[{"type":"output_text","bytes":8}]}]}"#,
        r#"{"version":1,"items":[{"type":"function_call"}]}"#,
    ] {
        let failure = input_of(&plain, with_replay(&own, payload)).unwrap_err();
        assert_eq!(failure.fault, ProviderFault::InvalidRequest, "{payload}");
        assert!(failure.message.contains("damaged replay state"), "{failure}");
    }
}

#[tokio::test]
async fn ids_go_back_where_the_endpoint_wants_them() {
    let endpoint = StrictResponses::start().await;
    endpoint.knows_ids();
    let provider = provider(&endpoint.base_url(), "replay_item_ids = true");
    endpoint.reply(Items::answer().reasoning("E", &[]).message(None, "hi"));
    let first = answer(provider.call(&request(vec![user("a")]), invocation())).await;
    endpoint.reply(Items::answer().message(None, "ho"));
    answer(provider.call(
        &request(vec![user("a"), item_of(&first), user("b")]),
        invocation(),
    ))
    .await;
    let ids: Vec<Value> = endpoint.requests()[1]
        .input()
        .iter()
        .map(|item| item["id"].clone())
        .collect();
    assert_eq!(ids, [json!(null), json!("rs_0"), json!("msg_1"), json!(null)]);
    endpoint.assert_clean();
}

#[tokio::test]
async fn refused_reasoning_is_left_out_once_and_for_all() {
    for (code, text) in [
        (
            Some("invalid_encrypted_content"),
            "The encrypted content for item gAA…= could not be verified.",
        ),
        (
            None,
            "The encrypted content for item gAA…= could not be verified. Reason: it could not be decrypted or parsed.",
        ),
        (None, "invalid_encrypted_content"),
        (None, "input[1].encrypted_content is not valid"),
    ] {
        let endpoint = StrictResponses::start().await;
        let provider = provider(&endpoint.base_url(), "");
        endpoint.reply(
            Items::answer()
                .reasoning("old", &[])
                .message(Some("final_answer"), "one"),
        );
        let mut history = vec![user("a")];
        let first = answer(provider.call(&request(history.clone()), invocation())).await;
        history.extend([item_of(&first), user("b")]);
        let before_reset = history.clone();
        endpoint.revoke_reasoning(code, text);
        endpoint.reply(Items::answer().message(None, "two"));
        let second = answer(provider.call(&request(history.clone()), invocation())).await;
        assert_eq!(second.text, "two");
        history.extend([item_of(&second), user("c")]);
        // From here on each request extends the one without it, and new reasoning is replayed again.
        endpoint.reply(Items::answer().reasoning("new", &[]).message(None, "three"));
        let third = answer(provider.call(&request(history.clone()), invocation())).await;
        history.extend([item_of(&third), user("d")]);
        endpoint.reply(Items::answer().message(None, "four"));
        answer(provider.call(&request(history), invocation())).await;
        let requests = endpoint.requests();
        assert_eq!(requests.len(), 5, "refused once");
        assert_eq!(
            kinds(requests[1].input()),
            ["user", "reasoning", "assistant", "user"]
        );
        assert_eq!(kinds(requests[2].input()), ["user", "assistant", "user"]);
        assert_eq!(requests[2].input()[1]["phase"], "final_answer");
        assert_eq!(
            kinds(requests[4].input()),
            [
                "user",
                "assistant",
                "user",
                "assistant",
                "user",
                "reasoning",
                "assistant",
                "user"
            ]
        );
        endpoint.assert_clean();
        // A fork from before the reset finds out for itself, again with one refused request.
        endpoint.reply(Items::answer().message(None, "fork"));
        endpoint.allow_reset();
        answer(provider.call(&request(before_reset), invocation())).await;
        assert_eq!(endpoint.requests().len(), 7);
        endpoint.assert_clean();
    }
}

/// An id that a gateway did not give is not made up, also where ids go back.
#[test]
fn reasoning_without_an_id_goes_back_without_one() {
    let provider = provider("http://127.0.0.1:1/v1", "replay_item_ids = true");
    let payload = r#"{"version":1,"items":[{"type":"reasoning","summary":[],"encrypted_content":"E"},{"type":"message","id":"msg_1","parts":[{"type":"output_text","bytes":3}]}]}"#;
    let mut spoken = said("one");
    spoken.replay = Some(ReplayState {
        issuer: Arc::clone(provider.profile().issuer()),
        payload: payload.into(),
    });
    let history = vec![user("a"), assistant(spoken, &[]), user("b")];
    let encoded = encode(&request(history), provider.profile()).unwrap();
    let items: Vec<Value> = encoded
        .items()
        .map(|item| serde_json::from_slice(item).unwrap())
        .collect();
    assert_eq!(
        items[1],
        json!({"type": "reasoning", "summary": [], "encrypted_content": "E"})
    );
    assert_eq!(items[2]["id"], "msg_1");
}

#[tokio::test]
async fn a_refusal_of_something_else_is_not_repeated() {
    let endpoint = StrictResponses::start().await;
    let provider = provider(&endpoint.base_url(), "");
    endpoint.reply(Items::answer().reasoning("E", &[]).message(None, "one"));
    let first = answer(provider.call(&request(vec![user("a")]), invocation())).await;
    let history = vec![user("a"), item_of(&first), user("b")];
    for (body, fault) in [
        (
            r#"{"error":{"message":"Unknown parameter: 'include'."}}"#,
            ProviderFault::InvalidRequest,
        ),
        (
            r#"{"error":{"code":"context_length_exceeded","message":"encrypted content"}}"#,
            ProviderFault::ContextLength,
        ),
    ] {
        let before = endpoint.requests().len();
        endpoint.reply(Reply::status(400, &[], body));
        let (_, failed) = failure(provider.call(&request(history.clone()), invocation())).await;
        assert_eq!(failed.fault, fault);
        assert_eq!(endpoint.requests().len(), before + 1);
    }
    endpoint.assert_clean();
}

/// Encodes one request of this model and gives its parameters.
fn parameters(options: &str, model: ModelSpec) -> Result<Value, ProviderFailure> {
    let provider = provider("http://127.0.0.1:1/v1", options);
    let encoded = encode(&request_of(model, vec![user("a")]), provider.profile())?;
    let mut json: Value = serde_json::from_slice(&encoded.body).unwrap();
    for member in ["model", "stream", "store", "tools", "instructions", "input"] {
        json.as_object_mut().unwrap().shift_remove(member);
    }
    Ok(json)
}

#[test]
fn what_is_asked_of_the_model_is_sent_or_refused() {
    const BARE: &str = "prompt_cache_key = false\ninclude_encrypted_reasoning = false\n";
    let bare = |options: &str, model| parameters(&format!("{BARE}{options}"), model);
    let asks = |enabled, effort| ModelSpec {
        reasoning: ReasoningSpec { enabled, effort },
        ..spec()
    };
    let high = Some(ReasoningEffort::High);
    assert_eq!(bare("", spec()).unwrap(), json!({}));
    let standard = parameters("", spec()).unwrap();
    assert_eq!(standard["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(standard["prompt_cache_key"].as_str().map(str::len), Some(32));
    let limited = ModelSpec {
        max_output_tokens: Some(8192),
        ..spec()
    };
    assert_eq!(bare("", limited).unwrap(), json!({"max_output_tokens": 8192}));
    assert_eq!(
        bare("", asks(Some(true), high)).unwrap(),
        json!({"reasoning": {"effort": "high"}})
    );
    assert_eq!(
        bare("", asks(Some(false), Some(ReasoningEffort::None))).unwrap(),
        json!({"reasoning": {"effort": "none"}})
    );
    assert_eq!(
        bare("reasoning_summary = 'auto'", asks(None, high)).unwrap(),
        json!({"reasoning": {"effort": "high", "summary": "auto"}})
    );
    assert_eq!(
        bare("reasoning_summary = 'detailed'", spec()).unwrap(),
        json!({"reasoning": {"summary": "detailed"}})
    );
    assert_eq!(
        bare(
            "extra_body = { z = 1, stream_options = { include_obfuscation = false } }",
            spec()
        )
        .unwrap()
        .to_string(),
        r#"{"z":1,"stream_options":{"include_obfuscation":false}}"#
    );
    let fast = ModelSpec {
        latency: Latency::Fast,
        ..spec()
    };
    assert_eq!(
        bare("fast_body = { service_tier = 'priority' }", fast.clone()).unwrap(),
        json!({"service_tier": "priority"})
    );
    for (options, model) in [
        ("", fast),
        ("", asks(Some(true), None)),
        ("", asks(Some(false), high)),
        ("effort_parameter = 'none'", asks(None, high)),
        ("efforts = ['low', 'medium']", asks(None, high)),
    ] {
        assert_eq!(
            bare(options, model).unwrap_err().fault,
            ProviderFault::Unsupported
        );
    }
}

#[test]
fn an_items_bytes_do_not_depend_on_what_surrounds_it() {
    let provider = provider("http://127.0.0.1:1/v1", "");
    let long = format!("{}\nsecond", "x".repeat(200));
    let history = [
        user("a \"quoted\" \\ \u{1} \u{7f} \u{2028} 😀\n\r\t"),
        // Calls of other endpoints: ids that are too long, or of other characters.
        assistant(
            said("x"),
            &[(&long, "Read", "{\"a\":\n1}"), ("call|é", "Read", "{}")],
        ),
        result(&long, "r"),
        result("call|é", "s"),
        assistant(said(""), &[]),
        user("b"),
    ];
    let encode = |end: usize| encode(&request(history[..end].to_vec()), provider.profile()).unwrap();
    let longest = encode(history.len());
    for end in 0..=history.len() {
        let shorter = encode(end);
        assert_eq!(shorter.head(), longest.head());
        assert!(shorter.items().eq(longest.items().take(shorter.items().len())));
        assert!(longest.body.starts_with(&shorter.body[..shorter.body.len() - 2]));
        serde_json::from_slice::<Value>(&shorter.body).unwrap();
    }
    let json: Value = serde_json::from_slice(&longest.body).unwrap();
    let input = json["input"].as_array().unwrap();
    assert_eq!(
        kinds(input),
        [
            "user",
            "assistant",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
            "user"
        ]
    );
    assert_eq!(
        input[0]["content"][0]["text"],
        "a \"quoted\" \\ \u{1} \u{7f} \u{2028} 😀\n\r\t"
    );
    assert_eq!(input[2]["arguments"], "{\"a\":\n1}");
    for (call, output) in [(2, 4), (3, 5)] {
        let id = input[call]["call_id"].as_str().unwrap();
        assert!(id.starts_with("call_") && id.len() == 37 && id.is_ascii(), "{id}");
        assert_eq!(input[output]["call_id"], id);
    }
    assert_ne!(input[2]["call_id"], input[3]["call_id"]);
}

#[test]
fn names_of_other_models_are_made_acceptable() {
    let provider = provider("http://127.0.0.1:1/v1", "");
    let long = "x".repeat(200);
    let odd = [
        ("c1", "functions.Read", "{}"),
        ("c2", "文", "{}"),
        ("c3", long.as_str(), "{}"),
    ];
    let history = vec![user("a"), assistant(said(""), &odd)];
    let encoded = encode(&request(history), provider.profile()).unwrap();
    let names = encoded.items().skip(1).map(|item| {
        let item: Value = serde_json::from_slice(item).unwrap();
        item["name"].as_str().unwrap().to_owned()
    });
    for name in names {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(
            (1..=64).contains(&name.len()) && name.chars().all(is_plain),
            "{name}"
        );
    }
}
