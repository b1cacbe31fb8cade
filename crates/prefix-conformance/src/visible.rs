//! Text of a request made safe to show: a terminal obeys control characters, and a reader cannot see marks that turn the
//! direction of writing.
//!
//! Must never know: where the text is shown.

/// The text with each such character written as an escape.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let hidden = character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if hidden {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_cannot_be_seen_is_written_out_and_the_rest_stays() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}é\n😀"), "a\\u{1b}[2J\\u{202e}é\\n😀");
    }
}
