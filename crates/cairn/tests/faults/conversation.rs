//! A conversation: one turn that is done, one turn in which something breaks, how it goes on, and what must hold then.
//!
//! The model is a function of the history, so that whatever was lost and asked for again ends in the same conversation.
//! Must never know: where the server runs.

use std::collections::BTreeMap;
use std::path::Path;

use cairn::cursor::proto::agent::{ConversationStateStructure, exec_server_message};
use cairn::model::{ConversationId, FailureKind};
use cairn::store::{RecordedOutcome, Store};
use serde_json::Value;
use tempfile::TempDir;

use super::support::fake_cursor::{ExecAnswer, FakeCursor, TurnReport, is_heartbeat};
use super::support::strict_chat::{RecordedRequest, Reply, StrictChat};

/// The turn in which something breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Thinking and text.
    Text,
    /// Two rounds: reads and a command side by side, then an edit and a to-do list. Then thinking and text.
    Tools,
}

/// How the client goes on after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoOn {
    /// With another message.
    Send,
    /// By resuming the turn, or by sending its message again where no checkpoint of the turn has come.
    Resume,
}

const CONVERSATION: &str = "agent-1";
const FIRST: &str = "Hello.";
/// What the person says after the turn.
pub const NEXT: &str = "Go on.";

impl GoOn {
    pub const ALL: [Self; 2] = [Self::Send, Self::Resume];
}

impl Turn {
    pub const ALL: [Self; 2] = [Self::Text, Self::Tools];

    /// What the person says.
    pub fn message(self) -> &'static str {
        match self {
            Self::Text => "Say it.",
            Self::Tools => "Work on it.",
        }
    }
}

