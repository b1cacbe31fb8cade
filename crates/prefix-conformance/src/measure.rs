//! How much of a request's prefix the next request keeps, and where it stops keeping it.
//!
//! The one definition of continuity: shared leading bytes of the serialised prefix, divided by the earlier request's
//! bytes. Must never know: which pairs are compared or what a break leads to.

use std::fmt;

use serde::Serialize;

use crate::request::{Item, Position, Request, kind};
use crate::visible::visible;

/// Bytes shown on each side of a difference.
const EXCERPT: usize = 120;

/// One pair of requests, measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measure {
    /// Length of the earlier request's serialised prefix, in bytes.
    pub previous_bytes: usize,
    /// Length of the later request's, in bytes.
    pub bytes: usize,
    /// Leading bytes that the two have in common.
    pub shared_bytes: usize,
    /// Items that the two have in common, from the first.
    pub shared_items: usize,
    /// Where the later request leaves the earlier one. Absent when it keeps all of it.
    pub boundary: Option<Boundary>,
}

/// Where a later request leaves an earlier one. The lists are looked at one by one, so that a changed tool and a changed
/// message are both seen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Boundary {
    /// The first item of the prefix that differs, is missing, or has something else put before it.
    pub first: Position,
    /// What that item is: a tool's name, or a message's role.
    pub label: String,
    /// What happened to it.
    pub change: Change,
    /// First differing index of `tools`; absent when the lists are equal. A schema that was added counts.
    pub tool: Option<usize>,
    /// First differing index of the system prompt beside the messages; absent when equal.
    pub system: Option<usize>,
    /// First message of the earlier request that the later one does not keep; absent when it keeps them all.
    pub message: Option<usize>,
    /// The difference itself.
    pub difference: Difference,
}

/// What happened to an item of the earlier request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Another item stands in its place.
    Changed,
    /// The item is new and stands before what was there.
    Added,
    /// It is not there any more, and what followed it is, or nothing of its kind.
    Removed,
    /// It stands further behind, and an item that followed it stands in its place.
    Moved,
}

impl fmt::Display for Boundary {
    /// A sentence without its full stop: `tool 2 (Read) changed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Change::Changed => "changed",
            Change::Added => "was added before what was there",
            Change::Removed => "is gone",
            Change::Moved => "moved behind what followed it",
        };
        match self.first {
            // Its only label is its place.
            Position::System(_) => write!(f, "{} {change}", self.first),
            Position::Tool(_) | Position::Message { .. } => {
                write!(f, "{} ({}) {change}", self.first, visible(&self.label))
            }
        }
    }
}

/// The bytes around the first difference, each shortened.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Difference {
    /// What stands before the difference in both.
    pub common: String,
    /// What the earlier request has, up to where the two items end alike; empty where it has nothing.
    pub previous: String,
    /// What the later request has; empty where it has nothing.
    pub later: String,
    /// How both items go on; empty where the difference was shortened.
    pub then: String,
}

impl fmt::Display for Difference {
    /// Indented lines for a terminal, each with its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| if text.is_empty() { "(nothing)" } else { text }.to_owned();
        if !self.common.is_empty() {
            writeln!(f, "  same  …{}", self.common)?;
        }
        writeln!(f, "  was   {}", shown(&self.previous))?;
        writeln!(f, "  is    {}", shown(&self.later))?;
        if !self.then.is_empty() {
            writeln!(f, "  then  {}…", self.then)?;
        }
        Ok(())
    }
}

impl Measure {
    /// The shared part as a fraction of the earlier request's prefix, 0 to 1. A prefix of no bytes is kept whole.
    pub fn continuity(&self) -> f64 {
        if self.shared_bytes == self.previous_bytes {
            return 1.0;
        }
        fraction(self.shared_bytes, self.previous_bytes)
    }
}

