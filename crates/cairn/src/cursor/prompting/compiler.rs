//! The frozen prompt of a run: a mode's instructions, the static tools of its profile, then the MCP tools in their places.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::assets::{Profile, PromptAssets};
use super::basis::{Own, PromptNote, place};
use super::mcp::{McpDirectory, McpTool};
use crate::cursor::request::RequestError;
use crate::model::{PromptChange, PromptSpec, ToolDefinition};

/// The MCP tools of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OfferedTools {
    /// Those that can be offered to the model, one for each pair of server and tool.
    pub tools: Vec<McpTool>,
    /// Those that cannot, and why.
    pub left_out: Vec<LeftOutTool>,
}

/// An MCP tool that cannot be offered to the model.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeftOutTool {
    /// The server's identifier.
    pub server: String,
    /// The tool's name at its server; empty if that is what is wrong.
    pub tool: String,
    /// What is wrong.
    pub fault: String,
}

/// A frozen prompt, and what its dynamic tool names stand for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledPrompt {
    /// What the run core gets.
    pub spec: PromptSpec,
    /// What the client adapter keeps to carry calls out.
    pub mcp: McpDirectory,
    /// The names of MCP tools that stand in the prompt although their server does not offer them now.
    pub gone: BTreeSet<Arc<str>>,
    /// What the prompt was made of, for the conversation's next run.
    pub note: PromptNote,
    /// Why the prompt is not that of the run before; absent if it is the same, or if there was none.
    pub change: Option<PromptChange>,
}

/// Compiles the prompt of a run that follows one with the note `before`. Equal inputs give equal bytes, whatever the order
/// of the MCP tools; a server that reconnects in another order, writes its schemas' keys in another order or is gone for a
/// while changes nothing.
///
/// MCP tools follow the static ones in every mode: the wire does not say which of them only read, and the client asks
/// the person before it runs one.
pub fn compile_prompt(
    assets: &PromptAssets,
    profile: impl Into<Profile>,
    offered: &OfferedTools,
    before: Option<&PromptNote>,
) -> Result<CompiledPrompt, RequestError> {
    let profile = profile.into();
    let mode = profile.mode();
    let instructions = assets.mode(mode).instructions;
    let mut tools = assets.tools(profile);
    let own = Own::new(mode, instructions, &tools);
    let mut sorted = offered.tools.clone();
    sorted
        .sort_by(|a, b| (&a.provider_identifier, &a.tool_name).cmp(&(&b.provider_identifier, &b.tool_name)));
    let placed = place(&own, sorted, before);
    let left_out: BTreeSet<(String, String)> = offered
        .left_out
        .iter()
        .map(|tool| (tool.server.clone(), tool.tool.clone()))
        .collect();
    let note = PromptNote::new(own, &placed, &Vec::from_iter(left_out));
    let mut mcp = McpDirectory::default();
    let mut gone = BTreeSet::new();
    for placed in placed {
        let tool = placed.tool;
        let name = tool.model_name();
        tools.push(ToolDefinition {
            name: name.clone(),
            description: tool.description.clone(),
            parameters: tool.input_schema.clone(),
        });
        if !placed.connected {
            gone.insert(name.clone());
        }
        mcp.insert(name, tool).map_err(|tool| RequestError::McpTool {
            server: tool.provider_identifier.to_string(),
            tool: tool.tool_name.to_string(),
            fault: "it is offered twice".to_owned(),
        })?;
    }
    Ok(CompiledPrompt {
        spec: PromptSpec {
            instructions: instructions.into(),
            tools,
        },
        mcp,
        gone,
        change: before.and_then(|before| note.change_since(before)),
        note,
    })
}
