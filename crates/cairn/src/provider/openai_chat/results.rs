//! The results of a batch of calls: a tool message for each, and one message with the pictures among them.
//!
//! The API's tool messages hold only text, and all of a batch must follow its calls before anything else. So a picture's
//! place in its result names the picture by a number, and when the batch is whole, a user message shows the pictures in
//! that order. Must never know: how a user message is written.

use crate::model::{Image, ModelSpec, ToolResult};
use crate::provider::json::Json;
use crate::provider::names;
use crate::provider::parts::{Shown, shown};

/// What a tool message says where a tool gave nothing; endpoints refuse empty messages.
const NOTHING: &str = "(The tool gave nothing.)";

/// What the message with the pictures begins with.
pub(super) const PICTURES: &str = "The pictures from the tool results above, in the order of their numbers:";

/// The results of one batch while they are written.
#[derive(Debug, Default)]
pub(super) struct Results<'a> {
    /// Calls whose result has not been written.
    open: usize,
    pictures: Vec<&'a Image>,
}

impl<'a> Results<'a> {
    /// A batch of this many calls begins.
    pub(super) fn expect(&mut self, calls: usize) {
        self.open = calls;
    }

    /// Writes a result's tool message. Gives the pictures of the batch with its last result.
    pub(super) fn write(
        &mut self,
        json: &mut Json,
        result: &'a ToolResult,
        model: &ModelSpec,
    ) -> Vec<&'a Image> {
        let lines: Vec<String> = shown(result.content.parts(), model)
            .into_iter()
            .map(|part| match part {
                Shown::Text(text) => text.to_owned(),
                Shown::Image(image) => {
                    self.pictures.push(image);
                    let number = self.pictures.len();
                    format!("[Picture {number}, which the next user message shows.]")
                }
            })
            .collect();
        let text = lines.join("\n");
        json.raw("{\"role\":\"tool\",\"tool_call_id\":");
        json.string(&names::call_id(result.call.as_str()));
        json.raw(",\"content\":");
        json.string(if text.is_empty() { NOTHING } else { &text });
        json.raw("}");
        self.open = self.open.saturating_sub(1);
        match self.open {
            0 => std::mem::take(&mut self.pictures),
            _ => Vec::new(),
        }
    }
}
