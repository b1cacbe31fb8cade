//! How one configured model's endpoint differs from the API as OpenAI documents it.
//!
//! Owns the adapter's options and their meaning. Must never know: a request or a stream.

use std::sync::Arc;

use http::header::AUTHORIZATION;

use crate::config::ModelConfig;
use crate::model::ReasoningEffort;
use crate::provider::RouteError;
use crate::provider::effort;
use crate::provider::endpoint::{ApiShape, Endpoint};
use crate::provider::extra_body::ExtraBody;
use crate::provider::options::Options;

/// Keys of the body that the adapter owns; `extra_body` may not set them.
const OWN_KEYS: [&str; 11] = [
    "model",
    "stream",
    "store",
    "include",
    "max_output_tokens",
    "reasoning",
    "prompt_cache_key",
    "previous_response_id",
    "tools",
    "instructions",
    "input",
];

/// A configured model as the adapter sees it.
#[derive(Debug)]
pub struct ResponsesProfile {
    pub(crate) endpoint: Arc<Endpoint>,
    /// The model's id at the endpoint.
    pub(crate) upstream_model: String,
    /// Option `include_encrypted_reasoning`: ask for reasoning in the form that can be sent back.
    pub(crate) include_encrypted_reasoning: bool,
    /// Option `reasoning_summary`: ask for a readable summary of the reasoning.
    pub(crate) reasoning_summary: Option<&'static str>,
    /// Option `effort_parameter`: whether a thinking effort can be asked for.
    pub(crate) takes_effort: bool,
    /// Option `efforts`: the efforts that the model knows; absent leaves it to the endpoint to refuse one.
    pub(crate) efforts: Option<Vec<ReasoningEffort>>,
    /// Option `prompt_cache_key`: send an opaque key that stays the same for a conversation.
    pub(crate) prompt_cache_key: bool,
    /// Option `replay_item_ids`: send the endpoint's own item ids back.
    pub(crate) replay_item_ids: bool,
    /// Options `extra_body` and `fast_body`: further members of the body.
    pub(crate) extra_body: ExtraBody,
}

impl ResponsesProfile {
    /// Takes the adapter's own options out of `options`:
    ///
    /// - `include_encrypted_reasoning`: default true; false for models that do not reason and refuse the parameter.
    /// - `reasoning_summary`: `none` (default), `auto`, `concise` or `detailed`.
    /// - `effort_parameter`: `reasoning.effort` (default) or `none`.
    /// - `efforts`: the list of efforts that the model knows.
    /// - `prompt_cache_key`: default true; false for endpoints that refuse the parameter.
    /// - `replay_item_ids`: default false; true for endpoints that demand their item ids although nothing is stored.
    /// - `extra_body`: a table of further body members.
    /// - `fast_body`: a table of body members that ask for a faster route.
    /// - `headers`: a table of further headers, sent with every request and never logged.
    pub(crate) fn from_options(config: &ModelConfig, options: &mut Options) -> Result<Self, RouteError> {
        let shape = ApiShape {
            name: "openai-responses",
            path: "/responses",
            key_header: AUTHORIZATION,
            key_prefix: "Bearer ",
        };
        let headers = options.table("headers")?;
        let endpoint = Endpoint::new(config, &shape, &headers)?;
        Ok(Self {
            endpoint: Arc::new(endpoint),
            upstream_model: config.upstream_model.clone(),
            include_encrypted_reasoning: options.flag("include_encrypted_reasoning", true)?,
            reasoning_summary: options.choice(
                "reasoning_summary",
                &[
                    ("none", None),
                    ("auto", Some("auto")),
                    ("concise", Some("concise")),
                    ("detailed", Some("detailed")),
                ],
                None,
            )?,
            takes_effort: options.choice(
                "effort_parameter",
                &[("reasoning.effort", true), ("none", false)],
                true,
            )?,
            efforts: effort::known(options)?,
            prompt_cache_key: options.flag("prompt_cache_key", true)?,
            replay_item_ids: options.flag("replay_item_ids", false)?,
            extra_body: ExtraBody::from_options(options, &OWN_KEYS)?,
        })
    }

    /// Who makes and understands this model's replay states.
    pub fn issuer(&self) -> &Arc<str> {
        &self.endpoint.issuer
    }
}
