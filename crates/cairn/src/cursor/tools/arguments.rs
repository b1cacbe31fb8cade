//! The model's arguments as typed values, and the words for arguments that miss a schema.
//!
//! Owns reading JSON arguments. Must never know: cards, execs, results.

use regex::Regex;
use serde_json::{Map, Value};

use super::asked::Asked;
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
    /// A tool that asks the person first.
    Asked(Asked),
    AwaitShell(AwaitShellArguments),
    ReadLints(ReadLintsArguments),
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
    /// A cell of a notebook, counted from 0, shall be changed or come to be.
    Cell { index: usize, cell: CellChange },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CellChange {
    /// A passage of the cell's source shall be replaced; an empty one in an empty cell.
    Replace { old: String, new: String },
    /// A new cell shall stand at the index.
    Insert { kind: CellKind, source: String },
}

/// The kinds of cells that a notebook knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CellKind {
    Code,
    Markdown,
    Raw,
}

impl CellKind {
    pub(super) const ALL: [Self; 3] = [Self::Code, Self::Markdown, Self::Raw];

    /// The kind as notebooks and the model write it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

impl Change {
    /// The new text that the change brings, as it is shown while it streams.
    pub(super) fn new_text(&self) -> &str {
        match self {
            Self::Whole { contents: text }
            | Self::Replace { new: text, .. }
            | Self::Cell {
                cell: CellChange::Replace { new: text, .. } | CellChange::Insert { source: text, .. },
                ..
            } => text,
        }
    }
}

/// Waiting for a command in the background.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct AwaitShellArguments {
    pub shell_id: u32,
    /// How long to wait at most; 0 = look once.
    pub block_until_ms: u32,
    /// Ends the waiting when it fits a line of output.
    pub pattern: Option<LinePattern>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReadLintsArguments {
    /// At least one.
    pub paths: Vec<String>,
}

/// A regular expression for one line of text.
#[derive(Clone, Debug)]
pub(super) struct LinePattern(Regex);

impl PartialEq for LinePattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl LinePattern {
    /// The error says in one line what is wrong with the expression.
    pub(super) fn new(expression: &str) -> Result<Self, String> {
        Regex::new(expression).map(Self).map_err(|error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        })
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(super) fn fits(&self, line: &str) -> bool {
        self.0.is_match(line)
    }
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

    /// An array of strings, or left out.
    pub(super) fn optional_texts(&mut self, name: &str) -> Vec<String> {
        let items = match self.take(name) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => return self.mistyped(name, "an array of strings", &other),
        };
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text),
                other => self.problem(format!(
                    "{name}[{index}] must be a string, not {}",
                    kind_of(&other)
                )),
            }
        }
        texts
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

    /// An array of strings that must be there and hold at least one and at most this many, each of which says something.
    pub(super) fn filled_texts(&mut self, name: &str, most: usize) -> Vec<String> {
        let items = match self.take(name) {
            Some(Value::Array(items)) => items,
            Some(other) => return self.mistyped(name, "an array of strings", &other),
            None => return self.missing(name, "an array of strings"),
        };
        if items.is_empty() {
            self.problem(format!("`{name}` is empty"));
        }
        if items.len() > most {
            self.problem(format!(
                "`{name}` has {} entries, at most {most} are taken",
                items.len()
            ));
        }
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Value::String(text) if text.is_empty() => self.problem(format!("{name}[{index}] is empty")),
                Value::String(text) => out.push(text),
                other => self.problem(format!(
                    "{name}[{index}] must be a string, not {}",
                    kind_of(&other)
                )),
            }
        }
        out
    }

    /// An integer of this range, which must be there.
    pub(super) fn integer(&mut self, name: &str, least: i32, most: i32) -> i32 {
        self.optional_integer(name, least, most)
            .unwrap_or_else(|| self.missing(name, "an integer"))
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
