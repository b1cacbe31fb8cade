//! A strict fake OpenAI Chat endpoint on loopback: scripted answers out, every request checked.
//!
//! It is an oracle, not a mock: whatever a test is about, each request must be valid, must pair every tool call with its
//! result, and must extend the earlier request of its conversation byte for byte. A breach is answered with 400, as a real
//! endpoint would, and recorded until [`StrictChat::assert_clean`]. Every test that uses it calls that at its end.
//!
//! ```ignore
//! #[path = "support/strict_chat.rs"]
//! mod strict_chat;
//!
//! let chat = StrictChat::start().await;
//! chat.reply_calls([("call_1", "Read", r#"{"path":"a.txt"}"#)]);
//! chat.reply_text("It says hello.");
//! // … run something with base_url = chat.base_url() …
//! assert_eq!(chat.requests().len(), 2);
//! chat.assert_clean();
//! ```
//!
//! Replies are used in the order in which they were queued, one for each request. Faults are built with [`Reply`]:
//! `Reply::text("…").cut_at(40)`, `Reply::disconnect()`, `Reply::text("…").hold_at(0)`.
//!
//! Which requests belong together is decided by their content: a request that shares an assistant message with an earlier
//! one, at the same place, belongs to its conversation. [`StrictChat::one_conversation`] makes it stricter, and
//! [`StrictChat::allow_reset`] excuses the next request.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "shared test support; not every test file uses all of it"
)]

use std::collections::{BTreeSet, VecDeque};
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
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Longest wait of a test for something that must happen; only reached by a failing test.
const PATIENCE: Duration = Duration::from_secs(20);

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The fake endpoint. Ends when dropped.
pub struct StrictChat {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
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

impl RecordedRequest {
    /// The request's messages.
    pub fn messages(&self) -> &[Value] {
        self.json["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    requests: Vec<RecordedRequest>,
    violations: Vec<String>,
    lineages: Vec<Lineage>,
    one_conversation: bool,
    reset_allowed: bool,
    connections: usize,
}

/// The newest request of a conversation.
struct Lineage {
    body: Bytes,
    json: Value,
}

impl StrictChat {
    /// Starts an endpoint on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
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
        format!("http://{}/v1", self.address)
    }

    /// Queues the reply to a further request.
    pub fn reply(&self, reply: Reply) {
        self.state.lock().unwrap().replies.push_back(reply);
    }

    /// Queues a whole answer of text.
    pub fn reply_text(&self, text: &str) {
        self.reply(Reply::text(text));
    }

    /// Queues a whole answer of tool calls: id, name, argument text.
    pub fn reply_calls<'a>(&self, calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) {
        self.reply(Reply::calls(calls));
    }

    /// Queues a body as it is, as an event stream with status 200.
    pub fn reply_raw(&self, sse: impl Into<Bytes>) {
        self.reply(Reply::raw(sse));
    }

    /// Queues a response with this status, these headers and this body.
    pub fn reply_status(&self, status: u16, headers: &[(&str, &str)], body: &str) {
        self.reply(Reply::status(status, headers, body));
    }

    /// All requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.lock().unwrap().requests.clone()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// From now on every request must extend the one before it.
    pub fn one_conversation(&self) {
        self.state.lock().unwrap().one_conversation = true;
    }

    /// The next request need not extend an earlier one (a compaction, an edited message, other parameters).
    pub fn allow_reset(&self) {
        self.state.lock().unwrap().reset_allowed = true;
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

impl Drop for StrictChat {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A scripted reply.
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
    frame_bytes: usize,
    end: End,
    hold: Option<Hold>,
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
    /// A whole answer of text, with usage.
    pub fn text(text: &str) -> Self {
        Self::answer(None, text, &[])
    }

    /// A whole answer of tool calls: id, name, argument text.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        Self::answer(None, "", &calls.into_iter().collect::<Vec<_>>())
    }

    /// A whole answer of thinking (as `reasoning_content`), text and calls, in small pieces.
    pub fn answer(reasoning: Option<&str>, text: &str, calls: &[(&str, &str, &str)]) -> Self {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        for piece in pieces(reasoning.unwrap_or_default()) {
            deltas.push(json!({"reasoning_content": piece}));
        }
        for piece in pieces(text) {
            deltas.push(json!({"content": piece}));
        }
        for (index, (id, name, arguments)) in calls.iter().enumerate() {
            deltas.push(
                json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": ""}}]}),
            );
            for piece in pieces(arguments) {
                deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
            }
        }
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        let mut sse = String::new();
        let mut push = |choices: Value, usage: Value| {
            let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": choices, "usage": usage});
            sse.push_str(&format!("data: {chunk}\n\n"));
        };
        for delta in deltas {
            push(
                json!([{"index": 0, "delta": delta, "finish_reason": null}]),
                Value::Null,
            );
        }
        push(
            json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
            Value::Null,
        );
        push(
            json!([]),
            json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}),
        );
        sse.push_str("data: [DONE]\n\n");
        Self::raw(sse)
    }

