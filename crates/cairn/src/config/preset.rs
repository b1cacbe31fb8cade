//! Ready settings for known endpoints, by name.
//!
//! Owns how a preset and a model's own settings become one. The presets themselves are data: `presets.toml`. Must never
//! know: what an option means.

use toml::Table;

use super::table::{Section, api_mend};
use super::{Api, ConfigError};

/// What a preset says of an endpoint.
#[derive(Debug)]
pub(super) struct Preset {
    pub(super) api: Api,
    /// Absent where the endpoint has no address or several.
    pub(super) base_url: Option<String>,
    options: Table,
}

impl Preset {
    /// The preset with this name. `key` is where it is named.
    pub(super) fn find(key: &str, name: &str) -> Result<Self, ConfigError> {
        let damaged =
            |cause: &str| ConfigError::new(key, format!("the presets of this cairn are damaged: {cause}"));
        let mut presets: Table = include_str!("presets.toml")
            .parse()
            .map_err(|_| damaged("they are no TOML"))?;
        let table = match presets.remove(name) {
            Some(toml::Value::Table(table)) => table,
            Some(_) => return Err(damaged("one is no table")),
            None => {
                let known: Vec<&str> = presets.keys().map(String::as_str).collect();
                let mend = format!("is no preset; take one of {}, or leave it out", known.join(", "));
                return Err(ConfigError::new(key, mend));
            }
        };
        let mut section = Section::new(format!("preset {name}: "), table);
        let api = section.text("api")?.and_then(|api| Api::parse(&api));
        let preset = Self {
            api: api.ok_or_else(|| damaged(&api_mend()))?,
            base_url: section.text("base_url")?,
            options: section.subtable("options")?.unwrap_or_default(),
        };
        section.finish(&["api", "base_url", "options"])?;
        Ok(preset)
    }

    /// The preset's options with a model's own over them. Of an option that is a table in both, the members are joined.
    pub(super) fn with_options(self, own: Table) -> Table {
        let mut options = self.options;
        for (key, value) in own {
            match (options.get_mut(&key), value) {
                (Some(toml::Value::Table(members)), toml::Value::Table(own)) => members.extend(own),
                (_, value) => {
                    options.insert(key, value);
                }
            }
        }
        options
    }
}