/// What the model says to a history.
fn model(request: &RecordedRequest) -> Reply {
    let messages = request.messages();
    let asked = messages
        .iter()
        .rposition(|message| message["role"] == "user")
        .unwrap();
    let said = messages[asked]["content"].to_string();
    let rounds = messages[asked..]
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    let is = |text: &str| said.contains(&format!("<user_query>\\n{text}"));
    if is(FIRST) {
        Reply::answer(None, "Hi.", &[])
    } else if is(NEXT) {
        Reply::answer(None, "Done.", &[])
    } else if is(Turn::Tools.message()) && rounds == 0 {
        Reply::answer(
            Some("Hm."),
            "Look.",
            &[
                ("c1", "Read", r#"{"path":"a"}"#),
                (
                    "c2",
                    "Shell",
                    r#"{"command":"echo out; echo err >&2; echo x >> ran"}"#,
                ),
                ("c3", "Read", r#"{"path":"b"}"#),
            ],
        )
    } else if is(Turn::Tools.message()) && rounds == 1 {
        let todos = r#"{"merge":false,"todos":[{"id":"t","content":"T","status":"pending"}]}"#;
        Reply::answer(
            None,
            "",
            &[
                ("c4", "Write", r#"{"path":"w","contents":"W\n"}"#),
                ("c5", "TodoWrite", todos),
            ],
        )
    } else {
        Reply::answer(Some("So."), "One.", &[])
    }
}

/// How the conversation stands when nothing breaks in it.
#[derive(Clone, Debug)]
pub struct Reference {
    /// What the model is told by the end of the turn, its last answer included.
    pub lines: Vec<String>,
    /// Roots of the client's state that are no such line: the prompt and the request context.
    other_roots: usize,
    /// What the client was sent.
    pub report: TurnReport,
}

impl Reference {
    /// How much of the conversation a state holds in its roots.
    fn settled(&self, state: &ConversationStateStructure) -> usize {
        state.root_prompt_messages_json.len() - self.other_roots
    }
}

/// Frames of a run that went well, without signs of life and the end frame.
pub fn frames_of(report: &TurnReport) -> usize {
    report.frames.iter().filter(|frame| !is_heartbeat(frame)).count() - 1
}

/// The client and the model, with a server between them.
pub struct Conversation {
    pub chat: StrictChat,
    pub cursor: FakeCursor,
    /// How often something breaks in the turn.
    pub breaks: usize,
    workspace: TempDir,
}

impl Conversation {
    /// The model's endpoint.
    pub async fn endpoint() -> StrictChat {
        let chat = StrictChat::start().await;
        chat.one_conversation();
        chat.answer_by(model);
        chat
    }

    /// Begins the conversation and plays its first turn.
    pub async fn begin(chat: StrictChat, base_url: &str, key: &str) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        std::fs::write(workspace.path().join("a"), "one\n").unwrap();
        let mut cursor = FakeCursor::new(base_url, key, CONVERSATION, workspace.path()).await;
        // So that two trials of the same turn commit the same in the same order.
        cursor.hooks.exec = Box::new(|_| ExecAnswer::RunAlone);
        cursor.send(FIRST).await.success();
        Self {
            chat,
            cursor,
            breaks: 1,
            workspace,
        }
    }

    /// Plays a turn with tools until its first round is staged and waits for all of its results. Then something happens,
    /// and the client goes away.
    pub async fn left_in_a_round(&mut self, then: impl FnOnce()) -> TurnReport {
        let as_before = std::mem::replace(
            &mut self.cursor.hooks.exec,
            Box::new(|exec| match exec.message {
                Some(exec_server_message::Message::RequestContextArgs(_)) => ExecAnswer::Run,
                _ => ExecAnswer::Hold,
            }),
        );
        let mut turn = self.cursor.start_turn(Turn::Tools.message()).await;
        turn.until_held(3).await;
        if turn.report().checkpoints.len() == 1 {
            turn.until_checkpoint(1).await;
        }
        then();
        let report = turn.close();
        self.cursor.hooks.exec = as_before;
        report
    }

    /// Sees what the model is told next after a turn in which nothing broke.
    pub async fn reference(&mut self, report: TurnReport) -> Reference {
        let roots = self.cursor.state().root_prompt_messages_json.len();
        self.cursor.send(NEXT).await.success();
        let mut lines = self.told();
        assert_eq!(lines.pop().unwrap(), format!("user: {NEXT}"));
        Reference {
            other_roots: roots - lines.len(),
            lines,
            report,
        }
    }

    /// The client goes on after something broke in the turn, and everything is as it must be. `committed` tells, once
    /// nothing runs any more, how many results the broken run committed. Returns how many further runs there were.
    pub async fn go_on(
        &mut self,
        turn: Turn,
        how: GoOn,
        committed: impl AsyncFnOnce() -> usize,
        reference: &Reference,
    ) -> usize {
        let held = self.cursor.state();
        let commands = self.commands();
        let has_begun = held.turns.len() == 2;
        match how {
            GoOn::Send => {}
            GoOn::Resume if has_begun => {
                // An open round runs again, in the workspace as it found it. The run that broke may have brought its
                // results to the model already, after a checkpoint that the client never read: only the same ones go on
                // from there.
                if held
                    .pending_tool_calls
                    .iter()
                    .any(|pending| pending.contains("\"c4\""))
                {
                    let _ = std::fs::remove_file(self.workspace.path().join("w"));
                }
                self.cursor.resume().await.success();
            }
            GoOn::Resume => {
                self.cursor.send(turn.message()).await.success();
            }
        }
        self.cursor.send(NEXT).await.success();
        let mut told = self.told();
        assert_eq!(told.pop().unwrap(), format!("user: {NEXT}"));
        match how {
            GoOn::Send => nothing_is_lost(&told, &held, committed().await, reference),
            GoOn::Resume => same(&told, &reference.lines),
        }
        // A command whose result the client's state holds is not run again, and no other one but by a resume.
        let again = self.commands() - commands;
        let is_settled = has_command(&reference.lines[..reference.settled(&held)]);
        match how {
            GoOn::Resume if has_command(&reference.lines) && !is_settled => assert_eq!(again, 1),
            GoOn::Send | GoOn::Resume => assert_eq!(again, 0, "the command was run again"),
        }
        match how {
            GoOn::Send => 1,
            GoOn::Resume => 2,
        }
    }

    /// Another window went on from this state of the turn, with [`NEXT`]. `committed` results of the turn are in the
    /// database.
    #[track_caller]
    pub fn went_on_from(&self, held: &ConversationStateStructure, committed: usize, reference: &Reference) {
        let mut told = self.told();
        assert_eq!(told.pop().unwrap(), format!("user: {NEXT}"));
        nothing_is_lost(&told, held, committed, reference);
        assert!(
            self.commands() <= usize::from(has_command(&reference.lines)),
            "the command was run again"
        );
        self.assert_clean();
    }

    /// The turn went well, whatever happened on the way: the model is told the same as if nothing had.
    pub async fn nothing_happened(&mut self, reference: &Reference) {
        self.cursor.send(NEXT).await.success();
        self.told_as_in(reference);
    }

    /// The client has gone on with [`NEXT`], and the model was told the same as if nothing had happened.
    #[track_caller]
    pub fn told_as_in(&self, reference: &Reference) {
        let mut told = self.told();
        assert_eq!(told.pop().unwrap(), format!("user: {NEXT}"));
        same(&told, &reference.lines);
        assert_eq!(self.commands(), usize::from(has_command(&reference.lines)));
        self.assert_clean();
    }

    /// Nobody broke a rule.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.cursor.assert_clean();
        self.chat.assert_clean();
    }

    /// How often the command of the turn was run.
    fn commands(&self) -> usize {
        let ran = std::fs::read_to_string(self.workspace.path().join("ran"));
        ran.map_or(0, |text| text.lines().count())
    }

    /// What the model was told last, but for the prompt and the request context.
    fn told(&self) -> Vec<String> {
        let requests = self.chat.requests();
        requests
            .last()
            .unwrap()
            .messages()
            .iter()
            .filter_map(line)
            .collect()
    }
}

/// The model is told what the client's state holds, every result that was committed for its open round (`committed` are
/// those of the whole turn), and nothing twice.
#[track_caller]
fn nothing_is_lost(
    told: &[String],
    held: &ConversationStateStructure,
    committed: usize,
    reference: &Reference,
) {
    let settled = reference.settled(held);
    same(&told[..settled], &reference.lines[..settled]);
    let Some(pending) = held.pending_tool_calls.first() else {
        assert_eq!(told.len(), settled, "{told:#?}");
        return;
    };
    let round = &told[settled..];
    assert_eq!(round[0], reference.lines[settled]);
    let pending: Value = serde_json::from_str(pending).unwrap();
    let parts = pending["content"].as_array().unwrap();
    let calls = parts.iter().filter(|part| part["type"] == "tool-call").count();
    let mut results: BTreeMap<_, _> = round[1..]
        .iter()
        .map(|line| line.split_once(": ").unwrap())
        .collect();
    assert_eq!((results.len(), round.len()), (calls, calls + 1), "{told:#?}");
    results.retain(|_, result| !result.contains("interrupted"));
    let is_result = |line: &&String| line.starts_with("tool");
    let settled_results = told[..settled].iter().filter(is_result).count();
    assert_eq!(results.len(), committed - settled_results, "{told:#?}");
    for (call, result) in results {
        assert!(
            reference.lines.contains(&format!("{call}: {result}")),
            "{call}: {result}"
        );
    }
}

/// How the broken run stands in the database, where it is there and not completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// Its process died.
    Interrupted,
    Cancelled,
    Failed(FailureKind),
}

