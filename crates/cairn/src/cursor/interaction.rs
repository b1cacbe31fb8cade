//! What the client shows of a model's stream: text, thinking, signs of life and the end of the turn.
//!
//! Must never know: tools (their cards are made by the tool runtime), or checkpoints.

use std::time::Duration;

use super::proto::agent::{
    AgentServerMessage, InteractionUpdate, SummaryCompletedUpdate, SummaryStartedUpdate, SummaryUpdate,
    TextDeltaUpdate, ThinkingCompletedUpdate, ThinkingDeltaUpdate, TurnEndedUpdate, agent_server_message,
    interaction_update::Message,
};
use crate::model::Usage;

/// A piece of answer text.
pub fn text_delta(text: &str) -> AgentServerMessage {
    update(Message::TextDelta(TextDeltaUpdate {
        text: text.to_owned(),
        is_server_notice: false,
    }))
}

/// A remark of the server's own that is no part of the answer.
pub fn notice(text: &str) -> AgentServerMessage {
    update(Message::TextDelta(TextDeltaUpdate {
        text: text.to_owned(),
        is_server_notice: true,
    }))
}

/// A piece of thinking.
pub fn thinking_delta(text: &str) -> AgentServerMessage {
    update(Message::ThinkingDelta(ThinkingDeltaUpdate {
        text: text.to_owned(),
    }))
}

/// The end of the thinking, with the measured duration. The client shows at least a millisecond. [capture]
pub fn thinking_completed(duration: Duration) -> AgentServerMessage {
    update(Message::ThinkingCompleted(ThinkingCompletedUpdate {
        thinking_duration_ms: thinking_millis(duration),
    }))
}

/// A measured duration of thinking as the wire has it.
pub fn thinking_millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX).max(1)
}

/// The conversation is being summarised.
pub fn summary_started() -> AgentServerMessage {
    update(Message::SummaryStarted(SummaryStartedUpdate {}))
}

/// The whole summary.
pub fn summary(text: &str) -> AgentServerMessage {
    update(Message::Summary(SummaryUpdate {
        summary: text.to_owned(),
    }))
}

/// Summarising is over. Without a summary before it, it came to nothing.
pub fn summary_completed() -> AgentServerMessage {
    update(Message::SummaryCompleted(SummaryCompletedUpdate {
        hook_message: None,
    }))
}

/// The end of the turn, with what the provider reported over the whole run and nothing else.
pub fn turn_ended(usage: Option<Usage>) -> AgentServerMessage {
    let count = |tokens: Option<u64>| tokens.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX));
    let usage = usage.unwrap_or_default();
    update(Message::TurnEnded(TurnEndedUpdate {
        input_tokens: count(usage.input()),
        output_tokens: count(usage.output),
        cache_read_tokens: count(usage.cache_read),
        cache_write_tokens: count(usage.cache_write),
        reasoning_tokens: count(usage.reasoning),
    }))
}

fn update(message: Message) -> AgentServerMessage {
    AgentServerMessage {
        message: Some(agent_server_message::Message::InteractionUpdate(
            InteractionUpdate {
                message: Some(message),
            },
        )),
    }
}
