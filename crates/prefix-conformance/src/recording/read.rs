//! Reads recordings, one lane at a time and one body at a time.
//!
//! Must never know: what is made of the bodies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{Answer, CallLine, Head, Lane, Line, VERSION};

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The file is no recording, or one of another version.
    #[error("{}: is no recording of version {VERSION}; make one with `prefix-conformance record`", path.display())]
    NoRecording {
        /// The file.
        path: PathBuf,
    },
    /// A line is not what it has to be.
    #[error("{}, line {line}: {fault}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// One-based.
        line: usize,
        /// What is wrong.
        fault: String,
    },
}

/// A recording on disk, looked over once: its lanes and its answers are known, its bodies are still in the file.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    lanes: Vec<Lane>,
    answers: BTreeMap<usize, Answer>,
    cut: bool,
}

/// A call, without its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedCall {
    /// One-based number in the recording.
    pub call: usize,
    /// Milliseconds since the recording began.
    pub at_ms: u64,
}

/// How lines with pieces of bodies begin.
const TEXT: &[u8] = br#"{"type":"text""#;
const BASE64: &[u8] = br#"{"type":"base64""#;

/// Lines of a file with their numbers, in one buffer.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    buffer: Vec<u8>,
    number: usize,
}

enum Read<'a> {
    Call(CallLine),
    Answer(Answer),
    Piece(Cow<'a, [u8]>),
    End,
}

#[derive(Deserialize)]
struct TextPiece<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Base64Piece<'a> {
    #[serde(borrow)]
    base64: Cow<'a, str>,
}

impl Recording {
    /// Looks a recording over.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let mut lines = Lines::open(path)?;
        let mut lanes = Vec::new();
        let mut answers = BTreeMap::new();
        loop {
            // Before the first call no piece has a place.
            let read = if lanes.is_empty() {
                lines.read()?
            } else {
                lines.skip_pieces()?
            };
            match lines.parse(read)? {
                Read::Call(call) if !lanes.contains(&call.lane) => lanes.push(call.lane),
                Read::Answer(answer) => {
                    answers.insert(answer.call, answer);
                }
                Read::Call(_) => {}
                Read::Piece(_) => return Err(lines.damaged("is a piece of no body")),
                Read::End => break,
            }
        }
        Ok(Self {
            path: path.to_owned(),
            lanes,
            answers,
            cut: !lines.buffer.is_empty(),
        })
    }

    /// The lanes in the order of their first calls.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// How a call was answered, if its answer had ended when the recording did.
    pub fn answer(&self, call: usize) -> Option<&Answer> {
        self.answers.get(&call)
    }

    /// Whether the file ends inside a line: the recorder was stopped while it wrote.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Reads one lane's calls from the first.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn read_lane(&self, lane: &Lane) -> Result<LaneReader, RecordingError> {
        let mut lines = Lines::open(&self.path)?;
        let next = lines.next_call()?;
        Ok(LaneReader {
            lines,
            lane: lane.clone(),
            next,
        })
    }
}

/// A lane's calls, one after the other. Holds no body: whoever reads holds the last one.
#[derive(Debug)]
pub struct LaneReader {
    lines: Lines,
    lane: Lane,
    next: Option<CallLine>,
}

impl LaneReader {
    /// Reads the next call. `last` is the body that was read before it (empty at first), `spare` a buffer to use again.
    /// `None` at the end, also where the recorder was stopped while it wrote the call.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn next(
        &mut self,
        last: &[u8],
        mut spare: Vec<u8>,
    ) -> Result<Option<(RecordedCall, Vec<u8>)>, RecordingError> {
        spare.clear();
        while let Some(call) = self.next.take() {
            let ours = call.lane == self.lane;
            let from_last = call
                .keep
                .checked_add(call.tail)
                .filter(|known| *known <= call.bytes && (!ours || *known <= last.len()));
            let Some(from_last) = from_last else {
                return Err(self
                    .lines
                    .damaged("takes more of the body before it than there is"));
            };
            if ours {
                spare.reserve_exact(call.bytes);
                spare.extend_from_slice(&last[..call.keep]);
            }
            let mut missing = call.bytes - from_last;
            while missing > 0 {
                match self.lines.next()? {
                    Read::Piece(piece) if piece.len() <= missing => {
                        missing -= piece.len();
                        if ours {
                            spare.extend_from_slice(&piece);
                        }
                    }
                    Read::End => return Ok(None),
                    Read::Piece(_) | Read::Call(_) | Read::Answer(_) => {
                        return Err(self.lines.damaged("does not belong into the body that is open"));
                    }
                }
            }
            self.next = self.lines.next_call()?;
            if ours {
                spare.extend_from_slice(&last[last.len() - call.tail..]);
                let recorded = RecordedCall {
                    call: call.call,
                    at_ms: call.at_ms,
                };
                return Ok(Some((recorded, spare)));
            }
        }
        Ok(None)
    }
}

