//! From the events of a Responses stream to the one sequence of model events.
//!
//! Strict: an answer is whole only by the endpoint's own terminal event, a known event that cannot be read is an error, and
//! unknown ones are left out and counted. Must never know: how the bytes came.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::items::{Items, Place, Thought};
use super::profile::ResponsesProfile;
use super::replay::{PieceKind, ReplayRecord};
use super::wire::{Event, EventKind, Response, UsageReport};
use crate::model::{ProviderFailure, ProviderFault, ReplayState, Usage};
use crate::provider::call::Progress;
use crate::provider::endpoint::Endpoint;
use crate::provider::sse::SseEvent;
use crate::provider::{ModelEvent, StopReason};

/// Decodes one answer.
#[derive(Debug)]
pub struct ResponsesDecoder {
    endpoint: Arc<Endpoint>,
    keeps_item_ids: bool,
    /// The request left out the reasoning of its history because the endpoint had refused it.
    after_reset: bool,
    items: Items,
    unknown_events: usize,
    is_over: bool,
}

/// What an event's type asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    ItemAdded,
    ItemDone,
    TextDelta,
    TextDone,
    RefusalDelta,
    RefusalDone,
    SummaryPart,
    SummaryDelta,
    ThoughtDelta,
    ArgumentsDelta,
    ArgumentsDone,
    Completed,
    Incomplete,
    Failed,
    Error,
    /// Known, and of no use here: another event says the same, or it belongs to tools that the endpoint runs itself.
    Silent,
}

impl Known {
    fn of(kind: &str) -> Option<Self> {
        let Some(kind) = kind.strip_prefix("response.") else {
            return match kind {
                "error" => Some(Self::Error),
                "keepalive" => Some(Self::Silent),
                _ => None,
            };
        };
        Some(match kind {
            "output_item.added" => Self::ItemAdded,
            "output_item.done" => Self::ItemDone,
            "output_text.delta" => Self::TextDelta,
            "output_text.done" => Self::TextDone,
            "refusal.delta" => Self::RefusalDelta,
            "refusal.done" => Self::RefusalDone,
            "reasoning_summary_part.added" => Self::SummaryPart,
            "reasoning_summary_text.delta" => Self::SummaryDelta,
            "reasoning_text.delta" => Self::ThoughtDelta,
            "function_call_arguments.delta" => Self::ArgumentsDelta,
            "function_call_arguments.done" => Self::ArgumentsDone,
            "completed" => Self::Completed,
            "incomplete" => Self::Incomplete,
            "failed" => Self::Failed,
            "created"
            | "queued"
            | "in_progress"
            | "content_part.added"
            | "content_part.done"
            | "output_text.annotation.added"
            | "reasoning_summary_part.done"
            | "reasoning_summary_text.done"
            | "reasoning_text.done" => Self::Silent,
            _ => return None,
        })
    }
}

impl ResponsesDecoder {
    /// A decoder for one answer of the profile's endpoint.
    pub fn new(profile: &ResponsesProfile) -> Self {
        Self {
            endpoint: Arc::clone(&profile.endpoint),
            keeps_item_ids: profile.replay_item_ids,
            after_reset: false,
            items: Items::default(),
            unknown_events: 0,
            is_over: false,
        }
    }

    /// The same for an answer to a request without its history's reasoning; the replay state says so from then on.
    pub(super) fn after_reset(profile: &ResponsesProfile) -> Self {
        Self {
            after_reset: true,
            ..Self::new(profile)
        }
    }

