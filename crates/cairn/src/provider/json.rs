//! JSON text written byte for byte, and strings read without a copy.
//!
//! Must never know: what the text says.

use std::borrow::Cow;

use serde::Deserialize;

/// Text borrowed from its JSON where it has no escapes.
#[derive(Deserialize, Debug)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// JSON text under construction. Written by hand because raw texts must go in byte for byte.
#[derive(Default, Debug)]
pub(crate) struct Json {
    pub(crate) bytes: Vec<u8>,
}

impl Json {
    /// Writes text as it is.
    pub(crate) fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes text as a JSON string.
    pub(crate) fn string(&mut self, text: &str) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self.bytes.push(b'"');
        let bytes = text.as_bytes();
        let mut written = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            let escape = match byte {
                b'"' => Some(b'"'),
                b'\\' => Some(b'\\'),
                b'\n' => Some(b'n'),
                b'\r' => Some(b'r'),
                b'\t' => Some(b't'),
                0..0x20 => None,
                _ => continue,
            };
            self.bytes.extend_from_slice(&bytes[written..at]);
            written = at + 1;
            match escape {
                Some(escape) => self.bytes.extend_from_slice(&[b'\\', escape]),
                None => self.bytes.extend_from_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ]),
            }
        }
        self.bytes.extend_from_slice(&bytes[written..]);
        self.bytes.push(b'"');
    }
}
