//! A fetched page as text that a model reads: pages in HTML become Markdown, other text stays as it is.
//!
//! The conversion is htmd's: a reader of HTML as browsers have it, whatever the page's faults, and the usual Markdown.
//! Must never know: where a page came from.

mod tree;

use std::rc::Rc;

use htmd::HtmlToMarkdown;
use markup5ever_rcdom::{Node, NodeData};

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

/// What a fetched content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Text as it stands.
    Text,
    /// A page whose markup [`read_page`] reads.
    Page,
    /// No text.
    Other,
}

/// What a content is by its type or, without one, by itself.
pub(super) fn content_of(content_type: &str, content: &str) -> Content {
    let kind = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match kind.as_str() {
        "text/html" | "application/xhtml+xml" => Content::Page,
        // Without a type the content itself has to show it.
        "" if content.contains(['\0', char::REPLACEMENT_CHARACTER]) => Content::Other,
        "" => Content::Text,
        kind if kind.starts_with("text/") || TEXTS.iter().any(|text| kind.contains(text)) => Content::Text,
        _ => Content::Other,
    }
}

/// Deeper pages are shown without their markup: the conversion goes down the tree by recursion, and a page must not
/// exhaust the thread's stack. Pages that people wrote have some dozen levels.
const DEEPEST: usize = 200;

/// A page in HTML as text; none if its markup grows without end when it is read. Takes up to seconds of a processor.
pub fn read_page(html: &str) -> Option<String> {
    let tree = tree::parse(html).ok()?;
    Some(match is_deeper(&tree, DEEPEST) {
        true => text_of(&tree),
        false => HtmlToMarkdown::builder()
            .skip_tags(UNSEEN.to_vec())
            .build()
            .tree_to_markdown(&tree),
    })
}

/// Whether the tree has more than this many levels below its root.
fn is_deeper(tree: &Rc<Node>, most: usize) -> bool {
    let mut todo = vec![(Rc::clone(tree), 0)];
    while let Some((node, depth)) = todo.pop() {
        if depth > most {
            return true;
        }
        let children = node.children.borrow();
        todo.extend(children.iter().map(|child| (Rc::clone(child), depth + 1)));
    }
    false
}

/// The texts of the tree, one a line, without what nobody sees.
fn text_of(tree: &Rc<Node>) -> String {
    let mut text = String::new();
    let mut todo = vec![Rc::clone(tree)];
    while let Some(node) = todo.pop() {
        match &node.data {
            NodeData::Element { name, .. } if UNSEEN.contains(&&*name.local) => continue,
            NodeData::Text { contents } => {
                let contents = contents.borrow();
                let line = contents.trim();
                if !line.is_empty() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            NodeData::Element { .. }
            | NodeData::Document
            | NodeData::Doctype { .. }
            | NodeData::Comment { .. }
            | NodeData::ProcessingInstruction { .. } => {}
        }
        // The first child is taken first.
        todo.extend(node.children.borrow().iter().rev().cloned());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Content, UNSEEN, content_of, read_page};

    #[test]
    fn a_page_becomes_markdown_without_what_nobody_sees() {
        let html = "<html><head><title>T</title><style>p{}</style></head><body><script>x()</script>\
                    <h1>Hello</h1><p>Some <a href=\"/x\">link</a> &amp; <b>text</b></p><ul><li>a<li>b</ul></body></html>";
        let expected = "# Hello\n\nSome [link](/x) & **text**\n\n*   a\n*   b";
        assert_eq!(content_of("text/html; charset=utf-8", html), Content::Page);
        assert_eq!(read_page(html).as_deref(), Some(expected));
    }

    /// Each of these ended the process before pages were measured. The last ones are deep only as browsers read them.
    #[test]
    fn a_page_of_any_depth_is_read() {
        for (begin, end) in [
            ("<div>", "</div>"),
            ("<b>", ""),
            ("<ul><li>", ""),
            ("<blockquote>", "</blockquote>"),
            ("<span><div></span>", ""),
            ("<div><!--</div>-->", ""),
            ("<div><table><tr><td></div>", ""),
        ] {
            let page = format!(
                "<title>no</title>{}a &amp; b<p>c{}",
                begin.repeat(1_000),
                end.repeat(1_000)
            );
            let read = read_page(&page);
            assert_eq!(read.as_deref(), Some("a & b\nc\n"), "{begin}");
        }
        let opened: String = (0..500).map(|n| format!("<div><b id={n}></div>")).collect();
        assert_eq!(read_page(&format!("{opened}x")).as_deref(), Some("x\n"));
        // Many siblings are no depth.
        let list = format!("<ul>{}</ul>", "<li>one".repeat(1_000));
        assert!(read_page(&list).is_some_and(|text| text.starts_with("*   one\n*   one")));
    }

    #[test]
    fn a_long_page_is_the_same_read_in_pieces() {
        let paragraphs: String = (0..3_000)
            .map(|n| {
                format!(
                    "<h2 id={n}>Ü😀 {n}</h2><p>Some <b>bold &amp; <i>mixed</b> text</i> 世界 <a href='/x?a=1&b={n}'>go</a>\
                     <table><tr><td>{n}<td>b</table><pre>  x\n  y</pre><!-- no -->"
                )
            })
            .collect();
        let html = format!("<!doctype html><title>T</title><body>{paragraphs}");
        let at_once = htmd::HtmlToMarkdown::builder()
            .skip_tags(UNSEEN.to_vec())
            .build()
            .convert(&html)
            .unwrap();
        assert!(at_once.len() > 100_000);
        assert!(read_page(&html).unwrap() == at_once, "the pages differ");
    }

    /// Each of these grows with the square of its length.
    #[test]
    fn a_page_that_grows_without_end_is_given_up() {
        let numbered = |form: &dyn Fn(usize) -> String| -> String { (0..60_000).map(form).collect() };
        for page in [
            numbered(&|n| format!("<div><b id={n}></div>")),
            numbered(&|n| format!("<p><i id={n}>")),
        ] {
            assert_eq!(read_page(&page), None, "{}", &page[..40]);
        }
    }

    #[test]
    fn other_text_stays_and_what_is_no_text_is_refused() {
        let check = |kind: &str, content: &str, expected: Content| {
            assert_eq!(content_of(kind, content), expected, "{kind}");
        };
        check("text/plain", "a\nb", Content::Text);
        check("application/ld+json", "{}", Content::Text);
        check("", "words", Content::Text);
        check("", "\u{FFFD}PNG", Content::Other);
        check("image/png", "x", Content::Other);
        check("application/octet-stream", "x", Content::Other);
    }
}
