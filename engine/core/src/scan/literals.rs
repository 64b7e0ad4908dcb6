//! From a pattern to the texts of which every match must hold one.
//!
//! The walk over the pattern's tree keeps, for each piece, the complete set of strings it can match when
//! that set is small (`exact`), and otherwise the best set of texts found inside of it (`needed`). A
//! sequence multiplies the exact sets of neighbours as long as they stay small, and then takes the best
//! of what it has: one set that must be there is enough.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::ByteSet;

/// Strings an exact set may have.
const EXACT_MAX: usize = 128;

/// Bytes a string of an exact set may have.
const EXACT_BYTES_MAX: usize = 24;

/// Texts one pattern may need.
const NEEDED_MAX: usize = 4_096;

/// Members a class may have to count as alternatives.
const CLASS_MAX: usize = 12;

/// Repetitions that are written out.
const REPEATED_MAX: u32 = 4;

/// Bytes of the part of a text that is looked for: short parts are fewer, and soon found.
const WINDOW_BYTES_MAX: usize = 6;

/// The least a text must weigh: less, and it is found in nearly every value.
pub(super) const WEIGHT_MIN: u32 = 20;

type Strings = Vec<Vec<u8>>;

/// What is known of a piece of a pattern.
#[derive(Clone, Debug, Default)]
struct Piece {
    exact: Option<Strings>,
    needed: Option<Strings>,
}

/// The texts of which every match of the pattern must hold at least one, in lower case and without regard
/// to case. `None` when there is no such set, or none that would tell anything.
pub(crate) fn required(pattern: &Hir) -> Option<Strings> {
    needed(pattern).filter(|texts| weight(texts) >= WEIGHT_MIN)
}

/// As [`required`], however common the texts are: for names, which are short. None of them is empty.
pub(crate) fn needed(pattern: &Hir) -> Option<Strings> {
    let piece = piece(pattern);
    let mut texts = better(piece.needed, piece.exact)?;
    texts.sort_unstable();
    texts.dedup();
    texts.iter().all(|text| !text.is_empty()).then_some(texts)
}

/// Sets of bytes of which every match of the pattern holds at least one each, in either case: those sets that have no
/// letter and no digit, which nearly every long text has.
pub(crate) fn needed_signs(pattern: &Hir) -> Vec<ByteSet> {
    let mut sets = needed_bytes(pattern);
    sets.retain(|set| !set.intersects(ALPHANUMERIC));
    sets.truncate(SIGN_SETS_MAX);
    sets
}

/// Sets of signs that are kept of one pattern.
const SIGN_SETS_MAX: usize = 8;

const ALPHANUMERIC: ByteSet =
    ByteSet::of(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

fn needed_bytes(hir: &Hir) -> Vec<ByteSet> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(Class::Unicode(_)) => Vec::new(),
        HirKind::Literal(literal) => {
            distinct(literal.0.iter().map(|&byte| ByteSet::of(&[byte]).folded()))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.iter().map(|range| ByteSet::range(range.start(), range.end()));
            vec![ranges.fold(ByteSet::EMPTY, ByteSet::union).folded()]
        }
        HirKind::Capture(capture) => needed_bytes(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min == 0 => Vec::new(),
        HirKind::Repetition(repetition) => needed_bytes(&repetition.sub),
        HirKind::Concat(pieces) => distinct(pieces.iter().flat_map(needed_bytes)),
        HirKind::Alternation(branches) => {
            // A match is one of a branch, and so holds a byte of the set that says most about that branch.
            let best = |branch| needed_bytes(branch).into_iter().min_by_key(commonness);
            let all = branches
                .iter()
                .try_fold(ByteSet::EMPTY, |all, branch| Some(all.union(best(branch)?)));
            all.into_iter().collect()
        }
    }
}

fn distinct(sets: impl Iterator<Item = ByteSet>) -> Vec<ByteSet> {
    let mut all: Vec<ByteSet> = Vec::new();
    for set in sets {
        if !all.contains(&set) {
            all.push(set);
        }
    }
    all
}

