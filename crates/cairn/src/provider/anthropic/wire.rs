//! The events of a Messages stream as they are on the wire, with everything optional that some endpoint omits.
//!
//! Must never know: what an event means in the course of an answer.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

pub(super) use crate::provider::json::Text;
use crate::provider::stream_text::StreamText;

/// Only the type, to tell an event that is unknown from one that cannot be read.
#[derive(Deserialize, Debug)]
pub(super) struct Typed<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Text<'a>>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) message: Option<Message<'a>>,
    /// Kept raw: some blocks go back byte for byte.
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(default)]
    pub(super) usage: Option<UsageReport>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(default)]
    pub(super) content: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    pub(super) usage: Option<UsageReport>,
}

#[derive(Deserialize, Debug)]
pub(super) struct ContentBlock<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) text: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// What is new: of a block, or of the whole message.
#[derive(Deserialize, Debug)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) text: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_details: Option<StopDetails<'a>>,
}

#[derive(Deserialize, Debug)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow, default)]
    pub(super) category: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) explanation: Option<Text<'a>>,
}

/// Counts that are disjoint and cumulative.
#[derive(Deserialize, Debug, Clone, Copy, Default)]
pub(super) struct UsageReport {
    #[serde(default)]
    pub(super) input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Debug, Clone, Copy, Default)]
pub(super) struct OutputDetails {
    #[serde(default)]
    pub(super) thinking_tokens: Option<u64>,
}
