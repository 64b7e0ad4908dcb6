//! The whole of `envoy-configs/resilience/`, running: Envoy, two ext-procs, ext-authz, Redis and two upstreams,
//! each a process of its own that can be killed, frozen and started again.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use crate::certificates::Authority;
use crate::envoy::Envoy;
use crate::ext_proc::{edited, samples};
use crate::failure::{Failure, Outcome, io};
use crate::gate::Gate;
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::stack::WASM;
use crate::{http, ports, settings};

/// The configurations that are started, from the top folder.
const CONFIGS: &str = "envoy-configs/resilience";
/// Compiling the CRS takes a while in an unoptimised build on a busy machine.
const START: Duration = Duration::from_secs(60);
/// Long enough for many probes.
const PROBES: Duration = Duration::from_secs(30);

/// Clusters of Envoy's, and how many hosts of each are in service when all is well.
pub const CLUSTERS: [(&str, u64); 3] =
    [("glacis-ext-proc", 2), ("glacis-ext-authz", 1), ("sample-upstream", 2)];

/// What differs from one fleet to another.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Pairs of texts: what stands in Envoy's configuration, and what is to stand there instead.
    pub envoy: Vec<(String, String)>,
    /// Further keys of both ext-procs, in YAML.
    pub ext_proc: String,
    /// Whether a gate stands between Envoy and the ext-procs, which can hold up what goes through it.
    pub gate: bool,
    /// KiB of address space that the first ext-proc may have; 0 for no limit.
    pub address_space_kib: u64,
    /// Whether Envoy may be replaced while it runs.
    pub hot_restart: bool,
    /// Whether an audit log is written by the ext-procs where there is no room: every write fails.
    pub disk_full: bool,
    /// Whether Envoy and the ext-procs talk over TLS.
    pub tls: bool,
    /// Whether our services have a clock that can be set: [`Fleet::set_clock`].
    pub clock: bool,
}

/// Certificates of the ext-procs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Certificates {
    /// New ones, which are good.
    Valid,
    /// New ones whose time is over.
    Expired,
}

/// The name in the certificates of the ext-procs.
const NAME: &str = "ext-proc.test";
/// Files of it, in the folder of the fleet: certificate, key, authority.
const TLS_FILES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];
/// What libfaketime reads, in the same folder.
const CLOCK: &str = "clock";

/// How a process says that it is ready.
#[derive(Clone, Copy, Debug)]
enum Ready {
    /// Its admin port says so.
    Admin(SocketAddr),
    /// It can be connected to.
    Port(u16),
}

impl Ready {
    fn now(self) -> bool {
        match self {
            Self::Admin(admin) => {
                http::fetch(admin, "/readyz").is_ok_and(|told| told.status == 200)
            }
            Self::Port(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(),
        }
    }
}

/// One process of a fleet besides Envoy.
#[derive(Debug)]
pub struct Member {
    name: &'static str,
    /// Program and arguments.
    line: Vec<String>,
    log: PathBuf,
    environment: Vec<(&'static str, String)>,
    ready: Ready,
    /// Where Envoy, or ext-authz, finds it.
    pub port: u16,
    process: Option<Process>,
    /// Its configuration file, where it has one, and what stood in it at the start.
    config: Option<(PathBuf, String)>,
}

impl Member {
    /// Its process, if it has one.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Starts it, unless it runs, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not become ready, with the end of its log.
    pub fn start(&mut self) -> Outcome<()> {
        if self.process.as_mut().is_some_and(|process| process.ended().is_none()) {
            return Ok(());
        }
        self.spawn()?;
        self.wait()
    }

    fn spawn(&mut self) -> Outcome<()> {
        let Some((program, arguments)) = self.line.split_first() else {
            return Err(Failure::new(format!("{} has no program", self.name)));
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(settings::root());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(self.name, &mut command, &self.log)?);
        Ok(())
    }

    fn wait(&mut self) -> Outcome<()> {
        let ready = self.ready;
        let Some(process) = &mut self.process else { return Ok(()) };
        process.wait_until(START, || ready.now()).map_err(|failure| {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            Failure::new(format!("{failure}\n{}", tail(&log)))
        })
    }

