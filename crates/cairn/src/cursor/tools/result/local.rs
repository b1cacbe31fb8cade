//! Results of tools that need nobody to execute them. Must never know: the wire's execs.

use super::super::codec::card::failed;
use super::super::todos::{TodoWriteArguments, apply_todos, status_word};
use super::{ModelText, Outcome};
use crate::cursor::proto::agent::{
    TodoItem, UpdateTodosArgs, UpdateTodosResult, UpdateTodosSuccess, UpdateTodosToolCall, tool_call::Tool,
    update_todos_result,
};

/// The list after TodoWrite.
pub(in super::super) fn todo_write(current: &[TodoItem], call: TodoWriteArguments) -> Outcome {
    let todos = apply_todos(current, &call);
    let mut text = String::from(match todos.is_empty() {
        true => "The to-do list is empty.",
        false => "The to-do list is now:",
    });
    for item in &todos {
        text.push_str(&format!(
            "\n- [{}] {}: {}",
            status_word(item.status),
            item.id,
            item.content
        ));
    }
    let tool = Tool::UpdateTodosToolCall(UpdateTodosToolCall {
        result: Some(UpdateTodosResult {
            result: Some(update_todos_result::Result::Success(UpdateTodosSuccess {
                total_count: i32::try_from(todos.len()).unwrap_or(i32::MAX),
                todos,
                was_merge: call.merge,
            })),
        }),
        args: Some(UpdateTodosArgs {
            todos: call.todos,
            merge: call.merge,
        }),
    });
    Outcome::success(tool, ModelText::new(&text))
}

/// A call that failed before its tool had any result.
pub(in super::super) fn failure(card: Tool, message: &str) -> Outcome {
    Outcome::error(failed(card, message), message)
}
