//! The bodies that were sent last: the next request of a conversation repeats one of them and encodes only what is new.
//!
//! Only copies of what the encoder makes: one can be missing, never wrong. Must never know: JSON, or who sends the bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::encoder::{ChatRequest, encode, extend};
use super::profile::ChatProfile;
use crate::model::{ConversationId, ModelRequest, ProviderFailure};

/// Most conversations whose latest body is kept.
const CONVERSATIONS: usize = 16;
/// Most bytes in all kept bodies; the buffers behind them may be up to twice as large.
const BYTES: usize = 64 * 1024 * 1024;

/// The latest body of each conversation of one model, the one used last at the back.
#[derive(Debug, Default)]
pub(super) struct Bodies(Mutex<VecDeque<Sent>>);

#[derive(Debug)]
struct Sent {
    request: ModelRequest,
    encoded: ChatRequest,
}

impl Bodies {
    /// Gives what [`encode`] gives, and keeps it.
    pub(super) fn encode(
        &self,
        request: &ModelRequest,
        profile: &ChatProfile,
    ) -> Result<ChatRequest, ProviderFailure> {
        // Taken out, not looked at: a buffer that nobody else holds grows without a copy.
        let encoded = match self.take(&request.conversation) {
            Some(Sent {
                request: before,
                encoded,
            }) if extends(request, &before) => extend(encoded, before.history.len(), request, profile)?,
            _ => encode(request, profile)?,
        };
        self.keep(Sent {
            request: request.clone(),
            encoded: encoded.clone(),
        });
        Ok(encoded)
    }

    fn take(&self, conversation: &ConversationId) -> Option<Sent> {
        let mut sent = self.lock();
        let index = sent
            .iter()
            .position(|sent| sent.request.conversation == *conversation)?;
        sent.remove(index)
    }

    fn keep(&self, newest: Sent) {
        let mut sent = self.lock();
        // Two runs of one conversation may overlap while the newer one takes over.
        sent.retain(|sent| sent.request.conversation != newest.request.conversation);
        sent.push_back(newest);
        while sent.len() > CONVERSATIONS || held_bytes(&sent) > BYTES {
            sent.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sent>> {
        // A panic elsewhere cannot leave the list half made: each entry in it is finished.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn held_bytes(sent: &VecDeque<Sent>) -> usize {
    sent.iter().map(|sent| sent.encoded.body.len()).sum()
}

/// Whether a request is an earlier one with more history. Items that are the same in memory are not compared further.
fn extends(request: &ModelRequest, before: &ModelRequest) -> bool {
    request.prompt == before.prompt
        && request.model == before.model
        && request.history.starts_with(&before.history)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use super::*;
    use crate::config::{Api, ModelConfig};
    use crate::model::{
        HistoryItem, Latency, MessageId, ModelSpec, Part, PromptSpec, ReasoningSpec, UserOrigin,
    };
    use crate::provider::openai_chat::OpenAiChat;

    fn provider() -> OpenAiChat {
        OpenAiChat::new(&ModelConfig {
            id: "m".to_owned(),
            name: None,
            api: Api::OpenAiChat,
            base_url: Some("http://127.0.0.1:1/v1".parse().unwrap()),
            api_key: None,
            upstream_model: "m".to_owned(),
            context_window: None,
            max_output_tokens: None,
            vision: false,
            limits: crate::config::EntryLimits::default(),
            options: toml::Table::new(),
        })
        .unwrap()
    }

    fn request(conversation: &str, instructions: &str, texts: &[&str]) -> ModelRequest {
        ModelRequest {
            prompt: Arc::new(PromptSpec {
                instructions: instructions.into(),
                tools: Vec::new(),
            }),
            model: Arc::new(ModelSpec {
                model_id: "m".into(),
                display_name: None,
                reasoning: ReasoningSpec::default(),
                latency: Latency::default(),
                max_output_tokens: None,
                context_window: None,
                vision: false,
                entry: crate::model::EntryLimits::default(),
            }),
            // Made anew each time, as each run makes them.
            history: texts
                .iter()
                .map(|text| {
                    Arc::new(HistoryItem::User {
                        id: MessageId::new(*text),
                        origin: UserOrigin::Imported,
                        parts: vec![Part::Text((*text).into())],
                    })
                })
                .collect(),
            conversation: ConversationId::new(conversation),
        }
    }

    #[test]
    fn a_kept_body_gives_the_bytes_of_a_fresh_one_whatever_follows_it() {
        let provider = provider();
        let mut earlier = Vec::new();
        for (conversation, instructions, texts) in [
            ("a", "first", &[] as &[&str]),
            ("a", "first", &["one"]),
            ("b", "first", &["of b"]),
            ("a", "first", &["one", "two\n\"quoted\"", "three"]),
            // The same again, then less, then another branch, then other instructions.
            ("a", "first", &["one", "two\n\"quoted\"", "three"]),
            ("a", "first", &["one"]),
            ("a", "first", &["one", "zwei"]),
            ("a", "second", &["one", "zwei", "drei"]),
            ("a", "", &[]),
            ("a", "", &["one"]),
        ] {
            let request = request(conversation, instructions, texts);
            let fresh = encode(&request, provider.profile()).unwrap();
            let kept = provider.bodies.encode(&request, provider.profile()).unwrap();
            assert_eq!(kept, fresh);
            // A body in flight stays what it is, while the next one grows out of it.
            earlier.push((kept, fresh));
            for (kept, fresh) in &earlier {
                assert_eq!(kept, fresh);
            }
        }
    }

    #[test]
    fn a_buffer_that_nobody_holds_is_not_copied() {
        let provider = provider();
        let long = "x".repeat(10_000);
        let first = provider
            .bodies
            .encode(&request("a", "", &[&long, &long, "1"]), provider.profile());
        let address = first.unwrap().body.as_ptr();
        let second = provider
            .bodies
            .encode(&request("a", "", &[&long, &long, "1", "2"]), provider.profile());
        assert_eq!(second.unwrap().body.as_ptr(), address);
    }

    #[test]
    fn the_conversation_unused_for_longest_leaves_first_and_large_bodies_leave_early() {
        let provider = provider();
        let held = || {
            let sent = provider.bodies.lock();
            sent.iter()
                .map(|sent| sent.request.conversation.to_string())
                .collect::<Vec<_>>()
        };
        let send = |conversation: &str, text: &str| {
            provider
                .bodies
                .encode(&request(conversation, "", &[text]), provider.profile())
                .unwrap();
        };
        for n in 0..CONVERSATIONS {
            send(&n.to_string(), "short");
        }
        send("0", "short");
        send("new", "short");
        let kept = held();
        assert_eq!(kept.len(), CONVERSATIONS);
        assert!(!kept.contains(&"1".to_owned()) && kept.contains(&"0".to_owned()));
        send("large", &"x".repeat(BYTES / 2));
        send("larger", &"x".repeat(BYTES / 2));
        assert_eq!(held(), ["larger"]);
        send("too large", &"x".repeat(BYTES));
        assert_eq!(held(), Vec::<String>::new());
    }
}
