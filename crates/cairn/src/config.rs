//! What `cairn serve` is configured with, read once at start.
//!
//! Owns the configuration contract: keys, defaults, precedence and the one-line errors. Must never know: how any of
//! it is used.

use std::net::SocketAddr;
use std::path::PathBuf;

use secrecy::SecretString;
use url::Url;

/// A whole, valid configuration.
#[derive(Debug)]
pub struct Config {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where the database and a generated client key live.
    pub data_dir: PathBuf,
    /// What clients present as their API key.
    pub client_key: SecretString,
    /// Where unmatched routes go; absent means that they are answered with 404.
    pub upstream: Option<Url>,
    /// The models that clients may select; at least one.
    pub models: Vec<ModelConfig>,
}

/// One model that clients may select, and its endpoint.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// What the client selects.
    pub id: String,
    /// What the client shows, if it is not the id.
    pub name: Option<String>,
    /// Which API the endpoint speaks.
    pub api: Api,
    /// The endpoint's address up to and without the API's own path; absent only for [`Api::Scripted`].
    pub base_url: Option<Url>,
    /// The endpoint's key; absent for local engines.
    pub api_key: Option<SecretString>,
    /// The model's id at the endpoint.
    pub upstream_model: String,
    /// Size of the context in tokens.
    pub context_window: Option<u32>,
    /// Largest answer in tokens.
    pub max_output_tokens: Option<u32>,
    /// Whether the model takes pictures.
    pub vision: bool,
    /// Switches of the API's adapter, which reads and checks them at start.
    pub options: toml::Table,
}

/// The APIs that an endpoint can speak.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Api {
    /// OpenAI Chat Completions and its dialects.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// The offline model inside the binary.
    Scripted,
}
