//! One upload of the client: from the body of `BidiAppend` to a typed message with its place.
//!
//! Owns the upload's encoding. Must never know: sessions, or what a message asks for.

use bytes::{Buf, Bytes};
use hex::FromHexError;
use http::HeaderMap;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint};
use prost::{DecodeError, Message};

use super::connect::{ConnectCode, ConnectError};
use super::inbox::{Inbound, ParentReference};
use super::proto::agent::AgentClientMessage;
use super::proto::aiserver::BidiAppendRequest;

const PARENT_REQUEST_HEADER: &str = "x-parent-request-id";
const PARENT_TOOL_CALL_HEADER: &str = "x-parent-agent-tool-call-id";

/// Number of `BidiAppendRequest.data`.
const DATA_FIELD: u32 = 1;

/// An upload whose place is known and whose message is not yet read.
#[derive(Debug)]
pub struct Append {
    /// The request that it belongs to.
    pub request_id: String,
    /// Its number in the request, from 0.
    pub seqno: u64,
    /// What the hex digits say; empty where there are none.
    hex: Result<Bytes, ConnectError>,
    binary: Bytes,
}

impl Append {
    /// Reads the body of a `BidiAppend`, in one piece or in many.
    ///
    /// # Errors
    /// `invalid_argument` when it is not one, or names no request or a negative number.
    pub fn parse(mut body: impl Buf) -> Result<Self, ConnectError> {
        let malformed = |error: DecodeError| invalid(format!("the body is not a BidiAppendRequest: {error}"));
        let mut request = BidiAppendRequest::default();
        let mut hex = Ok(Bytes::new());
        while body.has_remaining() {
            let (field, wire_type) = decode_key(&mut body).map_err(malformed)?;
            // The digits can be many megabytes: they are decoded from where they lie and never put together as text.
            if field == DATA_FIELD && wire_type == WireType::LengthDelimited {
                let digits = decode_varint(&mut body).map_err(malformed)?;
                let digits = usize::try_from(digits)
                    .ok()
                    .filter(|digits| *digits <= body.remaining())
                    .ok_or_else(|| invalid("the body is not a BidiAppendRequest: it is cut inside data"))?;
                hex = decode_hex(&mut body, digits);
            } else {
                request
                    .merge_field(field, wire_type, &mut body, DecodeContext::default())
                    .map_err(malformed)?;
            }
        }
        let request_id = request.request_id.map(|id| id.request_id).unwrap_or_default();
        if request_id.is_empty() {
            return Err(invalid("BidiAppendRequest.request_id is missing"));
        }
        let seqno = u64::try_from(request.append_seqno)
            .map_err(|_| invalid("BidiAppendRequest.append_seqno must not be negative"))?;
        Ok(Self {
            request_id,
            seqno,
            hex,
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
        let hex = self.hex?;
        let payload = match (hex.is_empty(), self.binary.is_empty()) {
            (false, true) => hex,
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

/// Takes that many digits, whether they are good or not.
fn decode_hex(body: &mut impl Buf, digits: usize) -> Result<Bytes, ConnectError> {
    let mut text = body.take(digits);
    let decoded = if digits.is_multiple_of(2) {
        let mut bytes = vec![0; digits / 2];
        decode_pairs(&mut text, &mut bytes).map(|()| bytes.into())
    } else {
        Err(invalid(format!("data has an odd number of hex digits: {digits}")))
    };
    text.advance(text.remaining());
    decoded
}

fn decode_pairs(text: &mut impl Buf, bytes: &mut [u8]) -> Result<(), ConnectError> {
    let mut rest = bytes;
    let mut position = 0;
    while text.has_remaining() {
        let split_pair;
        let (piece, advance) = if text.chunk().len() == 1 {
            // The two digits of a byte lie in two pieces.
            split_pair = [text.get_u8(), text.get_u8()];
            (&split_pair[..], 0)
        } else {
            let piece = text.chunk();
            let even = piece.len() / 2 * 2;
            (&piece[..even], even)
        };
        let length = piece.len();
        let (decoded, after) = rest.split_at_mut(length / 2);
        hex::decode_to_slice(piece, decoded).map_err(|error| {
            let wrong = match error {
                FromHexError::InvalidHexCharacter { index, .. } => index,
                // It has left out "0x", which is no prefix here.
                FromHexError::InvalidStringLength | FromHexError::OddLength => 1,
            };
            let position = position + wrong;
            invalid(format!("data has a character that is no hex digit at {position}"))
        })?;
        rest = after;
        position += length;
        text.advance(advance);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::cursor::proto::aiserver::BidiRequestId;

    fn body(data: &str) -> Vec<u8> {
        BidiAppendRequest {
            data: data.to_owned(),
            request_id: Some(BidiRequestId {
                request_id: "r".to_owned(),
            }),
            append_seqno: 7,
            data_binary: Bytes::new(),
        }
        .encode_to_vec()
    }

    #[test]
    fn a_body_reads_the_same_however_it_is_cut() {
        let message: Vec<u8> = (0..=255).collect();
        let body = body(&hex::encode(&message));
        for first in 0..=body.len() {
            for second in first..=body.len().min(first + 3) {
                let pieces = body[..first].chain(&body[first..second]).chain(&body[second..]);
                let append = Append::parse(pieces).unwrap();
                assert_eq!((&*append.request_id, append.seqno), ("r", 7));
                assert_eq!(append.hex.unwrap(), message, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_wrong_digit_is_named_by_its_place_and_the_rest_is_still_read() {
        for (data, place) in [
            ("0g", "at 1"),
            ("00 0", "at 2"),
            ("0x0a", "at 1"),
            ("0a0x0a", "at 3"),
            ("000", "odd number of hex digits: 3"),
        ] {
            let body = body(data);
            for cut in 0..=body.len() {
                let append = Append::parse(body[..cut].chain(&body[cut..])).unwrap();
                assert_eq!(append.seqno, 7);
                let error = append.hex.unwrap_err().to_string();
                assert!(error.contains(place), "{data}, cut at {cut}: {error}");
            }
        }
    }

    #[test]
    fn a_body_that_is_cut_is_refused() {
        let body = body("0a0b");
        for length in 1..6 {
            assert!(Append::parse(&body[..length]).is_err(), "{length}");
        }
    }
}
