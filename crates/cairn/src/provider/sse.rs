//! Server-sent events from bytes: bytes to lines, lines to events.
//!
//! Owns the framing only, byte for byte and independent of how the bytes were cut on their way. Must never know: what
//! an event means to any API.

/// Most bytes that one line, or the data of one event, may have.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";
/// Consumed bytes are dropped from the buffer only in pieces of at least this size, so that dropping stays cheap.
const COMPACT_BYTES: usize = 64 * 1024;

/// One event, borrowed from its reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SseEvent<'a> {
    /// The `event` field; empty where the stream named none. `error` also for data that came in an `error` field,
    /// which is no field of the standard but how some engines report a failure.
    pub name: &'a str,
    /// The data lines, joined by line feeds.
    pub data: &'a str,
    /// The stream ended before the empty line that ends an event: the data may be cut.
    pub unterminated: bool,
}

/// Bytes that are no event stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SseError {
    /// A line or an event is longer than [`MAX_EVENT_BYTES`].
    #[error("a line or event of the stream is longer than {MAX_EVENT_BYTES} bytes")]
    TooLong,
    /// A line is not UTF-8.
    #[error("the stream holds bytes that are not UTF-8")]
    InvalidUtf8,
    /// The stream ended within a character.
    #[error("the stream ended inside a character")]
    EndsInsideCharacter,
    /// A line starts like JSON or HTML where a field name must be.
    #[error("the stream holds a line that is no server-sent event")]
    NotAnEvent,
}

/// Reads events out of bytes that may be cut anywhere.
#[derive(Debug, Default)]
pub struct SseReader {
    buffer: Vec<u8>,
    /// Start of the first unread line in `buffer`.
    line_start: usize,
    /// Bytes after `line_start` that are known to hold no line end.
    scanned: usize,
    /// The byte-order mark, if any, has been passed.
    past_bom: bool,
    /// The last line ended with CR: one LF right after it belongs to the same line end.
    after_cr: bool,
    name: String,
    data: String,
    has_data: bool,
    unterminated: bool,
    /// The fields above belong to an event that was already handed out.
    handed_out: bool,
}

impl SseReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.line_start == self.buffer.len() {
            self.buffer.clear();
            self.line_start = 0;
        } else if self.line_start >= COMPACT_BYTES {
            self.buffer.drain(..self.line_start);
            self.line_start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event, or `None` until more bytes come.
    pub fn next_event(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        self.forget_handed_out();
        while let Some((start, end)) = self.take_line(false)? {
            if self.read_line(start, end)? {
                return Ok(Some(self.hand_out()));
            }
        }
        Ok(None)
    }

    /// After the end of the stream and after [`Self::next_event`] gave `None`: the event that the end left open, if any.
    pub fn finish(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        self.forget_handed_out();
        let mut dispatched = false;
        if let Some((start, end)) = self.take_line(true)?
            && start < end
        {
            if let Err(fault) = std::str::from_utf8(&self.buffer[start..end]) {
                return Err(match fault.error_len() {
                    None => SseError::EndsInsideCharacter,
                    Some(_) => SseError::InvalidUtf8,
                });
            }
            dispatched = self.read_line(start, end)?;
        }
        if dispatched || self.is_event() {
            self.unterminated = true;
            return Ok(Some(self.hand_out()));
        }
        Ok(None)
    }

    fn is_event(&self) -> bool {
        self.has_data || self.name == "error"
    }

    fn forget_handed_out(&mut self) {
        if self.handed_out {
            self.name.clear();
            self.data.clear();
            self.has_data = false;
            self.unterminated = false;
            self.handed_out = false;
        }
    }

    fn hand_out(&mut self) -> SseEvent<'_> {
        self.handed_out = true;
        SseEvent {
            name: &self.name,
            data: &self.data,
            unterminated: self.unterminated,
        }
    }

    /// The bounds of the next line in the buffer, without its line end.
    fn take_line(&mut self, at_end: bool) -> Result<Option<(usize, usize)>, SseError> {
        if !self.past_bom {
            let head = &self.buffer[self.line_start..];
            if head.starts_with(BOM) {
                self.line_start += BOM.len();
            } else if BOM.starts_with(head) && !at_end {
                return Ok(None);
            }
            self.past_bom = true;
        }
        if self.after_cr
            && let Some(&byte) = self.buffer.get(self.line_start)
        {
            if byte == b'\n' {
                self.line_start += 1;
            }
            self.after_cr = false;
        }
        let start = self.line_start;
        let unread = &self.buffer[start..];
        match memchr::memchr2(b'\n', b'\r', &unread[self.scanned..]) {
            Some(offset) => {
                let end = start + self.scanned + offset;
                if end - start > MAX_EVENT_BYTES {
                    return Err(SseError::TooLong);
                }
                self.after_cr = self.buffer[end] == b'\r';
                self.line_start = end + 1;
                self.scanned = 0;
                Ok(Some((start, end)))
            }
            None if unread.len() > MAX_EVENT_BYTES => Err(SseError::TooLong),
            None if at_end => {
                let end = self.buffer.len();
                self.line_start = end;
                self.scanned = 0;
                Ok(Some((start, end)))
            }
            None => {
                self.scanned = unread.len();
                Ok(None)
            }
        }
    }

    /// Reads one line; true if it completes an event.
    fn read_line(&mut self, start: usize, end: usize) -> Result<bool, SseError> {
        let line = &self.buffer[start..end];
        let Some(&first) = line.first() else {
            if self.is_event() {
                return Ok(true);
            }
            self.name.clear();
            return Ok(false);
        };
        if first == b':' {
            return Ok(false);
        }
        let line = std::str::from_utf8(line).map_err(|_| SseError::InvalidUtf8)?;
        let (field, value) = match line.split_once(':') {
            Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            None => (line, ""),
        };
        match field {
            "data" | "error" => {
                if field == "error" {
                    self.name.clear();
                    self.name.push_str("error");
                }
                if self.data.len() + value.len() + 1 > MAX_EVENT_BYTES {
                    return Err(SseError::TooLong);
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "event" => {
                self.name.clear();
                self.name.push_str(value);
            }
            // Other fields of the standard and unknown ones are to be ignored, but a payload without its field name
            // must not vanish.
            _ if matches!(first, b'{' | b'[' | b'<') => return Err(SseError::NotAnEvent),
            _ => {}
        }
        Ok(false)
    }
}
