//! A conversation that outgrows its model goes on from a summary of itself: once, declared, and with nothing lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    missing_docs,
    dead_code,
    reason = "a test says what it saw by failing"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "one strict endpoint brings the replies of another along"
)]

#[path = "support"]
mod support {
    pub mod cairn_server;
    pub mod fake_client;
    pub mod fake_cursor;
    pub mod fake_provider;
    pub mod over_http;
    pub mod strict_anthropic;
    pub mod strict_chat;
    pub mod strict_responses;
    pub mod wire_bench;
    pub mod wire_oracle;
}

#[path = "compaction/declared.rs"]
mod declared;
#[path = "compaction/endpoints.rs"]
mod endpoints;
#[path = "compaction/engine.rs"]
mod engine;
#[path = "compaction/failures.rs"]
mod failures;
#[path = "compaction/forty_rounds.rs"]
mod forty_rounds;
#[path = "compaction/rooms.rs"]
mod rooms;
#[path = "compaction/sizes.rs"]
mod sizes;
#[path = "compaction/talk.rs"]
mod talk;
#[path = "compaction/too_long.rs"]
mod too_long;
#[path = "compaction/wire.rs"]
mod wire;
