//! Records the commit for `glacis --version`.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=GLACIS_COMMIT");
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    // A release is built where there may be no repository.
    let commit = env::var("GLACIS_COMMIT").ok();
    let commit = commit.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=GLACIS_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}
