//! How compiled text is laid out: tags of our own around text that came from elsewhere.
//!
//! Bodies go out as they came: they are the person's words and the project's files, and changing a byte would be
//! worse than a body that holds something like a tag. Attribute values are escaped.

use std::fmt::Write as _;

/// Builds a text of tagged sections, separated by line ends.
#[derive(Default)]
pub(super) struct Tagged {
    out: String,
}

impl Tagged {
    /// Adds a line.
    pub(super) fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Adds `<name attributes>`, the body, `</name>`, each on lines of its own; an empty body gives `<name … />`.
    /// Attributes with an empty value are left out.
    pub(super) fn element(&mut self, name: &str, attributes: &[(&str, &str)], body: &str) {
        self.out.push('<');
        self.out.push_str(name);
        for (key, value) in attributes {
            if !value.is_empty() {
                let _ = write!(self.out, " {key}=\"{}\"", escape(value));
            }
        }
        if body.is_empty() {
            self.out.push_str(" />\n");
            return;
        }
        self.out.push_str(">\n");
        self.out.push_str(body);
        if !body.ends_with('\n') {
            self.out.push('\n');
        }
        let _ = writeln!(self.out, "</{name}>");
    }

    /// Adds an element around the lines of a section, if there are any; `intro` goes before them.
    pub(super) fn section(&mut self, name: &str, intro: &str, body: &str) {
        if !body.is_empty() {
            let intro = if intro.is_empty() {
                String::new()
            } else {
                format!("{intro}\n")
            };
            self.element(name, &[], &format!("{intro}{body}"));
        }
    }

    /// The text without the last line end.
    pub(super) fn finish(mut self) -> String {
        if self.out.ends_with('\n') {
            self.out.pop();
        }
        self.out
    }
}

/// A value as it stands inside the quotes of an attribute.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            c => out.push(c),
        }
    }
    out
}

/// A value as one line of a list: line ends become blanks.
pub(super) fn one_line(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
