//! From a client's request to plain values of the model: mode, model, MCP tools, initial messages.
//!
//! Pure functions only: the clock, blobs and the base history are parameters. Must never know: sessions, sockets,
//! the store or how a run goes on.

mod attachments;
mod context;
mod error;
mod identity;
mod images;
mod mcp;
mod mode;
mod model;
mod runtime;
mod text;

pub use context::compile_request_context;
pub use error::RequestError;
pub use identity::{TurnEvent, event_id, initial_messages, latest_context, origin_of_wire_id, wire_id};
pub use images::{BlobNeed, BlobResolver};
pub use mcp::collect_mcp_tools;
pub use mode::Mode;
pub use model::model_spec;
pub use runtime::{RuntimeInput, compile_runtime_message, needed_blobs};
