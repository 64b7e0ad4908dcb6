//! `cargo xtask tidy --stats`: what the house rules look at, in numbers.
//!
//! Counted is the product (`product.rs`) of the workspace's members, tests left out; only a file is as long as it is, tests in
//! it included. Members that are nothing but tests have no row.

use std::collections::{BTreeMap, BTreeSet};

use super::dependencies::Member;
use super::functions;
use super::product::{Source, item_end, sources};
use super::tree::Tree;

/// What ends a thread instead of telling its caller.
const PANICS: [&str; 5] = [".unwrap()", ".expect(", "panic!", "unreachable!", "todo!"];

/// The crate whose users are owed examples: they write against it.
const LIBRARY: &str = "glacis-engine";

const COLUMNS: [&str; 11] = [
    "functions",
    "median",
    "p90",
    "files",
    "median",
    "p90",
    "longest",
    "docs %",
    "uses",
    "unsafe",
    "panics",
];

const NOTES: &str = "\
Functions and files in lines. docs: lines of documentation. uses: direct dependencies, ours among them, those for tests not.
panics: unwrap, expect, panic!, unreachable! and todo!.
An example shows the item on which, or on a function of which, it stands, the types that it names, and those that the functions
return which it calls; with each of them the plain data that it consists of.

Wanted: half of the functions in 7 lines, nine of ten in 30; files of 600 lines at most; no unsafe, no panics, no item without an example.
Longer in the middle are commands (cli, xtask, bench), which are read from their top to their end, and what takes a configuration or a
rule apart key by key; a median above 10 is a sign that leaves are still in their parents.
Documented is what is public, and why something private is as it is; what it does its name has to say. Libraries whose every item is
public have three times as much of it, services a third.";

/// The numbers of a crate, or of all.
#[derive(Default)]
struct Stats<'t> {
    /// Lines of each function.
    functions: Vec<usize>,
    /// Lines of each file, with its path.
    files: Vec<(usize, &'t str)>,
    documentation_lines: usize,
    uses: BTreeSet<&'t str>,
    unsafe_words: usize,
    panics: usize,
}

/// A row for each crate, and one for all of them.
pub(super) fn table(tree: &Tree, members: &[Member]) -> String {
    let sources = sources(tree);
    let mut crates: BTreeMap<&str, Stats<'_>> = BTreeMap::new();
    let mut all = Stats::default();
    let mut library = Vec::new();
    for source in &sources {
        let Some(member) = member_of(source.path, members) else { continue };
        crates.entry(&member.name).or_default().add(source, member);
        all.add(source, member);
        if member.name == LIBRARY {
            library.push(source);
        }
    }
    let mut text = line("crate", &COLUMNS.map(str::to_owned), "longest file");
    for (name, stats) in &crates {
        text.push_str(&stats.row(name));
    }
    text.push_str(&all.row("all"));
    text.push_str(&format!("\n{NOTES}\n{}", without_example(&library)));
    text
}

/// The member in whose folder a file is.
fn member_of<'m>(path: &str, members: &'m [Member]) -> Option<&'m Member> {
    members.iter().find(|member| {
        let folder = member.manifest.strip_suffix("Cargo.toml").unwrap_or_default();
        !folder.is_empty() && path.starts_with(folder)
    })
}

impl<'t> Stats<'t> {
    fn add(&mut self, source: &Source<'t>, member: &'t Member) {
        self.functions.extend(functions::lengths(&source.code));
        self.files.push((source.text.lines().count(), source.path));
        self.documentation_lines +=
            source.text.lines().filter(|line| is_documentation(line)).count();
        self.uses.extend(member.uses.iter().map(String::as_str));
        self.unsafe_words += words(&source.code).filter(|word| *word == "unsafe").count();
        self.panics += PANICS.iter().map(|panic| source.code.matches(panic).count()).sum::<usize>();
    }

    fn row(&self, name: &str) -> String {
        let files: Vec<usize> = self.files.iter().map(|(lines, _)| *lines).collect();
        let (longest, path) = self.files.iter().max().copied().unwrap_or_default();
        let lines: usize = files.iter().sum();
        let documentation = self.documentation_lines as f64 * 100.0 / lines.max(1) as f64;
        let cells = [
            self.functions.len().to_string(),
            percentile(&self.functions, 50).to_string(),
            percentile(&self.functions, 90).to_string(),
            files.len().to_string(),
            percentile(&files, 50).to_string(),
            percentile(&files, 90).to_string(),
            longest.to_string(),
            format!("{documentation:.1}"),
            self.uses.len().to_string(),
            self.unsafe_words.to_string(),
            self.panics.to_string(),
        ];
        line(name, &cells, path)
    }
}

