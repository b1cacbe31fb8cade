//! The Cursor client: its wire, its requests, its state and its tools.
//!
//! Owns every word of the Cursor protocol. Must never know: how a provider is called or how a run decides.

pub mod json_stream;
pub mod proto;
pub mod tools;
