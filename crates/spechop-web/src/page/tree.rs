//! HTML to a tree, within limits.
//!
//! A parse cannot be cancelled, and what stands on the tree costs the square of its depth: 10,000
//! nested `<div>` take more than 20 s. So no token reaches the tree builder any more as soon as the page
//! has too many elements or they stand too deep. The counts are those of the tree itself: nodes that the
//! builder adds on its own (a page of a few hundred bytes can make it add millions) are counted as they
//! are added.
//!
//! What no reader sees is kept from the tree ([`markup`]): scripts, styles, frames, comments, and the
//! rest of texts and attributes that are longer than anybody reads (a serialiser behind the tree takes
//! the square of their length).

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;

use dom_query::{Document, NodeId};
use html5ever::tendril::StrTendril;
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::{Attribute, QualName};
use spechop_text::html;

use crate::markup::{self, Tree};

/// Limits that none of 990 real pages exceeds.
const LIMITS: Limits = Limits {
    depth: 256,
    elements: 20_000,
};

/// No more of one text is kept: four times what a page gives in all, so that none of it is missed.
const TEXT_BYTES_MAX: usize = 40_000;

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Elements inside each other.
    depth: usize,
    elements: usize,
}

/// Why a page becomes no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// In one tag. Nothing else can be made of the page either.
    Attributes,
    /// Elements inside each other.
    Depth,
    /// In all.
    Elements,
}

/// The tree of a page, or why there is none. Its time is linear in the size of the page.
pub(super) fn build(page: &str) -> Result<Document, TooMuch> {
    build_within(page, LIMITS)
}

fn build_within(page: &str, limits: Limits) -> Result<Document, TooMuch> {
    let tree = markup::build(page, Counted::new(limits));
    tree.map_err(|html::Hostile| TooMuch::Attributes)?
}

/// A document that counts what is added to it.
struct Counted {
    document: Document,
    limits: Limits,
    elements: Cell<usize>,
    /// The bytes of each text.
    texts: RefCell<HashMap<NodeId, usize>>,
    excess: Cell<Option<TooMuch>>,
}

impl Counted {
    fn new(limits: Limits) -> Self {
        Self {
            document: Document::default(),
            limits,
            elements: Cell::default(),
            texts: RefCell::default(),
            excess: Cell::default(),
        }
    }

    /// Adds a child by `add`, and looks at how deep it stands then. `before` is the node that stands before
    /// the place. If that is a text, another one lengthens it; of a text that is too long, nothing more is
    /// added.
    fn add(
        &self,
        child: NodeOrText<NodeId>,
        before: impl Fn() -> Option<NodeId>,
        add: impl FnOnce(NodeOrText<NodeId>),
    ) {
        match &child {
            NodeOrText::AppendText(text) => {
                let length = |id| self.texts.borrow().get(&id).copied();
                let length = before().and_then(length).unwrap_or_default();
                let kept = text.floor_char_boundary(TEXT_BYTES_MAX - length);
                if kept > 0 {
                    add(NodeOrText::AppendText(text.subtendril(0, kept as u32)));
                    let id = before();
                    let mut texts = self.texts.borrow_mut();
                    id.map(|id| texts.insert(id, length + kept));
                }
            }
            NodeOrText::AppendNode(id) => {
                let id = *id;
                add(child);
                let most = self.limits.depth;
                let above = self.document.tree.ancestor_ids_of_it(&id, Some(most + 1));
                // The document itself is no element.
                if above.count() > most {
                    self.excess.set(Some(TooMuch::Depth));
                }
            }
        }
    }
}

impl Tree for Counted {
    const RAW: &'static [&'static str] = &["title"];
    /// A longer one is a picture or a program.
    const ATTRIBUTE_BYTES_MAX: usize = 4_096;

    fn is_full(&self) -> bool {
        self.excess.get().is_some()
    }
}

impl TreeSink for Counted {
    type Handle = NodeId;
    type Output = Result<Document, TooMuch>;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Self::Output {
        match self.excess.get() {
            Some(excess) => Err(excess),
            None => Ok(self.document),
        }
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> NodeId {
        self.elements.set(self.elements.get() + 1);
        if self.elements.get() > self.limits.elements {
            self.excess.set(Some(TooMuch::Elements));
        }
        self.document.create_element(name, attrs, flags)
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        let last = || self.document.tree.last_child_of(parent).map(|node| node.id);
        self.add(child, last, |child| self.document.append(parent, child));
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        let before = || {
            let node = self.document.tree.prev_sibling_of(sibling);
            node.map(|node| node.id)
        };
        let add = |child| self.document.append_before_sibling(sibling, child);
        self.add(child, before, add);
    }

    fn append_based_on_parent_node(
        &self,
        element: &NodeId,
        previous: &NodeId,
        child: NodeOrText<NodeId>,
    ) {
        match self.document.tree.parent_of(element) {
            Some(_) => self.append_before_sibling(element, child),
            None => self.append(previous, child),
        }
    }

    // Every page has errors, and nobody reads them.
    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        self.document.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Ref<'a, QualName> {
        self.document.elem_name(target)
    }

    fn create_comment(&self, text: StrTendril) -> NodeId {
        self.document.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> NodeId {
        self.document.create_pi(target, data)
    }

    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        self.document
            .append_doctype_to_document(name, public, system);
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        self.document.get_template_contents(target)
    }

    fn same_node(&self, x: &NodeId, y: &NodeId) -> bool {
        self.document.same_node(x, y)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.document.set_quirks_mode(mode);
    }

    fn add_attrs_if_missing(&self, target: &NodeId, attrs: Vec<Attribute>) {
        self.document.add_attrs_if_missing(target, attrs);
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.document.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        self.document.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &NodeId) -> bool {
        self.document
            .is_mathml_annotation_xml_integration_point(handle)
    }
}

#[cfg(test)]
mod tests;
