//! From what an endpoint answered to a failure sorted by remedy.
//!
//! Codes are believed before statuses, and statuses before wording. Must never know: which API the endpoint speaks; the
//! error shapes of all of them are read here.

use serde_json::Value;

use super::endpoint::Endpoint;
use crate::model::{ProviderFailure, ProviderFault};

/// Most bytes of an endpoint's own words that are shown.
const MAX_WORDS: usize = 600;

/// What an endpoint itself said about an error, not yet cleaned.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct EndpointError {
    /// HTTP status of the response, or a status-like number inside an error object.
    pub(crate) status: Option<u16>,
    /// Its code.
    pub(crate) code: Option<String>,
    /// Its type.
    pub(crate) kind: Option<String>,
    /// Its words; empty if it had none.
    pub(crate) message: String,
}

impl EndpointError {
    /// Reads an error out of a JSON document, if the document is one.
    pub(crate) fn from_document(document: &Value) -> Option<Self> {
        match document {
            // Google's compatible endpoint wraps the document in a list.
            Value::Array(list) => Self::from_document(list.first()?),
            Value::Object(object) => match object.get("error") {
                Some(error) if is_truthy(error) => {
                    let mut found = Self::from_value(error);
                    if found.message.is_empty() {
                        found.message = words(document);
                    }
                    found.code = found.code.or_else(|| scalar(object.get("code")));
                    Some(found)
                }
                _ if object.get("object").and_then(Value::as_str) == Some("error") => {
                    Some(Self::from_value(document))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads the error itself: an object or bare words.
    pub(crate) fn from_value(error: &Value) -> Self {
        let detail = || error.get("details")?.get("error_code");
        let code = scalar(error.get("code")).or_else(|| scalar(detail()));
        let status = code
            .as_deref()
            .and_then(|code| code.parse().ok())
            .filter(|status| (400..600).contains(status));
        Self {
            status,
            code,
            // An error event of the Responses API names only itself there.
            kind: scalar(error.get("type"))
                .filter(|kind| kind != "error")
                .or_else(|| scalar(error.get("status"))),
            message: words(error),
        }
    }

    /// Reads the body of a response whose status says that it failed.
    pub(crate) fn from_response(status: u16, body: &[u8]) -> Self {
        let document: Option<Value> = serde_json::from_slice(body).ok();
        let mut error = match &document {
            Some(document) => Self::from_document(document).unwrap_or_else(|| Self::from_value(document)),
            None => Self {
                message: plain_words(body),
                ..Self::default()
            },
        };
        error.status = Some(status);
        error
    }
}

impl Endpoint {
    /// The failure that an endpoint's own error stands for.
    pub(crate) fn failure_of(&self, error: &EndpointError) -> ProviderFailure {
        let fault = classify(error);
        let code = error.code.as_deref().or(error.kind.as_deref());
        let code = code.map(|code| self.redactor.clean(code, 100));
        let words = self.redactor.clean(&error.message, MAX_WORDS);
        let marks: Vec<String> = error
            .status
            .map(|status| status.to_string())
            .into_iter()
            .chain(
                code.clone()
                    .filter(|code| error.status.is_none_or(|status| status.to_string() != *code)),
            )
            .collect();
        let mut message = format!("model \"{}\": {}", self.model_id, describe(fault));
        if !marks.is_empty() {
            message.push_str(&format!(" ({})", marks.join(", ")));
        }
        if !words.is_empty() {
            message.push_str(": ");
            message.push_str(words.trim_end_matches('.'));
        }
        message.push('.');
        if let Some(mend) = mend(fault) {
            message.push(' ');
            message.push_str(mend);
        }
        ProviderFailure {
            fault,
            status: error.status,
            code,
            message,
            retry_after: None,
        }
    }

    /// The failure that an error event inside a stream stands for; `data` is the event's data.
    pub(crate) fn failure_in_stream(&self, data: &str) -> ProviderFailure {
        let error = match serde_json::from_str::<Value>(data) {
            Ok(document) => EndpointError::from_document(&document)
                .unwrap_or_else(|| EndpointError::from_value(&document)),
            Err(_) => EndpointError {
                message: data.to_owned(),
                ..EndpointError::default()
            },
        };
        self.failure_of(&error)
    }

    /// The failure of an answer that breaks its API's own rules. `text` says which, without a full stop. A model may do
    /// better when asked again, and nothing of this answer stands in the way.
    pub(crate) fn malformed(&self, text: &str) -> ProviderFailure {
        let text = format!("the endpoint's answer breaks its API: {text}");
        let mut failure = self.failure(ProviderFault::Malformed, &text);
        failure
            .message
            .push_str(" Nothing of it was kept. Resume, or send the message again.");
        failure
    }

    /// The failure of an answer that is none of this API at all. `text` says what it is and what to change in the
    /// configuration, without a full stop: asking again is of no use.
    pub(crate) fn wrong_api(&self, text: &str) -> ProviderFailure {
        self.failure(
            ProviderFault::Malformed,
            &format!("the endpoint speaks another API: {text}"),
        )
    }

    /// A failure that cairn itself words. `text` is a sentence without its full stop.
    pub(crate) fn failure(&self, fault: ProviderFault, text: &str) -> ProviderFailure {
        let text = self.redactor.clean(text, MAX_WORDS);
        ProviderFailure::new(fault, format!("model \"{}\": {text}.", self.model_id))
    }
}

fn classify(error: &EndpointError) -> ProviderFault {
    let by_code = [&error.code, &error.kind]
        .into_iter()
        .flatten()
        .find_map(|code| fault_of_code(&code.to_ascii_lowercase()));
    let by_status = error.status.map(fault_of_status);
    match (by_code, by_status) {
        // A status that says "never again" is not overruled by a code that says "later".
        (Some(code), Some(status)) if code.is_transient() && !status.is_transient() => status,
        (Some(code), _) => code,
        (None, status) => fault_of_words(error.status, &error.message.to_ascii_lowercase())
            .or(status)
            .unwrap_or(match error.kind.as_deref() {
                Some("invalid_request_error") => ProviderFault::InvalidRequest,
                // An error within a stream that says nothing of its kind is most often a broken upstream.
                _ => ProviderFault::Unavailable,
            }),
    }
}

fn fault_of_code(code: &str) -> Option<ProviderFault> {
    Some(match code {
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "context_window_exceeded"
        | "model_context_window_exceeded" => ProviderFault::ContextLength,
        "insufficient_quota"
        | "credit_balance_exhausted"
        | "billing_hard_limit_reached"
        | "billing_error"
        | "enforced_spend_limit_reached"
        | "usage_not_included"
        | "exceeded_current_quota_error"
        | "insufficient_balance"
        | "quota_exceeded" => ProviderFault::Quota,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limit_reached_error"
        | "slow_down"
        | "too_many_requests" => ProviderFault::RateLimited,
        "overloaded_error"
        | "server_error"
        | "api_error"
        | "internal_error"
        | "internal_server_error"
        | "server_is_overloaded"
        | "service_unavailable"
        | "timeout_error"
        | "engine_overloaded_error"
        | "insufficient_system_resource" => ProviderFault::Unavailable,
        "invalid_api_key" | "authentication_error" | "invalid_authentication_error" => {
            ProviderFault::Authentication
        }
        "permission_error" | "permission_denied" => ProviderFault::Permission,
        "model_not_found" | "not_found_error" => ProviderFault::NotFound,
        "invalid_prompt" | "invalid_encrypted_content" | "data_residency_mismatch" => {
            ProviderFault::InvalidRequest
        }
        "content_filter" | "content_policy_violation" | "bio_policy" => ProviderFault::Filtered,
        _ => return None,
    })
}

fn fault_of_status(status: u16) -> ProviderFault {
    match status {
        // A redirect is not followed: it would carry the key to an address that nobody configured.
        ..=399 => ProviderFault::NotFound,
        401 => ProviderFault::Authentication,
        402 => ProviderFault::Quota,
        403 => ProviderFault::Permission,
        404 | 405 | 410 => ProviderFault::NotFound,
        413 => ProviderFault::ContextLength,
        429 => ProviderFault::RateLimited,
        408 | 425 => ProviderFault::Unavailable,
        501 | 505 => ProviderFault::InvalidRequest,
        500.. => ProviderFault::Unavailable,
        _ => ProviderFault::InvalidRequest,
    }
}

fn fault_of_words(status: Option<u16>, words: &str) -> Option<ProviderFault> {
    const QUOTA: [&str; 5] = [
        "exceeded your current quota",
        "quota exceeded",
        "insufficient balance",
        "insufficient credits",
        "credit balance is too low",
    ];
    // Throttling speaks of tokens too, so its words come before those of overflow.
    const THROTTLED: [&str; 5] = [
        "rate limit",
        "too many tokens",
        "tokens per minute",
        "tokens per day",
        "throttl",
    ];
    const OVERFLOW: [&str; 13] = [
        "prompt is too long",
        "context length",
        "context limit",
        "context window",
        "context size",
        "input token count",
        "maximum prompt length",
        "reduce the length of the messages",
        "maximum context",
        "exceeded model token limit",
        "input is too long",
        "too many input tokens",
        "request too large for model",
    ];
    let says = |patterns: &[&str]| patterns.iter().any(|pattern| words.contains(pattern));
    if matches!(status, None | Some(400 | 403 | 429)) && says(&QUOTA) {
        return Some(ProviderFault::Quota);
    }
    if says(&THROTTLED) {
        return match status {
            None => Some(ProviderFault::RateLimited),
            Some(_) => None,
        };
    }
    if matches!(status, None | Some(400 | 413 | 422 | 500)) && says(&OVERFLOW) {
        return Some(ProviderFault::ContextLength);
    }
    (status.is_none() && is_of_encrypted_reasoning(words)).then_some(ProviderFault::InvalidRequest)
}

/// Whether lower-case words say that encrypted reasoning cannot be read.
pub(crate) fn is_of_encrypted_reasoning(words: &str) -> bool {
    let words = words.replace('_', " ");
    let says = |patterns: &[&str]| patterns.iter().any(|pattern| words.contains(pattern));
    says(&["invalid encrypted content"])
        || says(&["encrypted content"])
            && says(&[
                "verified",
                "decrypted",
                "parsed",
                "is invalid",
                "not valid",
                "not issued",
            ])
}

fn describe(fault: ProviderFault) -> &'static str {
    match fault {
        ProviderFault::Authentication => "the endpoint refused the key",
        ProviderFault::Permission => "the key may not use this",
        ProviderFault::Quota => "the quota or credit is used up",
        ProviderFault::NotFound => "the endpoint does not know the model or the address",
        ProviderFault::InvalidRequest => "the endpoint refused the request",
        ProviderFault::ContextLength => "the conversation is too long for the model",
        ProviderFault::MessageTooLong => "the message is too long for the model",
        ProviderFault::RateLimited => "the endpoint received too many requests",
        ProviderFault::Unavailable => "the endpoint is overloaded or broken",
        ProviderFault::Connection => "the connection to the endpoint failed",
        ProviderFault::Timeout => "the endpoint took too long",
        ProviderFault::Cut => "the answer was cut off",
        ProviderFault::Malformed => "the endpoint's answer breaks its API",
        ProviderFault::OutputLimit => "the answer reached the output limit",
        ProviderFault::Filtered => "the endpoint's content filter stopped the answer",
        ProviderFault::Unsupported => "the endpoint cannot do what was asked",
    }
}

fn mend(fault: ProviderFault) -> Option<&'static str> {
    match fault {
        ProviderFault::Authentication => Some("Check api_key_env or api_key_file of this model."),
        ProviderFault::Permission => Some("Check what the key's account may use."),
        ProviderFault::Quota => Some("Check the account's quota or credit."),
        ProviderFault::NotFound => Some("Check base_url and model of this model."),
        ProviderFault::ContextLength => {
            Some("Start a new conversation, or choose a model with a larger context.")
        }
        ProviderFault::MessageTooLong => {
            Some("Send a shorter message, or choose a model with a larger context.")
        }
        ProviderFault::RateLimited | ProviderFault::Unavailable => Some("Try again later."),
        ProviderFault::InvalidRequest
        | ProviderFault::Connection
        | ProviderFault::Timeout
        | ProviderFault::Cut
        | ProviderFault::Malformed
        | ProviderFault::OutputLimit
        | ProviderFault::Filtered
        | ProviderFault::Unsupported => None,
    }
}

fn is_truthy(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(words) => !words.is_empty(),
        _ => true,
    }
}

fn scalar(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The words of an error value in any of the shapes that are in use.
fn words(error: &Value) -> String {
    match error {
        Value::String(words) => words.clone(),
        Value::Object(object) => {
            let mut found = ["message", "detail", "error_msg", "msg", "error"]
                .iter()
                .filter_map(|key| object.get(*key))
                .map(words)
                .find(|words| !words.is_empty())
                .unwrap_or_default();
            // A validator names the place apart from the fault.
            if let Some(Value::Array(place)) = object.get("loc") {
                let place: Vec<String> = place.iter().filter_map(|step| scalar(Some(step))).collect();
                found = format!("{}: {found}", place.join("."));
            }
            if let Some(parameter) = scalar(object.get("param"))
                && !found.contains(&parameter)
            {
                found = format!("{found} (parameter {parameter})");
            }
            // OpenRouter's own message is empty talk; what the upstream said is in its metadata.
            if let Some(Value::String(raw)) = object.get("metadata").and_then(|metadata| metadata.get("raw"))
            {
                found = format!("{found}: {raw}");
            }
            found
        }
        Value::Array(list) => list.first().map(words).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The words of a body that is no JSON: plain text as it is, of a web page its title.
pub(crate) fn plain_words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if !text.trim_start().starts_with('<') {
        return text.into_owned();
    }
    let lower = text.to_ascii_lowercase();
    let title = lower
        .find("<title>")
        .and_then(|start| Some((start + 7, lower[start..].find("</title>")? + start)))
        .and_then(|(start, end)| text.get(start..end));
    match title {
        Some(title) => format!("web page \"{}\"", title.trim()),
        None => "a web page".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{EndpointError, classify};
    use crate::model::ProviderFault;

    fn check(status: u16, body: &str, expected: ProviderFault) {
        let error = EndpointError::from_response(status, body.as_bytes());
        assert_eq!(classify(&error), expected, "{status} {body}");
    }

    #[test]
    fn codes_come_before_statuses_and_statuses_before_words() {
        check(
            401,
            r#"{"error":{"message":"no"}}"#,
            ProviderFault::Authentication,
        );
        check(
            429,
            r#"{"error":{"code":"insufficient_quota"}}"#,
            ProviderFault::Quota,
        );
        check(
            429,
            r#"{"error":{"code":"rate_limit_exceeded"}}"#,
            ProviderFault::RateLimited,
        );
        check(
            400,
            r#"{"error":{"type":"server_error"}}"#,
            ProviderFault::InvalidRequest,
        );
        check(
            500,
            r#"{"error":{"type":"exceed_context_size_error"}}"#,
            ProviderFault::ContextLength,
        );
        check(529, "", ProviderFault::Unavailable);
        check(
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"cap","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            ProviderFault::Quota,
        );
        check(302, "", ProviderFault::NotFound);
    }

    #[test]
    fn overflow_wording_counts_unless_it_is_throttling() {
        for words in [
            "prompt is too long: 210000 tokens > 200000 maximum",
            "This model's maximum context length is 8192 tokens.",
            "Please reduce the length of the messages or completion.",
            "the request exceeds the available context size",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "Your input exceeds the context window of this model.",
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "Invalid request: Your request exceeded model token limit: 131072",
            "invalid params, context window exceeds limit",
            "the number of tokens to keep is greater than the context length",
        ] {
            check(
                400,
                &format!(r#"{{"error":{{"message":"{words}"}}}}"#),
                ProviderFault::ContextLength,
            );
        }
        check(
            400,
            r#"{"error":"too many tokens, please wait"}"#,
            ProviderFault::InvalidRequest,
        );
        check(
            429,
            r#"{"message":"too many tokens, context window"}"#,
            ProviderFault::RateLimited,
        );
    }

    /// Some gateways accept every request and say what is wrong within the stream, with no code.
    #[test]
    fn reasoning_that_cannot_be_read_is_the_requests_fault_also_without_status_and_code() {
        for (words, expected) in [
            (
                "Encrypted content could not be decrypted or parsed.",
                ProviderFault::InvalidRequest,
            ),
            ("invalid_encrypted_content", ProviderFault::InvalidRequest),
            (
                "input[1].encrypted_content is not valid",
                ProviderFault::InvalidRequest,
            ),
            ("The engine fell over.", ProviderFault::Unavailable),
        ] {
            let error = EndpointError::from_value(&serde_json::Value::from(words));
            assert_eq!(classify(&error), expected, "{words}");
        }
    }

    #[test]
    fn every_error_shape_yields_its_words() {
        for (body, words) in [
            (r#"{"error":{"message":"a"}}"#, "a"),
            (r#"{"error":"a"}"#, "a"),
            (r#"{"object":"error","message":"a"}"#, "a"),
            (r#"{"detail":[{"msg":"a"}]}"#, "a"),
            (
                r#"{"detail":[{"loc":["body","stream_options",0],"msg":"a"}]}"#,
                "body.stream_options.0: a",
            ),
            (
                r#"{"error":{"message":"a","param":"stream_options"}}"#,
                "a (parameter stream_options)",
            ),
            (
                r#"{"error":{"message":"no stream_options","param":"stream_options"}}"#,
                "no stream_options",
            ),
            (r#"[{"error":{"message":"a"}}]"#, "a"),
            ("a", "a"),
            ("<html><title>a</title></html>", "web page \"a\""),
        ] {
            assert_eq!(
                EndpointError::from_response(500, body.as_bytes()).message,
                words,
                "{body}"
            );
        }
    }
}
