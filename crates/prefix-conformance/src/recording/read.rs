//! Reads recordings, one lane at a time and one body at a time.
//!
//! A file is looked over once for where each call stands; a lane's reader then goes to its own calls only. So however many
//! lanes there are, each piece of a body is read once, and whoever reads holds two bodies. Must never know: what is made of
//! the bodies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom};
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
    calls: BTreeMap<Lane, Vec<Place>>,
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

/// Where a call stands in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Offset of its line.
    offset: u64,
    /// One-based number of its line.
    line: usize,
}

/// Longer than any line that is written: a piece with all its characters escaped, or what an endpoint says of its tokens.
const MOST_LINE: u64 = 2 << 20;

/// How lines with pieces of bodies begin.
const TEXT: &[u8] = br#"{"type":"text""#;
const BASE64: &[u8] = br#"{"type":"base64""#;

/// Lines of a file with their numbers, in one buffer.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    buffer: Vec<u8>,
    /// Of the line in the buffer.
    place: Place,
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
        lines.head()?;
        let mut lanes = Vec::new();
        let mut calls: BTreeMap<Lane, Vec<Place>> = BTreeMap::new();
        let mut answers = BTreeMap::new();
        loop {
            // Before the first call no piece has a place.
            let read = if lanes.is_empty() {
                lines.read()?
            } else {
                lines.skip_pieces()?
            };
            match lines.parse(read)? {
                Read::Call(call) => {
                    let places = calls.entry(call.lane.clone()).or_default();
                    if places.is_empty() {
                        lanes.push(call.lane);
                    }
                    places.push(lines.place);
                }
                Read::Answer(answer) => {
                    answers.insert(answer.call, answer);
                }
                Read::Piece(_) => return Err(lines.damaged("is a piece of no body")),
                Read::End => break,
            }
        }
        Ok(Self {
            path: path.to_owned(),
            lanes,
            calls,
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
        let places = self.calls.get(lane).cloned().unwrap_or_default();
        Ok(LaneReader {
            lines: Lines::open(&self.path)?,
            places: places.into_iter(),
        })
    }
}

/// A lane's calls, one after the other. Holds no body: whoever reads holds the last one.
#[derive(Debug)]
pub struct LaneReader {
    lines: Lines,
    places: std::vec::IntoIter<Place>,
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
        let Some(place) = self.places.next() else {
            return Ok(None);
        };
        self.lines.go_to(place)?;
        let Read::Call(call) = self.lines.next()? else {
            return Err(self.lines.damaged("was a call before the file was changed"));
        };
        let from_last = call
            .keep
            .checked_add(call.tail)
            .filter(|known| *known <= call.bytes && *known <= last.len());
        let Some(from_last) = from_last else {
            return Err(self
                .lines
                .damaged("takes more of the body before it than there is"));
        };
        spare.clear();
        spare.reserve_exact(call.bytes.min(last.len() + BELIEVED));
        spare.extend_from_slice(&last[..call.keep]);
        let mut missing = call.bytes - from_last;
        while missing > 0 {
            match self.lines.next()? {
                Read::Piece(piece) if piece.len() <= missing => {
                    missing -= piece.len();
                    spare.extend_from_slice(&piece);
                }
                Read::End => return Ok(None),
                Read::Piece(_) | Read::Call(_) | Read::Answer(_) => {
                    return Err(self.lines.damaged("does not belong into the body that is open"));
                }
            }
        }
        if let Read::Piece(_) = self.lines.next()? {
            return Err(self.lines.damaged("is a piece of no body"));
        }
        spare.extend_from_slice(&last[last.len() - call.tail..]);
        let recorded = RecordedCall {
            call: call.call,
            at_ms: call.at_ms,
        };
        Ok(Some((recorded, spare)))
    }
}

/// Bytes that are set aside because a line says so, before they are seen.
const BELIEVED: usize = 4 << 20;

impl Lines {
    fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = File::open(path).map_err(|cause| RecordingError::File {
            path: path.to_owned(),
            cause,
        })?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(256 << 10, file),
            buffer: Vec::new(),
            place: Place { offset: 0, line: 0 },
        })
    }

    /// Reads the first line.
    fn head(&mut self) -> Result<(), RecordingError> {
        let read = match self.read() {
            // What has no lines is not ours.
            Err(RecordingError::Damaged { .. }) => false,
            read => read? && self.whole(),
        };
        match serde_json::from_slice::<Head>(&self.buffer) {
            Ok(head) if read && head.version == VERSION => Ok(()),
            _ => Err(RecordingError::NoRecording {
                path: self.path.clone(),
            }),
        }
    }

    /// Goes to a line that is known, so that it is read next.
    fn go_to(&mut self, place: Place) -> Result<(), RecordingError> {
        self.buffer.clear();
        self.place = Place {
            line: place.line - 1,
            ..place
        };
        self.reader
            .seek(SeekFrom::Start(place.offset))
            .map(drop)
            .map_err(|cause| self.fault(cause))
    }

    /// Reads a line into the buffer; false at the end of the file.
    fn read(&mut self) -> Result<bool, RecordingError> {
        self.place.offset += self.buffer.len() as u64;
        self.place.line += 1;
        self.buffer.clear();
        let read = (&mut self.reader)
            .take(MOST_LINE)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|cause| self.fault(cause))?;
        if read as u64 == MOST_LINE && !self.whole() {
            return Err(self.damaged("is longer than any line of a recording"));
        }
        Ok(read > 0)
    }

    fn fault(&self, cause: io::Error) -> RecordingError {
        RecordingError::File {
            path: self.path.clone(),
            cause,
        }
    }

    /// Whether the buffer holds a line with its end.
    fn whole(&self) -> bool {
        self.buffer.last() == Some(&b'\n')
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
            line: self.place.line,
            fault: fault.to_owned(),
        }
    }
}
