//! The audit record: one line of JSON per exchange that is worth one, in one of three shapes.
//!
//! `docs/reference/audit-log.md` says what every field means. A line is at most 512 KiB long, and
//! mostly below 4: values are cut to 1 KiB (up to six times that when they have to be escaped), bodies
//! to 8 KiB, headers beyond the first 32 KiB and rules beyond the first 48 KiB are counted instead.

mod modsecurity;
mod native;
mod ocsf;

use std::borrow::Cow;

use glacis_engine::{AuditPart, Endpoint, Match, MatchedRule, Phase, RuleId, Transaction};

use glacis_second_opinion::Opinion;

use crate::{
    body::{self, Kind},
    decision::{Mode, WouldDeny},
    json::Object,
    message::MessageName,
    redact::{MASK, Redaction},
    rejection::Rejection,
};

/// The shape of audit records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditFormat {
    /// Our own.
    #[default]
    Native,
    /// That of `SecAuditLogFormat JSON` in ModSecurity 3.
    ModSecurity,
    /// Events of the class HTTP Activity of OCSF.
    Ocsf,
}

/// Bytes of the rules in a record beyond which no further rule is added.
const RULES_BYTES_MAX: usize = 48 << 10;

/// Bytes of the headers of a message beyond which no further one is added.
const HEADERS_BYTES_MAX: usize = 32 << 10;

/// Bytes kept of a value, a message or a URI before it is escaped, which can make it six times longer.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// Matches written of one rule.
const MATCHES_MAX: usize = 4;

/// Tags written of one rule.
const TAGS_MAX: usize = 32;

/// Uploaded files written of one request, and bytes of each of their names.
const FILES_MAX: usize = 16;
const FILE_NAME_BYTES_MAX: usize = 256;

/// What a record says besides what the transaction knows.
pub(crate) struct Entry<'a> {
    pub(crate) format: AuditFormat,
    pub(crate) time: core::time::Duration,
    pub(crate) request_id: &'a str,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) method: &'a [u8],
    pub(crate) uri: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) protocol: &'a str,
    pub(crate) status: u16,
    pub(crate) action: &'a str,
    pub(crate) reason: Option<Rejection>,
    pub(crate) mode: Mode,
    pub(crate) phase: Option<Phase>,
    pub(crate) rule: Option<RuleId>,
    pub(crate) inspected: &'a str,
    pub(crate) profile: &'a str,
    pub(crate) opinion: Option<&'a Opinion>,
    pub(crate) would_deny: Option<WouldDeny>,
    pub(crate) message: Option<MessageName>,
}

/// Writes the record, without an end of line.
pub(crate) fn line(entry: &Entry<'_>, transaction: &Transaction, redaction: &Redaction) -> String {
    let redaction = &*redaction.with(transaction.hidden());
    match entry.format {
        AuditFormat::Native => native::line(entry, transaction, redaction),
        AuditFormat::ModSecurity => modsecurity::line(entry, transaction, redaction),
        AuditFormat::Ocsf => ocsf::line(entry, transaction, redaction),
    }
}

/// Appends the matched rules as an array, each written by `write`; returns how many did not fit.
fn push_rules(
    out: &mut String,
    transaction: &Transaction,
    write: impl Fn(&mut String, &MatchedRule<'_>),
) -> u32 {
    let mut omitted = 0;
    let start = out.len();
    out.push('[');
    for (position, rule) in transaction.matched_rules().enumerate() {
        if out.len() - start > RULES_BYTES_MAX {
            omitted += 1;
            continue;
        }
        if position > 0 {
            out.push(',');
        }
        write(out, &rule);
    }
    out.push(']');
    omitted
}

/// `msg` and `logdata` of a rule, as they may be shown.
struct Said<'r> {
    msg: Cow<'r, str>,
    logdata: &'r str,
    /// Whether a value that the chain matched is hidden, or may be.
    hidden: bool,
}

