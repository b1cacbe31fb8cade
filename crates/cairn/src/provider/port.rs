//! The port through which a run calls a model.
//!
//! Must never know: which adapter stands behind it.

use std::pin::Pin;

use futures_util::Stream;
use tokio_util::sync::CancellationToken;

use super::ModelEvent;
use crate::model::{ModelRequest, ProviderFailure, RunId};

/// The events of one model call. Ends after `Done` or after the first failure; ends without either once the invocation
/// is cancelled.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ProviderFailure>> + Send>>;

/// A configured model's endpoint.
///
/// Implementors promise: nothing is sent before [`ModelEvent::Sending`] has said what; the bytes sent depend on the request alone; a retry before the first event sends
/// the same bytes, unless the endpoint refused a replay state of its own: then one request without it, and the
/// answer's replay state makes that stand for good; or a parameter that no model reads: then without it as long as the process lives; no event is emitted twice; a stream without the API's terminal
/// event ends in a failure, never in `Done`; dropping the stream or cancelling the invocation ends the HTTP request in every phase.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Calls the model.
    fn call(&self, request: &ModelRequest, invocation: ModelInvocation) -> ModelStream;
}

/// One actual call of a provider: everything that must not enter the model's input.
#[derive(Clone, Debug)]
pub struct ModelInvocation {
    /// The run that calls.
    pub run: RunId,
    /// Zero-based number of the call in its run.
    pub provider_call_index: u32,
    /// Ends the call in any phase, waiting for response headers included.
    pub cancel: CancellationToken,
}
