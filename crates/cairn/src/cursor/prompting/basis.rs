//! What a run's prompt was made of, kept for the conversation's next run: so that what has not changed keeps its bytes and
//! its place, and what has changed is declared.
//!
//! Must never know: where the note is kept.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::mcp::McpTool;
use crate::cursor::request::Mode;
use crate::model::{PromptChange, ToolDefinition};

const VERSION: u32 = 1;

/// A note of an earlier run that cannot be read: it was made by another version, or it is damaged.
#[derive(Debug, thiserror::Error)]
#[error(
    "the note about the conversation's earlier prompt cannot be read: {0}; serve it with the cairn that wrote the note, or \
     start a new conversation"
)]
pub struct UnreadableNote(String);

/// What a prompt was made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptNote {
    version: u32,
    mode: String,
    /// A digest over the instructions and tools that are cairn's own.
    assets: String,
    /// The MCP tools in the order in which they stand behind the mode's own.
    mcp: Vec<NotedTool>,
    /// MCP tools that cannot be offered, by server and name.
    left_out: Vec<(String, String)>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotedTool {
    server: String,
    server_identifier: Option<String>,
    tool: String,
    client_name: String,
    description: String,
    schema: String,
}

/// What of a prompt is cairn's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Own {
    mode: String,
    digest: String,
}

impl Own {
    pub(super) fn new(mode: Mode, instructions: &str, tools: &[ToolDefinition]) -> Self {
        Self {
            mode: mode.to_wire().as_str_name().to_owned(),
            digest: digest_of(instructions, tools),
        }
    }
}

/// An MCP tool of a prompt, and whether it can be called now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PlacedTool {
    pub(super) tool: McpTool,
    pub(super) connected: bool,
}

impl PromptNote {
    /// Reads the note of an earlier run.
    ///
    /// # Errors
    /// [`UnreadableNote`].
    pub fn read(note: &[u8]) -> Result<Self, UnreadableNote> {
        let note: Self = serde_json::from_slice(note).map_err(|fault| UnreadableNote(fault.to_string()))?;
        match note.version {
            VERSION => Ok(note),
            other => Err(UnreadableNote(format!("its version is {other}, not {VERSION}"))),
        }
    }

    /// The note as it is kept.
    pub fn write(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Whether an MCP tool was left out of that prompt.
    pub fn left_out(&self, server: &str, tool: &str) -> bool {
        self.left_out.iter().any(|(s, t)| s == server && t == tool)
    }

    pub(super) fn new(own: Own, placed: &[PlacedTool], left_out: &[(String, String)]) -> Self {
        Self {
            version: VERSION,
            mode: own.mode,
            assets: own.digest,
            mcp: placed.iter().map(|placed| NotedTool::of(&placed.tool)).collect(),
            left_out: left_out.to_vec(),
        }
    }

    /// What of its MCP tools reaches the model, in order.
    fn shown(&self) -> Vec<(&str, &str, &str, &str)> {
        self.mcp.iter().map(NotedTool::shown).collect()
    }

    /// Why the prompt of `self` is not that of `before`; `None` if it is the same.
    pub(super) fn change_since(&self, before: &Self) -> Option<PromptChange> {
        if self.mode != before.mode {
            Some(PromptChange::ModeSwitch)
        } else if self.assets != before.assets {
            Some(PromptChange::Upgrade)
        } else if self.shown() != before.shown() {
            Some(PromptChange::ToolsChange)
        } else {
            None
        }
    }
}

/// Puts the offered MCP tools, which are sorted, in their places.
///
/// A tool keeps its place and its bytes for as long as it can: where everything that is offered stood in the prompt before
/// with the same words, that prompt's tools are taken as they were, those included whose server is gone for now. A new or
/// changed tool resets the prefix anyway: then the list is made anew from what is offered, in canonical order.
pub(super) fn place(own: &Own, offered: Vec<McpTool>, before: Option<&PromptNote>) -> Vec<PlacedTool> {
    let kept = before.filter(|before| {
        before.mode == own.mode
            && before.assets == own.digest
            && offered.iter().all(|tool| {
                let tool = NotedTool::of(tool);
                before.mcp.iter().any(|noted| noted.shown() == tool.shown())
            })
    });
    let Some(before) = kept else {
        return offered
            .into_iter()
            .map(|tool| PlacedTool {
                tool,
                connected: true,
            })
            .collect();
    };
    before
        .mcp
        .iter()
        .map(|noted| {
            let now = offered
                .iter()
                .find(|tool| *tool.provider_identifier == *noted.server && *tool.tool_name == *noted.tool);
            PlacedTool {
                tool: now.cloned().unwrap_or_else(|| noted.to_tool()),
                connected: now.is_some(),
            }
        })
        .collect()
}

impl NotedTool {
    fn of(tool: &McpTool) -> Self {
        Self {
            server: tool.provider_identifier.to_string(),
            server_identifier: tool.server_identifier.as_deref().map(str::to_owned),
            tool: tool.tool_name.to_string(),
            client_name: tool.client_name.to_string(),
            description: tool.description.to_string(),
            schema: tool.input_schema.to_string(),
        }
    }

    /// What of it reaches the model.
    fn shown(&self) -> (&str, &str, &str, &str) {
        (&self.server, &self.tool, &self.description, &self.schema)
    }

    fn to_tool(&self) -> McpTool {
        McpTool {
            provider_identifier: self.server.as_str().into(),
            server_identifier: self.server_identifier.as_deref().map(Into::into),
            tool_name: self.tool.as_str().into(),
            client_name: self.client_name.as_str().into(),
            description: self.description.as_str().into(),
            input_schema: self.schema.as_str().into(),
        }
    }
}

/// A digest over what cairn itself tells the model.
fn digest_of(instructions: &str, tools: &[ToolDefinition]) -> String {
    let mut hash = Sha256::new();
    let mut field = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    field(instructions);
    for tool in tools {
        field(&tool.name);
        field(&tool.description);
        field(&tool.parameters);
    }
    hex::encode(hash.finalize())
}
