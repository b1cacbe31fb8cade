//! The record of an answer's blocks that the endpoint gets back with later requests.
//!
//! Holds what the history does not: the blocks of thinking byte for byte, and the order of all blocks. Text and calls are
//! in the history already, so the record only names them. Must never know: how a block came or where it goes.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

const VERSION: u32 = 1;

/// Collects the blocks of one answer.
#[derive(Default, Debug)]
pub(super) struct BlockRecord {
    /// The entries as JSON text, joined by commas.
    entries: String,
    last: Option<Kind>,
    /// The history alone would give other blocks, or another order.
    is_needed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Raw,
    Text,
    Call,
}

/// One block of a recorded answer.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry<'a> {
    /// A block as it goes back.
    Raw(#[serde(borrow)] &'a RawValue),
    /// The next so many bytes of the answer's text.
    Text(usize),
    /// The call with this zero-based index.
    Call(usize),
}

impl BlockRecord {
    /// A block of thinking; the signature is absent where the endpoint has none.
    pub(super) fn add_thinking(&mut self, thinking: &str, signature: Option<&str>) {
        let mut block = format!(r#"{{"type":"thinking","thinking":{}"#, quoted(thinking));
        if let Some(signature) = signature {
            block.push_str(&format!(r#","signature":{}"#, quoted(signature)));
        }
        block.push('}');
        self.add(Kind::Raw, "raw", &block);
    }

    /// A block that is kept as it came.
    pub(super) fn add_raw(&mut self, block: &str) {
        self.add(Kind::Raw, "raw", block);
    }

    /// A block of text of so many bytes.
    pub(super) fn add_text(&mut self, bytes: usize) {
        self.add(Kind::Text, "text", &bytes.to_string());
    }

    /// The block of the call with this index.
    pub(super) fn add_call(&mut self, index: usize) {
        self.add(Kind::Call, "call", &index.to_string());
    }

    fn add(&mut self, kind: Kind, name: &str, value: &str) {
        self.is_needed |= match kind {
            Kind::Raw => true,
            // Without a record, the text stands first and in one block.
            Kind::Text => self.last.is_some(),
            Kind::Call => false,
        };
        if self.last.is_some() {
            self.entries.push(',');
        }
        self.last = Some(kind);
        for part in ["{\"", name, "\":", value, "}"] {
            self.entries.push_str(part);
        }
    }

    /// The record as the payload of a replay state; `None` if the history says the same.
    pub(super) fn payload(&self) -> Option<String> {
        self.is_needed
            .then(|| format!(r#"{{"version":{VERSION},"blocks":[{}]}}"#, self.entries))
    }
}

/// The blocks of a payload in order.
pub(super) fn entries(payload: &str) -> Result<Vec<Entry<'_>>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Payload<'a> {
        version: u32,
        #[serde(borrow)]
        blocks: Vec<Entry<'a>>,
    }
    let payload: Payload<'_> = serde_json::from_str(payload).map_err(|fault| fault.to_string())?;
    if payload.version != VERSION {
        return Err(format!("its version is {}, not {VERSION}", payload.version));
    }
    Ok(payload.blocks)
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}
