//! One message or one round that is larger than the model's context: the conversation survives it, by one declared reset.

use cairn::config::Api;
use cairn::cursor::proto::agent::ConversationSummaryArchive;
use cairn::model::{
    CompactionTrigger, ConversationId, HistoryItem, ModelRequest, Part, PrefixReset, ProviderFault,
    RunFailure, RunOutcome,
};
use cairn::store::{PrefixVerdict, Records};
use prost::Message as _;

use crate::over_every_api;
use crate::support::fake_provider::{calls, with_usage};
use crate::support::over_http::Over;
use crate::support::wire_bench::{APIS, Bench, Database, messages, over_each_api, roles};
use crate::talk::{ALLOWANCE, Talk};

const NOTE: &str = "were left out here: this was too long for the model.]";

/// The text of each result, and of each message of the person, in a request.
fn texts(request: &ModelRequest) -> Vec<String> {
    let text = |item: &HistoryItem| match item {
        HistoryItem::ToolResult(result) => Some(result.content.text().into_owned()),
        HistoryItem::User { parts, .. } => Some(
            parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => &**text,
                    Part::Image(_) => "(picture)",
                })
                .collect::<Vec<_>>()
                .join("|"),
        ),
        HistoryItem::Assistant { .. } => None,
    };
    request.history.iter().filter_map(|item| text(item)).collect()
}

/// What is left of so many `x`, sharing the allowance with nobody.
fn shortened(length: usize, share: usize) -> String {
    let (head, tail) = (share * 7 / 10, share - share * 7 / 10);
    format!(
        "{}\n[{} characters {NOTE}\n{}",
        "x".repeat(head),
        length - share,
        "x".repeat(tail)
    )
}

fn failure_of(outcome: &RunOutcome) -> (ProviderFault, &str) {
    match outcome {
        RunOutcome::Failed(RunFailure::Provider(failure)) => (failure.fault, &failure.message),
        other => panic!("no failure of the provider: {other:?}"),
    }
}

async fn triggers(talk: &Talk) -> Vec<CompactionTrigger> {
    talk.compactions()
        .await
        .iter()
        .map(|compaction| compaction.trigger)
        .collect()
}

over_every_api! {
    a_round_that_is_too_long_by_itself_is_shortened_and_the_conversation_goes_on,
    a_message_that_is_too_long_ends_its_run_and_is_shortened_in_the_next_one,
}

async fn a_round_that_is_too_long_by_itself_is_shortened_and_the_conversation_goes_on(over: Over) {
    let mut talk = Talk::over(over).await;
    talk.result = Some("x".repeat(20_000));
    talk.call("call_1", 300);
    talk.refuse();
    talk.answer("Done.", 900);
    assert_eq!(talk.say_with_reset("Read it.").await, RunOutcome::Completed);
    assert_eq!(talk.shown(), ["compacted +5 barrier"]);
    talk.answer("Yes.", 910);
    assert_eq!(talk.say("Sure?").await, RunOutcome::Completed);
    let requests = talk.provider.requests();
    assert_eq!(requests.len(), 4);
    // The person's own message is not counted: it stays as it is.
    let expected = [
        "the rules",
        "[Tool results that were shortened: 1.]",
        "Read it.",
        &shortened(20_000, ALLOWANCE),
    ];
    assert_eq!(texts(&requests[2]), expected);
    assert_eq!(texts(&requests[3]), [&expected[..], &["Sure?"]].concat());
    assert_eq!(triggers(&talk).await, [CompactionTrigger::Shortening]);
    let calls = Records::open(&talk.bench.folder.path().join("cairn.db"))
        .await
        .unwrap()
        .model_calls(&ConversationId::new("conversation"))
        .await
        .unwrap();
    let verdicts: Vec<_> = calls.iter().map(|call| call.verdict).collect();
    assert_eq!(
        verdicts,
        [
            PrefixVerdict::Extends,
            PrefixVerdict::Extends,
            PrefixVerdict::Reset(PrefixReset::Shortening),
            PrefixVerdict::Extends
        ]
    );
}

