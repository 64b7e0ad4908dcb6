//! Text that remembers where each of its bytes was written.
//!
//! A directive is read from several lines and its escapes are resolved, yet every [`Span`] must be
//! a range of the original text. [`Traced`] keeps the map as runs: inside one run, text and source
//! advance together, so a directive on one line costs one run.

use std::ops::Range;

use crate::span::{SourceId, Span, Text};

/// A text built from pieces of a source.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    source: SourceId,
    /// Where the text would stand if it is empty.
    anchor: u32,
    text: String,
    /// In the order of the text; never two with the same `text_start`.
    runs: Vec<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    text_start: usize,
    source_start: u32,
    /// Set for one byte written as an escape: where that escape ends.
    escape_end: Option<u32>,
}

impl Traced {
    pub(crate) fn new(source: SourceId, anchor: u32) -> Self {
        Self { source, anchor, text: String::new(), runs: Vec::new() }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Appends `piece`, which stands at `offset` of the source.
    pub(crate) fn push(&mut self, piece: &str, offset: u32) {
        if piece.is_empty() {
            return;
        }
        let adjoins = self.runs.last().is_some_and(|run| {
            run.escape_end.is_none()
                && run.source_start + offset_of(self.text.len() - run.text_start) == offset
        });
        if !adjoins {
            let run = Run { text_start: self.text.len(), source_start: offset, escape_end: None };
            self.runs.push(run);
        }
        self.text.push_str(piece);
    }

    /// Appends one ASCII character that is written as an escape in `start..end` of the source.
    pub(crate) fn push_escaped(&mut self, character: char, start: u32, end: u32) {
        let run = Run { text_start: self.text.len(), source_start: start, escape_end: Some(end) };
        self.runs.push(run);
        self.text.push(character);
    }

    /// Appends a part of `other`, with its places.
    pub(crate) fn append(&mut self, other: &Self, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            let next_run = other.runs.partition_point(|run| run.text_start <= at);
            let run_end = other.runs.get(next_run).map_or(other.len(), |run| run.text_start);
            let end = run_end.min(range.end);
            let piece = other.text.get(at..end).unwrap_or_default();
            match next_run.checked_sub(1).and_then(|i| other.runs.get(i)) {
                Some(Run { source_start, escape_end: Some(escape_end), .. }) => {
                    for character in piece.chars() {
                        self.push_escaped(character, *source_start, *escape_end);
                    }
                }
                _ => self.push(piece, other.start_of(at)),
            }
            at = end;
        }
    }

    /// Where the byte at `at` of the text begins in the source; past the end, where the text ends.
    pub(crate) fn start_of(&self, at: usize) -> u32 {
        if at >= self.len() {
            return self.len().checked_sub(1).map_or(self.anchor, |last| self.end_of(last));
        }
        self.run(at).map_or(self.anchor, |run| run.source_start + offset_of(at - run.text_start))
    }

    /// Where the byte at `at` of the text ends in the source.
    pub(crate) fn end_of(&self, at: usize) -> u32 {
        self.run(at).map_or(self.anchor, |run| {
            run.escape_end.unwrap_or_else(|| run.source_start + offset_of(at - run.text_start) + 1)
        })
    }

    fn run(&self, at: usize) -> Option<&Run> {
        let next = self.runs.partition_point(|run| run.text_start <= at);
        next.checked_sub(1).and_then(|i| self.runs.get(i))
    }

    /// The bytes of the source that `range` of the text was written in.
    pub(crate) fn span(&self, range: Range<usize>) -> Span {
        let start = self.start_of(range.start);
        let end = if range.is_empty() { start } else { self.end_of(range.end - 1) };
        Span { source: self.source, start, end }
    }

    pub(crate) fn whole(&self) -> Range<usize> {
        0..self.len()
    }

    /// A part of the text with its place.
    pub(crate) fn text(&self, range: Range<usize>) -> Text {
        let text = self.text.get(range.clone()).unwrap_or_default().to_owned();
        Text { text, span: self.span(range) }
    }

    pub(crate) fn to_text(&self) -> Text {
        self.text(self.whole())
    }
}

/// A position as spans hold it. Sources are limited to far less than 4 GiB before they are read.
pub(crate) fn offset_of(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// White space inside a directive. ASCII only: what Apache and Coraza skip is ASCII too, and a
/// no-break space inside a pattern is a part of the pattern.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
}

/// [`is_blank`] for a character.
pub(crate) fn is_blank_char(character: char) -> bool {
    u8::try_from(character).is_ok_and(is_blank)
}

/// `range` of `text` without the white space at its ends.
pub(crate) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes().get(range.clone()).unwrap_or_default();
    let blank_before = bytes.iter().take_while(|byte| is_blank(**byte)).count();
    let rest = bytes.get(blank_before..).unwrap_or_default();
    let blank_after = rest.iter().rev().take_while(|byte| is_blank(**byte)).count();
    range.start + blank_before..range.end - blank_after
}
