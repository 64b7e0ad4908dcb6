//! Harmless texts: sentences, one a line, or requests.

use glacis_explain::{Bytes, Id, Request};
use serde_json::value::RawValue;

use crate::arguments::Form;

/// The form of an input by its first line.
pub(super) fn form_of(line: &[u8]) -> Form {
    if line.trim_ascii_start().first() == Some(&b'{') { Form::Requests } else { Form::Sentences }
}

/// A line.
pub(super) enum Payload<'l> {
    Sentence(&'l [u8]),
    Request(Box<Request>),
}

impl<'l> Payload<'l> {
    /// Reads a line.
    ///
    /// # Errors
    /// When it should be a request and is none.
    pub(super) fn read(line: &'l [u8], form: Form) -> Result<Self, String> {
        match form {
            Form::Requests => Request::parse(line)
                .map(|request| Self::Request(Box::new(request)))
                .map_err(|malformed| malformed.message),
            Form::Sentences => {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                Ok(Self::Sentence(without_number(line)))
            }
        }
    }

    /// The request that is evaluated: a sentence is the value of a parameter in the query, as in go-ftw's
    /// quantitative tests.
    pub(super) fn request(self) -> Request {
        match self {
            Self::Request(request) => *request,
            Self::Sentence(sentence) => request(sentence),
        }
    }
}

/// A line of the Leipzig Corpora Collection is a number, a tab and a sentence.
fn without_number(line: &[u8]) -> &[u8] {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match line.get(digits) {
        Some(b'\t') if digits > 0 => line.get(digits + 1..).unwrap_or_default(),
        _ => line,
    }
}

fn request(sentence: &[u8]) -> Request {
    let bytes = |text: &[u8]| Bytes(text.to_vec());
    let mut uri = b"/get?uri_payload=".to_vec();
    for &byte in sentence {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => uri.push(byte),
            b' ' => uri.push(b'+'),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
                uri.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    let agent: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let headers: [(&[u8], &[u8]); 3] =
        [(b"Host", b"localhost"), (b"User-Agent", agent), (b"Accept", b"*/*")];
    Request {
        id: Id(RawValue::NULL.to_owned()),
        class: None,
        time: None,
        client: None,
        server: None,
        method: bytes(b"GET"),
        uri: Bytes(uri),
        protocol: bytes(b"HTTP/1.1"),
        headers: headers.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        body: None,
        body_base64: None,
        response: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_a_parameter_of_the_query() {
        for (line, uri) in [
            ("", "/get?uri_payload="),
            ("a b&c\r\n", "/get?uri_payload=a+b%26c"),
            ("12\tIt's \u{e4}.\n", "/get?uri_payload=It%27s+%C3%A4."),
            ("12 months\n", "/get?uri_payload=12+months"),
            ("\tx\n", "/get?uri_payload=%09x"),
        ] {
            let payload = Payload::read(line.as_bytes(), Form::Sentences).unwrap();
            assert_eq!(String::from_utf8(payload.request().uri.0).unwrap(), uri, "{line:?}");
        }
    }

    #[test]
    fn the_form_is_that_of_the_first_line() {
        assert_eq!(form_of(b" {\"id\":1}"), Form::Requests);
        assert_eq!(form_of(b"1\t{x}"), Form::Sentences);
        assert!(Payload::read(b"x", Form::Requests).is_err());
    }
}
