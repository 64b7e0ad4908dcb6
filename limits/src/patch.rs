//! Virtual patches: what an attack on one known flaw looks like, for the filter and for SecLang.
//!
//! A patch is a list of conditions on the head of a request, all of which have to hold. It is
//! looked at here ([`Patch::matches`]), and written as a chain of rules ([`Patch::to_seclang`]),
//! which see the same. `rules/virtual-patches/README.md` has the form.
//!
//! Values are compared without regard to case, the path however it is spelled (`spelling.rs`), and the query
//! decoded once.

mod pattern;
mod spelling;
mod text;

use crate::day;
use pattern::{FLAGS, Pattern, as_chars};
use serde_json::{Map, Value};
use spelling::{Place, Spelled, Wanted};
use std::cell::{Cell, OnceCell};
use std::fmt::{self, Write as _};
use text::{contains, escaped, form_decoded, is_named, lower, name_pattern};

/// The most conditions of a patch, and values of one.
const CONDITIONS_MAX: usize = 8;
const VALUES_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 256;

/// The longest path that is compared, in bytes as it was sent: web servers take request lines of 8 KiB by default.
pub const PATH_BYTES_MAX: usize = 8 << 10;
/// The most segments of a path that is compared, once it is decoded.
pub const PATH_SEGMENTS_MAX: usize = 256;
/// The longest path and query that are compared, in bytes as they were sent.
pub const TARGET_BYTES_MAX: usize = 16 << 10;
/// The longest value that a pattern is looked for in, in bytes: a longer one counts as if it had it. Rules say the
/// same with a repetition, of which RE2 and Coraza take 1 000.
pub const PATTERN_BYTES_MAX: usize = 1_000;

/// The rules of patches have numbers in this range.
const RULE_MIN: u64 = 9_100_000;
const RULE_MAX: u64 = 9_109_999;

/// A patch, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its name in logs.
    pub id: String,
    /// The flaw, as `CVE-YEAR-NUMBER`.
    pub cve: String,
    /// Whether what it describes is not refused, but counted and noted.
    pub shadow: bool,
    title: String,
    rule: u64,
    /// The last second in which it holds.
    until_seconds: u64,
    /// Whether the rules look at forms in bodies as well.
    forms: bool,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    target: Target,
    operator: Operator,
    /// In lower case; one of them has to fit. Patterns as they were written.
    values: Vec<String>,
    /// The patterns, if that is what the values are.
    patterns: Vec<Pattern>,
    /// The values as segments, if they are no patterns and the target is the path.
    wanted: Vec<Wanted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Method,
    Path,
    Query,
    /// One of these header fields.
    Header(Vec<String>),
    Argument(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    Prefix,
    Suffix,
    Contains,
    Regex,
}

/// Why a value is no patch: the field, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    /// The path of the field in the patch.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl std::error::Error for PatchError {}

/// The head of a request, as patches ask for it.
pub trait Head {
    /// The method.
    fn method(&self) -> Vec<u8>;
    /// Path and query, as they were sent.
    fn target(&self) -> Vec<u8>;
    /// The values of all header fields of a name, in lower case: a request may have several, and any may be the attack.
    fn headers(&self, name: &str) -> Vec<Vec<u8>>;
}

/// The head of a request with what patches look at, worked out when the first of them asks, and once for all.
pub struct Prepared<'h> {
    head: &'h dyn Head,
    target: OnceCell<Vec<u8>>,
    method: OnceCell<Vec<u8>>,
    path: OnceCell<Spelled>,
    query: OnceCell<Vec<u8>>,
    arguments: OnceCell<Vec<(Vec<u8>, Vec<u8>)>>,
    too_long: OnceCell<bool>,
    work: Cell<Work>,
}

/// How much has been compared: bounds that hold on any machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes in which patterns were looked for, each as often as that happened.
    pub pattern_bytes: usize,
    /// Bytes, and segments of paths, that were compared with other values, at most.
    pub compared: usize,
}

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("target", &self.target).finish_non_exhaustive()
    }
}

impl<'h> Prepared<'h> {
    /// All of it together is linear in the length of the target.
    #[must_use]
    pub fn new(head: &'h dyn Head) -> Self {
        let (target, method, path, query, arguments) = Default::default();
        let (too_long, work) = Default::default();
        Self { head, target, method, path, query, arguments, too_long, work }
    }

