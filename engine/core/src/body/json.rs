//! JSON (RFC 8259) as arguments, and sequences of JSON values (NDJSON, RFC 7464), all of whose values have the same
//! root.
//!
//! Every scalar is one argument. Its name is the path to it, `json` first, then object keys and
//! `array_N` for the elements of arrays, joined by dots (`{"a":[true]}` is `json.a.array_0=true`): the
//! names that ModSecurity 3 gives. Strings are unescaped, numbers, `true` and `false` are as written,
//! `null` is empty, and members that repeat a key are all reported. Decisions:
//!
//! - An empty object or array is an argument with an empty value: its key carries attacks too, and
//!   `ARGS_NAMES` would not show it otherwise.
//! - A lone surrogate (`\ud800`) becomes its three bytes as if UTF-8 allowed them. A replacement
//!   character would make different inputs equal and pass `@validateUtf8Encoding`.
//! - Invalid UTF-8 inside strings passes through, a byte order mark before the document is skipped.
//! - Control characters and unknown escapes in strings are errors but do not end the reading. Nor do the
//!   spellings that lenient readers take (JSON5, Python's `json`): words and numbers such as `NaN`, `0x1F`,
//!   `.5` and `+1`, strings and names in single quotes, names without quotes, a comma behind the last member.
//! - Any other error ends it, and the rest is reported as one argument, unread, under the path where
//!   it was found: lenient servers go on where a strict reader stops. Where it holds escapes, it is reported
//!   once more with those of strings undone.
#![deny(clippy::indexing_slicing)]

use memchr::memchr2;

use super::{BodyError, BodyErrorKind, BodyScratch, BodySink, FirstError, NameBudget, Room};
use crate::ascii::nibble;

/// The byte order mark of UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Begins each value of a JSON text sequence (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

/// Elements of an array that are numbered in names. Every further element is named `array_1000`: the names in a long
/// list of records then repeat, and the engine inspects a repeated name once.
const ELEMENTS_NAMED: usize = 1_000;

/// The path to the whole document.
const ROOT: &[u8] = b"json";

/// An open object or array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container {
    /// Length of the path to it.
    name_len: usize,
    /// Index of the next element; nothing in an object.
    next_index: Option<usize>,
}

/// How many values a document has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    One,
    /// One after the other, with white space or record separators between them (NDJSON, RFC 7464).
    Any,
}

/// What may come next.
#[derive(Clone, Copy)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
    Nothing,
}

/// Reports the arguments of `body` and returns the first error.
pub(super) fn parse(
    body: &[u8],
    values: Values,
    depth_max: usize,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Option<BodyError> {
    parse_at(ROOT, body, values, depth_max, scratch, sink)
}

/// As [`parse`], with `root` in the place of `json`.
pub(super) fn parse_at(
    root: &[u8],
    body: &[u8],
    values: Values,
    depth_max: usize,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Option<BodyError> {
    scratch.name.clear();
    scratch.name.extend_from_slice(root);
    scratch.containers.clear();
    let elements_named = if sink.tells_elements_apart() { usize::MAX } else { ELEMENTS_NAMED };
    let mut parser = Parser {
        body,
        elements_named,
        at: if body.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 },
        values,
        depth_max,
        root_len: root.len(),
        names: NameBudget::of(body),
        name: &mut scratch.name,
        value: &mut scratch.value,
        containers: &mut scratch.containers,
        sink,
        error: FirstError::default(),
    };
    if let Err(kind) = parser.document() {
        parser.error.set(kind, parser.at);
        if kind != BodyErrorKind::ArgumentsFull {
            parser.unread_rest(kind);
        }
    }
    parser.error.0
}

struct Parser<'p> {
    body: &'p [u8],
    at: usize,
    values: Values,
    depth_max: usize,
    /// Elements of an array that are numbered in names; [`ELEMENTS_NAMED`] or no limit.
    elements_named: usize,
    /// Bytes of the path to the whole document.
    root_len: usize,
    names: NameBudget,
    /// The path to the value being read.
    name: &'p mut Vec<u8>,
    value: &'p mut Vec<u8>,
    containers: &'p mut Vec<Container>,
    sink: &'p mut dyn BodySink,
    error: FirstError,
}

