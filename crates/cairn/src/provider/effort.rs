//! The efforts to think that an endpoint knows, and the words for them.
//!
//! Owns the option `efforts`. Must never know: how a request asks for an effort.

use super::RouteError;
use super::endpoint::Endpoint;
use super::options::Options;
use crate::model::{ProviderFailure, ProviderFault, ReasoningEffort};

const WORDS: [(&str, ReasoningEffort); 7] = [
    ("none", ReasoningEffort::None),
    ("minimal", ReasoningEffort::Minimal),
    ("low", ReasoningEffort::Low),
    ("medium", ReasoningEffort::Medium),
    ("high", ReasoningEffort::High),
    ("xhigh", ReasoningEffort::XHigh),
    ("max", ReasoningEffort::Max),
];

/// The word for an effort, the same in all APIs.
pub(crate) fn word(effort: ReasoningEffort) -> &'static str {
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

/// Takes the option `efforts`: the list of efforts that the endpoint knows; `None` leaves it to the endpoint to refuse one.
pub(crate) fn known(options: &mut Options) -> Result<Option<Vec<ReasoningEffort>>, RouteError> {
    options.choices("efforts", &WORDS)
}

/// Fails if an effort is asked for that the endpoint does not know, as far as `known` lists them.
pub(crate) fn check(
    effort: ReasoningEffort,
    known: Option<&[ReasoningEffort]>,
    endpoint: &Endpoint,
) -> Result<(), ProviderFailure> {
    match known {
        Some(known) if !known.contains(&effort) => {
            let words: Vec<&str> = known.iter().map(|effort| word(*effort)).collect();
            let text = format!(
                "this endpoint takes no effort but {}; choose one of them",
                words.join(", ")
            );
            Err(endpoint.failure(ProviderFault::Unsupported, &text))
        }
        _ => Ok(()),
    }
}
