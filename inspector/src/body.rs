//! Bodies as they may stand in a log.
//!
//! Forms, JSON and multipart bodies are shown with the values of secrets masked, as the names in them
//! tell. Everything else, and whatever is not of the form that it claims, is masked as a whole: where
//! no name is known, nothing can be said to be harmless.

use crate::redact::{MASK, Redaction};

/// Bytes of a body that are looked at and shown.
pub(crate) const BYTES_MAX: usize = 8 << 10;

/// What a body is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Form,
    Json,
    Multipart,
    Other,
}

impl Kind {
    /// That of a request, by the body processor.
    pub(crate) const fn of_processor(name: &[u8]) -> Self {
        match name {
            b"URLENCODED" => Self::Form,
            b"JSON" => Self::Json,
            b"MULTIPART" => Self::Multipart,
            _ => Self::Other,
        }
    }

    /// That of a response, by its content type.
    pub(crate) fn of_response(content_type: &[u8]) -> Self {
        let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
        let essence = essence.trim_ascii().to_ascii_lowercase();
        if essence == b"application/json" || essence.ends_with(b"+json") {
            Self::Json
        } else {
            Self::Other
        }
    }
}

/// The body, or its beginning, as it may be shown. With `without_files` the contents of uploaded files
/// are left out whether or not anything is masked.
pub(crate) fn shown(
    bytes: &[u8],
    kind: Kind,
    content_type: &[u8],
    without_files: bool,
    redaction: &Redaction,
) -> String {
    let text = String::from_utf8_lossy(bytes);
    let masked = match kind {
        Kind::Multipart if without_files || redaction.enabled() => {
            multipart(&text, content_type, redaction)
        }
        _ if !redaction.enabled() => return text.into_owned(),
        Kind::Form => Some(redaction.form(&text)),
        Kind::Json => json(&text, redaction),
        Kind::Multipart | Kind::Other => None,
    };
    masked.unwrap_or_else(|| MASK.to_owned())
}

/// JSON, perhaps cut off; `None` when it is something else.
fn json(text: &str, redaction: &Redaction) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(quote) = rest.find('"') {
        let (between, string_on) = rest.split_at(quote);
        out.push_str(Some(between).filter(|between| is_structure(between))?);
        let (string, after) = string_on.split_at(string_end(string_on));
        let value_at = after.trim_start().strip_prefix(':');
        match value_at {
            Some(value) if redaction.is_secret(unescaped(string).as_bytes()) => {
                out.push_str(string);
                out.push(':');
                push_masked(&mut out);
                rest = skip_value(value.trim_start());
            }
            None if redaction.hides_text(&unescaped(string)) => {
                push_masked(&mut out);
                rest = after;
            }
            _ => {
                out.push_str(string);
                rest = after;
            }
        }
    }
    out.push_str(Some(rest).filter(|rest| is_structure(rest))?);
    Some(out)
}

fn push_masked(out: &mut String) {
    out.push('"');
    out.push_str(MASK);
    out.push('"');
}

/// Whether a text can stand between the strings of JSON: nothing with a name in it can.
fn is_structure(text: &str) -> bool {
    let part = |byte: u8| b"{}[],: \t\r\n0123456789+-.eEtrufalsn".contains(&byte);
    text.bytes().all(part)
}

/// The length of the string that begins with a quotation mark, its end included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// What follows the value at the beginning of `text`.
fn skip_value(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => at += string_end(text.get(at..).unwrap_or_default()),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' | b',' if depth == 0 => break,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => at += 1,
        }
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            break;
        }
    }
    text.get(at..).unwrap_or_default()
}

/// A string of JSON without its escapes; its quotation marks stay.
fn unescaped(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    let mut rest = string.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match rest.next() {
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                out.extend(code.and_then(char::from_u32));
            }
            Some('n' | 'r' | 't' | 'b' | 'f') => out.push(' '),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// A multipart body, perhaps cut off; `None` when its boundary is not known or not there.
fn multipart(text: &str, content_type: &[u8], redaction: &Redaction) -> Option<String> {
    let delimiter = format!("--{}", boundary(content_type)?);
    let mut out = String::with_capacity(text.len());
    let mut part: Option<Part> = None;
    for line in text.split_inclusive('\n') {
        if line.starts_with(&delimiter) {
            if let Some(part) = part.take() {
                part.push(&mut out, redaction);
            }
            out.push_str(line);
            part = Some(Part::default());
        } else if let Some(part) = &mut part {
            part.take(line);
        } else {
            // What stands in front of the first part has no name.
            return None;
        }
    }
    part?.push(&mut out, redaction);
    Some(out)
}

fn boundary(content_type: &[u8]) -> Option<&str> {
    let text = core::str::from_utf8(content_type).ok()?;
    let at = text.to_ascii_lowercase().find("boundary=")?;
    let value = text.get(at + "boundary=".len()..)?;
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => value.split([';', ' ', '\t']).next()?,
    };
    Some(value).filter(|value| !value.is_empty())
}

