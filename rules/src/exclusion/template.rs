//! Placeholders in paths and names: `{number}` and its like, and the patterns that they stand for.

use core::fmt::Write as _;

/// Placeholders, and what each stands for.
const PLACEHOLDERS: [(&str, &str); 5] = [
    ("{number}", "[0-9]+"),
    ("{hex}", "[0-9A-Fa-f]+"),
    ("{uuid}", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
    ("{token}", "[0-9A-Za-z_-]+"),
    ("{segment}", "[^/]+"),
];

/// Splits the text at placeholders: a literal part, and the pattern behind it, if there is one.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<&'static str>)> {
    let mut rest = Some(text);
    core::iter::from_fn(move || {
        let whole = rest?;
        let found = PLACEHOLDERS
            .iter()
            .filter_map(|(name, pattern)| whole.find(name).map(|at| (at, name.len(), *pattern)));
        match found.min() {
            Some((at, length, pattern)) => {
                rest = whole.get(at + length..);
                Some((whole.get(..at).unwrap_or_default(), Some(pattern)))
            }
            None => {
                rest = None;
                Some((whole, None))
            }
        }
    })
}

/// Whether the text has nothing but placeholders and bytes that are `good`.
#[must_use]
pub fn is_template_text(text: &str, good: impl Fn(u8) -> bool) -> bool {
    parts(text).all(|(literal, _)| literal.bytes().all(&good))
}

/// The pattern for a text with placeholders, without anchors.
#[must_use]
pub fn pattern_of(text: &str) -> String {
    parts(text).map(|(literal, pattern)| escaped(literal) + pattern.unwrap_or_default()).collect()
}

/// A pattern for exactly this text, of characters that mean nothing else in SecLang.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/') {
            pattern.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(pattern, "\\x{byte:02x}");
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_patterns_and_the_rest_is_literal() {
        for (text, expected) in [
            ("", ""),
            ("/a.b", "/a\\x2eb"),
            ("/a/{number}/b", "/a/[0-9]+/b"),
            ("{segment}{hex}", "[^/]+[0-9A-Fa-f]+"),
            ("/{unknown}", "/\\x7bunknown\\x7d"),
            ("\u{e4}", "\\xc3\\xa4"),
        ] {
            assert_eq!(pattern_of(text), expected, "{text}");
        }
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'/';
        assert!(is_template_text("/a/{uuid}", good));
        assert!(!is_template_text("/a/{uuid", good) && !is_template_text("/{unknown}", good));
    }
}
