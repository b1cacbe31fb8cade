//! The tools that ask the person first, and the services on the web behind two of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "a test may fail"
)]

#[path = "web_tools/asked.rs"]
mod asked;
#[path = "web_tools/services.rs"]
mod services;
#[path = "support/tool_calls.rs"]
mod tool_calls;
