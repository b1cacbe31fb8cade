//! What a client says to a run.
//!
//! Must never know: wire ids; the adapter has turned them into call ids before.

use crate::model::{Message, RunFailure, ToolResult};

/// What a client says to a run.
#[derive(Clone, Debug)]
pub enum ClientCommand {
    /// A tool has finished. The content is the text for the model.
    ToolResult(ToolResult),
    /// Something happened that the model shall see after what it has seen so far; appended exactly once.
    RuntimeEvent(Message),
    /// The client is gone or has broken its protocol; the run ends with this failure.
    ClientClosed(RunFailure),
    /// The person stopped the run.
    Cancel,
}
