//! The fault rig: cairn is killed, its uploads are lost and mixed up, its blobs are refused, at every place where that can
//! happen, and the conversation goes on. `docs/faults.md` says what is tried and how often.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::print_stdout,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing, and the rig says what it tried"
)]

mod acknowledgements;
mod appends;
mod cases;
mod conversation;
mod cuts;
mod facts;
mod fetches;
mod inside;
mod kill_at_commits;
mod kill_at_frames;
mod late_answers;
mod outside;
mod process;
mod rig;

#[path = "../support"]
#[allow(
    clippy::duplicate_mod,
    reason = "one endpoint brings the parts of another along, for tests that use it alone"
)]
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
