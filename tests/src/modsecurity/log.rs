//! Logs in ModSecurity's shape, written from the engine's trace, so that patterns for its logs can be compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use glacis_engine::{
    Excerpt, RuleEngine, TraceEvent, TraceStep, TracedMatch, TracedOutcome, Transaction,
};
use seclang::{Action, DirectiveKind, LineIndex, SourceId};

/// Ids from this one on are those of the probes.
const PROBE: u32 = 4_294_960_000;

/// Rules that follow those of a case and change nothing: they show what variables hold at the end.
pub const PROBES: &str = r#"
SecRule ARGS_GET|ARGS_POST "@unconditionalMatch" "id:4294960001,phase:5,pass,nolog,noauditlog,t:none"
SecRule FILES|FILES_NAMES|FILES_SIZES|FILES_COMBINED_SIZE "@unconditionalMatch" "id:4294960002,phase:5,pass,nolog,noauditlog,t:none"
SecRule MULTIPART_NAME|MULTIPART_FILENAME|MULTIPART_STRICT_ERROR|MULTIPART_BOUNDARY_QUOTED|MULTIPART_BOUNDARY_WHITESPACE|MULTIPART_CRLF_LF_LINES|MULTIPART_LF_LINE|MULTIPART_DATA_BEFORE|MULTIPART_DATA_AFTER|MULTIPART_HEADER_FOLDING|MULTIPART_INVALID_HEADER_FOLDING|MULTIPART_INVALID_QUOTING|MULTIPART_INVALID_PART|MULTIPART_FILE_LIMIT_EXCEEDED|MULTIPART_UNMATCHED_BOUNDARY|MULTIPART_MISSING_SEMICOLON "@unconditionalMatch" "id:4294960003,phase:5,pass,nolog,noauditlog,t:none"
SecRule REQBODY_ERROR|REQBODY_ERROR_MSG|REQBODY_PROCESSOR|REQUEST_BODY|REQUEST_BODY_LENGTH|URLENCODED_ERROR|INBOUND_DATA_ERROR|OUTBOUND_DATA_ERROR|RESPONSE_BODY|MSC_PCRE_ERROR|MSC_PCRE_LIMITS_EXCEEDED "@unconditionalMatch" "id:4294960004,phase:5,pass,nolog,noauditlog,t:none"
SecRule TX|IP|GLOBAL|RESOURCE|SESSION|USER|SESSIONID|USERID|ENV "@unconditionalMatch" "id:4294960005,phase:5,pass,nolog,noauditlog,t:none"
"#;

/// What was logged, as ModSecurity would.
#[derive(Debug, Default)]
pub struct Logs {
    /// Values looked at, transformations, captures and results of rules.
    pub debug: String,
    /// A line for each rule that logs.
    pub error: String,
    /// Empty where no audit record is due.
    pub audit: String,
}

/// What the engine does not keep of a rule's text.
#[derive(Debug, Default)]
struct Written {
    targets: String,
    parameter: String,
    actions: Vec<Action>,
}

/// The rules as written, by file and line.
#[derive(Debug)]
pub struct Sources<'s> {
    file: &'s str,
    text: &'s str,
    folder: &'s Path,
}

impl<'s> Sources<'s> {
    /// Those of a case, whose rules are `text`; files that they include are below `folder`.
    #[must_use]
    pub const fn new(file: &'s str, text: &'s str, folder: &'s Path) -> Self {
        Self { file, text, folder }
    }

