//! How one configured model's endpoint differs from the API as OpenAI documents it.
//!
//! Owns the adapter's options and their meaning. Must never know: a request or a stream.

use std::sync::Arc;

use http::header::AUTHORIZATION;

use crate::config::ModelConfig;
use crate::provider::RouteError;
use crate::provider::endpoint::{ApiShape, Endpoint};
use crate::provider::options::Options;

/// Keys of the body that the adapter owns; `extra_body` may not set them.
const OWN_KEYS: [&str; 9] = [
    "model",
    "stream",
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "prompt_cache_key",
    "tools",
    "messages",
];

/// A configured model as the adapter sees it.
#[derive(Debug)]
pub struct ChatProfile {
    pub(crate) endpoint: Arc<Endpoint>,
    /// The model's id at the endpoint.
    pub(crate) upstream_model: String,
    /// Option `max_tokens_parameter`: which parameter carries the output limit.
    pub(crate) max_tokens_parameter: &'static str,
    /// Option `done_is_terminal`: `[DONE]` alone ends an answer, for endpoints that never send a finish reason.
    pub(crate) done_is_terminal: bool,
    /// Option `include_usage`: ask for token counts with `stream_options`.
    pub(crate) include_usage: bool,
    /// Option `prompt_cache_key`: send an opaque key that stays the same for a conversation.
    pub(crate) prompt_cache_key: bool,
    /// Option `effort_parameter`: how a thinking effort is asked for.
    pub(crate) effort: EffortParameter,
    /// Option `thinking_parameter`: how thinking is switched on and off.
    pub(crate) thinking: ThinkingParameter,
    /// Option `extra_body`: further members of the body, in the order in which they were written, as JSON text.
    pub(crate) extra_body: Vec<(String, String)>,
}

/// How a thinking effort is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EffortParameter {
    /// `"reasoning_effort": "high"`.
    ReasoningEffort,
    /// `"reasoning": {"effort": "high"}`.
    ReasoningObject,
    /// The endpoint has no way to ask for it.
    Absent,
}

/// How thinking is switched on and off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThinkingParameter {
    /// The endpoint has no switch.
    Absent,
    /// `"thinking": {"type": "enabled"}`.
    ThinkingType,
    /// `"enable_thinking": true`.
    EnableThinking,
    /// `"chat_template_kwargs": {"enable_thinking": true}`.
    ChatTemplate,
}

impl ChatProfile {
    /// Takes the adapter's own options out of `options`:
    ///
    /// - `max_tokens_parameter`: `max_completion_tokens` (default) or `max_tokens`.
    /// - `done_is_terminal`: default false; true only for endpoints that never send a finish reason.
    /// - `include_usage`: default true; false for endpoints that refuse `stream_options`.
    /// - `prompt_cache_key`: default false; true for endpoints that take the parameter.
    /// - `effort_parameter`: `reasoning_effort` (default), `reasoning.effort` or `none`.
    /// - `thinking_parameter`: `none` (default), `thinking.type`, `enable_thinking` or
    ///   `chat_template_kwargs.enable_thinking`.
    /// - `extra_body`: a table of further body members.
    /// - `headers`: a table of further headers, sent with every request and never logged.
    pub(crate) fn from_options(config: &ModelConfig, options: &mut Options) -> Result<Self, RouteError> {
        let shape = ApiShape {
            name: "openai-chat",
            path: "/chat/completions",
            key_header: AUTHORIZATION,
            key_prefix: "Bearer ",
        };
        let headers = options.table("headers")?;
        let endpoint = Endpoint::new(config, &shape, &headers)?;
        Ok(Self {
            endpoint: Arc::new(endpoint),
            upstream_model: config.upstream_model.clone(),
            max_tokens_parameter: options.choice(
                "max_tokens_parameter",
                &[
                    ("max_completion_tokens", "max_completion_tokens"),
                    ("max_tokens", "max_tokens"),
                ],
                "max_completion_tokens",
            )?,
            done_is_terminal: options.flag("done_is_terminal", false)?,
            include_usage: options.flag("include_usage", true)?,
            prompt_cache_key: options.flag("prompt_cache_key", false)?,
            effort: options.choice(
                "effort_parameter",
                &[
                    ("reasoning_effort", EffortParameter::ReasoningEffort),
                    ("reasoning.effort", EffortParameter::ReasoningObject),
                    ("none", EffortParameter::Absent),
                ],
                EffortParameter::ReasoningEffort,
            )?,
            thinking: options.choice(
                "thinking_parameter",
                &[
                    ("none", ThinkingParameter::Absent),
                    ("thinking.type", ThinkingParameter::ThinkingType),
                    ("enable_thinking", ThinkingParameter::EnableThinking),
                    (
                        "chat_template_kwargs.enable_thinking",
                        ThinkingParameter::ChatTemplate,
                    ),
                ],
                ThinkingParameter::Absent,
            )?,
            extra_body: options.extra_body(&OWN_KEYS)?,
        })
    }

    /// Who makes and understands this model's replay states.
    pub fn issuer(&self) -> &Arc<str> {
        &self.endpoint.issuer
    }
}
