//! The `messages` of a body under construction: blocks joined into messages, and marked for the cache at the end.
//!
//! Owns where each block and message lies, and that no message is empty. Must never know: what a block says.

use std::ops::Range;

use super::cache;
use super::profile::CacheMode;
use crate::model::{ItemDigest, Part};
use crate::provider::json::Json;
use crate::provider::sent::{self, Decided};

/// Who speaks in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    User,
    Assistant,
}

/// A body whose messages are being written.
#[derive(Debug)]
pub(super) struct Messages {
    json: Json,
    role: Role,
    /// Where the message that is being written began; `None` until its first block.
    open: Option<usize>,
    /// What of that message follows from the settings.
    decided: Decided,
    done: Vec<Range<usize>>,
    /// What the body is remembered by so far: what comes before the messages, then those that are done, all unmarked.
    items: Vec<ItemDigest>,
    /// Where each block's closing brace is.
    ends: Vec<usize>,
    /// Whether each block may be marked for the cache.
    markable: Vec<bool>,
    /// The index of the first block of each assistant message.
    steps: Vec<usize>,
}

/// A finished body and where its messages lie.
pub(super) struct Finished {
    pub(super) body: Vec<u8>,
    pub(super) messages: Vec<Range<usize>>,
}

impl Messages {
    /// Goes on after everything that comes before the messages, which is remembered by these items.
    pub(super) fn new(mut head: Json, items: Vec<ItemDigest>) -> Self {
        head.raw("\"messages\":[");
        Self {
            json: head,
            role: Role::User,
            open: None,
            decided: Decided::Nothing,
            done: Vec::new(),
            items,
            ends: Vec::new(),
            markable: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Ends the message before and begins one of this role. It comes into being with its first block.
    pub(super) fn begin(&mut self, role: Role) {
        self.close();
        self.role = role;
    }

    /// Adds a block that `write` writes as one JSON object. Thinking cannot be marked.
    pub(super) fn block(&mut self, is_markable: bool, write: impl FnOnce(&mut Json)) {
        match self.open {
            Some(_) => self.json.raw(","),
            None => {
                if !self.done.is_empty() {
                    self.json.raw(",");
                }
                self.open = Some(self.json.bytes.len());
                self.json.raw(match self.role {
                    Role::User => r#"{"role":"user","content":["#,
                    Role::Assistant => r#"{"role":"assistant","content":["#,
                });
                if self.role == Role::Assistant {
                    self.steps.push(self.ends.len());
                }
            }
        }
        write(&mut self.json);
        self.ends.push(self.json.bytes.len() - 1);
        self.markable.push(is_markable);
    }

    /// What the body is remembered by. The last message must be closed.
    pub(super) fn items(&self) -> &[ItemDigest] {
        &self.items
    }

    /// Bytes so far.
    pub(super) fn size(&self) -> usize {
        self.json.bytes.len()
    }

    /// The whole body with its end, marked for the cache: one copy of what was written. The last message must be closed.
    pub(super) fn finish(&self, mode: CacheMode, marker: &str) -> Finished {
        let mut marked = match mode {
            CacheMode::Off => Vec::new(),
            CacheMode::Automatic | CacheMode::Explicit => cache::bridges(&self.markable, &self.steps),
        };
        if mode == CacheMode::Explicit
            && let Some(end) = cache::end(&self.markable)
            && marked.last() != Some(&end)
        {
            marked.push(end);
        }
        let places: Vec<usize> = marked.iter().map(|index| self.ends[*index]).collect();
        insert(
            &self.json.bytes,
            &self.done,
            &places,
            &format!(",\"cache_control\":{marker}"),
        )
    }

    /// Says that how the message that is being written is written follows from the settings, if it has pictures among
    /// these parts.
    pub(super) fn decided_by(&mut self, parts: &[Part]) {
        if let decided @ Decided::Everything = Decided::of_parts(parts) {
            self.decided = decided;
        }
    }

    /// Ends the message that is being written, if any.
    pub(super) fn close(&mut self) {
        let decided = std::mem::replace(&mut self.decided, Decided::Nothing);
        if let Some(start) = self.open.take() {
            self.json.raw("]}");
            self.items.push(sent::message(&self.json.bytes[start..], decided));
            self.done.push(start..self.json.bytes.len());
        }
    }
}

/// Puts the member in at these places, which are in order, and the body's end after everything.
fn insert(bytes: &[u8], messages: &[Range<usize>], places: &[usize], member: &str) -> Finished {
    const END: &[u8] = b"]}";
    let mut body = Vec::with_capacity(bytes.len() + places.len() * member.len() + END.len());
    let mut copied = 0;
    for place in places {
        body.extend_from_slice(&bytes[copied..*place]);
        body.extend_from_slice(member.as_bytes());
        copied = *place;
    }
    body.extend_from_slice(&bytes[copied..]);
    body.extend_from_slice(END);
    let moved = |at: usize| at + member.len() * places.iter().filter(|place| **place < at).count();
    let messages = messages
        .iter()
        .map(|range| moved(range.start)..moved(range.end))
        .collect();
    Finished { body, messages }
}