    /// Whether path or query are longer than patches look at: [`PATH_BYTES_MAX`], [`PATH_SEGMENTS_MAX`] or
    /// [`TARGET_BYTES_MAX`]. Such a request is to be refused (414): all conditions on them count as holding.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        *self.too_long.get_or_init(|| {
            let (path, query) = self.parts();
            path.len() > PATH_BYTES_MAX
                // The question mark is one of them.
                || path.len() + query.len() >= TARGET_BYTES_MAX
                || self.path().segments() > PATH_SEGMENTS_MAX
        })
    }

    /// The work of all patches together so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work.get()
    }

    fn worked(&self, pattern_bytes: usize, compared: usize) {
        let Work { pattern_bytes: before, compared: compared_before } = self.work.get();
        self.work.set(Work {
            pattern_bytes: before.saturating_add(pattern_bytes),
            compared: compared_before.saturating_add(compared),
        });
    }

    /// Path and query, as they were sent. A fragment is neither.
    fn parts(&self) -> (&[u8], &[u8]) {
        let target = self.target.get_or_init(|| self.head.target());
        let target = target.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut parts = target.splitn(2, |byte| *byte == b'?');
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }

    fn method(&self) -> &[u8] {
        self.method.get_or_init(|| lower(self.head.method()))
    }

    fn path(&self) -> &Spelled {
        self.path.get_or_init(|| Spelled::new(self.parts().0))
    }

    fn query(&self) -> &[u8] {
        self.query.get_or_init(|| lower(form_decoded(self.parts().1)))
    }

    fn arguments(&self) -> &[(Vec<u8>, Vec<u8>)] {
        // An argument is split before it is decoded: `a%3Db` is no name and value.
        let argument = |pair: &[u8]| {
            let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at_checked(end).unwrap_or((pair, b""));
            (lower(form_decoded(name)), lower(form_decoded(value.get(1..).unwrap_or_default())))
        };
        self.arguments.get_or_init(|| {
            let pairs = self.parts().1.split(|byte| *byte == b'&');
            pairs.filter(|pair| !pair.is_empty()).map(argument).collect()
        })
    }
}

impl Patch {
    /// Reads a patch. Its fields `tests` and `note` are for people and other programs.
    ///
    /// # Errors
    ///
    /// At the first field that is wrong, and if the first condition is a pattern: every request would pay for it.
    pub fn read(value: &Value) -> Result<Self, PatchError> {
        const FIELDS: &[&str] =
            &["id", "cve", "title", "rule", "expires", "shadow", "forms", "when", "tests", "note"];
        let fields = value.as_object().ok_or_else(|| error("", "write an object"))?;
        known(fields, FIELDS, "")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let id = text(fields, "id")?;
        if id.is_empty() || !id.bytes().all(plain) {
            return Err(error("id", "write letters, digits, '-', '_' and '.'"));
        }
        let cve = text(fields, "cve")?;
        if !cve.starts_with("CVE-") || !cve.bytes().all(plain) {
            return Err(error("cve", "write such as CVE-2021-44228"));
        }
        let rule = fields.get("rule").and_then(Value::as_u64);
        let rule = rule.filter(|rule| (RULE_MIN..=RULE_MAX).contains(rule));
        let until_seconds = match fields.get("expires") {
            None => u64::MAX,
            Some(_) => day::since_1970(text(fields, "expires")?)
                .map(day::last_second)
                .ok_or_else(|| error("expires", "write a day, YYYY-MM-DD"))?,
        };
        let (shadow, forms) = (flag(fields, "shadow")?, flag(fields, "forms")?);
        let conditions = fields.get("when").and_then(Value::as_array);
        let conditions = conditions.filter(|list| (1..=CONDITIONS_MAX).contains(&list.len()));
        let wrong = || error("when", "write a list of 1 to 8 conditions");
        let conditions = conditions.ok_or_else(wrong)?.iter().enumerate();
        let title = text(fields, "title")?;
        if title.contains(|c: char| c.is_control() || "'\"\\%".contains(c)) {
            return Err(error(
                "title",
                "write it without quotes, '\\', '%' and control characters",
            ));
        }
        let rule = rule.ok_or_else(|| error("rule", "write a number from 9100000 to 9109999"))?;
        let conditions: Vec<_> = conditions
            .map(|(i, condition)| Condition::read(condition, &format!("when[{i}]")))
            .collect::<Result<_, _>>()?;
        if conditions.first().is_some_and(|first| first.operator == Operator::Regex) {
            let problem = format!(
                "the patch {id:?} begins with a pattern, which costs some hundred times what other conditions \
                 cost; write one with equals, prefix, suffix or contains before it"
            );
            return Err(error("when[0].regex", &problem));
        }
        let (id, cve, title) = (id.to_owned(), cve.to_owned(), title.to_owned());
        Ok(Self { id, cve, shadow, title, rule, until_seconds, forms, conditions })
    }

    /// Whether it still holds in this second.
    #[must_use]
    pub const fn holds(&self, now_seconds: u64) -> bool {
        now_seconds <= self.until_seconds
    }

