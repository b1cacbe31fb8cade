//! A scripted HTTP endpoint on loopback, the same for every API: every request is recorded and judged by the API's rules, and
//! each one that breaks none gets the next reply, in the order in which they were queued. A breach is answered as a real endpoint would, and kept
//! until [`StrictEndpoint::assert_clean`], which every test calls at its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

#[path = "endpoint/lineage.rs"]
pub mod lineage;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Longest wait of a test for something that must happen; only reached by a failing test.
const PATIENCE: Duration = Duration::from_secs(20);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What an API asks of requests.
pub trait Rules: Default + Send + 'static {
    /// What stands between the address and the API's own path.
    const BASE: &'static str;

    /// Everything that a request breaks; the first breach is the answer.
    fn check(&mut self, request: &RecordedRequest) -> Vec<Breach>;

    /// An answer that no test scripted and that is no breach either.
    fn intercept(&mut self, _request: &RecordedRequest) -> Option<Breach> {
        None
    }

    /// This reply goes out.
    fn sends(&mut self, _reply: &Reply) {}
}

/// Why a request is refused.
pub struct Breach {
    pub status: u16,
    pub code: Option<&'static str>,
    pub text: String,
}

impl From<String> for Breach {
    fn from(text: String) -> Self {
        Self {
            status: 400,
            code: None,
            text,
        }
    }
}

impl Breach {
    fn refusal(&self) -> Reply {
        let error =
            json!({"type": "invalid_request_error", "message": self.text, "param": null, "code": self.code});
        Reply::status(
            self.status,
            &[],
            &json!({"type": "error", "error": error}).to_string(),
        )
    }
}

/// The fake endpoint. Ends when dropped.
pub struct StrictEndpoint<R> {
    address: SocketAddr,
    state: Arc<Mutex<State<R>>>,
    server: JoinHandle<()>,
}

/// A model that answers each request by its content.
type Model = Box<dyn Fn(&RecordedRequest) -> Reply + Send>;

#[derive(Default)]
struct State<R> {
    replies: VecDeque<Reply>,
    model: Option<Model>,
    requests: Vec<RecordedRequest>,
    violations: Vec<String>,
    connections: usize,
    rules: R,
}

impl<R: Rules> StrictEndpoint<R> {
    /// Starts an endpoint on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::<R>::default()));
        let shared = Arc::clone(&state);
        let server = tokio::spawn(async move {
            // Connections end with the endpoint.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                let shared = Arc::clone(&shared);
                let service = hyper::service::service_fn(move |request| serve(Arc::clone(&shared), request));
                let connection = hyper::server::conn::http1::Builder::new();
                connections.spawn(async move {
                    let _ = connection.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self {
            address,
            state,
            server,
        }
    }

    /// What a configured model's `base_url` is set to.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, R::BASE)
    }

    /// Queues the reply to a further request.
    pub fn reply(&self, reply: impl Into<Reply>) {
        self.state.lock().unwrap().replies.push_back(reply.into());
    }

    /// Answers requests for which no reply is queued by their content, so that the same history has the same answer
    /// however often it is asked for.
    pub fn answer_by(&self, model: impl Fn(&RecordedRequest) -> Reply + Send + 'static) {
        self.state.lock().unwrap().model = Some(Box::new(model));
    }

    /// Takes back the replies that nobody has asked for.
    pub fn forget_replies(&self) {
        self.state.lock().unwrap().replies.clear();
    }

    /// Changes the rules.
    pub fn rules<T>(&self, change: impl FnOnce(&mut R) -> T) -> T {
        change(&mut self.state.lock().unwrap().rules)
    }

    /// All requests so far, in the order of their arrival, refused ones too.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.lock().unwrap().requests.clone()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// What requests broke so far.
    pub fn violations(&self) -> Vec<String> {
        self.state.lock().unwrap().violations.clone()
    }

    /// Fails the test if any request broke a rule or a queued reply was not used.
    #[track_caller]
    pub fn assert_clean(&self) {
        let state = self.state.lock().unwrap();
        assert_eq!(
            state.violations,
            Vec::<String>::new(),
            "requests broke the endpoint's rules"
        );
        assert_eq!(state.replies.len(), 0, "queued replies were not asked for");
    }
}

impl<R> Drop for StrictEndpoint<R> {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The body as JSON; null if it is none.
    pub json: Value,
}

/// A scripted reply.
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
    frame_bytes: usize,
    end: End,
    hold: Option<Hold>,
    /// What comes instead of the body, piece by piece, as a test feeds it.
    fed: Option<mpsc::Receiver<Bytes>>,
    /// What the reply gives out that only its endpoint understands later.
    pub issues: Vec<String>,
}

enum End {
    Whole,
    /// The connection closes before any header.
    NoHeaders,
    /// The body ends early but properly.
    Cut(usize),
    /// The connection breaks within the body.
    Broken(usize),
}

struct Hold {
    /// Bytes of the body that are out before the hold; `None` holds the headers too.
    after: Option<usize>,
    gate: Gate,
}

impl Reply {
    /// A body as it is, as an event stream with status 200.
    pub fn raw(sse: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            body: sse.into(),
            frame_bytes: usize::MAX,
            end: End::Whole,
            hold: None,
            fed: None,
            issues: Vec::new(),
        }
    }

