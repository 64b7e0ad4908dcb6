//! Which files and rules are the Core Rule Set's own, and which are the user's.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use glacis_engine::{Input, Source as _};
use glacis_rules::{CRS_FILES, CRS_VERSION, FileSource};
use sha2::{Digest as _, Sha256};

use super::statement::{Statement, statements};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A file of the pinned release, unchanged.
    Unchanged,
    /// A file of rules of CRS, changed or of another release.
    Rules,
    /// `crs-setup.conf`, changed or of another release.
    Setup,
    /// The user's.
    Own,
}

/// What is known of the pinned CRS.
#[derive(Debug, Default)]
pub(super) struct Crs {
    /// Its rules by their ids, each in one line; empty where no folder of CRS could be read.
    rules: BTreeMap<u64, String>,
}

impl Crs {
    /// Reads the rules in the folder, if there is one.
    pub(super) fn read(folder: Option<&Path>) -> Self {
        let mut rules = BTreeMap::new();
        let source = FileSource::new();
        for input in folder.and_then(|folder| glacis_rules::crs(folder).ok()).into_iter().flatten()
        {
            let Input::File(path) = input else { continue };
            let Ok(file) = source.read(&path, "") else { continue };
            let text = String::from_utf8_lossy(&file.bytes);
            for rule in statements(&text, &path, 1) {
                rules.extend(rule.id().map(|id| (id, flat(&rule.text))));
            }
        }
        Self { rules }
    }

    /// Whether a rule of a file of CRS is CRS's, by its id.
    pub(super) fn owns(&self, statement: &Statement) -> bool {
        let by_id = |id: u64| self.rules.contains_key(&id) || (901_000..=999_999).contains(&id);
        match statement.name.as_str() {
            "secrule" | "secaction" => statement.id().is_some_and(by_id),
            "secmarker" => statement.value().to_ascii_uppercase().starts_with("END-RE"),
            "seccomponentsignature" => true,
            _ => false,
        }
    }

    /// Those of these ids that the release to be used does not have; none where its ids are not known.
    pub(super) fn unknown(&self, ids: &BTreeSet<u64>) -> Vec<u64> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        ids.iter().filter(|id| !self.rules.contains_key(id)).copied().collect()
    }

    /// Whether a rule with an id of CRS's is as CRS made it, in this release or another.
    pub(super) fn made(&self, statement: &Statement) -> bool {
        let pinned = statement.id().and_then(|id| self.rules.get(&id));
        if pinned.is_some_and(|rule| *rule == flat(&statement.text)) {
            return true;
        }
        // Rules of CRS carry their release; in older ones those do not that only skip others.
        let lower = statement.text.to_ascii_lowercase();
        let version = lower.split_once("ver:'owasp_crs/").map(|(_, rest)| rest);
        let version = version.and_then(|rest| rest.split('\'').next());
        match version {
            Some(version) => version != CRS_VERSION || self.rules.is_empty(),
            None => !statement.is_rule() || lower.contains("skipafter:end-"),
        }
    }
}

/// A text in one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a setting is in the `crs-setup.conf` that CRS comes with.
pub(super) fn is_default_of_setup(statement: &Statement) -> bool {
    let flat = flat(&statement.text).to_ascii_lowercase();
    statement.id() == Some(900_990)
        || ["phase:1,log,auditlog,pass", "phase:2,log,auditlog,pass"]
            .iter()
            .any(|actions| flat == format!("secdefaultaction \"{actions}\""))
}

/// What a file is, by its content first and by its name then.
pub(super) fn kind(path: &str, bytes: &[u8]) -> FileKind {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if pinned().any(|(known, file)| known == digest && file.ends_with(".conf")) {
        return FileKind::Unchanged;
    }
    let is_setup = pinned().any(|(known, file)| known == digest && file.starts_with("crs-setup"));
    if is_setup || is_setup_name(path) {
        return FileKind::Setup;
    }
    if is_rules_name(path) { FileKind::Rules } else { FileKind::Own }
}

fn pinned() -> impl Iterator<Item = (&'static str, &'static str)> {
    CRS_FILES.lines().filter_map(|line| line.split_once("  "))
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// Whether a file is called as the file of settings of CRS is.
pub(super) fn is_setup_name(path: &str) -> bool {
    base_name(path).trim_start_matches('@').to_ascii_lowercase().starts_with("crs-setup")
}

/// Whether a file is called as files of rules of CRS are: `REQUEST-942-…`. CRS keeps 900 and 999 for its users, and names
/// with a point (`REQUEST-903.9001-…`) for packages of exclusions.
pub(super) fn is_rules_name(path: &str) -> bool {
    let name = base_name(path).to_ascii_uppercase();
    let number = name.strip_prefix("REQUEST-").or_else(|| name.strip_prefix("RESPONSE-"));
    let Some((number, rest)) = number.and_then(|rest| rest.split_once('-')) else { return false };
    let number: u32 = number.parse().unwrap_or_default();
    let is_of_users = rest.contains("EXCLUSION-RULES") || number == 900;
    (901..=999).contains(&number) && !is_of_users
}

/// Files of attack rules of the pinned CRS whose rules can be left out, as the number in their names: not those that
/// set up and add up scores.
pub(super) fn attack_numbers() -> BTreeSet<u32> {
    let files = pinned().filter(|(_, file)| file.ends_with(".conf") && is_rules_name(file));
    let numbers = files.filter_map(|(_, file)| number(file));
    numbers.filter(|number| !matches!(number, 901 | 905 | 949 | 959 | 980 | 999)).collect()
}

/// The number in the name of a file of rules.
pub(super) fn number(path: &str) -> Option<u32> {
    base_name(path).split('-').nth(1)?.parse().ok()
}

/// The name of the release whose rules are used.
pub(super) fn release() -> String {
    format!("CRS {CRS_VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_of_crs_or_of_the_user() {
        for (name, expected) in [
            ("rules/REQUEST-942-APPLICATION-ATTACK-SQLI.conf", FileKind::Rules),
            ("rules/RESPONSE-980-CORRELATION.conf", FileKind::Rules),
            ("/etc/crs/crs-setup.conf", FileKind::Setup),
            ("rules/REQUEST-900-EXCLUSION-RULES-BEFORE-CRS.conf", FileKind::Own),
            ("rules/RESPONSE-999-EXCLUSION-RULES-AFTER-CRS.conf", FileKind::Own),
            ("rules/REQUEST-903.9001-DRUPAL-EXCLUSION-RULES.conf", FileKind::Own),
            ("/etc/nginx/my-crs-exclusions.conf", FileKind::Own),
            ("/usr/local/coreruleset/modsecurity.conf", FileKind::Own),
        ] {
            assert_eq!(kind(name, b"SecRuleEngine On\n"), expected, "{name}");
        }
        assert!(attack_numbers().contains(&942) && !attack_numbers().contains(&949));
    }
}