    /// A body as it is, as an event stream with status 200.
    pub fn raw(sse: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            body: sse.into(),
            frame_bytes: usize::MAX,
            end: End::Whole,
            hold: None,
        }
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

async fn serve(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let reply = {
        let mut state = state.lock().unwrap();
        let request = RecordedRequest {
            path: parts.uri.to_string(),
            headers: parts.headers,
            json: serde_json::from_slice(&body).unwrap_or(Value::Null),
            body,
        };
        let breaches = state.check(&request);
        let number = state.requests.len();
        state.requests.push(request);
        let reply = state.replies.pop_front();
        if let Some(first) = breaches.first() {
            let refusal = json!({"error": {"message": first, "type": "invalid_request_error"}}).to_string();
            state.violations.extend(
                breaches
                    .iter()
                    .map(|breach| format!("request {number}: {breach}")),
            );
            Reply::status(400, &[], &refusal)
        } else if let Some(reply) = reply {
            reply
        } else {
            state
                .violations
                .push(format!("request {number}: no reply was queued for it"));
            Reply::status(400, &[], r#"{"error":{"message":"the test queued no reply"}}"#)
        }
    };
    respond(reply).await
}

/// Sends a reply as it is scripted.
pub async fn respond(reply: Reply) -> Result<Response<Body>, BoxError> {
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

impl State {
    fn check(&mut self, request: &RecordedRequest) -> Vec<String> {
        let mut breaches = Vec::new();
        if request.path != "/v1/chat/completions" {
            breaches.push(format!("path {}", request.path));
        }
        if request.json.is_null() {
            breaches.push("the body is no JSON".to_owned());
            return breaches;
        }
        if request.json["stream"] != json!(true) || !request.json["model"].is_string() {
            breaches.push("stream or model is missing".to_owned());
        }
        if request.messages().is_empty() {
            breaches.push("there are no messages".to_owned());
        }
        check_tools(&request.json, &mut breaches);
        check_messages(request.messages(), &mut breaches);
        self.check_extension(request, &mut breaches);
        breaches
    }

    fn check_extension(&mut self, request: &RecordedRequest, breaches: &mut Vec<String>) {
        let reset_allowed = std::mem::take(&mut self.reset_allowed);
        let lineage = Lineage {
            body: request.body.clone(),
            json: request.json.clone(),
        };
        if let Some(known) = self
            .lineages
            .iter_mut()
            .rev()
            .find(|known| difference(known, request).is_none())
        {
            *known = lineage;
            return;
        }
        let last = self.lineages.len().checked_sub(1);
        let related = self
            .lineages
            .iter()
            .enumerate()
            .filter(|(index, known)| {
                self.one_conversation && Some(*index) == last || shares_an_answer(known, request)
            })
            .find_map(|(_, known)| difference(known, request));
        if let Some(difference) = related
            && !reset_allowed
        {
            breaches.push(format!("it does not extend the earlier request: {difference}"));
        }
        self.lineages.push(lineage);
    }
}

/// Where the request fails to extend the earlier one; none if it does.
fn difference(known: &Lineage, request: &RecordedRequest) -> Option<String> {
    let earlier = known.json["messages"].as_array()?;
    for (index, message) in earlier.iter().enumerate() {
        match request.messages().get(index) {
            None => return Some(format!("message {index} is missing")),
            Some(other) if other != message => {
                return Some(format!(
                    "message {index} differs:\n  was {message}\n  is  {other}"
                ));
            }
            Some(_) => {}
        }
    }
    let members = |json: &Value| {
        let mut json = json.clone();
        json.as_object_mut().map(|object| object.shift_remove("messages"));
        json
    };
    let (was, is) = (members(&known.json), members(&request.json));
    for key in ["tools", "model"] {
        if was[key] != is[key] {
            return Some(format!("{key} differs"));
        }
    }
    if was != is {
        return Some(format!("parameters differ:\n  was {was}\n  is  {is}"));
    }
    // Equal values with other bytes still miss every cache.
    let kept = known.body.len() - "]}".len();
    (!request.body.starts_with(&known.body[..kept]))
        .then(|| "its bytes differ although its values do not".to_owned())
}

fn shares_an_answer(known: &Lineage, request: &RecordedRequest) -> bool {
    let earlier = known.json["messages"].as_array();
    earlier
        .into_iter()
        .flatten()
        .zip(request.messages())
        .take_while(|(a, b)| a == b)
        .any(|(message, _)| message["role"] == "assistant")
}

fn check_tools(json: &Value, breaches: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    match json.get("tools") {
        None => {}
        Some(Value::Array(tools)) if !tools.is_empty() => {
            for tool in tools {
                let function = &tool["function"];
                let name = function["name"].as_str().unwrap_or_default();
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
                    breaches.push(format!("tool name {name:?} is not allowed"));
                }
                if !names.insert(name) {
                    breaches.push(format!("tool {name} is there twice"));
                }
                if tool["type"] != "function" || !function["parameters"].is_object() {
                    breaches.push(format!("tool {name} has no parameters or no type"));
                }
            }
        }
        Some(_) => breaches.push("tools must be a list that is not empty".to_owned()),
    }
}

fn check_messages(messages: &[Value], breaches: &mut Vec<String>) {
    let mut ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            breaches.push(format!("message {index}: calls {open:?} have no result"));
            open.clear();
        }
        match role {
            "system" | "user" => {
                if role == "system" && index > 0 {
                    breaches.push(format!("message {index}: a system message that is not the first"));
                }
                check_content(index, &message["content"], breaches);
            }
            "assistant" => {
                let calls = message.get("tool_calls");
                match (&message["content"], calls) {
                    (Value::Null, Some(_)) => {}
                    (Value::String(text), Some(_)) if text.is_empty() => {
                        breaches.push(format!(
                            "message {index}: empty content beside calls must be null"
                        ));
                    }
                    // An answer may be empty; a message of the person may not.
                    (Value::String(text), None) if text.is_empty() => {}
                    (content, _) => check_content(index, content, breaches),
                }
                if calls.is_some_and(|calls| calls.as_array().is_none_or(Vec::is_empty)) {
                    breaches.push(format!(
                        "message {index}: tool_calls must be a list that is not empty"
                    ));
                }
                for call in calls.and_then(Value::as_array).into_iter().flatten() {
                    let id = call["id"].as_str().unwrap_or_default().to_owned();
                    let function = &call["function"];
                    let arguments = function["arguments"].as_str().unwrap_or_default();
                    if serde_json::from_str::<Value>(arguments).is_err() {
                        breaches.push(format!(
                            "message {index}: arguments of call {id} are no JSON text"
                        ));
                    }
                    if call["type"] != "function" || function["name"].as_str().is_none_or(str::is_empty) {
                        breaches.push(format!("message {index}: call {id} has no name or type"));
                    }
                    if id.is_empty() || !ids.insert(id.clone()) {
                        breaches.push(format!("message {index}: call id {id:?} is empty or not unique"));
                    }
                    open.insert(id);
                }
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                if !open.remove(id) {
                    breaches.push(format!(
                        "message {index}: result for {id:?}, which is no open call"
                    ));
                }
                if !message["content"].is_string() {
                    breaches.push(format!("message {index}: the result is no string"));
                }
            }
            _ => breaches.push(format!("message {index}: role {role:?} is unknown")),
        }
    }
    if !open.is_empty() {
        breaches.push(format!("calls {open:?} have no result"));
    }
}

fn check_content(index: usize, content: &Value, breaches: &mut Vec<String>) {
    let is_good = match content {
        Value::String(text) => !text.is_empty(),
        Value::Array(parts) => {
            !parts.is_empty()
                && parts.iter().all(|part| match part["type"].as_str() {
                    Some("text") => part["text"].as_str().is_some_and(|text| !text.is_empty()),
                    Some("image_url") => part["image_url"]["url"]
                        .as_str()
                        .is_some_and(|url| url.starts_with("data:image/")),
                    _ => false,
                })
        }
        _ => false,
    };
    if !is_good {
        breaches.push(format!(
            "message {index}: content is missing or holds an empty part"
        ));
    }
}
