//! Pictures reach each API in their place, never fail a request, and never change what was sent before.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod encoding;
#[path = "../support/provider_input.rs"]
mod provider_input;
