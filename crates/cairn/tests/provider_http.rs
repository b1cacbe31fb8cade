//! The openai-chat provider against an endpoint on loopback: what is sent, what is repeated, and how every way of
//! failing ends.

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
#[path = "support/strict_chat.rs"]
mod strict_chat;
#[path = "provider_http/transport.rs"]
mod transport;

use std::sync::Arc;
use std::time::Duration;

use cairn::model::{
    HistoryItem, Latency, ModelRequest, ModelSpec, Part, ProviderFault, ReasoningEffort, ReasoningSpec,
    ReplayState,
};
use cairn::provider::openai_chat::OpenAiChat;
use cairn::provider::{ModelEvent, ModelInvocation, Provider};
use futures_util::StreamExt;
use model_events::{Answer, answer, call, failure};
use provider_input::{
    assistant, chat_model, invocation, request, request_of, result, said, spec, user, user_parts,
};
use serde_json::json;
use strict_chat::{Reply, StrictChat};

/// Must never be in an error: the key of every model here.
const KEY: &str = "sk-CANARY-123";

fn provider(chat: &StrictChat) -> OpenAiChat {
    OpenAiChat::new(&chat_model(&chat.base_url(), "")).unwrap()
}

fn provider_with(chat: &StrictChat, options: &str) -> OpenAiChat {
    OpenAiChat::new(&chat_model(&chat.base_url(), options)).unwrap()
}

fn hello() -> ModelRequest {
    request(vec![user("hello")])
}

async fn fails(provider: &OpenAiChat) -> (Answer, cairn::model::ProviderFailure) {
    let (answer, failure) = failure(provider.call(&hello(), invocation())).await;
    assert!(!format!("{failure:?}").contains(KEY), "{failure:?}");
    assert!(failure.message.contains("model \"fast\""), "{failure}");
    assert!(failure.message.len() < 1000, "{failure}");
    (answer, failure)
}

