//! How this program speaks HTTP to a service that the configuration names: to that address only, and each request once.
//!
//! Must never know: who is asked, for what, or when a request is worth repeating.

use std::error::Error;
use std::time::Duration;

use reqwest::ClientBuilder;
use url::{Host, Url};

/// A client for the service at `address`, to be built by the caller; `connect_timeout` bounds how long a connection may
/// take to come about.
pub(crate) fn builder(address: &Url, connect_timeout: Duration) -> ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("cairn/", env!("CARGO_PKG_VERSION")))
        // A redirect would carry the key, and what is said, to an address that nobody configured.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect_timeout)
        // Repeats are the caller's decision alone; a hidden one would break "exactly one request".
        .retry(reqwest::retry::never());
    match (is_loopback(address), address.scheme()) {
        (false, _) => builder,
        // Nothing here can need a certificate, and reading the system's takes longer than all the rest of a start.
        (true, "http") => builder.no_proxy().tls_certs_only([]),
        (true, _) => builder.no_proxy(),
    }
}

/// Whether an address is on this machine, where a proxy must never stand between.
fn is_loopback(address: &Url) -> bool {
    match address.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        None => false,
    }
}

/// An error with its causes in one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = error.to_string();
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn this_machine_is_known_by_each_of_its_names() {
        let is_here = |address: &str| is_loopback(&address.parse().unwrap());
        for address in [
            "http://localhost",
            "https://LOCALHOST.:8/v1",
            "http://engine.localhost",
            "http://127.9.9.9",
            "http://[::1]:8080",
            "http://[::ffff:127.0.0.1]",
        ] {
            assert!(is_here(address), "{address}");
        }
        for address in [
            "http://localhost.example",
            "http://notlocalhost",
            "http://128.0.0.1",
            "http://[::2]",
            "http://[::ffff:10.0.0.1]",
        ] {
            assert!(!is_here(address), "{address}");
        }
    }
}