fn line(name: &str, cells: &[String], path: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!(" {cell:>9}")).collect();
    format!("{name:<28}{cells}  {path}\n")
}

/// What so many of a hundred values do not exceed; 0 where there are none.
fn percentile(values: &[usize], share: usize) -> usize {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * share).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or_default()
}

fn is_documentation(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

/// The line that names what users of the library can write and find no example of.
fn without_example(library: &[&Source<'_>]) -> String {
    let outlines: Vec<Outline<'_>> = library.iter().map(|source| Outline::of(source)).collect();
    let mut surface = Surface::default();
    if let Some(root) = library.iter().find(|source| source.path.ends_with("src/lib.rs")) {
        surface.read(&outlines, root.path, "");
    }
    let shown = surface.shown(&outlines);
    let without = surface.items.iter().filter(|(_, item)| !shown.contains(item.name));
    let names: Vec<&str> = without.map(|(path, _)| path.as_str()).collect();
    let colon = if names.is_empty() { "" } else { ": " };
    format!(
        "Public functions and types of {LIBRARY} without an example: {} of {}{colon}{}.\n",
        names.len(),
        surface.items.len(),
        names.join(", ")
    )
}

/// A function that is no type's, a type or a trait. Constants, modules and macros need no example.
struct Item<'s> {
    name: &'s str,
    is_function: bool,
    /// The words of its public fields, its variants or its signatures; none of a function.
    parts: BTreeSet<&'s str>,
}

/// A public function.
struct Function<'s> {
    /// The type or trait whose it is; empty where it is none's.
    owner: &'s str,
    name: &'s str,
    /// The words of what it returns.
    returns: BTreeSet<&'s str>,
}

/// An example in documentation that users read.
struct Example<'s> {
    /// The item on which, or on a function of which, it stands; empty for a file's own.
    owner: &'s str,
    code: String,
}

/// What is public in a source: that it can be reached, `unreachable_pub` sees to.
#[derive(Default)]
struct Outline<'s> {
    path: &'s str,
    code: &'s str,
    items: Vec<Item<'s>>,
    functions: Vec<Function<'s>>,
    examples: Vec<Example<'s>>,
}

/// The type, trait or function in whose braces a line stands.
#[derive(Default)]
struct Block<'s> {
    owner: &'s str,
    is_public_trait: bool,
}

impl<'s> Outline<'s> {
    fn of(source: &'s Source<'s>) -> Self {
        let mut outline = Self { path: source.path, code: &source.code, ..Self::default() };
        let (mut of_file, mut of_item) = (Documentation::default(), Documentation::default());
        let (mut block, mut in_attribute, mut at) = (Block::default(), false, 0);
        for (line, code) in source.text.lines().zip(source.code.split_inclusive('\n')) {
            let line = line.trim_start();
            if let Some(text) = line.strip_prefix("//!") {
                of_file.read(text);
            } else if let Some(text) = line.strip_prefix("///") {
                of_item.read(text);
            } else if in_attribute || code.trim_start().starts_with("#[") {
                in_attribute = !code.trim_end().ends_with(']');
            } else {
                let examples = std::mem::take(&mut of_item).examples;
                outline.read(source.code.get(at..).unwrap_or_default(), examples, &mut block);
            }
            at += code.len();
        }
        let examples = of_file.examples.into_iter();
        outline.examples.extend(examples.map(|code| Example { owner: "", code }));
        outline
    }

    /// Reads the line with which `code` begins, and what is behind it if it begins an item with these examples.
    fn read(&mut self, code: &'s str, examples: Vec<String>, block: &mut Block<'s>) {
        let Some((keyword, name)) = declaration(code) else { return };
        let is_public = code.trim_start().starts_with("pub ");
        let is_method = keyword == "fn" && code.starts_with(' ');
        if !is_method {
            *block = Block { owner: name, is_public_trait: is_public && keyword == "trait" };
        }
        if !(is_public || is_method && block.is_public_trait) {
            return;
        }
        let text = code.get(..item_end(code)).unwrap_or(code);
        if keyword == "fn" {
            let owner = if is_method { block.owner } else { "" };
            self.functions.push(Function { owner, name, returns: returned(text) });
        }
        if !is_method {
            let (is_function, parts) = (keyword == "fn", parts(keyword, text));
            self.items.push(Item { name, is_function, parts });
        }
        let owner = block.owner;
        self.examples.extend(examples.into_iter().map(|code| Example { owner, code }));
    }
}

