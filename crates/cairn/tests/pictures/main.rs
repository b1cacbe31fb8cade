//! Pictures are made fit once, reach each API in their place, never fail a request, and never change what was sent before.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "tests"
)]

mod encoding;
mod entry;
mod files;
mod fitting;
#[path = "../support/provider_input.rs"]
mod provider_input;
#[path = "../support"]
mod support {
    pub mod cairn_server;
    pub mod fake_cursor;
    pub mod strict_chat;
    pub mod wire_bench;
    pub mod wire_oracle;
}
