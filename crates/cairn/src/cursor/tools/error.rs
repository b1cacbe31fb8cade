//! Breaches of a tool call's order, by the client or by the session. Must never know: tools.

use crate::model::CallId;

/// The client or the session broke the order of a tool call. Each ends the run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ToolProtocolError {
    /// A message about an exec without its id.
    #[error("the client sent an exec message without an exec id")]
    MissingExecId,
    /// An id that was never given out.
    #[error("exec {exec_id} was never asked for")]
    UnknownExec {
        /// The id.
        exec_id: u32,
    },
    /// A second result.
    #[error("exec {exec_id} already has its result{}", named(.call))]
    FinishedExec {
        /// The id.
        exec_id: u32,
        /// Its call, while its round lasts.
        call: Option<CallId>,
    },
    /// An answer of a kind that the call does not wait for.
    #[error("exec {exec_id} of call {call} waits for {expected} and got {got}")]
    WrongAnswer {
        /// The id.
        exec_id: u32,
        /// Its call.
        call: CallId,
        /// The field that would be right.
        expected: &'static str,
        /// The field that came.
        got: &'static str,
    },
    /// An answer without a value, or of a kind that is not known here.
    #[error("exec {exec_id} of call {call} waits for {expected} and got a message without it")]
    EmptyAnswer {
        /// The id.
        exec_id: u32,
        /// Its call.
        call: CallId,
        /// The field that would be right.
        expected: &'static str,
    },
    /// An answer to a question that was never asked.
    #[error("interaction query {query_id} was never asked")]
    UnknownQuery {
        /// The id.
        query_id: u32,
    },
    /// A second answer.
    #[error("interaction query {query_id} already has its answer{}", named(.call))]
    AnsweredQuery {
        /// The id.
        query_id: u32,
        /// Its call, while its round lasts.
        call: Option<CallId>,
    },
    /// An answer of a kind that the question does not have, or without a value.
    #[error("interaction query {query_id} of call {call} waits for {expected} and got {got}")]
    WrongResponse {
        /// The id.
        query_id: u32,
        /// Its call.
        call: CallId,
        /// The field that would be right.
        expected: &'static str,
        /// The field that came.
        got: &'static str,
    },
    /// A control message of a kind that is not known here.
    #[error("the client sent an exec control message without content")]
    EmptyControl,
    /// A call without an id.
    #[error("a tool call has no id")]
    MissingCallId,
    /// The call cannot be begun, streamed or executed where it stands.
    #[error("tool call {call} cannot be {what} here")]
    MisplacedCall {
        /// The call.
        call: CallId,
        /// What was asked of it.
        what: &'static str,
    },
}

impl ToolProtocolError {
    /// The exec that the client or the session spoke of, if it was one.
    pub fn exec_id(&self) -> Option<u32> {
        match self {
            Self::MissingExecId => Some(0),
            Self::UnknownExec { exec_id }
            | Self::FinishedExec { exec_id, .. }
            | Self::WrongAnswer { exec_id, .. }
            | Self::EmptyAnswer { exec_id, .. } => Some(*exec_id),
            Self::UnknownQuery { .. }
            | Self::AnsweredQuery { .. }
            | Self::WrongResponse { .. }
            | Self::EmptyControl
            | Self::MissingCallId
            | Self::MisplacedCall { .. } => None,
        }
    }

    /// The question to the person, if it was one.
    pub fn query_id(&self) -> Option<u32> {
        match self {
            Self::UnknownQuery { query_id }
            | Self::AnsweredQuery { query_id, .. }
            | Self::WrongResponse { query_id, .. } => Some(*query_id),
            Self::MissingExecId
            | Self::UnknownExec { .. }
            | Self::FinishedExec { .. }
            | Self::WrongAnswer { .. }
            | Self::EmptyAnswer { .. }
            | Self::EmptyControl
            | Self::MissingCallId
            | Self::MisplacedCall { .. } => None,
        }
    }

    /// The call, where it is known.
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::FinishedExec { call, .. } | Self::AnsweredQuery { call, .. } => call.as_ref(),
            Self::WrongAnswer { call, .. }
            | Self::EmptyAnswer { call, .. }
            | Self::WrongResponse { call, .. }
            | Self::MisplacedCall { call, .. } => Some(call),
            Self::MissingExecId
            | Self::UnknownExec { .. }
            | Self::UnknownQuery { .. }
            | Self::EmptyControl
            | Self::MissingCallId => None,
        }
    }
}

fn named(call: &Option<CallId>) -> String {
    call.as_ref()
        .map(|call| format!(" (call {call})"))
        .unwrap_or_default()
}
