//! Where the client's state stands: what is published, and what grows from there. Only ever grows: old roots, the
//! turn's user message and its old steps are reused by id; only the wrapper of the current turn is made anew. Roots begin
//! anew where the history was compacted (see `compaction`).
//!
//! Must never know: how blobs are sent or acknowledged.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use sha2::{Digest, Sha256};

use super::derived::DerivedState;
use super::derived::ProgressNote;
use super::state::{ClientState, ProgressRecord};
use super::timing::TurnTimings;
use crate::cursor::blob::{Blob, BlobId};
use crate::cursor::projection::{encode_history, encode_system};
use crate::cursor::proto::agent::{
    AgentConversationTurnStructure, CairnSize, CommunicateUpdateHistoryEntry, ConversationPlan,
    ConversationStateStructure, ConversationStep, ConversationTokenDetails, ConversationTurnStructure,
    conversation_turn_structure,
};
use crate::model::{HistoryItem, MeasuredHistory, StateDigest};

/// A checkpoint that cannot be built. Always a defect of ours.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A message does not serialise.
    #[error("a message of the checkpoint cannot be written: {0}")]
    Encode(#[from] serde_json::Error),
    /// A compacted history without a summary in it.
    #[error("the compacted history has no summary")]
    NoSummary,
}

/// The turn that a run works on.
#[derive(Clone, Debug)]
pub enum TurnStart {
    /// A new one, with the user message exactly as the client sent it.
    New {
        /// The bytes of the client's `UserMessage`.
        user_message: Bytes,
        /// The attempt's id.
        request_id: String,
    },
    /// The last one of the state, which goes on.
    Continued(AgentConversationTurnStructure),
}

/// Number of `ConversationStateStructure.root_prompt_messages_json`.
const ROOTS_FIELD: u32 = 1;
/// Number of `ConversationStateStructure.turns`.
const TURNS_FIELD: u32 = 8;

/// Where the client's state stands.
#[derive(Debug)]
pub struct Frontier {
    opaque: Bytes,
    roots: References,
    /// Hash over all roots but the system root, which may change with the prompt.
    pub(super) history_hash: Sha256,
    closed_turns: References,
    turn: AgentConversationTurnStructure,
    /// The current turn's wrapper; absent while it has nothing but the baseline.
    turn_id: BlobId,
    todos: Vec<Bytes>,
    plan: Option<Bytes>,
    read_paths: Vec<String>,
    progress: ProgressRecord,
    timings: TurnTimings,
    pub(super) token_details: Option<ConversationTokenDetails>,
    pub(super) cairn_size: Option<CairnSize>,
    pub(super) summary: Option<Bytes>,
    pub(super) summary_archives: Vec<Bytes>,
    mode: i32,
    /// Blobs that the next checkpoint names and the client may not hold yet.
    pub(super) unsent: Vec<Blob>,
}

impl Frontier {
    /// Starts from the client's state. An unchanged prompt keeps the system root; a changed one replaces it alone.
    /// `prompt_note` is JSON that says what the prompt was made of. `now_ms` is when a new turn begins, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// If the system root does not serialise.
    pub fn new(
        state: &ClientState,
        instructions: &str,
        prompt_note: &[u8],
        mode: i32,
        turn: TurnStart,
        now_ms: u64,
    ) -> Result<Self, CheckpointError> {
        let system = encode_system(instructions, prompt_note)?;
        let mut roots = References::new(ROOTS_FIELD);
        roots.push(&system.id);
        let mut history_hash = Sha256::new();
        for root in state.roots.iter().skip(1) {
            history_hash.update(root.as_bytes());
            roots.push(root);
        }
        let mut unsent = Vec::new();
        // The client's own system root stays as it is where it says the same, whatever its spelling.
        if state.roots.first() != Some(&system.id) {
            unsent.push(system);
        }
        let closed = match &turn {
            TurnStart::New { .. } => state.turns.as_slice(),
            TurnStart::Continued(_) => state.turns.split_last().map_or(&[][..], |(_, before)| before),
        };
        let mut closed_turns = References::new(TURNS_FIELD);
        for turn in closed {
            closed_turns.push(turn);
        }
        let timings = match &turn {
            TurnStart::New { .. } => TurnTimings::of_new_turn(state, now_ms),
            TurnStart::Continued(_) => TurnTimings::of_last_turn(state),
        };
        let turn = match turn {
            TurnStart::New {
                user_message,
                request_id,
            } => {
                let user_message = Blob::new(user_message);
                let id = user_message.id.to_wire();
                unsent.push(user_message);
                AgentConversationTurnStructure {
                    user_message: id,
                    request_id: Some(request_id),
                    ..Default::default()
                }
            }
            TurnStart::Continued(turn) => turn,
        };
        let wrapper = wrapper(&turn);
        let turn_id = wrapper.id;
        unsent.push(wrapper);
        Ok(Self {
            opaque: state.opaque.clone(),
            roots,
            history_hash,
            closed_turns,
            turn,
            turn_id,
            todos: state.todos.iter().map(|id| id.to_wire()).collect(),
            plan: state.plan.map(BlobId::to_wire),
            read_paths: state.read_paths.clone(),
            timings,
            progress: state.progress.clone(),
            token_details: state.token_details,
            cairn_size: state.cairn_size,
            summary: state.summary.map(BlobId::to_wire),
            summary_archives: state.summary_archives.iter().map(|id| id.to_wire()).collect(),
            mode,
            unsent,
        })
    }

