//! `application/x-www-form-urlencoded`: bodies and query strings.
#![deny(clippy::indexing_slicing)]

use memchr::{memchr, memchr2};

use super::{BodyError, BodyErrorKind, BodyScratch, BodySink, Outcome, Room};
use crate::ascii::hex_pair;

/// Reports every argument of a query string or body to `sink`, in order.
///
/// Pairs end at `separator` (`SecArgumentSeparator`, `&` by default), a name ends at the first `=`; a
/// pair without one is a name with an empty value, and an empty pair is skipped (`a&&b` has two
/// arguments). In both halves `+` becomes a space and `%XX` a byte, NUL included. An escape that is
/// none stays as written, and [`Outcome::invalid_escapes`] says that there was one
/// (`URLENCODED_ERROR`).
///
/// When the sink is full the rest is not read and [`BodyErrorKind::ArgumentsFull`] is returned. Time is
/// linear in the input; memory is one decoded pair.
///
/// Source: ModSecurity 3 `Transaction::extractArguments`; skipping empty pairs is Coraza's rule, and
/// the difference shows only in the count of arguments.
pub fn parse(
    query: &[u8],
    separator: u8,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Outcome {
    let mut outcome = Outcome { bytes_without_files: query.len(), ..Outcome::default() };
    let mut rest = query;
    while !rest.is_empty() {
        let (pair, after) = split_at_byte(rest, separator);
        rest = after;
        if pair.is_empty() {
            continue;
        }
        let (name, value) = split_at_byte(pair, b'=');
        let name = unescape(name, &mut scratch.name, &mut outcome.invalid_escapes);
        let value = unescape(value, &mut scratch.value, &mut outcome.invalid_escapes);
        if sink.argument(name, value) == Room::Full {
            let offset = query.len() - rest.len();
            outcome.error = Some(BodyError { kind: BodyErrorKind::ArgumentsFull, offset });
            break;
        }
    }
    outcome
}

/// The bytes before the first `byte` and those after it; all and none if there is no such byte.
fn split_at_byte(input: &[u8], byte: u8) -> (&[u8], &[u8]) {
    match memchr(byte, input).and_then(|at| input.split_at_checked(at)) {
        Some((before, after)) => (before, after.get(1..).unwrap_or_default()),
        None => (input, &[]),
    }
}

/// Undoes `+` and `%XX`. What holds neither is returned as it is and costs no copy.
fn unescape<'a>(input: &'a [u8], buffer: &'a mut Vec<u8>, invalid: &mut bool) -> &'a [u8] {
    if memchr2(b'%', b'+', input).is_none() {
        return input;
    }
    buffer.clear();
    unescape_into(input, true, buffer, invalid);
    buffer
}

/// Appends `input` to `out` with `%XX` decoded, and with `+` as a space if `plus_is_space`.
/// Escapes that are none stay as written and set `invalid`.
pub(super) fn unescape_into(
    input: &[u8],
    plus_is_space: bool,
    out: &mut Vec<u8>,
    invalid: &mut bool,
) {
    let mut rest = input;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' if plus_is_space => out.push(b' '),
            b'%' => match escaped_byte(after) {
                Some((decoded, after_escape)) => {
                    out.push(decoded);
                    rest = after_escape;
                }
                None => {
                    out.push(b'%');
                    *invalid = true;
                }
            },
            _ => out.push(byte),
        }
    }
}

/// The byte that two hexadecimal digits name, and what follows them.
fn escaped_byte(digits: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = digits.split_first_chunk::<2>()?;
    Some((hex_pair(*high, *low)?, rest))
}

/// Appends `input` to `out` with `%XX` decoded; escapes that are none stay as written.
pub(crate) fn percent_decode(input: &[u8], out: &mut Vec<u8>) {
    unescape_into(input, false, out, &mut false);
}
