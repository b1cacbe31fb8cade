//! Which blobs go to the client: each once, none that it holds, and of a turn only its wrapper anew. And blobs that come
//! from it and are not what the state says they are.

use std::collections::BTreeSet;

use bytes::Bytes;
use cairn::cursor::blob::Blob;
use cairn::cursor::proto::agent::conversation_turn_structure::Turn;
use cairn::cursor::proto::agent::selected_image::DataOrBlobId;
use cairn::cursor::proto::agent::{
    AgentConversationTurnStructure, AssistantMessage, ConversationStateStructure, ConversationStep,
    ConversationSummaryArchive, ConversationTurnStructure, KvServerMessage, PreFetchedBlob, SelectedContext,
    SelectedImage, UserMessage, agent_server_message, conversation_step, interaction_update,
    kv_server_message, tool_call,
};
use cairn::demo::wire_client::RunFrame;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::support::fake_cursor::{GetAnswer, SetAnswer, TurnReport, set_of};
use super::support::strict_chat::Reply;
use super::support::wire_bench::{Bench, Database};

/// The ids of the blobs that a run sent, in order.
fn sets(report: &TurnReport) -> Vec<Bytes> {
    report
        .frames
        .iter()
        .filter_map(|frame| match frame {
            RunFrame::Message(message) => match &message.message {
                Some(agent_server_message::Message::KvServerMessage(KvServerMessage {
                    message: Some(kv_server_message::Message::SetBlobArgs(args)),
                    ..
                })) => Some(args.blob_id.clone()),
                _ => None,
            },
            RunFrame::End(_) => None,
        })
        .collect()
}

fn turn(bench: &Bench, id: &Bytes) -> AgentConversationTurnStructure {
    let data = bench.cursor.blobs().get(id).unwrap().clone();
    match ConversationTurnStructure::decode(data).unwrap().turn.unwrap() {
        Turn::AgentConversationTurn(turn) => turn,
    }
}

/// What a step of the turn shows, in short.
fn shown(bench: &Bench, id: &Bytes) -> String {
    let data = bench.cursor.blobs().get(id).unwrap().clone();
    match ConversationStep::decode(data).unwrap().message.unwrap() {
        conversation_step::Message::AssistantMessage(said) => format!("text {}", said.text),
        conversation_step::Message::ThinkingMessage(said) => format!("thinking {}", said.text),
        conversation_step::Message::ToolCall(call) => match call.tool.unwrap() {
            tool_call::Tool::ReadToolCall(read) => format!("read {}", read.args.unwrap().path),
            tool_call::Tool::UpdateTodosToolCall(_) => "todos".to_owned(),
            other => format!("{other:?}"),
        },
    }
}

/// Every blob that a state names, its turns' own ones too.
fn named(bench: &Bench, state: &ConversationStateStructure) -> BTreeSet<Bytes> {
    let mut named: BTreeSet<Bytes> = state
        .root_prompt_messages_json
        .iter()
        .chain(&state.turns)
        .chain(&state.todos)
        .chain(&state.plan)
        .cloned()
        .collect();
    for id in &state.turns {
        let turn = turn(bench, id);
        named.insert(turn.user_message);
        named.extend(turn.steps);
    }
    named
}

fn is_completion(frame: &RunFrame) -> bool {
    let RunFrame::Message(message) = frame else {
        return false;
    };
    matches!(&message.message, Some(agent_server_message::Message::InteractionUpdate(update))
        if matches!(update.message, Some(interaction_update::Message::ToolCallCompleted(_))))
}

fn is_heartbeat(frame: &RunFrame) -> bool {
    let RunFrame::Message(message) = frame else {
        return false;
    };
    matches!(&message.message, Some(agent_server_message::Message::InteractionUpdate(update))
        if matches!(update.message, Some(interaction_update::Message::Heartbeat(_))))
}

