//! Patterns, in the part of the language that means the same here and to the engine: see
//! `rules/virtual-patches/README.md`.

use super::spelling::spelled_pattern;
use regex_lite::{Regex, RegexBuilder};

/// Case plays no part, and `.` is any byte.
pub(super) const FLAGS: &str = "(?is)";
/// Bytes of one compiled pattern, about.
const BYTES_MAX: usize = 64 << 10;

/// A pattern, compiled. It is compared by its text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// As rules have it, without flags.
    text: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Compiles a pattern; or what is wrong with it. In one of a path, `/` is a separator however it is spelled.
    pub(super) fn new(written: &str, of_path: bool) -> Result<Self, String> {
        if let Some(problem) = beyond_the_common_part(written) {
            return Err(problem.to_owned());
        }
        let text = if of_path { spelled_pattern(written) } else { written.to_owned() };
        let mut builder = RegexBuilder::new(&format!("{FLAGS}(?:{text})"));
        let regex = builder.size_limit(BYTES_MAX).build();
        let regex = regex.map_err(|error| format!("{written:?} is no pattern: {error}"))?;
        Ok(Self { text, regex })
    }

    /// The pattern as rules have it, without flags.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is in bytes that [`as_chars`] has made a text of. Linear in its length.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// What is wrong with a pattern that not everybody reads alike.
fn beyond_the_common_part(text: &str) -> Option<&'static str> {
    let mut bytes = text.bytes().peekable();
    let mut in_class = false;
    while let Some(byte) = bytes.next() {
        match (byte, in_class) {
            (b'\\', _) => match bytes.next() {
                Some(b'A' | b'z') if !in_class => {}
                Some(b'd' | b'w' | b's' | b'D' | b'W' | b'S') => {}
                Some(other) if other.is_ascii_punctuation() => {}
                _ => return Some("behind \\ write d, w, s, D, W, S, A, z or a punctuation mark"),
            },
            (b'[', true) => return Some("write \\[ inside of a class"),
            (b'&' | b'~' | b'-', true) if bytes.peek() == Some(&byte) => {
                return Some("write no class of classes");
            }
            (b'[', false) => {
                in_class = true;
                bytes.next_if_eq(&b'^');
                if bytes.peek() == Some(&b']') {
                    return Some("write \\] inside of a class");
                }
            }
            (b']', true) => in_class = false,
            (b'^' | b'$', false) => return Some("write \\A or \\z instead of ^ or $"),
            (b'(', false) if bytes.peek() == Some(&b'?') => {
                bytes.next();
                if bytes.next() != Some(b':') {
                    return Some("write groups as (?:…)");
                }
            }
            (b'+' | b'*' | b'?' | b'}', false) if bytes.peek() == Some(&b'+') => {
                return Some("write no + behind another quantifier");
            }
            (b'{', false) if bytes.peek() == Some(&b',') => return Some("write {0, instead of {,"),
            (b'"' | b'\'' | b'%', _) => return Some("write no quotes and no '%'"),
            _ => {}
        }
    }
    None
}

/// Each byte as the character of that number: patterns are of ASCII, and see bytes so.
pub(super) fn as_chars(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