/// How likely a text holds one of the bytes: letters and digits first, then the number of bytes.
fn commonness(set: &ByteSet) -> (usize, usize) {
    let count =
        |of: ByteSet| (0..=u8::MAX).filter(|&byte| of.contains(byte) && set.contains(byte)).count();
    (count(ALPHANUMERIC), count(ByteSet::ALL))
}

fn piece(hir: &Hir) -> Piece {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => exact(vec![Vec::new()]),
        HirKind::Literal(literal) => exact(vec![literal.0.to_ascii_lowercase()]),
        HirKind::Class(class) => class_members(class).map_or_else(Piece::default, exact),
        HirKind::Capture(capture) => piece(&capture.sub),
        HirKind::Repetition(repetition) => {
            let inner = piece(&repetition.sub);
            match (repetition.min, repetition.max) {
                (1, Some(1)) => inner,
                (0, Some(1)) => {
                    let exact = inner.exact.and_then(|strings| union(strings, vec![Vec::new()]));
                    Piece { exact, needed: None }
                }
                (0, _) => Piece::default(),
                (min, Some(max)) if max <= REPEATED_MAX => {
                    let exact = inner.exact.as_ref().and_then(|once| repeated(once, min, max));
                    let needed =
                        if exact.is_some() { None } else { better(inner.needed, inner.exact) };
                    Piece { exact, needed }
                }
                _ => Piece { exact: None, needed: better(inner.needed, inner.exact) },
            }
        }
        HirKind::Concat(pieces) => sequence(pieces),
        HirKind::Alternation(branches) => alternatives(branches),
    }
}

/// What `min` to `max` of these strings, one behind the other, can be.
fn repeated(once: &Strings, min: u32, max: u32) -> Option<Strings> {
    let mut run: Strings = vec![Vec::new()];
    let mut all = Strings::new();
    for times in 1..=max {
        run = product(&run, once)?;
        if times >= min {
            all = union(all, run.clone())?;
        }
    }
    Some(all)
}

fn exact(strings: Strings) -> Piece {
    Piece { exact: Some(strings), needed: None }
}

fn class_members(class: &Class) -> Option<Strings> {
    let Class::Bytes(class) = class else { return None };
    let mut members: Strings = Vec::new();
    for range in class.iter() {
        for byte in range.start()..=range.end() {
            let member = vec![byte.to_ascii_lowercase()];
            if !members.contains(&member) {
                members.push(member);
            }
            if members.len() > CLASS_MAX {
                return None;
            }
        }
    }
    Some(members)
}

fn sequence(pieces: &[Hir]) -> Piece {
    let mut run: Strings = vec![Vec::new()];
    let mut best = None;
    let mut all_exact = true;
    for hir in pieces {
        let Piece { exact, needed } = piece(hir);
        best = better(best, needed);
        let Some(strings) = exact else {
            best = better(best, Some(core::mem::replace(&mut run, vec![Vec::new()])));
            all_exact = false;
            continue;
        };
        run = match product(&run, &strings) {
            Some(product) => product,
            None => {
                best = better(best, Some(run));
                all_exact = false;
                strings
            }
        };
    }
    if all_exact {
        return exact(run);
    }
    Piece { exact: None, needed: better(best, Some(run)) }
}

fn alternatives(branches: &[Hir]) -> Piece {
    let pieces: Vec<Piece> = branches.iter().map(piece).collect();
    let exact = pieces.iter().try_fold(Vec::new(), |all, piece| union(all, piece.exact.clone()?));
    if exact.is_some() {
        return Piece { exact, needed: None };
    }
    let mut needed = Vec::new();
    for piece in pieces {
        match better(piece.needed, piece.exact) {
            Some(texts) if weight(&texts) > 0 && needed.len() + texts.len() <= NEEDED_MAX => {
                needed.extend(texts);
            }
            _ => return Piece::default(),
        }
    }
    Piece { exact: None, needed: Some(needed) }
}

