//! Links the unwinder of the C compiler statically: images of Envoy without a C compiler's libraries lack `libgcc_s.so.1`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    // A module that is unloaded while one of its threads runs would take Envoy down with it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let told = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output();
    let path = told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    let folder = path.ok().and_then(|path| Some(Path::new(&path).parent()?.to_owned()));
    // Without the archive the module still works where libgcc_s is installed.
    let Some(folder) = folder.filter(|folder| folder.join("libgcc_eh.a").is_file()) else {
        println!("cargo::warning=libgcc_eh.a is missing: libglacis.so will need libgcc_s.so.1");
        return;
    };
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=gcc_eh");
}
