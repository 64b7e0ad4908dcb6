//! Source text → logical lines → arguments.
//!
//! What a line is follows Apache's configuration syntax, with the tolerance of Coraza
//! (`internal/seclang/parser.go`):
//!
//! - A backslash at the end of a line joins the next one. The white space the next line begins
//!   with is kept. White space after the backslash is overlooked: it is invisible in an editor.
//!   A backslash after which nothing follows is an error: the file has probably been cut off, and
//!   Coraza would drop the directive without a word.
//! - Empty lines and lines that begin with `#` are skipped everywhere, so also between the lines
//!   of a continued directive.
//! - A commented-out directive (`#SecRule … \`) goes on over its continuation lines, as in
//!   ModSecurity 3. It ends before a line that begins a directive of its own: a comment must never
//!   swallow a rule silently.
//! - A directive whose last argument is a lone backtick is followed by a block that ends at the
//!   next line beginning with a backtick (Coraza's `SecDataset`).

use std::ops::Range;

use crate::error::SyntaxError;
use crate::span::{SourceId, Span};
use crate::traced::{Traced, is_blank, is_blank_char, offset_of};

/// The longest directive that is read, in bytes after joining its lines: 1 MiB. A longer one is an
/// error; the directives after it are read. The longest of CRS has some 12 KiB.
pub const DIRECTIVE_BYTES_MAX: usize = 1 << 20;

/// The logical lines of a source.
#[derive(Debug)]
pub(crate) struct Lines<'t> {
    source: SourceId,
    text: &'t str,
    at: usize,
    /// A search for the end of a block has reached the end of the text in vain, so that the next
    /// one would too. Without this, a text of opening backticks would take quadratic time.
    no_block_end: bool,
}

/// A line of the source without its line end.
#[derive(Clone, Copy)]
struct PhysicalLine<'t> {
    /// Without the joining backslash and what follows it.
    content: &'t str,
    start: usize,
    /// Whether it ends with a backslash.
    continues: bool,
}

impl PhysicalLine<'_> {
    fn begins(&self) -> &str {
        self.content.trim_start_matches(is_blank_char)
    }

    fn is_comment(&self) -> bool {
        self.begins().starts_with('#')
    }

    fn is_skipped(&self) -> bool {
        self.is_comment() || (!self.continues && self.begins().is_empty())
    }

    /// A comment that takes the continuation lines of a directive with it.
    fn is_commented_directive(&self) -> bool {
        let text = self.begins().trim_start_matches(|c: char| c == '#' || is_blank_char(c));
        self.continues && self.is_comment() && begins_directive(text)
    }
}

fn begins_directive(text: &str) -> bool {
    let prefix = |len: usize| text.get(..len).unwrap_or_default();
    let sec = prefix(3).eq_ignore_ascii_case("sec");
    sec || prefix(7).eq_ignore_ascii_case("include") || text.starts_with('<')
}

/// A directive's text, its continuation lines joined.
#[derive(Debug)]
pub(crate) struct LogicalLine {
    pub(crate) text: Traced,
    /// Longer than [`DIRECTIVE_BYTES_MAX`]: `text` is cut off.
    pub(crate) too_long: bool,
    /// The backslash that joins the last line to one that does not exist.
    pub(crate) dangling: Option<Range<usize>>,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(source: SourceId, text: &'t str) -> Self {
        // Editors on Windows write a byte order mark that nobody sees.
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { source, text, at, no_block_end: false }
    }

