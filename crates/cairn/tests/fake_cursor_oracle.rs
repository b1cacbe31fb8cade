//! The strict fake client sees what breaks the wire's rules: each rule is broken once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

mod support {
    pub mod wire_oracle;
}

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn::cursor::blob::Blob;
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::conversation_turn_structure::Turn;
use cairn::cursor::proto::agent::interaction_update::Message as Update;
use cairn::cursor::proto::agent::{
    AgentConversationTurnStructure, AgentServerMessage, ConversationStateStructure, ConversationSummary,
    ConversationSummaryArchive, ConversationTokenDetails, ConversationTurnStructure, ExecServerMessage,
    InteractionUpdate, KvServerMessage, SetBlobArgs, ShellArgs, SummaryCompletedUpdate, SummaryStartedUpdate,
    SummaryUpdate, TextDeltaUpdate, ToolCallCompletedUpdate, ToolCallStartedUpdate, TurnEndedUpdate,
    exec_server_message, kv_server_message,
};
use cairn::demo::wire_client::{RunEnd, RunFrame};
use prost::Message as _;
use support::wire_oracle::WireOracle;

/// One step of a stream, or the client's acknowledgement of a SET.
#[derive(Clone)]
enum Step {
    Frame(RunFrame),
    Acknowledge(u32),
}

use Step::{Acknowledge, Frame};

fn message(message: ServerMessage) -> Step {
    Frame(RunFrame::Message(Box::new(AgentServerMessage {
        message: Some(message),
    })))
}

fn update(update: Update) -> Step {
    message(ServerMessage::InteractionUpdate(InteractionUpdate {
        message: Some(update),
    }))
}

fn text() -> Step {
    update(Update::TextDelta(TextDeltaUpdate {
        text: "Hello.".to_owned(),
        is_server_notice: false,
    }))
}

fn started(call: &str) -> Step {
    update(Update::ToolCallStarted(ToolCallStartedUpdate {
        call_id: call.to_owned(),
        ..Default::default()
    }))
}

fn completed(call: &str) -> Step {
    update(Update::ToolCallCompleted(ToolCallCompletedUpdate {
        call_id: call.to_owned(),
        ..Default::default()
    }))
}

fn turn_ended() -> Step {
    update(Update::TurnEnded(TurnEndedUpdate::default()))
}

fn set(id: u32, blob: &Blob) -> Step {
    message(ServerMessage::KvServerMessage(KvServerMessage {
        id,
        message: Some(kv_server_message::Message::SetBlobArgs(SetBlobArgs {
            blob_id: blob.id.to_wire(),
            blob_data: blob.data.clone(),
        })),
    }))
}

fn shell(id: u32, args: ShellArgs) -> Step {
    message(ServerMessage::ExecServerMessage(ExecServerMessage {
        id,
        message: Some(exec_server_message::Message::ShellStreamArgs(args)),
        ..Default::default()
    }))
}

fn success() -> Step {
    Frame(RunFrame::End(RunEnd::Success))
}

fn error() -> Step {
    Frame(RunFrame::End(RunEnd::Error {
        code: "internal".to_owned(),
        message: "Broken.".to_owned(),
    }))
}

/// The blobs of a small conversation and the states that name them.
struct World {
    system: Blob,
    user: Blob,
    answer: Blob,
    sent: Bytes,
    message: Blob,
    step: Blob,
    turn: Blob,
    longer_turn: Blob,
}

fn turn(message: &Blob, steps: &[&Blob]) -> Blob {
    let turn = AgentConversationTurnStructure {
        user_message: message.id.to_wire(),
        steps: steps.iter().map(|step| step.id.to_wire()).collect(),
        ..Default::default()
    };
    let turn = ConversationTurnStructure {
        turn: Some(Turn::AgentConversationTurn(turn)),
    };
    Blob::new(turn.encode_to_vec())
}

impl World {
    fn new() -> Self {
        let sent = Bytes::from_static(b"what the person said");
        let message = Blob::new(sent.clone());
        let step = Blob::new(&b"a step"[..]);
        Self {
            system: Blob::new(&b"system"[..]),
            user: Blob::new(&b"user"[..]),
            answer: Blob::new(&b"answer"[..]),
            turn: turn(&message, &[]),
            longer_turn: turn(&message, &[&step]),
            sent,
            message,
            step,
        }
    }

    fn state(&self, roots: &[&Blob], turn: &Blob, pending: usize) -> ConversationStateStructure {
        ConversationStateStructure {
            root_prompt_messages_json: roots.iter().map(|root| root.id.to_wire()).collect(),
            turns: vec![turn.id.to_wire()],
            pending_tool_calls: vec!["{}".to_owned(); pending],
            ..Default::default()
        }
    }

