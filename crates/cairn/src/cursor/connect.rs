//! The Connect protocol's own bytes: message envelopes, the end-of-stream frame and errors.
//!
//! Owns how a message, an end and an error look on the wire. Must never know: what any message means.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::StatusCode;
use prost::Message;
use serde_json::{Value, json};

use super::proto::aiserver::{CustomErrorDetails, ErrorDetails};

/// Content type of a streaming call.
pub const STREAM_CONTENT_TYPE: &str = "application/connect+proto";
/// Content type of a unary call.
pub const UNARY_CONTENT_TYPE: &str = "application/proto";
/// Content type of a unary error, whatever the call's own content type is.
pub const JSON_CONTENT_TYPE: &str = "application/json";

/// Largest payload of one envelope in bytes, in and out.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

const FLAG_COMPRESSED: u8 = 0x01;
const FLAG_END: u8 = 0x02;
const HEADER_BYTES: usize = 5;

/// Error texts are for a person to read: more than this many bytes of one is noise.
const MAX_TEXT_BYTES: usize = 4096;
/// Pairs of additional information that one error carries at most.
const MAX_INFO_PAIRS: usize = 16;

/// Why bytes are not an envelope, or a message does not fit into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// The payload is longer than this side accepts.
    #[error("an envelope of {length} bytes is longer than the limit of {limit}")]
    TooLong {
        /// The payload's announced length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The payload is compressed although nothing was negotiated.
    #[error("a compressed envelope: send it uncompressed, no encoding was offered")]
    Compressed,
    /// A flag that the protocol does not define.
    #[error("an envelope with the unknown flags {0:#04x}")]
    UnknownFlags(u8),
    /// The bytes ended inside an envelope.
    #[error("the stream ended {missing} bytes before the end of an envelope")]
    Cut {
        /// How many bytes are known to be missing.
        missing: usize,
    },
}

/// One envelope's payload by its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Envelope {
    /// An encoded message.
    Message(Bytes),
    /// The JSON that ends the stream.
    End(Bytes),
}

/// Puts one message into an envelope.
///
/// # Errors
/// [`EnvelopeError::TooLong`] when the message is longer than [`MAX_MESSAGE_BYTES`].
pub fn encode_message(message: &impl Message) -> Result<Bytes, EnvelopeError> {
    let length = message.encoded_len();
    let too_long = EnvelopeError::TooLong {
        length,
        limit: MAX_MESSAGE_BYTES,
    };
    if length > MAX_MESSAGE_BYTES {
        return Err(too_long);
    }
    let mut buffer = BytesMut::with_capacity(HEADER_BYTES + length);
    put_header(&mut buffer, 0, length);
    // A growing buffer has room for every message, so this can only fail as the check above does.
    message.encode(&mut buffer).map_err(|_| too_long)?;
    Ok(buffer.freeze())
}

/// The frame that ends a stream: `{}` or the error.
///
/// It cannot fail, so that no run misses its end: all that goes in is text that [`ConnectError`] cut and cleaned when it was
/// made, and text has a form in JSON whatever it says.
pub fn encode_end(outcome: Result<(), &ConnectError>) -> Bytes {
    let body = match outcome {
        Ok(()) => json!({}),
        Err(error) => json!({ "error": error.to_json() }),
    }
    .to_string();
    let mut buffer = BytesMut::with_capacity(HEADER_BYTES + body.len());
    put_header(&mut buffer, FLAG_END, body.len());
    buffer.put_slice(body.as_bytes());
    buffer.freeze()
}

fn put_header(buffer: &mut BytesMut, flags: u8, length: usize) {
    buffer.put_u8(flags);
    // Every caller bounds the length far below 4 GiB.
    buffer.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

/// Cuts a stream of bytes, however it is split, into envelopes.
#[derive(Debug)]
pub struct EnvelopeDecoder {
    buffer: BytesMut,
    limit: usize,
}

impl EnvelopeDecoder {
    /// A decoder that refuses payloads of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            limit,
        }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole envelope, or `None` until more bytes came.
    ///
    /// # Errors
    /// The bytes are not an envelope that this side accepts. The stream cannot be read any further.
    pub fn next_envelope(&mut self) -> Result<Option<Envelope>, EnvelopeError> {
        let Some((flags, length)) = self.header() else {
            return Ok(None);
        };
        if length > self.limit {
            return Err(EnvelopeError::TooLong {
                length,
                limit: self.limit,
            });
        }
        if flags & !(FLAG_COMPRESSED | FLAG_END) != 0 {
            return Err(EnvelopeError::UnknownFlags(flags));
        }
        if flags & FLAG_COMPRESSED != 0 {
            return Err(EnvelopeError::Compressed);
        }
        if self.buffer.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        let payload = self.buffer.split_to(length).freeze();
        Ok(Some(if flags & FLAG_END != 0 {
            Envelope::End(payload)
        } else {
            Envelope::Message(payload)
        }))
    }

    /// Checks that the stream did not end inside an envelope.
    ///
    /// # Errors
    /// [`EnvelopeError::Cut`] when it did.
    pub fn finish(self) -> Result<(), EnvelopeError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let whole = HEADER_BYTES + self.header().map_or(0, |(_, length)| length);
        Err(EnvelopeError::Cut {
            missing: whole.saturating_sub(self.buffer.len()),
        })
    }

    fn header(&self) -> Option<(u8, usize)> {
        let mut header = self.buffer.get(..HEADER_BYTES)?;
        let flags = header.get_u8();
        let length = usize::try_from(header.get_u32()).unwrap_or(usize::MAX);
        Some((flags, length))
    }
}

