//! Ids and names of calls in the characters that the API allows.
//!
//! A fixed function of the id or name alone, so that a call and its result, and every later request, agree. Must never
//! know: which tools exist.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// Longest id or name that goes out as it is.
const LONGEST: usize = 64;

/// Whether the API takes this name of a tool.
pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(is_plain)
}

/// A call's id: its own where the API takes it, as it does for every id that it made; else a hash of it.
pub(super) fn call_id(id: &str) -> Cow<'_, str> {
    if is_plain_word(id) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("call_{}", fingerprint(id, 16)))
}

/// The name that a call in the history was made with. A model may have written any; the API refuses most characters.
pub(super) fn call_name(name: &str) -> Cow<'_, str> {
    if is_tool_name(name) {
        return Cow::Borrowed(name);
    }
    let word: String = name
        .chars()
        .take(LONGEST - 9)
        .map(|c| {
            if u8::try_from(c).is_ok_and(is_plain) {
                c
            } else {
                '_'
            }
        })
        .collect();
    Cow::Owned(format!("{word}_{}", fingerprint(name, 4)))
}

fn is_plain_word(word: &str) -> bool {
    (1..=LONGEST).contains(&word.len()) && word.bytes().all(is_plain)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Changing this empties the caches of every conversation that holds such a call.
fn fingerprint(text: &str, bytes: usize) -> String {
    let mut hash = Sha256::new();
    hash.update(b"cairn tool call name 1\n");
    hash.update(text.as_bytes());
    hex::encode(&hash.finalize()[..bytes])
}

#[cfg(test)]
mod tests {
    use super::{call_id, call_name, is_tool_name};

    #[test]
    fn what_the_api_takes_goes_out_as_it_is() {
        assert_eq!(call_id("toolu_01A-b"), "toolu_01A-b");
        assert_eq!(call_name("mcp__a-b"), "mcp__a-b");
    }

    #[test]
    fn everything_else_gets_one_fixed_name_of_its_own() {
        // Pinned: other values would change the bytes of running conversations.
        assert_eq!(call_id("functions.Read:0"), PINNED_ID);
        assert_eq!(call_name("functions.Read"), PINNED_NAME);
        let long = "x".repeat(200);
        for odd in ["", "a|b", "a\nb", "文", &long] {
            for name in [call_id(odd), call_name(odd)] {
                assert!(is_tool_name(&name) && name.len() <= 64, "{odd:?} became {name}");
            }
            assert_eq!(call_id(odd), call_id(odd));
        }
        assert_ne!(call_id("a|b"), call_id("a:b"));
        assert_ne!(call_name("a.b"), call_name("a/b"));
    }

    const PINNED_ID: &str = "call_0206e966d237e543f698577bd8989ba7";
    const PINNED_NAME: &str = "functions_Read_0b8d1670";
}
