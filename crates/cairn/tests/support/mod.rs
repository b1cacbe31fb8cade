//! Shared by the behaviour tests: strict fakes that are the oracle of what they see.

pub mod fake_client;
pub mod fake_provider;
pub mod over_http;
pub mod strict_anthropic;
pub mod strict_chat;
pub mod strict_responses;
