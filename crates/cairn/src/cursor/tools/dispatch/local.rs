//! Tools that nobody has to execute. Must never know: the wire's execs.

use super::super::result::local;
use super::super::todos::TodoWriteArguments;
use super::Step;
use crate::cursor::proto::agent::TodoItem;

pub(super) fn todo_write(current: &[TodoItem], todos: TodoWriteArguments) -> Step {
    Step::Done(local::todo_write(current, todos))
}
