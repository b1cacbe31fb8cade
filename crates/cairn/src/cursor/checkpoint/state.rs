//! A conversation state as it came: the fields that cairn owns, decoded, and all others as the bytes they are.
//!
//! Must never know: what the blobs hold.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};

use crate::cursor::blob::{BlobId, InvalidBlobId};
use crate::cursor::proto::agent::{
    CairnSize, CommunicateUpdateHistoryEntry, ConversationStateStructure, ConversationTokenDetails,
    StepTiming,
};
use crate::model::{ConversationSize, MeasuredHistory};

/// The fields that cairn writes itself; everything else goes back to the client byte for byte. [proto]
const OWNED_FIELDS: [u32; 15] = [1, 3, 4, 5, 6, 7, 8, 10, 13, 14, 18, 23, 25, 28, 15001];

/// A conversation state as it came from the client.
#[derive(Clone, Debug, Default)]
pub struct ClientState {
    /// All fields that cairn does not own, in the order and form in which they came.
    pub opaque: Bytes,
    /// The stable messages; the first one is the system prompt.
    pub roots: Vec<BlobId>,
    /// The turns.
    pub turns: Vec<BlobId>,
    /// The to-do items.
    pub todos: Vec<BlobId>,
    /// Assistant messages that were staged and not settled; at most one.
    pub pending: Vec<String>,
    /// How full the context was.
    pub token_details: Option<ConversationTokenDetails>,
    /// What cairn knew of that figure.
    pub cairn_size: Option<CairnSize>,
    /// The summary that the conversation goes on from.
    pub summary: Option<BlobId>,
    /// What the summaries took the place of, oldest first.
    pub summary_archives: Vec<BlobId>,
    /// The plan.
    pub plan: Option<BlobId>,
    /// How long each turn took.
    pub turn_timings: Vec<StepTiming>,
    /// The mode of the last turn, as the wire has it.
    pub mode: Option<i32>,
    /// The files that were read, in the order in which they were first read.
    pub read_paths: Vec<String>,
    /// What a subagent told of its progress.
    pub progress: ProgressRecord,
}

/// What a subagent told of its progress, as the state keeps it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProgressRecord {
    /// Each step that it told of.
    pub history: Vec<CommunicateUpdateHistoryEntry>,
    /// What it did, if it said so at its end.
    pub final_summary: Option<String>,
    /// A few words to stand under the finished task.
    pub completed_subtitle: Option<String>,
}

/// A conversation state that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidState {
    /// Not a valid protobuf message.
    #[error("the conversation state is not a valid message: {0}")]
    Malformed(String),
    /// A reference that is no blob id.
    #[error("the conversation state's field {field} is no blob reference: {source}")]
    Reference {
        /// The field.
        field: &'static str,
        /// What is wrong.
        source: InvalidBlobId,
    },
    /// More than one message is pending.
    #[error("the conversation state holds {0} pending assistant messages; there can be one at most")]
    Pending(usize),
}

impl ClientState {
    /// What is known of the history's size.
    pub fn measured(&self) -> Option<MeasuredHistory> {
        let tokens = self.token_details.map(|details| u64::from(details.used_tokens));
        let tokens = tokens.filter(|tokens| *tokens > 0)?;
        let own = self.cairn_size.unwrap_or_default();
        Some(MeasuredHistory {
            size: match own.estimated {
                true => ConversationSize::Estimated(tokens),
                false => ConversationSize::Reported(tokens),
            },
            after_compaction: own.after_compaction,
        })
    }

    /// Reads a state. Absent and empty are the same: a new conversation.
    ///
    /// # Errors
    /// If it is malformed or refers to something that is no blob.
    pub fn decode(bytes: &Bytes) -> Result<Self, InvalidState> {
        let malformed = |error: prost::DecodeError| InvalidState::Malformed(error.to_string());
        let owned = ConversationStateStructure::decode(bytes.clone()).map_err(malformed)?;
        if owned.pending_tool_calls.len() > 1 {
            return Err(InvalidState::Pending(owned.pending_tool_calls.len()));
        }
        Ok(Self {
            opaque: opaque_fields(bytes).map_err(malformed)?,
            roots: references("root_prompt_messages_json", &owned.root_prompt_messages_json)?,
            turns: references("turns", &owned.turns)?,
            todos: references("todos", &owned.todos)?,
            pending: owned.pending_tool_calls,
            token_details: owned.token_details,
            cairn_size: owned.cairn_size,
            summary: references("summary", owned.summary.as_slice())?.pop(),
            summary_archives: references("summary_archives", &owned.summary_archives)?,
            plan: references("plan", owned.plan.as_slice())?.pop(),
            turn_timings: owned.turn_timings,
            mode: owned.mode,
            read_paths: owned.read_paths,
            progress: ProgressRecord {
                history: owned.communicate_update_history,
                final_summary: owned.communicate_update_final_summary,
                completed_subtitle: owned.communicate_update_completed_subtitle,
            },
        })
    }
}

fn references(field: &'static str, ids: &[Bytes]) -> Result<Vec<BlobId>, InvalidState> {
    ids.iter()
        .map(|id| BlobId::from_wire(id).map_err(|source| InvalidState::Reference { field, source }))
        .collect()
}

/// Copies every field that cairn does not own, tag and all.
fn opaque_fields(bytes: &Bytes) -> Result<Bytes, prost::DecodeError> {
    let mut rest = bytes.clone();
    let mut opaque = BytesMut::new();
    while rest.has_remaining() {
        let field_start = bytes.len() - rest.remaining();
        let (tag, wire_type): (u32, WireType) = decode_key(&mut rest)?;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default())?;
        if !OWNED_FIELDS.contains(&tag) {
            opaque.extend_from_slice(&bytes[field_start..bytes.len() - rest.remaining()]);
        }
    }
    Ok(opaque.freeze())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn fields_that_are_not_owned_come_back_byte_for_byte() {
        let owned = ConversationStateStructure {
            root_prompt_messages_json: vec![Bytes::from(vec![7; 32])],
            read_paths: vec!["a".to_owned()],
            ..Default::default()
        };
        // Field 1023 with text, then field 12 (a map entry) with bytes, in an order that no encoder would choose.
        let foreign = [0xfa, 0x3f, 0x02, b'h', b'i', 0x62, 0x03, 0x0a, 0x01, b'k'];
        let mut wire = foreign[..5].to_vec();
        wire.extend(owned.encode_to_vec());
        wire.extend(&foreign[5..]);
        let state = ClientState::decode(&wire.into()).unwrap();
        assert_eq!(&state.opaque[..], &foreign[..]);
        assert_eq!(state.roots, vec![BlobId::from_wire(&[7; 32]).unwrap()]);
        assert_eq!(state.read_paths, ["a"]);
    }

    #[test]
    fn a_reference_that_is_no_blob_id_names_its_field() {
        let wire = ConversationStateStructure {
            turns: vec![Bytes::from_static(b"x")],
            ..Default::default()
        };
        let error = ClientState::decode(&wire.encode_to_vec().into()).unwrap_err();
        assert_eq!(
            error,
            InvalidState::Reference {
                field: "turns",
                source: InvalidBlobId(1)
            }
        );
    }
}