    fn checkpoint(&self, roots: &[&Blob], turn: &Blob, pending: usize) -> Step {
        let state = self.state(roots, turn, pending);
        message(ServerMessage::ConversationCheckpointUpdate(
            state.encode_to_vec().into(),
        ))
    }

    fn initial(&self) -> Step {
        self.checkpoint(&[&self.system, &self.user], &self.turn, 0)
    }

    fn staged(&self) -> Step {
        self.checkpoint(&[&self.system, &self.user], &self.longer_turn, 1)
    }

    fn settled(&self) -> Step {
        self.checkpoint(&[&self.system, &self.user, &self.answer], &self.longer_turn, 0)
    }

    /// A run without a fault: a text, no tool.
    fn good(&self) -> Vec<Step> {
        vec![
            set(1, &self.system),
            set(2, &self.message),
            set(3, &self.turn),
            set(4, &self.user),
            Acknowledge(1),
            Acknowledge(2),
            Acknowledge(3),
            Acknowledge(4),
            self.initial(),
            text(),
            set(5, &self.step),
            set(6, &self.longer_turn),
            set(7, &self.answer),
            Acknowledge(5),
            Acknowledge(6),
            Acknowledge(7),
            turn_ended(),
            self.staged(),
            self.settled(),
            self.settled(),
            success(),
        ]
    }

    fn judge(&self, steps: &[Step]) -> Vec<String> {
        let base = ConversationStateStructure::default();
        let mut oracle = WireOracle::new("run", &base, BTreeMap::new(), Some(self.sent.clone()));
        for step in steps {
            match step {
                Frame(frame) => oracle.observe(frame),
                Acknowledge(id) => oracle.acknowledged(*id),
            }
        }
        oracle.finish(false)
    }

    /// Changes the good run and sees the one rule that it breaks.
    #[track_caller]
    fn breaks(&self, rule: &str, change: impl FnOnce(&mut Vec<Step>)) {
        let mut steps = self.good();
        change(&mut steps);
        let breaches = self.judge(&steps);
        assert!(
            breaches.iter().any(|breach| breach.contains(rule)),
            "{rule:?} is not in {breaches:#?}"
        );
    }
}

const INITIAL: usize = 8;
const TEXT: usize = 9;
const TURN_ENDED: usize = 16;
const STAGED: usize = 17;
const SETTLED: usize = 18;
const END: usize = 20;

#[test]
fn a_good_run_is_clean() {
    let world = World::new();
    assert_eq!(world.judge(&world.good()), Vec::<String>::new());
}

#[test]
fn blobs_are_set_once_under_their_own_hash_and_acknowledged_before_they_are_named() {
    let world = World::new();
    world.breaks("has not acknowledged", |steps| drop(steps.remove(7)));
    world.breaks("SET twice", |steps| steps.insert(TEXT, set(5, &world.user)));
    world.breaks("KV id 4 after 4", |steps| steps.insert(4, set(4, &world.step)));
    world.breaks("not named by its SHA-256", |steps| {
        let mut wrong = world.step.clone();
        wrong.data = Bytes::from_static(b"other");
        steps.insert(TEXT, set(5, &wrong));
    });
    world.breaks("a conversation state was SET", |steps| {
        let state = world.state(&[&world.system, &world.user], &world.turn, 0);
        steps.insert(TEXT, set(5, &Blob::new(state.encode_to_vec())));
    });
}

#[test]
fn a_blob_that_the_client_sent_along_is_not_set_again() {
    let world = World::new();
    let held = BTreeMap::from([(world.user.id.to_wire(), world.user.data.clone())]);
    let base = ConversationStateStructure::default();
    let mut oracle = WireOracle::new("run", &base, held, Some(world.sent.clone()));
    let Frame(frame) = set(1, &world.user) else {
        panic!("a SET is a frame");
    };
    oracle.observe(&frame);
    let breaches = oracle.finish(true);
    assert!(
        breaches[0].contains("although the client holds it"),
        "{breaches:?}"
    );
}

