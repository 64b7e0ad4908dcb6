//! Builds the filter, and makes it ready for Envoy: callbacks that do nothing are no longer among its exports.
//!
//! The SDK exports all callbacks there are, and Envoy makes each that it finds: for every piece of every body, for
//! one. To enter the VM takes as long as a check does.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::cargo;
use crate::failure::{self, Failure, Outcome};
use crate::pins::WASM_TARGET;

/// What the filter leaves as the SDK has it: to continue, or nothing.
const IDLE: &[&str] = &[
    "proxy_on_done",
    "proxy_on_downstream_connection_close",
    "proxy_on_downstream_data",
    "proxy_on_foreign_function",
    "proxy_on_grpc_receive_initial_metadata",
    "proxy_on_grpc_receive_trailing_metadata",
    "proxy_on_log",
    "proxy_on_new_connection",
    "proxy_on_queue_ready",
    "proxy_on_response_body",
    "proxy_on_response_trailers",
    "proxy_on_upstream_connection_close",
    "proxy_on_upstream_data",
];

/// Bytes of the filter, and of the filter with the engine in it, at most: each worker compiles it.
const MODULE_BYTES_MAX: u64 = 1 << 20;
const ENGINE_MODULE_BYTES_MAX: u64 = 4 << 20;

/// Builds the filter, and the one with the engine beside it; returns the path of the former.
pub(crate) fn build() -> Outcome<PathBuf> {
    build_as(|_| {})
}

/// The same, with a folder and variables that the caller sets.
pub(crate) fn build_as(set: impl Fn(&mut Command)) -> Outcome<PathBuf> {
    // Both have one name while they are built, so this one is copied away first.
    let engine = build_module(&["--features", "engine"], ENGINE_MODULE_BYTES_MAX, &set)?;
    let copy = engine.with_file_name("glacis_wasm_filter_engine.wasm");
    fs::copy(&engine, &copy).map_err(failure::io("write", &copy))?;
    build_module(&[], MODULE_BYTES_MAX, &set)
}

fn build_module(
    features: &[&str],
    bytes_max: u64,
    set: impl FnOnce(&mut Command),
) -> Outcome<PathBuf> {
    let arguments = ["-p", "glacis-wasm-filter", "--profile", "wasm", "--target", WASM_TARGET];
    // Whoever builds the module gets the same one, which is known by its digest.
    let artifacts = cargo::build_as(&[&arguments[..], features].concat(), |command| {
        cargo::map_paths(command, &cargo::root());
        set(command);
    })?;
    let Some(path) = artifacts.wasm.last() else {
        return Err(Failure::new("glacis-wasm-filter was built, but made no .wasm file"));
    };
    let module = fs::read(path).map_err(failure::io("read", path))?;
    let module = without_idle_callbacks(&module)?;
    let bytes = module.len() as u64;
    fs::write(path, module).map_err(failure::io("write", path))?;
    let kibibytes = bytes.div_ceil(1024);
    println!("{} {} ({kibibytes} KiB)", path.display(), features.join(" "));
    if bytes > bytes_max {
        return Err(Failure::new(format!("the module has {bytes} bytes, more than {bytes_max}")));
    }
    Ok(path.clone())
}

/// Magic number and version of a module.
const HEAD: &[u8] = b"\0asm\x01\0\0\0";

/// The section that lists exports (WebAssembly 1.0, section 5.5.10).
const EXPORTS: u8 = 7;

/// The module without exports of callbacks that do nothing.
///
/// # Errors
/// If these are not the bytes of a module.
pub(crate) fn without_idle_callbacks(module: &[u8]) -> Outcome<Vec<u8>> {
    rewritten(module).ok_or_else(|| Failure::new("what was built is no module of WebAssembly"))
}

