//! The text of stream deltas whose sender counts in UTF-16, and so may cut between the halves of a surrogate pair.
//!
//! Owns how such halves are held and joined again; nothing is ever put in place of one. Must never know: which API or
//! field the text belongs to.

use std::borrow::Cow;

use serde::de::{self, Deserialize, Deserializer, Unexpected};
use serde_json::value::RawValue;

/// Half of a surrogate pair stands where nothing can complete it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("half of a surrogate pair came without its other half")]
pub(crate) struct LoneHalf;

impl LoneHalf {
    /// What the endpoint did wrong, for a failure's message.
    pub(crate) fn in_channel(self, channel: &str) -> String {
        format!("in {channel}, {self}")
    }
}

/// The text of one delta, borrowed where it has no escapes. Read it through the [`PendingHalf`] of its channel.
///
/// It can be read from JSON text only, and not within an internally tagged or flattened type, because serde keeps what
/// stands in those as whole strings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StreamText<'a> {
    /// The low half that it begins with.
    low: Option<u16>,
    text: Cow<'a, str>,
    /// The high half that it ends with.
    high: Option<u16>,
}

/// The high half that a channel's last delta ended with. A channel is whatever is joined to one text: a field of the
/// answer, or the arguments of one call.
#[derive(Default, Debug)]
pub(crate) struct PendingHalf(Option<u16>);

impl StreamText<'_> {
    /// Whether it holds nothing, not even a half.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.has_half()
    }

    /// Whether it holds nothing but white space.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && !self.has_half()
    }

    fn has_half(&self) -> bool {
        self.low.is_some() || self.high.is_some()
    }

    fn into_owned<'a>(self) -> StreamText<'a> {
        StreamText {
            low: self.low,
            text: Cow::Owned(self.text.into_owned()),
            high: self.high,
        }
    }
}

impl PendingHalf {
    /// The text that the channel's next delta adds: what is pending comes first, and a high half at the end is held back.
    pub(crate) fn join<'a>(&mut self, next: &'a StreamText<'_>) -> Result<Cow<'a, str>, LoneHalf> {
        if next.is_empty() {
            return Ok(Cow::Borrowed(""));
        }
        let text = match (self.0.take(), next.low) {
            (None, None) => Cow::Borrowed(next.text.as_ref()),
            (Some(high), Some(low)) => {
                let mut text = String::from_utf16(&[high, low]).map_err(|_| LoneHalf)?;
                text.push_str(&next.text);
                Cow::Owned(text)
            }
            (Some(_), None) | (None, Some(_)) => return Err(LoneHalf),
        };
        self.0 = next.high;
        Ok(text)
    }

    /// Nothing more comes for the channel: fails if it ended inside a pair.
    pub(crate) fn finish(&self) -> Result<(), LoneHalf> {
        match self.0 {
            None => Ok(()),
            Some(_) => Err(LoneHalf),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for StreamText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json reads a string as bytes in WTF-8, which has a form for halves, but then lets control characters
        // pass too; making it a raw value first refuses them.
        let raw = <&RawValue>::deserialize(deserializer)?;
        if !raw.get().starts_with('"') {
            let found = Unexpected::Other("a value of another type");
            return Err(de::Error::invalid_type(found, &"a string"));
        }
        let Wtf8(bytes) = serde_json::from_str(raw.get()).map_err(de::Error::custom)?;
        let text = match &bytes {
            Cow::Borrowed(bytes) => split(bytes),
            Cow::Owned(bytes) => split(bytes).map(StreamText::into_owned),
        };
        text.map_err(de::Error::custom)
    }
}

/// The bytes of a JSON string, in which a half has the three bytes that UTF-8 would give it.
#[derive(serde::Deserialize)]
struct Wtf8<'a>(#[serde(borrow)] Cow<'a, [u8]>);

