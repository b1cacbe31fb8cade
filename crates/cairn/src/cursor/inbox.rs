//! The client's messages of one request, put back into the order in which it numbered them.
//!
//! Owns order, repeats, gaps and the bounds of what is held. Must never know: HTTP, or what a message asks for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::proto::agent::AgentClientMessage;

/// How much one request's inbox holds, and for how long it waits for a missing append.
#[derive(Clone, Copy, Debug)]
pub struct InboxLimits {
    /// Messages held at a time, in order or not.
    pub messages: usize,
    /// Encoded bytes of all messages held at a time.
    pub bytes: usize,
    /// How long a missing append may stay missing while later ones are there.
    pub gap: Duration,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self {
            messages: 4096,
            bytes: 128 * 1024 * 1024,
            gap: Duration::from_secs(30),
        }
    }
}

/// The run and call that a subagent's client names as the parent of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParentReference {
    /// Request id of the parent's run.
    pub request_id: String,
    /// The tool call of the parent that started this request; opaque.
    pub tool_call_id: String,
}

/// One message of the client, in its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Inbound {
    /// Its number in the request, from 0 without a gap.
    pub seqno: u64,
    /// The message.
    pub message: AgentClientMessage,
    /// What the append's headers said about a parent.
    pub parent: Option<ParentReference>,
}

/// Why the messages of a request cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InboxError {
    /// An append never came, or was refused and not sent again.
    #[error("append {missing} of the request {}; send the message again", missed(*missing, *latest, *waited))]
    Gap {
        /// Number of the first missing append.
        missing: u64,
        /// Highest number that was seen.
        latest: u64,
        /// How long it was waited for.
        waited: Duration,
    },
}

/// What happened to a missing append. Where nothing later was seen, it came itself and was refused.
fn missed(missing: u64, latest: u64, waited: Duration) -> String {
    let waited = waited.as_secs();
    if latest > missing {
        format!("did not arrive within {waited} s although append {latest} did")
    } else {
        format!("was refused and not sent again within {waited} s")
    }
}

/// Why an append was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushError {
    /// The inbox holds as much as it may; the same append may be sent again later.
    #[error(
        "the request holds {messages} messages and {bytes} bytes that are not yet processed, which is its limit"
    )]
    Full {
        /// Messages held.
        messages: usize,
        /// Bytes held.
        bytes: usize,
    },
    /// The request has ended; nothing is taken any more.
    #[error("the request has ended")]
    Ended,
    /// The request's messages cannot go on.
    #[error(transparent)]
    Broken(#[from] InboxError),
}

/// Makes the two ends of one request's inbox.
pub fn inbox(limits: InboxLimits) -> (InboxSender, InboxReceiver) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            next: 0,
            latest: None,
            early: BTreeMap::new(),
            ready: VecDeque::new(),
            messages: 0,
            bytes: 0,
            gap_since: None,
            end: End::Open,
        }),
        changed: Notify::new(),
        limits,
    });
    (InboxSender(shared.clone()), InboxReceiver(shared))
}

/// The end that appends arrive at.
#[derive(Clone, Debug)]
pub struct InboxSender(Arc<Shared>);

/// The end that the request's session reads. Dropping it ends the request's inbox.
#[derive(Debug)]
pub struct InboxReceiver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    limits: InboxLimits,
}

#[derive(Debug)]
struct State {
    /// Number of the first append that is not yet in `ready`.
    next: u64,
    /// Highest number that was seen, taken or refused.
    latest: Option<u64>,
    /// Taken, but something before them is missing.
    early: BTreeMap<u64, Held>,
    /// In order, not yet read.
    ready: VecDeque<Held>,
    messages: usize,
    bytes: usize,
    /// Since when `next` has been missing while later appends were seen.
    gap_since: Option<Instant>,
    end: End,
}

#[derive(Debug)]
struct Held {
    inbound: Inbound,
    bytes: usize,
}

/// Open → Ended, or Open → Broken → Ended.
#[derive(Debug)]
enum End {
    Open,
    Broken { error: InboxError, told: bool },
    Ended,
}