/// Keyword and name of the function, type, trait or implementation that begins in the first line.
fn declaration(code: &str) -> Option<(&str, &str)> {
    const BEFORE: [&str; 7] = ["pub", "crate", "super", "const", "async", "unsafe", "extern"];
    let line = code.lines().next()?;
    let mut rest = words(line).skip_while(|word| BEFORE.contains(word));
    match rest.next()? {
        keyword @ ("fn" | "struct" | "enum" | "trait") => Some((keyword, rest.next()?)),
        "impl" => Some(("impl", implemented(line)?)),
        _ => None,
    }
}

/// `A` of `impl A`, of `impl<T> A<T>` and of `impl B for A`.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.rsplit_once(" for ").map_or(line, |(_, of)| of);
    let generic = rest.trim_start().strip_prefix("impl<").and_then(|rest| rest.split_once("> "));
    words(generic.map_or(rest, |(_, of)| of)).find(|word| word.starts_with(char::is_uppercase))
}

/// The words of what a function returns.
fn returned(text: &str) -> BTreeSet<&str> {
    let signature = text.split('{').next().unwrap_or_default();
    signature.split_once("->").map(|(_, returned)| words(returned).collect()).unwrap_or_default()
}

/// The words of what users see of a type or trait.
fn parts<'s>(keyword: &str, text: &'s str) -> BTreeSet<&'s str> {
    let lines = text.lines().filter(|line| match keyword {
        "fn" => false,
        "struct" => line.starts_with(' ') && line.trim_start().starts_with("pub "),
        _ => true,
    });
    lines.flat_map(words).collect()
}

/// What users of the library can write.
#[derive(Default)]
struct Surface<'o> {
    /// By its path in the crate.
    items: BTreeMap<String, &'o Item<'o>>,
    /// The files whose own documentation is shown: those of the crate and of its public modules.
    files: BTreeSet<&'o str>,
}

impl<'o> Surface<'o> {
    /// Reads a public module: what stands in it, what it lets through, and the public modules in it.
    fn read(&mut self, outlines: &'o [Outline<'o>], path: &str, module: &str) {
        let Some(outline) = outlines.iter().find(|outline| outline.path == path) else { return };
        self.files.insert(outline.path);
        let all = || outlines.iter().flat_map(|outline| &outline.items);
        let through =
            exported(outline.code).filter_map(|name| all().find(|item| item.name == name));
        for item in outline.items.iter().chain(through) {
            self.items.insert(format!("{module}{}", item.name), item);
        }
        let stem = path.strip_suffix(".rs").unwrap_or(path);
        let folder = stem.strip_suffix("/lib").unwrap_or(stem);
        let names = statements(outline.code, "pub mod ").filter_map(|rest| words(rest).next());
        for name in names {
            self.read(outlines, &format!("{folder}/{name}.rs"), &format!("{module}{name}::"));
        }
    }

    /// The names of what examples show, among others.
    fn shown(&self, outlines: &'o [Outline<'o>]) -> BTreeSet<&'o str> {
        let examples = self.examples(outlines);
        let named: BTreeSet<&str> =
            examples.iter().flat_map(|example| words(&example.code)).collect();
        let is_called = |name: &str| examples.iter().any(|example| calls(&example.code, name));
        let functions = || outlines.iter().flat_map(|outline| &outline.functions);
        let is_used = |path: &str, item: &Item<'_>| match item.is_function {
            true => is_called(as_called(path)),
            false => named.contains(item.name),
        };
        let mut shown: BTreeSet<&'o str> = examples.iter().map(|example| example.owner).collect();
        let used = self.items.iter().filter(|(path, item)| is_used(path, item));
        shown.extend(used.map(|(_, item)| item.name));
        let called = functions().filter(|function| is_called(function.name));
        shown.extend(called.flat_map(|function| &function.returns));
        let owners: BTreeSet<&str> = functions().map(|function| function.owner).collect();
        loop {
            let whole = self.items.values().filter(|item| shown.contains(item.name));
            let parts = whole.flat_map(|item| &item.parts).copied();
            let data = parts.filter(|part| !owners.contains(part) && !shown.contains(part));
            let more: Vec<&'o str> = data.collect();
            if more.is_empty() {
                return shown;
            }
            shown.extend(more);
        }
    }

    fn examples(&self, outlines: &'o [Outline<'o>]) -> Vec<&'o Example<'o>> {
        let of = |outline: &'o Outline<'o>| {
            let is_read = self.files.contains(outline.path);
            outline.examples.iter().filter(move |example| is_read || !example.owner.is_empty())
        };
        outlines.iter().flat_map(of).collect()
    }
}