fn union(mut left: Strings, right: Strings) -> Option<Strings> {
    for string in right {
        if !left.contains(&string) {
            left.push(string);
        }
    }
    (left.len() <= EXACT_MAX).then_some(left)
}

fn product(left: &Strings, right: &Strings) -> Option<Strings> {
    if left.len() * right.len() > EXACT_MAX {
        return None;
    }
    let mut all = Vec::with_capacity(left.len() * right.len());
    for start in left {
        for end in right {
            let string = [start.as_slice(), end].concat();
            if string.len() > EXACT_BYTES_MAX {
                return None;
            }
            all.push(string);
        }
    }
    Some(all)
}

/// The set that tells more.
fn better(left: Option<Strings>, right: Option<Strings>) -> Option<Strings> {
    match (left, right) {
        (Some(left), Some(right)) => {
            Some(if weight(&right) > weight(&left) { right } else { left })
        }
        (left, right) => left.or(right),
    }
}

/// How much a set tells: what its weakest text weighs, a little less for each doubling of its size.
fn weight(texts: &Strings) -> u32 {
    let weakest = texts.iter().map(|text| text_weight(window(text).1)).min().unwrap_or(0);
    weakest.saturating_sub(texts.len().checked_ilog2().unwrap_or(0) / 3)
}

pub(super) fn text_weight(text: &[u8]) -> u32 {
    text.iter().map(|&byte| byte_weight(byte)).sum()
}

/// How seldom a byte is in ordinary requests; our own judgement, in tenths of a common letter.
const fn byte_weight(byte: u8) -> u32 {
    match byte {
        b'a' | b'e' | b'i' | b'n' | b'o' | b'r' | b's' | b't' => 9,
        b'a'..=b'z' => 11,
        b'0'..=b'9' => 8,
        b' ' | b'=' | b'/' | b'.' | b'-' | b'_' | b',' | b';' | b':' | b'&' => 7,
        b'(' | b')' | b'+' | b'?' | b'*' | b'%' | b'@' | b'!' | b'#' | b'[' | b']' | b'\n'
        | b'\r' | b'\t' => 14,
        _ => 21,
    }
}

