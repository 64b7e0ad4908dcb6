//! A running ext-proc, with the configuration that the repository ships.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::failure::{Failure, Outcome, io};
use crate::http;
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::settings;

/// The log of ext-proc, in the folder of a run.
pub const LOG: &str = "ext-proc.log";
/// Its audit log, in the same folder.
pub const AUDIT: &str = "audit.jsonl";
/// Its configuration, in the same folder.
const CONFIG: &str = "ext-proc.yaml";
/// The configuration that is started, from the top folder.
const SHIPPED: &str = "envoy-configs/quickstart/ext-proc.yaml";
/// The port for operators in that file.
pub const ADMIN_PORT: u16 = 9101;

/// Compiling the CRS takes a while in an unoptimised build on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running ext-proc, stopped when dropped.
#[derive(Debug)]
pub struct ExtProc {
    process: Process,
    config: PathBuf,
    log: PathBuf,
    admin: SocketAddr,
    /// The shipped configuration, when it was started with it.
    shipped: String,
}

impl ExtProc {
    /// Starts it with the shipped configuration on these ports, and further keys in YAML, and waits
    /// until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not start, with the end of its log.
    pub fn start(port: u16, admin_port: u16, keys: &str, folder: &Folder) -> Outcome<Self> {
        let shipped = shipped(port, admin_port, folder)?;
        let started = Self::start_with(&format!("{shipped}{keys}"), admin_port, folder)?;
        Ok(Self { shipped, ..started })
    }

    /// Starts it with this configuration and waits until it is ready.
    ///
    /// # Errors
    ///
    /// As [`ExtProc::start`].
    pub fn start_with(config: &str, admin_port: u16, folder: &Folder) -> Outcome<Self> {
        let config = folder.write(CONFIG, config)?;
        let log = folder.file(LOG);
        let process = spawn(&config, &log)?;
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, admin_port));
        let shipped = String::new();
        let mut ext_proc = Self { process, config, log, admin, shipped };
        ext_proc.wait_until_ready()?;
        Ok(ext_proc)
    }

    /// Starts it again, after it has been killed.
    ///
    /// # Errors
    ///
    /// As [`ExtProc::start`].
    pub fn restart(&mut self) -> Outcome<()> {
        self.process.kill();
        self.process = spawn(&self.config, &self.log)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Outcome<()> {
        let admin = self.admin;
        let ready = || http::fetch(admin, "/readyz").is_ok_and(|answer| answer.status == 200);
        self.process.wait_until(START, ready).map_err(|failure| {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            Failure::new(format!("{failure}\n{}", tail(&log)))
        })
    }

    /// Gives its configuration further keys, in YAML, instead of those it was given before, at once
    /// as far as a reader can see. It is read soon, or at SIGHUP.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn set_keys(&self, keys: &str) -> Outcome<()> {
        let new = self.config.with_extension("new");
        fs::write(&new, format!("{}{keys}", self.shipped)).map_err(io("write", &new))?;
        fs::rename(&new, &self.config).map_err(io("replace", &self.config))
    }

    /// Makes it read its configuration anew now.
    ///
    /// # Errors
    ///
    /// If no signal can be sent.
    pub fn hang_up(&self) -> Outcome<()> {
        self.process.hang_up()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its metrics: name with labels → value.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn metrics(&self) -> Outcome<BTreeMap<String, f64>> {
        Ok(samples(&http::fetch(self.admin, "/metrics")?.text()))
    }
}

/// The samples of a scrape: name with labels → value.
pub(crate) fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    pairs.collect()
}

/// Where it is written down how the C library allocates memory in the image of ext-proc.
const DOCKERFILE: &str = include_str!("../../Dockerfile");

/// The environment that the image of ext-proc gives it: what is tried and measured here is what is shipped.
fn environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = DOCKERFILE.lines().skip_while(|line| *line != "FROM scratch AS ext-proc");
    let own = own.skip(1).take_while(|line| !line.starts_with("FROM "));
    let lines = own.filter_map(|line| line.strip_prefix("ENV "));
    lines.flat_map(str::split_whitespace).filter_map(|variable| variable.split_once('='))
}

/// ext-proc with this configuration, in the environment of its image.
pub(crate) fn command(config: &Path) -> Outcome<Command> {
    let mut command = Command::new(settings::ext_proc()?);
    command.arg("--config").arg(config).envs(environment());
    Ok(command)
}

fn spawn(config: &Path, log: &Path) -> Outcome<Process> {
    Process::start("ext-proc", command(config)?.current_dir(settings::root()), log)
}

/// The shipped configuration with these ports, and with everything where it is.
fn shipped(port: u16, admin_port: u16, folder: &Folder) -> Outcome<String> {
    let audit = folder.file(AUDIT).display().to_string();
    let crs = settings::crs()?.display().to_string();
    edited(
        SHIPPED,
        &[
            ("127.0.0.1:9001", format!("127.0.0.1:{port}")),
            ("127.0.0.1:9101", format!("127.0.0.1:{admin_port}")),
            ("../../.fetched/crs-4.25.0", crs),
            ("stdout: true", format!("stdout: false\n  file: {audit}")),
        ],
    )
}

/// A configuration, from the top folder, with texts in it replaced.
///
/// # Errors
///
/// If it cannot be read, or a text is not in it.
pub fn edited(file: &str, edits: &[(&str, String)]) -> Outcome<String> {
    let path = settings::root().join(file);
    let config = fs::read_to_string(&path).map_err(io("read", &path))?;
    edits.iter().try_fold(config, |config, (old, new)| {
        if !config.contains(old) {
            return Err(Failure::new(format!("{file} does not contain {old:?}")));
        }
        Ok(config.replace(old, new))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents tell it to those who run ext-proc without an image.
    #[test]
    fn the_environment_of_the_image_is_found_and_documented() {
        let document = include_str!("../../docs/ext-proc.md");
        let variables: Vec<String> =
            environment().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(variables.len(), 3, "{variables:?}");
        for variable in variables {
            assert!(document.contains(&variable), "{variable} is not in docs/ext-proc.md");
        }
    }
}
