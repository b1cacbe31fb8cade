//! What `cairn serve` is configured with, read once at start.
//!
//! Owns the configuration contract: keys, defaults, precedence and the one-line errors. Must never know: how any of
//! it is used.

mod client_key;
mod file;
mod preset;
mod table;
mod web;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;

use file::FileSettings;
pub use web::{ImageGenerationConfig, SearchProvider, WebConfig, WebSearchConfig};

/// Where cairn listens when nothing says otherwise.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7437);

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
    /// Services on the web that tools use.
    pub web: WebConfig,
}

/// One model that clients may select, and its endpoint.
#[derive(Clone)]
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
    /// What text and pictures are fitted to when they enter a history under this model.
    pub limits: EntryLimits,
    /// Switches of the API's adapter, which reads and checks them at start.
    pub options: toml::Table,
}

impl fmt::Debug for ModelConfig {
    /// Leaves out what can hold a secret: the query of the address, and the options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self
            .base_url
            .as_ref()
            .map(|url| url.origin().ascii_serialization());
        f.debug_struct("ModelConfig")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("api", &self.api)
            .field("base_url", &origin)
            .field("api_key", &self.api_key)
            .field("upstream_model", &self.upstream_model)
            .field("context_window", &self.context_window)
            .field("max_output_tokens", &self.max_output_tokens)
            .field("vision", &self.vision)
            .finish_non_exhaustive()
    }
}

/// What text and pictures are fitted to, once, when they enter a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryLimits {
    /// `tool_result_limit`: the most characters of a tool result's text.
    pub result_characters: u32,
    /// `picture_max_bytes`: the most bytes of a picture's file.
    pub picture_bytes: u32,
    /// `picture_max_edge`: the most pixels of a picture's longer edge.
    pub picture_edge: u32,
}

impl EntryLimits {
    /// The most characters of a result's text by default.
    const RESULT_CHARACTERS: u32 = 100_000;
    /// The most bytes of a picture by default: 5 MB in base64, which is the least that a known API takes.
    const PICTURE_BYTES: u32 = 3_750_000;

    /// What holds where nothing is configured. A result has at most as many characters as the context has tokens, which is
    /// about a quarter of it.
    fn of(api: Api, context_window: Option<u32>) -> Self {
        let window = context_window.unwrap_or(Self::RESULT_CHARACTERS);
        Self {
            result_characters: window.clamp(1000, Self::RESULT_CHARACTERS),
            picture_bytes: Self::PICTURE_BYTES,
            picture_edge: match api {
                // What is larger is scaled down there before the model sees it.
                Api::Anthropic => 1568,
                // Requests with many pictures may hold none above 2000 on some endpoints.
                Api::OpenAiChat | Api::OpenAiResponses | Api::Scripted => 2000,
            },
        }
    }
}

impl Default for EntryLimits {
    fn default() -> Self {
        Self::of(Api::Anthropic, None)
    }
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

impl Api {
    /// The API's name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Scripted => "scripted",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [
            Self::OpenAiChat,
            Self::OpenAiResponses,
            Self::Anthropic,
            Self::Scripted,
        ]
        .into_iter()
        .find(|api| api.as_str() == text)
    }
}

/// A fault in the configuration: one line that names the key and the mend. Never holds a value that may be secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: {mend}")]
pub struct ConfigError {
    key: String,
    mend: String,
}

impl ConfigError {
    /// A fault of this key, with what to do about it.
    pub fn new(key: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            mend: mend.into(),
        }
    }

    /// The key at fault: of the file, or the flag or environment variable.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// What the command line says; it wins over the environment, which wins over the file.
#[derive(Clone, Default, Debug)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
}

/// A configuration, and the client key's file if this start made it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Where a client key that did not exist before was saved.
    pub new_client_key: Option<PathBuf>,
}

