//! The running words of an answer as blocks of text and thinking that never overlap.
//!
//! Must never know: how an endpoint sends its words.

use std::collections::VecDeque;

use super::ModelEvent;

/// A kind of words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Words {
    /// Visible answer text.
    Text,
    /// Thinking.
    Thinking,
}

/// Opens and closes the blocks of one answer.
#[derive(Default, Debug)]
pub(crate) struct Blocks {
    started: bool,
    open: Option<Words>,
    has_text: bool,
}

impl Blocks {
    /// Whether answer text has come.
    pub(crate) fn has_text(&self) -> bool {
        self.has_text
    }

    /// Puts out a piece of words in a block of its kind; an empty piece says nothing.
    pub(crate) fn emit(&mut self, kind: Words, piece: &str, events: &mut VecDeque<ModelEvent>) {
        if piece.is_empty() {
            return;
        }
        self.start(events);
        if self.open != Some(kind) {
            self.close(events);
            self.open = Some(kind);
            events.push_back(match kind {
                Words::Text => ModelEvent::TextStart,
                Words::Thinking => ModelEvent::ThinkingStart,
            });
        }
        events.push_back(match kind {
            Words::Text => {
                self.has_text = true;
                ModelEvent::TextDelta(piece.into())
            }
            Words::Thinking => ModelEvent::ThinkingDelta(piece.into()),
        });
    }

    /// `Start` waits for the first thing to show: until then the same request can still be sent again.
    pub(crate) fn start(&mut self, events: &mut VecDeque<ModelEvent>) {
        if !self.started {
            self.started = true;
            events.push_back(ModelEvent::Start);
        }
    }

    /// Closes the open block, if any.
    pub(crate) fn close(&mut self, events: &mut VecDeque<ModelEvent>) {
        match self.open.take() {
            None => {}
            Some(Words::Text) => events.push_back(ModelEvent::TextEnd),
            Some(Words::Thinking) => events.push_back(ModelEvent::ThinkingEnd),
        }
    }
}
