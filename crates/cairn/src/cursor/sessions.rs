//! Joins the two halves of a request: the stream that was opened for it and the appends that name it.
//!
//! Owns which requests exist, which of them are over, and how early an append may come. Must never know: what a
//! run does with its messages.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connect::{ConnectCode, ConnectError};
use super::inbox::{Inbound, InboxLimits, InboxReceiver, InboxSender, PushError, inbox};
use super::run_sse::{RunBody, RunOutput, StreamLimits, run_stream};

/// Longest request id in bytes.
const MAX_REQUEST_ID_BYTES: usize = 256;

/// Bounds of the registry and of each of its sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Requests that are open or wait to be opened, at a time.
    pub sessions: usize,
    /// How long appends wait for their stream to be opened.
    pub early: Duration,
    /// Requests that are remembered as over.
    pub remembered: usize,
    /// Bounds of each session's inbox.
    pub inbox: InboxLimits,
    /// Bounds of each session's stream.
    pub stream: StreamLimits,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions: 256,
            early: Duration::from_secs(30),
            remembered: 4096,
            inbox: InboxLimits::default(),
            stream: StreamLimits::default(),
        }
    }
}

/// What a session's owner gets: the client's messages in order, and the one output.
#[derive(Debug)]
pub struct SessionIo {
    /// The request's id: one execution attempt.
    pub request_id: String,
    /// What the client says.
    pub inbound: InboxReceiver,
    /// What the client is told, up to the one end.
    pub output: RunOutput,
    /// Cancelled when the server shuts down: end the run and finish the output.
    pub shutdown: CancellationToken,
}

/// All requests of this process.
#[derive(Clone, Debug)]
pub struct SessionRegistry(Arc<Registry>);

#[derive(Debug)]
struct Registry {
    limits: SessionLimits,
    shutdown: CancellationToken,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    live: HashMap<String, Live>,
    over: HashMap<String, Over>,
    over_in_order: VecDeque<String>,
    generations: u64,
}

#[derive(Debug)]
struct Live {
    inbox: InboxSender,
    /// The reading end until the stream is opened.
    waiting: Option<InboxReceiver>,
    /// Tells this session from an earlier one of the same id that is no longer remembered.
    generation: u64,
}

#[derive(Clone, Copy, Debug)]
enum Over {
    /// Its stream had its end.
    Ended,
    /// Its stream was never opened; its appends are gone.
    NeverOpened,
}

impl SessionRegistry {
    /// An empty registry. Cancelling `shutdown` refuses everything new and tells every open session.
    pub fn new(limits: SessionLimits, shutdown: CancellationToken) -> Self {
        Self(Arc::new(Registry {
            limits,
            shutdown,
            sessions: Mutex::new(Sessions::default()),
        }))
    }

    /// Opens the stream of a request, once.
    ///
    /// # Errors
    /// `already_exists` when it was opened before, `aborted` when appends of it were given up, `invalid_argument`
    /// for a bad id, `resource_exhausted` at the bound of sessions, `unavailable` during shutdown.
    pub fn open(&self, request_id: &str) -> Result<(SessionIo, RunBody), ConnectError> {
        let registry = &self.0;
        registry.check(request_id)?;
        let mut sessions = registry.lock();
        match sessions.over.get(request_id) {
            Some(Over::Ended) => return Err(opened_before(request_id)),
            Some(Over::NeverOpened) => {
                return Err(ConnectError::new(
                    ConnectCode::Aborted,
                    format!(
                        "request {request_id} was opened more than {} s after its first append, which is gone; \
                         start a new request",
                        registry.limits.early.as_secs()
                    ),
                ));
            }
            None => {}
        }
        if !sessions.live.contains_key(request_id) {
            registry.insert(&mut sessions, request_id)?;
        }
        let live = sessions
            .live
            .get_mut(request_id)
            .ok_or_else(|| opened_before(request_id))?;
        let inbound = live.waiting.take().ok_or_else(|| opened_before(request_id))?;
        let lease = SessionLease {
            registry: Arc::downgrade(registry),
            request_id: request_id.to_owned(),
            generation: live.generation,
            inbox: live.inbox.clone(),
            ended: AtomicBool::new(false),
        };
        let shutdown = registry.shutdown.child_token();
        let (output, body) = run_stream(registry.limits.stream, lease, shutdown.clone());
        let io = SessionIo {
            request_id: request_id.to_owned(),
            inbound,
            output,
            shutdown,
        };
        Ok((io, body))
    }

