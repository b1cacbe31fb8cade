//! From configured models to providers, and the offline model.

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

use std::sync::Arc;

use cairn::config::{Api, ModelConfig};
use cairn::model::{HistoryItem, Latency, ModelSpec, ProviderFault};
use cairn::provider::{Provider, ProviderRouter, StopReason};
use model_events::{answer, call, failure};
use provider_input::{
    assistant, chat_model, invocation, request, request_of, responses_model, result, said, spec, user,
};

fn scripted_model() -> ModelConfig {
    ModelConfig {
        id: "scripted".to_owned(),
        api: Api::Scripted,
        base_url: None,
        options: toml::Table::new(),
        ..chat_model("http://127.0.0.1:1", "")
    }
}

fn scripted() -> Arc<dyn Provider> {
    let router = ProviderRouter::from_config(&[scripted_model()]).unwrap();
    router.route("scripted").unwrap()
}

#[test]
fn a_model_is_routed_by_its_id_and_nothing_else() {
    let router =
        ProviderRouter::from_config(&[chat_model("http://127.0.0.1:1/v1", ""), scripted_model()]).unwrap();
    assert!(router.route("fast").is_some());
    assert!(router.route("scripted").is_some());
    assert!(router.route("up/stream-1").is_none());
}

#[test]
fn a_bad_configuration_names_the_key_and_never_the_value() {
    let check = |model: ModelConfig, key: &str, problem: &str| {
        let error = ProviderRouter::from_config(&[model]).unwrap_err();
        assert_eq!(error.key, key);
        assert!(error.problem.contains(problem), "{error}");
        assert!(!error.to_string().contains("CANARY"), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    };
    let url = "http://127.0.0.1:1/v1";
    for (options, key, problem) in [
        (
            "reasonning = true",
            "options.reasonning",
            "is no option of this API",
        ),
        ("headers = 'sk-CANARY-123'", "options.headers", "must be a table"),
        (
            "headers = { 'a b' = 'x' }",
            "options.headers.a b",
            "no valid header name",
        ),
        (
            "headers = { x-key = \"sk-CANARY-123\\n\" }",
            "options.headers.x-key",
            "cannot carry",
        ),
        (
            "idle_timeout_seconds = 0",
            "options.idle_timeout_seconds",
            "positive number",
        ),
        ("max_attempts = 0", "options.max_attempts", "at least 1"),
        ("include_usage = 'yes'", "options.include_usage", "true or false"),
        (
            "max_tokens_parameter = 'tokens'",
            "options.max_tokens_parameter",
            "max_completion_tokens, max_tokens",
        ),
        (
            "conversation_header = 'a b'",
            "options.conversation_header",
            "the name of a header",
        ),
        (
            "efforts = ['huge']",
            "options.efforts",
            "a list of some of none, minimal",
        ),
        ("efforts = []", "options.efforts", "a list of some of"),
        (
            "reasoning_replay = 'always'",
            "options.reasoning_field",
            "needs the field",
        ),
        (
            "thinking_parameter = 'thinking.type'\nextra_body = { thinking = { type = 'enabled' } }",
            "options.extra_body.thinking",
            "set by cairn itself",
        ),
        (
            "extra_body = { service_tier = 'flex' }\nfast_body = { service_tier = 'sk-CANARY' }",
            "options.fast_body.service_tier",
            "is in extra_body too",
        ),
        (
            "fast_body = { model = 'x' }",
            "options.fast_body.model",
            "set by cairn itself",
        ),
        (
            "extra_body = { messages = [] }",
            "options.extra_body.messages",
            "set by cairn itself",
        ),
        (
            "extra_body = { day = 2026-11-29 }",
            "options.extra_body.day",
            "JSON cannot express",
        ),
    ] {
        check(chat_model(url, options), key, problem);
    }
    check(chat_model("ftp://host/v1", ""), "base_url", "http:// or https://");
    check(
        chat_model("http://host/v1/chat/completions", ""),
        "base_url",
        "must end before",
    );
    for (options, key, problem) in [
        (
            "reasoning_summary = 'long'",
            "options.reasoning_summary",
            "none, auto, concise, detailed",
        ),
        (
            "include_usage = true",
            "options.include_usage",
            "is no option of this API",
        ),
        (
            "extra_body = { previous_response_id = 'r' }",
            "options.extra_body.previous_response_id",
            "set by cairn",
        ),
    ] {
        check(responses_model(url, options), key, problem);
    }
    check(
        responses_model("http://host/v1/responses/", ""),
        "base_url",
        "must end before",
    );
    let mut model = chat_model(url, "");
    model.base_url = None;
    check(model, "base_url", "is missing");
    let mut model = chat_model(url, "");
    model.api_key = Some("sk-CANARY\n".to_owned().into());
    check(model, "api_key", "cannot carry");
    let twice = ProviderRouter::from_config(&[scripted_model(), scripted_model()]).unwrap_err();
    assert_eq!(twice.key, "id");
}

#[tokio::test]
async fn the_scripted_model_says_what_it_is() {
    let said = answer(scripted().call(&request(vec![user("Please fix my code")]), invocation())).await;
    assert!(
        said.text.starts_with("I am cairn's scripted model"),
        "{}",
        said.text
    );
    assert_eq!((said.stop, said.usage), (Some(StopReason::Stop), None));
}

#[tokio::test]
async fn the_scripted_model_follows_a_script_step_by_step() {
    let script = "<query>\nsay Looking.\nread a b.txt\nrun ls -l\n\nrun pwd\nsay Bye now.\n</query>";
    let mut history: Vec<HistoryItem> = vec![user(script)];
    let provider = scripted();
    let first = answer(provider.call(&request(history.clone()), invocation())).await;
    assert_eq!(first.text, "Looking.");
    let shell = r#"{"command":"ls -l","description":"run ls -l"}"#;
    assert_eq!(
        first.calls,
        [
            call("scripted_0", "Read", r#"{"path":"a b.txt"}"#),
            call("scripted_1", "Shell", shell)
        ]
    );
    history.push(assistant(
        said("Looking."),
        &[
            ("scripted_0", "Read", &first.calls[0].2),
            ("scripted_1", "Shell", shell),
        ],
    ));
    history.push(result("scripted_1", "total 0"));
    history.push(result("scripted_0", "hello"));
    let second = answer(provider.call(&request(history.clone()), invocation())).await;
    let pwd = r#"{"command":"pwd","description":"run pwd"}"#;
    assert_eq!(second.calls, [call("scripted_2", "Shell", pwd)]);
    history.push(assistant(said(""), &[("scripted_2", "Shell", pwd)]));
    history.push(result("scripted_2", "here"));
    let third = answer(provider.call(&request(history.clone()), invocation())).await;
    assert_eq!((third.text.as_str(), third.calls.len()), ("Bye now.", 0));
    history.push(assistant(said("Bye now."), &[]));
    history.push(user("read x"));
    let fourth = answer(provider.call(&request(history.clone()), invocation())).await;
    assert_eq!(fourth.calls, [call("scripted_3", "Read", r#"{"path":"x"}"#)]);
    history.push(assistant(said(""), &[("scripted_3", "Read", r#"{"path":"x"}"#)]));
    history.push(result("scripted_3", "the content"));
    let fifth = answer(provider.call(&request(history), invocation())).await;
    assert!(
        fifth.text.contains("Read {\"path\":\"x\"} gave:\nthe content"),
        "{}",
        fifth.text
    );
    assert_eq!(fifth.stop, Some(StopReason::Stop));
}

#[tokio::test]
async fn the_scripted_model_refuses_what_it_has_no_way_to_do_and_ends_when_cancelled() {
    let fast = ModelSpec {
        latency: Latency::Fast,
        ..spec()
    };
    let (_, failed) = failure(scripted().call(&request_of(fast, vec![user("hi")]), invocation())).await;
    assert_eq!(failed.fault, ProviderFault::Unsupported);
    let cancelled = invocation();
    cancelled.cancel.cancel();
    let (events, failed) =
        model_events::collect(scripted().call(&request(vec![user("hi")]), cancelled)).await;
    assert_eq!((events, failed), (vec![], None));
}
