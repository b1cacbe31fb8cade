//! The configuration file.
//!
//! Owns its keys. Must never know: flags, or what wins over it.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use toml::{Table, Value};
use url::Url;

use super::preset::Preset;
use super::table::{self, Section};
use super::web::{self, WebConfig};
use super::{Api, ConfigError, EntryLimits, Environment, ModelConfig, beside, parse_listen};

const KEYS: [&str; 7] = [
    "listen",
    "data_dir",
    "client_key",
    "upstream",
    "models",
    "web_search",
    "image_generation",
];
const MODEL_KEYS: [&str; 15] = [
    "id",
    "name",
    "preset",
    "api",
    "base_url",
    "api_key_env",
    "api_key_file",
    "model",
    "context_window",
    "max_output_tokens",
    "vision",
    "tool_result_limit",
    "picture_max_bytes",
    "picture_max_edge",
    "options",
];

/// What the file says.
pub(super) struct FileSettings {
    pub(super) listen: Option<SocketAddr>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) client_key: Option<SecretString>,
    pub(super) upstream: Option<Url>,
    /// Who asks for the client key alone needs no model, and no endpoint's key at hand.
    pub(super) models: Result<Vec<ModelConfig>, ConfigError>,
    pub(super) web: Result<WebConfig, ConfigError>,
}

impl FileSettings {
    pub(super) fn read(path: &Path, env: &Environment<'_>) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::new(
                "--config",
                format!(
                    "{} cannot be read: {error}; give the path of a TOML file",
                    path.display()
                ),
            )
        })?;
        let table: Table = text.parse().map_err(|error| syntax_error(&text, &error))?;
        let mut section = Section::new("", table);
        let listen = section
            .text("listen")?
            .map(|text| parse_listen("listen", &text))
            .transpose()?;
        let data_dir = section.text("data_dir")?.map(|text| beside(path, &text));
        let client_key = section
            .text("client_key")?
            .map(|text| table::secret("client_key", &text))
            .transpose()?;
        let upstream = section
            .text("upstream")?
            .map(|text| table::upstream("upstream", &text))
            .transpose()?;
        let models = models(section.take("models"), path, env);
        let web = web::read(&mut section, path, env);
        section.finish(&KEYS)?;
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

fn models(value: Option<Value>, path: &Path, env: &Environment<'_>) -> Result<Vec<ModelConfig>, ConfigError> {
    let entries = match value {
        None => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            return Err(ConfigError::new(
                "models",
                "must be tables; start each model with [[models]]",
            ));
        }
    };
    if entries.is_empty() {
        return Err(ConfigError::new(
            "models",
            "no model is configured; add a [[models]] table",
        ));
    }
    let mut ids = HashSet::new();
    let mut models = Vec::with_capacity(entries.len());
    for (index, entry) in entries.into_iter().enumerate() {
        let Value::Table(table) = entry else {
            let key = format!("models[{index}]");
            return Err(ConfigError::new(
                key,
                "must be a table; start each model with [[models]]",
            ));
        };
        let model = model(Section::new(format!("models[{index}]."), table), path, env)?;
        if !ids.insert(model.id.clone()) {
            let key = format!("models[{index}].id");
            return Err(ConfigError::new(
                key,
                "another model has the same id; give each model its own",
            ));
        }
        models.push(model);
    }
    Ok(models)
}

fn entry_limits(section: &mut Section, default: EntryLimits) -> Result<EntryLimits, ConfigError> {
    let mut count = |key, range, default| Ok(section.count(key, range)?.unwrap_or(default));
    Ok(EntryLimits {
        result_characters: count("tool_result_limit", 1000..=1_000_000, default.result_characters)?,
        picture_bytes: count("picture_max_bytes", 10_000..=100_000_000, default.picture_bytes)?,
        picture_edge: count("picture_max_edge", 64..=16_384, default.picture_edge)?,
    })
}

