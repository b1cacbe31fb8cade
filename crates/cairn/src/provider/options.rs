//! Checked reading of a model's `[models.options]` at start.
//!
//! Errors name the key and the mend but never the value, which may be a secret. Must never know: what an option does.

use std::time::Duration;

use http::HeaderName;
use serde_json::Value;

use super::RouteError;

/// The options of one model, taken out key by key; what nobody took is an error.
pub(crate) struct Options {
    model: String,
    table: toml::Table,
    known: Vec<&'static str>,
}

impl Options {
    /// The options of the model with this id.
    pub(crate) fn new(model: &str, table: &toml::Table) -> Self {
        Self {
            model: model.to_owned(),
            table: table.clone(),
            known: Vec::new(),
        }
    }

    /// A switch.
    pub(crate) fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, RouteError> {
        match self.take(key) {
            None => Ok(default),
            Some(toml::Value::Boolean(flag)) => Ok(flag),
            Some(_) => Err(self.error(key, "must be true or false")),
        }
    }

    /// A span of time, written as a positive number of seconds.
    pub(crate) fn seconds(&mut self, key: &'static str, default: Duration) -> Result<Duration, RouteError> {
        let seconds = match self.take(key) {
            None => return Ok(default),
            Some(toml::Value::Integer(whole)) => u32::try_from(whole).ok().map(f64::from),
            Some(toml::Value::Float(seconds)) => Some(seconds),
            Some(_) => None,
        };
        seconds
            .filter(|seconds| *seconds > 0.0)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| self.error(key, "must be a positive number of seconds"))
    }

    /// A whole number of at least one.
    pub(crate) fn count(&mut self, key: &'static str, default: u32) -> Result<u32, RouteError> {
        self.optional_count(key).map(|count| count.unwrap_or(default))
    }

    /// A whole number of at least one, if the option is there.
    pub(crate) fn optional_count(&mut self, key: &'static str) -> Result<Option<u32>, RouteError> {
        match self.take(key) {
            None => Ok(None),
            Some(toml::Value::Integer(count)) if count > 0 => u32::try_from(count)
                .map(Some)
                .map_err(|_| self.error(key, "is too large")),
            Some(_) => Err(self.error(key, "must be a whole number of at least 1")),
        }
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, RouteError> {
        let Some(value) = self.take(key) else {
            return Ok(default);
        };
        choices
            .iter()
            .find(|(word, _)| value.as_str() == Some(word))
            .map(|(_, choice)| *choice)
            .ok_or_else(|| {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                self.error(key, &format!("must be one of {}", words.join(", ")))
            })
    }

    /// The name of a header, if the option is there.
    pub(crate) fn header_name(&mut self, key: &'static str) -> Result<Option<HeaderName>, RouteError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        value
            .as_str()
            .and_then(|name| HeaderName::from_bytes(name.as_bytes()).ok())
            .map(Some)
            .ok_or_else(|| self.error(key, "must be the name of a header"))
    }

    /// A table in the order in which it was written; empty if absent.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<toml::Table, RouteError> {
        match self.take(key) {
            None => Ok(toml::Table::new()),
            Some(toml::Value::Table(table)) => Ok(table),
            Some(_) => Err(self.error(key, "must be a table")),
        }
    }

    /// A list of a few words; `None` if the option is absent.
    pub(crate) fn choices<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<Vec<T>>, RouteError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let chosen = value.as_array().filter(|list| !list.is_empty()).and_then(|list| {
            list.iter()
                .map(|value| {
                    let known = choices.iter().find(|(word, _)| value.as_str() == Some(word));
                    known.map(|(_, choice)| *choice)
                })
                .collect()
        });
        match chosen {
            Some(chosen) => Ok(Some(chosen)),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                Err(self.error(key, &format!("must be a list of some of {}", words.join(", "))))
            }
        }
    }

    /// A table of members of a request's body as JSON text, in the order in which they were written. The adapter's own
    /// keys may not be among them.
    pub(crate) fn body_members(
        &mut self,
        option: &'static str,
        own_keys: &[&str],
    ) -> Result<Vec<(String, String)>, RouteError> {
        self.table(option)?
            .iter()
            .map(|(key, value)| {
                let path = format!("{option}.{key}");
                if own_keys.contains(&key.as_str()) {
                    return Err(self.error(&path, "is set by cairn itself; remove it"));
                }
                let json = to_json(value)
                    .ok_or_else(|| self.error(&path, "holds a date or a number that JSON cannot express"))?;
                Ok((key.clone(), json.to_string()))
            })
            .collect()
    }

    /// Ends the reading; a key that nobody took is an error.
    pub(crate) fn finish(self) -> Result<(), RouteError> {
        let Some(unknown) = self.table.keys().next() else {
            return Ok(());
        };
        let problem = format!(
            "is no option of this API; remove it, or use one of {}",
            self.known.join(", ")
        );
        Err(self.error(unknown, &problem))
    }

    /// An error at an option.
    pub(crate) fn error(&self, key: &str, problem: &str) -> RouteError {
        RouteError::new(&self.model, &format!("options.{key}"), problem)
    }

    fn take(&mut self, key: &'static str) -> Option<toml::Value> {
        self.known.push(key);
        self.table.remove(key)
    }
}

fn to_json(value: &toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(whole) => Value::from(*whole),
        toml::Value::Float(number) => Value::Number(serde_json::Number::from_f64(*number)?),
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Datetime(_) => return None,
        toml::Value::Array(list) => Value::Array(list.iter().map(to_json).collect::<Option<_>>()?),
        toml::Value::Table(table) => Value::Object(
            table
                .iter()
                .map(|(key, value)| Some((key.clone(), to_json(value)?)))
                .collect::<Option<_>>()?,
        ),
    })
}
