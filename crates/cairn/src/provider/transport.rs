//! The one HTTP path to an endpoint: exact bytes out, a checked event stream back, every wait bounded.
//!
//! Owns the HTTP client, the limits on silence, and the reading of everything that is not a successful event stream.
//! Must never know: any API's JSON beyond error bodies, or when a call is repeated.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use tokio::time::Instant;

use super::RouteError;
use super::endpoint::Endpoint;
use super::fault::{EndpointError, plain_words};
use super::options::Options;
use super::retry::{RetryPolicy, retry_after};
use super::unpack::{Unpacker, is_readable};
use crate::http_client::{self, with_causes};
use crate::model::{ProviderFailure, ProviderFault};

/// Most bytes of an error body that are read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// Longest wait for an error body; what came until then is used.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Shorter than the idle limits of common load balancers, so that a pooled connection is rarely a dead one.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an endpoint may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// From the request to the first byte of the body.
    pub(crate) first_byte: Duration,
    /// Between any two bytes after that.
    pub(crate) idle: Duration,
    /// Without any event, however many keep-alive bytes come.
    pub(crate) progress: Duration,
}

impl Limits {
    /// Reads `first_byte_timeout_seconds` (default 600), `idle_timeout_seconds` (default 300) and
    /// `progress_timeout_seconds` (default 1800).
    pub(crate) fn from_options(options: &mut Options) -> Result<Self, RouteError> {
        Ok(Self {
            first_byte: options.seconds("first_byte_timeout_seconds", Duration::from_secs(600))?,
            idle: options.seconds("idle_timeout_seconds", Duration::from_secs(300))?,
            progress: options.seconds("progress_timeout_seconds", Duration::from_secs(1800))?,
        })
    }
}

/// What one request sends: the same for each try.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    /// Headers beside the endpoint's own.
    pub(crate) headers: HeaderMap,
}

impl From<Bytes> for Outgoing {
    fn from(body: Bytes) -> Self {
        Self {
            body,
            headers: HeaderMap::new(),
        }
    }
}

/// A failed try and whether the endpoint allows another one.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    /// What went wrong.
    pub(crate) failure: ProviderFailure,
    /// The endpoint said that another try is pointless.
    pub(crate) final_word: bool,
}

impl From<ProviderFailure> for AttemptFailure {
    fn from(failure: ProviderFailure) -> Self {
        Self {
            failure,
            final_word: false,
        }
    }
}

/// Sends requests to one endpoint.
#[derive(Debug)]
pub(crate) struct Transport {
    client: reqwest::Client,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) limits: Limits,
    pub(crate) retry: RetryPolicy,
}

