//! A text file with the line ends that it has on disk.
//!
//! Owns the mapping between the LF text that everyone reads and matches on, and the bytes on disk: a line that an
//! edit does not touch keeps its end; a new line takes its neighbour's. Must never know: tools, the wire.

use std::collections::BTreeSet;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// How a line ends on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Lf,
    CrLf,
    Cr,
}

impl Ending {
    fn text(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// Where a file has CRLF although the text that was read shows LF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HiddenCrLf {
    /// Nowhere: the text shows the line ends as they are.
    None,
    /// Everywhere.
    All,
    /// At these one-based lines, counted by LF.
    Lines(BTreeSet<i64>),
}

/// A file's text on LF, and how each of its line ends is written on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FileText {
    lf: String,
    /// One for each LF in `lf`.
    endings: Vec<Ending>,
}

impl FileText {
    /// Reads a text as it came; `hidden` says which of its LFs are CRLF on disk.
    pub(super) fn parse(text: &str, hidden: &HiddenCrLf) -> Self {
        let mut endings = Vec::new();
        let mut line = 1;
        let lf = normalise(text, |ending| {
            let on_disk = match (ending, hidden) {
                (Ending::Lf, HiddenCrLf::All) => Ending::CrLf,
                (Ending::Lf, HiddenCrLf::Lines(lines)) if lines.contains(&line) => Ending::CrLf,
                _ => ending,
            };
            if ending != Ending::Cr {
                line += 1;
            }
            endings.push(on_disk);
        });
        Self { lf, endings }
    }

    /// The text on LF.
    pub(super) fn lf(&self) -> &str {
        &self.lf
    }

    /// The text with its line ends as on disk.
    pub(super) fn on_disk(&self) -> String {
        self.with_endings(Ending::text)
    }

    /// The text to hand to a client that turns every LF into CRLF while it writes; None if that would not give the
    /// line ends of this text.
    pub(super) fn before_lf_becomes_crlf(&self) -> Option<String> {
        (!self.endings.contains(&Ending::Lf)).then(|| {
            self.with_endings(|ending| match ending {
                Ending::CrLf => "\n",
                other => other.text(),
            })
        })
    }

    /// This text with some runs of whole lines replaced. `written` is the end for new lines where the file has
    /// none to take after.
    pub(super) fn replace(&self, regions: &[Region], written: Ending) -> Self {
        let old: Vec<&str> = self.lf.split_inclusive('\n').collect();
        let mut rebuilt = Rebuild {
            endings: Vec::with_capacity(self.endings.len()),
            lf: String::with_capacity(self.lf.len()),
        };
        let mut next = 0;
        for region in regions {
            rebuilt.keep(&old, &self.endings, next..region.lines.start);
            let new: Vec<&str> = region.text.split_inclusive('\n').collect();
            let mut input = InternedInput::default();
            input.update_before(old[region.lines.clone()].iter().copied());
            input.update_after(new.iter().copied());
            let (mut from, mut to) = (region.lines.start, 0);
            for hunk in Diff::compute(Algorithm::Histogram, &input).hunks() {
                let touched = shift(&hunk.before, region.lines.start);
                rebuilt.keep(&old, &self.endings, from..touched.start);
                let added = hunk.after.start as usize..hunk.after.end as usize;
                for (place, line) in new[added.clone()].iter().enumerate() {
                    let replaced = touched.clone().nth(place).and_then(|line| self.endings.get(line));
                    let after = || self.endings.get(touched.end).or(self.endings.first());
                    let ending = replaced.or(rebuilt.endings.last()).or_else(after).copied();
                    rebuilt.add(line, ending.unwrap_or(written));
                }
                (from, to) = (touched.end, added.end);
            }
            debug_assert_eq!(region.lines.end - from, new.len() - to, "a diff aligns the rest");
            rebuilt.keep(&old, &self.endings, from..region.lines.end);
            next = region.lines.end;
        }
        rebuilt.keep(&old, &self.endings, next..old.len());
        rebuilt.part_cr_from_lf();
        Self {
            lf: rebuilt.lf,
            endings: rebuilt.endings,
        }
    }

    /// Number of lines; a text that ends with a line end has no empty line after it.
    pub(super) fn line_count(&self) -> usize {
        self.lf.split_inclusive('\n').count()
    }

    fn with_endings(&self, text_of: impl Fn(Ending) -> &'static str) -> String {
        let mut out = String::with_capacity(self.lf.len() + self.endings.len());
        let mut endings = self.endings.iter();
        for line in self.lf.split_inclusive('\n') {
            match (line.strip_suffix('\n'), endings.next()) {
                (Some(text), Some(ending)) => {
                    out.push_str(text);
                    out.push_str(text_of(*ending));
                }
                _ => out.push_str(line),
            }
        }
        out
    }
}

/// A run of whole lines (zero-based) and the LF text that takes their place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Region {
    pub lines: Range<usize>,
    pub text: String,
}

struct Rebuild {
    lf: String,
    endings: Vec<Ending>,
}

impl Rebuild {
    fn keep(&mut self, lines: &[&str], endings: &[Ending], range: Range<usize>) {
        for line in &lines[range.clone()] {
            self.lf.push_str(line);
        }
        // The last line of a file may have no end.
        let ended = range.start.min(endings.len())..range.end.min(endings.len());
        self.endings.extend_from_slice(&endings[ended]);
    }

    /// An empty line that ends in LF, moved behind a CR, would read as the second half of a CRLF and vanish.
    fn part_cr_from_lf(&mut self) {
        for (place, line) in self.lf.split_inclusive('\n').enumerate().skip(1) {
            if line == "\n" && self.endings[place - 1] == Ending::Cr && self.endings[place] == Ending::Lf {
                self.endings[place] = Ending::Cr;
            }
        }
    }

    fn add(&mut self, line: &str, ending: Ending) {
        self.lf.push_str(line);
        if line.ends_with('\n') {
            self.endings.push(ending);
        }
    }
}

fn shift(range: &Range<u32>, by: usize) -> Range<usize> {
    range.start as usize + by..range.end as usize + by
}

/// A text with every line end as LF.
pub(super) fn to_lf(text: &str) -> String {
    normalise(text, |_| {})
}

/// The first line end of a text as it was written, or LF.
pub(super) fn first_ending(text: &str) -> Ending {
    let mut first = None;
    normalise(text, |ending| {
        first.get_or_insert(ending);
    });
    first.unwrap_or(Ending::Lf)
}

fn normalise(text: &str, mut seen: impl FnMut(Ending)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\r', '\n']) {
        let (line, end) = rest.split_at(at);
        out.push_str(line);
        out.push('\n');
        let ending = match end {
            _ if end.starts_with("\r\n") => Ending::CrLf,
            _ if end.starts_with('\r') => Ending::Cr,
            _ => Ending::Lf,
        };
        seen(ending);
        rest = end.strip_prefix(ending.text()).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Turns line ends into LF in a text that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct LfStream {
    /// A CR was the last character: its line end is already out, and an LF right after it belongs to it.
    after_cr: bool,
}

impl LfStream {
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut piece = piece;
        if self.after_cr && !piece.is_empty() {
            piece = piece.strip_prefix('\n').unwrap_or(piece);
            self.after_cr = false;
        }
        self.after_cr |= piece.ends_with('\r');
        to_lf(piece)
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
