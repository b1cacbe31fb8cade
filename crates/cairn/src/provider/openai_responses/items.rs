//! The output items of one answer, put together from their events however an endpoint numbers them.
//!
//! An item is found by its place in the output first: some gateways give every event another id. A whole item, where it
//! comes, decides; its pieces only come before it. Must never know: why the answer ended.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::calls::Calls;
use super::replay::{OutputItem, Piece, PieceKind};
use super::wire::{ContentPart, Item, ItemKind, Text};
use crate::provider::ModelEvent;
use crate::provider::blocks::{Blocks, Words};
use crate::provider::stream_text::{PendingHalf, StreamText};

/// Stands between two parts of one summary.
const PARAGRAPH: &str = "\n\n";

/// The kinds of items that an answer is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Reasoning,
    Message,
    Call,
}

impl Kind {
    /// `Ok(None)` for an item that is shown and replayed by nobody, such as a search that the endpoint made itself.
    fn of(kind: &str) -> Result<Option<Self>, String> {
        match kind {
            "reasoning" => Ok(Some(Self::Reasoning)),
            "message" => Ok(Some(Self::Message)),
            "function_call" => Ok(Some(Self::Call)),
            "custom_tool_call"
            | "computer_call"
            | "local_shell_call"
            | "apply_patch_call"
            | "mcp_approval_request" => Err(format!("it waits for a {kind}, which nobody offered")),
            _ => Ok(None),
        }
    }
}

/// What an event says of its item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) output_index: Option<u64>,
    pub(super) item_id: Option<&'a str>,
}

/// Where a piece of thinking comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Thought {
    Summary,
    Plain,
}

/// The items of one answer.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// In the order of the answer.
    items: Vec<OpenItem>,
    calls: Calls,
    blocks: Blocks,
    messages: usize,
    /// Number of the message that spoke last.
    speaking: usize,
    /// Items of kinds that no answer of ours is made of.
    left_out: usize,
}

#[derive(Debug)]
struct OpenItem {
    output_index: Option<u64>,
    id: Option<String>,
    /// Its `added` event has come.
    added: bool,
    /// It is whole.
    done: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Reasoning(Reasoning),
    Message(Message),
    /// Its place among the calls.
    Call(usize),
}

#[derive(Debug, Default)]
struct Reasoning {
    /// Which kind of thought is shown: endpoints may send the same one twice.
    shown: Option<Thought>,
    /// Of the thoughts that are shown.
    half: PendingHalf,
    /// A further part of the summary has begun.
    new_part: bool,
    /// Summary as JSON text, and the encrypted content, of the whole item.
    record: Option<(String, String)>,
}

#[derive(Debug)]
struct Message {
    number: usize,
    phase: Option<String>,
    /// Neighbours are of different kinds.
    parts: Vec<(PieceKind, String)>,
    text_half: PendingHalf,
    refusal_half: PendingHalf,
}

impl Message {
    /// What the words of a kind still lack of their last piece.
    fn half(&mut self, kind: PieceKind) -> &mut PendingHalf {
        match kind {
            PieceKind::Text => &mut self.text_half,
            PieceKind::Refusal => &mut self.refusal_half,
        }
    }
}

impl OpenItem {
    fn kind(&self) -> Kind {
        match self.body {
            Body::Reasoning(_) => Kind::Reasoning,
            Body::Message(_) => Kind::Message,
            Body::Call(_) => Kind::Call,
        }
    }
}

impl Items {
    /// How many calls have been seen.
    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// How many items were left out because they are of no known kind.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// An item begins.
    pub(super) fn add(
        &mut self,
        output_index: Option<u64>,
        raw: &RawValue,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let Some((kind, item)) = read_item(raw)? else {
            return Ok(());
        };
        let id = filled(&item.id);
        let found = self.find(
            kind,
            Place {
                output_index,
                item_id: id,
            },
        );
        // A piece may have come before; a second item at a known place is another one.
        let at = match found {
            Some(at) if !self.items[at].done && (!self.items[at].added || self.is_same(at, &item)) => at,
            _ => self.open(kind, output_index, id),
        };
        self.items[at].added = true;
        self.describe(at, &item, events)
    }