/// A quotient of two counts of bytes or tokens.
#[allow(
    clippy::cast_precision_loss,
    reason = "counts stay far below 2^52, where f64 is exact"
)]
pub fn fraction(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// A fraction as a percentage with one decimal, rounded down: what is below a minimum, or not all, does not read as if it were.
pub fn percent(fraction: f64) -> String {
    // Products such as 0.58 · 1000 may be a little less than they should be.
    const SLACK: f64 = 1e-6;
    let thousandths = (fraction * 1000.0 + SLACK).floor();
    format!("{:.1}%", thousandths / 10.0)
}

/// Measures a pair over all items.
pub fn measure(previous: &Request, later: &Request) -> Measure {
    measure_items(
        (previous, &previous.items().iter().collect::<Vec<_>>()),
        (later, &later.items().iter().collect::<Vec<_>>()),
    )
}

/// Measures a pair over the items that are left of it.
pub fn measure_items(previous: (&Request, &[&Item]), later: (&Request, &[&Item])) -> Measure {
    let (before, before_items) = previous;
    let (after, after_items) = later;
    let length = |request: &Request, items: &[&Item]| items.iter().map(|item| request.length(item)).sum();
    let mut shared_bytes = 0;
    let mut shared_items = 0;
    let mut boundary = None;
    for (index, item) in before_items.iter().copied().enumerate() {
        let other = after_items.get(index).copied();
        let is_kept = other.is_some_and(|other| same(before, item, after, other));
        if is_kept {
            shared_bytes += before.length(item);
            shared_items += 1;
            continue;
        }
        let at = |wanted: fn(Position) -> Option<usize>, whole: bool| {
            section_boundary(previous, later, wanted, whole)
        };
        let (named, change) = match other {
            // Something that was put in before the next kind of items, such as a tool at the list's end.
            Some(other) if section(other.position) < section(item.position) => (other, Change::Added),
            Some(other) if section(other.position) == section(item.position) => {
                let stays = after_items[index..]
                    .iter()
                    .any(|later| same(before, item, after, later));
                let was_there = before_items[index..]
                    .iter()
                    .any(|earlier| same(before, earlier, after, other));
                match (stays, was_there) {
                    (true, true) => (item, Change::Moved),
                    (true, false) => (other, Change::Added),
                    (false, true) => (item, Change::Removed),
                    (false, false) => (item, Change::Changed),
                }
            }
            Some(_) | None => (item, Change::Removed),
        };
        let one = serialised(before, item);
        let two = other.map(|other| serialised(after, other)).unwrap_or_default();
        shared_bytes += common(&one, &two);
        let difference = match change {
            Change::Changed | Change::Moved => difference(&one, &two),
            Change::Added => difference(&[], &two),
            Change::Removed => difference(&one, &[]),
        };
        boundary = Some(Boundary {
            first: named.position,
            label: named.label.clone(),
            change,
            tool: at(
                |position| match position {
                    Position::Tool(index) => Some(index),
                    _ => None,
                },
                true,
            ),
            system: at(
                |position| match position {
                    Position::System(index) => Some(index),
                    _ => None,
                },
                true,
            ),
            message: at(
                |position| match position {
                    Position::Message { message, .. } => Some(message),
                    _ => None,
                },
                false,
            ),
            difference,
        });
        break;
    }
    Measure {
        previous_bytes: length(before, before_items),
        bytes: length(after, after_items),
        shared_bytes,
        shared_items,
        boundary,
    }
}

/// The first index at which one kind of items differs. `whole`: a longer list differs too.
fn section_boundary(
    (before, before_items): (&Request, &[&Item]),
    (after, after_items): (&Request, &[&Item]),
    wanted: fn(Position) -> Option<usize>,
    whole: bool,
) -> Option<usize> {
    let one = of_section(before_items, wanted);
    let other = of_section(after_items, wanted);
    let differing = one
        .iter()
        .enumerate()
        .find(|(index, item)| {
            !other
                .get(*index)
                .is_some_and(|other| same(before, item, after, other))
        })
        .and_then(|(_, item)| wanted(item.position));
    differing.or_else(|| {
        let added = other.get(one.len()).filter(|_| whole)?;
        wanted(added.position)
    })
}

fn of_section<'a>(items: &[&'a Item], wanted: fn(Position) -> Option<usize>) -> Vec<&'a Item> {
    items
        .iter()
        .copied()
        .filter(|item| wanted(item.position).is_some())
        .collect()
}

/// The order of the sections in the prefix.
fn section(position: Position) -> u8 {
    match position {
        Position::Tool(_) => 0,
        Position::System(_) => 1,
        Position::Message { .. } => 2,
    }
}

/// Whether two items have the same serialisation.
pub(crate) fn same(before: &Request, item: &Item, after: &Request, other: &Item) -> bool {
    kind(item.position) == kind(other.position)
        && before.length(item) == after.length(other)
        && before.text(item) == after.text(other)
        && before.head(item) == after.head(other)
}

/// What differs between two serialised items, for a reader. Nothing stands for an item that is not there.
fn difference(one: &[u8], two: &[u8]) -> Difference {
    let start = whole_characters(one, common(one, two));
    let (rest, other) = (&one[start..], &two[start..]);
    let mut alike = rest
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    while alike > 0 && rest[rest.len() - alike] & 0xc0 == 0x80 {
        alike -= 1;
    }
    let (previous, then) = rest.split_at(rest.len() - alike);
    let later = &other[..other.len() - alike];
    let whole = previous.len() <= EXCERPT && later.len() <= EXCERPT;
    let from = whole_characters(one, start.saturating_sub(EXCERPT));
    Difference {
        common: show(&one[from..start]),
        previous: shortened(previous),
        later: shortened(later),
        then: if whole { shortened(then) } else { String::new() },
    }
}

fn shortened(text: &[u8]) -> String {
    let end = whole_characters(text, text.len().min(EXCERPT));
    show(&text[..end])
}

/// The text without the bytes of the serialisation itself. An item's kind is the only capital letter that stands before
/// a quote or a brace.
fn show(bytes: &[u8]) -> String {
    use crate::request::{HEAD_END, ITEM_END};
    let bytes = match bytes {
        [b'T' | b'S' | b'M', rest @ ..] if matches!(rest.first(), None | Some(b'{' | b'"' | b'[')) => rest,
        all => all,
    };
    let bytes: Vec<u8> = bytes
        .iter()
        .filter(|byte| **byte != ITEM_END)
        .map(|byte| if *byte == HEAD_END { b' ' } else { *byte })
        .collect();
    visible(&String::from_utf8_lossy(&bytes))
}

/// An item's serialisation: kind, head, text and end.
pub(crate) fn serialised(request: &Request, item: &Item) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(request.length(item));
    bytes.push(kind(item.position));
    let head = request.head(item);
    if !head.is_empty() {
        bytes.extend_from_slice(&head);
        bytes.push(crate::request::HEAD_END);
    }
    bytes.extend_from_slice(&request.text(item));
    bytes.push(crate::request::ITEM_END);
    bytes
}

/// Number of leading bytes that two texts share.
pub fn common(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 4096;
    let length = one.len().min(other.len());
    let mut at = 0;
    while at + STEP <= length && one[at..at + STEP] == other[at..at + STEP] {
        at += STEP;
    }
    at + one[at..length]
        .iter()
        .zip(&other[at..length])
        .take_while(|(a, b)| a == b)
        .count()
}

/// The offset, or the one before it at which a character of UTF-8 begins.
fn whole_characters(text: &[u8], mut at: usize) -> usize {
    while at > 0 && at < text.len() && text[at] & 0xc0 == 0x80 {
        at -= 1;
    }
    at
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
