//! The application behind the rules, as CRS's tests imagine it (github.com/coreruleset/albedo):
//! `POST /reflect` answers what its JSON body says, everything else is an empty 200.

use std::collections::BTreeMap;

use glacis_explain::{Base64, Bytes, Response, base64};
use serde::Deserialize;

use super::message::Parts;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reflection {
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    #[serde(default)]
    encoded_body: String,
}

/// What the application answers to `request`.
pub(crate) fn answer(request: &Parts) -> Response {
    let path = request.uri.split(|&byte| byte == b'?').next().unwrap_or_default();
    let reflected = match (path, &request.method[..]) {
        (b"/reflect" | b"/reflect/", b"POST") => reflect(&request.body),
        _ => Some((200, BTreeMap::new(), Vec::new())),
    };
    let (status, headers, body) =
        reflected.unwrap_or_else(|| (400, BTreeMap::new(), b"invalid JSON".to_vec()));
    response(status, headers, body)
}

fn reflect(body: &[u8]) -> Option<(u16, BTreeMap<String, String>, Vec<u8>)> {
    let reflection: Reflection = serde_json::from_slice(body).ok()?;
    let body = match reflection.encoded_body.as_str() {
        "" => reflection.body.into_bytes(),
        text => base64(text).ok()?,
    };
    Some((reflection.status.unwrap_or(200), reflection.headers, body))
}

fn response(status: u16, mut headers: BTreeMap<String, String>, body: Vec<u8>) -> Response {
    let has_type = headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
    if !has_type && !body.is_empty() {
        headers.insert("Content-Type".to_owned(), media_type(&body).to_owned());
    }
    headers.insert("Content-Length".to_owned(), body.len().to_string());
    let pair =
        |(name, value): (String, String)| (Bytes(name.into_bytes()), Bytes(value.into_bytes()));
    Response {
        status,
        protocol: Bytes(b"HTTP/1.1".to_vec()),
        headers: headers.into_iter().map(pair).collect(),
        body: None,
        body_base64: Some(Base64(body)),
    }
}

/// The type that a Go server finds out by itself (WHATWG MIME Sniffing section 7.1, in part).
fn media_type(body: &[u8]) -> &'static str {
    const HTML: [&[u8]; 6] = [b"<!doctype html", b"<html", b"<head", b"<script", b"<body", b"<!--"];
    let start = body.trim_ascii_start().get(..32).unwrap_or_else(|| body.trim_ascii_start());
    let start = start.to_ascii_lowercase();
    if HTML.iter().any(|tag| start.starts_with(tag)) {
        "text/html; charset=utf-8"
    } else if start.starts_with(b"<?xml") {
        "text/xml; charset=utf-8"
    } else {
        "text/plain; charset=utf-8"
    }
}
