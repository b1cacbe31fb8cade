//! One upload of the client: from the body of `BidiAppend` to a typed message with its place.
//!
//! Owns the upload's encoding. Must never know: sessions, or what a message asks for.

use bytes::Bytes;
use http::HeaderMap;
use prost::Message;

use super::connect::{ConnectCode, ConnectError};
use super::inbox::{Inbound, ParentReference};
use super::proto::agent::AgentClientMessage;
use super::proto::aiserver::BidiAppendRequest;

const PARENT_REQUEST_HEADER: &str = "x-parent-request-id";
const PARENT_TOOL_CALL_HEADER: &str = "x-parent-agent-tool-call-id";

/// An upload whose place is known and whose message is not yet read.
#[derive(Debug)]
pub struct Append {
    /// The request that it belongs to.
    pub request_id: String,
    /// Its number in the request, from 0.
    pub seqno: u64,
    text: String,
    binary: Bytes,
}

impl Append {
    /// Reads the body of a `BidiAppend`.
    ///
    /// # Errors
    /// `invalid_argument` when it is not one, or names no request or a negative number.
    pub fn parse(body: Bytes) -> Result<Self, ConnectError> {
        let request = BidiAppendRequest::decode(body)
            .map_err(|error| invalid(format!("the body is not a BidiAppendRequest: {error}")))?;
        let request_id = request.request_id.map(|id| id.request_id).unwrap_or_default();
        if request_id.is_empty() {
            return Err(invalid("BidiAppendRequest.request_id is missing"));
        }
        let seqno = u64::try_from(request.append_seqno)
            .map_err(|_| invalid("BidiAppendRequest.append_seqno must not be negative"))?;
        Ok(Self {
            request_id,
            seqno,
            text: request.data,
            binary: request.data_binary,
        })
    }

    /// Reads the message and what the headers say about it. The second value is the message's encoded length.
    ///
    /// # Errors
    /// `invalid_argument` for bad hex, bytes that are no `AgentClientMessage`, or one parent header without the
    /// other.
    pub fn read(self, headers: &HeaderMap) -> Result<(Inbound, usize), ConnectError> {
        let parent = parent_reference(headers)?;
        let payload = match (self.text.is_empty(), self.binary.is_empty()) {
            (false, true) => Bytes::from(decode_hex(self.text.as_bytes())?),
            (true, false) => self.binary,
            (true, true) => return Err(invalid("BidiAppendRequest carries neither data nor data_binary")),
            (false, false) => return Err(invalid("BidiAppendRequest carries both data and data_binary")),
        };
        let bytes = payload.len();
        let message = AgentClientMessage::decode(payload).map_err(|error| {
            invalid(format!(
                "append {} is not an AgentClientMessage: {error}",
                self.seqno
            ))
        })?;
        let inbound = Inbound {
            seqno: self.seqno,
            message,
            parent,
        };
        Ok((inbound, bytes))
    }
}

fn invalid(message: impl AsRef<str>) -> ConnectError {
    ConnectError::new(ConnectCode::InvalidArgument, message)
}

/// Both headers or none: half a reference would have to be completed by a guess.
fn parent_reference(headers: &HeaderMap) -> Result<Option<ParentReference>, ConnectError> {
    match (
        header(headers, PARENT_REQUEST_HEADER)?,
        header(headers, PARENT_TOOL_CALL_HEADER)?,
    ) {
        (None, None) => Ok(None),
        (Some(request_id), Some(tool_call_id)) => Ok(Some(ParentReference {
            request_id,
            tool_call_id,
        })),
        (Some(_), None) => Err(invalid(format!(
            "{PARENT_REQUEST_HEADER} without {PARENT_TOOL_CALL_HEADER}"
        ))),
        (None, Some(_)) => Err(invalid(format!(
            "{PARENT_TOOL_CALL_HEADER} without {PARENT_REQUEST_HEADER}"
        ))),
    }
}

fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, ConnectError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) if !text.is_empty() => Ok(Some(text.to_owned())),
        _ => Err(invalid(format!("{name} must be non-empty UTF-8 text"))),
    }
}

const NO_DIGIT: u8 = 0xff;

/// Value of each byte as a hex digit of either case.
const HEX_DIGITS: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit as usize] as usize] = digit;
        table[b"0123456789ABCDEF"[digit as usize] as usize] = digit;
        digit += 1;
    }
    table
};

fn decode_hex(text: &[u8]) -> Result<Vec<u8>, ConnectError> {
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid(format!(
            "data has an odd number of hex digits: {}",
            text.len()
        )));
    }
    let mut bytes = Vec::with_capacity(pairs.len());
    // One branch at the end instead of one a byte: a wrong digit leaves its high bits here.
    let mut wrong = 0;
    for [high, low] in pairs {
        let (high, low) = (HEX_DIGITS[usize::from(*high)], HEX_DIGITS[usize::from(*low)]);
        wrong |= high | low;
        bytes.push(high << 4 | low);
    }
    if wrong & 0xf0 == 0 {
        return Ok(bytes);
    }
    let position = text
        .iter()
        .position(|byte| HEX_DIGITS[usize::from(*byte)] == NO_DIGIT)
        .unwrap_or_default();
    Err(invalid(format!(
        "data has a character that is no hex digit at {position}"
    )))
}