    fn read(&self, file: &str) -> BTreeMap<u32, Written> {
        let included;
        let text = if file == self.file {
            self.text
        } else {
            included = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            &included
        };
        let lines = LineIndex::new(text);
        let mut rules = BTreeMap::new();
        for directive in seclang::parse(SourceId(0), text).directives {
            let written = match directive.kind {
                DirectiveKind::Rule(rule) => Written {
                    targets: rule
                        .targets
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join("|"),
                    parameter: rule.operator.argument.text,
                    actions: rule.actions,
                },
                DirectiveKind::Action(actions) => Written { actions, ..Written::default() },
                _ => continue,
            };
            rules.insert(lines.line_column(directive.span.start).0, written);
        }
        rules
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map_or(' ', |first| first.to_ascii_uppercase());
    format!("{first}{}", letters.as_str())
}

impl Logs {
    /// The logs of a transaction that has finished.
    #[must_use]
    pub fn of(transaction: &Transaction, sources: &Sources<'_>, uri: &str, status: u16) -> Self {
        let mut writer = Writer { sources, uri, files: BTreeMap::new(), logs: Self::default() };
        if transaction.rule_engine() == RuleEngine::Off {
            writer.logs.debug.push_str("[4] Rule engine disabled, returning...\n");
        }
        let steps: Vec<TraceStep<'_>> = transaction.trace().collect();
        for run in steps
            .chunk_by(|one, other| one.rule.id == other.rule.id && one.rule.link == other.rule.link)
        {
            writer.run(run);
        }
        writer.alerts(transaction);
        if transaction.audit_due(status) {
            let rules = transaction.matched_rules().filter(|rule| rule.audit_log);
            let alerts: String = rules
                .map(|rule| format!("[id \"{}\"] [msg \"{}\"]\n", rule.id, rule.msg))
                .collect();
            writer.logs.audit = format!("--A--\n{uri}\n{alerts}--Z--\n");
        }
        writer.logs
    }
}

struct Writer<'w> {
    sources: &'w Sources<'w>,
    uri: &'w str,
    files: BTreeMap<String, BTreeMap<u32, Written>>,
    logs: Logs,
}

impl Writer<'_> {
    /// Steps of one rule, one after the other.
    fn run(&mut self, steps: &[TraceStep<'_>]) {
        let Some(TraceStep { rule, .. }) = steps.first() else { return };
        if rule.id.0 >= PROBE {
            steps.iter().for_each(|step| self.probe(step));
            return;
        }
        let (file, line) = (rule.file.to_owned(), rule.line);
        let sources = self.sources;
        let rules = self.files.entry(file.clone()).or_insert_with(|| sources.read(&file));
        let nothing = Written::default();
        let written = rules.get(&line).unwrap_or(&nothing);
        let log = &mut self.logs.debug;
        let Written { targets, parameter, actions, .. } = written;
        let operator = capitalised(rule.operator);
        let _ = match rule.operator.is_empty() {
            true => writeln!(log, "[4] (Rule: {}) Executing unconditional rule...", rule.id),
            false => writeln!(
                log,
                "[4] (Rule: {}) Executing operator \"{operator}\" with param \"{parameter}\" against {targets}.",
                rule.id
            ),
        };
        for step in steps {
            match step.event {
                TraceEvent::Match(found) | TraceEvent::Miss(found) => {
                    value(log, found, actions, &operator);
                }
                TraceEvent::Change(change) => {
                    let after = change.after.as_ref().map(text).unwrap_or_default();
                    let member = change.member.escape_ascii();
                    let _ = writeln!(log, "[8] Saving variable: TX:{member} with value: {after}");
                }
                TraceEvent::Rule(outcome) => said(log, actions, outcome),
            }
        }
        let matched = steps.iter().any(|step| !matches!(step.event, TraceEvent::Miss(_)));
        let _ = writeln!(log, "[4] Rule returned {}.", u8::from(matched));
    }

    fn probe(&mut self, step: &TraceStep<'_>) {
        let TraceEvent::Match(found) = step.event else { return };
        let name = text_of(&found.variable);
        let shown = text(&found.value);
        let log = &mut self.logs.debug;
        match name.split_once(':') {
            Some((arguments @ ("ARGS_POST" | "ARGS_GET"), name)) => {
                let place = if arguments == "ARGS_POST" { "BODY" } else { "GET" };
                let _ = writeln!(
                    log,
                    "[4] Adding request argument ({place}): name \"{name}\", value \"{shown}\""
                );
            }
            Some(("IP" | "GLOBAL" | "RESOURCE" | "SESSION" | "USER", _)) => {
                let _ = writeln!(log, "[8] Saving variable: {name} with value: {shown}");
            }
            _ => {}
        }
        let _ = writeln!(log, "end: {name}={shown}");
    }

    /// A line for each rule that logs.
    fn alerts(&mut self, transaction: &Transaction) {
        for rule in transaction.matched_rules().filter(|rule| rule.log) {
            let refusal =
                transaction.verdict().refusal().filter(|refusal| refusal.rule == Some(rule.id));
            let head = refusal.map_or_else(
                || "Warning. ".to_owned(),
                |refusal| {
                    format!(
                        "Access denied with code {} (phase {}). ",
                        refusal.status,
                        refusal.phase.number()
                    )
                },
            );
            let _ = write!(self.logs.error, "ModSecurity: {head}");
            let last =
                transaction.trace().filter(|step| step.rule.id == rule.id).filter_map(|step| {
                    let TraceEvent::Match(found) = step.event else { return None };
                    Some((step.rule.clone(), found))
                });
            if let Some((step, found)) = last.last() {
                let (file, line, sources) = (step.file.to_owned(), step.line, self.sources);
                let rules = self.files.entry(file.clone()).or_insert_with(|| sources.read(&file));
                let nothing = Written::default();
                let Written { parameter, .. } = rules.get(&line).unwrap_or(&nothing);
                let operator = capitalised(step.operator);
                let parameter = found.parameter.as_ref().map_or_else(|| parameter.clone(), text);
                let changed = found.stages.last().map_or(&found.value, |stage| &stage.value);
                let _ = write!(
                    self.logs.error,
                    "Matched \"Operator `{operator}' with parameter `{parameter}' against variable `{}' (Value: `{}' ) ",
                    text_of(&found.variable),
                    text(changed),
                );
                for part in &found.found {
                    let _ = write!(self.logs.error, "o{},{}", part.range.start, part.range.len());
                }
                let name = text_of(&found.variable);
                let _ = write!(self.logs.error, "v{name} ");
            }
            let tags: String = rule.tags.iter().map(|tag| format!(" [tag \"{tag}\"]")).collect();
            let _ = writeln!(
                self.logs.error,
                "[file \"{}\"] [line \"{}\"] [id \"{}\"] [rev \"{}\"] [msg \"{}\"] [data \"{}\"] [severity \"{}\"] [ver \"{}\"]{tags} [uri \"{}\"]",
                rule.file,
                rule.line,
                rule.id,
                rule.rev,
                rule.msg,
                rule.logdata,
                rule.severity.unwrap_or(0),
                rule.ver,
                self.uri,
            );
        }
    }
}