    /// What a client adapter calls this state: changes with every stable message but not with the system prompt.
    pub fn digest(&self) -> StateDigest {
        StateDigest(self.history_hash.clone().finalize().into())
    }

    /// The digest of a client's roots, the system root left out.
    pub fn digest_of(roots: &[BlobId]) -> StateDigest {
        let mut hash = Sha256::new();
        for root in roots.iter().skip(1) {
            hash.update(root.as_bytes());
        }
        StateDigest(hash.finalize().into())
    }

    /// Appends roots for what the model's view grew by.
    ///
    /// # Errors
    /// If a message does not serialise.
    pub fn append_history(&mut self, items: &[Arc<HistoryItem>]) -> Result<(), CheckpointError> {
        self.push_roots(encode_history(items)?);
        Ok(())
    }

    /// Appends stable messages.
    pub(super) fn push_roots(&mut self, roots: Vec<Blob>) {
        for root in roots {
            self.history_hash.update(root.id.as_bytes());
            self.roots.push(&root.id);
            self.unsent.push(root);
        }
    }

    /// The roots behind the system root.
    pub(super) fn history_roots(&self) -> impl Iterator<Item = &BlobId> {
        self.roots.ids.iter().skip(1)
    }

    /// Takes away all roots but the system root.
    pub(super) fn keep_system_root_only(&mut self) {
        let old = std::mem::replace(&mut self.roots, References::new(ROOTS_FIELD));
        if let Some(system) = old.ids.first() {
            self.roots.push(system);
        }
    }

    /// Appends steps to the current turn, each given exactly once.
    pub fn append_steps(&mut self, steps: Vec<ConversationStep>) {
        if steps.is_empty() {
            return;
        }
        for step in steps {
            let blob = Blob::new(step.encode_to_vec());
            self.turn.steps.push(blob.id.to_wire());
            self.unsent.push(blob);
        }
        let wrapper = wrapper(&self.turn);
        self.turn_id = wrapper.id;
        self.unsent.push(wrapper);
    }

    /// Number of steps in the current turn.
    pub fn step_count(&self) -> usize {
        self.turn.steps.len()
    }

    /// Takes over what follows from completed calls.
    pub fn derive(&mut self, derived: DerivedState) {
        if let Some(todos) = derived.todos {
            self.todos = todos
                .iter()
                .map(|todo| self.name_blob(todo.encode_to_vec()))
                .collect();
        }
        if let Some(plan) = derived.plan {
            self.plan = Some(self.name_blob(ConversationPlan { plan }.encode_to_vec()));
        }
        if let Some(mode) = derived.mode {
            self.mode = mode.to_wire().into();
        }
        for note in derived.progress {
            self.note_progress(note);
        }
        for path in derived.read_paths {
            if !self.read_paths.contains(&path) {
                self.read_paths.push(path);
            }
        }
    }

    /// Brings the time that the turn has taken up to date; it stays as it is until the next call.
    pub fn measure(&mut self) {
        self.timings.measure();
    }

