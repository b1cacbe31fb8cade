//! Where the client's state stands: what is published, and what grows from there. Only ever grows: old roots, the
//! turn's user message and its old steps are reused by id; only the wrapper of the current turn is made anew.
//!
//! Must never know: how blobs are sent or acknowledged.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use sha2::{Digest, Sha256};

use super::state::ClientState;
use crate::cursor::blob::{Blob, BlobId};
use crate::cursor::projection::{encode_history, encode_system};
use crate::cursor::proto::agent::{
    AgentConversationTurnStructure, ConversationStateStructure, ConversationStep, ConversationTokenDetails,
    ConversationTurnStructure, TodoItem, conversation_turn_structure,
};
use crate::model::{HistoryItem, StateDigest};

/// A checkpoint that cannot be built. Always a defect of ours.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A message does not serialise.
    #[error("a message of the checkpoint cannot be written: {0}")]
    Encode(#[from] serde_json::Error),
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

/// Where the client's state stands.
#[derive(Debug)]
pub struct Frontier {
    opaque: Bytes,
    roots: Vec<Bytes>,
    /// Hash over all roots but the system root, which may change with the prompt.
    history_hash: Sha256,
    closed_turns: Vec<Bytes>,
    turn: AgentConversationTurnStructure,
    /// The current turn's wrapper; absent while it has nothing but the baseline.
    turn_id: Bytes,
    todos: Vec<Bytes>,
    read_paths: Vec<String>,
    token_details: Option<ConversationTokenDetails>,
    mode: i32,
    /// Blobs that the next checkpoint names and the client may not hold yet.
    unsent: Vec<Blob>,
}

impl Frontier {
    /// Starts from the client's state. An unchanged system prompt keeps its root; a changed one replaces it alone.
    ///
    /// # Errors
    /// If the system prompt does not serialise.
    pub fn new(
        state: &ClientState,
        instructions: &str,
        mode: i32,
        turn: TurnStart,
    ) -> Result<Self, CheckpointError> {
        let system = encode_system(instructions)?;
        let mut roots: Vec<Bytes> = vec![system.id.to_wire()];
        let mut history_hash = Sha256::new();
        for root in state.roots.iter().skip(1) {
            history_hash.update(root.as_bytes());
            roots.push(root.to_wire());
        }
        let mut unsent = Vec::new();
        // The client's own system root stays as it is where it says the same, whatever its spelling.
        if state.roots.first() != Some(&system.id) {
            unsent.push(system);
        }
        let mut closed_turns: Vec<Bytes> = state.turns.iter().map(|id| id.to_wire()).collect();
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
            TurnStart::Continued(turn) => {
                closed_turns.pop();
                turn
            }
        };
        let mut frontier = Self {
            opaque: state.opaque.clone(),
            roots,
            history_hash,
            closed_turns,
            turn,
            turn_id: Bytes::new(),
            todos: state.todos.iter().map(|id| id.to_wire()).collect(),
            read_paths: state.read_paths.clone(),
            token_details: state.token_details,
            mode,
            unsent,
        };
        frontier.wrap_turn();
        Ok(frontier)
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
        for root in encode_history(items)? {
            self.history_hash.update(root.id.as_bytes());
            self.roots.push(root.id.to_wire());
            self.unsent.push(root);
        }
        Ok(())
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
        self.wrap_turn();
    }

    /// Number of steps in the current turn.
    pub fn step_count(&self) -> usize {
        self.turn.steps.len()
    }

    /// Replaces the to-do list.
    pub fn set_todos(&mut self, todos: &[TodoItem]) {
        self.todos.clear();
        for todo in todos {
            let blob = Blob::new(todo.encode_to_vec());
            self.todos.push(blob.id.to_wire());
            self.unsent.push(blob);
        }
    }

    /// Notes a file that was read.
    pub fn note_read(&mut self, path: String) {
        if !self.read_paths.contains(&path) {
            self.read_paths.push(path);
        }
    }

    /// Sets how full the context is.
    pub fn set_token_details(&mut self, details: ConversationTokenDetails) {
        self.token_details = Some(details);
    }

    /// Hands out the blobs that the next checkpoint names and that were not handed out before.
    pub fn take_unsent(&mut self) -> Vec<Blob> {
        std::mem::take(&mut self.unsent)
    }

    /// The state as it goes to the client, with the given message pending.
    pub fn checkpoint(&self, pending: Option<&str>) -> Bytes {
        let mut turns = self.closed_turns.clone();
        turns.push(self.turn_id.clone());
        let state = ConversationStateStructure {
            root_prompt_messages_json: self.roots.clone(),
            turns,
            todos: self.todos.clone(),
            pending_tool_calls: pending.map(str::to_owned).into_iter().collect(),
            token_details: self.token_details,
            mode: Some(self.mode),
            read_paths: self.read_paths.clone(),
        };
        let mut bytes = Vec::with_capacity(state.encoded_len() + self.opaque.len());
        // Writing into a vector cannot run out of room.
        state.encode_raw(&mut bytes);
        bytes.extend_from_slice(&self.opaque);
        bytes.into()
    }

    fn wrap_turn(&mut self) {
        let turn = ConversationTurnStructure {
            turn: Some(conversation_turn_structure::Turn::AgentConversationTurn(
                self.turn.clone(),
            )),
        };
        let blob = Blob::new(turn.encode_to_vec());
        self.turn_id = blob.id.to_wire();
        self.unsent.push(blob);
    }
}