#[tokio::test]
async fn a_round_that_is_too_long_behind_a_summary_is_shortened_too() {
    let mut talk = Talk::new().await;
    talk.answer("First.", 400);
    talk.say("One?").await;
    talk.result = Some("x".repeat(20_000));
    talk.call("call_1", 500);
    talk.refuse();
    talk.answer("the gist", 510);
    talk.refuse();
    talk.answer("Done.", 300);
    assert_eq!(talk.say_with_reset("Read it.").await, RunOutcome::Completed);
    assert_eq!(
        talk.shown(),
        ["summary 2", "compacted +5 barrier", "compacted +5 barrier"]
    );
    assert_eq!(
        texts(&talk.provider.requests().pop().unwrap()),
        [
            "the rules",
            "<the gist>|[Tool results that were shortened: 1.]",
            "Read it.",
            &shortened(20_000, ALLOWANCE),
        ]
    );
    assert_eq!(
        triggers(&talk).await,
        [CompactionTrigger::Refusal, CompactionTrigger::Shortening]
    );
}

async fn a_message_that_is_too_long_ends_its_run_and_is_shortened_in_the_next_one(over: Over) {
    let mut talk = Talk::over(over).await;
    talk.refuse();
    let outcome = talk.say(&"x".repeat(30_000)).await;
    let (fault, words) = failure_of(&outcome);
    assert_eq!(fault, ProviderFault::MessageTooLong);
    assert_eq!(
        words,
        "Your message is too long for the model \"fake\", even with all that was said before it summarised. Send a \
         shorter one, attach less, or choose a model with a larger context. The conversation goes on: from your next \
         message on, the model sees the beginning and the end of this one."
    );
    // Nothing was done to the history, and nothing was asked again.
    assert_eq!(
        (triggers(&talk).await, talk.provider.requests().len()),
        (vec![], 1)
    );
    talk.refuse();
    talk.answer("Tell me more.", 300);
    assert_eq!(talk.say_with_reset("Well?").await, RunOutcome::Completed);
    talk.answer("Yes.", 310);
    talk.say("Sure?").await;
    let requests = talk.provider.requests();
    let expected = [
        "the rules",
        "[Messages that were shortened: 1.]",
        &shortened(30_000, ALLOWANCE),
        "Well?",
    ];
    assert_eq!(texts(&requests[2]), expected);
    assert_eq!(texts(&requests[3]), [&expected[..], &["Sure?"]].concat());
}

#[tokio::test]
async fn what_was_answered_is_shortened_where_not_even_its_summary_fits() {
    let mut talk = Talk::new().await;
    talk.result = Some("x".repeat(20_000));
    talk.call("call_1", 400);
    talk.answer("First.", 410);
    talk.say("Read it.").await;
    talk.refuse();
    talk.refuse();
    talk.answer("Second.", 300);
    assert_eq!(talk.say_with_reset("And now?").await, RunOutcome::Completed);
    assert_eq!(talk.shown(), ["summary 1", "compacted +7 barrier"]);
    assert_eq!(
        texts(&talk.provider.requests().pop().unwrap()),
        [
            "the rules",
            "[Tool results that were shortened: 1.]",
            "Read it.",
            &shortened(20_000, ALLOWANCE / 2),
            "And now?",
        ]
    );
}

/// Each step once, then the endpoint has the last word.
#[tokio::test]
async fn an_endpoint_that_refuses_everything_is_asked_once_for_each_step() {
    let mut talk = Talk::new().await;
    talk.result = Some("x".repeat(20_000));
    talk.call("call_1", 300);
    for _ in 0..4 {
        talk.refuse();
    }
    let outcome = talk.say("Read it.").await;
    assert_eq!(failure_of(&outcome), (ProviderFault::ContextLength, "too long"));
    let results: Vec<usize> = talk
        .provider
        .requests()
        .iter()
        .map(|request| texts(request).last().unwrap().len())
        .collect();
    let cut = |share| shortened(20_000, share).len();
    // The second cut counts from what the first one left: 7,073 characters.
    let narrow = cut(ALLOWANCE / 8) - 1;
    let question = "Read it.".len();
    assert_eq!(results, [question, 20_000, cut(ALLOWANCE), narrow, question]);
    let last = talk.requests().pop().unwrap();
    assert_eq!(
        (last.len(), &*last[0], &*last[2]),
        (3, "context: the rules", "user: Read it.")
    );
    let account = r"[What was said and done before:\n- alpha {}\n  Its result: xxx";
    assert!(
        last[1].starts_with("summary: ") && last[1].contains(account),
        "{}",
        last[1]
    );
    // The next message finds what is left.
    talk.answer("Better.", 300);
    assert_eq!(talk.say("And now?").await, RunOutcome::Completed);
}

