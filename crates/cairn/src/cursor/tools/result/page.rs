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

/// Deeper pages are shown without their markup: the conversion goes down the tree by recursion, and a page must not
/// exhaust the thread's stack. Pages that people wrote have some dozen levels.
const DEEPEST: usize = 200;

fn markdown(html: &str) -> String {
    if depth(html) > DEEPEST {
        return without_markup(html);
    }
    HtmlToMarkdown::builder()
        .skip_tags(UNSEEN.to_vec())
        .build()
        .convert(html)
        // The parser takes any text; it fails only where its input cannot be read, and a string can.
        .unwrap_or_else(|_| html.to_owned())
}

/// At least how deep the elements of a page stand in each other: an element that is never closed holds what follows,
/// and an end without a beginning closes nothing.
fn depth(html: &str) -> usize {
    let (mut open, mut deepest) = (Vec::<&str>::new(), 0);
    for tag in tags(html) {
        match tag {
            Tag::Begin(name) => {
                // A list item or a paragraph ends where the next one begins.
                if open.last() == Some(&name) && ENDS_BY_ITSELF.contains(&name.to_ascii_lowercase().as_str())
                {
                    continue;
                }
                open.push(name);
                deepest = deepest.max(open.len());
            }
            // Of a name that is not near the top, the end may belong to something that ended by itself.
            Tag::End(name) => {
                let near = open.iter().rev().take(8);
                let place = near
                    .enumerate()
                    .find(|(_, begun)| begun.eq_ignore_ascii_case(name));
                if let Some((above, _)) = place {
                    open.truncate(open.len() - above - 1);
                }
            }
        }
    }
    deepest
}

/// Elements whose end may be left out.
const ENDS_BY_ITSELF: [&str; 8] = ["p", "li", "td", "th", "tr", "dt", "dd", "option"];
/// Elements that hold nothing.
const EMPTY: [&str; 10] = [
    "br", "img", "input", "meta", "link", "hr", "wbr", "source", "area", "col",
];

enum Tag<'a> {
    Begin(&'a str),
    End(&'a str),
}

/// The tags of a page in their order, but for those of elements that hold nothing.
fn tags(html: &str) -> impl Iterator<Item = Tag<'_>> {
    html.split('<').skip(1).filter_map(|piece| {
        let (end, piece) = match piece.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, piece),
        };
        let length = piece
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .unwrap_or(piece.len());
        let name = &piece[..length];
        let is_tag = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_empty = EMPTY.contains(&name.to_ascii_lowercase().as_str());
        match (is_tag && !is_empty, end) {
            (false, _) => None,
            (true, true) => Some(Tag::End(name)),
            (true, false) => Some(Tag::Begin(name)),
        }
    })
}

/// The page's text, with its tags taken out and nothing else.
fn without_markup(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    for (index, piece) in html.split('<').enumerate() {
        let piece = match (index, piece.split_once('>')) {
            (0, _) => piece,
            (_, Some((_, after))) => after,
            (_, None) => continue,
        };
        let piece = piece.trim();
        if !piece.is_empty() {
            text.push_str(piece);
            text.push('\n');
        }
    }
    text
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

    /// Each of these ended the process before pages were measured.
    #[test]
    fn a_page_of_any_depth_is_read() {
        for (begin, end) in [
            ("<div>", "</div>"),
            ("<b>", ""),
            ("<ul><li>", ""),
            ("<BLOCKQUOTE>", "</BLOCKQUOTE>"),
            ("<a href='x'><span>", "</span></a>"),
        ] {
            let page = format!("{}words{}", begin.repeat(50_000), end.repeat(50_000));
            assert_eq!(
                readable("text/html", &page).as_deref(),
                Some("words\n"),
                "{begin}"
            );
        }
        // Many siblings are no depth, with and without their ends.
        let list = format!("<ul>{}</ul>", "<li>one<br>".repeat(1_000));
        assert!(readable("text/html", &list).is_some_and(|text| text.starts_with("*   one")));
        let paragraphs = "<p>one</p>".repeat(1_000);
        assert!(readable("text/html", &paragraphs).is_some_and(|text| text.starts_with("one\n\none")));
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