impl<'r> Said<'r> {
    fn by(rule: &'r MatchedRule<'_>, transaction: &Transaction, redaction: &Redaction) -> Self {
        // A macro in `msg` or `logdata` may show any value that the chain matched, also one beyond
        // those recorded: if one of them is hidden, or may be, so is the text.
        let matches_max = transaction.program().limits().matches_per_rule_max;
        let hides = |found: &Match| redaction.hides(&found.variable, &text(&found.value));
        let hidden = redaction.enabled()
            && (rule.matches.len() >= matches_max || rule.matches.iter().any(hides));
        let logdata_hidden = hidden || redaction.hides_text(&rule.logdata);
        Self {
            msg: message(rule, hidden, transaction, redaction),
            logdata: if logdata_hidden { MASK } else { cut(&rule.logdata) },
            hidden,
        }
    }

    /// The value of a match. What came of another one of the chain is as secret as that: what was captured of it, and
    /// what is looked at once more.
    fn value<'v>(&self, found: &Match, value: &'v str, redaction: &Redaction) -> &'v str {
        let derived = [&b"TX:"[..], b"MATCHED_VAR"];
        let is_derived = derived.iter().any(|start| found.variable.starts_with(start));
        if self.hidden && is_derived { MASK } else { redaction.value(&found.variable, value) }
    }
}

/// `msg`. Its fixed text is no secret, nor is the name of what matched; what its other macros stand for is as secret
/// as what the chain matched.
fn message<'r>(
    rule: &'r MatchedRule<'_>,
    hidden: bool,
    transaction: &Transaction,
    redaction: &Redaction,
) -> Cow<'r, str> {
    if rule.msg.is_empty() || !(hidden || redaction.hides_text(&rule.msg)) {
        return Cow::Borrowed(cut(&rule.msg));
    }
    let mut loaded = transaction.program().rules();
    let written = loaded.find(|loaded| loaded.id == rule.id).map_or("", |loaded| loaded.msg);
    if written.is_empty() {
        // It stands in a link, and of links the program does not tell what is written.
        return Cow::Borrowed(MASK);
    }
    let is_name = |name: &str| name.eq_ignore_ascii_case("MATCHED_VAR_NAME");
    if macros(written).all(is_name) && !redaction.hides_text(&rule.msg) {
        return Cow::Borrowed(cut(&rule.msg));
    }
    Cow::Owned(cut(&without_macros(written)).to_owned())
}

/// The names of the macros in a text as written in a rule.
fn macros(written: &str) -> impl Iterator<Item = &str> {
    let mut rest = written;
    core::iter::from_fn(move || {
        let (_, macro_on) = rest.split_once("%{")?;
        // What is not closed is no macro.
        let (name, after) = macro_on.split_once('}')?;
        rest = after;
        Some(name)
    })
}

/// A text as written in a rule, with the mask in the place of each macro.
fn without_macros(written: &str) -> String {
    let mut shown = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((before, macro_on)) = rest.split_once("%{") {
        let Some((_, after)) = macro_on.split_once('}') else { break };
        shown.push_str(before);
        shown.push_str(MASK);
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// The parts of a record that are about one message, request or response.
struct Part<'t> {
    headers: Option<Vec<(&'t [u8], &'t [u8])>>,
    body: Option<Body<'t>>,
    collection: &'static str,
}

/// A body, and how it is to be read.
struct Body<'t> {
    bytes: &'t [u8],
    kind: Kind,
    content_type: &'t [u8],
    without_files: bool,
}