    fn name_blob(&mut self, data: Vec<u8>) -> Bytes {
        let blob = Blob::new(data);
        let id = blob.id.to_wire();
        self.unsent.push(blob);
        id
    }

    /// Notes what a subagent told of its progress.
    pub fn note_progress(&mut self, note: ProgressNote) {
        let update = note.update;
        self.progress.history.push(CommunicateUpdateHistoryEntry {
            step: update.current_step,
            message_index: note.message_index,
        });
        // What an update leaves out stands as the last one that said it.
        self.progress.final_summary = update.final_summary.or(self.progress.final_summary.take());
        self.progress.completed_subtitle = update
            .completed_subtitle
            .or(self.progress.completed_subtitle.take());
    }

    /// Sets how full a context of `max_tokens` is; 0 where that is unknown.
    pub fn set_size(&mut self, measured: MeasuredHistory, max_tokens: u32) {
        self.token_details = Some(ConversationTokenDetails {
            used_tokens: u32::try_from(measured.size.tokens()).unwrap_or(u32::MAX),
            max_tokens,
        });
        let own = CairnSize {
            estimated: measured.size.is_estimate(),
            after_compaction: measured.after_compaction,
        };
        self.cairn_size = (own != CairnSize::default()).then_some(own);
    }

    /// Hands out the blobs that the next checkpoint names and that were not handed out before.
    pub fn take_unsent(&mut self) -> Vec<Blob> {
        std::mem::take(&mut self.unsent)
    }

    /// The state as it goes to the client, with the given message pending.
    pub fn checkpoint(&self, pending: Option<&str>) -> Bytes {
        let mut turn = References::new(TURNS_FIELD);
        turn.push(&self.turn_id);
        let rest = ConversationStateStructure {
            // Written below, where they are at hand as bytes.
            root_prompt_messages_json: Vec::new(),
            turns: Vec::new(),
            todos: self.todos.clone(),
            pending_tool_calls: pending.map(str::to_owned).into_iter().collect(),
            token_details: self.token_details,
            cairn_size: self.cairn_size,
            summary: self.summary.clone(),
            plan: self.plan.clone(),
            mode: Some(self.mode),
            summary_archives: self.summary_archives.clone(),
            turn_timings: self.timings.to_wire(),
            read_paths: self.read_paths.clone(),
            communicate_update_history: self.progress.history.clone(),
            communicate_update_final_summary: self.progress.final_summary.clone(),
            communicate_update_completed_subtitle: self.progress.completed_subtitle.clone(),
        }
        .encode_to_vec();
        [
            &self.roots.encoded,
            &self.closed_turns.encoded,
            &turn.encoded,
            &rest,
            &self.opaque[..],
        ]
        .concat()
        .into()
    }
}

/// A turn as the client keeps it.
fn wrapper(turn: &AgentConversationTurnStructure) -> Blob {
    let turn = ConversationTurnStructure {
        turn: Some(conversation_turn_structure::Turn::AgentConversationTurn(
            turn.clone(),
        )),
    };
    Blob::new(turn.encode_to_vec())
}

/// A list of blob ids as a field of the state, ready to go out: these lists grow with the conversation, and every
/// checkpoint holds them whole.
#[derive(Debug)]
struct References {
    field: u32,
    ids: Vec<BlobId>,
    encoded: Vec<u8>,
}

impl References {
    fn new(field: u32) -> Self {
        Self {
            field,
            ids: Vec::new(),
            encoded: Vec::new(),
        }
    }

