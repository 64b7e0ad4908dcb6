//! Starting what `bench/http/stacks.yaml` names.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::definition::{FOLDER, yaml};
use super::measure::{Account, Accounts, UPSTREAM};
use crate::failure::{Failure, Outcome, io};
use crate::http;
use crate::load::Shot;
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::{ports, settings};

/// Compiling CRS, or a module of wasm, takes seconds on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A stack, see the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stack {
    #[serde(default)]
    envoy: Option<Vec<String>>,
    #[serde(default)]
    ext_proc: Option<String>,
    #[serde(default)]
    empty: bool,
    #[serde(default)]
    program: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    file: String,
    /// A file without which the program will not do.
    #[serde(default)]
    needs: Option<PathBuf>,
    #[serde(default = "one")]
    workers: usize,
    #[serde(default = "one")]
    threads: usize,
    #[serde(default)]
    refuses: Vec<String>,
}

const fn one() -> usize {
    1
}

/// All stacks.
#[derive(Debug)]
pub struct Stacks(BTreeMap<String, Stack>);

/// Why a stack does not run.
#[derive(Debug)]
pub enum Missing {
    /// It is somebody else's, and not installed.
    Peer(String),
    /// It should.
    Failed(Failure),
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A stack that runs; stopped when dropped, the proxy first.
#[derive(Debug)]
pub struct Running {
    name: String,
    stack: Stack,
    processes: Vec<(String, Process)>,
    port: u16,
}

impl Stacks {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it is not in order.
    pub fn read() -> Outcome<Self> {
        yaml(&format!("{FOLDER}/stacks.yaml")).map(Self)
    }

    /// Starts a stack and waits until it answers.
    ///
    /// # Errors
    ///
    /// See [`Missing`].
    pub fn start(&self, name: &str, folder: &Path) -> Result<Running, Missing> {
        let Some(stack) = self.0.get(name) else {
            return Err(Failure::new(format!("{FOLDER}/stacks.yaml has no stack `{name}`")).into());
        };
        let [port, admin, ext_proc_admin, upstream] = ports::free()?;
        let starter = Starter {
            folder: Folder::new(folder)?,
            stack: stack.clone(),
            port,
            admin,
            ext_proc_admin,
            upstream,
            processes: Vec::new(),
        };
        starter.start(name)
    }
}

struct Starter {
    folder: Folder,
    stack: Stack,
    port: u16,
    admin: u16,
    ext_proc_admin: u16,
    upstream: u16,
    processes: Vec<(String, Process)>,
}

impl Starter {
    fn start(mut self, name: &str) -> Result<Running, Missing> {
        let program = match &self.stack.program {
            Some(program) => Some(self.peer(program)?),
            None => None,
        };
        let mut upstream = Command::new(settings::sample_upstream()?);
        upstream.arg(format!("127.0.0.1:{}", self.upstream));
        self.spawn(UPSTREAM, &mut upstream, self.upstream)?;
        if self.stack.ext_proc.is_some() {
            self.ext_proc()?;
        }
        if self.stack.empty {
            self.empty_ext_proc()?;
        }
        match program {
            Some(program) => self.proxy(&program)?,
            None => self.envoy()?,
        }
        // The proxy goes first when they are dropped.
        self.processes.reverse();
        Ok(Running {
            name: name.to_owned(),
            stack: self.stack,
            processes: self.processes,
            port: self.port,
        })
    }

    /// The program of somebody else: on the path, or named in `GLACIS_BENCH_…`.
    fn peer(&self, program: &str) -> Result<PathBuf, Missing> {
        let variable = format!("GLACIS_BENCH_{}", program.to_ascii_uppercase().replace('-', "_"));
        let named = env::var_os(&variable).map(PathBuf::from);
        let on_path = || {
            let path = env::var_os("PATH").unwrap_or_default();
            // Debian's daemons are where only root has its path.
            let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
            folders
                .map(|folder| folder.join(program))
                .collect::<Vec<_>>()
                .into_iter()
                .find(|path| path.is_file())
        };
        let found = named.or_else(on_path);
        let found = found.ok_or_else(|| {
            Missing::Peer(format!("`{program}` is not installed (or named in {variable})"))
        })?;
        match &self.stack.needs {
            Some(file) if !file.exists() => {
                Err(Missing::Peer(format!("{} is missing", file.display())))
            }
            _ => Ok(found),
        }
    }

    fn ext_proc(&mut self) -> Outcome<()> {
        let keys = self.stack.ext_proc.clone().unwrap_or_default();
        let text = self.filled(&self.read("ext-proc.yaml")?)? + &self.filled(&keys)?;
        let config = self.folder.write("ext-proc.yaml", &text)?;
        let mut command = Command::new(settings::ext_proc()?);
        command
            .arg("--config")
            .arg(config)
            .env("TOKIO_WORKER_THREADS", self.stack.threads.to_string());
        self.spawn("ext-proc", &mut command, self.ext_proc_admin)
    }

    fn empty_ext_proc(&mut self) -> Outcome<()> {
        let mut command = Command::new(settings::empty_ext_proc()?);
        let socket = self.folder.file("ext-proc.sock");
        command.arg(&socket).env("TOKIO_WORKER_THREADS", self.stack.threads.to_string());
        let mut process =
            Process::start("ext-proc", &mut command, &self.folder.file("ext-proc.log"))?;
        process.wait_until(START, || socket.exists())?;
        self.processes.push(("ext-proc".to_owned(), process));
        Ok(())
    }

