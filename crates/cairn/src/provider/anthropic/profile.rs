//! What one configured model's endpoint takes and how it is asked.
//!
//! Owns the adapter's options and their meaning. Must never know: a request or a stream.

use std::sync::Arc;

use http::HeaderName;
use http::header::AUTHORIZATION;

use crate::config::ModelConfig;
use crate::model::ReasoningEffort;
use crate::provider::RouteError;
use crate::provider::effort;
use crate::provider::endpoint::{ApiShape, Endpoint};
use crate::provider::extra_body::ExtraBody;
use crate::provider::options::Options;

/// The version of the API that this adapter speaks.
const API_VERSION: &str = "2023-06-01";
/// The smallest budget of thinking that the API takes.
const SMALLEST_BUDGET: u32 = 1024;

/// Keys of the body that the adapter owns; `extra_body` may not set them.
const OWN_KEYS: [&str; 9] = [
    "model",
    "max_tokens",
    "stream",
    "cache_control",
    "thinking",
    "output_config",
    "tools",
    "system",
    "messages",
];

/// A configured model as the adapter sees it.
#[derive(Debug)]
pub struct AnthropicProfile {
    pub(crate) endpoint: Arc<Endpoint>,
    /// The model's id at the endpoint.
    pub(crate) upstream_model: String,
    /// How thinking is asked for.
    pub(crate) thinking: ThinkingMode,
    /// Option `thinking_off`: how a wish not to think is written.
    pub(crate) thinking_off: ThinkingOff,
    /// Option `efforts`: the efforts that the model knows; absent stands for none with a budget, and else leaves it to the
    /// endpoint to refuse one.
    pub(crate) efforts: Option<Vec<ReasoningEffort>>,
    /// Option `think_by_default`: ask for thinking where the client asks nothing.
    pub(crate) think_by_default: bool,
    /// Option `thinking_display`: what of the thinking is shown; absent leaves it to the endpoint.
    pub(crate) thinking_display: Option<&'static str>,
    /// Option `cache_control`: how the end of a request is marked for the cache.
    pub(crate) cache: CacheMode,
    /// Option `cache_ttl`: what a marker says, as JSON text.
    pub(crate) cache_marker: &'static str,
    /// Options `extra_body` and `fast_body`: further members of the body.
    pub(crate) extra_body: ExtraBody,
}

/// How thinking is asked for; a property of the model, never changed by what the endpoint answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThinkingMode {
    /// The model decides how much, led by an effort.
    Adaptive,
    /// A fixed number of tokens.
    Budget(u32),
}

/// How a wish not to think is written; a property of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThinkingOff {
    /// `"thinking": {"type": "disabled"}`.
    Disabled,
    /// `"thinking": {"type": "between_tools"}`: the model thinks between calls only.
    BetweenTools,
    /// Not at all: the model always thinks.
    Absent,
}

/// How the end of a request is marked for the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheMode {
    /// By one member of the body, which the endpoint applies to the last block.
    Automatic,
    /// By a member of the last block.
    Explicit,
    /// Not at all.
    Off,
}

