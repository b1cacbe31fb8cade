//! What each API is sent of a history with pictures.

use cairn::config::{Api, ModelConfig};
use cairn::model::{CallId, HistoryItem, Image, ModelRequest, ModelSpec, PICTURE_UNSEEN, Part};
use cairn::model::{ToolContent, ToolResult};
use cairn::provider::{anthropic, openai_chat, openai_responses};
use serde_json::{Value, json};

use crate::provider_input::{
    anthropic_model, assistant, chat_model, request_of, responses_model, said, spec, user, user_parts,
};

const APIS: [Api; 3] = [Api::OpenAiChat, Api::OpenAiResponses, Api::Anthropic];

fn image(mime_type: &str) -> Part {
    Part::Image(Image {
        mime_type: mime_type.into(),
        data: vec![1, 2, 3].into(),
    })
}

fn result(call: &str, parts: Vec<Part>, is_error: bool) -> HistoryItem {
    HistoryItem::ToolResult(ToolResult {
        call: CallId::new(call),
        content: ToolContent::new(parts),
        is_error,
    })
}

fn request(vision: bool, history: &[HistoryItem]) -> ModelRequest {
    let spec = ModelSpec {
        vision,
        max_output_tokens: Some(100),
        ..spec()
    };
    request_of(spec, history.to_vec())
}

/// The messages that an API is sent, the system prompt left out.
fn sent(api: Api, vision: bool, history: &[HistoryItem]) -> Vec<Value> {
    let request = request(vision, history);
    let base = "http://127.0.0.1:1/v1";
    let (body, key) = match api {
        Api::OpenAiChat => {
            let provider = openai_chat::OpenAiChat::new(&chat_model(base, "")).unwrap();
            let encoded = openai_chat::encode(&request, provider.profile()).unwrap();
            (encoded.body, "messages")
        }
        Api::OpenAiResponses => {
            let provider = openai_responses::OpenAiResponses::new(&responses_model(base, "")).unwrap();
            let encoded = openai_responses::encode(&request, provider.profile()).unwrap();
            (encoded.body, "input")
        }
        Api::Anthropic => {
            let config: ModelConfig = anthropic_model(base, "cache_control = 'none'");
            let provider = anthropic::Anthropic::new(&config).unwrap();
            let encoded = anthropic::encode(&request, provider.profile()).unwrap();
            (encoded.body, "messages")
        }
        Api::Scripted => panic!("has no bodies"),
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    let messages = body[key].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] != "system")
        .cloned()
        .collect()
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

#[test]
fn a_persons_pictures_keep_their_place_among_the_text() {
    let history = [user_parts(vec![
        text("before"),
        image("image/png"),
        text("between"),
        image("image/webp"),
        text(""),
    ])];
    let png = "data:image/png;base64,AQID";
    let webp = "data:image/webp;base64,AQID";
    assert_eq!(
        sent(Api::OpenAiChat, true, &history),
        [json!({"role": "user", "content": [
            {"type": "text", "text": "before"},
            {"type": "image_url", "image_url": {"url": png}},
            {"type": "text", "text": "between"},
            {"type": "image_url", "image_url": {"url": webp}},
        ]})]
    );
    assert_eq!(
        sent(Api::OpenAiResponses, true, &history),
        [json!({"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "before"},
            {"type": "input_image", "image_url": png},
            {"type": "input_text", "text": "between"},
            {"type": "input_image", "image_url": webp},
        ]})]
    );
    let block = |kind: &str| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": "AQID"}});
    assert_eq!(
        sent(Api::Anthropic, true, &history),
        [json!({"role": "user", "content": [
            {"type": "text", "text": "before"},
            block("image/png"),
            {"type": "text", "text": "between"},
            block("image/webp"),
        ]})]
    );
}

/// A person switches from a model that sees to one that does not, and goes on.
#[test]
fn a_model_that_cannot_see_is_told_so_where_a_picture_stands() {
    let history = [user_parts(vec![
        text("before"),
        image("image/png"),
        text("after"),
    ])];
    let texts =
        |kind: &str| ["before", PICTURE_UNSEEN, "after"].map(|text| json!({"type": kind, "text": text}));
    assert_eq!(
        sent(Api::OpenAiChat, false, &history),
        [json!({"role": "user", "content": format!("before\n{PICTURE_UNSEEN}\nafter")})]
    );
    assert_eq!(
        sent(Api::OpenAiResponses, false, &history),
        [json!({"type": "message", "role": "user", "content": texts("input_text")})]
    );
    assert_eq!(
        sent(Api::Anthropic, false, &history),
        [json!({"role": "user", "content": texts("text")})]
    );
}

#[test]
fn a_picture_that_no_api_takes_does_not_fail_the_request() {
    let history = [user_parts(vec![image("image/svg+xml")])];
    for api in APIS {
        let sent = sent(api, true, &history);
        let text = sent[0]["content"][0]["text"]
            .as_str()
            .or(sent[0]["content"].as_str());
        assert_eq!(
            text,
            Some("[A picture of a kind that cannot be shown to you stands here.]"),
            "{api:?}"
        );
    }
}

