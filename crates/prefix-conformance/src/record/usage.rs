//! Finds the endpoint's own token counts in an answer that streams by.
//!
//! Holds one line at a time, and none that is too long; keeps numbers and nothing else, since an answer may repeat what it was
//! sent. Must never know: what the answer says.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::Api;

/// Longer lines hold pictures or whole answers; counts come in short ones, or at the end of an answer in one piece.
const MOST_LINE: usize = 4 << 20;

/// Reads usage from the bytes of one answer, streamed or in one piece.
#[derive(Default, Debug)]
pub(super) struct UsageReader {
    api: Option<Api>,
    line: Vec<u8>,
    too_long: bool,
    found: Map<String, Value>,
}

#[derive(Deserialize)]
struct Event {
    usage: Option<Value>,
    response: Option<Inner>,
    message: Option<Value>,
}

#[derive(Deserialize)]
struct Inner {
    usage: Option<Value>,
}

impl UsageReader {
    pub(super) fn new(api: Api) -> Self {
        Self {
            api: Some(api),
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.extend(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    /// The members of all usage objects, later ones over earlier ones; `None` if there was none.
    pub(super) fn finish(mut self) -> Option<Value> {
        self.end_line();
        (!self.found.is_empty()).then_some(Value::Object(self.found))
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > MOST_LINE {
            self.too_long = true;
            self.line = Vec::new();
        }
        if !self.too_long {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let data = line.strip_prefix(b"data:").unwrap_or(&line);
        let skipped = std::mem::take(&mut self.too_long);
        if skipped || !data.windows(7).any(|window| window == b"\"usage\"") {
            return;
        }
        let Ok(event) = serde_json::from_slice::<Event>(data) else {
            return;
        };
        let nested = match self.api {
            Some(Api::OpenAiResponses) => event.response.and_then(|response| response.usage),
            Some(Api::Anthropic) => event
                .message
                .and_then(|mut message| message.get_mut("usage").map(Value::take)),
            Some(Api::OpenAiChat) | None => None,
        };
        for usage in [nested, event.usage].into_iter().flatten() {
            if let Value::Object(members) = usage {
                // A member that is not repeated, or is null, keeps what it was.
                self.found.extend(counts(members));
            }
        }
    }
}

/// The numbers of an object, and of the objects in it.
fn counts(members: Map<String, Value>) -> Map<String, Value> {
    members
        .into_iter()
        .filter_map(|(name, value)| match value {
            Value::Number(_) => Some((name, value)),
            Value::Object(members) => Some((name, Value::Object(counts(members)))),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(api: Api, answer: &str) -> Option<Value> {
        let mut found = Vec::new();
        for size in [1, 7, answer.len()] {
            let mut reader = UsageReader::new(api);
            answer
                .as_bytes()
                .chunks(size)
                .for_each(|piece| reader.push(piece));
            found.push(reader.finish());
        }
        assert!(found.windows(2).all(|two| two[0] == two[1]));
        found.pop().unwrap()
    }

    #[test]
    fn counts_are_found_in_each_api_however_the_stream_is_cut() {
        let cases = [
            (
                Api::OpenAiChat,
                "data: {\"choices\":[],\"usage\":null}\r\n\r\ndata: {\"usage\":{\"prompt_tokens\":7}}\n\ndata: [DONE]\n",
                json!({"prompt_tokens": 7}),
            ),
            (
                Api::OpenAiResponses,
                "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":7}}}",
                json!({"input_tokens": 7}),
            ),
            (
                Api::Anthropic,
                "data: {\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n\
                 data: {\"usage\":{\"input_tokens\":null,\"output_tokens\":9}}\n",
                json!({"input_tokens": 7, "output_tokens": 9}),
            ),
            (
                Api::OpenAiChat,
                "{\"usage\":{\"prompt_tokens\":7,\"key\":\"k\",\"details\":{\"cached_tokens\":1,\"of\":[\"k\"]}}}",
                json!({"prompt_tokens": 7, "details": {"cached_tokens": 1}}),
            ),
        ];
        for (api, answer, expected) in cases {
            assert_eq!(read(api, answer), Some(expected), "{api}");
        }
        assert_eq!(read(Api::OpenAiChat, "data: {\"choices\":[]}\n"), None);
    }
}
