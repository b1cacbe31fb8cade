//! From the events of a Chat Completions stream to the one sequence of model events.
//!
//! Strict: an answer is whole only by the endpoint's own terminal event, a known field that cannot be read is an error,
//! and a dialect is allowed only by a named option. Must never know: how the bytes came.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use super::calls::Calls;
use super::profile::ChatProfile;
use super::reasoning::ReasoningRecord;
use super::wire::{Choice, Chunk, Content, ContentPart, Delta, Text, UsageReport};
use crate::model::{ProviderFailure, ProviderFault, ReplayState, Usage};
use crate::provider::blocks::{Blocks, Words};
use crate::provider::call::Progress;
use crate::provider::endpoint::Endpoint;
use crate::provider::sse::SseEvent;
use crate::provider::stream_text::{LoneHalf, PendingHalf};
use crate::provider::{ModelEvent, StopReason};

/// Decodes one answer.
#[derive(Debug)]
pub struct ChatDecoder {
    endpoint: Arc<Endpoint>,
    done_is_terminal: bool,
    counts_cached: bool,
    counts_reasoning: bool,
    blocks: Blocks,
    content: PendingHalf,
    refusal: PendingHalf,
    thinking_parts: PendingHalf,
    calls: Calls,
    reasoning: ReasoningRecord,
    usage: Option<Usage>,
    finish: Option<Finish>,
    is_over: bool,
}

/// The endpoint's terminal word.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Finish {
    Stop,
    Tools,
    Failed(ProviderFault, String),
}

impl ChatDecoder {
    /// A decoder for one answer of the profile's endpoint.
    pub fn new(profile: &ChatProfile) -> Self {
        Self {
            endpoint: Arc::clone(&profile.endpoint),
            done_is_terminal: profile.done_is_terminal,
            counts_cached: profile.usage_counts_cached,
            counts_reasoning: profile.usage_counts_reasoning,
            blocks: Blocks::default(),
            content: PendingHalf::default(),
            refusal: PendingHalf::default(),
            thinking_parts: PendingHalf::default(),
            calls: Calls::new(profile.trusts_call_index),
            reasoning: ReasoningRecord::default(),
            usage: None,
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
        if event.name == "error" {
            return Err(self.endpoint.failure_in_stream(data));
        }
        if data.is_empty() {
            return Ok(self.progress());
        }
        if data.starts_with("[DONE]") {
            if self.finish.is_none() && self.done_is_terminal {
                self.finish = Some(Finish::Stop);
            }
            return self.close("the stream ended with [DONE] but without a finish_reason", events);
        }
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            // The end of the stream cut this event; what came before it decides.
            Err(_) if event.unterminated => return Ok(self.progress()),
            Err(fault) => return Err(self.malformed(&format!("a chunk cannot be read: {fault}"))),
        };
        self.read_chunk(chunk, event, events)?;
        Ok(self.progress())
    }

    /// The stream is over: ends the answer if the endpoint has ended it, and fails otherwise.
    pub fn finish(&mut self, events: &mut VecDeque<ModelEvent>) -> Result<Progress, ProviderFailure> {
        if self.is_over {
            return Ok(Progress::Done);
        }
        self.close("the stream ended without a finish_reason", events)
    }

    fn progress(&self) -> Progress {
        match self.finish {
            None => Progress::Open,
            Some(_) => Progress::Closing,
        }
    }

    fn read_chunk(
        &mut self,
        chunk: Chunk<'_>,
        event: SseEvent<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        let is_error = chunk.object.as_ref().is_some_and(|object| object.0 == "error")
            || chunk
                .error
                .is_some_and(|error| !matches!(error.get(), "null" | "false" | "\"\""));
        if is_error {
            return Err(self.endpoint.failure_in_stream(event.data));
        }
        let reports = [chunk.usage, chunk.x_groq.and_then(|groq| groq.usage)];
        let reports_usage = reports.iter().any(Option::is_some);
        for mut report in reports.into_iter().flatten() {
            // The same count by another name, in the same chunk.
            report.cached_tokens = report
                .cached_tokens
                .or(chunk.timings.as_ref().and_then(|timings| timings.cache_n));
            self.take_usage(report);
        }
        let Some(choices) = chunk.choices else {
            // Named events are additions of a gateway; an unnamed one must be a chunk.
            if reports_usage || !matches!(event.name, "" | "message") {
                return Ok(());
            }
            return Err(self
                .endpoint
                .wrong_api("an event of the stream is no chat.completion.chunk; check api and base_url"));
        };
        for choice in choices {
            self.read_choice(choice, events)?;
        }
        Ok(())
    }

