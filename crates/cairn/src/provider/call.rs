//! One model call as a stream of events: tries, waits, reads, decodes, and ends exactly once.
//!
//! Owns the rule that a call is repeated only before its first event, with the same bytes. Must never know: what is in
//! the bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::time::Instant;

use super::sse::{SseError, SseEvent, SseReader};
use super::transport::{AttemptFailure, EventBody, Outgoing, Transport};
use super::{ModelEvent, ModelInvocation, ModelStream};
use crate::model::{ProviderFailure, ProviderFault};

/// After the endpoint's terminal event: longest silence while its last words (usage, end mark) may still come. The
/// answer is already whole then, so the end of this wait changes nothing about the outcome.
const TRAILER_LIMIT: Duration = Duration::from_secs(10);

/// What a decoder is given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal<'a> {
    /// The next event of the stream.
    Event(SseEvent<'a>),
    /// The stream is over.
    End,
}

/// How far a decoder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The endpoint has not yet said that its answer is whole.
    Open,
    /// The endpoint's terminal event has come; only trailers may follow.
    Closing,
    /// `Done` is out.
    Done,
}

/// Makes the call. `new_decoder` gives a fresh decoder for each try; a decoder puts out events for each signal, puts out
/// `Done` last, and fails at [`Signal::End`] unless the endpoint's terminal event has come.
pub(crate) fn call<D>(
    transport: Arc<Transport>,
    outgoing: impl Into<Outgoing>,
    invocation: ModelInvocation,
    new_decoder: impl Fn() -> D + Send + 'static,
) -> ModelStream
where
    D: FnMut(Signal<'_>, &mut VecDeque<ModelEvent>) -> Result<Progress, ProviderFailure> + Send + 'static,
{
    let call = Call {
        transport,
        outgoing: outgoing.into(),
        invocation,
        new_decoder,
        attempts: 0,
        state: State::Ready,
        events: VecDeque::new(),
        emitted: false,
    };
    Box::pin(stream::unfold(call, |mut call| async move {
        let item = call.next().await?;
        Some((item, call))
    }))
}

struct Call<N, D> {
    transport: Arc<Transport>,
    outgoing: Outgoing,
    invocation: ModelInvocation,
    new_decoder: N,
    /// Tries begun so far.
    attempts: u32,
    state: State<D>,
    /// Decoded and not yet handed out.
    events: VecDeque<ModelEvent>,
    /// An event was handed out: from here on nothing is repeated.
    emitted: bool,
}

/// Ready → Reading → (Ready again | Failed) → Ended; Reading → Ended after `Done`.
enum State<D> {
    Ready,
    Reading(Box<Reading<D>>),
    /// Waits until the events before the failure are out.
    Failed(ProviderFailure),
    Ended,
}

struct Reading<D> {
    body: EventBody,
    sse: SseReader,
    decoder: D,
    progress: Progress,
    /// Without an event until then, the call fails.
    deadline: Instant,
}

impl<N, D> Call<N, D>
where
    N: Fn() -> D,
    D: FnMut(Signal<'_>, &mut VecDeque<ModelEvent>) -> Result<Progress, ProviderFailure>,
{
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderFailure>> {
        let cancel = self.invocation.cancel.clone();
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                // Dropping the response closes the connection.
                self.state = State::Ended;
                self.events.clear();
                None
            }
            item = self.next_uncancelled() => item,
        }
    }

    async fn next_uncancelled(&mut self) -> Option<Result<ModelEvent, ProviderFailure>> {
        if let State::Reading(reading) = &mut self.state {
            reading.deadline = Instant::now() + self.transport.limits.progress;
        }
        loop {
            if let Some(event) = self.events.pop_front() {
                self.emitted = true;
                return Some(Ok(event));
            }
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return None,
                State::Failed(failure) => return Some(Err(failure)),
                State::Ready => {
                    self.attempts += 1;
                    match self.transport.send(self.outgoing.clone()).await {
                        Ok(body) => self.state = State::Reading(Box::new(self.start(body))),
                        Err(failed) => self.state = self.after_failure(failed).await,
                    }
                }
                State::Reading(mut reading) => {
                    match reading.advance(&self.transport, &mut self.events).await {
                        Ok(()) if reading.progress == Progress::Done => {}
                        Ok(()) => self.state = State::Reading(reading),
                        Err(failure) => {
                            drop(reading);
                            self.state = self.after_failure(failure.into()).await;
                        }
                    }
                }
            }
        }
    }

    fn start(&self, body: EventBody) -> Reading<D> {
        Reading {
            body,
            sse: SseReader::new(),
            decoder: (self.new_decoder)(),
            progress: Progress::Open,
            deadline: Instant::now() + self.transport.limits.progress,
        }
    }

    /// Waits and makes ready for the next try, or fails for good.
    async fn after_failure(&mut self, failed: AttemptFailure) -> State<D> {
        let AttemptFailure { failure, final_word } = failed;
        let untouched = !self.emitted && self.events.is_empty();
        let delay = (untouched && !final_word)
            .then(|| self.transport.retry.delay(&failure, self.attempts))
            .flatten();
        tracing::warn!(
            run = %self.invocation.run,
            provider_call_index = self.invocation.provider_call_index,
            model = self.transport.endpoint.model_id,
            attempt = self.attempts,
            fault = failure.fault.as_str(),
            status = failure.status,
            retry_in_ms = delay.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
            "model call failed"
        );
        match delay {
            Some(delay) => {
                #[allow(clippy::disallowed_methods, reason = "back-off between two tries")]
                tokio::time::sleep(delay).await;
                State::Ready
            }
            None => State::Failed(failure),
        }
    }
}

