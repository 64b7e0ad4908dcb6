//! Values within values: base64, and JSON or XML in a string (`SecNestedDecoding On`).
//!
//! Applications decode such values before they use them, so an attack may stand in one where no rule sees it. What an
//! argument or a cookie decodes to is a further value of the same name: `ARGS:q` is the value that was sent, and each
//! that it holds. An exclusion of the name takes all of them away. They are no arguments of their own: `&ARGS`,
//! `ARGS_NAMES` and `ARGS_COMBINED_SIZE` do not know them.
//!
//! So is what segments of the path and header fields of applications (`X-…`) hold, of which only base64 is looked for.
//!
//! Decoding scores nothing by itself: a rule has to match what comes out.
#![deny(clippy::indexing_slicing)]

use core::mem;
use std::sync::Arc;

use crate::{
    body::{self, BodyScratch, BodySink, Processor, Room, urlencoded},
    store::{List, Pair, Slice, Store},
    transaction::{Flags, Transaction},
    transform::base64,
    variable::Variable,
};

/// How deep values are looked for: base64 in JSON in an argument is two levels.
const LEVELS: usize = 2;

/// Characters of the shortest text that is taken for base64: six bytes.
const BASE64_CHARACTERS_MIN: usize = 8;

impl Transaction {
    /// Adds to `to` what the values of `from` hold.
    pub(super) fn decode_nested(&mut self, from: List, to: List) {
        if !self.program.settings.nested_decoding {
            return;
        }
        let mut level = from;
        let mut members = 0..self.store.list(from).len();
        let mut rest = Vec::new();
        // Quoted cookies are in the list already, and may hold more.
        let mut found = 0;
        for _ in 0..LEVELS {
            for at in members {
                let Some(&pair) = self.store.list(level).get(at) else { break };
                self.decode_value(pair, to, &mut rest);
            }
            level = to;
            members = found..self.store.list(to).len();
            found = members.end;
        }
        self.add_rest(to, &rest);
    }

    /// Adds what segments of the path, and header fields of applications (`X-…`), hold that are base64 as a whole:
    /// applications take parameters from there, too. They are arguments called `REQUEST_FILENAME`, and as the field is.
    pub(super) fn decode_nested_places(&mut self) {
        if !self.program.settings.nested_decoding {
            return;
        }
        let mut rest = Vec::new();
        let mut path = mem::take(&mut self.scratch.expansion);
        path.clear();
        let file_name = self.scalars.get(Variable::RequestFilename as usize).copied();
        let file_name = file_name.unwrap_or(Slice::EMPTY);
        urlencoded::percent_decode(self.store.bytes(file_name), &mut path);
        let is_long = |segment: &&[u8]| segment.len() >= BASE64_CHARACTERS_MIN;
        let mut pushed = None;
        for segment in path.split(|&byte| byte == b'/').filter(is_long) {
            let name = *pushed.get_or_insert_with(|| self.store.push(b"REQUEST_FILENAME"));
            let value = self.store.push_temporary(segment);
            self.decode_base64(Pair { name, value, id: 0 }, List::ArgsGetDecoded, &mut rest);
            self.store.clear_temporary();
        }
        path.clear();
        path.shrink_to(BodyScratch::RETAINED_BYTES_MAX);
        self.scratch.expansion = path;
        for at in 0..self.store.list(List::RequestHeaders).len() {
            let Some(&field) = self.store.list(List::RequestHeaders).get(at) else { break };
            let name = self.store.bytes(field.name);
            if name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"x-")) {
                self.decode_base64(field, List::ArgsGetDecoded, &mut rest);
            }
        }
        self.add_rest(List::ArgsGetDecoded, &rest);
    }

    /// Adds the values beyond the limit, as one without a name.
    fn add_rest(&mut self, to: List, rest: &[u8]) {
        if !rest.is_empty() {
            let value = self.store.push(rest);
            self.store.add_slices(to, Slice::EMPTY, value);
        }
    }

    /// A value with percent escapes, as cookies have them, is looked at as what they stand for.
    fn decode_value(&mut self, pair: Pair, to: List, rest: &mut Vec<u8>) {
        if !self.store.bytes(pair.value).contains(&b'%') {
            return self.decode_unescaped(pair, to, rest);
        }
        let mut unescaped = mem::take(&mut self.scratch.expansion);
        unescaped.clear();
        urlencoded::percent_decode(self.store.bytes(pair.value), &mut unescaped);
        let value = self.store.push_temporary(&unescaped);
        unescaped.clear();
        unescaped.shrink_to(BodyScratch::RETAINED_BYTES_MAX);
        self.scratch.expansion = unescaped;
        self.decode_unescaped(Pair { value, ..pair }, to, rest);
        self.store.clear_temporary();
    }

    fn decode_unescaped(&mut self, pair: Pair, to: List, rest: &mut Vec<u8>) {
        let Some(container) = Container::of(self.store.bytes(pair.value)) else {
            return self.decode_base64(pair, to, rest);
        };
        let text = self.copied(pair.value);
        // What cannot be read has been looked at as it is; what comes before it may be read.
        let seen = if text.contains(&container.escape()) { Seen::Whole } else { Seen::Each };
        self.open(container, &text, pair.name, seen, to, rest);
        self.give_back(text);
    }

    fn decode_base64(&mut self, pair: Pair, to: List, rest: &mut Vec<u8>) {
        let mut decoded = mem::take(&mut self.scratch.decoded);
        decoded.clear();
        if text_of(self.store.bytes(pair.value), &mut decoded) {
            // Quotes and braces around many values look like injections: of JSON its names and values are looked at.
            let is_read = Container::of(&decoded) == Some(Container::Json)
                && self.open(Container::Json, &decoded, pair.name, Seen::Nothing, to, rest);
            if !is_read {
                self.values(pair.name, Seen::Nothing, to, rest).add(&decoded);
            }
        }
        decoded.clear();
        decoded.shrink_to(BodyScratch::RETAINED_BYTES_MAX);
        self.scratch.decoded = decoded;
    }

    /// Adds the values in a text, and says whether it could be read to its end.
    fn open(
        &mut self,
        container: Container,
        text: &[u8],
        name: Slice,
        seen: Seen,
        to: List,
        rest: &mut Vec<u8>,
    ) -> bool {
        let mut scratch = mem::take(&mut self.scratch.body);
        let program = Arc::clone(&self.program);
        let mut sink = self.values(name, seen, to, rest);
        let separator = program.settings.argument_separator;
        let text = without_mark(text.trim_ascii());
        let outcome = body::process(
            container.processor(),
            b"",
            text,
            &program.limits,
            separator,
            &mut scratch,
            &mut sink,
        );
        self.scratch.body = scratch;
        outcome.error.is_none()
    }

    fn values<'t>(
        &'t mut self,
        name: Slice,
        seen: Seen,
        to: List,
        rest: &'t mut Vec<u8>,
    ) -> Values<'t> {
        let limits = &self.program.limits;
        let values_max = limits.query_arguments_max.min(limits.arguments_max);
        Values {
            store: &mut self.store,
            flags: &mut self.flags,
            name,
            seen,
            to,
            values_max,
            bytes_left: &mut self.control.nested_bytes_left,
            rest,
        }
    }
}

