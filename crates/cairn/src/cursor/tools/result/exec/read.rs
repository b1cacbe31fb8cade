//! The result of Read, and the one form in which the model sees a file's text.
//!
//! Each line is its one-based number, right-aligned in six columns, a bar, and the line's text: `     1|text`. A
//! notebook that is read whole comes as its cells.
//! Must never know: exec ids.

use super::super::super::arguments::ReadArguments;
use super::super::super::codec::card::read_card_args;
use super::super::{BoundedText, ModelText, Outcome};
use super::{because, notebook_view};
use crate::cursor::proto::agent::{
    ReadRange, ReadSuccess, ReadToolCall, ReadToolError, ReadToolResult, ReadToolSuccess, read_result,
    read_success, read_tool_result, read_tool_success, tool_call::Tool,
};
use crate::model::Image;

/// The kinds of pictures that a model can be shown.
const PICTURE_KINDS: &str = "PNG, JPEG, GIF, WebP";

/// What the file holds, or why it was not read.
pub(in super::super::super) fn outcome(read: &ReadArguments, result: read_result::Result) -> Outcome {
    use read_result::Result;
    let path = &read.path;
    let error = match result {
        Result::Success(success) => return shown(read, success),
        Result::Error(error) => {
            let mend = match is_named_as_picture(path) {
                // The client then speaks of its decoder only. [sdk]
                true => {
                    "\nA picture's file has to be whole and of the kind that its name says: this one may be damaged or \
                     cut off."
                }
                false => "",
            };
            format!("{path} could not be read{}{mend}", because(&error.error))
        }
        Result::Rejected(rejected) => format!("Reading {path} was refused{}", because(&rejected.reason)),
        Result::FileNotFound(_) => format!("{path} does not exist."),
        Result::PermissionDenied(_) => format!("No permission to read {path}."),
        Result::InvalidFile(invalid) => format!(
            "{path} cannot be read as text{}\nRead shows text and pictures ({PICTURE_KINDS}). Glob lists the files of a \
             folder; other files take a program that knows their kind.",
            because(&invalid.reason)
        ),
    };
    Outcome::error(card(read, failed(&error)), error)
}

fn shown(read: &ReadArguments, success: ReadSuccess) -> Outcome {
    let path = &read.path;
    let size = success.file_size;
    match success.output {
        Some(read_success::Output::Content(content)) => {
            let lines = Lines::of(read, &content, success.total_lines, success.range_applied);
            let result = ReadToolSuccess {
                is_empty: content.is_empty(),
                exceeded_limit: success.truncated,
                total_lines: success.total_lines.try_into().unwrap_or_default(),
                file_size: size.try_into().unwrap_or(u32::MAX),
                path: success.path,
                read_range: lines.range(),
                include_line_numbers: Some(true),
                output: Some(read_tool_success::Output::Content(lines.text())),
                ..ReadToolSuccess::default()
            };
            let cells = match (read.offset, read.limit) {
                (None, None) if path.ends_with(".ipynb") => notebook_view::cells(path, &content),
                _ => None,
            };
            let text = match cells {
                Some(cells) => ModelText::new(&cells),
                None => lines.for_model(read, success.total_lines, success.truncated),
            };
            Outcome::success(card(read, read_tool_result::Result::Success(result)), text)
        }
        Some(read_success::Output::Data(data)) => {
            let Some((kind, mime_type)) = image_kind(&data) else {
                let error = format!(
                    "{path} is a binary file of {size} bytes; Read shows text and pictures ({PICTURE_KINDS}) only."
                );
                return Outcome::error(card(read, failed(&error)), error);
            };
            let result = ReadToolSuccess {
                file_size: size.try_into().unwrap_or(u32::MAX),
                // The history holds the picture; a copy in the turn's record would go back and forth with every turn.
                path: success.path,
                ..ReadToolSuccess::default()
            };
            let text = ModelText::new(&format!("{path} is {kind} of {size} bytes."));
            Outcome {
                pictures: vec![Image {
                    mime_type: mime_type.into(),
                    data,
                }],
                ..Outcome::success(card(read, read_tool_result::Result::Success(result)), text)
            }
        }
        None => {
            let error = format!("{path}: the client reported success but sent no content.");
            Outcome::error(card(read, failed(&error)), error)
        }
    }
}