    /// Ends it without a chance to say goodbye.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop();
        }
    }

    /// Writes its configuration anew, with further keys in place of those it was given before, at once as far
    /// as a reader can see.
    ///
    /// # Errors
    ///
    /// If it has none, or the file cannot be written.
    pub fn set_keys(&self, keys: &str) -> Outcome<()> {
        let Some((path, text)) = &self.config else {
            return Err(Failure::new(format!("{} has no configuration", self.name)));
        };
        let new = path.with_extension("new");
        fs::write(&new, format!("{text}{keys}")).map_err(io("write", &new))?;
        fs::rename(&new, path).map_err(io("replace", path))
    }

    /// Its address for operators, if it has one.
    pub fn admin(&self) -> Option<SocketAddr> {
        match self.ready {
            Ready::Admin(admin) => Some(admin),
            Ready::Port(_) => None,
        }
    }

    /// Its metrics: name with labels → value; nothing when it does not answer.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let Ready::Admin(admin) = self.ready else { return BTreeMap::new() };
        samples(&http::fetch(admin, "/metrics").map(|told| told.text()).unwrap_or_default())
    }
}

/// Everything that runs; stopped when dropped, Envoy first.
#[derive(Debug)]
pub struct Fleet {
    /// Envoy.
    pub envoy: Envoy,
    /// The others, by name.
    pub members: BTreeMap<&'static str, Member>,
    /// The gates before the ext-procs, if the setup has them.
    pub gates: Vec<Gate>,
    /// Configurations and logs.
    pub folder: Folder,
    /// Envoy's address for clients.
    pub proxy: SocketAddr,
    /// Envoy's address for operators.
    pub admin: SocketAddr,
    authority: Option<Authority>,
}

/// Ports of a fleet.
struct Ports {
    proxy: u16,
    admin: u16,
    /// gRPC, operators, and where Envoy looks for them: the gates, if there are any.
    ext_proc: [(u16, u16, u16); 2],
    ext_authz: (u16, u16),
    redis: u16,
    upstream: [u16; 2],
}

impl Ports {
    fn free() -> Outcome<Self> {
        let [proxy, admin, a, b, c, d, e, f, redis, u, v] = ports::free()?;
        let [g, h] = ports::free()?;
        let ext_proc = [(a, b, g), (c, d, h)];
        Ok(Self { proxy, admin, ext_proc, ext_authz: (e, f), redis, upstream: [u, v] })
    }
}