    fn read_choice(
        &mut self,
        choice: Choice<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        if choice.index.is_some_and(|index| index != 0) {
            return Err(self.malformed("more than the one answer that was asked for came"));
        }
        if let Some(report) = choice.usage {
            self.take_usage(report);
        }
        match (choice.delta, choice.message) {
            // The last words may share a chunk with the finish reason, so they are read first.
            (Some(delta), _) => self.read_delta(delta, events)?,
            (None, Some(_)) => return Err(self.malformed("a whole completion came instead of chunks")),
            (None, None) => {}
        }
        if let Some(Text(reason)) = choice.finish_reason
            && !reason.is_empty()
        {
            self.take_finish(&reason)?;
        }
        Ok(())
    }

    fn read_delta(
        &mut self,
        delta: Delta<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        self.read_reasoning(&delta, events)?;
        match &delta.content {
            Some(Content::Text(text)) => {
                let words = self.content.join(text);
                self.emit_joined("content", Words::Text, words, events)?;
            }
            Some(Content::Parts(parts)) => self.read_parts(parts, events)?,
            None => {}
        }
        if let Some(refusal) = &delta.refusal {
            let words = self.refusal.join(refusal);
            self.emit_joined("refusal", Words::Text, words, events)?;
        }
        let pieces = delta.tool_calls.as_deref().unwrap_or_default();
        if pieces.is_empty() && delta.function_call.is_none() {
            return Ok(());
        }
        self.blocks.start(events);
        self.blocks.close(events);
        let taken = self
            .calls
            .add(pieces, events)
            .and_then(|()| match &delta.function_call {
                Some(piece) => self.calls.add_legacy(piece, events),
                None => Ok(()),
            });
        taken.map_err(|fault| self.malformed(&fault))
    }

    /// Records every thinking field, and shows the first one that holds words: some endpoints send the same thought in
    /// several fields.
    fn read_reasoning(
        &mut self,
        delta: &Delta<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        let mut shown = None;
        for (field, text) in [
            ("reasoning_content", &delta.reasoning_content),
            ("reasoning", &delta.reasoning),
        ] {
            if let Some(text) = text {
                // An empty text is kept too: it says that the endpoint uses the field, and some want it back.
                let added = self.reasoning.add_text(field, text);
                let added = added.map_err(|fault| self.malformed(&fault))?;
                if shown.is_none() && !text.is_empty() {
                    shown = Some(added);
                }
            }
        }
        if let Some(details) = &delta.reasoning_details {
            let added = self.reasoning.add_details(details);
            let added = added.map_err(|fault| self.malformed(&fault))?;
            shown = shown.or(Some(added.into()));
        }
        self.blocks
            .emit(Words::Thinking, &shown.unwrap_or_default(), events);
        Ok(())
    }

