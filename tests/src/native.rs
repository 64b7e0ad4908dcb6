//! Envoy with the native module, as `envoy-configs/native/` ships it, running.

use std::fs;
use std::path::Path;

use crate::envoy::Envoy;
use crate::ext_proc::AUDIT;
use crate::failure::{Failure, Outcome, io};
use crate::log::Folder;
use crate::stack::{Ports, Stack, replaced};
use crate::{settings, upstream};

/// The configuration that is started, from the top folder.
pub const NATIVE: &str = "envoy-configs/native/envoy.yaml";

/// The keys of the module in that file, as far as a stack has others.
const KEYS: &str = "crs: .fetched/crs-4.25.0\n                  audit: {stdout: true}\n";

/// The keys of the module, where they stand in a file of their own.
const KEYS_FILE: &str = "glacis.yaml";

/// The listener, where Envoy reads it from a file.
const LISTENER_FILE: &str = "listener.yaml";

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

/// Starts Envoy as [`start`] does, with the keys of the module in a file of their own, which [`set_keys`] replaces.
///
/// # Errors
///
/// As [`start`].
pub fn start_with_file(folder: &Path, ports: Ports, keys: &[&str]) -> Outcome<Stack> {
    let folder = Folder::new(folder)?;
    settings::envoy_module()?;
    upstream::spawn(ports.upstream)?;
    set_keys(&folder, keys)?;
    let file = format!("file: {}\n", folder.file(KEYS_FILE).display());
    let config = replaced(NATIVE, &with_ports(&ports)?, KEYS, &file)?;
    let (program, root) = (settings::envoy()?, settings::root());
    let envoy = Envoy::start(&program, &root, &config, ports.admin, &folder)?;
    Ok(Stack { envoy, ext_proc: None, folder, ports })
}

/// Replaces the file with the keys of the module.
///
/// # Errors
///
/// If it cannot be written, or CRS is missing.
pub fn set_keys(folder: &Folder, keys: &[&str]) -> Outcome<()> {
    let own = own_keys(folder, "\n")?;
    let keys: Vec<&str> = [&*own].into_iter().chain(keys.iter().copied()).collect();
    folder.write(KEYS_FILE, &keys.join("\n")).map(|_| ())
}

/// Starts Envoy as [`start`] does, with a listener that [`set_listener`] replaces while Envoy runs.
///
/// # Errors
///
/// As [`start`].
pub fn start_with_listener(folder: &Path, ports: Ports, keys: &[&str]) -> Outcome<Stack> {
    let folder = Folder::new(folder)?;
    settings::envoy_module()?;
    upstream::spawn(ports.upstream)?;
    set_listener(&folder, &ports, keys)?;
    let path = folder.file(LISTENER_FILE);
    let source = format!(
        "node: {{id: glacis, cluster: glacis}}\ndynamic_resources: {{lds_config: {{path_config_source: {{path: {}}}}}}}\n",
        path.display()
    );
    let config = config(&ports, &folder, keys)?;
    let (before, _, after) = split(&config)?;
    let config = format!("{source}{before}{after}");
    let (program, root) = (settings::envoy()?, settings::root());
    let envoy = Envoy::start(&program, &root, &config, ports.admin, &folder)?;
    Ok(Stack { envoy, ext_proc: None, folder, ports })
}

/// Replaces the listener of an Envoy that reads it from a file: its filter then has these keys.
///
/// # Errors
///
/// As [`config`], and if the file cannot be written.
pub fn set_listener(folder: &Folder, ports: &Ports, keys: &[&str]) -> Outcome<()> {
    let config = config(ports, folder, keys)?;
    let (_, listener, _) = split(&config)?;
    let head = "resources:\n- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  ";
    let listener = listener.strip_prefix("  - ").unwrap_or(listener).replace("\n  ", "\n");
    // Envoy sees files that are moved to their place.
    let new = folder.write("listener.new.yaml", &format!("{head}{listener}"))?;
    fs::rename(&new, folder.file(LISTENER_FILE)).map_err(io("rename", &new))
}

/// The shipped listener on another port, for an Envoy that has listeners already: its name and the prefix of its
/// statistics are `native`, and audit records go into the file `records`.
///
/// # Errors
///
/// As [`config`].
pub fn listener(ports: &Ports, records: &Path) -> Outcome<String> {
    let (crs, records) = (settings::crs()?, records.display());
    let indent = "\n                  ";
    let keys = format!("crs: {}{indent}audit: {{stdout: false, file: {records}}}\n", crs.display());
    let config = replaced(NATIVE, &with_ports(ports)?, KEYS, &keys)?;
    let (_, listener, _) = split(&config)?;
    let named = replaced(
        NATIVE,
        listener,
        "  - name: glacis\n    address",
        "  - name: native\n    address",
    )?;
    replaced(NATIVE, &named, "stat_prefix: glacis", "stat_prefix: native")
}

/// A configuration in three parts: what stands before its listeners, these, and what stands behind them.
fn split(config: &str) -> Outcome<(&str, &str, &str)> {
    let (before, rest) = config.split_once("  listeners:\n").unwrap_or_default();
    match rest.split_once("\n  clusters:\n") {
        Some((listener, _)) => {
            let after = rest.get(listener.len() + 1..).unwrap_or_default();
            Ok((before, rest.get(..=listener.len()).unwrap_or_default(), after))
        }
        None => Err(Failure::new(format!("{NATIVE} has no listeners before its clusters"))),
    }
}

/// The shipped configuration with these ports and keys.
///
/// # Errors
///
/// If the file cannot be read, or does not contain what is to be replaced.
pub fn config(ports: &Ports, folder: &Folder, keys: &[&str]) -> Outcome<String> {
    let indent = "\n                  ";
    let own = own_keys(folder, indent)?;
    let keys: Vec<&str> = [&*own].into_iter().chain(keys.iter().copied()).collect();
    replaced(NATIVE, &with_ports(ports)?, KEYS, &format!("{}\n", keys.join(indent)))
}

/// The keys of each stack here: CRS, and the audit log in a file.
fn own_keys(folder: &Folder, between: &str) -> Outcome<String> {
    let (crs, audit) = (settings::crs()?, folder.file(AUDIT));
    let (crs, audit) = (crs.display(), audit.display());
    Ok(format!("crs: {crs}{between}audit: {{stdout: false, file: {audit}}}"))
}

fn with_ports(ports: &Ports) -> Outcome<String> {
    let path = settings::root().join(NATIVE);
    let mut config = fs::read_to_string(&path).map_err(io("read", &path))?;
    let from = Ports::QUICKSTART;
    for (old, new) in
        [(from.proxy, ports.proxy), (from.admin, ports.admin), (from.upstream, ports.upstream)]
    {
        let (old, new) = (format!("port_value: {old}}}"), format!("port_value: {new}}}"));
        config = replaced(NATIVE, &config, &old, &new)?;
    }
    Ok(config)
}
