//! The routes of the Cursor wire.
//!
//! Owns which path leads where, who may use it, and how a refusal looks there. Must never know: what a run does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::{Buf, Bytes};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Collected, LengthLimitError, Limited};
use prost::Message as _;

use super::bidi_append::Append;
use super::connect::{
    ConnectCode, ConnectError, Envelope, EnvelopeDecoder, JSON_CONTENT_TYPE, STREAM_CONTENT_TYPE,
    UNARY_CONTENT_TYPE, encode_end,
};
use super::keys::{Bearer, ClientKeys};
use super::proto::aiserver::{BidiAppendResponse, BidiRequestId};
use super::proxy::Upstream;
use super::services::{self, ListedModel};
use super::sessions::{SessionIo, SessionRegistry};

/// Largest body of an append: hex of a message of half the size. The client sends the whole history along with every
/// turn, images included. [sdk]
const MAX_APPEND_BYTES: usize = 256 * 1024 * 1024;
/// Largest body of every other call; they carry ids, or what is thrown away.
const MAX_SMALL_BYTES: usize = 4 * 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Starts the owner of a newly opened request. It must return at once.
pub type RunStarter = Arc<dyn Fn(SessionIo) + Send + Sync>;

/// What the routes work with.
pub struct CursorServer {
    /// Who may speak.
    pub keys: ClientKeys,
    /// What `/v1/models` lists.
    pub models: Vec<ListedModel>,
    /// The requests.
    pub sessions: SessionRegistry,
    /// What an opened request is handed to.
    pub starter: RunStarter,
    /// Where unmatched routes go.
    pub upstream: Option<Upstream>,
}

impl fmt::Debug for CursorServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CursorServer")
            .field("models", &self.models)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

/// All routes. The caller puts the guard in front.
pub fn router(server: Arc<CursorServer>) -> Router {
    let mut router = Router::new()
        .route("/agent.v1.AgentService/RunSSE", post(run_sse))
        .route("/aiserver.v1.BidiService/BidiAppend", post(bidi_append))
        .route("/auth/exchange_user_api_key", post(exchange_key))
        .route("/v1/models", get(models));
    for path in services::EMPTY_ANSWERS {
        router = router.route(path, post(empty_answer));
    }
    router.fallback(unmatched).with_state(server)
}

async fn run_sse(State(server): State<Arc<CursorServer>>, request: Request) -> Response {
    if let Err(refusal) = accept_content_type(request.headers(), &[STREAM_CONTENT_TYPE]) {
        return refusal.into_response();
    }
    if server.keys.bearer(request.headers()) != Some(Bearer::AccessToken) {
        // A status that says it and the frame that says it: clients read the one or the other.
        return stream_end(StatusCode::UNAUTHORIZED, &unauthenticated());
    }
    let opened = match read_body(request, MAX_SMALL_BYTES).await {
        Ok(body) => request_id(&body.to_bytes()).and_then(|request_id| server.sessions.open(&request_id)),
        Err(error) => Err(error),
    };
    match opened {
        Ok((io, body)) => {
            (server.starter)(io);
            let mut response = Response::new(Body::new(body));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static(STREAM_CONTENT_TYPE));
            response
        }
        Err(error) => stream_end(StatusCode::OK, &error),
    }
}

/// The one message of a server-streaming call.
fn request_id(body: &[u8]) -> Result<String, ConnectError> {
    let invalid = |message: String| ConnectError::new(ConnectCode::InvalidArgument, message);
    let mut decoder = EnvelopeDecoder::new(MAX_SMALL_BYTES);
    decoder.push(body);
    let payload = match decoder.next_envelope() {
        Ok(Some(Envelope::Message(payload))) => payload,
        Ok(Some(Envelope::End(_)) | None) => {
            return Err(invalid(
                "the body of RunSSE must be one enveloped BidiRequestId".to_owned(),
            ));
        }
        Err(error) => return Err(invalid(error.to_string())),
    };
    decoder
        .finish()
        .map_err(|_| invalid("the body of RunSSE holds more than one envelope".to_owned()))?;
    BidiRequestId::decode(payload)
        .map(|id| id.request_id)
        .map_err(|error| invalid(format!("the body of RunSSE is not a BidiRequestId: {error}")))
}

async fn bidi_append(State(server): State<Arc<CursorServer>>, request: Request) -> Response {
    if let Err(refusal) = accept_content_type(request.headers(), &[UNARY_CONTENT_TYPE]) {
        return refusal.into_response();
    }
    if server.keys.bearer(request.headers()) != Some(Bearer::AccessToken) {
        return unary_error(&unauthenticated());
    }
    let headers = request.headers().clone();
    let appended = match read_body(request, MAX_APPEND_BYTES).await {
        Ok(body) => append(&server.sessions, body.aggregate(), &headers),
        Err(error) => Err(error),
    };
    match appended {
        Ok(()) => answer(
            StatusCode::OK,
            UNARY_CONTENT_TYPE,
            BidiAppendResponse::default().encode_to_vec(),
        ),
        Err(error) => {
            tracing::debug!(%error, "append refused");
            unary_error(&error)
        }
    }
}

fn append(sessions: &SessionRegistry, body: impl Buf, headers: &HeaderMap) -> Result<(), ConnectError> {
    let append = Append::parse(body)?;
    let (request_id, seqno) = (append.request_id.clone(), append.seqno);
    match append.read(headers) {
        Ok((inbound, bytes)) => sessions.append(&request_id, inbound, bytes),
        Err(error) => {
            sessions.refused(&request_id, seqno);
            Err(error)
        }
    }
}

