//! XML 1.0 as texts and attribute values.
//!
//! A small tokenizer of its own: it reads on after every error, which a conforming parser may not, and
//! never resolves anything. Decisions:
//!
//! - A text (`XML:/*`) is the character data between two tags. Comments, processing instructions and
//!   `CDATA` sections do not end it, since applications read it as one string; what is inside `CDATA` is
//!   text. White space at both ends is dropped, and a text of nothing else is none. (ModSecurity has one
//!   value with all texts joined, Coraza one for each run of character data, trimmed.) Where an element has other
//!   elements among its characters, further texts are what applications make of them ([`mixed`]).
//! - A comment and a processing instruction are texts of their own, reported before the text that they
//!   stand in: some applications read them. (ModSecurity and Coraza show neither.) A plain XML declaration
//!   is not.
//! - Every attribute value is reported (`XML://@*`), name space declarations included.
//! - The five predefined entities and numeric references are decoded, once. Others stay as written
//!   and are an error. Nothing is expanded, ever: a `DOCTYPE` that declares anything (entities, defaults of
//!   attributes, notations) or has an external identifier that is not [ordinary](document_type) is an error,
//!   since a parser may add to the document what is declared (XML 1.0, section 5.1). Its quoted literals are
//!   reported as texts, because that is where the attack is.
//! - UTF-16 (with a byte order mark, or recognizable) is converted. A declared encoding that is not one
//!   of the usual ASCII supersets is an error, since the server will read other characters.
#![deny(clippy::indexing_slicing)]

mod document_type;
mod mixed;

use std::ops::Range;

use memchr::memmem;
use memchr::{memchr, memchr2};

use super::{BodyError, BodyErrorKind, BodyScratch, BodySink, FirstError, Room};
use crate::limits::Limits;
use mixed::Joined;
pub(super) use mixed::Pieces;

/// Encodings in which markup and attacks are the bytes that they are in ASCII.
const ENCODINGS: [&[u8]; 8] = [
    b"utf-8",
    b"utf8",
    b"us-ascii",
    b"ascii",
    b"iso-8859-1",
    b"iso-8859-15",
    b"windows-1252",
    b"latin1",
];

/// Reports the texts and attribute values of `body` and returns the first error.
pub(super) fn parse(
    body: &[u8],
    limits: &Limits,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Option<BodyError> {
    let mut converted = std::mem::take(&mut scratch.converted);
    converted.clear();
    let is_utf16 = convert_utf16(body, &mut converted);
    scratch.elements.clear();
    scratch.value.clear();
    scratch.pieces.clear();
    let mut parser = Parser {
        body: if is_utf16 { &converted } else { body },
        at: 0,
        is_utf16,
        depth_max: limits.xml_depth_max,
        nodes_left: limits.xml_nodes_max,
        pieces_max: limits.xml_nodes_max.saturating_add(limits.xml_depth_max),
        elements_left: limits.xml_elements_max,
        elements: &mut scratch.elements,
        seen_element: false,
        text: &mut scratch.value,
        pieces: &mut scratch.pieces,
        value: &mut scratch.name,
        sink,
        error: FirstError::default(),
    };
    if let Err(kind) = parser.document() {
        parser.error.set(kind, parser.at);
    }
    let mut error = parser.error.0;
    if let (true, Some(error)) = (is_utf16, &mut error) {
        error.offset = utf16_len(converted.get(..error.offset).unwrap_or_default());
    }
    scratch.converted = converted;
    error
}

struct Parser<'p> {
    body: &'p [u8],
    at: usize,
    is_utf16: bool,
    depth_max: usize,
    nodes_left: usize,
    /// Pieces of text that open elements may have, each element's beginning counted as one.
    pieces_max: usize,
    /// Start tags that may still come.
    elements_left: usize,
    /// Names of the open elements.
    elements: &'p mut Vec<Range<usize>>,
    seen_element: bool,
    /// The text being collected.
    text: &'p mut Vec<u8>,
    pieces: &'p mut Pieces,
    value: &'p mut Vec<u8>,
    sink: &'p mut dyn BodySink,
    error: FirstError,
}

impl<'p> Parser<'p> {
    fn fail(&mut self, kind: BodyErrorKind) {
        self.error.set(kind, self.at);
    }