/// A text that holds values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Json,
    Xml,
}

impl Container {
    /// Tells by the first and the last byte.
    fn of(value: &[u8]) -> Option<Self> {
        let value = without_mark(value.trim_ascii());
        match (value.first(), value.last()) {
            (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => Some(Self::Json),
            (Some(b'<'), Some(b'>')) => Some(Self::Xml),
            _ => None,
        }
    }

    const fn processor(self) -> Processor {
        match self {
            Self::Json => Processor::Json,
            Self::Xml => Processor::Xml,
        }
    }

    /// The byte without which each value stands in the text as it is.
    const fn escape(self) -> u8 {
        match self {
            Self::Json => b'\\',
            Self::Xml => b'&',
        }
    }
}

/// Without the `j:` by which Express's cookie-parser knows a cookie that is JSON.
fn without_mark(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"j:").unwrap_or(value)
}

/// What rules have seen of a text with values before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// It was encoded.
    Nothing,
    /// The text, in which values may be escaped.
    Whole,
    /// The text, in which each value stands as it is: only what it holds in turn is new.
    Each,
}

/// Writes what a value decodes to that is base64 as a whole (RFC 4648, sections 4 and 5, in lines or not), or a `data:`
/// URL (RFC 2397). False where it is none, or what comes out is no text.
fn text_of(value: &[u8], out: &mut Vec<u8>) -> bool {
    let value = value.trim_ascii();
    let value = base64_of_data_url(value).unwrap_or(value);
    let padding = value.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = value.get(..value.len() - padding).unwrap_or_default();
    if value.len() < BASE64_CHARACTERS_MIN || padding > 2 {
        return false;
    }
    base64::decode_any_alphabet(digits, out) && is_text(out)
}

/// `data:text/html;base64,PGI+` → `PGI+`.
fn base64_of_data_url(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(5)?;
    let comma = memchr::memchr(b',', rest)?;
    let media_type = rest.get(..comma)?;
    let is_base64 = media_type.len() >= 7
        && media_type.get(media_type.len() - 7..)?.eq_ignore_ascii_case(b";base64");
    (scheme.eq_ignore_ascii_case(b"data:") && is_base64).then(|| rest.get(comma + 1..))?
}