    fn envoy(&mut self) -> Outcome<()> {
        let mut filters = String::new();
        for name in self.stack.envoy.clone().unwrap_or_default() {
            for line in self.read(&format!("filters/{name}.yaml"))?.lines() {
                filters.push_str("          ");
                filters.push_str(line);
                filters.push('\n');
            }
        }
        let text = self.read("envoy.yaml")?.replace("@FILTERS@\n", &filters);
        let config = self.folder.write("envoy.yaml", &self.filled(&text)?)?;
        let mut command = Command::new(settings::envoy()?);
        command.arg("-c").arg(config).args([
            "--disable-hot-restart",
            "-l",
            "warning",
            "--concurrency",
        ]);
        command.arg(self.stack.workers.to_string());
        self.spawn("envoy", &mut command, self.admin)
    }

    fn proxy(&mut self, program: &Path) -> Outcome<()> {
        let stack = self.stack.clone();
        // What a configuration includes lies beside it.
        for file in ["modsecurity.conf", "coraza.conf"] {
            self.folder.write(file, &self.filled(&self.read(file)?)?)?;
        }
        let config = self.folder.write(&stack.file, &self.filled(&self.read(&stack.file)?)?)?;
        let mut command = Command::new(program);
        for argument in &stack.arguments {
            let argument = argument.replace("@CONFIG@", &config.display().to_string());
            command.arg(self.filled(&argument)?);
        }
        command.env("GOMAXPROCS", stack.workers.to_string()).env("HOME", self.folder.path());
        let name = stack.program.unwrap_or_default();
        self.spawn(&name, &mut command, self.port)
    }

    /// Starts a process and waits until there is an answer on a port of its own.
    fn spawn(&mut self, name: &str, command: &mut Command, port: u16) -> Outcome<()> {
        command.current_dir(self.folder.path());
        let log = format!("{name}.log");
        let mut process = Process::start(name, command, &self.folder.file(&log))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let target = match name {
            "ext-proc" => "/readyz",
            "envoy" => "/ready",
            _ => "/",
        };
        let is_good = |status| status == 200 || status == 403;
        let ready = || http::fetch(address, target).is_ok_and(|answer| is_good(answer.status));
        process.wait_until(START, ready).map_err(|failure| {
            let log = tail(&self.folder.read(&log));
            Failure::new(format!("{failure}\n{log}"))
        })?;
        self.processes.push((name.to_owned(), process));
        Ok(())
    }

    fn read(&self, file: &str) -> Outcome<String> {
        let path = settings::root().join(FOLDER).join(file);
        fs::read_to_string(&path).map_err(io("read", &path))
    }

    /// The text with places instead of their names. What is not asked for need not be there.
    fn filled(&self, text: &str) -> Outcome<String> {
        let path = |path: PathBuf| path.display().to_string();
        let mut text = text.to_owned();
        let places: [(&str, &dyn Fn() -> Outcome<String>); 10] = [
            ("@PORT@", &|| Ok(self.port.to_string())),
            ("@ADMIN@", &|| Ok(self.admin.to_string())),
            ("@EXT_PROC_ADMIN@", &|| Ok(self.ext_proc_admin.to_string())),
            ("@UPSTREAM@", &|| Ok(self.upstream.to_string())),
            ("@WORKERS@", &|| Ok(self.stack.workers.to_string())),
            ("@FOLDER@", &|| Ok(path(self.folder.path().to_path_buf()))),
            ("@ROOT@", &|| Ok(path(settings::root()))),
            ("@CRS@", &|| settings::crs().map(path)),
            ("@WASM@", &|| settings::wasm().map(path)),
            ("@PATCHES@", &patches),
        ];
        for (name, place) in places {
            if text.contains(name) {
                text = text.replace(name, &place()?);
            }
        }
        Ok(text)
    }
}

/// All virtual patches of the repository, as the wasm-filter reads them, in one line.
fn patches() -> Outcome<String> {
    let folder = settings::root().join("rules/virtual-patches");
    let files =
        fs::read_dir(&folder).map_err(io("list", &folder))?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "yaml")).collect();
    files.sort();
    let program = settings::cli()?;
    let output = Command::new(&program).args(["patches", "filter"]).args(files).output();
    let output = output.map_err(io("run", &program))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || text.trim().is_empty() {
        return Err(Failure::new(format!(
            "glacis patches: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    Ok(text.lines().map(str::trim).collect())
}

impl Running {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its verdicts are ours, or nobody's.
    pub const fn is_ours(&self) -> bool {
        self.stack.program.is_none()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// What its processes have used so far.
    ///
    /// # Errors
    ///
    /// If one has ended.
    pub fn account(&self) -> Outcome<Accounts> {
        let accounts = self.processes.iter().map(|(name, process)| Account::of(name, process.id()));
        accounts.collect::<Outcome<_>>().map(Accounts)
    }

    /// The requests with the statuses that are right here: what it does not refuse passes.
    pub fn expected(&self, shots: &[Shot]) -> Vec<Shot> {
        let right = |shot: &Shot| {
            let passes = shot.status != 200 && !self.stack.refuses.contains(&shot.class);
            Shot { status: if passes { 200 } else { shot.status }, ..shot.clone() }
        };
        shots.iter().map(right).collect()
    }
}
