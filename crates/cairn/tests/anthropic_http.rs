//! The anthropic provider against a strict endpoint on loopback: what is sent, what comes back to whom, and what is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests fail by panicking"
)]

#[path = "support/model_events.rs"]
mod model_events;
#[path = "support/provider_input.rs"]
mod provider_input;
#[path = "support/strict_anthropic.rs"]
mod strict_anthropic;
#[path = "support/strict_chat.rs"]
mod strict_chat;

use std::sync::Arc;

use cairn::model::{
    CallId, HistoryItem, Latency, ModelRequest, ModelSpec, Part, PromptSpec, ProviderFailure, ProviderFault,
    ReasoningEffort, ReasoningSpec, ReplayState, ToolDefinition, ToolResult,
};
use cairn::provider::Provider;
use cairn::provider::anthropic::{Anthropic, AnthropicRequest, encode};
use model_events::{Answer, answer, collect, failure};
use provider_input::{
    anthropic_model, anthropic_spec, assistant, invocation, request_of, result, said, user, user_parts,
};
use serde_json::{Value, json};
use strict_anthropic::{Said, StrictAnthropic};
use strict_chat::Reply;

const KEY: &str = "sk-CANARY-123";

fn provider_with(endpoint: &StrictAnthropic, options: &str) -> Anthropic {
    Anthropic::new(&anthropic_model(&endpoint.base_url(), options)).unwrap()
}

fn offline(options: &str) -> Anthropic {
    Anthropic::new(&anthropic_model("http://127.0.0.1:1/v1", options)).unwrap()
}

fn request(history: Vec<HistoryItem>) -> ModelRequest {
    request_of(anthropic_spec(), history)
}

fn encoded(history: &[HistoryItem]) -> AnthropicRequest {
    encode(&request(history.to_vec()), offline("").profile()).unwrap()
}

/// An answer as the history holds it.
fn kept(answer: Answer) -> HistoryItem {
    let mut spoken = said(&answer.text);
    spoken.replay = answer.replay;
    let calls: Vec<(&str, &str, &str)> = answer
        .calls
        .iter()
        .map(|(id, name, arguments)| (id.as_deref().unwrap(), name.as_str(), arguments.as_str()))
        .collect();
    assistant(spoken, &calls)
}

#[tokio::test]
async fn the_second_request_extends_the_first_byte_for_byte() {
    let endpoint = StrictAnthropic::start().await;
    endpoint.say(&[
        Said::Thinking("I must \"look\".", "c2ln"),
        Said::Text("Looking."),
        Said::Call("toolu_1", "Read", "{\"path\": \"ä.txt\",\"n\":1.0,\"a\":1e3}"),
        Said::Call("toolu_2", "Shell", ""),
    ]);
    endpoint.say(&[Said::Text("Done.")]);
    let provider = provider_with(&endpoint, "");
    let mut history = vec![
        user("first"),
        user_parts(vec![
            Part::Text("a".into()),
            Part::Text(" ".into()),
            Part::Text("b".into()),
        ]),
    ];
    let first = answer(provider.call(&request(history.clone()), invocation())).await;
    history.push(kept(first));
    history.push(result("toolu_2", "two"));
    history.push(HistoryItem::ToolResult(ToolResult {
        call: CallId::new("toolu_1"),
        content: "".into(),
        is_error: true,
    }));
    history.push(user("and?"));
    let second = answer(provider.call(&request(history), invocation())).await;
    assert_eq!(second.text, "Done.");

    let requests = endpoint.requests();
    let [first, second] = requests.as_slice() else {
        panic!("{} requests", requests.len())
    };
    assert!(
        second
            .body
            .starts_with(&first.body[..first.body.len() - "]}".len()])
    );
    let expected = include_str!("fixtures/anthropic/requests/rounds.json").trim_end();
    assert_eq!(std::str::from_utf8(&second.body).unwrap(), expected);
    assert_eq!(second.headers["x-api-key"], KEY);
    assert_eq!(second.headers["anthropic-version"], "2023-06-01");
    assert!(second.headers.get("authorization").is_none());
    endpoint.assert_clean();
}

