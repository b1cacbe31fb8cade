//! Incremental decoding of string members of a JSON object whose text arrives in pieces.
//!
//! Owns the JSON text rules needed to follow a top-level object and to decode the strings of the members that the
//! caller named, at any split: inside a name, an escape or a surrogate pair. It shows what is certain so far and
//! judges nothing else; the whole text is parsed strictly when it is complete.
//! Must never know: any tool, or what the decoded text is for.

/// Follows one JSON object.
#[derive(Debug)]
pub struct StringFieldStream {
    fields: &'static [&'static str],
    place: Place,
    decoder: StringDecoder,
    /// The member name that is being read.
    name: String,
}

/// Something certain about a named member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldEvent {
    /// The member's string has grown by this decoded text.
    Text {
        /// The member's name.
        field: &'static str,
        /// Decoded text; never empty.
        text: String,
    },
    /// The member's string is complete.
    End {
        /// The member's name.
        field: &'static str,
    },
}

/// Where in the object the next character falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before the opening brace.
    Start,
    /// Before a member's name or the closing brace.
    BeforeName,
    /// In a member's name.
    Name,
    /// Before the colon.
    BeforeColon,
    /// Before a value; the member that it belongs to, if it was asked for.
    BeforeValue(Option<&'static str>),
    /// In the string of a member that was asked for.
    Wanted(&'static str),
    /// In a string at the top level that nobody asked for, or in one inside a nested value (`depth` > 0).
    SkippedString { depth: usize, escaped: bool },
    /// In a nested array or object.
    Nested { depth: usize },
    /// In a number, `true`, `false` or `null`.
    Bare,
    /// After a value.
    AfterValue,
    /// After the closing brace, or after a breach of JSON's rules: nothing more is certain.
    Over,
}

impl StringFieldStream {
    /// Follows an object and decodes these of its top-level members where they are strings.
    pub fn new(fields: &'static [&'static str]) -> Self {
        Self {
            fields,
            place: Place::Start,
            decoder: StringDecoder::default(),
            name: String::new(),
        }
    }

    /// Takes the next piece of the object's text.
    pub fn push(&mut self, piece: &str) -> Vec<FieldEvent> {
        let mut events = Vec::new();
        let mut text = String::new();
        for character in piece.chars() {
            let before = self.place;
            self.place = self.step(character, &mut text);
            if let Place::Wanted(field) = before
                && self.place != before
            {
                flush(&mut events, field, &mut text);
                if self.place == Place::AfterValue {
                    events.push(FieldEvent::End { field });
                }
            }
        }
        if let Place::Wanted(field) = self.place {
            flush(&mut events, field, &mut text);
        }
        events
    }

    fn step(&mut self, character: char, text: &mut String) -> Place {
        let blank = matches!(character, ' ' | '\t' | '\n' | '\r');
        match self.place {
            Place::Start
            | Place::BeforeName
            | Place::BeforeColon
            | Place::BeforeValue(_)
            | Place::AfterValue
                if blank =>
            {
                self.place
            }
            Place::Start if character == '{' => Place::BeforeName,
            Place::BeforeName if character == '"' => {
                self.name.clear();
                self.decoder = StringDecoder::default();
                Place::Name
            }
            Place::Name => match self.decoder.push(character, &mut self.name) {
                Decoded::Goes => Place::Name,
                Decoded::Ends => Place::BeforeColon,
                Decoded::Broken => Place::Over,
            },
            Place::BeforeColon if character == ':' => {
                Place::BeforeValue(self.fields.iter().copied().find(|field| *field == self.name))
            }
            Place::BeforeValue(wanted) => match (character, wanted) {
                ('"', Some(field)) => {
                    self.decoder = StringDecoder::default();
                    Place::Wanted(field)
                }
                ('"', None) => Place::SkippedString {
                    depth: 0,
                    escaped: false,
                },
                ('{' | '[', _) => Place::Nested { depth: 1 },
                (',' | '}' | ']' | ':', _) => Place::Over,
                _ => Place::Bare,
            },
            Place::Wanted(field) => match self.decoder.push(character, text) {
                Decoded::Goes => Place::Wanted(field),
                Decoded::Ends => Place::AfterValue,
                Decoded::Broken => Place::Over,
            },
            Place::SkippedString { depth, escaped } => match character {
                '"' if !escaped && depth == 0 => Place::AfterValue,
                '"' if !escaped => Place::Nested { depth },
                _ => Place::SkippedString {
                    depth,
                    escaped: character == '\\' && !escaped,
                },
            },
            Place::Nested { depth } => match character {
                '"' => Place::SkippedString {
                    depth,
                    escaped: false,
                },
                '{' | '[' => Place::Nested { depth: depth + 1 },
                '}' | ']' if depth == 1 => Place::AfterValue,
                '}' | ']' => Place::Nested { depth: depth - 1 },
                _ => self.place,
            },
            Place::Bare if blank => Place::AfterValue,
            Place::Bare | Place::AfterValue if character == ',' => Place::BeforeName,
            Place::Bare if character != '}' => Place::Bare,
            _ => Place::Over,
        }
    }
}

