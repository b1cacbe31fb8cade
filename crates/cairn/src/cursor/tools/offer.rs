//! The tools that the model may call: what is offered, and a call's arguments read by its tool.
//!
//! Owns the way from a name and its argument text to typed arguments, or to the words for a call that cannot be made.
//! Must never know: which call is at which stage, execution.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::arguments::{Arguments, Reader};
use super::registry;
use super::stream::Shown;
use super::value::value_from_json;
use crate::cursor::proto::agent::McpArgs;
use crate::model::{CallId, ToolCall};

/// A dynamic MCP tool as the client knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct McpTool {
    /// The tool definition's own name.
    pub name: String,
    /// The provider that the definition names.
    pub provider_identifier: String,
    /// The server, where the client told it apart from the provider.
    pub server_identifier: String,
    /// The tool's name at its server.
    pub tool_name: String,
    /// Whether its server offers it now. One that does not keeps its place in the prompt, and its calls say so.
    pub connected: bool,
}

/// The tools of the prompt.
#[derive(Debug)]
pub(super) struct Offer {
    /// The names of the tools in the prompt; no other can be called.
    pub names: BTreeSet<Arc<str>>,
    /// The dynamic MCP tools by the name that the model uses.
    pub mcp: BTreeMap<Arc<str>, McpTool>,
}

/// Why a call is not executed.
#[derive(Debug)]
pub(super) enum Refusal {
    NoSuchTool(String),
    Arguments { shown: Box<Shown>, text: String },
}

impl Offer {
    /// Reads a call's arguments by its tool.
    pub(super) fn parse(&self, call: &ToolCall) -> Result<Arguments, Refusal> {
        if let Some(gone) = self.mcp.get(&call.name).filter(|tool| !tool.connected) {
            return Err(Refusal::NoSuchTool(format!(
                "{} was not executed: the MCP server {} is not connected, or does not offer this tool now. Go on without \
                 it, or ask the user to connect the server again.",
                call.name, gone.provider_identifier
            )));
        }
        let Some(shown) = self.shown(&call.id, &call.name) else {
            let offered: Vec<&str> = self.names.iter().map(AsRef::as_ref).collect();
            return Err(Refusal::NoSuchTool(format!(
                "There is no tool named {} here. The tools are: {}.",
                call.name,
                offered.join(", ")
            )));
        };
        let parsed = Reader::open(&call.arguments).and_then(|mut reader| match &shown {
            Shown::BuiltIn(entry) => {
                let arguments = (entry.read)(&mut reader);
                match reader.close() {
                    Ok(()) => Ok(arguments),
                    Err(problems) => Err(format!(
                        "{problems}. The arguments are: {}",
                        entry.arguments.join(", ")
                    )),
                }
            }
            Shown::Mcp(args) => {
                let mut args = args.clone();
                for (name, value) in reader.into_members() {
                    let value = value_from_json(&value, &name)
                        .map_err(|error| format!("{error}. Pass it as a string if the tool takes one"))?;
                    args.args.insert(name, value);
                }
                Ok(Arguments::Mcp(args))
            }
        });
        parsed.map_err(|problems| Refusal::Arguments {
            text: format!(
                "{} was not executed, its arguments do not fit: {problems}.",
                call.name
            ),
            shown: Box::new(shown),
        })
    }

    /// How a call of this tool is shown. None if there is no such tool in the prompt.
    pub(super) fn shown(&self, call: &CallId, name: &str) -> Option<Shown> {
        if !self.names.contains(name) {
            return None;
        }
        registry::entry(name).map(Shown::BuiltIn).or_else(|| {
            self.mcp.get(name).filter(|tool| tool.connected).map(|tool| {
                Shown::Mcp(McpArgs {
                    name: tool.name.clone(),
                    tool_call_id: call.to_string(),
                    provider_identifier: tool.provider_identifier.clone(),
                    tool_name: tool.tool_name.clone(),
                    server_identifier: tool.server_identifier.clone(),
                    ..McpArgs::default()
                })
            })
        })
    }
}
