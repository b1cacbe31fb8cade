//! The one projection from stored messages to the history that the model sees.
//!
//! Deterministic and append-only: projecting a longer list of messages yields the shorter list's items
//! first, unchanged, as long as both end at a settled round. Must never know: any wire or endpoint JSON.

use std::sync::Arc;

use super::{
    Assistant, CallId, Message, MessageBody, MessageId, Part, ToolCall, ToolResult, ToolRoundId, UserOrigin,
};

/// One item of the history that the model sees, without anything that only the store needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HistoryItem {
    /// A message in the user role.
    User {
        /// The stored message's id: the encoder never sends it, caches key on it.
        id: MessageId,
        /// Who made it.
        origin: UserOrigin,
        /// Text and images in their order.
        parts: Vec<Part>,
    },
    /// A whole assistant message: what it said and all calls of its batch in the model's order.
    Assistant {
        /// Text, reasoning and replay state.
        said: Assistant,
        /// The round, if the message has calls.
        round: Option<ToolRoundId>,
        /// The calls in the model's order; empty for a plain answer.
        calls: Vec<ToolCall>,
    },
    /// A tool result; the results of a batch follow it in the order in which they were completed.
    ToolResult(ToolResult),
}

/// Stored messages that do not form a valid history. Always a defect or a damaged store, never user input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HistoryError {
    /// A call is not followed by its own result.
    #[error("tool call {0} is not followed by its result")]
    UnpairedCall(CallId),
    /// A result has no call right before it.
    #[error("tool result {0} does not follow its call")]
    UnpairedResult(CallId),
    /// A round's calls are incomplete, out of range or repeated.
    #[error("tool round {0} is not whole")]
    BrokenRound(ToolRoundId),
}

/// Folds stored messages into the history that the model sees.
///
/// Stored as neighbouring call/result pairs in completion order, a round becomes one assistant item with
/// the calls in the model's order, followed by the results in completion order.
pub fn project<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
) -> Result<Vec<Arc<HistoryItem>>, HistoryError> {
    let mut items = Vec::new();
    let mut open: Option<OpenRound> = None;
    let mut awaiting: Option<(ToolRoundId, CallId)> = None;
    for message in messages {
        if let Some((round, call)) = awaiting.take() {
            match &message.body {
                MessageBody::ToolResult { round: r, result } if *r == round && result.call == call => {
                    if let Some(state) = open.as_mut() {
                        state.results.push(result.clone());
                        if state.results.len() == state.calls.len()
                            && let Some(done) = open.take()
                        {
                            done.finish(&mut items)?;
                        }
                    }
                    continue;
                }
                _ => return Err(HistoryError::UnpairedCall(call)),
            }
        }
        match &message.body {
            MessageBody::ToolCall {
                round,
                index,
                call,
                batch_size,
                said,
            } => {
                let state = open.get_or_insert_with(|| OpenRound {
                    id: round.clone(),
                    said: said.clone().unwrap_or_default(),
                    calls: vec![None; *batch_size],
                    results: Vec::new(),
                });
                let slot = state.calls.get_mut(*index).filter(|slot| slot.is_none());
                match slot {
                    Some(slot) if state.id == *round => *slot = Some(call.clone()),
                    _ => return Err(HistoryError::BrokenRound(round.clone())),
                }
                awaiting = Some((round.clone(), call.id.clone()));
            }
            MessageBody::ToolResult { result, .. } => {
                return Err(HistoryError::UnpairedResult(result.call.clone()));
            }
            MessageBody::User { origin, parts } => {
                close(&open)?;
                items.push(Arc::new(HistoryItem::User {
                    id: message.id.clone(),
                    origin: origin.clone(),
                    parts: parts.clone(),
                }));
            }
            MessageBody::Assistant(said) => {
                close(&open)?;
                items.push(Arc::new(HistoryItem::Assistant {
                    said: said.clone(),
                    round: None,
                    calls: Vec::new(),
                }));
            }
        }
    }
    if let Some((_, call)) = awaiting {
        return Err(HistoryError::UnpairedCall(call));
    }
    close(&open)?;
    Ok(items)
}

struct OpenRound {
    id: ToolRoundId,
    said: Assistant,
    calls: Vec<Option<ToolCall>>,
    results: Vec<ToolResult>,
}

impl OpenRound {
    fn finish(self, items: &mut Vec<Arc<HistoryItem>>) -> Result<(), HistoryError> {
        let calls: Option<Vec<ToolCall>> = self.calls.into_iter().collect();
        let Some(calls) = calls else {
            return Err(HistoryError::BrokenRound(self.id));
        };
        items.push(Arc::new(HistoryItem::Assistant {
            said: self.said,
            round: Some(self.id),
            calls,
        }));
        items.extend(
            self.results
                .into_iter()
                .map(|result| Arc::new(HistoryItem::ToolResult(result))),
        );
        Ok(())
    }
}

fn close(open: &Option<OpenRound>) -> Result<(), HistoryError> {
    match open {
        Some(round) => Err(HistoryError::BrokenRound(round.id.clone())),
        None => Ok(()),
    }
}