fn round() -> Vec<HistoryItem> {
    vec![
        user("look"),
        assistant(
            said(""),
            &[("a", "Read", "{}"), ("b", "Read", "{}"), ("c", "Shell", "{}")],
        ),
        result("b", vec![text("b:"), image("image/png"), text("b.")], false),
        result("a", vec![image("image/gif")], false),
        result("c", vec![text("done")], false),
    ]
}

#[test]
fn the_pictures_of_tools_are_shown_where_the_api_allows_it() {
    let chat = sent(Api::OpenAiChat, true, &round());
    assert_eq!(
        chat[2..],
        [
            json!({"role": "tool", "tool_call_id": "b",
                "content": "b:\n[Picture 1, which the next user message shows.]\nb."}),
            json!({"role": "tool", "tool_call_id": "a",
                "content": "[Picture 2, which the next user message shows.]"}),
            json!({"role": "tool", "tool_call_id": "c", "content": "done"}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "The pictures from the tool results above, in the order of their numbers:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}},
                {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AQID"}},
            ]}),
        ]
    );
    let responses = sent(Api::OpenAiResponses, true, &round());
    assert_eq!(
        responses[4..],
        [
            json!({"type": "function_call_output", "call_id": "b", "output": [
                {"type": "input_text", "text": "b:"},
                {"type": "input_image", "image_url": "data:image/png;base64,AQID"},
                {"type": "input_text", "text": "b."},
            ]}),
            json!({"type": "function_call_output", "call_id": "a", "output": [
                {"type": "input_image", "image_url": "data:image/gif;base64,AQID"},
            ]}),
            json!({"type": "function_call_output", "call_id": "c", "output": "done"}),
        ]
    );
    let anthropic = sent(Api::Anthropic, true, &round());
    let block = |kind: &str| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": "AQID"}});
    assert_eq!(
        anthropic[2..],
        [json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "b", "content": [
                {"type": "text", "text": "b:"}, block("image/png"), {"type": "text", "text": "b."},
            ]},
            {"type": "tool_result", "tool_use_id": "a", "content": [block("image/gif")]},
            {"type": "tool_result", "tool_use_id": "c", "content": "done"},
        ]})]
    );
}

#[test]
fn the_pictures_of_tools_are_named_to_a_model_that_cannot_see() {
    for api in APIS {
        let sent = sent(api, false, &round());
        let results: Vec<&str> = match api {
            Api::Anthropic => {
                let blocks = sent[2]["content"].as_array().unwrap();
                blocks
                    .iter()
                    .filter_map(|block| block["content"].as_str())
                    .collect()
            }
            _ => {
                let outputs = sent
                    .iter()
                    .map(|message| (&message["content"], &message["output"]));
                outputs
                    .filter_map(|(content, output)| content.as_str().or(output.as_str()))
                    .filter(|text| *text != "look")
                    .collect()
            }
        };
        let b = format!("b:\n{PICTURE_UNSEEN}\nb.");
        assert_eq!(results, [&*b, PICTURE_UNSEEN, "done"], "{api:?}");
        assert!(!serde_json::to_string(&sent).unwrap().contains("AQID"), "{api:?}");
    }
}

#[test]
fn a_failed_tools_picture_is_text_where_the_api_takes_only_text() {
    let mut history = round();
    history[3] = result("a", vec![text("broken"), image("image/png")], true);
    let sent = sent(Api::Anthropic, true, &history);
    assert_eq!(
        sent[2]["content"][1],
        json!({"type": "tool_result", "tool_use_id": "a", "is_error": true,
            "content": "broken\n[A picture that came with the failure and cannot be shown stands here.]"})
    );
}

#[test]
fn later_requests_begin_with_the_earlier_ones() {
    let mut history = round();
    history.push(assistant(said("seen"), &[]));
    history.extend(round());
    history.push(assistant(said("again"), &[]));
    // Wherever a request can end: not within a batch.
    let ends = [1, 5, 6, 7, 11, 12];
    for api in APIS {
        for vision in [true, false] {
            let longest = sent(api, vision, &history);
            for end in ends {
                let shorter = sent(api, vision, &history[..end]);
                assert_eq!(shorter, longest[..shorter.len()], "{api:?} {end}");
            }
        }
    }
}

#[test]
fn nothing_is_ever_sent_as_an_empty_block() {
    let history = [
        user_parts(vec![text("")]),
        user("go"),
        assistant(said(""), &[("a", "Read", "{}")]),
        result("a", vec![text("")], false),
        user_parts(vec![text(""), text("on")]),
    ];
    let fixed = "(The tool gave nothing.)";
    assert_eq!(
        sent(Api::OpenAiChat, true, &history),
        [
            json!({"role": "user", "content": "go"}),
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "a", "content": fixed}),
            json!({"role": "user", "content": "on"}),
        ]
    );
    assert_eq!(
        sent(Api::OpenAiResponses, true, &history),
        [
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}),
            json!({"type": "function_call", "call_id": "a", "name": "Read", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "a", "output": fixed}),
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "on"}]}),
        ]
    );
    assert_eq!(
        sent(Api::Anthropic, true, &history),
        [
            json!({"role": "user", "content": [{"type": "text", "text": "go"}]}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "on"}]}),
        ]
    );
}
