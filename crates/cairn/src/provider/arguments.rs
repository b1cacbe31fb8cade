//! When a call's argument text says nothing.
//!
//! Must never know: how an endpoint sends arguments.

/// Whether a call's whole argument text says nothing, and so stands for `{}`.
pub(crate) fn is_empty(arguments: &str) -> bool {
    matches!(arguments.trim(), "" | "null")
}

/// Whether the text so far may turn out to be empty in that sense; it is held back until that is known.
pub(crate) fn may_be_empty(arguments: &str) -> bool {
    "null".starts_with(arguments.trim())
}
