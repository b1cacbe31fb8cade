//! The wall clock, read here and nowhere else.
//!
//! For times that people and clients are shown and that are stored as facts: created, started, completed. Must never
//! be used to make an id, to order events or to measure a span; of what a model reads it enters the message of a turn
//! alone, once. Spans are measured with `tokio::time::Instant`, which a test can pause.

use std::time::{Duration, SystemTime};

/// Tells the time in milliseconds since the Unix epoch: [`unix_ms`], or a clock that a test sets.
pub type Clock = fn() -> u64;

/// The time now in milliseconds since the Unix epoch; 0 on a machine whose clock stands before it.
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
pub fn unix_ms() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    // Full 64 bits of milliseconds are reached in 584 million years.
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
