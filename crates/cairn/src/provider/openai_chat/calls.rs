//! Tool calls put together from their pieces, however an endpoint numbers them.
//!
//! Owns which piece belongs to which call, and that a call is announced only with its name and id known and in order of
//! first sight. Must never know: text, thinking or why the answer ended.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::wire::{CallPiece, FunctionPiece};
use crate::provider::ModelEvent;
use crate::provider::arguments::{close, may_be_empty};
use crate::provider::stream_text::{PendingHalf, StreamText};

/// What an endpoint's own numbering says about a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Index(u64),
    /// No index and no id, but several pieces in one delta: their place tells them apart.
    Place(usize),
    /// The one call of the form before `tool_calls`.
    Legacy,
}

#[derive(Debug)]
struct Call {
    key: Option<Key>,
    id: Option<Arc<str>>,
    name: String,
    arguments: String,
    /// What `arguments` still lacks of the last piece.
    half: PendingHalf,
    /// The arguments came as one object: nothing may follow.
    whole: bool,
    /// Bytes of `arguments` that are out as events.
    emitted: usize,
}

/// The calls of one answer.
#[derive(Debug)]
pub(super) struct Calls {
    /// Whether the endpoint's numbers of pieces mean anything.
    trusts_index: bool,
    /// In order of first sight.
    calls: Vec<Call>,
    /// How many of them have been announced; always the first ones.
    announced: usize,
}

/// One piece, with everything empty taken as absent.
struct Piece<'a> {
    key: Option<Key>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Arguments<'a>,
}

