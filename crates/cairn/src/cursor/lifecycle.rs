//! How a run's outcome becomes the one end frame of its stream.
//!
//! Must never know: how the run came to it. An error is never text of the answer.

use super::connect::{ConnectCode, ConnectError};
use super::proto::aiserver::{CustomErrorDetails, ErrorDetails, error_details};
use crate::model::{ProviderFailure, ProviderFault, RunFailure, RunOutcome};

/// The end frame for an outcome.
pub fn end_of(outcome: &RunOutcome) -> Result<(), ConnectError> {
    match outcome {
        RunOutcome::Completed => Ok(()),
        RunOutcome::Cancelled => Err(canceled()),
        RunOutcome::Failed(failure) => Err(failed(failure)),
    }
}

/// The end frame of a run that the person or a newer run stopped.
pub fn canceled() -> ConnectError {
    error(
        ConnectCode::Canceled,
        error_details::Error::UserAbortedRequest,
        "Stopped",
        "The run was stopped.",
        false,
    )
}

/// The end frame of a run that could not go on.
///
/// The whole text stands in the message as well as in the details. The SDK keeps `[code] message` of an error that may
/// be retried, and title and detail, joined by a space, of one that may not. [sdk]
pub fn failed(failure: &RunFailure) -> ConnectError {
    let text = failure.to_string();
    match failure {
        RunFailure::Provider(provider) => provider_failed(provider, &text),
        RunFailure::Protocol(_) => error(
            ConnectCode::InvalidArgument,
            error_details::Error::BadRequest,
            "The request cannot be served.",
            &text,
            false,
        ),
        RunFailure::Store(_) => error(
            ConnectCode::Internal,
            error_details::Error::Internal,
            "cairn's database failed.",
            &text,
            true,
        ),
        RunFailure::Client(_) => error(
            ConnectCode::Aborted,
            error_details::Error::NetworkError,
            "The client could not go on.",
            &text,
            true,
        ),
    }
}

/// `unavailable` for every fault: it is the code on which a client offers to resume. [capture]
fn provider_failed(failure: &ProviderFailure, text: &str) -> ConnectError {
    let title = match failure.fault {
        ProviderFault::Authentication => "The model endpoint refused the API key.",
        ProviderFault::Permission => "The model endpoint does not allow this.",
        ProviderFault::Quota => "The model endpoint's quota is used up.",
        ProviderFault::NotFound => "The model endpoint does not know this model or address.",
        ProviderFault::InvalidRequest => "The model endpoint refused the request.",
        ProviderFault::ContextLength => "The conversation is too long for the model.",
        ProviderFault::MessageTooLong => "The message is too long for the model.",
        ProviderFault::RateLimited => "The model endpoint limits the rate.",
        ProviderFault::Unavailable => "The model endpoint is not available.",
        ProviderFault::Connection => "The model endpoint cannot be reached.",
        ProviderFault::Timeout => "The model endpoint did not answer in time.",
        ProviderFault::Cut => "The model's answer was cut off.",
        ProviderFault::Malformed => "The model endpoint's answer breaks its own rules.",
        ProviderFault::OutputLimit => "The answer hit the output limit.",
        ProviderFault::Filtered => "The model endpoint filtered the answer.",
        ProviderFault::Unsupported => "This model cannot do what is asked.",
    };
    error(
        ConnectCode::Unavailable,
        error_details::Error::ProviderError,
        title,
        text,
        failure.fault.is_transient(),
    )
}

fn error(
    code: ConnectCode,
    kind: error_details::Error,
    title: &str,
    detail: &str,
    is_retryable: bool,
) -> ConnectError {
    ConnectError::new(code, detail).with_details(ErrorDetails {
        error: kind.into(),
        details: Some(CustomErrorDetails {
            title: title.to_owned(),
            detail: detail.to_owned(),
            is_retryable: Some(is_retryable),
            show_request_id: Some(true),
            ..Default::default()
        }),
        is_expected: None,
    })
}