impl AnthropicProfile {
    /// Takes the adapter's own options out of `options`:
    ///
    /// - `auth`: `x-api-key` (default) or `bearer`.
    /// - `thinking_mode`: `adaptive` (default) or `budget`.
    /// - `thinking_budget_tokens`: required by `thinking_mode = "budget"`, at least 1024 and below `max_output_tokens`.
    /// - `thinking_off`: `disabled` (default), `between_tools`, or `none` for a model that always thinks.
    /// - `efforts`: the list of efforts that the model knows.
    /// - `think_by_default`: default false; true asks for thinking where the client asks nothing.
    /// - `thinking_display`: `summarized` or `omitted`; default: what the endpoint does by itself.
    /// - `cache_control`: `automatic` (default), `explicit` or `none`.
    /// - `cache_ttl`: `5m` (default) or `1h`.
    /// - `extra_body`: a table of further body members.
    /// - `fast_body`: a table of body members that ask for a faster route.
    /// - `headers`: a table of further headers, sent with every request and never logged.
    pub(crate) fn from_options(config: &ModelConfig, options: &mut Options) -> Result<Self, RouteError> {
        let error = |key: &str, problem: &str| Err(RouteError::new(&config.id, key, problem));
        let Some(max_output_tokens) = config.max_output_tokens else {
            return error(
                "max_output_tokens",
                "is missing; the API anthropic needs the largest answer in tokens",
            );
        };
        let is_bearer = options.choice("auth", &[("x-api-key", false), ("bearer", true)], false)?;
        let (key_header, key_prefix) = match is_bearer {
            false => (HeaderName::from_static("x-api-key"), ""),
            true => (AUTHORIZATION, "Bearer "),
        };
        // Endpoints document their base with the API's version or without it.
        let has_version = config
            .base_url
            .as_ref()
            .is_some_and(|base| base.path().trim_end_matches('/').ends_with("/v1"));
        let shape = ApiShape {
            name: "anthropic",
            path: if has_version { "/messages" } else { "/v1/messages" },
            key_header,
            key_prefix,
        };
        let mut headers = options.table("headers")?;
        if !headers
            .keys()
            .any(|name| name.eq_ignore_ascii_case("anthropic-version"))
        {
            headers.insert("anthropic-version".to_owned(), API_VERSION.into());
        }
        Ok(Self {
            endpoint: Arc::new(Endpoint::new(config, &shape, &headers)?),
            upstream_model: config.upstream_model.clone(),
            thinking: thinking_mode(max_output_tokens, options)?,
            thinking_off: options.choice(
                "thinking_off",
                &[
                    ("disabled", ThinkingOff::Disabled),
                    ("between_tools", ThinkingOff::BetweenTools),
                    ("none", ThinkingOff::Absent),
                ],
                ThinkingOff::Disabled,
            )?,
            efforts: effort::known(options)?,
            think_by_default: options.flag("think_by_default", false)?,
            thinking_display: options.choice(
                "thinking_display",
                &[("summarized", Some("summarized")), ("omitted", Some("omitted"))],
                None,
            )?,
            cache: options.choice(
                "cache_control",
                &[
                    ("automatic", CacheMode::Automatic),
                    ("explicit", CacheMode::Explicit),
                    ("none", CacheMode::Off),
                ],
                CacheMode::Automatic,
            )?,
            cache_marker: options.choice(
                "cache_ttl",
                &[
                    ("5m", r#"{"type":"ephemeral"}"#),
                    ("1h", r#"{"type":"ephemeral","ttl":"1h"}"#),
                ],
                r#"{"type":"ephemeral"}"#,
            )?,
            extra_body: ExtraBody::from_options(options, &OWN_KEYS)?,
        })
    }

    /// Who makes and understands this model's replay states.
    pub fn issuer(&self) -> &Arc<str> {
        &self.endpoint.issuer
    }
}

fn thinking_mode(max_output_tokens: u32, options: &mut Options) -> Result<ThinkingMode, RouteError> {
    const BUDGET: &str = "thinking_budget_tokens";
    let is_budget = options.choice("thinking_mode", &[("adaptive", false), ("budget", true)], false)?;
    match (is_budget, options.optional_count(BUDGET)?) {
        (false, None) => Ok(ThinkingMode::Adaptive),
        (false, Some(_)) => Err(options.error(BUDGET, "needs thinking_mode = \"budget\"")),
        (true, None) => Err(options.error(
            BUDGET,
            "is missing; thinking_mode = \"budget\" needs the number of tokens to think",
        )),
        (true, Some(budget)) if budget < SMALLEST_BUDGET || budget >= max_output_tokens => {
            Err(options.error(BUDGET, "must be at least 1024 and below max_output_tokens"))
        }
        (true, Some(budget)) => Ok(ThinkingMode::Budget(budget)),
    }
}
