//! `cargo xtask image`: what is in the images of the services and of the native module, without a daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, Artifacts, output};
use crate::failure::{self, Failure, Outcome};
use crate::fetch::{self, Fetched};
use crate::linked::{self, Linked, Product};
use crate::machine;
use crate::wasm;

/// Bytes that the files of ext-proc's image may have, CRS and the module left out.
const BYTES_MAX: u64 = 40_000_000;

/// Bytes that the native module may have. CRS is not in it.
const LIBRARY_BYTES_MAX: u64 = 12_000_000;

/// The image of the native module.
const NATIVE: &str = "glacis-native";

/// The services.
const SERVICES: [&str; 2] = ["glacis-ext-proc", "glacis-ext-authz"];

/// `cargo xtask image`: builds release binaries and lays out both images, tries them, and makes images of them where
/// buildah is installed or can be.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    crate::flags(arguments, &[])?;
    let fetched = fetch::ensure()?;
    let wasm = wasm::build()?;
    let packages = ["-p", SERVICES[0], "-p", SERVICES[1], "-p", linked::MODULE];
    let built = cargo::build(&[&["--release"][..], &packages].concat())?;
    for service in SERVICES {
        let module = (service == SERVICES[0]).then_some(wasm.as_path());
        let root = fetch::path().join("images").join(service);
        let bytes = make(&root, service, &fetched, module, &built)?;
        println!("{service}: {:.1} MB without CRS and the module", bytes as f64 / 1e6);
        if bytes > BYTES_MAX {
            return Err(Failure::new(format!("{service}: the limit is {BYTES_MAX} bytes")));
        }
        image(&root, service)?.iter().for_each(|remark| println!("{remark}"));
    }
    let root = fetch::path().join("images").join(NATIVE);
    let bytes = make_module(&root, &fetched, &built)?;
    println!("{NATIVE}: {:.1} MB without CRS", bytes as f64 / 1e6);
    if bytes > LIBRARY_BYTES_MAX {
        return Err(Failure::new(format!("{NATIVE}: the limit is {LIBRARY_BYTES_MAX} bytes")));
    }
    match buildah()? {
        Ok(buildah) => archive(&buildah, &root, NATIVE).map(|_| ()),
        Err(why) => {
            println!("SKIPPED: no image of {NATIVE} was made ({why})");
            Ok(())
        }
    }
}

/// A step of the tests: the image of ext-proc with the program that has just been built, and the files of that of the
/// native module, which are not optimised and larger than what is shipped. Returns what was left out, if anything was.
pub(crate) fn check(fetched: &Fetched, wasm: &Path, built: &Artifacts) -> Outcome<Option<String>> {
    let root = fetch::path().join("images/tried").join(SERVICES[0]);
    let bytes = make(&root, SERVICES[0], fetched, Some(wasm), built)?;
    println!("{}: {:.1} MB, not optimised", SERVICES[0], bytes as f64 / 1e6);
    let remark = image(&root, SERVICES[0])?;
    fs::remove_dir_all(&root).map_err(failure::io("remove", &root))?;
    let root = fetch::path().join("images/tried").join(NATIVE);
    make_module(&root, fetched, built)?;
    fs::remove_dir_all(&root).map_err(failure::io("remove", &root))?;
    Ok(remark)
}

/// Lays out the files of an image and tries the program in them; returns how many bytes they have, CRS and the module
/// left out.
fn make(
    root: &Path,
    service: &'static str,
    fetched: &Fetched,
    module: Option<&Path>,
    built: &Artifacts,
) -> Outcome<u64> {
    let program = built.binaries.get(service);
    let program = program.ok_or_else(|| Failure::new(format!("no {service} was built")))?;
    let bytes = lay_out(root, program, &fetched.crs, module)?;
    let service_alone = Linked::into(Product::Program(service))?;
    let sbom = root.join("usr/share/glacis/sbom.cdx.json");
    fs::write(&sbom, service_alone.bill()).map_err(failure::io("write", &sbom))?;
    let mut all = vec![service_alone];
    if module.is_some() {
        all.push(Linked::into(Product::Filter)?);
    }
    let notices = root.join("usr/share/licenses/glacis/THIRD-PARTY.txt");
    fs::write(&notices, linked::notices(&all)?).map_err(failure::io("write", &notices))?;
    try_out(root, service)?;
    Ok(bytes)
}

