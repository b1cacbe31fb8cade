//! State beside the history that follows from a completed call, read from its card alone: the same card gives the same
//! facts while the run goes on and when the steps of a turn are read again.
//!
//! Must never know: which run completed the call, or where the state is kept.

use crate::cursor::proto::agent::{TodoItem, read_tool_result, tool_call::Tool, update_todos_result};

/// State beside the history that follows from a call.
#[derive(Clone, PartialEq, Debug)]
pub enum DerivedFact {
    /// The file at this path, as the client names it, was read.
    ReadPath(String),
    /// The whole to-do list as it is now.
    Todos(Vec<TodoItem>),
    /// The whole text of the plan as it is now.
    Plan(String),
}

/// What follows from a completed call; nothing from one that failed.
pub fn derived_facts(card: &Tool) -> Vec<DerivedFact> {
    match card {
        Tool::ReadToolCall(read) => match read.result.as_ref().and_then(|result| result.result.as_ref()) {
            Some(read_tool_result::Result::Success(success)) => {
                vec![DerivedFact::ReadPath(success.path.clone())]
            }
            _ => Vec::new(),
        },
        Tool::UpdateTodosToolCall(update) => {
            match update.result.as_ref().and_then(|result| result.result.as_ref()) {
                Some(update_todos_result::Result::Success(success)) => {
                    vec![DerivedFact::Todos(success.todos.clone())]
                }
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}
