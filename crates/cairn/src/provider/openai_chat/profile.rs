//! How one configured model's endpoint differs from the API as OpenAI documents it.
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

/// Keys of the body that the adapter always owns; `extra_body` may not set them.
const OWN_KEYS: [&str; 7] = [
    "model",
    "stream",
    "max_completion_tokens",
    "max_tokens",
    "prompt_cache_key",
    "tools",
    "messages",
];

/// A configured model as the adapter sees it.
#[derive(Clone, Debug)]
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
    /// Option `conversation_header`: the header that carries the same key, for endpoints that look for it there.
    pub(crate) conversation_header: Option<HeaderName>,
    /// Option `effort_parameter`: how a thinking effort is asked for.
    pub(crate) effort: EffortParameter,
    /// Option `thinking_parameter`: how thinking is switched on and off.
    pub(crate) thinking: ThinkingParameter,
    /// Option `thinking_members`: further members of that parameter's object, each with a comma before it, as JSON text.
    pub(crate) thinking_members: String,
    /// Option `think_by_default`: ask for thinking where the client asks nothing.
    pub(crate) think_by_default: bool,
    /// Option `efforts`: the efforts that the endpoint knows; absent leaves it to the endpoint to refuse one.
    pub(crate) efforts: Option<Vec<ReasoningEffort>>,
    /// Options `reasoning_replay` and `reasoning_field`: what goes back of the thinking.
    pub(crate) replay: ReasoningReplay,
    /// Option `tool_call_index`: whether the numbers of a call's pieces are looked at.
    pub(crate) trusts_call_index: bool,
    /// Option `usage_counts_cached`: whether the count of the prompt holds what came from the cache.
    pub(crate) usage_counts_cached: bool,
    /// Option `usage_counts_reasoning`: whether the count of the answer holds its thinking.
    pub(crate) usage_counts_reasoning: bool,
    /// Options `extra_body` and `fast_body`: further members of the body.
    pub(crate) extra_body: ExtraBody,
}

/// What goes back of an answer's thinking, to the endpoint that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReasoningReplay {
    /// Nothing.
    Never,
    /// What came; its text in this field, or else in the field in which it came.
    Received { field: Option<&'static str> },
    /// The same; and where no thinking came, or another model's, an empty text.
    Always { field: &'static str },
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
    /// `"reasoning": {"enabled": true}`.
    ReasoningObject,
}

impl ChatProfile {
    /// Takes the adapter's own options out of `options`:
    ///
    /// - `max_tokens_parameter`: `max_completion_tokens` (default) or `max_tokens`.
    /// - `done_is_terminal`: default false; true only for endpoints that never send a finish reason.
    /// - `include_usage`: default true; false for endpoints that refuse `stream_options`.
    /// - `prompt_cache_key`: default false; true for endpoints that take the parameter.
    /// - `conversation_header`: the name of a header that carries the same key.
    /// - `effort_parameter`: `reasoning_effort` (default), `reasoning.effort` or `none`.
    /// - `efforts`: the list of efforts that the endpoint knows.
    /// - `thinking_parameter`: `none` (default), `thinking.type`, `enable_thinking`,
    ///   `chat_template_kwargs.enable_thinking` or `reasoning.enabled`.
    /// - `thinking_members`: a table of further members of the object that `thinking_parameter` writes.
    /// - `think_by_default`: default false; true asks for thinking where the client asks nothing.
    /// - `reasoning_replay`: `received` (default), `always` or `never`.
    /// - `reasoning_field`: `received` (default), `reasoning_content` or `reasoning`; required by
    ///   `reasoning_replay = "always"`.
    /// - `tool_call_index`: `trusted` (default) or `ignored`.
    /// - `usage_counts_cached`: default true; false where cached tokens come on top of the prompt's.
    /// - `usage_counts_reasoning`: default true; false where thinking comes on top of the answer's.
    /// - `extra_body`: a table of further body members.
    /// - `fast_body`: a table of body members that ask for a faster route.
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
        let include_usage = options.flag("include_usage", true)?;
        let effort_parameter = options.choice(
            "effort_parameter",
            &[
                ("reasoning_effort", EffortParameter::ReasoningEffort),
                ("reasoning.effort", EffortParameter::ReasoningObject),
                ("none", EffortParameter::Absent),
            ],
            EffortParameter::ReasoningEffort,
        )?;
        let thinking = options.choice(
            "thinking_parameter",
            &[
                ("none", ThinkingParameter::Absent),
                ("thinking.type", ThinkingParameter::ThinkingType),
                ("enable_thinking", ThinkingParameter::EnableThinking),
                (
                    "chat_template_kwargs.enable_thinking",
                    ThinkingParameter::ChatTemplate,
                ),
                ("reasoning.enabled", ThinkingParameter::ReasoningObject),
            ],
            ThinkingParameter::Absent,
        )?;
        let think_by_default = options.flag("think_by_default", false)?;
        if think_by_default && thinking == ThinkingParameter::Absent {
            return Err(options.error(
                "think_by_default",
                "needs thinking_parameter; set it to what the endpoint takes",
            ));
        }
        let own_keys: Vec<&str> = OWN_KEYS
            .into_iter()
            .chain(include_usage.then_some("stream_options"))
            .chain(effort_parameter.member())
            .chain(thinking.member())
            .collect();
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
            include_usage,
            prompt_cache_key: options.flag("prompt_cache_key", false)?,
            conversation_header: options.header_name("conversation_header")?,
            effort: effort_parameter,
            efforts: effort::known(options)?,
            thinking,
            thinking_members: thinking_members(options, thinking)?,
            think_by_default,
            replay: reasoning_replay(options)?,
            trusts_call_index: options.choice(
                "tool_call_index",
                &[("trusted", true), ("ignored", false)],
                true,
            )?,
            usage_counts_cached: options.flag("usage_counts_cached", true)?,
            usage_counts_reasoning: options.flag("usage_counts_reasoning", true)?,
            extra_body: ExtraBody::from_options(options, &own_keys)?,
        })
    }

    /// Who makes and understands this model's replay states.
    pub fn issuer(&self) -> &Arc<str> {
        &self.endpoint.issuer
    }
}

