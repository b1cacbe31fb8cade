//! What one run's stream must look like, judged frame by frame: identities of blobs, growth of the state, order of
//! checkpoints and the one end. Knows nothing of HTTP and answers nothing.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cairn::cursor::proto::agent::agent_server_message::Message as ServerMessage;
use cairn::cursor::proto::agent::conversation_turn_structure::Turn;
use cairn::cursor::proto::agent::interaction_update::Message as Update;
use cairn::cursor::proto::agent::{
    AgentConversationTurnStructure, AgentServerMessage, ConversationStateStructure, ConversationSummary,
    ConversationSummaryArchive, ConversationTurnStructure, ExecServerMessage, InteractionQuery,
    KvServerMessage, UserMessage, exec_server_message, kv_server_message,
};
use cairn::demo::wire_client::{RunEnd, RunFrame};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

/// Judges one run.
pub struct WireOracle {
    run: String,
    violations: Vec<String>,
    /// Blobs that the server may name: those it was sent along, and those whose SET was acknowledged.
    available: BTreeMap<Bytes, Bytes>,
    /// SETs of this run by KV id, until they are answered.
    unanswered: BTreeMap<u32, (Bytes, Bytes)>,
    set: BTreeSet<Bytes>,
    last_kv_id: u32,
    last_exec_id: u32,
    last_query_id: u32,
    state: ConversationStateStructure,
    /// The user message that the client sent; absent when it goes on with the last turn.
    user_message: Option<Bytes>,
    /// The current turn as the last checkpoint had it.
    turn: Option<AgentConversationTurnStructure>,
    checkpoints: Vec<Bytes>,
    last_pending: Option<usize>,
    /// Whether there is an answer to stage: one that this run streamed, or one that the state held as pending.
    answered: bool,
    started: BTreeSet<String>,
    completed: BTreeSet<String>,
    /// Whether the client shows that the conversation is being summarised.
    summarising: bool,
    /// A summary that was shown and that the next checkpoint must begin anew with.
    summary: Option<String>,
    /// Whether the first checkpoint may leave an end of the state out: an earlier message was edited.
    branches: bool,
    phase: Phase,
}

enum Phase {
    Running,
    /// After `turn_ended`, with the checkpoints that came since.
    TurnEnded(Vec<Bytes>),
    /// After the end frame.
    Over,
}

impl WireOracle {
    /// Judges a run that starts from this state. `graph` is what the client sent along or holds of it.
    pub fn new(
        run: &str,
        base: &ConversationStateStructure,
        graph: BTreeMap<Bytes, Bytes>,
        user_message: Option<Bytes>,
    ) -> Self {
        let mut oracle = Self {
            run: run.to_owned(),
            violations: Vec::new(),
            available: graph,
            unanswered: BTreeMap::new(),
            set: BTreeSet::new(),
            last_kv_id: 0,
            last_exec_id: 0,
            last_query_id: 0,
            state: base.clone(),
            user_message,
            turn: None,
            checkpoints: Vec::new(),
            last_pending: None,
            answered: !base.pending_tool_calls.is_empty(),
            started: BTreeSet::new(),
            completed: BTreeSet::new(),
            summarising: false,
            summary: None,
            branches: false,
            phase: Phase::Running,
        };
        if oracle.is_repeat() {
            oracle.user_message = None;
        }
        if oracle.user_message.is_none() {
            oracle.turn = base.turns.last().and_then(|id| oracle.read_turn(id));
        }
        oracle
    }

    /// Whether the client sent a message again that began a turn of the state: it begins no other one.
    fn is_repeat(&self) -> bool {
        let Some(sent) = &self.user_message else {
            return false;
        };
        let has_id = UserMessage::decode(sent.clone()).is_ok_and(|sent| !sent.message_id.is_empty());
        let mut turns = self.state.turns.iter().filter_map(|id| self.read_turn(id));
        has_id && turns.any(|turn| self.available.get(&turn.user_message) == Some(sent))
    }

    /// The person edited an earlier message: what followed it is left out of the state, which may name again what a
    /// summary had taken the place of.
    pub fn expect_branch(&mut self, archived: BTreeMap<Bytes, Bytes>) {
        self.branches = true;
        self.available.extend(archived);
    }

    /// Takes one frame as it came.
    pub fn observe(&mut self, frame: &RunFrame) {
        if matches!(self.phase, Phase::Over) {
            return self.breach(format!("a frame came after the end frame: {frame:?}"));
        }
        match frame {
            RunFrame::End(end) => self.end(end),
            RunFrame::Message(message) => self.message(message),
        }
    }

