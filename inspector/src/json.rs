//! JSON text, written straight into a `String`: the records have a fixed shape and need no tree.

use core::fmt::Write as _;

/// Appends `text` as a JSON string.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // U+2028 and U+2029 end a line for some readers of line-oriented logs, U+0085 for others.
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// An object under construction.
pub(crate) struct Object<'o> {
    out: &'o mut String,
    first: bool,
}

impl<'o> Object<'o> {
    pub(crate) fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, first: true }
    }

    /// Appends the key; the caller appends the value to what is returned.
    pub(crate) fn key(&mut self, key: &str) -> &mut String {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        push_string(self.out, key);
        self.out.push(':');
        self.out
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) -> &mut Self {
        push_string(self.key(key), value);
        self
    }

    pub(crate) fn number(&mut self, key: &str, value: impl Into<i64>) -> &mut Self {
        // Writing to a `String` cannot fail.
        let _ = write!(self.key(key), "{}", value.into());
        self
    }

    /// A number in thousandths, as a decimal.
    pub(crate) fn milli(&mut self, key: &str, value: i32) -> &mut Self {
        // Writing to a `String` cannot fail.
        let _ = write!(self.key(key), "{}", f64::from(value) / 1_000.0);
        self
    }

    /// A count of things or of bytes.
    pub(crate) fn count(&mut self, key: &str, value: usize) -> &mut Self {
        self.number(key, i64::try_from(value).unwrap_or(i64::MAX))
    }

    pub(crate) fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key).push_str(if value { "true" } else { "false" });
        self
    }

    pub(crate) fn strings<'s>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = &'s str>,
    ) -> &mut Self {
        let out = self.key(key);
        out.push('[');
        for (position, value) in values.into_iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            push_string(out, value);
        }
        out.push(']');
        self
    }

    pub(crate) fn end(self) {
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\0\r\n\t\u{1b}", r#""\u0000\r\n\t\u001b""#),
            ("line\u{2028}end", r#""line\u2028end""#),
            ("ü€𝄞", r#""ü€𝄞""#),
        ] {
            let mut out = String::new();
            push_string(&mut out, text);
            assert_eq!(out, expected);
        }
    }
}
