//! Bodies: JSON, forms and texts by their schemas, any other by its media type.

use glacis_engine::{ApiBody, ApiPart, ApiRequest};
use serde_json::{Map, Value};

use super::{Findings, Kind, quoted};
use crate::{
    document::{Body, Content, Document, Operation},
    json::{self, JsonError},
    media_type::MediaType,
    parameter::{Pair, Unreadable, Written, decoded, pairs},
    shape::{Shape, Types},
    validate::Validity,
};

/// Why a body does not fit.
type Misfit = (Kind, String);

fn misfit<T>(kind: Kind, message: impl Into<String>) -> Result<T, Misfit> {
    Err((kind, message.into()))
}

impl Document {
    pub(super) fn body(
        &self,
        operation: &Operation,
        request: &ApiRequest<'_>,
        findings: &mut Findings<'_>,
    ) {
        if let Err((kind, message)) = self.compare_body(operation, request) {
            findings.add(kind, &message);
        }
    }

    fn compare_body(&self, operation: &Operation, request: &ApiRequest<'_>) -> Result<(), Misfit> {
        let bytes = match request.body {
            ApiBody::Whole(bytes) => bytes,
            ApiBody::Incomplete(why) => {
                return match operation.body.is_some() || announces_body(request) {
                    true => misfit(Kind::Limit, format!("the body is not compared: {why}")),
                    false => Ok(()),
                };
            }
        };
        let Some(body) = &operation.body else {
            return match bytes.is_empty() {
                true => Ok(()),
                false => misfit(Kind::Body, "the operation takes no body"),
            };
        };
        if bytes.is_empty() {
            return match body.is_required {
                true => misfit(Kind::Body, "the body is missing"),
                false => Ok(()),
            };
        }
        let media_type = media_type(request)?;
        let content = content(body, &media_type)?;
        let Some(entry) = &content.entry else { return Ok(()) };
        let is_compared = media_type.is_json() || media_type.is_form() || media_type.is_text();
        if is_compared && !media_type.is_utf8() {
            return misfit(Kind::MediaType, "the charset is not UTF-8");
        }
        if media_type.is_json() {
            let value = json::parse(bytes, &self.limits).map_err(|error| not_json(error, ""))?;
            self.judge_body(entry, &[value])
        } else if media_type.is_form() {
            self.judge_body(entry, &self.form(content, bytes)?)
        } else if media_type.is_multipart() {
            self.judge_body(entry, &self.multipart(content, request.parts)?)
        } else if media_type.is_text() {
            if bytes.len() > self.limits.body_bytes_max {
                return misfit(Kind::Limit, "body: it is longer than what is compared");
            }
            let Ok(text) = core::str::from_utf8(bytes) else {
                return misfit(Kind::Body, "body: it is not UTF-8");
            };
            self.judge_body(
                entry,
                &[content.shape.read(text, false), content.shape.read(text, true)],
            )
        } else {
            Ok(())
        }
    }

    /// Compares the readings of a body: one that is valid is enough.
    fn judge_body(&self, entry: &str, readings: &[Value]) -> Result<(), Misfit> {
        let mut first = None;
        for (at, reading) in readings.iter().enumerate() {
            if readings.iter().take(at).any(|before| before == reading) {
                continue;
            }
            match self.schema.judge(entry, reading.clone()) {
                Validity::Valid => return Ok(()),
                Validity::Invalid(message) => {
                    first.get_or_insert(message);
                }
                Validity::Limit => {
                    return misfit(Kind::Limit, "body: the comparison takes too many steps");
                }
            }
        }
        match first {
            None => Ok(()),
            Some(message) => misfit(
                Kind::Body,
                format!("body{}{message}", if message.starts_with('/') { " " } else { ": " }),
            ),
        }
    }

    fn form(&self, content: &Content, bytes: &[u8]) -> Result<[Value; 2], Misfit> {
        if bytes.len() > self.limits.body_bytes_max {
            return misfit(Kind::Limit, "body: it is longer than what is compared");
        }
        let wrong = |why: Unreadable| match why {
            "there are too many parameters" => {
                (Kind::Limit, "body: there are too many fields".to_owned())
            }
            why => (Kind::Body, format!("body: {why}")),
        };
        let mut pairs = pairs(bytes, self.limits.pairs_max).map_err(wrong)?;
        let mut readings = [Map::new(), Map::new()];
        for field in &content.fields {
            let name = quoted(field.name.as_bytes());
            let is_json = field.shape.is_structured()
                && pairs.iter().any(|pair| pair.name == field.name && is_braced(&pair.raw));
            let texts = match is_json {
                true => as_texts(field).of_pairs(&mut pairs, decoded),
                false => field.of_pairs(&mut pairs, decoded),
            };
            let texts = texts.map_err(|why| (Kind::Body, format!("body {name}: {why}")))?;
            let Some(texts) = texts else { continue };
            for (as_text, reading) in [false, true].into_iter().zip(&mut readings) {
                let value = match is_json {
                    true => self.structured(
                        &field.shape,
                        &name,
                        &texts.value(&as_texts(field).shape, true),
                    )?,
                    false => texts.value(&field.shape, as_text),
                };
                reading.insert(field.name.clone(), value);
            }
        }
        let others = pairs.into_iter().filter(|pair| !pair.is_known);
        for Pair { name, raw, .. } in others {
            let value = Value::String(decoded(&raw).map_err(wrong)?);
            readings.iter_mut().for_each(|reading| append(reading, &name, value.clone()));
        }
        Ok(readings.map(Value::Object))
    }

