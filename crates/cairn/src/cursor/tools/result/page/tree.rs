//! A page's tree as browsers read it, as far as a page that people wrote can grow.
//!
//! Browsers repair broken markup by making elements that nobody wrote: a page of `<div><b id=1></div><div><b id=2></div>…`
//! grows with the square of its length. So the tree is counted while it grows, and timed. Must never know: what becomes of
//! it.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, parse_document};
use markup5ever_rcdom::{Handle, RcDom};
use tokio::time::Instant;

/// Most elements and comments of a tree. The longest pages that people wrote have some ten thousand.
const MOST_NODES: usize = 250_000;
/// Longest time that a page may take: some faults cost no elements, only time.
const LONGEST: Duration = Duration::from_secs(10);
/// Most bytes that the parser is given between two looks at the tree.
const LARGEST_PIECE: usize = 4096;
/// Each tag of a piece may repeat every element that is there: pieces become smaller as the tree grows, down to about one tag.
const SMALLEST_PIECE: usize = 16;
const GROWTH_OF_A_PIECE: usize = 4_000_000;

/// The page's markup makes a tree that is too large, or takes too long, to be of use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooTangled;

/// Reads a page as browsers do with scripts switched on.
pub(super) fn parse(html: &str) -> Result<Handle, TooTangled> {
    parse_within(LONGEST, html)
}

fn parse_within(longest: Duration, html: &str) -> Result<Handle, TooTangled> {
    let deadline = Instant::now() + longest;
    let nodes = Rc::new(Cell::new(0));
    let sink = Counted {
        dom: RcDom::default(),
        nodes: Rc::clone(&nodes),
    };
    let options = ParseOpts {
        tree_builder: TreeBuilderOpts {
            scripting_enabled: true,
            ..TreeBuilderOpts::default()
        },
        ..ParseOpts::default()
    };
    let mut parser = parse_document(sink, options);
    let mut rest = html;
    while !rest.is_empty() {
        let size = GROWTH_OF_A_PIECE / (nodes.get() + 1);
        let end = rest.floor_char_boundary(size.clamp(SMALLEST_PIECE, LARGEST_PIECE));
        let (piece, after) = rest.split_at(end);
        parser.process(StrTendril::from_slice(piece));
        if nodes.get() > MOST_NODES || Instant::now() >= deadline {
            return Err(TooTangled);
        }
        rest = after;
    }
    Ok(parser.finish().document)
}

/// A tree that counts what it is made of. Texts are left out: no text is ever repeated.
struct Counted {
    dom: RcDom,
    nodes: Rc<Cell<usize>>,
}

impl Counted {
    fn count(&self) {
        self.nodes.set(self.nodes.get() + 1);
    }
}

impl TreeSink for Counted {
    type Handle = Handle;
    type Output = RcDom;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> RcDom {
        self.dom
    }

    /// No reader of a page is interested.
    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.dom.elem_name(target)
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.count();
        self.dom.create_element(name, attributes, flags)
    }

    fn create_comment(&self, text: StrTendril) -> Handle {
        self.count();
        self.dom.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Handle {
        self.count();
        self.dom.create_pi(target, data)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.dom.append(parent, child);
    }

    fn append_based_on_parent_node(&self, element: &Handle, before: &Handle, child: NodeOrText<Handle>) {
        self.dom.append_based_on_parent_node(element, before, child);
    }

    fn append_doctype_to_document(&self, name: StrTendril, public_id: StrTendril, system_id: StrTendril) {
        self.dom.append_doctype_to_document(name, public_id, system_id);
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        self.dom.same_node(one, other)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        self.dom.append_before_sibling(sibling, child);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attributes: Vec<Attribute>) {
        self.dom.add_attrs_if_missing(target, attributes);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        self.dom.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, target: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(target)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST, TooTangled, parse_within};

    #[test]
    fn a_page_that_takes_too_long_is_given_up() {
        // Faults without a further element: open tags to search through, attributes to compare.
        for page in ["<div>".repeat(1_000), format!("<b {}>", "a b c ".repeat(1_000))] {
            assert_eq!(parse_within(Duration::ZERO, &page).err(), Some(TooTangled));
            assert!(parse_within(LONGEST, &page).is_ok());
        }
    }
}
