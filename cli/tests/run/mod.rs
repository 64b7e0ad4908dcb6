//! Runs the built command over the files in `tests/data`.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

/// What a run of the command left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The folder of fixtures, which is the current folder of every run.
pub(crate) fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The folder of CRS, with its tests: the fetched one, or that of `GLACIS_CRS_DIR`.
pub(crate) fn crs() -> PathBuf {
    let fetched = || {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0").canonicalize().ok()
    };
    let folder = std::env::var_os("GLACIS_CRS_DIR").map(PathBuf::from).or_else(fetched);
    let folder = folder.filter(|folder| folder.join("tests").is_dir());
    assert!(folder.is_some(), "no CRS with its tests: run `cargo xtask fetch`");
    folder.unwrap_or_default()
}

/// Runs `glacis` with `arguments`, split at spaces.
pub(crate) fn glacis(arguments: &str, input: &[u8]) -> Ran {
    let arguments: Vec<&str> = arguments.split_ascii_whitespace().collect();
    glacis_with(&arguments, input)
}

/// Runs `glacis` with `arguments`.
pub(crate) fn glacis_with(arguments: &[&str], input: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_glacis"))
        .args(arguments)
        .current_dir(data())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The command need not read its input: a broken pipe is no failure of the test.
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    Ran {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Compares with the file `golden` below `tests/data`; `UPDATE_EXPECT=1` writes it instead.
pub(crate) fn expect(golden: &str, actual: &str) {
    let path = data().join(golden);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{golden}; UPDATE_EXPECT=1 rewrites it");
}
