//! Exclusions in a typed form: what is left out, where, who answers for it, why, and until when.
//!
//! They become SecLang. One that holds everywhere becomes a directive (`SecRuleRemoveById`,
//! `SecRuleUpdateTargetById` and their like by tag); one with a condition (path, hosts, values) becomes a rule
//! with `ctl`. A path that could mean another one to the application never counts as the path: `/wiki/../pay`
//! must not be excused because of `/wiki/`.

mod document;
mod template;

use core::fmt::{self, Write as _};

use crate::date::Date;
pub use document::{
    ExclusionConfig, ExclusionEvidence, ExclusionList, Expiry, RuleRange, write_exclusions,
};
pub use template::{escaped, is_template_text, pattern_of};

/// Exclusions that one ruleset may have: each has rule ids of its own.
pub const EXCLUSIONS_MAX: usize = 4_000;

/// The first of the ids that exclusions with a condition take, one each.
pub const EXCLUSION_ID_MIN: u32 = 100_100;

/// The first of the ids that exclusions with `values` take besides, one each.
pub const EXCLUSION_VALUES_ID_MIN: u32 = 105_100;

/// Hosts that one exclusion may name.
const HOSTS_MAX: usize = 256;

/// Bytes of the pattern of values.
const VALUES_BYTES_MAX: usize = 2_048;

/// Rules, tags and targets that one exclusion may name.
const NAMED_MAX: usize = 64;

/// Bytes of a tag, a target, a path, an owner or a reason.
const TEXT_BYTES_MAX: usize = 512;

/// Paths that could mean another one: dot segments, doubled slashes, backslashes, parameters, fragments, control
/// bytes, the escapes of them, also as `%uXXXX`, and UTF-8 that is longer than it has to be, escaped or not.
/// The like are kept off open routes in `envoy-configs`, and `is_ambiguous` of the crate `limits` knows them.
const AMBIGUOUS_PATH: &str = concat!(
    r"(?i)^[^?]*(?:\.\.|/\.(?:/|$|\?)|//|[\x5c;#\x00-\x1f\x7f\xc0\xc1]",
    r"|%(?:[01]|2[ef]|3b|5c|25|7f|u|c[01])",
    r"|(?:%e0|\xe0)(?:%[89]|[\x80-\x9f])|(?:%f[08c]|[\xf0\xf8\xfc])(?:%8|[\x80-\x8f]))"
);

/// What some rules do not look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusion {
    /// Rules, as ids or ranges of ids: `942100`, `942000-942999`.
    pub rules: Vec<String>,
    /// Rules, as tags that they have.
    pub tags: Vec<String>,
    /// Targets that these rules leave out, such as `ARGS:comment`; when there are none, the rules do not
    /// run at all.
    pub targets: Vec<String>,
    /// The only path for which it holds; one that ends with `/` stands for everything below it. `{number}`,
    /// `{hex}`, `{uuid}`, `{token}` and `{segment}` stand for a part of a path, as in targets.
    pub path: Option<String>,
    /// The only hosts for which it holds, whatever the port; `*.example.com` stands for all below it.
    pub hosts: Vec<String>,
    /// A pattern that every value of the targets has to match as a whole for the exclusion to hold.
    pub values: Option<String>,
    /// Who answers for it.
    pub owner: String,
    /// Why it is needed.
    pub reason: String,
    /// The last day on which it holds; without one it holds for ever.
    pub expires: Option<Date>,
}

/// An exclusion that was refused: which one, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExclusionError {
    position: usize,
    message: String,
}

impl fmt::Display for ExclusionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exclusions, number {}: {}", self.position + 1, self.message)
    }
}

impl core::error::Error for ExclusionError {}

/// Exclusions as SecLang, for two places in a ruleset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExclusionRules {
    /// What has to stand before the rules: exclusions for a path.
    pub before: String,
    /// What has to stand after them: exclusions for every path.
    pub after: String,
}

/// Writes `exclusions` as SecLang.
///
/// # Errors
/// When one names nothing to exclude, something that cannot be named, or nobody who answers for it.
pub fn exclusion_rules(exclusions: &[Exclusion]) -> Result<ExclusionRules, ExclusionError> {
    let mut rules = ExclusionRules::default();
    for (position, exclusion) in exclusions.iter().enumerate() {
        let refuse = |message| ExclusionError { position, message };
        if position >= EXCLUSIONS_MAX {
            return Err(refuse(format!("there may be {EXCLUSIONS_MAX} at most")));
        }
        exclusion.check().map_err(refuse)?;
        if exclusion.has_condition() {
            let position = u32::try_from(position).unwrap_or(u32::MAX);
            exclusion.push_rule(&mut rules.before, position);
        } else {
            exclusion.push_directives(&mut rules.after);
        }
    }
    Ok(rules)
}