    /// A piece of a message.
    pub(super) fn add_words(
        &mut self,
        place: Place<'_>,
        kind: PieceKind,
        piece: Option<&StreamText<'_>>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let at = self.find_or_open(Kind::Message, place);
        let item = &mut self.items[at];
        let (Some(piece), Body::Message(message), false) = (piece, &mut item.body, item.done) else {
            return Ok(());
        };
        let words = message.half(kind).join(piece);
        let words = words.map_err(|fault| fault.in_channel("a message"))?;
        self.speak(at, kind, &words, events)
    }

    /// A part of a message as a whole: news only if no piece of it came.
    pub(super) fn add_whole_words(
        &mut self,
        place: Place<'_>,
        kind: PieceKind,
        words: &str,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let at = self.find_or_open(Kind::Message, place);
        let item = &mut self.items[at];
        match &mut item.body {
            Body::Message(message) if !item.done && message.parts.iter().all(|(known, _)| *known != kind) => {
                *message.half(kind) = PendingHalf::default();
                self.speak(at, kind, words, events)
            }
            _ => Ok(()),
        }
    }

    /// A piece of thinking.
    pub(super) fn add_thought(
        &mut self,
        place: Place<'_>,
        thought: Thought,
        piece: Option<&StreamText<'_>>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let at = self.find_or_open(Kind::Reasoning, place);
        let (Body::Reasoning(reasoning), Some(piece)) = (&mut self.items[at].body, piece) else {
            return Ok(());
        };
        if piece.is_empty() || *reasoning.shown.get_or_insert(thought) != thought {
            return Ok(());
        }
        let words = reasoning.half.join(piece);
        let words = words.map_err(|fault| fault.in_channel("the thinking"))?;
        if std::mem::take(&mut reasoning.new_part) {
            self.blocks.emit(Words::Thinking, PARAGRAPH, events);
        }
        self.blocks.emit(Words::Thinking, &words, events);
        Ok(())
    }

    /// A part of a summary begins.
    pub(super) fn begin_summary_part(&mut self, place: Place<'_>) -> Result<(), String> {
        let at = self.find_or_open(Kind::Reasoning, place);
        if let Body::Reasoning(reasoning) = &mut self.items[at].body {
            let half = reasoning.half.finish();
            half.map_err(|fault| fault.in_channel("the thinking"))?;
            reasoning.new_part = reasoning.shown.is_some();
        }
        Ok(())
    }

    /// A piece of a call's arguments.
    pub(super) fn add_arguments(
        &mut self,
        place: Place<'_>,
        piece: Option<&StreamText<'_>>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let at = self.find_or_open(Kind::Call, place);
        match (&self.items[at].body, piece) {
            (Body::Call(call), Some(piece)) => {
                self.calls.add_arguments(*call, piece, &mut self.blocks, events)
            }
            _ => Ok(()),
        }
    }

    /// A call's arguments as a whole.
    pub(super) fn set_arguments(
        &mut self,
        place: Place<'_>,
        raw: Option<&RawValue>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let arguments = arguments(raw)?.unwrap_or_default();
        let at = self.find_or_open(Kind::Call, place);
        match self.items[at].body {
            Body::Call(call) if !self.items[at].done => {
                self.calls
                    .set_arguments(call, &arguments, &mut self.blocks, events)
            }
            _ => Ok(()),
        }
    }

