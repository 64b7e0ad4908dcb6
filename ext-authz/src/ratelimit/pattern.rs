//! Values with wildcards: `/api/*/orders`.

use memchr::memmem;

/// A text in which each `*` stands for any bytes, or none.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    written: Box<str>,
    prefix: Box<[u8]>,
    /// What stands between stars, in order; none of it is empty.
    middle: Vec<memmem::Finder<'static>>,
    suffix: Box<[u8]>,
}

impl Pattern {
    /// `None` for a text without a star: that is compared as it is.
    pub(crate) fn new(written: &str) -> Option<Self> {
        let (prefix, rest) = written.split_once('*')?;
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let parts = middle.split('*').filter(|part| !part.is_empty());
        Some(Self {
            written: written.into(),
            prefix: prefix.as_bytes().into(),
            middle: parts.map(|part| memmem::Finder::new(part).into_owned()).collect(),
            suffix: suffix.as_bytes().into(),
        })
    }

    /// As it was written.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// Whether `value` is one of those that are meant. Takes time in proportion to the length of the value,
    /// whatever it is: each part is looked for once, behind the one before.
    pub(crate) fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.as_bytes().strip_prefix(&*self.prefix) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.suffix) else { return false };
        for part in &self.middle {
            let Some(at) = part.find(rest) else { return false };
            rest = rest.get(at + part.needle().len()..).unwrap_or_default();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (pattern, value, expected) in [
            ("foo*", "foo", true),
            ("foo*", "foobar", true),
            ("foo*", "fo", false),
            ("foo*", "xfoo", false),
            ("*", "", true),
            ("*", "anything", true),
            ("*bar", "foobar", true),
            ("*bar", "barfoo", false),
            ("/api/*/orders", "/api/7/orders", true),
            ("/api/*/orders", "/api//orders", true),
            // Prefix and suffix do not share bytes.
            ("/api/*/orders", "/api/orders", false),
            ("ab*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            // What stands in the middle shares no bytes with the ends either.
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("a*bc*c", "abc", false),
            ("a*xy*yz*b", "axyzb", false),
            ("a*xy*yz*b", "axyyzb", true),
            ("a**c", "abc", true),
            ("a**c", "ac", true),
            ("***", "", true),
            // A star in a value is a character like others.
            ("foo*", "foo*", true),
            ("ü*ß", "üß", true),
            ("ü*ß", "ü/ß", true),
        ] {
            let compiled = Pattern::new(pattern).unwrap();
            assert_eq!(compiled.matches(value), expected, "{pattern} on {value}");
            assert_eq!(compiled.written(), pattern);
        }
        assert!(Pattern::new("plain").is_none());
        assert!(Pattern::new("").is_none());
    }

    /// A value that nearly matches at every place costs no more than its length.
    #[test]
    fn hostile_values_are_read_once() {
        let pattern = Pattern::new(&"*a".repeat(200)).unwrap();
        let value = format!("{}b", "a".repeat(1 << 20));
        let begun = std::time::Instant::now();
        assert!(!pattern.matches(&value));
        let pattern = Pattern::new(&format!("*{}b*", "a".repeat(200))).unwrap();
        assert!(!pattern.matches(&"a".repeat(1 << 20)));
        // Trying each place anew would take seconds.
        assert!(begun.elapsed().as_millis() < 1_000, "{:?}", begun.elapsed());
    }
}
