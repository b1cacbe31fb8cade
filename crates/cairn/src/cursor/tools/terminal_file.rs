//! The file in which the client keeps the output of one background command.
//!
//! Its form [sdk]: a head between two lines of three dashes (`cwd`, `command`, `started_at` and others, one a line),
//! then the output as it comes; when the command has ended, a foot of the same kind (`exit_code`, `elapsed_ms`,
//! `ended_at`) on lines of its own. The client stops writing before the piece of output that would go beyond 1 MiB, and
//! says nothing of it. Owns reading that form from pieces of the file, and where to read on.
//! Must never know: who reads, cards, execs.

use jiff::Timestamp;

use super::arguments::LinePattern;

const FENCE: &str = "---";
/// The lines of the foot, with the line end that it begins with and the one after it.
const FOOT_LINES: usize = 7;
/// How much of the end of the output is kept, in characters.
const TAIL_LIMIT: usize = 20_000;
/// The output that the client keeps at most, in bytes. [sdk]
const KEPT_LIMIT: usize = 1024 * 1024;
/// The longest piece in which output comes, in bytes. [sdk]
const LONGEST_PIECE: usize = 64 * 1024;

/// What is known of the file so far.
#[derive(Debug, Default)]
pub(super) struct TerminalFile {
    started_at: Option<Timestamp>,
    /// Whole lines of the file that are taken in and are not read again.
    taken: usize,
    /// Bytes of output in the lines taken in.
    taken_bytes: usize,
    /// The end of the output in the lines taken in.
    tail: String,
    /// Whether output before the tail was let go.
    tail_cut: bool,
    /// The lines that may still change or belong to the foot.
    open: Vec<String>,
    matched: Option<String>,
    ended: Option<Ended>,
}

/// What the foot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    /// None if the client does not know it, as for a command that was killed.
    pub exit_code: Option<i32>,
    pub elapsed_ms: u64,
}

/// The file is not of the form that the client writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotATerminalFile;

impl TerminalFile {
    /// The one-based line from which the file has to be read next; None for all of it.
    pub(super) fn next_line(&self) -> Option<usize> {
        (self.taken > 0).then_some(self.taken + 1)
    }

    /// Takes the text from [`Self::next_line`] to the end of the file.
    pub(super) fn take(&mut self, text: &str, pattern: Option<&LinePattern>) -> Result<(), NotATerminalFile> {
        let mut lines: Vec<&str> = text.split('\n').collect();
        if self.taken == 0 {
            let head = self.read_head(&lines)?;
            self.taken = head;
            lines.drain(..head);
        }
        self.ended = read_foot(&mut lines);
        if self.matched.is_none()
            && let Some(pattern) = pattern
        {
            let shown = lines.iter().map(|line| line.trim_end_matches('\r'));
            self.matched = shown.filter(|line| pattern.fits(line)).map(str::to_owned).next();
        }
        let settled = match self.ended {
            Some(_) => 0,
            None => lines.len().saturating_sub(FOOT_LINES),
        };
        for line in lines.drain(..settled) {
            self.taken += 1;
            self.taken_bytes += line.len() + 1;
            self.tail.push_str(line);
            self.tail.push('\n');
            self.trim_tail();
        }
        self.open = lines.into_iter().map(str::to_owned).collect();
        Ok(())
    }

    /// What the foot says, once it is there.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// The first line of output that fitted the pattern.
    pub(super) fn matched(&self) -> Option<&str> {
        self.matched.as_deref()
    }

    /// When the command was started, where the file says so.
    pub(super) fn started_at_ms(&self) -> Option<u64> {
        self.started_at
            .and_then(|time| u64::try_from(time.as_millisecond()).ok())
    }

    /// The size of the whole output in bytes, as read.
    pub(super) fn output_bytes(&self) -> usize {
        self.taken_bytes + self.open.join("\n").len()
    }

    /// Whether the next piece of output may have been too much for the file: then it holds none of what came since.
    pub(super) fn may_lack_output(&self) -> bool {
        self.output_bytes() + LONGEST_PIECE > KEPT_LIMIT
    }

    /// The end of the output, and whether something stands before it.
    pub(super) fn output_end(&self) -> (String, bool) {
        let text = format!("{}{}", self.tail, self.open.join("\n"));
        let surplus = text.chars().count().saturating_sub(TAIL_LIMIT);
        match text.char_indices().nth(surplus) {
            Some((at, _)) if surplus > 0 => (text[at..].to_owned(), true),
            _ => (text, self.tail_cut),
        }
    }

    /// Reads the head and returns how many lines it has.
    fn read_head(&mut self, lines: &[&str]) -> Result<usize, NotATerminalFile> {
        let mut rest = lines.iter().enumerate();
        if rest.next().is_none_or(|(_, first)| *first != FENCE) {
            return Err(NotATerminalFile);
        }
        for (place, line) in rest {
            if *line == FENCE {
                return Ok(place + 1);
            }
            if let Some(time) = line.strip_prefix("started_at: ") {
                self.started_at = time.trim().parse().ok();
            }
        }
        Err(NotATerminalFile)
    }

    fn trim_tail(&mut self) {
        // A byte is at most one character: twice the limit in bytes always holds the limit in characters.
        if self.tail.len() > 8 * TAIL_LIMIT {
            let keep = self.tail.len() - 4 * TAIL_LIMIT;
            let at = (keep..self.tail.len())
                .find(|at| self.tail.is_char_boundary(*at))
                .unwrap_or_default();
            self.tail.drain(..at);
            self.tail_cut = true;
        }
    }
}

/// Reads the foot and takes it, with the line end before it, off the lines.
fn read_foot(lines: &mut Vec<&str>) -> Option<Ended> {
    let [.., open, code, elapsed, ended, close, after] = lines.as_slice() else {
        return None;
    };
    if [*open, *close, *after] != [FENCE, FENCE, ""] || !ended.starts_with("ended_at: ") {
        return None;
    }
    let exit_code = match code.strip_prefix("exit_code: ")?.trim() {
        "unknown" => None,
        code => {
            let code: i64 = code.parse().ok()?;
            // A code of Windows has all 32 bits.
            Some(
                i32::try_from(code)
                    .or_else(|_| u32::try_from(code).map(u32::cast_signed))
                    .ok()?,
            )
        }
    };
    let elapsed_ms = elapsed.strip_prefix("elapsed_ms: ")?.trim().parse().ok()?;
    lines.truncate(lines.len() - 6);
    Some(Ended {
        exit_code,
        elapsed_ms,
    })
}

#[cfg(test)]
#[path = "terminal_file_tests.rs"]
mod tests;