    fn physical(&mut self) -> Option<PhysicalLine<'t>> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let start = self.at;
        let end = rest.find('\n').unwrap_or(rest.len());
        self.at = start + (end + 1).min(rest.len());
        let line = rest.get(..end).unwrap_or_default().trim_end_matches(is_blank_char);
        let (content, continues) = match line.strip_suffix('\\') {
            Some(content) => (content, true),
            None => (line, false),
        };
        Some(PhysicalLine { content, start, continues })
    }

    /// The next directive's text.
    pub(crate) fn logical(&mut self) -> Option<LogicalLine> {
        let first = self.first()?;
        let begin = first.start + (first.content.len() - first.begins().len());
        let mut line = LogicalLine {
            text: Traced::new(self.source, offset_of(begin)),
            too_long: false,
            dangling: None,
        };
        line.push(first.begins(), begin);
        let mut last = first;
        while last.continues {
            let Some(next) = self.physical() else {
                let backslash = last.start + last.content.len();
                line.dangling = Some(backslash..backslash + 1);
                break;
            };
            if !next.is_skipped() {
                line.push(next.content, next.start);
                last = next;
            }
        }
        Some(line)
    }

    /// The next line that is neither empty nor a comment.
    fn first(&mut self) -> Option<PhysicalLine<'t>> {
        let mut in_commented_directive = false;
        loop {
            let line = self.physical()?;
            if line.is_comment() {
                in_commented_directive = line.is_commented_directive();
            } else if in_commented_directive && !begins_directive(line.begins()) {
                in_commented_directive = line.continues;
            } else if !line.begins().is_empty() {
                return Some(line);
            }
        }
    }

    /// The lines up to the one that begins with a backtick. When there is none, nothing is
    /// consumed.
    pub(crate) fn block(&mut self) -> Result<Block, UnclosedBlock> {
        let begin = self.at;
        let mut text = Traced::new(self.source, offset_of(begin));
        while !self.no_block_end {
            let start = self.at;
            let rest = self.text.get(start..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let end = rest.find('\n').unwrap_or(rest.len());
            self.at = start + (end + 1).min(rest.len());
            let line = rest.get(..end).unwrap_or_default();
            let content = line.trim_start_matches(is_blank_char);
            let content_start = start + (line.len() - content.len());
            let content = content.trim_end_matches(is_blank_char);
            if let Some(after) = content.strip_prefix('`') {
                let end = content_start + 1;
                return Ok(Block {
                    too_long: text.len() > DIRECTIVE_BYTES_MAX,
                    text,
                    end: offset_of(end),
                    extra: end..end + after.len(),
                });
            }
            if content.is_empty() || content.starts_with('#') || text.len() > DIRECTIVE_BYTES_MAX {
                continue;
            }
            if text.len() > 0 {
                text.push("\n", text.start_of(text.len()));
            }
            text.push(content, offset_of(content_start));
        }
        self.no_block_end = true;
        self.at = begin;
        Err(UnclosedBlock)
    }
}

/// A block between backticks.
#[derive(Debug)]
pub(crate) struct Block {
    /// The lines, trimmed, without comments and empty ones.
    pub(crate) text: Traced,
    /// Longer than [`DIRECTIVE_BYTES_MAX`]: lines are missing from `text`.
    pub(crate) too_long: bool,
    /// Where the closing backtick ends.
    pub(crate) end: u32,
    /// What follows the closing backtick, in the source. Nothing may.
    pub(crate) extra: Range<usize>,
}

/// No line closes the block.
#[derive(Debug)]
pub(crate) struct UnclosedBlock;

impl LogicalLine {
    fn push(&mut self, content: &str, start: usize) {
        // The limit bounds memory: what is beyond it is skipped without being copied.
        if self.text.len() + content.len() > DIRECTIVE_BYTES_MAX {
            self.too_long = true;
        } else {
            self.text.push(content, offset_of(start));
        }
    }
}

/// One argument of a directive.
#[derive(Debug)]
pub(crate) struct Argument {
    /// What is meant.
    pub(crate) text: Traced,
    /// What was written, with the quotes.
    pub(crate) span: Span,
    /// A backtick that stands alone: the beginning of a block if it is the last argument.
    pub(crate) opens_block: bool,
}

/// Splits what follows the name of a directive, from byte `at` on.
pub(crate) fn arguments(line: &Traced, mut at: usize) -> Result<Vec<Argument>, SyntaxError> {
    let bytes = line.as_str().as_bytes();
    let mut found = Vec::new();
    loop {
        while bytes.get(at).is_some_and(|byte| is_blank(*byte)) {
            at += 1;
        }
        let Some(&first) = bytes.get(at) else { return Ok(found) };
        let (argument, end) = match first {
            b'"' | b'\'' => quoted(line, at, first)?,
            b'`' => backticked(line, at)?,
            _ => bare(line, at),
        };
        found.push(argument);
        at = end;
    }
}