#[tokio::test]
async fn thinking_between_calls_goes_back_unchanged_and_in_place() {
    let endpoint = StrictAnthropic::start().await;
    let provider = provider_with(&endpoint, "thinking_mode = 'adaptive'\nthink_by_default = true");
    let mut history = vec![user("go")];
    let answers: [&[Said<'_>]; 5] = [
        &[
            Said::Thinking("first", "czE="),
            Said::Redacted("RW5j"),
            Said::Text("\n\n"),
            Said::Call("toolu_1", "Read", r#"{"path":"a"}"#),
            Said::Thinking("", "czI="),
            Said::Text("Then."),
            Said::Text(" Two."),
            Said::Call("toolu_2", "Read", r#"{"path":"b"}"#),
        ],
        &[Said::Call("toolu_3", "Read", "{}"), Said::Text("after the call")],
        &[Said::Thinking("nothing to say", "czM=")],
        &[
            Said::Text("Before."),
            Said::Thinking("that was all", "czQ="),
            Said::Text("\n"),
            Said::Redacted("RW5k"),
        ],
        &[Said::Text("Done.")],
    ];
    for (number, blocks) in answers.into_iter().enumerate() {
        endpoint.say(blocks);
        let answer = answer(provider.call(&request(history.clone()), invocation())).await;
        let ids: Vec<String> = answer.calls.iter().filter_map(|call| call.0.clone()).collect();
        history.push(kept(answer));
        history.extend(ids.iter().rev().map(|id| result(id, "r")));
        history.push(user(&format!("more {number}")));
    }
    endpoint.assert_clean();
}

#[tokio::test]
async fn thinking_goes_back_only_to_who_made_it() {
    let provider = offline("");
    let own = provider.profile().issuer().to_string();
    let payload =
        r#"{"version":1,"blocks":[{"raw":{"type":"redacted_thinking","data":"ZQ"}},{"call":0},{"text":2}]}"#;
    let with = |issuer: &str, payload: &str| {
        let mut spoken = said("hi");
        spoken.replay = Some(ReplayState {
            issuer: issuer.into(),
            payload: payload.into(),
        });
        let history = vec![
            user("a"),
            assistant(spoken, &[("toolu_1", "Read", "{}")]),
            result("toolu_1", "r"),
        ];
        encode(&request(history), provider.profile())
    };
    let blocks = |encoded: AnthropicRequest| {
        let message: Value = serde_json::from_slice(encoded.messages().nth(1).unwrap()).unwrap();
        message["content"].clone()
    };
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}});
    let text = json!({"type": "text", "text": "hi"});
    assert_eq!(
        blocks(with(&own, payload).unwrap()),
        json!([{"type": "redacted_thinking", "data": "ZQ"}, call, text])
    );
    for issuer in [
        "anthropic|http://127.0.0.1:1/v1|other|none",
        "openai-chat|http://127.0.0.1:1/v1|up/stream-1|none",
    ] {
        assert_eq!(
            blocks(with(issuer, payload).unwrap()),
            json!([text, call]),
            "{issuer}"
        );
    }
    for damaged in [
        r#"{"version":2,"blocks":[{"text":2},{"call":0}]}"#,
        r#"{"version":1,"blocks":[{"text":3},{"call":0}]}"#,
        r#"{"version":1,"blocks":[{"text":1},{"call":0}]}"#,
        r#"{"version":1,"blocks":[{"text":2}]}"#,
        r#"{"version":1,"blocks":[{"text":2},{"call":1}]}"#,
        r#"{"version":1,"blocks":[{"text":2},{"call":0},{"call":0}]}"#,
        "{}",
    ] {
        let failure = with(&own, damaged).unwrap_err();
        assert_eq!(failure.fault, ProviderFault::InvalidRequest, "{damaged}");
        assert!(failure.message.contains("damaged replay state"), "{failure}");
    }
}

#[test]
fn an_items_bytes_do_not_depend_on_what_follows_it() {
    let history = vec![
        user("a \"quoted\" \\ \u{1} 😀\n"),
        user("  "),
        assistant(said("x"), &[("c1", "Read", "{\"a\":\n1}"), ("c2", "Read", "{}")]),
        result("c2", "r"),
        result("c1", "r"),
        user("b"),
        assistant(said(""), &[]),
        user("c"),
    ];
    let longest = encoded(&history);
    let whole: Value = serde_json::from_slice(&longest.body).unwrap();
    // A blank message is none at all; the results of a batch share one.
    assert_eq!(whole["messages"].as_array().unwrap().len(), 5);
    // Between two results nothing is ever sent.
    for end in [1, 2, 3, 5, 6, 7, 8] {
        let shorter = encoded(&history[..end]);
        assert_eq!(shorter.head(), longest.head());
        assert!(
            shorter
                .messages()
                .eq(longest.messages().take(shorter.messages().len())),
            "{end}"
        );
        assert!(
            longest.body.starts_with(&shorter.body[..shorter.body.len() - 2]),
            "{end}"
        );
        let parts: Vec<Value> = shorter
            .messages()
            .map(|message| serde_json::from_slice(message).unwrap())
            .collect();
        let json: Value = serde_json::from_slice(&shorter.body).unwrap();
        assert_eq!(json["messages"], json!(parts));
    }
    let nothing = encode(&request(vec![user(" ")]), offline("").profile()).unwrap_err();
    assert_eq!(nothing.fault, ProviderFault::InvalidRequest);
}

