//! A kept body gives the very bytes that encoding everything gives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use super::*;
use crate::config::{Api, ModelConfig};
use crate::model::{
    Assistant, CallId, HistoryItem, Latency, MessageId, ModelSpec, Part, PromptSpec, ReasoningSpec,
    ReplayState, ToolCall, ToolResult, ToolRoundId, UserOrigin,
};
use crate::provider::anthropic::{Anthropic, Unmarked};
use crate::provider::openai_chat::{ChatRequest, OpenAiChat};
use crate::provider::openai_responses::{OpenAiResponses, ResponsesRequest};

fn config(api: Api, options: &str) -> ModelConfig {
    ModelConfig {
        id: "m".to_owned(),
        name: None,
        api,
        base_url: Some("http://127.0.0.1:1/v1".parse().unwrap()),
        api_key: None,
        upstream_model: "m".to_owned(),
        context_window: None,
        max_output_tokens: Some(100),
        vision: true,
        limits: crate::config::EntryLimits::default(),
        options: options.parse().unwrap(),
    }
}

fn request(conversation: &str, instructions: &str, history: &[HistoryItem]) -> ModelRequest {
    ModelRequest {
        prompt: Arc::new(PromptSpec {
            instructions: instructions.into(),
            tools: Vec::new(),
        }),
        model: Arc::new(ModelSpec {
            model_id: "m".into(),
            display_name: None,
            reasoning: ReasoningSpec::default(),
            latency: Latency::default(),
            max_output_tokens: Some(100),
            context_window: None,
            vision: true,
            entry: crate::model::EntryLimits::default(),
        }),
        // Made anew each time, as each run makes them.
        history: history.iter().cloned().map(Arc::new).collect(),
        conversation: ConversationId::new(conversation),
    }
}

fn user(text: &str) -> HistoryItem {
    HistoryItem::User {
        id: MessageId::new(text),
        origin: UserOrigin::Imported,
        parts: vec![Part::Text(text.into())],
    }
}

fn answer(text: &str, replay: Option<ReplayState>) -> HistoryItem {
    HistoryItem::Assistant {
        said: Assistant {
            text: text.into(),
            reasoning: None,
            replay,
        },
        round: None,
        calls: Vec::new(),
    }
}

/// A round of this many calls.
fn round(name: &str, size: usize) -> Vec<HistoryItem> {
    let ids: Vec<CallId> = (0..size).map(|n| CallId::new(format!("{name}-{n}"))).collect();
    let calls = ids.iter().map(|id| ToolCall {
        id: id.clone(),
        name: "Read".into(),
        arguments: "{}".into(),
    });
    let assistant = HistoryItem::Assistant {
        said: Assistant::default(),
        round: Some(ToolRoundId::new(name)),
        calls: calls.collect(),
    };
    let results = ids.iter().map(|id| {
        HistoryItem::ToolResult(ToolResult {
            call: id.clone(),
            content: format!("\"{id}\"\n").into(),
            is_error: false,
        })
    });
    std::iter::once(assistant).chain(results).collect()
}

fn kept_bodies_are_fresh_ones<B: Growing>(
    profile: &B::Profile,
    issuer: &Arc<str>,
    bytes: impl Fn(&B) -> Vec<u8>,
) {
    let replay = |payload: &str| {
        Some(ReplayState {
            issuer: Arc::clone(issuer),
            payload: payload.into(),
        })
    };
    let reasoned = r#"{"version":1,"items":[{"type":"reasoning","summary":[],"encrypted_content":"e"},{"type":"message","parts":[{"type":"output_text","bytes":3}]}]}"#;
    let reset = r#"{"version":1,"reset":true,"items":null}"#;
    let is_responses = std::any::type_name::<B>().contains("Responses");
    let mut history = vec![user("one")];
    let mut ends = vec![0, 1];
    for turn in 0..4 {
        for size in [1, 20, 3] {
            history.extend(round(&format!("{turn}-{size}"), size));
            ends.push(history.len());
        }
        let record = match turn {
            _ if !is_responses => None,
            2 => replay(reset),
            _ => replay(reasoned),
        };
        history.push(answer("yes", record));
        history.push(user("go\non"));
        ends.push(history.len());
    }
    let bodies = Bodies::<B>::default();
    let check = |conversation: &str, instructions: &str, history: &[HistoryItem]| {
        let request = request(conversation, instructions, history);
        let fresh = bytes(&B::encode(&request, profile).unwrap());
        let kept = bodies.encode(&request, profile, &bytes).unwrap();
        assert!(kept == fresh, "{conversation} {instructions} {}", history.len());
    };
    for end in &ends {
        check("a", "first", &history[..*end]);
        check("b", "first", &history[..1]);
    }
    // The same again, less, another branch, other instructions, several steps at once.
    check("a", "first", &history);
    check("a", "first", &history[..1]);
    check("a", "first", &[user("one"), user("another")]);
    check("a", "second", &[user("one"), user("another")]);
    check("a", "second", &history[..ends[3]]);
    check("a", "second", &history);
}

