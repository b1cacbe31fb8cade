//! Strict endpoints take every request of a conversation with pictures, and each request extends the one before.

use bytes::Bytes;
use cairn::model::{CallId, HistoryItem, Image, ModelSpec, Part, ToolContent, ToolResult};
use cairn::provider::Provider;
use cairn::provider::anthropic::Anthropic;
use cairn::provider::openai_chat::OpenAiChat;
use cairn::provider::openai_responses::OpenAiResponses;
use image::ImageFormat;

use crate::files::picture;
use crate::model_events::answer;
use crate::provider_input::{
    anthropic_model, assistant, chat_model, invocation, request_of, responses_model, said, spec, user,
    user_parts,
};
use crate::support::strict_anthropic::{Said, StrictAnthropic};
use crate::support::strict_chat::StrictChat;
use crate::support::strict_responses::{Items, StrictResponses};

fn image(data: Bytes, mime_type: &str) -> Part {
    Part::Image(Image {
        mime_type: mime_type.into(),
        data,
    })
}

fn result(call: &str, parts: Vec<Part>, is_error: bool) -> HistoryItem {
    HistoryItem::ToolResult(ToolResult {
        call: CallId::new(call),
        content: ToolContent::new(parts),
        is_error,
    })
}

/// A conversation with pictures of the person and of tools, empty results and empty text, and where its requests end.
fn conversation() -> (Vec<HistoryItem>, [usize; 3]) {
    let png = image(picture(4, 4, ImageFormat::Png), "image/png");
    let svg = image(Bytes::from_static(b"<svg/>"), "image/svg+xml");
    let text = |text: &str| Part::Text(text.into());
    let history = vec![
        user_parts(vec![text("look"), png.clone(), text(""), png.clone(), svg]),
        assistant(
            said("Looking."),
            &[("a", "Read", "{}"), ("b", "Read", "{}"), ("c", "Read", "{}")],
        ),
        result("b", vec![png.clone()], false),
        result("a", vec![text("two:"), png.clone(), png.clone()], false),
        result("c", vec![text("broken"), png.clone()], true),
        assistant(said(""), &[("d", "Shell", "{}"), ("e", "Shell", "{}")]),
        result("d", vec![], false),
        result("e", vec![text("\n")], true),
        assistant(said("Seen."), &[]),
        user("thanks"),
    ];
    (history, [1, 5, 10])
}

async fn play(provider: &dyn Provider, vision: bool, max_output_tokens: Option<u32>) {
    let (history, ends) = conversation();
    for end in ends {
        let spec = ModelSpec {
            vision,
            max_output_tokens,
            ..spec()
        };
        let request = request_of(spec, history[..end].to_vec());
        assert_eq!(answer(provider.call(&request, invocation())).await.text, "ok");
    }
}

#[tokio::test]
async fn every_api_takes_pictures_and_empty_results_with_and_without_vision() {
    for vision in [true, false] {
        let chat = StrictChat::start().await;
        for _ in 0..3 {
            chat.reply_text("ok");
        }
        play(
            &OpenAiChat::new(&chat_model(&chat.base_url(), "")).unwrap(),
            vision,
            None,
        )
        .await;
        chat.assert_clean();

        let responses = StrictResponses::start().await;
        for _ in 0..3 {
            responses.reply(Items::answer().message(None, "ok"));
        }
        let provider = OpenAiResponses::new(&responses_model(&responses.base_url(), "")).unwrap();
        play(&provider, vision, None).await;
        responses.assert_clean();

        let anthropic = StrictAnthropic::start().await;
        for _ in 0..3 {
            anthropic.say(&[Said::Text("ok")]);
        }
        let provider = Anthropic::new(&anthropic_model(&anthropic.base_url(), "")).unwrap();
        play(&provider, vision, Some(8192)).await;
        anthropic.assert_clean();
    }
}
