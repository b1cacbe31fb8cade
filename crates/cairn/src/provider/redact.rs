//! Words of an endpoint made fit to be shown and logged: no secret, no control character, bounded.
//!
//! Must never know: where the words came from.

use secrecy::{ExposeSecret, SecretString};

const MASK: &str = "[redacted]";
/// Anything shorter is no secret, and masking it would garble ordinary words.
const SHORTEST_SECRET: usize = 4;
/// Query parameters whose values are secrets wherever they occur.
const SECRET_PARAMETERS: [&str; 6] = ["key", "api_key", "apikey", "api-key", "access_token", "token"];

/// Knows an endpoint's secrets and takes them out of text.
#[derive(Default)]
pub(crate) struct Redactor {
    /// Longest first, so that a secret that contains another one goes whole.
    secrets: Vec<SecretString>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

impl Redactor {
    /// Adds a secret.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() >= SHORTEST_SECRET {
            self.secrets.push(SecretString::from(secret));
            self.secrets
                .sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        }
    }

    /// Bytes of the longest secret: what the cut end of a text may still hold of one.
    pub(crate) fn longest(&self) -> usize {
        self.secrets
            .first()
            .map_or(0, |secret| secret.expose_secret().len())
    }

    /// The text without secrets and control characters, in at most about `limit` bytes.
    ///
    /// The order matters: control characters go first because one could split a key, the bound comes last because it
    /// could leave half of one.
    pub(crate) fn clean(&self, text: &str, limit: usize) -> String {
        let mut clean = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '\n' | '\r' | '\t' if !clean.ends_with(' ') => clean.push(' '),
                character if is_unprintable(character) => {}
                character => clean.push(character),
            }
        }
        for secret in &self.secrets {
            let secret = secret.expose_secret();
            if clean.contains(secret) {
                clean = clean.replace(secret, MASK);
            }
        }
        let clean = mask_parameters(&mask_userinfo(&clean));
        bound(clean.trim(), limit)
    }
}

/// Whether the value of a query parameter with this name is a secret.
pub(crate) fn is_secret_parameter(name: &str) -> bool {
    SECRET_PARAMETERS
        .iter()
        .any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Control characters, and the invisible ones that reorder text.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}')
}

/// Takes `user:password@` out of every URL in the text.
fn mask_userinfo(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        masked.push_str(before);
        let authority = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>'))
            .unwrap_or(after.len());
        let host = after[..authority].rfind('@').map_or(0, |at| at + 1);
        rest = &after[host..];
    }
    masked.push_str(rest);
    masked
}

/// Masks the values of secret parameters in every query in the text.
fn mask_parameters(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['?', '&']) {
        let (before, after) = rest.split_at(at + 1);
        masked.push_str(before);
        rest = after;
        let Some((name, value)) = after.split_once('=') else {
            continue;
        };
        if is_secret_parameter(name) {
            let end = value
                .find(|c: char| {
                    c.is_whitespace() || matches!(c, '&' | '#' | '"' | '\'' | '<' | '>' | ')' | ',')
                })
                .unwrap_or(value.len());
            masked.push_str(name);
            masked.push('=');
            masked.push_str(MASK);
            rest = &value[end..];
        }
    }
    masked.push_str(rest);
    masked
}

fn bound(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::Redactor;

    fn check(text: &str, expected: &str) {
        let mut redactor = Redactor::default();
        redactor.add("sk-CANARY");
        redactor.add("sk-CANARY-123");
        assert_eq!(redactor.clean(text, 200), expected);
    }

    #[test]
    fn secrets_parameters_and_user_parts_are_masked() {
        check("bad key sk-CANARY-123!", "bad key [redacted]!");
        check("split sk-CAN\u{0}ARY-123", "split [redacted]");
        check(
            "at https://me:pw@host/v1?a=1&KEY=abc&b=2 now",
            "at https://host/v1?a=1&KEY=[redacted]&b=2 now",
        );
        check("line\r\none\u{1b}[0m", "line one[0m");
    }

    #[test]
    fn a_bound_never_leaves_half_a_secret() {
        let mut redactor = Redactor::default();
        redactor.add("sk-CANARY-123");
        assert_eq!(redactor.clean("12345678 sk-CANARY-123", 12), "12345678 [re…");
        assert_eq!(redactor.clean("ééé", 3), "é…");
    }
}
