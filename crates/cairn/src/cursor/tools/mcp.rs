//! The tools about MCP servers as the model uses them: what there is, a call by server and name, and a resource.
//!
//! Owns their arguments and the table of definitions that a call by name is looked up in. Must never know: execs,
//! cards.

use serde_json::{Map, Value};

use super::arguments::{Arguments, Reader};
use super::offer::McpTool;
use super::registry::{Known, ToolEntry};
use super::value::value_from_json;
use crate::cursor::proto::agent::{
    GetMcpToolsArgs, GetMcpToolsToolCall, McpArgs, McpStateSuccess, McpToolCall, ReadMcpResourceExecArgs,
    ReadMcpResourceToolCall, tool_call::Tool,
};
use crate::model::CallId;

/// What GetMcpTools shall show; what is left out narrows nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct GetMcpToolsArguments {
    pub server: Option<String>,
    pub tool_name: Option<String>,
    /// Text that a tool's name or description holds, whatever the case of its letters.
    pub pattern: Option<String>,
}

/// A call of an MCP tool by server and name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct CallMcpToolArguments {
    pub server: String,
    pub tool_name: String,
    pub arguments: Map<String, Value>,
}

/// A resource of an MCP server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FetchMcpResourceArguments {
    pub server: String,
    pub uri: String,
}

/// What is known of the servers' tools: from the request context, and from then on from each answer to GetMcpTools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct McpTable(Vec<McpTool>);

impl McpTable {
    pub(super) fn new(tools: impl IntoIterator<Item = McpTool>) -> Self {
        Self(tools.into_iter().filter(|tool| tool.connected).collect())
    }

    /// The servers' tools as the client has just listed them.
    pub(super) fn of(state: &McpStateSuccess) -> Self {
        let tools = state.servers.iter().flat_map(|server| {
            server.tools.iter().map(|tool| McpTool {
                name: tool.name.clone(),
                provider_identifier: tool.provider_identifier.clone(),
                server_identifier: server.server_identifier.clone(),
                tool_name: tool.tool_name.clone(),
                connected: true,
            })
        });
        Self::new(tools)
    }

    /// The call as the client takes it: the definition's own identifiers, unchanged. The error is for the model.
    pub(super) fn resolve(&self, call: &CallId, asked: CallMcpToolArguments) -> Result<McpArgs, String> {
        let fits = |tool: &&McpTool| tool.server() == asked.server && tool.tool_name == asked.tool_name;
        let Some(tool) = self.0.iter().find(fits) else {
            return Err(format!(
                "No tool {} of a server {} is known. GetMcpTools shows what there is now, with the exact names.",
                asked.tool_name, asked.server
            ));
        };
        let mut args = McpArgs {
            name: tool.name.clone(),
            tool_call_id: call.to_string(),
            provider_identifier: tool.provider_identifier.clone(),
            tool_name: tool.tool_name.clone(),
            server_identifier: tool.server_identifier.clone(),
            ..McpArgs::default()
        };
        for (name, value) in asked.arguments {
            let value = value_from_json(&value, &name).map_err(|error| {
                format!("The tool was not called: {error}. Pass it as a string if the tool takes one.")
            })?;
            args.args.insert(name, value);
        }
        Ok(args)
    }
}

impl McpTool {
    /// The server as the model knows it.
    fn server(&self) -> &str {
        match self.server_identifier.is_empty() {
            true => &self.provider_identifier,
            false => &self.server_identifier,
        }
    }
}

pub(super) const GET_MCP_TOOLS: ToolEntry = ToolEntry {
    name: "GetMcpTools",
    arguments: &["server", "tool_name", "pattern"],
    streamed: &["server", "tool_name", "pattern"],
    content: None,
    placeholder: |known| {
        Tool::GetMcpToolsToolCall(GetMcpToolsToolCall {
            args: Some(GetMcpToolsArgs {
                server: known.get("server"),
                tool_name: known.get("tool_name"),
                pattern: known.get("pattern"),
                ..GetMcpToolsArgs::default()
            }),
            result: None,
        })
    },
    read: |reader| {
        Arguments::GetMcpTools(GetMcpToolsArguments {
            server: filled(reader, "server"),
            tool_name: filled(reader, "tool_name"),
            pattern: filled(reader, "pattern"),
        })
    },
};

pub(super) const CALL_MCP_TOOL: ToolEntry = ToolEntry {
    name: "CallMcpTool",
    arguments: &["server", "tool_name", "arguments"],
    streamed: &["server", "tool_name"],
    content: None,
    placeholder: |known| Tool::McpToolCall(named(known.text("server"), known.text("tool_name"))),
    read: |reader| {
        Arguments::CallMcpTool(CallMcpToolArguments {
            server: reader.filled_text("server"),
            tool_name: reader.filled_text("tool_name"),
            arguments: reader.optional_object("arguments").unwrap_or_default(),
        })
    },
};

pub(super) const FETCH_MCP_RESOURCE: ToolEntry = ToolEntry {
    name: "FetchMcpResource",
    arguments: &["server", "uri"],
    streamed: &["server", "uri"],
    content: None,
    placeholder: |known: &Known<'_>| {
        Tool::ReadMcpResourceToolCall(ReadMcpResourceToolCall {
            args: Some(ReadMcpResourceExecArgs {
                server: known.text("server"),
                uri: known.text("uri"),
                ..ReadMcpResourceExecArgs::default()
            }),
            result: None,
        })
    },
    read: |reader| {
        Arguments::FetchMcpResource(FetchMcpResourceArguments {
            server: reader.filled_text("server"),
            uri: reader.filled_text("uri"),
        })
    },
};

/// The card of a call by name, before its definition is looked up.
pub(super) fn named(server: String, tool_name: String) -> McpToolCall {
    McpToolCall {
        args: Some(McpArgs {
            provider_identifier: server,
            tool_name,
            ..McpArgs::default()
        }),
        ..McpToolCall::default()
    }
}

fn filled(reader: &mut Reader, name: &str) -> Option<String> {
    reader.optional_text(name).filter(|text| !text.is_empty())
}