#[tokio::test]
async fn arguments_that_are_too_long_become_an_account_of_their_round() {
    let mut talk = Talk::new().await;
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(9000));
    talk.provider
        .answer(with_usage(290, 10, calls("", &[("call_1", "alpha", &arguments)])));
    talk.refuse();
    talk.answer("Done.", 300);
    talk.result = Some("written".to_owned());
    assert_eq!(talk.say("Write it.").await, RunOutcome::Completed);
    let last = talk.requests().pop().unwrap();
    assert_eq!(
        (last.len(), &*last[0], &*last[2]),
        (3, "context: the rules", "user: Write it.")
    );
    let account =
        "summary: [Tool calls that were made and are left out with their results:\n- alpha {\"text\":\"xxx";
    assert!(last[1].starts_with(account), "{}", last[1]);
    assert!(last[1].ends_with("\n  Its result: written]"), "{}", last[1]);
    assert!(last[1].chars().count() < 1000);
}

/// A key that is refused mends nothing: the history is not touched for it.
#[tokio::test]
async fn a_summary_that_fails_for_another_reason_shortens_nothing() {
    let mut talk = Talk::new().await;
    talk.result = Some("x".repeat(20_000));
    talk.call("call_1", 400);
    talk.answer("First.", 410);
    talk.say("Read it.").await;
    talk.refuse();
    talk.fail(ProviderFault::Quota, "no credit");
    let outcome = talk.say("And now?").await;
    assert_eq!(failure_of(&outcome), (ProviderFault::ContextLength, "too long"));
    assert_eq!(triggers(&talk).await, []);
}

const REFUSED: &str = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#;

const BOTH: [Database; 2] = [Database::Kept, Database::Lost];

