//! What a call's argument text says: nothing, something, or no JSON at all.
//!
//! Must never know: how an endpoint sends arguments.

use serde::de::IgnoredAny;

use super::stream_text::{LoneHalf, PendingHalf};

/// Whether a call's whole argument text says nothing, and so stands for `{}`.
pub(crate) fn is_empty(arguments: &str) -> bool {
    matches!(arguments.trim(), "" | "null")
}

/// Whether the text so far may turn out to be empty in that sense; it is held back until that is known.
pub(crate) fn may_be_empty(arguments: &str) -> bool {
    "null".starts_with(arguments.trim())
}

/// The arguments of a call that is whole by the endpoint's word: an empty text becomes `{}`, here and once, so that
/// execution, storage and replay all see the same. `half` is what the text still lacks of its last piece. Errors say what
/// the endpoint did wrong, without a word of the arguments.
pub(crate) fn close(
    index: usize,
    name: &str,
    arguments: &mut String,
    half: &PendingHalf,
) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("tool call {index} has no name"));
    }
    half.finish()
        .map_err(|fault| fault.in_channel(&format!("the arguments of tool call {index} ({name})")))?;
    if is_empty(arguments) {
        "{}".clone_into(arguments);
        return Ok(());
    }
    check(arguments).map_err(|fault| format!("the arguments of tool call {index} ({name}) are {fault}"))
}

/// Fails with what is wrong with an argument text, as the end of a sentence and without a word of the text.
pub(crate) fn check(arguments: &str) -> Result<(), String> {
    serde_json::from_str::<IgnoredAny>(arguments).map_err(|fault| format!("no valid JSON: {fault}"))?;
    match has_lone_half(arguments) {
        // It stands for no text at all. Strict endpoints refuse every later request that holds such a call.
        true => Err(format!("no valid JSON: {LoneHalf}")),
        false => Ok(()),
    }
}

/// Whether a string of this JSON text has an escape for half of a surrogate pair without the other half.
fn has_lone_half(json: &str) -> bool {
    let mut rest = json;
    let mut high = false;
    while let Some(at) = rest.find('\\') {
        if high && at > 0 {
            return true;
        }
        let escape = &rest[at + 1..];
        let unit = escape.strip_prefix('u').and_then(|digits| digits.get(..4));
        let unit = unit.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let is_low = unit.is_some_and(|unit| (0xDC00..0xE000).contains(&unit));
        if high != is_low {
            return true;
        }
        high = unit.is_some_and(|unit| (0xD800..0xDC00).contains(&unit));
        rest = escape
            .get(if unit.is_some() { 5 } else { 1 }..)
            .unwrap_or_default();
    }
    high
}

#[cfg(test)]
mod tests {
    use super::has_lone_half;

    #[test]
    fn half_a_pair_is_told_from_a_whole_one() {
        for whole in [
            "{}",
            r#""\ud83d\ude00""#,
            r#""\uD83D\uDE00x\ud83c\udf0d""#,
            r#""\\ud83d""#,
            r#""\u00e9 \n \" é😀""#,
        ] {
            assert!(!has_lone_half(whole), "{whole}");
        }
        for lone in [
            r#""\ud83d""#,
            r#""\ude00""#,
            r#""\ud83dx\ude00""#,
            r#""\ud83d\n""#,
            r#""\ud83d\ud83d\ude00""#,
            r#""\\\ud83d""#,
            r#"["\ud83d","\ude00"]"#,
        ] {
            assert!(has_lone_half(lone), "{lone}");
        }
    }
}
