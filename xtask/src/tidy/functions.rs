//! A ratchet on the length of functions.
//!
//! Functions of more than `LINES_MAX` lines are named in `xtask/long-functions.txt` with their
//! length. An entry may shrink or go, by `cargo xtask tidy --write`; a new one is written by hand,
//! where a reviewer sees it. Tests do not count.

use std::collections::BTreeMap;
use std::fs;

use super::Finding;
use super::product::{item_end, sources};
use super::tree::Tree;
use crate::cargo;
use crate::failure::{self, Outcome};

const LINES_MAX: usize = 70;
const LIST: &str = "xtask/long-functions.txt";
const HEADING: &str = "\
# Functions of more than 70 lines: lines, file, name. This list may only shrink;
# `cargo xtask tidy --write` shortens it.
";

/// File and name of a function; functions of one name in one file are numbered from the second.
type Name = (String, String);

/// A long function: lines it has, line it begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    lines: usize,
    begins: usize,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let listed = listed(tree);
    let found = found(tree);
    let mut findings = Vec::new();
    for ((path, name), Extent { lines, begins }) in &found {
        let lines_max =
            listed.get(&(path.clone(), name.clone())).map_or(LINES_MAX, |row| row.lines);
        if *lines > lines_max {
            let message = format!("function `{name}` has {lines} lines; the limit is {lines_max}");
            findings.push(Finding::new(path, *begins, message));
        }
    }
    for (key, row) in &listed {
        if found.get(key).is_none_or(|extent| extent.lines < row.lines) {
            let message = format!("`{}` is shorter now: run `cargo xtask tidy --write`", key.1);
            findings.push(Finding::new(LIST, row.begins, message));
        }
    }
    findings
}

/// Lowers and removes entries. Only a list that does not exist yet is filled.
pub(super) fn write(tree: &Tree) -> Outcome<()> {
    let is_new = !tree.files.iter().any(|file| file.path == LIST);
    let listed = listed(tree);
    let mut text = HEADING.to_owned();
    for (key, extent) in found(tree) {
        let lines = match listed.get(&key) {
            Some(row) => extent.lines.min(row.lines),
            None if is_new => extent.lines,
            None => continue,
        };
        let (path, name) = key;
        text.push_str(&format!("{lines} {path} {name}\n"));
    }
    let path = cargo::root().join(LIST);
    fs::write(&path, text).map_err(failure::io("write", &path))
}

/// The list; `begins` is the line of the entry. What cannot be read counts as not listed.
fn listed(tree: &Tree) -> BTreeMap<Name, Extent> {
    let text = tree.text(LIST).unwrap_or_default();
    let rows = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    rows.filter_map(|(index, line)| {
        let mut words = line.splitn(3, ' ');
        let lines = words.next()?.parse().ok()?;
        let key = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((key, Extent { lines, begins: index + 1 }))
    })
    .collect()
}

fn found(tree: &Tree) -> BTreeMap<Name, Extent> {
    let mut found = BTreeMap::new();
    for source in sources(tree) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for Function { name, at, text } in functions(&source.code) {
            let count = seen.entry(name).and_modify(|count| *count += 1).or_insert(1);
            if lines(text) > LINES_MAX {
                let name = if *count > 1 { format!("{name}#{count}") } else { name.to_owned() };
                let begins = lines(source.code.get(..at).unwrap_or_default());
                found.insert((source.path.to_owned(), name), Extent { lines: lines(text), begins });
            }
        }
    }
    found
}

/// How many lines each function has whose code stands here, nested ones included. What a trait only asks for has none.
pub(super) fn lengths(code: &str) -> Vec<usize> {
    let with_body = functions(code).into_iter().filter(|function| function.text.ends_with('}'));
    with_body.map(|function| lines(function.text)).collect()
}

fn lines(text: &str) -> usize {
    text.matches('\n').count() + 1
}

/// A function where it is defined, or asked for by a trait.
struct Function<'c> {
    name: &'c str,
    /// Where its text begins in the code.
    at: usize,
    /// From `fn` to the end of its body.
    text: &'c str,
}

/// The functions of code without literals, in order, nested ones included.
fn functions(code: &str) -> Vec<Function<'_>> {
    let starts = code.match_indices("fn ").map(|(at, _)| code.split_at(at));
    let functions = starts.filter_map(|(before, rest)| {
        let name = function_name(rest, before)?;
        let text = rest.get(..item_end(rest)).unwrap_or(rest);
        Some(Function { name, at: before.len(), text })
    });
    functions.collect()
}

/// The name, if a function's definition begins here; `fn(` is a type, not a definition.
fn function_name<'a>(rest: &'a str, before: &str) -> Option<&'a str> {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    let after = rest.strip_prefix("fn ").filter(|_| !before.ends_with(is_word))?;
    let length = after.find(|char| !is_word(char))?;
    after.get(..length).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_tree;
    use super::*;

    /// A function of that many lines, the longest that is allowed being 70.
    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}(a: [u8; 2]) {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    #[test]
    fn long_functions_are_found_where_they_begin() {
        let message = "function `f` has 71 lines; the limit is 70";
        let source = format!("//! A.\n{}", function("f", 71));
        check_tree(check, &[("a/b.rs", &source)], &[&format!("a/b.rs:2: {message}")]);
        check_tree(check, &[("a/b.rs", &function("f", 70))], &[]);
        check_tree(check, &[("tests/b.rs", &source)], &[]);
        check_tree(check, &[("a/tests/b.rs", &source)], &[]);
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("f", 99));
        check_tree(check, &[("a/b.rs", &test)], &[]);
        let trait_item = format!("fn f();\n{}", "\n".repeat(99));
        check_tree(check, &[("a/b.rs", &trait_item)], &[]);
    }

    #[test]
    fn listed_functions_may_not_grow_and_must_be_up_to_date() {
        let list = "# Heading.\n80 a.rs f\n";
        let rows: [(usize, &[&str]); 4] = [
            (80, &[]),
            (81, &["a.rs:1: function `f` has 81 lines; the limit is 80"]),
            (
                79,
                &["xtask/long-functions.txt:2: `f` is shorter now: run `cargo xtask tidy --write`"],
            ),
            (
                9,
                &["xtask/long-functions.txt:2: `f` is shorter now: run `cargo xtask tidy --write`"],
            ),
        ];
        for (lines, expected) in rows {
            check_tree(check, &[(LIST, list), ("a.rs", &function("f", lines))], expected);
        }
    }

    #[test]
    fn functions_of_one_name_are_told_apart() {
        let source = function("f", 5) + &function("f", 71);
        let expected = ["a.rs:6: function `f#2` has 71 lines; the limit is 70"];
        check_tree(check, &[("a.rs", &source)], &expected);
        check_tree(check, &[("a.rs", &source), (LIST, "71 a.rs f#2\n")], &[]);
    }

    #[test]
    fn lengths_are_those_of_bodies() {
        let code = "trait A {\n    fn a();\n    fn b() {\n        fn c() {}\n    }\n}\n";
        assert_eq!(lengths(code), [3, 1]);
    }
}
