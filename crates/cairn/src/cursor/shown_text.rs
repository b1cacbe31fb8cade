//! How the server's own remarks stand apart from the answer in what the client shows: with an empty line between them,
//! which belongs to neither.
//!
//! Must never know: what either says, or what enters a history.

/// What stands between two texts.
const APART: &str = "\n\n";

/// What was shown last, and so what has to come before the next text.
#[derive(Debug, Default)]
pub struct ShownText {
    last: Last,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Last {
    /// Nothing that a text could touch.
    #[default]
    Nothing,
    /// Answer text that ends with this many line ends, of which two are enough.
    Answer { line_ends: usize },
    /// A remark.
    Notice,
}

impl ShownText {
    /// Takes a piece of the answer. Returns what has to be shown before it.
    pub fn answer(&mut self, piece: &str) -> Option<&'static str> {
        if piece.is_empty() {
            return None;
        }
        let before = match self.last {
            Last::Notice => Some(APART),
            Last::Nothing | Last::Answer { .. } => None,
        };
        let ends = piece.len() - piece.trim_end_matches('\n').len();
        let carried = match self.last {
            Last::Answer { line_ends } if ends == piece.len() => line_ends,
            Last::Nothing | Last::Answer { .. } | Last::Notice => 0,
        };
        self.last = Last::Answer {
            line_ends: (carried + ends).min(APART.len()),
        };
        before
    }

    /// Takes a remark. Returns it as it has to be shown.
    pub fn notice(&mut self, notice: &str) -> String {
        let present = match self.last {
            Last::Nothing => APART.len(),
            Last::Answer { line_ends } => line_ends,
            Last::Notice => 0,
        };
        self.last = Last::Notice;
        format!("{}{}", APART.get(present..).unwrap_or_default(), notice.trim())
    }

    /// Something else is shown, such as a tool call.
    pub fn interrupted(&mut self) {
        self.last = Last::Nothing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a line of answers (`a`), remarks (`n`) and other things (`-`).
    fn shown(said: &[(char, &str)]) -> String {
        let mut state = ShownText::default();
        let mut out = String::new();
        for (kind, text) in said {
            match kind {
                'a' => {
                    out.push_str(state.answer(text).unwrap_or_default());
                    out.push_str(text);
                }
                'n' => out.push_str(&state.notice(text)),
                _ => {
                    state.interrupted();
                    out.push('|');
                }
            }
        }
        out
    }

    #[test]
    fn a_remark_and_an_answer_have_an_empty_line_between_them() {
        for (said, expected) in [
            (vec![('n', "n")], "n"),
            (vec![('a', "a"), ('a', "b"), ('n', "n")], "ab\n\nn"),
            (vec![('n', "n"), ('a', "a"), ('a', "b")], "n\n\nab"),
            (
                vec![('n', "n\n"), ('n', "m"), ('a', ""), ('a', "a")],
                "n\n\nm\n\na",
            ),
            (vec![('a', "a\n"), ('n', "n")], "a\n\nn"),
            (
                vec![('a', "a\n"), ('a', "\n"), ('a', "\n"), ('n', "n")],
                "a\n\n\nn",
            ),
            (
                vec![('a', "a"), ('-', ""), ('n', "n"), ('-', ""), ('a', "b")],
                "a|n|b",
            ),
        ] {
            assert_eq!(shown(&said), expected);
        }
    }
}
