//! Over the wire: what the client is shown, what it holds afterwards, and how it goes on from there.

use cairn::config::Api;
use cairn::cursor::proto::agent::{ConversationSummaryArchive, UserMessage, exec_server_message};
use cairn::demo::wire_client::RunFrame;
use prost::Message as _;
use serde_json::Value;

use crate::support::fake_cursor::{End, ExecAnswer, TurnReport};
use crate::support::wire_bench::{APIS, Bench, Database, added, messages, over_each_api, roles};

/// Above the threshold of the bench's model, whose context holds 128,000 tokens.
const LARGE: u64 = 110_000;

const BOTH: [Database; 2] = [Database::Kept, Database::Lost];

/// A turn with a round of tools, after which the history is `size` tokens long.
async fn first_turn(bench: &mut Bench, size: u64) {
    bench.file("a.txt", "one\ntwo\n");
    bench
        .endpoint
        .reply_calls([("call_a", "Read", r#"{"path":"a.txt"}"#)]);
    bench
        .endpoint
        .reply(bench.endpoint.text("It has two lines.").counted(size - 10, 10));
    bench.cursor.send("What is in a.txt?").await.success();
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

/// What the first messages of a compacted body are: instructions, request context, summary.
#[track_caller]
fn assert_compacted(body: &[u8], summary: &str) {
    let messages = messages(body);
    assert_eq!(roles(&messages[..3]), ["system", "user", "user"]);
    assert!(
        text(&messages[1]).starts_with("<request_context>"),
        "{}",
        messages[1]
    );
    assert!(
        text(&messages[2]).starts_with("<conversation_summary>"),
        "{}",
        messages[2]
    );
    assert!(text(&messages[2]).contains(summary));
    let contexts = messages
        .iter()
        .filter(|message| text(message).starts_with("<request_context>"));
    assert_eq!(contexts.count(), 1);
}

#[tokio::test]
async fn a_full_conversation_is_summarised_before_the_next_answer_and_goes_on_wherever_it_is_taken_up() {
    for (api, database) in over_each_api(BOTH) {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, LARGE).await;
        bench
            .endpoint
            .reply(bench.endpoint.text("The gist.").counted(LARGE, 2000));
        bench
            .endpoint
            .reply(bench.endpoint.text("Still two.").counted(9_000, 10));
        let report = bench.cursor.send("And now?").await.success();
        assert_eq!(report.text, "Still two.");
        assert_eq!(report.summaries, ["started", "The gist.", "completed"]);
        let bodies = bench.bodies();
        let asked = added(&bodies[1], &bodies[2]);
        assert_eq!(roles(&asked), ["assistant", "user", "user"]);
        assert!(text(&asked[2]).starts_with("<compaction>"));
        assert_compacted(&bodies[3], "The gist.");
        assert_eq!(messages(&bodies[3]).len(), 4);
        assert_eq!(messages(&bodies[3])[3], asked[1]);
        // What is measured is the conversation; what is paid for is all of it.
        let state = bench.cursor.state();
        assert_eq!(state.token_details.unwrap().used_tokens, 9_010);
        let spent = report.turn_ended.unwrap();
        assert_eq!(
            (spent.input_tokens, spent.output_tokens),
            (Some(119_000), Some(2_010))
        );
        assert_eq!((state.turns.len(), state.summary_archives.len()), (2, 1));
        let mut bench = bench.restart(database).await;
        for turn in 0..3 {
            bench
                .endpoint
                .reply(bench.endpoint.text("Yes.").counted(9_100 + turn, 10));
            bench.cursor.send("Sure?").await.success();
            assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        }
        assert_eq!(bench.endpoint.resets(), [3]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_full_conversation_is_summarised_after_a_restart_too() {
    for (api, database) in over_each_api(BOTH) {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, LARGE).await;
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("The gist.");
        bench.endpoint.reply_text("Still two.");
        let report = bench.cursor.send("And now?").await.success();
        assert_eq!(report.summaries, ["started", "The gist.", "completed"]);
        assert_eq!(bench.endpoint.resets(), [3]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn the_archive_names_all_that_the_summary_took_the_place_of() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, 500).await;
        let before = bench.cursor.state();
        bench.endpoint.reply_text("The first gist.");
        bench.cursor.summarize().await.success();
        let first = bench.cursor.state();
        bench.endpoint.reply_text("Still two.");
        bench.cursor.send("And now?").await.success();
        let between = bench.cursor.state();
        bench.endpoint.reply_text("The second gist.");
        bench.cursor.summarize().await.success();
        let second = bench.cursor.state();
        let archives: Vec<_> = second
            .summary_archives
            .iter()
            .map(|id| {
                let data = bench.cursor.blobs().get(id).unwrap().clone();
                ConversationSummaryArchive::decode(data).unwrap()
            })
            .collect();
        assert_eq!(
            archives,
            [
                ConversationSummaryArchive {
                    summarized_messages: before.root_prompt_messages_json[1..].to_vec(),
                    summary: "The first gist.".to_owned(),
                    window_tail: 0,
                    summary_message: first.root_prompt_messages_json[2].clone(),
                },
                ConversationSummaryArchive {
                    summarized_messages: between.root_prompt_messages_json[1..].to_vec(),
                    summary: "The second gist.".to_owned(),
                    window_tail: 0,
                    summary_message: second.root_prompt_messages_json[2].clone(),
                },
            ]
        );
        // The context is the very root that it was, and no turn is lost.
        assert_eq!(
            second.root_prompt_messages_json[..2],
            before.root_prompt_messages_json[..2]
        );
        assert_eq!(second.root_prompt_messages_json.len(), 3);
        assert_eq!(second.turns, between.turns);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_summary_on_demand_extends_the_last_request_and_the_next_turn_goes_on_from_it() {
    for (api, database) in over_each_api(BOTH) {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, 500).await;
        let turns = bench.cursor.state().turns;
        bench
            .endpoint
            .reply(bench.endpoint.text("The gist.").counted(600, 50));
        let report = bench.cursor.summarize().await.success();
        assert_eq!(report.text, "", "a summary is no answer");
        assert_eq!(report.summaries, ["started", "The gist.", "completed"]);
        assert_eq!(report.turn_ended.unwrap().input_tokens, Some(600));
        assert_eq!(roles(&bench.added()), ["assistant", "user"]);
        let state = bench.cursor.state();
        assert_eq!((&state.turns, state.token_details), (&turns, None));
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Still two.");
        bench.cursor.send("And now?").await.success();
        let bodies = bench.bodies();
        assert_compacted(&bodies[3], "The gist.");
        assert_eq!(messages(&bodies[3]).len(), 4);
        bench.endpoint.reply_text("Yes.");
        bench.cursor.send("Sure?").await.success();
        assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
        assert_eq!(bench.endpoint.resets(), [3]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_conversation_without_a_turn_cannot_be_summarised() {
    let mut bench = Bench::new().await;
    let report = bench.cursor.summarize().await;
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument");
    assert!(
        message.contains("summarize_action needs a state with a turn"),
        "{message}"
    );
    assert_eq!(bench.bodies().len(), 0);
    bench.assert_clean();
}

#[tokio::test]
async fn between_two_rounds_the_turns_message_and_its_steps_stay() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench.file("a.txt", "one\n");
        for (call, size) in [("call_1", 500), ("call_2", LARGE)] {
            let reply = bench.endpoint.calls([(call, "Read", r#"{"path":"a.txt"}"#)]);
            bench.endpoint.reply(reply.counted(size - 10, 10));
        }
        bench.endpoint.reply_text("The gist.");
        bench
            .endpoint
            .reply_calls([("call_3", "Read", r#"{"path":"a.txt"}"#)]);
        bench.endpoint.reply_text("Done.");
        let report = bench.cursor.send("Read it thrice.").await.success();
        assert_eq!(report.calls.len(), 3);
        let bodies = bench.bodies();
        assert_eq!(
            roles(&added(&bodies[1], &bodies[2])),
            ["assistant", "tool", "user"]
        );
        assert_compacted(&bodies[3], "The gist.");
        let kept = messages(&bodies[3]);
        assert_eq!((kept.len(), &kept[3]), (4, &messages(&bodies[0])[2]));
        assert_eq!(roles(&added(&bodies[3], &bodies[4])), ["assistant", "tool"]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn an_endpoints_own_words_for_a_full_context_have_the_conversation_summarised() {
    for (api, (status, body)) in over_each_api([
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        ),
        (413, r#"{"error":{"message":"Payload Too Large"}}"#),
        (
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion."}}"#,
        ),
    ]) {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, 500).await;
        bench.endpoint.reply_status(status, &[], body);
        bench.endpoint.reply_text("The gist.");
        bench.endpoint.reply_text("Still two.");
        let report = bench.cursor.send("And now?").await.success();
        assert_eq!(report.text, "Still two.", "{body}");
        let bodies = bench.bodies();
        assert_eq!(bodies.len(), 5, "{body}");
        // The summary is asked for with what the endpoint has taken before.
        assert_eq!(roles(&added(&bodies[1], &bodies[3])), ["assistant", "user"]);
        assert_compacted(&bodies[4], "The gist.");
        let database = BOTH[body.len() % 2];
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("Yes.");
        bench.cursor.send("Sure?").await.success();
        assert_eq!(
            roles(&bench.added()),
            ["assistant", "user"],
            "{body} {database:?}"
        );
        assert_eq!(bench.endpoint.resets(), [4]);
        bench.assert_clean();
    }
}

#[tokio::test]
async fn no_summary_is_a_notice_and_the_conversation_goes_on_as_it_was() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, LARGE).await;
        let roots = bench.cursor.state().root_prompt_messages_json;
        bench
            .endpoint
            .reply_calls([("call_b", "Shell", r#"{"command":"echo no > ran.txt"}"#)]);
        bench
            .endpoint
            .reply(bench.endpoint.text("Still two.").counted(LARGE + 20, 10));
        let report = bench.cursor.send("And now?").await.success();
        assert_eq!(report.summaries, ["started", "completed"]);
        assert_eq!(
            report.text,
            "The conversation could not be summarised and stays as it is: the model asked for tools instead of \
         summarising; none of them was run.\n\nStill two."
        );
        assert_eq!(report.calls, []);
        assert!(!bench.workspace.path().join("ran.txt").exists());
        let bodies = bench.bodies();
        assert_eq!(roles(&added(&bodies[1], &bodies[3])), ["assistant", "user"]);
        let state = bench.cursor.state();
        assert!(state.root_prompt_messages_json.starts_with(&roots));
        assert_eq!((state.summary, state.summary_archives), (None, vec![]));
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_summary_on_demand_that_does_not_come_is_an_error_and_changes_nothing() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, 500).await;
        let roots = bench.cursor.state().root_prompt_messages_json;
        bench
            .endpoint
            .reply_status(401, &[], r#"{"error":{"message":"no"}}"#);
        let report = bench.cursor.summarize().await;
        assert_eq!(report.error().0, "unavailable");
        assert_eq!(report.summaries, ["started", "completed"]);
        assert_eq!(bench.cursor.state().root_prompt_messages_json, roots);
        bench.endpoint.reply_text("Still two.");
        bench.cursor.send("And now?").await.success();
        let bodies = bench.bodies();
        assert_eq!(roles(&added(&bodies[1], &bodies[3])), ["assistant", "user"]);
        bench.assert_clean();
    }
}

/// A conversation whose next turn is compacted, cut by the client after so many frames of that turn.
async fn cut_after(api: Api, frames: usize) -> (Bench, TurnReport) {
    let mut bench = Bench::over(api).await;
    first_turn(&mut bench, LARGE).await;
    bench.endpoint.reply_text("The gist.");
    bench.endpoint.reply_text("Still two.");
    bench.cursor.hooks.cut_after = Some(frames);
    let report = bench.cursor.send("And now?").await;
    bench.cursor.hooks.cut_after = None;
    (bench, report)
}

/// Each frame is cut over one API, with the database kept or lost.
#[tokio::test]
async fn a_cut_at_any_frame_of_a_compaction_goes_on_from_what_the_client_holds() {
    for (number, api) in APIS.into_iter().enumerate() {
        let whole = cut_after(api, usize::MAX).await.1.success().frames.len();
        let cuts = (1..whole).filter(|frames| frames % APIS.len() == number);
        for frames in cuts {
            let (bench, report) = cut_after(api, frames).await;
            assert_eq!(report.end, End::Closed, "after {frames} frames");
            let mut bench = bench.restart(BOTH[frames % 2]).await;
            // Replies that the cut turn did not ask for are answers to nothing now.
            bench.endpoint.forget_replies();
            let compacted = !bench.cursor.state().summary_archives.is_empty();
            if !compacted {
                bench.endpoint.reply_text("The gist again.");
            }
            bench.endpoint.reply_text("Go on.");
            bench.endpoint.allow_reset();
            let report = bench.cursor.send("Are you there?").await.success();
            assert_eq!(report.text, "Go on.", "after {frames} frames");
            assert_eq!(report.summaries.is_empty(), compacted, "after {frames} frames");
            let last = bench.bodies().pop().unwrap();
            let gist = if compacted { "The gist." } else { "The gist again." };
            assert_compacted(&last, gist);
            let state = bench.cursor.state();
            assert_eq!(state.summary_archives.len(), 1);
            bench.endpoint.reply_text("Yes.");
            bench.cursor.send("Sure?").await.success();
            assert_eq!(
                roles(&bench.added()),
                ["assistant", "user"],
                "after {frames} frames"
            );
            bench.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_round_that_was_cut_is_answered_as_interrupted_before_it_is_summarised() {
    for (api, database) in over_each_api(BOTH) {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, 500).await;
        bench
            .endpoint
            .reply_calls([("call_b", "Shell", r#"{"command":"echo no > ran.txt"}"#)]);
        bench.cursor.hooks.exec = Box::new(|exec| match exec.message {
            Some(exec_server_message::Message::RequestContextArgs(_)) => ExecAnswer::Run,
            _ => ExecAnswer::Hold,
        });
        let mut turn = bench.cursor.start_turn("Run it.").await;
        turn.until_checkpoint(1).await;
        turn.close();
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("The gist.");
        let report = bench.cursor.summarize().await.success();
        assert_eq!(report.calls, []);
        let asked = bench.added();
        assert_eq!(roles(&asked), ["assistant", "tool", "user"], "{database:?}");
        assert!(text(&asked[1]).contains("interrupted"));
        let state = bench.cursor.state();
        assert_eq!(state.pending_tool_calls, Vec::<String>::new());
        assert_eq!(state.root_prompt_messages_json.len(), 3);
        bench.cursor.hooks.exec = Box::new(|_| ExecAnswer::Run);
        bench.endpoint.reply_text("Yes.");
        bench.cursor.send("Sure?").await.success();
        assert_compacted(&bench.bodies().pop().unwrap(), "The gist.");
        assert!(!bench.workspace.path().join("ran.txt").exists());
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_run_that_was_cut_while_it_summarised_is_resumed_with_a_summary() {
    for (api, database) in over_each_api(BOTH) {
        let mut bench = Bench::over(api).await;
        first_turn(&mut bench, LARGE).await;
        let (held, gate) = bench.endpoint.text("never read").hold_headers();
        bench.endpoint.reply(held);
        let mut turn = bench.cursor.start_turn("And now?").await;
        gate_reached(&mut turn, &gate).await;
        turn.close();
        gate.gone().await;
        let mut bench = bench.restart(database).await;
        bench.endpoint.reply_text("The gist.");
        bench.endpoint.reply_text("Still two.");
        let report = bench.cursor.resume().await.success();
        assert_eq!(report.summaries, ["started", "The gist.", "completed"]);
        let bodies = bench.bodies();
        assert_eq!(bodies[2], bodies[3], "the summary is asked for with other bytes");
        assert_compacted(&bodies[4], "The gist.");
        // The person's message stands where the instruction stood behind it.
        let asked = messages(&bodies[2]);
        assert_eq!(messages(&bodies[4])[3], asked[asked.len() - 2]);
        bench.assert_clean();
    }
}

async fn gate_reached(
    turn: &mut crate::support::fake_cursor::Turn<'_>,
    gate: &crate::support::strict_chat::endpoint::Gate,
) {
    turn.until("the start of the summary", |frame| match frame {
        RunFrame::Message(message) => format!("{message:?}").contains("SummaryStarted"),
        RunFrame::End(_) => false,
    })
    .await;
    gate.arrived().await;
}

fn message(text: &str, id: &str) -> UserMessage {
    UserMessage {
        text: text.to_owned(),
        message_id: id.to_owned(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_message_that_was_summarised_can_be_edited() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        for turn in 1..=2 {
            for part in 1..=2 {
                bench.endpoint.reply_text(&format!("Answer {turn}.{part}."));
                let asked = message(&format!("Question {turn}.{part}?"), &format!("m{turn}.{part}"));
                bench.cursor.start_message(asked).await.finish().await.success();
            }
            bench.endpoint.reply_text(&format!("Gist {turn}."));
            bench.cursor.summarize().await.success();
        }
        let state = bench.cursor.state();
        assert_eq!((state.turns.len(), state.summary_archives.len()), (4, 2));
        let mut bench = bench.restart(Database::Kept).await;
        for (id, archives, expected) in [
            // Between the two summaries: the first one stands, the second one is taken back.
            ("m2.2", 1, "rules, Gist 1., Question 2.1?, Answer 2.1., edited"),
            ("m1.2", 0, "rules, Question 1.1?, Answer 1.1., edited"),
        ] {
            bench.endpoint.allow_reset();
            bench.endpoint.reply_text("Other.");
            let before = bench.cursor.state();
            let report = bench.cursor.edit(message("edited", id)).await.success();
            assert_eq!(report.text, "Other.");
            let said: Vec<String> = messages(&bench.bodies().pop().unwrap())[1..]
                .iter()
                .map(gist)
                .collect();
            assert_eq!(said.join(", "), expected);
            let state = bench.cursor.state();
            assert_eq!(state.summary_archives, before.summary_archives[..archives]);
            assert_eq!(state.summary.is_some(), archives > 0);
            bench.endpoint.reply_text("Yes.");
            bench.cursor.send("Sure?").await.success();
            assert_eq!(roles(&bench.added()), ["assistant", "user"]);
        }
        bench.assert_clean();
    }
}

/// What a message says, without what is around it.
fn gist(message: &Value) -> String {
    let text = text(message);
    let inner = |from: &str, to: &str| {
        let (_, rest) = text.split_once(from)?;
        Some(rest.split_once(to)?.0.trim().to_owned())
    };
    if text.starts_with("<request_context>") {
        return "rules".to_owned();
    }
    inner("<user_query>\n", "\n</user_query>")
        .or_else(|| inner("mentioning the summary.\n\n", "\n</conversation_summary>"))
        .unwrap_or_else(|| text.to_owned())
}

#[tokio::test]
async fn a_message_that_is_edited_leaves_the_measure_of_its_branch_behind() {
    for api in APIS {
        let mut bench = Bench::over(api).await;
        bench
            .endpoint
            .reply(bench.endpoint.text("Small.").counted(500, 10));
        bench
            .cursor
            .start_message(message("One?", "m1"))
            .await
            .finish()
            .await
            .success();
        bench
            .endpoint
            .reply(bench.endpoint.text("Large.").counted(LARGE, 10));
        bench
            .cursor
            .start_message(message("Two?", "m2"))
            .await
            .finish()
            .await
            .success();
        bench
            .endpoint
            .reply(bench.endpoint.text("Other.").counted(600, 10));
        bench.endpoint.allow_reset();
        let report = bench.cursor.edit(message("Zwei?", "m2")).await.success();
        assert_eq!((&*report.text, report.summaries.len()), ("Other.", 0));
        bench.assert_clean();
    }
}
