//! The model-visible history as the client keeps it: AI-SDK message JSON, one blob a message ("root").
//!
//! Owns both directions and the replay capsule that hides in a reasoning signature. A root that came from a client is
//! never encoded again: its id is reused. Must never know: how blobs travel, or what a provider sends.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod wire;

pub use decode::{DecodedRoot, ProjectionError, decode_pending, decode_root, import_history};
pub use encode::{PendingContext, encode_history, encode_pending, encode_system};