/// A part of a multipart body.
#[derive(Default)]
struct Part {
    head: String,
    head_ended: bool,
    content: String,
}

impl Part {
    fn take(&mut self, line: &str) {
        if self.head_ended {
            self.content.push_str(line);
            return;
        }
        self.head_ended = line.trim_end_matches(['\r', '\n']).is_empty();
        self.head.push_str(line);
    }

    fn push(&self, out: &mut String, redaction: &Redaction) {
        out.push_str(&self.head);
        if self.content.is_empty() {
            return;
        }
        let head = self.head.to_ascii_lowercase();
        let is_file = head.contains("filename");
        // However the name is written, it stands somewhere in the head.
        let hidden = redaction.enabled()
            && (redaction.is_secret(head.as_bytes()) || redaction.hides_text(&self.content));
        if is_file || hidden || redaction.enabled() && !head.contains("name") {
            out.push_str(if is_file { "[file]" } else { MASK });
            // Up to the end of the line before the delimiter.
            out.push_str(if self.content.ends_with("\r\n") { "\r\n" } else { "\n" });
        } else {
            out.push_str(&self.content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, body: &str, expected: &str) {
        let content_type = b"multipart/form-data; boundary=XX";
        let seen = shown(body.as_bytes(), kind, content_type, false, &Redaction::default());
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn json_bodies() {
        for (body, expected) in [
            (r#"{"a":1,"b":[true,null]}"#, r#"{"a":1,"b":[true,null]}"#),
            (r#"{"password":"hunter2","a":"b"}"#, r#"{"password":"[redacted]","a":"b"}"#),
            (r#"{"Api-Key" : 12, "a":1}"#, r#"{"Api-Key":"[redacted]", "a":1}"#),
            (r#"{"token":{"a":["}",{"b":"x"}]},"c":1}"#, r#"{"token":"[redacted]","c":1}"#),
            (r#"{"token":[1,2],"c":1}"#, r#"{"token":"[redacted]","c":1}"#),
            (r#"{"pass\u0077ord":"x"}"#, r#"{"pass\u0077ord":"[redacted]"}"#),
            (r#"{"a":"{\"password\":\"x\"}"}"#, r#"{"a":"[redacted]"}"#),
            (r#"{"a":"b=1&token=x"}"#, r#"{"a":"[redacted]"}"#),
            (r#"["say \"hi\"",-1.5e3]"#, r#"["say \"hi\"",-1.5e3]"#),
            // Cut off.
            (r#"{"password":"hun"#, r#"{"password":"[redacted]""#),
            (r#"{"password":{"a":"hun"#, r#"{"password":"[redacted]""#),
            (r#"{"a":"hun"#, r#"{"a":"hun"#),
            // Not JSON.
            ("{'password':'hunter2'}", MASK),
            ("password=hunter2", MASK),
            (r#"{"a":hunter2}"#, MASK),
        ] {
            check(Kind::Json, body, expected);
        }
    }

    #[test]
    fn multipart_bodies() {
        let part = |head: &str, content: &str| {
            format!("--XX\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
        };
        for (head, content, expected) in [
            ("name=\"q\"", "shoes\r\nand more", "shoes\r\nand more"),
            ("name=\"password\"", "hunter2\r\nand more", MASK),
            ("name=password", "hunter2", MASK),
            ("name*=utf-8''pass%77ord", "hunter2", MASK),
            ("name=\"q\"", "a=1&token=hunter2", MASK),
            ("x=\"q\"", "hunter2", MASK),
            ("name=\"q\"; filename=\"a.txt\"", "hunter2", "[file]"),
        ] {
            let other = part("name=\"other\"", "kept");
            let body = format!("{other}{}{other}--XX--\r\n", part(head, content));
            let expected = format!("{other}{}{other}--XX--\r\n", part(head, expected));
            check(Kind::Multipart, &body, &expected);
        }
        check(Kind::Multipart, "hunter2\r\n--XX\r\n", MASK);
        check(Kind::Multipart, "hunter2", MASK);
    }

    #[test]
    fn other_bodies() {
        check(Kind::Form, "a=1&password=hunter2&b=2", "a=1&password=[redacted]&b=2");
        check(Kind::Other, "hunter2", MASK);
        let open = Redaction::new(false, [], []);
        assert_eq!(shown(b"hunter2", Kind::Other, b"", false, &open), "hunter2");
        let file = b"--XX\nContent-Disposition: form-data; name=a; filename=b\n\nhunter2\n--XX--\n";
        let without = shown(file, Kind::Multipart, b"multipart/x;boundary=XX", true, &open);
        assert!(without.contains("[file]") && !without.contains("hunter2"), "{without}");
        let with = shown(file, Kind::Multipart, b"multipart/x;boundary=XX", false, &open);
        assert!(with.contains("hunter2"), "{with}");
    }
}
