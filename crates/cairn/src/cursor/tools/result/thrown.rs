//! The result of a call that the client gave up with nothing but words of its own, which are meant for its makers.
//!
//! Owns what the model reads of it: what was called, the client's words within a bound, and the mend. Must never know:
//! exec ids.

use super::Outcome;
use super::local::failure;
use crate::cursor::proto::agent::tool_call::Tool;

/// The most characters of the client's words; it also throws whole lists of what it checked. [sdk]
const WORDS_LIMIT: usize = 400;

/// The call on this card ended so.
pub(in super::super) fn outcome(card: Tool, words: &str) -> Outcome {
    let said = bounded(words);
    let text = match &card {
        // A server that has ended, and a result that the client cannot read, come this way. [sdk]
        Tool::McpToolCall(call) => {
            let args = call.args.as_ref();
            let server = args.map(|args| match args.server_identifier.as_str() {
                "" => args.provider_identifier.as_str(),
                identifier => identifier,
            });
            format!(
                "The call of {} of the MCP server {} brought no result; whether it took effect is unknown. The client \
                 says: {said}\nIf the arguments are at fault, mend them. If the server has ended or its answer cannot \
                 be read, the same call fails again: go on without it, or ask the person to start the server anew.",
                args.map_or("a tool", |args| args.tool_name.as_str()),
                server.unwrap_or_default(),
            )
        }
        // A working directory that does not exist. [sdk]
        Tool::ShellToolCall(_) => {
            format!(
                "The command was not run. The client says: {said}\nCheck that its working_directory exists."
            )
        }
        _ => format!("The client could not execute the tool: {said}"),
    };
    failure(card, &text)
}

fn bounded(words: &str) -> String {
    let words = words.trim();
    match words.char_indices().nth(WORDS_LIMIT) {
        Some((at, _)) => format!("{} [… and more]", &words[..at]),
        None => words.to_owned(),
    }
}
