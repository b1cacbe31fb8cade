//! Web search: SearXNG's and Brave's HTTP interfaces in one form. Must never know: who asks.
//!
//! SearXNG: `GET /search?q=…&format=json`, results as `{title, url, content}`; the instance must allow the format.
//! Brave: `GET /web/search?q=…&count=…` with `X-Subscription-Token`, results as `{title, url, description}` under
//! `web.results`. [both services' documentation]

use std::time::Duration;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::WebServiceError;
use super::http::Service;
use crate::config::{ConfigError, SearchProvider, WebSearchConfig};

const TABLE: &str = "web_search";
const LIMIT: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 4 * 1024 * 1024;
/// Results that are kept of an answer.
const RESULTS: usize = 10;

/// One result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The page's title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// The passage that fits; may be empty.
    pub passage: String,
}

/// A configured search service.
#[derive(Debug)]
pub(super) struct SearchService {
    service: Service,
    provider: SearchProvider,
    key: Option<SecretString>,
}

#[derive(Deserialize)]
struct SearxngAnswer {
    results: Vec<SearxngResult>,
}

#[derive(Deserialize)]
struct SearxngResult {
    title: String,
    url: String,
    content: Option<String>,
}

#[derive(Deserialize)]
struct BraveAnswer {
    /// Absent where nothing was found.
    web: Option<BraveResults>,
}

#[derive(Deserialize)]
struct BraveResults {
    results: Vec<BraveResult>,
}

#[derive(Deserialize)]
struct BraveResult {
    title: String,
    url: String,
    description: Option<String>,
}

impl SearchService {
    pub(super) fn new(config: &WebSearchConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            service: Service::new(TABLE, &config.base_url, LIMIT, LARGEST_ANSWER)?,
            provider: config.provider,
            key: config.api_key.clone(),
        })
    }

    pub(super) async fn search(&self, term: &str) -> Result<Vec<Found>, WebServiceError> {
        let found = match self.provider {
            SearchProvider::Searxng => self.searxng(term).await,
            SearchProvider::Brave => self.brave(term).await,
        };
        found.map(|mut found| {
            found.truncate(RESULTS);
            found
        })
    }

    async fn searxng(&self, term: &str) -> Result<Vec<Found>, WebServiceError> {
        const EXPECTED: &str = "the JSON of a SearXNG search";
        let mut url = self.service.url("search");
        url.query_pairs_mut()
            .append_pair("q", term)
            .append_pair("format", "json");
        let mut request = self.service.client().get(url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let body = self.service.exchange(request, EXPECTED).await?;
        let answer: SearxngAnswer =
            serde_json::from_slice(&body).map_err(|_| self.service.unreadable(EXPECTED))?;
        let found = |result: SearxngResult| Found {
            title: result.title,
            url: result.url,
            passage: result.content.unwrap_or_default(),
        };
        Ok(answer.results.into_iter().map(found).collect())
    }

    async fn brave(&self, term: &str) -> Result<Vec<Found>, WebServiceError> {
        const EXPECTED: &str = "the JSON of a Brave search";
        let mut url = self.service.url("web/search");
        url.query_pairs_mut()
            .append_pair("q", term)
            .append_pair("count", &RESULTS.to_string())
            // Otherwise the passages hold markup around the words that fit.
            .append_pair("text_decorations", "false");
        let mut request = self
            .service
            .client()
            .get(url)
            .header(http::header::ACCEPT, "application/json");
        if let Some(key) = &self.key {
            let mut value =
                HeaderValue::from_str(key.expose_secret()).map_err(|_| WebServiceError::Refused {
                    table: TABLE,
                    status: 401,
                    mend: "check its key",
                })?;
            value.set_sensitive(true);
            request = request.header("x-subscription-token", value);
        }
        let body = self.service.exchange(request, EXPECTED).await?;
        let answer: BraveAnswer =
            serde_json::from_slice(&body).map_err(|_| self.service.unreadable(EXPECTED))?;
        let found = |result: BraveResult| Found {
            title: result.title,
            url: result.url,
            passage: result.description.unwrap_or_default(),
        };
        let results = answer.web.map(|web| web.results).unwrap_or_default();
        Ok(results.into_iter().map(found).collect())
    }
}
