//! Starting what `bench/http/stacks.yaml` names.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::definition::{FOLDER, yaml};
use super::measure::{Account, Accounts, UPSTREAM};
use crate::envoy::find_modules;
use crate::failure::{Failure, Outcome, doing, io};
use crate::http;
use crate::load::Shot;
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::{ext_proc, ports, settings};

/// Compiling CRS, or a module of wasm, takes seconds on a busy machine, and a thousand profiles take minutes.
const START: Duration = Duration::from_secs(60);
const START_FOR_EACH_PROFILE: Duration = Duration::from_secs(1);

/// A stack, see the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stack {
    #[serde(default)]
    envoy: Option<Vec<String>>,
    /// The file of its routes; without it there is one for all.
    #[serde(default)]
    routes: Option<String>,
    #[serde(default)]
    ext_proc: Option<String>,
    #[serde(default)]
    empty: bool,
    #[serde(default)]
    direct: bool,
    #[serde(default)]
    program: Option<String>,
    #[serde(default)]
    processor: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    file: String,
    /// The variable that names a file without which it will not do.
    #[serde(default)]
    needs: Option<String>,
    #[serde(default = "one")]
    workers: usize,
    #[serde(default = "one")]
    threads: usize,
    #[serde(default)]
    profiles: usize,
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
    start_seconds: f64,
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

    /// Whether there is one of that name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
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
        if let Some(needed) = &self.stack.needs {
            needed_file(needed)?;
        }
        let named = self.stack.program.as_ref().or(self.stack.processor.as_ref());
        let peer = named.map(|program| self.peer(program)).transpose()?;
        let begun = Instant::now();
        let is_peer = !self.stack.is_ours();
        match self.processes(peer.as_deref()) {
            Ok(()) => {}
            // What somebody else's program does is told, and ends nothing.
            Err(failure) if is_peer => return Err(Missing::Peer(failure.to_string())),
            Err(failure) => return Err(failure.into()),
        }
        // The proxy goes first when they are dropped.
        self.processes.reverse();
        Ok(Running {
            name: name.to_owned(),
            port: if self.stack.direct { self.upstream } else { self.port },
            stack: self.stack,
            processes: self.processes,
            start_seconds: begun.elapsed().as_secs_f64(),
        })
    }

    /// Starts what belongs to it, the upstream first.
    fn processes(&mut self, peer: Option<&Path>) -> Outcome<()> {
        let mut upstream = Command::new(settings::sample_upstream()?);
        upstream.arg(format!("127.0.0.1:{}", self.upstream));
        self.spawn(UPSTREAM, &mut upstream, self.upstream)?;
        if self.stack.ext_proc.is_some() {
            self.ext_proc()?;
        }
        if self.stack.empty {
            self.empty_ext_proc()?;
        }
        match peer {
            Some(program) if self.stack.processor.is_some() => {
                self.processor(program)?;
                self.envoy()
            }
            Some(program) => self.proxy(program),
            None if self.stack.direct => Ok(()),
            None => self.envoy(),
        }
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
        named.or_else(on_path).ok_or_else(|| {
            Missing::Peer(format!("`{program}` is not installed (or named in {variable})"))
        })
    }

    fn ext_proc(&mut self) -> Outcome<()> {
        let keys = self.stack.ext_proc.clone().unwrap_or_default();
        let text = self.filled(&self.read("ext-proc.yaml")?)? + &self.filled(&keys)?;
        let config = self.folder.write("ext-proc.yaml", &text)?;
        let mut command = ext_proc::command(&config)?;
        command.env("TOKIO_WORKER_THREADS", self.stack.threads.to_string());
        self.spawn("ext-proc", &mut command, self.ext_proc_admin)
    }

    /// An external processor of somebody else.
    fn processor(&mut self, program: &Path) -> Outcome<()> {
        let mut command = self.peer_command(program)?;
        command.env("GOMAXPROCS", self.stack.threads.to_string());
        let name = self.stack.processor.clone().unwrap_or_default();
        let log = self.folder.file(&format!("{name}.log"));
        let mut process = Process::start(&name, &mut command, &log)?;
        let socket = self.folder.file("ext-proc.sock");
        process.wait_until(START, || socket.exists())?;
        self.processes.push((name, process));
        Ok(())
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
            filters.push_str(&indented(&self.read(&format!("filters/{name}.yaml"))?, 10));
        }
        let routes = self.stack.routes.as_deref().unwrap_or("all");
        let routes = indented(&self.read(&format!("routes/{routes}.yaml"))?, 14);
        let text = self.read("envoy.yaml")?;
        let text = text.replace("@FILTERS@\n", &filters).replace("@ROUTES@\n", &routes);
        let config = self.folder.write("envoy.yaml", &self.filled(&text)?)?;
        let mut command = Command::new(settings::envoy()?);
        find_modules(&mut command);
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
        let mut command = self.peer_command(program)?;
        command.env("GOMAXPROCS", self.stack.workers.to_string());
        let name = self.stack.program.clone().unwrap_or_default();
        self.spawn(&name, &mut command, self.port)
    }

    /// A program of somebody else with its configuration and arguments.
    fn peer_command(&self, program: &Path) -> Outcome<Command> {
        let stack = self.stack.clone();
        // What a configuration includes lies beside it.
        let text = self.read(&stack.file)?;
        for file in ["modsecurity.conf", "coraza.conf"] {
            if text.contains(file) {
                self.folder.write(file, &self.filled(&self.read(file)?)?)?;
            }
        }
        let config = self.folder.write(&stack.file, &self.filled(&text)?)?;
        let mut command = Command::new(program);
        for argument in &stack.arguments {
            let argument = argument.replace("@CONFIG@", &config.display().to_string());
            command.arg(self.filled(&argument)?);
        }
        command.env("HOME", self.folder.path()).current_dir(self.folder.path());
        // Programs out of packages that are not installed find their libraries there.
        if let Some(libraries) = env::var_os("GLACIS_BENCH_LIBRARIES") {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        Ok(command)
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
        let patience = START + START_FOR_EACH_PROFILE * self.stack.profiles as u32;
        process.wait_until(patience, ready).map_err(|failure| {
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
        let places: [(&str, &dyn Fn() -> Outcome<String>); 17] = [
            ("@PORT@", &|| Ok(self.port.to_string())),
            ("@ADMIN@", &|| Ok(self.admin.to_string())),
            ("@EXT_PROC_ADMIN@", &|| Ok(self.ext_proc_admin.to_string())),
            ("@UPSTREAM@", &|| Ok(self.upstream.to_string())),
            ("@WORKERS@", &|| Ok(self.stack.workers.to_string())),
            ("@FOLDER@", &|| Ok(path(self.folder.path().to_path_buf()))),
            ("@ROOT@", &|| Ok(path(settings::root()))),
            ("@CRS@", &|| settings::crs().map(path)),
            ("@CRS_SPACED@", &|| spaced(&settings::crs()?, &self.folder).map(path)),
            ("@WASM@", &|| settings::wasm().map(path)),
            ("@WASM_ENGINE@", &|| settings::wasm_with_engine().map(path)),
            ("@BUNDLE@", &bundle),
            ("@PATCHES@", &patches),
            ("@PROFILES@", &|| Ok(profiles(self.stack.profiles))),
            ("@THREADS@", &|| Ok(self.stack.threads.to_string())),
            ("@MODSECURITY_MODULE@", &|| named_file("GLACIS_BENCH_MODSECURITY_MODULE").map(path)),
            ("@CORAZA_WASM@", &|| named_file("GLACIS_BENCH_CORAZA_WASM").map(path)),
        ];
        for (name, place) in places {
            if text.contains(name) {
                text = text.replace(name, &place()?);
            }
        }
        Ok(text)
    }
}

/// The file that a variable names.
fn named_file(variable: &str) -> Outcome<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    named
        .filter(|path| path.is_file())
        .ok_or_else(|| Failure::new(format!("{variable} names no file")))
}

fn needed_file(variable: &str) -> Result<(), Missing> {
    named_file(variable).map(drop).map_err(|failure| Missing::Peer(failure.to_string()))
}

/// The lines of a text, each behind so many blanks.
fn indented(text: &str, blanks: usize) -> String {
    let blanks = " ".repeat(blanks);
    text.lines().map(|line| format!("{blanks}{line}\n")).collect()
}

/// A copy of CRS with an empty line before each rule: the parser of ModSecurity 3.0.9 takes a rule without actions to go on
/// in the next line.
fn spaced(crs: &Path, folder: &Folder) -> Outcome<PathBuf> {
    let to = folder.file("crs");
    let rules = to.join("rules");
    fs::create_dir_all(&rules).map_err(io("make", &rules))?;
    let setup = "crs-setup.conf.example";
    fs::copy(crs.join(setup), to.join(setup)).map_err(io("copy", &crs.join(setup)))?;
    let from = crs.join("rules");
    for entry in fs::read_dir(&from).map_err(io("list", &from))?.flatten() {
        let text = fs::read_to_string(entry.path()).map_err(io("read", &entry.path()))?;
        let is_rules = entry.path().extension().is_some_and(|kind| kind == "conf");
        let text = if is_rules { text.replace("\nSecRule ", "\n\nSecRule ") } else { text };
        let file = rules.join(entry.file_name());
        fs::write(&file, text).map_err(io("write", &file))?;
    }
    Ok(to)
}

/// CRS as the wasm-filter with the engine takes it.
///
/// # Errors
///
/// If CRS or the command `glacis` is missing, or refuses it.
pub fn bundle() -> Outcome<String> {
    glacis(
        Command::new(settings::cli()?).args(["bundle", "--quiet", "--crs"]).arg(settings::crs()?),
    )
}

/// So many profiles that differ in an exclusion each, as keys of ext-proc's configuration.
fn profiles(count: usize) -> String {
    let mut text = "profiles:\n".to_owned();
    for number in 1..=count {
        text.push_str(&format!(
            "  team-{number}:\n    exclusions:\n    - {{rules: [942100], targets: [\"ARGS:comment{number}\"], \
             owner: team-{number}, reason: bench, expires: never}}\n"
        ));
    }
    text
}

/// All virtual patches of the repository, as the wasm-filter reads them, in one line.
fn patches() -> Outcome<String> {
    let folder = settings::root().join("rules/virtual-patches");
    let files =
        fs::read_dir(&folder).map_err(io("list", &folder))?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "yaml")).collect();
    files.sort();
    let mut command = Command::new(settings::cli()?);
    let text = glacis(command.args(["patches", "filter"]).args(files))?;
    Ok(text.lines().map(str::trim).collect())
}

/// What our command line prints.
fn glacis(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(doing("run glacis"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || text.is_empty() {
        return Err(Failure::new(format!("glacis: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(text)
}

impl Stack {
    /// Whether verdicts are ours, or nobody's.
    const fn is_ours(&self) -> bool {
        self.program.is_none() && self.processor.is_none() && self.needs.is_none()
    }
}

impl Running {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its verdicts are ours, or nobody's.
    pub const fn is_ours(&self) -> bool {
        self.stack.is_ours()
    }

    /// Seconds from the start of the first process to the first answer of the last.
    pub const fn start_seconds(&self) -> f64 {
        self.start_seconds
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
