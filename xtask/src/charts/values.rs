//! The values: which there are, and that each stands in a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{self, Failure, Outcome};

/// A value of `values.yaml`.
pub(super) struct Value {
    /// Its path, with dots.
    pub(super) path: String,
    pub(super) default: String,
    /// The comment above it that begins with `--`.
    pub(super) about: Option<String>,
    /// Whether something stands below it.
    pub(super) is_group: bool,
}

/// The files of values in `tests/`, sorted.
pub(super) fn test_files(chart: &Path) -> Outcome<Vec<PathBuf>> {
    let folder = chart.join("tests");
    let entries = fs::read_dir(&folder).map_err(failure::io("list", &folder))?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".values.yaml"));
    files.sort();
    Ok(files)
}

/// Reads what we write in such files: keys in block style, one a line.
pub(super) fn read(path: &Path) -> Outcome<Vec<Value>> {
    let text = fs::read_to_string(path).map_err(failure::io("read", path))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    let mut about: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(comment) = trimmed.strip_prefix('#') {
            about = comment.trim().strip_prefix("-- ").map(str::to_owned).or(about);
            continue;
        }
        let indent = line.len() - trimmed.len();
        let key = trimmed.split_once(':').filter(|(key, rest)| {
            (rest.is_empty() || rest.starts_with(' '))
                && key.chars().all(|c| c.is_alphanumeric() || c == '_')
        });
        let Some((key, rest)) = key else {
            about = None;
            continue;
        };
        parents.retain(|(parent, _)| *parent < indent);
        let above = parents.last().map(|(_, path)| path.as_str());
        let path = above.map_or_else(|| key.to_owned(), |above| format!("{above}.{key}"));
        if let Some(parent) = values.iter_mut().find(|value| Some(value.path.as_str()) == above) {
            parent.is_group = true;
        }
        let default = rest.trim().to_owned();
        values.push(Value { path: path.clone(), default, about: about.take(), is_group: false });
        parents.push((indent, path));
    }
    values
}

/// Every value stands in a test, and is explained.
pub(super) fn check(chart: &Path, files: &[PathBuf]) -> Outcome<()> {
    let mut tried = BTreeSet::new();
    for file in files {
        tried.extend(read(file)?.into_iter().map(|value| value.path));
    }
    let values = read(&chart.join("values.yaml"))?;
    let mut wrong = Vec::new();
    for value in &values {
        let free_form = values.iter().any(|other| {
            other.about.is_some()
                && value.path.strip_prefix(&other.path).is_some_and(|rest| rest.starts_with('.'))
        });
        if !value.is_group && !free_form && value.about.is_none() {
            wrong.push(format!("{}: no comment that begins with `--`", value.path));
        }
        // `a: {b: c}` in a test sets a.b as well: that a stands there is enough.
        let stands = |path: &str| tried.contains(path);
        let parent = value.path.rsplit_once('.').map_or("", |(parent, _)| parent);
        if value.about.is_some() && !stands(&value.path) && !inline(files, &value.path, parent)? {
            wrong.push(format!("{}: stands in no file of tests/", value.path));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

/// Whether a test has the value as `parent: {… key: …}`.
fn inline(files: &[PathBuf], path: &str, parent: &str) -> Outcome<bool> {
    let key = path.rsplit_once('.').map_or(path, |(_, key)| key);
    for file in files {
        let found = read(file)?.into_iter().any(|value| {
            value.path == parent
                && value.default.starts_with('{')
                && value.default.contains(&format!("{key}:"))
        });
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_comments() {
        let values = parse(
            "# head\na:\n  # -- First.\n  b: 1\n  # -- Second.\n  c:\n    d: [x]\n# -- Third.\ne: {}\n",
        );
        let told: Vec<_> = values
            .iter()
            .map(|value| {
                (
                    value.path.as_str(),
                    value.default.as_str(),
                    value.about.as_deref(),
                    value.is_group,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("a", "", None, true),
                ("a.b", "1", Some("First."), false),
                ("a.c", "", Some("Second."), true),
                ("a.c.d", "[x]", None, false),
                ("e", "{}", Some("Third."), false),
            ]
        );
    }
}