impl<D> Reading<D>
where
    D: FnMut(Signal<'_>, &mut VecDeque<ModelEvent>) -> Result<Progress, ProviderFailure>,
{
    /// Decodes the next event of the stream, or else reads more bytes.
    ///
    /// One event at a time, so that the outcome does not depend on how the bytes were cut.
    async fn advance(
        &mut self,
        transport: &Transport,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        match self.sse.next_event() {
            Ok(Some(event)) => {
                self.progress = (self.decoder)(Signal::Event(event), events)?;
                return Ok(());
            }
            Ok(None) => {}
            Err(fault) => return self.unreadable(transport, fault, events),
        }
        let limit = match self.progress {
            Progress::Closing => TRAILER_LIMIT.min(transport.limits.idle),
            Progress::Open | Progress::Done => transport.limits.idle,
        };
        let bytes = tokio::time::timeout_at(self.deadline, self.body.next_bytes(limit)).await;
        match bytes {
            Ok(Ok(Some(bytes))) => {
                self.sse.push(&bytes);
                Ok(())
            }
            Ok(Ok(None)) => self.end(transport, events),
            Ok(Err(_)) | Err(_) if self.progress == Progress::Closing => self.decode_end(events),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(transport.endpoint.failure(
                ProviderFault::Timeout,
                &format!(
                    "the endpoint kept the connection alive but said nothing for {} s; try again, or raise \
                     progress_timeout_seconds",
                    transport.limits.progress.as_secs_f64()
                ),
            )),
        }
    }

    /// The body is over: what it left open is an event too, then the decoder decides.
    fn end(
        &mut self,
        transport: &Transport,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        match self.sse.finish() {
            Ok(Some(event)) => {
                self.progress = (self.decoder)(Signal::Event(event), events)?;
                if self.progress == Progress::Done {
                    return Ok(());
                }
            }
            Ok(None) => {}
            Err(fault) => return self.unreadable(transport, fault, events),
        }
        self.decode_end(events)
    }

    fn decode_end(&mut self, events: &mut VecDeque<ModelEvent>) -> Result<(), ProviderFailure> {
        self.progress = (self.decoder)(Signal::End, events)?;
        Ok(())
    }

    fn unreadable(
        &mut self,
        transport: &Transport,
        fault: SseError,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        let kind = match fault {
            // A trailer that was cut does not undo an answer that was whole.
            SseError::EndsInsideCharacter if self.progress == Progress::Closing => {
                return self.decode_end(events);
            }
            SseError::EndsInsideCharacter => ProviderFault::Cut,
            SseError::TooLong | SseError::InvalidUtf8 | SseError::NotAnEvent => ProviderFault::Malformed,
        };
        Err(transport.endpoint.failure(kind, &fault.to_string()))
    }
}