/// The lines that were asked for, with the number of the first one.
#[derive(Debug)]
struct Lines<'a> {
    first: i64,
    lines: Vec<&'a str>,
    /// Whether the lines run to the end of the file.
    to_end: bool,
}

impl<'a> Lines<'a> {
    /// `total` counts as the client does: one more than the line ends in the file.
    fn of(read: &ReadArguments, content: &'a str, total: i32, range_applied: bool) -> Self {
        let mut lines: Vec<&str> = content.split('\n').collect();
        let total = i64::from(total);
        let first = i64::from(read.offset.unwrap_or(1));
        let start = if range_applied { first } else { 1 };
        let count = |lines: &[&str]| i64::try_from(lines.len()).unwrap_or(i64::MAX);
        // Behind the last line end there is no line.
        let to_end = start + count(&lines) > total;
        if to_end && lines.last() == Some(&"") {
            lines.pop();
        }
        if range_applied {
            return Self { first, lines, to_end };
        }
        let skip = usize::try_from(first - 1).unwrap_or_default();
        let limit = read
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(usize::MAX);
        let after = lines.len().saturating_sub(skip).saturating_sub(limit);
        Self {
            first,
            lines: lines.into_iter().skip(skip).take(limit).collect(),
            to_end: to_end && after == 0,
        }
    }

    fn range(&self) -> Option<ReadRange> {
        let count = i64::try_from(self.lines.len()).ok()?;
        Some(ReadRange {
            start_line: self.first.try_into().ok()?,
            end_line: (self.first + count - 1).try_into().ok()?,
        })
        .filter(|_| count > 0)
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }

    fn for_model(&self, read: &ReadArguments, total: i32, truncated: bool) -> ModelText {
        let path = &read.path;
        if self.lines.is_empty() {
            return ModelText::new(&match (self.first, total) {
                (1, _) => format!("{path} is empty."),
                (first, total) => format!("{path} has {total} lines: there is nothing from line {first} on."),
            });
        }
        let mut body = BoundedText::default();
        for (number, line) in (self.first..).zip(&self.lines) {
            body.push(&format!(
                "{number:>6}|{}\n",
                line.strip_suffix('\r').unwrap_or(line)
            ));
        }
        let mut after = String::new();
        let last = self.first + i64::try_from(self.lines.len()).unwrap_or_default() - 1;
        if !self.to_end {
            after.push_str(&format!(
                "[The file goes on after line {last}; its lines number {total}.]\n"
            ));
        }
        if truncated {
            after.push_str("[The client cut the text: read the rest with offset and limit.]\n");
        }
        ModelText::framed("", &body, &after)
    }
}

fn card(read: &ReadArguments, result: read_tool_result::Result) -> Tool {
    Tool::ReadToolCall(ReadToolCall {
        args: Some(read_card_args(read)),
        result: Some(ReadToolResult { result: Some(result) }),
    })
}

fn failed(error: &str) -> read_tool_result::Result {
    read_tool_result::Result::Error(ReadToolError {
        error_message: error.to_owned(),
    })
}

/// Whether the name of a file says that it is a picture of such a kind.
fn is_named_as_picture(path: &str) -> bool {
    let ending = path.rsplit('.').next().unwrap_or_default();
    ["png", "jpg", "jpeg", "gif", "webp"]
        .iter()
        .any(|kind| ending.eq_ignore_ascii_case(kind))
}

/// Pictures are known by their first bytes.
fn image_kind(data: &[u8]) -> Option<(&'static str, &'static str)> {
    match data {
        [0x89, b'P', b'N', b'G', ..] => Some(("a PNG image", "image/png")),
        [0xff, 0xd8, 0xff, ..] => Some(("a JPEG image", "image/jpeg")),
        [b'G', b'I', b'F', b'8', ..] => Some(("a GIF image", "image/gif")),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            Some(("a WebP image", "image/webp"))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
