//! Tail segments: what a host appends after the transcript and means to send anew, such as the bodies of loaded skills.
//!
//! Owns which items of a request they are. Must never know: a host's words; nothing is recognised by its content's form.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::request::{Item, Position, Request};

/// A message that the host itself put at the tail of a request. The host declares it; nobody guesses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TailSegment {
    /// Which message it is, if the host knows where it put it. In that request nothing else is taken for it.
    pub identity: Option<MessageIdentity>,
    /// The message (or, for Anthropic, the content block) as JSON. Stands for the segment in every request that
    /// `identity` does not name, for hosts that copy their messages.
    pub value: Option<String>,
}

/// A message by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct MessageIdentity {
    /// One-based number of the request in the run.
    pub request: usize,
    /// Zero-based index in `messages` or `input`.
    pub message: usize,
}

/// A declaration that cannot be true.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TailError {
    /// The named message is not there.
    #[error("the host declared message {message} of request {request} as a tail segment, and there is none")]
    NoSuchMessage {
        /// One-based.
        request: usize,
        /// Zero-based.
        message: usize,
    },
    /// Neither an identity nor a value.
    #[error("the host declared a tail segment by neither identity nor value")]
    Empty,
    /// A line of a declaration cannot be read.
    #[error("line {line} of the declared tail segments is no JSON of the documented form: {cause}")]
    Unreadable {
        /// One-based.
        line: usize,
        /// What the reader says.
        cause: String,
    },
}

impl TailSegment {
    /// Reads a declaration of one JSON object a line: `request` and `message`, or `value`, or all three.
    ///
    /// # Errors
    /// See [`TailError`].
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, TailError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Line {
            request: Option<usize>,
            message: Option<usize>,
            value: Option<Box<RawValue>>,
        }
        let mut segments = Vec::new();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let unreadable = |cause: String| TailError::Unreadable {
                line: index + 1,
                cause,
            };
            let line: Line = serde_json::from_str(line).map_err(|cause| unreadable(cause.to_string()))?;
            let identity = match (line.request, line.message) {
                (Some(request), Some(message)) => Some(MessageIdentity { request, message }),
                (None, None) => None,
                _ => return Err(unreadable("`request` and `message` go together".to_owned())),
            };
            segments.push(Self {
                identity,
                value: line.value.map(|value| value.get().to_owned()),
            });
        }
        Ok(segments)
    }
}

/// The items of a request without its tail segments, and whether there were any.
pub(crate) fn without_tail<'a>(
    request: &'a Request,
    number: usize,
    segments: &[TailSegment],
) -> Result<(Vec<&'a Item>, bool), TailError> {
    let mut messages = Vec::new();
    let mut values = Vec::new();
    for segment in segments {
        match (segment.identity, &segment.value) {
            (Some(identity), _) if identity.request == number => {
                if identity.message >= request.message_count() {
                    return Err(TailError::NoSuchMessage {
                        request: number,
                        message: identity.message,
                    });
                }
                messages.push(identity.message);
            }
            (_, Some(value)) => values.push(compact(value.as_bytes())),
            (Some(_), None) => {}
            (None, None) => return Err(TailError::Empty),
        }
    }
    let is_tail = |item: &Item| {
        let Position::Message { message, .. } = item.position else {
            return false;
        };
        messages.contains(&message)
            || (!values.is_empty()
                && (values.contains(&compact(request.message(message).unwrap_or_default()))
                    || values.contains(&compact(&request.text(item)))))
    };
    let kept: Vec<&Item> = request.items().iter().filter(|item| !is_tail(item)).collect();
    let any = kept.len() < request.items().len();
    Ok((kept, any))
}

/// JSON without the white space between its tokens; all else is kept as written.
fn compact(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for byte in text {
        if in_string {
            if escaped {
                escaped = false;
            } else if *byte == b'\\' {
                escaped = true;
            } else if *byte == b'"' {
                in_string = false;
            }
        } else if *byte == b'"' {
            in_string = true;
        } else if byte.is_ascii_whitespace() {
            continue;
        }
        out.push(*byte);
    }
    out
}
