//! One model call, read strictly: a sequence of events either becomes one whole output, or a failure of which nothing
//! is kept.
//!
//! Owns the rules of a correct sequence and the identity of calls in the history. Must never know: which endpoint
//! the events come from.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;

use crate::client::ClientEvent;
use crate::model::{
    Assistant, CallId, ProviderFailure, ProviderFault, Reasoning, ReplayState, ToolCall, Usage,
};
use crate::provider::{ModelEvent, StopReason};

/// What a completed model call produced.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelOutput {
    /// Text, reasoning and replay state.
    pub said: Assistant,
    /// Complete calls in the model's order; empty for an answer.
    pub calls: Vec<ToolCall>,
    /// What the provider reported.
    pub usage: Option<Usage>,
}

/// A model call that did not complete. The partial values serve diagnosis only; none enters the history.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelCycleFailure {
    /// Why.
    pub failure: ProviderFailure,
    /// Number of characters of answer text that had come.
    pub partial_text: usize,
    /// Number of characters of thinking that had come.
    pub partial_reasoning: usize,
    /// What the provider had reported.
    pub usage: Option<Usage>,
}

/// The strict reader of one model call.
#[derive(Debug)]
pub struct ModelCycle {
    /// Ids of the calls in the history.
    earlier_ids: Arc<HashSet<CallId>>,
    /// Ids of this answer's calls.
    own_ids: HashSet<CallId>,
    text: Block,
    reasoning: Block,
    thinking_since: Option<Instant>,
    calls: Vec<CallInProgress>,
    replay: Option<ReplayState>,
    usage: Option<Usage>,
    announced: bool,
    started: bool,
    done: Option<StopReason>,
}

#[derive(Debug, Default)]
struct Block {
    text: String,
    open: bool,
    seen: bool,
}

#[derive(Debug)]
struct CallInProgress {
    id: CallId,
    name: Arc<str>,
    arguments: String,
    ended: bool,
}

impl ModelCycle {
    /// Starts to read a call whose history already holds the given call ids.
    pub fn new(earlier_ids: Arc<HashSet<CallId>>) -> Self {
        Self {
            earlier_ids,
            own_ids: HashSet::new(),
            text: Block::default(),
            reasoning: Block::default(),
            thinking_since: None,
            calls: Vec::new(),
            replay: None,
            usage: None,
            announced: false,
            started: false,
            done: None,
        }
    }

    /// Takes the next event. Returns what the client shall be told of it.
    ///
    /// # Errors
    /// A `Malformed` failure that names the broken rule.
    pub fn push(&mut self, event: ModelEvent) -> Result<Option<ClientEvent>, ProviderFailure> {
        if self.done.is_some() {
            return Err(broken("an event followed the end of the answer"));
        }
        Ok(match event {
            ModelEvent::Sending(_) if self.started => {
                return Err(broken("a request was announced after its answer had begun"));
            }
            ModelEvent::Sending(_) => {
                self.announced = true;
                None
            }
            _ if !self.announced => {
                return Err(broken("the answer began to a request that was not announced"));
            }
            ModelEvent::Start if self.started => return Err(broken("the answer started twice")),
            ModelEvent::Start => {
                self.started = true;
                None
            }
            ModelEvent::TextStart => {
                self.text.start("answer text")?;
                Some(ClientEvent::TextStart)
            }
            ModelEvent::TextDelta(delta) => {
                self.text.push(&delta, "answer text")?;
                Some(ClientEvent::TextDelta(delta))
            }
            ModelEvent::TextEnd => {
                self.text.end("answer text")?;
                Some(ClientEvent::TextEnd)
            }
            ModelEvent::ThinkingStart => {
                self.reasoning.start("thinking")?;
                self.thinking_since = Some(Instant::now());
                Some(ClientEvent::ThinkingStart)
            }
            ModelEvent::ThinkingDelta(delta) => {
                self.reasoning.push(&delta, "thinking")?;
                Some(ClientEvent::ThinkingDelta(delta))
            }
            ModelEvent::ThinkingEnd => {
                self.reasoning.end("thinking")?;
                let duration = self
                    .thinking_since
                    .take()
                    .map(|since| since.elapsed())
                    .unwrap_or_default();
                Some(ClientEvent::ThinkingEnd { duration })
            }
            ModelEvent::ToolCallStart { index, id, name } => {
                if index != self.calls.len() {
                    return Err(broken("a tool call started twice or out of order"));
                }
                if name.is_empty() {
                    return Err(broken("a tool call has no name"));
                }
                let id = self.claim(id);
                self.calls.push(CallInProgress {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: String::new(),
                    ended: false,
                });
                Some(ClientEvent::ToolCallStart { call: id, name })
            }
            ModelEvent::ToolCallArguments { index, delta } => {
                let call = open_call(&mut self.calls, index)?;
                call.arguments.push_str(&delta);
                Some(ClientEvent::ToolCallArguments {
                    call: call.id.clone(),
                    delta,
                })
            }
            ModelEvent::ToolCallEnd { index } => {
                let call = open_call(&mut self.calls, index)?;
                call.ended = true;
                if serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_err() {
                    return Err(broken("a tool call's arguments are not valid JSON"));
                }
                None
            }
            ModelEvent::ReplayState(state) => {
                if self.replay.replace(state).is_some() {
                    return Err(broken("the replay state came twice"));
                }
                None
            }
            ModelEvent::Usage(usage) => {
                if self.usage.replace(usage).is_some() {
                    return Err(broken("the token counts came twice"));
                }
                Some(ClientEvent::Usage(usage))
            }
            ModelEvent::Done(reason) => {
                if self.text.open || self.reasoning.open || self.calls.iter().any(|call| !call.ended) {
                    return Err(broken("the answer ended inside a block"));
                }
                match (reason, self.calls.is_empty()) {
                    (StopReason::Stop, false) => return Err(broken("a plain end came with tool calls")),
                    (StopReason::ToolUse, true) => return Err(broken("a tool end came without a tool call")),
                    _ => self.done = Some(reason),
                }
                None
            }
        })
    }

