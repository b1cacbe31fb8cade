//! The recording reverse proxy: between a host and its endpoint, writing down what is asked.
//!
//! Bodies and streams pass through untouched, in both directions. Only the request's body, the path's API and the answer's
//! counts of tokens are written: no header, no query, and no key that the body repeats. Must never know: what recordings are
//! read for.

mod secrets;
mod usage;

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use tokio::net::TcpListener;
use tokio::time::Instant;
use url::Url;

use crate::api::Api;
use crate::recording::{Answer, NewCall, RecordingWriter};
use usage::UsageReader;

/// Largest body that is passed on.
const MOST_BYTES: usize = 256 << 20;

/// Headers that belong to one connection, not to the message.
const HOP_HEADERS: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Why the recorder does not start.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The upstream is no address that requests can be sent to.
    #[error(
        "--upstream: {0} is no http or https URL without a query; give it as https://HOST or https://HOST/PATH"
    )]
    Upstream(String),
    /// The HTTP client cannot be made.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    /// The recording cannot be begun.
    #[error("the recording cannot be written: {0}")]
    Out(#[from] io::Error),
}

/// A recorder, ready to serve.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    state: Arc<Recording<W>>,
}

#[derive(Debug)]
struct Recording<W: Write> {
    upstream: Url,
    client: reqwest::Client,
    began: Instant,
    writer: Mutex<RecordingWriter<W>>,
}

/// Reads the address of an upstream.
///
/// # Errors
/// If no requests can be sent to it.
pub fn upstream(address: &str) -> Result<Url, RecordError> {
    Url::parse(address)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.query().is_none())
        .ok_or_else(|| RecordError::Upstream(address.to_owned()))
}

impl<W: Write + Send + 'static> Recorder<W> {
    /// Begins a recording of what is sent to the upstream.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn new(upstream: Url, out: W) -> Result<Self, RecordError> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            state: Arc::new(Recording {
                upstream,
                client,
                began: Instant::now(),
                writer: Mutex::new(RecordingWriter::new(out)?),
            }),
        })
    }

    /// Serves until the future is dropped.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let router = Router::new()
            .fallback(forward::<W>)
            .with_state(self.state.clone());
        axum::serve(listener, router).await
    }
}

impl<W: Write> Recording<W> {
    fn write<T>(&self, write: impl FnOnce(&mut RecordingWriter<W>) -> io::Result<T>) -> io::Result<T> {
        // A panic while writing leaves at most a cut line, which readers know.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut writer)
    }

    /// The upstream's URL for a path of ours. A path that begins as the upstream's own does is not doubled.
    fn target(&self, path: &str, query: Option<&str>) -> Url {
        let mut url = self.upstream.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        let path = path
            .strip_prefix(&base)
            .filter(|rest| rest.starts_with('/'))
            .unwrap_or(path);
        url.set_path(&format!("{base}{path}"));
        url.set_query(query);
        url
    }
}

async fn forward<W: Write + Send + 'static>(
    State(state): State<Arc<Recording<W>>>,
    request: axum::extract::Request,
) -> Response {
    let (head, body) = request.into_parts();
    let body = match to_bytes(body, MOST_BYTES).await {
        Ok(body) => body,
        Err(fault) => {
            return failure(
                StatusCode::BAD_REQUEST,
                &format!("the body did not arrive: {fault}"),
            );
        }
    };
    let api = Api::of_path(head.uri.path()).filter(|_| head.method == Method::POST);
    let mut call = None;
    if let Some(api) = api {
        let mut written = body.to_vec();
        secrets::blot_out(&mut written, &head.headers, &head.uri);
        let new = NewCall {
            at_ms: u64::try_from(state.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            api,
            body: written,
        };
        // A recording with a hole would be read as a break: rather no call than one that is not written.
        match state.write(|writer| writer.call(new)) {
            Ok(number) => call = Some((number, api)),
            Err(fault) => {
                let text = format!("the recording cannot be written: {fault}");
                return failure(StatusCode::INSUFFICIENT_STORAGE, &text);
            }
        }
    }
    let mut headers = head.headers;
    strip(&mut headers);
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    let sent = state
        .client
        .request(head.method, state.target(head.uri.path(), head.uri.query()))
        .headers(headers)
        .body(body)
        .send()
        .await;
    match sent {
        Ok(answer) => pass_on(state, call, answer),
        Err(fault) => {
            // Its text would name the URL, which may hold a key in its query.
            let text = format!("the upstream cannot be reached: {}", fault.without_url());
            failure(StatusCode::BAD_GATEWAY, &text)
        }
    }
}

fn pass_on<W: Write + Send + 'static>(
    state: Arc<Recording<W>>,
    call: Option<(usize, Api)>,
    answer: reqwest::Response,
) -> Response {
    let status = answer.status();
    let mut headers = answer.headers().clone();
    strip(&mut headers);
    let watch = call.map(|(number, api)| Watch {
        state,
        answer: Answer {
            call: number,
            status: status.as_u16(),
            bytes: 0,
            whole: false,
            usage: None,
        },
        usage: UsageReader::new(api),
    });
    let body = Body::from_stream(Watched {
        stream: Box::pin(answer.bytes_stream()),
        watch,
    });
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn strip(headers: &mut HeaderMap) {
    for name in HOP_HEADERS {
        headers.remove(name);
    }
}

fn failure(status: StatusCode, text: &str) -> Response {
    let error = serde_json::json!({"error": {"type": "prefix_conformance_recorder", "message": text}});
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

/// An answer on its way, with whoever watches it.
struct Watched<W: Write> {
    stream: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    watch: Option<Watch<W>>,
}

/// Writes down how an answer ended, whichever way it ends.
struct Watch<W: Write> {
    state: Arc<Recording<W>>,
    answer: Answer,
    usage: UsageReader,
}

impl<W: Write> Stream for Watched<W> {
    type Item = reqwest::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.stream.as_mut().poll_next(context);
        if let Some(watch) = &mut self.watch {
            match &polled {
                Poll::Ready(Some(Ok(bytes))) => {
                    watch.answer.bytes += bytes.len();
                    watch.usage.push(bytes);
                }
                Poll::Ready(None) => watch.answer.whole = true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => {}
            }
        }
        polled
    }
}

impl<W: Write> Drop for Watch<W> {
    fn drop(&mut self) {
        let mut answer = self.answer.clone();
        answer.usage = std::mem::take(&mut self.usage).finish();
        // The host has its answer already. A report without it says that the usage is not known.
        let _ = self.state.write(|writer| writer.answer(answer));
    }
}
