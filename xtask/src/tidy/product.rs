//! What of the tree is the product: sources of Rust without tests, benchmarks and fuzzers, and in them no tests either.

use std::collections::BTreeSet;

use super::source::code_only;
use super::tree::Tree;

/// Folders, anywhere in a path, of which nothing is the product.
const OTHERS: [&str; 3] = ["tests/", "benches/", "fuzz/"];

/// What an item that only tests have begins with.
const TEST_MARKS: [&str; 2] = ["#[cfg(test)]", "#[test]"];

/// A source of the product.
pub(super) struct Source<'t> {
    pub(super) path: &'t str,
    /// As it stands in the file.
    pub(super) text: &'t str,
    /// The text with literals, comments and tests blanked. Lines keep their numbers.
    pub(super) code: String,
}

/// All of them, in the order of the tree.
pub(super) fn sources(tree: &Tree) -> Vec<Source<'_>> {
    without_test_modules(tree, is_product)
}

/// The sources of all crates, also of those that only test, compare or fuzz the others; in them the same is left out.
pub(super) fn crates(tree: &Tree) -> Vec<Source<'_>> {
    without_test_modules(tree, |path| {
        let is_source = path.starts_with("src/") || path.contains("/src/");
        path.ends_with(".rs") && is_source && !path.ends_with("/tests.rs")
    })
}

fn without_test_modules(tree: &Tree, is_wanted: impl Fn(&str) -> bool) -> Vec<Source<'_>> {
    let texts = tree.texts().filter(|(path, _)| is_wanted(path));
    let mut sources: Vec<Source<'_>> =
        texts.map(|(path, text)| Source { path, text, code: code_only(text) }).collect();
    let of_tests: BTreeSet<String> = sources.iter().flat_map(test_modules).collect();
    sources.retain(|source| !is_below(source.path, &of_tests));
    for source in &mut sources {
        source.code = without_tests(&source.code);
    }
    sources
}

fn is_product(path: &str) -> bool {
    let in_others = OTHERS
        .iter()
        .any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")));
    path.ends_with(".rs") && !in_others && !path.ends_with("/tests.rs")
}

/// Modules with files of their own that only tests have, as the paths of these without `.rs`.
fn test_modules(source: &Source<'_>) -> Vec<String> {
    let folder = folder_of_modules(source.path);
    let starts = TEST_MARKS.iter().flat_map(|mark| source.code.match_indices(mark));
    let items = starts.filter_map(|(at, _)| {
        let item = source.code.get(at..)?;
        item.get(..item_end(item))
    });
    let names = items.filter_map(|item| Some(item.strip_suffix(';')?.rsplit_once("mod ")?.1));
    let is_name = |name: &&str| name.chars().all(|char| char.is_alphanumeric() || char == '_');
    names.filter(is_name).map(|name| format!("{folder}/{name}")).collect()
}

/// Where the modules stand that a file declares.
pub(super) fn folder_of_modules(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    }
}

/// Whether a file is one of these modules, or a part of one.
fn is_below(path: &str, modules: &BTreeSet<String>) -> bool {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    modules.iter().any(|module| {
        stem.strip_prefix(module.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Code without tests; their lines stay, and are empty.
fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = TEST_MARKS.iter().filter_map(|mark| rest.find(mark)).min() {
        let (before, item) = rest.split_at(at);
        let (test, behind) = item.split_at(item_end(item));
        kept.push_str(before);
        kept.extend(test.chars().filter(|char| *char == '\n'));
        rest = behind;
    }
    kept.push_str(rest);
    kept
}

/// Where the item that begins here ends, in code without literals: at its closing brace, or at a semicolon before any.
pub(super) fn item_end(item: &str) -> usize {
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
    use super::*;

    #[test]
    fn tests_are_no_product() {
        let tree = Tree::of_texts(&[
            ("a/benches/b.rs", ""),
            ("a/src/lib.rs", "#[cfg(test)]\nmod fixture;\npub mod other;\n"),
            ("a/src/fixture.rs", ""),
            ("a/src/fixture/part.rs", ""),
            ("a/src/fixtures.rs", ""),
            ("a/src/other.rs", "#[cfg(test)]\n#[allow(dead_code)]\npub(crate) mod deep;\n"),
            ("a/src/other/deep.rs", ""),
            ("a/src/other/tests.rs", ""),
            ("a/tests/e2e.rs", ""),
            ("a/README.md", ""),
            ("fuzz/laws/src/lib.rs", ""),
            ("tests/src/lib.rs", ""),
        ]);
        let paths: Vec<&str> = sources(&tree).iter().map(|source| source.path).collect();
        assert_eq!(paths, ["a/src/lib.rs", "a/src/fixtures.rs", "a/src/other.rs"]);
    }

    #[test]
    fn tests_are_blanked_and_lines_keep_their_numbers() {
        let rows = [
            ("fn a() {}\n", "fn a() {}\n"),
            (
                "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n",
                "fn a() {}\n\n\n\n\nfn c() {}\n",
            ),
            ("#[test]\nfn a() {}\nfn b() {}\n", "\n\nfn b() {}\n"),
            ("#[cfg(test)]\nuse a::{b, c};\nfn d() {}\n", "\n;\nfn d() {}\n"),
            ("#[cfg(test)]\nmod tests {", "\n"),
        ];
        for (code, expected) in rows {
            assert_eq!(without_tests(code), expected, "{code}");
        }
    }
}