/// The part of a text that tells the most, and where it begins. Words are in many texts and in many values;
/// two of them with a sign between are not.
pub(crate) fn window(text: &[u8]) -> (usize, &[u8]) {
    let is_sign = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b' ';
    let tells = |part: &[u8]| (part.iter().any(is_sign), text_weight(part));
    let windows = text.windows(WINDOW_BYTES_MAX).enumerate();
    windows.max_by_key(|(_, part)| tells(part)).unwrap_or((0, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(pattern: &str) -> Hir {
        crate::pattern::Pattern::syntax_tree(pattern).unwrap()
    }

    #[track_caller]
    fn check(pattern: &str, expected: Option<&[&str]>) {
        let texts = required(&tree(pattern)).map(|texts| {
            texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
        });
        let expected =
            expected.map(|texts| texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>());
        assert_eq!(texts, expected, "{pattern}");
    }

    #[test]
    fn texts_that_must_be_there() {
        check("select", Some(&["select"]));
        check("(?i)SeLeCt", Some(&["select"]));
        check(r"union\s+select", Some(&["select"]));
        check("a(?:bc|de)f", Some(&["abcf", "adef"]));
        check("(?:foo|ba[rz])?qux", Some(&["barqux", "bazqux", "fooqux", "qux"]));
        check(".*", None);
        check("[a-z]+", None);
        check("(?:abc|.*)", None);
        check("x*", None);
        check("(?:abc){2,}", Some(&["abc"]));
        check(r"\bfoo\b", Some(&["foo"]));
        check("[<>]", Some(&["<", ">"]));
        check("e", None);
        check("etc/passwd", Some(&["etc/passwd"]));
    }

    #[test]
    fn signs_that_must_be_there() {
        for (pattern, expected) in [
            ("a", &[][..]),
            ("<a", &["<"]),
            (r"\$\(x", &["$", "("]),
            ("[<>]a|b=", &["<=>"]),
            ("<|b", &[]),
            ("(?:<a)*", &[]),
            ("(?:<a)+?b;?", &["<"]),
            ("[^a-z0-9<]x|;", &[]),
            ("[a<]=", &["="]),
            ("<((a=|b:)c){2}", &["<", ":="]),
        ] {
            let bytes = |set: &ByteSet| {
                (0..=255).filter(|&byte| set.contains(byte)).map(char::from).collect()
            };
            let signs: Vec<String> = needed_signs(&tree(pattern)).iter().map(bytes).collect();
            assert_eq!(signs, expected, "{pattern}");
        }
    }

    /// As many as are allowed of what one text can be; of a longer one, those of a part.
    #[test]
    fn sets_of_texts_have_a_limit() {
        for (letters, texts) in [(6, 64), (7, 128), (8, 128)] {
            let pattern = format!("{}xyz", "[ab]".repeat(letters));
            let found = required(&tree(&pattern));
            assert_eq!(found.map(|found| found.len()), Some(texts), "{pattern}");
        }
    }

    #[test]
    fn windows_are_what_tells_the_most() {
        for (text, expected) in [
            ("union", (0, "union")),
            ("etc/passwd", (3, "/passw")),
            ("new-object", (3, "-objec")),
            ("select top", (0, "select")),
        ] {
            let (first, window) = window(text.as_bytes());
            assert_eq!((first, window.escape_ascii().to_string().as_str()), expected, "{text}");
        }
    }

    /// The law of [`crate::scan`]: what matches holds one of the texts, whatever the case.
    #[test]
    fn whatever_matches_holds_one_of_the_texts() {
        const PIECES: &[&str] = &[
            "<",
            "ab",
            "<b",
            "(?i:<A)",
            "(?:<a|b>)",
            "[<>]",
            "[a-z]",
            ".",
            "(a|<ab|)",
            "(?:<|>|a){2}",
            "^",
            r"\b",
            "(?:<a|<b)?",
            "x<",
            "\\$",
        ];
        const COUNTS: &[&str] = &["", "", "*", "+", "?", "{2}", "{0,1}", "{1,3}"];
        let mut numbers = crate::xorshift::Xorshift(0xD1B5_4A32_D192_ED03);
        let mut random = |bound: usize| numbers.below(bound);
        let (mut filtered, mut matches) = (0, 0);
        for _ in 0..3_000 {
            let mut pcre = String::new();
            for _ in 0..=random(4) {
                let piece = PIECES[random(PIECES.len())];
                let counted = !matches!(piece, "^" | r"\b");
                let count = if counted { COUNTS[random(COUNTS.len())] } else { "" };
                pcre += &format!("(?:{piece}){count}");
                pcre += if random(6) == 0 { "|" } else { "" };
            }
            let pattern = crate::pattern::Pattern::new(&pcre).unwrap();
            let signs = needed_signs(&tree(&pcre));
            let Some(texts) = required(&tree(&pcre)) else { continue };
            filtered += 1;
            for _ in 0..40 {
                let text: Vec<u8> = (0..random(9)).map(|_| b"<>aAbBx$"[random(8)]).collect();
                if pattern.may_match(&text) {
                    matches += 1;
                    let lower = text.to_ascii_lowercase();
                    let named = texts.iter().any(|part| {
                        lower.windows(part.len().max(1)).any(|window| window == part.as_slice())
                    });
                    assert!(named, "{pcre} matches {text:?} without {texts:?}");
                    let bytes = ByteSet::of(&text).folded();
                    let has_signs = signs.iter().all(|&signs| bytes.intersects(signs));
                    assert!(has_signs, "{pcre} matches {text:?} without {signs:?}");
                }
            }
        }
        assert!(filtered > 500 && matches > 2_000, "{filtered} patterns, {matches} matches");
    }
}
