//! The open tool round of a run: which calls still wait for a result, and the history that a settled round becomes.
//!
//! Works by call id alone. Must never know: tool names, wire ids, or how a result was made.

use std::collections::HashSet;
use std::sync::Arc;

use crate::model::{CallId, HistoryItem, RunFailure, ToolResult, ToolRound};

/// A round with calls that still wait for their results.
#[derive(Debug)]
pub(super) struct OpenToolRound {
    round: Arc<ToolRound>,
    waiting: HashSet<CallId>,
    results: Vec<ToolResult>,
}

impl OpenToolRound {
    pub(super) fn new(round: Arc<ToolRound>) -> Self {
        let waiting = round.calls.iter().map(|call| call.id.clone()).collect();
        Self {
            round,
            waiting,
            results: Vec::new(),
        }
    }

    pub(super) fn round(&self) -> &Arc<ToolRound> {
        &self.round
    }

    pub(super) fn waits_for(&self, call: &CallId) -> bool {
        self.waiting.contains(call)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a result in completion order. A second result for a call, or one for no call of this round, is refused.
    pub(super) fn accept(&mut self, result: &ToolResult) -> Result<(), RunFailure> {
        if !self.waiting.remove(&result.call) {
            let known = self.round.calls.iter().any(|call| call.id == result.call);
            let fault = if known {
                "a second result"
            } else {
                "a result for a call that it does not hold"
            };
            return Err(RunFailure::Protocol(format!(
                "tool round {} got {fault} (call {})",
                self.round.id, result.call
            )));
        }
        self.results.push(result.clone());
        Ok(())
    }

    /// What the model's view grows by: the assistant message with all its calls, then the results as they came.
    pub(super) fn into_history(self) -> Vec<Arc<HistoryItem>> {
        let assistant = HistoryItem::Assistant {
            said: self.round.said.clone(),
            round: Some(self.round.id.clone()),
            calls: self.round.calls.clone(),
        };
        std::iter::once(assistant)
            .chain(self.results.into_iter().map(HistoryItem::ToolResult))
            .map(Arc::new)
            .collect()
    }
}
