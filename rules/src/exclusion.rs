//! Exclusions in a typed form: what is left out, where, who answers for it, why, and until when.
//!
//! They become SecLang. One that holds everywhere becomes a directive (`SecRuleRemoveById`,
//! `SecRuleUpdateTargetById` and their like by tag); one that holds for a path becomes a rule of phase 1
//! with `ctl`, which does nothing where the path could mean another one to the application: `/wiki/../pay`
//! must not be excused because of `/wiki/`.

use core::fmt::{self, Write as _};

use crate::date::Date;

/// Exclusions that one ruleset may have: each has a rule id of its own.
pub const EXCLUSIONS_MAX: usize = 800;

/// The first of the ids that exclusions with a path take, one each.
pub const EXCLUSION_ID_MIN: u32 = 100_100;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// Rules, as ids or ranges of ids: `942100`, `942000-942999`.
    pub rules: Vec<String>,
    /// Rules, as tags that they have.
    pub tags: Vec<String>,
    /// Targets that these rules leave out, such as `ARGS:comment`; when there are none, the rules do not
    /// run at all.
    pub targets: Vec<String>,
    /// The only path for which it holds; one that ends with `/` stands for everything below it.
    pub path: Option<String>,
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
        match &exclusion.path {
            Some(path) => {
                let id = u32::try_from(position).unwrap_or(u32::MAX);
                exclusion.push_rule(&mut rules.before, EXCLUSION_ID_MIN.saturating_add(id), path);
            }
            None => exclusion.push_directives(&mut rules.after),
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

    /// A rule for one path. The second link keeps away paths that could mean another one.
    fn push_rule(&self, out: &mut String, id: u32, path: &str) {
        let operator = if path.ends_with('/') { "@beginsWith" } else { "@streq" };
        // Writing to a `String` cannot fail, here and below.
        let _ = writeln!(
            out,
            "SecRule REQUEST_FILENAME \"{operator} {path}\" \"id:{id},phase:1,pass,nolog,t:none,chain\"\n\
             SecRule REQUEST_URI_RAW \"!@rx {AMBIGUOUS_PATH}\" \"t:none,{}\"",
            self.controls().join(",")
        );
    }

    fn controls(&self) -> Vec<String> {
        let by = |kind: &str, names: &[String]| -> Vec<String> {
            let of = |name: &String| match self.targets.as_slice() {
                [] => vec![format!("ctl:ruleRemoveBy{kind}={name}")],
                targets => targets
                    .iter()
                    .map(|target| format!("ctl:ruleRemoveTargetBy{kind}={name};{target}"))
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
                    let _ = writeln!(out, "SecRuleUpdateTargetBy{kind} \"{name}\" \"!{target}\"");
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

/// A variable, perhaps with a plain selector. A selector that is a pattern is left to SecLang.
fn is_target(text: &str) -> bool {
    let (variable, selector) = text.split_once(':').unwrap_or((text, "-"));
    let part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[]".contains(&byte);
    !variable.is_empty()
        && variable.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        && !selector.is_empty()
        && selector.bytes().all(part)
}

/// A path that can stand in a rule as it is, and that the application sees as it is written.
fn is_path(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/@:+,=!*()&".contains(&byte);
    text.starts_with('/') && text.bytes().all(good) && !text.contains("//") && !text.contains("/.")
}
