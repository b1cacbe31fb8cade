//! Measures and asserts that an agent host keeps the prefix of its model requests stable.
//!
//! Prompt caches serve the beginning of a request for a fraction of its price, as long as it repeats the request before
//! byte for byte. This crate drives a host through two turns against a fixture endpoint and holds its requests to that
//! ([`run_prefix_conformance`]), records a host at work, and explains recordings. It knows no host: a host is anything
//! that accepts a base URL. Every figure is defined in `docs/prefix-conformance.md`.

pub mod api;
mod assess;
mod conformance;
pub mod fixture;
mod host;
mod measure;
pub mod record;
pub mod recording;
pub mod reference;
pub mod report;
mod request;
mod scan;
mod table;
mod tail;
mod visible;

pub use api::Api;
pub use assess::{AssertOn, Limits, MIN_CONTINUITY, Outcome, Pair, Violation, assess, verify};
pub use conformance::{
    ConformanceError, ConformanceOptions, DEFAULT_INPUTS, default_skills, run_prefix_conformance,
};
pub use fixture::{Skill, ToolCall};
pub use host::{CommandHost, CommandMode, Host, HostError, Session};
pub use measure::{Boundary, Change, Difference, Measure, common, fraction, measure, measure_items, percent};
pub use request::{HEAD_END, ITEM_END, Item, Maker, Marker, Position, Request, RequestError, Unmeasurable};
pub use scan::{ScanError, Scanner};
pub use table::table;
pub use tail::{MessageIdentity, TailError, TailSegment};