    /// An item is whole.
    pub(super) fn finish_item(
        &mut self,
        output_index: Option<u64>,
        raw: &RawValue,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let Some((kind, item)) = read_item(raw)? else {
            self.left_out += 1;
            return Ok(());
        };
        if filled(&item.status) == Some("incomplete") {
            // Cut at a limit, which the terminal event tells; nothing of it is taken for whole.
            return Ok(());
        }
        let place = Place {
            output_index,
            item_id: filled(&item.id),
        };
        let at = match self.find(kind, place) {
            Some(at) if !self.items[at].done => at,
            Some(at) if self.is_same(at, &item) || self.has_no_id(at, &item) && output_index.is_some() => {
                return Ok(());
            }
            _ => self.open(kind, output_index, place.item_id),
        };
        self.complete(at, &item, events)
    }

    /// The response is whole: takes what only its list of output says. The list holds the items in the same order, so that
    /// an item is known by its number among those of its kind.
    pub(super) fn finish_output(
        &mut self,
        output: &[&RawValue],
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let mut seen = [0usize; 3];
        let mut next = 0;
        for raw in output {
            let Some((kind, item)) = read_item(raw)? else {
                continue;
            };
            let number = &mut seen[kind as usize];
            let known = self
                .items
                .iter()
                .enumerate()
                .filter(|(_, item)| item.kind() == kind)
                .map(|(at, _)| at)
                .nth(*number);
            *number += 1;
            let at = match known {
                Some(at) => at,
                None => {
                    let last = self.open(kind, None, filled(&item.id));
                    self.items[next..=last].rotate_right(1);
                    next
                }
            };
            next = at + 1;
            if !self.items[at].done {
                self.complete(at, &item, events)?;
            }
        }
        Ok(())
    }

    /// The endpoint has ended its answer: ends all that is open.
    pub(super) fn close(&mut self, events: &mut VecDeque<ModelEvent>) -> Result<(), String> {
        for item in &self.items {
            let (channel, half) = match &item.body {
                Body::Message(message) => (
                    "a message",
                    message.text_half.finish().and(message.refusal_half.finish()),
                ),
                Body::Reasoning(reasoning) => ("the thinking", reasoning.half.finish()),
                Body::Call(_) => continue,
            };
            half.map_err(|fault| fault.in_channel(channel))?;
        }
        self.blocks.start(events);
        self.blocks.close(events);
        self.calls.close(&mut self.blocks, events)
    }

