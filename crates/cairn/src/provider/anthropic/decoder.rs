//! From the events of a Messages stream to the one sequence of model events.
//!
//! Strict: an answer is whole only by `message_stop`, a known event that cannot be read or comes out of turn is an error,
//! and only events of unknown types are passed over. Must never know: how the bytes came.

use std::collections::VecDeque;
use std::sync::Arc;

use super::finish::{Finish, Outcome};
use super::profile::AnthropicProfile;
use super::replay::BlockRecord;
use super::wire::{ContentBlock, Delta, Event, Message, Text, Typed, UsageReport};
use crate::model::{ProviderFailure, ProviderFault, ReplayState, Usage};
use crate::provider::arguments::{check, is_empty, may_be_empty};
use crate::provider::call::Progress;
use crate::provider::endpoint::Endpoint;
use crate::provider::sse::SseEvent;
use crate::provider::stream_text::{LoneHalf, PendingHalf, StreamText};
use crate::provider::{ModelEvent, StopReason};

/// Decodes one answer.
#[derive(Debug)]
pub struct AnthropicDecoder {
    endpoint: Arc<Endpoint>,
    /// The id of the message once `message_start` has come.
    message: Option<Option<String>>,
    /// `Start` is out.
    started: bool,
    open: Option<(u64, Block)>,
    /// The index of the newest block.
    last_index: Option<u64>,
    calls: usize,
    has_text: bool,
    /// What the open block still lacks of its last delta.
    half: PendingHalf,
    /// The first block that is not whole. Told only at the end: an answer that was cut at its limit is no breach.
    broken_block: Option<String>,
    record: BlockRecord,
    usage: Usage,
    finish: Option<Finish>,
    is_over: bool,
}

/// The block that is open.
#[derive(Debug)]
enum Block {
    Text {
        /// Bytes so far.
        bytes: usize,
    },
    Thinking {
        thinking: String,
        /// Absent until the endpoint has sent the field.
        signature: Option<String>,
    },
    Call {
        index: usize,
        name: String,
        arguments: String,
        /// The endpoint sent the whole input with the block's start.
        is_whole: bool,
        /// Bytes of `arguments` that are out as events.
        emitted: usize,
    },
    /// Complete with its start, and recorded.
    Whole { kind: String },
}

/// A block's delta that its block cannot take, or a block that the API does not have so.
struct Breach(String);

impl AnthropicDecoder {
    /// A decoder for one answer of the profile's endpoint.
    pub fn new(profile: &AnthropicProfile) -> Self {
        Self {
            endpoint: Arc::clone(&profile.endpoint),
            message: None,
            started: false,
            open: None,
            last_index: None,
            calls: 0,
            has_text: false,
            half: PendingHalf::default(),
            broken_block: None,
            record: BlockRecord::default(),
            usage: Usage::default(),
            finish: None,
            is_over: false,
        }
    }

