//! The result of a dynamic MCP tool. Must never know: exec ids.

use super::super::super::value::json_from_struct;
use super::super::{BoundedText, ModelText, Outcome};
use super::because;
use crate::cursor::proto::agent::{
    McpArgs, McpSuccess, McpToolCall, McpToolError, McpToolResult, mcp_result, mcp_tool_result,
    mcp_tool_result_content_item::Content, tool_call::Tool,
};
use crate::model::Image;

/// What the server answered.
pub(in super::super::super) fn outcome(args: McpArgs, result: mcp_result::Result) -> Outcome {
    use mcp_result::Result;
    let name = args.name.clone();
    let card = |result| {
        Tool::McpToolCall(McpToolCall {
            args: Some(args),
            result: Some(McpToolResult { result: Some(result) }),
            description: None,
        })
    };
    let tool_error = |error: &str| {
        mcp_tool_result::Result::Error(McpToolError {
            error: error.to_owned(),
            ..McpToolError::default()
        })
    };
    match result {
        Result::Success(success) => {
            let (text, pictures) = content_of(&success);
            let is_error = success.is_error;
            Outcome {
                is_error,
                pictures,
                ..Outcome::success(card(mcp_tool_result::Result::Success(success)), text)
            }
        }
        Result::Rejected(rejected) => {
            let text = format!("The call of {name} was refused{}", because(&rejected.reason));
            Outcome::error(card(mcp_tool_result::Result::Rejected(rejected)), text)
        }
        Result::PermissionDenied(denied) => {
            let text = format!("No permission to call {name}{}", because(&denied.error));
            Outcome::error(card(mcp_tool_result::Result::PermissionDenied(denied)), text)
        }
        Result::Error(error) => {
            let text = format!("{name} failed{}", because(&error.error));
            Outcome::error(card(tool_error(&error.error)), text)
        }
        Result::ToolNotFound(missing) => {
            let text = format!(
                "The client has no MCP tool {}{}",
                missing.name,
                available(&missing.available_tools)
            );
            Outcome::error(card(tool_error(&text)), text)
        }
        Result::ServerNotFound(missing) => {
            let text = format!(
                "The client has no MCP server {}{}",
                missing.name,
                available(&missing.available_servers)
            );
            Outcome::error(card(tool_error(&text)), text)
        }
    }
}

/// The text, in which each picture has its number, and the pictures.
fn content_of(success: &McpSuccess) -> (ModelText, Vec<Image>) {
    let mut pictures = Vec::new();
    let mut body = BoundedText::default();
    for item in &success.content {
        if !body.is_empty() && !body.ends_line() {
            body.push("\n");
        }
        match &item.content {
            Some(Content::Text(text)) => {
                body.push(&text.text);
                if let Some(file) = &text.output_location {
                    body.push(&format!(
                        "\n[The whole text is in {} ({} bytes).]",
                        file.file_path, file.size_bytes
                    ));
                }
            }
            Some(Content::Image(image)) => {
                pictures.push(Image {
                    mime_type: image.mime_type.as_str().into(),
                    data: image.data.clone(),
                });
                body.push(&format!(
                    "[Picture {} of this result stands here.]",
                    pictures.len()
                ));
            }
            None => body.push("[Content of a kind that is not known here.]"),
        }
    }
    match &success.structured_content {
        // Servers repeat their structured content as text; it counts only where there is no text.
        Some(structured) if body.is_empty() => match json_from_struct(structured) {
            Ok(structured) => body.push(&structured.to_string()),
            Err(unreadable) => body.push(&format!("[The result cannot be read: {unreadable}.]")),
        },
        _ => {}
    }
    if body.is_empty() {
        body.push("The tool finished and returned nothing.");
    }
    (ModelText::framed("", &body, ""), pictures)
}

fn available(names: &[String]) -> String {
    match names.is_empty() {
        true => ".".to_owned(),
        false => format!("; it has {}.", names.join(", ")),
    }
}
