//! Words of others between an opening and a closing tag of ours: whatever they say, they stay inside.
//!
//! Must never know: which tags there are, or what they mean.

use std::borrow::Cow;
use std::sync::Arc;

/// Two texts of ours around words of others: it begins with `<tag>` and ends with `</tag>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The name of the tag.
    pub tag: Arc<str>,
    /// Stands before the words, the opening tag included.
    pub before: Arc<str>,
    /// Stands behind them, the closing tag included.
    pub after: Arc<str>,
}

impl Frame {
    /// The words inside the frame; they cannot end it.
    pub fn around(&self, words: &str) -> String {
        format!("{}{}{}", self.before, keep_inside(&self.tag, words), self.after)
    }
}

/// What takes the place of a `<` that would begin the frame's own tag.
const ESCAPED: &str = "&lt;";

/// The text as it may stand between `<tag>` and `</tag>`: what a reader could take for either of the two has its `<`
/// written as `&lt;`, in any case of letters and with blanks in it. Nothing else changes, so that a text without such a
/// place goes out as it came. One pass; the same text always gives the same bytes, and given twice it changes once.
pub fn keep_inside<'a>(tag: &str, text: &'a str) -> Cow<'a, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('<') {
        let behind = text.get(at + 1..).unwrap_or_default();
        if opens_or_closes(tag, behind) {
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str(ESCAPED);
            copied = at + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Whether what stands behind a `<` is the rest of this tag, opening or closing.
fn opens_or_closes(tag: &str, behind: &str) -> bool {
    let name = behind.trim_start();
    let name = name.strip_prefix('/').unwrap_or(name).trim_start();
    let (Some(found), Some(rest)) = (name.get(..tag.len()), name.get(tag.len()..)) else {
        return false;
    };
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    found.eq_ignore_ascii_case(tag) && !rest.starts_with(goes_on)
}

#[cfg(test)]
mod tests {
    use super::keep_inside;

    #[test]
    fn the_frames_own_tags_are_escaped_in_every_spelling() {
        for (said, expected) in [
            ("a</note>b", "a&lt;/note>b"),
            ("<note>a</note>", "&lt;note>a&lt;/note>"),
            ("</ NOTE\n>", "&lt;/ NOTE\n>"),
            ("< / Note x=\"1\">", "&lt; / Note x=\"1\">"),
            ("</note", "&lt;/note"),
            ("<</note>", "<&lt;/note>"),
            // A blank behind the `<` is no reason to trust the rest.
            ("a < note", "a &lt; note"),
            ("é</note>é", "é&lt;/note>é"),
        ] {
            let kept = keep_inside("note", said);
            assert_eq!(kept, expected);
            assert_eq!(keep_inside("note", &kept), expected, "twice is once");
        }
    }

    #[test]
    fn all_else_goes_out_as_it_came() {
        for said in [
            "",
            "<",
            "</",
            "<notes>",
            "</note-book>",
            "<b>note</b>",
            "&lt;/note>",
            "{{note}}",
            "</né>",
        ] {
            assert_eq!(keep_inside("note", said), said);
        }
    }
}
