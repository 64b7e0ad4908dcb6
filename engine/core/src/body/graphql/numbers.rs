//! Numbers in variables that say how long lists are: `first: $n`, or `page: $page` with `{"page": {"first": 100}}`.
#![deny(clippy::indexing_slicing)]

use std::collections::BTreeMap;

/// Names of arguments that say how many elements a field has.
const PAGE_NAMES: [&[u8]; 8] =
    [b"first", b"last", b"limit", b"take", b"perPage", b"per_page", b"pageSize", b"page_size"];

/// Whether an integer argument of that name says how many elements a field has.
pub(super) fn is_page(name: &[u8]) -> bool {
    PAGE_NAMES.contains(&name)
}

/// The value of an integer, at least 1: a list of which nothing is wanted still costs its field.
pub(super) fn integer(text: &[u8]) -> u64 {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let number = digits.iter().fold(0_u64, |number, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
    });
    if digits.len() < text.len() { 1 } else { number.max(1) }
}

/// Characters of the longest number with a fraction or an exponent that is read; a longer one is the highest.
const FLOAT_BYTES_MAX: usize = 64;

/// The value of a number of JSON, `None` for other values. `1e3` is an integer for servers.
fn json_number(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    if digits.iter().all(u8::is_ascii_digit) {
        return Some(integer(text));
    }
    if text.len() > FLOAT_BYTES_MAX {
        return Some(u64::MAX);
    }
    let text = core::str::from_utf8(text).ok()?;
    let number = text.parse::<f64>().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and negative numbers are 1"
    )]
    let number = number.max(1.0) as u64;
    Some(number)
}

/// Lengths of lists that the value of a variable gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    /// The value itself.
    own: Option<u64>,
    /// The highest number within it, under a name that says how long a list is.
    within: Option<u64>,
}

/// The numbers of the variables of one request, for each element of a batch.
#[derive(Debug, Default)]
pub(crate) struct Numbers(BTreeMap<(usize, Vec<u8>), Sizes>);

impl Numbers {
    /// Takes note of a member of variables, if it is a number. `path` begins with the name of the variable.
    pub(crate) fn note_path(&mut self, element: usize, path: &[u8], value: &[u8]) {
        let Some(number) = json_number(value) else { return };
        let mut names = path.split(|&byte| byte == b'.');
        let Some(variable) = names.next() else { return };
        let last = names.next_back();
        self.note(element, variable, number, last.is_none(), last.is_some_and(is_page));
    }

    /// Takes note of a number in the value of a variable.
    pub(super) fn note(
        &mut self,
        element: usize,
        variable: &[u8],
        number: u64,
        is_own: bool,
        is_page: bool,
    ) {
        if !is_own && !is_page {
            return;
        }
        let numbers = self.0.entry((element, variable.to_vec())).or_default();
        let slot = if is_own { &mut numbers.own } else { &mut numbers.within };
        *slot = Some(slot.unwrap_or(0).max(number));
    }

    /// How many elements a variable asks for where its value is used; `None` where that is not known. `is_page` says
    /// that it is the value of an argument that says so.
    pub(super) fn elements(&self, element: usize, variable: &[u8], is_page: bool) -> Option<u64> {
        let numbers = self.0.get(&(element, variable.to_vec()))?;
        let own = numbers.own.filter(|_| is_page);
        own.max(numbers.within)
    }
}