/// The names that `pub use` lets through.
fn exported(code: &str) -> impl Iterator<Item = &str> {
    let names = statements(code, "pub use ").flat_map(|list| list.split([',', '{', '}']));
    names.filter(|name| !name.ends_with("::")).filter_map(|name| words(name).last())
}

/// What stands between `start`, where a line begins so, and the next semicolon.
fn statements<'s>(code: &'s str, start: &'s str) -> impl Iterator<Item = &'s str> {
    let starts = code.match_indices(start).map(move |(at, _)| code.split_at(at));
    let of_lines = starts.filter(|(before, _)| before.is_empty() || before.ends_with('\n'));
    of_lines.filter_map(move |(_, rest)| rest.strip_prefix(start)?.split(';').next())
}

/// As much of a function's path as callers write: its name, and that of its module.
fn as_called(path: &str) -> &str {
    let module = path.rmatch_indices("::").nth(1);
    module.and_then(|(at, colons)| path.get(at + colons.len()..)).unwrap_or(path)
}

/// Whether code calls a function of this name, or with a path that ends so.
fn calls(code: &str, name: &str) -> bool {
    let call = format!("{name}(");
    let mut calls = code.match_indices(&call);
    calls.any(|(at, _)| !code.get(..at).unwrap_or_default().ends_with(is_word))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char| !is_word(char)).filter(|word| !word.is_empty())
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Documentation that is being read.
#[derive(Default)]
struct Documentation {
    /// The code of its examples, without the lines that are not shown.
    examples: Vec<String>,
    /// Where a fence is open, whether rustdoc compiles what is in it.
    fence: Option<bool>,
}

impl Documentation {
    fn read(&mut self, line: &str) {
        let line = line.trim_start();
        match (line.strip_prefix("```"), self.fence) {
            (Some(language), None) => {
                self.fence = Some(is_rust(language));
                self.examples.extend(is_rust(language).then(String::new));
            }
            (Some(_), Some(_)) => self.fence = None,
            (None, Some(true)) if line != "#" && !line.starts_with("# ") => {
                if let Some(example) = self.examples.last_mut() {
                    example.push_str(line);
                    example.push('\n');
                }
            }
            (None, _) => {}
        }
    }
}

