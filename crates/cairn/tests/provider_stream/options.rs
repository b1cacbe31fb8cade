//! The options that tell dialects of Chat Completions apart: each changes just what it says.

use cairn::model::{
    Assistant, HistoryItem, Latency, ModelSpec, ProviderFailure, ProviderFault, ReasoningEffort,
    ReasoningSpec, ReplayState, Usage,
};
use cairn::provider::StopReason;
use cairn::provider::openai_chat::{OpenAiChat, encode};
use serde_json::{Value, json};

use crate::model_events::{Answer, call};
use crate::provider_input::{assistant, chat_model, request_of, result, said, spec, user};
use crate::{call_delta, chunks, decode, delta, fails, finish, provider, usage, whole};

fn body(options: &str, model: ModelSpec, history: Vec<HistoryItem>) -> Result<Value, ProviderFailure> {
    let provider = provider(options);
    let encoded = encode(&request_of(model, history), provider.profile())?;
    Ok(serde_json::from_slice(&encoded.body).unwrap())
}

/// The parameters of a request of this model.
fn parameters(options: &str, model: ModelSpec) -> Result<Value, ProviderFailure> {
    let mut body = body(options, model, vec![user("a")])?;
    for member in ["model", "stream", "stream_options", "tools", "messages"] {
        body.as_object_mut().unwrap().shift_remove(member);
    }
    Ok(body)
}

fn asks(enabled: Option<bool>, effort: Option<ReasoningEffort>) -> ModelSpec {
    ModelSpec {
        reasoning: ReasoningSpec { enabled, effort },
        ..spec()
    }
}

#[track_caller]
fn unsupported(outcome: Result<Value, ProviderFailure>) -> String {
    let failure = outcome.unwrap_err();
    assert_eq!(failure.fault, ProviderFault::Unsupported, "{failure}");
    failure.message
}

#[test]
fn two_parameters_of_one_object_are_one_member() {
    const BOTH: &str = "effort_parameter = 'reasoning.effort'\nthinking_parameter = 'reasoning.enabled'";
    let high = Some(ReasoningEffort::High);
    assert_eq!(
        parameters(BOTH, asks(Some(true), high)).unwrap().to_string(),
        r#"{"reasoning":{"effort":"high","enabled":true}}"#
    );
    assert_eq!(
        parameters(BOTH, asks(Some(false), None)).unwrap(),
        json!({"reasoning": {"enabled": false}})
    );
    assert_eq!(parameters(BOTH, spec()).unwrap(), json!({}));
}

#[test]
fn the_switch_of_thinking_takes_its_members_along_and_may_be_set_by_itself() {
    let members = "thinking_members = { clear_thinking = false, z = 'a' }";
    for (parameter, on, off) in [
        (
            "thinking.type",
            r#"{"thinking":{"type":"enabled","clear_thinking":false,"z":"a"}}"#,
            r#"{"thinking":{"type":"disabled","clear_thinking":false,"z":"a"}}"#,
        ),
        (
            "chat_template_kwargs.enable_thinking",
            r#"{"chat_template_kwargs":{"enable_thinking":true,"clear_thinking":false,"z":"a"}}"#,
            r#"{"chat_template_kwargs":{"enable_thinking":false,"clear_thinking":false,"z":"a"}}"#,
        ),
        (
            "reasoning.enabled",
            r#"{"reasoning":{"enabled":true,"clear_thinking":false,"z":"a"}}"#,
            r#"{"reasoning":{"enabled":false,"clear_thinking":false,"z":"a"}}"#,
        ),
    ] {
        let options = format!("thinking_parameter = '{parameter}'\n{members}");
        let sent = |options: &str, enabled| parameters(options, asks(enabled, None)).unwrap().to_string();
        assert_eq!(sent(&options, Some(true)), on);
        assert_eq!(sent(&options, Some(false)), off);
        assert_eq!(sent(&options, None), "{}");
        let by_default = format!("{options}\nthink_by_default = true");
        assert_eq!(sent(&by_default, None), on);
        assert_eq!(sent(&by_default, Some(false)), off);
        let without_effort = parameters(&by_default, asks(None, Some(ReasoningEffort::None))).unwrap();
        assert_eq!(without_effort.to_string().matches("clear_thinking").count(), 1);
        assert!(!without_effort.to_string().contains("true"), "{without_effort}");
    }
    for (options, key) in [
        (members, "options.thinking_members"),
        (
            "thinking_parameter = 'enable_thinking'\nthinking_members = { z = 1 }",
            "options.thinking_members",
        ),
        (
            "thinking_parameter = 'thinking.type'\nthinking_members = { type = 'auto' }",
            "options.thinking_members.type",
        ),
        ("think_by_default = true", "options.think_by_default"),
    ] {
        let model = chat_model("http://127.0.0.1:1/v1", options);
        assert_eq!(OpenAiChat::new(&model).unwrap_err().key, key, "{options}");
    }
}

