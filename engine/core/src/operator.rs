//! The operators of SecLang: a closed set, compiled once and evaluated on bytes.
//!
//! Source: ModSecurity v3 reference manual, "Operators".

mod byte_range;
mod check_digit;
mod ip_match;
mod sqli;
mod url_encoding;
mod utf8_encoding;
mod xss;

use std::sync::Arc;

use aho_corasick::AhoCorasick;
use memchr::memmem;

use crate::{
    expand::Expression,
    pattern::{Found, Meter, Pattern},
    scan::Table,
};
pub(crate) use byte_range::ByteRange;
pub(crate) use ip_match::IpSet;
pub(crate) use xss::NEEDS as XSS_NEEDS;

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ge,
    Gt,
    Le,
    Lt,
}

impl Comparison {
    pub(crate) const fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Self::Eq => left == right,
            Self::Ge => left >= right,
            Self::Gt => left > right,
            Self::Le => left <= right,
            Self::Lt => left < right,
        }
    }
}

/// How texts are compared with a parameter that may hold macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextTest {
    BeginsWith,
    Contains,
    ContainsWord,
    EndsWith,
    Streq,
    Within,
}

impl TextTest {
    pub(crate) fn holds(self, value: &[u8], parameter: &[u8]) -> bool {
        match self {
            Self::BeginsWith => value.starts_with(parameter),
            Self::Contains => memmem::find(value, parameter).is_some(),
            Self::ContainsWord => contains_word(value, parameter),
            Self::EndsWith => value.ends_with(parameter),
            Self::Streq => value == parameter,
            Self::Within => occurs(value, parameter),
        }
    }
}

/// Whether `needle` occurs in `text`.
///
/// A search is prepared for its needle, which costs more than the search where there is little to look at,
/// as in CRS's lists of a few names. There a byte in the middle is looked for: the outer ones are those that
/// part names.
fn occurs(needle: &[u8], text: &[u8]) -> bool {
    const LITTLE: usize = 256;
    if text.len() > LITTLE {
        return memmem::find(text, needle).is_some();
    }
    let middle = needle.len() / 2;
    let Some(&byte) = needle.get(middle) else { return true };
    memchr::memchr_iter(byte, text).any(|at| {
        let start = at.checked_sub(middle);
        start.and_then(|start| text.get(start..)).is_some_and(|text| text.starts_with(needle))
    })
}

/// Which check digits a number found by a pattern must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckDigit {
    CreditCard,
    Cpf,
    Ssn,
    Svnr,
    Rut,
}

/// A compiled operator.
#[derive(Clone, Debug)]
pub(crate) enum Operator {
    /// `@rx`.
    Rx(Pattern),
    /// `@rxGlobal`.
    RxGlobal(Pattern),
    /// `@pm`, `@pmFromFile`.
    Pm(Phrases),
    /// `@eq`, `@ge`, …
    Number(Comparison, Expression),
    /// `@streq`, `@contains`, …
    Text(TextTest, Expression),
    /// `@ipMatch`, `@ipMatchFromFile`.
    IpMatch(IpSet),
    /// `@validateByteRange`.
    ValidateByteRange(ByteRange),
    /// `@validateUrlEncoding`.
    ValidateUrlEncoding,
    /// `@validateUtf8Encoding`.
    ValidateUtf8Encoding,
    /// `@detectSQLi`.
    DetectSqli,
    /// `@detectXSS`.
    DetectXss,
    /// `@verifyCC` and its like.
    Verify(CheckDigit, Pattern),
    /// `@unconditionalMatch`.
    UnconditionalMatch,
    /// `@noMatch`.
    NoMatch,
    /// One that needs more than the value: the transaction answers it.
    Deferred(Deferred),
}

/// An operator that asks the transaction or its host.
#[derive(Clone, Debug)]
pub(crate) enum Deferred {
    /// `@geoLookup`.
    GeoLookup,
    /// `@rbl ZONE`.
    Rbl(Expression),
    /// `@rx` and `@rxGlobal` (`true`) with macros in the pattern.
    Rx(Expression, bool),
}