#[tokio::test]
async fn ids_names_and_inputs_of_other_models_are_made_acceptable() {
    let endpoint = StrictAnthropic::start().await;
    let provider = provider_with(&endpoint, "");
    let long = "x".repeat(200);
    let odd = [
        ("functions.Read:0", "functions.Read", "[1, 2.0]"),
        ("a|b", "文", "null"),
        (long.as_str(), long.as_str(), "\"s\""),
        ("a\nb", "Read", " {\"z\":1.0} "),
    ];
    let mut history = vec![user("a"), assistant(said(""), &odd)];
    history.extend(odd.iter().map(|(id, _, _)| result(id, "r")));
    endpoint.say(&[Said::Text("ok")]);
    answer(provider.call(&request(history), invocation())).await;
    let body = endpoint.requests()[0].body.clone();
    let body = std::str::from_utf8(&body).unwrap();
    for input in [
        r#""input":{"arguments":[1, 2.0]}"#,
        r#""input":{"arguments":null}"#,
        r#""input": {"z":1.0} "#,
    ] {
        assert!(body.contains(input), "{input} in {body}");
    }
    endpoint.assert_clean();
}

#[tokio::test]
async fn errors_before_output_are_retried_with_the_same_bytes_and_later_ones_are_not() {
    let endpoint = StrictAnthropic::start().await;
    let provider = provider_with(&endpoint, "");
    let hello = request(vec![user("hello")]);
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n";
    let begin = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"hel\"}}\n\n";
    for reply in [
        Reply::status(529, &[], overloaded),
        Reply::raw(format!("{start}event: error\ndata: {overloaded}\n\n")),
        Reply::raw(start),
        Reply::disconnect(),
    ] {
        let before = endpoint.requests().len();
        endpoint.reply(reply);
        endpoint.say(&[Said::Text("hi")]);
        assert_eq!(answer(provider.call(&hello, invocation())).await.text, "hi");
        let requests = endpoint.requests();
        assert_eq!(requests.len(), before + 2);
        assert_eq!(requests[before].body, requests[before + 1].body);
    }
    for (reply, fault) in [
        (
            Reply::raw(format!("{start}{begin}event: error\ndata: {overloaded}\n\n")),
            ProviderFault::Unavailable,
        ),
        (Reply::raw(format!("{start}{begin}")), ProviderFault::Cut),
        (
            Reply::status(
                401,
                &[],
                &overloaded.replace("overloaded_error", "authentication_error"),
            ),
            ProviderFault::Authentication,
        ),
        (
            Reply::status(
                400,
                &[],
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
            ),
            ProviderFault::ContextLength,
        ),
    ] {
        let before = endpoint.requests().len();
        endpoint.reply(reply);
        let (_, failure) = failure(provider.call(&hello, invocation())).await;
        assert_eq!(failure.fault, fault, "{failure}");
        assert!(!format!("{failure:?}").contains(KEY));
        assert_eq!(endpoint.requests().len(), before + 1);
    }
    endpoint.assert_clean();
}

