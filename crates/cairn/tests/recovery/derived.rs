//! What a checkpoint says beside the history: derived from what was completed, or the client's own and left alone.

use bytes::{BufMut as _, Bytes, BytesMut};
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::{
    AgentMode, ConversationPlan, ConversationStateStructure, ConversationTokenDetails, ModelDetails,
    TodoItem, UserMessage, exec_server_message,
};
use cairn::demo::wire_client::RunFrame;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Value, json};

use super::support::fake_cursor::{ExecAnswer, TurnReport};
use super::support::strict_chat::Reply;
use super::support::wire_bench::{Bench, Database};

/// The checkpoints of a run as they came.
fn checkpoints(report: &TurnReport) -> Vec<Bytes> {
    report
        .frames
        .iter()
        .filter_map(|frame| match frame {
            RunFrame::Message(message) => match &message.message {
                Some(ServerMessage::ConversationCheckpointUpdate(state)) => Some(state.clone()),
                _ => None,
            },
            RunFrame::End(_) => None,
        })
        .collect()
}

#[tokio::test]
async fn each_turn_has_one_timing_whose_beginning_stays() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    let before = cairn::clock::unix_ms();
    bench
        .endpoint
        .reply_calls([("c1", "Read", r#"{"path":"a.txt"}"#)]);
    bench.endpoint.reply_text("One line.");
    let first = bench.cursor.send("Read it.").await.success();
    let begun = first.checkpoints[0].turn_timings[0].timestamp_ms;
    assert!((before..=cairn::clock::unix_ms()).contains(&begun));
    let mut duration = 0;
    for state in &first.checkpoints {
        assert_eq!(state.turn_timings.len(), 1);
        assert_eq!(state.turn_timings[0].timestamp_ms, begun);
        assert!(state.turn_timings[0].duration_ms >= duration);
        duration = state.turn_timings[0].duration_ms;
    }
    assert!(duration <= cairn::clock::unix_ms() - before);

    // A turn that is cut and resumed stays one turn.
    bench
        .endpoint
        .reply_calls([("c2", "Read", r#"{"path":"a.txt"}"#)]);
    bench.cursor.hooks.exec = Box::new(|exec| match exec.message {
        Some(exec_server_message::Message::RequestContextArgs(_)) => ExecAnswer::Run,
        _ => ExecAnswer::Hold,
    });
    let mut turn = bench.cursor.start_turn("Again.").await;
    let cut = turn.until_checkpoint(1).await;
    turn.close();
    bench.cursor.hooks.exec = Box::new(|_| ExecAnswer::Run);
    let mut bench = bench.restart(Database::Lost).await;
    bench.endpoint.reply_text("Still one.");
    let resumed = bench.cursor.resume().await.success();
    let last = &resumed.checkpoints.last().unwrap().turn_timings;
    assert_eq!(last.len(), 2);
    assert_eq!(last[0], first.checkpoints.last().unwrap().turn_timings[0]);
    assert_eq!(last[1].timestamp_ms, cut.turn_timings[1].timestamp_ms);
    assert!(last[1].duration_ms >= cut.turn_timings[1].duration_ms);
    bench.assert_clean();
}

/// A whole answer with this usage.
fn answer(text: &str, usage: &Value) -> Reply {
    let chunk = |choices: Value, usage: &Value| {
        let chunk = json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    Reply::raw(
        [
            chunk(
                delta(json!({"role": "assistant", "content": text}), Value::Null),
                &Value::Null,
            ),
            chunk(delta(json!({}), json!("stop")), &Value::Null),
            chunk(json!([]), usage),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat(),
    )
}

#[tokio::test]
async fn the_context_is_as_full_as_the_last_model_call_says() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    bench
        .endpoint
        .reply_calls([("c1", "Read", r#"{"path":"a.txt"}"#)]);
    let larger = json!({"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320});
    bench.endpoint.reply(answer("One line.", &larger));
    let report = bench.cursor.send("Read it.").await.success();
    let used = |state: &cairn::cursor::proto::agent::ConversationStateStructure| state.token_details;
    let full = |used_tokens| {
        Some(ConversationTokenDetails {
            used_tokens,
            max_tokens: 128_000,
        })
    };
    let seen: Vec<_> = report.checkpoints.iter().map(used).collect();
    assert_eq!(
        seen,
        [None, full(110), full(110), full(320), full(320), full(320)]
    );
    // What nobody reported is estimated from there on, and marked as such.
    bench.endpoint.reply(answer("Good.", &Value::Null));
    let report = bench.cursor.send("Good?").await.success();
    let (first, rest) = report.checkpoints.split_first().unwrap();
    assert_eq!((used(first), first.cairn_size), (full(320), None));
    for state in rest {
        let grown = used(state).unwrap().used_tokens;
        assert!(grown > 320 && grown < 420, "{grown}");
        assert!(state.cairn_size.unwrap().estimated);
    }
    bench.assert_clean();
}

#[tokio::test]
async fn files_that_were_read_are_named_once_in_the_order_of_their_first_reading() {
    let mut bench = Bench::new().await;
    for name in ["a", "b", "c"] {
        bench.file(name, "x\n");
    }
    let read = |id: &'static str, path: &'static str| (id, "Read", path);
    bench.endpoint.reply_calls([read("1", r#"{"path":"b"}"#)]);
    bench.endpoint.reply_calls([read("2", r#"{"path":"a"}"#)]);
    bench.endpoint.reply_calls([read("3", r#"{"path":"missing"}"#)]);
    bench.endpoint.reply_calls([read("4", r#"{"path":"b"}"#)]);
    bench.endpoint.reply_text("Read.");
    let report = bench.cursor.send("Read them.").await.success();
    let path = |name: &str| bench.workspace.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(
        report.checkpoints.last().unwrap().read_paths,
        [path("b"), path("a")]
    );
    bench.assert_clean();
}

/// Every field of the client's state that is not the server's to write. [proto]
const FOREIGN: [u32; 18] = [
    2, 9, 11, 12, 15, 16, 17, 19, 20, 21, 22, 24, 26, 27, 29, 30, 31, 32,
];

#[tokio::test]
async fn fields_that_the_client_owns_and_a_plan_that_nobody_changed_go_back_unchanged() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("Hello.");
    bench.cursor.send("Hello?").await.success();
    let mut foreign = BytesMut::new();
    for field in FOREIGN {
        match field {
            17 | 26 => {
                encode_key(field, WireType::Varint, &mut foreign);
                encode_varint(1_000 + u64::from(field), &mut foreign);
            }
            _ => {
                let text = format!("field {field}");
                encode_key(field, WireType::LengthDelimited, &mut foreign);
                encode_varint(text.len() as u64, &mut foreign);
                foreign.put_slice(text.as_bytes());
            }
        }
    }
    let foreign = foreign.freeze();
    let appended = foreign.clone();
    let mut state = bench.cursor.state();
    let plan = Bytes::from_static(&[7; 32]);
    state.plan = Some(plan.clone());
    bench.cursor.set_state(&state);
    bench.cursor.hooks.request = Box::new(move |request| {
        let state = request.conversation_state.take().unwrap();
        request.conversation_state = Some([&appended[..], &state[..]].concat().into());
    });
    bench.file("a.txt", "one\n");
    bench
        .endpoint
        .reply_calls([("c1", "Read", r#"{"path":"a.txt"}"#)]);
    bench.endpoint.reply_text("One line.");
    let report = bench.cursor.send("Read it.").await.success();
    let checkpoints = checkpoints(&report);
    assert_eq!(checkpoints.len(), 6);
    for state in checkpoints {
        assert!(state.ends_with(&foreign), "what the client owns was changed");
    }
    assert!(
        report
            .checkpoints
            .iter()
            .all(|state| state.plan.as_ref() == Some(&plan))
    );
    assert_eq!(report.gets, Vec::<Bytes>::new());
    bench.assert_clean();
}

/// What a state says beside the history, but for what grows with each turn.
fn derived(state: &ConversationStateStructure) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        state.todos.clone(),
        state.plan.clone(),
        state.read_paths.clone(),
        (
            state.communicate_update_history.clone(),
            state.communicate_update_final_summary.clone(),
            state.communicate_update_completed_subtitle.clone(),
        ),
    )
}

/// Sends a message with an id, in plan mode.
async fn plan(bench: &mut Bench, id: &str, text: &str) -> TurnReport {
    let message = UserMessage {
        text: text.to_owned(),
        message_id: id.to_owned(),
        mode: AgentMode::Plan.into(),
        ..Default::default()
    };
    bench.cursor.start_message(message).await.finish().await.success()
}

/// A restarted server says the same of a conversation as the one before, and so does the fold over the turns' own steps
/// that an edit takes.
#[tokio::test]
async fn a_plan_and_what_else_was_derived_are_the_same_after_a_restart_and_after_an_edit() {
    const PLAN: &str = "# Plan\n\n1. Read \u{e9}.\r\n";
    for database in [Database::Kept, Database::Lost] {
        let mut bench = Bench::new().await;
        bench.file("a.txt", "one\n");
        let create =
            json!({"name": "N", "overview": "O", "plan": PLAN, "todos": [{"id": "s", "content": "S"}]});
        bench.endpoint.reply_calls([
            ("c1", "Read", r#"{"path":"a.txt"}"#),
            (
                "c2",
                "TodoWrite",
                r#"{"merge":false,"todos":[{"id":"t","content":"T","status":"in_progress"}]}"#,
            ),
        ]);
        bench
            .endpoint
            .reply_calls([("c3", "CreatePlan", create.to_string().as_str())]);
        let usage = json!({"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320});
        bench.endpoint.reply(answer("Planned.", &usage));
        let first = plan(&mut bench, "m1", "Plan it.").await;
        let state = bench.cursor.state();
        let blob = |id: &Bytes| bench.cursor.blobs().get(id).unwrap().clone();
        let kept = ConversationPlan::decode(blob(state.plan.as_ref().unwrap())).unwrap();
        assert_eq!(kept.plan, PLAN);
        let todos: Vec<_> = state
            .todos
            .iter()
            .map(|id| TodoItem::decode(blob(id)).unwrap().content)
            .collect();
        assert_eq!(todos, ["T"]);
        let read = bench.workspace.path().join("a.txt");
        assert_eq!(state.read_paths, [read.to_str().unwrap()]);
        assert_eq!(state.token_details.unwrap().used_tokens, 320);
        // The plan is there with the state in which its call is settled, and not before.
        let pending: Vec<_> = first
            .checkpoints
            .iter()
            .map(|state| (state.pending_tool_calls.len(), state.plan.is_some()))
            .collect();
        assert_eq!(
            pending,
            [
                (0, false),
                (1, false),
                (0, false),
                (1, false),
                (0, true),
                (1, true),
                (0, true),
                (0, true)
            ]
        );

        let mut bench = bench.restart(database).await;
        bench.endpoint.reply(answer("More.", &Value::Null));
        let next = plan(&mut bench, "m2", "And then?").await;
        assert_eq!(next.gets, Vec::<Bytes>::new());
        for checkpoint in &next.checkpoints {
            assert_eq!(derived(checkpoint), derived(&state));
            assert_eq!(checkpoint.turn_timings[..1], state.turn_timings[..]);
        }
        assert_eq!(next.checkpoints[0].token_details, state.token_details);

        // An edit forgets all that and reads it from the steps of the turns before it.
        let mut bench = bench.restart(database).await;
        bench.endpoint.allow_reset();
        bench.endpoint.reply(answer("Otherwise.", &Value::Null));
        bench.cursor.cut_back_to = Some(state.clone());
        let edited = plan(&mut bench, "m2", "And otherwise?").await;
        for checkpoint in &edited.checkpoints {
            assert_eq!(derived(checkpoint), derived(&state));
            assert_eq!(checkpoint.turn_timings[..1], state.turn_timings[..]);
        }
        assert_eq!(edited.checkpoints[0].token_details, None);
        bench.assert_clean();
    }
}

/// What was listed and planned in a round that was stopped is told to the model as done; the state says the same.
#[tokio::test]
async fn what_a_stopped_round_listed_and_planned_is_kept_as_its_results_are() {
    const PLAN: &str = "# Plan";
    let todo = |merge: bool, id: &str| {
        json!({"merge": merge, "todos": [{"id": id, "content": id, "status": "pending"}]}).to_string()
    };
    for database in [None, Some(Database::Kept), Some(Database::Lost)] {
        let mut bench = Bench::new().await;
        bench.file("a.txt", "one\n");
        let create = json!({"name": "N", "overview": "O", "plan": PLAN, "todos": []}).to_string();
        bench.endpoint.reply_calls([
            ("c1", "TodoWrite", todo(false, "t").as_str()),
            ("c2", "CreatePlan", create.as_str()),
            ("c3", "Read", r#"{"path":"a.txt"}"#),
        ]);
        bench.cursor.hooks.exec = Box::new(|exec| match exec.message {
            Some(exec_server_message::Message::ReadArgs(_)) => ExecAnswer::Hold,
            _ => ExecAnswer::Run,
        });
        let message = UserMessage {
            text: "Plan it.".to_owned(),
            mode: AgentMode::Plan.into(),
            ..Default::default()
        };
        let mut turn = bench.cursor.start_message(message).await;
        turn.until_held(1).await;
        let is_there = |report: &TurnReport| {
            let completed = report.calls.iter().filter(|call| call.completed.is_some());
            completed.count() == 2 && report.checkpoints.len() == 2
        };
        while !is_there(turn.report()) {
            turn.next().await.unwrap();
        }
        turn.close();
        bench.cursor.hooks.exec = Box::new(|_| ExecAnswer::Run);
        let mut bench = bench.maybe_restart(database).await;
        bench
            .endpoint
            .reply_calls([("c4", "TodoWrite", todo(true, "u").as_str())]);
        bench.endpoint.reply_text("Good.");
        let report = plan(&mut bench, "m2", "Go on.").await;
        let listed = |state: &ConversationStateStructure| -> Vec<String> {
            let blob = |id: &Bytes| bench.cursor.blobs().get(id).unwrap().clone();
            let items = state.todos.iter().map(|id| TodoItem::decode(blob(id)).unwrap());
            items.map(|item| item.content).collect()
        };
        let planned = |state: &ConversationStateStructure| {
            let blob = |id: &Bytes| bench.cursor.blobs().get(id).unwrap().clone();
            let plan = state.plan.as_ref().map(|id| ConversationPlan::decode(blob(id)));
            plan.map(|plan| plan.unwrap().plan)
        };
        let (first, last) = (&report.checkpoints[0], &bench.cursor.state());
        let body = String::from_utf8(bench.bodies().pop().unwrap().to_vec()).unwrap();
        if database == Some(Database::Lost) {
            // Nobody knows any more what came of the calls, and the model is told so.
            assert_eq!((listed(first), planned(first)), (Vec::new(), None));
            assert_eq!((listed(last), planned(last)), (vec!["u".to_owned()], None));
            assert!(!body.contains("[pending] t"), "{body}");
        } else {
            let plan = Some(PLAN.to_owned());
            assert_eq!(
                (listed(first), planned(first)),
                (vec!["t".to_owned()], plan.clone())
            );
            assert_eq!(
                (listed(last), planned(last)),
                (vec!["t".to_owned(), "u".to_owned()], plan)
            );
            assert!(body.contains("[pending] t: t\\n- [pending] u: u"), "{body}");
        }
        bench.assert_clean();
    }
}

#[tokio::test]
async fn the_steps_of_a_subagent_are_the_same_after_a_restart_and_after_an_edit() {
    for database in [Database::Kept, Database::Lost] {
        let mut bench = Bench::new().await;
        bench.cursor.hooks.request = Box::new(|request| {
            let model_id = request.requested_model.take().unwrap().model_id;
            request.model_details = Some(ModelDetails {
                model_id,
                ..Default::default()
            });
            request.subagent_type_name = Some("generalPurpose".to_owned());
            request.conversation_group_id = Some("agent-0".to_owned());
        });
        bench.endpoint.reply_calls([(
            "c1",
            "UpdateCurrentStep",
            r#"{"current_step":"done","final_summary":"read it","completed_subtitle":"one line"}"#,
        )]);
        bench.endpoint.reply_text("One line.");
        bench.cursor.send("Read it.").await.success();
        let state = bench.cursor.state();
        assert_eq!(state.communicate_update_history.len(), 1);
        assert_eq!(state.communicate_update_final_summary.as_deref(), Some("read it"));
        let mut bench = bench.restart(database).await;
        let message = |text: &str| UserMessage {
            text: text.to_owned(),
            message_id: "m2".to_owned(),
            ..Default::default()
        };
        for said in ["Sure?", "Really?"] {
            bench.endpoint.allow_reset();
            bench.endpoint.reply_text("Yes.");
            bench.cursor.cut_back_to = Some(state.clone());
            let next = bench.cursor.start_message(message(said)).await.finish().await;
            for checkpoint in &next.success().checkpoints {
                assert_eq!(derived(checkpoint), derived(&state));
            }
        }
        bench.assert_clean();
    }
}
