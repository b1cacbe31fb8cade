//! Why an answer ends, by the endpoint's own word.
//!
//! Must never know: what the answer says.

use super::wire::{StopDetails, Text};
use crate::model::ProviderFault;

/// The endpoint's word on why the answer ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finish {
    /// The word itself.
    pub(super) reason: String,
    /// What it means.
    pub(super) outcome: Outcome,
}

/// What a stop reason means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The answer is whole.
    Stop,
    /// The answer is whole and asks for tools.
    Tools,
    /// The answer is not to be kept; with what to tell the person.
    Failed(ProviderFault, String),
}

impl Outcome {
    /// The meaning of a stop reason; `None` if it is unknown.
    pub(super) fn of(reason: &str, details: Option<StopDetails<'_>>) -> Option<Self> {
        let failed = |fault, text: &str| Self::Failed(fault, text.to_owned());
        Some(match reason {
            "end_turn" | "stop_sequence" => Self::Stop,
            "tool_use" => Self::Tools,
            "max_tokens" => failed(
                ProviderFault::OutputLimit,
                "the answer reached the output limit and was not kept; raise max_output_tokens, or ask for less",
            ),
            "model_context_window_exceeded" => failed(
                ProviderFault::ContextLength,
                "the answer filled the model's context and was not kept; shorten the conversation or choose a model \
                 with a larger context",
            ),
            "refusal" => Self::Failed(ProviderFault::Filtered, refusal(details)),
            "pause_turn" => failed(
                ProviderFault::Unsupported,
                "the endpoint paused its answer for tools of its own, which cairn does not offer; remove them from \
                 extra_body and headers",
            ),
            _ => return None,
        })
    }
}

fn refusal(details: Option<StopDetails<'_>>) -> String {
    let mut text = "the endpoint refused to answer".to_owned();
    if let Some(details) = details {
        let words = |words: Option<Text<'_>>| words.map(|words| words.0.into_owned());
        if let Some(category) = words(details.category) {
            text.push_str(&format!(", category {category}"));
        }
        if let Some(explanation) = words(details.explanation) {
            text.push_str(&format!(": {}", explanation.trim_end_matches('.')));
        }
    }
    text.push_str("; change the request");
    text
}