/// Lays out the files of the native module's image, and has Envoy load the module with the rules that are in it;
/// returns how many bytes the module has.
fn make_module(root: &Path, fetched: &Fetched, built: &Artifacts) -> Outcome<u64> {
    if root.exists() {
        fs::remove_dir_all(root).map_err(failure::io("remove", root))?;
    }
    let mut layout = Command::new("sh");
    layout.arg(cargo::root().join("images/module.sh")).arg(root);
    output(layout.arg(built.module()?).arg(&fetched.crs))?;
    let module = root.join("module");
    let linked = Linked::into(Product::Module)?;
    let write = |name: &str, text: &str| {
        let file = module.join(name);
        fs::write(&file, text).map_err(failure::io("write", &file))
    };
    write("sbom.cdx.json", &linked.bill())?;
    write("THIRD-PARTY.txt", &linked::notices(&[linked])?)?;
    let shipped = cargo::root().join("envoy-configs/native/envoy.yaml");
    let config = fs::read_to_string(&shipped).map_err(failure::io("read", &shipped))?;
    let config = config
        .replace("crs: .fetched/crs-4.25.0", &format!("crs: {}", module.join("crs").display()));
    let tried = root.with_extension("yaml");
    fs::write(&tried, config).map_err(failure::io("write", &tried))?;
    let mut envoy = Command::new(&fetched.envoy);
    envoy.args(["--mode", "validate", "-c"]).arg(&tried);
    output(envoy.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", &module))?;
    fs::remove_file(&tried).map_err(failure::io("remove", &tried))?;
    let library = module.join("libglacis.so");
    Ok(library.metadata().map_err(failure::io("read", &library))?.len())
}

/// The program that makes images, or why there is none.
fn buildah() -> Outcome<Result<Buildah, String>> {
    let found = fetch::debian::installed("buildah", "buildah")?;
    Ok(found.map(|program| Buildah { program }))
}

/// Makes an image of the files, in an archive.
fn archive(buildah: &Buildah, root: &Path, name: &str) -> Outcome<PathBuf> {
    let archive = buildah.assemble(root, name)?;
    let bytes = archive.metadata().map_err(failure::io("read", &archive))?.len();
    println!("{name}: {} ({:.1} MB)", archive.display(), bytes as f64 / 1e6);
    Ok(archive)
}

/// Makes an image of the files and runs it; or says why not.
fn image(root: &Path, service: &str) -> Outcome<Option<String>> {
    let buildah = match buildah()? {
        Ok(buildah) => buildah,
        Err(why) => {
            return Ok(Some(format!("SKIPPED: no image of {service} was made ({why})")));
        }
    };
    let archive = archive(&buildah, root, service)?;
    let told = buildah.run(&archive, service)?;
    if !told.contains(service) {
        return Err(Failure::new(format!("{service} in its image said {told:?}")));
    }
    Ok(None)
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
    Ok(size(root)? - size(&root.join("usr/share/glacis"))?)
}

fn size(folder: &Path) -> Outcome<u64> {
    let told = output(
        Command::new("du").args(["--summarize", "--apparent-size", "--block-size=1"]).arg(folder),
    )?;
    let number = told.split_whitespace().next().unwrap_or_default();
    number.parse().map_err(|_| Failure::new(format!("du said {told}")))
}

/// Runs the program with nothing but the files of its image, and with the rules in it.
fn try_out(root: &Path, service: &str) -> Outcome<()> {
    let text =
        if service == SERVICES[0] { "crs: /usr/share/glacis/crs\n" } else { "otherwise: allow\n" };
    let inside = root.join("etc/glacis/check.yaml");
    fs::write(&inside, text).map_err(failure::io("write", &inside))?;
    // Who is not root becomes it in a namespace of users, where that is allowed.
    let is_root = machine::is_root()?;
    let mut check = Command::new(if is_root { "chroot" } else { "unshare" });
    if !is_root {
        check.args(["--user", "--map-root-user", "chroot"]);
    }
    check.arg(root).arg(format!("/usr/bin/{service}"));
    let told = output(check.args(["--config", "/etc/glacis/check.yaml", "--check"]));
    fs::remove_file(&inside).map_err(failure::io("remove", &inside))?;
    told.map(|_| ())
}

/// The variables that the Dockerfile gives the image of a service.
fn environment(service: &str) -> Outcome<Vec<String>> {
    let path = cargo::root().join("Dockerfile");
    let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let name = service.trim_start_matches("glacis-");
    let own = text.lines().skip_while(|line| *line != format!("FROM scratch AS {name}"));
    let own = own.skip(1).take_while(|line| !line.starts_with("FROM "));
    let lines = own.filter_map(|line| line.strip_prefix("ENV "));
    Ok(lines.flat_map(str::split_whitespace).map(ToOwned::to_owned).collect())
}

/// Makes images without a daemon.
struct Buildah {
    program: PathBuf,
}

impl Buildah {
    fn told(&self, arguments: &[&str]) -> Outcome<String> {
        // Nothing that others have configured or stored is touched.
        let storage = fetch::path().join("images/storage");
        let mut buildah = Command::new(&self.program);
        buildah.args(["--storage-driver", "vfs", "--root"]).arg(storage.join("root"));
        buildah.arg("--runroot").arg(storage.join("run"));
        output(buildah.args(arguments))
    }

    /// An image in an archive of OCI's form.
    fn assemble(&self, root: &Path, service: &str) -> Outcome<PathBuf> {
        let container = self.told(&["from", "scratch"])?;
        let container = container.trim();
        self.told(&["copy", container, &root.to_string_lossy(), "/"])?;
        for variable in environment(service)? {
            self.told(&["config", "--env", &variable, container])?;
        }
        // The module is for a volume of Envoy's: there is nothing to run in it.
        if SERVICES.contains(&service) {
            let entry = format!("[\"/usr/bin/{service}\"]");
            self.told(&["config", "--user", "65532:65532", "--entrypoint", &entry, container])?;
        }
        let title = format!("org.opencontainers.image.title={service}");
        let licence = "org.opencontainers.image.licenses=Apache-2.0";
        self.told(&["config", "--label", &title, "--label", licence, container])?;
        let archive = PathBuf::from(format!("{}.tar", root.display()));
        let _ = fs::remove_file(&archive);
        let target = format!("oci-archive:{}:{service}", archive.display());
        self.told(&["commit", "--timestamp", "0", "--rm", container, &target])?;
        Ok(archive)
    }

    /// What the program in an image says, run as the user that the image names.
    fn run(&self, archive: &Path, service: &str) -> Outcome<String> {
        let container = self.told(&["from", &format!("oci-archive:{}", archive.display())])?;
        let container = container.trim();
        let program = format!("/usr/bin/{service}");
        let told =
            self.told(&["run", "--isolation", "chroot", container, "--", &program, "--version"]);
        self.told(&["rm", container])?;
        told
    }
}
