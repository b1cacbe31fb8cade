//! The response stream of a run: frames in order, signs of life while it is silent, and exactly one end.
//!
//! ```text
//! Streaming ──finish / owner dropped──▶ Draining ──last frame──▶ end frame ──▶ Done
//! ```
//!
//! Owns the body's life, the heartbeat and the one end frame. Must never know: what a frame says.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::connect::{ConnectCode, ConnectError, EnvelopeError, encode_end, encode_message};
use super::proto::agent::{AgentServerMessage, HeartbeatUpdate, InteractionUpdate};
use super::proto::agent::{agent_server_message, interaction_update};
use super::sessions::SessionLease;

/// Bounds of one stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Frames that wait for the client before a writer waits.
    pub frames: usize,
    /// How long a writer waits for a client that reads nothing.
    pub stall: Duration,
    /// How long the stream may be silent before it gives a sign of life.
    pub heartbeat: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            frames: 64,
            stall: Duration::from_secs(60),
            heartbeat: Duration::from_secs(5),
        }
    }
}

/// Why a frame was not sent. After any of the first two nothing can be sent any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The client closed the response, or the stream had its end.
    #[error("the client closed the stream")]
    Closed,
    /// The client read nothing for too long; the stream counts as closed.
    #[error("the client read nothing from the stream for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The message does not fit into a frame; the stream is as it was.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

/// The single owner of a stream's end. Dropping it without [`RunOutput::finish`] ends the stream with `internal`.
#[derive(Debug)]
pub struct RunOutput {
    writer: RunWriter,
    end: oneshot::Sender<Result<(), ConnectError>>,
    lease: SessionLease,
}

/// Sends frames; as many of them as needed may exist. None of them can end the stream.
#[derive(Clone, Debug)]
pub struct RunWriter {
    frames: mpsc::Sender<Bytes>,
    closed: CancellationToken,
    shutdown: CancellationToken,
    stall: Duration,
}

/// The body of the response.
#[derive(Debug)]
pub struct RunBody {
    state: BodyState,
    closed: CancellationToken,
}

#[derive(Debug)]
enum BodyState {
    /// Next: Draining.
    Streaming(Streaming),
    /// Frames that were sent before the end, then the end. Next: Done.
    Draining {
        frames: mpsc::Receiver<Bytes>,
        end: Bytes,
    },
    /// The end frame is out.
    Done,
}

#[derive(Debug)]
struct Streaming {
    frames: mpsc::Receiver<Bytes>,
    end: oneshot::Receiver<Result<(), ConnectError>>,
    /// Fires at the earliest time at which a heartbeat may be due; frames do not move it, so they stay cheap.
    timer: Pin<Box<Sleep>>,
    last_frame: Instant,
    heartbeat: Duration,
    heartbeat_frame: Bytes,
}

/// Makes the two ends of a run's response. Must be called inside a tokio runtime.
pub(super) fn run_stream(
    limits: StreamLimits,
    lease: SessionLease,
    shutdown: CancellationToken,
) -> (RunOutput, RunBody) {
    let (frame_sender, frame_receiver) = mpsc::channel(limits.frames);
    let (end_sender, end_receiver) = oneshot::channel();
    let closed = CancellationToken::new();
    let now = Instant::now();
    let output = RunOutput {
        writer: RunWriter {
            frames: frame_sender,
            closed: closed.clone(),
            shutdown,
            stall: limits.stall,
        },
        end: end_sender,
        lease,
    };
    let body = RunBody {
        state: BodyState::Streaming(Streaming {
            frames: frame_receiver,
            end: end_receiver,
            timer: Box::pin(tokio::time::sleep_until(now + limits.heartbeat)),
            last_frame: now,
            heartbeat: limits.heartbeat,
            heartbeat_frame: heartbeat_frame(),
        }),
        closed,
    };
    (output, body)
}

fn heartbeat_frame() -> Bytes {
    let heartbeat = AgentServerMessage {
        message: Some(agent_server_message::Message::InteractionUpdate(
            InteractionUpdate {
                message: Some(interaction_update::Message::Heartbeat(HeartbeatUpdate::default())),
            },
        )),
    };
    // A few bytes always fit.
    encode_message(&heartbeat).unwrap_or_default()
}