impl Exclusion {
    /// Whether it holds on this day.
    #[must_use]
    pub fn holds_on(&self, today: Date) -> bool {
        self.expires.is_none_or(|last| today <= last)
    }

    /// What rules it is about, for people.
    #[must_use]
    pub fn subject(&self) -> String {
        let mut names = self.rules.clone();
        names.extend(self.tags.iter().map(|tag| format!("tag {tag}")));
        names.join(", ")
    }

    fn check(&self) -> Result<(), String> {
        if self.rules.is_empty() && self.tags.is_empty() {
            return Err("no `rules` and no `tags` are named".to_owned());
        }
        for (name, texts) in
            [("rules", &self.rules), ("tags", &self.tags), ("targets", &self.targets)]
        {
            if texts.len() > NAMED_MAX {
                return Err(format!("`{name}` may name {NAMED_MAX} at most"));
            }
        }
        each(
            &self.rules,
            is_range,
            "is no id and no range of ids, such as 942100 or 942000-942999",
        )?;
        each(&self.tags, is_tag, "is no tag: letters, digits and -_./: only")?;
        each(
            &self.targets,
            is_target,
            "is no target such as ARGS or ARGS:name; write others as SecLang in `directives`",
        )?;
        if self.hosts.len() > HOSTS_MAX {
            return Err(format!("`hosts` may name {HOSTS_MAX} at most"));
        }
        each(&self.hosts, is_host, "is no host: a name or an address without a port, or *.name")?;
        self.check_values()?;
        each(
            self.path.as_slice(),
            is_path,
            "is no path: it begins with /, and has no quotes, no \
            white space and nothing that a client could write in another way",
        )?;
        for (name, text) in [("owner", &self.owner), ("reason", &self.reason)] {
            if text.trim().is_empty() {
                return Err(format!("`{name}` is empty"));
            }
            if text.len() > TEXT_BYTES_MAX {
                return Err(format!("`{name}` is longer than {TEXT_BYTES_MAX} bytes"));
            }
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), String> {
        let Some(values) = &self.values else { return Ok(()) };
        if self.targets.is_empty() {
            return Err("`values` needs `targets`".to_owned());
        }
        if values.len() > VALUES_BYTES_MAX {
            return Err(format!("`values` is longer than {VALUES_BYTES_MAX} bytes"));
        }
        // A quote would end the rule's text, and a macro would be expanded with what a client sent.
        let bad = |byte: u8| !(b' '..=b'~').contains(&byte) || byte == b'"';
        if values.is_empty() || values.bytes().any(bad) || values.contains("%{") {
            return Err(
                "`values` is no pattern in printable ASCII; write a quote as \\x22".to_owned()
            );
        }
        Ok(())
    }

    /// Whether it holds for some requests only.
    #[must_use]
    pub const fn has_condition(&self) -> bool {
        self.path.is_some() || !self.hosts.is_empty() || self.values.is_some()
    }

    /// A rule with its conditions as a chain, and `ctl` at the end of it.
    ///
    /// Values need a rule before it: one value that does not match is enough, and a chain cannot say "none".
    fn push_rule(&self, out: &mut String, position: u32) {
        let id = EXCLUSION_ID_MIN.saturating_add(position);
        let mut phase = 1;
        // Writing to a `String` cannot fail, here and below.
        if let Some(values) = &self.values {
            phase = if self.targets.iter().all(|target| is_of_headers(target)) { 1 } else { 2 };
            let targets: Vec<String> = self.targets.iter().map(|target| seclang(target)).collect();
            let guard = EXCLUSION_VALUES_ID_MIN.saturating_add(position);
            let _ = writeln!(
                out,
                "SecRule {} \"!@rx \\A(?:{values})\\z\" \"id:{guard},phase:{phase},pass,nolog,t:none,skip:1\"",
                targets.join("|"),
            );
        }
        let mut conditions = Vec::new();
        if let Some(path) = &self.path {
            conditions.push(path_condition(path));
            conditions.push(format!("REQUEST_URI_RAW \"!@rx {AMBIGUOUS_PATH}\""));
        }
        if !self.hosts.is_empty() {
            let hosts: Vec<String> = self.hosts.iter().map(|host| host_pattern(host)).collect();
            conditions.push(format!("SERVER_NAME \"@rx (?i)\\A(?:{})\\z\"", hosts.join("|")));
        }
        let controls = self.controls().join(",");
        let actions = format!("id:{id},phase:{phase},pass,nolog,t:none");
        if conditions.is_empty() {
            let _ = writeln!(out, "SecAction \"{actions},{controls}\"");
        }
        let last = conditions.len().saturating_sub(1);
        for (at, condition) in conditions.iter().enumerate() {
            let first = if at == 0 { &actions } else { "t:none" };
            let rest = if at == last { &controls } else { "chain" };
            let _ = writeln!(out, "SecRule {condition} \"{first},{rest}\"");
        }
    }

    fn controls(&self) -> Vec<String> {
        let by = |kind: &str, names: &[String]| -> Vec<String> {
            let of = |name: &String| match self.targets.as_slice() {
                [] => vec![format!("ctl:ruleRemoveBy{kind}={name}")],
                targets => targets
                    .iter()
                    .map(|target| {
                        format!("ctl:ruleRemoveTargetBy{kind}={name};{}", seclang(target))
                    })
                    .collect(),
            };
            names.iter().flat_map(of).collect()
        };
        let mut controls = by("Id", &self.rules);
        controls.extend(by("Tag", &self.tags));
        controls
    }

    fn push_directives(&self, out: &mut String) {
        for (kind, names) in [("Id", &self.rules), ("Tag", &self.tags)] {
            for name in names {
                if self.targets.is_empty() {
                    let _ = writeln!(out, "SecRuleRemoveBy{kind} \"{name}\"");
                }
                for target in &self.targets {
                    let _ = writeln!(
                        out,
                        "SecRuleUpdateTargetBy{kind} \"{name}\" \"!{}\"",
                        seclang(target)
                    );
                }
            }
        }
    }
}

fn each(texts: &[String], good: impl Fn(&str) -> bool, message: &str) -> Result<(), String> {
    let fits = |text: &&String| text.len() <= TEXT_BYTES_MAX && good(text);
    match texts.iter().find(|text| !fits(text)) {
        Some(text) => Err(format!("`{text}` {message}")),
        None => Ok(()),
    }
}

fn is_range(text: &str) -> bool {
    let is_id =
        |id: &str| id.bytes().all(|byte| byte.is_ascii_digit()) && id.parse::<u32>().is_ok();
    match text.split_once('-') {
        Some((first, last)) => {
            is_id(first) && is_id(last) && first.parse::<u32>().ok() <= last.parse::<u32>().ok()
        }
        None => is_id(text),
    }
}

fn is_tag(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    !text.is_empty() && text.bytes().all(good)
}

/// A variable, perhaps with a selector: a plain name, or one with placeholders and other harmless characters, which
/// is written as a pattern. A selector that is a pattern is left to SecLang.
fn is_target(text: &str) -> bool {
    let (variable, selector) = text.split_once(':').unwrap_or((text, "-"));
    let part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[]:~@$+*()= ".contains(&byte);
    !variable.is_empty()
        && variable.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        && !selector.is_empty()
        && (variable != "XML" || selector.bytes().all(|byte| b"/@*".contains(&byte)))
        && (variable == "XML" || is_template_text(selector, part))
}

/// A target that stands for names and values that are known before the body.
fn is_of_headers(target: &str) -> bool {
    ["REQUEST_HEADERS", "REQUEST_COOKIES", "REQUEST_METHOD", "REQUEST_PROTOCOL", "REQUEST_LINE"]
        .iter()
        .chain(&["REQUEST_FILENAME", "REQUEST_BASENAME", "REQUEST_URI", "QUERY_STRING"])
        .any(|known| target.starts_with(known))
}

/// The target as SecLang: a selector that is no plain name becomes a pattern for the whole name.
fn seclang(target: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[]".contains(&byte);
    match target.split_once(':') {
        Some((variable, selector)) if variable != "XML" && !selector.bytes().all(plain) => {
            format!("{variable}:/^{}$/", pattern_of(selector))
        }
        _ => target.to_owned(),
    }
}

/// A path that can stand in a rule as it is, and that the application sees as it is written.
fn is_path(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/@:+,=!*()&".contains(&byte);
    text.starts_with('/')
        && is_template_text(text, good)
        && !text.contains("//")
        && !text.contains("/.")
}

fn path_condition(path: &str) -> String {
    let is_prefix = path.ends_with('/');
    if path.contains('{') {
        let end = if is_prefix { "" } else { "\\z" };
        return format!("REQUEST_FILENAME \"@rx \\A{}{end}\"", pattern_of(path));
    }
    let operator = if is_prefix { "@beginsWith" } else { "@streq" };
    format!("REQUEST_FILENAME \"{operator} {path}\"")
}

fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match address {
        Some(address) => {
            !address.is_empty()
                && address.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))
        }
        None => !name.is_empty() && name.bytes().all(good),
    }
}

fn host_pattern(host: &str) -> String {
    match host.strip_prefix("*.") {
        Some(name) => format!("[0-9a-z._-]+\\x2e{}", escaped(name)),
        None => escaped(host),
    }
}