impl Transport {
    /// A transport with its own connections. Takes its options out of `options`.
    pub(crate) fn new(endpoint: Arc<Endpoint>, options: &mut Options) -> Result<Self, RouteError> {
        let builder = http_client::builder(&endpoint.url, CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .tcp_keepalive(Duration::from_secs(60));
        let client = builder.build().map_err(|cause| {
            RouteError::new(
                &endpoint.model_id,
                "base_url",
                &format!("cannot be served: {}", with_causes(&cause.without_url())),
            )
        })?;
        Ok(Self {
            client,
            endpoint,
            limits: Limits::from_options(options)?,
            retry: RetryPolicy::from_options(options)?,
        })
    }

    /// Sends the request once and gives the answer as soon as it is known to be an event stream.
    pub(crate) async fn send(self: &Arc<Self>, outgoing: Outgoing) -> Result<EventBody, AttemptFailure> {
        let deadline = Instant::now() + self.limits.first_byte;
        let request = self
            .client
            .post(self.endpoint.url.clone())
            .headers(self.endpoint.headers.clone())
            .headers(outgoing.headers)
            .body(outgoing.body);
        let response = tokio::time::timeout_at(deadline, request.send())
            .await
            .map_err(|_| self.silent("first_byte_timeout_seconds", self.limits.first_byte))?
            .map_err(|cause| self.unreachable(cause))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut body = EventBody {
            transport: Arc::clone(self),
            body: Body::new(response),
            head: Vec::new(),
        };
        body.check_start(deadline).await?;
        Ok(body)
    }

    fn silent(&self, option: &str, limit: Duration) -> ProviderFailure {
        self.endpoint.failure(
            ProviderFault::Timeout,
            &format!(
                "nothing came from {} for {} s; try again, or raise {option}",
                self.endpoint.origin(),
                limit.as_secs_f64()
            ),
        )
    }

    fn unreachable(&self, cause: reqwest::Error) -> ProviderFailure {
        let what = if cause.is_connect() {
            "cannot connect to"
        } else {
            "no answer came from"
        };
        self.endpoint.failure(
            ProviderFault::Connection,
            &format!(
                "{what} {}: {}",
                self.endpoint.origin(),
                with_causes(&cause.without_url())
            ),
        )
    }

    /// Reads the failure out of a response that is no success.
    async fn refused(&self, response: reqwest::Response) -> AttemptFailure {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut words = Vec::new();
        if has_readable_encoding(&headers) {
            self.read_error_body(&mut Body::new(response), &mut words).await;
        }
        let mut error = EndpointError::from_response(status, &words);
        if let (300..400, Some(location)) = (status, headers.get(LOCATION)) {
            error.message = format!(
                "redirect to {}, which is not followed",
                String::from_utf8_lossy(location.as_bytes())
            );
        }
        let mut failure = self.endpoint.failure_of(&error);
        failure.retry_after = retry_after(&headers);
        AttemptFailure {
            failure,
            final_word: says_no_retry(&headers),
        }
    }

    /// Reads the rest of an error body as far as it comes in time and within bounds. A broken end is no second error.
    async fn read_error_body(&self, body: &mut Body, words: &mut Vec<u8>) {
        let deadline = Instant::now() + ERROR_BODY_TIMEOUT;
        while words.len() < MAX_ERROR_BODY {
            match tokio::time::timeout_at(deadline, body.bytes()).await {
                Ok(Ok(Some(bytes))) => words.extend_from_slice(&bytes),
                Ok(Ok(None) | Err(_)) | Err(_) => return,
            }
        }
        // The bound may have cut a key in two, and half a key is not recognised.
        words.truncate(MAX_ERROR_BODY.saturating_sub(self.endpoint.redactor.longest()));
    }
}

/// The body of a response, unpacked.
#[derive(Debug)]
struct Body {
    response: reqwest::Response,
    unpacker: Unpacker,
    is_over: bool,
}

/// Why a body cannot be read on.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
    #[error("its gzip packing is damaged: {0}")]
    Packing(#[from] std::io::Error),
}

impl Body {
    fn new(response: reqwest::Response) -> Self {
        Self {
            response,
            unpacker: Unpacker::new(),
            is_over: false,
        }
    }

    /// What the next bytes bring, which may be nothing; `None` at the end.
    async fn bytes(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.is_over {
            return Ok(None);
        }
        match self.response.chunk().await? {
            Some(bytes) => Ok(Some(self.unpacker.push(bytes)?)),
            None => {
                self.is_over = true;
                Ok(Some(self.unpacker.finish()))
            }
        }
    }
}

/// A body that begins like an event stream.
#[derive(Debug)]
pub(crate) struct EventBody {
    transport: Arc<Transport>,
    body: Body,
    /// Bytes that were read to recognise the stream and not yet handed out.
    head: Vec<u8>,
}

impl EventBody {
    /// The next bytes, or `None` at the end of the body. `limit` bounds the wait.
    pub(crate) async fn next_bytes(&mut self, limit: Duration) -> Result<Option<Bytes>, ProviderFailure> {
        if !self.head.is_empty() {
            return Ok(Some(std::mem::take(&mut self.head).into()));
        }
        tokio::time::timeout(limit, self.body.bytes())
            .await
            .map_err(|_| self.transport.silent("idle_timeout_seconds", limit))?
            .map_err(|cause| self.broken(cause))
    }

