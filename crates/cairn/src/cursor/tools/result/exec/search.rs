//! Results of Grep and Glob. The client lists everything; the window that the model asked for is cut here, once, for
//! the card and the model alike. Must never know: exec ids.

use std::fmt::Write as _;

use super::super::super::arguments::GlobArguments;
use super::super::super::codec::card::glob_card_args;
use super::super::{ModelText, Outcome};
use super::counted;
use crate::cursor::proto::agent::{
    GlobToolCall, GlobToolError, GlobToolResult, GlobToolSuccess, GrepArgs, GrepContentResult,
    GrepCountResult, GrepFilesResult, GrepResult, GrepSuccess, GrepToolCall, GrepUnionResult,
    glob_tool_result, grep_result, grep_union_result, tool_call::Tool,
};

/// The note for a list that the client itself cut to `listed` entries, with how many it had found, if it says so.
fn cut_by_client(listed: usize, found: i32, noun: &str) -> String {
    let of = match usize::try_from(found) {
        Ok(all) if all > listed => format!(" of {}", counted(found, noun)),
        _ => String::new(),
    };
    format!("[The client cut this list{of}: narrow the search to see the rest.]\n")
}

/// What Grep found.
pub(in super::super::super) fn grep(args: GrepArgs, result: grep_result::Result) -> Outcome {
    let mut window = Window::of(&args);
    let card = |result| {
        Tool::GrepToolCall(GrepToolCall {
            args: Some(args),
            result: Some(GrepResult { result: Some(result) }),
        })
    };
    match result {
        grep_result::Result::Error(error) => {
            let text = format!("The search failed: {}", error.error.trim_end());
            Outcome::error(card(grep_result::Result::Error(error)), text)
        }
        grep_result::Result::Success(mut success) => {
            let text = listing(&mut success, &mut window);
            let text = match text.is_empty() {
                true => "Nothing found.".to_owned(),
                false => text,
            };
            Outcome::success(card(grep_result::Result::Success(success)), ModelText::new(&text))
        }
    }
}

/// The part of a list that the model asked for; runs over all groups of a result.
struct Window {
    /// Entries still to be left out.
    skip: usize,
    /// Entries still to be shown; None = all.
    take: Option<usize>,
    limit: Option<i32>,
    offset: Option<i32>,
}

impl Window {
    fn of(args: &GrepArgs) -> Self {
        Self {
            skip: usize::try_from(args.offset()).unwrap_or_default(),
            take: args.head_limit.and_then(|limit| usize::try_from(limit).ok()),
            limit: args.head_limit,
            offset: args.offset,
        }
    }

    /// Whether the client has cut the window already.
    fn done_by(&self, head_limit: Option<i32>, offset: Option<i32>) -> bool {
        (self.limit.is_none() || head_limit.is_some()) && (self.offset.is_none() || offset.is_some())
    }

