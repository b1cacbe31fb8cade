//! What is left of a history that its endpoint refuses as too long although no summary can help: messages that are too
//! long keep their beginning and their end.
//!
//! Pure: the same history and step always give the same messages. A step is taken only where it changes something, so
//! that whoever takes them in order comes to an end. Must never know: why, or when, it is done.

use std::sync::Arc;

use crate::model::{
    Message, MessageBody, MessageId, Part, ToolCall, ToolContent, ToolResult, ToolRoundId, UserOrigin,
};

/// How much is taken away, from the mildest to the last resort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Tool results and messages share the whole allowance.
    Bounded,
    /// They share an eighth of it.
    Narrow,
    /// As `Narrow`; and the last round, if the model's own words in it are what is too long, becomes an account of its
    /// calls: arguments cannot be cut and stay arguments.
    Folded,
}

impl Step {
    /// The order in which they are tried.
    pub(super) const IN_ORDER: [Self; 3] = [Self::Bounded, Self::Narrow, Self::Folded];

    /// The part of the allowance that is shared.
    fn part(self) -> usize {
        match self {
            Self::Bounded => 1,
            Self::Narrow | Self::Folded => 8,
        }
    }
}

/// The least that a message keeps, in characters: below it, nothing would be said any more.
const LEAST: usize = 200;

/// What a picture counts as, in characters. Endpoints count 1,600 tokens at most for one of the size that pictures are
/// fitted to, and three characters a token.
const PICTURE: usize = 5_000;

/// Room for the note in place of what was left out: a text is not cut for less.
const NOTE: usize = 200;

/// A history after a step.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Shortened {
    /// The latest request context; older ones are left out.
    pub(super) context: Option<Message>,
    /// What the summary said, if the history began with one.
    pub(super) summary: Vec<Part>,
    /// All other messages that are left, in their order.
    pub(super) rest: Vec<Message>,
    /// What was done, in words for the model and for the person.
    pub(super) account: String,
}

/// Takes the step; `None` where it would change nothing. `allowance` is in characters. `untouched` is a message that
/// stays as it is.
pub(super) fn shorten(
    step: Step,
    stored: &[Arc<Message>],
    untouched: Option<&MessageId>,
    allowance: usize,
) -> Option<Shortened> {
    let allowance = allowance / step.part();
    let may_be_cut = |message: &Message| untouched != Some(&message.id);
    let pieces = stored
        .iter()
        .filter(|message| may_be_cut(message) && parts_of(message).is_some())
        .count();
    let share = (allowance / pieces.max(1)).max(LEAST);
    let folded = match step {
        Step::Bounded | Step::Narrow => None,
        Step::Folded => last_round(stored).filter(|round| own_words(stored, round) > share),
    };
    let latest_context = stored.iter().rposition(|message| is_context(message));
    let mut shortened = Shortened {
        context: None,
        summary: Vec::new(),
        rest: Vec::new(),
        account: String::new(),
    };
    let (mut results, mut messages) = (0, 0);
    for (at, message) in stored.iter().enumerate() {
        match &message.body {
            MessageBody::User {
                origin: UserOrigin::RequestContext { .. },
                ..
            } => {
                if latest_context == Some(at) {
                    shortened.context = Some((**message).clone());
                }
            }
            MessageBody::User {
                origin: UserOrigin::Summary { .. },
                parts,
            } => {
                shortened.summary.extend(parts.iter().cloned());
            }
            MessageBody::ToolCall { round, .. } | MessageBody::ToolResult { round, .. }
                if folded.as_ref() == Some(round) => {}
            MessageBody::User { .. }
            | MessageBody::Assistant(_)
            | MessageBody::ToolCall { .. }
            | MessageBody::ToolResult { .. } => {
                match may_be_cut(message).then(|| cut(message, share)).flatten() {
                    Some(cut) => {
                        match cut.body {
                            MessageBody::ToolResult { .. } => results += 1,
                            _ => messages += 1,
                        }
                        shortened.rest.push(cut);
                    }
                    None => shortened.rest.push((**message).clone()),
                }
            }
        }
    }
    if results == 0 && messages == 0 && folded.is_none() {
        return None;
    }
    shortened.account = account(
        results,
        messages,
        folded.map(|round| account_of(stored, &round, allowance)),
    );
    Some(shortened)
}

/// How long a message is, in characters; pictures count.
pub(super) fn length_of(message: &Message) -> usize {
    parts_of(message).map_or(0, length)
}

fn is_context(message: &Message) -> bool {
    matches!(
        message.body,
        MessageBody::User {
            origin: UserOrigin::RequestContext { .. },
            ..
        }
    )
}

/// What a message is made of, if it is one that can be cut: a result, or what was said by the person or about an event.
fn parts_of(message: &Message) -> Option<&[Part]> {
    match &message.body {
        MessageBody::User {
            origin: UserOrigin::Turn { .. } | UserOrigin::Imported,
            parts,
        } => Some(parts),
        MessageBody::ToolResult { result, .. } => Some(result.content.parts()),
        MessageBody::User { .. } | MessageBody::Assistant(_) | MessageBody::ToolCall { .. } => None,
    }
}