fn model(mut section: Section, path: &Path, env: &Environment<'_>) -> Result<ModelConfig, ConfigError> {
    let missing = |section: &Section, key: &str, mend: &str| ConfigError::new(section.path(key), mend);
    let id = section
        .text("id")?
        .ok_or_else(|| missing(&section, "id", "missing; set what the client selects"))?;
    table::check_model_id(&section.path("id"), &id)?;
    let preset = section
        .text("preset")?
        .map(|name| Preset::find(&section.path("preset"), &name))
        .transpose()?;
    let api = section.text("api")?.map(|api| Api::parse(&api));
    let api = match (api, &preset) {
        (Some(Some(api)), Some(preset)) if api != preset.api => {
            let mend = format!(
                "must be {} with this preset; correct it, or leave it out",
                preset.api.as_str()
            );
            return Err(missing(&section, "api", &mend));
        }
        (Some(Some(api)), _) => api,
        (Some(None), _) => return Err(missing(&section, "api", &table::api_mend())),
        (None, Some(preset)) => preset.api,
        (None, None) => {
            let mend = format!("missing; {}, or set a preset", table::api_mend());
            return Err(missing(&section, "api", &mend));
        }
    };
    let base_url = section
        .text("base_url")?
        .or_else(|| preset.as_ref()?.base_url.clone())
        .map(|text| table::base_url(&section.path("base_url"), &text))
        .transpose()?;
    let context_window = section.tokens("context_window")?;
    let options = section.subtable("options")?.unwrap_or_default();
    let options = match preset {
        Some(preset) => preset.with_options(options),
        None => options,
    };
    let model = ModelConfig {
        name: section.text("name")?,
        api,
        base_url,
        api_key: api_key(&mut section, path, env)?,
        upstream_model: section.text("model")?.unwrap_or_else(|| id.clone()),
        context_window,
        max_output_tokens: section.tokens("max_output_tokens")?,
        vision: section.flag("vision")?.unwrap_or(false),
        limits: entry_limits(&mut section, EntryLimits::of(api, context_window))?,
        options,
        id,
    };
    table::check_required(
        &model,
        &section.path("base_url"),
        &section.path("max_output_tokens"),
    )?;
    section.finish(&MODEL_KEYS)?;
    Ok(model)
}

pub(super) fn api_key(
    section: &mut Section,
    path: &Path,
    env: &Environment<'_>,
) -> Result<Option<SecretString>, ConfigError> {
    match (section.text("api_key_env")?, section.text("api_key_file")?) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(ConfigError::new(
            section.path("api_key_file"),
            "api_key_env is set too; keep one of them",
        )),
        (Some(name), None) => {
            let key = section.path("api_key_env");
            // The name is left out: whoever writes the key itself here must not find it in a log.
            let value = env.get(&name).ok_or_else(|| {
                ConfigError::new(
                    &key,
                    "names an environment variable that is not set; set it, or use api_key_file",
                )
            })?;
            table::secret(&key, &value).map(Some)
        }
        (None, Some(file)) => {
            let key = section.path("api_key_file");
            let text = std::fs::read_to_string(beside(path, &file)).map_err(|error| {
                ConfigError::new(
                    &key,
                    format!(
                        "the file that it names cannot be read: {error}; its path starts at the configuration \
                         file's folder"
                    ),
                )
            })?;
            table::secret(&key, &text).map(Some)
        }
    }
}

/// Says where the file is no TOML. The parser's own words may quote the line, and the line may hold a key.
fn syntax_error(text: &str, error: &toml::de::Error) -> ConfigError {
    let offset = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    let line_number = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line = text.lines().nth(line_number - 1).unwrap_or_default();
    let written = line.split('=').next().unwrap_or_default().trim();
    let key = KEYS
        .iter()
        .chain(&MODEL_KEYS)
        .find(|key| **key == written)
        .map_or("--config", |key| *key);
    ConfigError::new(
        key,
        format!(
            "line {line_number} of the configuration file is not valid TOML; check its quotes and brackets, and that \
             no key is there twice"
        ),
    )
}