    fn rest(&self) -> &'p [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    /// Reads the whole document. It ends early only when no more nodes are taken.
    fn document(&mut self) -> Result<(), BodyErrorKind> {
        if self.rest().starts_with(b"\xef\xbb\xbf") {
            self.at += 3;
        }
        while !self.rest().is_empty() {
            self.character_data()?;
            self.markup()?;
        }
        self.end_text()?;
        self.whole_text()?;
        if !self.elements.is_empty() {
            return Err(BodyErrorKind::XmlTruncated);
        }
        if self.seen_element { Ok(()) } else { Err(BodyErrorKind::XmlSyntax) }
    }

    /// Everything up to the next `<` belongs to the text.
    fn character_data(&mut self) -> Result<(), BodyErrorKind> {
        let rest = self.rest();
        let data = memchr(b'<', rest).and_then(|end| rest.get(..end)).unwrap_or(rest);
        if self.elements.is_empty() && !data.trim_ascii().is_empty() {
            self.fail(BodyErrorKind::XmlSyntax);
        }
        let start = self.text.len();
        let valid = decode(data, self.text);
        if !valid {
            self.fail(BodyErrorKind::XmlReference);
        }
        self.at += data.len();
        self.add_piece(start, false)
    }

    /// What is in the text from `start` on is one piece of it.
    fn add_piece(&mut self, start: usize, is_verbatim: bool) -> Result<(), BodyErrorKind> {
        let characters = self.text.get(start..).unwrap_or_default();
        if !characters.is_empty() && self.pieces.len() >= self.pieces_max {
            return Err(BodyErrorKind::XmlNodes);
        }
        self.pieces.add(self.elements.len(), characters, is_verbatim);
        Ok(())
    }

    /// Reads what a `<` begins.
    fn markup(&mut self) -> Result<(), BodyErrorKind> {
        let rest = self.rest();
        match rest {
            [b'<', b'!', b'-', b'-', ..] => {
                let comment = self.skip_to(4, b"-->");
                self.aside(comment)?;
            }
            [b'<', b'!', b'[', b'C', b'D', b'A', b'T', b'A', b'[', ..] => {
                let data = self.skip_to(9, b"]]>");
                let start = self.text.len();
                self.text.extend_from_slice(data);
                self.add_piece(start, true)?;
            }
            [b'<', b'?', ..] => {
                let is_first = self.at == 0 || self.body.get(..self.at) == Some(b"\xef\xbb\xbf");
                let instruction = self.skip_to(2, b"?>");
                self.declaration(instruction);
                if !is_first || !is_plain_declaration(instruction) {
                    self.aside(instruction)?;
                }
            }
            [b'<', b'!', ..] => {
                self.end_text()?;
                self.document_type()?;
            }
            [b'<', b'/', ..] => {
                self.end_text()?;
                self.end_tag()?;
            }
            [b'<', next, ..] if is_name_start(*next) => {
                self.end_text()?;
                self.start_tag()?;
            }
            [b'<', ..] => {
                // Not markup. A lenient reader takes it as text.
                self.fail(BodyErrorKind::XmlSyntax);
                self.text.push(b'<');
                self.at += 1;
                self.add_piece(self.text.len() - 1, false)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Moves behind the next `end` and returns what is before it, without the `opening` bytes here.
    /// If there is none, all the rest is inside, and becomes text: it may hold anything.
    fn skip_to(&mut self, opening: usize, end: &[u8]) -> &'p [u8] {
        let inside = self.rest().get(opening..).unwrap_or_default();
        match memmem::find(inside, end).and_then(|at| inside.get(..at)) {
            Some(content) => {
                self.at += opening + content.len() + end.len();
                content
            }
            None => {
                self.fail(BodyErrorKind::XmlTruncated);
                self.text.extend_from_slice(inside);
                self.at = self.body.len();
                &[]
            }
        }
    }

    /// The encoding of an XML declaration, which is a processing instruction named `xml`.
    fn declaration(&mut self, instruction: &[u8]) {
        let is_declaration = instruction.starts_with(b"xml")
            && instruction.get(3).is_some_and(u8::is_ascii_whitespace);
        if !is_declaration {
            return;
        }
        let Some(at) = memmem::find(instruction, b"encoding") else { return };
        let value = instruction.get(at + b"encoding".len()..).unwrap_or_default();
        let quoted = |byte: &u8| matches!(byte, b'"' | b'\'');
        let name = value.split(quoted).nth(1).unwrap_or_default();
        let is_known = ENCODINGS.iter().any(|known| known.eq_ignore_ascii_case(name));
        let names_utf16 = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"utf-16"));
        let fits = if self.is_utf16 { names_utf16 } else { is_known };
        if !fits {
            self.fail(BodyErrorKind::XmlEncoding);
        }
    }