/// The error codes of the Connect protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectCode {
    /// The caller stopped the call.
    Canceled,
    /// Nothing better is known.
    Unknown,
    /// The request is wrong whatever the state is.
    InvalidArgument,
    /// The time ran out.
    DeadlineExceeded,
    /// What was asked for does not exist.
    NotFound,
    /// What was to be made exists.
    AlreadyExists,
    /// The caller is known and may not.
    PermissionDenied,
    /// A limit is reached.
    ResourceExhausted,
    /// The state does not allow it.
    FailedPrecondition,
    /// A conflict; start again at a higher level.
    Aborted,
    /// Beyond a valid range.
    OutOfRange,
    /// Not served here.
    Unimplemented,
    /// A broken invariant of the server.
    Internal,
    /// Not possible now; try again.
    Unavailable,
    /// Data is lost for good.
    DataLoss,
    /// The caller is not known.
    Unauthenticated,
}

impl ConnectCode {
    /// The code as the wire spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Aborted => "aborted",
            Self::OutOfRange => "out_of_range",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DataLoss => "data_loss",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// The HTTP status that a unary call ends with.
    pub fn http_status(self) -> StatusCode {
        match self {
            // 499 has no constant; it is a valid status, so the fallback is never taken.
            Self::Canceled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Aborted => StatusCode::CONFLICT,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::Unknown | Self::Internal | Self::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An error as a client of the Connect protocol receives it.
///
/// Its texts are cleaned of control characters and bounded when it is made, so that it always has a short, valid
/// encoding whatever it quotes.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct ConnectError {
    code: ConnectCode,
    message: String,
    details: Option<ErrorDetails>,
}

impl ConnectError {
    /// An error with a text for the person.
    pub fn new(code: ConnectCode, message: impl AsRef<str>) -> Self {
        Self {
            code,
            message: clean(message.as_ref()),
            details: None,
        }
    }

    /// The same error with details that the client shows.
    #[must_use]
    pub fn with_details(mut self, details: ErrorDetails) -> Self {
        let ErrorDetails {
            error,
            details,
            is_expected,
        } = details;
        self.details = Some(ErrorDetails {
            error,
            is_expected,
            details: details.map(|custom| CustomErrorDetails {
                title: clean(&custom.title),
                detail: clean(&custom.detail),
                additional_info: custom
                    .additional_info
                    .iter()
                    .take(MAX_INFO_PAIRS)
                    .map(|(key, value)| (clean(key), clean(value)))
                    .collect(),
                ..custom
            }),
        });
        self
    }

    /// The code.
    pub fn code(&self) -> ConnectCode {
        self.code
    }

    /// The cleaned and bounded text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the client shows, if the error carries it.
    pub fn details(&self) -> Option<&ErrorDetails> {
        self.details.as_ref()
    }

    /// The error's JSON: the body of a unary error, and the `error` member of an end-of-stream frame.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code.as_str(), "message": self.message });
        if let (Some(details), Some(object)) = (&self.details, error.as_object_mut()) {
            let value = STANDARD_NO_PAD.encode(details.encode_to_vec());
            object.insert(
                "details".to_owned(),
                json!([{ "type": "aiserver.v1.ErrorDetails", "value": value }]),
            );
        }
        error
    }
}

/// Control characters become spaces (line breaks and tabs stay), and what is too long is cut at a character.
fn clean(text: &str) -> String {
    const MARK: char = '…';
    let room = MAX_TEXT_BYTES - MARK.len_utf8();
    let mut cleaned = String::with_capacity(text.len().min(MAX_TEXT_BYTES));
    for character in text.chars() {
        if cleaned.len() + character.len_utf8() > room {
            cleaned.push(MARK);
            break;
        }
        cleaned.push(match character {
            '\n' | '\t' => character,
            control if control.is_control() => ' ',
            other => other,
        });
    }
    cleaned
}
