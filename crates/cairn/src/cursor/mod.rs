//! The Cursor client: its wire, its requests, its state and its tools.
//!
//! Owns every word of the Cursor protocol. Must never know: how a provider is called or how a run decides.

pub mod actor;
pub mod bidi_append;
pub mod blob;
pub mod blob_sync;
pub mod checkpoint;
pub mod connect;
pub mod delegations;
pub mod handlers;
pub mod inbox;
pub mod interaction;
pub mod json_stream;
pub mod keys;
pub mod lifecycle;
pub mod pictures;
mod presentation;
pub mod projection;
pub mod prompting;
pub mod proto;
pub mod proxy;
pub mod request;
pub mod run_sse;
pub mod services;
pub mod session;
pub mod sessions;
mod shown_text;
pub mod tools;
