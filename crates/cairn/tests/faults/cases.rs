//! Hard cases from the field that are about ends, resumes, interruptions and time, over real connections.
//! `docs/faults.md` says which test stands for which case.

use std::time::Duration;

use cairn::config::{Api, ModelConfig};
use cairn::cursor::proto::agent::agent_client_message::Message as ClientMessage;
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::interaction_update::Message as Update;
use cairn::cursor::proto::agent::{ClientHeartbeat, ConversationStateStructure, exec_server_message};
use cairn::cursor::sessions::SessionLimits;
use cairn::demo::wire_client::RunFrame;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::cairn_server::{CairnServer, KEY, chat_model};
use super::support::fake_cursor::{ExecAnswer, FakeCursor, Turn, is_heartbeat};
use super::support::strict_anthropic::{Said, StrictAnthropic};
use super::support::strict_chat::{Reply, StrictChat};
use super::support::strict_responses::{self, StrictResponses};
use super::support::wire_bench::{Bench, Database, added, roles};

/// Case 1: an error of any text ends the run with one short frame.
#[tokio::test]
async fn an_endpoints_error_of_two_megabytes_is_one_short_end_frame() {
    let mut bench = Bench::new().await;
    let long: String = (0..2_000_000_u32)
        .map(|i| char::from_u32(i % 0x80).unwrap())
        .collect();
    let body = json!({"error": {"message": long}}).to_string();
    bench.chat.reply_status(400, &[], &body);
    let report = bench.cursor.send("Hello?").await;
    let (code, message) = report.error();
    assert_eq!(code, "unavailable");
    assert!(message.len() <= 4096, "{}", message.len());
    assert!(!message.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    let ends = report
        .frames
        .iter()
        .filter(|frame| matches!(frame, RunFrame::End(_)));
    assert_eq!(ends.count(), 1);
    bench.chat.reply_text("Yes.");
    bench.cursor.send("Hello?").await.success();
    bench.assert_clean();
}

/// Case 3: each resume asks the endpoint for the same, and says why it failed; the tool that is done is not run again,
/// and nothing is said again that the client has.
#[tokio::test]
async fn resumes_that_fail_ask_for_the_same_and_the_one_that_works_goes_on() {
    let mut bench = Bench::new().await;
    let calls = [("c1", "Shell", r#"{"command":"echo x >> ran"}"#)];
    bench.chat.reply(Reply::answer(None, "Look.", &calls));
    let cut = Reply::answer(None, "One, two, three, four, five.", &[]).broken_at(700);
    bench.chat.reply(cut);
    let broken = bench.cursor.send("Do it.").await;
    assert_eq!(broken.error().0, "unavailable");
    assert!(broken.text.starts_with("Look.One, "), "{broken}");
    // The time that a turn takes grows with each of its runs.
    let untimed = |mut state: ConversationStateStructure| {
        for timing in &mut state.turn_timings {
            timing.duration_ms = 0;
        }
        state
    };
    let state = untimed(bench.cursor.state());
    for _ in 0..3 {
        // As often as it is tried before any output.
        bench.chat.reply(Reply::disconnect());
        bench.chat.reply(Reply::disconnect());
        let failed = bench.cursor.resume().await;
        let (code, message) = failed.error();
        assert_eq!(code, "unavailable");
        assert!(!message.is_empty());
        assert_eq!((failed.text.as_str(), failed.calls.len()), ("", 0));
        assert_eq!(
            untimed(bench.cursor.state()),
            state,
            "a failed resume changed the state"
        );
    }
    bench.chat.reply_text("Six.");
    let done = bench.cursor.resume().await.success();
    assert_eq!((done.text.as_str(), done.calls.len()), ("Six.", 0));
    assert_eq!(bench.read("ran"), "x\n");
    let bodies = bench.bodies();
    assert_eq!(bodies.len(), 9);
    assert_eq!(roles(&added(&bodies[0], &bodies[1])), ["assistant", "tool"]);
    for resumed in &bodies[2..] {
        assert_eq!(resumed, &bodies[1]);
    }
    bench.chat.reply_text("Good.");
    bench.cursor.send("And?").await.success();
    assert_eq!(roles(&bench.added()), ["assistant", "user"]);
    bench.assert_clean();
}

/// Case 23: three turns come back from the disk or from the client, byte for byte.
#[tokio::test]
async fn three_turns_come_back_after_a_restart_from_wherever_they_are() {
    for database in [Database::Kept, Database::Lost] {
        for is_sent_along in [true, false] {
            let mut bench = Bench::new().await;
            bench.file("a.txt", "one\n");
            for turn in ["First.", "Second.", "Third."] {
                let id = format!("call {turn}\n");
                let arguments = "{ \"path\" : \"a.txt\" }";
                let calls = [(id.as_str(), "Read", arguments)];
                bench.chat.reply(Reply::answer(Some("Hm.\r\n"), "", &calls));
                bench.chat.reply(Reply::answer(Some(" So."), turn, &[]));
                bench.cursor.send(turn).await.success();
            }
            let mut bench = bench.restart(database).await;
            if !is_sent_along {
                bench.cursor.hooks.request = Box::new(|request| request.pre_fetched_blobs.clear());
            }
            bench.chat.reply_text("Fourth.");
            let report = bench.cursor.send("Fourth.").await.success();
            let asks = database == Database::Lost && !is_sent_along;
            assert_eq!(!report.gets.is_empty(), asks, "{database:?}");
            assert_eq!(roles(&bench.added()), ["assistant", "user"], "{database:?}");
            bench.assert_clean();
        }
    }
}

/// Case 25: ten minutes of a client's signs of life, while a command runs.
#[tokio::test]
async fn ten_minutes_of_signs_of_life_leave_a_run_as_it_was() {
    let mut bench = Bench::new().await;
    let calls = [("c1", "Shell", r#"{"command":"echo done"}"#)];
    bench.chat.reply(Reply::answer(None, "", &calls));
    bench.chat.reply_text("Done.");
    bench.cursor.hooks.exec = Box::new(hold_commands);
    let mut turn = bench.cursor.start_turn("Wait for it.").await;
    let exec = turn.until_held(1).await[0].id;
    turn.until_checkpoint(1).await;
    for _ in 0..120 {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(5)).await;
        tokio::time::resume();
        let frame = turn.next().await.unwrap();
        assert!(is_heartbeat(&frame), "{frame:?}");
        turn.append(ClientMessage::ClientHeartbeat(ClientHeartbeat {}))
            .await;
    }
    turn.release(exec).await;
    let report = turn.finish().await.success();
    assert_eq!(report.refused, Vec::<String>::new());
    assert_eq!(report.text, "Done.");
    bench.assert_clean();
}

fn hold_commands(exec: &cairn::cursor::proto::agent::ExecServerMessage) -> ExecAnswer {
    match exec.message {
        Some(exec_server_message::Message::ShellStreamArgs(_)) => ExecAnswer::Hold,
        _ => ExecAnswer::Run,
    }
}

// === case 30: interruptions, in each dialect ===

const FIRST: (&str, &str, &str) = ("c1", "Shell", r#"{"command":"echo first"}"#);
const SECOND: (&str, &str, &str) = ("c2", "Shell", r#"{"command":"echo second"}"#);

/// An endpoint of each API, which judges what it is sent.
enum Endpoint {
    Chat(StrictChat),
    Responses(StrictResponses),
    Anthropic(StrictAnthropic),
}

impl Endpoint {
    async fn all() -> [Self; 3] {
        let chat = StrictChat::start().await;
        chat.one_conversation();
        [
            Self::Chat(chat),
            Self::Responses(StrictResponses::start().await),
            Self::Anthropic(StrictAnthropic::start().await),
        ]
    }

    fn model(&self) -> ModelConfig {
        let (api, base_url) = match self {
            Self::Chat(chat) => (Api::OpenAiChat, chat.base_url()),
            Self::Responses(responses) => (Api::OpenAiResponses, responses.base_url()),
            Self::Anthropic(anthropic) => (Api::Anthropic, anthropic.base_url()),
        };
        ModelConfig {
            api,
            max_output_tokens: Some(1024),
            ..chat_model(&base_url)
        }
    }

    /// Queues an answer with both commands, then one of text.
    fn script(&self) {
        let both = [FIRST, SECOND];
        match self {
            Self::Chat(chat) => {
                chat.reply_calls(both);
                chat.reply_text("Understood.");
            }
            Self::Responses(responses) => {
                let calls = both
                    .iter()
                    .fold(strict_responses::Items::answer(), |reply, call| {
                        reply.call(call.0, call.1, call.2)
                    });
                responses.reply(calls);
                responses.reply(strict_responses::Items::answer().message(None, "Understood."));
            }
            Self::Anthropic(anthropic) => {
                anthropic.say(&both.map(|(id, name, arguments)| Said::Call(id, name, arguments)));
                anthropic.say(&[Said::Text("Understood.")]);
            }
        }
    }

    /// The results in the last request by call id, and the number of user messages that are none.
    fn last(&self) -> (Value, Value) {
        let json = match self {
            Self::Chat(chat) => chat.requests().pop().unwrap().json,
            Self::Responses(responses) => responses.requests().pop().unwrap().json,
            Self::Anthropic(anthropic) => anthropic.requests().pop().unwrap().json,
        };
        let mut results = json!({});
        let list = if json["input"].is_array() {
            "input"
        } else {
            "messages"
        };
        let items = json[list].as_array().unwrap().clone();
        for item in &items {
            let blocks = item["content"].as_array().into_iter().flatten().chain([item]);
            for block in blocks {
                let by = ["tool_call_id", "call_id", "tool_use_id"];
                let id = by.iter().find_map(|key| block[*key].as_str());
                let text = [&block["output"], &block["content"]];
                if let Some(id) = id
                    && let Some(text) = text.into_iter().find(|text| !text.is_null())
                {
                    assert_eq!(results[id], Value::Null, "{id} has two results");
                    results[id] = json!(text.to_string());
                }
            }
        }
        (results, items.last().unwrap().clone())
    }

    #[track_caller]
    fn assert_clean(&self) {
        match self {
            Self::Chat(chat) => chat.assert_clean(),
            Self::Responses(responses) => responses.assert_clean(),
            Self::Anthropic(anthropic) => anthropic.assert_clean(),
        }
    }
}

/// How the person stops the turn, in which the first command has its result and the second has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// As the official client does.
    Close,
    Cancel,
    /// The result is on its way.
    CancelAfterResult,
    CancelBeforeResult,
}

/// Case 30 (b) and (d): each call has one result, the real one or that its outcome is unknown, and the person's next
/// message follows.
#[tokio::test]
async fn an_interrupted_call_has_one_true_result_in_every_dialect() {
    for stop in [
        Stop::Close,
        Stop::Cancel,
        Stop::CancelAfterResult,
        Stop::CancelBeforeResult,
    ] {
        for endpoint in Endpoint::all().await {
            let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            let limits = SessionLimits::default();
            let server = CairnServer::with_models(data.path(), vec![endpoint.model()], limits).await;
            let mut cursor = FakeCursor::new(&server.base_url, KEY, "agent-1", workspace.path()).await;
            endpoint.script();
            cursor.hooks.exec = Box::new(hold_commands);
            let mut turn = cursor.start_turn("Run both.").await;
            let execs: Vec<_> = turn.until_held(2).await.iter().map(|exec| exec.id).collect();
            turn.release(execs[0]).await;
            until_completed(&mut turn).await;
            interrupt(turn, execs[1], stop).await;
            cursor.send("Rather this.").await.success();
            let (results, last) = endpoint.last();
            let result = |id: &str| results[id].as_str().unwrap_or_default().to_owned();
            assert!(result("c1").contains("first"), "{stop:?}: {results}");
            let is_unknown = result("c2").contains("interrupted") && result("c2").contains("unknown");
            let is_real = result("c2").contains("second");
            let may_be_real = stop == Stop::CancelAfterResult;
            assert!(is_unknown || may_be_real && is_real, "{stop:?}: {results}");
            assert!(last.to_string().contains("Rather this."), "{last}");
            cursor.assert_clean();
            endpoint.assert_clean();
            server.stop().await;
        }
    }
}

async fn until_completed(turn: &mut Turn<'_>) {
    turn.until("the first result", |frame| {
        let RunFrame::Message(message) = frame else {
            return false;
        };
        matches!(&message.message, Some(ServerMessage::InteractionUpdate(update))
            if matches!(update.message, Some(Update::ToolCallCompleted(_))))
    })
    .await;
    if turn
        .report()
        .checkpoints
        .last()
        .unwrap()
        .pending_tool_calls
        .is_empty()
    {
        turn.until_checkpoint(1).await;
    }
}

async fn interrupt(mut turn: Turn<'_>, running: u32, stop: Stop) {
    match stop {
        Stop::Close => {
            turn.close();
            return;
        }
        Stop::Cancel => turn.cancel().await,
        Stop::CancelAfterResult => {
            turn.release(running).await;
            turn.cancel().await;
        }
        Stop::CancelBeforeResult => {
            turn.cancel().await;
            turn.release(running).await;
        }
    }
    let report = turn.finish().await;
    assert_eq!(report.error().0, "canceled", "{stop:?}");
}

/// Case 30 (a): a call whose arguments are not whole never was.
#[tokio::test]
async fn a_call_that_is_cut_while_its_arguments_stream_is_not_in_the_history() {
    for is_action in [true, false] {
        let mut bench = Bench::new().await;
        let (reply, gate) = Reply::calls([FIRST, SECOND]).hold_at(1500);
        bench.chat.reply(reply);
        let mut turn = bench.cursor.start_turn("Run both.").await;
        turn.until("arguments", |frame| {
            let RunFrame::Message(message) = frame else {
                return false;
            };
            matches!(&message.message, Some(ServerMessage::InteractionUpdate(update))
                if matches!(&update.message, Some(Update::PartialToolCall(call)) if !call.args_text_delta.is_empty()))
        })
        .await;
        gate.arrived().await;
        if is_action {
            turn.cancel().await;
            assert_eq!(turn.finish().await.error().0, "canceled");
        } else {
            turn.close();
        }
        gate.gone().await;
        bench.chat.reply_text("Understood.");
        bench.cursor.send("Rather this.").await.success();
        assert_eq!(roles(&bench.added()), ["user"]);
        bench.assert_clean();
    }
}