/// Captured text: up to ten ranges of the value, or a text of the operator's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capture {
    /// Ranges of the value, the whole match first.
    pub(crate) groups: [Option<(usize, usize)>; Self::GROUPS],
    /// Text for `TX:0` that is not part of the value (a fingerprint).
    pub(crate) text: Vec<u8>,
}

impl Capture {
    /// `TX:0` to `TX:9`.
    pub(crate) const GROUPS: usize = 10;

    pub(crate) fn clear(&mut self) {
        self.groups = [None; Self::GROUPS];
        self.text.clear();
    }
}

impl Operator {
    /// The parameter that must be expanded before [`Self::matches`] is called.
    pub(crate) const fn parameter(&self) -> Option<&Expression> {
        match self {
            Self::Number(_, parameter)
            | Self::Text(_, parameter)
            | Self::Deferred(Deferred::Rbl(parameter) | Deferred::Rx(parameter, _)) => {
                Some(parameter)
            }
            _ => None,
        }
    }

    /// Whether what it says of a value depends on nothing else.
    pub(crate) fn looks_at_the_value_alone(&self) -> bool {
        let is_constant = |text: &Expression| text.literal().is_some();
        !matches!(self, Self::Deferred(_)) && self.parameter().is_none_or(is_constant)
    }

    /// Whether its pattern needs back-tracking.
    pub(crate) const fn backtracks(&self) -> bool {
        match self {
            Self::Rx(pattern) | Self::RxGlobal(pattern) | Self::Verify(_, pattern) => {
                pattern.backtracks()
            }
            Self::Pm(_)
            | Self::Number(..)
            | Self::Text(..)
            | Self::IpMatch(_)
            | Self::ValidateByteRange(_)
            | Self::ValidateUrlEncoding
            | Self::ValidateUtf8Encoding
            | Self::DetectSqli
            | Self::DetectXss
            | Self::UnconditionalMatch
            | Self::NoMatch
            | Self::Deferred(_) => false,
        }
    }

    /// Whether the operator holds for `value`, negation left to the caller.
    ///
    /// `parameter` is the expansion of [`Self::parameter`]. `capture` is cleared; it is filled on a match
    /// when `capturing`. A pattern charges `meter` for its instructions; the caller does for the value's bytes.
    pub(crate) fn matches(
        &self,
        value: &[u8],
        parameter: &[u8],
        capturing: bool,
        capture: &mut Capture,
        meter: &mut Meter,
    ) -> Found {
        capture.clear();
        Found::from(match self {
            Self::Rx(pattern) => return search(pattern, false, value, capturing, capture, meter),
            Self::RxGlobal(pattern) => {
                return search(pattern, true, value, capturing, capture, meter);
            }
            Self::Verify(check, pattern) => {
                return verify(*check, pattern, value, capturing.then_some(capture), meter);
            }
            Self::Pm(phrases) => phrases.is_match(value, capturing.then_some(capture)),
            Self::Number(comparison, _) => {
                comparison.holds(leading_integer(value), leading_integer(parameter))
            }
            Self::Text(test, _) => test.holds(value, parameter),
            Self::IpMatch(set) => set.contains(value),
            Self::ValidateByteRange(range) => range.first_outside(value).is_some(),
            Self::ValidateUrlEncoding => url_encoding::invalid(value),
            Self::ValidateUtf8Encoding => utf8_encoding::invalid(value),
            Self::DetectSqli => match sqli::detect(value) {
                None => false,
                Some(_) if !capturing => true,
                Some(fingerprint) => {
                    capture.text.extend_from_slice(fingerprint.as_bytes());
                    true
                }
            },
            Self::DetectXss => whole_value(xss::detect(value), value, capturing.then_some(capture)),
            Self::UnconditionalMatch => true,
            Self::NoMatch | Self::Deferred(_) => false,
        })
    }
}

/// Whether a pattern matches. `capture` must be clear; with `global`, the groups of the matches that
/// follow stand behind those of the first.
pub(crate) fn search(
    pattern: &Pattern,
    global: bool,
    value: &[u8],
    capturing: bool,
    capture: &mut Capture,
    meter: &mut Meter,
) -> Found {
    // Most values do not match: the groups are looked for only where one does.
    let found = pattern.search(value, 0, &mut [], meter);
    if found == Found::Yes && capturing {
        match global {
            // A search that now gives up says so by the meter; the match stays one.
            false => drop(pattern.search(value, 0, &mut capture.groups, meter)),
            true => capture_all(pattern, value, &mut capture.groups, meter),
        }
    }
    found
}

