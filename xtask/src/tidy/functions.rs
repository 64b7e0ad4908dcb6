//! A ratchet on the length of functions.
//!
//! Functions of more than `LINES_MAX` lines are named in `xtask/long-functions.txt` with their
//! length. An entry may shrink or go, by `cargo xtask tidy --write`; a new one is written by hand,
//! where a reviewer sees it. Tests do not count.

use std::collections::BTreeMap;
use std::fs;

use super::Finding;
use super::source::code_only;
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
    let text = tree.texts().find(|(path, _)| *path == LIST).map_or("", |(_, text)| text);
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
    for (path, text) in tree.texts().filter(|(path, _)| is_product(path)) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let code = code_only(text);
        for (name, extent) in functions(&code) {
            let count = seen.entry(name).and_modify(|count| *count += 1).or_insert(1);
            if extent.lines > LINES_MAX {
                let name = if *count > 1 { format!("{name}#{count}") } else { name.to_owned() };
                found.insert((path.to_owned(), name), extent);
            }
        }
    }
    found
}

fn is_product(path: &str) -> bool {
    let in_tests = ["tests/", "benches/", "fuzz/"]
        .iter()
        .any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")));
    path.ends_with(".rs") && !in_tests && !path.ends_with("/tests.rs")
}

/// The functions of a source without literals, in order, nested ones included, tests excluded.
fn functions(code: &str) -> Vec<(&str, Extent)> {
    let mut functions = Vec::new();
    let mut at = 0;
    while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("#[cfg(test)]") || rest.starts_with("#[test]") {
            at += body_end(rest);
            continue;
        }
        if let Some(name) = function_name(rest, code.get(..at).unwrap_or_default()) {
            let newlines = |text: &str| text.matches('\n').count() + 1;
            let whole = rest.get(..body_end(rest)).unwrap_or(rest);
            let begins = newlines(code.get(..at).unwrap_or_default());
            functions.push((name, Extent { lines: newlines(whole), begins }));
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    functions
}

/// The name, if a function's definition begins here; `fn(` is a type, not a definition.
fn function_name<'a>(rest: &'a str, before: &str) -> Option<&'a str> {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    let after = rest.strip_prefix("fn ").filter(|_| !before.ends_with(is_word))?;
    let length = after.find(|char| !is_word(char))?;
    after.get(..length).filter(|name| !name.is_empty())
}

/// Where the item that begins here ends: at its closing brace, or at a semicolon before any.
fn body_end(item: &str) -> usize {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (index, char) in item.char_indices() {
        match char {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return index + 1;
                }
            }
            ';' if braces == 0 && brackets == 0 => return index + 1,
            _ => {}
        }
    }
    item.len()
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
}