enum Arguments<'a> {
    None,
    Text(StreamText<'a>),
    Object(&'a str),
}

impl Calls {
    /// No calls yet. `trusts_index` says whether an endpoint's numbers tell its calls apart; otherwise ids, names and the
    /// order do.
    pub(super) fn new(trusts_index: bool) -> Self {
        Self {
            trusts_index,
            calls: Vec::new(),
            announced: 0,
        }
    }

    /// How many calls have been seen.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Takes the pieces of one delta. Errors say what the endpoint did wrong.
    pub(super) fn add(
        &mut self,
        pieces: &[CallPiece<'_>],
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        for (place, piece) in pieces.iter().enumerate() {
            let id = piece
                .id
                .as_ref()
                .map(|id| id.0.as_ref())
                .filter(|id| !id.is_empty());
            let key = match piece.index.filter(|_| self.trusts_index) {
                Some(index) => Some(Key::Index(index)),
                None if id.is_none() && pieces.len() > 1 => Some(Key::Place(place)),
                None => None,
            };
            self.add_piece(key, id, piece.function.as_ref(), events)?;
        }
        Ok(())
    }

    /// Takes a piece of the form before `tool_calls`.
    pub(super) fn add_legacy(
        &mut self,
        piece: &FunctionPiece<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        self.add_piece(Some(Key::Legacy), None, Some(piece), events)
    }

    /// The endpoint has ended its answer: checks that every call is whole, announces the rest and ends all.
    pub(super) fn close(&mut self, events: &mut VecDeque<ModelEvent>) -> Result<(), String> {
        for (index, call) in self.calls.iter_mut().enumerate() {
            close(index, &call.name, &mut call.arguments, &call.half)?;
        }
        while self.announced < self.calls.len() {
            self.announce(events);
        }
        for (index, call) in self.calls.iter_mut().enumerate() {
            call.emit(index, events);
            events.push_back(ModelEvent::ToolCallEnd { index });
        }
        Ok(())
    }

    fn add_piece(
        &mut self,
        key: Option<Key>,
        id: Option<&str>,
        function: Option<&FunctionPiece<'_>>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let piece = Piece::new(key, id, function)?;
        let at = match self.find(&piece) {
            Some(at) if self.calls[at].takes(&piece) => at,
            _ => {
                self.calls.push(Call::new(piece.key));
                self.calls.len() - 1
            }
        };
        let is_announced = at < self.announced;
        self.calls[at].take(&piece, at, is_announced)?;
        while self.can_announce() {
            self.announce(events);
        }
        for (index, call) in self.calls.iter_mut().take(self.announced).enumerate() {
            if !may_be_empty(&call.arguments) {
                call.emit(index, events);
            }
        }
        Ok(())
    }

    /// The call that the piece would go on with, by what identifies it.
    fn find(&self, piece: &Piece<'_>) -> Option<usize> {
        if piece.key.is_some() {
            return self.calls.iter().rposition(|call| call.key == piece.key);
        }
        let last = self.calls.len().checked_sub(1);
        match piece.id {
            // An id that comes after its name belongs to the last call, if that has none yet.
            Some(id) => self
                .calls
                .iter()
                .rposition(|call| call.id.as_deref() == Some(id))
                .or_else(|| last.filter(|at| piece.name.is_none() && self.calls[*at].id.is_none())),
            None => last,
        }
    }

    /// The next call can be announced once nothing that the announcement says can still change: its id is known, and its
    /// arguments or a later call have begun, so that its name is whole.
    fn can_announce(&self) -> bool {
        let is_last = self.announced + 1 == self.calls.len();
        self.calls.get(self.announced).is_some_and(|call| {
            !call.name.is_empty() && call.id.is_some() && (!is_last || !call.arguments.is_empty())
        })
    }

    fn announce(&mut self, events: &mut VecDeque<ModelEvent>) {
        let call = &self.calls[self.announced];
        events.push_back(ModelEvent::ToolCallStart {
            index: self.announced,
            id: call.id.clone(),
            name: call.name.as_str().into(),
        });
        self.announced += 1;
    }
}

impl<'a> Piece<'a> {
    fn new(
        key: Option<Key>,
        id: Option<&'a str>,
        function: Option<&'a FunctionPiece<'_>>,
    ) -> Result<Self, String> {
        let raw = function
            .and_then(|function| function.arguments)
            .map(|raw| raw.get());
        let arguments = match raw {
            None => Arguments::None,
            Some(raw) if raw.starts_with('{') => Arguments::Object(raw),
            Some(raw) if raw.starts_with('"') => match serde_json::from_str::<StreamText<'a>>(raw) {
                Ok(text) if text.is_empty() => Arguments::None,
                Ok(text) => Arguments::Text(text),
                Err(fault) => return Err(format!("a tool call's arguments cannot be read: {fault}")),
            },
            Some(_) => return Err("a tool call's arguments are neither text nor an object".to_owned()),
        };
        Ok(Self {
            key,
            id,
            name: function
                .and_then(|function| function.name.as_ref())
                .map(|name| name.0.as_ref())
                .filter(|name| !name.is_empty()),
            arguments,
        })
    }

    fn has_arguments(&self) -> bool {
        match &self.arguments {
            Arguments::None => false,
            Arguments::Text(text) => !text.is_blank(),
            Arguments::Object(_) => true,
        }
    }
}

impl Call {
    fn new(key: Option<Key>) -> Self {
        Self {
            key,
            id: None,
            name: String::new(),
            arguments: String::new(),
            half: PendingHalf::default(),
            whole: false,
            emitted: 0,
        }
    }

    /// Whether a piece with this call's number goes on with it; if not, it opens a new call.
    fn takes(&self, piece: &Piece<'_>) -> bool {
        let Some(name) = piece.name else {
            // Without a name nothing new can begin. An id that changes on the way is the endpoint's slip.
            return true;
        };
        let is_new_id = matches!((piece.id, self.id.as_deref()), (Some(new), Some(known)) if new != known);
        if is_new_id {
            return false;
        }
        if self.name.is_empty() {
            return true;
        }
        let is_new_name = name != self.name;
        if (is_new_name || piece.has_arguments()) && self.is_complete() {
            return false;
        }
        // Without any number a second name is a second call.
        !(is_new_name && piece.key.is_none() && piece.id.is_none())
    }

    fn is_complete(&self) -> bool {
        self.arguments.trim_end().ends_with('}')
            && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }

    fn take(&mut self, piece: &Piece<'_>, index: usize, is_announced: bool) -> Result<(), String> {
        if self.id.is_none() {
            self.id = piece.id.map(Arc::from);
        }
        if let Some(name) = piece.name
            && name != self.name
        {
            if is_announced || !self.arguments.is_empty() && !self.name.is_empty() {
                return Err(format!("tool call {index} changed its name on the way"));
            }
            // Either the first sight of the name or a further fragment of it.
            self.name.push_str(name);
        }
        match &piece.arguments {
            Arguments::None => {}
            Arguments::Text(text) if self.whole && text.is_blank() => {}
            Arguments::Text(text) if !self.whole => {
                let text = self.half.join(text);
                let text =
                    text.map_err(|fault| fault.in_channel(&format!("the arguments of tool call {index}")))?;
                self.arguments.push_str(&text);
            }
            Arguments::Object(raw) if self.arguments.trim().is_empty() => {
                self.arguments = (*raw).to_owned();
                self.whole = true;
            }
            Arguments::Text(_) | Arguments::Object(_) => {
                return Err(format!(
                    "tool call {index} got more arguments after an argument object"
                ));
            }
        }
        Ok(())
    }

    fn emit(&mut self, index: usize, events: &mut VecDeque<ModelEvent>) {
        if self.emitted < self.arguments.len() {
            events.push_back(ModelEvent::ToolCallArguments {
                index,
                delta: self.arguments[self.emitted..].into(),
            });
            self.emitted = self.arguments.len();
        }
    }
}