    fn push(&mut self, id: &BlobId) {
        self.ids.push(*id);
        let id = id.as_bytes();
        encode_key(self.field, WireType::LengthDelimited, &mut self.encoded);
        encode_varint(id.len() as u64, &mut self.encoded);
        self.encoded.extend_from_slice(id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::cursor::proto::agent::{StepTiming, TodoItem};

    #[test]
    fn what_follows_from_calls_replaces_adds_and_leaves_the_rest() {
        let id = |n: u8| BlobId::from_wire(&[n; 32]).unwrap();
        let state = ClientState {
            todos: vec![id(5)],
            plan: Some(id(6)),
            read_paths: vec!["a".to_owned()],
            ..Default::default()
        };
        let turn = TurnStart::Continued(AgentConversationTurnStructure::default());
        let mut frontier = Frontier::new(&state, "system", b"{}", 1, turn, 30).unwrap();
        frontier.take_unsent();
        frontier.derive(DerivedState {
            read_paths: vec!["b".to_owned(), "a".to_owned(), "b".to_owned()],
            ..Default::default()
        });
        assert_eq!(frontier.take_unsent(), []);
        let shown = ConversationStateStructure::decode(frontier.checkpoint(None)).unwrap();
        assert_eq!(shown.read_paths, ["a", "b"]);
        assert_eq!(
            (shown.todos, shown.plan),
            (vec![id(5).to_wire()], Some(id(6).to_wire()))
        );

        let todo = TodoItem {
            id: "t".to_owned(),
            ..Default::default()
        };
        frontier.derive(DerivedState {
            todos: Some(vec![todo.clone()]),
            plan: Some("First this, then that.".to_owned()),
            ..Default::default()
        });
        let todo = Blob::new(todo.encode_to_vec());
        let plan = Blob::new(
            ConversationPlan {
                plan: "First this, then that.".to_owned(),
            }
            .encode_to_vec(),
        );
        assert_eq!(frontier.take_unsent(), [todo.clone(), plan.clone()]);
        let shown = ConversationStateStructure::decode(frontier.checkpoint(None)).unwrap();
        assert_eq!(
            (shown.todos, shown.plan, shown.read_paths),
            (
                vec![todo.id.to_wire()],
                Some(plan.id.to_wire()),
                vec!["a".to_owned(), "b".to_owned()]
            )
        );
    }

    #[test]
    fn a_checkpoint_names_the_old_references_and_the_new_ones_in_their_fields() {
        let id = |n: u8| BlobId::from_wire(&[n; 32]).unwrap();
        let timing = |duration_ms, timestamp_ms| StepTiming {
            duration_ms,
            timestamp_ms,
        };
        let state = ClientState {
            opaque: Bytes::from_static(&[0xfa, 0x3f, 0x02, b'h', b'i']),
            roots: vec![id(1), id(2)],
            turns: vec![id(3), id(4)],
            todos: vec![id(5)],
            summary: Some(id(6)),
            summary_archives: vec![id(7), id(8)],
            read_paths: vec!["a".to_owned()],
            plan: Some(id(9)),
            turn_timings: vec![timing(1, 10), timing(2, 20)],
            ..Default::default()
        };
        let turn = TurnStart::New {
            user_message: Bytes::from_static(b"m"),
            request_id: "r".to_owned(),
        };
        let mut frontier = Frontier::new(&state, "system", b"{}", 1, turn, 30).unwrap();
        // A system root, the user message and the turn.
        let unsent: [Blob; 3] = frontier.take_unsent().try_into().unwrap();
        let [system, _, wrapper] = unsent.map(|blob| blob.id.to_wire());
        let bytes = frontier.checkpoint(Some("pending"));
        assert_eq!(
            ConversationStateStructure::decode(bytes.clone()).unwrap(),
            ConversationStateStructure {
                root_prompt_messages_json: vec![system, id(2).to_wire()],
                turns: vec![id(3).to_wire(), id(4).to_wire(), wrapper],
                todos: vec![id(5).to_wire()],
                pending_tool_calls: vec!["pending".to_owned()],
                token_details: None,
                summary: Some(id(6).to_wire()),
                plan: Some(id(9).to_wire()),
                mode: Some(1),
                summary_archives: vec![id(7).to_wire(), id(8).to_wire()],
                turn_timings: vec![timing(1, 10), timing(2, 20), timing(0, 30)],
                read_paths: vec!["a".to_owned()],
                ..Default::default()
            }
        );
        assert!(bytes.ends_with(&state.opaque));
        let continued = TurnStart::Continued(AgentConversationTurnStructure::default());
        let frontier = Frontier::new(&state, "system", b"{}", 1, continued, 30).unwrap();
        let state = ConversationStateStructure::decode(frontier.checkpoint(None)).unwrap();
        assert_eq!(state.turns.len(), 2);
        assert_eq!(state.turns[0], id(3).to_wire());
    }
}
