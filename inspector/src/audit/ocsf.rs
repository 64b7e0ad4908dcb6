//! An event of the Open Cybersecurity Schema Framework (<https://schema.ocsf.io>), version 1.7.0: class
//! HTTP Activity with the profile Security Control.
//!
//! The schema recommends the activity's own class with that profile for an alert of a control that stands
//! in the way; a Detection Finding is for what has a life afterwards (it is updated and closed).
//! What the class has no attribute for is in `unmapped`, under the names of our own shape.

use glacis_engine::{AuditPart, MatchedRule, Transaction};

use super::{
    Entry, MATCHES_MAX, Part, Said, cut, native, push_files, push_matched_ids, push_rules,
    push_would_deny, text,
};
use crate::{
    decision::{Mode, REJECT},
    json::{Object, push_string},
    redact::Redaction,
};

const SCHEMA_VERSION: &str = "1.7.0";
const CATEGORY: u32 = 4;
const CLASS: u32 = 4_002;

/// A number of an enumeration, and its caption.
type Known = (u32, &'static str);

pub(super) fn line(entry: &Entry<'_>, transaction: &Transaction, redaction: &Redaction) -> String {
    let mut out = String::with_capacity(1_024);
    let mut event = Object::begin(&mut out);
    push_class(&mut event, entry, transaction);
    push_metadata(&mut event, entry);
    push_outcome(&mut event, entry, transaction);
    push_endpoints(&mut event, entry);
    push_request(&mut event, entry, transaction, redaction);
    push_response(&mut event, entry, transaction, redaction);
    push_policy(&mut event, entry, transaction, redaction);
    push_unmapped(&mut event, entry, transaction, redaction);
    event.end();
    out
}

fn push_class(event: &mut Object<'_>, entry: &Entry<'_>, transaction: &Transaction) {
    let (activity, method) = (activity(entry.method), text(entry.method));
    let name = if activity.0 == OTHER.0 { &*method } else { activity.1 };
    let severity = severity(transaction);
    event
        .number("category_uid", CATEGORY)
        .string("category_name", "Network Activity")
        .number("class_uid", CLASS)
        .string("class_name", "HTTP Activity")
        .number("activity_id", activity.0)
        .string("activity_name", name)
        .number("type_uid", CLASS * 100 + activity.0)
        .string("type_name", &format!("HTTP Activity: {}", activity.1))
        .count("time", usize::try_from(entry.time.as_millis()).unwrap_or(usize::MAX))
        .number("severity_id", severity.0)
        .string("severity", severity.1);
}

fn push_metadata(event: &mut Object<'_>, entry: &Entry<'_>) {
    let mut metadata = Object::begin(event.key("metadata"));
    metadata.string("version", SCHEMA_VERSION).strings("profiles", ["security_control"]);
    let mut product = Object::begin(metadata.key("product"));
    product
        .string("name", "Glacis")
        .string("vendor_name", "Glacis")
        .string("version", env!("CARGO_PKG_VERSION"));
    product.end();
    metadata.string("original_event_uid", entry.request_id);
    metadata.end();
}

/// What the control did.
fn push_outcome(event: &mut Object<'_>, entry: &Entry<'_>, transaction: &Transaction) {
    let found = transaction.matched_rules().any(|rule| rule.log);
    let (action, disposition) = outcome(entry.action, entry.mode, found);
    event
        .number("action_id", action.0)
        .string("action", action.1)
        .number("disposition_id", disposition.0)
        .string("disposition", disposition.1)
        .boolean("is_alert", action.0 > 1);
    if entry.status != 0 {
        event.string("status_code", &entry.status.to_string());
    }
    event.number("risk_score", transaction.scores().inbound);
}

fn push_endpoints(event: &mut Object<'_>, entry: &Entry<'_>) {
    for (key, endpoint) in [("src_endpoint", entry.client), ("dst_endpoint", entry.server)] {
        let mut object = Object::begin(event.key(key));
        object.string("ip", &endpoint.address.to_string());
        if endpoint.port != 0 {
            object.number("port", endpoint.port);
        }
        object.end();
    }
}

fn push_request(
    event: &mut Object<'_>,
    entry: &Entry<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let uri = text(entry.uri);
    let uri = redaction.uri(&uri);
    let (path, query) =
        uri.split_once('?').map_or((&*uri, None), |(path, query)| (path, Some(query)));
    let mut request = Object::begin(event.key("http_request"));
    request
        .string("uid", entry.request_id)
        .string("http_method", &text(entry.method))
        .string("version", entry.protocol.strip_prefix("HTTP/").unwrap_or(entry.protocol));
    let mut url = Object::begin(request.key("url"));
    url.string("hostname", &text(entry.host)).string("path", path);
    if let Some(query) = query {
        url.string("query_string", query);
    }
    url.end();
    push_headers(&mut request, &Part::request(transaction), redaction);
    let bytes = transaction.request_body_taken().len();
    if bytes > 0 {
        request.count("body_length", bytes);
    }
    request.end();
}

fn push_response(
    event: &mut Object<'_>,
    entry: &Entry<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    // The code is required; of a response that was not seen it is not known.
    if entry.status == 0 {
        return;
    }
    let mut response = Object::begin(event.key("http_response"));
    response.number("code", entry.status);
    push_headers(&mut response, &Part::response(transaction), redaction);
    let bytes = transaction.response_body_taken().len();
    if bytes > 0 {
        response.count("body_length", bytes);
    }
    response.end();
}

fn push_headers(object: &mut Object<'_>, part: &Part<'_>, redaction: &Redaction) {
    if part.headers.as_ref().is_none_or(Vec::is_empty) {
        return;
    }
    let out = object.key("http_headers");
    out.push('[');
    // Those that do not fit are counted in no attribute of the class.
    let _ = part.push_headers(out, redaction, |out, first, name, value| {
        out.push_str(if first { "{\"name\":" } else { ",{\"name\":" });
        push_string(out, name);
        out.push_str(",\"value\":");
        push_string(out, value);
        out.push('}');
    });
    out.push(']');
}

/// The rule that refused, or the first that objected; and the ruleset.
fn push_policy(
    event: &mut Object<'_>,
    entry: &Entry<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let refused = |rule: &MatchedRule<'_>| entry.rule == Some(rule.id);
    let rule = transaction.matched_rules().find(refused);
    let rule = rule.or_else(|| transaction.matched_rules().find(|rule| rule.log));
    if let Some(rule) = rule {
        push_rule(event, &rule, transaction, redaction);
    }
    let mut policy = Object::begin(event.key("policy"));
    policy
        .string("name", cut(entry.profile))
        .string("version", transaction.program().hash())
        .boolean("is_applied", entry.mode == Mode::Blocking);
    policy.end();
}

fn push_rule(
    event: &mut Object<'_>,
    rule: &MatchedRule<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let said = Said::by(rule, transaction, redaction);
    let mut object = Object::begin(event.key("firewall_rule"));
    object.string("uid", &rule.id.to_string()).string("desc", &said.msg);
    if let Some(found) = rule.matches.first() {
        object.string("match_location", &text(&found.variable));
    }
    let values = rule.matches.iter().take(MATCHES_MAX).map(|found| {
        let value = text(&found.value);
        said.value(found, &value, redaction).to_owned()
    });
    let values: Vec<String> = values.collect();
    object.strings("match_details", values.iter().map(String::as_str));
    object.end();
}

fn push_unmapped(
    event: &mut Object<'_>,
    entry: &Entry<'_>,
    transaction: &Transaction,
    redaction: &Redaction,
) {
    let scores = transaction.scores();
    let mut unmapped = Object::begin(event.key("unmapped"));
    unmapped
        .string("mode", entry.mode.name())
        .string("inspected", entry.inspected)
        .number("score_inbound", scores.inbound)
        .number("score_outbound", scores.outbound);
    if let Some(phase) = entry.phase {
        unmapped.number("phase", phase.number());
    }
    push_would_deny(&mut unmapped, entry.would_deny);
    for (key, part, variable) in [
        ("request_body", Part::request(transaction), "REQUEST_BODY"),
        ("response_body", Part::response(transaction), "RESPONSE_BODY"),
    ] {
        if let Some(body) = &part.body {
            unmapped.string(key, &body.shown(redaction, variable).0);
        }
    }
    push_files(&mut unmapped, transaction, redaction);
    if transaction.audit_parts().has(AuditPart::Trailer) {
        let omitted = push_rules(unmapped.key("rules"), transaction, |out, rule| {
            native::push_rule(out, rule, transaction, redaction);
        });
        if omitted > 0 {
            unmapped.number("rules_omitted", omitted);
        }
    }
    push_matched_ids(&mut unmapped, transaction);
    unmapped.strings("limits_hit", transaction.flags().names());
    unmapped.end();
}

const OTHER: Known = (99, "Other");

/// `activity_id` of the class: the method.
fn activity(method: &[u8]) -> Known {
    match method {
        b"CONNECT" => (1, "Connect"),
        b"DELETE" => (2, "Delete"),
        b"GET" => (3, "Get"),
        b"HEAD" => (4, "Head"),
        b"OPTIONS" => (5, "Options"),
        b"POST" => (6, "Post"),
        b"PUT" => (7, "Put"),
        b"TRACE" => (8, "Trace"),
        b"PATCH" => (9, "Patch"),
        _ => OTHER,
    }
}

/// `action_id` and `disposition_id` of the profile.
fn outcome(action: &str, mode: Mode, found: bool) -> (Known, Known) {
    match action {
        "drop" => ((2, "Denied"), (6, "Dropped")),
        "deny" | "redirect" | REJECT => ((2, "Denied"), (2, "Blocked")),
        // The body of the request never came.
        "pending" => ((0, "Unknown"), (0, "Unknown")),
        _ if found && mode == Mode::DetectionOnly => ((3, "Observed"), (15, "Detected")),
        _ => ((1, "Allowed"), (1, "Allowed")),
    }
}

/// `severity_id`: that of the severest rule that matched, by SecLang's numbers.
fn severity(transaction: &Transaction) -> Known {
    let rules = transaction.matched_rules().filter(|rule| rule.log);
    match rules.filter_map(|rule| rule.severity).min() {
        Some(0) => (6, "Fatal"),
        Some(1 | 2) => (5, "Critical"),
        Some(3) => (4, "High"),
        Some(4) => (3, "Medium"),
        Some(5) => (2, "Low"),
        _ => (1, "Informational"),
    }
}
