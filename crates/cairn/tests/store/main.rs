//! The store's promises: exactly once, one owner, branches apart, completion order, and nothing lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failed expectation is a failed test"
)]

mod branches;
mod compactions;
mod files;
mod histories;
mod interleavings;
mod model_calls;
mod ownership;
mod records;
mod rounds;
mod support;
