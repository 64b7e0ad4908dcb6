//! Rules for Rust files: each module says what it is for, and no test is switched off.

use super::Finding;
use super::tree::Tree;

/// Folders whose modules must open with documentation.
const DOCUMENTED: &[&str] = &[
    "engine/",
    "explain/",
    "learn/",
    "inspector/",
    "limits/",
    "limit-store/",
    "policy/",
    "service/",
    "host/",
    "envoy-module/",
    "ext-proc/",
    "ext-authz/",
    "wasm-filter/",
    "cli/src/",
    "rules/src/",
    "fuzz/laws/",
    "xtask/src/",
];

/// The one place with `unsafe` code: Envoy's ABI for dynamic modules. Compiler and lints forbid it elsewhere, but a file
/// can allow what its crate denies.
const MAY_BE_UNSAFE: &str = "envoy-module/src/abi";

/// Programs of a workspace of their own, which call other people's libraries.
const FOREIGN: &str = "bench/drivers/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let must_be_documented = DOCUMENTED.iter().any(|folder| path.starts_with(folder));
        if must_be_documented && !text.starts_with("//!") {
            findings.push(Finding::new(path, 1, "the file does not begin with `//!`"));
        }
        let may_be_unsafe = path.starts_with(MAY_BE_UNSAFE) || path.starts_with(FOREIGN);
        for (index, line) in code_only(text).lines().enumerate() {
            let is_word = |char: char| char.is_alphanumeric() || char == '_';
            if !may_be_unsafe && line.split(|char| !is_word(char)).any(|word| word == "unsafe") {
                let message = "`unsafe` outside of envoy-module/src/abi.rs";
                findings.push(Finding::new(path, index + 1, message));
            }
            let line: String = line.split_whitespace().collect();
            if line.contains("#[ignore]") || line.contains("#[ignore=") {
                let message = "an ignored test: assert what is, and say why it should change";
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// The source with comments, strings and character literals blanked. Lines keep their numbers.
pub(super) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        // Nearly all characters begin neither a comment nor a literal.
        let may_begin = matches!(first, '/' | '"' | '\'' | 'b' | 'c' | 'r');
        let length = if may_begin { literal_length(rest, code.chars().next_back()) } else { 0 };
        let (token, remaining) = rest.split_at(length.max(first.len_utf8()));
        if length == 0 {
            code.push(first);
        } else {
            // A blanked literal leaves one space at least: it still separates words.
            code.push(' ');
            code.extend(token.chars().filter(|char| *char == '\n'));
        }
        rest = remaining;
    }
    code
}

/// Bytes of the comment or literal that `text` begins with; 0 if it begins with code.
fn literal_length(text: &str, previous: Option<char>) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_length(text);
    }
    let in_word = previous.is_some_and(|char| char.is_alphanumeric() || char == '_');
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let rest = text.strip_prefix(prefix).unwrap_or_default();
        let is_raw = prefix.ends_with('r');
        let quoted = rest.starts_with('"') || (*prefix == "b" && rest.starts_with('\''));
        let hashed = is_raw && rest.trim_start_matches('#').starts_with('"');
        (prefix.is_empty() || !in_word) && (quoted || hashed)
    });
    let Some(prefix) = prefix else {
        return if text.starts_with('\'') { char_length(text) } else { 0 };
    };
    let rest = text.get(prefix.len()..).unwrap_or_default();
    prefix.len()
        + match rest.chars().next() {
            Some('\'') => char_length(rest),
            _ if prefix.ends_with('r') => raw_string_length(rest),
            _ => quoted_length(rest, '"'),
        }
}

/// Block comments nest.
fn block_comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> usize {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = text.get(hashes + 1..).unwrap_or_default();
    body.find(&end).map_or(text.len(), |length| hashes + 1 + length + end.len())
}

fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, char) in text.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if char == quote => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// A quote opens a character only if another closes it at once; otherwise it is a lifetime.
fn char_length(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => quoted_length(text, '\''),
        (Some(_), Some((index, '\''))) => index + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_tree;
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked() {
        let rows = [
            ("a // b\nc", "a  \nc"),
            ("a /* b /* c */ d\n */ e", "a  \n e"),
            (r#"f("{ \" }", x)"#, "f( , x)"),
            (r##"f(r#"{ " }"#, x)"##, "f( , x)"),
            (r##"f(br#"{"#, b"}", b'{', '}', '\'', x)"##, "f( ,  ,  ,  ,  , x)"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'l: loop { break 'l; }", "'l: loop { break 'l; }"),
            ("\"never closed {", " "),
            ("attr\"x\"", "attr "),
        ];
        for (source, expected) in rows {
            assert_eq!(code_only(source), expected, "{source}");
        }
    }

    #[test]
    fn modules_open_with_their_purpose() {
        let undocumented = ["engine/a.rs:1: the file does not begin with `//!`"];
        check_tree(check, &[("engine/a.rs", "use a;\n")], &undocumented);
        check_tree(check, &[("engine/a.rs", "//! A.\n")], &[]);
        check_tree(check, &[("tests/a.rs", "use a;\n")], &[]);
        check_tree(check, &[("engine/a.txt", "a\n")], &[]);
    }

    #[test]
    fn one_place_is_unsafe() {
        let text = "//! A.\n// unsafe\n#![deny(unsafe_code)]\nunsafe { f(\"unsafe\") }\n";
        let unsafe_line = ":4: `unsafe` outside of envoy-module/src/abi.rs";
        for (path, is_found) in [
            ("envoy-module/src/abi.rs", false),
            ("envoy-module/src/abi/hooks.rs", false),
            ("envoy-module/src/stream.rs", true),
            ("engine/core/src/lib.rs", true),
        ] {
            let expected = is_found.then(|| format!("{path}{unsafe_line}"));
            check_tree(
                check,
                &[(path, text)],
                &expected.iter().map(|it| &**it).collect::<Vec<_>>(),
            );
        }
    }

    #[test]
    fn ignored_tests_are_found_in_code_only() {
        let message = "an ignored test: assert what is, and say why it should change";
        let text = "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"b\"]\n// #[ignore]\n";
        let expected = [format!("a.rs:2: {message}"), format!("a.rs:4: {message}")];
        check_tree(check, &[("a.rs", text)], &expected.each_ref().map(String::as_str));
    }
}