impl RunOutput {
    /// Another sender of frames.
    pub fn writer(&self) -> RunWriter {
        self.writer.clone()
    }

    /// Sends a frame; see [`RunWriter::send`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, message: &AgentServerMessage) -> Result<(), SendError> {
        self.writer.send(message).await
    }

    /// Waits until the client has closed the response or stopped reading it.
    pub async fn closed(&self) {
        self.writer.closed().await;
    }

    /// Ends the stream after all frames that were sent: with success, or with the error.
    ///
    /// The request takes no append and no writer sends a frame from now on.
    pub fn finish(self, outcome: Result<(), ConnectError>) {
        self.lease.end();
        self.writer.closed.cancel();
        // A client that closed the response gets no end; there is nobody to tell.
        let _ = self.end.send(outcome);
    }
}

impl RunWriter {
    /// Sends a frame, and waits while the client has too many of them unread.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, message: &AgentServerMessage) -> Result<(), SendError> {
        if self.closed.is_cancelled() {
            return Err(SendError::Closed);
        }
        let frame = encode_message(message)?;
        let frame = match self.frames.try_send(frame) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(SendError::Closed),
            Err(mpsc::error::TrySendError::Full(frame)) => frame,
        };
        #[allow(
            clippy::disallowed_methods,
            reason = "a bound on a wait, next to the events that end it"
        )]
        let stalled = tokio::time::sleep(self.stall);
        tokio::select! {
            sent = self.frames.send(frame) => sent.map_err(|_| SendError::Closed),
            () = self.closed.cancelled() => Err(SendError::Closed),
            () = self.shutdown.cancelled() => {
                // A run must be able to record its end while the server still stands; this client does not read.
                self.closed.cancel();
                Err(SendError::Closed)
            }
            () = stalled => {
                self.closed.cancel();
                Err(SendError::Stalled(self.stall))
            }
        }
    }

    /// Waits until the stream takes nothing any more: the client closed it or stopped reading, or it had its end.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Whether the stream takes nothing any more.
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }
}

impl Body for RunBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            match &mut self.state {
                BodyState::Streaming(streaming) => match streaming.poll(context) {
                    Poll::Ready(Step::Frame(frame)) => return Poll::Ready(Some(Ok(Frame::data(frame)))),
                    Poll::Ready(Step::End(end)) => {
                        if let BodyState::Streaming(streaming) =
                            std::mem::replace(&mut self.state, BodyState::Done)
                        {
                            let mut frames = streaming.frames;
                            frames.close();
                            self.state = BodyState::Draining { frames, end };
                        }
                    }
                    Poll::Pending => return Poll::Pending,
                },
                BodyState::Draining { frames, end } => {
                    let frame = match frames.poll_recv(context) {
                        Poll::Ready(Some(frame)) => frame,
                        Poll::Ready(None) => {
                            let end = std::mem::take(end);
                            self.state = BodyState::Done;
                            end
                        }
                        // A writer is between its permit and its frame; it wakes this task.
                        Poll::Pending => return Poll::Pending,
                    };
                    return Poll::Ready(Some(Ok(Frame::data(frame))));
                }
                BodyState::Done => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, BodyState::Done)
    }
}

enum Step {
    Frame(Bytes),
    End(Bytes),
}

impl Streaming {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        // The owner holds a sender, so the channel is not at its end before the owner is.
        if let Poll::Ready(Some(frame)) = self.frames.poll_recv(context) {
            self.last_frame = Instant::now();
            return Poll::Ready(Step::Frame(frame));
        }
        if let Poll::Ready(outcome) = Pin::new(&mut self.end).poll(context) {
            let outcome = outcome.unwrap_or_else(|_| {
                Err(ConnectError::new(
                    ConnectCode::Internal,
                    "the run stopped without an outcome; this is a fault of cairn, please report it",
                ))
            });
            return Poll::Ready(Step::End(encode_end(outcome.as_ref().copied())));
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let due = self.last_frame + self.heartbeat;
            if due <= now {
                self.last_frame = now;
                self.timer.as_mut().reset(now + self.heartbeat);
                return Poll::Ready(Step::Frame(self.heartbeat_frame.clone()));
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Drop for RunBody {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}
