//! Subagents from end to end: how one is asked for and shown, what its own run is, how its end is told, and that it
//! stops with the run above it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]

mod at_work;
mod child;
mod family;
mod stop;
mod task;
mod told;
mod wake;
mod whole;

#[path = "../support"]
mod support {
    pub mod cairn_server;
    pub mod fake_client;
    pub mod fake_cursor;
    pub mod fake_provider;
    pub mod over_http;
    pub mod raw;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod tool_calls;
    pub mod wire_bench;
    pub mod wire_oracle;
}