    /// How many events of unknown types were left out.
    pub fn unknown_events(&self) -> usize {
        self.unknown_events
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
        if data.starts_with("[DONE]") {
            return self.cut("the stream ended with [DONE] but without a terminal event");
        }
        let parsed: Event<'_> = match serde_json::from_str(data) {
            Ok(parsed) => parsed,
            // The end of the stream cut this event; what came before it decides.
            Err(_) if event.unterminated => return Ok(Progress::Open),
            Err(_) if event.name == "error" => return Err(self.endpoint.failure_in_stream(data)),
            Err(fault) => {
                let kind = serde_json::from_str::<EventKind<'_>>(data).ok();
                if let Some(kind) = kind.and_then(|event| event.kind)
                    && Known::of(&kind.0).is_none()
                {
                    self.unknown_events += 1;
                    return Ok(Progress::Open);
                }
                return Err(self
                    .endpoint
                    .malformed(&format!("an event cannot be read: {fault}")));
            }
        };
        let kind = match &parsed.kind {
            Some(kind) => kind.0.as_ref(),
            None if event.name == "error" || says_error(parsed.error) => "error",
            None => return self.read_untyped(event, &parsed),
        };
        match Known::of(kind) {
            Some(known) => self.read(known, &parsed, data, events),
            None => {
                self.unknown_events += 1;
                Ok(Progress::Open)
            }
        }
    }

    /// The stream is over: fails unless the endpoint has ended its answer.
    pub fn finish(&mut self, _events: &mut VecDeque<ModelEvent>) -> Result<Progress, ProviderFailure> {
        if self.is_over {
            return Ok(Progress::Done);
        }
        self.cut("the stream ended without a terminal event")
    }

    fn read(
        &mut self,
        known: Known,
        event: &Event<'_>,
        data: &str,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderFailure> {
        let place = Place {
            output_index: event.output_index,
            item_id: event
                .item_id
                .as_ref()
                .map(|id| id.0.as_ref())
                .filter(|id| !id.is_empty()),
        };
        let delta = event.delta.as_ref();
        let taken = match known {
            Known::Silent => Ok(()),
            Known::ItemAdded => match event.item {
                Some(item) => self.items.add(event.output_index, item, events),
                None => Err("an output_item.added event has no item".to_owned()),
            },
            Known::ItemDone => match event.item {
                Some(item) => self.items.finish_item(event.output_index, item, events),
                None => Err("an output_item.done event has no item".to_owned()),
            },
            Known::TextDelta => self.items.add_words(place, PieceKind::Text, delta, events),
            Known::RefusalDelta => self.items.add_words(place, PieceKind::Refusal, delta, events),
            Known::TextDone => {
                let text = event.text.as_ref().map_or("", |text| text.0.as_ref());
                self.items.add_whole_words(place, PieceKind::Text, text, events)
            }
            Known::RefusalDone => {
                let refusal = event.refusal.as_ref().map_or("", |text| text.0.as_ref());
                self.items
                    .add_whole_words(place, PieceKind::Refusal, refusal, events)
            }
            Known::SummaryPart => self.items.begin_summary_part(place),
            Known::SummaryDelta => self.items.add_thought(place, Thought::Summary, delta, events),
            Known::ThoughtDelta => self.items.add_thought(place, Thought::Plain, delta, events),
            Known::ArgumentsDelta => self.items.add_arguments(place, delta, events),
            Known::ArgumentsDone => self.items.set_arguments(place, event.arguments, events),
            Known::Completed | Known::Incomplete | Known::Failed => {
                return self.read_terminal(known, event.response, events);
            }
            Known::Error => return Err(self.failed(data)),
        };
        taken.map_err(|fault| self.endpoint.malformed(&fault))?;
        Ok(Progress::Open)
    }

    /// An event that names no type: another API's chunk, a gateway's own event, or nothing known.
    fn read_untyped(&mut self, event: SseEvent<'_>, parsed: &Event<'_>) -> Result<Progress, ProviderFailure> {
        let is_chat = parsed.choices.is_some()
            || parsed
                .object
                .is_some_and(|object| object.get() == r#""chat.completion.chunk""#);
        if is_chat {
            return Err(self.endpoint.wrong_api(
                "it answered with chunks of Chat Completions; set api = \"openai-chat\", or base_url to an \
                 endpoint of the Responses API",
            ));
        }
        if matches!(event.name, "" | "message") || Known::of(event.name).is_some() {
            return Err(self
                .endpoint
                .wrong_api("an event of the stream has no type; check api and base_url"));
        }
        self.unknown_events += 1;
        Ok(Progress::Open)
    }

    fn read_terminal(
        &mut self,
        known: Known,
        response: Option<&RawValue>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderFailure> {
        let Some(raw) = response else {
            return Err(self.endpoint.malformed("a terminal event has no response"));
        };
        let response: Response<'_> = serde_json::from_str(raw.get()).map_err(|fault| {
            self.endpoint
                .malformed(&format!("a terminal event cannot be read: {fault}"))
        })?;
        self.is_over = true;
        let status = response.status.as_ref().map(|status| status.0.as_ref());
        match (known, status) {
            (Known::Completed, None | Some("completed")) => self.complete(&response, events),
            (Known::Incomplete, None | Some("incomplete")) | (Known::Completed, Some("incomplete")) => {
                Err(self.incomplete(&response, events))
            }
            (Known::Failed, _) | (Known::Completed, Some("failed" | "cancelled")) => {
                Err(self.failed(response.error.map_or("null", RawValue::get)))
            }
            (_, status) => {
                let fault = format!("its terminal event has the status {}", status.unwrap_or_default());
                Err(self.endpoint.malformed(&fault))
            }
        }
    }

    fn complete(
        &mut self,
        response: &Response<'_>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderFailure> {
        let output = response.output.as_deref().unwrap_or_default();
        self.items
            .finish_output(output, events)
            .and_then(|()| self.items.close(events))
            .map_err(|fault| self.endpoint.malformed(&fault))?;
        let record = ReplayRecord::new(self.items.record(self.keeps_item_ids), self.after_reset);
        if let Some(record) = record {
            events.push_back(ModelEvent::ReplayState(ReplayState {
                issuer: Arc::clone(&self.endpoint.issuer),
                payload: record.payload().into(),
            }));
        }
        events.extend(response.usage.map(usage_of).map(ModelEvent::Usage));
        if self.unknown_events + self.items.left_out() > 0 {
            tracing::debug!(
                model = self.endpoint.model_id,
                events = self.unknown_events,
                items = self.items.left_out(),
                "parts of an answer of unknown types left out"
            );
        }
        events.push_back(ModelEvent::Done(match self.items.calls() {
            0 => StopReason::Stop,
            _ => StopReason::ToolUse,
        }));
        Ok(Progress::Done)
    }

    fn incomplete(&self, response: &Response<'_>, events: &mut VecDeque<ModelEvent>) -> ProviderFailure {
        let reason = response
            .incomplete_details
            .as_ref()
            .and_then(|details| details.reason.as_ref())
            .map_or("", |reason| reason.0.as_ref());
        let (fault, text) = match reason {
            "max_output_tokens" => (
                ProviderFault::OutputLimit,
                "the answer reached the output limit and was not kept; raise max_output_tokens, or ask for less",
            ),
            "content_filter" => (
                ProviderFault::Filtered,
                "the endpoint's content filter stopped the answer; change the request",
            ),
            _ => (
                ProviderFault::Unavailable,
                "the endpoint broke off its answer; try again",
            ),
        };
        if matches!(fault, ProviderFault::OutputLimit | ProviderFault::Filtered) {
            // These answers were paid for. The others may be asked for again, which an event would rule out.
            events.extend(response.usage.map(usage_of).map(ModelEvent::Usage));
        }
        let reason = if reason.is_empty() {
            "no reason given"
        } else {
            reason
        };
        let mut failure = self.endpoint.failure(fault, &format!("{text} ({reason})"));
        failure.code = Some(self.endpoint.redactor.clean(reason, 100));
        failure
    }

    /// The failure that the endpoint itself reports; ends the answer.
    fn failed(&mut self, error: &str) -> ProviderFailure {
        self.is_over = true;
        let mut failure = self.endpoint.failure_in_stream(error);
        if failure.fault == ProviderFault::RateLimited {
            failure.retry_after = asked_wait(&failure.message);
        }
        failure
    }

    fn cut(&mut self, what: &str) -> Result<Progress, ProviderFailure> {
        self.is_over = true;
        Err(self.endpoint.failure(
            ProviderFault::Cut,
            &format!("{what}, so the answer may be cut; try again"),
        ))
    }
}

