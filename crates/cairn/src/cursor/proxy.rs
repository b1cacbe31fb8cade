//! Forwards what cairn does not serve to the configured upstream, streamed both ways.
//!
//! Owns the rules of forwarding: everything end-to-end stays as it is. Must never know: what is forwarded.

use std::error::Error as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CONNECTION, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};
use http_body::Body as _;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

/// How long a connection to the upstream may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Headers that belong to one connection and not to the message.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Where unmatched routes go.
#[derive(Clone, Debug)]
pub struct Upstream {
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    transport: Transport,
}

/// Certificates are read only where they are needed: a machine without any can still forward to a plain address.
#[derive(Clone, Debug)]
enum Transport {
    Plain(Client<HttpConnector, Body>),
    Tls(Client<HttpsConnector<HttpConnector>, Body>),
}

/// Why an upstream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The address is not `http://HOST[:PORT]` or `https://HOST[:PORT]`.
    #[error("upstream must be http:// or https:// with a host and nothing else")]
    Address,
    /// The machine's certificates cannot be read.
    #[error("the certificates of this machine cannot be read: {0}")]
    Certificates(std::io::Error),
}

impl Upstream {
    /// Prepares to forward to this address; connects only when there is something to forward.
    ///
    /// # Errors
    /// See [`UpstreamError`].
    pub fn new(url: &Url) -> Result<Self, UpstreamError> {
        let host = url.host_str().ok_or(UpstreamError::Address)?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let (scheme, transport) = match url.scheme() {
            "http" => (Scheme::HTTP, Transport::Plain(client().build(connector()))),
            "https" => {
                let mut connector = connector();
                connector.enforce_http(false);
                let connector = hyper_rustls::HttpsConnectorBuilder::new()
                    .with_native_roots()
                    .map_err(UpstreamError::Certificates)?
                    .https_only()
                    .enable_http1()
                    .wrap_connector(connector);
                (Scheme::HTTPS, Transport::Tls(client().build(connector)))
            }
            _ => return Err(UpstreamError::Address),
        };
        Ok(Self {
            scheme,
            host: HeaderValue::from_str(&authority).map_err(|_| UpstreamError::Address)?,
            authority: authority.parse().map_err(|_| UpstreamError::Address)?,
            transport,
        })
    }

    /// Sends the request on and hands its response back, both as streams.
    pub async fn forward(&self, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().cloned();
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
            .build();
        let Ok(uri) = uri else {
            return (StatusCode::BAD_REQUEST, "the path cannot be forwarded\n").into_response();
        };
        parts.uri = uri;
        parts.version = Version::HTTP_11;
        drop_hop_by_hop(&mut parts.headers);
        parts.headers.insert(HOST, self.host.clone());
        // A body that is known to be empty must stay absent, not become an empty chunked one.
        let body = if body.is_end_stream() { Body::empty() } else { body };
        let request = Request::from_parts(parts, body);
        let response = match &self.transport {
            Transport::Plain(client) => client.request(request).await,
            Transport::Tls(client) => client.request(request).await,
        };
        match response {
            Ok(response) => {
                let (mut parts, body) = response.into_parts();
                drop_hop_by_hop(&mut parts.headers);
                parts.version = Version::HTTP_11;
                Response::from_parts(parts, Body::new(body))
            }
            Err(error) => {
                // The error's causes name addresses and system errors, never what was sent.
                let cause = error
                    .source()
                    .map_or_else(|| error.to_string(), ToString::to_string);
                tracing::warn!(upstream = %self.authority, cause, "the upstream could not be reached");
                let text = "the configured upstream could not be reached; check `upstream` and the network\n";
                (StatusCode::BAD_GATEWAY, text).into_response()
            }
        }
    }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIME));
    connector
}

fn client() -> hyper_util::client::legacy::Builder {
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_timer(TokioTimer::new());
    client
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}
