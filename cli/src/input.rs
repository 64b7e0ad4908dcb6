//! The requests that `eval` and `explain` are given, whatever people have of them, as lines of JSON: a curl command, a
//! URL, a request line, raw HTTP, HAR. Nothing is sent.

mod curl;
pub(crate) mod har;
mod raw;
mod shell;
mod url;

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    arguments::InputOptions,
    lines::Lines,
    output::{self, Fault},
};

/// Bytes of a document that is read as a whole: HAR, raw HTTP.
const DOCUMENT_BYTES_MAX: u64 = 512 << 20;

/// Header fields that a client sends, in order.
pub(crate) type Headers = Vec<(String, Vec<u8>)>;

/// A request before it is a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    method: Vec<u8>,
    uri: Vec<u8>,
    protocol: Vec<u8>,
    headers: Headers,
    body: Option<Vec<u8>>,
}

impl Parts {
    /// As a line of JSON.
    fn line(&self, id: usize) -> Vec<u8> {
        let headers: Vec<Value> =
            self.headers.iter().map(|(name, value)| json!([name, text(value)])).collect();
        let mut request = json!({
            "id": id,
            "method": text(&self.method),
            "uri": text(&self.uri),
            "protocol": text(&self.protocol),
            "headers": headers,
        });
        if let Some(body) = &self.body {
            request["body"] = text(body);
        }
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        line
    }
}

fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

/// The requests as lines. What a client would add, and what is ignored, is remarked on unless `quiet`.
///
/// # Errors
/// When the file cannot be read, or what is given is no request.
pub(crate) fn open(options: &InputOptions, quiet: bool) -> Result<Lines, Fault> {
    if !options.curl.is_empty() {
        let words = options.curl.iter().map(|word| word.as_encoded_bytes().to_vec()).collect();
        return of_curl("curl", words, quiet);
    }
    let Some(given) = options.input.as_deref() else { return sniffed(Lines::open(None)?, quiet) };
    let path = Path::new(given);
    let Some(word) = given.to_str().filter(|_| !path.exists()) else {
        return sniffed(Lines::open(Some(path))?, quiet);
    };
    if url::is_url(word) {
        let words = ["curl", "--path-as-is", word].map(|word| word.as_bytes().to_vec()).to_vec();
        return of_curl("URL", words, quiet);
    }
    if is_curl(word.as_bytes()) {
        return of_curl("curl", shell::words(word.as_bytes()).map_err(Fault::Input)?, quiet);
    }
    if word.starts_with('{') {
        return Ok(Lines::of_memory("request".to_owned(), word.as_bytes().to_vec()));
    }
    if raw::is_request_line(word.as_bytes()) {
        let mut request = raw::request(word.as_bytes()).map_err(Fault::Input)?;
        if request.headers.is_empty() {
            request.headers = url::usual_headers(b"localhost");
            note(quiet, "headers added: Host: localhost, User-Agent, Accept");
        }
        return Ok(of_parts("request", &[request]));
    }
    sniffed(Lines::open(Some(path))?, quiet)
}

fn of_parts(name: &str, requests: &[Parts]) -> Lines {
    let lines = requests.iter().enumerate().flat_map(|(index, request)| request.line(index + 1));
    Lines::of_memory(name.to_owned(), lines.collect())
}

fn of_curl(name: &str, words: Vec<Vec<u8>>, quiet: bool) -> Result<Lines, Fault> {
    let read = curl::requests(words).map_err(|error| Fault::Usage(format!("curl: {error}")))?;
    read.remarks.iter().for_each(|remark| note(quiet, remark));
    Ok(of_parts(name, &read.requests))
}

fn note(quiet: bool, text: &str) {
    if !quiet {
        output::remark(format_args!("note: {text}"));
    }
}

fn is_curl(text: &[u8]) -> bool {
    text.strip_prefix(b"curl").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
}

/// A file, or standard input, by its first bytes.
fn sniffed(mut lines: Lines, quiet: bool) -> Result<Lines, Fault> {
    let first = lines.peek()?.trim_ascii_start();
    if is_har(first) {
        let (name, document) = lines.rest(DOCUMENT_BYTES_MAX)?;
        let entries = har::requests(&document);
        let entries = entries.map_err(|error| Fault::Input(format!("{name}: {error}")))?;
        let mut text = Vec::new();
        for entry in entries {
            match entry {
                Ok(line) => {
                    text.extend(line);
                    text.push(b'\n');
                }
                Err(error) => note(quiet, &format!("{name}: {error}: left out")),
            }
        }
        return Ok(Lines::of_memory(name, text));
    }
    if is_curl(first) {
        let (_, document) = lines.rest(DOCUMENT_BYTES_MAX)?;
        let words = shell::words(document.trim_ascii()).map_err(Fault::Input)?;
        return of_curl("curl", words, quiet);
    }
    let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if raw::is_request_line(line.trim_ascii_end()) {
        let (name, document) = lines.rest(DOCUMENT_BYTES_MAX)?;
        let request = raw::request(&document);
        let request = request.map_err(|error| Fault::Input(format!("{name}: {error}")))?;
        return Ok(of_parts(&name, &[request]));
    }
    Ok(lines)
}

/// Whether a document is HAR: an object whose first member is `log`.
fn is_har(first: &[u8]) -> bool {
    let inside = first.strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    let value = inside.strip_prefix(b"\"log\"").unwrap_or_default().trim_ascii_start();
    let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii_start();
    value.starts_with(b"{")
}
