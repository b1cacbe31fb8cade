//! Ids and names of calls in the characters that the APIs allow.
//!
//! A fixed function of the id or name alone, so that a call and its result, and every later request, agree. Must never
//! know: which tools exist.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// Longest id that goes out as it is, and longest name that is made here.
const LONGEST: usize = 64;

/// Whether an API whose names have at most `longest` bytes takes this name of a tool.
pub(crate) fn is_tool_name(name: &str, longest: usize) -> bool {
    (1..=longest).contains(&name.len()) && name.bytes().all(is_plain)
}

/// A call's id for an API that takes only letters, digits, `_` and `-`: its own where it fits, else a hash of it.
pub(crate) fn plain_call_id(id: &str) -> Cow<'_, str> {
    if is_tool_name(id, LONGEST) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!(
        "call_{}",
        fingerprint("cairn tool call name 1\n", id, 16)
    ))
}

/// A call's id for an API that takes all visible ASCII: its own where it fits, as the ids of all known endpoints do, else
/// a hash of it.
pub(crate) fn call_id(id: &str) -> Cow<'_, str> {
    if (1..=LONGEST).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("call_{}", fingerprint("cairn call id 1\n", id, 16)))
}

/// The name that a call in the history was made with. A model may have written any; the APIs refuse most characters.
pub(crate) fn call_name(name: &str, longest: usize) -> Cow<'_, str> {
    if is_tool_name(name, longest) {
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
    Cow::Owned(format!(
        "{word}_{}",
        fingerprint("cairn tool call name 1\n", name, 4)
    ))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Changing this empties the caches of every conversation that holds such a call.
fn fingerprint(kind: &str, text: &str, bytes: usize) -> String {
    let mut hash = Sha256::new();
    hash.update(kind.as_bytes());
    hash.update(text.as_bytes());
    hex::encode(&hash.finalize()[..bytes])
}

#[cfg(test)]
mod tests {
    use super::{call_id, call_name, is_tool_name, plain_call_id};

    #[test]
    fn what_an_api_takes_goes_out_as_it_is() {
        assert_eq!(plain_call_id("toolu_01A-b"), "toolu_01A-b");
        for id in ["functions.Read:0", "call_1|fc_2", &"x".repeat(64)] {
            assert_eq!(call_id(id), id);
        }
        assert_eq!(call_name("mcp__a-b", 64), "mcp__a-b");
        assert_eq!(call_name(&"x".repeat(128), 128), "x".repeat(128));
    }

    #[test]
    fn everything_else_gets_one_fixed_name_of_its_own() {
        // Pinned: other values would change the bytes of running conversations.
        assert_eq!(
            plain_call_id("functions.Read:0"),
            "call_0206e966d237e543f698577bd8989ba7"
        );
        assert_eq!(call_id("a\nb"), PINNED_ID);
        assert_eq!(call_name("functions.Read", 64), "functions_Read_0b8d1670");
        let long = "x".repeat(200);
        for odd in ["", "a b", "a\nb", "文", &long] {
            for name in [
                plain_call_id(odd),
                call_id(odd),
                call_name(odd, 64),
                call_name(odd, 128),
            ] {
                assert!(is_tool_name(&name, 64), "{odd:?} became {name}");
            }
        }
        assert_ne!(plain_call_id("a|b"), plain_call_id("a:b"));
        assert_ne!(call_id("a b"), call_id("a\tb"));
        assert_ne!(call_name("a.b", 64), call_name("a/b", 64));
        let too_long = "x".repeat(65);
        assert_ne!(call_name(&too_long, 64), too_long);
    }

    const PINNED_ID: &str = "call_2e7d709af3ecdc6acb36fc50fdf8efad";
}