    /// The client has stored the blob of this SET.
    pub fn acknowledged(&mut self, kv_id: u32) {
        if let Some((id, data)) = self.unanswered.remove(&kv_id) {
            self.available.insert(id, data);
        }
    }

    /// The response is over, closed by the server. Gives what was broken.
    pub fn finish(mut self, closed_by_client: bool) -> Vec<String> {
        if !closed_by_client && !matches!(self.phase, Phase::Over) {
            self.breach("the stream ended without an end frame".to_owned());
        }
        for checkpoint in std::mem::take(&mut self.checkpoints) {
            if self
                .set
                .contains(&Bytes::copy_from_slice(&Sha256::digest(&checkpoint)))
            {
                self.breach("a conversation state was SET as a blob".to_owned());
            }
        }
        self.violations
    }

    fn breach(&mut self, text: String) {
        self.violations.push(format!("{}: {text}", self.run));
    }

    fn message(&mut self, message: &AgentServerMessage) {
        match &message.message {
            Some(ServerMessage::InteractionUpdate(update)) => match &update.message {
                Some(Update::Heartbeat(_)) => {}
                Some(update) => self.update(update),
                None => self.breach("an empty interaction update".to_owned()),
            },
            Some(ServerMessage::ExecServerMessage(exec)) => self.exec(exec),
            Some(ServerMessage::ExecServerControlMessage(_)) => {}
            Some(ServerMessage::KvServerMessage(kv)) => self.kv(kv),
            Some(ServerMessage::InteractionQuery(query)) => self.query(query),
            Some(ServerMessage::ConversationCheckpointUpdate(state)) => self.checkpoint(state),
            None => self.breach("a message of no known kind".to_owned()),
        }
    }

    fn update(&mut self, update: &Update) {
        if matches!(self.phase, Phase::TurnEnded(_)) {
            return self.breach(format!("an update came after turn_ended: {update:?}"));
        }
        match update {
            Update::TextDelta(delta) if !delta.is_server_notice => self.model_output("text"),
            Update::ThinkingDelta(_) => self.model_output("thinking"),
            Update::PartialToolCall(_) => self.model_output("a tool call"),
            Update::ToolCallStarted(started) => {
                if !self.started.insert(started.call_id.clone()) {
                    self.breach(format!("call {} was started twice", started.call_id));
                }
            }
            Update::ToolCallCompleted(completed) => {
                if !self.started.contains(&completed.call_id) {
                    self.breach(format!(
                        "call {} was completed but not started",
                        completed.call_id
                    ));
                }
                if !self.completed.insert(completed.call_id.clone()) {
                    self.breach(format!("call {} was completed twice", completed.call_id));
                }
            }
            Update::TurnEnded(_) => self.phase = Phase::TurnEnded(Vec::new()),
            Update::TextDelta(notice) if notice.text.contains("without an answer") => self.answered = false,
            Update::SummaryStarted(_) => {
                if std::mem::replace(&mut self.summarising, true) {
                    self.breach("summarising started twice".to_owned());
                }
            }
            Update::Summary(update) => {
                if !self.summarising {
                    self.breach("a summary came before summarising had started".to_owned());
                }
                self.summary = Some(update.summary.clone());
                // Whatever was pending is part of what was summarised.
                self.answered = false;
            }
            Update::SummaryCompleted(_) => {
                if !std::mem::replace(&mut self.summarising, false) {
                    self.breach("summarising was over before it had started".to_owned());
                }
            }
            Update::TextDelta(_) => {}
            Update::ThinkingCompleted(_) | Update::ToolCallDelta(_) | Update::Heartbeat(_) => {}
        }
    }

    fn model_output(&mut self, what: &str) {
        self.answered = true;
        if self.last_pending != Some(0) {
            self.breach(format!(
                "{what} came from the model before a settled checkpoint (last one: {:?} pending)",
                self.last_pending
            ));
        }
    }

    fn exec(&mut self, exec: &ExecServerMessage) {
        if exec.id <= self.last_exec_id {
            self.breach(format!("exec id {} after {}", exec.id, self.last_exec_id));
        }
        self.last_exec_id = exec.id;
        match &exec.message {
            None => self.breach(format!("exec {} asks for nothing", exec.id)),
            // The real client raises an unhandled rejection without it. [sdk]
            Some(
                exec_server_message::Message::ShellStreamArgs(args)
                | exec_server_message::Message::ShellArgs(args),
            ) if args.parsing_result.is_none() => {
                self.breach(format!("shell exec {} has no parsing_result", exec.id));
            }
            Some(_) => {}
        }
    }