impl Parser<'_> {
    /// Reads the whole document. On an error `at` is where the token begins that was not understood.
    fn document(&mut self) -> Result<(), BodyErrorKind> {
        let mut expect = Expect::Value;
        loop {
            self.skip_white_space();
            let Some(&byte) = self.body.get(self.at) else {
                return self.end(expect);
            };
            expect = match (expect, byte) {
                (Expect::KeyOrEnd, b'}') | (Expect::ValueOrEnd, b']') => self.close_empty()?,
                (Expect::Key | Expect::KeyOrEnd, b'"') => self.key(byte)?,
                (Expect::Key, b'}') | (Expect::Value, b']') if self.in_container(byte) => {
                    self.lenient();
                    self.close()
                }
                (Expect::Key | Expect::KeyOrEnd, b'\'') => {
                    self.lenient();
                    self.key(byte)?
                }
                (Expect::Key | Expect::KeyOrEnd, _) if is_word(byte) => self.bare_key()?,
                (Expect::Value | Expect::ValueOrEnd, _) => self.element(byte)?,
                (Expect::CommaOrEnd, _) => self.comma_or_end(byte)?,
                (Expect::Nothing, _) if self.values == Values::Any => {
                    self.name.truncate(self.root_len);
                    Expect::Value
                }
                (Expect::Nothing, _) => return Err(BodyErrorKind::JsonTrailing),
                (Expect::Key | Expect::KeyOrEnd, _) => return Err(BodyErrorKind::JsonSyntax),
            };
        }
    }

    /// The end of the body.
    fn end(&mut self, expect: Expect) -> Result<(), BodyErrorKind> {
        let in_object = self.containers.last().is_some_and(|last| last.next_index.is_none());
        let is_unshown = match expect {
            Expect::Nothing => return Ok(()),
            Expect::KeyOrEnd | Expect::ValueOrEnd => true,
            Expect::Value => in_object,
            Expect::Key | Expect::CommaOrEnd => false,
        };
        if is_unshown {
            // The path read last has no value yet, and is to be seen none the less.
            self.value.clear();
            self.argument()?;
        }
        Err(BodyErrorKind::JsonTruncated)
    }

    fn skip_white_space(&mut self) {
        while let Some(&byte) = self.body.get(self.at) {
            let between = self.values == Values::Any && byte == RECORD_SEPARATOR;
            if !between && !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                break;
            }
            self.at += 1;
        }
    }

    /// A value: names it if it is an array's element, then reads it.
    fn element(&mut self, byte: u8) -> Result<Expect, BodyErrorKind> {
        if let Some(Container { name_len, next_index: Some(index) }) = self.containers.last_mut() {
            self.name.truncate(*name_len);
            self.name.extend_from_slice(b".array_");
            push_decimal((*index).min(self.elements_named), self.name);
            *index += 1;
        }
        match byte {
            b'{' => self.open(None, Expect::KeyOrEnd),
            b'[' => self.open(Some(0), Expect::ValueOrEnd),
            b'"' => self.string(byte),
            b'\'' => {
                self.lenient();
                self.string(byte)
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.literal(),
        }
    }

    /// Notes that something was read which a strict reader does not take.
    fn lenient(&mut self) {
        self.error.set(BodyErrorKind::JsonSyntax, self.at);
    }

    /// Whether `end` closes the container that is open.
    fn in_container(&self, end: u8) -> bool {
        let in_array = self.containers.last().map(|last| last.next_index.is_some());
        in_array == Some(end == b']')
    }

    fn open(&mut self, next_index: Option<usize>, expect: Expect) -> Result<Expect, BodyErrorKind> {
        if self.containers.len() >= self.depth_max {
            return Err(BodyErrorKind::JsonDepth);
        }
        self.containers.push(Container { name_len: self.name.len(), next_index });
        self.at += 1;
        Ok(expect)
    }

    /// The end of a container without members: an argument, because its name is all there is.
    fn close_empty(&mut self) -> Result<Expect, BodyErrorKind> {
        self.value.clear();
        self.argument()?;
        Ok(self.close())
    }

    fn close(&mut self) -> Expect {
        self.at += 1;
        self.containers.pop();
        self.after_value()
    }

    fn after_value(&self) -> Expect {
        if self.containers.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd }
    }

    fn comma_or_end(&mut self, byte: u8) -> Result<Expect, BodyErrorKind> {
        let in_array =
            self.containers.last().is_some_and(|container| container.next_index.is_some());
        match (byte, in_array) {
            (b']', true) | (b'}', false) => Ok(self.close()),
            (b',', _) => {
                self.at += 1;
                Ok(if in_array { Expect::Value } else { Expect::Key })
            }
            _ => Err(BodyErrorKind::JsonSyntax),
        }
    }

    fn begin_key(&mut self) {
        let name_len = self.containers.last().map_or(0, |container| container.name_len);
        self.name.truncate(name_len);
        self.name.push(b'.');
    }

    /// A member's name without quotes, and the colon after it.
    fn bare_key(&mut self) -> Result<Expect, BodyErrorKind> {
        self.lenient();
        self.begin_key();
        let word = word(self.body.get(self.at..).unwrap_or_default());
        self.name.extend_from_slice(word);
        self.at += word.len();
        self.colon()
    }

    /// A member's name and the colon after it.
    fn key(&mut self, quote: u8) -> Result<Expect, BodyErrorKind> {
        self.begin_key();
        self.at += 1;
        if !read_string(quote, self.body, &mut self.at, self.name, &mut self.error) {
            // The body was cut inside the name; what there is of it is shown.
            self.value.clear();
            self.argument()?;
            return Err(BodyErrorKind::JsonTruncated);
        }
        self.colon()
    }

    fn colon(&mut self) -> Result<Expect, BodyErrorKind> {
        self.skip_white_space();
        match self.body.get(self.at) {
            Some(b':') => {
                self.at += 1;
                Ok(Expect::Value)
            }
            Some(_) => Err(BodyErrorKind::JsonSyntax),
            None => Ok(Expect::Value),
        }
    }

    fn string(&mut self, quote: u8) -> Result<Expect, BodyErrorKind> {
        self.value.clear();
        self.at += 1;
        let closed = read_string(quote, self.body, &mut self.at, self.value, &mut self.error);
        self.argument()?;
        if closed { Ok(self.after_value()) } else { Err(BodyErrorKind::JsonTruncated) }
    }

    /// RFC 8259, section 6.
    fn number(&mut self) -> Result<Expect, BodyErrorKind> {
        let length = number_len(self.body.get(self.at..).unwrap_or_default());
        self.token(length)
    }

    fn literal(&mut self) -> Result<Expect, BodyErrorKind> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let word = word(rest);
        if word == b"null" {
            // Empty, as in ModSecurity 3 and Coraza: the word would look like an attacker's.
            self.value.clear();
            self.argument()?;
            self.at += word.len();
            return Ok(self.after_value());
        }
        let literals: [&[u8]; 2] = [b"true", b"false"];
        self.token(literals.iter().find(|literal| word == **literal).map(|literal| literal.len()))
    }

    /// Reports a token of `length` bytes as it is, or the word that is there in its place.
    fn token(&mut self, length: Option<usize>) -> Result<Expect, BodyErrorKind> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let word = word(rest);
        let strict = length.filter(|&length| length >= word.len());
        if strict.is_none() {
            if word.is_empty() {
                return Err(BodyErrorKind::JsonSyntax);
            }
            self.lenient();
        }
        let token = rest.get(..strict.unwrap_or(word.len())).unwrap_or_default();
        self.value.clear();
        self.value.extend_from_slice(token);
        self.argument()?;
        self.at += token.len();
        Ok(self.after_value())
    }

    /// Reports `value` under `name`.
    fn argument(&mut self) -> Result<(), BodyErrorKind> {
        if !self.names.take(self.name) {
            return Err(BodyErrorKind::JsonNames);
        }
        match self.sink.argument(self.name, self.value) {
            Room::Left => Ok(()),
            Room::Full => Err(BodyErrorKind::ArgumentsFull),
        }
    }

    /// Reports what was not read, so that rules still see it.
    fn unread_rest(&mut self, kind: BodyErrorKind) {
        let rest = self.body.get(self.at..).unwrap_or_default().trim_ascii();
        if rest.is_empty() {
            return;
        }
        if kind == BodyErrorKind::JsonTrailing {
            self.name.truncate(self.root_len);
        }
        self.value.clear();
        unescape(rest, self.value);
        let is_escaped = *self.value != rest;
        if self.sink.argument(self.name, rest) == Room::Full
            || is_escaped && self.sink.argument(self.name, self.value) == Room::Full
        {
            self.error.set(BodyErrorKind::ArgumentsFull, self.at);
        }
    }
}

