//! The tables of the services on the web that tools use. Must never know: what is asked of them.

use std::path::Path;

use secrecy::SecretString;
use url::Url;

use super::file::api_key;
use super::table::{self, Section};
use super::{ConfigError, Environment};

const SEARCH_KEYS: [&str; 4] = ["provider", "base_url", "api_key_env", "api_key_file"];
const IMAGE_KEYS: [&str; 4] = ["base_url", "model", "api_key_env", "api_key_file"];

/// Where Brave's search is unless the configuration says otherwise.
const BRAVE: &str = "https://api.search.brave.com/res/v1";

/// Services on the web that tools use; each may be absent.
#[derive(Clone, Debug, Default)]
pub struct WebConfig {
    /// `[web_search]`
    pub search: Option<WebSearchConfig>,
    /// `[image_generation]`
    pub images: Option<ImageGenerationConfig>,
}

/// Who searches the web.
#[derive(Clone, Debug)]
pub struct WebSearchConfig {
    /// Which interface the service has.
    pub provider: SearchProvider,
    /// Its address without the interface's own path.
    pub base_url: Url,
    /// Its key; absent where it needs none.
    pub api_key: Option<SecretString>,
}

/// The search interfaces that are spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchProvider {
    /// A SearXNG instance.
    Searxng,
    /// Brave's search API.
    Brave,
}

/// Who makes pictures, over OpenAI's images interface.
#[derive(Clone, Debug)]
pub struct ImageGenerationConfig {
    /// The address up to and without `/images`.
    pub base_url: Url,
    /// The model's id at the service.
    pub model: String,
    /// Its key; absent where it needs none.
    pub api_key: Option<SecretString>,
}

/// Takes the services' tables out of the file.
pub(super) fn read(
    section: &mut Section,
    path: &Path,
    env: &Environment<'_>,
) -> Result<WebConfig, ConfigError> {
    let search = section.subtable("web_search")?;
    let images = section.subtable("image_generation")?;
    Ok(WebConfig {
        search: search
            .map(|table| self::search(Section::new("web_search.", table), path, env))
            .transpose()?,
        images: images
            .map(|table| self::images(Section::new("image_generation.", table), path, env))
            .transpose()?,
    })
}

fn search(mut section: Section, path: &Path, env: &Environment<'_>) -> Result<WebSearchConfig, ConfigError> {
    let provider = match section.text("provider")?.as_deref() {
        Some("searxng") => SearchProvider::Searxng,
        Some("brave") => SearchProvider::Brave,
        _ => {
            return Err(ConfigError::new(
                section.path("provider"),
                "must be searxng or brave",
            ));
        }
    };
    let written = section.text("base_url")?;
    let base_url = match (&written, provider) {
        (Some(text), _) => text,
        (None, SearchProvider::Brave) => BRAVE,
        (None, SearchProvider::Searxng) => {
            return Err(ConfigError::new(
                section.path("base_url"),
                "missing; set the address of the SearXNG instance",
            ));
        }
    };
    let config = WebSearchConfig {
        provider,
        base_url: table::base_url(&section.path("base_url"), base_url)?,
        api_key: api_key(&mut section, path, env)?,
    };
    if provider == SearchProvider::Brave && config.api_key.is_none() {
        return Err(ConfigError::new(
            section.path("api_key_env"),
            "missing; Brave's search needs a key",
        ));
    }
    section.finish(&SEARCH_KEYS)?;
    Ok(config)
}

fn images(
    mut section: Section,
    path: &Path,
    env: &Environment<'_>,
) -> Result<ImageGenerationConfig, ConfigError> {
    let missing = |section: &Section, key: &str, mend: &str| ConfigError::new(section.path(key), mend);
    let base_url = section
        .text("base_url")?
        .ok_or_else(|| missing(&section, "base_url", "missing; set the address up to /images"))?;
    let config = ImageGenerationConfig {
        base_url: table::base_url(&section.path("base_url"), &base_url)?,
        model: section
            .text("model")?
            .ok_or_else(|| missing(&section, "model", "missing; set the model's id at the service"))?,
        api_key: api_key(&mut section, path, env)?,
    };
    section.finish(&IMAGE_KEYS)?;
    Ok(config)
}