impl InboxSender {
    /// Takes one message whose encoding has `bytes` bytes. A repeat is taken as the success that it repeats.
    ///
    /// # Errors
    /// See [`PushError`]; the message is then not held.
    pub fn push(&self, inbound: Inbound, bytes: usize) -> Result<(), PushError> {
        let mut state = self.0.lock();
        state.check_open()?;
        let seqno = inbound.seqno;
        if seqno < state.next || state.early.contains_key(&seqno) {
            return Ok(());
        }
        let limits = &self.0.limits;
        if state.messages >= limits.messages || state.bytes.saturating_add(bytes) > limits.bytes {
            let full = PushError::Full {
                messages: state.messages,
                bytes: state.bytes,
            };
            state.saw(seqno);
            self.0.changed.notify_one();
            return Err(full);
        }
        state.messages += 1;
        state.bytes += bytes;
        state.early.insert(seqno, Held { inbound, bytes });
        let before = state.next;
        while let Some(held) = {
            let next = state.next;
            state.early.remove(&next)
        } {
            state.ready.push_back(held);
            state.next += 1;
        }
        if state.next != before {
            // Another append may be missing now; its time begins here.
            state.gap_since = None;
        }
        state.saw(seqno);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Notes that the append with this number came and was refused: unless it is sent again, it is missing.
    pub fn refused(&self, seqno: u64) {
        let mut state = self.0.lock();
        if seqno >= state.next && !state.early.contains_key(&seqno) {
            state.saw(seqno);
            self.0.changed.notify_one();
        }
    }

    /// Takes nothing any more and forgets what is held.
    pub fn end(&self) {
        self.0.end();
    }
}

impl InboxReceiver {
    /// The next message in order; waits for it. `None` when the request has ended.
    ///
    /// Cancelling the wait loses nothing.
    ///
    /// # Errors
    /// The messages cannot go on. Told once; then `None`.
    pub async fn recv(&mut self) -> Option<Result<Inbound, InboxError>> {
        loop {
            let changed = self.0.changed.notified();
            let deadline = {
                let mut state = self.0.lock();
                match state.take(self.0.limits.gap) {
                    Taken::Message(inbound) => return Some(Ok(*inbound)),
                    Taken::Error(error) => return Some(Err(error)),
                    Taken::Ended => return None,
                    Taken::Nothing { until } => until,
                }
            };
            match deadline {
                Some(deadline) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(deadline) => {}
                },
                None => changed.await,
            }
        }
    }
}

impl Drop for InboxReceiver {
    fn drop(&mut self) {
        self.0.end();
    }
}

enum Taken {
    Message(Box<Inbound>),
    Error(InboxError),
    Ended,
    Nothing { until: Option<Instant> },
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; if it did, the counts would still be those of whole steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let mut state = self.lock();
        state.end = End::Ended;
        state.forget();
        self.changed.notify_one();
    }
}

impl State {
    fn check_open(&self) -> Result<(), PushError> {
        match &self.end {
            End::Open => Ok(()),
            End::Broken { error, .. } => Err(error.clone().into()),
            End::Ended => Err(PushError::Ended),
        }
    }

    fn saw(&mut self, seqno: u64) {
        self.latest = self.latest.max(Some(seqno));
        let missing = self.latest.is_some_and(|latest| latest >= self.next);
        self.gap_since = match (missing, self.gap_since) {
            (false, _) => None,
            (true, Some(since)) => Some(since),
            (true, None) => Some(Instant::now()),
        };
    }

    fn take(&mut self, gap: Duration) -> Taken {
        match &mut self.end {
            End::Ended => return Taken::Ended,
            End::Broken { told: true, .. } => return Taken::Ended,
            End::Broken { error, told } => {
                *told = true;
                return Taken::Error(error.clone());
            }
            End::Open => {}
        }
        if let Some(held) = self.ready.pop_front() {
            self.messages -= 1;
            self.bytes -= held.bytes;
            return Taken::Message(Box::new(held.inbound));
        }
        let until = self.gap_since.map(|since| since + gap);
        match (until, self.latest) {
            (Some(deadline), Some(latest)) if deadline <= Instant::now() => {
                let error = InboxError::Gap {
                    missing: self.next,
                    latest,
                    waited: gap,
                };
                self.end = End::Broken {
                    error: error.clone(),
                    told: true,
                };
                self.forget();
                Taken::Error(error)
            }
            _ => Taken::Nothing { until },
        }
    }

    fn forget(&mut self) {
        self.early.clear();
        self.ready.clear();
        self.messages = 0;
        self.bytes = 0;
    }
}
