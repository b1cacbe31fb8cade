//! A fetched page as text that a model reads: pages in HTML become Markdown, other text stays as it is.
//!
//! The conversion is htmd's: a reader of HTML as browsers have it, whatever the page's faults, and the usual Markdown.
//! Must never know: where a page came from.

use htmd::HtmlToMarkdown;

/// Elements that no reader sees or that say nothing in text.
const UNSEEN: [&str; 8] = [
    "script", "style", "noscript", "template", "svg", "iframe", "head", "nav",
];
/// Kinds of content that are text beside `text/*`.
const TEXTS: [&str; 8] = [
    "json",
    "xml",
    "javascript",
    "ecmascript",
    "yaml",
    "toml",
    "x-sh",
    "graphql",
];

/// The content as text. None if it is no text.
pub(super) fn readable(content_type: &str, content: &str) -> Option<String> {
    let kind = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match kind.as_str() {
        "text/html" | "application/xhtml+xml" => Some(markdown(content)),
        // Without a type the content itself has to show it.
        "" => (!content.contains(['\0', char::REPLACEMENT_CHARACTER])).then(|| content.to_owned()),
        kind => {
            let is_text = kind.starts_with("text/") || TEXTS.iter().any(|text| kind.contains(text));
            is_text.then(|| content.to_owned())
        }
    }
}

fn markdown(html: &str) -> String {
    HtmlToMarkdown::builder()
        .skip_tags(UNSEEN.to_vec())
        .build()
        .convert(html)
        // The parser takes any text; it fails only where its input cannot be read, and a string can.
        .unwrap_or_else(|_| html.to_owned())
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn a_page_becomes_markdown_without_what_nobody_sees() {
        let html = "<html><head><title>T</title><style>p{}</style></head><body><script>x()</script>\
                    <h1>Hello</h1><p>Some <a href=\"/x\">link</a> &amp; <b>text</b></p><ul><li>a<li>b</ul></body></html>";
        let expected = "# Hello\n\nSome [link](/x) & **text**\n\n*   a\n*   b";
        assert_eq!(
            readable("text/html; charset=utf-8", html).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn other_text_stays_and_what_is_no_text_is_refused() {
        let check = |kind: &str, content: &str, expected: Option<&str>| {
            assert_eq!(readable(kind, content).as_deref(), expected, "{kind}");
        };
        check("text/plain", "a\nb", Some("a\nb"));
        check("application/ld+json", "{}", Some("{}"));
        check("", "words", Some("words"));
        check("", "\u{FFFD}PNG", None);
        check("image/png", "x", None);
        check("application/octet-stream", "x", None);
    }
}