#[test]
fn an_effort_that_the_endpoint_does_not_know_is_refused_before_any_request() {
    const EFFORTS: &str = "efforts = ['low', 'max']";
    assert_eq!(
        parameters(EFFORTS, asks(None, Some(ReasoningEffort::Max))).unwrap(),
        json!({"reasoning_effort": "max"})
    );
    let refused = unsupported(parameters(EFFORTS, asks(None, Some(ReasoningEffort::High))));
    assert!(refused.contains("no effort but low, max"), "{refused}");
}

#[test]
fn a_faster_route_is_what_the_configuration_says_it_is() {
    let fast = ModelSpec {
        latency: Latency::Fast,
        ..spec()
    };
    const ROUTE: &str = "extra_body = { seed = 1 }\nfast_body = { service_tier = 'priority' }";
    assert_eq!(
        parameters(ROUTE, fast.clone()).unwrap().to_string(),
        r#"{"seed":1,"service_tier":"priority"}"#
    );
    assert_eq!(parameters(ROUTE, spec()).unwrap(), json!({"seed": 1}));
    let refused = unsupported(parameters("extra_body = { service_tier = 'flex' }", fast));
    assert!(refused.contains("fast_body"), "{refused}");
}

#[test]
fn usage_is_asked_for_unless_the_endpoint_refuses_the_question() {
    let asked = |options: &str| body(options, spec(), vec![user("a")]).unwrap()["stream_options"].clone();
    assert_eq!(asked(""), json!({"include_usage": true}));
    assert_eq!(asked("include_usage = false"), Value::Null);
    // Whoever does not ask may say it in other words.
    assert_eq!(
        asked("include_usage = false\nextra_body = { stream_options = { include_obfuscation = false } }"),
        json!({"include_obfuscation": false})
    );
}