/// The groups of one match after the other, as far as there is room for them: no more searches than
/// that are made.
fn capture_all(
    pattern: &Pattern,
    value: &[u8],
    found: &mut [Option<(usize, usize)>; Capture::GROUPS],
    meter: &mut Meter,
) {
    let (mut at, mut used) = (0, 0);
    let mut groups = [None; Capture::GROUPS];
    while used < found.len() && pattern.search(value, at, &mut groups, meter) == Found::Yes {
        let Some((start, end)) = groups[0] else { break };
        // Groups behind the last one that took part do not count, as in PCRE.
        let count = groups.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for (place, group) in found.iter_mut().skip(used).zip(groups.iter().take(count)) {
            *place = *group;
        }
        used += count;
        at = end.max(start + 1);
    }
}

fn whole_value(matched: bool, value: &[u8], capture: Option<&mut Capture>) -> bool {
    if let (true, Some(capture)) = (matched, capture) {
        capture.groups[0] = Some((0, value.len()));
    }
    matched
}

/// The phrases of `@pm`.
#[derive(Clone, Debug)]
pub(crate) struct Phrases {
    /// Says where the first one is.
    pub(crate) automaton: Arc<AhoCorasick>,
    /// Says sooner whether there is one. Of negated rules, which are asked about every value; others are asked only
    /// where the fast path has seen one.
    pub(crate) table: Option<Arc<Table>>,
}

impl Phrases {
    fn is_match(&self, value: &[u8], capture: Option<&mut Capture>) -> bool {
        if let (Some(table), None) = (&self.table, &capture) {
            return table.is_match(value);
        }
        let found = self.automaton.find(value);
        if let (Some(found), Some(capture)) = (found, capture) {
            capture.groups[0] = Some((found.start(), found.end()));
        }
        found.is_some()
    }
}

/// Bytes of numbers that are looked at again from their next byte on, for each byte of the value.
const AGAIN_MAX: usize = 64;

fn verify(
    check: CheckDigit,
    pattern: &Pattern,
    value: &[u8],
    mut capture: Option<&mut Capture>,
    meter: &mut Meter,
) -> Found {
    let mut from = 0;
    let mut again = value.len().saturating_mul(AGAIN_MAX);
    loop {
        let mut range = [None];
        let found = pattern.search(value, from, &mut range, meter);
        let [Some((start, end))] = range else { return found };
        let number = value.get(start..end).unwrap_or_default();
        let valid = match check {
            CheckDigit::CreditCard => check_digit::luhn(number),
            CheckDigit::Cpf => check_digit::cpf(number),
            CheckDigit::Ssn => check_digit::ssn(number),
            CheckDigit::Svnr => check_digit::svnr(number),
            CheckDigit::Rut => check_digit::rut(number),
        };
        if valid {
            if let Some(capture) = capture.as_deref_mut() {
                capture.groups[0] = Some((start, end));
            }
            return Found::Yes;
        }
        // A good number may begin within a bad one, as in ModSecurity. Where numbers are long, only so many are
        // looked for there, so that the time stays linear.
        again = again.saturating_sub(end - start);
        from = if again > 0 { start + 1 } else { end.max(start + 1) };
        // What was found is read once more than the value; a match may be as long as it likes.
        meter.pay((end - start) as u64);
        if meter.is_spent() {
            return Found::GaveUp;
        }
    }
}

/// The number at the start of a text as C's `atoi` reads it, 0 when there is none; saturating.
pub(crate) fn leading_integer(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let value =
        digits.iter().take_while(|byte| byte.is_ascii_digit()).fold(0i64, |value, &digit| {
            value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
        });
    if negative { -value } else { value }
}

