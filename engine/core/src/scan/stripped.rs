//! Long values without what most chains of transformations take away.
//!
//! `removeWhitespace`, `compressWhitespace` and `cmdLine` change nearly every text, and each of a dozen chains with one
//! of them made a text of its own that was scanned for the texts of a few rules. They differ in separators only: white
//! space, quotes and the like. Here the separators are taken out once, of the value and of the texts that rules need.
//!
//! **The law.** Where [`Marks::keeps`] holds for each step of a chain, what the chain makes of a value is the value
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
    transform::Transformation,
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
    escape: bool,
    /// `/*`.
    comment: bool,
    /// `&` before `#` or the first letter of an entity.
    entity: bool,
    /// A backslash in the value.
    backslash: bool,
    /// A byte above 0x7F in the value.
    beyond_ascii: bool,
}

impl Marks {
    /// Of a stripped text, and the bytes of the value.
    fn new(stripped: &[u8], bytes: ByteSet) -> Self {
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

    /// Whether what the step makes of a value with these marks is the value once both are stripped, but for case.
    pub(crate) const fn keeps(self, step: Transformation) -> bool {
        match step {
            Transformation::CmdLine
            | Transformation::CompressWhitespace
            | Transformation::Lowercase
            | Transformation::RemoveNulls
            | Transformation::RemoveWhitespace
            | Transformation::ReplaceNulls
            | Transformation::Trim
            | Transformation::TrimLeft
            | Transformation::TrimRight
            | Transformation::Uppercase => true,
            Transformation::UrlDecode | Transformation::UrlDecodeUni => !self.escape,
            Transformation::ReplaceComments => !self.comment,
            Transformation::HtmlEntityDecode => !self.entity,
            Transformation::CssDecode
            | Transformation::EscapeSeqDecode
            | Transformation::JsDecode => !self.backslash,
            Transformation::Utf8toUnicode => !self.beyond_ascii,
            Transformation::Base64Decode
            | Transformation::Base64DecodeExt
            | Transformation::Base64Encode
            | Transformation::HexDecode
            | Transformation::HexEncode
            | Transformation::Length
            | Transformation::Md5
            | Transformation::NormalisePath
            | Transformation::NormalisePathWin
            | Transformation::ParityEven7bit
            | Transformation::ParityOdd7bit
            | Transformation::ParityZero7bit
            | Transformation::RemoveComments
            | Transformation::RemoveCommentsChar
            | Transformation::Sha1
            | Transformation::SqlHexDecode
            | Transformation::UrlEncode => false,
        }
    }
}

/// The steps of a chain of transformations whose rules all need texts; `None` of any other.
pub(crate) type Chain = Option<Vec<Transformation>>;

/// Collects the texts of rules.
#[derive(Debug, Default)]
pub(super) struct StrippedBuilder {
    rules: Vec<(RuleIndex, LaneId, Vec<Vec<u8>>)>,
}

impl StrippedBuilder {
    pub(super) fn add(&mut self, rule: RuleIndex, lane: LaneId, texts: &[Vec<u8>]) {
        self.rules.push((rule, lane, texts.to_vec()));
    }

    /// Compiles an index of the rules in those of `chains` that some value passes unchanged but for separators.
    pub(super) fn build(self, chains: &[Chain], parts: &mut Parts) -> Stripped {
        let plain = Marks::default();
        let keeps = |chain: &Chain| {
            chain.as_deref()?.iter().all(|&step| plain.keeps(step)).then(RuleSet::default)
        };
        let mut rules: Vec<Option<RuleSet>> = chains.iter().map(keeps).collect();
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

fn stripped(text: &[u8]) -> Vec<u8> {
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
    use crate::{transform::TABLE, xorshift::Xorshift};

    const PIECES: &[&[u8]] = &[
        b"a",
        b"Select",
        b" ",
        b"\t",
        b"\n",
        b"\x0B",
        b"\0",
        b"\"",
        b"'",
        b"\\",
        b"^",
        b",",
        b";",
        b"+",
        b"%",
        b"%41",
        b"%u0041",
        b"%2",
        b"&",
        b"&lt;",
        b"&#65;",
        b"&AMP",
        b"/",
        b"*",
        b"/*",
        b"*/",
        b"(",
        b"..",
        b"\xA0",
        b"\xC2\xA0",
        b"\xC3\xA4",
        b"u",
        b"4",
        b"-",
        b"--",
        b"#",
        b"<",
        b"x",
        b"lt",
        b"\\x41",
        b"0x41",
    ];

    /// The law, for each transformation and for chains of them.
    #[test]
    fn what_is_kept_is_the_same_once_stripped() {
        let mut random = Xorshift(0x5DEE_CE66_D123_4567);
        let mut kept = vec![0; TABLE.len()];
        for _ in 0..20_000 {
            let value: Vec<u8> = (0..random.below(9))
                .flat_map(|_| PIECES[random.below(PIECES.len())])
                .copied()
                .collect();
            let before = stripped(&value).to_ascii_lowercase();
            let marks = Marks::new(&stripped(&value), ByteSet::of(&value));
            let mut chained = value.clone();
            for _ in 0..4 {
                let at = random.below(TABLE.len());
                let (name, step) = TABLE[at];
                if !marks.keeps(step) {
                    continue;
                }
                kept[at] += 1;
                let mut out = Vec::new();
                if step.apply(&chained, &mut out) {
                    let after = stripped(&out).to_ascii_lowercase();
                    assert_eq!(
                        after.escape_ascii().to_string(),
                        before.escape_ascii().to_string(),
                        "{name} of {} from {}",
                        chained.escape_ascii(),
                        value.escape_ascii()
                    );
                    chained = out;
                }
            }
        }
        for ((name, step), kept) in TABLE.iter().zip(kept) {
            assert_eq!(kept > 500, Marks::default().keeps(*step), "{name}: {kept}");
        }
    }

    #[test]
    fn separators_are_taken_out() {
        assert_eq!(stripped(b"a b\t'c'\\\"d^,;+\0\xC2\xA0e\x0B"), b"abcde");
        assert_eq!(stripped(b" "), b"");
    }
}