    fn admits(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.take {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

fn listing(success: &mut GrepSuccess, window: &mut Window) -> String {
    let mut text = String::new();
    let editor = success
        .active_editor_result
        .as_mut()
        .map(|found| ("the open editor", found));
    let roots = success
        .workspace_results
        .iter_mut()
        .map(|(root, found)| (root.as_str(), found));
    for (place, found) in roots.chain(editor) {
        let group = match &mut found.result {
            Some(grep_union_result::Result::Files(files)) => list_files(files, window),
            Some(grep_union_result::Result::Count(counts)) => list_counts(counts, window),
            Some(grep_union_result::Result::Content(content)) => list_content(content, window),
            None => continue,
        };
        if !group.is_empty() {
            let _ = write!(text, "In {place}:\n{group}");
        }
    }
    text
}

fn list_files(found: &mut GrepFilesResult, window: &mut Window) -> String {
    let all = found.files.len();
    if !window.done_by(found.head_limit_applied, found.offset_applied) {
        found.files.retain(|_| window.admits());
        (found.head_limit_applied, found.offset_applied) = (window.limit, window.offset);
    }
    let mut text = String::new();
    for file in &found.files {
        let _ = writeln!(text, "{}", shown_path(file));
    }
    text + &footer(
        found.files.len(),
        all,
        "file",
        (found.client_truncated || found.ripgrep_truncated).then_some(found.total_files),
    )
}

fn list_counts(found: &mut GrepCountResult, window: &mut Window) -> String {
    let all = found.counts.len();
    if !window.done_by(found.head_limit_applied, found.offset_applied) {
        found.counts.retain(|_| window.admits());
        (found.head_limit_applied, found.offset_applied) = (window.limit, window.offset);
    }
    let mut text = String::new();
    for entry in &found.counts {
        let _ = writeln!(text, "{}: {}", shown_path(&entry.file), entry.count);
    }
    if all > 0 {
        let lines = counted(found.total_matches, "line");
        let _ = writeln!(text, "[{lines} in {}.]", counted(found.total_files, "file"));
    }
    text + &footer(
        found.counts.len(),
        all,
        "file",
        (found.client_truncated || found.ripgrep_truncated).then_some(found.total_files),
    )
}

fn list_content(found: &mut GrepContentResult, window: &mut Window) -> String {
    let lines =
        |found: &GrepContentResult| found.matches.iter().map(|file| file.matches.len()).sum::<usize>();
    let all = lines(found);
    if !window.done_by(found.head_limit_applied, found.offset_applied) {
        for file in &mut found.matches {
            file.matches.retain(|_| window.admits());
        }
        found.matches.retain(|file| !file.matches.is_empty());
        (found.head_limit_applied, found.offset_applied) = (window.limit, window.offset);
    }
    let mut text = String::new();
    for file in &found.matches {
        let _ = writeln!(text, "{}", shown_path(&file.file));
        let mut last = None;
        for line in &file.matches {
            if last.is_some_and(|last| line.line_number > last + 1) {
                text.push_str("--\n");
            }
            last = Some(line.line_number);
            let mark = if line.is_context_line { '-' } else { ':' };
            let cut = if line.content_truncated { " [line cut]" } else { "" };
            let content = line.content.trim_end_matches(['\r', '\n']);
            let _ = writeln!(text, "{}{mark}{content}{cut}", line.line_number);
        }
    }
    text + &footer(
        lines(found),
        all,
        "line",
        (found.client_truncated || found.ripgrep_truncated).then_some(found.total_lines),
    )
}

/// Says what a window left out, and what the client cut: of how many entries.
fn footer(shown: usize, listed: usize, noun: &str, cut: Option<i32>) -> String {
    let mut text = String::new();
    if shown < listed {
        let all = counted(i64::try_from(listed).unwrap_or(i64::MAX), noun);
        let _ = writeln!(
            text,
            "[{shown} of {all} shown: use offset and head_limit for others.]"
        );
    }
    if let Some(found) = cut {
        text.push_str(&cut_by_client(listed, found, noun));
    }
    text
}

/// Paths come relative to their workspace, some with a dot before them.
fn shown_path(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

/// What Glob found.
pub(in super::super::super) fn glob(glob: &GlobArguments, result: grep_result::Result) -> Outcome {
    let card = |result| {
        Tool::GlobToolCall(GlobToolCall {
            args: Some(glob_card_args(glob)),
            result: Some(GlobToolResult { result: Some(result) }),
        })
    };
    let success = match result {
        grep_result::Result::Success(success) => success,
        grep_result::Result::Error(error) => {
            let text = format!("The file search failed: {}", error.error.trim_end());
            let error = GlobToolError { error: error.error };
            return Outcome::error(card(glob_tool_result::Result::Error(error)), text);
        }
    };
    let mut found = GlobToolSuccess {
        pattern: glob.pattern.clone(),
        path: glob.target_directory.clone().unwrap_or_default(),
        ..GlobToolSuccess::default()
    };
    let mut text = String::new();
    for (root, group) in &success.workspace_results {
        let GrepUnionResult {
            result: Some(grep_union_result::Result::Files(group)),
        } = group
        else {
            continue;
        };
        if !group.files.is_empty() {
            let _ = writeln!(text, "In {root}:");
        }
        for file in &group.files {
            let _ = writeln!(text, "{}", shown_path(file));
            found.files.push(shown_path(file).to_owned());
        }
        found.total_files += group.total_files;
        found.client_truncated |= group.client_truncated;
        found.ripgrep_truncated |= group.ripgrep_truncated;
    }
    if found.client_truncated || found.ripgrep_truncated {
        text.push_str(&cut_by_client(found.files.len(), found.total_files, "file"));
    }
    if text.is_empty() {
        text.push_str("No files found.");
    }
    Outcome::success(
        card(glob_tool_result::Result::Success(found)),
        ModelText::new(&text),
    )
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