    /// Decodes the next event of the stream into `events`. After an error or `Done` the decoder is spent.
    pub fn push(
        &mut self,
        event: SseEvent<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderFailure> {
        if self.is_over {
            return Ok(Progress::Done);
        }
        let data = event.data.trim();
        if data.is_empty() && event.name != "error" {
            return Ok(Progress::Open);
        }
        let parsed: Event<'_> = match serde_json::from_str(data) {
            Ok(parsed) => parsed,
            _ if event.name == "error" => return Err(self.endpoint.failure_in_stream(data)),
            // The end of the stream cut this event; what came before it decides.
            Err(_) if event.unterminated => return Ok(Progress::Open),
            // An end mark of another API, which some gateways add.
            Err(_) if data.starts_with("[DONE]") => return self.finish(),
            Err(_) if is_unknown(event.name, data) => return Ok(Progress::Open),
            Err(fault) => return Err(self.malformed(&format!("an event cannot be read: {fault}"))),
        };
        let kind = parsed.kind.as_ref().map_or("", |kind| kind.0.as_ref());
        if event.name == "error" || kind == "error" || parsed.error.is_some_and(|error| error.get() != "null")
        {
            return Err(self.endpoint.failure_in_stream(data));
        }
        match kind {
            "message_start" => self.start_message(parsed.message).map(|()| Progress::Open),
            "message_stop" => self.close(events),
            "ping" => Ok(Progress::Open),
            "content_block_start" | "content_block_delta" | "content_block_stop" | "message_delta"
                if self.message.is_none() =>
            {
                Err(self.malformed(&format!("{kind} came before message_start")))
            }
            "content_block_start" => self
                .start_block(parsed.index, parsed.content_block.map(|raw| raw.get()), events)
                .map(|()| Progress::Open)
                .map_err(|Breach(breach)| self.malformed(&breach)),
            "content_block_delta" => self
                .take_delta(parsed.index, parsed.delta, events)
                .map(|()| Progress::Open)
                .map_err(|Breach(breach)| self.malformed(&breach)),
            "content_block_stop" => self
                .stop_block(parsed.index, events)
                .map(|()| Progress::Open)
                .map_err(|Breach(breach)| self.malformed(&breach)),
            "message_delta" => {
                self.take_usage(parsed.usage);
                match parsed.delta {
                    Some(delta) => self.take_finish(delta)?,
                    None if parsed.usage.is_none() => {
                        return Err(self.malformed("message_delta says nothing"));
                    }
                    None => {}
                }
                Ok(Progress::Open)
            }
            "" if matches!(event.name, "" | "message") => Err(self
                .endpoint
                .wrong_api("an event of the stream is none of the Messages API; check api and base_url")),
            _ => {
                tracing::debug!(kind, name = event.name, "event of an unknown type passed over");
                Ok(Progress::Open)
            }
        }
    }

    /// The stream is over: a failure, unless `Done` is out.
    pub fn finish(&mut self) -> Result<Progress, ProviderFailure> {
        if self.is_over {
            return Ok(Progress::Done);
        }
        self.is_over = true;
        Err(self.endpoint.failure(
            ProviderFault::Cut,
            "the stream ended without message_stop, so the answer may be cut; try again",
        ))
    }

    fn start_message(&mut self, message: Option<Message<'_>>) -> Result<(), ProviderFailure> {
        let Some(message) = message else {
            return Err(self.malformed("message_start holds no message"));
        };
        if message.content.is_some_and(|content| !content.is_empty()) {
            return Err(self.malformed("message_start holds content that should be streamed"));
        }
        let id = message.id.map(|id| id.0.into_owned());
        match &self.message {
            None => self.message = Some(id),
            Some(known) if *known == id => {}
            Some(_) => return Err(self.malformed("a second message began within the first")),
        }
        self.take_usage(message.usage);
        Ok(())
    }

    fn start_block(
        &mut self,
        index: Option<u64>,
        raw: Option<&str>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), Breach> {
        let index = index.ok_or_else(|| Breach("content_block_start has no index".to_owned()))?;
        let raw = raw.ok_or_else(|| Breach("content_block_start holds no block".to_owned()))?;
        if let Some((open, _)) = &self.open {
            return Err(Breach(format!(
                "content block {index} began before block {open} ended"
            )));
        }
        if self.last_index.is_some_and(|last| index <= last) {
            return Err(Breach(format!(
                "content block {index} came twice or out of order"
            )));
        }
        if self.finish.is_some() {
            return Err(Breach(format!(
                "content block {index} came after the stop reason"
            )));
        }
        self.last_index = Some(index);
        let block: ContentBlock<'_> = serde_json::from_str(raw)
            .map_err(|fault| Breach(format!("content block {index} cannot be read: {fault}")))?;
        let kind = block.kind.as_ref().map_or("", |kind| kind.0.as_ref());
        let open = match kind {
            "text" => Block::Text { bytes: 0 },
            "thinking" => Block::Thinking {
                thinking: String::new(),
                signature: block.signature.map(|signature| signature.0.into_owned()),
            },
            "tool_use" => self.start_call(&block, events)?,
            "" => return Err(Breach(format!("content block {index} has no type"))),
            // Redacted thinking and blocks that the endpoint adds of its own accord go back as they came.
            kind => {
                self.record.add_raw(raw);
                Block::Whole {
                    kind: kind.to_owned(),
                }
            }
        };
        self.open = Some((index, open));
        self.half = PendingHalf::default();
        match (&self.open, block.text.or(block.thinking)) {
            (Some((_, Block::Text { .. } | Block::Thinking { .. })), Some(words)) => {
                self.take_words(&words, events)
            }
            _ => Ok(()),
        }
    }