impl Lines {
    fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = File::open(path).map_err(|cause| RecordingError::File {
            path: path.to_owned(),
            cause,
        })?;
        let mut lines = Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(256 << 10, file),
            buffer: Vec::new(),
            number: 0,
        };
        let head = lines.read()? && lines.whole();
        match serde_json::from_slice::<Head>(&lines.buffer) {
            Ok(head_line) if head && head_line.version == VERSION => Ok(lines),
            _ => Err(RecordingError::NoRecording {
                path: path.to_owned(),
            }),
        }
    }

    /// Reads a line into the buffer; false at the end of the file.
    fn read(&mut self) -> Result<bool, RecordingError> {
        self.buffer.clear();
        self.number += 1;
        let read = self.reader.read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|cause| RecordingError::File {
            path: self.path.clone(),
            cause,
        })?;
        Ok(read > 0)
    }

    /// Whether the buffer holds a line with its end.
    fn whole(&self) -> bool {
        self.buffer.last() == Some(&b'\n')
    }

    /// Passes over answers to the next call. Answers were read when the file was opened.
    fn next_call(&mut self) -> Result<Option<CallLine>, RecordingError> {
        loop {
            match self.next()? {
                Read::Call(call) => return Ok(Some(call)),
                Read::Answer(_) => {}
                Read::Piece(_) => return Err(self.damaged("is a piece of no body")),
                Read::End => return Ok(None),
            }
        }
    }

    /// Reads a line that is no piece of a body, without looking into the pieces before it.
    fn skip_pieces(&mut self) -> Result<bool, RecordingError> {
        loop {
            let read = self.read()?;
            let piece = [TEXT, BASE64].iter().any(|kind| self.buffer.starts_with(kind));
            if !read || !piece || !self.whole() {
                return Ok(read);
            }
        }
    }

    fn next(&mut self) -> Result<Read<'_>, RecordingError> {
        let read = self.read()?;
        self.parse(read)
    }

    fn parse(&self, read: bool) -> Result<Read<'_>, RecordingError> {
        // A line without its end was being written when the recorder was stopped.
        if !read || !self.whole() {
            return Ok(Read::End);
        }
        let line = &self.buffer[..];
        if line.starts_with(TEXT) {
            return match serde_json::from_slice::<TextPiece<'_>>(line) {
                Ok(piece) => Ok(Read::Piece(match piece.text {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                })),
                Err(fault) => Err(self.damaged(&fault.to_string())),
            };
        }
        if line.starts_with(BASE64) {
            let piece = serde_json::from_slice::<Base64Piece<'_>>(line)
                .map_err(|fault| fault.to_string())
                .and_then(|piece| {
                    STANDARD
                        .decode(piece.base64.as_bytes())
                        .map_err(|fault| fault.to_string())
                });
            return piece
                .map(|bytes| Read::Piece(Cow::Owned(bytes)))
                .map_err(|fault| self.damaged(&fault));
        }
        match serde_json::from_slice::<Line>(line) {
            Ok(Line::Call(call)) => Ok(Read::Call(call)),
            Ok(Line::Answer(answer)) => Ok(Read::Answer(answer)),
            Err(fault) => Err(self.damaged(&fault.to_string())),
        }
    }

    fn damaged(&self, fault: &str) -> RecordingError {
        RecordingError::Damaged {
            path: self.path.clone(),
            line: self.number,
            fault: fault.to_owned(),
        }
    }
}
