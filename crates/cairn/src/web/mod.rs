//! Services on the web that the server itself asks for a tool: a search, and the making of a picture.
//!
//! Owns their HTTP: one request an answer, bounded in time and size, no repeats. Must never know: tools, clients,
//! runs, models, or what an answer is used for.

mod http;
mod image;
mod search;

pub use image::{ImageRequest, ImageSize};
pub use search::Found;

use crate::config::{ConfigError, WebConfig};

/// The configured services; each may be absent.
#[derive(Debug, Default)]
pub struct WebServices {
    search: Option<search::SearchService>,
    images: Option<image::ImageService>,
}

impl WebServices {
    /// Makes the services that the configuration names.
    ///
    /// # Errors
    /// A service's address cannot be used.
    pub fn from_config(config: &WebConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            search: config
                .search
                .as_ref()
                .map(search::SearchService::new)
                .transpose()?,
            images: config.images.as_ref().map(image::ImageService::new).transpose()?,
        })
    }

    /// Searches the web; the best results first.
    ///
    /// # Errors
    /// See [`WebServiceError`].
    pub async fn search(&self, term: &str) -> Result<Vec<Found>, WebServiceError> {
        let service = self
            .search
            .as_ref()
            .ok_or(WebServiceError::NotConfigured { table: "web_search" })?;
        service.search(term).await
    }

    /// Makes a picture; the answer is the picture's file.
    ///
    /// # Errors
    /// See [`WebServiceError`].
    pub async fn image(&self, request: &ImageRequest) -> Result<Vec<u8>, WebServiceError> {
        let service = self.images.as_ref().ok_or(WebServiceError::NotConfigured {
            table: "image_generation",
        })?;
        service.make(request).await
    }
}

/// Why a service gave nothing. The text names the setting to look at and holds no key and no query.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WebServiceError {
    /// No such service is configured.
    #[error("this server has no such service: its configuration has no [{table}] table")]
    NotConfigured {
        /// The configuration's table.
        table: &'static str,
    },
    /// The service cannot be reached, or broke off.
    #[error("the service of [{table}] cannot be reached; check its base_url and that it runs")]
    Unreachable {
        /// The configuration's table.
        table: &'static str,
    },
    /// Nothing whole came in time.
    #[error("the service of [{table}] did not answer within {seconds} s; try again later")]
    Silent {
        /// The configuration's table.
        table: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The service refused.
    #[error("the service of [{table}] answered with status {status}: {mend}")]
    Refused {
        /// The configuration's table.
        table: &'static str,
        /// The HTTP status.
        status: u16,
        /// What to do about it.
        mend: &'static str,
    },
    /// The answer is not what such a service sends.
    #[error("the service of [{table}] answered with something else than {expected}; check its base_url")]
    Unreadable {
        /// The configuration's table.
        table: &'static str,
        /// What was expected.
        expected: &'static str,
    },
}