/// A turn with thinking, text, two rounds and an answer.
async fn long_turn(bench: &mut Bench, question: &str) -> TurnReport {
    bench.file("a.txt", "one\n");
    let todos = r#"{"merge":false,"todos":[{"id":"a","content":"First","status":"pending"}]}"#;
    bench.endpoint.reply(Reply::answer(
        Some("Hm."),
        "Look.",
        &[
            (&format!("{question}-1"), "Read", r#"{"path":"a.txt"}"#),
            (&format!("{question}-2"), "TodoWrite", todos),
        ],
    ));
    bench.endpoint.reply(Reply::answer(
        None,
        "",
        &[(&format!("{question}-3"), "Read", r#"{"path":"a.txt"}"#)],
    ));
    bench.endpoint.reply(Reply::answer(Some("So."), "One.", &[]));
    bench.cursor.send(question).await.success()
}

#[tokio::test]
async fn each_blob_goes_out_once_and_none_that_the_client_holds() {
    let mut bench = Bench::new().await;
    let mut held: BTreeSet<Bytes> = BTreeSet::new();
    for (question, database) in [
        ("one", None),
        ("two", None),
        ("three", Some(Database::Kept)),
        ("four", Some(Database::Lost)),
    ] {
        if let Some(database) = database {
            bench = bench.restart(database).await;
        }
        let report = long_turn(&mut bench, question).await;
        let sent = sets(&report);
        let once: BTreeSet<Bytes> = sent.iter().cloned().collect();
        assert_eq!(once.len(), sent.len(), "turn {question}: a blob was sent twice");
        assert!(
            once.is_disjoint(&held),
            "turn {question}: the client held a blob that was sent"
        );
        let mut published = BTreeSet::new();
        for state in &report.checkpoints {
            published.extend(named(&bench, state));
        }
        let news: BTreeSet<Bytes> = published.difference(&held).cloned().collect();
        // Nothing that no checkpoint names, and nothing less.
        assert_eq!(once, news, "turn {question}");
        held.extend(published);
        // A state itself is no blob.
        for state in &report.checkpoints {
            let id = Bytes::copy_from_slice(&Sha256::digest(state.encode_to_vec()));
            assert!(!once.contains(&id));
        }
    }
    bench.assert_clean();
}

#[tokio::test]
async fn of_a_turn_only_the_wrapper_is_made_anew_and_each_delta_is_a_step_once() {
    let mut bench = Bench::new().await;
    long_turn(&mut bench, "one").await;
    let before = bench.cursor.state();
    let report = long_turn(&mut bench, "two").await;
    let pending: Vec<usize> = report
        .checkpoints
        .iter()
        .map(|state| state.pending_tool_calls.len())
        .collect();
    assert_eq!(pending, [0, 1, 0, 1, 0, 1, 0, 0]);
    let steps: Vec<usize> = report
        .checkpoints
        .iter()
        .map(|state| turn(&bench, state.turns.last().unwrap()).steps.len())
        .collect();
    // The staged and both settled states of the end share one turn.
    assert_eq!(steps, [0, 2, 4, 4, 5, 7, 7, 7]);
    let first = turn(&bench, &report.checkpoints[0].turns[1]);
    let mut roots = before.root_prompt_messages_json.clone();
    let mut earlier = first.steps.clone();
    for state in &report.checkpoints {
        assert_eq!(state.turns[..1], before.turns[..]);
        let turn = turn(&bench, &state.turns[1]);
        assert_eq!(turn.user_message, first.user_message);
        assert!(turn.steps.starts_with(&earlier));
        assert!(state.root_prompt_messages_json.starts_with(&roots));
        earlier = turn.steps;
        roots = state.root_prompt_messages_json.clone();
    }
    let wrappers: BTreeSet<&Bytes> = report.checkpoints.iter().map(|state| &state.turns[1]).collect();
    assert_eq!(
        wrappers.len(),
        5,
        "a wrapper was made anew although nothing was added"
    );
    let shown: Vec<String> = earlier.iter().map(|id| shown(&bench, id)).collect();
    let path = "a.txt";
    assert_eq!(
        shown,
        [
            "thinking Hm.".to_owned(),
            "text Look.".to_owned(),
            "todos".to_owned(),
            format!("read {path}"),
            format!("read {path}"),
            "thinking So.".to_owned(),
            "text One.".to_owned(),
        ]
    );
    bench.assert_clean();
}

#[tokio::test]
async fn a_step_that_an_earlier_run_of_the_turn_sent_is_not_sent_again() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    let look = |id| Reply::answer(None, "Look.", &[(id, "Read", r#"{"path":"a.txt"}"#)]);
    bench.endpoint.reply(look("call_1"));
    bench
        .endpoint
        .reply_status(401, &[], r#"{"error":{"message":"no"}}"#);
    bench.cursor.send("Look twice.").await.error();
    // The same words again, from a client that sends no blobs along.
    bench.cursor.hooks.request = Box::new(|request| request.pre_fetched_blobs.clear());
    bench.endpoint.reply(look("call_2"));
    bench.endpoint.reply_text("One.");
    bench.cursor.resume().await.success();
    let state = bench.cursor.state();
    let steps = turn(&bench, state.turns.last().unwrap()).steps;
    assert_eq!(steps.len(), 5);
    assert_eq!(steps[0], steps[2]);
    // The oracle has seen that it was not.
    bench.assert_clean();
}

#[tokio::test]
async fn the_end_waits_for_every_blob_of_it() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("One.");
    bench.cursor.hooks.set = Box::new(|args| {
        let is_answer = args.blob_data.starts_with(br#"{"role":"assistant""#);
        if is_answer {
            SetAnswer::Withhold
        } else {
            SetAnswer::Acknowledge
        }
    });
    let mut turn = bench.cursor.start_turn("How many?").await;
    // All of the end is sent; the last blob of it stays without an answer.
    let withheld = turn
        .until("the answer's root", |frame| {
            set_of(frame).is_some_and(|data| data.starts_with(br#"{"role":"assistant""#))
        })
        .await;
    // The next thing that the server says, seconds later, is that it lives.
    let next = turn.next().await.unwrap();
    assert!(is_heartbeat(&next), "{next:?}");
    assert_eq!(turn.report().checkpoints.len(), 1);
    turn.acknowledge_set(&withheld).await;
    let report = turn.finish().await.success();
    assert_eq!(report.checkpoints.len(), 4);
    bench.cursor.hooks.set = Box::new(|_| SetAnswer::Acknowledge);
    bench.assert_clean();
}

#[tokio::test]
async fn the_first_model_call_waits_for_the_initial_state() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.set = Box::new(|args| match args.blob_data.starts_with(br#"{"role":"user""#) {
        true => SetAnswer::Withhold,
        false => SetAnswer::Acknowledge,
    });
    let mut turn = bench.cursor.start_turn("How many?").await;
    let mut withheld = Vec::new();
    loop {
        let frame = turn.next().await.unwrap();
        if set_of(&frame).is_some_and(|data| data.starts_with(br#"{"role":"user""#)) {
            withheld.push(frame);
        } else if is_heartbeat(&frame) {
            break;
        }
    }
    assert_eq!(turn.report().checkpoints.len(), 0);
    assert_eq!(bench.endpoint.requests().len(), 0);
    bench.endpoint.reply_text("One.");
    for set in &withheld {
        turn.acknowledge_set(set).await;
    }
    turn.finish().await.success();
    bench.assert_clean();
}

#[tokio::test]
async fn the_beginning_of_a_round_holds_no_tool_back_and_its_end_the_next_model_call() {
    let mut bench = Bench::new().await;
    bench.file("a.txt", "one\n");
    let calls = [
        ("call_1", "Read", r#"{"path":"a.txt"}"#),
        ("call_2", "Read", r#"{"path":"a.txt"}"#),
    ];
    bench.endpoint.reply(Reply::answer(None, "Look.", &calls));
    bench.endpoint.reply_text("One.");
    // The step with the text, which the staged state names.
    let step = ConversationStep {
        message: Some(conversation_step::Message::AssistantMessage(AssistantMessage {
            text: "Look.".to_owned(),
        })),
    };
    let step = step.encode_to_vec();
    let text = step.clone();
    bench.cursor.hooks.set = Box::new(move |args| match args.blob_data == step {
        true => SetAnswer::Withhold,
        false => SetAnswer::Acknowledge,
    });
    let mut turn = bench.cursor.start_turn("Look.").await;
    let (mut withheld, mut completed) = (None, 0);
    loop {
        let frame = turn.next().await.unwrap();
        if set_of(&frame).is_some_and(|data| data == text) {
            withheld = Some(frame);
        } else if is_heartbeat(&frame) && completed == 2 {
            break;
        } else if is_completion(&frame) {
            completed += 1;
        }
    }
    assert_eq!(
        turn.report().checkpoints.len(),
        1,
        "a state named a blob before its acknowledgement"
    );
    assert_eq!(bench.endpoint.requests().len(), 1);
    turn.acknowledge_set(&withheld.unwrap()).await;
    let report = turn.finish().await.success();
    let pending: Vec<usize> = report
        .checkpoints
        .iter()
        .map(|state| state.pending_tool_calls.len())
        .collect();
    assert_eq!(pending, [0, 1, 0, 1, 0, 0]);
    bench.assert_clean();
}

// === what comes from the client ===

/// What the client is told when its state is as `change` makes it.
async fn refused(change: impl FnOnce(&mut ConversationStateStructure), resume: bool) -> (Bench, String) {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("Hello.");
    bench.cursor.send("Hello?").await.success();
    let mut bench = bench.restart(Database::Lost).await;
    let mut state = bench.cursor.state();
    change(&mut state);
    bench.cursor.hooks.request = Box::new(move |request| {
        request.conversation_state = Some(state.encode_to_vec().into());
    });
    let report = if resume {
        bench.cursor.resume().await
    } else {
        bench.cursor.send("And now?").await
    };
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument", "{message}");
    assert_eq!(bench.bodies().len(), 1, "the model was called");
    let message = message.to_owned();
    (bench, message)
}

#[tokio::test]
async fn a_blob_of_another_kind_than_its_field_says_is_named_with_the_field() {
    type Change = fn(&mut ConversationStateStructure);
    type Blob = fn(&ConversationStateStructure) -> Bytes;
    let cases: [(&str, bool, Change, Blob); 4] = [
        (
            "turns",
            true,
            |state| state.turns = vec![state.root_prompt_messages_json[0].clone()],
            |state| state.root_prompt_messages_json[0].clone(),
        ),
        (
            "todos",
            false,
            |state| state.todos = vec![state.root_prompt_messages_json[0].clone()],
            |state| state.root_prompt_messages_json[0].clone(),
        ),
        (
            "root",
            false,
            |state| state.root_prompt_messages_json.push(state.turns[0].clone()),
            |state| state.turns[0].clone(),
        ),
        (
            "system root",
            false,
            |state| state.root_prompt_messages_json.swap(0, 1),
            |state| state.root_prompt_messages_json[1].clone(),
        ),
    ];
    for (field, resume, change, blob) in cases {
        let (bench, message) = refused(change, resume).await;
        let id = hex::encode(blob(&bench.cursor.state()));
        assert!(
            message.contains(field) && message.contains(&id),
            "{field}: {message}"
        );
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_reference_of_the_wrong_length_and_a_pending_text_that_is_none_are_named() {
    let (bench, message) = refused(|state| state.turns[0].truncate(31), true).await;
    assert!(
        message.contains("turns") && message.contains("31 bytes"),
        "{message}"
    );
    bench.assert_clean();
    let (bench, message) = refused(|state| state.plan = Some(Bytes::from_static(&[1])), false).await;
    assert!(
        message.contains("plan") && message.contains("1 bytes"),
        "{message}"
    );
    bench.assert_clean();
    let (bench, message) = refused(|state| state.pending_tool_calls.push("call_1".to_owned()), true).await;
    assert!(message.contains("pending_tool_calls[0]"), "{message}");
    bench.assert_clean();
}

#[tokio::test]
async fn each_field_with_a_reference_of_the_wrong_length_is_named() {
    type Change = fn(&mut ConversationStateStructure, Bytes);
    let fields: [(&str, Change); 6] = [
        ("root_prompt_messages_json", |state, id| {
            state.root_prompt_messages_json.push(id);
        }),
        ("turns", |state, id| state.turns.push(id)),
        ("todos", |state, id| state.todos.push(id)),
        ("plan", |state, id| state.plan = Some(id)),
        ("summary", |state, id| state.summary = Some(id)),
        ("summary_archives", |state, id| state.summary_archives.push(id)),
    ];
    for (field, change) in fields {
        for length in [0, 31, 33] {
            let id = Bytes::from(vec![7; length]);
            let (bench, message) = refused(|state| change(state, id), false).await;
            assert!(
                message.contains(&format!("field {field} ")) && message.contains(&format!("{length} bytes")),
                "{message}"
            );
            bench.assert_clean();
        }
    }
}

/// What the client is told when an earlier message is edited and the state's blobs are as `change` makes them: it may put
/// blobs of its own under the ids that it gives.
async fn refused_edit(
    change: impl FnOnce(&mut ConversationStateStructure, &mut Vec<Blob>, &Bench),
) -> String {
    let mut bench = Bench::new().await;
    let asked = |text: &str| UserMessage {
        text: text.to_owned(),
        message_id: "m1".to_owned(),
        ..Default::default()
    };
    bench.endpoint.reply_text("Hello.");
    bench
        .cursor
        .start_message(asked("Hello?"))
        .await
        .finish()
        .await
        .success();
    bench.endpoint.reply_text("The gist.");
    bench.cursor.summarize().await.success();
    let (mut state, mut new) = (bench.cursor.state(), Vec::new());
    change(&mut state, &mut new, &bench);
    bench.cursor.hooks.request = Box::new(move |request| {
        request.conversation_state = Some(state.encode_to_vec().into());
        let new = new.drain(..).map(|blob| PreFetchedBlob {
            id: blob.id.to_wire(),
            value: blob.data,
        });
        request.pre_fetched_blobs.extend(new);
    });
    let report = bench.cursor.edit(asked("Hello!")).await;
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument", "{message}");
    assert_eq!(bench.bodies().len(), 2, "the model was called");
    bench.assert_clean();
    message.to_owned()
}

fn wrapper(turn: AgentConversationTurnStructure) -> Blob {
    let turn = Some(Turn::AgentConversationTurn(turn));
    Blob::new(ConversationTurnStructure { turn }.encode_to_vec())
}

#[tokio::test]
async fn what_a_turn_or_an_archive_names_and_is_none_is_named() {
    // Field 1 as a number: neither a message nor a step nor an archive.
    let other = || Blob::new(vec![0x0a, 0x05, 0x01]);
    let in_turn = |user_message: Option<Bytes>, steps: Option<Bytes>| {
        move |state: &mut ConversationStateStructure, new: &mut Vec<Blob>, bench: &Bench| {
            let mut changed = turn(bench, &state.turns[0]);
            changed.user_message = user_message.unwrap_or(changed.user_message);
            changed.steps.extend(steps);
            let changed = wrapper(changed);
            state.turns[0] = changed.id.to_wire();
            new.extend([changed, other()]);
        }
    };
    let id = other().id;
    let short = Bytes::from_static(&[7; 31]);
    for (message, expected) in [
        (
            refused_edit(in_turn(Some(id.to_wire()), None)).await,
            ["user_message", &id.to_string()],
        ),
        (
            refused_edit(in_turn(Some(short.clone()), None)).await,
            ["user_message", "31 bytes"],
        ),
        (
            refused_edit(in_turn(None, Some(short))).await,
            ["steps", "31 bytes"],
        ),
        (
            refused_edit(|state, new, _| {
                state.summary_archives = vec![other().id.to_wire()];
                new.push(other());
            })
            .await,
            ["summary_archives", &id.to_string()],
        ),
        (
            refused_edit(|state, new, bench| {
                let archive = bench.cursor.blobs().get(&state.summary_archives[0]).unwrap();
                let mut archive = ConversationSummaryArchive::decode(archive.clone()).unwrap();
                archive.summarized_messages.push(Bytes::from_static(&[7; 33]));
                let archive = Blob::new(archive.encode_to_vec());
                state.summary_archives = vec![archive.id.to_wire()];
                new.push(archive);
            })
            .await,
            ["summarized_messages", "33 bytes"],
        ),
    ] {
        assert!(expected.iter().all(|part| message.contains(part)), "{message}");
    }
}

/// What a message has only by reference is asked for, and named where it is not what it should be.
#[tokio::test]
async fn what_a_message_names_and_is_none_is_named() {
    let lost = Blob::new(Bytes::from_static(b"A long text."));
    let id = lost.id.to_string();
    let missing: fn() -> GetAnswer = || GetAnswer::Missing;
    let other: fn() -> GetAnswer = || GetAnswer::Bytes(Bytes::from_static(b"Another text."));
    let text = |reference: Bytes| UserMessage {
        text_blob_id: Some(reference),
        ..Default::default()
    };
    let picture = |reference: Bytes| UserMessage {
        text: "Look.".to_owned(),
        selected_context: Some(SelectedContext {
            selected_images: vec![SelectedImage {
                mime_type: "image/png".to_owned(),
                data_or_blob_id: Some(DataOrBlobId::BlobId(reference)),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    };
    let short = Bytes::from_static(&[7; 31]);
    for (message, answer, expected) in [
        (text(short.clone()), missing, ["text of the message", "31 bytes"]),
        (text(lost.id.to_wire()), missing, ["text_blob_id", &id]),
        (text(lost.id.to_wire()), other, ["text_blob_id", &id]),
        (picture(short), missing, ["image 1", "31 bytes"]),
        (picture(lost.id.to_wire()), missing, ["selected_context", &id]),
        (picture(lost.id.to_wire()), other, ["selected_context", &id]),
    ] {
        let mut bench = Bench::new().await;
        bench.cursor.hooks.get = Box::new(move |_| answer());
        let report = bench.cursor.start_message(message).await.finish().await;
        let (code, text) = report.error();
        assert_eq!(code, "invalid_argument");
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(bench.bodies().len(), 0, "the model was called");
        bench.assert_clean();
    }
}

#[tokio::test]
async fn a_blob_that_is_sent_along_under_no_id_is_named() {
    let mut bench = Bench::new().await;
    bench.cursor.hooks.request = Box::new(|request| {
        request.pre_fetched_blobs.push(PreFetchedBlob {
            id: Bytes::from_static(&[7; 20]),
            value: Bytes::new(),
        });
    });
    let report = bench.cursor.send("Hello?").await;
    let (code, message) = report.error();
    assert_eq!(code, "invalid_argument");
    assert!(
        message.contains("pre_fetched_blobs") && message.contains("20 bytes"),
        "{message}"
    );
    bench.assert_clean();
}

/// What comes along under an id with other bytes is not held: the client gets the true bytes before a state names it.
#[tokio::test]
async fn a_blob_that_came_along_with_other_bytes_is_sent_when_a_state_names_it_anew() {
    let mut bench = Bench::new().await;
    bench.endpoint.reply_text("Hello.");
    bench.cursor.send("Hello?").await.success();
    let answer = turn(&bench, &bench.cursor.state().turns[0]).steps[0].clone();
    let wanted = answer.clone();
    bench.cursor.hooks.request = Box::new(move |request| {
        for blob in &mut request.pre_fetched_blobs {
            if blob.id == wanted {
                blob.value = Bytes::from_static(b"other");
            }
        }
    });
    // The same words again are the same step.
    bench.endpoint.reply_text("Hello.");
    let report = bench.cursor.send("Hello again?").await.success();
    assert_eq!(
        turn(&bench, &bench.cursor.state().turns[1]).steps,
        std::slice::from_ref(&answer)
    );
    let sent = sets(&report);
    assert_eq!(sent.iter().filter(|id| **id == answer).count(), 1);
    bench.endpoint.assert_clean();
}