    /// A `DOCTYPE`: skipped, if it is [ordinary](document_type).
    fn document_type(&mut self) -> Result<(), BodyErrorKind> {
        let rest = self.rest();
        let Some(declaration) = document_type_len(rest).and_then(|length| rest.get(..length))
        else {
            // It does not end. What it swallowed may be anything, so it is shown.
            self.fail(BodyErrorKind::XmlTruncated);
            self.text.extend_from_slice(rest.get(2..).unwrap_or_default());
            self.at = self.body.len();
            return Ok(());
        };
        // One within the document is none: some parsers skip it, and the text goes on behind it.
        if !declaration.starts_with(b"<!DOCTYPE") || self.seen_element {
            self.fail(BodyErrorKind::XmlSyntax);
        }
        let inside = declaration.get(2..declaration.len() - 1).unwrap_or_default();
        if !document_type::is_ordinary(inside) {
            self.fail(BodyErrorKind::XmlEntities);
            self.literals(declaration)?;
        }
        self.at += declaration.len();
        Ok(())
    }

    /// Reports what is in quotes.
    fn literals(&mut self, declaration: &[u8]) -> Result<(), BodyErrorKind> {
        let mut rest = declaration;
        while let Some(start) = memchr2(b'"', b'\'', rest) {
            let Some((quote, after)) = rest.get(start..).and_then(<[u8]>::split_first) else {
                break;
            };
            let literal = memchr(*quote, after).and_then(|end| after.get(..end)).unwrap_or(after);
            // What is declared is never looked up, so a bad reference in it is no news.
            decode(literal, self.text);
            self.end_text()?;
            rest = after.get(literal.len() + 1..).unwrap_or_default();
        }
        Ok(())
    }

    fn end_tag(&mut self) -> Result<(), BodyErrorKind> {
        let inside = self.rest().get(2..).unwrap_or_default();
        let name_end = memchr(b'>', inside);
        let name = inside.get(..name_end.unwrap_or(inside.len())).unwrap_or_default();
        if name_end.is_none() {
            self.fail(BodyErrorKind::XmlTruncated);
            self.text.extend_from_slice(name);
        }
        self.joined_text()?;
        let opened = self.elements.pop().and_then(|range| self.body.get(range));
        if opened.is_some() {
            self.sink.xml_close();
        }
        if opened != Some(name.trim_ascii_end()) {
            self.fail(BodyErrorKind::XmlSyntax);
        }
        self.at = (self.at + 2 + name.len() + 1).min(self.body.len());
        Ok(())
    }

    /// Reports what an application may read of the element that ends beside its texts.
    fn joined_text(&mut self) -> Result<(), BodyErrorKind> {
        let depth = self.elements.len();
        for form in [Joined::AsWritten, Joined::Trimmed] {
            if self.pieces.join(depth, form, self.value) {
                self.take_node()?;
                if self.sink.xml_text(self.value.trim_ascii()) == Room::Full {
                    return Err(BodyErrorKind::XmlNodes);
                }
            }
        }
        self.pieces.end(depth);
        Ok(())
    }

    /// Reports all characters of a document with texts and elements side by side.
    fn whole_text(&mut self) -> Result<(), BodyErrorKind> {
        if self.pieces.whole().is_some() {
            self.take_node()?;
        }
        match self.pieces.whole().map(|text| self.sink.xml_text(text)) {
            Some(Room::Full) => Err(BodyErrorKind::XmlNodes),
            Some(Room::Left) | None => Ok(()),
        }
    }

