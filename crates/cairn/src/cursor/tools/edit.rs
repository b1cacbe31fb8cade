//! What an edit makes of a file's text: matching, the new text with its line ends, and the diff that is shown.
//!
//! Pure text. Must never know: how a file is read or written, cards, the words for the model.

use std::ops::Range;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};

use super::arguments::{CellChange, Change};
use super::lines::{Ending, FileText, Region, first_ending, to_lf};
use super::notebook::{CellFault, change_cell, insert_cell};

/// Why an edit cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EditFault {
    /// The passage does not occur.
    NotFound,
    /// The passage occurs this many times and shall be replaced once.
    Ambiguous(usize),
    /// The passage and its replacement are the same text.
    NoChange,
    /// The notebook's cell cannot be changed so.
    Cell(CellFault),
}

/// The file's new text.
pub(super) fn apply(before: &FileText, change: &Change) -> Result<FileText, EditFault> {
    match change {
        Change::Whole { contents } => {
            let everything = Region {
                lines: 0..before.line_count(),
                // A mark at the start belongs to the file, which keeps its own.
                text: to_lf(contents.strip_prefix('\u{feff}').unwrap_or(contents)),
            };
            Ok(before.replace(&[everything], first_ending(contents)))
        }
        Change::Replace { old, new, every } => {
            let (from, to) = (to_lf(old), to_lf(new));
            if from == to {
                return Err(EditFault::NoChange);
            }
            let matches = find(before.lf(), &from, *every)?;
            Ok(before.replace(&regions(before.lf(), &matches, &to), first_ending(new)))
        }
        Change::Cell { index, cell } => {
            let splice = match cell {
                CellChange::Replace { old, new } => {
                    change_cell(before.lf(), *index, &to_lf(old), &to_lf(new))?
                }
                CellChange::Insert { kind, source } => {
                    insert_cell(before.lf(), *index, *kind, &to_lf(source))?
                }
            };
            let place = std::slice::from_ref(&splice.range);
            Ok(before.replace(&regions(before.lf(), place, &splice.text), Ending::Lf))
        }
    }
}

/// Byte ranges of the passage. Overlapping occurrences count: either of them could be meant.
fn find(text: &str, passage: &str, every: bool) -> Result<Vec<Range<usize>>, EditFault> {
    let whole: Vec<_> = text
        .match_indices(passage)
        .map(|(at, found)| at..at + found.len())
        .collect();
    match whole.len() {
        0 => Err(EditFault::NotFound),
        _ if every => Ok(whole),
        _ => find_one(text, passage).map(|found| vec![found]),
    }
}

/// Byte range of a passage that occurs exactly once.
pub(super) fn find_one(text: &str, passage: &str) -> Result<Range<usize>, EditFault> {
    let at = text.find(passage).ok_or(EditFault::NotFound)?;
    match occurrences(text, passage) {
        1 => Ok(at..at + passage.len()),
        count => Err(EditFault::Ambiguous(count)),
    }
}

fn occurrences(text: &str, passage: &str) -> usize {
    let width = passage.chars().next().map_or(1, char::len_utf8);
    let mut count = 0;
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(passage)) {
        count += 1;
        from += at + width;
    }
    count
}

/// The whole lines around each match, joined where they share a line, with the matches replaced.
fn regions(text: &str, matches: &[Range<usize>], new: &str) -> Vec<Region> {
    // Byte offset at which each line begins, and the end of the text.
    let mut starts: Vec<usize> = vec![0];
    starts.extend(text.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some(*at)
    }));
    let lines = starts.len() - 1;
    let line_at = |offset: usize| starts.partition_point(|start| *start <= offset).saturating_sub(1);
    let mut out: Vec<Region> = Vec::new();
    // Up to where the text of the last region is written.
    let mut written = 0;
    for found in matches {
        let covered = line_at(found.start)..(line_at(found.end) + 1).min(lines);
        let shared = out.last().is_some_and(|region| region.lines.end > covered.start);
        if !shared {
            close(&mut out, text, &starts, written);
            written = starts[covered.start];
            out.push(Region {
                lines: covered.clone(),
                text: String::new(),
            });
        }
        if let Some(region) = out.last_mut() {
            region.lines.end = covered.end;
            region.text.push_str(&text[written..found.start]);
            region.text.push_str(new);
            written = found.end;
        }
    }
    close(&mut out, text, &starts, written);
    out
}

/// Writes the rest of the last region's last line.
fn close(out: &mut [Region], text: &str, starts: &[usize], written: usize) {
    if let Some(region) = out.last_mut() {
        region.text.push_str(&text[written..starts[region.lines.end]]);
    }
}

/// A change as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ShownDiff {
    pub added: u32,
    pub removed: u32,
    /// Unified hunks with three lines of context, without file names.
    pub unified: String,
}

/// The difference between two LF texts.
pub(super) fn shown_diff(before: &str, after: &str) -> ShownDiff {
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    ShownDiff {
        added: diff.count_additions(),
        removed: diff.count_removals(),
        unified: diff
            .unified_diff(
                &BasicLineDiffPrinter(&input.interner),
                UnifiedDiffConfig::default(),
                &input,
            )
            .to_string(),
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