async fn exchange_key(State(server): State<Arc<CursorServer>>, request: Request) -> Response {
    if let Err(refusal) = accept_content_type(request.headers(), &[JSON_CONTENT_TYPE]) {
        return refusal.into_response();
    }
    if server.keys.bearer(request.headers()) != Some(Bearer::ClientKey) {
        return unary_error(&unauthenticated());
    }
    match read_body(request, MAX_SMALL_BYTES).await {
        Ok(_) => answer(StatusCode::OK, JSON_CONTENT_TYPE, services::tokens(&server.keys)),
        Err(error) => unary_error(&error),
    }
}

async fn models(State(server): State<Arc<CursorServer>>, request: Request) -> Response {
    if server.keys.bearer(request.headers()).is_none() {
        return unary_error(&unauthenticated());
    }
    answer(
        StatusCode::OK,
        JSON_CONTENT_TYPE,
        services::model_list(&server.models),
    )
}

async fn empty_answer(State(server): State<Arc<CursorServer>>, request: Request) -> Response {
    let content_type = match accept_content_type(request.headers(), &[UNARY_CONTENT_TYPE, JSON_CONTENT_TYPE])
    {
        Ok(content_type) => content_type,
        Err(refusal) => return refusal.into_response(),
    };
    if server.keys.bearer(request.headers()).is_none() {
        return unary_error(&unauthenticated());
    }
    match read_body(request, MAX_SMALL_BYTES).await {
        Ok(_) => answer(StatusCode::OK, content_type, services::empty(content_type)),
        Err(error) => unary_error(&error),
    }
}

async fn unmatched(State(server): State<Arc<CursorServer>>, request: Request) -> Response {
    match &server.upstream {
        Some(upstream) => upstream.forward(request).await,
        None => not_found(request.uri().path(), request.headers()),
    }
}

/// An honest 404 in the caller's content type.
///
/// A unary protobuf caller gets a small protobuf status and not the protocol's JSON: it asked for protobuf, and a
/// Connect client reads the status of a 404 whose body is not JSON as `unimplemented`, which is the truth.
fn not_found(path: &str, headers: &HeaderMap) -> Response {
    tracing::debug!(path, "not served");
    let error = ConnectError::new(
        ConnectCode::NotFound,
        format!("cairn does not serve {path}, and no upstream is configured"),
    );
    match media_type(headers) {
        Some(JSON_CONTENT_TYPE) => unary_error(&error),
        Some(STREAM_CONTENT_TYPE) => stream_end(StatusCode::NOT_FOUND, &error),
        Some(UNARY_CONTENT_TYPE) => answer(
            StatusCode::NOT_FOUND,
            UNARY_CONTENT_TYPE,
            services::status_message(&error),
        ),
        _ => (StatusCode::NOT_FOUND, format!("{}\n", error.message())).into_response(),
    }
}

fn unauthenticated() -> ConnectError {
    ConnectError::new(
        ConnectCode::Unauthenticated,
        "this is not the client key of this cairn, nor a token made from it; `cairn key` prints the key",
    )
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn unary_error(error: &ConnectError) -> Response {
    answer(
        error.code().http_status(),
        JSON_CONTENT_TYPE,
        error.to_json().to_string(),
    )
}

fn stream_end(status: StatusCode, error: &ConnectError) -> Response {
    tracing::debug!(%error, "stream refused");
    answer(status, STREAM_CONTENT_TYPE, encode_end(Err(error)))
}

/// The content type without its parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or(value).trim())
}

/// A body of a type that the route does not take.
struct UnsupportedType(&'static [&'static str]);

impl IntoResponse for UnsupportedType {
    fn into_response(self) -> Response {
        let text = format!("the Content-Type must be {}\n", self.0.join(" or "));
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response()
    }
}

/// Which of the accepted types the body has.
fn accept_content_type(
    headers: &HeaderMap,
    accepted: &'static [&'static str],
) -> Result<&'static str, UnsupportedType> {
    media_type(headers)
        .and_then(|media_type| {
            accepted
                .iter()
                .find(|accepted| media_type.eq_ignore_ascii_case(accepted))
        })
        .copied()
        .ok_or(UnsupportedType(accepted))
}

/// The whole body within its bounds of size and time.
async fn read_body(request: Request, limit: usize) -> Result<Collected<Bytes>, ConnectError> {
    let too_long = || {
        ConnectError::new(
            ConnectCode::ResourceExhausted,
            format!("the body is longer than the limit of {limit} bytes"),
        )
    };
    let headers = request.headers();
    if headers
        .get(CONTENT_ENCODING)
        .is_some_and(|encoding| encoding != "identity")
    {
        return Err(ConnectError::new(
            ConnectCode::Unimplemented,
            "the body is compressed: send it uncompressed, no encoding was offered",
        ));
    }
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|announced| usize::try_from(announced).is_ok_and(|announced| announced > limit))
    {
        return Err(too_long());
    }
    let collected = tokio::time::timeout(BODY_TIME, Limited::new(request.into_body(), limit).collect());
    match collected.await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(_)) => Err(ConnectError::new(ConnectCode::Canceled, "the body broke off")),
        Err(_) => Err(ConnectError::new(
            ConnectCode::DeadlineExceeded,
            format!("the body took longer than {} s", BODY_TIME.as_secs()),
        )),
    }
}
