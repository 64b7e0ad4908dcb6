//! Our own shape, version 1.

use glacis_engine::{AuditPart, Match, MatchedRule, Transaction};

use glacis_second_opinion::Opinion;

use super::{
    Entry, MATCHES_MAX, Part, Said, TAGS_MAX, cut, push_files, push_matched_ids, push_rules,
    push_would_deny, text,
};
use crate::{
    json::{Object, push_string},
    message::Channel,
    redact::Redaction,
    time::rfc3339,
};

/// Reasons of a second opinion that are written, the heaviest.
const REASONS_MAX: usize = 32;

/// Raised when the meaning of a field changes or one goes, not when one is added.
const VERSION: u32 = 1;

pub(super) fn line(entry: &Entry<'_>, transaction: &Transaction, redaction: &Redaction) -> String {
    let mut out = String::with_capacity(1_024);
    let mut object = Object::begin(&mut out);
    object
        .number("version", VERSION)
        .string("time", &rfc3339(entry.time))
        .string("request_id", entry.request_id)
        .string("client", &entry.client.address.to_string())
        .string("method", &text(entry.method))
        .string("uri", &redaction.uri(&text(entry.uri)))
        .string("host", &text(entry.host))
        .string("action", entry.action)
        .string("mode", entry.mode.name())
        .string("inspected", entry.inspected);
    if let Some(reason) = entry.reason {
        object.string("reason", reason.name());
    }
    if let Some(message) = entry.message {
        let number = usize::try_from(message.number).unwrap_or(usize::MAX);
        let part = match message.channel {
            Channel::WebSocket => {
                let mut part = Object::begin(object.key("websocket"));
                part.string("from", message.from.name()).count("message", number);
                part
            }
            Channel::EventStream => {
                let mut part = Object::begin(object.key("event_stream"));
                part.count("event", number);
                part
            }
        };
        part.end();
    }
    // Of a response that was not inspected nothing is known.
    if entry.status != 0 {
        object.number("status", entry.status);
    }
    if let Some(phase) = entry.phase {
        object.number("phase", phase.number());
    }
    if let Some(rule) = entry.rule {
        object.number("rule", rule.0);
    }
    push_would_deny(&mut object, entry.would_deny);
    let scores = transaction.scores();
    object.number("score_inbound", scores.inbound).number("score_outbound", scores.outbound);
    if let Some(opinion) = entry.opinion {
        push_opinion(&mut object, opinion);
    }
    object.string("profile", cut(entry.profile)).string("ruleset", transaction.program().hash());
    push_request(&mut object, entry, transaction, redaction);
    push_response(&mut object, transaction, redaction);
    if transaction.audit_parts().has(AuditPart::Trailer) {
        let omitted = push_rules(object.key("rules"), transaction, |out, rule| {
            push_rule(out, rule, transaction, redaction);
        });
        if omitted > 0 {
            object.number("rules_omitted", omitted);
        }
    }
    push_matched_ids(&mut object, transaction);
    object.strings("limits_hit", transaction.flags().names());
    object.end();
    out
}

/// Appends the second opinion; scores are in natural logarithms of odds.
fn push_opinion(object: &mut Object<'_>, opinion: &Opinion) {
    let mut part = Object::begin(object.key("second_opinion"));
    part.boolean("attack", opinion.is_attack())
        .milli("score", opinion.score)
        .milli("threshold", opinion.threshold)
        .string("value", cut(&opinion.value));
    let out = part.key("reasons");
    out.push('[');
    for (position, reason) in opinion.reasons.iter().take(REASONS_MAX).enumerate() {
        if position > 0 {
            out.push(',');
        }
        let mut object = Object::begin(out);
        object.number("rule", reason.rule).milli("weight", reason.weight);
        object.end();
    }
    out.push(']');
    part.end();
}

fn push_request(
    object: &mut Object<'_>,
    entry: &Entry<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let mut request = Object::begin(object.key("request"));
    request.string("protocol", entry.protocol);
    push_part(&mut request, &Part::request(transaction), redaction, "REQUEST_BODY");
    let bytes = transaction.request_body_taken().len();
    if bytes > 0 {
        request.count("body_bytes", bytes);
    }
    push_files(&mut request, transaction, redaction);
    request.end();
}

fn push_response(object: &mut Object<'_>, transaction: &Transaction, redaction: &Redaction) {
    let part = Part::response(transaction);
    let headers = part.headers.as_ref().is_some_and(|headers| !headers.is_empty());
    if !headers && part.body.is_none() {
        return;
    }
    let mut response = Object::begin(object.key("response"));
    push_part(&mut response, &part, redaction, "RESPONSE_BODY");
    let bytes = transaction.response_body_taken().len();
    if bytes > 0 {
        response.count("body_bytes", bytes);
    }
    response.end();
}

fn push_part(object: &mut Object<'_>, part: &Part<'_>, redaction: &Redaction, variable: &str) {
    if part.headers.is_some() {
        let out = object.key("headers");
        out.push('[');
        let omitted = part.push_headers(out, redaction, |out, first, name, value| {
            out.push_str(if first { "[" } else { ",[" });
            push_string(out, name);
            out.push(',');
            push_string(out, value);
            out.push(']');
        });
        out.push(']');
        if omitted > 0 {
            object.number("headers_omitted", omitted);
        }
    }
    if let Some(body) = &part.body {
        let (shown, cut) = body.shown(redaction, variable);
        object.string("body", &shown);
        if cut {
            object.boolean("body_cut", true);
        }
    }
}

pub(super) fn push_rule(
    out: &mut String,
    rule: &MatchedRule<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let said = Said::by(rule, transaction, redaction);
    let mut object = Object::begin(out);
    object
        .number("id", rule.id.0)
        .number("phase", rule.phase.number())
        .string("msg", &said.msg)
        .string("logdata", said.logdata)
        .string("severity", rule.severity_name())
        .strings("tags", rule.tags.iter().take(TAGS_MAX).map(|tag| cut(tag)))
        .string("file", cut(rule.file))
        .number("line", rule.line);
    push_matches(object.key("matches"), rule.matches, &said, redaction);
    object.end();
}

fn push_matches(out: &mut String, matches: &[Match], said: &Said<'_>, redaction: &Redaction) {
    out.push('[');
    for (position, found) in matches.iter().take(MATCHES_MAX).enumerate() {
        if position > 0 {
            out.push(',');
        }
        let mut object = Object::begin(out);
        let value = text(&found.value);
        object
            .string("variable", &text(&found.variable))
            .string("value", said.value(found, &value, redaction));
        object.end();
    }
    out.push(']');
}
