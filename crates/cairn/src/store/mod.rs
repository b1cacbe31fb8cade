//! The durable facts: messages, revisions, compactions, conversations, runs, model calls, tool rounds, client states,
//! delegations and a cas.
//!
//! Owns the SQLite database and every rule that must hold across a crash: messages are immutable, a revision
//! adds to its parent and copies nothing, one run owns a conversation, and each fact is one transaction that
//! is on disk before the call returns. Must never know: a client's or a provider's type, or how a run decides.
//!
//! A dropped future leaves a fact either whole or absent; nothing needs to be undone.

mod cas;
mod compactions;
mod conversations;
mod delegations;
mod error;
mod history_cache;
mod messages;
mod model_calls;
mod records;
mod revisions;
mod row;
mod run_record;
mod runs;
mod sqlite;
mod tool_rounds;
mod usage_columns;

pub use cas::BlobHash;
pub use compactions::Compaction;
pub use error::StoreError;
pub use history_cache::History;
pub use model_calls::{LatestModelCall, ModelCallEnd, ModelCallRecord, NewModelCall, PrefixVerdict};
pub use records::Records;
pub use run_record::{RecordedFailure, RecordedOutcome, RunRecord};
pub use runs::{BegunRun, RunRecordEnd};
pub use sqlite::Store;
pub use tool_rounds::CommittedResult;