fn flush(events: &mut Vec<FieldEvent>, field: &'static str, text: &mut String) {
    if !text.is_empty() {
        events.push(FieldEvent::Text {
            field,
            text: std::mem::take(text),
        });
    }
}

/// Decodes the inside of one JSON string, a character at a time.
#[derive(Debug, Default)]
struct StringDecoder {
    escape: Escape,
    /// The first half of a surrogate pair, waiting for its second.
    high: Option<u32>,
}

#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    Hex {
        digits: u32,
        value: u32,
    },
}

enum Decoded {
    /// The string goes on.
    Goes,
    /// The closing quote was reached.
    Ends,
    /// This is not a JSON string that stands for text.
    Broken,
}

impl StringDecoder {
    fn push(&mut self, character: char, out: &mut String) -> Decoded {
        match self.escape {
            Escape::None => match character {
                '\\' => self.escape = Escape::Backslash,
                // A lone half of a pair is no character: a strict parser refuses it too.
                _ if self.high.is_some() => return Decoded::Broken,
                '"' => return Decoded::Ends,
                '\0'..='\u{1f}' => return Decoded::Broken,
                _ => out.push(character),
            },
            Escape::Backslash => {
                let simple = match character {
                    'u' => {
                        self.escape = Escape::Hex { digits: 0, value: 0 };
                        return Decoded::Goes;
                    }
                    '"' | '\\' | '/' => character,
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    _ => return Decoded::Broken,
                };
                if self.high.is_some() {
                    return Decoded::Broken;
                }
                self.escape = Escape::None;
                out.push(simple);
            }
            Escape::Hex { digits, value } => {
                let Some(digit) = character.to_digit(16) else {
                    return Decoded::Broken;
                };
                let value = value * 16 + digit;
                if digits < 3 {
                    self.escape = Escape::Hex {
                        digits: digits + 1,
                        value,
                    };
                    return Decoded::Goes;
                }
                self.escape = Escape::None;
                let code = match (self.high.take(), value) {
                    (None, 0xD800..=0xDBFF) => {
                        self.high = Some(value);
                        return Decoded::Goes;
                    }
                    (Some(high), 0xDC00..=0xDFFF) => 0x10000 + ((high - 0xD800) << 10) + (value - 0xDC00),
                    (Some(_), _) => return Decoded::Broken,
                    (None, code) => code,
                };
                match char::from_u32(code) {
                    Some(decoded) => out.push(decoded),
                    None => return Decoded::Broken,
                }
            }
        }
        Decoded::Goes
    }
}

#[cfg(test)]
#[path = "json_stream_tests.rs"]
mod tests;