    fn start_tag(&mut self) -> Result<(), BodyErrorKind> {
        self.elements_left = self.elements_left.checked_sub(1).ok_or(BodyErrorKind::XmlNodes)?;
        self.at += 1;
        let name = self.name();
        self.seen_element = true;
        self.sink.xml_open(self.body.get(name.clone()).unwrap_or_default());
        loop {
            self.skip_white_space();
            match self.rest() {
                [b'/', b'>', ..] => {
                    self.at += 2;
                    self.sink.xml_close();
                    return Ok(());
                }
                [b'>', ..] => {
                    self.at += 1;
                    self.open(name);
                    return Ok(());
                }
                [] | [b'<', ..] => {
                    // The tag does not end. What is next is read as what it is.
                    self.fail(if self.rest().is_empty() {
                        BodyErrorKind::XmlTruncated
                    } else {
                        BodyErrorKind::XmlSyntax
                    });
                    self.open(name);
                    return Ok(());
                }
                _ => self.attribute()?,
            }
        }
    }

    fn open(&mut self, name: Range<usize>) {
        if self.elements.len() < self.depth_max {
            self.pieces.begin(self.elements.len());
            self.elements.push(name);
        } else {
            // Its end tag will not be matched, but this error comes first.
            self.fail(BodyErrorKind::XmlDepth);
            self.sink.xml_close();
        }
    }

    /// Takes a name, and at least one byte, so that reading always goes on.
    fn name(&mut self) -> Range<usize> {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"=/><\"'".contains(byte);
        let rest = self.rest();
        let length = rest.iter().position(ends).unwrap_or(rest.len()).max(1);
        let start = self.at;
        self.at += length;
        start..self.at
    }

    fn skip_white_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    fn attribute(&mut self) -> Result<(), BodyErrorKind> {
        let name = self.name();
        self.skip_white_space();
        if self.rest().first() != Some(&b'=') {
            self.fail(BodyErrorKind::XmlSyntax);
            return Ok(());
        }
        self.at += 1;
        self.skip_white_space();
        let rest = self.rest();
        let (value, skip) = match rest.split_first() {
            Some((quote @ (b'"' | b'\''), inside)) => match memchr(*quote, inside) {
                Some(end) => (inside.get(..end).unwrap_or_default(), end + 2),
                None => {
                    // The rest of the body would be its value. Few rules look at attributes, so it
                    // is shown as a text too.
                    self.fail(BodyErrorKind::XmlTruncated);
                    decode(inside, self.text);
                    (inside, rest.len())
                }
            },
            _ => {
                self.fail(BodyErrorKind::XmlSyntax);
                let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'>';
                let end = rest.iter().position(ends).unwrap_or(rest.len());
                (rest.get(..end).unwrap_or_default(), end)
            }
        };
        if value.contains(&b'<') {
            self.fail(BodyErrorKind::XmlSyntax);
        }
        self.value.clear();
        if !decode(value, self.value) {
            self.fail(BodyErrorKind::XmlReference);
        }
        self.at += skip;
        self.take_node()?;
        let name = self.body.get(name).unwrap_or_default();
        match self.sink.xml_attribute(name, self.value) {
            Room::Left => Ok(()),
            Room::Full => Err(BodyErrorKind::XmlNodes),
        }
    }

    /// Reports a comment or an instruction; the text that it stands in goes on.
    fn aside(&mut self, content: &[u8]) -> Result<(), BodyErrorKind> {
        let content = content.trim_ascii();
        if content.is_empty() {
            return Ok(());
        }
        self.take_node()?;
        match self.sink.xml_text(content) {
            Room::Left => Ok(()),
            Room::Full => Err(BodyErrorKind::XmlNodes),
        }
    }

    /// Reports the text collected so far, if it is one.
    fn end_text(&mut self) -> Result<(), BodyErrorKind> {
        if !self.text.trim_ascii().is_empty() {
            self.take_node()?;
            if self.sink.xml_text(self.text.trim_ascii()) == Room::Full {
                return Err(BodyErrorKind::XmlNodes);
            }
        }
        self.text.clear();
        self.pieces.end_text();
        Ok(())
    }

    fn take_node(&mut self) -> Result<(), BodyErrorKind> {
        self.nodes_left = self.nodes_left.checked_sub(1).ok_or(BodyErrorKind::XmlNodes)?;
        Ok(())
    }
}

/// Whether an instruction is an XML declaration that holds nothing but what one may hold.
fn is_plain_declaration(instruction: &[u8]) -> bool {
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"=\"'._-:".contains(byte)
    };
    let is_declaration =
        instruction.starts_with(b"xml") && instruction.get(3).is_some_and(u8::is_ascii_whitespace);
    is_declaration && instruction.len() <= DECLARATION_BYTES_MAX && instruction.iter().all(is_plain)
}

