//! Which requests belong together, and where one fails to extend another. Must never know: how a request is answered.

use bytes::Bytes;
use serde_json::Value;

use super::RecordedRequest;

/// The newest request of a conversation.
pub struct Lineage {
    pub body: Bytes,
    pub json: Value,
}

/// Whether the last message is the instruction to summarise.
pub fn asks_for_summary(request: &RecordedRequest) -> bool {
    let last = request.messages().last();
    last.is_some_and(|last| text_of(last).starts_with("<compaction>"))
}

/// Whether the request is a part of the earlier one, byte for byte, with one message behind it.
pub fn repeats_a_part(known: &Lineage, request: &RecordedRequest) -> bool {
    let Some(instruction) = request.messages().last() else {
        return false;
    };
    let end = format!(",{instruction}]}}");
    let part = request.body.strip_suffix(end.as_bytes());
    part.is_some_and(|part| known.body.starts_with(part) && known.body.get(part.len()) == Some(&b','))
}

/// The message that carries the summary of a compacted conversation.
pub fn summary_of(request: &RecordedRequest) -> Option<&Value> {
    let carries = |message: &&Value| text_of(message).starts_with("<conversation_summary>");
    request.messages().iter().find(carries)
}

fn text_of(message: &Value) -> &str {
    let content = &message["content"];
    content
        .as_str()
        .or_else(|| content[0]["text"].as_str())
        .unwrap_or_default()
}

/// Where the request fails to extend the earlier one; none if it does.
pub fn difference(known: &Lineage, request: &RecordedRequest) -> Option<String> {
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

pub fn shares_an_answer(known: &Lineage, request: &RecordedRequest) -> bool {
    let earlier = known.json["messages"].as_array();
    earlier
        .into_iter()
        .flatten()
        .zip(request.messages())
        .take_while(|(a, b)| a == b)
        .any(|(message, _)| message["role"] == "assistant")
}
