//! The port between a run and whoever shows it: commands in, events out, and one-shot barriers.
//!
//! Owns the shape of that boundary. Must never know: a word of any client (its frames, ids, blobs or modes).

mod command;
mod event;
mod session;

pub use command::ClientCommand;
pub use event::{Barrier, BarrierWait, ClientEvent, StateCause, barrier};
pub use session::{ClientHandle, RunHandle, session};
