//! The loop over each API's real adapter and strict endpoint: rounds, thinking that comes back, faults, and switches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

mod support {
    pub mod cairn_server;
    pub mod fake_client;
    pub mod fake_cursor;
    pub mod fake_provider;
    pub mod over_http;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod wire_oracle;
}

#[path = "apis/broken_calls.rs"]
mod broken_calls;
#[path = "apis/call_ids.rs"]
mod call_ids;
#[path = "apis/cancelling.rs"]
mod cancelling;
#[path = "apis/lineages.rs"]
mod lineages;
#[path = "support/provider_input.rs"]
mod provider_input;
#[path = "apis/silence.rs"]
mod silence;

use std::sync::Arc;

use broken_calls::{
    a_broken_call_fails_the_run_and_resuming_asks_the_same_again,
    a_call_without_arguments_has_an_empty_object,
};
use cairn::config::Api;
use cairn::model::{ConversationId, ProviderFailure, ProviderFault, RevisionId, RunOutcome};
use cairn::provider::ModelEvent;
use call_ids::each_call_has_an_id_of_its_own_that_outlives_a_lost_database;
use cancelling::{
    before_the_first_byte_within_the_answer_and_between_tries, while_connecting_and_while_waiting_for_headers,
};
use lineages::{
    each_branch_gives_back_the_thinking_of_its_own_past, thinking_whose_answer_was_cut_is_dropped_at_the_cut,
};
use silence::{
    five_minutes_without_a_byte_are_silence,
    four_megabytes_of_arguments_in_a_quarter_of_an_hour_are_one_call,
    ten_minutes_without_a_word_are_no_silence,
};
use support::fake_client::{Bench, FakeClient};
use support::fake_provider::{FakeProvider, calls, text, with_thinking};
use support::over_http::{Endpoint, Over};
use support::strict_chat::Reply;

/// A turn that ends well; gives the revision after it.
async fn turn(bench: &Bench, provider: &FakeProvider, run: &str, base: Option<&RevisionId>) -> RevisionId {
    let mut client = bench.start(provider, bench.user_turn(run, base, run).await);
    let outcome = client.finish(|call| format!("result of {}", call.id)).await;
    assert_eq!(outcome, RunOutcome::Completed);
    client.settled.unwrap()
}

/// The conversation of every run here.
fn conversation() -> ConversationId {
    ConversationId::new("conversation")
}

/// A turn that fails; gives its failure, the client that saw it, and how many requests it took.
async fn failed_turn(
    bench: &Bench,
    provider: &FakeProvider,
    base: Option<&RevisionId>,
) -> (String, FakeClient, usize) {
    let asked = provider.endpoint().requests().len();
    // It is asked anew from where the last one began.
    provider.expect_reset(&conversation());
    let run = format!("failing {asked}");
    let mut client = bench.start(provider, bench.user_turn(&run, base, "fail").await);
    let outcome = client.finish(|_| unreachable!()).await;
    let RunOutcome::Failed(failure) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(failure.kind().as_str(), "provider");
    (
        failure.to_string(),
        client,
        provider.endpoint().requests().len() - asked,
    )
}

/// The bodies that an endpoint was sent, as text.
fn bodies(endpoint: &Endpoint) -> Vec<String> {
    let requests = endpoint.requests().into_iter();
    requests
        .map(|request| String::from_utf8(request.body.to_vec()).unwrap())
        .collect()
}

