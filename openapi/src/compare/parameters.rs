//! Parameters of path, query string, header and cookies.

use glacis_engine::ApiRequest;

use super::{Findings, Kind, PathValues, quoted};
use crate::{
    document::{Document, Operation, Parameter},
    json::{self, JsonError},
    parameter::{Location, Pair, Texts, Unreadable, decoded, decoded_path, pairs},
    validate::Validity,
};

impl Document {
    pub(super) fn parameters(
        &self,
        operation: &Operation,
        path: PathValues<'_>,
        query: &[u8],
        request: &ApiRequest<'_>,
        findings: &mut Findings<'_>,
    ) {
        if !path.are_unambiguous(operation) {
            findings.add(Kind::UnknownPath, "the path is ambiguous: it has parameters after `;`");
        }
        let pairs_max = self.limits.pairs_max;
        let mut queried = match pairs(query, pairs_max) {
            Ok(pairs) => pairs,
            Err(why) => return findings.add(kind_of(why), &format!("query: {why}")),
        };
        let mut cookies = match cookies(request, pairs_max) {
            Ok(pairs) => pairs,
            Err(why) => return findings.add(kind_of(why), &format!("cookies: {why}")),
        };
        for parameter in &operation.parameters {
            let texts = match parameter.location {
                Location::Path => of_path(parameter, path),
                Location::Query => parameter.written.of_pairs(&mut queried, decoded),
                Location::Header => of_header(parameter, request),
                Location::Cookie => parameter.written.of_pairs(&mut cookies, of_cookie),
            };
            self.parameter(parameter, texts, findings);
        }
        let is_key = |pair: &Pair| self.query_keys.contains(&pair.name);
        for pair in queried.iter().filter(|pair| !pair.is_known && !is_key(pair)) {
            let name = quoted(pair.name.as_bytes());
            findings.add(Kind::UnknownParameter, &format!("query {name}: it is not declared"));
        }
    }

    fn parameter(
        &self,
        parameter: &Parameter,
        texts: Result<Option<Texts>, Unreadable>,
        findings: &mut Findings<'_>,
    ) {
        let mut report = |kind: Kind, what: &str| {
            let (location, name) = (parameter.location.name(), &parameter.written.name);
            findings.add(kind, &format!("{location} {name}: {what}"));
        };
        let texts = match texts {
            Err(why) => return report(Kind::Parameter, why),
            Ok(None) if parameter.is_required => return report(Kind::Parameter, "it is missing"),
            Ok(None) => return,
            Ok(Some(texts)) => texts,
        };
        if parameter.may_be_empty && texts == Texts::One(String::new()) {
            return;
        }
        match self.judge_texts(parameter, &texts) {
            Ok(Validity::Valid) => {}
            Ok(Validity::Invalid(message)) => report(Kind::Parameter, &message),
            Ok(Validity::Limit) => report(Kind::Limit, "the comparison takes too many steps"),
            Err(JsonError::Malformed(message)) => report(Kind::Parameter, &message),
            Err(JsonError::Limit(limit)) => report(Kind::Limit, limit),
        }
    }

    fn judge_texts(&self, parameter: &Parameter, texts: &Texts) -> Result<Validity, JsonError> {
        let shape = &parameter.written.shape;
        if let (true, Texts::One(text)) = (parameter.is_json, texts) {
            let value = json::parse(text.as_bytes(), &self.limits)?;
            return Ok(self.schema.judge(&parameter.entry, value));
        }
        let first = self.schema.judge(&parameter.entry, texts.value(shape, false));
        Ok(match first {
            // `1` may be a text where a schema allows numbers as well.
            Validity::Invalid(message) => {
                match self.schema.judge(&parameter.entry, texts.value(shape, true)) {
                    Validity::Invalid(_) => Validity::Invalid(message),
                    other => other,
                }
            }
            Validity::Valid | Validity::Limit => first,
        })
    }
}

fn kind_of(why: Unreadable) -> Kind {
    match why {
        "there are too many parameters" => Kind::Limit,
        _ => Kind::Parameter,
    }
}

fn of_path(parameter: &Parameter, path: PathValues<'_>) -> Result<Option<Texts>, Unreadable> {
    let value = path.get(&parameter.written.name);
    value.map(|value| parameter.written.of_text(value, decoded_path)).transpose()
}

fn of_header(parameter: &Parameter, request: &ApiRequest<'_>) -> Result<Option<Texts>, Unreadable> {
    let name = parameter.written.name.as_bytes();
    let mut values = request.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, value)) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("it is sent more than once");
    }
    let as_sent = |raw: &[u8]| {
        let text = core::str::from_utf8(raw.trim_ascii()).map_err(|_| "it is not UTF-8")?;
        Ok(text.to_owned())
    };
    parameter.written.of_text(value, as_sent).map(Some)
}

/// All cookies, by name.
fn cookies(request: &ApiRequest<'_>, pairs_max: usize) -> Result<Vec<Pair>, Unreadable> {
    let mut found = Vec::new();
    let lines = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
    for part in lines.flat_map(|(_, line)| line.split(|&byte| byte == b';')) {
        let part = part.trim_ascii();
        if part.is_empty() {
            continue;
        }
        if found.len() >= pairs_max {
            return Err("there are too many parameters");
        }
        let at = part.iter().position(|&byte| byte == b'=').unwrap_or(part.len());
        let (name, value) = part.split_at(at);
        let name = String::from_utf8_lossy(name.trim_ascii()).into_owned();
        let raw = value.strip_prefix(b"=").unwrap_or(value).trim_ascii().to_vec();
        found.push(Pair { name, raw, is_known: false });
    }
    Ok(found)
}

/// Cookies need not be encoded: one that is not is taken as it is.
fn of_cookie(raw: &[u8]) -> Result<String, Unreadable> {
    match decoded_path(raw) {
        Ok(text) => Ok(text),
        Err(_) => String::from_utf8(raw.to_vec()).map_err(|_| "it is not UTF-8"),
    }
}
