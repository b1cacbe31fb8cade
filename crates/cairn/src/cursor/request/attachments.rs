//! What the person attached to a message and what the editor shows, as text of the turn's message.
//!
//! Must never know: the conversation's stable context, or blobs.

use super::text::{Tagged, one_line};
use crate::cursor::proto::agent::invocation_context::IdeState;
use crate::cursor::proto::agent::invocation_context::ide_state::File;
use crate::cursor::proto::agent::{Range, SelectedContext};

/// The attachments in a fixed order of kinds, within a kind in the order that the person gave them; empty if there
/// are none.
pub(super) fn attachments(context: &SelectedContext, subagent_reminder: &str) -> String {
    let mut out = Tagged::default();
    for file in &context.files {
        let path = path_of(&file.path, file.relative_path.as_deref());
        out.element("attached_file", &[("path", path)], &file.content);
    }
    for selection in &context.code_selections {
        let path = path_of(&selection.path, selection.relative_path.as_deref());
        let lines = lines(selection.range.as_ref());
        out.element(
            "attached_selection",
            &[("path", path), ("lines", &lines)],
            &selection.content,
        );
    }
    for folder in &context.folders {
        let path = path_of(&folder.path, folder.relative_path.as_deref());
        out.element("attached_folder", &[("path", path)], "");
    }
    for terminal in &context.terminals {
        let attributes = [
            ("title", terminal.title.as_deref().unwrap_or_default()),
            ("path", terminal.path.as_deref().unwrap_or_default()),
        ];
        out.element("attached_terminal", &attributes, &terminal.content);
    }
    for selection in &context.terminal_selections {
        let lines = lines(selection.range.as_ref());
        let attributes = [
            ("title", selection.title.as_deref().unwrap_or_default()),
            ("path", selection.path.as_deref().unwrap_or_default()),
            ("lines", &lines),
        ];
        out.element("attached_terminal_selection", &attributes, &selection.content);
    }
    for link in &context.external_links {
        let attributes = [
            ("url", link.url.as_str()),
            ("file", link.filename.as_deref().unwrap_or_default()),
        ];
        out.element(
            "attached_link",
            &attributes,
            link.pdf_content.as_deref().unwrap_or_default(),
        );
    }
    for rule in context
        .cursor_rules
        .iter()
        .filter_map(|selected| selected.rule.as_ref())
    {
        out.element("attached_rule", &[("path", &rule.full_path)], &rule.content);
    }
    for skill in &context.selected_skills {
        out.element("attached_skill", &[("path", &skill.full_path)], &skill.content);
    }
    for command in &context.cursor_commands {
        let attributes = [
            ("name", command.name.as_str()),
            ("path", command.full_path.as_deref().unwrap_or_default()),
        ];
        out.element("attached_command", &attributes, &command.content);
    }
    if let Some(diff) = &context.git_diff {
        out.element("attached_diff", &[("of", "uncommitted changes")], &diff.content);
    }
    if let Some(diff) = &context.git_diff_from_branch_to_main {
        out.element(
            "attached_diff",
            &[("of", "this branch against the main branch")],
            &diff.content,
        );
    }
    for commit in &context.git_commits {
        let message = [
            commit.message.as_str(),
            commit.description.as_deref().unwrap_or_default(),
        ];
        let mut body = Tagged::default();
        for text in message
            .into_iter()
            .chain([commit.diff.as_str()])
            .filter(|text| !text.is_empty())
        {
            body.line(text);
        }
        out.element("attached_commit", &[("sha", &commit.sha)], &body.finish());
    }
    for text in context.extra_context.iter().filter(|text| !text.is_empty()) {
        out.element("attached_context", &[], text);
    }
    if !subagent_reminder.is_empty() {
        out.element("subagent_reminder", &[], subagent_reminder);
    }
    out.finish()
}

/// The files that the editor shows and showed; empty if it shows none.
pub(super) fn editor_state(state: &IdeState) -> String {
    let mut sections = Tagged::default();
    let list = |files: &[File]| files.iter().map(file_line).collect::<Vec<_>>().join("\n");
    sections.section("visible_files", "", &list(&state.visible_files));
    sections.section("recently_viewed_files", "", &list(&state.recently_viewed_files));
    let mut out = Tagged::default();
    out.section("editor", "", &sections.finish());
    out.finish()
}

fn file_line(file: &File) -> String {
    let mut line = format!(
        "- {}",
        one_line(path_of(&file.path, file.relative_path.as_deref()))
    );
    if file.total_lines > 0 {
        line.push_str(&format!(", {} lines", file.total_lines));
    }
    if let Some(cursor) = &file.cursor_position {
        line.push_str(&format!(", cursor on line {}", cursor.line));
        if !cursor.text.trim().is_empty() {
            line.push_str(&format!(": {}", cursor.text.trim()));
        }
    }
    line
}

/// The absolute path where the client gave one: tools take absolute paths.
fn path_of<'a>(path: &'a str, relative: Option<&'a str>) -> &'a str {
    if path.is_empty() {
        relative.unwrap_or_default()
    } else {
        path
    }
}

fn lines(range: Option<&Range>) -> String {
    match range.map(|range| (&range.start, &range.end)) {
        Some((Some(start), Some(end))) => format!("{}-{}", start.line, end.line),
        _ => String::new(),
    }
}
