//! What the repository says of its version: the changelog's section, and the places that name it.

use std::fs;
use std::path::Path;

use super::Kind;
use crate::failure::{self, Failure, Outcome};

/// The version of all crates.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is to become the next version.
const UNRELEASED: &str = "## Unreleased";

/// Where images are named with their version. What is made of the chart is not among them.
const NAMED: [&str; 4] = ["Dockerfile", "docker-compose.yaml", "docs/attach.md", "docs/images.md"];

/// How they are called there.
const IMAGES: [&str; 3] = ["glacis-ext-proc:", "glacis-ext-authz:", "glacis-wasm:"];

/// Whether all say the same, and what the changelog says of it.
pub(super) fn told(root: &Path, kind: Kind) -> Outcome<String> {
    let read = |name: &str| {
        let file = root.join(name);
        fs::read_to_string(&file).map_err(failure::io("read", &file))
    };
    is_the_charts(&read("charts/glacis/Chart.yaml")?)?;
    for name in NAMED {
        if let Some(other) = other_version(&read(name)?) {
            let told = format!("{name} names an image of {other}; write {VERSION}");
            return Err(Failure::new(told));
        }
    }
    changes(&read("CHANGELOG.md")?, VERSION, kind)
}

/// What the changelog says of a version, or of what is to become one.
fn changes(changelog: &str, version: &str, kind: Kind) -> Outcome<String> {
    let own = format!("## {version}");
    let is_there = |heading: &str| changelog.lines().any(|line| is_heading(line, heading));
    let heading = match kind {
        Kind::Draft if is_there(UNRELEASED) => UNRELEASED,
        Kind::Draft | Kind::Version => &own,
    };
    let mut lines = changelog.lines().skip_while(|line| !is_heading(line, heading));
    let first = lines.next().ok_or_else(|| {
        Failure::new(format!("CHANGELOG.md has no section `{heading}`: write what changes"))
    })?;
    let section = lines.take_while(|line| !line.starts_with("## "));
    let text: String =
        std::iter::once(first).chain(section).map(|line| format!("{line}\n")).collect();
    Ok(format!("{}\n", text.trim_end()))
}

/// `## 1.2.3`, or that with a date behind it.
fn is_heading(line: &str, heading: &str) -> bool {
    line.strip_prefix(heading).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The chart has the version of the programs, whose images it names.
fn is_the_charts(chart: &str) -> Outcome<()> {
    for key in ["version", "appVersion"] {
        let told = chart.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        if told.map(|told| told.trim_matches('"')) != Some(VERSION) {
            let told = told.unwrap_or("nothing");
            return Err(Failure::new(format!(
                "Chart.yaml says {key}: {told}; write {VERSION}, the version of the crates"
            )));
        }
    }
    Ok(())
}

/// A version that is not ours, of an image that is.
fn other_version(text: &str) -> Option<&str> {
    let behind = IMAGES.iter().flat_map(|image| text.split(image).skip(1));
    let is_part = |character: char| character.is_ascii_alphanumeric() || ".-".contains(character);
    let versions = behind.filter_map(|rest| rest.split(|character| !is_part(character)).next());
    let mut versions = versions.map(|version| version.trim_end_matches('.'));
    let is_version = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    versions.find(|version| is_version(version) && *version != VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str =
        "# Changelog\n\n## Unreleased\n\nA.\n\n## 1.2.10 - 2026-01-01\n\nB.\n\n## 1.2.1\n\nC.\n";

    #[test]
    fn a_version_has_its_own_section() {
        let told = |version, kind| changes(CHANGELOG, version, kind).ok();
        let rows = [
            ("1.2.1", Kind::Version, Some("## 1.2.1\n\nC.\n")),
            ("1.2.10", Kind::Version, Some("## 1.2.10 - 2026-01-01\n\nB.\n")),
            ("1.2", Kind::Version, None),
            ("1.2.1", Kind::Draft, Some("## Unreleased\n\nA.\n")),
        ];
        for (version, kind, expected) in rows {
            assert_eq!(told(version, kind).as_deref(), expected, "{version}");
        }
        let released = changes("# Changelog\n\n## 1.2.1\n\nC.\n", "1.2.1", Kind::Draft);
        assert_eq!(released.ok().as_deref(), Some("## 1.2.1\n\nC.\n"));
    }

    #[test]
    fn the_chart_has_the_version_of_the_programs() {
        let both = format!("name: glacis\nversion: {VERSION}\nappVersion: \"{VERSION}\"\n");
        assert!(is_the_charts(&both).is_ok());
        assert!(is_the_charts(&both.replace("appVersion", "other")).is_err());
        assert!(is_the_charts("version: 0.0.0\nappVersion: 0.0.0\n").is_err());
    }

    #[test]
    fn images_have_the_version_of_the_programs() {
        let ours = format!("-t glacis-wasm:{VERSION} .\nimage: x/glacis-ext-proc:{VERSION}\n");
        let rows = [
            (ours.clone(), None),
            (format!("`glacis-wasm:{VERSION}`, and glacis-wasm:{VERSION}."), None),
            ("glacis-ext-proc: a service\nredis:0.0.7".to_owned(), None),
            (format!("{ours}glacis-ext-authz:0.0.7\n"), Some("0.0.7")),
            ("`glacis-wasm:0.0.7-rc1`".to_owned(), Some("0.0.7-rc1")),
        ];
        for (text, expected) in rows {
            assert_eq!(other_version(&text), expected, "{text}");
        }
    }
}
