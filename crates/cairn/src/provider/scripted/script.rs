//! The offline model's script language.
//!
//! Must never know: how far a script has been followed.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::model::ToolDefinition;

/// What is said and asked for in one answer.
#[derive(Default, Debug)]
pub(super) struct Step {
    /// Lines of text.
    pub(super) text: Vec<String>,
    /// The batch of calls; a step without calls ends the turn.
    pub(super) calls: Vec<ScriptCall>,
}

#[derive(Debug)]
pub(super) struct ScriptCall {
    pub(super) tool: Arc<str>,
    /// JSON text.
    pub(super) arguments: String,
}

/// The steps of a message; none if it holds no line of the language.
pub(super) fn steps(message: &str, tools: &[ToolDefinition]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // The step that the next line may still join.
    let mut open: Option<Step> = None;
    for line in message.lines().map(str::trim_end) {
        let Some((verb, rest)) = line.split_once(' ').filter(|(_, rest)| !rest.trim().is_empty()) else {
            steps.extend(open.take_if(|step| !step.calls.is_empty()));
            continue;
        };
        let (tool, argument) = match verb {
            "read" => ("Read", "path"),
            "run" => ("Shell", "command"),
            "say" => {
                steps.extend(open.take_if(|step| !step.calls.is_empty()));
                open.get_or_insert_default().text.push(rest.to_owned());
                continue;
            }
            _ => continue,
        };
        let step = open.get_or_insert_default();
        match tools.iter().find(|known| known.name.as_ref() == tool) {
            Some(tool) => step.calls.push(ScriptCall {
                tool: Arc::clone(&tool.name),
                arguments: arguments(tool, argument, rest, line),
            }),
            None => step
                .text
                .push(format!("I was offered no tool named {tool}, so I cannot {line}.")),
        }
    }
    steps.extend(open);
    steps
}

/// The argument that the line is about, and the line itself for every other text that the tool insists on.
fn arguments(tool: &ToolDefinition, argument: &str, value: &str, line: &str) -> String {
    let mut arguments = Map::new();
    arguments.insert(argument.to_owned(), Value::from(value));
    let schema: Option<Value> = serde_json::from_str(&tool.parameters).ok();
    let required = schema
        .as_ref()
        .and_then(|schema| schema.get("required"))
        .and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let kind = schema
            .as_ref()
            .and_then(|schema| schema.pointer(&format!("/properties/{name}/type")));
        if name != argument && kind.and_then(Value::as_str) == Some("string") {
            arguments.insert(name.to_owned(), Value::from(line));
        }
    }
    Value::Object(arguments).to_string()
}
