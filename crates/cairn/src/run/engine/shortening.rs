//! What is left of a history that its endpoint refuses as too long although no summary can help: messages that are too
//! long keep their beginning and their end.
//!
//! Pure: the same history and step always give the same messages. A step is taken only where it changes something, so
//! that whoever takes them in order comes to an end. Must never know: why, or when, it is done.

use std::collections::HashSet;
use std::sync::Arc;

use super::kept::{is_context, is_said_by_person, is_summary, tells_of};
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
    /// As `Narrow`; and all that came before the person's latest words becomes an account of what came last of it. Only
    /// now the allowance holds whatever the history is made of.
    Account,
}

impl Step {
    /// The order in which they are tried.
    pub(super) const IN_ORDER: [Self; 4] = [Self::Bounded, Self::Narrow, Self::Folded, Self::Account];

    /// Those that leave a history in which only what is too long is missing.
    pub(super) const SPARING: [Self; 3] = [Self::Bounded, Self::Narrow, Self::Folded];

    /// The part of the allowance that is shared.
    fn part(self) -> usize {
        match self {
            Self::Bounded => 1,
            Self::Narrow | Self::Folded | Self::Account => 8,
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

/// The part of the allowance that one message has in an account of many.
const ACCOUNT_PARTS: usize = 4;

/// What stays as it is.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Untouched<'a> {
    /// A message that is never shortened.
    pub(super) message: Option<&'a MessageId>,
    /// Events that no account takes the place of.
    pub(super) standing: &'a [Arc<str>],
}

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

/// Takes the step; `None` where it would change nothing. `allowance` is in characters.
pub(super) fn shorten(
    step: Step,
    stored: &[Arc<Message>],
    untouched: Untouched<'_>,
    allowance: usize,
) -> Option<Shortened> {
    let narrow = allowance / step.part();
    let may_be_cut = |message: &Message| untouched.message != Some(&message.id);
    let pieces = stored
        .iter()
        .filter(|message| may_be_cut(message) && parts_of(message).is_some())
        .count();
    let share = (narrow / pieces.max(1)).max(LEAST);
    let told = match step {
        Step::Bounded | Step::Narrow => None,
        Step::Folded => last_round(stored)
            .filter(|round| own_words(stored, round) > share)
            .map(|round| account_of_round(stored, &round, narrow)),
        Step::Account => account_of_all(stored, untouched, narrow),
    };
    let told = told.unwrap_or_default();
    let latest_context = stored.iter().rposition(|message| is_context(message));
    let mut shortened = Shortened {
        context: None,
        summary: Vec::new(),
        rest: Vec::new(),
        account: String::new(),
    };
    let (mut results, mut messages) = (0, 0);
    for (at, message) in stored.iter().enumerate() {
        if is_context(message) {
            if latest_context == Some(at) {
                shortened.context = Some((**message).clone());
            }
        } else if is_summary(message) {
            shortened.summary.extend(summary_of(message, step, allowance));
        } else if !told.messages.contains(&message.id) {
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
    if results == 0 && messages == 0 && told.messages.is_empty() {
        return None;
    }
    shortened.account = account(results, messages, told.words);
    Some(shortened)
}

/// How long a message is, in characters; pictures count.
pub(super) fn length_of(message: &Message) -> usize {
    parts_of(message).map_or(0, length)
}

/// What a summary said. It was made for a model that can hold it; this one may be another.
fn summary_of(message: &Message, step: Step, allowance: usize) -> Vec<Part> {
    let MessageBody::User { parts, .. } = &message.body else {
        return Vec::new();
    };
    let shorter = match step {
        Step::Bounded | Step::Narrow | Step::Folded => None,
        Step::Account => shorter(parts, allowance),
    };
    shorter.map_or_else(|| parts.clone(), |text| vec![Part::Text(text.into())])
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

/// Messages that are told of instead of standing in the history, and the words that tell of them.
#[derive(Default)]
struct Told<'a> {
    messages: HashSet<&'a MessageId>,
    words: String,
}

/// A round's calls and results in words, within the allowance.
fn account_of_round<'a>(stored: &'a [Arc<Message>], round: &ToolRoundId, allowance: usize) -> Told<'a> {
    let of_round = |message: &&Arc<Message>| match &message.body {
        MessageBody::ToolCall { round: of, .. } | MessageBody::ToolResult { round: of, .. } => of == round,
        MessageBody::User { .. } | MessageBody::Assistant(_) => false,
    };
    let calls = pairs(stored, round).count();
    let share = (allowance / (2 * calls.max(1))).max(LEAST);
    let lines = pairs(stored, round).map(|(call, result)| line_of_call(call, result, share));
    let lines = lines.collect::<Vec<_>>().join("\n");
    Told {
        messages: stored
            .iter()
            .filter(of_round)
            .map(|message| &message.id)
            .collect(),
        words: format!("Tool calls that were made and are left out with their results:\n{lines}"),
    }
}

/// All that came before the person's latest words, but for what is said of the agent itself: the latest of it in words,
/// within the allowance. `None` if there is nothing.
fn account_of_all<'a>(
    stored: &'a [Arc<Message>],
    untouched: Untouched<'_>,
    allowance: usize,
) -> Option<Told<'a>> {
    let share = (allowance / ACCOUNT_PARTS).max(LEAST);
    let latest = stored.iter().rposition(|message| is_said_by_person(message));
    let unanswered = stored
        .iter()
        .rposition(|message| !matches!(message.body, MessageBody::User { .. }))?
        + 1;
    let stays = |at: usize, message: &Message| {
        at >= unanswered
            || Some(at) == latest
            || untouched.message == Some(&message.id)
            || tells_of(message, untouched.standing)
            || is_context(message)
            || is_summary(message)
    };
    let mut told = Told::default();
    let mut lines = Vec::new();
    for (at, message) in stored.iter().enumerate() {
        if stays(at, message) {
            continue;
        }
        told.messages.insert(&message.id);
        lines.extend(line_of(message, stored.get(at + 1), share));
    }
    let mut room = allowance.max(LEAST);
    let fitting = lines.iter().rev().take_while(|line| {
        let left = room.checked_sub(line.chars().count());
        room = left.unwrap_or_default();
        left.is_some()
    });
    let fitting = fitting.count();
    let latest = lines.split_off(lines.len() - fitting).join("\n");
    told.words = match lines.len() {
        0 => format!("What was said and done before:\n{latest}"),
        earlier => format!("What was said and done last, after {earlier} steps that are left out:\n{latest}"),
    };
    Some(told)
}

