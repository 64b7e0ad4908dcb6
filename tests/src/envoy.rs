//! A running Envoy.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::failure::{Failure, Outcome, io};
use crate::http::{self, Request};
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::settings;

/// The log of Envoy itself, in the folder of a run.
pub const LOG: &str = "envoy.log";
/// Its configuration, in the same folder.
pub const CONFIG: &str = "envoy.yaml";

/// Compiling the wasm module takes seconds on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running Envoy, stopped when dropped.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    admin: SocketAddr,
}

impl Envoy {
    /// Starts Envoy in the folder `root`, to which the paths of the configuration are relative,
    /// and waits until it accepts requests.
    ///
    /// Standard output, where the access log goes, and standard error are both in [`LOG`].
    ///
    /// # Errors
    ///
    /// If it does not start, with the end of its log.
    pub fn start(
        program: &Path,
        root: &Path,
        config: &str,
        admin_port: u16,
        folder: &Folder,
    ) -> Outcome<Self> {
        Self::start_with_workers(program, root, config, admin_port, folder, 2)
    }

    /// The same with so many workers.
    ///
    /// # Errors
    ///
    /// As [`Envoy::start`].
    pub fn start_with_workers(
        program: &Path,
        root: &Path,
        config: &str,
        admin_port: u16,
        folder: &Folder,
        workers: usize,
    ) -> Outcome<Self> {
        // Hot restart would tie together all Envoys of this machine.
        let options = ["--disable-hot-restart".to_owned()];
        Self::run(program, root, config, admin_port, folder, workers, &options)
    }

    /// As [`Envoy::start`], but this Envoy can be replaced by one of the next epoch: the new one takes over its
    /// sockets, and the old one ends by itself some seconds later.
    ///
    /// # Errors
    ///
    /// As [`Envoy::start`].
    pub fn start_replaceable(
        program: &Path,
        root: &Path,
        config: &str,
        admin_port: u16,
        folder: &Folder,
        epoch: u32,
    ) -> Outcome<Self> {
        // The number that old and new share is that of a port which nobody else has.
        let base = admin_port.to_string();
        let epoch = epoch.to_string();
        let options = ["--base-id", &base, "--restart-epoch", &epoch];
        let times = ["--drain-time-s", "3", "--parent-shutdown-time-s", "5"];
        let options: Vec<String> =
            options.into_iter().chain(times).map(ToOwned::to_owned).collect();
        Self::run(program, root, config, admin_port, folder, 2, &options)
    }

    fn run(
        program: &Path,
        root: &Path,
        config: &str,
        admin_port: u16,
        folder: &Folder,
        workers: usize,
        options: &[String],
    ) -> Outcome<Self> {
        let config = folder.write(CONFIG, config)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).current_dir(root);
        find_modules(&mut command);
        command.args(["--concurrency", &workers.to_string(), "-l", "warning"]).args(options);
        let mut process = Process::start("envoy", &mut command, &folder.file(LOG))?;
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, admin_port));
        let live = || http::fetch(admin, "/ready").is_ok_and(|answer| answer.status == 200);
        process.wait_until(START, live).map_err(|failure| {
            let log = tail(&folder.read(LOG));
            Failure::new(format!("{failure}\n{log}"))
        })?;
        Ok(Self { process, admin })
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The address for operators.
    pub const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The counters and gauges whose name contains `part`.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn stats(&self, part: &str) -> Outcome<BTreeMap<String, u64>> {
        let answer = http::fetch(self.admin, "/stats")?;
        let text = answer.text();
        let pairs = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Ok(pairs.filter(|(name, _): &(String, u64)| name.contains(part)).collect())
    }

    /// One counter or gauge; 0 if Envoy has none of that name.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn stat(&self, name: &str) -> Outcome<u64> {
        Ok(self.stats(name)?.get(name).copied().unwrap_or(0))
    }

    /// How often a filter that had crashed was loaded anew, could not be, or had to wait for it.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer, or Envoy counts nothing of the kind: 0 would then be no news.
    pub fn vm_reloads(&self) -> Outcome<u64> {
        let counted = self.stats(".vm_reload_")?;
        if counted.is_empty() {
            return Err(Failure::new("Envoy does not count how often filters are loaded anew"));
        }
        Ok(counted.values().sum())
    }

    /// What Prometheus would scrape.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn scrape(&self) -> Outcome<String> {
        Ok(http::fetch(self.admin, "/stats/prometheus")?.text())
    }

    /// Makes Envoy write out its access log, which it holds back for up to ten seconds.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn reopen_logs(&self) -> Outcome<()> {
        let request = Request::new("POST", "/reopen_logs").header("content-length", "0");
        http::send(None, self.admin, &request).map(|_| ())
    }
}

/// Tells Envoy where our module is, if it was built: only some configurations need it.
pub(crate) fn find_modules(command: &mut Command) {
    let module = settings::envoy_module();
    if let Some(folder) = module.as_deref().ok().and_then(Path::parent) {
        command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", folder);
    }
}

/// Asks Envoy whether it would run with this configuration; returns what it says, warnings mostly.
///
/// # Errors
///
/// If Envoy cannot be run, or refuses the configuration: then with its message.
pub fn validate(program: &Path, root: &Path, config: &Path) -> Outcome<String> {
    let mut command = Command::new(program);
    command.args(["--mode", "validate", "-l", "warning", "-c"]).arg(config).current_dir(root);
    find_modules(&mut command);
    let output = command.output().map_err(io("run", program))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(told);
    }
    Err(Failure::new(format!("{}: {told}", config.display())))
}
