//! Tool calls, their results and the batch that joins them.
//!
//! Must never know: any tool's name or how a tool is executed.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Assistant, CallId, Image, Part, RevisionId, RunId, ToolRoundId};

/// A complete call that the model made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    /// Unique in the history.
    pub id: CallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The arguments as the model wrote them, byte for byte; `{}` where it wrote none. Always valid JSON.
    pub arguments: Arc<str>,
}

/// What came of a call, as the model reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolResult {
    /// The call that it answers.
    pub call: CallId,
    /// What the model reads of it.
    pub content: ToolContent,
    /// Whether the tool failed. The text says so too; APIs with a field for it get this.
    pub is_error: bool,
}

/// What a tool gave: text and pictures in their order.
///
/// Holds no empty text, so that no encoder can make an empty block of one; may hold nothing at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ToolContent(Vec<Part>);

impl ToolContent {
    /// Takes text and pictures in their order; empty text is left out.
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Self {
        let says_something = |part: &Part| !matches!(part, Part::Text(text) if text.is_empty());
        Self(parts.into_iter().filter(says_something).collect())
    }

    /// Text and pictures in their order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The text alone; a line end stands between two pieces.
    pub fn text(&self) -> Cow<'_, str> {
        let mut texts = self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::Image(_) => None,
        });
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => {
                let all: Vec<&str> = [first, second].into_iter().chain(texts).collect();
                Cow::Owned(all.join("\n"))
            }
        }
    }

    /// The pictures alone.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Image(image) => Some(image),
        })
    }
}

impl From<Arc<str>> for ToolContent {
    fn from(text: Arc<str>) -> Self {
        Self::new([Part::Text(text)])
    }
}

impl From<&str> for ToolContent {
    fn from(text: &str) -> Self {
        Self::from(Arc::from(text))
    }
}

impl From<String> for ToolContent {
    fn from(text: String) -> Self {
        Self::from(Arc::from(text))
    }
}

/// The batch of calls that one assistant message asked for, frozen when the model had finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolRound {
    /// The round.
    pub id: ToolRoundId,
    /// The run whose model call asked for it.
    pub run: RunId,
    /// The revision that the assistant message follows.
    pub parent: RevisionId,
    /// What the assistant said with the calls.
    pub said: Assistant,
    /// The calls in the model's order.
    pub calls: Vec<ToolCall>,
    /// When the round was created, in milliseconds since the Unix epoch. Frozen; never enters model input.
    pub started_at_ms: u64,
}
