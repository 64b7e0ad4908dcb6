//! Modules of Go, as `go mod download` brings them: Go checks them against its checksum database.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo::output;
use crate::failure::{Failure, Outcome};

/// The folder of a module (`NAME@VERSION`) in Go's cache, which is read-only. Go runs in the folder `from`.
pub(crate) fn module(name: &str, from: &Path) -> Outcome<PathBuf> {
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json", name]).current_dir(from);
    // A `go.mod` or workspace of a folder above must have no say in this.
    go.env("GOFLAGS", "-mod=mod").env("GOWORK", "off").env("GO111MODULE", "on");
    let told = output(&mut go)?;
    let told: Value = serde_json::from_str(&told)
        .map_err(|error| Failure::new(format!("go's answer is not JSON: {error}")))?;
    if let Some(error) = told["Error"].as_str() {
        return Err(Failure::new(error));
    }
    let missing = || Failure::new(format!("go named no folder of {name}"));
    told["Dir"].as_str().map(PathBuf::from).ok_or_else(missing)
}
