//! Members without I/O forbid the same. Clippy reads the nearest `clippy.toml` and no other, so each of them has a copy.

use super::Finding;
use super::dependencies::{Member, PURE};
use super::tree::Tree;

pub(super) fn check(tree: &Tree, members: &[Member]) -> Vec<Finding> {
    let known = |name: &&str| members.iter().find(|member| member.name == **name);
    let file = |member: &Member| format!("{}/clippy.toml", member.folder());
    let files: Vec<String> = PURE.iter().filter_map(known).map(file).collect();
    let Some(first) = files.first() else { return Vec::new() };
    let wanted = tree.text(first).unwrap_or_default();
    let finding = |file: &String| {
        let Some(there) = tree.text(file) else {
            return Some(Finding::new(file, 1, "missing, in a member without I/O"));
        };
        let same = there.lines().zip(wanted.lines()).take_while(|(one, other)| one == other);
        let line = same.count() + 1;
        (there != wanted).then(|| Finding::new(file, line, format!("from here on not as {first}")))
    };
    files.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tidy::tests::check as check_tree;

    #[test]
    fn who_is_pure_forbids_the_same() {
        let member = |name: &str| Member {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            uses: BTreeSet::new(),
            foreign: BTreeSet::new(),
        };
        // The last one may do I/O.
        let members = ["glacis-engine", "glacis-limits", "seclang", "glacis-service"].map(member);
        let files = |engine, limits, seclang| {
            [
                ("glacis-engine/clippy.toml", engine),
                ("glacis-limits/clippy.toml", limits),
                ("seclang/clippy.toml", seclang),
            ]
        };
        let check = |tree: &Tree| check(tree, &members);
        check_tree(check, &files("a\nb\n", "a\nb\n", "a\nb\n"), &[]);
        check_tree(
            check,
            &files("a\nc\n", "a\nb\n", "a\nb\n"),
            &["glacis-engine/clippy.toml:2: from here on not as seclang/clippy.toml"],
        );
        check_tree(
            check,
            &files("a\n", "a\nb\nc\n", "a\nb\n")[1..],
            &[
                "glacis-engine/clippy.toml:1: missing, in a member without I/O",
                "glacis-limits/clippy.toml:3: from here on not as seclang/clippy.toml",
            ],
        );
    }
}
