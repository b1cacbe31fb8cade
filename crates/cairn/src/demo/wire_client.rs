//! A small client of the Cursor wire: the key exchange, the model list, and the two calls that make one run.
//!
//! Owns HTTP, envelopes and nothing else. Must never know: what a message asks for, or what a client keeps.

use bytes::Bytes;
use prost::Message as _;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::cursor::connect::{
    Envelope, EnvelopeDecoder, EnvelopeError, JSON_CONTENT_TYPE, MAX_MESSAGE_BYTES, STREAM_CONTENT_TYPE,
    UNARY_CONTENT_TYPE, encode_message,
};
use crate::cursor::proto::agent::{AgentClientMessage, AgentServerMessage};
use crate::cursor::proto::aiserver::{BidiAppendRequest, BidiRequestId};

/// Why a call did not give what it must give.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The server could not be reached, or the connection broke.
    #[error("{call}: {cause}")]
    Transport {
        /// The path that was called.
        call: &'static str,
        /// What broke.
        cause: reqwest::Error,
    },
    /// The server refused the call.
    #[error("{call} was refused with status {status}: {body}")]
    Refused {
        /// The path that was called.
        call: &'static str,
        /// The HTTP status.
        status: u16,
        /// What the server said.
        body: String,
    },
    /// The answer is not what the protocol promises.
    #[error("{call} was answered with something else than the protocol promises: {problem}")]
    Malformed {
        /// The path that was called.
        call: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The stream is not a sequence of envelopes.
    #[error("{RUN}: {0}")]
    Envelope(#[from] EnvelopeError),
}

const EXCHANGE: &str = "/auth/exchange_user_api_key";
const MODELS: &str = "/v1/models";
const RUN: &str = "/agent.v1.AgentService/RunSSE";
const APPEND: &str = "/aiserver.v1.BidiService/BidiAppend";

/// A client that has exchanged its key for a token.
#[derive(Clone, Debug)]
pub struct WireClient {
    http: reqwest::Client,
    base_url: String,
    key: SecretString,
    token: SecretString,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(rename = "accessToken")]
    access_token: String,
}

#[derive(Deserialize)]
struct ModelList {
    items: Vec<ListedModel>,
}

/// A model that the server offers.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct ListedModel {
    /// What a run selects.
    pub id: String,
    /// What is shown.
    #[serde(rename = "displayName")]
    pub display_name: String,
}

impl WireClient {
    /// Exchanges the key at a server such as `http://127.0.0.1:7437`.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn connect(base_url: &str, key: &SecretString) -> Result<Self, WireError> {
        // A proxy of the person's environment must not see what stays on this machine. These calls go over plain HTTP
        // only, so no certificate is read: over HTTPS the official client uses another one. [sdk]
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .map_err(|cause| WireError::Transport {
                call: EXCHANGE,
                cause,
            })?;
        let base_url = base_url.trim_end_matches('/').to_owned();
        let request = http
            .post(format!("{base_url}{EXCHANGE}"))
            .header(CONTENT_TYPE, JSON_CONTENT_TYPE)
            .body("{}");
        let tokens: Tokens = read_json(EXCHANGE, call(EXCHANGE, request, key).await?).await?;
        Ok(Self {
            http,
            base_url,
            key: key.clone(),
            token: tokens.access_token.into(),
        })
    }

    /// The models that the server offers.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn models(&self) -> Result<Vec<ListedModel>, WireError> {
        let request = self.http.get(format!("{}{MODELS}", self.base_url));
        let list: ModelList = read_json(MODELS, call(MODELS, request, &self.key).await?).await?;
        Ok(list.items)
    }

    /// Opens the stream of a request.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn open(&self, request_id: &str) -> Result<RunStream, WireError> {
        let body = encode_message(&BidiRequestId {
            request_id: request_id.to_owned(),
        })?;
        let request = self.post(RUN, STREAM_CONTENT_TYPE, request_id).body(body);
        let response = call(RUN, request, &self.token).await?;
        Ok(RunStream {
            response,
            decoder: EnvelopeDecoder::new(MAX_MESSAGE_BYTES),
        })
    }

    /// Uploads one message of a request. Numbers start at 0 and leave out none.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn append(
        &self,
        request_id: &str,
        seqno: i64,
        message: &AgentClientMessage,
    ) -> Result<(), WireError> {
        let append = BidiAppendRequest {
            data: hex::encode(message.encode_to_vec()),
            request_id: Some(BidiRequestId {
                request_id: request_id.to_owned(),
            }),
            append_seqno: seqno,
            data_binary: Bytes::new(),
        };
        let request = self
            .post(APPEND, UNARY_CONTENT_TYPE, request_id)
            .body(append.encode_to_vec());
        call(APPEND, request, &self.token).await.map(drop)
    }

    fn post(&self, path: &str, content_type: &str, request_id: &str) -> RequestBuilder {
        self.http
            .post(format!("{}{path}", self.base_url))
            .header(CONTENT_TYPE, content_type)
            .header("connect-protocol-version", "1")
            .header("x-request-id", request_id)
    }
}

