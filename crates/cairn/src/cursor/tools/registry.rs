//! The one table that joins a model tool's name to its arguments and to the card shown while they stream.
//!
//! Adding a tool is adding a row here and an arm wherever the compiler then asks for one. Must never know: how a
//! tool is executed, which mode offers it, or its description.

use super::arguments::{
    Arguments, AwaitShellArguments, CellChange, CellKind, Change, DeleteArguments, EditArguments,
    GlobArguments, GrepArguments, LinePattern, ReadArguments, ReadLintsArguments, Reader, ShellArguments,
};
use super::mcp::{CALL_MCP_TOOL, FETCH_MCP_RESOURCE, GET_MCP_TOOLS};
use super::progress::UPDATE_CURRENT_STEP;
use super::task::TASK;
use super::{asked, todos};
use crate::cursor::proto::agent::{
    AwaitToolCall, DeleteArgs, DeleteToolCall, EditArgs, EditToolCall, GlobToolArgs, GlobToolCall, GrepArgs,
    GrepToolCall, ReadLintsToolCall, ReadToolArgs, ReadToolCall, ShellArgs, ShellToolCall,
    UpdateTodosToolCall, tool_call::Tool,
};

/// How long Shell waits before a command goes on in the background, unless the model says otherwise.
const DEFAULT_BLOCK_MS: i32 = 30_000;
/// The longest time that Shell may be told to wait: a day, the client's own hard limit.
const LONGEST_BLOCK_MS: i32 = 86_400_000;

/// A model tool.
#[derive(Debug)]
pub(super) struct ToolEntry {
    pub name: &'static str,
    /// Every argument that the tool knows.
    pub arguments: &'static [&'static str],
    /// String arguments that streaming decodes: the ones that the card shows, and the edit's text.
    pub streamed: &'static [&'static str],
    /// The streamed argument whose text the client shows as it grows.
    pub content: Option<&'static str>,
    /// The card while the arguments are not complete.
    pub placeholder: fn(&Known<'_>) -> Tool,
    /// Takes the arguments; what is wrong with them is collected by the reader.
    pub read: fn(&mut Reader) -> Arguments,
}

/// Streamed arguments that are already complete.
#[derive(Debug)]
pub(super) struct Known<'a>(pub &'a [(&'static str, String)]);

impl Known<'_> {
    /// The argument's text, if it is complete.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| text.clone())
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }
}

/// The tool of this name.
pub(super) fn entry(name: &str) -> Option<&'static ToolEntry> {
    all().find(|tool| tool.name == name)
}

fn all() -> impl Iterator<Item = &'static ToolEntry> {
    TOOLS.iter().chain(asked::TOOLS)
}

/// The names of all tools that are built in, in no order of meaning.
pub fn known_tools() -> impl Iterator<Item = &'static str> {
    all().map(|tool| tool.name)
}

/// Every argument that a built-in tool knows; a schema must name exactly these.
pub fn argument_names(tool: &str) -> Option<&'static [&'static str]> {
    entry(tool).map(|tool| tool.arguments)
}

/// How many paths one ReadLints may name; its schema says the same.
const MOST_LINT_PATHS: usize = 50;

