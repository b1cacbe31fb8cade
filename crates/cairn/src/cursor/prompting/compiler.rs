//! The frozen prompt of a run: a mode's instructions, the static tools of its profile, then the MCP tools in canonical order.

use super::assets::{Profile, PromptAssets};
use super::mcp::{McpDirectory, McpTool};
use crate::cursor::request::RequestError;
use crate::model::{PromptSpec, ToolDefinition};

/// A frozen prompt, and what its dynamic tool names stand for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledPrompt {
    /// What the run core gets.
    pub spec: PromptSpec,
    /// What the client adapter keeps to carry calls out.
    pub mcp: McpDirectory,
}

impl CompiledPrompt {
    /// The prompt without a tool that this run shall not have.
    #[must_use]
    pub fn without(mut self, tool: &str) -> Self {
        self.spec.tools.retain(|other| *other.name != *tool);
        self
    }
}

/// Compiles the prompt of a run. Equal inputs give equal bytes, whatever the order of the MCP tools.
///
/// MCP tools follow the static ones in every mode: the wire does not say which of them only read, and the client asks
/// the person before it runs one.
pub fn compile_prompt(
    assets: &PromptAssets,
    profile: impl Into<Profile>,
    mcp_tools: &[McpTool],
) -> Result<CompiledPrompt, RequestError> {
    let profile = profile.into();
    let (Profile::Main(mode) | Profile::Subagent(mode)) = profile;
    let mut tools = assets.tools(profile);
    let mut sorted: Vec<&McpTool> = mcp_tools.iter().collect();
    sorted.sort_by_key(|tool| (&tool.provider_identifier, &tool.tool_name));
    let mut mcp = McpDirectory::default();
    for tool in sorted {
        let name = tool.model_name();
        tools.push(ToolDefinition {
            name: name.clone(),
            description: tool.description.clone(),
            parameters: tool.input_schema.clone(),
        });
        mcp.insert(name, tool.clone())
            .map_err(|tool| RequestError::McpTool {
                server: tool.provider_identifier.to_string(),
                tool: tool.tool_name.to_string(),
                fault: "it is offered twice".to_owned(),
            })?;
    }
    Ok(CompiledPrompt {
        spec: PromptSpec {
            instructions: assets.mode(mode).instructions.into(),
            tools,
        },
        mcp,
    })
}
