//! Response bodies that came as gzip although none was asked for: unpacked as they come.
//!
//! Some gateways compress whatever passes through them, with and without saying so. The bytes tell: no event stream, JSON or
//! web page begins like gzip. Must never know: what the bytes are for.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

const GZIP: &[u8] = b"\x1f\x8b";

/// One body on its way.
#[derive(Debug)]
pub(crate) enum Unpacker {
    /// The bytes so far are too few to tell.
    Unknown(Vec<u8>),
    /// Nothing is to be done.
    Plain,
    /// Packed; the writer is emptied after each piece.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Unpacker {
    /// For the start of a body.
    pub(crate) fn new() -> Self {
        Self::Unknown(Vec::new())
    }

    /// What the next bytes of the body bring; may be empty. Fails if the packing is broken.
    pub(crate) fn push(&mut self, bytes: Bytes) -> io::Result<Bytes> {
        let bytes = match self {
            Self::Unknown(head) => {
                head.extend_from_slice(&bytes);
                if head.len() < GZIP.len() && GZIP.starts_with(head) {
                    return Ok(Bytes::new());
                }
                let head = std::mem::take(head);
                *self = match head.starts_with(GZIP) {
                    true => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
                    false => Self::Plain,
                };
                head.into()
            }
            Self::Plain | Self::Gzip(_) => bytes,
        };
        match self {
            Self::Unknown(_) | Self::Plain => Ok(bytes),
            Self::Gzip(decoder) => {
                decoder.write_all(&bytes)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
        }
    }

    /// The body is over: what was held back, if it was too short to tell.
    pub(crate) fn finish(&mut self) -> Bytes {
        match std::mem::replace(self, Self::Plain) {
            Self::Unknown(head) => head.into(),
            Self::Plain | Self::Gzip(_) => Bytes::new(),
        }
    }
}

/// Whether a content encoding is one that [`Unpacker`] reads.
pub(crate) fn is_readable(encoding: &[u8]) -> bool {
    [&b"identity"[..], b"gzip", b"x-gzip", b""]
        .iter()
        .any(|known| encoding.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn unpacked(body: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let mut unpacker = Unpacker::new();
        let mut whole = Vec::new();
        for piece in body.chunks(piece) {
            whole.extend_from_slice(&unpacker.push(Bytes::copy_from_slice(piece))?);
        }
        whole.extend_from_slice(&unpacker.finish());
        Ok(whole)
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn packed_and_plain_bodies_come_out_the_same_however_they_are_cut() {
        let text = b"data: {\"a\":1}\n\n".repeat(50);
        let two = [packed(&text[..300]), packed(&text[300..])].concat();
        for piece in [1, 2, 7, usize::MAX] {
            for body in [&text, &packed(&text), &two] {
                assert_eq!(unpacked(body, piece.min(body.len())).unwrap(), text, "{piece}");
            }
        }
        for short in [&b""[..], b"\x1f", b"d"] {
            assert_eq!(unpacked(short, 1).unwrap(), short);
        }
    }

    #[test]
    fn what_came_before_a_cut_comes_out_and_broken_packing_is_refused() {
        let text = b"data: {\"a\":1}\n\n".repeat(50);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&text).unwrap();
        encoder.flush().unwrap();
        let cut = encoder.get_ref().clone();
        assert_eq!(unpacked(&cut, 5).unwrap(), text);
        let mut broken = packed(&text);
        // The first byte after the header names a kind of block that there is not.
        broken[10] = 0xFF;
        assert!(unpacked(&broken, 5).is_err());
    }
}