#[tokio::test]
async fn the_strict_endpoint_notices_what_it_is_there_to_notice() {
    let call = assistant(said("x"), &[("c1", "Read", "{}")]);
    for (history, expected) in [
        (vec![user("a"), call.clone()], "without tool_result"),
        (vec![user("a"), call.clone(), user("b")], "without tool_result"),
        (
            vec![user("a"), call.clone(), user("b"), result("c1", "r")],
            "after other blocks",
        ),
        (vec![user("a"), result("c1", "r")], "no open call"),
        (
            vec![
                user("a"),
                call.clone(),
                result("c1", "r"),
                call.clone(),
                result("c1", "r"),
            ],
            "not unique",
        ),
        (vec![call.clone(), result("c1", "r")], "must be the user's"),
    ] {
        let endpoint = StrictAnthropic::start().await;
        endpoint.say(&[Said::Text("ok")]);
        let provider = provider_with(&endpoint, "");
        let (_, failure) = collect(provider.call(&request(history), invocation())).await;
        assert_eq!(
            failure.unwrap().fault,
            ProviderFault::InvalidRequest,
            "{expected}"
        );
        let noticed = endpoint.violations();
        assert!(
            noticed.iter().any(|breach| breach.contains(expected)),
            "{expected}: {noticed:?}"
        );
    }
    // Altered thinking, and a changed prefix.
    let endpoint = StrictAnthropic::start().await;
    let provider = provider_with(&endpoint, "");
    endpoint.say(&[Said::Thinking("first", "czE="), Said::Text("hi")]);
    let first = answer(provider.call(&request(vec![user("a")]), invocation())).await;
    let mut spoken = said("hi");
    let mut replay = first.replay.unwrap();
    replay.payload = replay.payload.replace("first", "other").into();
    spoken.replay = Some(replay);
    endpoint.say(&[Said::Text("ok")]);
    collect(provider.call(
        &request(vec![user("z"), assistant(spoken, &[]), user("b")]),
        invocation(),
    ))
    .await;
    let noticed = endpoint.violations();
    for expected in ["thinking that was never given", "does not extend"] {
        assert!(
            noticed.iter().any(|breach| breach.contains(expected)),
            "{expected}: {noticed:?}"
        );
    }
}

/// Encodes one request of this model and gives its parameters.
fn parameters(options: &str, model: ModelSpec) -> Result<Value, ProviderFailure> {
    let encoded = encode(&request_of(model, vec![user("a")]), offline(options).profile())?;
    let mut json: Value = serde_json::from_slice(&encoded.body).unwrap();
    for member in [
        "model",
        "max_tokens",
        "stream",
        "cache_control",
        "tools",
        "system",
        "messages",
    ] {
        json.as_object_mut().unwrap().shift_remove(member);
    }
    Ok(json)
}

