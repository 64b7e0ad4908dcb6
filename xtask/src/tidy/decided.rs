//! What we build on has a reason: each direct dependency of the workspace has a row in the decision on
//! dependencies, with the version that is locked.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::dependencies::Member;
use super::tree::Tree;
use crate::lock;

const TABLE: &str = "docs/decisions/0029-dependencies.md";
const LOCK: &str = "Cargo.lock";

/// How the headings begin above rows of crates, and the one whose crates are locked elsewhere.
const CRATES: &str = "Crates: ";
const ELSEWHERE: &str = "Crates: workspaces of their own";

pub(super) fn check(tree: &Tree, members: &[Member]) -> Vec<Finding> {
    let (Some(table), Some(lock)) = (tree.text(TABLE), tree.text(LOCK)) else {
        return vec![Finding::new(TABLE, 1, format!("this file or {LOCK} is missing"))];
    };
    let rows = rows(table);
    let locked: BTreeSet<(&str, &str)> =
        lock::packages(lock).map(|package| (package.name, package.version)).collect();
    let mut findings = Vec::new();
    for member in members {
        for name in member.foreign.iter().filter(|name| !rows.contains_key(name.as_str())) {
            let wanted = "write what it is for, and what else would do";
            let message = format!("`{name}` has no row in {TABLE}: {wanted}");
            findings.push(Finding::new(&member.manifest, 1, message));
        }
    }
    let used: BTreeSet<&str> =
        members.iter().flat_map(|member| &member.foreign).map(String::as_str).collect();
    for (name, (version, line)) in rows {
        if !used.contains(name) {
            let message = format!("nothing depends on `{name}` any more: take the row out");
            findings.push(Finding::new(TABLE, line, message));
        } else if !locked.contains(&(name, version)) {
            let message = format!("`{name}` is not {version} in {LOCK}");
            findings.push(Finding::new(TABLE, line, message));
        }
    }
    findings
}

/// Name → version and line, of the rows below headings of crates.
fn rows(text: &str) -> BTreeMap<&str, (&str, usize)> {
    let (mut of_crates, mut rows) = (false, BTreeMap::new());
    for (index, line) in text.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            of_crates = heading.starts_with(CRATES) && heading != ELSEWHERE;
        }
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next().and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
        if let (true, Some(name), Some(version)) = (of_crates, name, cells.next()) {
            rows.insert(name, (version, index + 1));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::check as check_tree;

    #[test]
    fn each_dependency_has_its_row() {
        let table = "## Crates: one\n\n| `a` | 1.0.0 | x | y |\n| `b` | 2.0.0 | x | y |\n\
                     | `gone` | 1.0.0 | x | y |\n\n## Crates: workspaces of their own\n\n\
                     | `other` | 9 | x | y |\n\n## Go modules\n\n| `go` | 1 | x | y |\n";
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.1\"\n";
        let member = Member {
            name: "m".to_owned(),
            manifest: "m/Cargo.toml".to_owned(),
            uses: BTreeSet::new(),
            foreign: ["a", "b", "c"].map(str::to_owned).into(),
        };
        check_tree(
            |tree| check(tree, std::slice::from_ref(&member)),
            &[(LOCK, lock), (TABLE, table)],
            &[
                "m/Cargo.toml:1: `c` has no row in docs/decisions/0029-dependencies.md: write what \
                 it is for, and what else would do",
                "docs/decisions/0029-dependencies.md:4: `b` is not 2.0.0 in Cargo.lock",
                "docs/decisions/0029-dependencies.md:5: nothing depends on `gone` any more: take the row out",
            ],
        );
    }
}
