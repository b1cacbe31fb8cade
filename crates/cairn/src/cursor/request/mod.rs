//! From a client's request to a prepared run: mode, model, MCP tools, context, initial messages, base revision.
//!
//! [`prepare`] fetches and checks everything once; all other functions are pure, with the clock, blobs and the base
//! history as parameters. Must never know: sockets, or how a run goes on.

mod archive;
mod attachments;
mod background;
mod base;
mod context;
mod context_link;
mod delegation;
mod edit;
mod error;
mod hydrate;
mod identity;
mod images;
mod mcp;
mod mode;
mod model;
mod prepare;
mod runtime;
mod subagent;
mod text;

pub use background::{completion_messages, new_completions, simulated_message};
pub use context::compile_request_context;
pub use context_link::ContextLink;
pub use delegation::{inherit, open_delegations, take_ended, whole_history};
pub use error::RequestError;
pub use identity::{
    TurnEvent, event_id, initial_messages, latest_context, message_id, origin_of_wire_id, wire_id,
};
pub use images::{BlobNeed, BlobResolver};
pub use mcp::collect_mcp_tools;
pub use mode::Mode;
pub use model::model_spec;
pub use prepare::{Prepared, prepare, run_id};
pub use runtime::{RuntimeInput, compile_runtime_message, needed_blobs};
pub use subagent::{defined_subagents, identity_message, run_model, subagent_kind, subagent_models};