#[test]
fn what_is_asked_of_the_model_is_sent_or_refused() {
    use ReasoningEffort::{High, Low, Max, Medium, Minimal, XHigh};
    let asks = |enabled, effort| ModelSpec {
        reasoning: ReasoningSpec { enabled, effort },
        ..anthropic_spec()
    };
    let adaptive = json!({"type": "adaptive"});
    assert_eq!(parameters("", anthropic_spec()).unwrap(), json!({}));
    assert_eq!(
        parameters("think_by_default = true", anthropic_spec()).unwrap(),
        json!({"thinking": adaptive})
    );
    assert_eq!(
        parameters("", asks(Some(true), None)).unwrap(),
        json!({"thinking": adaptive})
    );
    assert_eq!(
        parameters("think_by_default = true", asks(Some(false), None)).unwrap(),
        json!({"thinking": {"type": "disabled"}})
    );
    assert_eq!(
        parameters("", asks(None, Some(ReasoningEffort::None))).unwrap(),
        json!({"thinking": {"type": "disabled"}})
    );
    let off = |options, effort| parameters(options, asks(Some(false), effort));
    assert_eq!(
        off("thinking_off = 'between_tools'", Some(High)).unwrap(),
        json!({"thinking": {"type": "between_tools"}, "output_config": {"effort": "high"}})
    );
    assert_eq!(
        parameters(
            "thinking_off = 'between_tools'",
            asks(None, Some(ReasoningEffort::None))
        )
        .unwrap(),
        json!({"thinking": {"type": "between_tools"}})
    );
    assert_eq!(
        parameters("thinking_off = 'none'", asks(None, Some(Low))).unwrap(),
        json!({"thinking": adaptive, "output_config": {"effort": "low"}})
    );
    for (options, effort) in [
        ("thinking_off = 'between_tools'", Some(XHigh)),
        ("thinking_off = 'between_tools'", Some(Max)),
        ("thinking_off = 'none'", None),
        ("efforts = ['low', 'high']", Some(Medium)),
    ] {
        let refused = off(options, effort).unwrap_err();
        assert_eq!(refused.fault, ProviderFault::Unsupported, "{options}");
    }
    for (effort, word) in [
        (Low, "low"),
        (Medium, "medium"),
        (High, "high"),
        (XHigh, "xhigh"),
        (Max, "max"),
    ] {
        assert_eq!(
            parameters("", asks(None, Some(effort))).unwrap(),
            json!({"thinking": adaptive, "output_config": {"effort": word}})
        );
    }
    assert_eq!(
        parameters("thinking_display = 'summarized'", asks(Some(true), None)).unwrap(),
        json!({"thinking": {"type": "adaptive", "display": "summarized"}})
    );
    let budget = "thinking_mode = 'budget'\nthinking_budget_tokens = 2048";
    assert_eq!(parameters(budget, anthropic_spec()).unwrap(), json!({}));
    assert_eq!(
        parameters(budget, asks(Some(true), None)).unwrap(),
        json!({"thinking": {"type": "enabled", "budget_tokens": 2048}})
    );
    assert_eq!(
        parameters(&format!("{budget}\nefforts = ['low']"), asks(None, Some(Low))).unwrap(),
        json!({"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {"effort": "low"}})
    );
    assert_eq!(
        parameters(
            "extra_body = { z = 1, metadata = { user_id = 'x' } }",
            anthropic_spec()
        )
        .unwrap()
        .to_string(),
        r#"{"z":1,"metadata":{"user_id":"x"}}"#
    );
    let fast = ModelSpec {
        latency: Latency::Fast,
        ..anthropic_spec()
    };
    assert_eq!(
        parameters("fast_body = { speed = 'fast' }", fast.clone()).unwrap(),
        json!({"speed": "fast"})
    );
    let unlimited = ModelSpec {
        max_output_tokens: None,
        ..anthropic_spec()
    };
    let small = ModelSpec {
        max_output_tokens: Some(2048),
        ..asks(Some(true), None)
    };
    for (options, model) in [
        ("", fast),
        ("", unlimited),
        ("", asks(None, Some(Minimal))),
        ("", asks(Some(true), Some(ReasoningEffort::None))),
        (budget, asks(None, Some(High))),
        (budget, small),
    ] {
        assert_eq!(
            parameters(options, model).unwrap_err().fault,
            ProviderFault::Unsupported
        );
    }
}

#[test]
fn a_bad_configuration_names_the_key() {
    let url = "http://127.0.0.1:1/v1";
    let budget = "options.thinking_budget_tokens";
    for (options, key) in [
        ("thinking_mode = 'budget'", budget),
        ("thinking_budget_tokens = 2048", budget),
        ("thinking_mode = 'budget'\nthinking_budget_tokens = 1023", budget),
        ("thinking_mode = 'budget'\nthinking_budget_tokens = 8192", budget),
        ("thinking_mode = 'auto'", "options.thinking_mode"),
        ("thinking_off = 'adaptive'", "options.thinking_off"),
        ("efforts = []", "options.efforts"),
        ("auth = 'basic'", "options.auth"),
        ("cache_control = true", "options.cache_control"),
        ("cache_ttl = '2h'", "options.cache_ttl"),
        ("extra_body = { system = 'x' }", "options.extra_body.system"),
        ("include_usage = true", "options.include_usage"),
    ] {
        assert_eq!(
            Anthropic::new(&anthropic_model(url, options)).unwrap_err().key,
            key,
            "{options}"
        );
    }
    let mut model = anthropic_model(url, "");
    model.max_output_tokens = None;
    assert_eq!(Anthropic::new(&model).unwrap_err().key, "max_output_tokens");
    for base in ["http://h/v1/messages", "http://h/v1/messages/"] {
        assert_eq!(
            Anthropic::new(&anthropic_model(base, "")).unwrap_err().key,
            "base_url"
        );
    }
}

#[tokio::test]
async fn the_base_may_hold_the_version_and_the_key_may_be_a_bearers() {
    let endpoint = StrictAnthropic::start().await;
    for base in ["", "/", "/v1", "/v1/"] {
        let options = "auth = 'bearer'\nheaders = { Anthropic-Version = '2099-01-01' }";
        let model = anthropic_model(&format!("{}{base}", endpoint.base_url()), options);
        endpoint.say(&[Said::Text("ok")]);
        answer(
            Anthropic::new(&model)
                .unwrap()
                .call(&request(vec![user("a")]), invocation()),
        )
        .await;
    }
    let last = endpoint.requests().pop().unwrap();
    assert_eq!(last.headers["authorization"], format!("Bearer {KEY}").as_str());
    assert_eq!(last.headers["anthropic-version"], "2099-01-01");
    assert!(last.headers.get("x-api-key").is_none());
    endpoint.assert_clean();
}

#[test]
fn tools_that_the_api_would_refuse_are_refused_before() {
    for (name, parameters) in [("a b", "{}"), ("", "{}"), ("文", "{}"), ("Read", "{")] {
        let mut request = request(vec![user("a")]);
        request.prompt = Arc::new(PromptSpec {
            instructions: "".into(),
            tools: vec![ToolDefinition {
                name: name.into(),
                description: "".into(),
                parameters: parameters.into(),
            }],
        });
        let failure = encode(&request, offline("").profile()).unwrap_err();
        assert_eq!(failure.fault, ProviderFault::InvalidRequest, "{name}");
    }
}
