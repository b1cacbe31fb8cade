//! What the client's turn shows of this run and has not been folded into a checkpoint yet.
//!
//! Fed with real events only (measured thinking, typed tool results); each step is handed out once. Must never
//! know: the history that the model sees.

use std::time::Duration;

use super::interaction::thinking_millis;
use super::proto::agent::{
    AssistantMessage, ConversationStep, ThinkingMessage, TodoItem, ToolCall, conversation_step::Message,
};
use super::tools::{DerivedFact, ProgressUpdate};

/// Steps that wait for the next checkpoint.
#[derive(Debug, Default)]
pub struct Presentation {
    /// Thinking and text of the current model call.
    said: Vec<ConversationStep>,
    text: String,
    thinking: String,
    /// Tool calls that have their results, in completion order.
    tools: Vec<ConversationStep>,
    todos: Option<Vec<TodoItem>>,
    read_paths: Vec<String>,
    progress: Vec<ProgressNote>,
    /// Steps that the turn has, handed out or not.
    steps: usize,
}

/// What a settled round adds to the turn and to the derived state.
#[derive(Debug)]
pub struct SettledSteps {
    /// The steps.
    pub steps: Vec<ConversationStep>,
    /// The to-do list, if it changed.
    pub todos: Option<Vec<TodoItem>>,
    /// Files that were read.
    pub read_paths: Vec<String>,
    /// Where the subagent said it stands.
    pub progress: Vec<ProgressNote>,
}

/// A subagent said where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgressNote {
    /// What it said.
    pub update: ProgressUpdate,
    /// One-based place of the saying step in its turn.
    pub message_index: u32,
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
        self.tools.push(step(Message::ToolCall(card)));
    }

    /// State beside the history that follows from a call.
    pub fn note(&mut self, fact: DerivedFact) {
        match fact {
            DerivedFact::ReadPath(path) => self.read_paths.push(path),
            DerivedFact::Todos(todos) => self.todos = Some(todos),
            // The session has it noted; the turn shows the call alone.
            DerivedFact::Delegated { .. } => {}
            DerivedFact::Progress {
                update,
                message_index,
            } => self.progress.push(ProgressNote {
                update,
                message_index,
            }),
        }
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
            todos: self.todos.take(),
            read_paths: std::mem::take(&mut self.read_paths),
            progress: std::mem::take(&mut self.progress),
        }
    }
}

fn step(message: Message) -> ConversationStep {
    ConversationStep {
        message: Some(message),
    }
}