    /// An event stream that goes on as long as the sender does.
    pub fn fed(pieces: mpsc::Receiver<Bytes>) -> Self {
        let mut reply = Self::raw("");
        reply.fed = Some(pieces);
        reply
    }

    /// A response with this status, these headers and this body. The content type is JSON unless a header says other.
    pub fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut reply = Self::raw(body.to_owned());
        reply.status = status;
        reply.headers = vec![("content-type".into(), "application/json".into())];
        for (name, value) in headers {
            reply.headers.retain(|(known, _)| known != name);
            reply.headers.push(((*name).into(), (*value).into()));
        }
        reply
    }

    /// The same with a body that is no text.
    pub fn status_bytes(status: u16, body: impl Into<Bytes>) -> Self {
        let mut reply = Self::status(status, &[], "");
        reply.body = body.into();
        reply
    }

    /// The same with a text body changed.
    pub fn with_body(mut self, change: impl FnOnce(&str) -> String) -> Self {
        self.body = change(std::str::from_utf8(&self.body).unwrap()).into();
        self
    }

    /// Where in the body the event ends that brings this piece of the answer (see [`pieces`]).
    pub fn behind(&self, piece: &str) -> usize {
        let body = std::str::from_utf8(&self.body).unwrap();
        let piece = json!(piece).to_string();
        let at = body
            .find(&piece)
            .unwrap_or_else(|| panic!("no event brings {piece}"));
        at + body[at..].find("\n\n").unwrap() + "\n\n".len()
    }

    /// The same without what comes behind the event that brings this piece.
    pub fn until(mut self, piece: &str) -> Self {
        self.body.truncate(self.behind(piece));
        self
    }

    /// Sends a further header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The connection closes without an answer.
    pub fn disconnect() -> Self {
        let mut reply = Self::raw("");
        reply.end = End::NoHeaders;
        reply
    }

    /// The body ends properly, but after this many bytes.
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.end = End::Cut(bytes);
        self
    }

    /// The connection breaks after this many bytes of the body.
    pub fn broken_at(mut self, bytes: usize) -> Self {
        self.end = End::Broken(bytes);
        self
    }

    /// Sends the body in frames of this many bytes.
    pub fn split_every(mut self, bytes: usize) -> Self {
        self.frame_bytes = bytes;
        self
    }

    /// Holds the reply before its headers until the gate is opened.
    pub fn hold_headers(self) -> (Self, Gate) {
        self.hold(None)
    }

    /// Holds the reply after this many bytes of its body until the gate is opened.
    pub fn hold_at(self, bytes: usize) -> (Self, Gate) {
        self.hold(Some(bytes))
    }

    fn hold(mut self, after: Option<usize>) -> (Self, Gate) {
        let gate = Gate::new();
        self.hold = Some(Hold {
            after,
            gate: gate.clone(),
        });
        (self, gate)
    }
}

/// The test's handle on a held reply.
#[derive(Clone)]
pub struct Gate {
    phase: watch::Sender<Phase>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Waiting,
    Arrived,
    Open,
    Gone,
}

impl Gate {
    fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Waiting),
        }
    }

    /// Waits until the reply has come to the hold.
    pub async fn arrived(&self) {
        self.reach("the reply did not come to its hold", |phase| {
            phase >= Phase::Arrived
        })
        .await;
    }

    /// Lets the reply go on.
    pub fn open(&self) {
        self.phase.send_replace(Phase::Open);
    }

    /// Waits until the client has closed the connection of the held reply.
    pub async fn gone(&self) {
        self.reach("the client did not close the connection", |phase| {
            phase == Phase::Gone
        })
        .await;
    }

    async fn reach(&self, otherwise: &str, reached: impl Fn(Phase) -> bool) {
        let mut phase = self.phase.subscribe();
        let waited = tokio::time::timeout(PATIENCE, phase.wait_for(|phase| reached(*phase))).await;
        assert!(waited.is_ok_and(|seen| seen.is_ok()), "{otherwise}");
    }

    /// The server's side: reports arrival, and the client's leave if this is dropped while held.
    async fn pass(&self) {
        struct Guard(watch::Sender<Phase>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.send_if_modified(|phase| {
                    let left = *phase == Phase::Arrived;
                    if left {
                        *phase = Phase::Gone;
                    }
                    left
                });
            }
        }
        let _guard = Guard(self.phase.clone());
        self.phase.send_if_modified(|phase| {
            let first = *phase == Phase::Waiting;
            if first {
                *phase = Phase::Arrived;
            }
            first
        });
        let _ = self
            .phase
            .subscribe()
            .wait_for(|phase| *phase == Phase::Open)
            .await;
    }
}