/// Whether `word` occurs in `value` with no letter, digit or underscore beside it.
fn contains_word(value: &[u8], word: &[u8]) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|&b| b.is_ascii_alphanumeric() || b == b'_');
    let stands_alone = |start: usize| {
        let before = start.checked_sub(1).and_then(|at| value.get(at));
        !is_word(before) && !is_word(value.get(start + word.len()))
    };
    if word.is_empty() {
        return true;
    }
    // Without another byte in it, what overlaps an occurrence has a letter before it.
    if word.iter().all(|byte| is_word(Some(byte))) {
        return memmem::find_iter(value, word).any(stands_alone);
    }
    memmem::find(value, word).is_some() && overlapping(word, value).any(stands_alone)
}

/// Where `needle`, which is not empty, occurs in `text`, also where occurrences overlap. Linear, however
/// often the needle begins like itself: the method of Knuth, Morris and Pratt.
fn overlapping<'t>(needle: &'t [u8], text: &'t [u8]) -> impl Iterator<Item = usize> + 't {
    // For each beginning of the needle, the longest shorter one that it ends in.
    let mut borders = vec![0; needle.len()];
    let mut length = 0;
    for (at, &byte) in needle.iter().enumerate().skip(1) {
        length = extended(needle, &borders, length, byte);
        if let Some(border) = borders.get_mut(at) {
            *border = length;
        }
    }
    let mut length = 0;
    text.iter().enumerate().filter_map(move |(at, &byte)| {
        length = extended(needle, &borders, length, byte);
        (length == needle.len()).then(|| at + 1 - length)
    })
}

/// Bytes of the longest beginning of `needle` that a text ends in, when `byte` follows what ended in one of
/// `length` bytes.
fn extended(needle: &[u8], borders: &[usize], mut length: usize, byte: u8) -> usize {
    loop {
        if needle.get(length) == Some(&byte) {
            return length + 1;
        }
        let shorter = length.checked_sub(1).and_then(|last| borders.get(last));
        let Some(&shorter) = shorter else { return 0 };
        length = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckDigit, contains_word, verify};
    use crate::{
        pattern::{Found, Meter, Pattern},
        xorshift::Xorshift,
    };

    #[track_caller]
    fn check(value: &str, word: &str, expected: bool) {
        let found = contains_word(value.as_bytes(), word.as_bytes());
        assert_eq!(found, expected, "{word:?} in {value:?}");
    }

    #[test]
    fn words_stand_alone() {
        check("", "", true);
        check("a", "", true);
        check("", "a", false);
        check("one two", "two", true);
        check("one two.", "two", true);
        check("twofold", "two", false);
        check("two_", "two", false);
        check("twofold two", "two", true);
        check("aaa", "a", false);
        check("xa a", "a", true);
        check("xa a a", "a a", true);
        check("xa a aa", "a a", false);
        check("-a-a-", "-a-", false);
        check("x--a-x", "-a-", false);
        check("x--a-", "-a-", true);
        check("--a-", "-a-", true);
    }

    /// Numbers within numbers are looked for in linear time, however long they are.
    #[test]
    fn long_numbers_end() {
        let pattern = Pattern::new(r"\d+").unwrap();
        let mut value = vec![b'1'; 1 << 20];
        let mut meter = Meter::new(u64::MAX / 2);
        assert_eq!(verify(CheckDigit::Ssn, &pattern, &value, None, &mut meter), Found::No);
        value.extend_from_slice(b" 123-45-6788");
        let pattern = Pattern::new(r"[\d-]+").unwrap();
        assert_eq!(verify(CheckDigit::Ssn, &pattern, &value, None, &mut meter), Found::Yes);
    }

    /// The same as asking at every place.
    #[test]
    fn words_are_found_wherever_they_overlap() {
        let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
        let mut text = |length_max: usize| -> Vec<u8> {
            (0..random.below(length_max)).map(|_| b"ab -"[random.below(4)]).collect()
        };
        let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        for _ in 0..20_000 {
            let (value, word) = (text(16), text(6));
            let expected = (0..=value.len()).any(|at| {
                let before = at.checked_sub(1).and_then(|before| value.get(before));
                value[at..].starts_with(&word)
                    && (word.is_empty() || !is_word(before) && !is_word(value.get(at + word.len())))
            });
            assert_eq!(contains_word(&value, &word), expected, "{word:?} in {value:?}");
        }
    }
}