fn split(bytes: &[u8]) -> Result<StreamText<'_>, LoneHalf> {
    let (mut low, mut high, mut middle) = (None, None, bytes);
    if let [0xED, second @ 0xB0..=0xBF, third, rest @ ..] = middle {
        low = Some(half(*second, *third));
        middle = rest;
    }
    if let [rest @ .., 0xED, second @ 0xA0..=0xAF, third] = middle {
        high = Some(half(*second, *third));
        middle = rest;
    }
    // Halves in the middle are no UTF-8.
    let text = std::str::from_utf8(middle).map_err(|_| LoneHalf)?;
    Ok(StreamText {
        low,
        text: Cow::Borrowed(text),
        high,
    })
}

/// The surrogate whose WTF-8 form is 0xED and these two bytes.
fn half(second: u8, third: u8) -> u16 {
    0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    /// Joins the deltas, given as JSON strings without their quotes, and says whether the text is whole.
    fn joined(deltas: &[&str]) -> Result<String, String> {
        let mut pending = PendingHalf::default();
        let mut text = String::new();
        for delta in deltas {
            let json = format!("\"{delta}\"");
            let delta: StreamText<'_> = serde_json::from_str(&json).map_err(|fault| fault.to_string())?;
            text.push_str(&pending.join(&delta).map_err(|fault| fault.to_string())?);
        }
        pending.finish().map_err(|fault| fault.to_string())?;
        Ok(text)
    }

    #[test]
    fn text_is_the_same_wherever_its_sender_cut_it() {
        let text = "a\u{ffff}\u{10000}é\u{10ffff}世😀😀\u{d7ff}\u{e000}\"\n";
        let units: Vec<u16> = text.encode_utf16().collect();
        let escaped =
            |units: &[u16]| -> String { units.iter().map(|unit| format!("\\u{unit:04x}")).collect() };
        for first in 0..=units.len() {
            for second in first..=units.len() {
                let deltas = [&units[..first], &units[first..second], &units[second..]].map(escaped);
                let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
                assert_eq!(joined(&deltas).as_deref(), Ok(text), "{first} {second}");
            }
        }
    }

    #[test]
    fn a_half_without_its_other_half_is_refused() {
        for deltas in [
            // Never completed.
            &[r"\ud83d"][..],
            &["a", r"b\uD83D", ""],
            // Other text follows, or another high half.
            &[r"a\ud83d", "b"],
            &[r"\ud83d", r"b\ude00"],
            &[r"\ud83d", r"\ud83d", r"\ude00"],
            // Low half first.
            &[r"\ude00"],
            &["a", r"\ude00b"],
            &[r"\ude00", r"\ud83d"],
            &[r"\ud83d\ude00", r"\ude00"],
            // Inside one delta.
            &[r"a\ud83db"],
            &[r"a\ude00"],
            &[r"\ud83db"],
            &[r"\ud83d\n"],
            &[r"\ud83d\ud83d", r"\ude00"],
            &[r"\ud83d", r"\ude00\ude00"],
        ] {
            let fault = joined(deltas).unwrap_err();
            assert!(
                fault.starts_with("half of a surrogate pair came without its other half"),
                "{deltas:?}: {fault}"
            );
        }
    }

    #[test]
    fn an_empty_delta_comes_between_nothing() {
        assert_eq!(joined(&[r"\ud83d", "", r"\ude00"]).as_deref(), Ok("😀"));
    }

    #[test]
    fn what_is_no_json_string_is_refused() {
        for json in [
            "5",
            "[240]",
            "null",
            "{}",
            r#""\ud8""#,
            r#""\x""#,
            "\"a\nb\"",
            "\"\\ud83d\n\"",
        ] {
            assert!(serde_json::from_str::<StreamText<'_>>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        let delta: StreamText<'_> = serde_json::from_str(r#""世😀""#).unwrap();
        assert!(matches!(delta.text, Cow::Borrowed("世😀")));
        assert_eq!((delta.low, delta.high), (None, None));
    }

    #[test]
    fn a_half_is_not_empty() {
        for (json, empty, blank) in [
            (r#""""#, true, true),
            (r#"" \n""#, false, true),
            (r#"" \ud83d""#, false, false),
            (r#""\ude00""#, false, false),
        ] {
            let delta: StreamText<'_> = serde_json::from_str(json).unwrap();
            assert_eq!((delta.is_empty(), delta.is_blank()), (empty, blank), "{json}");
        }
    }
}
