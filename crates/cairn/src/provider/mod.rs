//! Model endpoints: one port, one shared transport, one folder for each API.
//!
//! Owns requests to endpoints and the strict reading of their streams. Must never know: the store, a client's
//! events, or how a tool is executed.

pub mod anthropic;
mod arguments;
mod blocks;
mod bodies;
mod call;
mod endpoint;
mod event;
mod extra_body;
mod fault;
mod json;
mod list;
mod names;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod options;
mod parts;
mod port;
mod redact;
mod retry;
mod router;
pub mod scripted;
mod sent;
pub mod sse;
mod stream_text;
mod transport;
mod unpack;

pub use call::Progress;
pub use event::{ModelEvent, StopReason};
pub use port::{ModelInvocation, ModelStream, Provider};
pub use router::{ProviderRouter, RouteError};
pub use sent::digest_of;