async fn call(
    call: &'static str,
    request: RequestBuilder,
    bearer: &SecretString,
) -> Result<Response, WireError> {
    let response = request
        .header(AUTHORIZATION, format!("Bearer {}", bearer.expose_secret()))
        .send()
        .await
        .map_err(|cause| WireError::Transport { call, cause })?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response
        .text()
        .await
        .map_err(|cause| WireError::Transport { call, cause })?;
    Err(WireError::Refused {
        call,
        status: status.as_u16(),
        body,
    })
}

async fn read_json<T: for<'a> Deserialize<'a>>(
    call: &'static str,
    response: Response,
) -> Result<T, WireError> {
    let body = response
        .bytes()
        .await
        .map_err(|cause| WireError::Transport { call, cause })?;
    serde_json::from_slice(&body).map_err(|error| WireError::Malformed {
        call,
        problem: error.to_string(),
    })
}

/// What the server says in one run. Dropping it closes the response, which is how a client cancels.
#[derive(Debug)]
pub struct RunStream {
    response: Response,
    decoder: EnvelopeDecoder,
}

/// One envelope of a run's stream.
#[derive(Clone, PartialEq, Debug)]
pub enum RunFrame {
    /// A message.
    Message(Box<AgentServerMessage>),
    /// The end frame.
    End(RunEnd),
}

/// How a run's stream says that it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// All is done.
    Success,
    /// An error, with its Connect code and its text.
    Error {
        /// The code as the wire spells it.
        code: String,
        /// The text for the person.
        message: String,
    },
}

#[derive(Deserialize)]
struct EndFrame {
    error: Option<EndFrameError>,
}

#[derive(Deserialize)]
struct EndFrameError {
    code: String,
    message: String,
}

impl RunStream {
    /// The next envelope; `None` when the response is over.
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    ///
    /// # Errors
    /// See [`WireError`]; the stream cannot be read any further.
    pub async fn next(&mut self) -> Result<Option<RunFrame>, WireError> {
        loop {
            match self.decoder.next_envelope()? {
                Some(Envelope::Message(payload)) => {
                    return AgentServerMessage::decode(payload)
                        .map(|message| Some(RunFrame::Message(Box::new(message))))
                        .map_err(|error| malformed(error.to_string()));
                }
                Some(Envelope::End(payload)) => {
                    return read_end(&payload).map(|end| Some(RunFrame::End(end)));
                }
                None => {}
            }
            let chunk = self
                .response
                .chunk()
                .await
                .map_err(|cause| WireError::Transport { call: RUN, cause })?;
            match chunk {
                Some(chunk) => self.decoder.push(&chunk),
                None => {
                    let decoder = EnvelopeDecoder::new(MAX_MESSAGE_BYTES);
                    std::mem::replace(&mut self.decoder, decoder).finish()?;
                    return Ok(None);
                }
            }
        }
    }
}

fn read_end(payload: &[u8]) -> Result<RunEnd, WireError> {
    let end: EndFrame = serde_json::from_slice(payload).map_err(|error| malformed(error.to_string()))?;
    Ok(match end.error {
        None => RunEnd::Success,
        Some(error) => RunEnd::Error {
            code: error.code,
            message: error.message,
        },
    })
}

fn malformed(problem: String) -> WireError {
    WireError::Malformed { call: RUN, problem }
}