    fn query(&mut self, query: &InteractionQuery) {
        if query.id <= self.last_query_id {
            self.breach(format!("query id {} after {}", query.id, self.last_query_id));
        }
        self.last_query_id = query.id;
        if query.query.is_none() {
            self.breach(format!("query {} asks nothing", query.id));
        }
    }

    fn kv(&mut self, kv: &KvServerMessage) {
        if kv.id <= self.last_kv_id {
            self.breach(format!("KV id {} after {}", kv.id, self.last_kv_id));
        }
        self.last_kv_id = kv.id;
        match &kv.message {
            Some(kv_server_message::Message::SetBlobArgs(args)) => {
                let id = args.blob_id.clone();
                let shown = hex::encode(&id);
                if Sha256::digest(&args.blob_data).as_slice() != &id[..] {
                    self.breach(format!("blob {shown} is not named by its SHA-256"));
                }
                if !self.set.insert(id.clone()) {
                    self.breach(format!("blob {shown} was SET twice in one run"));
                } else if self.available.contains_key(&id) {
                    self.breach(format!("blob {shown} was SET although the client holds it"));
                }
                self.unanswered.insert(kv.id, (id, args.blob_data.clone()));
            }
            Some(kv_server_message::Message::GetBlobArgs(_)) => {}
            None => self.breach(format!("KV message {} asks for nothing", kv.id)),
        }
    }

    fn checkpoint(&mut self, bytes: &Bytes) {
        let state = match ConversationStateStructure::decode(bytes.clone()) {
            Ok(state) => state,
            Err(error) => return self.breach(format!("a checkpoint is no conversation state: {error}")),
        };
        let named = state
            .root_prompt_messages_json
            .iter()
            .chain(&state.turns)
            .chain(&state.todos)
            .chain(&state.summary)
            .chain(&state.summary_archives);
        for id in named {
            self.must_be_available("the checkpoint", id);
        }
        if std::mem::take(&mut self.branches) {
            let left = self
                .state
                .turns
                .iter()
                .take_while(|turn| state.turns.contains(turn))
                .count();
            self.state.turns.truncate(left);
            self.state.root_prompt_messages_json.clear();
            self.state.summary = state.summary.clone();
            self.state.summary_archives = state.summary_archives.clone();
        }
        match self.summary.take() {
            Some(summary) => self.compacted(&state, &summary),
            None => {
                self.roots(&state);
                if (&state.summary, &state.summary_archives)
                    != (&self.state.summary, &self.state.summary_archives)
                {
                    self.breach("the summary or its archives changed although none was shown".to_owned());
                }
            }
        }
        self.turns(&state);
        let pending = state.pending_tool_calls.len();
        if pending > 1 {
            self.breach(format!("a checkpoint has {pending} pending messages"));
        }
        if pending == 1 && state.root_prompt_messages_json != self.state.root_prompt_messages_json {
            self.breach("a staged checkpoint changed the roots".to_owned());
        }
        if let Phase::TurnEnded(checkpoints) = &mut self.phase {
            checkpoints.push(bytes.clone());
        }
        self.last_pending = Some(pending);
        self.checkpoints.push(bytes.clone());
        self.state = state;
    }

    fn must_be_available(&mut self, who: &str, id: &Bytes) {
        if !self.available.contains_key(id) {
            self.breach(format!(
                "{who} names blob {}, which the client has not acknowledged",
                hex::encode(id)
            ));
        }
    }

    fn roots(&mut self, state: &ConversationStateStructure) {
        let old = &self.state.root_prompt_messages_json;
        let new = &state.root_prompt_messages_json;
        if new.is_empty() {
            return self.breach("a checkpoint has no system root".to_owned());
        }
        // The system root follows the prompt, which may change between runs and not within one.
        let first = usize::from(self.checkpoints.is_empty());
        let kept = old.len() <= new.len() && old.iter().zip(new).skip(first).all(|(old, new)| old == new);
        if !kept {
            self.breach(format!(
                "the {} old roots are no prefix of the {} new ones",
                old.len(),
                new.len()
            ));
        }
    }

