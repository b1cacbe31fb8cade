//! cairn: an append-only agent server for your own model keys.
//!
//! The crate's rooms and what each must never know are in `ARCHITECTURE.md`.

pub mod app;
pub mod client;
pub mod clock;
pub mod config;
pub mod cursor;
pub mod demo;
pub mod guard;
mod http_client;
pub mod model;
pub mod picture;
pub mod prefix_report;
pub mod provider;
pub mod run;
pub mod server;
pub mod store;
pub mod web;
