//! Why a run failed, sorted by whose fault it is and what mends it.
//!
//! Must never know: a client's error codes. Messages here may be shown to the person: they hold no key, no prompt
//! and no tool result.

use std::time::Duration;

/// Whose fault ended a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailureKind {
    /// The client broke its protocol or sent something that cannot be served.
    Protocol,
    /// The model's endpoint failed or answered wrongly.
    Provider,
    /// The database failed.
    Store,
    /// The client went away or refused a state that it must hold.
    Client,
}

impl FailureKind {
    /// The kind's name as run records and logs hold it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Provider => "provider",
            Self::Store => "store",
            Self::Client => "client",
        }
    }
}

/// Why a run failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RunFailure {
    /// The client broke its protocol or sent something that cannot be served.
    #[error("{0}")]
    Protocol(String),
    /// The model's endpoint failed or answered wrongly.
    #[error(transparent)]
    Provider(#[from] ProviderFailure),
    /// The database failed.
    #[error("{0}")]
    Store(String),
    /// The client went away or refused a state that it must hold.
    #[error("{0}")]
    Client(String),
}

impl RunFailure {
    /// Whose fault it is.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Protocol(_) => FailureKind::Protocol,
            Self::Provider(_) => FailureKind::Provider,
            Self::Store(_) => FailureKind::Store,
            Self::Client(_) => FailureKind::Client,
        }
    }
}

/// A failed model call: the fault, and what the endpoint itself said.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProviderFailure {
    /// What went wrong, sorted by remedy.
    pub fault: ProviderFault,
    /// HTTP status, if a response came.
    pub status: Option<u16>,
    /// The endpoint's own error code or type, if it gave one.
    pub code: Option<String>,
    /// For the person: the endpoint's own words where it had any, cleaned of keys, and the mend.
    pub message: String,
    /// How long the endpoint asked to wait.
    pub retry_after: Option<Duration>,
}

/// What went wrong with a model call, sorted by remedy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProviderFault {
    /// The key was refused. Mend: the key.
    Authentication,
    /// The key may not use this. Mend: the account.
    Permission,
    /// The quota or credit is used up. Mend: the account.
    Quota,
    /// The model or address does not exist. Mend: the configuration.
    NotFound,
    /// The endpoint refused the request itself. Mend: the configuration, or cairn.
    InvalidRequest,
    /// The conversation is too long for the model. Mend: compaction, or a larger model.
    ContextLength,
    /// The person's message is too long for the model by itself. Mend: a shorter one, or a larger model.
    MessageTooLong,
    /// Too many requests. Mend: wait.
    RateLimited,
    /// The endpoint is overloaded or broken for now. Mend: try again.
    Unavailable,
    /// The endpoint could not be reached, or the connection broke before a whole answer. Mend: try again.
    Connection,
    /// Nothing came for too long. Mend: try again, or a longer limit.
    Timeout,
    /// The stream ended without the API's own terminal event; nothing of it was kept. Mend: try again.
    Cut,
    /// The answer broke the API's own rules; nothing of it was kept. Mend: another endpoint, or its dialect options.
    Malformed,
    /// The answer hit the output limit; nothing of it was kept. Mend: a larger limit.
    OutputLimit,
    /// The endpoint's content filter stopped the answer. Mend: another request.
    Filtered,
    /// The request asks for something that this configured model has no way to do. Mend: the configuration.
    Unsupported,
}

impl ProviderFault {
    /// Whether the same request may succeed when sent again later without any mend.
    pub fn is_transient(self) -> bool {
        match self {
            Self::RateLimited | Self::Unavailable | Self::Connection | Self::Timeout | Self::Cut => true,
            Self::Authentication
            | Self::Permission
            | Self::Quota
            | Self::NotFound
            | Self::InvalidRequest
            | Self::ContextLength
            | Self::MessageTooLong
            | Self::Malformed
            | Self::OutputLimit
            | Self::Filtered
            | Self::Unsupported => false,
        }
    }

    /// The fault's name as run records and logs hold it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::Quota => "quota",
            Self::NotFound => "not_found",
            Self::InvalidRequest => "invalid_request",
            Self::ContextLength => "context_length",
            Self::MessageTooLong => "message_too_long",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::Malformed => "malformed",
            Self::OutputLimit => "output_limit",
            Self::Filtered => "filtered",
            Self::Unsupported => "unsupported",
        }
    }
}

impl ProviderFailure {
    /// A failure that no endpoint words: only a fault and what to tell the person.
    pub fn new(fault: ProviderFault, message: impl Into<String>) -> Self {
        Self {
            fault,
            status: None,
            code: None,
            message: message.into(),
            retry_after: None,
        }
    }
}