async fn serve<R: Rules>(
    state: Arc<Mutex<State<R>>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = RecordedRequest {
        path: parts.uri.to_string(),
        headers: parts.headers,
        json: serde_json::from_slice(&body).unwrap_or(Value::Null),
        body,
    };
    let reply = state.lock().unwrap().answer(request);
    respond(reply).await
}

impl<R: Rules> State<R> {
    fn answer(&mut self, request: RecordedRequest) -> Reply {
        let number = self.requests.len();
        self.requests.push(request.clone());
        if let Some(breach) = self.rules.intercept(&request) {
            return breach.refusal();
        }
        let breaches = self.rules.check(&request);
        let texts = breaches
            .iter()
            .map(|breach| format!("request {number}: {}", breach.text));
        self.violations.extend(texts);
        if let Some(first) = breaches.first() {
            return first.refusal();
        }
        let reply = self.replies.pop_front();
        match reply.or_else(|| self.model.as_ref().map(|model| model(&request))) {
            Some(reply) => {
                self.rules.sends(&reply);
                reply
            }
            None => {
                self.violations
                    .push(format!("request {number}: no reply was queued for it"));
                Breach::from("the test queued no reply".to_owned()).refusal()
            }
        }
    }
}

/// Sends a reply as it is scripted.
async fn respond(reply: Reply) -> Result<Response<Body>, BoxError> {
    let (mut hold, mut held_at) = (None, usize::MAX);
    match reply.hold {
        Some(Hold { after: None, gate }) => gate.pass().await,
        Some(Hold {
            after: Some(at),
            gate,
        }) => (hold, held_at) = (Some(gate), at),
        None => {}
    }
    let (end, is_broken) = match reply.end {
        End::NoHeaders => return Err("scripted disconnect".into()),
        End::Whole => (reply.body.len(), false),
        End::Cut(at) => (at.min(reply.body.len()), false),
        End::Broken(at) => (at.min(reply.body.len()), true),
    };
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status)?);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    if let Some(fed) = reply.fed {
        let pieces = stream::unfold(fed, |mut fed| async {
            let piece = fed.recv().await?;
            Some((Ok(Frame::data(piece)), fed))
        });
        return Ok(response.body(BodyExt::boxed_unsync(StreamBody::new(pieces)))?);
    }
    let body = reply.body.slice(..end);
    if hold.is_none() && !is_broken && reply.frame_bytes >= body.len() {
        return Ok(response.body(Full::new(body).map_err(infallible).boxed_unsync())?);
    }
    let held_at = held_at.min(end);
    let frames = |part: Bytes| -> Vec<Result<Frame<Bytes>, BoxError>> {
        part.chunks(reply.frame_bytes)
            .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))))
            .collect()
    };
    let before = frames(body.slice(..held_at));
    let after = frames(body.slice(held_at..));
    let broken: Vec<Result<Frame<Bytes>, BoxError>> = match is_broken {
        true => vec![Err("scripted break".into())],
        false => Vec::new(),
    };
    let gate = stream::once(async move {
        if let Some(gate) = hold {
            gate.pass().await;
        }
    })
    .filter_map(|()| async { None });
    // Being pending once lets the server flush what came before the break.
    let flush = stream::once(tokio::task::yield_now()).filter_map(|()| async { None });
    let stream = stream::iter(before)
        .chain(gate)
        .chain(stream::iter(after))
        .chain(flush)
        .chain(stream::iter(broken));
    Ok(response.body(BodyExt::boxed_unsync(StreamBody::new(stream)))?)
}

fn infallible(never: Infallible) -> BoxError {
    match never {}
}

/// Pieces of a few bytes, cut at character borders.
pub fn pieces(text: &str) -> Vec<String> {
    text.chars()
        .collect::<Vec<_>>()
        .chunks(5)
        .map(|piece| piece.iter().collect())
        .collect()
}
