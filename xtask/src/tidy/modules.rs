//! No import cycles between the modules of a crate.
//!
//! The rule compares siblings: the modules that one file declares. A sibling uses another if it, or a module below it, names
//! the other, a module below the other, or an item of these: in a `use`, in a path (`crate::a::f()`), or by a name that a
//! module around both imports (`pub use a::f` and `super::f()`). Siblings may not use each other, directly or around others.
//! So each folder can be read in one order, from the modules that use none to those that use the most.
//!
//! A file and the modules below it are one to this rule, as they are to Rust's privacy: a file may use what it declares,
//! and a module may use items that are defined in a file above it. What the file above only imports counts as used from
//! where it is defined. A `use` of all names of a module hides what is used, and is a finding too.
//! A method called on a value names no module, and is not seen.
//!
//! Tests do not count. Cycles from before this rule are in `xtask/module-cycles.txt`, and `cargo xtask tidy --write` removes
//! from that list what is in no cycle any more; a new one is written by hand, where a reviewer sees it.

mod cycles;
mod graph;
mod paths;

use std::collections::BTreeMap;
use std::fs;

use super::Finding;
use super::product::crates;
use super::tree::Tree;
use crate::cargo;
use crate::failure::{self, Outcome};
use cycles::Cycle;
use graph::Graph;

const LIST: &str = "xtask/module-cycles.txt";
const HEADING: &str = "\
# Modules that import each other: the file that declares them, their names. This list may only shrink;
# `cargo xtask tidy --write` shortens it.
";

/// The file that declares modules, and their names in alphabetical order.
type Row = (String, Vec<String>);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = crates(tree);
    let graph = Graph::of_sources(&sources);
    let listed = listed(tree);
    let found = cycles::of(&graph);
    let unlisted = found.iter().filter(|cycle| !listed.keys().any(|row| covers(row, cycle)));
    let mut findings: Vec<Finding> = unlisted.map(Cycle::finding).collect();
    for (row, line) in &listed {
        if !found.iter().any(|cycle| cycle.is(row)) {
            let names = row.1.join(" ");
            let message = format!("`{names}` are not one cycle: run `cargo xtask tidy --write`");
            findings.push(Finding::new(LIST, *line, message));
        }
    }
    findings.extend(graph.globs().map(|(file, path)| {
        let message = format!("`{}::*` hides what is used: name it", path.words.join("::"));
        Finding::new(file, path.line, message)
    }));
    findings
}

/// Whether a row of the list allows a cycle: one of fewer modules is allowed too.
fn covers((declared_by, names): &Row, cycle: &Cycle) -> bool {
    *declared_by == cycle.declared_by && cycle.names.iter().all(|name| names.contains(name))
}

/// Lowers and removes entries. Only a list that does not exist yet is filled.
pub(super) fn write(tree: &Tree) -> Outcome<()> {
    let is_new = tree.text(LIST).is_none();
    let listed = listed(tree);
    let mut text = HEADING.to_owned();
    let sources = crates(tree);
    for cycle in cycles::of(&Graph::of_sources(&sources)) {
        if is_new || listed.keys().any(|row| covers(row, &cycle)) {
            text.push_str(&format!("{} {}\n", cycle.declared_by, cycle.names.join(" ")));
        }
    }
    let path = cargo::root().join(LIST);
    fs::write(&path, text).map_err(failure::io("write", &path))
}

