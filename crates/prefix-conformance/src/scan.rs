//! A scanner over JSON text that yields where values stand and never builds them.
//!
//! Requests are compared as they were sent, so values are ranges of the body. Long strings, the bulk of a request, are
//! passed over by vectorised search. Must never know: what a member means.

use std::ops::Range;

/// Deeper nesting is refused rather than followed.
const MOST_DEPTH: usize = 256;

/// Text that is no JSON, or not the JSON that is expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("byte {at}: expected {expected}")]
pub struct ScanError {
    /// Offset in the text.
    pub at: usize,
    /// What should stand there.
    pub expected: &'static str,
}

/// A position in a text.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts at the text's beginning.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The first byte of the value that follows, after white space.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Where the next value begins, or the scanner stands after white space.
    pub fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The offset right after what was read last.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Goes on from another offset.
    pub fn skip_to(&mut self, offset: usize) {
        self.at = offset;
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, ScanError> {
        Err(ScanError {
            at: self.at,
            expected,
        })
    }

    /// Checks that nothing but white space follows.
    pub fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("the end of the text"),
        }
    }

    /// Reads an object; the closure gets each key (its text without quotes) and must consume the key's value. The whole
    /// member's range runs from its key's quote to its value's end.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Range<usize>) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.take(b'{', "an object")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.peek();
            let key = self.string()?;
            self.take(b':', "a colon")?;
            member(self, key.start + 1..key.end - 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.fail("a comma or the object's end"),
            }
        }
    }

    /// Reads an array; the closure gets each element's index and must consume the element.
    pub fn array(
        &mut self,
        mut element: impl FnMut(&mut Self, usize) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.take(b'[', "an array")?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            element(self, index)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => return self.fail("a comma or the array's end"),
            }
        }
        Ok(())
    }

    /// Passes over one value and says where it stands.
    pub fn value(&mut self) -> Result<Range<usize>, ScanError> {
        let mut open = Vec::new();
        let start = self.position();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(byte @ (b'{' | b'[')) => {
                    if open.len() == MOST_DEPTH {
                        return self.fail("less nesting");
                    }
                    open.push(byte + 2);
                    self.at += 1;
                    continue;
                }
                Some(byte @ (b'}' | b']')) if open.last() == Some(&byte) => {
                    open.pop();
                    self.at += 1;
                }
                Some(b',' | b':') if !open.is_empty() => {
                    self.at += 1;
                    continue;
                }
                Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => self.literal(),
                _ => return self.fail("a value"),
            }
            if open.is_empty() {
                return Ok(start..self.at);
            }
        }
    }

    /// Passes over a string and says where it stands, quotes included.
    pub fn string(&mut self) -> Result<Range<usize>, ScanError> {
        let start = self.at;
        if self.text.get(start) != Some(&b'"') {
            return self.fail("a string");
        }
        let mut at = start + 1;
        loop {
            let rest = self.text.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                return self.fail("the string's end");
            };
            at += found;
            if self.text[at] == b'"' {
                self.at = at + 1;
                return Ok(start..self.at);
            }
            at += 2;
        }
    }

    fn literal(&mut self) {
        while let Some(b'+' | b'-' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8, expected: &'static str) -> Result<(), ScanError> {
        if self.peek() != Some(byte) {
            return self.fail(expected);
        }
        self.at += 1;
        Ok(())
    }
}
