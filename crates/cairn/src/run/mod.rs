//! The run core: one loop that calls the model, commits what came, has tools run, commits their results, waits
//! for the client's barrier, and goes on until the model is done.
//!
//! Owns a run's life from registration to its single outcome. Must never know: a client's words (blobs,
//! checkpoints, wire ids, modes), a tool's name, an endpoint, or SQL.

mod actor;
mod engine;
mod lifecycle;
mod model_cycle;
mod proof;
mod registry;
mod tool_round;
mod views;

pub use actor::{RunServices, start};
pub use model_cycle::{ModelCycle, ModelCycleFailure, ModelOutput};
pub use proof::PrefixBreaks;
pub use registry::RunRegistry;
pub use views::Views;
