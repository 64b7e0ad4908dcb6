//! Errors with their place, and how a place is shown to a person.

use std::fmt;

use crate::span::Span;
use crate::traced::offset_of;

/// A text that is not SecLang.
///
/// The author of the rules is to blame and is the reader: the message says what is wrong and what
/// to write instead. Show it with a [`Snippet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The bytes that are wrong; empty where something is missing.
    pub span: Span,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl SyntaxError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Where the lines of a text begin: turns byte offsets into lines and columns.
///
/// Built once per source in linear time; it takes four bytes per line and per byte of non-ASCII
/// characters beyond their first.
#[derive(Clone, Debug)]
pub struct LineIndex {
    /// Offset of each line's first byte; the first is 0.
    starts: Vec<u32>,
    /// Offsets of the bytes that continue a character, which a column does not count.
    continuations: Vec<u32>,
    len: u32,
}

impl LineIndex {
    /// Reads `text` once. Lines end at `\n`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut starts = vec![0];
        let mut continuations = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            if byte == b'\n' {
                starts.push(offset_of(at + 1));
            } else if byte & 0xc0 == 0x80 {
                continuations.push(offset_of(at));
            }
        }
        Self { starts, continuations, len: offset_of(text.len()) }
    }

    /// Line and column of a byte offset, both counted from 1, the column in characters.
    ///
    /// An offset beyond the text counts as its end.
    #[must_use]
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let offset = offset.min(self.len);
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.start_of(line);
        let before = |position| self.continuations.partition_point(|at| *at < position);
        // A position inside a character belongs to that character.
        let inside = self.continuations.binary_search(&offset).is_ok();
        let inner = offset_of(before(offset) - before(start)) + u32::from(inside);
        (offset_of(line), (offset - start).saturating_sub(inner) + 1)
    }

    fn start_of(&self, line: usize) -> u32 {
        line.checked_sub(1).and_then(|i| self.starts.get(i)).copied().unwrap_or_default()
    }
}

/// How many characters of the source line a [`Snippet`] shows at most.
const WINDOW_CHARS_MAX: usize = 100;
/// How many of them stand before the marked place when the line is longer.
const WINDOW_CHARS_BEFORE: usize = 40;
const INDENT: &str = "    ";

/// A message with the place it is about: `file:line:column: message`, the source line, and carets
/// under the bytes meant.
///
/// Of a line longer than 100 characters a window around the place is shown, cut ends marked `…`.
/// A span of several lines is marked on its first one. Costs the same however long the line is.
///
/// ```
/// use seclang::{LineIndex, Snippet, SourceId, parse};
///
/// let text = "SecRule ARGS|  \"@rx x\" \"id:1\"\n";
/// let parse = parse(SourceId(0), text);
/// let index = LineIndex::new(text);
/// let error = &parse.errors[0];
/// let snippet = Snippet::new("my.conf", text, &index, error.span, &error.message);
/// assert!(snippet.to_string().starts_with("my.conf:1:14: "));
/// ```
#[derive(Clone, Debug)]
pub struct Snippet<'a> {
    file_name: &'a str,
    text: &'a str,
    line: u32,
    column: u32,
    span: Span,
    message: &'a str,
}

impl<'a> Snippet<'a> {
    /// `text` is the source `span` lies in and `index` its index. A span outside of the text is
    /// shown at the end of it.
    #[must_use]
    pub fn new(
        file_name: &'a str,
        text: &'a str,
        index: &LineIndex,
        span: Span,
        message: &'a str,
    ) -> Self {
        let (line, column) = index.line_column(span.start);
        Self { file_name, text, line, column, span, message }
    }

    /// What to show of the line, and the position and number of the carets, in characters.
    fn window(&self) -> (String, usize, usize) {
        let at = floor_boundary(self.text, self.span.start);
        let (before, after) = self.text.split_at(at);
        let mut left: Vec<char> =
            before.chars().rev().take_while(|c| *c != '\n').take(WINDOW_CHARS_MAX + 1).collect();
        let mut right: Vec<char> =
            after.chars().take_while(|c| *c != '\n').take(WINDOW_CHARS_MAX + 1).collect();
        if right.last() == Some(&'\r') {
            right.pop();
        }
        let marked_bytes = (floor_boundary(self.text, self.span.end)).saturating_sub(at);
        let mut marked = 0;
        let mut bytes = 0;
        for character in &right {
            if bytes >= marked_bytes {
                break;
            }
            bytes += character.len_utf8();
            marked += 1;
        }

        let mut cut_left = false;
        let mut cut_right = false;
        if left.len() + right.len() > WINDOW_CHARS_MAX {
            let room_after = WINDOW_CHARS_MAX.saturating_sub(right.len());
            let keep = left.len().min(room_after.max(WINDOW_CHARS_BEFORE));
            cut_left = keep < left.len();
            left.truncate(keep);
            let room = WINDOW_CHARS_MAX - keep;
            cut_right = right.len() > room;
            right.truncate(room);
        }
        let caret = left.len() + usize::from(cut_left);
        let carets = marked.min(right.len()).max(1);
        let mut shown = String::new();
        shown.extend(cut_left.then_some('…'));
        shown.extend(left.iter().rev().chain(&right).copied().map(visible));
        shown.extend(cut_right.then_some('…'));
        (shown, caret, carets)
    }
}

/// A terminal must not be steered by a rule file, and a tab would move the carets.
fn visible(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}

fn floor_boundary(text: &str, offset: u32) -> usize {
    let mut at = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Snippet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file_name, line, column, message, .. } = self;
        let (shown, caret, carets) = self.window();
        writeln!(f, "{file_name}:{line}:{column}: {message}")?;
        writeln!(f, "{INDENT}{}", shown.trim_end())?;
        write!(f, "{INDENT}{}{}", " ".repeat(caret), "^".repeat(carets))
    }
}
