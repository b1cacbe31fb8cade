//! Tools: from the model's call to the client's execution and back to one result.
//!
//! Three layers stay apart. The *model tool* is a name with JSON arguments ([`registry`], [`arguments`]). The *card*
//! is the typed `ToolCall` that the client shows and keeps ([`codec::card`]). The *transport* is what executes
//! ([`dispatch`]): an exec message to the client, an edit of several execs, or nothing at all. Names meet types in
//! [`registry`] only; everything after it goes by type.
//!
//! Everything here is a pure state machine: no I/O, no clock, no async. Must never know: how a run decides, what a
//! provider sends, checkpoints, blobs.

mod arguments;
mod asked;
mod codec;
mod dispatch;
mod edit;
mod error;
mod execs;
mod lines;
mod mcp;
mod notebook;
mod number;
mod offer;
mod progress;
mod registry;
mod result;
mod runtime;
mod stream;
mod task;
mod terminal_file;
mod todos;
mod value;

pub use dispatch::{ServiceAnswer, ServiceRequest};
pub use error::ToolProtocolError;
pub use offer::McpTool;
pub use progress::{PROGRESS_TOOL, ProgressUpdate};
pub use registry::{argument_names, known_tools};
pub use result::{DerivedFact, derived_facts, fact_of_arguments, read_page};
pub use runtime::{CommittedTool, Effect, ToolRuntime, ToolRuntimeConfig};
pub use task::{DefinedSubagent, SubagentScope, TASK_TOOL, background_delegation};
pub use todos::{TodoWriteArguments, apply_todos, parse_todo_write};
pub use value::{UnreadableValue, UnrepresentableNumber, json_from_value, value_from_json};
