//! What is remembered of a request that was sent, and how two requests compare: the proof that the later one extends
//! the earlier one.
//!
//! Holds lengths and digests only, never content. Must never know: how a digest is made, or where it is kept.

use std::sync::Arc;

/// A digest over the bytes of one item.
pub type ItemHash = [u8; 16];

/// What was sent to an endpoint, item by item, in the order in which endpoints read it: tools, instructions, messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestDigest {
    /// Names who answers. Requests of one conversation to the same lineage are held against each other.
    pub lineage: Arc<str>,
    /// A digest over what is configured of the model and may decide how messages are written.
    pub settings: ItemHash,
    /// The items.
    pub items: Vec<ItemDigest>,
    /// The endpoint has just refused the reasoning of the history, so this request leaves it out.
    pub without_reasoning: bool,
}

/// One item of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemDigest {
    /// What it is.
    pub kind: ItemKind,
    /// Its length in the body, in bytes.
    pub bytes: u32,
    /// The digest over these bytes.
    pub hash: ItemHash,
    /// The digest over those of them that neither the model's settings nor a refusal of its reasoning decide: `hash`
    /// itself for most items, and nothing for one that is all reasoning or that shows pictures.
    pub settled: Option<ItemHash>,
}

/// What an item of a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemKind {
    /// A tool's definition.
    Tool,
    /// The system prompt.
    Instructions,
    /// A message, or an input item of an API that has those.
    Message,
}

impl ItemKind {
    /// Its name in logs and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Instructions => "instructions",
            Self::Message => "message",
        }
    }
}

/// Why a request may differ from its predecessor. Each is declared by whoever causes it; a difference that none of them
/// explains is a defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixReset {
    /// The first request to this lineage in a conversation that another one has answered before.
    ModelSwitch,
    /// The history was compacted.
    Compaction,
    /// Messages of the history that were too long for the model were shortened.
    Shortening,
    /// The run goes on from a revision that the predecessor's history is no part of.
    Branch,
    /// The model is configured otherwise.
    SettingsChange,
    /// The endpoint refused the reasoning that it had issued.
    ReasoningRefused,
    /// The prompt was changed: see [`PromptChange`].
    Prompt(PromptChange),
}

/// Why a run's prompt differs from that of the run before it in its conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PromptChange {
    /// The person chose another way of working.
    ModeSwitch,
    /// Tools were added, or defined otherwise.
    ToolsChange,
    /// This program's own prompts or tools are not those of the version before.
    Upgrade,
}

impl PromptChange {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ModeSwitch, Self::ToolsChange, Self::Upgrade];

    /// Its name in records and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ModeSwitch => "mode-switch",
            Self::ToolsChange => "tools-changed",
            Self::Upgrade => "upgrade",
        }
    }
}

impl PrefixReset {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ModelSwitch,
        Self::Compaction,
        Self::Shortening,
        Self::Branch,
        Self::SettingsChange,
        Self::ReasoningRefused,
        Self::Prompt(PromptChange::ModeSwitch),
        Self::Prompt(PromptChange::ToolsChange),
        Self::Prompt(PromptChange::Upgrade),
    ];

    /// Its name in records and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ModelSwitch => "model-switch",
            Self::Compaction => "compaction",
            Self::Shortening => "shortening",
            Self::Branch => "branch",
            Self::SettingsChange => "settings-changed",
            Self::ReasoningRefused => "reasoning-refused",
            Self::Prompt(change) => change.as_str(),
        }
    }

    /// The reason in a sentence, for people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ModelSwitch => "another model or endpoint answers from here on",
            Self::Compaction => "the history was compacted",
            Self::Shortening => "messages that were too long for the model were shortened",
            Self::Branch => "the conversation went on from an earlier point",
            Self::SettingsChange => "the model is configured otherwise",
            Self::ReasoningRefused => "the endpoint refused the reasoning that it had issued",
            Self::Prompt(PromptChange::ModeSwitch) => "the mode was switched",
            Self::Prompt(PromptChange::ToolsChange) => "tools were added or defined otherwise",
            Self::Prompt(PromptChange::Upgrade) => "this version of cairn has other prompts or tools",
        }
    }
}

/// How many items, from the first on, both requests begin with.
pub fn shared_items(earlier: &[ItemDigest], later: &[ItemDigest]) -> usize {
    earlier.iter().zip(later).take_while(|(a, b)| a == b).count()
}

/// The first item of the later request that is not the earlier one's at the same place; `None` if the later request
/// extends the earlier one.
pub fn first_break(earlier: &[ItemDigest], later: &[ItemDigest]) -> Option<usize> {
    break_among(earlier, later, Repeats::Everything)
}

/// How much of an earlier request a later one has to repeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeats {
    /// All of it.
    Everything,
    /// All of it, or a part from its beginning and one message behind it, the question: for a request beside the
    /// conversation, such as one for a summary.
    APart,
}

/// The first of the tools and instructions that is not the earlier request's at the same place; an index among all items
/// of the later request.
pub fn first_head_break(earlier: &[ItemDigest], later: &[ItemDigest]) -> Option<usize> {
    let (earlier, later) = (&earlier[..head(earlier)], &later[..head(later)]);
    let shared = shared_items(earlier, later);
    (shared < earlier.len().max(later.len())).then_some(shared)
}

