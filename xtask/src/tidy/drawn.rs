//! The code map of `ARCHITECTURE.md` draws the edges that are allowed, all of them and no others.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::dependencies::{EDGES, Member, UNRESTRICTED};
use super::tree::Tree;

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Code map";

pub(super) fn check(tree: &Tree, members: &[Member]) -> Vec<Finding> {
    let Some(text) = tree.text(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 1, "this file is missing")];
    };
    let mut drawn = drawn(text);
    let mut findings = Vec::new();
    for member in members {
        let folder = member.folder();
        let Some((uses, line)) = drawn.remove(folder) else {
            let message = format!("the code map does not draw `{folder}`");
            findings.push(Finding::new(DOCUMENT, 1, message));
            continue;
        };
        let allowed = allowed(member, members);
        if uses != allowed {
            let [uses, allowed] = [uses, allowed].map(|names| Vec::from_iter(names).join(", "));
            let message = format!("`{folder}` is drawn with {uses}; what is allowed is {allowed}");
            findings.push(Finding::new(DOCUMENT, line, message));
        }
    }
    findings.extend(drawn.into_iter().map(|(folder, (_, line))| {
        Finding::new(DOCUMENT, line, format!("`{folder}` is drawn, and no member"))
    }));
    findings
}

/// Each folder that the map draws, with what arrows lead to, and the line.
fn drawn(text: &str) -> BTreeMap<&str, (BTreeSet<&str>, usize)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let mut drawn = BTreeMap::new();
    for (index, line) in section {
        let Some((from, to)) = line.split_once("► ") else { continue };
        // What stands in brackets is for the reader.
        let to = to.split_once(" (").map_or(to, |(to, _)| to);
        let uses: BTreeSet<&str> = to.split(", ").collect();
        for folder in from.trim_end_matches(['─', ' ']).split(", ") {
            drawn.insert(folder, (uses.clone(), index + 1));
        }
    }
    drawn
}

/// What a member may use, in the words of the map.
fn allowed<'m>(member: &Member, members: &'m [Member]) -> BTreeSet<&'m str> {
    if UNRESTRICTED.contains(&member.name.as_str()) {
        return BTreeSet::from(["any"]);
    }
    let edges = EDGES.iter().find(|(name, _)| *name == member.name);
    let uses = edges.map_or(&[][..], |(_, uses)| *uses);
    if uses.is_empty() {
        return BTreeSet::from(["none"]);
    }
    let used = members.iter().filter(|other| uses.contains(&other.name.as_str()));
    used.map(Member::folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::check as check_tree;

    #[test]
    fn the_map_is_that_of_the_edges() {
        let member = |name: &str, folder: &str| Member {
            name: name.to_owned(),
            manifest: format!("{folder}/Cargo.toml"),
            uses: BTreeSet::new(),
            foreign: BTreeSet::new(),
        };
        let members = [
            member("seclang", "engine/seclang"),
            member("glacis-engine", "engine/core"),
            member("glacis-limits", "limits"),
            member("glacis-limit-store", "limit-store"),
            member("glacis-inspector", "inspector"),
            member("glacis-wasm-filter", "wasm-filter"),
            member("glacis-tests", "tests"),
        ];
        let right = "# A\n\nx ──► y\n\n## Code map\n\nengine/seclang, limits ──► none\n\
                     engine/core ──► engine/seclang\nlimit-store ──► limits\n\
                     inspector ──► engine/core\nwasm-filter ─► inspector, limits (for a)\n\
                     tests ──► any\n\n## B\n\nx ──► y\n";
        let rows: [(&str, &str, &[&str]); 5] = [
            ("", "", &[]),
            (
                "limit-store ──► limits",
                "limit-store ──► none",
                &["ARCHITECTURE.md:9: `limit-store` is drawn with none; what is allowed is limits"],
            ),
            (
                "inspector, limits",
                "engine/core, inspector, limits",
                &[concat!(
                    "ARCHITECTURE.md:11: `wasm-filter` is drawn with engine/core, inspector, limits; ",
                    "what is allowed is inspector, limits"
                )],
            ),
            ("tests ──► any\n", "", &["ARCHITECTURE.md:1: the code map does not draw `tests`"]),
            (
                "engine/seclang, limits",
                "engine/seclang, gone, limits",
                &["ARCHITECTURE.md:7: `gone` is drawn, and no member"],
            ),
        ];
        for (from, to, expected) in rows {
            let text = right.replacen(from, to, 1);
            check_tree(|tree| check(tree, &members), &[(DOCUMENT, &text)], expected);
        }
        check_tree(|tree| check(tree, &members), &[], &["ARCHITECTURE.md:1: this file is missing"]);
    }
}
