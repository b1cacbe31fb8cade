//! Pictures are made fit once, reach each API in their place, never fail a request, and never change what was sent before.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::duplicate_mod,
    missing_docs,
    dead_code,
    reason = "tests; one of the fakes brings another one along"
)]

mod encoding;
mod endpoints;
mod entry;
mod files;
mod fitting;
#[path = "../support/model_events.rs"]
mod model_events;
#[path = "../support/provider_input.rs"]
mod provider_input;
#[path = "../support"]
mod support {
    pub mod cairn_server;
    pub mod fake_cursor;
    pub mod over_http;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod wire_bench;
    pub mod wire_oracle;
}
