//! Shared by the behaviour tests: strict fakes that are the oracle of what they see.

pub mod fake_client;
pub mod fake_provider;