#[test]
fn a_state_only_grows() {
    let world = World::new();
    world.breaks("no prefix of the", |steps| {
        steps[SETTLED] = world.checkpoint(&[&world.system, &world.answer], &world.longer_turn, 0);
    });
    // Within a run the system root stays.
    world.breaks("no prefix of the", |steps| {
        steps[SETTLED] = world.checkpoint(&[&world.user, &world.user, &world.answer], &world.longer_turn, 0);
    });
    world.breaks("staged checkpoint changed the roots", |steps| {
        steps[STAGED] = world.checkpoint(
            &[&world.system, &world.user, &world.answer],
            &world.longer_turn,
            1,
        );
    });
    world.breaks("no prefix of its new ones", |steps| {
        steps[SETTLED] = world.checkpoint(&[&world.system, &world.user, &world.answer], &world.turn, 0);
    });
    world.breaks("pending messages", |steps| {
        steps[STAGED] = world.checkpoint(&[&world.system, &world.user], &world.longer_turn, 2);
    });
    world.breaks("turns instead of", |steps| {
        let mut state = world.state(&[&world.system, &world.user], &world.turn, 0);
        state.turns.push(world.turn.id.to_wire());
        steps[INITIAL] = message(ServerMessage::ConversationCheckpointUpdate(
            state.encode_to_vec().into(),
        ));
    });
    world.breaks("not the one that was sent", |steps| {
        let other = turn(&world.step, &[]);
        steps[2] = set(3, &other);
        steps[INITIAL] = world.checkpoint(&[&world.system, &world.user], &other, 0);
    });
}

#[test]
fn the_model_speaks_only_after_a_settled_checkpoint() {
    let world = World::new();
    world.breaks("before a settled checkpoint", |steps| steps.swap(INITIAL, TEXT));
    world.breaks("before a settled checkpoint", |steps| {
        steps.remove(TURN_ENDED);
        steps.insert(STAGED, text());
    });
}

#[test]
fn a_run_ends_once_and_in_order() {
    let world = World::new();
    world.breaks("without an end frame", |steps| drop(steps.remove(END)));
    world.breaks("after the end frame", |steps| steps.push(success()));
    world.breaks("without turn_ended", |steps| drop(steps.remove(TURN_ENDED)));
    world.breaks("pending counts after turn_ended", |steps| {
        drop(steps.remove(SETTLED))
    });
    world.breaks("update came after turn_ended", |steps| {
        steps.insert(STAGED, text())
    });
    world.breaks("failed with internal after turn_ended", |steps| {
        steps[END] = error()
    });
}

#[test]
fn calls_are_started_and_completed_once() {
    let world = World::new();
    world.breaks("completed but not started", |steps| {
        steps.insert(TEXT, completed("a"))
    });
    world.breaks("started twice", |steps| {
        steps.splice(TEXT..TEXT, [started("a"), started("a"), completed("a")]);
    });
    world.breaks("completed twice", |steps| {
        steps.splice(TEXT..TEXT, [started("a"), completed("a"), completed("a")]);
    });
    world.breaks("without a completion", |steps| steps.insert(TEXT, started("a")));
}

#[test]
fn execs_count_up_and_a_shell_exec_says_how_its_command_was_read() {
    let world = World::new();
    let good = ShellArgs {
        parsing_result: Some(Default::default()),
        ..Default::default()
    };
    world.breaks("exec id 1 after 1", |steps| {
        steps.splice(TEXT..TEXT, [shell(1, good.clone()), shell(1, good.clone())]);
    });
    world.breaks("no parsing_result", |steps| {
        steps.insert(TEXT, shell(1, ShellArgs::default()))
    });
}

/// A run that is compacted before its answer.
struct Compacted {
    world: World,
    carrier: Blob,
    summary: Blob,
    archive: Blob,
}

impl Compacted {
    fn new() -> Self {
        let world = World::new();
        let carrier = Blob::new(&b"the gist, for the model"[..]);
        let summary = ConversationSummary {
            summary: "the gist".to_owned(),
        };
        let archive = ConversationSummaryArchive {
            summarized_messages: vec![world.user.id.to_wire()],
            summary: "the gist".to_owned(),
            window_tail: 0,
            summary_message: carrier.id.to_wire(),
        };
        Self {
            world,
            carrier,
            summary: Blob::new(summary.encode_to_vec()),
            archive: Blob::new(archive.encode_to_vec()),
        }
    }

    fn state(&self, roots: &[&Blob], turn: &Blob, pending: usize) -> ConversationStateStructure {
        ConversationStateStructure {
            summary: Some(self.summary.id.to_wire()),
            summary_archives: vec![self.archive.id.to_wire()],
            ..self.world.state(roots, turn, pending)
        }
    }

