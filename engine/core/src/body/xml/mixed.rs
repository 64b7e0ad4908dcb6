//! Texts of elements that have other elements, comments or `CDATA` sections among their characters.
//!
//! `<a>UNI<b/>ON</a>` is two texts, and applications read one: the text of an element without that of its children
//! (fast-xml-parser, Go's `chardata`), also with each piece trimmed (fast-xml-parser), or with that of its children
//! (`textContent`, `string()`). Each of these that no other value contains is reported. The text with that of children
//! is reported once, for the whole document, as ModSecurity does.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

/// A run of characters between two pieces of markup, or the place where an element begins.
#[derive(Debug)]
pub(in crate::body) struct Piece {
    /// How many elements are open.
    depth: usize,
    /// Which text it belongs to: a tag ends a text, a comment does not.
    text: usize,
    /// Where it is in [`Pieces::all`].
    range: Range<usize>,
    /// It was a `CDATA` section, whose white space is never trimmed.
    is_verbatim: bool,
}

/// The pieces of a document, in buffers that outlive it.
#[derive(Debug, Default)]
pub(in crate::body) struct Pieces {
    /// All characters of the document.
    all: Vec<u8>,
    /// The pieces of open elements; outer ones come first.
    open: Vec<Piece>,
    /// The texts that have ended.
    texts: usize,
    /// An element has text and child elements.
    is_mixed: bool,
}

/// What an application may read of an element beside its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// Its pieces one after the other.
    AsWritten,
    /// Each piece without white space at its ends.
    Trimmed,
}

impl Pieces {
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.open.clear();
        self.texts = 0;
        self.is_mixed = false;
    }

    /// How many are kept now.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The buffer that grows with a document.
    pub(in crate::body) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.all
    }

    /// An element begins, inside of `depth` others.
    pub(super) fn begin(&mut self, depth: usize) {
        let at = self.all.len();
        self.open.push(Piece {
            depth: depth + 1,
            text: self.texts,
            range: at..at,
            is_verbatim: true,
        });
    }

    /// Characters inside of `depth` elements.
    pub(super) fn add(&mut self, depth: usize, characters: &[u8], is_verbatim: bool) {
        if !characters.is_empty() {
            let start = self.all.len();
            self.all.extend_from_slice(characters);
            let range = start..self.all.len();
            self.open.push(Piece { depth, text: self.texts, range, is_verbatim });
        }
    }

    /// A tag ends the text.
    pub(super) fn end_text(&mut self) {
        self.texts += 1;
    }

    /// The innermost of `depth` elements ends. Puts one form of its text into `out`; false if another value contains it.
    pub(super) fn join(&mut self, depth: usize, form: Joined, out: &mut Vec<u8>) -> bool {
        let Some(first) = self.first_of(depth) else { return false };
        let Some((element, own)) = self.open.get(first..).and_then(<[Piece]>::split_first) else {
            return false;
        };
        let bytes = |piece: &Piece| self.all.get(piece.range.clone()).unwrap_or_default();
        let is_text = |piece: &&Piece| !bytes(piece).trim_ascii().is_empty();
        if own.iter().filter(is_text).nth(1).is_none() {
            return false;
        }
        out.clear();
        own.iter().for_each(|piece| out.extend_from_slice(bytes(piece)));
        let is_whole = out.len() == self.all.len() - element.range.start;
        let is_one_text = own.windows(2).all(|pair| match pair {
            [one, other] => one.text == other.text,
            _ => true,
        });
        match form {
            Joined::AsWritten => !is_whole && !is_one_text,
            Joined::Trimmed => {
                let as_written = out.trim_ascii().len();
                out.clear();
                for piece in own {
                    let all = bytes(piece);
                    out.extend_from_slice(if piece.is_verbatim { all } else { trimmed(all) });
                }
                out.len() != as_written
            }
        }
    }

    /// The innermost of `depth` elements has ended.
    pub(super) fn end(&mut self, depth: usize) {
        let Some(first) = self.first_of(depth) else { return };
        let mut own = self.open.drain(first..);
        let begins_in = own.next().map_or(0, |element| element.text);
        let all = &self.all;
        let bytes = |piece: &Piece| all.get(piece.range.clone()).unwrap_or_default();
        let has_text = own.any(|piece| !bytes(&piece).trim_ascii().is_empty());
        // One text for an element without children: that before its end tag.
        self.is_mixed |= has_text && self.texts > begins_in + 1;
    }

    /// All characters of a document in which an element has text and child elements.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        self.is_mixed.then(|| self.all.trim_ascii())
    }

    /// Where the pieces of the innermost of `depth` elements begin.
    fn first_of(&self, depth: usize) -> Option<usize> {
        let inner = self.open.iter().rev().take_while(|piece| piece.depth >= depth).count();
        (inner > 0).then(|| self.open.len() - inner)
    }
}

/// Without white space at both ends, as JavaScript's `trim` counts it.
fn trimmed(mut text: &[u8]) -> &[u8] {
    const WIDE: [&[u8]; 19] = [
        b"\x0b",
        b"\xc2\xa0",
        b"\xe1\x9a\x80",
        b"\xe2\x80\x80",
        b"\xe2\x80\x81",
        b"\xe2\x80\x82",
        b"\xe2\x80\x83",
        b"\xe2\x80\x84",
        b"\xe2\x80\x85",
        b"\xe2\x80\x86",
        b"\xe2\x80\x87",
        b"\xe2\x80\x88",
        b"\xe2\x80\x89",
        b"\xe2\x80\x8a",
        b"\xe2\x80\xa8",
        b"\xe2\x80\xa9",
        b"\xe2\x80\xaf",
        b"\xe3\x80\x80",
        b"\xef\xbb\xbf",
    ];
    loop {
        text = text.trim_ascii();
        let shorter = WIDE
            .iter()
            .find_map(|space| text.strip_prefix(*space).or_else(|| text.strip_suffix(*space)));
        match shorter {
            Some(shorter) => text = shorter,
            None => return text,
        }
    }
}
