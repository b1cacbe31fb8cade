//! A fetched page as text that a model reads: pages in HTML become Markdown, other text stays as it is.
//!
//! The conversion is htmd's: a reader of HTML as browsers have it, whatever the page's faults, and the usual Markdown.
//! Must never know: where a page came from.

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
    let converter = HtmlToMarkdown::builder().skip_tags(UNSEEN.to_vec()).build();
    match converter.html_to_tree(html) {
        Ok(tree) if is_deeper(&tree, DEEPEST) => text_of(&tree),
        Ok(tree) => converter.tree_to_markdown(&tree),
        // The parser takes any text; it fails only where its input cannot be read, and a string can.
        Err(_) => html.to_owned(),
    }
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
                begin.repeat(2_000),
                end.repeat(2_000)
            );
            let read = readable("text/html", &page);
            assert_eq!(read.as_deref(), Some("a & b\nc\n"), "{begin}");
        }
        let opened: String = (0..1_000).map(|n| format!("<div><b id={n}></div>")).collect();
        assert_eq!(
            readable("text/html", &format!("{opened}x")).as_deref(),
            Some("x\n")
        );
        // Many siblings are no depth.
        let list = format!("<ul>{}</ul>", "<li>one".repeat(1_000));
        assert!(readable("text/html", &list).is_some_and(|text| text.starts_with("*   one\n*   one")));
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
