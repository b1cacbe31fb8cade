//! Who may speak to this server: the client key, and the tokens that it is exchanged for.
//!
//! Owns making and checking them, in constant time. Must never know: where the key is kept, or how it got here.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Tokens name an expiry because clients read it; they hold as long as the key does. 2100-01-01 in Unix seconds.
const EXPIRES: u64 = 4_102_444_800;

/// The client key and its tokens.
///
/// The tokens are derived from the key, so they outlive a restart and end with the key.
pub struct ClientKeys {
    access_token: SecretString,
    refresh_token: SecretString,
    client_key_digest: [u8; 32],
    access_token_digest: [u8; 32],
}

impl fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKeys").finish_non_exhaustive()
    }
}

/// What a bearer has shown to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bearer {
    /// The client key itself.
    ClientKey,
    /// The access token that the key was exchanged for.
    AccessToken,
}

impl ClientKeys {
    /// The keys that go with this client key.
    pub fn new(client_key: &SecretString) -> Self {
        let access_token = token(client_key, "access");
        let refresh_token = token(client_key, "refresh");
        Self {
            client_key_digest: digest(client_key.expose_secret()),
            access_token_digest: digest(&access_token),
            access_token: access_token.into(),
            refresh_token: refresh_token.into(),
        }
    }

    /// What the client presents from now on.
    pub fn access_token(&self) -> &SecretString {
        &self.access_token
    }

    /// What the client keeps to renew the access token; nothing else accepts it.
    pub fn refresh_token(&self) -> &SecretString {
        &self.refresh_token
    }

    /// Who speaks in a request with these headers; `None` for a stranger.
    pub fn bearer(&self, headers: &HeaderMap) -> Option<Bearer> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = values.next()?.to_str().ok()?;
        if values.next().is_some() {
            return None;
        }
        let (scheme, presented) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        // Digests have one length, so the comparison takes the same time for every guess.
        let presented = digest(presented.trim());
        let is_key = presented.ct_eq(&self.client_key_digest);
        let is_token = presented.ct_eq(&self.access_token_digest);
        if is_key.into() {
            Some(Bearer::ClientKey)
        } else if is_token.into() {
            Some(Bearer::AccessToken)
        } else {
            None
        }
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// A signed token in the usual three parts, because clients look into the middle one.
fn token(client_key: &SecretString, kind: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let claims = format!(r#"{{"iss":"cairn","sub":"cairn|local","type":"{kind}","iat":0,"exp":{EXPIRES}}}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
    // Hashed first, so that the key has the length that HMAC takes without a case of failure.
    let mut mac = Hmac::<Sha256>::new(&digest_key(client_key));
    mac.update(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn digest_key(client_key: &SecretString) -> hmac::digest::Key<Hmac<Sha256>> {
    let mut key = hmac::digest::Key::<Hmac<Sha256>>::default();
    let (head, _) = key.split_at_mut(32);
    head.copy_from_slice(&digest(client_key.expose_secret()));
    key
}
