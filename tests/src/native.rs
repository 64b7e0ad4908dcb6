//! Envoy with the native module, as `envoy-configs/native/` ships it, running.

use std::fs;
use std::path::Path;

use crate::envoy::Envoy;
use crate::ext_proc::AUDIT;
use crate::failure::{Outcome, io};
use crate::log::Folder;
use crate::stack::{Ports, Stack, replaced};
use crate::{settings, upstream};

/// The configuration that is started, from the top folder.
pub const NATIVE: &str = "envoy-configs/native/envoy.yaml";

/// The keys of the module in that file, as far as a stack has others.
const KEYS: &str = "crs: .fetched/crs-4.25.0\n                  audit: {stdout: true}\n";

/// Starts Envoy with the module and the sample upstream in `folder`, and waits until it is ready. `keys` are keys of the
/// module besides CRS and the audit log, a line of YAML each. `edits` are as for [`Stack::start`].
///
/// # Errors
///
/// If something is missing, does not start, or an edit has nothing to replace.
pub fn start(folder: &Path, ports: Ports, keys: &[&str], edits: &[(&str, &str)]) -> Outcome<Stack> {
    start_in(&settings::envoy()?, folder, ports, keys, edits, 2)
}

/// As [`start`], in an Envoy of another version, with so many workers.
///
/// # Errors
///
/// As [`start`].
pub fn start_in(
    envoy: &Path,
    folder: &Path,
    ports: Ports,
    keys: &[&str],
    edits: &[(&str, &str)],
    workers: usize,
) -> Outcome<Stack> {
    let folder = Folder::new(folder)?;
    settings::envoy_module()?;
    upstream::spawn(ports.upstream)?;
    let config = config(&ports, &folder, keys)?;
    let edited =
        edits.iter().try_fold(config, |config, (old, new)| replaced(NATIVE, &config, old, new))?;
    let root = settings::root();
    let envoy = Envoy::start_with_workers(envoy, &root, &edited, ports.admin, &folder, workers)?;
    Ok(Stack { envoy, ext_proc: None, folder, ports })
}

/// The shipped configuration with these ports and keys.
///
/// # Errors
///
/// If the file cannot be read, or does not contain what is to be replaced.
pub fn config(ports: &Ports, folder: &Folder, keys: &[&str]) -> Outcome<String> {
    let path = settings::root().join(NATIVE);
    let mut config = fs::read_to_string(&path).map_err(io("read", &path))?;
    let from = Ports::QUICKSTART;
    for (old, new) in
        [(from.proxy, ports.proxy), (from.admin, ports.admin), (from.upstream, ports.upstream)]
    {
        let (old, new) = (format!("port_value: {old}}}"), format!("port_value: {new}}}"));
        config = replaced(NATIVE, &config, &old, &new)?;
    }
    let indent = "\n                  ";
    let (crs, audit) = (settings::crs()?, folder.file(AUDIT));
    let own = format!(
        "crs: {}{indent}audit: {{stdout: false, file: {}}}",
        crs.display(),
        audit.display()
    );
    let keys: Vec<&str> = [&*own].into_iter().chain(keys.iter().copied()).collect();
    replaced(NATIVE, &config, KEYS, &format!("{}\n", keys.join(indent)))
}
