//! What GetMcpTools shows of the servers. Must never know: exec ids.

use super::super::super::mcp::{GetMcpToolsArguments, McpTable};
use super::super::super::value::json_from_value;
use super::super::{BoundedText, ModelText, Outcome};
use super::because;
use crate::cursor::proto::agent::{
    GetMcpToolsAgentResult, GetMcpToolsArgs, GetMcpToolsError, GetMcpToolsSuccess, GetMcpToolsToolCall,
    McpStateServer, McpToolDefinition, get_mcp_tools_agent_result, mcp_state_exec_result, tool_call::Tool,
};

/// What the client said of its servers. An answer is also what later calls are looked up in.
pub(in super::super::super) fn outcome(
    args: GetMcpToolsArgs,
    asked: &GetMcpToolsArguments,
    result: mcp_state_exec_result::Result,
) -> Outcome {
    use mcp_state_exec_result::Result;
    match result {
        Result::Success(state) => {
            let text = describe(&state.servers, asked);
            let result = get_mcp_tools_agent_result::Result::Success(GetMcpToolsSuccess {
                content: text.for_card(),
                ..GetMcpToolsSuccess::default()
            });
            Outcome {
                learned: Some(McpTable::of(&state)),
                ..Outcome::success(card(args, result), text)
            }
        }
        Result::Error(error) => failure(
            args,
            format!(
                "The client could not list its MCP servers{}",
                because(&error.error)
            ),
        ),
        Result::Rejected(rejected) => failure(
            args,
            format!(
                "The user refused to list the MCP servers{}",
                because(&rejected.reason)
            ),
        ),
    }
}

fn failure(args: GetMcpToolsArgs, text: String) -> Outcome {
    let result = get_mcp_tools_agent_result::Result::Error(GetMcpToolsError { error: text.clone() });
    Outcome::error(card(args, result), text)
}

fn card(args: GetMcpToolsArgs, result: get_mcp_tools_agent_result::Result) -> Tool {
    Tool::GetMcpToolsToolCall(GetMcpToolsToolCall {
        args: Some(args),
        result: Some(GetMcpToolsAgentResult { result: Some(result) }),
    })
}

/// Without a narrower question the servers' tools are only named: their schemas may be large.
fn describe(servers: &[McpStateServer], asked: &GetMcpToolsArguments) -> ModelText {
    let whole = asked.server.is_some() || asked.tool_name.is_some() || asked.pattern.is_some();
    let mut body = BoundedText::default();
    let named = |server: &&McpStateServer| {
        asked
            .server
            .as_ref()
            .is_none_or(|name| *name == server.server_identifier)
    };
    for server in servers.iter().filter(named) {
        let tools: Vec<&McpToolDefinition> =
            server.tools.iter().filter(|tool| is_asked(tool, asked)).collect();
        if tools.is_empty() && (asked.tool_name.is_some() || asked.pattern.is_some()) {
            continue;
        }
        body.push(&format!("server: {}\n", server.server_identifier));
        if let Some(status) = server.status.as_deref().filter(|status| !status.is_empty()) {
            body.push(&format!("status: {status}\n"));
        }
        for instructions in &server.instructions {
            body.push(&format!("instructions: {}\n", instructions.instructions.trim()));
        }
        if tools.is_empty() {
            body.push("It offers no tools.\n");
        }
        for tool in tools {
            body.push(&format!("- tool: {}\n", tool.tool_name));
            if !tool.description.trim().is_empty() {
                body.push(&format!("  {}\n", tool.description.trim()));
            }
            if whole {
                body.push(&format!("  arguments: {}\n", schema(tool)));
            }
        }
    }
    if body.is_empty() {
        let servers: Vec<&str> = servers
            .iter()
            .map(|server| server.server_identifier.as_str())
            .collect();
        return ModelText::new(&match servers.is_empty() {
            true => "No MCP server is connected.".to_owned(),
            false => format!("Nothing fits. The servers are: {}.", servers.join(", ")),
        });
    }
    ModelText::framed("", &body, "")
}

fn is_asked(tool: &McpToolDefinition, asked: &GetMcpToolsArguments) -> bool {
    let holds = |text: &str, piece: &str| text.to_lowercase().contains(&piece.to_lowercase());
    asked
        .tool_name
        .as_ref()
        .is_none_or(|name| *name == tool.tool_name)
        && asked
            .pattern
            .as_ref()
            .is_none_or(|piece| holds(&tool.tool_name, piece) || holds(&tool.description, piece))
}

fn schema(tool: &McpToolDefinition) -> String {
    match (&tool.input_schema_json, &tool.input_schema) {
        (Some(json), _) if !json.trim().is_empty() => json.clone(),
        (_, Some(tree)) => match json_from_value(tree) {
            Ok(schema) => schema.to_string(),
            Err(unreadable) => format!("an object whose schema cannot be read: {unreadable}"),
        },
        (_, None) => "an object of which nothing is said".to_owned(),
    }
}
