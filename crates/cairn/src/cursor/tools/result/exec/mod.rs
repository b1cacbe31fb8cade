//! Results of single execs, one file a kind. Must never know: exec ids.

pub(in super::super) mod await_shell;
pub(in super::super) mod delete;
pub(in super::super) mod edit;
pub(in super::super) mod lints;
pub(in super::super) mod mcp;
pub(in super::super) mod mcp_resource;
pub(in super::super) mod mcp_state;
mod notebook_view;
pub(in super::super) mod read;
pub(in super::super) mod search;
pub(in super::super) mod shell;
pub(in super::super) mod task;

/// "1 line", "2 lines".
pub(in super::super) fn counted(count: impl Into<i64>, noun: &str) -> String {
    let count = count.into();
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// What the client gave as its reason, as the end of a sentence.
pub(in super::super) fn because(reason: &str) -> String {
    match reason.trim() {
        "" => ".".to_owned(),
        reason => format!(": {reason}"),
    }
}
