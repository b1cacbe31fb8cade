//! What the items of a body are, per API.

use super::*;

fn parse(api: Api, body: &str) -> Request {
    Request::parse(api, body.as_bytes().to_vec()).unwrap()
}

/// Position, label, maker, marker and text of each item.
fn items(request: &Request) -> Vec<String> {
    request
        .items()
        .iter()
        .map(|item| {
            let head = String::from_utf8(request.head(item)).unwrap();
            let text = String::from_utf8(request.text(item).into_owned()).unwrap();
            let marker = item
                .marker
                .map(|marker| format!(" {marker:?}"))
                .unwrap_or_default();
            format!(
                "{} [{}] {:?}{marker}: {head}|{text}",
                item.position, item.label, item.maker
            )
        })
        .collect()
}

#[test]
fn chat_is_tools_then_messages_as_they_were_sent() {
    let request = parse(
        Api::OpenAiChat,
        r#" {"messages": [ {"role":"system","content":"a \" ] b"} , {"content":"hi","role":"user"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}, {"role":"tool","content":[{"type":"text","text":"x"}]} ],
            "model":"m","stream":true,"tools":[{"type":"function","function":{"name":"read","parameters":{"b":1.0, "a":2}}}]} "#,
    );
    assert_eq!(
        items(&request),
        [
            r#"tool 0 [read] Setup: |{"type":"function","function":{"name":"read","parameters":{"b":1.0, "a":2}}}"#,
            r#"message 0 [system] Setup: |{"role":"system","content":"a \" ] b"}"#,
            r#"message 1 [user] Input: |{"content":"hi","role":"user"}"#,
            r#"message 2 [assistant] Model: |{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}"#,
            r#"message 3 [tool] Tool: |{"role":"tool","content":[{"type":"text","text":"x"}]}"#,
        ]
    );
    assert_eq!(request.parameter("model"), Some(&br#""m""#[..]));
    assert_eq!(request.parameter("stream"), None);
    assert_eq!(
        request.message(1),
        Some(&br#"{"content":"hi","role":"user"}"#[..])
    );
    assert_eq!(request.message_count(), 4);
}

#[test]
fn responses_puts_instructions_between_tools_and_input() {
    let request = parse(
        Api::OpenAiResponses,
        r#"{"instructions":"be exact","input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[]},
            {"type":"function_call","call_id":"1"},{"type":"function_call_output","call_id":"1","output":"x"}],
            "tools":[{"type":"function","name":"read"}]}"#,
    );
    assert_eq!(
        items(&request),
        [
            r#"tool 0 [read] Setup: |{"type":"function","name":"read"}"#,
            r#"system prompt [system] Setup: |"be exact""#,
            r#"message 0 [user] Input: |{"role":"user","content":"hi"}"#,
            r#"message 1 [reasoning] Model: |{"type":"reasoning","summary":[]}"#,
            r#"message 2 [function_call] Model: |{"type":"function_call","call_id":"1"}"#,
            r#"message 3 [function_call_output] Tool: |{"type":"function_call_output","call_id":"1","output":"x"}"#,
        ]
    );
    let plain = parse(Api::OpenAiResponses, r#"{"input":"hi"}"#);
    assert_eq!(items(&plain), [r#"message 0 [user] Input: |"hi""#]);
}

#[test]
fn anthropic_counts_blocks_and_cuts_markers_out_with_one_comma() {
    let request = parse(
        Api::Anthropic,
        r#"{"tools":[{"name":"read","cache_control":{"type":"ephemeral","ttl":"1h"}}],
            "system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
            "messages":[{"role":"user","content":"hi"},
              {"content":[{"type":"thinking","thinking":"t"},{"cache_control":{"type":"ephemeral"}, "type":"tool_use","input":{"cache_control":1}}],"role":"assistant"},
              {"role":"user","content":[{"type":"tool_result","cache_control":null,"content":"x"}]}],
            "cache_control":{"type":"ephemeral"}}"#,
    );
    assert_eq!(
        items(&request),
        [
            r#"tool 0 [read] Setup Hour: |{"name":"read"}"#,
            r#"system prompt [system] Setup Short: |{"type":"text","text":"s"}"#,
            r#"message 0 [user text] Input: "role":"user"|"hi""#,
            r#"message 1 [assistant thinking] Model: "role":"assistant"|{"type":"thinking","thinking":"t"}"#,
            r#"message 1, block 1 [assistant tool_use] Model Short: "role":"assistant"|{"type":"tool_use","input":{"cache_control":1}}"#,
            r#"message 2 [user tool_result] Tool: "role":"user"|{"type":"tool_result","content":"x"}"#,
        ]
    );
    assert_eq!(request.automatic_marker(), Some(Marker::Short));
    for item in request.items() {
        let serialised = crate::measure::serialised(&request, item);
        assert_eq!(serialised.len(), request.length(item), "{item:?}");
    }
}

#[test]
fn a_lone_marker_and_neighbouring_markers_leave_valid_objects() {
    for (object, expected) in [
        (r#"{"cache_control":{}}"#, "{}"),
        (r#"{"cache_control":{},"prompt_cache_breakpoint":{}}"#, "{}"),
        (
            r#"{"a":1,"cache_control":{},"prompt_cache_breakpoint":{},"b":2}"#,
            r#"{"a":1,"b":2}"#,
        ),
        (
            r#"{"cache_control":{},"prompt_cache_breakpoint":{},"b":2}"#,
            r#"{"b":2}"#,
        ),
    ] {
        let request = parse(
            Api::Anthropic,
            &format!(r#"{{"messages":[],"system":[{object}]}}"#),
        );
        let text = request.text(&request.items()[0]).into_owned();
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{object}");
    }
}

#[test]
fn what_is_no_request_is_refused_with_its_place() {
    for (body, expected) in [
        ("{}", "the body is no openai-chat request: it has no `messages`"),
        (
            r#"{"messages":[],"messages":[]}"#,
            "the body is no openai-chat request: `messages` stands in it twice",
        ),
        (
            r#"{"messages":[{"role":"user"}"#,
            "the body is no openai-chat request: byte 28: expected a comma or the array's end",
        ),
        (
            r#"{"messages":["x"]}"#,
            "the body is no openai-chat request: byte 13: expected an object",
        ),
        (
            r#"{"messages":[]} x"#,
            "the body is no openai-chat request: byte 16: expected the end of the text",
        ),
        (
            r#"{"messages":[],"a":"\"#,
            "the body is no openai-chat request: byte 19: expected the string's end",
        ),
    ] {
        let error = Request::parse(Api::OpenAiChat, body.as_bytes().to_vec()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{body}");
        assert_eq!(error.body, body.as_bytes());
    }
    let deep = format!("{{\"messages\":[],\"a\":{}", "[".repeat(1000));
    assert!(Request::parse(Api::OpenAiChat, deep.into_bytes()).is_err());
}