#[tokio::test]
async fn the_second_request_extends_the_first_byte_for_byte() {
    let chat = StrictChat::start().await;
    chat.one_conversation();
    chat.reply(Reply::answer(
        Some("I must \"look\"."),
        "",
        &[
            ("call_1", "Read", r#"{"path": "ä.txt","n":1.0}"#),
            ("call_2", "Shell", "{}"),
        ],
    ));
    chat.reply_text("Done.");
    let provider = provider(&chat);
    let mut history = vec![
        user("first"),
        user_parts(vec![Part::Text("a".into()), Part::Text("b".into())]),
    ];
    let first = answer(provider.call(&request(history.clone()), invocation())).await;
    assert_eq!(first.thinking, "I must \"look\".");
    assert_eq!(
        first.calls,
        [
            call("call_1", "Read", r#"{"path": "ä.txt","n":1.0}"#),
            call("call_2", "Shell", "{}")
        ]
    );
    let mut spoken = said("");
    spoken.replay = first.replay;
    history.push(assistant(
        spoken,
        &[
            ("call_1", "Read", &first.calls[0].2),
            ("call_2", "Shell", &first.calls[1].2),
        ],
    ));
    history.push(result("call_2", "two"));
    history.push(result("call_1", ""));
    let second = answer(provider.call(&request(history), invocation())).await;
    assert_eq!(second.text, "Done.");

    let requests = chat.requests();
    let [first, second] = requests.as_slice() else {
        panic!("{} requests", requests.len())
    };
    let kept = first.body.len() - "]}".len();
    assert_eq!(first.body[..kept], second.body[..kept]);
    let expected = include_str!("fixtures/openai_chat/requests/rounds.json").trim_end();
    assert_eq!(std::str::from_utf8(&second.body).unwrap(), expected);
    assert_eq!(second.headers["authorization"], format!("Bearer {KEY}").as_str());
    assert_eq!(second.headers["accept-encoding"], "identity");
    assert_eq!(chat.connections(), 1, "the connection is used again");
    chat.assert_clean();
}

#[tokio::test]
async fn reasoning_goes_back_only_to_who_made_it() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    let with_issuer = |issuer: &str, payload: &str| {
        let mut spoken = said("hi");
        spoken.replay = Some(ReplayState {
            issuer: issuer.into(),
            payload: payload.into(),
        });
        request(vec![user("a"), assistant(spoken, &[]), user("b")])
    };
    let payload =
        r#"{"version":1,"fields":{"reasoning_details":[{"type":"reasoning.encrypted","data":"ZQ"}]}}"#;
    let own = provider.profile().issuer().to_string();
    for issuer in [own.as_str(), "openai-chat|http://elsewhere/v1|up/stream-1|none"] {
        chat.reply_text("ok");
        answer(provider.call(&with_issuer(issuer, payload), invocation())).await;
    }
    let requests = chat.requests();
    assert_eq!(
        requests[0].messages()[2],
        json!({"role": "assistant", "content": "hi", "reasoning_details": [{"type": "reasoning.encrypted", "data": "ZQ"}]})
    );
    assert_eq!(
        requests[1].messages()[2],
        json!({"role": "assistant", "content": "hi"})
    );
    let (_, damaged) = failure(provider.call(
        &with_issuer(&own, r#"{"version":2,"fields":{"a":1}}"#),
        invocation(),
    ))
    .await;
    assert_eq!(damaged.fault, ProviderFault::InvalidRequest);
    assert_eq!(chat.requests().len(), 2);
    let expected = format!("openai-chat|{}|up/stream-1|", chat.base_url());
    let fingerprint = own.strip_prefix(&expected).unwrap();
    assert!(
        fingerprint.len() == 16 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{own}"
    );
    let mut keyless = chat_model(&chat.base_url(), "");
    keyless.api_key = None;
    assert_eq!(
        **OpenAiChat::new(&keyless).unwrap().profile().issuer(),
        format!("{expected}none")
    );
    chat.assert_clean();
}

#[tokio::test]
async fn permanent_errors_are_asked_once_and_told_in_the_endpoints_words() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    for (status, fault) in [
        (400, ProviderFault::InvalidRequest),
        (401, ProviderFault::Authentication),
        (402, ProviderFault::Quota),
        (403, ProviderFault::Permission),
        (404, ProviderFault::NotFound),
        (413, ProviderFault::ContextLength),
        (422, ProviderFault::InvalidRequest),
    ] {
        let body = format!(
            r#"{{"error":{{"message":"No,\n{KEY} is bad; see https://u:pw@host/?key=abcdef","code":"oops"}}}}"#
        );
        chat.reply_status(status, &[("retry-after", "0")], &body);
        let (_, failure) = fails(&provider).await;
        assert_eq!(
            (failure.fault, failure.status, failure.code.as_deref()),
            (fault, Some(status), Some("oops"))
        );
        assert!(
            failure.message.contains(&format!(
                "({status}, oops): No, [redacted] is bad; see https://host/?key=[redacted]."
            )),
            "{failure}"
        );
    }
    assert_eq!(chat.requests().len(), 7);
    chat.reply_status(
        429,
        &[],
        r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#,
    );
    assert_eq!(fails(&provider).await.1.fault, ProviderFault::Quota);
    chat.reply_status(307, &[("location", "http://elsewhere.test/?token=abcdef")], "");
    let (_, failure) = fails(&provider).await;
    assert_eq!(failure.fault, ProviderFault::NotFound);
    assert!(
        failure
            .message
            .contains("redirect to http://elsewhere.test/?token=[redacted]"),
        "{failure}"
    );
    chat.reply_status(503, &[("x-should-retry", "false")], "busy");
    assert_eq!(fails(&provider).await.1.fault, ProviderFault::Unavailable);
    chat.reply_status(429, &[("retry-after", "61")], "busy");
    let (_, failure) = fails(&provider).await;
    assert_eq!(failure.retry_after, Some(Duration::from_secs(61)));
    assert_eq!(chat.requests().len(), 11);
    chat.assert_clean();
}

#[tokio::test]
async fn a_huge_error_body_with_control_bytes_is_bounded_and_cleaned() {
    let chat = StrictChat::start().await;
    let noise = "\u{1b}[31m\u{0}".repeat(100_000);
    chat.reply_status(
        400,
        &[("content-type", "text/plain")],
        &format!("{KEY}{noise}{}", KEY.repeat(20_000)),
    );
    let (_, failure) = fails(&provider(&chat)).await;
    assert!(!failure.message.contains(|c: char| c.is_control()), "{failure}");
    assert!(!failure.message.contains("CANARY"), "{failure}");
    chat.assert_clean();
}

#[tokio::test]
async fn transient_errors_before_output_are_retried_with_the_same_bytes() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    chat.reply_status(
        429,
        &[("retry-after", "0.02")],
        r#"{"error":{"message":"slow down"}}"#,
    );
    chat.reply(Reply::disconnect());
    chat.reply_status(500, &[], "");
    chat.reply_text("hi");
    let request = hello();
    assert_eq!(answer(provider.call(&request, invocation())).await.text, "hi");
    let bodies: Vec<_> = chat.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 4);
    assert!(bodies.iter().all(|body| *body == bodies[0]));

    for reply in [
        Reply::status(529, &[], ""),
        Reply::raw(r#"data: {"error":{"type":"overloaded_error","message":"busy"}}"#),
        Reply::raw(""),
        Reply::raw(": waiting\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n"),
        Reply::text("lost").broken_at(10),
        Reply::status(200, &[], r#"{"error":{"message":"busy","type":"server_error"}}"#),
    ] {
        let before = chat.requests().len();
        chat.reply(reply);
        chat.reply_text("again");
        assert_eq!(answer(provider.call(&request, invocation())).await.text, "again");
        assert_eq!(chat.requests().len(), before + 2);
    }
    chat.assert_clean();
}

#[tokio::test]
async fn retries_are_bounded() {
    let chat = StrictChat::start().await;
    for _ in 0..4 {
        chat.reply_status(503, &[], r#"{"error":{"message":"no capacity"}}"#);
    }
    let (_, failure) = fails(&provider(&chat)).await;
    assert_eq!(
        (failure.fault, failure.status),
        (ProviderFault::Unavailable, Some(503))
    );
    assert!(failure.message.contains("no capacity"), "{failure}");
    assert_eq!(chat.requests().len(), 4);
    chat.reply_status(503, &[], "");
    fails(&provider_with(&chat, "max_attempts = 1")).await;
    assert_eq!(chat.requests().len(), 5);
    chat.assert_clean();
}

#[tokio::test]
async fn nothing_is_repeated_after_output_began() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    let text = |reply: &dyn Fn(Reply) -> Reply| reply(Reply::text("hello world"));
    let calls =
        |reply: &dyn Fn(Reply) -> Reply| reply(Reply::calls([("a", "Read", r#"{"path":"somewhere"}"#)]));
    let error = format!(
        "data: {}\n\ndata: {{\"error\":{{\"message\":\"late\",\"type\":\"server_error\"}}}}\n\n",
        json!({"choices": [{"index": 0, "delta": {"content": "hello"}}]})
    );
    for (reply, fault) in [
        (text(&|reply| reply.cut_at(500)), ProviderFault::Cut),
        (text(&|reply| reply.broken_at(500)), ProviderFault::Connection),
        (calls(&|reply| reply.cut_at(800)), ProviderFault::Cut),
        (calls(&|reply| reply.broken_at(800)), ProviderFault::Connection),
        (Reply::raw(error), ProviderFault::Unavailable),
    ] {
        let before = chat.requests().len();
        chat.reply(reply);
        let (answer, failure) = fails(&provider).await;
        assert_eq!(failure.fault, fault, "{failure}");
        assert_eq!(answer.stop, None);
        assert!(
            !answer.text.is_empty() || !answer.calls.is_empty(),
            "cut too early for this test"
        );
        assert_eq!(chat.requests().len(), before + 1);
    }
    chat.assert_clean();
}

#[tokio::test]
async fn what_is_no_event_stream_is_named() {
    let chat = StrictChat::start().await;
    let provider = provider(&chat);
    let whole = r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}"#;
    chat.reply_status(200, &[], whole);
    let (_, failure) = fails(&provider).await;
    assert_eq!(failure.fault, ProviderFault::Malformed);
    assert!(
        failure.message.contains("one JSON document instead of a stream"),
        "{failure}"
    );
    chat.reply_status(
        200,
        &[],
        r#" {"error":{"message":"no such model","code":"model_not_found"}}"#,
    );
    let (_, failure) = fails(&provider).await;
    assert_eq!(
        (failure.fault, failure.code.as_deref()),
        (ProviderFault::NotFound, Some("model_not_found"))
    );
    chat.reply_status(
        200,
        &[("content-type", "text/html")],
        "\n<!doctype html><title>Sign in</title>",
    );
    let (_, failure) = fails(&provider).await;
    assert_eq!(failure.fault, ProviderFault::Malformed);
    assert!(failure.message.contains("web page \"Sign in\""), "{failure}");
    chat.reply_status(200, &[("content-encoding", "br")], "x");
    let (_, failure) = fails(&provider).await;
    assert_eq!(failure.fault, ProviderFault::Malformed);
    assert!(failure.message.contains("compressed"), "{failure}");
    // A stream under a wrong content type is a stream.
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    chat.reply_status(200, &[("content-type", "application/json")], stream);
    assert_eq!(answer(provider.call(&hello(), invocation())).await.text, "hi");
    assert_eq!(chat.requests().len(), 5);
    chat.assert_clean();
}

#[tokio::test]
async fn silence_is_bounded_before_and_within_the_body() {
    let chat = StrictChat::start().await;
    for (options, reply, option) in [
        (
            "first_byte_timeout_seconds = 0.05",
            Reply::text("hello").hold_headers(),
            "first_byte_timeout_seconds",
        ),
        (
            "first_byte_timeout_seconds = 0.05",
            Reply::text("hello").hold_at(0),
            "first_byte_timeout_seconds",
        ),
        (
            "idle_timeout_seconds = 0.05",
            Reply::text("hello").hold_at(350),
            "idle_timeout_seconds",
        ),
        (
            "progress_timeout_seconds = 0.05",
            Reply::text("hello").hold_at(10),
            "progress_timeout_seconds",
        ),
    ] {
        let (reply, gate) = reply;
        chat.reply(reply);
        let (_, failure) = fails(&provider_with(&chat, options)).await;
        assert_eq!(failure.fault, ProviderFault::Timeout);
        assert!(failure.message.contains(option), "{failure}");
        gate.gone().await;
    }
    assert_eq!(chat.requests().len(), 4, "a time-out is not repeated");
    chat.assert_clean();
}

#[tokio::test]
async fn an_answer_is_not_held_up_by_an_open_connection_after_its_end() {
    let chat = StrictChat::start().await;
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    for (tail, options) in [
        ("data: [DONE]\n\n: more", ""),
        (": more", "idle_timeout_seconds = 0.05"),
    ] {
        let (reply, gate) = Reply::raw(format!("{stream}{tail}")).hold_at(stream.len() + tail.len() - 6);
        chat.reply(reply);
        let provider = provider_with(&chat, options);
        assert_eq!(answer(provider.call(&hello(), invocation())).await.text, "hi");
        gate.gone().await;
    }
    chat.assert_clean();
}

#[tokio::test]
async fn cancelling_and_dropping_end_the_request_in_every_phase() {
    let chat = StrictChat::start().await;
    let provider = Arc::new(provider(&chat));
    for drop_it in [false, true] {
        for (reply, gate) in [
            Reply::text("hello").hold_headers(),
            Reply::text("hello").hold_at(350),
        ] {
            chat.reply(reply);
            let invocation = invocation();
            let cancel = invocation.cancel.clone();
            let mut stream = provider.call(&hello(), invocation);
            let reader = tokio::spawn(async move {
                let mut ended = Ok(());
                while let Some(item) = stream.next().await {
                    ended = item.map(|_| ());
                }
                ended
            });
            gate.arrived().await;
            if drop_it {
                reader.abort();
            } else {
                cancel.cancel();
                assert_eq!(
                    reader.await.unwrap(),
                    Ok(()),
                    "a cancelled call ends without a failure"
                );
            }
            gate.gone().await;
        }
    }
    // While waiting for the next try.
    chat.reply_status(503, &[("retry-after", "59")], "");
    let cancelled = ModelInvocation {
        cancel: tokio_util::sync::CancellationToken::new(),
        ..invocation()
    };
    let cancel = cancelled.cancel.clone();
    let mut stream = provider.call(&hello(), cancelled);
    let announced = stream.next().await;
    assert!(
        matches!(announced, Some(Ok(ModelEvent::Sending(_)))),
        "{announced:?}"
    );
    assert_eq!(
        chat.requests().len(),
        4,
        "nothing goes out before the next event is asked for"
    );
    let waiting = tokio::spawn(async move { stream.next().await });
    while chat.requests().len() < 5 {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    assert_eq!(waiting.await.unwrap(), None);
    chat.assert_clean();
}

#[tokio::test]
async fn an_unreachable_endpoint_is_named_without_the_key() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = chat_model(
        &format!("http://user:{KEY}@{address}/v1?key={KEY}"),
        "max_attempts = 2",
    );
    let (_, failure) = fails(&OpenAiChat::new(&model).unwrap()).await;
    assert_eq!(failure.fault, ProviderFault::Connection);
    assert!(
        failure
            .message
            .contains(&format!("cannot connect to http://{address}")),
        "{failure}"
    );
}

/// Encodes one request of this model and gives its parameters.
fn parameters(options: &str, model: ModelSpec) -> Result<serde_json::Value, cairn::model::ProviderFailure> {
    let provider = OpenAiChat::new(&chat_model("http://127.0.0.1:1/v1", options)).unwrap();
    let encoded =
        cairn::provider::openai_chat::encode(&request_of(model, vec![user("a")]), provider.profile())?;
    let mut json: serde_json::Value = serde_json::from_slice(&encoded.body).unwrap();
    for member in ["model", "stream", "stream_options", "tools", "messages"] {
        json.as_object_mut().unwrap().shift_remove(member);
    }
    Ok(json)
}

#[test]
fn what_is_asked_of_the_model_is_sent_or_refused() {
    let asks = |enabled, effort| ModelSpec {
        reasoning: ReasoningSpec { enabled, effort },
        ..spec()
    };
    let high = Some(ReasoningEffort::High);
    assert_eq!(parameters("", spec()).unwrap(), json!({}));
    let limited = ModelSpec {
        max_output_tokens: Some(8192),
        ..spec()
    };
    assert_eq!(
        parameters("", limited.clone()).unwrap(),
        json!({"max_completion_tokens": 8192})
    );
    assert_eq!(
        parameters("max_tokens_parameter = 'max_tokens'", limited).unwrap(),
        json!({"max_tokens": 8192})
    );
    assert_eq!(
        parameters("", asks(Some(true), high)).unwrap(),
        json!({"reasoning_effort": "high"})
    );
    assert_eq!(
        parameters("effort_parameter = 'reasoning.effort'", asks(None, high)).unwrap(),
        json!({"reasoning": {"effort": "high"}})
    );
    assert_eq!(
        parameters("thinking_parameter = 'thinking.type'", asks(Some(false), None)).unwrap(),
        json!({"thinking": {"type": "disabled"}})
    );
    assert_eq!(
        parameters("thinking_parameter = 'enable_thinking'", asks(Some(true), high)).unwrap(),
        json!({"reasoning_effort": "high", "enable_thinking": true})
    );
    assert_eq!(
        parameters("extra_body = { z = 1, a = { y = [true, 0.5], b = 'x' } }", spec())
            .unwrap()
            .to_string(),
        r#"{"z":1,"a":{"y":[true,0.5],"b":"x"}}"#
    );
    let keyed = parameters("prompt_cache_key = true", spec()).unwrap();
    assert_eq!(keyed["prompt_cache_key"].as_str().map(str::len), Some(32));
    let fast = ModelSpec {
        latency: Latency::Fast,
        ..spec()
    };
    for (options, model) in [
        ("", fast),
        ("", asks(Some(true), None)),
        ("", asks(Some(false), high)),
        ("effort_parameter = 'none'", asks(None, high)),
    ] {
        assert_eq!(
            parameters(options, model).unwrap_err().fault,
            ProviderFault::Unsupported
        );
    }
}

#[test]
fn an_items_bytes_do_not_depend_on_what_surrounds_it() {
    let provider = OpenAiChat::new(&chat_model("http://127.0.0.1:1/v1", "")).unwrap();
    let history: Vec<HistoryItem> = vec![
        user("a \"quoted\" \\ \u{1} \u{7f} \u{2028} 😀\n\r\t"),
        assistant(said("x"), &[("c1", "Read", "{\"a\":\n1}")]),
        result("c1", "r"),
        assistant(said(""), &[]),
    ];
    let encode = |end: usize| {
        cairn::provider::openai_chat::encode(&request(history[..end].to_vec()), provider.profile()).unwrap()
    };
    let longest = encode(history.len());
    for end in 0..=history.len() {
        let shorter = encode(end);
        assert_eq!(shorter.head(), longest.head());
        assert!(shorter.messages().eq(longest.messages().take(end + 1)));
        assert!(longest.body.starts_with(&shorter.body[..shorter.body.len() - 2]));
        let json: serde_json::Value = serde_json::from_slice(&shorter.body).unwrap();
        // Behind the system message; the last item is an answer that says nothing, and is no message.
        assert_eq!(json["messages"].as_array().unwrap().len(), 1 + end.min(3));
    }
    let json: serde_json::Value = serde_json::from_slice(&longest.body).unwrap();
    assert_eq!(
        json["messages"][1]["content"],
        "a \"quoted\" \\ \u{1} \u{7f} \u{2028} 😀\n\r\t"
    );
    assert_eq!(
        json["messages"][2]["tool_calls"][0]["function"]["arguments"],
        "{\"a\":\n1}"
    );
}

#[test]
fn ids_and_names_of_other_models_are_made_acceptable() {
    let provider = OpenAiChat::new(&chat_model("http://127.0.0.1:1/v1", "")).unwrap();
    let long = "x".repeat(200);
    let odd = [
        ("functions.Read:0", "functions.Read", "{}"),
        ("a|b", "文", "{}"),
        (long.as_str(), long.as_str(), "{}"),
        ("a\nb", "Read", "{}"),
    ];
    let mut history = vec![user("a"), assistant(said(""), &odd)];
    history.extend(odd.iter().map(|(id, _, _)| result(id, "r")));
    let body = cairn::provider::openai_chat::encode(&request(history), provider.profile())
        .unwrap()
        .body;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let calls = messages[2]["tool_calls"].as_array().unwrap();
    let ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids[..2], ["functions.Read:0", "a|b"], "what endpoints take stays");
    let results: Vec<&str> = messages[3..]
        .iter()
        .map(|message| message["tool_call_id"].as_str().unwrap())
        .collect();
    assert_eq!(results, ids);
    for call in calls {
        let (id, name) = (
            call["id"].as_str().unwrap(),
            call["function"]["name"].as_str().unwrap(),
        );
        assert!(
            id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_graphic()),
            "{id}"
        );
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(
            (1..=64).contains(&name.len()) && name.chars().all(is_plain),
            "{name}"
        );
    }
    assert_eq!(calls[3]["function"]["name"], "Read");
}

/// By the parameter's name only; remembered for the model as long as the process lives, in every conversation.
#[tokio::test]
async fn a_refused_stream_options_is_left_out_once_and_for_all() {
    for body in [
        r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#,
        r#"{"error":{"message":"Unsupported parameter","param":"stream_options"}}"#,
    ] {
        for status in [400, 422] {
            let chat = StrictChat::start().await;
            chat.reply_status(status, &[], body);
            chat.reply_text("One.");
            chat.reply_text("Two.");
            let provider = provider(&chat);
            for said in ["One.", "Two."] {
                let answer = answer(provider.call(&hello(), invocation())).await;
                assert_eq!(answer.text, said, "{status} {body}");
            }
            let requests = chat.requests();
            let asks = |at: usize| requests[at].json["stream_options"].clone();
            assert_eq!(requests.len(), 3);
            assert_eq!(
                [asks(0), asks(1), asks(2)],
                [json!({"include_usage": true}), json!(null), json!(null)]
            );
            let mut without = requests[0].json.clone();
            without.as_object_mut().unwrap().shift_remove("stream_options");
            assert_eq!(requests[1].json, without, "only the option is left out");
            assert_eq!(requests[1].body, requests[2].body);
        }
    }
}

#[tokio::test]
async fn only_the_name_of_stream_options_has_it_left_out_and_only_once() {
    let refusal = r#"{"error":{"message":"no stream_options"}}"#;
    let other = r#"{"error":{"message":"no temperature"}}"#;
    for (replies, asked) in [
        (vec![(400, other)], 1),
        (vec![(403, refusal)], 1),
        // The second refusal of the same stands.
        (vec![(400, refusal), (400, refusal)], 2),
        (vec![(422, refusal), (400, other)], 2),
    ] {
        let chat = StrictChat::start().await;
        for (status, body) in &replies {
            chat.reply_status(*status, &[], body);
        }
        let (_, failure) = fails(&provider(&chat)).await;
        assert_eq!(failure.status, replies.last().map(|(status, _)| *status));
        assert_eq!(chat.requests().len(), asked);
    }
    // Who was told not to ask has nothing to leave out.
    let chat = StrictChat::start().await;
    chat.reply_status(400, &[], refusal);
    fails(&provider_with(&chat, "include_usage = false")).await;
    assert_eq!(chat.requests().len(), 1);
}
