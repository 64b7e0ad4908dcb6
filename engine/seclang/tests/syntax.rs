//! Golden files: `tests/data/ok/*.conf` with the tree in `.ast`, `tests/data/err/*.conf` with the
//! errors in `.err`. `UPDATE_EXPECT=1` writes what was found; look at the difference then.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]
#![allow(clippy::disallowed_methods, reason = "the tests read their data")]

mod checks;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use checks::{dump, parse_lawfully, print};
use seclang::{LineIndex, Snippet};

fn inputs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut inputs: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "conf")).collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    inputs
}

#[track_caller]
fn check(path: &Path, expected_extension: &str, found: &str) {
    let expected_path = path.with_extension(expected_extension);
    if env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1") {
        fs::write(&expected_path, found).unwrap();
    }
    let expected = fs::read_to_string(&expected_path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs", expected_path.display());
}

#[test]
fn texts_have_the_expected_trees() {
    for path in inputs("ok") {
        let text = fs::read_to_string(&path).unwrap();
        let parse = parse_lawfully(&text);
        assert_eq!(parse.errors, [], "{}", path.display());
        check(&path, "ast", &format!("{}printed\n{}", dump(&parse), print(&parse)));
    }
}

#[test]
fn texts_have_the_expected_errors() {
    for path in inputs("err") {
        let text = fs::read_to_string(&path).unwrap();
        let parse = parse_lawfully(&text);
        assert!(!parse.errors.is_empty(), "{}", path.display());
        let index = LineIndex::new(&text);
        let name = path.file_name().unwrap().to_string_lossy();
        let mut found = String::new();
        for error in &parse.errors {
            let snippet = Snippet::new(&name, &text, &index, error.span, &error.message);
            let _ = writeln!(found, "{snippet}\n");
        }
        let _ = write!(found, "read nevertheless\n{}", print(&parse));
        check(&path, "err", &found);
    }
}

/// A file that an editor on Windows has saved means the same.
#[test]
fn line_ends_do_not_matter() {
    for folder in ["ok", "err"] {
        for path in inputs(folder) {
            let text = fs::read_to_string(&path).unwrap();
            let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
            let (parse, again) = (parse_lawfully(&text), parse_lawfully(&windows));
            assert_eq!(print(&again), print(&parse), "{}", path.display());
            assert_eq!(again.errors.len(), parse.errors.len(), "{}", path.display());
        }
    }
}
