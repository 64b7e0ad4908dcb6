//! The shape of ModSecurity 3 (`SecAuditLogFormat JSON`), for tools that read it.
//!
//! Names, types and the parts they depend on are those of `Transaction::toJSON` in ModSecurity 3.0.
//! `docs/reference/audit-log.md` says where the contents differ.

use glacis_engine::{AuditPart, MatchedRule, Transaction};

use super::{Entry, Part, Said, TAGS_MAX, cut, push_files, push_matched_ids, push_rules, text};
use crate::{
    decision::Mode,
    json::{Object, push_string},
    redact::Redaction,
    time::asctime,
};

pub(super) fn line(entry: &Entry<'_>, transaction: &Transaction, redaction: &Redaction) -> String {
    let mut out = String::with_capacity(1_024);
    let mut line = Object::begin(&mut out);
    let mut object = Object::begin(line.key("transaction"));
    object
        .string("client_ip", &entry.client.address.to_string())
        .string("time_stamp", &asctime(entry.time))
        .string("server_id", cut(entry.profile))
        .number("client_port", entry.client.port)
        .string("host_ip", &entry.server.address.to_string())
        .number("host_port", entry.server.port)
        .string("unique_id", entry.request_id);
    push_request(&mut object, entry, transaction, redaction);
    push_response(&mut object, entry, transaction, redaction);
    if transaction.audit_parts().has(AuditPart::Trailer) {
        push_producer(&mut object, entry, transaction);
        let omitted = push_rules(object.key("messages"), transaction, |out, rule| {
            push_message(out, rule, transaction, redaction);
        });
        if omitted > 0 {
            object.number("messages_omitted", omitted);
        }
    }
    push_matched_ids(&mut object, transaction);
    object.end();
    line.end();
    out
}

fn push_request(
    object: &mut Object<'_>,
    entry: &Entry<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let version = entry.protocol.strip_prefix("HTTP/").unwrap_or("1.1");
    let mut request = Object::begin(object.key("request"));
    request.string("method", &text(entry.method));
    request.key("http_version").push_str(version);
    request.string("uri", &redaction.uri(&text(entry.uri)));
    push_part(&mut request, &Part::request(transaction), redaction, "REQUEST_BODY");
    push_files(&mut request, transaction, redaction);
    request.end();
}

fn push_response(
    object: &mut Object<'_>,
    entry: &Entry<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let mut response = Object::begin(object.key("response"));
    response.number("http_code", if entry.status == 0 { 200 } else { entry.status });
    push_part(&mut response, &Part::response(transaction), redaction, "RESPONSE_BODY");
    response.end();
}

fn push_part(object: &mut Object<'_>, part: &Part<'_>, redaction: &Redaction, variable: &str) {
    if let Some(body) = &part.body {
        let (shown, _) = body.shown(redaction, variable);
        object.string("body", &shown);
    }
    if part.headers.is_none() {
        return;
    }
    let out = object.key("headers");
    out.push('{');
    let omitted = part.push_headers(out, redaction, |out, first, name, value| {
        if !first {
            out.push(',');
        }
        push_string(out, name);
        out.push(':');
        push_string(out, value);
    });
    out.push('}');
    if omitted > 0 {
        object.number("headers_omitted", omitted);
    }
}

fn push_producer(object: &mut Object<'_>, entry: &Entry<'_>, transaction: &Transaction) {
    let mode = match entry.mode {
        Mode::Blocking => "Enabled",
        Mode::DetectionOnly => "DetectionOnly",
        Mode::Off => "Disabled",
    };
    let components = transaction.program().component_signatures();
    let mut producer = Object::begin(object.key("producer"));
    producer
        .string("modsecurity", concat!("glacis ", env!("CARGO_PKG_VERSION")))
        .string("connector", concat!("glacis-inspector ", env!("CARGO_PKG_VERSION")))
        .string("secrules_engine", mode)
        .strings("components", components.iter().map(|signature| cut(signature)));
    producer.end();
}

fn push_message(
    out: &mut String,
    rule: &MatchedRule<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let said = Said::by(rule, transaction, redaction);
    let found = rule.matches.first().map_or_else(String::new, |found| {
        let (variable, value) = (text(&found.variable), text(&found.value));
        let value = said.value(found, &value, redaction);
        format!("Matched against variable `{variable}' (Value: `{value}' )")
    });
    let number = |number: Option<u8>| number.unwrap_or(0).to_string();
    let mut message = Object::begin(out);
    message.string("message", &said.msg);
    let mut details = Object::begin(message.key("details"));
    details
        .string("match", &found)
        .string("reference", "")
        .string("ruleId", &rule.id.to_string())
        .string("file", cut(rule.file))
        .string("lineNumber", &rule.line.to_string())
        .string("data", said.logdata)
        .string("severity", &number(rule.severity))
        .string("ver", cut(rule.ver))
        .string("rev", cut(rule.rev))
        .strings("tags", rule.tags.iter().take(TAGS_MAX).map(|tag| cut(tag)))
        .string("maturity", &number(rule.maturity))
        .string("accuracy", &number(rule.accuracy));
    details.end();
    message.end();
}
