//! What the two APIs of OpenAI have in common.
//!
//! Must never know: the shape of either API's requests or streams.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};

use super::endpoint::Endpoint;
use crate::model::{ConversationId, Image, ProviderFailure, ProviderFault, ReasoningEffort, ToolDefinition};

/// Longest name of a tool that the APIs take.
pub(crate) const LONGEST_NAME: usize = 64;

/// An opaque key that is the same for all requests of a conversation.
pub(crate) fn prompt_cache_key(conversation: &ConversationId) -> String {
    let mut hash = Sha256::new();
    hash.update(b"cairn prompt cache key 1\n");
    hash.update(conversation.as_str().as_bytes());
    hex::encode(&hash.finalize()[..16])
}

/// The APIs' word for an effort.
pub(crate) fn effort_word(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::None => "none",
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
        ReasoningEffort::XHigh => "xhigh",
        ReasoningEffort::Max => "max",
    }
}

/// A picture as the address that carries it whole.
pub(crate) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.mime_type, STANDARD.encode(&image.data))
}

/// Checks that a tool's schema, which goes out as it is, does not break the body.
pub(crate) fn check_parameters(tool: &ToolDefinition, endpoint: &Endpoint) -> Result<(), ProviderFailure> {
    serde_json::from_str::<IgnoredAny>(&tool.parameters)
        .map(|_| ())
        .map_err(|fault| {
            endpoint.failure(
                ProviderFault::InvalidRequest,
                &format!("the parameters of the tool {} are no JSON: {fault}", tool.name),
            )
        })
}
