//! The model's arguments as typed values, and the words for arguments that miss a schema.
//!
//! Owns reading JSON arguments. Must never know: cards, execs, results.

use serde_json::{Map, Value};

use super::mcp::{CallMcpToolArguments, FetchMcpResourceArguments, GetMcpToolsArguments};
use super::number::exact_integer;
use super::progress::ProgressUpdate;
use super::task::TaskArguments;
use super::todos::TodoWriteArguments;
use crate::cursor::proto::agent::McpArgs;

/// A call's arguments by tool. One variant is one transport and one card.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Arguments {
    Shell(ShellArguments),
    Read(ReadArguments),
    Edit(EditArguments),
    Delete(DeleteArguments),
    Grep(GrepArguments),
    Glob(GlobArguments),
    TodoWrite(TodoWriteArguments),
    Mcp(McpArgs),
    GetMcpTools(GetMcpToolsArguments),
    CallMcpTool(CallMcpToolArguments),
    FetchMcpResource(FetchMcpResourceArguments),
    Task(TaskArguments),
    UpdateCurrentStep(ProgressUpdate),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ShellArguments {
    pub command: String,
    pub working_directory: Option<String>,
    /// How long the call waits before the command goes on in the background; 0 = at once.
    pub block_until_ms: i32,
    pub description: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReadArguments {
    pub path: String,
    /// One-based first line.
    pub offset: Option<i32>,
    /// Number of lines; at least 1.
    pub limit: Option<i32>,
}

/// A change of one file, whichever model tool asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EditArguments {
    pub path: String,
    pub change: Change,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// The file shall have this text and no other.
    Whole { contents: String },
    /// A passage shall be replaced.
    Replace { old: String, new: String, every: bool },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeleteArguments {
    pub path: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct GrepArguments {
    pub pattern: String,
    pub path: Option<String>,
    pub glob: Option<String>,
    /// `content`, `files_with_matches` or `count`.
    pub output_mode: String,
    pub before: Option<i32>,
    pub after: Option<i32>,
    pub context: Option<i32>,
    pub case_insensitive: Option<bool>,
    pub file_type: Option<String>,
    pub head_limit: Option<i32>,
    pub offset: Option<i32>,
    pub multiline: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GlobArguments {
    pub pattern: String,
    pub target_directory: Option<String>,
}

/// Takes the members of an arguments object one by one and collects everything that is wrong with them.
#[derive(Debug)]
pub(super) struct Reader {
    members: Map<String, Value>,
    problems: Vec<String>,
}

impl Reader {
    /// Opens an arguments text. The error is one line that says what the text is instead of an object.
    pub(super) fn open(text: &str) -> Result<Self, String> {
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Ok(Self {
                members,
                problems: Vec::new(),
            }),
            Ok(other) => Err(format!("they must be a JSON object, not {}", kind_of(&other))),
            Err(error) => Err(format!("they are not valid JSON ({error})")),
        }
    }

    /// All members as they are, for a tool whose schema is not ours.
    pub(super) fn into_members(self) -> Map<String, Value> {
        self.members
    }

    /// A string that must be there.
    pub(super) fn text(&mut self, name: &str) -> String {
        self.optional_text(name)
            .unwrap_or_else(|| self.missing(name, "a string"))
    }

    /// A string that must be there and say something, such as a path.
    pub(super) fn filled_text(&mut self, name: &str) -> String {
        let had = self.problems.len();
        let text = self.text(name);
        if text.is_empty() && self.problems.len() == had {
            self.problem(format!("`{name}` is empty"));
        }
        text
    }

    /// A string that may be left out.
    pub(super) fn optional_text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            other => Some(self.mistyped(name, "a string", &other)),
        }
    }

    /// `true` or `false`, which must be there.
    pub(super) fn bool(&mut self, name: &str) -> bool {
        self.optional_bool(name)
            .unwrap_or_else(|| self.missing(name, "true or false"))
    }

    /// `true` or `false`, or left out.
    pub(super) fn optional_bool(&mut self, name: &str) -> Option<bool> {
        match self.take(name)? {
            Value::Bool(truth) => Some(truth),
            other => Some(self.mistyped(name, "true or false", &other)),
        }
    }

    /// An integer of this range, or left out.
    pub(super) fn optional_integer(&mut self, name: &str, least: i32, most: i32) -> Option<i32> {
        let value = self.take(name)?;
        let Value::Number(number) = &value else {
            return Some(self.mistyped(name, "an integer", &value));
        };
        let integer = exact_integer(number).and_then(|integer| i32::try_from(integer).ok());
        match integer {
            Some(integer) if (least..=most).contains(&integer) => Some(integer),
            _ => {
                self.problem(format!(
                    "`{name}` must be an integer from {least} to {most}, not {number}"
                ));
                Some(0)
            }
        }
    }

    /// An object of any members, or left out.
    pub(super) fn optional_object(&mut self, name: &str) -> Option<Map<String, Value>> {
        match self.take(name)? {
            Value::Object(members) => Some(members),
            other => Some(self.mistyped(name, "an object", &other)),
        }
    }

    /// One of these words, or left out.
    pub(super) fn optional_word(&mut self, name: &str, words: &[&str]) -> Option<String> {
        let had = self.problems.len();
        let word = self.optional_text(name)?;
        if self.problems.len() == had && !words.contains(&word.as_str()) {
            self.problem(format!("`{name}` must be one of {}", words.join(", ")));
        }
        Some(word)
    }

    /// An array of objects that must be there; each is read by `read` with the place's name, such as `todos[0]`.
    pub(super) fn objects<T>(&mut self, name: &str, mut read: impl FnMut(&mut Reader) -> T) -> Vec<T> {
        let items = match self.take(name) {
            Some(Value::Array(items)) => items,
            Some(other) => return self.mistyped(name, "an array of objects", &other),
            None => return self.missing(name, "an array of objects"),
        };
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Value::Object(members) => {
                    let mut inner = Reader {
                        members,
                        problems: Vec::new(),
                    };
                    out.push(read(&mut inner));
                    let unknown = inner.members.keys().map(|key| format!("`{key}` is unknown"));
                    let problems: Vec<String> = inner.problems.into_iter().chain(unknown).collect();
                    self.problems.extend(
                        problems
                            .into_iter()
                            .map(|problem| format!("{name}[{index}]: {problem}")),
                    );
                }
                other => self.problem(format!(
                    "{name}[{index}] must be an object, not {}",
                    kind_of(&other)
                )),
            }
        }
        out
    }

    /// Notes something wrong that the types alone do not show.
    pub(super) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Ends the reading: what is left over is unknown. The error lists everything wrong in one line.
    pub(super) fn close(mut self) -> Result<(), String> {
        let unknown: Vec<String> = self
            .members
            .keys()
            .map(|key| format!("`{key}` is unknown"))
            .collect();
        self.problems.extend(unknown);
        match self.problems.is_empty() {
            true => Ok(()),
            false => Err(self.problems.join("; ")),
        }
    }

    /// Null stands for an absent member: models write it for what they leave out.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.members.shift_remove(name).filter(|value| !value.is_null())
    }

    fn missing<T: Default>(&mut self, name: &str, expected: &str) -> T {
        self.problem(format!("`{name}` is missing ({expected})"));
        T::default()
    }

    fn mistyped<T: Default>(&mut self, name: &str, expected: &str, value: &Value) -> T {
        self.problem(format!("`{name}` must be {expected}, not {}", kind_of(value)));
        T::default()
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
