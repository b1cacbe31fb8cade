//! The record of an answer's thinking that the endpoint gets back with later requests.
//!
//! The record keeps the fields in which the thinking came, so that it goes back in the very same ones. Must never know:
//! how thinking is shown.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

const VERSION: u32 = 1;

/// Collects the thinking fields of one answer.
#[derive(Default, Debug)]
pub(super) struct ReasoningRecord {
    /// Text fields in the order in which they were first seen.
    texts: Vec<(&'static str, String)>,
    /// The entries of `reasoning_details`, pieces of one text entry joined.
    details: Vec<Map<String, Value>>,
}

impl ReasoningRecord {
    /// Adds a piece of a text field.
    pub(super) fn add_text(&mut self, field: &'static str, piece: &str) {
        match self.texts.iter_mut().find(|(known, _)| *known == field) {
            Some((_, text)) => text.push_str(piece),
            None => self.texts.push((field, piece.to_owned())),
        }
    }

    /// Adds entries of `reasoning_details`. A text entry that goes on from the one before it is joined with it; all
    /// others are kept as they came.
    pub(super) fn add_details(&mut self, entries: Vec<Map<String, Value>>) {
        for entry in entries {
            match self.details.last_mut() {
                Some(last) if continues(last, &entry) => join(last, entry),
                _ => self.details.push(entry),
            }
        }
    }

    /// The record as the payload of a replay state; `None` if there was no thinking.
    pub(super) fn payload(&self) -> Option<String> {
        if self.texts.is_empty() && self.details.is_empty() {
            return None;
        }
        let mut fields = Map::new();
        for (field, text) in &self.texts {
            fields.insert((*field).to_owned(), Value::from(text.as_str()));
        }
        if !self.details.is_empty() {
            let details = self.details.iter().cloned().map(Value::Object).collect();
            fields.insert("reasoning_details".to_owned(), Value::Array(details));
        }
        Some(format!(
            r#"{{"version":{VERSION},"fields":{}}}"#,
            Value::Object(fields)
        ))
    }
}

/// The JSON members that a payload adds to its assistant message, byte for byte as they were recorded.
pub(super) fn members(payload: &str) -> Result<&str, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Payload<'a> {
        version: u32,
        #[serde(borrow)]
        fields: &'a RawValue,
    }
    let payload: Payload<'_> = serde_json::from_str(payload).map_err(|fault| fault.to_string())?;
    if payload.version != VERSION {
        return Err(format!("its version is {}, not {VERSION}", payload.version));
    }
    let members = payload
        .fields
        .get()
        .strip_prefix('{')
        .and_then(|fields| fields.strip_suffix('}'))
        .filter(|members| !members.is_empty());
    members.ok_or_else(|| "it holds no fields".to_owned())
}

fn continues(last: &Map<String, Value>, entry: &Map<String, Value>) -> bool {
    let is_text =
        |entry: &Map<String, Value>| entry.get("type").and_then(Value::as_str) == Some("reasoning.text");
    is_text(last) && is_text(entry) && last.get("index") == entry.get("index")
}

fn join(last: &mut Map<String, Value>, entry: Map<String, Value>) {
    for (key, value) in entry {
        match (last.get_mut(&key), value) {
            (Some(Value::String(text)), Value::String(piece)) if key == "text" => text.push_str(&piece),
            (Some(Value::Null) | None, value) => {
                last.insert(key, value);
            }
            (Some(_), _) => {}
        }
    }
}
