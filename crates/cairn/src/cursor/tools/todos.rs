//! The to-do list: reading TodoWrite's arguments and folding them into the list before them.
//!
//! Pure, so that the runtime and a fold over the history give the same list. Must never know: who asks, or when.

use super::arguments::Reader;
use crate::cursor::proto::agent::{TodoItem, TodoStatus};

/// What TodoWrite asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct TodoWriteArguments {
    /// The items as written, each with its own id.
    pub todos: Vec<TodoItem>,
    /// Whether they change the list (true) or are the whole list (false).
    pub merge: bool,
}

/// The statuses as the model writes them.
const STATUSES: [(&str, TodoStatus); 4] = [
    ("pending", TodoStatus::Pending),
    ("in_progress", TodoStatus::InProgress),
    ("completed", TodoStatus::Completed),
    ("cancelled", TodoStatus::Cancelled),
];

/// Reads a TodoWrite call's arguments. The error says what misses the schema.
pub fn parse_todo_write(arguments: &str) -> Result<TodoWriteArguments, String> {
    let mut reader = Reader::open(arguments)?;
    let todos = read(&mut reader);
    reader.close().map(|()| todos)
}

/// Reads the arguments from an open reader, which collects what is wrong.
pub(super) fn read(reader: &mut Reader) -> TodoWriteArguments {
    let words = STATUSES.map(|(word, _)| word);
    let todos = reader.objects("todos", |item| TodoItem {
        id: item.filled_text("id"),
        content: item.text("content"),
        status: match item.optional_word("status", &words) {
            Some(word) => status_of(&word),
            None => {
                item.problem(format!("`status` is missing (one of {})", words.join(", ")));
                TodoStatus::Unspecified
            }
        }
        .into(),
        ..TodoItem::default()
    });
    for (index, item) in todos.iter().enumerate() {
        if todos.iter().take(index).any(|earlier| earlier.id == item.id) {
            reader.problem(format!("`todos` repeats the id `{}`", item.id));
        }
    }
    TodoWriteArguments {
        todos,
        merge: reader.bool("merge"),
    }
}

/// The list after a call: replaced, or merged by id with new items at the end.
pub fn apply_todos(current: &[TodoItem], call: &TodoWriteArguments) -> Vec<TodoItem> {
    if !call.merge {
        return call.todos.clone();
    }
    let mut list = current.to_vec();
    for item in &call.todos {
        match list.iter_mut().find(|known| known.id == item.id) {
            Some(known) => {
                known.content.clone_from(&item.content);
                known.status = item.status;
            }
            None => list.push(item.clone()),
        }
    }
    list
}

/// The word for a status in text for the model.
pub(super) fn status_word(status: i32) -> &'static str {
    STATUSES
        .iter()
        .find(|(_, known)| i32::from(*known) == status)
        .map_or("unspecified", |(word, _)| word)
}

fn status_of(word: &str) -> TodoStatus {
    STATUSES
        .iter()
        .find(|(known, _)| *known == word)
        .map_or(TodoStatus::Unspecified, |(_, status)| *status)
}
