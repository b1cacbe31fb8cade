//! The strict fake Responses endpoint notices what it is there to notice.

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
#[path = "support/strict_responses.rs"]
mod strict_responses;

use cairn::model::{HistoryItem, ProviderFault, ReplayState};
use cairn::provider::Provider;
use cairn::provider::openai_responses::OpenAiResponses;
use model_events::collect;
use provider_input::{assistant, invocation, request, responses_model, result, said, user};
use strict_responses::{Items, StrictResponses};

/// Sends the histories one after another, the first answered with reasoning, and gives what was noticed about the last.
async fn noticed(options: &str, histories: &[Vec<HistoryItem>]) -> Vec<String> {
    let endpoint = StrictResponses::start().await;
    let provider = OpenAiResponses::new(&responses_model(&endpoint.base_url(), options)).unwrap();
    for (number, history) in histories.iter().enumerate() {
        assert_eq!(
            endpoint.violations(),
            Vec::<String>::new(),
            "before request {number}"
        );
        endpoint.reply(Items::answer().reasoning("issued", &[]).message(None, "ok"));
        let history = history.iter().map(|item| own(item, &provider)).collect();
        let (_, failure) = collect(provider.call(&request(history), invocation())).await;
        // A refusal of reasoning ends in a request without it, which is well; every other one is a failure.
        let is_reset = endpoint
            .violations()
            .iter()
            .any(|breach| breach.contains("not issued"));
        let is_refused = !endpoint.violations().is_empty() && !is_reset;
        let faults = [ProviderFault::InvalidRequest, ProviderFault::NotFound];
        assert_eq!(
            failure.is_some_and(|failure| faults.contains(&failure.fault)),
            is_refused
        );
    }
    endpoint.violations()
}

/// The item with its replay state under the provider's own name.
fn own(item: &HistoryItem, provider: &OpenAiResponses) -> HistoryItem {
    let mut item = item.clone();
    if let HistoryItem::Assistant { said, .. } = &mut item
        && let Some(replay) = &mut said.replay
    {
        replay.issuer = provider.profile().issuer().clone();
    }
    item
}

fn replayed(text: &str, items: &str) -> HistoryItem {
    let mut spoken = said(text);
    spoken.replay = Some(ReplayState {
        issuer: "".into(),
        payload: format!("{{\"version\":1,\"items\":[{items}]}}").into(),
    });
    assistant(spoken, &[])
}

fn reasoning(content: &str) -> String {
    format!(r#"{{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"{content}"}}"#)
}

#[tokio::test]
async fn broken_pairs_ids_and_reasoning_are_noticed() {
    let call = || assistant(said(""), &[("c1", "Read", "{}")]);
    let broken = assistant(said(""), &[("c1", "Read", "{")]);
    let message = r#"{"type":"message","parts":[{"type":"output_text","bytes":2}]}"#;
    let with = |items: String| vec![user("a"), replayed("ok", &items), user("b")];
    let issued = reasoning("issued");
    for (options, last, expected) in [
        ("", vec![user("a"), call()], "no tool output found"),
        ("", vec![user("a"), call(), user("b")], "no tool output found"),
        ("", vec![user("a"), result("c1", "r")], "no tool call found"),
        (
            "",
            vec![user("a"), call(), result("c1", "r"), call(), result("c1", "r")],
            "not unique",
        ),
        ("", vec![user("a"), broken, result("c1", "r")], "no JSON text"),
        (
            "",
            with(r#"{"type":"message","parts":[{"type":"output_text","bytes":0},{"type":"output_text","bytes":2}]}"#.to_owned()),
            "a part is empty",
        ),
        (
            "",
            with(format!("{},{message}", reasoning("foreign"))),
            "not issued here",
        ),
        ("", with(format!("{message},{issued}")), "required following item"),
        ("", with(format!("{issued},{issued},{message}")), "Duplicate item"),
        (
            "replay_item_ids = true",
            with(format!("{issued},{message}")),
            "Item with id 'rs_1' not found",
        ),
        ("", vec![user("other")], "does not extend"),
    ] {
        let noticed = noticed(options, &[vec![user("a")], last]).await;
        assert!(
            noticed.iter().any(|breach| breach.contains(expected)),
            "{expected}: {noticed:?}"
        );
    }
    let good = noticed("", &[vec![user("a")], with(format!("{issued},{message}"))]).await;
    assert_eq!(good, Vec::<String>::new());
    let unasked = noticed("include_encrypted_reasoning = false", &[vec![user("a")]]).await;
    assert!(unasked[0].contains("is not asked for"), "{unasked:?}");
}
