//! Writes recordings.
//!
//! Must never know: where calls come from.

use std::collections::BTreeMap;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{Answer, CallLine, Head, HeadType, Lane, Line, VERSION};
use crate::api::Api;
use crate::measure::common;
use crate::scan::Scanner;

/// Bytes of a body in one line, before escaping.
const PIECE: usize = 64 << 10;

/// A call that is to be written.
#[derive(Debug)]
pub struct NewCall {
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// The API.
    pub api: Api,
    /// The body as it was sent.
    pub body: Vec<u8>,
}

/// Writes a recording line by line. Holds the last body of each lane.
#[derive(Debug)]
pub struct RecordingWriter<W> {
    out: W,
    calls: usize,
    last: BTreeMap<Lane, Vec<u8>>,
}

impl<W: Write> RecordingWriter<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        let head = Head {
            r#type: HeadType::Recording,
            version: VERSION,
        };
        write_line(&mut out, &head)?;
        Ok(Self {
            out,
            calls: 0,
            last: BTreeMap::new(),
        })
    }

    /// Writes a call and returns its number, from 1.
    ///
    /// # Errors
    /// If writing fails.
    pub fn call(&mut self, call: NewCall) -> io::Result<usize> {
        self.calls += 1;
        let lane = Lane {
            api: call.api,
            model: model_of(&call.body),
        };
        let body = call.body;
        let before = self.last.get(&lane).map(Vec::as_slice).unwrap_or_default();
        let mut keep = common(before, &body);
        let most = (before.len() - keep).min(body.len() - keep);
        let mut tail = before
            .iter()
            .rev()
            .zip(body.iter().rev())
            .take(most)
            .take_while(|(one, other)| one == other)
            .count();
        // The pieces between are text only if they begin and end with whole characters.
        let inside = |at: usize| body.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
        while keep > 0 && inside(keep) {
            keep -= 1;
        }
        while tail > 0 && inside(body.len() - tail) {
            tail -= 1;
        }
        let line = Line::Call(CallLine {
            call: self.calls,
            at_ms: call.at_ms,
            lane: lane.clone(),
            bytes: body.len(),
            keep,
            tail,
        });
        write_line(&mut self.out, &line)?;
        self.pieces(&body[keep..body.len() - tail])?;
        self.out.flush()?;
        self.last.insert(lane, body);
        Ok(self.calls)
    }

    /// Writes how a call was answered.
    ///
    /// # Errors
    /// If writing fails.
    pub fn answer(&mut self, answer: Answer) -> io::Result<()> {
        write_line(&mut self.out, &Line::Answer(answer))?;
        self.out.flush()
    }

    fn pieces(&mut self, mut rest: &[u8]) -> io::Result<()> {
        let text = std::str::from_utf8(rest).is_ok();
        while !rest.is_empty() {
            let mut end = PIECE.min(rest.len());
            while text && rest.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            let (piece, later) = rest.split_at(end);
            match std::str::from_utf8(piece) {
                Ok(piece) if text => write_line(&mut self.out, &json!({"type": "text", "text": piece}))?,
                _ => write_line(
                    &mut self.out,
                    &json!({"type": "base64", "base64": STANDARD.encode(piece)}),
                )?,
            }
            rest = later;
        }
        Ok(())
    }
}

/// The model that a body names; empty if it names none.
fn model_of(body: &[u8]) -> String {
    let mut model = String::new();
    let mut scanner = Scanner::new(body);
    // A body that is no JSON is recorded too, and the report says what is wrong with it.
    let _ = scanner.object(|scanner, key| {
        let value = scanner.value()?;
        if &body[key] == b"model" {
            model = serde_json::from_slice(&body[value]).unwrap_or_default();
        }
        Ok(())
    });
    model
}

fn write_line(out: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