    /// Whether a request is what the patch describes. Linear in the request, for each value.
    #[must_use]
    pub fn matches(&self, prepared: &Prepared<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(prepared))
    }

    /// The patch as a chain of rules: of phase 1, or of phase 2 if it looks at forms in bodies as well.
    #[must_use]
    pub fn to_seclang(&self) -> String {
        let Self { id, cve, title, rule, .. } = self;
        let mut out = String::new();
        let phase = if self.forms { 2 } else { 1 };
        let action = if self.shadow { "pass" } else { "deny,status:403" };
        for (i, condition) in self.conditions.iter().enumerate() {
            let (variable, transformations) = condition.target.seclang(self.forms);
            let pattern = condition.pattern();
            let head = match i {
                0 => format!(
                    "id:{rule},phase:{phase},{action},log,msg:'{title}',tag:'virtual-patch/{id}',\
                     tag:'{cve}',"
                ),
                _ => String::new(),
            };
            let chain = if i + 1 < self.conditions.len() { ",chain" } else { "" };
            // Writing to a text cannot fail.
            let _ = writeln!(
                out,
                "SecRule {variable} \"@rx {pattern}\" \"{head}{transformations}{chain}\""
            );
        }
        out
    }
}

impl Condition {
    fn read(value: &Value, path: &str) -> Result<Self, PatchError> {
        const OPERATORS: &[(&str, Operator)] = &[
            ("equals", Operator::Equals),
            ("prefix", Operator::Prefix),
            ("suffix", Operator::Suffix),
            ("contains", Operator::Contains),
            ("regex", Operator::Regex),
        ];
        let fields = value.as_object().ok_or_else(|| error(path, "write an object"))?;
        let names = ["target", "name", "equals", "prefix", "suffix", "contains", "regex"];
        known(fields, &names, path)?;
        let at = |name: &str| format!("{path}.{name}");
        let names = || {
            let rule = "write letters, digits, '-', '_' and '.'";
            fields.get("name").and_then(plain_names).ok_or_else(|| error(&at("name"), rule))
        };
        let name = || match names()?.as_slice() {
            [name] => Ok(name.clone()),
            _ => Err(error(&at("name"), "write one name")),
        };
        let target = match fields.get("target").and_then(Value::as_str) {
            Some("method") => Target::Method,
            Some("path") => Target::Path,
            Some("query") => Target::Query,
            Some("header") => Target::Header(names()?),
            Some("argument") => Target::Argument(name()?),
            _ => {
                let rule = "write method, path, query, header or argument";
                return Err(error(&at("target"), rule));
            }
        };
        let mut given = OPERATORS.iter().filter(|(name, _)| fields.contains_key(*name));
        let (Some((name, operator)), None) = (given.next(), given.next()) else {
            return Err(error(path, "write one of equals, prefix, suffix, contains and regex"));
        };
        let values = fields.get(*name).and_then(values).ok_or_else(|| {
            error(&at(name), "write a text, or a list of up to 16, of visible ASCII")
        })?;
        let operator = *operator;
        if operator == Operator::Regex {
            let of_path = target == Target::Path;
            let pattern = |value: &String| Pattern::new(value, of_path);
            let patterns = values.iter().map(pattern).collect::<Result<_, _>>();
            let patterns = patterns.map_err(|problem| error(&at(name), &problem))?;
            return Ok(Self { target, operator, values, patterns, wanted: Vec::new() });
        }
        let values: Vec<_> = values.iter().map(|text| text.to_ascii_lowercase()).collect();
        let wanted = match (&target, operator.place()) {
            (Target::Path, Some(place)) => {
                let wanted = values.iter().map(|value| Wanted::new(place, value));
                wanted.collect::<Result<_, _>>().map_err(|problem| error(&at(name), &problem))?
            }
            _ => Vec::new(),
        };
        Ok(Self { target, operator, values, patterns: Vec::new(), wanted })
    }

    fn holds(&self, prepared: &Prepared<'_>) -> bool {
        let fits = |given: &[u8]| self.fits(given, prepared);
        match &self.target {
            Target::Method => fits(prepared.method()),
            Target::Header(names) => {
                let mut values = names.iter().flat_map(|name| prepared.head.headers(name));
                values.any(|value| fits(&lower(value)))
            }
            Target::Path | Target::Query | Target::Argument(_) if prepared.is_too_long() => true,
            Target::Path if self.patterns.is_empty() => {
                let path = prepared.path();
                self.wanted.iter().any(|wanted| {
                    prepared.worked(0, wanted.work(path));
                    wanted.is_in(path)
                })
            }
            Target::Path => fits(prepared.path().text()),
            Target::Query => fits(prepared.query()),
            Target::Argument(name) => {
                let named = |(given, _): &&(Vec<u8>, Vec<u8>)| is_named(given, name.as_bytes());
                let arguments = prepared.arguments();
                prepared.worked(0, arguments.len());
                arguments.iter().filter(named).any(|(_, value)| fits(value))
            }
        }
    }

