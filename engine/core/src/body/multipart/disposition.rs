//! The parameters of a part's `Content-Disposition`: its name and those of its file.
#![deny(clippy::indexing_slicing)]

use memchr::memmem;

use super::{Parser, before_byte, is_token_character};
use crate::body::{BodyErrorKind, urlencoded::unescape_into};

/// Which parameters of a `Content-Disposition` there were, be they empty.
#[derive(Default)]
pub(super) struct Given {
    name: bool,
    file_name: bool,
    file_name_extended: bool,
}

impl Parser<'_> {
    /// Takes `name`, `filename` and `filename*` from the value of a `Content-Disposition`.
    pub(super) fn disposition(&mut self, value: &[u8], offset: usize) {
        let kind = before_byte(value, b';');
        if !kind.trim_ascii().eq_ignore_ascii_case(b"form-data") {
            self.fail(BodyErrorKind::MultipartDisposition, offset);
        }
        let Some(mut rest) = value.get(kind.len() + 1..) else { return };
        let mut text = std::mem::take(&mut self.scratch.converted);
        loop {
            rest = rest.trim_ascii_start();
            let name_end = rest.iter().position(|&byte| matches!(byte, b'=' | b';'));
            let Some((name, after)) = name_end.and_then(|end| rest.split_at_checked(end)) else {
                // Neither a parameter nor a semicolon: also what follows a last semicolon.
                self.fail(BodyErrorKind::MultipartDisposition, offset);
                break;
            };
            let is_spaced = name.last().is_some_and(u8::is_ascii_whitespace);
            let name = name.trim_ascii_end();
            if let Some(after) = after.strip_prefix(b"=") {
                // Some servers overlook a parameter with a space there, and take a file for a field (RFC 2045 has none).
                if is_spaced || after.first().is_some_and(u8::is_ascii_whitespace) {
                    self.fail(BodyErrorKind::MultipartDisposition, offset);
                }
                // Others know a name in lower case only, as every client writes it.
                if name.iter().any(u8::is_ascii_uppercase) {
                    self.fail(BodyErrorKind::MultipartDisposition, offset);
                }
                text.clear();
                rest = self.parameter_value(name, after.trim_ascii_start(), &mut text, offset);
                self.parameter(name, &text, offset);
                self.unescaped(name, &mut text, offset);
            } else {
                self.fail(BodyErrorKind::MultipartDisposition, offset);
                rest = after;
            }
            // Past what the value should have ended with.
            let gap = before_byte(rest, b';');
            if !gap.trim_ascii().is_empty() {
                self.flags.invalid_quoting |= gap.contains(&b'"') || gap.contains(&b'\'');
                self.fail(BodyErrorKind::MultipartDisposition, offset);
            }
            let Some(next) = rest.get(gap.len() + 1..) else { break };
            rest = next;
        }
        self.scratch.converted = text;
    }

    /// Appends the value at the start of `input` to `text` and returns what follows it.
    fn parameter_value<'v>(
        &mut self,
        name: &[u8],
        input: &'v [u8],
        text: &mut Vec<u8>,
        offset: usize,
    ) -> &'v [u8] {
        let Some(&quote @ (b'"' | b'\'')) = input.first() else {
            let value = before_byte(input, b';');
            self.plain_value(name, value.trim_ascii_end(), text, offset);
            return input.get(value.len()..).unwrap_or_default();
        };
        self.flags.invalid_quoting |= quote == b'\'';
        let mut rest = input.get(1..).unwrap_or_default();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (byte, after.first()) {
                (b'\\', Some(&escaped)) if escaped == quote || escaped == b'\\' => {
                    text.push(escaped);
                    rest = after.get(1..).unwrap_or_default();
                }
                (end, _) if end == quote => return rest,
                _ => text.push(byte),
            }
        }
        self.flags.invalid_quoting = true;
        self.fail(BodyErrorKind::MultipartDisposition, offset);
        rest
    }

    /// A value without quotes; for `filename*` the form of RFC 5987, `charset'language'name`.
    fn plain_value(&mut self, name: &[u8], value: &[u8], text: &mut Vec<u8>, offset: usize) {
        if !name.ends_with(b"*") {
            self.flags.invalid_quoting |= value.contains(&b'\'');
            if value.is_empty() || !value.iter().all(|&byte| is_token_character(byte)) {
                self.fail(BodyErrorKind::MultipartDisposition, offset);
            }
            text.extend_from_slice(value);
            return;
        }
        let mut parts = value.splitn(3, |&byte| byte == b'\'');
        let (charset, _language, encoded) = (parts.next(), parts.next(), parts.next());
        let mut invalid = charset.is_none_or(<[u8]>::is_empty) || encoded.is_none();
        let encoded = encoded.unwrap_or(value);
        invalid |= !encoded
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~%".contains(byte));
        unescape_into(encoded, false, text, &mut invalid);
        if invalid {
            self.fail(BodyErrorKind::MultipartDisposition, offset);
        }
    }

    /// Reports a name with backslashes without them as well: by the grammar of quoted strings (RFC 822), as Werkzeug reads
    /// them, each quotes what follows it. Browsers never escape with one, so the name with them counts.
    fn unescaped(&mut self, name: &[u8], text: &mut Vec<u8>, offset: usize) {
        // Tomcat decodes an encoded word (RFC 2047), which RFC 7578 forbids in section 5.1.3.
        if let Some(start) = memmem::find(text, b"=?")
            && text.get(start..).is_some_and(|word| memmem::find(word, b"?=").is_some())
        {
            self.fail(BodyErrorKind::MultipartDisposition, offset);
        }
        if !text.contains(&b'\\') {
            return;
        }
        text.retain(|&byte| byte != b'\\');
        if name.eq_ignore_ascii_case(b"name") {
            self.argument(text, b"", offset);
        } else if name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"filename")) {
            self.further_file_name(text, offset);
        }
    }

    /// Keeps a parameter of a `Content-Disposition`.
    fn parameter(&mut self, name: &[u8], value: &[u8], offset: usize) {
        let (scratch, given) = (&mut *self.scratch, &mut self.given);
        let (kept, given) = if name.eq_ignore_ascii_case(b"name") {
            (&mut scratch.name, &mut given.name)
        } else if name.eq_ignore_ascii_case(b"filename") {
            (&mut scratch.file_name, &mut given.file_name)
        } else if name.eq_ignore_ascii_case(b"filename*") {
            (&mut scratch.file_name_extended, &mut given.file_name_extended)
        } else {
            self.fail(BodyErrorKind::MultipartDisposition, offset);
            return;
        };
        let is_repeated = std::mem::replace(given, true);
        // An empty one says nothing, so the one after it is kept; but a server may go by the empty one,
        // and take a file for a field.
        let is_kept = kept.is_empty();
        if is_kept {
            kept.extend_from_slice(value);
        }
        if is_repeated {
            self.fail(BodyErrorKind::MultipartDispositionRepeated, offset);
        }
        if is_kept {
            return;
        }
        if name.eq_ignore_ascii_case(b"name") {
            self.argument(value, b"", offset);
        } else {
            self.further_file_name(value, offset);
        }
    }
}
