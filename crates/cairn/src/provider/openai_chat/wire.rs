//! The chunks of a Chat Completions stream as they are on the wire, with everything optional that some dialect omits.
//!
//! Must never know: what a chunk means in the course of an answer.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(super) use crate::provider::json::Text;
use crate::provider::stream_text::StreamText;

#[derive(Deserialize, Debug)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) object: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<UsageReport>,
    /// llama.cpp's own counts.
    #[serde(default)]
    pub(super) timings: Option<Timings>,
    /// Groq's first place for the counts.
    #[serde(default)]
    pub(super) x_groq: Option<GroqExtension>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Timings {
    /// Tokens of the prompt that came from the cache.
    #[serde(default)]
    pub(super) cache_n: Option<u64>,
}

#[derive(Deserialize, Debug)]
pub(super) struct GroqExtension {
    #[serde(default)]
    pub(super) usage: Option<UsageReport>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// A whole message: the endpoint did not stream.
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
    /// Where older Kimi streams put the counts.
    #[serde(default)]
    pub(super) usage: Option<UsageReport>,
}

#[derive(Deserialize, Debug, Default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<Vec<Detail<'a>>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallPiece<'a>>>,
    /// The call form before `tool_calls`.
    #[serde(borrow, default)]
    pub(super) function_call: Option<FunctionPiece<'a>>,
}

#[derive(Deserialize, Debug)]
pub(super) struct CallPiece<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionPiece<'a>>,
}

#[derive(Deserialize, Debug, Default)]
pub(super) struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    /// A string by the API, an object in some dialects.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Deserialize, Debug, Clone, Copy)]
pub(super) struct UsageReport {
    #[serde(default)]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for the cached part.
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: Option<u64>,
    /// DeepSeek's name for the rest.
    #[serde(default)]
    pub(super) prompt_cache_miss_tokens: Option<u64>,
    /// Kimi's name for the cached part.
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
}

#[derive(Deserialize, Debug, Clone, Copy, Default)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Debug, Clone, Copy, Default)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Option<u64>,
}

/// The content of a delta: a string by the API, a list of parts in Mistral's dialect.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(StreamText<'a>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Deserialize, Debug)]
pub(super) struct ContentPart<'a> {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(borrow, default)]
    pub(super) text: Option<StreamText<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Vec<ContentPart<'a>>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let content = match raw.get().starts_with('[') {
            true => serde_json::from_str(raw.get()).map(Content::Parts),
            false => serde_json::from_str(raw.get()).map(Content::Text),
        };
        content.map_err(de::Error::custom)
    }
}

/// An entry of `reasoning_details`: its members as they came, except that a `text` is read as a delta.
#[derive(Debug)]
pub(super) struct Detail<'a> {
    /// Holds an empty text in the place of `text`.
    pub(super) members: Map<String, Value>,
    pub(super) text: Option<StreamText<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Detail<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DetailVisitor)
    }
}

struct DetailVisitor;

impl<'de> Visitor<'de> for DetailVisitor {
    type Value = Detail<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut members = Map::new();
        let mut text = None;
        while let Some(key) = entries.next_key::<String>()? {
            let value = match key.as_str() {
                "text" => {
                    text = entries.next_value()?;
                    text.as_ref().map_or(Value::Null, |_| Value::from(""))
                }
                _ => entries.next_value()?,
            };
            members.insert(key, value);
        }
        Ok(Detail { members, text })
    }
}