    /// The items as later requests repeat them; `with_ids` keeps the endpoint's own ids.
    pub(super) fn record(&self, with_ids: bool) -> Vec<OutputItem> {
        let mut record = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let id = item.id.clone().filter(|_| with_ids);
            match &item.body {
                Body::Reasoning(Reasoning {
                    record: Some((summary, encrypted_content)),
                    ..
                }) => record.push(OutputItem::Reasoning {
                    id,
                    summary: summary.clone(),
                    encrypted_content: encrypted_content.clone(),
                }),
                // Nobody could read it: nothing is stored at the endpoint.
                Body::Reasoning(_) => {}
                Body::Message(message) if message.parts.is_empty() => {}
                Body::Message(message) => record.push(OutputItem::Message {
                    id,
                    phase: message.phase.clone(),
                    parts: message
                        .parts
                        .iter()
                        .map(|(kind, words)| Piece {
                            kind: *kind,
                            bytes: words.len(),
                        })
                        .collect(),
                }),
                Body::Call(_) => record.push(OutputItem::Call { id }),
            }
        }
        record
    }

    /// Takes what an item says of itself, at its beginning and at its end.
    fn describe(
        &mut self,
        at: usize,
        item: &Item<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        match &mut self.items[at].body {
            Body::Reasoning(_) => Ok(()),
            Body::Message(message) => {
                message.phase = filled(&item.phase).map(str::to_owned).or(message.phase.take());
                Ok(())
            }
            Body::Call(call) => self.calls.name(
                *call,
                filled(&item.call_id),
                filled(&item.name),
                &mut self.blocks,
                events,
            ),
        }
    }

    fn complete(
        &mut self,
        at: usize,
        item: &Item<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        if let Some(id) = filled(&item.id) {
            // The last id is the one under which the endpoint knows the item.
            self.items[at].id = Some(id.to_owned());
        }
        self.describe(at, item, events)?;
        match &mut self.items[at].body {
            Body::Reasoning(reasoning) => {
                let encrypted = filled(&item.encrypted_content);
                reasoning.record = encrypted.map(|encrypted| {
                    let summary = item.summary.map(|raw| raw.get()).filter(|raw| *raw != "null");
                    (summary.unwrap_or("[]").to_owned(), encrypted.to_owned())
                });
                if reasoning.shown.is_none() {
                    let words = thoughts(item)?;
                    self.blocks.emit(Words::Thinking, &words, events);
                }
            }
            Body::Message(_) => {
                self.complete_message(at, item.content.as_deref().unwrap_or_default(), events)?;
            }
            Body::Call(call) => {
                let call = *call;
                if let Some(arguments) = arguments(item.arguments)? {
                    self.calls
                        .set_arguments(call, &arguments, &mut self.blocks, events)?;
                }
                self.calls.finish(call, &mut self.blocks, events)?;
            }
        }
        self.items[at].done = true;
        Ok(())
    }

    /// The whole content of a message: puts out what no piece brought.
    fn complete_message(
        &mut self,
        at: usize,
        content: &[ContentPart<'_>],
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let mut whole: Vec<(PieceKind, String)> = Vec::new();
        for part in content {
            let (kind, words) = match part.kind.as_ref().map(|kind| kind.0.as_ref()) {
                Some("output_text" | "text") => (PieceKind::Text, &part.text),
                Some("refusal") => (PieceKind::Refusal, &part.refusal),
                _ => continue,
            };
            push_words(&mut whole, kind, filled(words).unwrap_or_default());
        }
        let Body::Message(message) = &mut self.items[at].body else {
            return Ok(());
        };
        // Gateways exist that leave out the text here; then the pieces say it all.
        if whole.is_empty() {
            return Ok(());
        }
        let streamed = message.parts.clone();
        message.text_half = PendingHalf::default();
        message.refusal_half = PendingHalf::default();
        for (number, (kind, words)) in whole.into_iter().enumerate() {
            let rest = match streamed.get(number) {
                None => Some(words.as_str()),
                Some((known, _)) if *known != kind => None,
                Some((_, known)) if number + 1 < streamed.len() => (*known == words).then_some(""),
                Some((_, known)) => words.strip_prefix(known.as_str()),
            };
            let rest = rest.ok_or("the pieces of a message do not add up to the whole")?;
            self.speak(at, kind, rest, events)?;
        }
        Ok(())
    }

    fn speak(
        &mut self,
        at: usize,
        kind: PieceKind,
        words: &str,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let Body::Message(message) = &mut self.items[at].body else {
            return Ok(());
        };
        if words.is_empty() {
            return Ok(());
        }
        if message.number < self.speaking {
            // What was shown could not be told apart again.
            return Err("the pieces of two messages came mixed".to_owned());
        }
        self.speaking = message.number;
        push_words(&mut message.parts, kind, words);
        self.blocks.emit(Words::Text, words, events);
        Ok(())
    }

    fn find(&self, kind: Kind, place: Place<'_>) -> Option<usize> {
        let of_kind = || {
            (0..self.items.len())
                .rev()
                .filter(|at| self.items[*at].kind() == kind)
        };
        let has_id = |at: &usize| place.item_id.is_some() && self.items[*at].id.as_deref() == place.item_id;
        let at_place = || {
            of_kind().filter(|at| {
                place.output_index.is_some() && self.items[*at].output_index == place.output_index
            })
        };
        at_place()
            .find(has_id)
            .or_else(|| at_place().next())
            .or_else(|| of_kind().find(has_id))
            .or_else(|| of_kind().next().filter(|_| place.output_index.is_none()))
    }

    fn find_or_open(&mut self, kind: Kind, place: Place<'_>) -> usize {
        self.find(kind, place)
            .unwrap_or_else(|| self.open(kind, place.output_index, place.item_id))
    }

    fn open(&mut self, kind: Kind, output_index: Option<u64>, id: Option<&str>) -> usize {
        let body = match kind {
            Kind::Reasoning => Body::Reasoning(Reasoning::default()),
            Kind::Message => {
                self.messages += 1;
                Body::Message(Message {
                    number: self.messages,
                    phase: None,
                    parts: Vec::new(),
                    text_half: PendingHalf::default(),
                    refusal_half: PendingHalf::default(),
                })
            }
            Kind::Call => Body::Call(self.calls.open()),
        };
        self.items.push(OpenItem {
            output_index,
            id: id.map(str::to_owned),
            added: false,
            done: false,
            body,
        });
        self.items.len() - 1
    }

    fn is_same(&self, at: usize, item: &Item<'_>) -> bool {
        let same_id = filled(&item.id).is_some_and(|id| self.items[at].id.as_deref() == Some(id));
        let same_call = match self.items[at].body {
            Body::Call(call) => filled(&item.call_id).is_some_and(|id| self.calls.has_id(call, id)),
            Body::Reasoning(_) | Body::Message(_) => false,
        };
        same_id || same_call
    }

    fn has_no_id(&self, at: usize, item: &Item<'_>) -> bool {
        self.items[at].id.is_none() && filled(&item.id).is_none() && filled(&item.call_id).is_none()
    }
}

