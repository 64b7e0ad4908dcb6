//! Tests that are skipped or expect something else, each with its reason.

use std::{collections::BTreeMap, path::Path};

use glacis_rules::FileSource;
use serde::Deserialize;

use super::suite::{self, Output};
use crate::output::Fault;

/// All overrides, by the name of the test.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    by_name: BTreeMap<String, Override>,
}

/// What is said about one test.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    pub(crate) reason: String,
    /// What is expected instead, of every stage; `None` when the test is skipped.
    pub(crate) expect: Option<Output>,
}

impl Overrides {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Override> {
        self.by_name.get(name)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    overrides: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    test: Option<String>,
    #[serde(default)]
    tests: Vec<String>,
    reason: String,
    #[serde(default)]
    skip: bool,
    #[serde(default)]
    expect: Option<Output>,
}

/// Reads a file of overrides.
///
/// # Errors
/// When it is not of its form, names a test twice or none, gives no reason, or neither skips nor
/// expects.
pub(crate) fn load(path: &Path) -> Result<Overrides, Fault> {
    let Some(name) = path.to_str() else {
        return Err(Fault::Input(format!("{}: the name is not UTF-8", path.display())));
    };
    let text = suite::read_text(&FileSource::new(), name)?;
    let file: File = suite::parse(name, &text)?;
    let mut overrides = Overrides::default();
    for entry in file.overrides {
        let value = Override { reason: entry.reason, expect: entry.expect };
        let tests: Vec<String> = entry.test.into_iter().chain(entry.tests).collect();
        let Some(first) = tests.first() else {
            return Err(Fault::Input(format!("{name}: an override names no test")));
        };
        if value.reason.trim().is_empty() {
            return Err(Fault::Input(format!("{name}: {first}: there is no reason")));
        }
        if entry.skip == value.expect.is_some() {
            let message = format!("{name}: {first}: either `skip: true` or `expect` is needed");
            return Err(Fault::Input(message));
        }
        for test in tests {
            if overrides.by_name.insert(test.clone(), value.clone()).is_some() {
                return Err(Fault::Input(format!("{name}: {test}: named twice")));
            }
        }
    }
    Ok(overrides)
}
