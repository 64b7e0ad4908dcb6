//! Parses framed requests on standard input with axum's extractors; parsers/python/main.py describes the frames and
//! the answers.

use std::io::{BufRead, Read, Write};

use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Query};
use axum::http::Request;
use axum::{Form, Json};
use axum_extra::extract::CookieJar;
use serde_json::{Value, json};

type Pairs = Vec<(String, String)>;

fn field(input: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?];
    input.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn request([content_type, query, cookie, body]: &[Vec<u8>; 4]) -> Option<Request<Body>> {
    let uri = [b"/?", &query[..]].concat();
    let mut builder = Request::builder().method("POST").uri(uri.as_slice());
    if !content_type.is_empty() {
        builder = builder.header("content-type", content_type.as_slice());
    }
    if !cookie.is_empty() {
        builder = builder.header("cookie", cookie.as_slice());
    }
    builder.body(Body::from(body.clone())).ok()
}

fn flatten(name: &str, value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                found.push(json!(["arg", key, ""]));
                flatten(key, member, found);
            }
        }
        Value::Array(members) => members.iter().for_each(|member| flatten(name, member, found)),
        Value::String(text) => found.push(json!(["arg", name, text])),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

async fn parse(fields: &[Vec<u8>; 4]) -> Vec<Value> {
    let mut found = Vec::new();
    // A URI or a header that hyper refuses reaches no extractor.
    let Some(plain) = request(fields) else { return found };
    if let Ok(Query(pairs)) = Query::<Pairs>::try_from_uri(plain.uri()) {
        found.extend(pairs.iter().map(|(name, value)| json!(["arg", name, value])));
    }
    let jar = CookieJar::from_headers(plain.headers());
    found.extend(jar.iter().map(|cookie| json!(["cookie", cookie.name(), cookie.value()])));
    if let Ok(Form(pairs)) = Form::<Pairs>::from_request(plain, &()).await {
        found.extend(pairs.iter().map(|(name, value)| json!(["arg", name, value])));
    }
    let Some(again) = request(fields) else { return found };
    if let Ok(Json(value)) = Json::<Value>::from_request(again, &()).await {
        flatten("", &value, &mut found);
    }
    let Some(again) = request(fields) else { return found };
    if let Ok(mut parts) = Multipart::from_request(again, &()).await {
        while let Ok(Some(part)) = parts.next_field().await {
            let name = part.name().unwrap_or_default().to_owned();
            match part.file_name() {
                Some(file) => found.push(json!(["file", name, file])),
                None => {
                    let text = part.text().await.unwrap_or_default();
                    found.push(json!(["arg", name, text]));
                }
            }
        }
    }
    found
}

fn main() {
    let mut input = std::io::BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    loop {
        let mut fields = [const { Vec::new() }; 4];
        for slot in &mut fields {
            let Some(bytes) = field(&mut input) else { return };
            *slot = bytes;
        }
        let found = futures_executor::block_on(parse(&fields));
        if writeln!(output, "{}", Value::Array(found)).is_err() {
            return;
        }
        let is_waiting = input.buffer().is_empty() || input.fill_buf().is_ok_and(<[u8]>::is_empty);
        if is_waiting && output.flush().is_err() {
            return;
        }
    }
}