#[tokio::test]
async fn a_shortened_round_is_in_the_clients_state_and_stays_as_it_is_wherever_it_is_taken_up() {
    for (api, database) in over_each_api(BOTH) {
        let mut bench = Bench::over(api).await;
        bench.file("long.txt", &"line of text\n".repeat(5_000));
        bench
            .endpoint
            .reply_calls([("call_a", "Read", r#"{"path":"long.txt"}"#)]);
        bench.endpoint.reply_status(400, &[], REFUSED);
        bench.endpoint.reply_text("Long.");
        let report = bench.cursor.send("Read long.txt.").await.success();
        assert_eq!(report.text, "Long.");
        assert_eq!(
            report.summaries,
            ["started", "Tool results that were shortened: 1.", "completed"]
        );
        let bodies = bench.bodies();
        let kept = messages(&bodies[2]);
        assert_eq!(
            roles(&kept),
            ["system", "user", "user", "user", "assistant", "tool"]
        );
        assert_eq!(kept[3], messages(&bodies[1])[2]);
        assert_eq!(kept[4], messages(&bodies[1])[3]);
        let result = kept[5]["content"].as_str().unwrap();
        assert!(result.contains(NOTE), "{result}");
        assert!(result.chars().count() < 16_200);
        let state = bench.cursor.state();
        let archive = bench
            .cursor
            .blobs()
            .get(&state.summary_archives[0])
            .unwrap()
            .clone();
        let archive = ConversationSummaryArchive::decode(archive).unwrap();
        assert_eq!(archive.summary, "Tool results that were shortened: 1.");
        assert_eq!(archive.summarized_messages.len(), 4);
        let mut bench = bench.restart(database).await;
        for said in ["Sure?", "Really?"] {
            bench.endpoint.reply_text("Yes.");
            bench.cursor.send(said).await.success();
            assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        }
        assert_eq!(bench.endpoint.resets(), [2]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_is_told_to_the_person_and_the_next_one_goes_through() {
    for (api, database) in over_each_api(BOTH) {
        let mut bench = Bench::over(api).await;
        bench.endpoint.reply_status(400, &[], REFUSED);
        let report = bench.cursor.send(&"words ".repeat(10_000)).await;
        let (code, message) = report.error();
        assert_eq!(code, "unavailable");
        assert!(
            message.starts_with("Your message is too long for the model"),
            "{message}"
        );
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_status(400, &[], REFUSED);
        bench.endpoint.reply_text("Go on.");
        let report = bench.cursor.send("In short?").await.success();
        assert_eq!(report.text, "Go on.");
        assert_eq!(
            report.summaries,
            ["started", "Messages that were shortened: 1.", "completed"]
        );
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Yes.");
        bench.cursor.send("Sure?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        let kept = messages(&bench.bodies()[2]);
        assert_eq!(roles(&kept), ["system", "user", "user", "user", "user"]);
        let long = kept[3]["content"].as_str().unwrap();
        // The beginning and the end of the person's own words, with the frame around them.
        assert!(
            long.contains(NOTE) && long.trim_end().ends_with("</user_query>"),
            "{long}"
        );
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_cut_at_any_frame_of_a_shortening_goes_on_from_what_the_client_holds() {
    async fn cut_after(api: Api, frames: usize) -> (Bench, crate::support::fake_cursor::TurnReport) {
        let mut bench = Bench::over(api).await;
        bench.file("long.txt", &"line of text\n".repeat(5_000));
        bench
            .endpoint
            .reply_calls([("call_a", "Read", r#"{"path":"long.txt"}"#)]);
        bench.endpoint.reply_status(400, &[], REFUSED);
        bench.endpoint.reply_text("Long.");
        bench.cursor.hooks.cut_after = Some(frames);
        let report = bench.cursor.send("Read long.txt.").await;
        bench.cursor.hooks.cut_after = None;
        (bench, report)
    }
    for api in APIS {
        let whole = cut_after(api, usize::MAX).await.1.success().frames.len();
        for frames in (1..whole).rev().take(14) {
            let (bench, _) = cut_after(api, frames).await;
            let mut bench = bench.restart(BOTH[frames % 2]).await;
            bench.endpoint.forget_replies();
            // Whatever the client holds: the round whole, which is refused once more, or shortened.
            if bench.cursor.state().summary_archives.is_empty() {
                bench.endpoint.reply_status(400, &[], REFUSED);
                bench.endpoint.reply_text("The gist.");
            }
            bench.endpoint.reply_text("Go on.");
            bench.endpoint.allow_reset();
            let report = bench.cursor.send("Are you there?").await.success();
            assert_eq!(report.text, "Go on.", "{api:?}: after {frames} frames");
            bench.endpoint.reply_text("Yes.");
            bench.cursor.send("Sure?").await.success();
            assert_eq!(
                roles(&bench.added()),
                ["assistant", "user"],
                "{api:?}: after {frames} frames"
            );
            bench.assert_clean();
        }
    }
}

/// Endpoints say it in many ways; each is read as what it is, and the conversation goes on from a summary, once.
#[tokio::test]
async fn every_wording_of_a_full_context_has_the_conversation_summarised_once() {
    for words in [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "Your input exceeds the context window of this model.",
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "Please reduce the length of the messages or completion.",
        "This model's maximum context length is 8192 tokens.",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "Invalid request: Your request exceeded model token limit: 131072",
        "invalid params, context window exceeds limit",
        "the number of tokens to keep is greater than the context length",
        "the request exceeds the available context size, try increasing it",
    ] {
        let mut bench = Bench::new().await;
        bench.endpoint.reply_text("One.");
        bench.cursor.send("One?").await.success();
        let body = serde_json::json!({ "error": { "message": words } }).to_string();
        bench.endpoint.reply_status(400, &[], &body);
        bench.endpoint.reply_text("The gist.");
        bench.endpoint.reply_text("Two.");
        let report = bench.cursor.send("Two?").await.success();
        assert_eq!(report.summaries, ["started", "The gist.", "completed"], "{words}");
        assert_eq!((&*report.text, bench.bodies().len()), ("Two.", 4), "{words}");
        bench.assert_clean();
    }
}
