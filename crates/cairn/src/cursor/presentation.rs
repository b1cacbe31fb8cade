//! What the client's turn shows of this run and has not been folded into a checkpoint yet.
//!
//! Fed with real events only (measured thinking, typed tool results); each step is handed out once. Must never
//! know: the history that the model sees.

use std::time::Duration;

use super::checkpoint::DerivedState;
use super::interaction::thinking_millis;
use super::proto::agent::{
    AssistantMessage, ConversationStep, ThinkingMessage, ToolCall, conversation_step::Message,
};

/// Steps that wait for the next checkpoint.
#[derive(Debug, Default)]
pub struct Presentation {
    /// Thinking and text of the current model call.
    said: Vec<ConversationStep>,
    text: String,
    thinking: String,
    /// Tool calls that have their results, in completion order.
    tools: Vec<ConversationStep>,
    derived: DerivedState,
    /// Steps that the turn has, handed out or not.
    steps: usize,
}

/// What a settled round adds to the turn and to the derived state.
#[derive(Debug)]
pub struct SettledSteps {
    /// The steps.
    pub steps: Vec<ConversationStep>,
    /// What follows from its calls.
    pub derived: DerivedState,
}

impl Presentation {
    /// The presentation of a turn that has this many steps already.
    pub fn after(steps: usize) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }

    /// The place, counted from one, of the next step that the turn gets.
    pub fn next_position(&self) -> u32 {
        u32::try_from(self.steps).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// A piece of answer text.
    pub fn text_delta(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The answer text is whole.
    pub fn text_end(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.steps += 1;
            self.said
                .push(step(Message::AssistantMessage(AssistantMessage { text })));
        }
    }

    /// A piece of thinking.
    pub fn thinking_delta(&mut self, text: &str) {
        self.thinking.push_str(text);
    }

    /// The thinking is whole.
    pub fn thinking_end(&mut self, duration: Duration) {
        let text = std::mem::take(&mut self.thinking);
        let duration_ms = thinking_millis(duration).unsigned_abs();
        self.steps += 1;
        self.said.push(step(Message::ThinkingMessage(ThinkingMessage {
            text,
            duration_ms,
        })));
    }

    /// A tool call has its result.
    pub fn tool_completed(&mut self, card: ToolCall) {
        self.steps += 1;
        self.derived.complete(&card);
        self.tools.push(step(Message::ToolCall(card)));
    }

    /// Hands out thinking and text of the completed model call, once.
    pub fn take_said(&mut self) -> Vec<ConversationStep> {
        std::mem::take(&mut self.said)
    }

    /// Hands out what a settled round adds, once.
    pub fn take_settled(&mut self) -> SettledSteps {
        let mut steps = std::mem::take(&mut self.said);
        steps.append(&mut self.tools);
        SettledSteps {
            steps,
            derived: std::mem::take(&mut self.derived),
        }
    }
}

fn step(message: Message) -> ConversationStep {
    ConversationStep {
        message: Some(message),
    }
}