/// UTF-8 without control characters but for white space: what an attack on an interpreter is written in. Images,
/// keys and random tokens are none.
fn is_text(bytes: &[u8]) -> bool {
    let is_control =
        |&byte: &u8| byte == 0x7f || (byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r'));
    !bytes.is_empty() && !bytes.iter().any(is_control) && core::str::from_utf8(bytes).is_ok()
}

/// Takes the values that a value holds.
struct Values<'t> {
    store: &'t mut Store,
    flags: &'t mut Flags,
    /// The name of the value that holds them.
    name: Slice,
    seen: Seen,
    to: List,
    /// Values that are kept one by one. Further ones are put together, a line each, in one last value without a name:
    /// none is left out, and no exclusion of a name takes it away.
    values_max: usize,
    /// [`Limits::nested_bytes_max`](crate::Limits), less what was added.
    bytes_left: &'t mut usize,
    rest: &'t mut Vec<u8>,
}

impl Values<'_> {
    fn add(&mut self, value: &[u8]) -> Room {
        let is_new = match self.seen {
            Seen::Nothing | Seen::Whole => !value.is_empty() && !is_number(value),
            Seen::Each => may_hold_values(value),
        };
        if !is_new {
            return Room::Left;
        }
        let Some(bytes_left) = self.bytes_left.checked_sub(value.len()) else {
            self.flags.values_cut = true;
            return Room::Full;
        };
        *self.bytes_left = bytes_left;
        if self.store.list(self.to).len() < self.values_max {
            let value = self.store.push(value);
            self.store.add_slices(self.to, self.name, value);
        } else {
            self.rest.extend_from_slice(value);
            self.rest.push(b'\n');
        }
        Room::Left
    }
}

/// Whether a value is to be looked into: base64, JSON or XML by its first bytes.
fn may_hold_values(value: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_ \r\n=".contains(byte);
    Container::of(value).is_some()
        || (value.len() >= BASE64_CHARACTERS_MIN && value.iter().all(is_digit))
        || value.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"))
}

/// Whether no rule could find more in a value than in the text around it.
fn is_number(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-'))
}

impl BodySink for Values<'_> {
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        if self.seen == Seen::Nothing {
            self.add(name);
        }
        self.add(value)
    }

    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.add(text)
    }

    fn xml_attribute(&mut self, _name: &[u8], value: &[u8]) -> Room {
        self.add(value)
    }

    // JSON and XML have none of these.
    fn file(&mut self, _field: &[u8], _file_name: &[u8], _content: &[u8]) -> Room {
        Room::Left
    }

    fn file_name(&mut self, _field: &[u8], _file_name: &[u8]) -> Room {
        Room::Left
    }

    fn part_header(&mut self, _part: &[u8], _line: &[u8]) -> Room {
        Room::Left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_base64_of_text() {
        for (value, expected) in [
            ("MScgb3IgMT0xLS0=", Some("1' or 1=1--")),
            ("MScgb3IgMT0xLS0", Some("1' or 1=1--")),
            (" MScgb3Ig\r\nMT0xLS0=\n", Some("1' or 1=1--")),
            // `+` in a form is a space, and `-` and `_` belong to the alphabet for URLs.
            ("PHA+Pz8/PC9wPg==", Some("<p>???</p>")),
            ("PHA Pz8/PC9wPg==", Some("<p>???</p>")),
            ("PHA-Pz8_PC9wPg", Some("<p>???</p>")),
            ("data:text/html;charset=utf-8;base64,PHA+Pz8/PC9wPg==", Some("<p>???</p>")),
            ("data:text/html,PHA+Pz8/PC9wPg==", None),
            // Six bytes at least.
            ("YWJjZGVm", Some("abcdef")),
            ("YWJjZGU", None),
            // No text: random bytes, control characters, a letter that is no UTF-8.
            ("3q2+7wECAwQF", None),
            ("YWJjAGRlZg==", None),
            ("6WFiY2RlZg==", None),
            // Other characters, padding in the middle, too much of it, one character over.
            ("MScgb3IgMT0xLS0=.", None),
            ("MScg=b3IgMT0x", None),
            ("MScgb3IgMT0x===", None),
            ("YWJjZGVmZ", None),
            ("password", None),
            ("", None),
        ] {
            let mut out = Vec::new();
            let is_text = text_of(value.as_bytes(), &mut out);
            let decoded = is_text.then(|| String::from_utf8_lossy(&out).into_owned());
            assert_eq!(decoded.as_deref(), expected, "{value}");
        }
    }
}
