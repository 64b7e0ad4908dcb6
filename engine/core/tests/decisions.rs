//! `docs/decisions` and the fixtures that test what is said there belong together.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads its data and ends at what it did not expect"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const FIXTURES: &str = "engine/core/tests/data/transactions/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The fixtures that a document names.
fn named(text: &str) -> BTreeSet<String> {
    let paths = text.split('`').filter_map(|code| code.strip_prefix(FIXTURES));
    paths.map(str::to_owned).collect()
}

#[test]
fn every_decision_names_a_fixture_and_is_listed() {
    let list = fs::read_to_string(root().join("docs/decisions/README.md")).unwrap();
    let there: BTreeSet<String> = names(FIXTURES).into_iter().collect();
    for name in names("docs/decisions").iter().filter(|name| *name != "README.md") {
        let text = fs::read_to_string(root().join("docs/decisions").join(name)).unwrap();
        let fixtures = named(&text);
        assert!(!fixtures.is_empty(), "{name} names no fixture");
        assert!(fixtures.is_subset(&there), "{name}: {fixtures:?}");
        assert!(list.contains(&format!("({name})")), "{name} is not listed in README.md");
    }
}

#[test]
fn every_fixture_of_a_decision_is_named_by_one() {
    let texts = names("docs/decisions").into_iter();
    let named: BTreeSet<String> = texts
        .flat_map(|name| {
            named(&fs::read_to_string(root().join("docs/decisions").join(name)).unwrap())
        })
        .collect();
    for name in names(FIXTURES).iter().filter(|name| name.starts_with("decided_")) {
        assert!(named.contains(name), "{name} is named by no decision");
    }
}