static TOOLS: &[ToolEntry] = &[
    ToolEntry {
        name: "Shell",
        arguments: &["command", "working_directory", "block_until_ms", "description"],
        streamed: &["command", "working_directory", "description"],
        content: None,
        placeholder: |known| {
            Tool::ShellToolCall(ShellToolCall {
                args: Some(ShellArgs {
                    command: known.text("command"),
                    working_directory: known.text("working_directory"),
                    description: known.get("description"),
                    ..ShellArgs::default()
                }),
                description: known.get("description"),
                ..ShellToolCall::default()
            })
        },
        read: |reader| {
            Arguments::Shell(ShellArguments {
                command: reader.filled_text("command"),
                working_directory: reader
                    .optional_text("working_directory")
                    .filter(|path| !path.is_empty()),
                block_until_ms: reader
                    .optional_integer("block_until_ms", 0, LONGEST_BLOCK_MS)
                    .unwrap_or(DEFAULT_BLOCK_MS),
                description: reader.optional_text("description"),
            })
        },
    },
    ToolEntry {
        name: "Read",
        arguments: &["path", "offset", "limit"],
        streamed: &["path"],
        content: None,
        placeholder: |known| {
            Tool::ReadToolCall(ReadToolCall {
                args: Some(ReadToolArgs {
                    path: known.text("path"),
                    ..ReadToolArgs::default()
                }),
                ..ReadToolCall::default()
            })
        },
        read: |reader| {
            Arguments::Read(ReadArguments {
                path: reader.filled_text("path"),
                offset: reader.optional_integer("offset", 1, i32::MAX),
                limit: reader.optional_integer("limit", 1, i32::MAX),
            })
        },
    },
    ToolEntry {
        name: "Write",
        arguments: &["path", "contents"],
        streamed: &["path", "contents"],
        content: Some("contents"),
        placeholder: edit_placeholder,
        read: |reader| {
            Arguments::Edit(EditArguments {
                path: reader.filled_text("path"),
                change: Change::Whole {
                    contents: reader.text("contents"),
                },
            })
        },
    },
    ToolEntry {
        name: "StrReplace",
        arguments: &["path", "old_string", "new_string", "replace_all"],
        streamed: &["path", "new_string"],
        content: Some("new_string"),
        placeholder: edit_placeholder,
        read: |reader| {
            Arguments::Edit(EditArguments {
                path: reader.filled_text("path"),
                change: Change::Replace {
                    old: reader.filled_text("old_string"),
                    new: reader.text("new_string"),
                    every: reader.optional_bool("replace_all").unwrap_or(false),
                },
            })
        },
    },
    ToolEntry {
        name: "EditNotebook",
        arguments: &[
            "path",
            "cell_index",
            "is_new_cell",
            "cell_type",
            "old_string",
            "new_string",
        ],
        streamed: &["path", "new_string"],
        content: Some("new_string"),
        placeholder: edit_placeholder,
        read: |reader| {
            Arguments::Edit(EditArguments {
                path: reader.filled_text("path"),
                change: Change::Cell {
                    index: usize::try_from(reader.integer("cell_index", 0, i32::MAX)).unwrap_or_default(),
                    cell: read_cell(reader),
                },
            })
        },
    },
    ToolEntry {
        name: "AwaitShell",
        arguments: &["shell_id", "block_until_ms", "pattern"],
        streamed: &[],
        content: None,
        placeholder: |_| Tool::AwaitToolCall(AwaitToolCall::default()),
        read: |reader| {
            Arguments::AwaitShell(AwaitShellArguments {
                shell_id: reader.integer("shell_id", 0, i32::MAX).unsigned_abs(),
                block_until_ms: reader
                    .optional_integer("block_until_ms", 0, LONGEST_BLOCK_MS)
                    .unwrap_or(DEFAULT_BLOCK_MS)
                    .unsigned_abs(),
                pattern: reader
                    .optional_text("pattern")
                    .filter(|text| !text.is_empty())
                    .and_then(|text| {
                        let pattern = LinePattern::new(&text);
                        pattern
                            .map_err(|fault| {
                                reader.problem(format!("`pattern` is no regular expression: {fault}"))
                            })
                            .ok()
                    }),
            })
        },
    },
    ToolEntry {
        name: "ReadLints",
        arguments: &["paths"],
        streamed: &[],
        content: None,
        placeholder: |_| Tool::ReadLintsToolCall(ReadLintsToolCall::default()),
        read: |reader| {
            Arguments::ReadLints(ReadLintsArguments {
                paths: reader.filled_texts("paths", MOST_LINT_PATHS),
            })
        },
    },
    ToolEntry {
        name: "Delete",
        arguments: &["path"],
        streamed: &["path"],
        content: None,
        placeholder: |known| {
            Tool::DeleteToolCall(DeleteToolCall {
                args: Some(DeleteArgs {
                    path: known.text("path"),
                    ..DeleteArgs::default()
                }),
                ..DeleteToolCall::default()
            })
        },
        read: |reader| {
            Arguments::Delete(DeleteArguments {
                path: reader.filled_text("path"),
            })
        },
    },
    ToolEntry {
        name: "Grep",
        arguments: &[
            "pattern",
            "path",
            "glob",
            "output_mode",
            "-B",
            "-A",
            "-C",
            "-i",
            "type",
            "head_limit",
            "offset",
            "multiline",
        ],
        streamed: &["pattern", "path", "glob"],
        content: None,
        placeholder: |known| {
            Tool::GrepToolCall(GrepToolCall {
                args: Some(GrepArgs {
                    pattern: known.text("pattern"),
                    path: known.get("path"),
                    glob: known.get("glob"),
                    ..GrepArgs::default()
                }),
                ..GrepToolCall::default()
            })
        },
        read: |reader| {
            Arguments::Grep(GrepArguments {
                pattern: reader.filled_text("pattern"),
                path: reader.optional_text("path").filter(|path| !path.is_empty()),
                glob: reader.optional_text("glob").filter(|glob| !glob.is_empty()),
                output_mode: reader
                    .optional_word("output_mode", &["content", "files_with_matches", "count"])
                    .unwrap_or_else(|| "content".to_owned()),
                before: reader.optional_integer("-B", 0, i32::MAX),
                after: reader.optional_integer("-A", 0, i32::MAX),
                context: reader.optional_integer("-C", 0, i32::MAX),
                case_insensitive: reader.optional_bool("-i"),
                file_type: reader.optional_text("type").filter(|kind| !kind.is_empty()),
                head_limit: reader.optional_integer("head_limit", 1, i32::MAX),
                offset: reader.optional_integer("offset", 0, i32::MAX),
                multiline: reader.optional_bool("multiline"),
            })
        },
    },
    ToolEntry {
        name: "Glob",
        arguments: &["glob_pattern", "target_directory"],
        streamed: &["glob_pattern", "target_directory"],
        content: None,
        placeholder: |known| {
            Tool::GlobToolCall(GlobToolCall {
                args: Some(GlobToolArgs {
                    glob_pattern: known.text("glob_pattern"),
                    target_directory: known.get("target_directory"),
                }),
                ..GlobToolCall::default()
            })
        },
        read: |reader| {
            Arguments::Glob(GlobArguments {
                pattern: reader.filled_text("glob_pattern"),
                target_directory: reader
                    .optional_text("target_directory")
                    .filter(|path| !path.is_empty()),
            })
        },
    },
    ToolEntry {
        name: "TodoWrite",
        arguments: &["todos", "merge"],
        streamed: &[],
        content: None,
        placeholder: |_| Tool::UpdateTodosToolCall(UpdateTodosToolCall::default()),
        read: |reader| Arguments::TodoWrite(todos::read(reader)),
    },
    TASK,
    GET_MCP_TOOLS,
    FETCH_MCP_RESOURCE,
    UPDATE_CURRENT_STEP,
    CALL_MCP_TOOL,
];

fn read_cell(reader: &mut Reader) -> CellChange {
    let is_new = reader.bool("is_new_cell");
    let old = reader.text("old_string");
    let new = reader.text("new_string");
    let kind = reader.optional_word("cell_type", &CellKind::ALL.map(CellKind::word));
    if !is_new {
        return CellChange::Replace { old, new };
    }
    if !old.is_empty() {
        reader.problem("`old_string` must be empty for a new cell".to_owned());
    }
    let kind = CellKind::ALL
        .into_iter()
        .find(|known| Some(known.word()) == kind.as_deref());
    CellChange::Insert {
        kind: kind.unwrap_or_else(|| {
            reader.problem("`cell_type` is needed for a new cell".to_owned());
            CellKind::Code
        }),
        source: new,
    }
}

fn edit_placeholder(known: &Known<'_>) -> Tool {
    Tool::EditToolCall(EditToolCall {
        args: Some(EditArgs {
            path: known.text("path"),
            // The text goes in deltas: repeating it with each piece would make a long file quadratic.
            stream_content: None,
        }),
        ..EditToolCall::default()
    })
}
