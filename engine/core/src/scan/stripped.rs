//! Long values without what most chains of transformations take away.
//!
//! `removeWhitespace`, `compressWhitespace` and `cmdLine` change nearly every text, and each of a dozen chains with one
//! of them made a text of its own that was scanned for the texts of a few rules. They differ in separators only: white
//! space, quotes and the like. Here the separators are taken out once, of the value and of the texts that rules need.
//!
//! **The law.** Where [`Transformation::keeps_stripped`](crate::transform::Transformation) holds for each step of a chain, what the chain makes of a value is the value
//! itself once both are stripped, but for case. A text that is in the one is then, stripped, in the other: a rule of
//! that chain whose texts are not found here cannot match.

use super::{
    ByteSet,
    index::{Index, IndexBuilder},
    literals::{WEIGHT_MIN, text_weight},
};
use crate::{
    id::{LaneId, RuleIndex, RuleSet},
    parts::Parts,
};

/// What is taken out: what `removeWhitespace`, `removeNulls` and `cmdLine` drop, what `cmdLine` and `urlDecode` make
/// spaces of.
const SEPARATORS: ByteSet = ByteSet::of(b" \t\n\x0B\x0C\r\0\"'\\^,;+\xA0\xC2");

/// Bytes that a text must have left. A rule with a shorter one is not told by it.
const TEXT_BYTES_MIN: usize = 3;

/// What a stripped value holds that a step might decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// `%` before `u` or two hexadecimal digits.
    pub(crate) escape: bool,
    /// `/*`.
    pub(crate) comment: bool,
    /// `&` before `#` or the first letter of an entity.
    pub(crate) entity: bool,
    /// A backslash in the value.
    pub(crate) backslash: bool,
    /// A byte above 0x7F in the value.
    pub(crate) beyond_ascii: bool,
}

impl Marks {
    /// Of a stripped text, and the bytes of the value.
    pub(crate) fn new(stripped: &[u8], bytes: ByteSet) -> Self {
        let hex = |byte: u8| byte.is_ascii_hexdigit();
        let after = |sign: u8, tells: &dyn Fn(&[u8]) -> bool| {
            memchr::memchr_iter(sign, stripped)
                .any(|at| tells(stripped.get(at + 1..).unwrap_or_default()))
        };
        let escaped = |rest: &[u8]| match rest {
            [b'u' | b'U', ..] => true,
            [first, second, ..] => hex(*first) && hex(*second),
            _ => false,
        };
        let entity = |rest: &[u8]| {
            rest.first().is_some_and(|byte| b"#qalgn".contains(&byte.to_ascii_lowercase()))
        };
        Self {
            escape: after(b'%', &escaped),
            comment: after(b'/', &|rest| rest.first() == Some(&b'*')),
            entity: after(b'&', &entity),
            backslash: bytes.contains(b'\\'),
            beyond_ascii: bytes.intersects(ByteSet::range(0x80, 0xFF)),
        }
    }
}

/// Collects the texts of rules.
#[derive(Debug, Default)]
pub(super) struct StrippedBuilder {
    rules: Vec<(RuleIndex, LaneId, Vec<Vec<u8>>)>,
}

impl StrippedBuilder {
    pub(super) fn add(&mut self, rule: RuleIndex, lane: LaneId, texts: &[Vec<u8>]) {
        self.rules.push((rule, lane, texts.to_vec()));
    }

    /// Compiles an index of the rules in those chains that some value passes unchanged but for separators, and whose
    /// rules all need texts: `chains` says of each whether it is one.
    pub(super) fn build(self, chains: &[bool], parts: &mut Parts) -> Stripped {
        let mut rules: Vec<Option<RuleSet>> =
            chains.iter().map(|is_told| is_told.then(RuleSet::default)).collect();
        let mut index = IndexBuilder::default();
        for (rule, lane, texts) in &self.rules {
            let Some(place) = rules.get_mut(lane.get()) else { continue };
            let Some(of_lane) = place else { continue };
            let texts: Vec<Vec<u8>> = texts.iter().map(|text| stripped(text)).collect();
            let tells = texts
                .iter()
                .all(|text| text.len() >= TEXT_BYTES_MIN && text_weight(text) >= WEIGHT_MIN);
            match tells && index.add(*rule, &texts) {
                true => of_lane.insert(*rule),
                false => *place = None,
            }
        }
        Stripped { index: index.build(parts), rules }
    }
}

/// The rules of chains that change separators only, by the texts they need.
#[derive(Debug, Default)]
pub(crate) struct Stripped {
    index: Index,
    /// By chain; `None` of one that is not told.
    rules: Vec<Option<RuleSet>>,
}

impl Stripped {
    /// The rules of a chain, if a stripped value tells whether they may match.
    pub(crate) fn of_lane(&self, lane: LaneId) -> Option<&RuleSet> {
        self.rules.get(lane.get())?.as_ref()
    }

    /// Adds to `set`, bits over rules, those that may match what a chain makes of a value. `buffer` is for the
    /// stripped value; `bytes` are those of the value.
    pub(crate) fn scan(
        &self,
        value: &[u8],
        bytes: ByteSet,
        buffer: &mut Vec<u8>,
        set: &mut [u64],
    ) -> Marks {
        strip(value, buffer);
        self.index.scan(buffer, set);
        Marks::new(buffer, bytes)
    }
}

pub(crate) fn stripped(text: &[u8]) -> Vec<u8> {
    let mut stripped = Vec::new();
    strip(text, &mut stripped);
    stripped
}

/// Leaves in `out` the bytes of `text` that are no separators.
fn strip(text: &[u8], out: &mut Vec<u8>) {
    const KEPT: [bool; 256] = {
        let mut kept = [true; 256];
        let mut byte = 0;
        while byte < 256 {
            kept[byte] = !SEPARATORS.contains(byte as u8);
            byte += 1;
        }
        kept
    };
    out.clear();
    out.resize(text.len(), 0);
    let mut length = 0;
    for &byte in text {
        if let Some(place) = out.get_mut(length) {
            *place = byte;
        }
        length += usize::from(KEPT[usize::from(byte)]);
    }
    out.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_taken_out() {
        assert_eq!(stripped(b"a b\t'c'\\\"d^,;+\0\xC2\xA0e\x0B"), b"abcde");
        assert_eq!(stripped(b" "), b"");
    }
}
