//! The record of an answer's thinking that the endpoint gets back with later requests.
//!
//! The record keeps the fields in which the thinking came, so that it goes back in the very same ones. Must never know:
//! how thinking is shown.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::wire::Detail;
use crate::provider::stream_text::{LoneHalf, PendingHalf, StreamText};

const VERSION: u32 = 1;

/// Collects the thinking fields of one answer.
#[derive(Default, Debug)]
pub(super) struct ReasoningRecord {
    /// Text fields in the order in which they were first seen.
    texts: Vec<TextField>,
    /// The entries of `reasoning_details`, pieces of one text entry joined.
    details: Vec<Map<String, Value>>,
    /// Of the last of these entries.
    details_half: PendingHalf,
}

#[derive(Debug)]
struct TextField {
    name: &'static str,
    text: String,
    half: PendingHalf,
}

impl ReasoningRecord {
    /// Adds a piece of a text field. Gives the text that it adds; errors say what the endpoint did wrong.
    pub(super) fn add_text<'p>(
        &mut self,
        name: &'static str,
        piece: &'p StreamText<'_>,
    ) -> Result<Cow<'p, str>, String> {
        let at = match self.texts.iter().position(|field| field.name == name) {
            Some(at) => at,
            None => {
                self.texts.push(TextField {
                    name,
                    text: String::new(),
                    half: PendingHalf::default(),
                });
                self.texts.len() - 1
            }
        };
        let field = &mut self.texts[at];
        let text = field.half.join(piece).map_err(|fault| fault.in_channel(name))?;
        field.text.push_str(&text);
        Ok(text)
    }

    /// Adds entries of `reasoning_details`. A text entry that goes on from the one before it is joined with it; all
    /// others are kept as they came. Gives the words that they add; errors say what the endpoint did wrong.
    pub(super) fn add_details(&mut self, entries: &[Detail<'_>]) -> Result<String, String> {
        let mut words = String::new();
        for Detail { members, text } in entries {
            let mut entry = members.clone();
            let last = self.details.last_mut().filter(|last| continues(last, &entry));
            if last.is_none() {
                self.details_half.finish().map_err(lone_half_in_details)?;
            }
            if let Some(text) = text {
                let text = self.details_half.join(text).map_err(lone_half_in_details)?;
                entry.insert("text".to_owned(), Value::from(text));
            }
            let shown = entry.get("text").or_else(|| entry.get("summary"));
            words.push_str(shown.and_then(Value::as_str).unwrap_or_default());
            match last {
                Some(last) => join(last, entry),
                None => self.details.push(entry),
            }
        }
        Ok(words)
    }

    /// The record as the payload of a replay state; `None` if there was no thinking. Errors say what the endpoint did
    /// wrong.
    pub(super) fn payload(&self) -> Result<Option<String>, String> {
        if self.texts.is_empty() && self.details.is_empty() {
            return Ok(None);
        }
        let mut fields = Map::new();
        for TextField { name, text, half } in &self.texts {
            half.finish().map_err(|fault| fault.in_channel(name))?;
            fields.insert((*name).to_owned(), Value::from(text.as_str()));
        }
        self.details_half.finish().map_err(lone_half_in_details)?;
        if !self.details.is_empty() {
            let details = self.details.iter().cloned().map(Value::Object).collect();
            fields.insert("reasoning_details".to_owned(), Value::Array(details));
        }
        Ok(Some(format!(
            r#"{{"version":{VERSION},"fields":{}}}"#,
            Value::Object(fields)
        )))
    }
}

fn lone_half_in_details(fault: LoneHalf) -> String {
    fault.in_channel("reasoning_details")
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