/// Reads the whole configuration. `env` looks up one environment variable.
///
/// Makes the data folder and the client key in it where the file names no key.
///
/// # Errors
/// The first [`ConfigError`] that is found.
pub fn load(flags: &Flags, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, ConfigError> {
    let env = Environment(env);
    let settings = Settings::read(flags, &env)?;
    let listen = settings.listen;
    let models = match settings.models {
        Some(models) => models?,
        None => vec![model_of_environment(&env)?],
    };
    let (client_key, new_client_key) = match settings.client_key {
        Some(key) => (key, None),
        None => client_key::read_or_make(&settings.data_dir)?,
    };
    Ok(Loaded {
        config: Config {
            listen,
            data_dir: settings.data_dir,
            client_key,
            upstream: settings.upstream,
            models,
            web: settings.web?,
        },
        new_client_key,
    })
}

/// Reads only the client key, making it where there is none yet. Needs no model to be configured.
///
/// # Errors
/// The first [`ConfigError`] that is found.
pub fn load_client_key(
    flags: &Flags,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<SecretString, ConfigError> {
    let settings = Settings::read(flags, &Environment(env))?;
    match settings.client_key {
        Some(key) => Ok(key),
        None => client_key::read_or_make(&settings.data_dir).map(|(key, _)| key),
    }
}

/// The data folder, whether it exists or not. Needs no model to be configured, and makes nothing.
///
/// # Errors
/// The first [`ConfigError`] that is found.
pub fn data_dir(flags: &Flags, env: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, ConfigError> {
    Ok(Settings::read(flags, &Environment(env))?.data_dir)
}

/// Environment variables; an empty one counts as absent.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}

/// Everything but the environment's model, with precedence applied.
struct Settings {
    listen: SocketAddr,
    data_dir: PathBuf,
    client_key: Option<SecretString>,
    upstream: Option<Url>,
    models: Option<Result<Vec<ModelConfig>, ConfigError>>,
    web: Result<WebConfig, ConfigError>,
}

impl Settings {
    fn read(flags: &Flags, env: &Environment<'_>) -> Result<Self, ConfigError> {
        let path = flags
            .config
            .clone()
            .or_else(|| env.get("CAIRN_CONFIG").map(PathBuf::from));
        let file = path
            .as_deref()
            .map(|path| FileSettings::read(path, env))
            .transpose()?;
        let (file_listen, file_data_dir, client_key, upstream, models, web) = match file {
            Some(file) => (
                file.listen,
                file.data_dir,
                file.client_key,
                file.upstream,
                Some(file.models),
                file.web,
            ),
            None => (None, None, None, None, None, Ok(WebConfig::default())),
        };
        let listen = match (&flags.listen, env.get("CAIRN_LISTEN"), file_listen) {
            (Some(text), _, _) => parse_listen("--listen", text)?,
            (None, Some(text), _) => parse_listen("CAIRN_LISTEN", &text)?,
            (None, None, Some(address)) => address,
            (None, None, None) => DEFAULT_LISTEN,
        };
        let data_dir = flags
            .data_dir
            .clone()
            .or_else(|| env.get("CAIRN_DATA_DIR").map(PathBuf::from))
            .or(file_data_dir);
        let data_dir = match data_dir {
            Some(data_dir) => data_dir,
            None => default_data_dir()?,
        };
        Ok(Self {
            listen,
            data_dir,
            client_key,
            upstream,
            models,
            web,
        })
    }
}

fn parse_listen(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse()
        .map_err(|_| ConfigError::new(key, "must be an IP address and a port, such as 127.0.0.1:7437"))
}

fn default_data_dir() -> Result<PathBuf, ConfigError> {
    directories::ProjectDirs::from("", "", "cairn")
        .map(|folders| folders.data_dir().to_owned())
        .ok_or_else(|| {
            ConfigError::new(
                "data_dir",
                "this user has no home folder; set data_dir or CAIRN_DATA_DIR",
            )
        })
}

/// The one model that the environment describes where there is no file.
fn model_of_environment(env: &Environment<'_>) -> Result<ModelConfig, ConfigError> {
    let api = env.get("CAIRN_API").ok_or_else(|| {
        ConfigError::new(
            "CAIRN_API",
            "not set, and no configuration file is given; pass --config FILE, or set CAIRN_API, CAIRN_BASE_URL and \
             CAIRN_MODEL",
        )
    })?;
    let api = Api::parse(&api).ok_or_else(|| ConfigError::new("CAIRN_API", table::api_mend()))?;
    let id = env.get("CAIRN_MODEL").ok_or_else(|| {
        ConfigError::new("CAIRN_MODEL", "not set; set it to the model's id at the endpoint")
    })?;
    table::check_model_id("CAIRN_MODEL", &id)?;
    let base_url = env
        .get("CAIRN_BASE_URL")
        .map(|text| table::base_url("CAIRN_BASE_URL", &text))
        .transpose()?;
    let api_key = env
        .get("CAIRN_API_KEY")
        .map(|text| table::secret("CAIRN_API_KEY", &text))
        .transpose()?;
    let max_output_tokens = env
        .get("CAIRN_MAX_OUTPUT_TOKENS")
        .map(|text| table::tokens("CAIRN_MAX_OUTPUT_TOKENS", text.parse().ok()))
        .transpose()?;
    let model = ModelConfig {
        upstream_model: id.clone(),
        id,
        name: None,
        api,
        base_url,
        api_key,
        context_window: None,
        max_output_tokens,
        vision: false,
        limits: EntryLimits::of(api, None),
        options: toml::Table::new(),
    };
    table::check_required(&model, "CAIRN_BASE_URL", "CAIRN_MAX_OUTPUT_TOKENS")?;
    Ok(model)
}

/// A path of the file, relative to the file's own folder.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or_else(|| Path::new("")).join(path)
}
