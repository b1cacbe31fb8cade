//! What the client keeps of a conversation: content-addressed blobs, and which of them a state names.
//!
//! Must never know: how blobs travel, or what the server makes of them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use crate::cursor::proto::agent::conversation_turn_structure::Turn;
use crate::cursor::proto::agent::{
    AgentConversationTurnStructure, ConversationStateStructure, ConversationTurnStructure, PreFetchedBlob,
};

/// Blobs by their ids.
#[derive(Clone, Default, Debug)]
pub struct BlobStore {
    blobs: BTreeMap<Bytes, Bytes>,
}

/// What is wrong with a blob or with what a state says of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlobError {
    /// The id is not the SHA-256 of the data.
    #[error("blob {} is not named by the SHA-256 of its data", hex::encode(.0))]
    WrongId(Bytes),
    /// A state names a blob that is not here.
    #[error("{what} names blob {}, which is not here", hex::encode(id))]
    Missing {
        /// The field.
        what: &'static str,
        /// The id.
        id: Bytes,
    },
    /// A blob is not what the field that names it says.
    #[error("blob {} is not a {what}", hex::encode(id))]
    WrongKind {
        /// The expected message.
        what: &'static str,
        /// The id.
        id: Bytes,
    },
}

impl BlobStore {
    /// Keeps a blob.
    ///
    /// # Errors
    /// [`BlobError::WrongId`].
    pub fn set(&mut self, id: Bytes, data: Bytes) -> Result<(), BlobError> {
        if Sha256::digest(&data).as_slice() != &id[..] {
            return Err(BlobError::WrongId(id));
        }
        self.blobs.insert(id, data);
        Ok(())
    }

    /// A blob's data.
    pub fn get(&self, id: &[u8]) -> Option<&Bytes> {
        self.blobs.get(id)
    }

    /// How many blobs there are.
    pub fn len(&self) -> usize {
        self.blobs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// The turn that a blob holds.
    ///
    /// # Errors
    /// If it is missing or no agent turn.
    pub fn turn(&self, id: &Bytes) -> Result<AgentConversationTurnStructure, BlobError> {
        let data = self.named("turns", id)?;
        match ConversationTurnStructure::decode(data.clone()) {
            Ok(ConversationTurnStructure {
                turn: Some(Turn::AgentConversationTurn(turn)),
            }) => Ok(turn),
            Ok(ConversationTurnStructure { turn: None }) | Err(_) => Err(BlobError::WrongKind {
                what: "ConversationTurnStructure",
                id: id.clone(),
            }),
        }
    }

    /// All that a state names, each once, in the order in which the official client sends it along: turns, roots, then
    /// what the turns name; to-do items last. [sdk]
    ///
    /// # Errors
    /// If something that the state names is missing.
    pub fn graph(&self, state: &ConversationStateStructure) -> Result<Vec<PreFetchedBlob>, BlobError> {
        let mut named: Vec<(&'static str, Bytes)> = Vec::new();
        named.extend(state.turns.iter().map(|id| ("turns", id.clone())));
        let roots = &state.root_prompt_messages_json;
        named.extend(roots.iter().map(|id| ("root_prompt_messages_json", id.clone())));
        for id in &state.turns {
            let turn = self.turn(id)?;
            named.push(("user_message", turn.user_message));
            named.extend(turn.steps.into_iter().map(|id| ("steps", id)));
        }
        named.extend(state.todos.iter().map(|id| ("todos", id.clone())));
        let mut seen = BTreeSet::new();
        named
            .into_iter()
            .filter(|(_, id)| seen.insert(id.clone()))
            .map(|(what, id)| {
                let value = self.named(what, &id)?.clone();
                Ok(PreFetchedBlob { id, value })
            })
            .collect()
    }

    fn named(&self, what: &'static str, id: &Bytes) -> Result<&Bytes, BlobError> {
        self.get(id)
            .ok_or_else(|| BlobError::Missing { what, id: id.clone() })
    }
}
