//! Reads typed values out of a TOML table, with errors that name the key and never the value.
//!
//! Owns the checks of single values. Must never know: where a table came from.

use std::ops::RangeInclusive;

use secrecy::SecretString;
use toml::{Table, Value};
use url::Url;

use super::{Api, ConfigError, ModelConfig};

/// Longest model id in bytes; it is shown, logged and sent.
const MAX_MODEL_ID_BYTES: usize = 256;

/// A table whose keys are taken out one by one; what is left at the end is unknown.
pub(super) struct Section {
    /// What stands before the keys of this table in messages: empty, or `models[0].`.
    prefix: String,
    table: Table,
}

impl Section {
    pub(super) fn new(prefix: impl Into<String>, table: Table) -> Self {
        Self {
            prefix: prefix.into(),
            table,
        }
    }

    /// The key as messages name it.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    /// A string that is not empty.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, ConfigError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(ConfigError::new(
                self.path(key),
                "must be a non-empty string in quotes",
            )),
        }
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>, ConfigError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(flag)),
            Some(_) => Err(ConfigError::new(self.path(key), "must be true or false")),
        }
    }

    pub(super) fn tokens(&mut self, key: &str) -> Result<Option<u32>, ConfigError> {
        let value = self.take(key);
        value
            .map(|value| tokens(&self.path(key), value.as_integer()))
            .transpose()
    }

    /// A whole number within these bounds.
    pub(super) fn count(
        &mut self,
        key: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ConfigError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(ConfigError::new(
                self.path(key),
                format!("must be a whole number from {} to {}", range.start(), range.end()),
            )),
        }
    }

    pub(super) fn subtable(&mut self, key: &str) -> Result<Option<Table>, ConfigError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(_) => Err(ConfigError::new(self.path(key), "must be a table")),
        }
    }

    /// Refuses the keys that nobody took.
    pub(super) fn finish(self, known: &[&str]) -> Result<(), ConfigError> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(unknown) => Err(ConfigError::new(
                self.path(&printable(unknown)),
                format!("unknown key; the keys here are {}", known.join(", ")),
            )),
        }
    }
}

/// The name of an unknown key, on one line and bounded.
fn printable(key: &str) -> String {
    key.chars()
        .filter(|character| !character.is_control())
        .take(64)
        .collect()
}

pub(super) fn api_mend() -> String {
    "must be openai-chat, openai-responses, anthropic or scripted".to_owned()
}

pub(super) fn tokens(key: &str, number: Option<i64>) -> Result<u32, ConfigError> {
    number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| ConfigError::new(key, "must be a whole number of tokens, at least 1"))
}

pub(super) fn check_model_id(key: &str, id: &str) -> Result<(), ConfigError> {
    if id.len() <= MAX_MODEL_ID_BYTES && !id.chars().any(char::is_control) {
        Ok(())
    } else {
        let mend = format!("must have at most {MAX_MODEL_ID_BYTES} bytes and no control characters");
        Err(ConfigError::new(key, mend))
    }
}

/// A secret that fits into an HTTP header.
pub(super) fn secret(key: &str, text: &str) -> Result<SecretString, ConfigError> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.into())
    } else {
        Err(ConfigError::new(
            key,
            "must hold a key of visible ASCII characters without spaces; write it again",
        ))
    }
}

/// The address of an endpoint.
pub(super) fn base_url(key: &str, text: &str) -> Result<Url, ConfigError> {
    let url = http_url(key, text)?;
    if url.fragment().is_some() {
        return Err(ConfigError::new(key, "must not have a fragment (#…); remove it"));
    }
    Ok(url)
}

/// The address of the upstream: an origin, because paths are forwarded untouched.
pub(super) fn upstream(key: &str, text: &str) -> Result<Url, ConfigError> {
    let url = http_url(key, text)?;
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(ConfigError::new(
            key,
            "must be only scheme, host and port; remove the path and what follows it",
        ));
    }
    Ok(url)
}

fn http_url(key: &str, text: &str) -> Result<Url, ConfigError> {
    let mend = "must be an address such as https://host/v1 or http://127.0.0.1:8080/v1";
    let url = Url::parse(text).map_err(|_| ConfigError::new(key, mend))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(ConfigError::new(key, mend));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ConfigError::new(
            key,
            "must not hold a user name or password; put the key into api_key_env or api_key_file",
        ));
    }
    Ok(url)
}

/// What the model's API cannot do without. The keys are named as the configuration's source names them.
pub(super) fn check_required(
    model: &ModelConfig,
    base_url_key: &str,
    max_output_tokens_key: &str,
) -> Result<(), ConfigError> {
    if model.api != Api::Scripted && model.base_url.is_none() {
        let mend = format!(
            "missing; the API {} needs its endpoint's address",
            model.api.as_str()
        );
        return Err(ConfigError::new(base_url_key, mend));
    }
    if model.api == Api::Anthropic && model.max_output_tokens.is_none() {
        return Err(ConfigError::new(
            max_output_tokens_key,
            "missing; the API anthropic needs the largest answer in tokens",
        ));
    }
    Ok(())
}
