//! Terminal results: the typed one for the card and the one string for the model, made once and together.
//!
//! Owns the size rule for what the model reads. Must never know: exec ids, the order of calls.

pub(super) mod exec;
pub(super) mod local;

use super::mcp::McpTable;
use super::progress::ProgressUpdate;
use crate::cursor::proto::agent::{TodoItem, tool_call::Tool};

/// How a call ended.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Outcome {
    /// The card with its typed result.
    pub tool: Tool,
    /// What the model reads.
    pub text: ModelText,
    /// Whether the tool failed.
    pub is_error: bool,
    /// What state beside the history follows from it.
    pub fact: Option<DerivedFact>,
    /// The MCP tools as they are now, where the call has asked for them.
    pub learned: Option<McpTable>,
}

impl Outcome {
    /// The tool did what was asked.
    pub(super) fn success(tool: Tool, text: ModelText) -> Self {
        Self {
            tool,
            text,
            is_error: false,
            fact: None,
            learned: None,
        }
    }

    /// The tool failed.
    pub(super) fn error(tool: Tool, text: impl AsRef<str>) -> Self {
        Self {
            tool,
            text: ModelText::new(text.as_ref()),
            is_error: true,
            fact: None,
            learned: None,
        }
    }
}

/// State beside the history that follows from a call.
#[derive(Clone, PartialEq, Debug)]
pub enum DerivedFact {
    /// The file at this path, as the client names it, was read.
    ReadPath(String),
    /// The whole to-do list as it is now.
    Todos(Vec<TodoItem>),
    /// A subagent goes on in the background, in the conversation of this id.
    Delegated {
        /// The client's id of the subagent and of its conversation.
        child: String,
    },
    /// A subagent said where it stands.
    Progress {
        /// What it said.
        update: ProgressUpdate,
        /// One-based place of the call's step in its turn.
        message_index: u32,
    },
}

/// The most characters of a result that enter the history.
///
/// The rule depends on the one result only and is applied once, before the result is stored: of a longer text the
/// first 70 % and the last 30 % of this limit stay, and a note between them says how much was left out.
pub const RESULT_LIMIT: usize = 100_000;
const HEAD: usize = RESULT_LIMIT / 10 * 7;
const TAIL: usize = RESULT_LIMIT - HEAD;

/// A text for the model, within the limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ModelText(String);

impl ModelText {
    /// A text of any length.
    pub(super) fn new(text: &str) -> Self {
        let mut bounded = BoundedText::default();
        bounded.push(text);
        Self(bounded.finish())
    }

    /// A bounded body between two short texts of our own.
    pub(super) fn framed(before: &str, body: &BoundedText, after: &str) -> Self {
        Self(format!("{before}{}{after}", body.finish()))
    }

    /// The text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Text that arrives in pieces and is kept within the limit; how it was cut into pieces makes no difference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct BoundedText {
    head: String,
    head_chars: usize,
    /// What came after the head; trimmed now and then to its last `TAIL` characters or more.
    tail: String,
    tail_chars: usize,
    /// All characters that came.
    total: usize,
}

impl BoundedText {
    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: &str) {
        let room = HEAD - self.head_chars;
        let (to_head, to_tail) = match piece.char_indices().nth(room) {
            Some((at, _)) => piece.split_at(at),
            None => (piece, ""),
        };
        self.head.push_str(to_head);
        let added = to_head.chars().count();
        self.head_chars += added;
        self.tail.push_str(to_tail);
        let rest = to_tail.chars().count();
        self.tail_chars += rest;
        self.total += added + rest;
        if self.tail_chars > 2 * TAIL {
            self.tail.drain(..self.tail_start());
            self.tail_chars = TAIL;
        }
    }

    /// Whether nothing came.
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Whether the text ends with a line end.
    pub(super) fn ends_line(&self) -> bool {
        match self.tail.is_empty() {
            true => self.head.ends_with('\n'),
            false => self.tail.ends_with('\n'),
        }
    }

    /// The text, or its head and tail around a note.
    pub(super) fn finish(&self) -> String {
        if self.total <= RESULT_LIMIT {
            return format!("{}{}", self.head, self.tail);
        }
        let left_out = self.total - RESULT_LIMIT;
        let tail = &self.tail[self.tail_start()..];
        format!("{}\n[{left_out} characters left out here]\n{tail}", self.head)
    }

    /// Byte offset of the tail's last `TAIL` characters.
    fn tail_start(&self) -> usize {
        let surplus = self.tail_chars.saturating_sub(TAIL);
        self.tail
            .char_indices()
            .nth(surplus)
            .map_or(self.tail.len(), |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_within_the_limit_is_whole() {
        let text = "é".repeat(RESULT_LIMIT);
        assert_eq!(ModelText::new(&text).into_string(), text);
    }

    #[test]
    fn a_longer_text_keeps_head_and_tail() {
        let text = format!("{}{}{}", "a".repeat(HEAD), "é".repeat(5), "z".repeat(TAIL));
        let expected = format!(
            "{}\n[5 characters left out here]\n{}",
            "a".repeat(HEAD),
            "z".repeat(TAIL)
        );
        assert_eq!(ModelText::new(&text).into_string(), expected);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(sizes in prop::collection::vec(0usize..40_000, 0..8)) {
            let pieces: Vec<String> = sizes
                .iter()
                .enumerate()
                .map(|(index, size)| ["a", "é", "😀"][index % 3].repeat(*size))
                .collect();
            let mut pushed = BoundedText::default();
            for piece in &pieces {
                pushed.push(piece);
            }
            prop_assert_eq!(pushed.finish(), ModelText::new(&pieces.concat()).into_string());
        }
    }
}
