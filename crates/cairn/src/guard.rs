//! Keeps web pages out: what a browser can be made to send to a loopback server is refused on every route.
//!
//! Owns the allow-lists of Host and Origin and the methods that are never served. Must never know: any route.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Method, StatusCode};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Which names this server answers to.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    listen: SocketAddr,
}

/// Why a request is refused. The texts go to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The method is only useful to web pages and tunnels.
    #[error("this method is not served")]
    Method,
    /// No Host, several, or one that is not this server.
    #[error("the Host header must be localhost or this server's address, with its port")]
    Host,
    /// The request comes from a web page of another origin.
    #[error("requests from web pages are not served")]
    Origin,
}

impl Guard {
    /// A guard for a server that listens there; the port is the bound one, never 0.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen }
    }

    /// Checks what the request says about its caller.
    ///
    /// # Errors
    /// The first [`Refusal`] that applies.
    pub fn check(&self, request: &http::request::Parts) -> Result<(), Refusal> {
        if [Method::OPTIONS, Method::TRACE, Method::CONNECT].contains(&request.method) {
            return Err(Refusal::Method);
        }
        let host = single(&request.headers, &HOST)
            .map_err(|()| Refusal::Host)?
            .ok_or(Refusal::Host)?;
        let authority = request.uri.authority().map(http::uri::Authority::as_str);
        if !self.is_own_host(host) || authority.is_some_and(|authority| !self.is_own_host(authority)) {
            return Err(Refusal::Host);
        }
        let origin = single(&request.headers, &ORIGIN).map_err(|()| Refusal::Origin)?;
        if origin.is_some_and(|origin| !self.is_own_origin(origin)) {
            return Err(Refusal::Origin);
        }
        match single(&request.headers, &SEC_FETCH_SITE).map_err(|()| Refusal::Origin)? {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => Err(Refusal::Origin),
        }
    }

    /// A host of this server with its port, or without one.
    fn is_own_host(&self, text: &str) -> bool {
        match split_port(text) {
            Some((host, None)) => self.is_own_name(host),
            Some((host, Some(port))) => port == self.listen.port() && self.is_own_name(host),
            None => false,
        }
    }

    /// An origin without a port is port 80, another server unless this one listens there.
    fn is_own_origin(&self, origin: &str) -> bool {
        origin
            .strip_prefix("http://")
            .and_then(split_port)
            .is_some_and(|(host, port)| port.unwrap_or(80) == self.listen.port() && self.is_own_name(host))
    }

    fn is_own_name(&self, host: &str) -> bool {
        if host.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let literal = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner.parse().map(IpAddr::V6),
            None => host.parse().map(IpAddr::V4),
        };
        literal.is_ok_and(|address| address.is_loopback() || address == self.listen.ip())
    }
}

/// Refuses what [`Guard::check`] refuses, before any route sees it.
pub async fn refuse_strangers(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match guard.check(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => {
            tracing::debug!(%refusal, "request refused");
            let status = match refusal {
                Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
                Refusal::Host | Refusal::Origin => StatusCode::FORBIDDEN,
            };
            (status, format!("{refusal}\n")).into_response()
        }
    }
}

/// The header's one value as text; several or unreadable ones are an error.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`; `None` when the port is none.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let after_host = match text.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at_checked(after_host)?;
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((host, None)),
        None => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().map(|port| (host, Some(port)))
        }
        Some(_) => None,
    }
}