/// Each run has its end in the database, which is whole: `completed` runs that went well, and up to `breaks` broken ones,
/// each of which may have gone well as far as the server knows, or may never have begun.
pub async fn runs_are_over(data: &Path, completed: usize, breaks: usize, broken: Broken) {
    let store = Store::open(&data.join("cairn.db")).await.unwrap();
    store.check_integrity().await.unwrap();
    let runs = store.runs_of(&ConversationId::new(CONVERSATION)).await.unwrap();
    let all = runs.len();
    let mut not_completed = Vec::new();
    for run in runs {
        not_completed.push(match run.outcome {
            Some(RecordedOutcome::Completed) => continue,
            Some(RecordedOutcome::Cancelled) => Broken::Cancelled,
            Some(RecordedOutcome::Interrupted) => Broken::Interrupted,
            Some(RecordedOutcome::Failed(failure)) => Broken::Failed(failure.kind),
            None => panic!("run {} has no end", run.id),
        });
    }
    assert!(
        (completed..=completed + breaks).contains(&all),
        "there are {all} runs"
    );
    assert!(
        all - not_completed.len() >= completed,
        "{not_completed:?} of {all} runs"
    );
    assert!(
        not_completed.iter().all(|outcome| *outcome == broken),
        "{not_completed:?}"
    );
    store.close().await.unwrap();
}

/// One message as a line, without what differs from trial to trial.
fn line(message: &Value) -> Option<String> {
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match message["role"].as_str().unwrap() {
        "system" => None,
        "user" => {
            let query = content.split("<user_query>").nth(1)?;
            let query = query.split("</user_query>").next().unwrap().trim();
            Some(format!("user: {query}"))
        }
        "assistant" => Some(format!(
            "assistant: {} {content} {}",
            message["reasoning_content"], message["tool_calls"]
        )),
        role => {
            let kept: Vec<_> = content
                .lines()
                .filter(|line| !line.starts_with("Working directory: "))
                .collect();
            Some(format!(
                "{role} {}: {}",
                message["tool_call_id"].as_str().unwrap(),
                kept.join("\n")
            ))
        }
    }
}

fn has_command(lines: &[String]) -> bool {
    lines.iter().any(|line| line.starts_with("tool c2"))
}

#[track_caller]
fn same(told: &[String], expected: &[String]) {
    assert_eq!(told, expected, "the model was told something else");
}