    fn broken(&self, cause: BodyError) -> ProviderFailure {
        let endpoint = &self.transport.endpoint;
        let (fault, cause) = match cause {
            BodyError::Broken(cause) => (ProviderFault::Connection, with_causes(&cause.without_url())),
            cause @ BodyError::Packing(_) => (ProviderFault::Malformed, cause.to_string()),
        };
        let origin = endpoint.origin();
        endpoint.failure(
            fault,
            &format!("the connection to {origin} broke before the answer was whole: {cause}"),
        )
    }

    /// Reads until the body shows what it is, and refuses everything but an event stream.
    async fn check_start(&mut self, deadline: Instant) -> Result<(), AttemptFailure> {
        let transport = Arc::clone(&self.transport);
        if !has_readable_encoding(self.body.response.headers()) {
            return Err(transport
                .endpoint
                .failure(ProviderFault::Malformed, COMPRESSED)
                .into());
        }
        let is_page = self
            .body
            .response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        let start = loop {
            if let Some(start) = BodyStart::of(&self.head) {
                break if is_page { BodyStart::Page } else { start };
            }
            let chunk = tokio::time::timeout_at(deadline, self.body.bytes())
                .await
                .map_err(|_| transport.silent("first_byte_timeout_seconds", transport.limits.first_byte))?
                .map_err(|cause| self.broken(cause))?;
            match chunk {
                Some(bytes) => self.head.extend_from_slice(&bytes),
                // An empty stream; the decoder says what that means.
                None => return Ok(()),
            }
        };
        match start {
            BodyStart::Events => Ok(()),
            BodyStart::Page => {
                transport.read_error_body(&mut self.body, &mut self.head).await;
                let page = plain_words(&self.head);
                let text = format!("the endpoint answered with {page} instead of a stream; check base_url");
                Err(transport.endpoint.failure(ProviderFault::Malformed, &text).into())
            }
            BodyStart::Json => {
                transport.read_error_body(&mut self.body, &mut self.head).await;
                let document: Option<serde_json::Value> = serde_json::from_slice(&self.head).ok();
                let failure = match document.as_ref().and_then(EndpointError::from_document) {
                    Some(error) => transport.endpoint.failure_of(&error),
                    None => transport.endpoint.failure(
                        ProviderFault::Malformed,
                        "the endpoint answered with one JSON document instead of a stream; it must support \
                         stream: true",
                    ),
                };
                Err(AttemptFailure {
                    failure,
                    final_word: says_no_retry(self.body.response.headers()),
                })
            }
        }
    }
}

const COMPRESSED: &str = "the endpoint compressed its answer in a way that cannot be read although identity was asked \
                          for; switch compression off between cairn and the endpoint";

/// Whether a body is plain or packed as gzip, by its header. A header that is wrong between these two does no harm.
fn has_readable_encoding(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_ENCODING)
        .is_none_or(|encoding| is_readable(encoding.as_bytes()))
}

/// What the first bytes of a body show. The content type is not asked: many gateways send a wrong one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BodyStart {
    Events,
    Json,
    Page,
}

impl BodyStart {
    /// `None` while the bytes do not show it yet.
    fn of(bytes: &[u8]) -> Option<Self> {
        const BOM: &[u8] = b"\xEF\xBB\xBF";
        if BOM.starts_with(bytes) {
            return None;
        }
        let text = bytes.strip_prefix(BOM).unwrap_or(bytes);
        match text.iter().find(|byte| !byte.is_ascii_whitespace())? {
            b'{' | b'[' => Some(Self::Json),
            b'<' => Some(Self::Page),
            _ => Some(Self::Events),
        }
    }
}

fn says_no_retry(headers: &HeaderMap) -> bool {
    headers
        .get("x-should-retry")
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"false"))
}
