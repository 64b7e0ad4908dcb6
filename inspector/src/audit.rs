//! The audit record: one line of JSON per exchange that is worth one.
//!
//! The line is at most 256 KiB long, and mostly below 4: values are cut to 1 KiB (up to six times
//! that when they have to be escaped), and rules beyond the first 48 KiB are counted in
//! `rules_omitted`.

use glacis_engine::{Match, MatchedRule, Phase, RuleId, Transaction};

use crate::{
    json::{Object, push_string},
    redact::{MASK, Redaction},
    time::rfc3339,
};

/// Bytes of an audit record beyond which no further rule is added.
const RULES_BYTES_MAX: usize = 48 << 10;

/// Bytes kept of a value, a message or a URI before it is escaped, which can make it six times longer.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// Matches written of one rule.
const MATCHES_MAX: usize = 4;

/// Tags written of one rule.
const TAGS_MAX: usize = 32;

/// What a record says besides what the transaction knows.
pub(crate) struct Entry<'a> {
    pub(crate) time: core::time::Duration,
    pub(crate) request_id: &'a str,
    pub(crate) client: String,
    pub(crate) method: &'a [u8],
    pub(crate) uri: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) status: u16,
    pub(crate) action: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) phase: Option<Phase>,
    pub(crate) rule: Option<RuleId>,
    pub(crate) inspected: &'a str,
    pub(crate) profile: &'a str,
}

/// Writes the record, without an end of line.
pub(crate) fn line(entry: &Entry<'_>, transaction: &Transaction, redaction: &Redaction) -> String {
    let redaction = &*redaction.with(transaction.hidden());
    let mut out = String::with_capacity(1_024);
    let mut object = Object::begin(&mut out);
    object
        .string("time", &rfc3339(entry.time))
        .string("request_id", entry.request_id)
        .string("client", &entry.client)
        .string("method", &text(entry.method))
        .string("uri", &redaction.uri(&text(entry.uri)))
        .string("host", &text(entry.host))
        .string("action", entry.action)
        .string("mode", entry.mode)
        .string("inspected", entry.inspected);
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
    let scores = transaction.scores();
    object
        .number("score_inbound", scores.inbound)
        .number("score_outbound", scores.outbound)
        .string("profile", cut(entry.profile))
        .string("ruleset", transaction.program().hash());
    let omitted = push_rules(object.key("rules"), transaction, redaction);
    if omitted > 0 {
        object.number("rules_omitted", omitted);
    }
    object.strings("limits_hit", transaction.flags().names());
    object.end();
    out
}

/// Appends the matched rules as an array; returns how many did not fit.
fn push_rules(out: &mut String, transaction: &Transaction, redaction: &Redaction) -> u32 {
    let matches_max = transaction.program().limits().matches_per_rule_max;
    let mut omitted = 0;
    out.push('[');
    for (position, rule) in transaction.matched_rules().enumerate() {
        if out.len() > RULES_BYTES_MAX {
            omitted += 1;
            continue;
        }
        if position > 0 {
            out.push(',');
        }
        push_rule(out, &rule, matches_max, redaction);
    }
    out.push(']');
    omitted
}

fn push_rule(out: &mut String, rule: &MatchedRule<'_>, matches_max: usize, redaction: &Redaction) {
    // A macro in `msg` or `logdata` may show any value that the chain matched, also one beyond those
    // recorded: if one of them is hidden, or may be, so is the text.
    let hidden = redaction.enabled()
        && (rule.matches.len() >= matches_max
            || rule
                .matches
                .iter()
                .any(|found| redaction.hides(&found.variable, &text(&found.value))));
    let shown = |text: &str| hidden || redaction.hides_text(text);
    let mut object = Object::begin(out);
    object
        .number("id", rule.id.0)
        .number("phase", rule.phase.number())
        .string("msg", message(rule, hidden, redaction))
        .string("logdata", if shown(&rule.logdata) { MASK } else { cut(&rule.logdata) })
        .string("severity", rule.severity_name())
        .strings("tags", rule.tags.iter().take(TAGS_MAX).map(|tag| cut(tag)))
        .string("file", cut(rule.file))
        .number("line", rule.line);
    push_matches(object.key("matches"), rule.matches, redaction);
    object.end();
}

/// `msg`; it is mostly fixed text, and hidden only when a value that is hidden stands in it.
fn message<'r>(rule: &'r MatchedRule<'_>, hidden: bool, redaction: &Redaction) -> &'r str {
    let shows = |found: &Match| {
        let value = text(&found.value);
        !value.is_empty() && redaction.hides(&found.variable, &value) && rule.msg.contains(&*value)
    };
    if redaction.hides_text(&rule.msg) || hidden && rule.matches.iter().any(shows) {
        MASK
    } else {
        cut(&rule.msg)
    }
}

fn push_matches(out: &mut String, matches: &[Match], redaction: &Redaction) {
    out.push('[');
    for (position, found) in matches.iter().take(MATCHES_MAX).enumerate() {
        if position > 0 {
            out.push(',');
        }
        let mut object = Object::begin(out);
        let value = text(&found.value);
        object
            .string("variable", &text(&found.variable))
            .string("value", redaction.value(&found.variable, &value));
        object.end();
    }
    out.push(']');
}

/// Bytes as text, cut.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes.get(..bytes.len().min(TEXT_BYTES_MAX)).unwrap_or_default())
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()
}

/// The body of a refusal: RFC 9457, without a word on the rules.
pub(crate) fn problem(status: u16, request_id: &str) -> String {
    let mut out = String::with_capacity(128);
    out.push_str("{\"type\":\"about:blank\",\"title\":");
    push_string(&mut out, title(status));
    out.push_str(",\"status\":");
    out.push_str(&status.to_string());
    out.push_str(",\"request_id\":");
    push_string(&mut out, request_id);
    out.push('}');
    out
}

const fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        406 => "Not Acceptable",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Refused",
    }
}