    fn start_call(
        &mut self,
        block: &ContentBlock<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<Block, Breach> {
        let index = self.calls;
        let name = block.name.as_ref().map_or("", |name| name.0.as_ref());
        if name.is_empty() {
            return Err(Breach(format!("tool call {index} has no name")));
        }
        self.calls += 1;
        self.record.add_call(index);
        self.start(events);
        events.push_back(ModelEvent::ToolCallStart {
            index,
            id: block
                .id
                .as_ref()
                .map(|id| id.0.as_ref().into())
                .filter(|id: &Arc<str>| !id.is_empty()),
            name: name.into(),
        });
        // The API puts an empty object here and streams the input; some endpoints put the input itself.
        let input = block.input.map_or("{}", |input| input.get());
        let is_whole = !is_placeholder(input);
        Ok(Block::Call {
            index,
            name: name.to_owned(),
            arguments: if is_whole { input.to_owned() } else { String::new() },
            is_whole,
            emitted: 0,
        })
    }

    fn take_delta(
        &mut self,
        index: Option<u64>,
        delta: Option<Delta<'_>>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), Breach> {
        let delta = delta.ok_or_else(|| Breach("content_block_delta holds no delta".to_owned()))?;
        let kind = delta.kind.as_ref().map_or("", |kind| kind.0.as_ref());
        let Some((open, block)) = self.open.as_mut().filter(|(open, _)| Some(*open) == index) else {
            return Err(Breach(
                "a delta came for a content block that is not open".to_owned(),
            ));
        };
        let missing = || Breach(format!("a {kind} of content block {open} is empty of its field"));
        match (kind, block) {
            ("text_delta", Block::Text { .. }) => {
                let words = delta.text.ok_or_else(missing)?;
                self.take_words(&words, events)?;
            }
            ("thinking_delta", Block::Thinking { .. }) => {
                let words = delta.thinking.ok_or_else(missing)?;
                self.take_words(&words, events)?;
            }
            ("signature_delta", Block::Thinking { signature, .. }) => {
                let piece = delta.signature.ok_or_else(missing)?;
                signature.get_or_insert_default().push_str(&piece.0);
            }
            (
                "input_json_delta",
                Block::Call {
                    index,
                    arguments,
                    is_whole,
                    emitted,
                    ..
                },
            ) => {
                // Some endpoints say so that there is no input.
                let Some(piece) = delta.partial_json else {
                    return Ok(());
                };
                if *is_whole && !piece.is_blank() {
                    return Err(Breach(format!("the input of tool call {index} came twice")));
                }
                if !*is_whole {
                    let piece = self.half.join(&piece).map_err(|fault| {
                        Breach(fault.in_channel(&format!("the input of tool call {index}")))
                    })?;
                    arguments.push_str(&piece);
                    emit_arguments(*index, arguments, emitted, events);
                }
            }
            ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta", _) => {
                return Err(Breach(format!("content block {open} cannot take a {kind}")));
            }
            (_, Block::Whole { kind: block }) => {
                return Err(Breach(format!(
                    "content block {open} of the unknown type {block} goes on with {kind}"
                )));
            }
            _ => tracing::debug!(kind, "delta of an unknown type passed over"),
        }
        Ok(())
    }