impl Fleet {
    /// Starts everything in `folder` and waits until Envoy finds all of it well.
    ///
    /// # Errors
    ///
    /// If something is missing or does not start.
    pub fn start(folder: &Path, setup: &Setup) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let ports = Ports::free()?;
        let authority = match setup.tls {
            true => Some(authority(&folder)?),
            false => None,
        };
        let mut members = BTreeMap::new();
        for member in members_of(&ports, setup, &folder)? {
            // Redis' allocator asks for the time before libfaketime is ready, so that it keeps its clock.
            let is_ours = matches!(member.ready, Ready::Admin(_));
            let environment = if setup.clock && is_ours { clock(&folder)? } else { Vec::new() };
            members.insert(member.name, Member { environment, ..member });
        }
        for member in members.values_mut() {
            member.spawn()?;
        }
        for member in members.values_mut() {
            member.wait()?;
        }
        let gates = match setup.gate {
            true => ports
                .ext_proc
                .iter()
                .map(|(port, _, gate)| Gate::start(*gate, *port))
                .collect::<Outcome<_>>()?,
            false => Vec::new(),
        };
        let config = envoy_config(&ports, setup, &folder)?;
        let program = settings::envoy()?;
        let envoy = match setup.hot_restart {
            true => Envoy::start_replaceable(
                &program,
                &settings::root(),
                &config,
                ports.admin,
                &folder,
                0,
            ),
            false => Envoy::start(&program, &settings::root(), &config, ports.admin, &folder),
        }?;
        let [proxy, admin] =
            [ports.proxy, ports.admin].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let fleet = Self { envoy, members, gates, folder, proxy, admin, authority };
        fleet.wait_until_well()?;
        Ok(fleet)
    }

    /// One of the members.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn member(&mut self, name: &str) -> Outcome<&mut Member> {
        let known: Vec<_> = self.members.keys().copied().collect();
        let member = self.members.get_mut(name);
        member.ok_or_else(|| Failure::new(format!("there is no `{name}`, only {known:?}")))
    }

    /// Hosts of a cluster that Envoy sends requests to.
    ///
    /// # Errors
    ///
    /// If Envoy's admin port does not answer.
    pub fn healthy(&self, cluster: &str) -> Outcome<u64> {
        self.envoy.stat(&format!("cluster.{cluster}.membership_healthy"))
    }

    /// Gives the ext-procs other certificates, and waits until those that run have read them.
    ///
    /// # Errors
    ///
    /// If there is no TLS in this fleet, or they do not read them.
    pub fn certify(&self, certificates: Certificates) -> Outcome<()> {
        let Some(authority) = &self.authority else {
            return Err(Failure::new("this fleet has no TLS"));
        };
        let read =
            || self.ext_procs().map(|member| member.metrics().get(CERTIFICATES_READ).copied());
        let before: Vec<_> = read().collect();
        write_certificates(&self.folder, authority, certificates)?;
        let taken_up =
            || { read().zip(&before) }.all(|(now, before)| now.is_none() || now > *before);
        wait_for("the certificates are not read", taken_up)
    }

    fn ext_procs(&self) -> impl Iterator<Item = &Member> {
        let names = ["ext-proc-1", "ext-proc-2"];
        names.into_iter().filter_map(|name| self.members.get(name))
    }

    /// Sets the clocks of our services so many seconds ahead of that of the machine, and waits until they say so.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub fn set_clock(&self, seconds: i64) -> Outcome<()> {
        write_clock(&self.folder, seconds)?;
        sleep(CLOCKS_READ);
        let admins: Vec<SocketAddr> = { self.members.values() }
            .filter_map(|member| match member.ready {
                Ready::Admin(admin) => Some(admin),
                Ready::Port(_) => None,
            })
            .collect();
        // A server does not write an earlier `date` than it has written: of a clock that was put back nothing is told.
        let is_set = |told: Option<i64>| {
            told.is_some_and(|told| told - now_seconds() - seconds >= -CLOCK_ERROR_SECONDS)
        };
        wait_for("the clocks are not set", || admins.iter().all(|admin| is_set(time_of(*admin))))
    }

    /// Waits until every host of every cluster is in service.
    ///
    /// # Errors
    ///
    /// If that does not come.
    pub fn wait_until_well(&self) -> Outcome<()> {
        let begun = Instant::now();
        loop {
            let mut sick = Vec::new();
            for (cluster, hosts) in CLUSTERS {
                let healthy = self.healthy(cluster)?;
                if healthy != hosts {
                    sick.push(format!("{healthy} of {hosts} hosts of {cluster} are healthy"));
                }
            }
            if sick.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PROBES {
                return Err(Failure::new(sick.join("; ")));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Stops everything in order: Envoy first, so that no request meets somebody who is gone.
    pub fn stop(mut self) {
        self.envoy.process().stop();
        for member in self.members.values_mut() {
            member.stop();
        }
    }
}

fn members_of(ports: &Ports, setup: &Setup, folder: &Folder) -> Outcome<Vec<Member>> {
    let mut members = Vec::new();
    for (place, name) in ["ext-proc-1", "ext-proc-2"].into_iter().enumerate() {
        members.push(ext_proc(name, ports.ext_proc[place], setup, place == 0, folder)?);
    }
    members.push(ext_authz(ports, folder)?);
    members.push(redis(ports.redis, folder)?);
    for (place, name) in ["upstream-1", "upstream-2"].into_iter().enumerate() {
        let port = ports.upstream[place];
        let line = vec![path_of(&settings::sample_upstream()?), format!("127.0.0.1:{port}")];
        members.push(member(name, line, Ready::Port(port), port, None, folder));
    }
    Ok(members)
}

/// A sample that counts how often certificates were read anew.
const CERTIFICATES_READ: &str = r#"glacis_tls_reloads_total{listener="grpc",result="success"}"#;
/// After this a clock that was set is set: libfaketime looks once in a second.
const CLOCKS_READ: Duration = Duration::from_secs(2);

/// How far a clock may be from where it was set.
const CLOCK_ERROR_SECONDS: i64 = 5;

fn wait_for(otherwise: &str, is_so: impl Fn() -> bool) -> Outcome<()> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > PROBES {
            return Err(Failure::new(format!("{otherwise}, after {PROBES:?}")));
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn authority(folder: &Folder) -> Outcome<Authority> {
    let authority = Authority::new()?;
    folder.write(TLS_FILES[2], &authority.certificate)?;
    write_certificates(folder, &authority, Certificates::Valid)?;
    Ok(authority)
}

/// Writes certificate and key so that none is seen in part.
fn write_certificates(
    folder: &Folder,
    authority: &Authority,
    certificates: Certificates,
) -> Outcome<()> {
    let pair = match certificates {
        Certificates::Valid => authority.issue(NAME),
        Certificates::Expired => authority.issue_expired(NAME),
    }?;
    for (name, text) in TLS_FILES.into_iter().zip([&pair.certificate, &pair.key]) {
        replace(folder, name, text)?;
    }
    Ok(())
}

fn replace(folder: &Folder, name: &str, text: &str) -> Outcome<()> {
    let new = folder.write(&format!("{name}.new"), text)?;
    fs::rename(&new, folder.file(name)).map_err(io("replace", &new))
}

fn write_clock(folder: &Folder, seconds: i64) -> Outcome<()> {
    replace(folder, CLOCK, &format!("{seconds:+}\n"))
}

/// What a process is started with whose wall clock we set; its monotonic clock nobody can set.
fn clock(folder: &Folder) -> Outcome<Vec<(&'static str, String)>> {
    write_clock(folder, 0)?;
    Ok(vec![
        ("LD_PRELOAD", path_of(&settings::faketime()?)),
        ("FAKETIME_TIMESTAMP_FILE", path_of(&folder.file(CLOCK))),
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
    ])
}

fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Seconds since 1970, as one of our services sees it, from the field `date` of its answers.
fn time_of(admin: SocketAddr) -> Option<i64> {
    let answer = http::fetch(admin, "/readyz").ok()?;
    let date = Command::new("date").args(["+%s", "-d", answer.header("date")?]).output().ok()?;
    String::from_utf8_lossy(&date.stdout).trim().parse().ok()
}

fn member(
    name: &'static str,
    line: Vec<String>,
    ready: Ready,
    port: u16,
    config: Option<(PathBuf, String)>,
    folder: &Folder,
) -> Member {
    let log = folder.file(&format!("{name}.log"));
    let environment = Vec::new();
    Member { name, line, log, environment, ready, port, process: None, config }
}

fn path_of(path: &Path) -> String {
    path.display().to_string()
}

fn ext_proc(
    name: &'static str,
    (port, admin, _): (u16, u16, u16),
    setup: &Setup,
    first: bool,
    folder: &Folder,
) -> Outcome<Member> {
    let audit = match setup.disk_full {
        true => "/dev/full".to_owned(),
        false => path_of(&folder.file(&format!("{name}.jsonl"))),
    };
    let text = edited(
        &format!("{CONFIGS}/ext-proc.yaml"),
        &[
            ("127.0.0.1:9001", format!("127.0.0.1:{port}")),
            ("127.0.0.1:9101", format!("127.0.0.1:{admin}")),
            ("../../.fetched/crs-4.25.0", path_of(&settings::crs()?)),
            ("stdout: true", format!("stdout: false\n  file: {audit}")),
        ],
    )?;
    let text = match setup.tls {
        true => {
            let [certificate, key, _] = TLS_FILES.map(|file| path_of(&folder.file(file)));
            let tls = format!("\n  tls: {{certificate: {certificate}, key: {key}}}\n");
            format!("{}reload_seconds: 1\n", text.replacen("  # the other: 9011\n", &tls, 1))
        }
        false => text,
    };
    let config = folder.write(&format!("{name}.yaml"), &format!("{text}{}", setup.ext_proc))?;
    let mut line = vec![path_of(&settings::ext_proc()?), "--config".into(), path_of(&config)];
    if first && setup.address_space_kib > 0 {
        let limit = format!("ulimit -v {}; exec \"$@\"", setup.address_space_kib);
        line.splice(0..0, ["sh".to_owned(), "-c".into(), limit, "sh".into()]);
    }
    let ready = Ready::Admin(SocketAddr::from((Ipv4Addr::LOCALHOST, admin)));
    Ok(member(name, line, ready, port, Some((config, text)), folder))
}

fn ext_authz(ports: &Ports, folder: &Folder) -> Outcome<Member> {
    let (port, admin) = ports.ext_authz;
    let text = edited(
        &format!("{CONFIGS}/ext-authz.yaml"),
        &[
            ("127.0.0.1:9002", format!("127.0.0.1:{port}")),
            ("127.0.0.1:9102", format!("127.0.0.1:{admin}")),
            ("127.0.0.1:6379", format!("127.0.0.1:{}", ports.redis)),
            ("192.0.2.0/24", "127.66.0.0/16".to_owned()),
        ],
    )?;
    let config = folder.write("ext-authz.yaml", &text)?;
    let line = vec![path_of(&settings::ext_authz()?), "--config".into(), path_of(&config)];
    let ready = Ready::Admin(SocketAddr::from((Ipv4Addr::LOCALHOST, admin)));
    Ok(member("ext-authz", line, ready, port, Some((config, text)), folder))
}

fn redis(port: u16, folder: &Folder) -> Outcome<Member> {
    // A server named on the command line reads its configuration from a file first.
    let config = folder.write("redis.conf", "save \"\"\nappendonly no\nbind 127.0.0.1\n")?;
    let line =
        vec![path_of(&settings::redis()), path_of(&config), "--port".into(), port.to_string()];
    let line = [line, vec!["--dir".into(), path_of(folder.path())]].concat();
    Ok(member("redis", line, Ready::Port(port), port, None, folder))
}

/// The cluster of the ext-procs, for Envoy: with TLS.
fn tls_cluster(folder: &Folder) -> (String, String) {
    let cluster = "  - name: glacis-ext-proc\n    connect_timeout: 0.25s\n";
    let authority = path_of(&folder.file(TLS_FILES[2]));
    let tls = format!(
        "{cluster}    transport_socket:\n      name: envoy.transport_sockets.tls\n      typed_config:\n        \
         \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext\n        \
         sni: {NAME}\n        common_tls_context:\n          validation_context:\n            \
         trusted_ca: {{filename: {authority}}}\n            \
         match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: {NAME}}}}}]\n"
    );
    (cluster.to_owned(), tls)
}

fn envoy_config(ports: &Ports, setup: &Setup, folder: &Folder) -> Outcome<String> {
    let at = |(port, _, gate): (u16, u16, u16)| if setup.gate { gate } else { port };
    let [first, second] = ports.ext_proc.map(at);
    let wanted = [
        (10000, ports.proxy),
        (9901, ports.admin),
        (9001, first),
        (9011, second),
        (9002, ports.ext_authz.0),
        (8080, ports.upstream[0]),
        (8081, ports.upstream[1]),
    ];
    let mut edits: Vec<(String, String)> = wanted
        .iter()
        .map(|(old, new)| (format!("port_value: {old}}}"), format!("port_value: {new}}}")))
        .collect();
    edits.push((WASM.to_owned(), path_of(&settings::wasm()?)));
    if setup.tls {
        edits.push(tls_cluster(folder));
    }
    edits.extend(setup.envoy.iter().cloned());
    let edits: Vec<(&str, String)> =
        edits.iter().map(|(old, new)| (old.as_str(), new.clone())).collect();
    edited(&format!("{CONFIGS}/envoy.yaml"), &edits)
}