    fn multipart(
        &self,
        content: &Content,
        parts: Option<&[ApiPart<'_>]>,
    ) -> Result<[Value; 2], Misfit> {
        let Some(parts) = parts else {
            return misfit(Kind::Body, "body: it is malformed, or has too many parts");
        };
        if parts.len() > self.limits.pairs_max {
            return misfit(Kind::Limit, "body: there are too many fields");
        }
        let bytes: usize = parts.iter().map(|part| part.value.len()).sum();
        if bytes > self.limits.body_bytes_max {
            return misfit(Kind::Limit, "body: its fields are longer than what is compared");
        }
        let mut readings = [Map::new(), Map::new()];
        let other = Shape::default();
        for part in parts {
            let Ok(name) = core::str::from_utf8(part.name) else {
                return misfit(Kind::Body, "body: the name of a field is not UTF-8");
            };
            let shape = content.shape.properties.get(name);
            let is_list = shape.is_some_and(|shape| shape.types.has(Types::ARRAY));
            if !is_list
                && shape.is_some()
                && readings.iter().any(|reading| reading.contains_key(name))
            {
                return misfit(
                    Kind::Body,
                    format!("body {}: it is sent more than once", quoted(part.name)),
                );
            }
            let shape = shape.unwrap_or(&other);
            for (as_text, reading) in [false, true].into_iter().zip(&mut readings) {
                let element = if is_list { shape.element() } else { shape.clone() };
                let value = self.part(&element, part, as_text)?;
                match (is_list, reading.get_mut(name)) {
                    (true, None) => {
                        drop(reading.insert(name.to_owned(), Value::Array(vec![value])))
                    }
                    (true, Some(Value::Array(list))) => list.push(value),
                    (_, _) => append(reading, name, value),
                }
            }
        }
        Ok(readings.map(Value::Object))
    }

    fn part(&self, shape: &Shape, part: &ApiPart<'_>, as_text: bool) -> Result<Value, Misfit> {
        if part.is_file {
            // Of the content of a file nothing is compared.
            return Ok(Value::String(String::new()));
        }
        let name = quoted(part.name);
        let Ok(text) = core::str::from_utf8(part.value) else {
            return misfit(Kind::Body, format!("body {name}: it is not UTF-8"));
        };
        match shape.is_structured() && is_braced(part.value) {
            true => self.structured(shape, &name, &Value::String(text.to_owned())),
            false => Ok(shape.read(text, as_text)),
        }
    }

    /// The value of a field that is JSON.
    fn structured(&self, shape: &Shape, name: &str, text: &Value) -> Result<Value, Misfit> {
        let parse = |text: &Value| {
            let text = text.as_str().unwrap_or_default();
            json::parse(text.as_bytes(), &self.limits).map_err(|error| not_json(error, name))
        };
        match text {
            Value::Array(texts) if !shape.types.has(Types::ARRAY) => {
                texts.first().map_or(Ok(Value::Null), parse)
            }
            Value::Array(texts) if texts.len() > 1 => {
                texts.iter().map(parse).collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Array(texts) => texts.first().map_or(Ok(Value::Null), parse),
            text => parse(text),
        }
    }
}

fn as_texts(field: &Written) -> Written {
    let mut shape = field.shape.clone();
    shape.types = Types::ARRAY;
    shape.items = None;
    Written { shape, ..field.clone() }
}

fn is_braced(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [&b"{"[..], b"[", b"%7B", b"%7b", b"%5B", b"%5b"].iter().any(|start| text.starts_with(start))
}

/// Adds a member of an object; further ones of the same name make it a list.
fn append(object: &mut Map<String, Value>, name: &str, value: Value) {
    match object.get_mut(name) {
        None => drop(object.insert(name.to_owned(), value)),
        Some(Value::Array(list)) => list.push(value),
        Some(one) => *one = Value::Array(vec![one.take(), value]),
    }
}

fn not_json(error: JsonError, name: &str) -> Misfit {
    let place = if name.is_empty() { "body".to_owned() } else { format!("body {name}") };
    match error {
        JsonError::Malformed(message) => (Kind::Body, format!("{place}: {message}")),
        JsonError::Limit(limit) => (Kind::Limit, format!("{place}: {limit}")),
    }
}

/// Whether header fields say that there is a body.
fn announces_body(request: &ApiRequest<'_>) -> bool {
    request.headers.iter().any(|(name, value)| {
        (name.eq_ignore_ascii_case(b"content-length") && value.trim_ascii() != b"0")
            || name.eq_ignore_ascii_case(b"transfer-encoding")
    })
}

/// The media type of the body.
fn media_type(request: &ApiRequest<'_>) -> Result<MediaType, Misfit> {
    let is_it = |(name, _): &&(&[u8], &[u8])| name.eq_ignore_ascii_case(b"content-type");
    let mut values = request.headers.iter().filter(is_it).map(|(_, value)| *value);
    let (Some(value), None) = (values.next(), values.next()) else {
        return misfit(Kind::MediaType, "the body has no Content-Type, or more than one");
    };
    let parsed = core::str::from_utf8(value).ok().and_then(MediaType::parse);
    parsed.map_or_else(|| misfit(Kind::MediaType, "the Content-Type is malformed"), Ok)
}

/// The declared media type that fits best.
fn content<'d>(body: &'d Body, media_type: &MediaType) -> Result<&'d Content, Misfit> {
    let ranked = body
        .contents
        .iter()
        .filter_map(|content| content.media_type.rank(media_type).map(|rank| (rank, content)));
    let best = ranked.min_by_key(|(rank, _)| *rank);
    best.map(|(_, content)| content).ok_or_else(|| {
        let sent = format!("{}/{}", media_type.kind, media_type.subtype);
        (Kind::MediaType, format!("{} is not declared", quoted(sent.as_bytes())))
    })
}
