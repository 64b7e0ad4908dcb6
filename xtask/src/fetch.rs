//! `cargo xtask fetch`: brings what we do not own into `.fetched/`, pinned and verified.
//!
//! Each item is either used from where the user has it (an environment variable names it), or
//! already there (its stamp file holds the digest of its pin), or downloaded (plainly by curl or wget, otherwise by the
//! ordinary client of a registry) into a temporary folder, compared with the pin and only then renamed to its place. A lock file
//! makes a second fetch wait for the first. What is missing on the machine is reported before
//! anything is downloaded, all of it at once.

mod crs;
pub(crate) mod debian;
pub(crate) mod debian_source;
pub(crate) mod download;
pub(crate) mod envoy;
pub(crate) mod go;
pub(crate) mod helm;
mod prerequisite;
pub(crate) mod python;
pub(crate) mod redis;
pub(crate) mod valkey;

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::cargo;
use crate::failure::{self, Failure, Outcome};
use crate::pins::WASM_TARGET;
use prerequisite::Need;

/// Where the fetched things are.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Envoy's executable.
    pub(crate) envoy: PathBuf,
    /// A folder with `crs-setup.conf.example` and `rules/`; the pinned one has `tests/` as well.
    pub(crate) crs: PathBuf,
}

/// An item before anything was done for it.
enum State {
    /// Usable as it is; the text says what it is and whence.
    Ready(PathBuf, String),
    /// Must be brought to this path.
    Missing(PathBuf),
}

impl State {
    fn path(&self) -> &Path {
        match self {
            Self::Ready(path, _) | Self::Missing(path) => path,
        }
    }

    fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

/// `fetch`, and the undocumented-in-help `fetch --write-pins` of `rules/README.md`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--write-pins"])?;
    if flags.contains(&"--write-pins") {
        let folder = Folder::open()?;
        return crs::write_pins(&folder);
    }
    ensure()?;
    envoy::ensure_older()
}

/// Brings everything that is not there yet. Prints one line per item.
pub(crate) fn ensure() -> Outcome<Fetched> {
    let target = wasm_target()?;
    let (mut envoy, mut crs) = (envoy::state()?, crs::state()?);
    let missing = prerequisite::missing(&Need {
        envoy: envoy.is_missing(),
        crs: crs.is_missing(),
        wasm_target: target.is_missing(),
    });
    if !missing.is_empty() {
        return Err(Failure::new(missing.join("\n")));
    }
    if envoy.is_missing() || crs.is_missing() {
        let folder = Folder::open()?;
        // Whoever held the lock before us may have brought them.
        (envoy, crs) = (envoy::state()?, crs::state()?);
        bring(&envoy, &envoy::label(), |path| envoy::bring(&folder, path))?;
        bring(&crs, &crs::label(), |path| crs::bring(&folder, path))?;
    } else {
        bring(&envoy, &envoy::label(), |_| Ok(()))?;
        bring(&crs, &crs::label(), |_| Ok(()))?;
    }
    bring(&target, &format!("rust-std for {WASM_TARGET}"), |_| {
        cargo::output(Command::new("rustup").args(["target", "add", WASM_TARGET])).map(|_| ())
    })?;
    Ok(Fetched { envoy: envoy.path().to_path_buf(), crs: crs.path().to_path_buf() })
}

/// Does the work for an item, if there is any, and prints its progress line.
fn bring(state: &State, label: &str, work: impl FnOnce(&Path) -> Outcome<()>) -> Outcome<()> {
    let path = match state {
        State::Ready(_, told) => {
            println!("{told}");
            return Ok(());
        }
        State::Missing(path) => path,
    };
    print!("fetching {label} … ");
    // The line is for the person waiting: it must be seen before the wait, not after it.
    let _ = std::io::stdout().flush();
    let begun = Instant::now();
    match work(path) {
        Ok(()) => {
            println!("ok {:.1} s", begun.elapsed().as_secs_f64());
            Ok(())
        }
        Err(failure) => {
            println!("failed");
            Err(Failure::new(format!("fetching {label} failed: {failure}")))
        }
    }
}

/// Whether the compiler has the standard library of the wasm target.
fn wasm_target() -> Outcome<State> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--print", "target-libdir", "--target", WASM_TARGET]).current_dir(cargo::root());
    let folder = PathBuf::from(cargo::output(&mut command)?.trim());
    Ok(if folder.is_dir() {
        State::Ready(folder, format!("rust-std for {WASM_TARGET}: already there"))
    } else {
        State::Missing(folder)
    })
}

/// `.fetched/`, locked for as long as this value lives.
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn open() -> Outcome<Self> {
        let path = path();
        fs::create_dir_all(&path).map_err(failure::io("create", &path))?;
        let lock_path = path.join(".lock");
        let lock = File::create(&lock_path).map_err(failure::io("create", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                println!("waiting for another `cargo xtask fetch` to finish");
                lock.lock().map_err(failure::io("lock", &lock_path))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(failure::io("lock", &lock_path)(error));
            }
        }
        Ok(Self { path, _lock: lock })
    }

    /// An empty folder for work in progress. It is on the file system of its result, so that
    /// renaming is atomic; what a killed fetch left there goes first.
    fn scratch(&self) -> Outcome<PathBuf> {
        let path = self.path.join("tmp");
        remove(&path)?;
        fs::create_dir_all(&path).map_err(failure::io("create", &path))?;
        Ok(path)
    }

    /// Stamps the finished folder with its pin, moves it to its place and clears the scratch.
    fn install(&self, made: &Path, place: &Path, pin: &str) -> Outcome<()> {
        let stamp = made.join(STAMP);
        fs::write(&stamp, pin).map_err(failure::io("write", &stamp))?;
        remove(place)?;
        fs::rename(made, place).map_err(failure::io("create", place))?;
        remove(&self.path.join("tmp"))
    }
}

/// The ignored folder for everything fetched.
pub(crate) fn path() -> PathBuf {
    cargo::root().join(".fetched")
}

/// Name of the file that holds the digest of the pin its folder was verified against.
const STAMP: &str = ".pin";

/// Whether the folder was installed with this very pin.
fn is_stamped(folder: &Path, pin: &str) -> bool {
    fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == pin)
}

fn remove(folder: &Path) -> Outcome<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failure::io("remove", folder))?;
    }
    Ok(())
}
