//! Terminal results: the typed one for the card and the one string for the model, made once and together.
//!
//! Owns the size rule for what the model reads. Must never know: exec ids, the order of calls.

pub(super) mod asked;
pub(super) mod exec;
mod fact;
pub(super) mod local;
mod page;
pub(super) mod thrown;

pub use fact::{DerivedFact, derived_facts, fact_of_arguments};
pub use page::read_page;

use super::mcp::McpTable;
use crate::cursor::proto::agent::tool_call::Tool;
use crate::model::{EntryLimits, Image, Part, SubagentKind, ToolContent};

/// How a call ended.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Outcome {
    /// The card with its typed result.
    pub tool: Tool,
    /// What the model reads.
    pub text: ModelText,
    /// The pictures that the model sees after the text, as they came.
    pub pictures: Vec<Image>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The MCP tools as they are now, where the call has asked for them.
    pub learned: Option<McpTable>,
    /// The subagent that the call started or went on with.
    pub delegated: Option<Delegated>,
}

/// A subagent that works for a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Delegated {
    /// The client's id of the subagent and of its conversation.
    pub child: String,
    pub kind: SubagentKind,
    /// Whether it works on after the call has its result.
    pub background: bool,
}

impl Outcome {
    /// The tool did what was asked.
    pub(super) fn success(tool: Tool, text: ModelText) -> Self {
        Self {
            tool,
            text,
            pictures: Vec::new(),
            is_error: false,
            learned: None,
            delegated: None,
        }
    }

    /// The tool failed.
    pub(super) fn error(tool: Tool, text: impl AsRef<str>) -> Self {
        Self {
            tool,
            text: ModelText::new(text.as_ref()),
            pictures: Vec::new(),
            is_error: true,
            learned: None,
            delegated: None,
        }
    }

    /// What enters the history: the text within the model's limit, then the pictures.
    pub(super) fn content(&self, limit: usize) -> ToolContent {
        let text = Part::Text(self.text.within(limit).into());
        let pictures = self.pictures.iter().cloned().map(Part::Image);
        ToolContent::new(std::iter::once(text).chain(pictures))
    }
}

/// The most characters of a text that a card shows.
const CARD_LIMIT: usize = 100_000;

/// The most characters of a text that are held: no model's limit is larger.
const MOST: usize = EntryLimits::MOST_RESULT_CHARACTERS;
const HEAD: usize = head_of(MOST);
const TAIL: usize = MOST - HEAD;

/// The share of a limit that goes to a text's head: 70 %.
const fn head_of(limit: usize) -> usize {
    limit / 10 * 7
}

/// A text for the model: a body of any length between two short texts of our own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ModelText {
    before: String,
    body: BoundedText,
    after: String,
}

impl ModelText {
    /// A text of any length.
    pub(super) fn new(text: &str) -> Self {
        let mut body = BoundedText::default();
        body.push(text);
        Self::framed("", &body, "")
    }

    /// A body between two short texts of our own.
    pub(super) fn framed(before: &str, body: &BoundedText, after: &str) -> Self {
        Self {
            before: before.to_owned(),
            body: body.clone(),
            after: after.to_owned(),
        }
    }

    /// The text as a card shows it.
    pub(super) fn for_card(&self) -> String {
        self.within(CARD_LIMIT)
    }

    /// The text as it enters the history, once, before it is stored. Of a body longer than `limit` characters the
    /// first 70 % and the last 30 % of the limit stay; a note between them says how much was left out, and how to get
    /// it. The rule depends on the one text and the limit only.
    pub(super) fn within(&self, limit: usize) -> String {
        format!("{}{}{}", self.before, self.body.within(limit), self.after)
    }
}

/// Text that arrives in pieces and is kept within [`MOST`] characters; how it was cut into pieces makes no difference.
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
            self.tail = last_chars(&self.tail, TAIL).to_owned();
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

    /// The text as a card shows it.
    pub(super) fn finish(&self) -> String {
        self.within(CARD_LIMIT)
    }

    /// The text, or its head and tail around a note if it has more than `limit` characters.
    fn within(&self, limit: usize) -> String {
        let limit = limit.min(MOST);
        if self.total <= limit {
            return format!("{}{}", self.head, self.tail);
        }
        let head_chars = head_of(limit);
        let head = match self.head.char_indices().nth(head_chars) {
            Some((at, _)) => &self.head[..at],
            None => &self.head,
        };
        let tail_chars = limit - head_chars;
        let tail = last_chars(&self.tail, tail_chars);
        let before_tail = last_chars(&self.head, tail_chars.saturating_sub(self.tail_chars));
        let left_out = self.total - limit;
        format!(
            "{head}\n[{left_out} characters are left out here. To see them, ask again for less at once: a range of \
             lines, a filter or a narrower search.]\n{before_tail}{tail}"
        )
    }
}

/// The last `count` characters of a text.
fn last_chars(text: &str, count: usize) -> &str {
    match count.checked_sub(1) {
        None => "",
        Some(before_last) => match text.char_indices().rev().nth(before_last) {
            Some((at, _)) => &text[at..],
            None => text,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn note(left_out: usize) -> String {
        format!(
            "\n[{left_out} characters are left out here. To see them, ask again for less at once: a range of lines, a \
             filter or a narrower search.]\n"
        )
    }

    #[test]
    fn a_text_within_the_limit_is_whole() {
        for limit in [1, 10, MOST] {
            let text = "é".repeat(limit);
            assert_eq!(ModelText::new(&text).within(limit), text);
        }
    }

    #[test]
    fn a_longer_text_keeps_head_and_tail_by_whole_characters() {
        let text = format!("{}{}{}", "é".repeat(70), "x".repeat(5), "😀".repeat(30));
        let expected = format!("{}{}{}", "é".repeat(70), note(5), "😀".repeat(30));
        assert_eq!(ModelText::new(&text).within(100), expected);
        let framed = ModelText::framed("before ", &ModelText::new(&text).body, " after");
        assert_eq!(framed.within(100), format!("before {expected} after"));
    }

    #[test]
    fn a_text_longer_than_what_is_held_keeps_its_true_length() {
        let text = format!("{}{}{}", "a".repeat(HEAD), "é".repeat(3 * TAIL), "z".repeat(TAIL));
        let expected = format!("{}{}{}", "a".repeat(HEAD), note(3 * TAIL), "z".repeat(TAIL));
        assert_eq!(ModelText::new(&text).within(MOST), expected);
        let expected = format!(
            "{}{}{}",
            "a".repeat(700),
            note(4 * TAIL + HEAD - 1000),
            "z".repeat(300)
        );
        assert_eq!(ModelText::new(&text).within(1000), expected);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(sizes in prop::collection::vec(0usize..4_000, 0..8), limit in 1usize..20_000) {
            let pieces: Vec<String> = sizes
                .iter()
                .enumerate()
                .map(|(index, size)| ["a", "é", "😀"][index % 3].repeat(*size))
                .collect();
            let mut pushed = BoundedText::default();
            for piece in &pieces {
                pushed.push(piece);
            }
            let text = pieces.concat();
            let within = pushed.within(limit);
            prop_assert_eq!(&within, &ModelText::new(&text).within(limit));
            let total = text.chars().count();
            if total > limit {
                let head: String = text.chars().take(head_of(limit)).collect();
                let tail: String = text.chars().skip(total - (limit - head_of(limit))).collect();
                prop_assert_eq!(within, format!("{head}{}{tail}", note(total - limit)));
            }
        }
    }
}