/// The rows of the list, with their lines.
fn listed(tree: &Tree) -> BTreeMap<Row, usize> {
    let text = tree.text(LIST).unwrap_or_default();
    let rows = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    rows.filter_map(|(index, line)| {
        let mut words = line.split(' ').map(str::to_owned);
        Some(((words.next()?, words.collect()), index + 1))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_tree;
    use super::*;

    const B_AND_C: &str = "a/src/b.rs:1: a cycle of modules (b c): \
        `b` uses `c` (a/src/b.rs:1: `crate::c::C`), `c` uses `b` (a/src/c.rs:1: `crate::b::B`)";

    /// A crate with files of these names and texts.
    fn crate_of(files: &[(&str, &str)]) -> Tree {
        let paths: Vec<String> = files.iter().map(|(file, _)| format!("a/src/{file}.rs")).collect();
        let texts = files.iter().map(|(_, text)| *text);
        Tree::of_texts(&paths.iter().map(String::as_str).zip(texts).collect::<Vec<_>>())
    }

    #[track_caller]
    fn check_crate(files: &[(&str, &str)], expected: &[&str]) {
        let findings = check(&crate_of(files));
        assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    /// A module `c` that uses `b`: whether `b` uses `c` too.
    #[track_caller]
    fn check_use_of_c(lib: &str, b: &str, is_cycle: bool) {
        let lib = format!("mod b;\nmod c;\n{lib}");
        let files = [("lib", lib.as_str()), ("b", b), ("c", "use crate::b::B;\n")];
        assert_eq!(!check(&crate_of(&files)).is_empty(), is_cycle, "{lib}{b}");
    }

    #[test]
    fn a_cycle_is_found_with_its_places() {
        let lib = ("lib", "mod b;\nmod c;\n");
        let (b, c) = (("b", "use crate::c::C;\n"), ("c", "use crate::b::B;\n"));
        check_crate(&[lib, b, c], &[B_AND_C]);
        check_crate(&[("main", lib.1), b, c], &[B_AND_C]);
        check_crate(&[lib, b, ("c", "")], &[]);
        // The way round is the shortest one.
        let expected = "a/src/b.rs:1: a cycle of modules (b c d): `b` uses `c` (a/src/b.rs:1: \
             `crate::c`), `c` uses `d` (a/src/c.rs:2: `super::d`), `d` uses `b` (a/src/d.rs:1: `crate::b`)";
        check_crate(
            &[
                ("lib", "mod b;\nmod c;\nmod d;\n"),
                ("b", "use crate::c;\n"),
                ("c", "\nuse super::d;\n"),
                ("d", "use crate::b;\n"),
            ],
            &[expected],
        );
    }

    #[test]
    fn uses_are_found_however_they_are_written() {
        for b in [
            "use crate::c::C;",
            "use crate::c;",
            "use super::c::C as D;",
            "use super::{\n    c::{self, C},\n};",
            "use crate::{d::D, c::{e::E,},};",
            "pub use crate::c::*;",
            "pub(crate) use self::super::c::C;",
            "fn f() -> crate::c::C {}",
            "fn f() { use crate::c::C; }",
            "fn f() { g::<super::c::C>(|x| x) }",
            "impl crate::c::C for B {}",
            "macro_rules! m { () => { $crate::c::f() }; }",
            "mod inner { use super::super::c::C; }",
            "use crate as a;\nfn f() -> a::c::C {}",
        ] {
            check_use_of_c("", b, true);
        }
    }

    #[test]
    fn what_is_no_use_of_a_sibling_is_none() {
        for b in [
            "use c::C;",
            "use ::c::C;",
            "use other::c::C;",
            "use crate::C;",
            "// use crate::c::C;",
            "const A: &str = \"crate::c::C\";",
            "#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}",
            "#[cfg(test)]\nuse crate::c::C;",
            "#[cfg(test)]\nmod fixture;\nmod c;\nuse c::C;",
            "mod c {}\nuse self::c::C;\nfn f() { c::f(); other.c(); c = C::c(); }",
            "mod inner { pub struct C; }\nuse inner::C;\nuse super::b::inner;",
            "fn f() -> impl Sized + use<'_> {}",
        ] {
            check_use_of_c("", b, false);
        }
    }

    #[test]
    fn imports_of_the_modules_around_are_followed() {
        for (lib, b, is_cycle) in [
            ("pub use c::C;", "use crate::C;", true),
            ("use c::C as D;", "fn f() -> super::D {}", true),
            ("pub use crate::c;\nuse c as d;", "use super::d::e::E;", true),
            ("pub use c::{C, D};", "use crate::E;", false),
            ("pub use b::C;", "use crate::C;", false),
            ("pub use other::C;", "use crate::C;", false),
            // Defined above: file and folder are one.
            ("pub struct C;", "use crate::C;", false),
        ] {
            check_use_of_c(lib, b, is_cycle);
        }
        // Names of one another, which no compiler accepts, come to an end too.
        check_use_of_c("use self::d as e;\nuse self::e as d;", "use crate::d;", false);
    }

    #[test]
    fn modules_below_count_as_what_they_are_in() {
        let files = [
            ("lib", "mod b;\nmod c;\n"),
            ("b", "mod d;\nuse d::D;\n"),
            ("b/d", "use crate::c::C;\nuse super::B;\n"),
            ("c", "mod e;\n"),
            ("c/e", "\nfn f(b: &crate::b::B) {}\n"),
        ];
        let expected = "a/src/b/d.rs:1: a cycle of modules (b c): `b` uses `c` (a/src/b/d.rs:1: \
             `crate::c::C`), `c` uses `b` (a/src/c/e.rs:2: `crate::b::B`)";
        check_crate(&files, &[expected]);
        check_crate(&files[..4], &[]);
    }

    #[test]
    fn a_glob_of_a_module_is_found() {
        let files = [
            ("lib", "mod b;\nenum E { F }\n"),
            ("b", "use std::io::prelude::*;\nuse super::E::*;\nuse super::*;\n"),
        ];
        check_crate(&files, &["a/src/b.rs:3: `super::*` hides what is used: name it"]);
    }

    #[test]
    fn listed_cycles_may_not_grow_and_must_be_up_to_date() {
        let stale = |names: &str| {
            format!(
                "xtask/module-cycles.txt:2: `{names}` are not one cycle: run `cargo xtask tidy --write`"
            )
        };
        let files = |list| {
            [
                (LIST, list),
                ("a/src/lib.rs", "mod b;\nmod c;\n"),
                ("a/src/b.rs", "use crate::c::C;\n"),
                ("a/src/c.rs", "use crate::b::B;\n"),
            ]
        };
        check_tree(check, &files("# Heading.\na/src/lib.rs b c\n"), &[]);
        check_tree(check, &files("# Heading.\na/src/lib.rs b c d\n"), &[&stale("b c d")]);
        check_tree(check, &files("# Heading.\na/src/lib.rs b d\n"), &[B_AND_C, &stale("b d")]);
        check_tree(check, &files("# Heading.\nb/src/lib.rs b c\n"), &[B_AND_C, &stale("b c")]);
    }

    #[test]
    fn programs_of_one_crate_are_crates() {
        let files = [
            ("lib", "mod b;\nmod c;\n"),
            ("main", "mod c;\nuse a::b;\n"),
            ("bin/up/main", "mod c;\n"),
            ("bin/up/c", ""),
            ("b", "use crate::c::C;\n"),
            ("c", "use super::b::B;\n"),
        ];
        // In `main.rs` there is no module `b` that `c` could mean.
        check_crate(
            &files,
            &["a/src/b.rs:1: a cycle of modules (b c): `b` uses `c` (a/src/b.rs:1: \
               `crate::c::C`), `c` uses `b` (a/src/c.rs:1: `super::b::B`)"],
        );
    }
}
