//! Model endpoints: one port, one shared transport, one folder for each API.
//!
//! Owns requests to endpoints and the strict reading of their streams. Must never know: the store, a client's
//! events, or how a tool is executed.

mod event;
mod port;

pub use event::{ModelEvent, StopReason};
pub use port::{ModelInvocation, ModelStream, Provider};
