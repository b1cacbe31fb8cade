//! What a request is remembered by: each API's encoder tells tools, instructions and messages apart, and a change of one is
//! found where it is.

use std::sync::Arc;

use bytes::Bytes;
use cairn::config::ModelConfig;
use cairn::model::{
    HistoryItem, Image, ItemDigest, ItemKind, ModelRequest, Part, PromptSpec, Repeats, ReplayState,
    ToolContent, first_break, first_head_break, first_message_break, first_settled_break,
};
use cairn::provider::{anthropic, openai_chat, openai_responses};

use super::support::provider_input::{
    anthropic_model, anthropic_spec, assistant, chat_model, prompt, request_of, responses_model, result,
    said, user, user_parts,
};

/// The digests of a request at each of the three APIs.
fn digests(request: &ModelRequest) -> [Vec<ItemDigest>; 3] {
    [
        of_chat(request, &chat_model(URL, "")),
        of_responses(request, &responses_model(URL, "")),
        of_anthropic(request, &anthropic_model(URL, "cache_control = 'explicit'")),
    ]
}

fn of_chat(request: &ModelRequest, model: &ModelConfig) -> Vec<ItemDigest> {
    let chat = openai_chat::OpenAiChat::new(model).unwrap();
    let encoded = openai_chat::encode(request, chat.profile()).unwrap();
    encoded.items().to_vec()
}

fn of_responses(request: &ModelRequest, model: &ModelConfig) -> Vec<ItemDigest> {
    let responses = openai_responses::OpenAiResponses::new(model).unwrap();
    let encoded = openai_responses::encode(request, responses.profile()).unwrap();
    encoded.digests().to_vec()
}

fn of_anthropic(request: &ModelRequest, model: &ModelConfig) -> Vec<ItemDigest> {
    let messages = anthropic::Anthropic::new(model).unwrap();
    let encoded = anthropic::encode(request, messages.profile()).unwrap();
    encoded.items().to_vec()
}

const URL: &str = "http://127.0.0.1:1/v1";

fn request(prompt: PromptSpec, asked: &str, answered: &str) -> ModelRequest {
    let history = vec![
        user(asked),
        assistant(said("Let me look."), &[("call_1", "Read", "{}")]),
        result("call_1", "one line"),
        assistant(said(answered), &[]),
    ];
    ModelRequest {
        prompt: Arc::new(prompt),
        ..request_of(anthropic_spec(), history)
    }
}

#[test]
fn every_item_has_its_kind_and_its_place() {
    let kinds = digests(&request(prompt(), "What is in it?", "One line."))
        .map(|items| items.iter().map(|item| item.kind).collect::<Vec<_>>());
    let head = [ItemKind::Tool, ItemKind::Tool, ItemKind::Instructions];
    for (kinds, messages) in kinds.iter().zip([4, 5, 4]) {
        assert_eq!(kinds[..3], head);
        assert_eq!(kinds[3..], vec![ItemKind::Message; messages]);
    }
}

