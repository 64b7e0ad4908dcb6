//! The header lines of a part, with foldings undone.
#![deny(clippy::indexing_slicing)]

use super::before_byte;
use crate::ascii::is_space;

/// The header lines of a part, with foldings undone.
pub(super) struct HeaderLines<'h> {
    pub(super) rest: &'h [u8],
}

/// How a header line was folded.
#[derive(Default)]
pub(super) struct Folding {
    pub(super) folded: bool,
    pub(super) invalid: bool,
    /// The first line begins with white space: there is no header that it continues.
    pub(super) without_header: bool,
}

impl HeaderLines<'_> {
    /// Puts the next header into `line`; a folding becomes one space.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> Option<Folding> {
        if self.rest.is_empty() {
            return None;
        }
        let mut folding = Folding { without_header: self.at_folding(), ..Folding::default() };
        line.clear();
        line.extend_from_slice(self.physical_line());
        while self.at_folding() {
            folding.folded = true;
            let next = self.physical_line();
            let text = next.iter().position(|&byte| !is_space(byte)).unwrap_or(next.len());
            let (space, text) = next.split_at_checked(text).unwrap_or_default();
            folding.invalid |= space.iter().any(|&byte| byte != b' ' && byte != b'\t');
            line.push(b' ');
            line.extend_from_slice(text);
        }
        Some(folding)
    }

    fn at_folding(&self) -> bool {
        self.rest.first().is_some_and(|&byte| is_space(byte))
    }

    /// Takes one line, without its end.
    fn physical_line(&mut self) -> &[u8] {
        let line = before_byte(self.rest, b'\n');
        self.rest = self.rest.get(line.len() + 1..).unwrap_or_default();
        line.strip_suffix(b"\r").unwrap_or(line)
    }
}