    /// Shows words of the open block of text or thinking. It is shown from its first word on: an empty one never.
    fn take_words(
        &mut self,
        words: &StreamText<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), Breach> {
        let words = self.half.join(words).map_err(|fault| self.half_breach(fault))?;
        if words.is_empty() {
            return Ok(());
        }
        self.start(events);
        match &mut self.open {
            Some((_, Block::Text { bytes })) => {
                if *bytes == 0 {
                    events.push_back(ModelEvent::TextStart);
                }
                *bytes += words.len();
                self.has_text = true;
                events.push_back(ModelEvent::TextDelta(words.as_ref().into()));
            }
            Some((_, Block::Thinking { thinking, .. })) => {
                if thinking.is_empty() {
                    events.push_back(ModelEvent::ThinkingStart);
                }
                thinking.push_str(&words);
                events.push_back(ModelEvent::ThinkingDelta(words.as_ref().into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn half_breach(&self, fault: LoneHalf) -> Breach {
        let index = self.last_index.unwrap_or_default();
        Breach(fault.in_channel(&format!("content block {index}")))
    }

    fn stop_block(&mut self, index: Option<u64>, events: &mut VecDeque<ModelEvent>) -> Result<(), Breach> {
        let Some((_, block)) = self.open.take_if(|(open, _)| Some(*open) == index) else {
            return Err(Breach("a content block ended that is not open".to_owned()));
        };
        if let Err(fault) = self.half.finish() {
            let Breach(fault) = self.half_breach(fault);
            self.broken_block.get_or_insert(fault);
        }
        match block {
            Block::Text { bytes: 0 } | Block::Whole { .. } => {}
            Block::Text { bytes } => {
                self.record.add_text(bytes);
                events.push_back(ModelEvent::TextEnd);
            }
            Block::Thinking { thinking, signature } => {
                if !thinking.is_empty() {
                    events.push_back(ModelEvent::ThinkingEnd);
                }
                self.record.add_thinking(&thinking, signature.as_deref());
            }
            Block::Call {
                index,
                name,
                mut arguments,
                mut emitted,
                ..
            } => {
                if is_empty(&arguments) {
                    // Fixed here once, so that execution, storage and replay all see the same text.
                    arguments = "{}".to_owned();
                }
                let fault = match check(&arguments) {
                    Err(fault) => Some(fault),
                    Ok(()) if !arguments.trim_start().starts_with('{') => Some("no JSON object".to_owned()),
                    Ok(()) => None,
                };
                if let Some(fault) = fault {
                    let fault = format!("the input of tool call {index} ({name}) is {fault}");
                    self.broken_block.get_or_insert(fault);
                    return Ok(());
                }
                emit_arguments(index, &arguments, &mut emitted, events);
                events.push_back(ModelEvent::ToolCallEnd { index });
            }
        }
        Ok(())
    }

    /// `Start` waits for the first thing to show: until then the same request can still be sent again.
    fn start(&mut self, events: &mut VecDeque<ModelEvent>) {
        if !self.started {
            self.started = true;
            events.push_back(ModelEvent::Start);
        }
    }

    fn take_finish(&mut self, delta: Delta<'_>) -> Result<(), ProviderFailure> {
        let Some(Text(reason)) = delta.stop_reason else {
            return Ok(());
        };
        let Some(outcome) = Outcome::of(&reason, delta.stop_details) else {
            return Err(self.malformed(&format!("stop_reason \"{reason}\" is unknown")));
        };
        match &self.finish {
            Some(known) if *known.reason != *reason => {
                let text = format!("stop_reason changed from {} to {reason}", known.reason);
                Err(self.malformed(&text))
            }
            _ => {
                self.finish = Some(Finish {
                    reason: reason.into_owned(),
                    outcome,
                });
                Ok(())
            }
        }
    }

    /// Counts are cumulative: each one that is there replaces the one before it, except that a zero never wipes out
    /// what was counted.
    fn take_usage(&mut self, report: Option<UsageReport>) {
        let Some(report) = report else { return };
        let take = |count: &mut Option<u64>, new: Option<u64>| {
            if new.is_some_and(|new| new > 0 || count.is_none()) {
                *count = new;
            }
        };
        take(&mut self.usage.fresh_input, report.input_tokens);
        take(&mut self.usage.cache_read, report.cache_read_input_tokens);
        take(&mut self.usage.cache_write, report.cache_creation_input_tokens);
        take(&mut self.usage.output, report.output_tokens);
        let details = report.output_tokens_details.unwrap_or_default();
        take(&mut self.usage.reasoning, details.thinking_tokens);
    }

    fn close(&mut self, events: &mut VecDeque<ModelEvent>) -> Result<Progress, ProviderFailure> {
        self.is_over = true;
        let usage = Some(self.usage).filter(|usage| *usage != Usage::default());
        match self.finish.take() {
            None => return Err(self.malformed("message_stop came without a stop_reason")),
            Some(Finish {
                reason,
                outcome: Outcome::Failed(fault, text),
            }) => {
                // The answer was paid for.
                events.extend(usage.map(ModelEvent::Usage));
                let mut failure = self
                    .endpoint
                    .failure(fault, &format!("{text} (stop_reason {reason})"));
                failure.code = Some(reason);
                return Err(failure);
            }
            Some(finish) if finish.outcome == Outcome::Tools && self.calls == 0 && !self.has_text => {
                return Err(self.malformed("it asked for tools but named none"));
            }
            Some(_) => {}
        }
        if let Some((open, _)) = &self.open {
            return Err(self.malformed(&format!("message_stop came before content block {open} ended")));
        }
        if let Some(fault) = &self.broken_block {
            return Err(self.malformed(fault));
        }
        self.start(events);
        if let Some(payload) = self.record.payload() {
            events.push_back(ModelEvent::ReplayState(ReplayState {
                issuer: Arc::clone(&self.endpoint.issuer),
                payload: payload.into(),
            }));
        }
        events.extend(usage.map(ModelEvent::Usage));
        // Complete calls decide, not the word, as with every API.
        events.push_back(ModelEvent::Done(match self.calls {
            0 => StopReason::Stop,
            _ => StopReason::ToolUse,
        }));
        Ok(Progress::Done)
    }

    fn malformed(&self, text: &str) -> ProviderFailure {
        self.endpoint.malformed(text)
    }
}

/// Puts out what is new of a call's argument text; what may turn out to stand for `{}` is held back.
fn emit_arguments(index: usize, arguments: &str, emitted: &mut usize, events: &mut VecDeque<ModelEvent>) {
    if *emitted < arguments.len() && !may_be_empty(arguments) {
        events.push_back(ModelEvent::ToolCallArguments {
            index,
            delta: arguments[*emitted..].into(),
        });
        *emitted = arguments.len();
    }
}

/// Whether the input of a block's start stands for "it follows".
fn is_placeholder(input: &str) -> bool {
    let inner = input.strip_prefix('{').and_then(|input| input.strip_suffix('}'));
    input == "null" || inner.is_some_and(|inner| inner.trim().is_empty())
}

fn is_unknown(name: &str, data: &str) -> bool {
    let known = |kind: &str| {
        matches!(
            kind,
            "message_start"
                | "message_delta"
                | "message_stop"
                | "content_block_start"
                | "content_block_delta"
                | "content_block_stop"
                | "ping"
                | "error"
        )
    };
    match serde_json::from_str::<Typed<'_>>(data) {
        Ok(Typed { kind: Some(kind) }) => !known(&kind.0),
        _ => !matches!(name, "" | "message") && !known(name),
    }
}