    /// The output, once the stream has ended.
    ///
    /// # Errors
    /// A `Cut` failure where no terminal event came.
    pub fn finish(self) -> Result<ModelOutput, Box<ModelCycleFailure>> {
        if self.done.is_none() {
            return Err(Box::new(self.fail(ProviderFailure::new(
                ProviderFault::Cut,
                "The model's answer was cut off before its end. Nothing of it was kept; send the message again.",
            ))));
        }
        let reasoning = self.reasoning.seen.then(|| Reasoning {
            text: self.reasoning.text.into(),
            foreign_signature: None,
        });
        Ok(ModelOutput {
            said: Assistant {
                text: self.text.text.into(),
                reasoning,
                replay: self.replay,
            },
            calls: self
                .calls
                .into_iter()
                .map(|call| ToolCall {
                    id: call.id,
                    name: call.name,
                    arguments: call.arguments.into(),
                })
                .collect(),
            usage: self.usage,
        })
    }

    /// Joins a failure with what had come before it.
    pub fn fail(self, failure: ProviderFailure) -> ModelCycleFailure {
        ModelCycleFailure {
            failure,
            partial_text: self.text.text.chars().count(),
            partial_reasoning: self.reasoning.text.chars().count(),
            usage: self.usage,
        }
    }

    /// Gives the call an id that no other call in the history has: the model's own where it is free, else a fixed
    /// variation of it. Decided once, stored, and the same in every replay.
    fn claim(&mut self, id: Option<Arc<str>>) -> CallId {
        let wanted = match id.filter(|id| !id.is_empty()) {
            Some(id) => id,
            None => format!("call_{}", self.earlier_ids.len() + self.own_ids.len() + 1).into(),
        };
        let mut candidate = CallId::new(wanted.clone());
        let mut number = 2;
        while self.earlier_ids.contains(&candidate) || !self.own_ids.insert(candidate.clone()) {
            candidate = CallId::new(format!("{wanted}-{number}"));
            number += 1;
        }
        candidate
    }
}

impl Block {
    fn start(&mut self, what: &str) -> Result<(), ProviderFailure> {
        if self.open {
            return Err(broken(&format!("the {what} started twice")));
        }
        self.open = true;
        self.seen = true;
        Ok(())
    }

    fn push(&mut self, delta: &str, what: &str) -> Result<(), ProviderFailure> {
        if !self.open {
            return Err(broken(&format!("a piece of the {what} came outside its block")));
        }
        self.text.push_str(delta);
        Ok(())
    }

    fn end(&mut self, what: &str) -> Result<(), ProviderFailure> {
        if !self.open {
            return Err(broken(&format!("the {what} ended without a start")));
        }
        self.open = false;
        Ok(())
    }
}

fn open_call(calls: &mut [CallInProgress], index: usize) -> Result<&mut CallInProgress, ProviderFailure> {
    match calls.get_mut(index) {
        Some(call) if !call.ended => Ok(call),
        Some(_) => Err(broken("a tool call went on after its end")),
        None => Err(broken("a piece of an unknown tool call came")),
    }
}

fn broken(rule: &str) -> ProviderFailure {
    ProviderFailure::new(
        ProviderFault::Malformed,
        format!("The endpoint's answer cannot be trusted: {rule}. Nothing of it was kept."),
    )
}

#[cfg(test)]
#[path = "model_cycle_tests.rs"]
mod tests;
