//! Redis for tests: the user's own, that on the path, or Debian's.
//!
//! Debian's package `redis-tools` has the program, and `redis-server` adds its name and a service,
//! which nobody wants for tests; the program goes by the name under which it is started. A
//! distribution's package has no pin of ours: apt verifies it, and any version from 7 on will do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::Folder;
use crate::cargo::find_on_path;
use crate::failure::{self, Failure, Outcome};

/// The program of `redis-tools`, which is a server when its name says so.
const TOOLS: &str = "redis-check-rdb";

/// The server, which is installed where it is missing and we may do so.
pub(crate) fn ensure() -> Outcome<PathBuf> {
    if let Some(named) = std::env::var_os("GLACIS_REDIS").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        println!("Redis: GLACIS_REDIS={} is used", named.display());
        return Ok(named);
    }
    let names = ["redis-server", "valkey-server"];
    if let Some(path) = names.iter().find_map(|name| find_on_path(name)) {
        println!("Redis: {} is used", path.display());
        return Ok(path);
    }
    match super::debian::installed(TOOLS, "redis-tools")? {
        Ok(tools) => named_server(&tools, "redis-server"),
        Err(why) => Err(missing(&why)),
    }
}

fn missing(why: &str) -> Failure {
    Failure::new(format!(
        "missing: redis-server, to test limits against it; install redis-tools or redis-server \
         (Debian), or Redis or Valkey 7 or later; or name one in GLACIS_REDIS ({why})"
    ))
}

/// A link to the program by the name that makes it a server.
pub(super) fn named_server(tools: &Path, name: &str) -> Outcome<PathBuf> {
    let _folder = Folder::open()?;
    let link = super::path().join(name);
    let target = fs::canonicalize(tools).map_err(failure::io("read", tools))?;
    if fs::read_link(&link).is_ok_and(|there| there == target) {
        return Ok(link);
    }
    // It may be one that points elsewhere.
    let _ = fs::remove_file(&link);
    symlink(&target, &link).map_err(failure::io("write", &link))?;
    println!("Redis: {} is used", target.display());
    Ok(link)
}
