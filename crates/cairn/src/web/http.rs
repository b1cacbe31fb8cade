//! One bounded HTTP exchange with a service. Must never know: what is asked.

use std::time::Duration;

use bytes::BytesMut;
use reqwest::{Client, RequestBuilder, Url};

use super::WebServiceError;
use crate::config::ConfigError;
use crate::http_client;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Where a service is and how long it may take.
#[derive(Debug)]
pub(super) struct Service {
    client: Client,
    base_url: Url,
    table: &'static str,
    limit: Duration,
    /// Most bytes of an answer.
    largest: usize,
}

impl Service {
    pub(super) fn new(
        table: &'static str,
        base_url: &Url,
        limit: Duration,
        largest: usize,
    ) -> Result<Self, ConfigError> {
        let client = http_client::builder(base_url, CONNECT_TIMEOUT)
            .build()
            .map_err(|_| {
                ConfigError::new(
                    format!("{table}.base_url"),
                    "cannot be served by this machine's TLS or proxy settings; check them",
                )
            })?;
        Ok(Self {
            client,
            base_url: base_url.clone(),
            table,
            limit,
            largest,
        })
    }

    /// The address of a path below the base.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        let joined = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&joined);
        url
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn unreadable(&self, expected: &'static str) -> WebServiceError {
        WebServiceError::Unreadable {
            table: self.table,
            expected,
        }
    }

    /// Sends the request and reads a successful answer whole. `expected` names what an answer is.
    pub(super) async fn exchange(
        &self,
        request: RequestBuilder,
        expected: &'static str,
    ) -> Result<Vec<u8>, WebServiceError> {
        tokio::time::timeout(self.limit, self.read(request, expected))
            .await
            .unwrap_or(Err(WebServiceError::Silent {
                table: self.table,
                seconds: self.limit.as_secs(),
            }))
    }

    async fn read(
        &self,
        request: RequestBuilder,
        expected: &'static str,
    ) -> Result<Vec<u8>, WebServiceError> {
        let unreachable = |_| WebServiceError::Unreachable { table: self.table };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if !status.is_success() {
            return Err(WebServiceError::Refused {
                table: self.table,
                status: status.as_u16(),
                mend: mend_of(status.as_u16()),
            });
        }
        let mut body = BytesMut::new();
        while let Some(piece) = response.chunk().await.map_err(unreachable)? {
            if body.len() + piece.len() > self.largest {
                return Err(self.unreadable(expected));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.into())
    }
}

fn mend_of(status: u16) -> &'static str {
    match status {
        401 => "check its key",
        402 | 403 => "it does not allow this; check its key, its plan, and that it may answer in JSON",
        404 | 405 => "check its base_url",
        400 | 422 => "it does not take this request; say it differently, or check its model",
        429 => "it asks for fewer requests; try again later",
        500.. => "it has a fault of its own; try again later",
        _ => "check its base_url",
    }
}
