//! What the person at the terminal reads: short lines, each with who speaks in front.
//!
//! Must never know: how any of it came about.

use std::io::{self, Write};

/// Width of the column that says who speaks.
const MARGIN: usize = 12;

/// Writes the demonstration's lines.
#[derive(Debug)]
pub(super) struct Narrator<W> {
    out: W,
    /// Whether streamed text has not ended its line yet.
    streaming: Streaming,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Streaming {
    No,
    InLine,
    AtLineStart,
}

impl<W: Write> Narrator<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            streaming: Streaming::No,
        }
    }

    /// A heading after an empty line.
    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        self.end_stream()?;
        writeln!(self.out, "\n{text}")
    }

    /// What somebody says or does; further lines stand under the first.
    pub(super) fn say(&mut self, who: &str, text: &str) -> io::Result<()> {
        self.end_stream()?;
        let mut who = who;
        for line in text.trim_end_matches('\n').split('\n') {
            writeln!(self.out, "{}", format!("  {who:<MARGIN$}{line}").trim_end())?;
            who = "";
        }
        Ok(())
    }

    /// A piece of streamed text, shown at once.
    pub(super) fn stream(&mut self, who: &str, text: &str) -> io::Result<()> {
        for (index, piece) in text.split('\n').enumerate() {
            if index > 0 {
                writeln!(self.out)?;
                self.streaming = Streaming::AtLineStart;
            }
            if piece.is_empty() {
                continue;
            }
            match self.streaming {
                Streaming::No => write!(self.out, "  {who:<MARGIN$}")?,
                Streaming::AtLineStart => write!(self.out, "  {:<MARGIN$}", "")?,
                Streaming::InLine => {}
            }
            write!(self.out, "{piece}")?;
            self.streaming = Streaming::InLine;
        }
        self.out.flush()
    }

    fn end_stream(&mut self) -> io::Result<()> {
        if self.streaming == Streaming::InLine {
            writeln!(self.out)?;
        }
        self.streaming = Streaming::No;
        Ok(())
    }
}
