//! What a request is remembered by: each API's encoder tells tools, instructions and messages apart, and a change of one is
//! found where it is.

use std::sync::Arc;

use cairn::model::{ItemDigest, ItemKind, ModelRequest, PromptSpec, first_break};
use cairn::provider::{anthropic, openai_chat, openai_responses};

use super::support::provider_input::{
    anthropic_model, anthropic_spec, assistant, chat_model, prompt, request_of, responses_model, result,
    said, user,
};

/// The digests of a request at each of the three APIs.
fn digests(request: &ModelRequest) -> [Vec<ItemDigest>; 3] {
    let url = "http://127.0.0.1:1/v1";
    let chat = openai_chat::OpenAiChat::new(&chat_model(url, "")).unwrap();
    let responses = openai_responses::OpenAiResponses::new(&responses_model(url, "")).unwrap();
    let messages = anthropic::Anthropic::new(&anthropic_model(url, "cache_control = 'explicit'")).unwrap();
    [
        openai_chat::encode(request, chat.profile())
            .unwrap()
            .items()
            .to_vec(),
        openai_responses::encode(request, responses.profile())
            .unwrap()
            .digests()
            .to_vec(),
        anthropic::encode(request, messages.profile())
            .unwrap()
            .items()
            .to_vec(),
    ]
}

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
