//! A pattern that needs back-tracking, without what makes it so: look-around asks nothing, back-references match
//! anything, atomic groups and possessive repetition give back what they took.
//!
//! The law: where the pattern matches, the relaxed one has a match that begins at the same place. So a text that the
//! relaxed one does not match needs no search, and no search needs to begin before its first match.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use super::backtrack::Node;
use crate::scan::ByteSet;

/// The relaxed pattern as a tree.
pub(super) fn relaxed(node: &Node) -> Hir {
    match node {
        Node::Set(set) => class(*set),
        Node::Concat(nodes) => Hir::concat(nodes.iter().map(relaxed).collect()),
        Node::Alternate(nodes) => Hir::alternation(nodes.iter().map(relaxed).collect()),
        Node::Group(_, node) | Node::Atomic(node) => relaxed(node),
        Node::Repeat { node, min, max, greedy, possessive: _ } => {
            repeat(relaxed(node), *min, *max, *greedy)
        }
        Node::Look(..) => Hir::empty(),
        Node::BackReference(..) => repeat(class(ByteSet::ALL), 0, None, true),
        Node::StartOfText => Hir::look(Look::Start),
        Node::EndOfText => Hir::look(Look::End),
        Node::StartOfLine => Hir::look(Look::StartLF),
        Node::EndOfLine => Hir::look(Look::EndLF),
        Node::WordBoundary(true) => Hir::look(Look::WordAscii),
        Node::WordBoundary(false) => Hir::look(Look::WordAsciiNegate),
    }
}

fn repeat(sub: Hir, min: u32, max: Option<u32>, greedy: bool) -> Hir {
    Hir::repetition(Repetition { min, max, greedy, sub: Box::new(sub) })
}

fn class(set: ByteSet) -> Hir {
    let members = (0..=u8::MAX).filter(|&byte| set.contains(byte));
    let ranges = members.map(|byte| ClassBytesRange::new(byte, byte));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}