fn says_error(error: Option<&RawValue>) -> bool {
    error.is_some_and(|error| !matches!(error.get(), "null" | "false" | "\"\""))
}

/// How long a rate limit's own words ask to wait: a stream has no header to say it.
fn asked_wait(message: &str) -> Option<Duration> {
    const ASKED: &str = "try again in ";
    let lower = message.to_ascii_lowercase();
    let rest = &lower[lower.find(ASKED)? + ASKED.len()..];
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = rest.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim_start();
    let seconds = if unit.starts_with("ms") || unit.starts_with("milli") {
        number / 1000.0
    } else if unit.starts_with('s') {
        number
    } else {
        return None;
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// The API counts cached and thought tokens inside the totals; the result's counters are disjoint.
fn usage_of(report: UsageReport) -> Usage {
    let input = report.input_tokens_details.unwrap_or_default();
    Usage {
        fresh_input: report.input_tokens.map(|all| {
            all.saturating_sub(input.cached_tokens.unwrap_or(0))
                .saturating_sub(input.cache_write_tokens.unwrap_or(0))
        }),
        cache_read: input.cached_tokens,
        cache_write: input.cache_write_tokens,
        output: report.output_tokens,
        reasoning: report
            .output_tokens_details
            .and_then(|details| details.reasoning_tokens),
    }
}
