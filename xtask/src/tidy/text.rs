//! Rules for every text file: white space, sizes, and words that have no place in a repository.

use std::env::var;

use super::Finding;
use super::tree::Tree;
use crate::cargo;

const FILE_BYTES_MAX: u64 = 512 * 1024;

/// Folders whose files are test vectors: their bytes are the point, whatever they are.
const DATA_FOLDERS: &[&str] = &["/data/", "/corpus/", "/regressions/"];

/// Files of languages and tools that want tabs.
const TAB_FILES: &[&str] = &[".go", "go.mod", "Makefile"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = sizes(tree);
    findings.extend(white_space(tree));
    findings.extend(words(tree, &forbidden()));
    findings
}

fn is_data(path: &str) -> bool {
    DATA_FOLDERS.iter().any(|folder| path.contains(folder))
}

fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.bytes > FILE_BYTES_MAX {
            let message = format!("{} bytes; the limit is {FILE_BYTES_MAX}", file.bytes);
            findings.push(Finding::new(&file.path, 1, message));
        }
        if file.path.starts_with(".fetched/") {
            findings.push(Finding::new(&file.path, 1, "fetched files are never committed"));
        }
    }
    findings
}

fn white_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, text)| !is_data(path) && !text.is_empty()) {
        let may_have_tabs = TAB_FILES.iter().any(|end| path.ends_with(end));
        for (index, line) in text.split('\n').enumerate() {
            let number = index + 1;
            if line.ends_with('\r') {
                findings.push(Finding::new(path, number, "ends with CR LF"));
            } else if line.ends_with([' ', '\t']) {
                findings.push(Finding::new(path, number, "white space at the end of the line"));
            } else if line.contains('\t') && !may_have_tabs {
                findings.push(Finding::new(path, number, "a tab"));
            }
        }
        if !text.ends_with('\n') {
            let number = text.split('\n').count();
            findings.push(Finding::new(path, number, "no newline at the end of the file"));
        }
    }
    findings
}

/// Something that must not be written, and why.
struct Forbidden {
    needle: String,
    whole_word: bool,
    message: &'static str,
}

/// The needles are put together here, so that this file does not contain them.
fn forbidden() -> Vec<Forbidden> {
    let marks = [["TO", "DO"], ["FIX", "ME"], ["X", "XX"]].map(|parts| Forbidden {
        needle: parts.concat(),
        whole_word: true,
        message: "a mark of unfinished work: finish it, or write down what is and why",
    });
    let hosts = [["crates", "io"], ["pypi", "org"], ["pythonhosted", "org"], ["npmjs", "org"]]
        .into_iter()
        .chain([["proxy.golang", "org"], ["sum.golang", "org"], ["rubygems", "org"]])
        .map(|parts| Forbidden {
            needle: parts.join("."),
            whole_word: false,
            message: "the host name of a package registry: clients know theirs",
        });
    let paths = machine_paths().into_iter().map(|needle| Forbidden {
        needle,
        whole_word: false,
        message: "a path of this machine",
    });
    marks.into_iter().chain(hosts).chain(paths).collect()
}

/// Where this repository and the toolchain are. Of a home folder only what lies below the hidden
/// folders counts if it is as short as root's: test data attacks such paths.
fn machine_paths() -> Vec<String> {
    let mut paths = vec![format!("{}/", cargo::root().display())];
    if let Ok(home) = var("HOME") {
        let is_personal = home.matches('/').count() > 1;
        let below: &[&str] = if is_personal { &["/"] } else { &["/.cargo", "/.rustup", "/go/"] };
        paths.extend(below.iter().map(|folder| format!("{home}{folder}")));
    }
    paths.retain(|path| path.len() > 4);
    paths
}

fn words(tree: &Tree, forbidden: &[Forbidden]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Cargo writes the name of its registry into lock files.
    for (path, text) in
        tree.texts().filter(|(path, _)| !is_data(path) && !path.ends_with("Cargo.lock"))
    {
        for (index, line) in text.lines().enumerate() {
            let found = forbidden.iter().filter(|forbidden| forbidden.is_in(line));
            findings.extend(found.map(|forbidden| {
                let Forbidden { needle, message, .. } = forbidden;
                Finding::new(path, index + 1, format!("`{needle}` is {message}"))
            }));
        }
    }
    findings
}

impl Forbidden {
    fn is_in(&self, line: &str) -> bool {
        let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        line.match_indices(self.needle.as_str()).any(|(start, needle)| {
            let bytes = line.as_bytes();
            let before = start.checked_sub(1).and_then(|index| bytes.get(index));
            let after = bytes.get(start + needle.len());
            !(self.whole_word && (is_letter(before) || is_letter(after)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn white_space_rules() {
        let rows: &[(&str, &str, &[&str])] = &[
            ("a.rs", "a\n", &[]),
            ("a.rs", "", &[]),
            ("a.rs", "a", &["a.rs:1: no newline at the end of the file"]),
            ("a.rs", "a\nb \n", &["a.rs:2: white space at the end of the line"]),
            ("a.rs", "\ta\n", &["a.rs:1: a tab"]),
            ("a.go", "\ta\n", &[]),
            ("a.rs", "a\r\n", &["a.rs:1: ends with CR LF"]),
            ("tests/data/a", "a\r\n\tb ", &[]),
        ];
        for (path, text, expected) in rows {
            check(white_space, &[(path, text)], expected);
        }
    }

    #[test]
    fn size_and_place_rules() {
        let large = "x".repeat(512 * 1024);
        check(sizes, &[("a", &large)], &[]);
        check(sizes, &[("a", &(large + "x"))], &["a:1: 524289 bytes; the limit is 524288"]);
        let committed = [(".fetched/a", "")];
        check(sizes, &committed, &[".fetched/a:1: fetched files are never committed"]);
    }

    #[test]
    fn words_are_found_whole_or_anywhere() {
        let forbidden = [
            Forbidden { needle: "MARK".to_owned(), whole_word: true, message: "m" },
            Forbidden { needle: "host.example".to_owned(), whole_word: false, message: "h" },
        ];
        let text = "MARKS REMARK\n// MARK: x\nhttps://www.host.example/\n";
        let expected = ["a.rs:2: `MARK` is m", "a.rs:3: `host.example` is h"];
        check(|tree| words(tree, &forbidden), &[("a.rs", text)], &expected);
        check(|tree| words(tree, &forbidden), &[("Cargo.lock", text)], &[]);
        check(|tree| words(tree, &forbidden), &[("t/data/a", text)], &[]);
    }
}
