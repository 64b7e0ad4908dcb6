//! Narrower forms of an exclusion: which values of a parameter it holds for.

use std::collections::{BTreeMap, BTreeSet};

use glacis_rules::{escaped, pattern_of};
use regex_automata::{meta, util::syntax};

use crate::template::{Template, pieces, skeleton};

/// Different templates that one exclusion may list.
const TEMPLATES_MAX: usize = 8;

/// Characters that words and sentences have, and attacks can do little with alone.
const HARMLESS: &[u8] = b" -._,";

/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 1_536;

/// Which values an exclusion holds for.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// All.
    Any,
    /// Those that match a pattern as a whole.
    Pattern(String, meta::Regex),
}

impl Values {
    fn pattern(pattern: String) -> Option<Self> {
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let regex = meta::Regex::builder()
            .syntax(syntax)
            .configure(meta::Config::new().utf8_empty(false))
            .build(&format!("\\A(?:{pattern})\\z"))
            .ok()?;
        (pattern.len() <= PATTERN_BYTES_MAX).then_some(Self::Pattern(pattern, regex))
    }

    /// Whether the exclusion holds for this value.
    pub(crate) fn holds(&self, value: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Pattern(_, regex) => regex.is_match(value),
        }
    }

    /// As it is written; `None` for all values.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Any => None,
            Self::Pattern(pattern, _) => Some(pattern.clone()),
        }
    }

    /// Values of the characters that were seen, letters and digits as classes; with `wide`, of others that are
    /// harmless, too: the next value may have them.
    pub(crate) fn characters(values: &BTreeSet<Vec<u8>>, wide: bool) -> Option<Self> {
        let bytes: BTreeSet<u8> = values.iter().flatten().copied().collect();
        if bytes.is_empty() {
            return None;
        }
        let mut class = String::new();
        if wide || bytes.iter().any(u8::is_ascii_alphabetic) {
            class.push_str("A-Za-z");
        }
        if wide || bytes.iter().any(u8::is_ascii_digit) {
            class.push_str("0-9");
        }
        if wide || bytes.iter().any(|byte| !byte.is_ascii()) {
            class.push_str("\\x80-\\xff");
        }
        let others = (0..=0x7f_u8).filter(|byte| !byte.is_ascii_alphanumeric());
        for byte in others.filter(|byte| bytes.contains(byte) || wide && HARMLESS.contains(byte)) {
            class.push_str(&format!("\\x{byte:02x}"));
        }
        Self::pattern(format!("[{class}]*"))
    }

    /// Values that are the same but for numbers and identifiers.
    pub(crate) fn templates(values: &BTreeSet<Vec<u8>>) -> Option<Self> {
        let mut templates: BTreeMap<String, Template> = BTreeMap::new();
        for value in values {
            let text = core::str::from_utf8(value).ok()?;
            let pieces = pieces(text);
            templates
                .entry(skeleton(&pieces))
                .and_modify(|template| template.absorb(&pieces))
                .or_insert_with(|| Template::new(pieces));
            if templates.len() > TEMPLATES_MAX {
                return None;
            }
        }
        let pattern = |template: &Template| -> String {
            let part = |part: Result<&str, crate::template::Class>| match part {
                Ok(literal) => escaped(literal),
                Err(class) => pattern_of(class.placeholder()),
            };
            template.parts().map(part).collect()
        };
        let patterns: Vec<String> = templates.values().map(pattern).collect();
        (!patterns.is_empty()).then(|| Self::pattern(patterns.join("|"))).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[&str]) -> BTreeSet<Vec<u8>> {
        values.iter().map(|value| value.as_bytes().to_vec()).collect()
    }

    #[test]
    fn characters_hold_for_what_was_seen() {
        let values = Values::characters(&set(&["select a from b", "1.5"]), false).unwrap();
        assert!(values.holds(b"drop table c 9.9") && values.holds(b""));
        assert!(
            !values.holds(b"a'") && !values.holds(b"a;b") && !values.holds("\u{e4}".as_bytes())
        );
        assert!(!values.holds(b"a\n"), "a line break is a character, too");
        assert!(!values.holds(b"a-b") && !values.holds(b"a_b"));
        let values = Values::characters(&set(&["select"]), true).unwrap();
        assert!(values.holds("\u{e4} 1-2_3.4,5".as_bytes()) && !values.holds(b"a'"));
        assert!(Values::characters(&set(&[""]), true).is_none());
    }

    #[test]
    fn templates_hold_for_the_same_text_with_other_numbers() {
        let values = Values::templates(&set(&["{\"a\":1}", "{\"a\":22}", "x or y"])).unwrap();
        assert!(values.holds(b"{\"a\":333}") && values.holds(b"x or y"));
        assert!(!values.holds(b"{\"a\":1,\"b\":2}") && !values.holds(b"x or z"));
        let words = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        assert!(Values::templates(&set(&words[..8])).is_some());
        assert!(Values::templates(&set(&words)).is_none());
        assert!(Values::templates(&set(&[&"a".repeat(PATTERN_BYTES_MAX)])).is_some());
        assert!(Values::templates(&set(&[&"a".repeat(PATTERN_BYTES_MAX + 1)])).is_none());
    }
}
