//! The tokens of a GraphQL document.
//!
//! Source: GraphQL specification (September 2025), section 2.1 "Source Text" and appendix B "Lexical Tokens".
#![deny(clippy::indexing_slicing)]

use memchr::{memchr, memchr2};

use crate::body::json::escaped_byte;

/// A token, as it stands in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'d> {
    /// One of `! $ & ( ) : = @ [ ] { | }`.
    Punctuator(u8),
    /// `...`
    Spread,
    Name(&'d [u8]),
    Int(&'d [u8]),
    Float(&'d [u8]),
    /// The text between the quotes of a string, with its escapes as written.
    String(&'d [u8]),
    /// The text between the triple quotes of a block string, with its escapes as written.
    BlockString(&'d [u8]),
    End,
}

/// The document is not GraphQL from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads tokens, and collects the text of comments.
#[derive(Debug)]
pub(super) struct Lexer<'d> {
    rest: &'d [u8],
    /// The text of all comments so far, a line each.
    pub(super) comments: Vec<u8>,
    /// Tokens read.
    pub(super) count: usize,
}

impl<'d> Lexer<'d> {
    pub(super) const fn new(document: &'d [u8]) -> Self {
        Self { rest: document, comments: Vec::new(), count: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Token<'d>, Malformed> {
        self.skip_ignored();
        let Some(&first) = self.rest.first() else { return Ok(Token::End) };
        self.count += 1;
        match first {
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'|'
            | b'}' => {
                self.take(1);
                Ok(Token::Punctuator(first))
            }
            b'.' => {
                let is_spread = self.rest.starts_with(b"...");
                if is_spread {
                    self.take(3);
                }
                is_spread.then_some(Token::Spread).ok_or(Malformed)
            }
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            _ if is_name_start(first) => {
                let length = self.rest.iter().take_while(|&&byte| is_name_byte(byte)).count();
                Ok(Token::Name(self.take(length)))
            }
            _ => Err(Malformed),
        }
    }

    fn take(&mut self, bytes: usize) -> &'d [u8] {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, &[]));
        self.rest = rest;
        taken
    }

    /// White space, commas, comments and byte order marks.
    fn skip_ignored(&mut self) {
        loop {
            match self.rest.first() {
                Some(b' ' | b'\t' | b'\n' | b'\r' | b',') => _ = self.take(1),
                Some(b'#') => {
                    let end = memchr2(b'\n', b'\r', self.rest).unwrap_or(self.rest.len());
                    let comment = self.take(end);
                    self.comments.extend_from_slice(comment.get(1..).unwrap_or_default());
                    self.comments.push(b'\n');
                }
                Some(0xef) if self.rest.starts_with(b"\xef\xbb\xbf") => _ = self.take(3),
                _ => return,
            }
        }
    }

    /// A number; neither a name nor a further digit or dot may follow it directly.
    fn number(&mut self) -> Result<Token<'d>, Malformed> {
        let digits = |from: usize| {
            let rest = self.rest.get(from..).unwrap_or_default();
            rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut length = usize::from(self.rest.first() == Some(&b'-'));
        let integer = digits(length);
        if integer == 0 || integer > 1 && self.rest.get(length) == Some(&b'0') {
            return Err(Malformed);
        }
        length += integer;
        let integer_end = length;
        if self.rest.get(length) == Some(&b'.') {
            let fraction = digits(length + 1);
            if fraction == 0 {
                return Err(Malformed);
            }
            length += 1 + fraction;
        }
        if let Some(b'e' | b'E') = self.rest.get(length) {
            let sign = usize::from(matches!(self.rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length + 1 + sign);
            if exponent == 0 {
                return Err(Malformed);
            }
            length += 1 + sign + exponent;
        }
        if self.rest.get(length).is_some_and(|&next| next == b'.' || is_name_start(next)) {
            return Err(Malformed);
        }
        let text = self.take(length);
        Ok(if length == integer_end { Token::Int(text) } else { Token::Float(text) })
    }

    fn string(&mut self) -> Result<Token<'d>, Malformed> {
        if self.rest.starts_with(b"\"\"\"") {
            self.take(3);
            return self.block_string();
        }
        self.take(1);
        let mut length = 0;
        loop {
            let rest = self.rest.get(length..).unwrap_or_default();
            let stop = memchr2(b'"', b'\\', rest).ok_or(Malformed)?;
            let plain = rest.get(..stop).unwrap_or_default();
            if plain.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
                return Err(Malformed);
            }
            length += stop;
            if rest.get(stop) == Some(&b'"') {
                let content = self.take(length);
                self.take(1);
                return Ok(Token::String(content));
            }
            // The byte behind a backslash ends no string.
            length += 2;
        }
    }

    fn block_string(&mut self) -> Result<Token<'d>, Malformed> {
        let mut length = 0;
        loop {
            let rest = self.rest.get(length..).unwrap_or_default();
            length += memchr(b'"', rest).ok_or(Malformed)?;
            let rest = self.rest.get(length..).unwrap_or_default();
            if !rest.starts_with(b"\"\"\"") {
                length += 1;
            } else if length > 0 && self.rest.get(length - 1) == Some(&b'\\') {
                length += 3;
            } else {
                let content = self.take(length);
                self.take(3);
                return Ok(Token::BlockString(content));
            }
        }
    }
}

const fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Appends what a string stands for (section 2.9.4, "Semantics").
pub(super) fn read_string(content: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut rest = content;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        let (&kind, behind) = rest.get(at + 1..).and_then(<[u8]>::split_first).ok_or(Malformed)?;
        rest = behind;
        if kind == b'u' {
            let (character, length) = read_character(behind).ok_or(Malformed)?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = behind.get(length..).unwrap_or_default();
        } else {
            out.push(escaped_byte(kind).ok_or(Malformed)?);
        }
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Reads the escape behind `\u`: four hexadecimal digits, two such escapes of a surrogate pair, or digits in braces.
/// Returns the character and the number of bytes read.
fn read_character(escape: &[u8]) -> Option<(char, usize)> {
    if let Some(variable) = escape.strip_prefix(b"{") {
        let length = memchr(b'}', variable)?;
        let code_point = hexadecimal(variable.get(..length)?)?;
        return Some((char::from_u32(code_point)?, length + 2));
    }
    let unit = hexadecimal(escape.get(..4)?)?;
    if let Some(character) = char::from_u32(unit) {
        return Some((character, 4));
    }
    let low = hexadecimal(escape.get(4..)?.strip_prefix(b"\\u")?.get(..4)?)?;
    if !(0xd800..0xdc00).contains(&unit) || !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    let code_point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    Some((char::from_u32(code_point)?, 10))
}

/// One hexadecimal digit or more, up to the highest code point.
fn hexadecimal(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, &digit| {
        let digit = crate::ascii::nibble(digit)?;
        number.checked_mul(16)?.checked_add(u32::from(digit)).filter(|&it| it <= 0x0010_ffff)
    })
}

/// Appends what a block string stands for (section 2.9.4, "`BlockStringValue`"): without the indentation that all lines
/// but the first have in common, and without blank lines at both ends.
pub(super) fn read_block_string(content: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let white = |line: &[u8]| line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let is_blank = |line: &[u8]| white(line) == line.len();
    let indented = lines(content).skip(1).filter(|line| !is_blank(line));
    let indent = indented.map(white).min().unwrap_or(0);
    // Where the last line ends that is not blank.
    let mut end = start;
    let mut is_first = true;
    for (number, line) in lines(content).enumerate() {
        let text = if number == 0 { line } else { line.get(indent..).unwrap_or_default() };
        if is_first && is_blank(line) {
            continue;
        }
        if !is_first {
            out.push(b'\n');
        }
        is_first = false;
        push_unescaped(text, out);
        if !is_blank(line) {
            end = out.len();
        }
    }
    out.truncate(end);
}

/// Appends a line of a block string with `\"""` undone.
fn push_unescaped(line: &[u8], out: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = memchr::memmem::find(rest, b"\\\"\"\"") {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        out.extend_from_slice(b"\"\"\"");
        rest = rest.get(at + 4..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// The lines of a text, each ended by a line feed, a carriage return, or both in this order.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    core::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = memchr2(b'\n', b'\r', text) else {
            rest = None;
            return Some(text);
        };
        let is_pair = text.get(end..).unwrap_or_default().starts_with(b"\r\n");
        rest = text.get(end + 1 + usize::from(is_pair)..);
        text.get(..end)
    })
}
