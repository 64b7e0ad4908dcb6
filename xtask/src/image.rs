//! `cargo xtask image` and `cargo xtask sbom`: what is in the images of the services, without a daemon.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cargo::{self, cargo, find_on_path, output};
use crate::failure::{self, Failure, Outcome};
use crate::{fetch, suite};

/// Bytes that the files of ext-proc's image may have, CRS and the module left out.
const BYTES_MAX: u64 = 40_000_000;

/// The services.
const SERVICES: [&str; 2] = ["glacis-ext-proc", "glacis-ext-authz"];

/// `cargo xtask image`: builds release binaries and lays out both images, tries them, and makes images of them where
/// buildah is installed.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    let fetched = fetch::ensure()?;
    let wasm = suite::build_wasm()?;
    let built = cargo::build(&["--release", "-p", SERVICES[0], "-p", SERVICES[1]])?;
    let place = fetch::path().join("images");
    for service in SERVICES {
        let program = built
            .binaries
            .get(service)
            .ok_or_else(|| Failure::new(format!("no {service} was built")))?;
        let root = place.join(service);
        let module = (service == SERVICES[0]).then_some(wasm.as_path());
        let bytes = lay_out(&root, program, &fetched.crs, module)?;
        let sbom = root.join("usr/share/glacis/sbom.cdx.json");
        fs::write(&sbom, bill(service)?).map_err(failure::io("write", &sbom))?;
        let config = place.join(format!("{service}.yaml"));
        try_out(&root, service, &config)?;
        println!("{service}: {:.1} MB without CRS and the module", bytes as f64 / 1e6);
        match find_on_path("buildah") {
            Some(buildah) => assemble(&buildah, &root, service)?,
            None => println!("SKIPPED: no image was made of it (buildah is not installed)"),
        }
    }
    Ok(())
}

/// Lays out the files of one image and returns how many bytes they have, CRS and the module left out.
fn lay_out(root: &Path, program: &Path, crs: &Path, module: Option<&Path>) -> Outcome<u64> {
    if root.exists() {
        fs::remove_dir_all(root).map_err(failure::io("remove", root))?;
    }
    let script = cargo::root().join("images/rootfs.sh");
    let mut layout = Command::new("sh");
    layout.arg(script).arg(root).arg(program).arg(crs);
    output(layout.args(module))?;
    let bytes = size(root)? - size(&root.join("usr/share/glacis"))?;
    if bytes > BYTES_MAX {
        return Err(Failure::new(format!(
            "{}: {bytes} bytes; the limit is {BYTES_MAX}",
            root.display()
        )));
    }
    Ok(bytes)
}

fn size(folder: &Path) -> Outcome<u64> {
    let told = output(
        Command::new("du").args(["--summarize", "--apparent-size", "--block-size=1"]).arg(folder),
    )?;
    let number = told.split_whitespace().next().unwrap_or_default();
    number.parse().map_err(|_| Failure::new(format!("du said {told}")))
}

/// Runs the program with nothing but the files of its image, and with the rules in it.
fn try_out(root: &Path, service: &str, config: &Path) -> Outcome<()> {
    let text =
        if service == SERVICES[0] { "crs: /usr/share/glacis/crs\n" } else { "otherwise: allow\n" };
    fs::write(config, text).map_err(failure::io("write", config))?;
    let inside = root.join("etc/glacis/check.yaml");
    fs::copy(config, &inside).map_err(failure::io("write", &inside))?;
    let mut check = Command::new("unshare");
    check.args(["--user", "--map-root-user", "chroot"]).arg(root);
    check.arg(format!("/usr/bin/{service}")).args([
        "--config",
        "/etc/glacis/check.yaml",
        "--check",
    ]);
    let told = output(&mut check);
    fs::remove_file(&inside).map_err(failure::io("remove", &inside))?;
    told.map(|_| ())
}

/// An image in an archive of OCI's form, by buildah, which needs no daemon.
fn assemble(buildah: &Path, root: &Path, service: &str) -> Outcome<()> {
    let run = |arguments: &[&str]| {
        output(Command::new(buildah).args(["--storage-driver", "vfs"]).args(arguments))
    };
    let container = run(&["from", "scratch"])?;
    let container = container.trim();
    run(&["copy", container, &root.to_string_lossy(), "/"])?;
    let entry = format!("[\"/usr/bin/{service}\"]");
    run(&["config", "--user", "65532:65532", "--entrypoint", &entry, container])?;
    let title = format!("org.opencontainers.image.title={service}");
    run(&[
        "config",
        "--label",
        &title,
        "--label",
        "org.opencontainers.image.licenses=Apache-2.0",
        container,
    ])?;
    let archive = PathBuf::from(format!("{}.tar", root.display()));
    let _ = fs::remove_file(&archive);
    run(&[
        "commit",
        "--timestamp",
        "0",
        "--rm",
        container,
        &format!("oci-archive:{}:{service}", archive.display()),
    ])?;
    let bytes = archive.metadata().map_err(failure::io("read", &archive))?.len();
    println!("{service}: {} ({:.1} MB)", archive.display(), bytes as f64 / 1e6);
    Ok(())
}

/// `cargo xtask sbom PACKAGE`.
pub(crate) fn sbom(arguments: &[String]) -> Outcome<()> {
    let [package] = arguments else {
        return Err(Failure::usage("sbom needs one package: cargo xtask sbom glacis-ext-proc"));
    };
    print!("{}", bill(package)?);
    Ok(())
}

/// What is linked into a package, as a bill of materials in CycloneDX's JSON.
fn bill(package: &str) -> Outcome<String> {
    let tree = [
        "tree",
        "--locked",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
        "--package",
        package,
    ];
    let told = output(&mut cargo(tree))?;
    let components: Vec<Value> = components(&told)
        .into_iter()
        .map(|((name, version), licence)| {
            let purl = format!("pkg:cargo/{name}@{version}");
            let mut component = json!({"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl});
            if !licence.is_empty() {
                component["licenses"] = json!([{"expression": licence}]);
            }
            component
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "name": package}},
        "components": components,
    });
    Ok(format!("{bill:#}\n"))
}

/// Name and version with the licence, of lines such as `ring v0.17.14<TAB>Apache-2.0 AND ISC`.
fn components(told: &str) -> BTreeMap<(String, String), String> {
    let mut components = BTreeMap::new();
    for line in told.lines() {
        let Some((package, licence)) = line.split_once('\t') else { continue };
        let mut words = package.split_whitespace();
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            let version = version.trim_start_matches('v').to_owned();
            let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
            components.insert((name.to_owned(), version), licence);
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_tree_is_a_component() {
        let told = "glacis-ext-proc v0.1.0 (/src/ext-proc)\tApache-2.0\nring v0.17.14\tApache-2.0 AND ISC\n\
                    ring v0.17.14\tApache-2.0 AND ISC (*)\na v1.0.0\tMIT/Apache-2.0\nnothing\n";
        let components = components(told);
        let told: Vec<_> = components
            .iter()
            .map(|((name, _), licence)| (name.as_str(), licence.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("a", "MIT OR Apache-2.0"),
                ("glacis-ext-proc", "Apache-2.0"),
                ("ring", "Apache-2.0 AND ISC")
            ]
        );
    }
}
