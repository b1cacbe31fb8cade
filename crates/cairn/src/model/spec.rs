//! What a run asks of a model, in domain words.
//!
//! Must never know: an endpoint's address, key or kind, or the names a client gives to its parameters.

use std::sync::Arc;

/// The model of a run and what is asked of it; fixed for the whole run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelSpec {
    /// The configured model's id.
    pub model_id: Arc<str>,
    /// The name shown to the person, if one is configured.
    pub display_name: Option<Arc<str>>,
    /// What is asked of its thinking.
    pub reasoning: ReasoningSpec,
    /// What is asked of its speed.
    pub latency: Latency,
    /// Largest answer in tokens, if one is configured.
    pub max_output_tokens: Option<u32>,
    /// Size of the context in tokens, if known.
    pub context_window: Option<u32>,
    /// Whether the model takes pictures.
    pub vision: bool,
    /// What is made of text and pictures when they enter the history under this model.
    pub entry: EntryLimits,
}

/// What a text or picture is fitted to once, before it enters the history. What is in the history stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryLimits {
    /// The most characters of a tool result's text; at most [`Self::MOST_RESULT_CHARACTERS`].
    pub result_characters: usize,
    /// The most bytes of a picture's file.
    pub picture_bytes: usize,
    /// The most pixels of a picture's longer edge.
    pub picture_edge: u32,
}

impl EntryLimits {
    /// The largest limit that a result's text can have.
    pub const MOST_RESULT_CHARACTERS: usize = 1_000_000;
}

impl Default for EntryLimits {
    /// What every API takes.
    fn default() -> Self {
        Self {
            result_characters: 100_000,
            picture_bytes: 3_750_000,
            picture_edge: 1568,
        }
    }
}

/// What is asked of the model's thinking. Absent means that nothing is asked and the endpoint decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReasoningSpec {
    /// Whether to think at all.
    pub enabled: Option<bool>,
    /// How hard to think.
    pub effort: Option<ReasoningEffort>,
}

/// How hard to think, from least to most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the names are the scale")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

/// How fast a route is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Latency {
    /// The ordinary route.
    #[default]
    Standard,
    /// A route that the endpoint sells as faster.
    Fast,
}