fn bare(line: &Traced, start: usize) -> (Argument, usize) {
    let rest = line.as_str().as_bytes().get(start..).unwrap_or_default();
    let len = rest.iter().take_while(|byte| !is_blank(**byte)).count();
    (argument(line, start..start + len, start..start + len), start + len)
}

fn argument(line: &Traced, inner: Range<usize>, outer: Range<usize>) -> Argument {
    let span = line.span(outer);
    let mut text = Traced::new(span.source, line.start_of(inner.start));
    text.append(line, inner);
    Argument { text, span, opens_block: false }
}

/// An argument in `"` or `'`. A backslash before the quote means the quote; all others are kept,
/// because they belong to regular expressions. `\\` is two backslashes and does not escape a quote
/// after it (Coraza: `cutQuotedString`, `UnescapeQuotedString`).
fn quoted(line: &Traced, open: usize, quote: u8) -> Result<(Argument, usize), SyntaxError> {
    let bytes = line.as_str().as_bytes();
    let source = line.span(0..0).source;
    let mut text = Traced::new(source, line.end_of(open));
    let mut piece = open + 1;
    let mut at = open + 1;
    while let Some(&byte) = bytes.get(at) {
        if byte == quote {
            text.append(line, piece..at);
            let span = line.span(open..at + 1);
            expect_separated(line, at, quote)?;
            return Ok((Argument { text, span, opens_block: false }, at + 1));
        }
        let escaped = (byte == b'\\').then(|| bytes.get(at + 1)).flatten();
        if escaped == Some(&quote) {
            text.append(line, piece..at);
            text.push_escaped(char::from(quote), line.start_of(at), line.end_of(at + 1));
            piece = at + 2;
        }
        at += if escaped.is_some() { 2 } else { 1 };
    }
    let quote = char::from(quote);
    Err(SyntaxError::new(
        line.span(open..line.len()),
        format!(
            "the quote {quote} is not closed: close it before the end of the line, or end the line \
             with `\\` to go on in the next one"
        ),
    ))
}

/// After a closing quote come white space, the end, or the quote of the next argument. Anything
/// else is nearly always a quote inside the argument that was not escaped.
fn expect_separated(line: &Traced, close: usize, quote: u8) -> Result<(), SyntaxError> {
    let is_separated = |byte: u8| is_blank(byte) || byte == b'"';
    if line.as_str().as_bytes().get(close + 1).is_none_or(|&byte| is_separated(byte)) {
        return Ok(());
    }
    let message = match quote {
        // Between backticks nothing is escaped.
        b'`' => "text follows the closing backtick of an argument: put white space between \
                 arguments, and one that has a backtick in it in double quotes"
            .to_owned(),
        _ => format!(
            "text follows the closing quote of an argument: write `\\{quote}` for a quote inside it, \
             or put white space between arguments",
            quote = char::from(quote)
        ),
    };
    Err(SyntaxError::new(line.span(close..close + 1), message))
}

fn backticked(line: &Traced, open: usize) -> Result<(Argument, usize), SyntaxError> {
    let after = line.as_str().get(open + 1..).unwrap_or_default();
    if after.trim_start_matches(is_blank_char).is_empty() {
        let mut lone = argument(line, open..open + 1, open..open + 1);
        lone.opens_block = true;
        return Ok((lone, line.len()));
    }
    let Some(len) = after.find('`') else {
        return Err(SyntaxError::new(
            line.span(open..line.len()),
            "the backtick is not closed: close it on the same line, or leave it as the last \
             character of the line and begin a later line with the closing one",
        ));
    };
    let close = open + 1 + len;
    expect_separated(line, close, b'`')?;
    Ok((argument(line, open + 1..close, open..close + 1), close + 1))
}
