//! What a call's argument text says: nothing, something, or no JSON at all.
//!
//! Must never know: how an endpoint sends arguments.

use serde::de::IgnoredAny;

use super::stream_text::PendingHalf;

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
    match serde_json::from_str::<IgnoredAny>(arguments) {
        Ok(_) => Ok(()),
        Err(fault) => Err(format!(
            "the arguments of tool call {index} ({name}) are no valid JSON: {fault}"
        )),
    }
}