    fn fits(&self, given: &[u8], prepared: &Prepared<'_>) -> bool {
        if !self.patterns.is_empty() {
            if given.len() > PATTERN_BYTES_MAX {
                return true;
            }
            let text = as_chars(given);
            return self.patterns.iter().any(|pattern| {
                prepared.worked(given.len(), 0);
                pattern.is_in(&text)
            });
        }
        self.values.iter().map(String::as_bytes).any(|value| {
            let whole = self.operator == Operator::Contains;
            prepared.worked(0, if whole { given.len() } else { value.len() });
            match self.operator {
                Operator::Equals => given == value,
                Operator::Prefix => given.starts_with(value),
                Operator::Suffix => given.ends_with(value),
                Operator::Contains => contains(given, value),
                // Has been looked for above.
                Operator::Regex => false,
            }
        })
    }

    /// What fits, as a pattern; whatever is no letter or digit is written as a number.
    fn pattern(&self) -> String {
        if self.operator == Operator::Regex {
            let any: Vec<_> = self.patterns.iter().map(Pattern::text).collect();
            // A value that is too long for a pattern counts as if it had it.
            return format!("{FLAGS}(?:{}|\\A.{{{PATTERN_BYTES_MAX}}}.)", any.join("|"));
        }
        if !self.wanted.is_empty() {
            let any: Vec<_> = self.wanted.iter().map(Wanted::pattern).collect();
            return format!("{FLAGS}(?:{})", any.join("|"));
        }
        let any = self.values.iter().map(|value| escaped(value.as_bytes())).collect::<Vec<_>>();
        let any = any.join("|");
        match self.operator {
            Operator::Equals => format!("\\A(?:{any})\\z"),
            Operator::Prefix => format!("\\A(?:{any})"),
            Operator::Suffix => format!("(?:{any})\\z"),
            Operator::Contains | Operator::Regex => format!("(?:{any})"),
        }
    }
}

impl Operator {
    /// Where a value is in a path; `None` for a pattern, which says so itself.
    const fn place(self) -> Option<Place> {
        match self {
            Self::Equals => Some(Place::Whole),
            Self::Prefix => Some(Place::First),
            Self::Suffix => Some(Place::Last),
            Self::Contains => Some(Place::Anywhere),
            Self::Regex => None,
        }
    }
}

impl Target {
    /// The variable and its transformations; with `forms` those of a body, too.
    fn seclang(&self, forms: bool) -> (String, &'static str) {
        match self {
            Self::Method => ("REQUEST_METHOD".to_owned(), "t:none,t:lowercase"),
            // The engine has decoded it once.
            Self::Path => {
                ("REQUEST_FILENAME".to_owned(), "t:none,t:urlDecodeUni,t:urlDecodeUni,t:lowercase")
            }
            Self::Query => {
                let body = if forms { "|REQUEST_BODY" } else { "" };
                (format!("QUERY_STRING{body}"), "t:none,t:urlDecode,t:lowercase")
            }
            Self::Header(names) => {
                let names: Vec<_> =
                    names.iter().map(|name| format!("REQUEST_HEADERS:{name}")).collect();
                (names.join("|"), "t:none,t:lowercase")
            }
            Self::Argument(name) => {
                let arguments = if forms { "ARGS" } else { "ARGS_GET" };
                let name = name_pattern(name.as_bytes());
                (format!("{arguments}:/{name}/"), "t:none,t:lowercase")
            }
        }
    }
}

/// One name or a list of them, in lower case.
fn plain_names(value: &Value) -> Option<Vec<String>> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let names = values(value)?;
    let fits = names.iter().all(|name| name.bytes().all(plain));
    fits.then(|| names.iter().map(|name| name.to_ascii_lowercase()).collect())
}

fn values(value: &Value) -> Option<Vec<String>> {
    let texts: Vec<&str> = match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let plain = |text: &&str| {
        (1..=TEXT_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    };
    let fits = (1..=VALUES_MAX).contains(&texts.len()) && texts.iter().all(plain);
    fits.then(|| texts.iter().map(|text| (*text).to_owned()).collect())
}

fn known(fields: &Map<String, Value>, names: &[&str], path: &str) -> Result<(), PatchError> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(error(path, &format!("there is no field {name:?} in it"))),
        None => Ok(()),
    }
}

fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool, PatchError> {
    match fields.get(name) {
        None => Ok(false),
        Some(given) => given.as_bool().ok_or_else(|| error(name, "write true or false")),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, PatchError> {
    let text = fields.get(name).and_then(Value::as_str);
    text.filter(|text| text.len() <= TEXT_BYTES_MAX)
        .ok_or_else(|| error(name, &format!("write a text of up to {TEXT_BYTES_MAX} bytes")))
}

fn error(path: &str, problem: &str) -> PatchError {
    PatchError { path: path.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests;