/// Whether a byte belongs to a word or a number, as lenient readers spell them.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$.+-".contains(&byte) || !byte.is_ascii()
}

/// The word or number at the start of `rest`.
fn word(rest: &[u8]) -> &[u8] {
    let length = rest.iter().take_while(|&&byte| is_word(byte)).count();
    rest.get(..length).unwrap_or_default()
}

/// Appends `text` with the escapes of strings undone.
fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        let escape = rest.get(at + 1..).unwrap_or_default();
        let length = read_escape(escape, out).unwrap_or_else(|| {
            out.push(b'\\');
            0
        });
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// Appends the string whose opening quote is just before `at`, unescaped, and moves `at` behind its
/// closing quote. False if there is none: then the rest of the body was the string.
fn read_string(
    quote: u8,
    body: &[u8],
    at: &mut usize,
    out: &mut Vec<u8>,
    error: &mut FirstError,
) -> bool {
    loop {
        let rest = body.get(*at..).unwrap_or_default();
        let end = memchr2(quote, b'\\', rest).unwrap_or(rest.len());
        let plain = rest.get(..end).unwrap_or_default();
        if plain.iter().any(|&byte| byte < 0x20) {
            error.set(BodyErrorKind::JsonString, *at);
        }
        out.extend_from_slice(plain);
        let Some(&stop) = rest.get(end) else {
            *at = body.len();
            return false;
        };
        *at += end + 1;
        if stop == quote {
            return true;
        }
        let escape = rest.get(end + 1..).unwrap_or_default();
        match read_escape(escape, out) {
            _ if quote == b'\'' && escape.first() == Some(&quote) => {
                out.push(quote);
                *at += 1;
            }
            Some(length) => *at += length,
            None => {
                // Not an escape: the backslash stands for itself and what follows is read as usual.
                error.set(BodyErrorKind::JsonString, *at);
                out.push(b'\\');
            }
        }
    }
}