/// An answer with this record of its thinking, made by the endpoint of `options` or by another one.
fn thought(options: &str, fields: &str, is_own: bool) -> Assistant {
    let own = provider(options).profile().issuer().clone();
    Assistant {
        replay: Some(ReplayState {
            issuer: if is_own { own } else { "elsewhere".into() },
            payload: format!(r#"{{"version":1,"fields":{fields}}}"#).into(),
        }),
        ..said("hi")
    }
}

#[test]
fn thinking_goes_back_as_the_options_say() {
    const TEXT: &str = r#"{"reasoning":"a \u00e9 1.0"}"#;
    const BOTH: &str = r#"{"reasoning_content":"a","reasoning":"a","reasoning_details":[{"z":1.0,"a":2}]}"#;
    const ALWAYS: &str = "reasoning_replay = 'always'\nreasoning_field = 'reasoning_content'";
    for (options, fields, is_own, expected) in [
        ("", TEXT, true, r#""reasoning":"a \u00e9 1.0""#),
        (
            "",
            BOTH,
            true,
            r#""reasoning_content":"a","reasoning":"a","reasoning_details":[{"z":1.0,"a":2}]"#,
        ),
        ("", TEXT, false, ""),
        ("reasoning_replay = 'never'", BOTH, true, ""),
        (
            "reasoning_field = 'reasoning_content'",
            TEXT,
            true,
            r#""reasoning_content":"a \u00e9 1.0""#,
        ),
        (
            "reasoning_field = 'reasoning'",
            BOTH,
            true,
            r#""reasoning":"a","reasoning_details":[{"z":1.0,"a":2}]"#,
        ),
        (ALWAYS, TEXT, true, r#""reasoning_content":"a \u00e9 1.0""#),
        (ALWAYS, TEXT, false, r#""reasoning_content":"""#),
        (
            ALWAYS,
            r#"{"reasoning_details":[]}"#,
            true,
            r#""reasoning_details":[],"reasoning_content":"""#,
        ),
    ] {
        let provider = provider(options);
        let history = vec![
            user("a"),
            assistant(thought(options, fields, is_own), &[]),
            user("b"),
        ];
        let encoded = encode(&request_of(spec(), history), provider.profile()).unwrap();
        let message = std::str::from_utf8(encoded.messages().nth(2).unwrap()).unwrap();
        let comma = if expected.is_empty() { "" } else { "," };
        assert_eq!(
            message,
            format!(r#"{{"role":"assistant","content":"hi"{comma}{expected}}}"#),
            "{options} {fields} {is_own}"
        );
    }
    // A call without any thinking gets the empty field too, and only answers get one.
    let history = vec![
        user("a"),
        assistant(said(""), &[("c", "Read", "{}")]),
        result("c", "r"),
        user("b"),
    ];
    let body = body(ALWAYS, spec(), history).unwrap();
    let fields: Vec<&Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["reasoning_content"])
        .collect();
    assert_eq!(
        fields,
        [&Value::Null, &Value::Null, &json!(""), &Value::Null, &Value::Null]
    );
}

#[test]
fn ignored_numbers_leave_ids_names_and_order_to_tell_calls_apart() {
    let piece = |index: u64, id: Option<&str>, arguments: &str| match id {
        Some(id) => {
            json!({"index": index, "id": id, "function": {"name": "Read", "arguments": arguments}})
        }
        None => json!({"index": index, "function": {"arguments": arguments}}),
    };
    // The rest of each call comes under a number that no call has.
    let stream = chunks(&[
        call_delta(piece(0, Some("a"), "{\"path\":")),
        call_delta(piece(5, None, "\"1\"}")),
        call_delta(piece(0, Some("b"), "{\"path\":")),
        call_delta(piece(6, None, "\"2\"}")),
        finish("tool_calls"),
    ]);
    let strict = fails(&stream);
    assert_eq!(strict.fault, ProviderFault::Malformed);
    let (events, failure) = decode("tool_call_index = 'ignored'", stream.as_bytes());
    assert_eq!(failure, None);
    assert_eq!(
        Answer::join(&events, true).calls,
        [
            call("a", "Read", "{\"path\":\"1\"}"),
            call("b", "Read", "{\"path\":\"2\"}")
        ]
    );
}

/// What this report comes to.
#[track_caller]
fn counted(options: &str, report: Value) -> Option<Usage> {
    let stream = chunks(&[finish("stop"), json!({"choices": [], "usage": report})]);
    let (events, failure) = decode(options, stream.as_bytes());
    assert_eq!(failure, None);
    Answer::join(&events, true).usage
}

#[test]
fn counts_come_to_one_form_whatever_the_endpoint_counts_where() {
    let cached = json!({"prompt_tokens": 46965, "completion_tokens": 10, "total_tokens": 46975,
        "prompt_tokens_details": {"cached_tokens": 42036}});
    assert_eq!(
        counted("", cached.clone()),
        usage(4929, Some(42036), None, 10, None)
    );
    assert_eq!(
        counted("usage_counts_cached = false", cached),
        usage(46965, Some(42036), None, 10, None)
    );
    let hits =
        json!({"prompt_cache_hit_tokens": 42036, "prompt_cache_miss_tokens": 4929, "completion_tokens": 1});
    assert_eq!(counted("", hits), usage(4929, Some(42036), None, 1, None));
    // llama.cpp says it beside the counts, some builds only there.
    let timed = chunks(&[
        delta(json!({"content": "a"})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 2},
            "timings": {"cache_n": 32, "prompt_n": 8, "predicted_n": 2}}),
    ]);
    assert_eq!(whole(&timed).usage, usage(8, Some(32), None, 2, None));
    let thought = json!({"prompt_tokens": 291, "completion_tokens": 26, "total_tokens": 513,
        "completion_tokens_details": {"reasoning_tokens": 196}});
    assert_eq!(
        counted("", thought.clone()),
        usage(291, None, None, 26, Some(196))
    );
    assert_eq!(
        counted("usage_counts_reasoning = false", thought),
        usage(291, None, None, 222, Some(196))
    );
    // More cached than there was, and nothing at all.
    let odd =
        json!({"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}});
    assert_eq!(counted("", odd), usage(0, Some(9), None, 1, None));
    assert_eq!(counted("", Value::Null), None);
    assert_eq!(counted("", json!({})), None);
}

#[test]
fn calls_before_a_done_without_a_finish_reason_run_only_where_done_is_terminal() {
    let stream = chunks(&[
        delta(json!({"content": "Reading."})),
        call_delta(json!({"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{}"}})),
    ]);
    assert_eq!(fails(&stream).fault, ProviderFault::Cut);
    let (events, failure) = decode("done_is_terminal = true", stream.as_bytes());
    assert_eq!(failure, None);
    let answer = Answer::join(&events, true);
    assert_eq!(answer.calls, [call("a", "Read", "{}")]);
    assert_eq!(answer.stop, Some(StopReason::ToolUse));
}