    /// Takes one message of a request, whether its stream is open yet or not. `bytes` is its encoded length.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// `failed_precondition` when the request is over, `not_found` when it was never opened in time, `aborted` when
    /// its messages cannot go on, `resource_exhausted` at a bound, `invalid_argument` for a bad id, `unavailable`
    /// during shutdown.
    pub fn append(&self, request_id: &str, inbound: Inbound, bytes: usize) -> Result<(), ConnectError> {
        let registry = &self.0;
        registry.check(request_id)?;
        let sender = {
            let mut sessions = registry.lock();
            match sessions.over.get(request_id) {
                Some(Over::Ended) => return Err(has_ended(request_id)),
                Some(Over::NeverOpened) => {
                    return Err(ConnectError::new(
                        ConnectCode::NotFound,
                        format!(
                            "request {request_id} was not opened within {} s of its first append; start a new request",
                            registry.limits.early.as_secs()
                        ),
                    ));
                }
                None => {}
            }
            match sessions.live.get(request_id) {
                Some(live) => live.inbox.clone(),
                None => {
                    let generation = registry.insert(&mut sessions, request_id)?;
                    registry.expire_unless_opened(request_id, generation);
                    match sessions.live.get(request_id) {
                        Some(live) => live.inbox.clone(),
                        None => return Err(has_ended(request_id)),
                    }
                }
            }
        };
        sender.push(inbound, bytes).map_err(|error| match error {
            PushError::Ended => has_ended(request_id),
            PushError::Full { .. } => ConnectError::new(ConnectCode::ResourceExhausted, error.to_string()),
            PushError::Broken(_) => ConnectError::new(ConnectCode::Aborted, error.to_string()),
        })
    }

    /// Notes that an append of a request came and was refused: unless it is sent again, it is missing.
    pub fn refused(&self, request_id: &str, seqno: u64) {
        let sender = self.0.lock().live.get(request_id).map(|live| live.inbox.clone());
        if let Some(sender) = sender {
            sender.refused(seqno);
        }
    }

    /// How many requests are open or wait to be opened.
    pub fn live(&self) -> usize {
        self.0.lock().live.len()
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        // No code panics while it holds the lock.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, request_id: &str) -> Result<(), ConnectError> {
        if self.shutdown.is_cancelled() {
            return Err(ConnectError::new(
                ConnectCode::Unavailable,
                "cairn is shutting down; send again when it is back",
            ));
        }
        let valid = !request_id.is_empty()
            && request_id.len() <= MAX_REQUEST_ID_BYTES
            && !request_id.chars().any(char::is_control);
        if valid {
            Ok(())
        } else {
            Err(ConnectError::new(
                ConnectCode::InvalidArgument,
                format!("request_id must have 1 to {MAX_REQUEST_ID_BYTES} bytes and no control characters"),
            ))
        }
    }

    fn insert(&self, sessions: &mut Sessions, request_id: &str) -> Result<u64, ConnectError> {
        if sessions.live.len() >= self.limits.sessions {
            return Err(ConnectError::new(
                ConnectCode::ResourceExhausted,
                format!(
                    "{} requests are open, which is the limit; try again when one of them has ended",
                    sessions.live.len()
                ),
            ));
        }
        sessions.generations += 1;
        let generation = sessions.generations;
        let (sender, receiver) = inbox(self.limits.inbox);
        let live = Live {
            inbox: sender,
            waiting: Some(receiver),
            generation,
        };
        sessions.live.insert(request_id.to_owned(), live);
        Ok(generation)
    }

    fn expire_unless_opened(self: &Arc<Self>, request_id: &str, generation: u64) {
        let registry = Arc::downgrade(self);
        let request_id = request_id.to_owned();
        let early = self.limits.early;
        tokio::spawn(async move {
            #[allow(
                clippy::disallowed_methods,
                reason = "the passing of time is the event itself"
            )]
            tokio::time::sleep(early).await;
            if let Some(registry) = registry.upgrade() {
                registry.remove(&request_id, generation, Over::NeverOpened);
            }
        });
    }

    /// Removes the session; one that was never opened only if it still is not.
    fn remove(&self, request_id: &str, generation: u64, over: Over) {
        let removed = {
            let mut sessions = self.lock();
            let is_it = sessions.live.get(request_id).is_some_and(|live| {
                live.generation == generation && (matches!(over, Over::Ended) || live.waiting.is_some())
            });
            if !is_it {
                return;
            }
            let removed = sessions.live.remove(request_id);
            sessions.over.insert(request_id.to_owned(), over);
            sessions.over_in_order.push_back(request_id.to_owned());
            while sessions.over_in_order.len() > self.limits.remembered {
                if let Some(oldest) = sessions.over_in_order.pop_front() {
                    sessions.over.remove(&oldest);
                }
            }
            removed
        };
        // Dropped outside the lock: an unopened session's messages go with it.
        drop(removed);
    }
}

/// An open session's place in the registry; given up once, by whoever ends the session first.
#[derive(Debug)]
pub struct SessionLease {
    registry: Weak<Registry>,
    request_id: String,
    generation: u64,
    inbox: InboxSender,
    ended: AtomicBool,
}

impl SessionLease {
    /// From now on the request takes no append. Repeats do nothing.
    pub(super) fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        self.inbox.end();
        if let Some(registry) = self.registry.upgrade() {
            registry.remove(&self.request_id, self.generation, Over::Ended);
        }
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.end();
    }
}

fn opened_before(request_id: &str) -> ConnectError {
    ConnectError::new(
        ConnectCode::AlreadyExists,
        format!("request {request_id} was opened before; each attempt needs its own request id"),
    )
}

fn has_ended(request_id: &str) -> ConnectError {
    ConnectError::new(
        ConnectCode::FailedPrecondition,
        format!("request {request_id} has ended and takes no append; start a new request"),
    )
}