    /// A checkpoint right after a summary: it begins anew, and its newest archive names all that was there.
    fn compacted(&mut self, state: &ConversationStateStructure, summary: &str) {
        let old = &self.state.root_prompt_messages_json;
        let new = &state.root_prompt_messages_json;
        if old.first() != new.first() {
            self.breach("a compaction changed the system root".to_owned());
        }
        if state.token_details.is_some() {
            self.breach("a compacted state tells a size that nobody has measured".to_owned());
        }
        let blob = |id: Option<&Bytes>| {
            id.and_then(|id| self.available.get(id))
                .cloned()
                .unwrap_or_default()
        };
        let kept = ConversationSummary::decode(blob(state.summary.as_ref()));
        let Some((archive, earlier)) = state.summary_archives.split_last() else {
            return self.breach("a compacted state has no archive".to_owned());
        };
        let archive = ConversationSummaryArchive::decode(blob(Some(archive)));
        if earlier != self.state.summary_archives {
            self.breach("an older archive was changed".to_owned());
        }
        if kept.map(|kept| kept.summary).as_deref() != Ok(summary) {
            self.breach("the state keeps another summary than the one that was shown".to_owned());
        }
        let Ok(archive) = archive else {
            return self.breach("the archive is none".to_owned());
        };
        let carrier = new.iter().position(|root| *root == archive.summary_message);
        let tail = carrier.map(|at| new.len() - at - 1);
        if archive.summarized_messages != self.state.root_prompt_messages_json[1..]
            || archive.summary != summary
            || tail != Some(archive.window_tail as usize)
        {
            self.breach(format!("the archive does not fit what it replaces: {archive:?}"));
        }
    }

    fn turns(&mut self, state: &ConversationStateStructure) {
        let new_turn = self.checkpoints.is_empty() && self.user_message.is_some();
        let expected = self.state.turns.len() + usize::from(new_turn);
        if state.turns.len() != expected {
            return self.breach(format!("{} turns instead of {expected}", state.turns.len()));
        }
        let Some((last, closed)) = state.turns.split_last() else {
            return self.breach("a checkpoint has no turn".to_owned());
        };
        if !self.state.turns.starts_with(closed) {
            self.breach("a closed turn was changed".to_owned());
        }
        let Some(turn) = self.read_turn(last) else {
            return self.breach("the last turn is no agent turn".to_owned());
        };
        for id in [&turn.user_message].into_iter().chain(&turn.steps) {
            self.must_be_available("the turn", id);
        }
        if let Some(sent) = &self.user_message
            && self.available.get(&turn.user_message) != Some(sent)
        {
            self.breach("the turn's user message is not the one that was sent".to_owned());
        }
        if let Some(before) = self.turn.take() {
            if before.user_message != turn.user_message {
                self.breach("the turn's user message was changed".to_owned());
            }
            if !turn.steps.starts_with(&before.steps) {
                self.breach("old steps of the turn are no prefix of its new ones".to_owned());
            }
        }
        self.turn = Some(turn);
    }

    fn read_turn(&self, id: &Bytes) -> Option<AgentConversationTurnStructure> {
        let turn = ConversationTurnStructure::decode(self.available.get(id)?.clone()).ok()?;
        turn.turn.map(|Turn::AgentConversationTurn(turn)| turn)
    }

    fn end(&mut self, end: &RunEnd) {
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        match (end, phase) {
            (RunEnd::Success, Phase::TurnEnded(checkpoints)) => {
                let pending: Vec<_> = checkpoints
                    .iter()
                    .filter_map(|state| ConversationStateStructure::decode(state.clone()).ok())
                    .map(|state| state.pending_tool_calls.len())
                    .collect();
                // An empty answer has nothing to stage.
                let expected: &[usize] = if self.answered { &[1, 0, 0] } else { &[0, 0] };
                if pending != expected {
                    self.breach(format!(
                        "pending counts after turn_ended: {pending:?}, not {expected:?}"
                    ));
                } else if checkpoints[checkpoints.len() - 2] != checkpoints[checkpoints.len() - 1] {
                    self.breach("the last two checkpoints differ".to_owned());
                }
                if self.summarising || self.summary.is_some() {
                    self.breach("the run ended within a compaction".to_owned());
                }
                let open: Vec<_> = self.started.difference(&self.completed).cloned().collect();
                if !open.is_empty() {
                    self.breach(format!("calls without a completion at a normal end: {open:?}"));
                }
            }
            (RunEnd::Success, Phase::Running | Phase::Over) => {
                self.breach("the run succeeded without turn_ended".to_owned());
            }
            (RunEnd::Error { code, .. }, Phase::TurnEnded(_)) => {
                self.breach(format!("the run failed with {code} after turn_ended"));
            }
            (RunEnd::Error { message, .. }, Phase::Running | Phase::Over) => {
                if message.is_empty() {
                    self.breach("an error without a text for the person".to_owned());
                }
            }
        }
    }
}
