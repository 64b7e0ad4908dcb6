//! `cargo xtask tidy`: the house rules that no other tool checks.
//!
//! Each check returns findings with file and line, and all of them are told at once. The same
//! checks run as a test of this crate, so `cargo test` alone cannot miss them.

mod decided;
mod dependencies;
mod drawn;
mod functions;
mod modules;
mod product;
mod pure;
mod source;
mod stats;
mod text;
mod tree;

use std::fmt;

use crate::cargo;
use crate::failure::{Failure, Outcome};
use tree::Tree;

/// One broken rule. Lines count from 1; a finding on a whole file is at line 1.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// `cargo xtask tidy [--stats | --write]`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--stats", "--write"])?;
    let tree = Tree::of_repository(&cargo::root())?;
    match flags.as_slice() {
        [] => judge(&tree),
        ["--stats"] => {
            print!("{}", stats::table(&tree, &dependencies::of_workspace()?));
            Ok(())
        }
        ["--write"] => {
            functions::write(&tree)?;
            modules::write(&tree)?;
            // The lists are a part of the tree, which is read again.
            command(&[])
        }
        _ => Err(Failure::usage("tidy takes one of --stats and --write")),
    }
}

fn judge(tree: &Tree) -> Outcome<()> {
    let findings = findings(tree)?;
    if findings.is_empty() {
        println!("{} files are tidy", tree.files.len());
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(Failure::new(format!("{}\n{} findings", lines.join("\n"), lines.len())))
}

fn findings(tree: &Tree) -> Outcome<Vec<Finding>> {
    let members = dependencies::of_workspace()?;
    let mut findings = dependencies::check(&members)?;
    findings.extend(decided::check(tree, &members));
    findings.extend(drawn::check(tree, &members));
    findings.extend(pure::check(tree, &members));
    findings.extend(text::check(tree));
    findings.extend(source::check(tree));
    findings.extend(functions::check(tree));
    findings.extend(modules::check(tree));
    findings.sort();
    findings.dedup();
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        command(&[]).map_err(|failure| failure.to_string()).unwrap();
    }

    /// Runs one check over a tree of `(path, text)` and compares the findings as they are printed.
    #[track_caller]
    pub(crate) fn check(
        rule: impl FnOnce(&Tree) -> Vec<Finding>,
        files: &[(&str, &str)],
        expected: &[&str],
    ) {
        let findings: Vec<String> =
            rule(&Tree::of_texts(files)).iter().map(ToString::to_string).collect();
        assert_eq!(findings, expected);
    }
}