/// Whether what a fence says makes rustdoc compile what is in it.
fn is_rust(language: &str) -> bool {
    let known = ["", "rust", "no_run", "should_panic", "compile_fail"];
    language.split(',').all(|word| known.contains(&word.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, folder: &str, uses: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            manifest: format!("{folder}/Cargo.toml"),
            uses: uses.iter().map(ToString::to_string).collect(),
            foreign: BTreeSet::new(),
        }
    }

    #[test]
    fn crates_have_rows_and_all_have_one() {
        let long = format!("//! A.\nfn long() {{\n{}}}\n", "    a();\n".repeat(8));
        let risky = "//! B.\n\n/// C.\nfn c() { unsafe { d().unwrap() } }\nfn e() {}\n\
                     #[cfg(test)]\nmod tests {\n    fn f() { panic!() }\n}\n";
        let tree = Tree::of_texts(&[
            ("a/src/lib.rs", &long),
            ("b/c/src/lib.rs", risky),
            ("b/c/tests/d.rs", &long),
            ("elsewhere/src/lib.rs", &long),
            ("tests/src/lib.rs", &long),
        ]);
        let members = [
            member("a", "a", &["x", "y"]),
            member("b-c", "b/c", &["a", "x"]),
            member("t", "tests", &["a"]),
        ];
        let told = table(&tree, &members);
        let rows: Vec<Vec<&str>> =
            told.lines().take(5).map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            "a 1 10 10 1 11 11 11 9.1 2 0 0 a/src/lib.rs",
            "b-c 2 1 1 1 9 9 9 22.2 2 1 1 b/c/src/lib.rs",
            "all 3 1 10 2 9 11 11 15.0 3 1 1 a/src/lib.rs",
        ];
        let expected = expected.map(|row| row.split(' ').collect::<Vec<&str>>());
        assert_eq!(rows.get(1..4), Some(&expected[..]), "{told}");
        assert_eq!(rows.get(4), Some(&Vec::new()), "{told}");
    }

    #[test]
    fn percentiles_are_values_that_there_are() {
        let ten: Vec<usize> = (1..=10).rev().collect();
        let rows: [(&[usize], usize, usize); 5] =
            [(&ten[..], 50, 5), (&ten[..], 90, 9), (&[7], 50, 7), (&[7], 90, 7), (&[], 50, 0)];
        for (values, share, expected) in rows {
            assert_eq!(percentile(values, share), expected, "{values:?} {share}");
        }
    }

    /// Checks what is said of a library of these files: which items have no example, of how many.
    #[track_caller]
    fn check_examples(files: &[(&str, &str)], expected: &str) {
        let tree = Tree::of_texts(files);
        let told = table(&tree, &[member(LIBRARY, "e", &[]), member("f", "f", &[])]);
        let (_, line) = told.rsplit_once("without an example: ").unwrap();
        assert_eq!(line, format!("{expected}.\n"), "{files:?}");
    }

    #[test]
    fn an_example_is_a_fence_that_is_compiled() {
        let rows = [
            ("/// A.\npub fn a() {}\n", "1 of 1: a"),
            ("/// A.\n///\n/// ```\n/// a();\n/// ```\npub const fn a() {}\n", "0 of 1"),
            ("/// ```no_run\n/// a();\n/// ```\n#[derive(Debug)]\npub struct A;\n", "0 of 1"),
            ("/// ```\n/// a();\n/// ```\n#[allow(\n    b,\n)]\npub enum A {}\n", "0 of 1"),
            ("/// ```text\n/// a\n/// ```\npub trait A {}\n", "1 of 1: A"),
            ("//! ```\n//! A;\n//! ```\npub struct A;\n", "0 of 1"),
            ("//! ```\n//! # use A;\n//! b();\n//! ```\npub struct A;\n", "1 of 1: A"),
            ("/// ```\n/// a();\n/// ```\nfn a() {}\npub fn b() {}\n", "1 of 1: b"),
        ];
        for (text, expected) in rows {
            check_examples(&[("e/src/lib.rs", text)], expected);
        }
    }

    #[test]
    fn an_example_shows_what_it_uses() {
        let used = |code: &str| {
            format!(
                "/// ```\n/// {code}\n/// ```\npub fn a() -> B {{}}\n\
                 pub struct B {{\n    pub c: C,\n    d: D,\n}}\n\
                 impl B {{\n    pub fn e(&self) -> Option<E> {{}}\n}}\n\
                 pub enum C {{\n    F(F),\n}}\npub struct D;\npub struct E;\npub struct F;\n\
                 impl F {{\n    pub fn g() {{}}\n}}\n"
            )
        };
        for (code, expected) in [
            ("", "5 of 6: B, C, D, E, F"),
            ("let b: B;", "3 of 6: D, E, F"),
            ("a();", "3 of 6: D, E, F"),
            ("ba();", "5 of 6: B, C, D, E, F"),
            ("a().e();", "2 of 6: D, F"),
            ("D; F;", "3 of 6: B, C, E"),
        ] {
            check_examples(&[("e/src/lib.rs", &used(code))], expected);
        }
        let example = "    /// ```\n    /// b();\n    /// ```\n";
        let on_methods = format!(
            "pub struct A<T>;\nimpl<T> A<T> {{\n{example}    pub const fn c() {{}}\n}}\n\
             impl Drop for B {{\n{example}    fn drop(&mut self) {{}}\n}}\n\
             pub trait C {{\n{example}    fn e();\n}}\npub struct B;\n"
        );
        check_examples(&[("e/src/lib.rs", &on_methods)], "1 of 3: B");
    }

    #[test]
    fn what_users_of_the_library_can_write_is_counted() {
        let others = "pub const A: u8 = 1;\npub use b;\npub mod c;\npub(crate) fn d() {}\n\
                      #[cfg(test)]\nmod tests {\n    pub fn a() {}\n}\n";
        check_examples(&[("e/src/lib.rs", others), ("f/src/lib.rs", "pub fn a() {}\n")], "0 of 0");
        let files = [
            ("e/src/lib.rs", "mod a;\npub mod b;\npub use a::{\n    A, C,\n};\npub use b::c::d;\n"),
            ("e/src/a.rs", "//! ```\n//! A;\n//! ```\npub struct A;\npub struct B;\n"),
            ("e/src/b.rs", "//! ```\n//! c::d();\n//! ```\npub mod c;\n"),
            ("e/src/b/c.rs", "pub fn d() {}\npub fn e() {}\n"),
        ];
        check_examples(&files, "2 of 4: A, b::c::e");
    }
}
