//! The generated wire types. Owns nothing else: meaning is given to them by the modules that read and write them.

#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the meaning is written in the .proto files"
)]

/// Package `agent.v1`.
pub mod agent {
    include!(concat!(env!("OUT_DIR"), "/agent.v1.rs"));
}

/// Package `aiserver.v1`.
pub mod aiserver {
    include!(concat!(env!("OUT_DIR"), "/aiserver.v1.rs"));
}