/// A message in words; a result is told of with its call, which stands before it.
fn line_of(message: &Message, next: Option<&Arc<Message>>, share: usize) -> Option<String> {
    let said =
        |who: &str, text: &str| (!text.is_empty()).then(|| format!("- {who}: {}", bounded(text, 0, share)));
    match &message.body {
        MessageBody::User { parts, .. } => {
            let content = ToolContent::new(parts.iter().cloned());
            let text = bounded(&content.text(), content.images().count(), share);
            Some(format!("- To you: {text}"))
        }
        MessageBody::Assistant(answer) => said("You", &answer.text),
        MessageBody::ToolCall {
            call, said: before, ..
        } => {
            let before = before.as_ref().and_then(|before| said("You", &before.text));
            let result = match next.map(|message| &message.body) {
                Some(MessageBody::ToolResult { result, .. }) => Some(result),
                _ => None,
            };
            let call = line_of_call(call, result, share / 2);
            Some(before.into_iter().chain([call]).collect::<Vec<_>>().join("\n"))
        }
        MessageBody::ToolResult { .. } => None,
    }
}

fn line_of_call(call: &ToolCall, result: Option<&ToolResult>, share: usize) -> String {
    let arguments = bounded(&call.arguments, 0, share);
    let result = result.map_or_else(String::new, |result| {
        bounded(&result.content.text(), result.content.images().count(), share)
    });
    format!("- {} {arguments}\n  Its result: {result}", call.name)
}

fn account(results: usize, messages: usize, told: String) -> String {
    let mut lines = Vec::new();
    if results > 0 {
        lines.push(format!("Tool results that were shortened: {results}."));
    }
    if messages > 0 {
        lines.push(format!("Messages that were shortened: {messages}."));
    }
    if !told.is_empty() {
        lines.push(told);
    }
    lines.join("\n")
}

#[cfg(test)]
#[path = "shortening_tests.rs"]
mod tests;
