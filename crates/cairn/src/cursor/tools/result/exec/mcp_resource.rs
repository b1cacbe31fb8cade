//! A resource of an MCP server. Must never know: exec ids.

use super::super::{BoundedText, ModelText, Outcome};
use super::because;
use crate::cursor::proto::agent::{
    ListMcpResourcesExecResult, ReadMcpResourceExecArgs, ReadMcpResourceExecResult, ReadMcpResourceSuccess,
    ReadMcpResourceToolCall, list_mcp_resources_exec_result, read_mcp_resource_exec_result,
    read_mcp_resource_success::Content, tool_call::Tool,
};

/// A resource that was read, or why not. A failure that a list of what there is would mend is given back.
pub(in super::super::super) fn outcome(
    args: ReadMcpResourceExecArgs,
    result: read_mcp_resource_exec_result::Result,
) -> Result<Outcome, Box<Missing>> {
    use read_mcp_resource_exec_result::Result as Answer;
    let uri = args.uri.clone();
    match result {
        Answer::Success(success) => {
            let text = text_of(&success);
            Ok(Outcome::success(card(args, Answer::Success(success)), text))
        }
        Answer::Rejected(rejected) => {
            let text = format!("The user refused to read {uri}{}", because(&rejected.reason));
            Ok(Outcome::error(card(args, Answer::Rejected(rejected)), text))
        }
        Answer::Error(error) => Err(Box::new(Missing {
            text: format!(
                "{uri} of the MCP server {} could not be read{}",
                args.server,
                because(&error.error)
            ),
            args,
            result: Answer::Error(error),
        })),
        Answer::NotFound(missing) => Err(Box::new(Missing {
            text: format!("The MCP server {} has no resource {uri}.", args.server),
            args,
            result: Answer::NotFound(missing),
        })),
    }
}

/// A resource that could not be read; what the server does have is still to be named.
#[derive(Debug)]
pub(in super::super::super) struct Missing {
    args: ReadMcpResourceExecArgs,
    result: read_mcp_resource_exec_result::Result,
    text: String,
}

impl Missing {
    /// The server that was asked.
    pub(in super::super::super) fn server(&self) -> &str {
        &self.args.server
    }

    /// The failure, with what there is instead as far as the client could say it.
    pub(in super::super::super) fn outcome(self, listed: &ListMcpResourcesExecResult) -> Outcome {
        let text = match &listed.result {
            Some(list_mcp_resources_exec_result::Result::Success(list)) if list.resources.is_empty() => {
                format!("{}\nThe server lists no resources.", self.text)
            }
            Some(list_mcp_resources_exec_result::Result::Success(list)) => {
                let mut body = BoundedText::default();
                body.push(&format!("{}\nThe server has:", self.text));
                for resource in &list.resources {
                    body.push(&format!("\n- {}", resource.uri));
                    let about = [&resource.name, &resource.description];
                    for words in about.into_iter().flatten().filter(|words| !words.is_empty()) {
                        body.push(&format!(": {}", words.trim()));
                    }
                }
                body.finish()
            }
            // The list was only to help: its own failure adds nothing.
            Some(
                list_mcp_resources_exec_result::Result::Error(_)
                | list_mcp_resources_exec_result::Result::Rejected(_),
            )
            | None => self.text,
        };
        Outcome::error(card(self.args, self.result), text)
    }
}

fn card(args: ReadMcpResourceExecArgs, result: read_mcp_resource_exec_result::Result) -> Tool {
    Tool::ReadMcpResourceToolCall(ReadMcpResourceToolCall {
        args: Some(args),
        result: Some(ReadMcpResourceExecResult { result: Some(result) }),
    })
}

fn text_of(success: &ReadMcpResourceSuccess) -> ModelText {
    let mut body = BoundedText::default();
    match &success.content {
        Some(Content::Text(text)) if !text.is_empty() => body.push(text),
        Some(Content::Blob(bytes)) => body.push(&format!(
            "[A resource of {} bytes, {}, that cannot be shown here.]",
            bytes.len(),
            success.mime_type.as_deref().unwrap_or("of no known type"),
        )),
        Some(Content::Text(_)) | None => body.push("[The resource is empty.]"),
    }
    if let Some(file) = &success.output_location {
        body.push(&format!(
            "\n[The whole text is in {} ({} bytes).]",
            file.file_path, file.size_bytes
        ));
    }
    ModelText::framed("", &body, "")
}