/// The byte of an escape of one character (RFC 8259, section 7; GraphQL has the same, section 2.9.4).
pub(super) const fn escaped_byte(kind: u8) -> Option<u8> {
    match kind {
        b'"' | b'\\' | b'/' => Some(kind),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        _ => None,
    }
}

/// Appends what an escape stands for (RFC 8259, section 7) and returns its length without the
/// backslash; nothing if it is none.
fn read_escape(escape: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let (&kind, digits) = escape.split_first()?;
    if kind == b'u' {
        return read_code_unit(digits, out).map(|length| length + 1);
    }
    out.push(escaped_byte(kind)?);
    Some(1)
}

/// Appends the character of four hexadecimal digits, or of two such escapes of a surrogate pair; returns the length read.
fn read_code_unit(digits: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let unit = hex_unit(digits)?;
    let low = || match digits.get(4..)? {
        [b'\\', b'u', low @ ..] => hex_unit(low).filter(|low| (0xdc00..0xe000).contains(low)),
        _ => None,
    };
    if (0xd800..0xdc00).contains(&unit)
        && let Some(low) = low()
    {
        push_code_point(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), out);
        return Some(10);
    }
    push_code_point(unit, out);
    Some(4)
}

/// The value of four hexadecimal digits.
fn hex_unit(digits: &[u8]) -> Option<u32> {
    let digits = digits.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some((unit << 4) | u32::from(nibble(digit)?)))
}

/// Appends a code point as UTF-8; a surrogate as the three bytes that the scheme gives it.
fn push_code_point(code_point: u32, out: &mut Vec<u8>) {
    if let Some(character) = char::from_u32(code_point) {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        let continuation = |shift: u32| 0x80 | ((code_point >> shift) & 0x3f) as u8;
        out.extend_from_slice(&[
            0xe0 | ((code_point >> 12) & 0x0f) as u8,
            continuation(6),
            continuation(0),
        ]);
    }
}

/// The length of the number at the start of `rest`, if there is one.
fn number_len(rest: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = rest.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut length = usize::from(rest.first() == Some(&b'-'));
    let integer = digits(length);
    let leading_zero = integer > 1 && rest.get(length) == Some(&b'0');
    if integer == 0 || leading_zero {
        return None;
    }
    length += integer;
    if rest.get(length) == Some(&b'.') {
        let fraction = digits(length + 1);
        if fraction == 0 {
            return None;
        }
        length += 1 + fraction;
    }
    if let Some(b'e' | b'E') = rest.get(length) {
        let sign = usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent == 0 {
            return None;
        }
        length += 1 + sign + exponent;
    }
    Some(length)
}

/// Appends `number` in decimal, without allocating.
pub(super) fn push_decimal(number: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = number;
    loop {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}
