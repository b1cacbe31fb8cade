//! What the completed calls of a conversation leave in its state beside the history: the to-do list, the plan and the
//! files that were read. A fold over typed completions, live or over the steps of turns.
//!
//! Must never know: how the state is sent.

use crate::cursor::proto::agent::{ConversationStep, TodoItem, ToolCall, conversation_step};
use crate::cursor::request::Mode;
use crate::cursor::tools::{DerivedFact, ProgressUpdate, derived_facts, fact_of_arguments};
use crate::model;

/// What a number of completed calls, in their order, change in the state.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DerivedState {
    /// The to-do list, if a call set it.
    pub todos: Option<Vec<TodoItem>>,
    /// The text of the plan, if a call set it.
    pub plan: Option<String>,
    /// The files that were read, in order; one can occur again.
    pub read_paths: Vec<String>,
    /// The mode that the conversation goes on in, if the person agreed to another one.
    pub mode: Option<Mode>,
    /// Where the subagent said it stands, in order.
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

impl DerivedState {
    /// Takes the next completed call.
    pub fn complete(&mut self, card: &ToolCall) {
        for fact in card.tool.iter().flat_map(derived_facts) {
            self.note(fact);
        }
    }

    /// Takes the next call that went well and whose card is gone. `todos` is the list before all of these calls.
    pub fn complete_without_card(&mut self, call: &model::ToolCall, todos: &[TodoItem]) {
        let fact = fact_of_arguments(call, self.todos.as_deref().unwrap_or(todos));
        if let Some(fact) = fact {
            self.note(fact);
        }
    }

    /// What the calls in these steps leave.
    pub fn of_steps<'a>(steps: impl IntoIterator<Item = &'a ConversationStep>) -> Self {
        let mut derived = Self::default();
        for step in steps {
            if let Some(conversation_step::Message::ToolCall(card)) = &step.message {
                derived.complete(card);
            }
        }
        derived
    }

    fn note(&mut self, fact: DerivedFact) {
        match fact {
            DerivedFact::ReadPath(path) => self.read_paths.push(path),
            DerivedFact::Todos(todos) => self.todos = Some(todos),
            DerivedFact::Plan(plan) => self.plan = Some(plan),
            DerivedFact::Mode(mode) => self.mode = Some(mode),
            DerivedFact::Progress {
                update,
                message_index,
            } => self.progress.push(ProgressNote {
                update,
                message_index,
            }),
        }
    }
}
