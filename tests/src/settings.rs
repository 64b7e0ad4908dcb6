//! Where things are: from the environment, as `cargo xtask` sets it, or at their usual places.
//!
//! Each function says, if its thing is missing, where it was looked for and which command brings it.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// The top folder of the repository (`GLACIS_ROOT`).
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let parent = manifest.parent().unwrap_or(manifest).to_path_buf();
    env::var_os("GLACIS_ROOT").map_or(parent, PathBuf::from)
}

/// Envoy's binary (`GLACIS_ENVOY`).
///
/// # Errors
///
/// If it is missing.
pub fn envoy() -> Outcome<PathBuf> {
    place("GLACIS_ENVOY", &root().join(".fetched/envoy-1.40.0/envoy"), "cargo xtask fetch")
}

/// Older versions of Envoy that the native module loads into, as far as they are pinned for this kind of machine.
///
/// # Errors
///
/// If one is missing.
pub fn older_envoys() -> Outcome<Vec<PathBuf>> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Vec::new());
    }
    let find = |version: &str| {
        let variable = format!("GLACIS_ENVOY_{}", version.replace('.', "_"));
        let usual = root().join(format!(".fetched/envoy-{version}/envoy"));
        place(&variable, &usual, "cargo xtask fetch")
    };
    ["1.39.3", "1.38.3"].into_iter().map(find).collect()
}

/// The folder of the OWASP CRS (`GLACIS_CRS_DIR`).
///
/// # Errors
///
/// If it is missing.
pub fn crs() -> Outcome<PathBuf> {
    place("GLACIS_CRS_DIR", &root().join(".fetched/crs-4.25.0"), "cargo xtask fetch")
}

/// The compiled wasm-filter (`GLACIS_WASM`).
///
/// # Errors
///
/// If it is missing.
pub fn wasm() -> Outcome<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let usual = root().join(target).join("wasm32-wasip1/wasm/glacis_wasm_filter.wasm");
    place("GLACIS_WASM", &usual, "cargo xtask wasm")
}

/// The compiled wasm-filter with the engine in it, beside the other.
///
/// # Errors
///
/// If it is missing.
pub fn wasm_with_engine() -> Outcome<PathBuf> {
    let beside = wasm()?.with_file_name("glacis_wasm_filter_engine.wasm");
    place("GLACIS_WASM_ENGINE", &beside, "cargo xtask wasm")
}

/// The binary of ext-proc (`GLACIS_EXT_PROC`).
///
/// # Errors
///
/// If it is missing.
pub fn ext_proc() -> Outcome<PathBuf> {
    let usual = binaries_folder().join("glacis-ext-proc");
    place("GLACIS_EXT_PROC", &usual, "cargo build --workspace --bins")
}

/// The native module, `libglacis.so` (`GLACIS_ENVOY_MODULE`).
///
/// # Errors
///
/// If it is missing.
pub fn envoy_module() -> Outcome<PathBuf> {
    let usual = binaries_folder().join("libglacis.so");
    place("GLACIS_ENVOY_MODULE", &usual, "cargo build --workspace --lib")
}

/// The binary of ext-authz (`GLACIS_EXT_AUTHZ`).
///
/// # Errors
///
/// If it is missing.
pub fn ext_authz() -> Outcome<PathBuf> {
    let usual = binaries_folder().join("glacis-ext-authz");
    place("GLACIS_EXT_AUTHZ", &usual, "cargo build --workspace --bins")
}

/// The binary of the external processor that looks at nothing (`GLACIS_EMPTY_EXT_PROC`).
///
/// # Errors
///
/// If it is missing.
pub fn empty_ext_proc() -> Outcome<PathBuf> {
    let usual = binaries_folder().join("empty-ext-proc");
    place("GLACIS_EMPTY_EXT_PROC", &usual, "cargo build --workspace --bins")
}

/// The binary that writes the requests of benches (`GLACIS_BENCH_WORKLOAD`).
///
/// # Errors
///
/// If it is missing.
pub fn workload() -> Outcome<PathBuf> {
    let usual = binaries_folder().join("glacis-bench-workload");
    place("GLACIS_BENCH_WORKLOAD", &usual, "cargo build --workspace --bins")
}

/// The binary of the sample upstream (`GLACIS_SAMPLE_UPSTREAM`).
///
/// # Errors
///
/// If it is missing.
pub fn sample_upstream() -> Outcome<PathBuf> {
    let usual = binaries_folder().join("sample-upstream");
    place("GLACIS_SAMPLE_UPSTREAM", &usual, "cargo build --workspace --bins")
}

/// The program of Redis or Valkey (`GLACIS_REDIS`), or its name to be found on the path.
pub fn redis() -> PathBuf {
    let named = env::var_os("GLACIS_REDIS").filter(|named| !named.is_empty());
    PathBuf::from(named.unwrap_or_else(|| "redis-server".into()))
}

/// libfaketime, which gives a program another clock (`GLACIS_FAKETIME`).
///
/// # Errors
///
/// If it is missing.
pub fn faketime() -> Outcome<PathBuf> {
    // As `cargo xtask chaos` brings it, on one kind of machine; it says where it is on others.
    let usual = "debian-libfaketime/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    place("GLACIS_FAKETIME", &root().join(".fetched").join(usual), "cargo xtask chaos")
}

/// The binary of the command `glacis` (`GLACIS_CLI`).
///
/// # Errors
///
/// If it is missing.
pub fn cli() -> Outcome<PathBuf> {
    place("GLACIS_CLI", &binaries_folder().join("glacis"), "cargo build --workspace --bins")
}

fn place(variable: &str, usual: &Path, command: &str) -> Outcome<PathBuf> {
    let path = env::var_os(variable).map_or_else(|| usual.to_path_buf(), PathBuf::from);
    if path.exists() {
        return Ok(path);
    }
    let path = path.display();
    Err(Failure::new(format!("{path} is missing; run `{command}`, or set {variable}")))
}

/// The folder of the workspace's binaries: that of this program, or its parent's for a test.
fn binaries_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let folder = program.parent().map(Path::to_path_buf).unwrap_or_default();
    match folder.parent() {
        Some(parent) if folder.ends_with("deps") => parent.to_path_buf(),
        _ => folder,
    }
}