impl<'t> Part<'t> {
    /// Parts `B`, and `C` or `I`.
    fn request(transaction: &'t Transaction) -> Self {
        let parts = transaction.audit_parts();
        let with_files = parts.has(AuditPart::RequestBody);
        let wanted = with_files || parts.has(AuditPart::RequestBodyWithoutFiles);
        let find = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"content-type");
        let body = wanted.then(|| Body {
            bytes: transaction.request_body_taken(),
            kind: Kind::of_processor(transaction.request_body_processor()),
            content_type: transaction.request_headers().find(find).unwrap_or_default().1,
            without_files: !with_files,
        });
        let headers = parts.has(AuditPart::RequestHeaders);
        Self {
            headers: headers.then(|| transaction.request_headers().collect()),
            body: body.filter(|body| !body.bytes.is_empty()),
            collection: "REQUEST_HEADERS",
        }
    }

    /// Parts `F` and `E`.
    fn response(transaction: &'t Transaction) -> Self {
        let parts = transaction.audit_parts();
        let find = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"content-type");
        let content_type = transaction.response_headers().find(find).unwrap_or_default().1;
        let body = parts.has(AuditPart::ResponseBody).then(|| Body {
            bytes: transaction.response_body_taken(),
            kind: Kind::of_response(content_type),
            content_type,
            without_files: false,
        });
        let headers = parts.has(AuditPart::ResponseHeaders);
        Self {
            headers: headers.then(|| transaction.response_headers().collect()),
            body: body.filter(|body| !body.bytes.is_empty()),
            collection: "RESPONSE_HEADERS",
        }
    }

    /// Writes the headers with `write`, which is told whether it is the first; returns how many did not
    /// fit.
    fn push_headers(
        &self,
        out: &mut String,
        redaction: &Redaction,
        mut write: impl FnMut(&mut String, bool, &str, &str),
    ) -> u32 {
        let start = out.len();
        let mut omitted = 0;
        let headers = self.headers.iter().flatten();
        for (position, (name, value)) in headers.enumerate() {
            if out.len() - start > HEADERS_BYTES_MAX {
                omitted += 1;
                continue;
            }
            let variable = [self.collection.as_bytes(), b":", name].concat();
            let value = text(value);
            write(out, position == 0, &text(name), redaction.value(&variable, &value));
        }
        omitted
    }
}

impl Body<'_> {
    /// The body as it may be shown, and whether it is cut.
    fn shown(&self, redaction: &Redaction, variable: &str) -> (String, bool) {
        let cut = self.bytes.get(..body::BYTES_MAX);
        let bytes = cut.unwrap_or(self.bytes);
        let shown = match self.kind {
            _ if redaction.hides_body(variable) => MASK.to_owned(),
            kind => body::shown(bytes, kind, self.content_type, self.without_files, redaction),
        };
        (shown, cut.is_some() && self.bytes.len() > body::BYTES_MAX)
    }
}

/// Appends the refusal that detection mode withheld, where there is one.
fn push_would_deny(object: &mut Object<'_>, would_deny: Option<WouldDeny>) {
    let Some(WouldDeny { phase, rule }) = would_deny else { return };
    let mut part = Object::begin(object.key("would_deny"));
    part.number("phase", phase.number()).number("rule", rule.0);
    part.end();
}

/// Part `J`: appends what was uploaded, if it is asked for and there is something.
fn push_files(object: &mut Object<'_>, transaction: &Transaction, redaction: &Redaction) {
    let files = transaction.uploads().count();
    if !transaction.audit_parts().has(AuditPart::Files) || files == 0 {
        return;
    }
    let short = |bytes: &[u8]| {
        let text = text(bytes);
        let end = text.floor_char_boundary(FILE_NAME_BYTES_MAX);
        text.get(..end).unwrap_or_default().to_owned()
    };
    let out = object.key("files");
    out.push('[');
    for (position, file) in transaction.uploads().take(FILES_MAX).enumerate() {
        if position > 0 {
            out.push(',');
        }
        let variable = [b"FILES:", file.field].concat();
        let name = short(file.file_name);
        let mut object = Object::begin(out);
        object
            .string("field", &short(file.field))
            .string("name", redaction.value(&variable, &name))
            .string("bytes", &short(file.size));
        object.end();
    }
    out.push(']');
    if files > FILES_MAX {
        object.count("files_omitted", files - FILES_MAX);
    }
}

/// Part `K`: appends the ids of all rules that matched, if it is asked for.
fn push_matched_ids(object: &mut Object<'_>, transaction: &Transaction) {
    if !transaction.audit_parts().has(AuditPart::Rules) {
        return;
    }
    let out = object.key("matched_rules");
    out.push('[');
    for (position, id) in transaction.matched_ids().enumerate() {
        if position > 0 {
            out.push(',');
        }
        out.push_str(&id.to_string());
    }
    out.push(']');
}

/// Bytes as text, cut.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.get(..bytes.len().min(TEXT_BYTES_MAX)).unwrap_or_default())
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()
}
