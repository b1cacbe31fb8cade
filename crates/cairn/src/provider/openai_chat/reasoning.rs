//! The record of an answer's thinking that the endpoint gets back with later requests.
//!
//! The record keeps the fields in which the thinking came, so that it goes back in the very same ones. Must never know:
//! how thinking is shown.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::profile::ReasoningReplay;
use super::wire::Detail;
use crate::provider::json::Json;
use crate::provider::stream_text::{LoneHalf, PendingHalf, StreamText};

const VERSION: u32 = 1;
/// The field of structured thinking, which goes back as it is.
const DETAILS: &str = "reasoning_details";

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
            fields.insert(DETAILS.to_owned(), Value::Array(details));
        }
        Ok(Some(format!(
            r#"{{"version":{VERSION},"fields":{}}}"#,
            Value::Object(fields)
        )))
    }
}

fn lone_half_in_details(fault: LoneHalf) -> String {
    fault.in_channel(DETAILS)
}

/// Writes the members that an assistant message gets of its thinking, each with a comma before it, their texts byte for byte
/// as they were recorded. `payload` is this endpoint's own record of the answer, if it made one. Errors say what is wrong
/// with the record.
pub(super) fn write_members(
    json: &mut Json,
    payload: Option<&str>,
    replay: ReasoningReplay,
) -> Result<(), String> {
    let field = match replay {
        ReasoningReplay::Never => return Ok(()),
        ReasoningReplay::Received { field } => field,
        ReasoningReplay::Always { field } => Some(field),
    };
    let mut has_text = false;
    if let Some(payload) = payload {
        for (name, value) in fields(payload)? {
            let name = match field {
                Some(_) if name == DETAILS => name,
                // The same thought in a second field says nothing new.
                Some(_) if has_text => continue,
                Some(field) => {
                    has_text = true;
                    field.to_owned()
                }
                None => name,
            };
            json.raw(",");
            json.string(&name);
            json.raw(":");
            json.raw(value.get());
        }
    }
    if let (ReasoningReplay::Always { field }, false) = (replay, has_text) {
        json.raw(&format!(",\"{field}\":\"\""));
    }
    Ok(())
}

/// The recorded fields in their order.
fn fields(payload: &str) -> Result<Vec<(String, &RawValue)>, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Payload<'a> {
        version: u32,
        #[serde(borrow)]
        fields: Members<'a>,
    }
    let payload: Payload<'_> = serde_json::from_str(payload).map_err(|fault| fault.to_string())?;
    if payload.version != VERSION {
        return Err(format!("its version is {}, not {VERSION}", payload.version));
    }
    if payload.fields.0.is_empty() {
        return Err("it holds no fields".to_owned());
    }
    Ok(payload.fields.0)
}

/// The members of an object in their order, their values as they are written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = entries.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
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
