//! A configured endpoint: its address, what authenticates there, and its name as an issuer of replay state.
//!
//! Owns everything secret about an endpoint; it cannot be printed. Must never know: any API's JSON.

use std::sync::Arc;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use url::Url;

use super::RouteError;
use super::redact::{Redactor, is_secret_parameter};
use super::sent;
use crate::config::ModelConfig;
use crate::model::{ItemDigest, ItemHash, RequestDigest};

/// A header or query value of unknown meaning is held as a secret from this length on; masking shorter ones, such as a
/// version or a title, would garble ordinary words.
const LIKELY_SECRET: usize = 16;

/// What an API asks of every endpoint that speaks it.
#[derive(Clone, Debug)]
pub(crate) struct ApiShape {
    /// The API's name in the configuration and in issuers.
    pub(crate) name: &'static str,
    /// Path below the base URL.
    pub(crate) path: &'static str,
    /// Header that carries the key.
    pub(crate) key_header: HeaderName,
    /// What stands before the key in that header.
    pub(crate) key_prefix: &'static str,
}

/// Where requests for one configured model go.
pub(crate) struct Endpoint {
    /// The configured model's id, to name it to the person.
    pub(crate) model_id: String,
    /// The full address of the API's method.
    pub(crate) url: Url,
    /// All headers of a request; the secret ones are marked as such.
    pub(crate) headers: HeaderMap,
    /// Cleans words of this endpoint.
    pub(crate) redactor: Redactor,
    /// API, address, upstream model and key fingerprint.
    pub(crate) issuer: Arc<str>,
    /// A digest over what is configured of the model and may decide how a history is written.
    pub(crate) settings: ItemHash,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("model_id", &self.model_id)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The endpoint of a configured model; `extra_headers` are sent with every request and never logged.
    pub(crate) fn new(
        config: &ModelConfig,
        api: &ApiShape,
        extra_headers: &toml::Table,
    ) -> Result<Self, RouteError> {
        let error = |key: &str, problem: &str| RouteError::new(&config.id, key, problem);
        let base = config.base_url.as_ref().ok_or_else(|| {
            error(
                "base_url",
                "is missing; set it to the address that the endpoint documents",
            )
        })?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(error(
                "base_url",
                "must start with http:// or https:// and name a host",
            ));
        }
        let path = base.path().trim_end_matches('/');
        if path.ends_with(api.path) {
            return Err(error("base_url", &format!("must end before {}", api.path)));
        }
        let mut url = base.clone();
        url.set_path(&format!("{path}{}", api.path));
        url.set_fragment(None);

        let mut redactor = Redactor::default();
        redactor.add(base.password().unwrap_or_default());
        for (name, value) in base.query_pairs() {
            if is_secret_parameter(&name) || value.len() >= LIKELY_SECRET {
                redactor.add(&value);
            }
        }

        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        // A compressed stream would delay events until the compressor flushes.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(key) = &config.api_key {
            let key = key.expose_secret();
            redactor.add(key);
            headers.insert(
                api.key_header.clone(),
                secret_header(&format!("{}{key}", api.key_prefix))
                    .ok_or_else(|| error("api_key", "holds characters that a header cannot carry"))?,
            );
        }
        for (name, value) in extra_headers {
            let key = format!("options.headers.{name}");
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| error(&key, "is no valid header name"))?;
            let text = value.as_str().ok_or_else(|| error(&key, "must be a string"))?;
            if text.len() >= LIKELY_SECRET {
                redactor.add(text);
            }
            headers.insert(
                header,
                secret_header(text)
                    .ok_or_else(|| error(&key, "holds characters that a header cannot carry"))?,
            );
        }
        Ok(Self {
            model_id: config.id.clone(),
            issuer: issuer(config, api, base),
            settings: sent::settings(config),
            url,
            headers,
            redactor,
        })
    }

    /// What a request of these items is remembered by.
    pub(crate) fn digest(&self, items: Vec<ItemDigest>, without_reasoning: bool) -> RequestDigest {
        RequestDigest {
            lineage: Arc::clone(&self.issuer),
            settings: self.settings,
            items,
            without_reasoning,
        }
    }

    /// Scheme, host and port, for the person.
    pub(crate) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

fn secret_header(value: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(value).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Names who makes and understands a replay state. The address is kept without user and query, which may be secret.
fn issuer(config: &ModelConfig, api: &ApiShape, base: &Url) -> Arc<str> {
    let fingerprint = match &config.api_key {
        None => "none".to_owned(),
        Some(key) => {
            let mut hash = Sha256::new();
            hash.update(b"cairn provider key fingerprint 1\n");
            hash.update(key.expose_secret().as_bytes());
            hex::encode(&hash.finalize()[..8])
        }
    };
    let origin = base.origin().ascii_serialization();
    let path = base.path().trim_end_matches('/');
    format!(
        "{}|{origin}{path}|{}|{fingerprint}",
        api.name, config.upstream_model
    )
    .into()
}
