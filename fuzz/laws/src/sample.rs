//! Texts that a pattern matches. Changed bytes seldom become one, and what a fast path must not miss is a
//! match: so the laws of patterns and of the fast path add samples to what the input sends.

use glacis_engine::transform::Transformation;
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind},
};

/// Bytes of a sample; what would come behind is left out.
const SAMPLE_BYTES_MAX: usize = 300;

/// Repetitions beyond the fewest that a pattern asks for.
const MORE_REPETITIONS: usize = 2;

/// Transformations that rules undo.
const ENCODERS: [Transformation; 5] = [
    Transformation::Uppercase,
    Transformation::Lowercase,
    Transformation::HexEncode,
    Transformation::Base64Encode,
    Transformation::UrlEncode,
];

/// Choices that follow from a text alone, so that an input stands for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn of(text: &[u8]) -> Self {
        // FNV-1a, not zero.
        let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash | 1)
    }

    /// A number below `bound`, or 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // Xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound.max(1)
    }

    fn pick<'t, T>(&mut self, list: &'t [T]) -> Option<&'t T> {
        list.get(self.below(list.len()))
    }
}

/// A text that the pattern matches, if it is one of `regex-syntax` too; otherwise what of it is plain.
pub(crate) fn sample(pattern: &str, choices: &mut Choices) -> Vec<u8> {
    let mut parser =
        ParserBuilder::new().unicode(false).utf8(false).dot_matches_new_line(true).build();
    let mut out = Vec::new();
    match parser.parse(pattern) {
        Ok(hir) => write(&hir, choices, &mut out),
        Err(_) => out.extend(pattern.bytes().filter(|byte| !b"\\()[]{}?*+|^$.".contains(byte))),
    }
    out.truncate(SAMPLE_BYTES_MAX);
    out
}

/// A sample as it is, or so that some transformation gives it back.
pub(crate) fn encoded_sample(pattern: &str, choices: &mut Choices) -> Vec<u8> {
    let plain = sample(pattern, choices);
    let Some(encoder) = ENCODERS.get(choices.below(2 * ENCODERS.len())) else { return plain };
    let mut coded = Vec::new();
    if encoder.apply(&plain, &mut coded) { coded } else { plain }
}

fn write(hir: &Hir, choices: &mut Choices, out: &mut Vec<u8>) {
    if out.len() >= SAMPLE_BYTES_MAX {
        return;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.extend_from_slice(&literal.0),
        HirKind::Class(class) => write_member(class, choices, out),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.map_or(usize::MAX, |max| max as usize);
            let more = choices.below(MORE_REPETITIONS + 1);
            for _ in 0..(repetition.min as usize).saturating_add(more).min(most) {
                write(&repetition.sub, choices, out);
                if out.len() >= SAMPLE_BYTES_MAX {
                    return;
                }
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, choices, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, choices, out)),
        HirKind::Alternation(parts) => {
            if let Some(part) = choices.pick(parts) {
                write(part, choices, out);
            }
        }
    }
}

fn write_member(class: &Class, choices: &mut Choices, out: &mut Vec<u8>) {
    match class {
        Class::Bytes(class) => {
            if let Some(range) = choices.pick(class.ranges()) {
                let offset = choices.below(usize::from(range.end() - range.start()) + 1);
                out.push(range.start() + u8::try_from(offset).unwrap_or(0));
            }
        }
        Class::Unicode(class) => {
            if let Some(range) = choices.pick(class.ranges()) {
                out.extend_from_slice(range.start().encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_the_pattern() {
        for (pattern, expected) in [
            ("abc", &[&b"abc"[..]][..]),
            ("(?i)a", &[b"a", b"A"]),
            ("a|bc|", &[b"a", b"bc", b""]),
            ("a{2}b?", &[b"aa", b"aab"]),
            (r"^[0-1]$", &[b"0", b"1"]),
            ("(?=a)bc", &[b"=abc"]),
        ] {
            for seed in 0_u8..50 {
                let sample = sample(pattern, &mut Choices::of(&[seed]));
                assert!(expected.contains(&&sample[..]), "{pattern}: {}", sample.escape_ascii());
            }
        }
        let long = sample(&"(a{1000}){1000}".repeat(3), &mut Choices::of(b""));
        assert_eq!(long.len(), SAMPLE_BYTES_MAX);
    }
}
