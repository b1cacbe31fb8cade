//! Recordings: a host's requests as a file of JSON lines, each body written once.
//!
//! Owns the file's form; `docs/prefix-conformance.md` describes it. A body is written as what differs from the body before it
//! in the same lane (API and model), in pieces of bounded size, so that neither writing nor reading ever holds more than a
//! lane's last body and the one at hand. Must never know: what a request means, and any header.

mod read;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Api;

pub use read::{LaneReader, RecordedCall, Recording, RecordingError};
pub use write::{NewCall, RecordingWriter};

/// The form that this version reads and writes.
pub const VERSION: u32 = 1;

/// A conversation as far as a recording can tell: calls of one API to one model, each compared with the one before it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Lane {
    /// The API.
    pub api: Api,
    /// The model as the requests name it.
    pub model: String,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    r#type: HeadType,
    version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum HeadType {
    #[serde(rename = "prefix-conformance-recording")]
    Recording,
}

/// Any further line, pieces of bodies aside.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    /// A request; its pieces follow at once.
    Call(CallLine),
    /// How a call was answered. Comes when the answer has ended.
    Answer(Answer),
}

#[derive(Debug, Serialize, Deserialize)]
struct CallLine {
    call: usize,
    at_ms: u64,
    #[serde(flatten)]
    lane: Lane,
    bytes: usize,
    /// Leading bytes that are the lane's body before this one's.
    keep: usize,
    /// Trailing bytes that are.
    tail: usize,
}

/// How a call was answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// One-based number of the call.
    pub call: usize,
    /// The HTTP status.
    pub status: u16,
    /// Bytes of the answer.
    pub bytes: usize,
    /// Whether the answer arrived to its end.
    pub whole: bool,
    /// The endpoint's own usage object, members of later events over those of earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}
