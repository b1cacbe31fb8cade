//! Keeps a request's own credentials out of what is written of it.
//!
//! No header and no query is ever written; a conversation may still repeat the key that its host was given, read from a file
//! of settings for instance. Owns which values are credentials. Must never know: what a body says otherwise.

use http::{HeaderMap, Uri};
use url::form_urlencoded;

/// Shorter values are no keys, and would be found in ordinary words.
const LEAST: usize = 8;

/// Overwrites, in a body that is to be written down, each credential that the request itself carries. As many asterisks
/// stand for it, so that nothing else moves.
pub(super) fn blot_out(body: &mut [u8], headers: &HeaderMap, uri: &Uri) {
    for secret in of_headers(headers).chain(of_query(uri)) {
        if secret.len() < LEAST {
            continue;
        }
        let places: Vec<usize> = memchr::memmem::find_iter(body, &secret).collect();
        for place in places {
            body[place..place + secret.len()].fill(b'*');
        }
    }
}

/// The values of headers that carry credentials, without the word for their scheme.
fn of_headers(headers: &HeaderMap) -> impl Iterator<Item = Vec<u8>> {
    headers
        .iter()
        .filter(|(name, _)| is_credential(name.as_str()))
        .map(|(_, value)| {
            let value = value.as_bytes().trim_ascii();
            let start = value
                .iter()
                .position(|byte| *byte == b' ')
                .map_or(0, |space| space + 1);
            value[start..].trim_ascii().to_vec()
        })
}

fn of_query(uri: &Uri) -> impl Iterator<Item = Vec<u8>> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .filter(|(name, _)| is_credential(name))
        .map(|(_, value)| value.into_owned().into_bytes())
}

fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "key", "token", "secret", "cookie", "signature"]
        .iter()
        .any(|word| name.contains(word))
}
