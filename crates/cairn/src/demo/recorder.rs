//! Sees what a model is sent, and measures how much of each request repeats the one before.
//!
//! The measure is taken on the bytes of the Chat Completions encoder, the same that a hosted model would get. Must
//! never know: the wire between client and server.

use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{ModelRequest, ProviderFailure};
use crate::provider::openai_chat::{ChatProfile, ChatRequest, encode};
use crate::provider::{ModelInvocation, ModelStream, Provider};

/// The requests that were made, in order.
pub(super) type Requests = Arc<Mutex<Vec<ModelRequest>>>;

/// A provider that notes each request and passes it on.
#[derive(Debug)]
pub(super) struct Recorder {
    inner: Arc<dyn Provider>,
    requests: Requests,
}

impl Recorder {
    /// Stands before a provider and notes what it is asked.
    pub(super) fn before(inner: Arc<dyn Provider>, requests: &Requests) -> Arc<dyn Provider> {
        Arc::new(Self {
            inner,
            requests: requests.clone(),
        })
    }
}

impl Provider for Recorder {
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request.clone());
        self.inner.call(request, invocation)
    }
}

/// How a request relates to the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Overlap {
    /// Messages of the earlier request, the system prompt included.
    pub earlier_messages: usize,
    /// How many of them, from the first on, are in the later request at the same place with the same bytes.
    pub repeated_messages: usize,
    /// Messages of the later request.
    pub later_messages: usize,
    /// Whether model, parameters and tools have the same bytes.
    pub same_head: bool,
    /// Length of the earlier body in bytes.
    pub earlier_bytes: usize,
    /// How many bytes both bodies have in common from the first on.
    pub repeated_bytes: usize,
    /// Length of the later body in bytes.
    pub later_bytes: usize,
}

/// What stands after the last message of a body and so after the part that can repeat.
const CLOSING: &[u8] = b"]}";

impl Overlap {
    fn of(earlier: &ChatRequest, later: &ChatRequest) -> Self {
        Self {
            earlier_messages: earlier.messages().len(),
            repeated_messages: earlier
                .messages()
                .zip(later.messages())
                .take_while(|(a, b)| a == b)
                .count(),
            later_messages: later.messages().len(),
            same_head: earlier.head() == later.head(),
            earlier_bytes: earlier.body.len(),
            repeated_bytes: earlier
                .body
                .iter()
                .zip(&later.body)
                .take_while(|(a, b)| a == b)
                .count(),
            later_bytes: later.body.len(),
        }
    }

    /// Whether the later request is the whole earlier one with something added to its end.
    pub(super) fn is_exact_prefix(&self) -> bool {
        self.same_head
            && self.repeated_messages == self.earlier_messages
            && self.later_messages > self.earlier_messages
            && self.repeated_bytes >= self.earlier_bytes - CLOSING.len()
    }
}

/// Compares each request with the one before it.
pub(super) fn overlaps(
    requests: &[ModelRequest],
    profile: &ChatProfile,
) -> Result<Vec<Overlap>, ProviderFailure> {
    let encoded = requests
        .iter()
        .map(|request| encode(request, profile))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(encoded
        .windows(2)
        .filter_map(|pair| match pair {
            [earlier, later] => Some(Overlap::of(earlier, later)),
            _ => None,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::measuring_model;
    use super::{Overlap, overlaps};
    use crate::model::{
        ConversationId, HistoryItem, Latency, MessageId, ModelRequest, ModelSpec, Part, PromptSpec,
        ReasoningSpec, ToolDefinition, UserOrigin,
    };

    fn request(tool: &str, texts: &[&str]) -> ModelRequest {
        let tool = ToolDefinition {
            name: tool.into(),
            description: "A tool.".into(),
            parameters: r#"{"type":"object"}"#.into(),
        };
        let user = |text: &&str| {
            Arc::new(HistoryItem::User {
                id: MessageId::new(*text),
                origin: UserOrigin::Imported,
                parts: vec![Part::Text((*text).into())],
            })
        };
        ModelRequest {
            prompt: Arc::new(PromptSpec {
                instructions: "Be brief.".into(),
                tools: vec![tool],
            }),
            model: Arc::new(ModelSpec {
                model_id: "m".into(),
                display_name: None,
                reasoning: ReasoningSpec::default(),
                latency: Latency::Standard,
                max_output_tokens: None,
                context_window: None,
                vision: false,
                entry: crate::model::EntryLimits::default(),
            }),
            history: texts.iter().map(user).collect(),
            conversation: ConversationId::new("c"),
        }
    }

    #[track_caller]
    fn overlap(earlier: &ModelRequest, later: &ModelRequest) -> Overlap {
        let model = measuring_model().unwrap();
        let overlaps = overlaps(&[earlier.clone(), later.clone()], model.profile()).unwrap();
        assert_eq!(overlaps.len(), 1);
        overlaps[0]
    }

    #[test]
    fn only_a_whole_request_with_something_added_is_a_prefix() {
        let earlier = request("Look", &["one", "two"]);
        let extended = overlap(&earlier, &request("Look", &["one", "two", "three"]));
        assert!(extended.is_exact_prefix());
        // The system prompt is a message too; what closes the body is all that does not repeat.
        assert_eq!((extended.earlier_messages, extended.repeated_messages), (3, 3));
        assert_eq!(extended.repeated_bytes, extended.earlier_bytes - "]}".len());
        for changed in [
            request("Look", &["one", "two"]),
            request("Look", &["one"]),
            request("Look", &["one", "2", "three"]),
            request("Look", &["two", "one", "three"]),
            request("Seek", &["one", "two", "three"]),
        ] {
            let overlap = overlap(&earlier, &changed);
            assert!(!overlap.is_exact_prefix(), "{overlap:?}");
        }
    }
}