fn rewritten(module: &[u8]) -> Option<Vec<u8>> {
    let mut rest = module.strip_prefix(HEAD)?;
    let mut out = HEAD.to_vec();
    while let Some((&id, behind)) = rest.split_first() {
        rest = behind;
        let length = number(&mut rest)?;
        let (content, behind) = rest.split_at_checked(length)?;
        rest = behind;
        let content = match id {
            EXPORTS => kept_exports(content)?,
            _ => content.to_vec(),
        };
        out.push(id);
        push_number(content.len(), &mut out);
        out.extend(content);
    }
    Some(out)
}

fn kept_exports(mut section: &[u8]) -> Option<Vec<u8>> {
    let (mut count, mut kept) = (0, Vec::new());
    for _ in 0..number(&mut section)? {
        let before = section;
        let length = number(&mut section)?;
        let (name, behind) = section.split_at_checked(length)?;
        // A byte says what it is, a number which.
        section = behind.get(1..)?;
        number(&mut section)?;
        if !IDLE.iter().any(|idle| idle.as_bytes() == name) {
            count += 1;
            kept.extend_from_slice(before.strip_suffix(section)?);
        }
    }
    let mut out = Vec::new();
    push_number(count, &mut out);
    out.extend(kept);
    Some(out)
}

/// A number of variable length (unsigned LEB128), which is taken away.
fn number(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn push_number(mut number: usize, out: &mut Vec<u8>) {
    loop {
        let low = (number & 0x7F) as u8;
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sources;

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![id];
        push_number(content.len(), &mut out);
        [out, content.to_vec()].concat()
    }

    fn module(names: &[&str]) -> Vec<u8> {
        let mut exports = Vec::new();
        push_number(names.len(), &mut exports);
        for (place, name) in names.iter().enumerate() {
            push_number(name.len(), &mut exports);
            exports.extend_from_slice(name.as_bytes());
            exports.push(0);
            push_number(1_000 * place, &mut exports);
        }
        let others = |id| section(id, &[id; 300]);
        [HEAD.to_vec(), others(1), section(EXPORTS, &exports), others(10)].concat()
    }

    #[test]
    fn idle_callbacks_are_gone() {
        let names =
            ["memory", "proxy_on_log", "proxy_on_request_headers", "proxy_on_response_body"];
        let lean = without_idle_callbacks(&module(&names)).unwrap();
        let again = without_idle_callbacks(&lean).unwrap();
        assert_eq!(lean, again, "a second time there is nothing to take");
        let text = String::from_utf8_lossy(&lean);
        for (name, kept) in names.iter().zip([true, false, true, false]) {
            assert_eq!(text.contains(name), kept, "{name}");
        }
        let untouched = module(&["memory", "proxy_on_request_headers"]);
        assert_eq!(without_idle_callbacks(&untouched).unwrap(), untouched);
    }

    #[test]
    fn no_module() {
        let whole = module(&["memory", "proxy_on_log"]);
        // Behind the head and behind a section it may end.
        let ends = [8, 8 + 303, whole.len() - 303];
        for end in (0..whole.len()).filter(|end| !ends.contains(end)) {
            assert!(without_idle_callbacks(&whole[..end]).is_err(), "cut at {end}");
        }
    }

    /// Who writes one of them finds it on the list.
    #[test]
    fn what_is_taken_away_is_not_written() {
        // As the SDK calls what it calls otherwise than Envoy does.
        let method = |idle: &str| {
            let name = idle.strip_prefix("proxy_").unwrap();
            match name.strip_prefix("on_re") {
                Some(rest) if rest.starts_with("quest_") || rest.starts_with("sponse_") => {
                    format!("fn on_http_re{rest}(")
                }
                _ => format!("fn {name}("),
            }
        };
        assert_eq!(method("proxy_on_request_body"), "fn on_http_request_body(");
        assert_eq!(method("proxy_on_log"), "fn on_log(");
        let sources = sources(&cargo::root().join("wasm-filter/src"));
        for wanted in ["src/http.rs", "src/root.rs"] {
            assert!(sources.iter().any(|(path, _)| path.ends_with(wanted)), "{wanted} is not read");
        }
        for (path, text) in sources {
            for idle in IDLE {
                assert!(!text.contains(&method(idle)), "{}: {idle}", path.display());
            }
        }
    }
}
