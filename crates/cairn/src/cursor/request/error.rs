//! What is wrong with a request, for the person who made it. Always the client's or the selection's fault.

use crate::model::RunFailure;

/// A request that cannot be served.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// The request names no model.
    #[error("the request names no model; select one of: {configured}")]
    NoModel {
        /// The ids that can be selected.
        configured: String,
    },
    /// The request names a model that is not configured.
    #[error("model {id:?} is not configured; select one of: {configured}, or add it to [[models]]")]
    UnknownModel {
        /// The id asked for.
        id: String,
        /// The ids that can be selected.
        configured: String,
    },
    /// The request sets a model parameter that has no meaning here.
    #[error(
        "model {model:?}: parameter {parameter:?} is not known; known are effort, reasoning, reasoning_effort, \
         thinking, fast and context"
    )]
    UnknownParameter {
        /// The model's id.
        model: String,
        /// The parameter's id.
        parameter: String,
    },
    /// A model parameter has a value that it cannot have.
    #[error("model {model:?}: parameter {parameter:?} cannot be {value:?}; it can be {allowed}")]
    ParameterValue {
        /// The model's id.
        model: String,
        /// The parameter's id.
        parameter: String,
        /// The value asked for.
        value: String,
        /// The values that it can have.
        allowed: &'static str,
    },
    /// Two parameters, or one given twice, ask for different things.
    #[error(
        "model {model:?}: parameter {parameter:?} contradicts an earlier parameter; give only one of them"
    )]
    ParameterConflict {
        /// The model's id.
        model: String,
        /// The later parameter's id.
        parameter: String,
    },
    /// The request asks for a larger context than the model is configured with.
    #[error(
        "model {model:?}: a context of {asked} tokens is more than the configured {configured}; ask for less, or \
         raise context_window in [[models]]"
    )]
    ContextTooLarge {
        /// The model's id.
        model: String,
        /// Tokens asked for.
        asked: u32,
        /// Tokens configured.
        configured: u32,
    },
    /// The request asks for a mode that cairn does not have.
    #[error("mode {mode} is not supported; choose agent, ask, plan, debug or multitask")]
    UnsupportedMode {
        /// The mode's name on the wire, or its number.
        mode: String,
    },
    /// The person's choice for a kind of subagent says nothing.
    #[error(
        "the model override for subagents of the kind {kind:?} selects nothing; choose a model, inherit or disabled"
    )]
    SubagentOverride {
        /// The kind.
        kind: String,
    },
    /// The end of background work that names neither a call nor a subagent nor a task.
    #[error(
        "a background task completion names neither its tool_call_id nor its subagent_id nor its task_id"
    )]
    NamelessCompletion,
    /// An MCP tool cannot be offered.
    #[error("MCP server {server:?}, tool {tool:?}: {fault}; mend the server, or disable the tool")]
    McpTool {
        /// The server's identifier.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// What is wrong.
        fault: String,
    },
    /// The request refers to a blob that neither it nor the client could give.
    #[error("{what}: blob {id} is missing; send the message again")]
    MissingBlob {
        /// What the blob holds, with its place in the request.
        what: String,
        /// The blob's id in hex.
        id: String,
    },
    /// A blob's bytes are not those that its id stands for.
    #[error("{what}: the bytes of blob {id} do not have that hash; send the message again")]
    BlobMismatch {
        /// What the blob holds, with its place in the request.
        what: String,
        /// The blob's id in hex.
        id: String,
    },
    /// A blob's bytes are not what the field that names it says they are.
    #[error("{what}: blob {id} cannot be decoded; send the message again")]
    BadBlob {
        /// What the blob holds, with its place in the request.
        what: String,
        /// The blob's id in hex.
        id: String,
    },
    /// A selected image holds neither bytes nor a blob id.
    #[error("selected image {position} has no data; attach it again")]
    NoImageData {
        /// One-based place among the message's images.
        position: usize,
    },
}

impl From<RequestError> for RunFailure {
    fn from(error: RequestError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// The client's fault, in these words.
pub(super) fn protocol(error: impl ToString) -> RunFailure {
    RunFailure::Protocol(error.to_string())
}