    fn read_parts(
        &mut self,
        parts: &[ContentPart<'_>],
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        for part in parts {
            match part.kind.as_str() {
                "text" => {
                    if let Some(text) = &part.text {
                        let words = self.content.join(text);
                        self.emit_joined("content", Words::Text, words, events)?;
                    }
                }
                "thinking" => {
                    let thoughts = part.thinking.as_deref().unwrap_or_default();
                    for text in thoughts.iter().filter_map(|thought| thought.text.as_ref()) {
                        let words = self.thinking_parts.join(text);
                        self.emit_joined("the thinking parts", Words::Thinking, words, events)?;
                    }
                }
                kind => tracing::debug!(kind, "content part of an unknown type left out"),
            }
        }
        Ok(())
    }

    fn emit_joined(
        &mut self,
        channel: &str,
        block: Words,
        words: Result<Cow<'_, str>, LoneHalf>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        let words = words.map_err(|fault| self.malformed(&fault.in_channel(channel)))?;
        self.blocks.emit(block, &words, events);
        Ok(())
    }

    fn take_finish(&mut self, reason: &str) -> Result<(), ProviderFailure> {
        let failed = |fault| Finish::Failed(fault, reason.to_owned());
        let new = match reason {
            "stop" => Finish::Stop,
            "tool_calls" | "function_call" => Finish::Tools,
            "length" | "max_tokens" | "model_length" => failed(ProviderFault::OutputLimit),
            "content_filter" | "sensitive" => failed(ProviderFault::Filtered),
            "error" | "network_error" | "insufficient_system_resource" => failed(ProviderFault::Unavailable),
            _ => return Err(self.malformed(&format!("finish_reason \"{reason}\" is unknown"))),
        };
        // The first word counts, except that calls may be told of later, and that a failure is never taken back.
        self.finish = Some(match (self.finish.take(), new) {
            (None, new) => new,
            (Some(Finish::Failed(fault, reason)), _) => Finish::Failed(fault, reason),
            (Some(_), failed @ Finish::Failed(..)) => failed,
            (Some(Finish::Stop), Finish::Tools) => Finish::Tools,
            (Some(first), _) => first,
        });
        Ok(())
    }

    /// Each report replaces the one before it, except that a zero one never wipes out counts.
    fn take_usage(&mut self, report: UsageReport) {
        let usage = self.usage_of(report);
        let says_something = [usage.input(), usage.output]
            .into_iter()
            .flatten()
            .any(|count| count > 0);
        if says_something || self.usage.is_none() && usage != Usage::default() {
            self.usage = Some(usage);
        }
    }

    fn close(
        &mut self,
        without_finish: &str,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderFailure> {
        self.is_over = true;
        match self.finish.take() {
            None => {
                return Err(self.endpoint.failure(
                    ProviderFault::Cut,
                    &format!(
                        "{without_finish}, so the answer may be cut; try again, or set done_is_terminal if this \
                         endpoint never sends one"
                    ),
                ));
            }
            Some(Finish::Failed(fault, reason)) => return Err(self.failed_answer(fault, &reason, events)),
            Some(Finish::Tools) if self.calls.len() == 0 && !self.blocks.has_text() => {
                return Err(self.malformed("it asked for tools but named none"));
            }
            Some(Finish::Stop | Finish::Tools) => {}
        }
        for (channel, half) in [
            ("content", &self.content),
            ("refusal", &self.refusal),
            ("the thinking parts", &self.thinking_parts),
        ] {
            half.finish()
                .map_err(|fault| self.malformed(&fault.in_channel(channel)))?;
        }
        let replay = self.reasoning.payload().map_err(|fault| self.malformed(&fault))?;
        self.blocks.start(events);
        self.blocks.close(events);
        self.calls.close(events).map_err(|fault| self.malformed(&fault))?;
        if let Some(payload) = replay {
            events.push_back(ModelEvent::ReplayState(ReplayState {
                issuer: Arc::clone(&self.endpoint.issuer),
                payload: payload.into(),
            }));
        }
        events.extend(self.usage.map(ModelEvent::Usage));
        // Complete calls decide, not the word: several endpoints say "stop" although they ask for tools.
        events.push_back(ModelEvent::Done(match self.calls.len() {
            0 => StopReason::Stop,
            _ => StopReason::ToolUse,
        }));
        Ok(Progress::Done)
    }

    fn failed_answer(
        &self,
        fault: ProviderFault,
        reason: &str,
        events: &mut VecDeque<ModelEvent>,
    ) -> ProviderFailure {
        let text = match fault {
            ProviderFault::OutputLimit => {
                "the answer reached the output limit and was not kept; raise max_output_tokens, or ask for less"
            }
            ProviderFault::Filtered => "the endpoint's content filter stopped the answer; change the request",
            _ => "the endpoint broke off its answer; try again",
        };
        if matches!(fault, ProviderFault::OutputLimit | ProviderFault::Filtered) {
            // These answers were paid for. The others may be asked for again, which an event would rule out.
            events.extend(self.usage.map(ModelEvent::Usage));
        }
        let mut failure = self
            .endpoint
            .failure(fault, &format!("{text} (finish_reason {reason})"));
        failure.code = Some(reason.to_owned());
        failure
    }

    fn malformed(&self, text: &str) -> ProviderFailure {
        self.endpoint.malformed(text)
    }

    /// The API counts cached and thought tokens inside the totals, some dialects beside them; the result's counters are
    /// disjoint, but for thinking, which is a part of the output.
    fn usage_of(&self, report: UsageReport) -> Usage {
        let prompt = report.prompt_tokens_details.unwrap_or_default();
        let cache_read = prompt
            .cached_tokens
            .or(report.prompt_cache_hit_tokens)
            .or(report.cached_tokens);
        let cache_write = prompt.cache_write_tokens;
        let reasoning = report
            .completion_tokens_details
            .and_then(|details| details.reasoning_tokens);
        let fresh_input = report.prompt_tokens.map(|all| match self.counts_cached {
            true => all
                .saturating_sub(cache_read.unwrap_or(0))
                .saturating_sub(cache_write.unwrap_or(0)),
            false => all,
        });
        Usage {
            fresh_input: fresh_input.or(report.prompt_cache_miss_tokens),
            cache_read,
            cache_write,
            output: report.completion_tokens.map(|all| match self.counts_reasoning {
                true => all,
                false => all.saturating_add(reasoning.unwrap_or(0)),
            }),
            reasoning,
        }
    }
}