/// The first message that breaks the earlier request's, whatever stands before the messages; an index among all items of
/// the later request.
pub fn first_message_break(earlier: &[ItemDigest], later: &[ItemDigest], repeats: Repeats) -> Option<usize> {
    let at = head(later);
    break_among(&earlier[head(earlier)..], &later[at..], repeats).map(|message| at + message)
}

/// The same as [`first_message_break`] for requests between which settings have changed or reasoning was refused: what
/// these decide of a message is left out of account.
pub fn first_settled_break(earlier: &[ItemDigest], later: &[ItemDigest], repeats: Repeats) -> Option<usize> {
    let settled = |items: &[ItemDigest]| -> (Vec<usize>, Vec<ItemHash>) {
        let messages = items.iter().enumerate().skip(head(items));
        messages
            .filter_map(|(at, item)| Some((at, item.settled?)))
            .unzip()
    };
    let ((_, earlier), (places, hashes)) = (settled(earlier), settled(later));
    let broken = break_among(&earlier, &hashes, repeats)?;
    Some(places.get(broken).copied().unwrap_or(later.len()))
}

/// How many tools and instructions stand before the messages.
fn head(items: &[ItemDigest]) -> usize {
    let before = |item: &&ItemDigest| item.kind != ItemKind::Message;
    items.iter().take_while(before).count()
}

fn break_among<T: PartialEq>(earlier: &[T], later: &[T], repeats: Repeats) -> Option<usize> {
    let shared = earlier.iter().zip(later).take_while(|(a, b)| a == b).count();
    let asks_about_a_part = repeats == Repeats::APart && shared + 1 >= later.len();
    (shared < earlier.len() && !asks_about_a_part).then_some(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<ItemDigest> {
        text.bytes()
            .map(|byte| ItemDigest {
                kind: match byte {
                    b'a'..=b'm' | b'q' | b'A'..=b'M' => ItemKind::Message,
                    b's' => ItemKind::Instructions,
                    _ => ItemKind::Tool,
                },
                bytes: 1,
                hash: [byte.to_ascii_lowercase(); 16],
                settled: match byte {
                    b'A'..=b'M' => None,
                    _ => Some([byte.to_ascii_lowercase(); 16]),
                },
            })
            .collect()
    }

    #[test]
    fn a_later_request_extends_an_earlier_one_or_breaks_at_a_place() {
        let at = |earlier, later| first_break(&items(earlier), &items(later));
        assert_eq!(at("tsab", "tsab"), None);
        assert_eq!(at("tsab", "tsabc"), None);
        assert_eq!(at("tsab", "tsa"), Some(3));
        assert_eq!(at("tsab", "tsac"), Some(3));
        assert_eq!(at("tsab", "tusab"), Some(1));
        assert_eq!(at("", "ts"), None);
    }

    #[test]
    fn a_question_beside_the_conversation_may_be_about_a_part_of_it() {
        let at = |earlier, later| {
            let (earlier, later) = (items(earlier), items(later));
            let messages = first_message_break(&earlier, &later, Repeats::APart);
            assert_eq!(first_settled_break(&earlier, &later, Repeats::APart), messages);
            (first_head_break(&earlier, &later), messages)
        };
        assert_eq!(at("tsab", "tsabq"), (None, None));
        assert_eq!(at("tsab", "tsaq"), (None, None));
        assert_eq!(at("tsab", "tsacq"), (None, Some(3)));
        assert_eq!(at("tsab", "tuaq"), (Some(1), None));
    }

    #[test]
    fn messages_are_held_against_each_other_whatever_stands_before_them() {
        let at = |earlier, later| first_message_break(&items(earlier), &items(later), Repeats::Everything);
        assert_eq!(at("tsab", "tusabc"), None);
        assert_eq!(at("tsab", "tusac"), Some(4));
        assert_eq!(at("tsab", "ts"), Some(2));
    }

    #[test]
    fn tools_and_instructions_are_the_same_or_differ_at_a_place() {
        let at = |earlier, later| first_head_break(&items(earlier), &items(later));
        assert_eq!(at("tusab", "tusc"), None);
        assert_eq!(at("tsab", "tusab"), Some(1));
        assert_eq!(at("tusab", "tsab"), Some(1));
        assert_eq!(at("tusab", "vusab"), Some(0));
        assert_eq!(at("tus", "tu"), Some(2));
    }

    #[test]
    fn what_settings_decide_of_a_message_is_no_break_of_the_others() {
        let at = |earlier, later| first_settled_break(&items(earlier), &items(later), Repeats::Everything);
        // Reasoning or pictures come and go.
        assert_eq!(at("tsaBc", "tsac"), None);
        assert_eq!(at("tsac", "tsaBcd"), None);
        assert_eq!(at("tsaBc", "tsaDcE"), None);
        // Whatever they do, the rest stays as it is, and where it is.
        assert_eq!(at("tsaBc", "tsaBd"), Some(4));
        assert_eq!(at("tsaBc", "tsBac"), None);
        assert_eq!(at("tsabc", "tsDacb"), Some(4));
        assert_eq!(at("tsaBc", "tsa"), Some(3));
        assert_eq!(at("tsaBc", "tsaD"), Some(4));
    }

    #[test]
    fn every_reset_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            PrefixReset::ALL.iter().map(|reset| reset.as_str()).collect();
        assert_eq!(names.len(), PrefixReset::ALL.len());
    }
}
