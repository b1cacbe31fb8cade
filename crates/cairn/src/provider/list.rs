//! The list with which a body of OpenAI's APIs ends: one entry after the other, of which nothing that follows changes a byte.
//!
//! Must never know: what an entry says.

use std::ops::Range;

use bytes::Bytes;

use super::json::Json;
use super::sent::{self, Decided};
use crate::model::{ItemDigest, ItemKind};

/// What follows the last entry.
const END: &str = "]}";

/// A body that is whole, and where its parts are.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) body: Bytes,
    /// Everything before the list.
    pub(crate) head: Range<usize>,
    pub(crate) entries: Vec<Range<usize>>,
    /// What the request is remembered by.
    pub(crate) digests: Vec<ItemDigest>,
}

/// A body under construction.
#[derive(Debug)]
pub(crate) struct List {
    json: Json,
    head: Range<usize>,
    entries: Vec<Range<usize>>,
    digests: Vec<ItemDigest>,
}

impl List {
    /// Begins the list under this name behind its head, of which `digests` are known already.
    pub(crate) fn begin(mut json: Json, digests: Vec<ItemDigest>, name: &str) -> Self {
        let head = 0..json.bytes.len();
        json.raw(&format!("\"{name}\":["));
        Self {
            json,
            head,
            entries: Vec::new(),
            digests,
        }
    }

    /// Takes up a whole body again. Copies none of its bytes if nobody else holds them.
    pub(crate) fn reopen(whole: Whole) -> Self {
        let mut bytes = Vec::from(whole.body);
        bytes.truncate(bytes.len() - END.len());
        Self {
            json: Json { bytes },
            head: whole.head,
            entries: whole.entries,
            digests: whole.digests,
        }
    }

    /// Appends the instructions.
    pub(crate) fn instructions(&mut self, write: impl FnOnce(&mut Json)) {
        let start = self.start();
        write(&mut self.json);
        let digest = sent::item(ItemKind::Instructions, &self.json.bytes[start..]);
        self.end_entry(start, digest);
    }

    /// Appends a message, of which `write` says what the settings decide, by places in the message.
    pub(crate) fn message<E>(
        &mut self,
        write: impl FnOnce(&mut Json) -> Result<Decided, E>,
    ) -> Result<(), E> {
        let start = self.start();
        let decided = write(&mut self.json)?;
        let digest = sent::message(&self.json.bytes[start..], decided);
        self.end_entry(start, digest);
        Ok(())
    }

    fn start(&mut self) -> usize {
        if !self.entries.is_empty() {
            self.json.raw(",");
        }
        self.json.bytes.len()
    }

    fn end_entry(&mut self, start: usize, digest: ItemDigest) {
        self.entries.push(start..self.json.bytes.len());
        self.digests.push(digest);
    }

    /// Ends the body.
    pub(crate) fn end(mut self) -> Whole {
        self.json.raw(END);
        Whole {
            body: self.json.bytes.into(),
            head: self.head,
            entries: self.entries,
            digests: self.digests,
        }
    }
}