/// Bytes of the longest XML declaration that is not shown to rules; one with all it may have has some sixty.
const DECLARATION_BYTES_MAX: usize = 128;

/// Whether a tag's name can begin with `byte`; any byte beyond ASCII is taken for a letter.
fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':') || !byte.is_ascii()
}

/// The length of a `<!…>` declaration: up to the `>` that is neither in quotes, nor in a comment or an
/// instruction, nor in brackets.
fn document_type_len(input: &[u8]) -> Option<usize> {
    let mut at = 2;
    let mut in_subset = false;
    loop {
        let rest = input.get(at..)?;
        let skip_to = |end: &[u8]| memmem::find(rest, end).map(|at| at + end.len());
        at += match rest {
            [b'<', b'!', b'-', b'-', ..] => skip_to(b"-->")?,
            [b'<', b'?', ..] => skip_to(b"?>")?,
            [quote @ (b'"' | b'\''), inside @ ..] => memchr(*quote, inside)? + 2,
            [b'>', ..] if !in_subset => return Some(at + 1),
            [b'[', ..] => {
                in_subset = true;
                1
            }
            [b']', ..] => {
                in_subset = false;
                1
            }
            [] => return None,
            _ => 1,
        };
    }
}

/// Appends `data` with its references decoded. False if one is unknown or invalid; it stays as it is.
fn decode(data: &[u8], out: &mut Vec<u8>) -> bool {
    let mut valid = true;
    let mut rest = data;
    while let Some(at) = memchr(b'&', rest) {
        let (plain, reference) = rest.split_at_checked(at).unwrap_or_default();
        out.extend_from_slice(plain);
        rest = match decode_reference(reference, out) {
            Some(after) => after,
            None => {
                valid = false;
                out.push(b'&');
                reference.get(1..).unwrap_or_default()
            }
        };
    }
    out.extend_from_slice(rest);
    valid
}

/// Appends what the reference at the start of `input` stands for and returns what follows it.
fn decode_reference<'i>(input: &'i [u8], out: &mut Vec<u8>) -> Option<&'i [u8]> {
    const PREDEFINED: [(&[u8], u8); 5] =
        [(b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&'), (b"&quot;", b'"'), (b"&apos;", b'\'')];
    for (name, byte) in PREDEFINED {
        if let Some(after) = input.strip_prefix(name) {
            out.push(byte);
            return Some(after);
        }
    }
    let digits = input.strip_prefix(b"&#")?;
    let (radix, digits) = match digits.strip_prefix(b"x") {
        Some(digits) => (16, digits),
        None => (10, digits),
    };
    let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
    // Any number of leading zeros is allowed, so the digits are not limited.
    let end = digits.iter().position(|byte| !is_digit(byte))?;
    let (digits, after) = digits.split_at_checked(end)?;
    let after = after.strip_prefix(b";")?;
    let code_point = digits.iter().try_fold(0_u32, |sum, &digit| {
        sum.checked_mul(radix)?.checked_add(char::from(digit).to_digit(radix)?)
    })?;
    let character =
        char::from_u32(code_point).filter(|&found| !digits.is_empty() && is_character(found))?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(after)
}

/// Whether a document may hold `character` (XML 1.0, section 2.2). Parsers that overlook it remove NUL and its like.
const fn is_character(character: char) -> bool {
    !matches!(character, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

/// Appends a UTF-16 body as UTF-8. False, and nothing appended, if the body is not UTF-16.
///
/// Source: XML 1.0, appendix F.1.
fn convert_utf16(body: &[u8], out: &mut Vec<u8>) -> bool {
    let big_endian = match body {
        [0xfe, 0xff, ..] | [0, b'<', ..] => true,
        [0xff, 0xfe, ..] | [b'<', 0, ..] => false,
        _ => return false,
    };
    let units = body.chunks_exact(2).map(|unit| match unit {
        [high, low] if big_endian => u16::from_be_bytes([*high, *low]),
        [low, high] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    });
    for character in char::decode_utf16(units) {
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    true
}

/// Bytes that a text in UTF-8 takes in UTF-16.
fn utf16_len(text: &[u8]) -> usize {
    let units = |&byte: &u8| match byte {
        0x80..=0xBF => 0,
        0xF0.. => 2,
        _ => 1,
    };
    2 * text.iter().map(units).sum::<usize>()
}
