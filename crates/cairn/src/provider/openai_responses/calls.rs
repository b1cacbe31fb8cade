//! The tool calls of one answer: announced in order, their arguments handed on as they come, and ended once whole.
//!
//! Must never know: how an endpoint numbers its items.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::provider::ModelEvent;
use crate::provider::arguments::{close, is_empty, may_be_empty};
use crate::provider::blocks::Blocks;
use crate::provider::stream_text::{PendingHalf, StreamText};

#[derive(Debug, Default)]
struct Call {
    /// What pairs the call with its output.
    id: Option<Arc<str>>,
    name: String,
    arguments: String,
    /// What `arguments` still lacks of the last piece.
    half: PendingHalf,
    /// The arguments came as a whole: pieces that come later are late.
    whole: bool,
    /// Bytes of `arguments` that are out as events.
    emitted: usize,
    done: bool,
    ended: bool,
}

/// The calls of one answer, in order of first sight.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// How many of them have been announced; always the first ones.
    announced: usize,
}

impl Calls {
    /// How many calls have been seen.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// A further call; gives its place.
    pub(super) fn open(&mut self) -> usize {
        self.calls.push(Call::default());
        self.calls.len() - 1
    }

    /// Whether the call at this place has this id.
    pub(super) fn has_id(&self, at: usize, id: &str) -> bool {
        self.calls[at].id.as_deref() == Some(id)
    }

    /// What a call is called. What is known is not overwritten: the person has seen it.
    pub(super) fn name(
        &mut self,
        at: usize,
        id: Option<&str>,
        name: Option<&str>,
        blocks: &mut Blocks,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let call = &mut self.calls[at];
        if call.id.is_none() {
            call.id = id.map(Arc::from);
        }
        match name {
            Some(name) if call.name.is_empty() => call.name = name.to_owned(),
            Some(name) if call.name != name => {
                return Err(format!("tool call {at} changed its name on the way"));
            }
            _ => {}
        }
        self.settle(blocks, events);
        Ok(())
    }

    /// A piece of a call's arguments.
    pub(super) fn add_arguments(
        &mut self,
        at: usize,
        piece: &StreamText<'_>,
        blocks: &mut Blocks,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let call = &mut self.calls[at];
        if !call.whole && !call.done {
            let piece = call.half.join(piece);
            let piece =
                piece.map_err(|fault| fault.in_channel(&format!("the arguments of tool call {at}")))?;
            call.arguments.push_str(&piece);
            self.settle(blocks, events);
        }
        Ok(())
    }

    /// A call's arguments as a whole; empty where only the pieces say them.
    pub(super) fn set_arguments(
        &mut self,
        at: usize,
        arguments: &str,
        blocks: &mut Blocks,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let call = &mut self.calls[at];
        if is_empty(arguments) && !is_empty(&call.arguments) {
            return Ok(());
        }
        if !arguments.starts_with(&call.arguments[..call.emitted]) {
            return Err(format!(
                "the pieces of the arguments of tool call {at} ({}) do not add up to the whole",
                call.name
            ));
        }
        call.arguments = arguments.to_owned();
        call.half = PendingHalf::default();
        call.whole = true;
        self.settle(blocks, events);
        Ok(())
    }

    /// A call is whole: checks it and ends it.
    pub(super) fn finish(
        &mut self,
        at: usize,
        blocks: &mut Blocks,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        let call = &mut self.calls[at];
        close(at, &call.name, &mut call.arguments, &call.half)?;
        call.done = true;
        self.settle(blocks, events);
        Ok(())
    }

    /// The endpoint has ended its answer: ends what it left open.
    pub(super) fn close(
        &mut self,
        blocks: &mut Blocks,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), String> {
        (0..self.calls.len())
            .filter(|at| !self.calls[*at].done)
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|at| self.finish(at, blocks, events))
    }

    /// Puts out what has become certain: a call is announced once its name and id are known and all before it are out.
    fn settle(&mut self, blocks: &mut Blocks, events: &mut VecDeque<ModelEvent>) {
        while let Some(call) = self.calls.get(self.announced) {
            if call.name.is_empty() || call.id.is_none() && !call.done {
                break;
            }
            blocks.start(events);
            blocks.close(events);
            events.push_back(ModelEvent::ToolCallStart {
                index: self.announced,
                id: call.id.clone(),
                name: call.name.as_str().into(),
            });
            self.announced += 1;
        }
        for (index, call) in self.calls.iter_mut().take(self.announced).enumerate() {
            if call.ended || !call.done && may_be_empty(&call.arguments) {
                continue;
            }
            if call.emitted < call.arguments.len() {
                events.push_back(ModelEvent::ToolCallArguments {
                    index,
                    delta: call.arguments[call.emitted..].into(),
                });
                call.emitted = call.arguments.len();
            }
            if call.done {
                call.ended = true;
                events.push_back(ModelEvent::ToolCallEnd { index });
            }
        }
    }
}