/// How an endpoint of this API must get a thought back; see the strict endpoints' scripts.
fn thought(api: Api, words: &str) -> String {
    match api {
        Api::OpenAiChat => format!(r#""reasoning_content":"{words}""#),
        Api::OpenAiResponses => format!(r#""encrypted_content":"sealed {words}""#),
        Api::Anthropic => format!(r#""thinking":"{words}","signature":"signed {words}""#),
        Api::Scripted => unreachable!(),
    }
}

#[track_caller]
fn api(over: Over) -> Api {
    match over {
        Over::Http(api) => api,
        Over::Nothing => panic!("these tests are about APIs"),
    }
}

async fn thinking_of_every_round_and_turn_comes_back_in_its_place_also_after_a_restart(over: Over) {
    let mut bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let mut base = None;
    for number in 1..=2 {
        let id = |call: &str| format!("call_{number}{call}");
        let (a, b, c) = (id("a"), id("b"), id("c"));
        let both = [
            (a.as_str(), "alpha", "{\"n\":1.0, \"m\":\"\\u00e9\"}"),
            (b.as_str(), "beta", "{}"),
        ];
        let think = |words: &str, events| with_thinking(&format!("{words} {number}"), "fake", events);
        provider.answer(think("first", calls("both", &both)));
        provider.answer(think("then", calls("", &[(c.as_str(), "gamma", "{}")])));
        provider.answer(think("last", text("done")));
        base = Some(turn(&bench, &provider, &format!("turn {number}"), base.as_ref()).await);
        bench = bench.restart().await;
    }
    provider.assert_clean();
    let endpoint = provider.endpoint();
    endpoint.assert_clean();
    let bodies = bodies(&endpoint);
    assert_eq!(bodies.len(), 6);
    let thoughts =
        ["first 1", "then 1", "last 1", "first 2", "then 2"].map(|words| thought(api(over), words));
    for (index, body) in bodies.iter().enumerate() {
        let mut rest = body.as_str();
        for thought in &thoughts[..index] {
            let at = rest
                .find(thought)
                .unwrap_or_else(|| panic!("{thought} is not in its place in {body}"));
            rest = &rest[at + thought.len()..];
        }
        assert!(
            thoughts[index..]
                .iter()
                .all(|thought| !body.contains(thought.as_str()))
        );
    }
}

async fn a_permanent_refusal_is_asked_for_once_and_a_passing_one_again_with_the_same_bytes(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    let endpoint = provider.endpoint();
    provider.answer(text("one"));
    let base = turn(&bench, &provider, "first", None).await;
    for status in [400, 401, 403, 404, 413, 422] {
        let error = r#"{"error":{"message":"no to sk-canary-123","type":"x"}}"#;
        provider.replies(vec![Reply::status(status, &[("retry-after", "0")], error)]);
        let (failure, _, asked) = failed_turn(&bench, &provider, Some(&base)).await;
        assert_eq!(asked, 1, "{status}");
        assert!(failure.contains("no to [redacted]"), "{failure}");
    }
    let start = |sse: &str| Reply::raw(sse.to_owned());
    provider.replies(vec![
        Reply::status(429, &[("retry-after-ms", "1")], "{}"),
        Reply::status(529, &[], ""),
        Reply::disconnect(),
        endpoint.answer(&text("two").into_iter().map(Ok).collect::<Vec<_>>()),
    ]);
    provider.expect_reset(&conversation());
    turn(&bench, &provider, "second", Some(&base)).await;
    let after = bodies(&endpoint);
    let tries = &after[after.len() - 4..];
    assert!(tries.iter().all(|body| *body == tries[0]));
    // A stream that ends, or breaks, before it said anything is a passing fault too.
    provider.replies(vec![
        start(": waiting\n\n"),
        start(""),
        Reply::raw("x".repeat(9)).broken_at(4),
        endpoint.answer(&text("three").into_iter().map(Ok).collect::<Vec<_>>()),
    ]);
    provider.expect_reset(&conversation());
    turn(&bench, &provider, "third", Some(&base)).await;
    endpoint.assert_clean();
}

async fn nothing_of_an_answer_that_was_cut_is_kept_or_run(over: Over) {
    let bench = Bench::new().await;
    let provider = FakeProvider::over(over).await;
    provider.answer(text("one"));
    let base = turn(&bench, &provider, "first", None).await;
    let half_text = [
        ModelEvent::Start,
        ModelEvent::TextStart,
        ModelEvent::TextDelta("half an ans".into()),
    ];
    let mut whole_call = calls("", &[("a", "alpha", "{\"n\":1}")]);
    whole_call.pop();
    let mut half_call = whole_call.clone();
    half_call.pop();
    let failure = ProviderFailure::new(ProviderFault::Unavailable, "the engine fell over");
    let ok = |events: &[ModelEvent]| events.iter().cloned().map(Ok).collect::<Vec<_>>();
    for (steps, words) in [
        (ok(&half_text), "the stream ended without"),
        (ok(&half_call), "the stream ended without"),
        (ok(&whole_call), "the stream ended without"),
        (
            [ok(&half_text), vec![Err(failure.clone())]].concat(),
            "the engine fell over",
        ),
        (
            [ok(&whole_call), vec![Err(failure)]].concat(),
            "the engine fell over",
        ),
    ] {
        provider.steps(steps);
        let (failure, client, asked) = failed_turn(&bench, &provider, Some(&base)).await;
        assert!(failure.contains(words), "{failure}");
        assert_eq!(asked, 1, "nothing is repeated after output began");
        assert!(client.rounds.is_empty(), "a cut call was run");
        let settled = client.settled.unwrap();
        let kept = bench.services.store.history(&settled).await.unwrap();
        assert_eq!(
            kept.len(),
            3,
            "the first turn and the new message, and nothing of the answer"
        );
    }
    provider.assert_clean();
}

/// Another key, or another model, at one endpoint; and another endpoint.
async fn thinking_goes_only_to_who_made_it_and_each_ones_requests_keep_growing(over: Over) {
    let api = api(over);
    let shared = Arc::new(Endpoint::start(api).await);
    let elsewhere = Arc::new(Endpoint::start(api).await);
    for (other_endpoint, model, key) in [
        (&shared, "up/other", "sk-one"),
        (&shared, "up/model", "sk-two"),
        (&elsewhere, "up/model", "sk-one"),
    ] {
        let bench = Bench::new().await;
        let first = FakeProvider::at(&shared, "up/model", "sk-one");
        let second = FakeProvider::at(other_endpoint, model, key);
        let mut base = None;
        let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let (provider, seen, name) = match number % 2 {
                0 => (&first, &mut of_first, "first"),
                _ => (&second, &mut of_second, "second"),
            };
            // The endpoints see several lineages here; what each of them must keep is checked below.
            provider.endpoint().allow_reset();
            provider.answer(with_thinking(&format!("{name} {number}"), "fake", text("so")));
            base = Some(turn(&bench, provider, &format!("turn {number}"), base.as_ref()).await);
            seen.push(bodies(&provider.endpoint()).pop().unwrap());
        }
        let known = |body: &str| -> Vec<&str> {
            ["first 0", "second 1", "first 2"]
                .into_iter()
                .filter(|words| body.contains(&thought(api, words)))
                .collect()
        };
        assert_eq!(known(&of_first[0]), Vec::<&str>::new());
        assert_eq!(known(&of_second[0]), Vec::<&str>::new(), "{model} {key}");
        assert_eq!(known(&of_first[1]), ["first 0"]);
        assert_eq!(known(&of_second[1]), ["second 1"], "{model} {key}");
        for seen in [&of_first, &of_second] {
            let open = seen[0].strip_suffix("]}").unwrap();
            assert!(seen[1].starts_with(open), "was {}\nis  {}", seen[0], seen[1]);
            assert!(!seen[1].contains("first 2"));
        }
    }
    shared.assert_clean();
    elsewhere.assert_clean();
}

over_every_http_api! {
    thinking_of_every_round_and_turn_comes_back_in_its_place_also_after_a_restart,
    a_permanent_refusal_is_asked_for_once_and_a_passing_one_again_with_the_same_bytes,
    nothing_of_an_answer_that_was_cut_is_kept_or_run,
    a_broken_call_fails_the_run_and_resuming_asks_the_same_again,
    a_call_without_arguments_has_an_empty_object,
    before_the_first_byte_within_the_answer_and_between_tries,
    each_branch_gives_back_the_thinking_of_its_own_past,
    each_call_has_an_id_of_its_own_that_outlives_a_lost_database,
    five_minutes_without_a_byte_are_silence,
    four_megabytes_of_arguments_in_a_quarter_of_an_hour_are_one_call,
    ten_minutes_without_a_word_are_no_silence,
    thinking_goes_only_to_who_made_it_and_each_ones_requests_keep_growing,
    thinking_whose_answer_was_cut_is_dropped_at_the_cut,
    while_connecting_and_while_waiting_for_headers,
}