/// The message within its share, under an identity of its own; `None` where it is short enough.
fn cut(message: &Message, share: usize) -> Option<Message> {
    let text = shorter(parts_of(message)?, share)?;
    let body = match &message.body {
        MessageBody::ToolResult { round, result } => MessageBody::ToolResult {
            round: round.clone(),
            result: ToolResult {
                content: ToolContent::from(text),
                ..result.clone()
            },
        },
        MessageBody::User { origin, .. } => MessageBody::User {
            origin: origin.clone(),
            parts: vec![Part::Text(text.into())],
        },
        MessageBody::Assistant(_) | MessageBody::ToolCall { .. } => return None,
    };
    Some(Message {
        id: MessageId::shortened(&message.id, share),
        body,
    })
}

fn length(parts: &[Part]) -> usize {
    let length = |part: &Part| match part {
        Part::Text(text) => text.chars().count(),
        Part::Image(_) => PICTURE,
    };
    parts.iter().map(length).sum()
}

/// One text in place of the parts: no pictures, and of a text beyond the share its beginning and its end.
fn shorter(parts: &[Part], share: usize) -> Option<String> {
    if length(parts) <= share + NOTE {
        return None;
    }
    let content = ToolContent::new(parts.iter().cloned());
    let pictures = content.images().count();
    Some(bounded(&content.text(), pictures, share))
}

/// Of a longer text the first 70 % and the last 30 % of the share, with a note of what stood between them.
fn bounded(text: &str, pictures: usize, share: usize) -> String {
    let characters = text.chars().count();
    let too_long = characters > share + NOTE;
    if !too_long && pictures == 0 {
        return text.to_owned();
    }
    let left_out = if too_long { characters - share } else { 0 };
    let what = match (left_out, pictures) {
        (characters, 0) => format!("{characters} characters"),
        (0, pictures) => format!("Pictures ({pictures})"),
        (characters, pictures) => format!("{characters} characters and all pictures ({pictures})"),
    };
    let note = format!("[{what} were left out here: this was too long for the model.]");
    if !too_long {
        return [text, &note].join("\n").trim_start().to_owned();
    }
    let head_length = share * 7 / 10;
    let after = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let head = text.get(..after(head_length)).unwrap_or_default();
    let tail = text
        .get(after(characters - (share - head_length))..)
        .unwrap_or_default();
    format!("{head}\n{note}\n{tail}")
}

/// The round that the history ends with but for messages: nobody has answered its results.
fn last_round(stored: &[Arc<Message>]) -> Option<ToolRoundId> {
    let last = stored
        .iter()
        .rev()
        .find(|message| !matches!(message.body, MessageBody::User { .. }))?;
    match &last.body {
        MessageBody::ToolResult { round, .. } => Some(round.clone()),
        MessageBody::User { .. } | MessageBody::Assistant(_) | MessageBody::ToolCall { .. } => None,
    }
}

/// The calls of a round with their results, in order of completion.
fn pairs<'a>(
    stored: &'a [Arc<Message>],
    round: &'a ToolRoundId,
) -> impl Iterator<Item = (&'a ToolCall, Option<&'a ToolResult>)> {
    stored
        .iter()
        .enumerate()
        .filter_map(move |(at, message)| match &message.body {
            MessageBody::ToolCall { round: of, call, .. } if of == round => {
                let result = match stored.get(at + 1).map(|message| &message.body) {
                    Some(MessageBody::ToolResult { result, .. }) => Some(result),
                    _ => None,
                };
                Some((call, result))
            }
            _ => None,
        })
}

/// How long what the model itself wrote in a round is, in characters.
fn own_words(stored: &[Arc<Message>], round: &ToolRoundId) -> usize {
    let characters = |text: &str| text.chars().count();
    let words = |message: &Arc<Message>| match &message.body {
        MessageBody::ToolCall {
            round: of,
            call,
            said,
            ..
        } if of == round => {
            let said = said.as_ref().map_or(0, |said| {
                let thinking = said
                    .reasoning
                    .as_ref()
                    .map_or(0, |thought| characters(&thought.text));
                let replay = said.replay.as_ref().map_or(0, |state| characters(&state.payload));
                characters(&said.text) + thinking.max(replay)
            });
            said + characters(&call.arguments)
        }
        _ => 0,
    };
    stored.iter().map(words).sum()
}

/// A round's calls and results in words, within the allowance.
fn account_of(stored: &[Arc<Message>], round: &ToolRoundId, allowance: usize) -> String {
    let calls = pairs(stored, round).count();
    let share = (allowance / (2 * calls.max(1))).max(LEAST);
    let lines = pairs(stored, round).map(|(call, result)| {
        let arguments = bounded(&call.arguments, 0, share);
        let result = result.map_or_else(String::new, |result| {
            bounded(&result.content.text(), result.content.images().count(), share)
        });
        format!("- {} {arguments}\n  Its result: {result}", call.name)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn account(results: usize, messages: usize, folded: Option<String>) -> String {
    let mut lines = Vec::new();
    if results > 0 {
        lines.push(format!("Tool results that were shortened: {results}."));
    }
    if messages > 0 {
        lines.push(format!("Messages that were shortened: {messages}."));
    }
    if let Some(folded) = folded {
        lines.push(format!(
            "Tool calls that were made and are left out with their results:\n{folded}"
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
#[path = "shortening_tests.rs"]
mod tests;