impl EffortParameter {
    /// The member of the body that carries it.
    fn member(self) -> Option<&'static str> {
        match self {
            Self::ReasoningEffort => Some("reasoning_effort"),
            Self::ReasoningObject => Some("reasoning"),
            Self::Absent => None,
        }
    }
}

impl ThinkingParameter {
    /// Whether it is an object, which may have further members.
    fn is_object(self) -> bool {
        match self {
            Self::Absent | Self::EnableThinking => false,
            Self::ThinkingType | Self::ChatTemplate | Self::ReasoningObject => true,
        }
    }

    /// The member of the body that carries it.
    fn member(self) -> Option<&'static str> {
        match self {
            Self::Absent => None,
            Self::ThinkingType => Some("thinking"),
            Self::EnableThinking => Some("enable_thinking"),
            Self::ChatTemplate => Some("chat_template_kwargs"),
            Self::ReasoningObject => Some("reasoning"),
        }
    }
}

fn thinking_members(options: &mut Options, thinking: ThinkingParameter) -> Result<String, RouteError> {
    const MEMBERS: &str = "thinking_members";
    let members = options.body_members(MEMBERS, &["type", "enable_thinking", "enabled", "effort"])?;
    if !members.is_empty() && !thinking.is_object() {
        return Err(options.error(
            MEMBERS,
            "needs a thinking_parameter that is an object; set that, or put the members into extra_body",
        ));
    }
    Ok(members
        .iter()
        .map(|(key, value)| format!(",{}:{value}", serde_json::Value::from(key.as_str())))
        .collect())
}

fn reasoning_replay(options: &mut Options) -> Result<ReasoningReplay, RouteError> {
    const FIELD: &str = "reasoning_field";
    #[derive(Clone, Copy)]
    enum Duty {
        Received,
        Always,
        Never,
    }
    let duty = options.choice(
        "reasoning_replay",
        &[
            ("received", Duty::Received),
            ("always", Duty::Always),
            ("never", Duty::Never),
        ],
        Duty::Received,
    )?;
    let field = options.choice(
        FIELD,
        &[
            ("received", None),
            ("reasoning_content", Some("reasoning_content")),
            ("reasoning", Some("reasoning")),
        ],
        None,
    )?;
    match (duty, field) {
        (Duty::Received, field) => Ok(ReasoningReplay::Received { field }),
        (Duty::Always, Some(field)) => Ok(ReasoningReplay::Always { field }),
        (Duty::Always, None) => Err(options.error(
            FIELD,
            "is missing; reasoning_replay = \"always\" needs the field that is never left out",
        )),
        (Duty::Never, _) => Ok(ReasoningReplay::Never),
    }
}