/// An item of a known kind; `None` for one that is left out.
fn read_item(raw: &RawValue) -> Result<Option<(Kind, Item<'_>)>, String> {
    let unreadable = |fault: serde_json::Error| format!("an output item cannot be read: {fault}");
    let ItemKind { kind } = serde_json::from_str(raw.get()).map_err(unreadable)?;
    let Some(kind) = Kind::of(&kind.0)? else {
        return Ok(None);
    };
    Ok(Some((kind, serde_json::from_str(raw.get()).map_err(unreadable)?)))
}

fn filled<'a>(text: &'a Option<Text<'_>>) -> Option<&'a str> {
    text.as_ref()
        .map(|text| text.0.as_ref())
        .filter(|text| !text.is_empty())
}

fn push_words(parts: &mut Vec<(PieceKind, String)>, kind: PieceKind, words: &str) {
    match parts.last_mut() {
        _ if words.is_empty() => {}
        Some((last, text)) if *last == kind => text.push_str(words),
        _ => parts.push((kind, words.to_owned())),
    }
}

/// The thinking that a whole reasoning item shows: its summary, or else its plain content.
fn thoughts(item: &Item<'_>) -> Result<String, String> {
    let summary: Option<Vec<ContentPart<'_>>> = match item.summary {
        None => None,
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|fault| format!("a reasoning summary cannot be read: {fault}"))?,
    };
    let words = |parts: &[ContentPart<'_>]| -> Vec<String> {
        parts
            .iter()
            .filter_map(|part| filled(&part.text).map(str::to_owned))
            .collect()
    };
    let summary = words(summary.as_deref().unwrap_or_default()).join(PARAGRAPH);
    Ok(match summary.is_empty() {
        false => summary,
        true => words(item.content.as_deref().unwrap_or_default()).concat(),
    })
}

/// The text of a call's arguments in either form.
fn arguments(raw: Option<&RawValue>) -> Result<Option<Arc<str>>, String> {
    let Some(raw) = raw.map(|raw| raw.get()).filter(|raw| *raw != "null") else {
        return Ok(None);
    };
    if raw.starts_with('{') {
        return Ok(Some(raw.into()));
    }
    match serde_json::from_str::<Text<'_>>(raw) {
        Ok(text) => Ok(Some(text.0.as_ref().into())),
        Err(_) => Err("a tool call's arguments are neither text nor an object".to_owned()),
    }
}
