//! The Cursor client: its wire, its requests, its state and its tools.
//!
//! Owns every word of the Cursor protocol. Must never know: how a provider is called or how a run decides.

pub mod bidi_append;
pub mod connect;
pub mod handlers;
pub mod inbox;
pub mod keys;
pub mod proto;
pub mod proxy;
pub mod run_sse;
pub mod services;
pub mod sessions;