    fn good(&self) -> Vec<Step> {
        let World {
            system,
            answer,
            turn,
            longer_turn,
            ..
        } = &self.world;
        let begun = [system, &self.carrier];
        let ended = [system, &self.carrier, answer];
        let mut steps = self.world.good();
        steps[STAGED] = checkpoint(&self.state(&begun, longer_turn, 1));
        steps[SETTLED] = checkpoint(&self.state(&ended, longer_turn, 0));
        steps[SETTLED + 1] = steps[SETTLED].clone();
        let compaction = [
            update(Update::SummaryStarted(SummaryStartedUpdate {})),
            update(Update::Summary(SummaryUpdate {
                summary: "the gist".to_owned(),
            })),
            update(Update::SummaryCompleted(SummaryCompletedUpdate::default())),
            set(20, &self.carrier),
            set(21, &self.summary),
            set(22, &self.archive),
            Acknowledge(20),
            Acknowledge(21),
            Acknowledge(22),
            checkpoint(&self.state(&begun, turn, 0)),
        ];
        // The KV ids count up.
        for (id, at) in (23..).zip(TEXT + 1..TURN_ENDED) {
            steps[at] = match (&steps[at], at) {
                (Acknowledge(_), _) => Acknowledge(id - 3),
                (_, at) if at == TEXT + 1 => set(id, &self.world.step),
                (_, at) if at == TEXT + 2 => set(id, longer_turn),
                _ => set(id, answer),
            };
        }
        steps.splice(TEXT..TEXT, compaction);
        steps
    }

    #[track_caller]
    fn breaks(&self, rule: &str, change: impl FnOnce(&mut Vec<Step>)) {
        let mut steps = self.good();
        change(&mut steps);
        let breaches = self.world.judge(&steps);
        assert!(
            breaches.iter().any(|breach| breach.contains(rule)),
            "{rule:?} is not in {breaches:#?}"
        );
    }
}

fn checkpoint(state: &ConversationStateStructure) -> Step {
    message(ServerMessage::ConversationCheckpointUpdate(
        state.encode_to_vec().into(),
    ))
}

#[test]
fn roots_begin_anew_with_a_summary_that_was_shown_and_an_archive_of_what_was_there() {
    let compacted = Compacted::new();
    let World {
        system,
        user,
        answer,
        turn,
        ..
    } = &compacted.world;
    let carrier = &compacted.carrier;
    let begun = TEXT + 9;
    assert_eq!(compacted.world.judge(&compacted.good()), Vec::<String>::new());
    let state = || compacted.state(&[system, carrier], turn, 0);
    compacted.breaks("started twice", |steps| steps.insert(TEXT, steps[TEXT].clone()));
    compacted.breaks("before summarising had started", |steps| drop(steps.remove(TEXT)));
    compacted.breaks("over before it had started", |steps| {
        steps.insert(TEXT, steps[TEXT + 2].clone())
    });
    compacted.breaks("within a compaction", |steps| drop(steps.remove(TEXT + 2)));
    compacted.breaks("no prefix of the", |steps| drop(steps.remove(TEXT + 1)));
    compacted.breaks("has not acknowledged", |steps| drop(steps.remove(TEXT + 8)));
    compacted.breaks("changed the system root", |steps| {
        steps[begun] = checkpoint(&compacted.state(&[user, carrier], turn, 0));
    });
    compacted.breaks("a size that nobody has measured", |steps| {
        steps[begun] = checkpoint(&ConversationStateStructure {
            token_details: Some(ConversationTokenDetails::default()),
            ..state()
        });
    });
    compacted.breaks("no archive", |steps| {
        steps[begun] = checkpoint(&ConversationStateStructure {
            summary_archives: Vec::new(),
            ..state()
        });
    });
    compacted.breaks("an older archive was changed", |steps| {
        steps[begun] = checkpoint(&ConversationStateStructure {
            summary_archives: vec![user.id.to_wire(), compacted.archive.id.to_wire()],
            ..state()
        });
    });
    compacted.breaks("another summary than the one that was shown", |steps| {
        steps[begun] = checkpoint(&ConversationStateStructure {
            summary: None,
            ..state()
        });
    });
    compacted.breaks("does not fit what it replaces", |steps| {
        steps[begun] = checkpoint(&compacted.state(&[system, user], turn, 0));
    });
    compacted.breaks("although none was shown", |steps| {
        let last = steps.len() - 2;
        steps[last] = checkpoint(&ConversationStateStructure {
            summary: None,
            ..compacted.state(&[system, carrier, answer], turn, 0)
        });
    });
}

#[test]
fn an_edited_message_may_leave_an_end_of_the_state_out() {
    let world = World::new();
    let held = [
        &world.system,
        &world.user,
        &world.answer,
        &world.turn,
        &world.message,
    ];
    let held: BTreeMap<_, _> = held.map(|blob| (blob.id.to_wire(), blob.data.clone())).into();
    let base = world.state(
        &[&world.system, &world.user, &world.answer],
        &world.longer_turn,
        0,
    );
    for branches in [false, true] {
        let mut oracle = WireOracle::new("run", &base, held.clone(), Some(world.sent.clone()));
        if branches {
            oracle.expect_branch(BTreeMap::new());
        }
        let Frame(frame) = world.initial() else {
            panic!("a checkpoint is a frame");
        };
        oracle.observe(&frame);
        assert_eq!(oracle.finish(true).is_empty(), branches);
    }
}