#[test]
fn a_change_of_one_item_is_found_where_it_is() {
    let before = digests(&request(prompt(), "What is in it?", "One line."));
    let changed = |change: fn(&mut PromptSpec)| {
        let mut prompt = prompt();
        change(&mut prompt);
        request(prompt, "What is in it?", "One line.")
    };
    let last = before.clone().map(|items| items.len() - 1);
    for (after, places) in [
        (
            changed(|prompt| prompt.tools[0].description = "Otherwise.".into()),
            [0; 3],
        ),
        (changed(|prompt| prompt.tools.swap(0, 1)), [0; 3]),
        (
            changed(|prompt| prompt.tools[1].parameters = r#"{"type":"object"}"#.into()),
            [1; 3],
        ),
        (changed(|prompt| prompt.instructions = "Be long.".into()), [2; 3]),
        (request(prompt(), "What is in there?", "One line."), [3; 3]),
        (request(prompt(), "What is in it?", "Two lines."), last),
    ] {
        let breaks: Vec<Option<usize>> = before
            .iter()
            .zip(digests(&after))
            .map(|(before, after)| first_break(before, &after))
            .collect();
        assert_eq!(breaks, places.map(Some));
    }
}

/// Which item breaks the prefix as bytes, and which one with what settings decide left out of account.
fn breaks(before: &[ItemDigest], after: &[ItemDigest]) -> (Option<usize>, Option<usize>) {
    assert_eq!(first_head_break(before, after), None);
    (
        first_message_break(before, after, Repeats::Everything),
        first_settled_break(before, after, Repeats::Everything),
    )
}

/// A question, a call with thinking, its result, an answer.
fn with_replay(replay: ReplayState, asked: &str) -> ModelRequest {
    let mut called = said("Let me look.");
    called.replay = Some(replay);
    let history = vec![
        user(asked),
        assistant(called, &[("call_1", "Read", "{}")]),
        result("call_1", "one line"),
        assistant(said("One line."), &[]),
    ];
    request_of(anthropic_spec(), history)
}

#[test]
fn a_setting_of_replayed_thinking_decides_its_members_and_no_other_byte() {
    let model = |options| chat_model(URL, options);
    let profile = openai_chat::OpenAiChat::new(&model("")).unwrap();
    let replay = ReplayState {
        issuer: profile.profile().issuer().clone(),
        payload: r#"{"version":1,"fields":{"reasoning":"Hm."}}"#.into(),
    };
    let of = |options, asked| of_chat(&with_replay(replay.clone(), asked), &model(options));
    let before = of("", "What is in it?");
    for options in [
        "reasoning_replay = 'never'",
        "reasoning_field = 'reasoning_content'",
        "reasoning_replay = 'always'\nreasoning_field = 'reasoning_content'",
    ] {
        // Two tools, the instructions, the question; then the answer with the thinking.
        let after = of(options, "What is in it?");
        assert_eq!(breaks(&before, &after), (Some(4), None), "{options}");
        let rewritten = of(options, "What is in there?");
        assert_eq!(breaks(&before, &rewritten), (Some(3), Some(3)), "{options}");
    }
}

#[test]
fn a_setting_of_replayed_ids_decides_them_and_a_refusal_the_reasoning() {
    let model = |options| responses_model(URL, options);
    let profile = openai_responses::OpenAiResponses::new(&model("")).unwrap();
    let of = |options, payload: &str, asked| {
        let replay = ReplayState {
            issuer: profile.profile().issuer().clone(),
            payload: payload.into(),
        };
        of_responses(&with_replay(replay, asked), &model(options))
    };
    let items = r#""items":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"sealed"},{"type":"message","id":"msg_1","parts":[{"type":"output_text","bytes":12}]},{"type":"function_call","id":"fc_1"}]}"#;
    let payload = format!(r#"{{"version":1,{items}"#);
    let before = of("", &payload, "What is in it?");
    let after = of("replay_item_ids = true", &payload, "What is in it?");
    // Two tools, the instructions, the question; then the reasoning with its id.
    assert_eq!(breaks(&before, &after), (Some(4), None));
    let rewritten = of("replay_item_ids = true", &payload, "What is in there?");
    assert_eq!(breaks(&before, &rewritten), (Some(3), Some(3)));

    // The next answer says that the reasoning before it was refused.
    let refused = |asked| {
        let mut answer = said("Again.");
        answer.replay = Some(ReplayState {
            issuer: profile.profile().issuer().clone(),
            payload: r#"{"version":1,"reset":true,"items":null}"#.into(),
        });
        let mut request = with_replay(
            ReplayState {
                issuer: profile.profile().issuer().clone(),
                payload: payload.as_str().into(),
            },
            asked,
        );
        request.history.push(Arc::new(user("Again?")));
        request.history.push(Arc::new(assistant(answer, &[])));
        of_responses(&request, &model(""))
    };
    assert_eq!(breaks(&before, &refused("What is in it?")), (Some(4), None));
    assert_eq!(breaks(&before, &refused("What is in there?")), (Some(3), Some(3)));
}

#[test]
fn whether_pictures_are_seen_decides_only_messages_that_hold_some() {
    let picture = || {
        let data = Bytes::from_static(b"picture");
        let mime_type = "image/png".into();
        Part::Image(Image { mime_type, data })
    };
    let of = |vision: bool, asked: &str| {
        let history = vec![
            user(asked),
            assistant(said("Yes."), &[]),
            user_parts(vec![Part::Text("And this?".into()), picture()]),
            assistant(said("A boat."), &[("call_1", "Read", "{}")]),
            picture_result(picture()),
            assistant(said("Another boat."), &[]),
        ];
        let mut spec = anthropic_spec();
        spec.vision = vision;
        digests(&request_of(spec, history))
    };
    let before = of(true, "Are you there?");
    for (before, after) in before.iter().zip(of(false, "Are you there?")) {
        assert_eq!(breaks(before, &after), (Some(5), None));
        assert_eq!(breaks(&after, before), (Some(5), None));
    }
    for (before, after) in before.iter().zip(of(false, "Are you here?")) {
        assert_eq!(breaks(before, &after), (Some(3), Some(3)));
    }
}

fn picture_result(picture: Part) -> HistoryItem {
    let HistoryItem::ToolResult(mut answer) = result("call_1", "") else {
        unreachable!()
    };
    answer.content = ToolContent::new(vec![Part::Text("The file:".into()), picture]);
    HistoryItem::ToolResult(answer)
}