#[test]
fn a_kept_body_gives_the_bytes_of_a_fresh_one_whatever_follows_it() {
    let chat = OpenAiChat::new(&config(Api::OpenAiChat, "")).unwrap();
    kept_bodies_are_fresh_ones(chat.profile(), chat.profile().issuer(), |body: &ChatRequest| {
        body.body.to_vec()
    });
    let responses = OpenAiResponses::new(&config(Api::OpenAiResponses, "")).unwrap();
    kept_bodies_are_fresh_ones(
        responses.profile(),
        responses.profile().issuer(),
        |body: &ResponsesRequest| body.body.to_vec(),
    );
    for options in ["", "cache_control = 'explicit'", "cache_control = 'none'"] {
        let anthropic = Anthropic::new(&config(Api::Anthropic, options)).unwrap();
        let profile = anthropic.profile();
        kept_bodies_are_fresh_ones(profile, profile.issuer(), |body: &Unmarked| {
            body.marked(profile)
                .map(|request| request.body.to_vec())
                .unwrap_or_default()
        });
    }
}

/// A body in flight stays what it is, while the next one grows out of it.
#[test]
fn a_body_that_somebody_holds_is_left_alone() {
    let chat = OpenAiChat::new(&config(Api::OpenAiChat, "")).unwrap();
    let bodies = Bodies::<ChatRequest>::default();
    let send = |history: &[HistoryItem]| {
        bodies
            .encode(&request("a", "", history), chat.profile(), |body| {
                body.body.clone()
            })
            .unwrap()
    };
    let first = send(&[user("one")]);
    let copy = first.to_vec();
    let second = send(&[user("one"), user("two")]);
    assert_eq!(first, copy);
    assert!(second.starts_with(&first[..first.len() - 2]));
}

#[test]
fn a_buffer_that_nobody_holds_is_not_copied() {
    let chat = OpenAiChat::new(&config(Api::OpenAiChat, "")).unwrap();
    let bodies = Bodies::<ChatRequest>::default();
    let address_of = |history: &[HistoryItem]| {
        bodies
            .encode(&request("a", "", history), chat.profile(), |body| {
                body.body.as_ptr()
            })
            .unwrap()
    };
    let long = user(&"x".repeat(10_000));
    let first = address_of(&[long.clone(), long.clone(), user("1")]);
    let second = address_of(&[long.clone(), long, user("1"), user("2")]);
    assert_eq!(second, first);
}

#[test]
fn the_conversation_unused_for_longest_leaves_first_and_large_bodies_leave_early() {
    let chat = OpenAiChat::new(&config(Api::OpenAiChat, "")).unwrap();
    let bodies = Bodies::<ChatRequest>::default();
    let held = || {
        let sent = bodies.lock();
        sent.iter()
            .map(|sent| sent.request.conversation.to_string())
            .collect::<Vec<_>>()
    };
    let send = |conversation: &str, text: &str| {
        bodies
            .encode(&request(conversation, "", &[user(text)]), chat.profile(), |_| ())
            .unwrap();
    };
    for n in 0..CONVERSATIONS {
        send(&n.to_string(), "short");
    }
    send("0", "short");
    send("new", "short");
    let kept = held();
    assert_eq!(kept.len(), CONVERSATIONS);
    assert!(!kept.contains(&"1".to_owned()) && kept.contains(&"0".to_owned()));
    send("large", &"x".repeat(BYTES / 2));
    send("larger", &"x".repeat(BYTES / 2));
    assert_eq!(held(), ["larger"]);
    send("too large", &"x".repeat(BYTES));
    assert_eq!(held(), Vec::<String>::new());
}
