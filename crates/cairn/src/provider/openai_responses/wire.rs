//! The events of a Responses stream as they are on the wire, with everything optional that some endpoint omits.
//!
//! Must never know: what an event means in the course of an answer.

use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use crate::provider::json::Text;
use crate::provider::stream_text::StreamText;

/// One event. The members of all known events at once, because most events have only a few of them.
#[derive(Deserialize, Debug)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) item_id: Option<Text<'a>>,
    #[serde(default)]
    pub(super) output_index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    /// A string by the API, an object on some gateways.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// Only in chunks of another API.
    #[serde(borrow, default)]
    pub(super) object: Option<&'a RawValue>,
    /// Only in chunks of another API.
    #[serde(borrow, default)]
    pub(super) choices: Option<&'a RawValue>,
}

/// The least that an event says of itself; read where [`Event`] cannot be, to tell an unknown event from a broken one.
#[derive(Deserialize, Debug)]
pub(super) struct EventKind<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Text<'a>>,
}

/// What tells an output item's type.
#[derive(Deserialize, Debug)]
pub(super) struct ItemKind<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
}

/// An output item of a known type: the members of all of them.
#[derive(Deserialize, Debug)]
pub(super) struct Item<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    /// Whether it is whole.
    #[serde(borrow, default)]
    pub(super) status: Option<Text<'a>>,
    /// Of a message: what it is for.
    #[serde(borrow, default)]
    pub(super) phase: Option<Text<'a>>,
    /// Of a message: its parts. Of a reasoning item: plain thinking, on engines that show it.
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<ContentPart<'a>>>,
    /// Of a reasoning item.
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
    /// Of a reasoning item.
    #[serde(borrow, default)]
    pub(super) encrypted_content: Option<Text<'a>>,
    /// Of a call: what pairs it with its output.
    #[serde(borrow, default)]
    pub(super) call_id: Option<Text<'a>>,
    /// Of a call.
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    /// Of a call: a string by the API, an object on some gateways.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of a message's or a reasoning item's content, or of a summary.
#[derive(Deserialize, Debug)]
pub(super) struct ContentPart<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
}

/// The response in a terminal event.
#[derive(Deserialize, Debug)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Option<IncompleteDetails<'a>>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    pub(super) usage: Option<UsageReport>,
}

#[derive(Deserialize, Debug)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Option<Text<'a>>,
}

#[derive(Deserialize, Debug, Clone, Copy)]
pub(super) struct UsageReport {
    #[serde(default)]
    pub(super) input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    pub(super) output_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Debug, Clone, Copy, Default)]
pub(super) struct InputDetails {
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Debug, Clone, Copy, Default)]
pub(super) struct OutputDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Option<u64>,
}
