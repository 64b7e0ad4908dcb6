//! Valkey for tests, beside Redis: the user's own, that on the path, or Debian's where apt knows one (from trixie on).

use std::path::PathBuf;
use std::process::Command;

use super::{debian, redis};
use crate::cargo::{find_on_path, output};
use crate::failure::Outcome;

/// The program of `valkey-tools`, which is a server when its name says so.
const TOOLS: &str = "valkey-check-rdb";
const PACKAGE: &str = "valkey-tools";
const SERVER: &str = "valkey-server";

/// The server, or why there is none.
pub(crate) fn program() -> Outcome<Result<PathBuf, String>> {
    if let Some(named) = std::env::var_os("GLACIS_VALKEY").filter(|named| !named.is_empty()) {
        return Ok(Ok(PathBuf::from(named)));
    }
    if let Some(found) = find_on_path(SERVER) {
        return Ok(Ok(found));
    }
    // Where apt does not know it there is nothing to download, and no reason to fetch lists each time.
    if output(Command::new("apt-cache").args(["show", PACKAGE])).is_err() {
        return Ok(Err(format!("no {SERVER} on the path, and no package {PACKAGE} known to apt")));
    }
    match debian::program(TOOLS, PACKAGE)? {
        Ok(tools) => redis::named_server(&tools, SERVER).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}