fn value(log: &mut String, found: &TracedMatch, actions: &[Action], operator: &str) {
    let mut current = text(&found.value);
    let mut stages = found.stages.iter();
    for action in actions.iter().filter(|action| action.name.text.eq_ignore_ascii_case("t")) {
        let name = action.value.as_ref().map_or("", |value| &value.text);
        let mut rest = stages.clone();
        if let Some(stage) =
            rest.next().filter(|stage| stage.transformation.eq_ignore_ascii_case(name))
        {
            stages = rest;
            current = text(&stage.value);
        }
        let _ = writeln!(log, "[9]  T (0) t:{name}: \"{current}\"");
    }
    for stage in stages {
        current = text(&stage.value);
        let _ = writeln!(log, "[9]  T (0) t:{}: \"{current}\"", stage.transformation);
    }
    // A count goes by the name of what is counted.
    let name = text_of(&found.variable);
    let name = name.trim_start_matches('&');
    let _ = writeln!(log, "[9] Target value: \"{current}\" (Variable: {name})");
    if !found.fingerprint.is_empty() {
        let fingerprint = text_of(&found.fingerprint);
        let _ = writeln!(log, "[7] Added {operator} match TX.0: {fingerprint}");
    }
    for part in &found.found {
        let (group, found) = (part.group, text(&part.text));
        let _ = writeln!(log, "[7] Added regex subexpression TX.{group}: {found}");
        let _ = writeln!(log, "[7] Added {operator} match TX.{group}: {found}");
    }
}

fn said(log: &mut String, actions: &[Action], outcome: &TracedOutcome) {
    for action in actions {
        let value = action.value.as_ref().map_or(String::new(), |value| format!(":{}", value.text));
        let name = &action.name.text;
        let _ =
            writeln!(log, "[4] Running action: {name}{value}\n[4] Running action {name}{value}");
    }
    let (msg, data) = (text(&outcome.msg), text(&outcome.logdata));
    let _ = writeln!(log, "[9] Saving msg: {msg}\n[9] Saving data: {data}");
}

/// Bytes that are not ASCII or do not print, as ModSecurity shows them.
fn text_of(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes {
        match byte {
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out
}

fn text(excerpt: &Excerpt) -> String {
    text_of(&excerpt.bytes)
}
