//! Plays a scenario: does its steps while clients send requests, and judges what was seen.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::jitter::Jitter;
use super::scenario::{Column, Metric, Phase, Scenario, Setup, Step, Until};
use crate::envoy::{self, Envoy};
use crate::failure::{Failure, Outcome, doing};
use crate::fleet::{self, Fleet};
use crate::http::{self, Connection, Request};
use crate::impostor::Impostor;
use crate::scripted::{Script, Scripted};
use crate::traffic::{Kind, Load, Record, Route, Row, Traffic, rows};
use crate::{settings, trap};

/// Clients of the traffic.
const CLIENTS: u16 = 8;
/// Faults of one kind that are told in full.
const TOLD: usize = 5;
/// Addresses of a flood.
const FLOODERS: u32 = 128;
const PAUSE: Duration = Duration::from_millis(5);

/// What came of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// From the failure to the breaker that opened; the longest, if it happened several times.
    pub detected: Option<Duration>,
    /// From health to the breaker that closed, likewise.
    pub recovered: Option<Duration>,
    /// Requests that were sent.
    pub requests: usize,
    /// Clean ones that were answered with 5xx, or not at all.
    pub failed: usize,
    /// Requests that an upstream has answered without a verdict.
    pub uninspected: usize,
    /// Clean ones that were refused.
    pub blocked_wrongly: usize,
    /// What else was measured.
    pub notes: Vec<String>,
    /// What was not as it had to be.
    pub faults: Vec<String>,
    /// Why it was not played at all.
    pub left_out: Option<String>,
}

/// Plays scenarios on fleets, of which those with one setup share one.
#[derive(Debug)]
pub struct Player {
    folder: std::path::PathBuf,
    /// By how much times may be longer than scenarios say: the machine may have other things to do.
    slack: f64,
    fleet: Option<(Option<Setup>, Fleet)>,
    fleets: usize,
}

impl Player {
    /// `slack` is what times are multiplied by.
    pub fn new(folder: &std::path::Path, slack: f64) -> Self {
        Self { folder: folder.to_path_buf(), slack, fleet: None, fleets: 0 }
    }

    /// Plays one.
    ///
    /// # Errors
    ///
    /// If a fleet cannot be started or something else fails that is not what the scenario is about.
    pub fn play(&mut self, scenario: &Scenario) -> Outcome<Verdict> {
        if scenario.setup.as_ref().is_some_and(|setup| setup.clock)
            && let Err(why) = settings::faketime()
        {
            let (name, left_out) = (scenario.name.clone(), Some(why.to_string()));
            return Ok(Verdict { name, left_out, ..Verdict::default() });
        }
        let fits = self.fleet.as_ref().is_some_and(|(setup, _)| *setup == scenario.setup);
        if !fits {
            // The old one ends before the new one starts: there is memory for one.
            if let Some((_, fleet)) = self.fleet.take() {
                fleet.stop();
            }
            self.fleets += 1;
            let folder = self.folder.join(format!("fleet-{}", self.fleets));
            let fleet = Fleet::start(&folder, &setup_of(scenario.setup.as_ref())?)?;
            self.fleet = Some((scenario.setup.clone(), fleet));
        }
        let Some((_, fleet)) = &mut self.fleet else {
            return Err(Failure::new("there is no fleet"));
        };
        let played = Play::begin(scenario, fleet, self.slack)?.play();
        match played {
            Ok(verdict) => {
                // What half a scenario has left behind is nobody's concern but the next one's.
                if scenario.setup.is_some() {
                    self.stop();
                }
                Ok(verdict)
            }
            Err(failure) => {
                let story = fleet.folder.story();
                self.stop();
                Err(Failure::new(format!("{}: {failure}\n{story}", scenario.name)))
            }
        }
    }

    /// Stops what runs.
    pub fn stop(&mut self) {
        if let Some((_, fleet)) = self.fleet.take() {
            fleet.stop();
        }
    }
}

fn setup_of(setup: Option<&Setup>) -> Outcome<fleet::Setup> {
    let Some(setup) = setup.cloned() else { return Ok(fleet::Setup::default()) };
    let mut envoy: Vec<(String, String)> = setup.envoy.into_iter().collect();
    if setup.trapping_filter {
        let module = settings::wasm()?.display().to_string();
        let trap = std::env::temp_dir().join(format!("glacis-trap-{}.wasm", std::process::id()));
        fs::write(&trap, trap::module()).map_err(doing("write a module"))?;
        envoy.push((module, trap.display().to_string()));
    }
    Ok(fleet::Setup {
        envoy,
        ext_proc: setup.ext_proc,
        gate: setup.gate,
        address_space_kib: setup.address_space_kib,
        hot_restart: setup.hot_restart,
        disk_full: setup.disk_full,
        tls: setup.tls,
        clock: setup.clock,
    })
}

type Stats = BTreeMap<String, u64>;

/// A scenario that is being played.
struct Play<'a> {
    scenario: &'a Scenario,
    fleet: &'a mut Fleet,
    slack: f64,
    rows: Vec<Row>,
    traffic: Traffic,
    jitter: Jitter,
    /// Each with the moment at which it began.
    phases: Vec<(Duration, Phase)>,
    /// When something was done last, from which `until` counts.
    done: Instant,
    stats_at_start: Stats,
    stats_at_phase: Stats,
    metrics_at_start: BTreeMap<&'static str, BTreeMap<String, f64>>,
    /// Bytes of the access log that were there before.
    log_begins: usize,
    impostors: BTreeMap<String, Impostor>,
    flood: Vec<Connection>,
    memory: BTreeMap<String, u64>,
    /// Ids of the members' processes.
    processes: BTreeMap<&'static str, u32>,
    epoch: u32,
    verdict: Verdict,
}

impl<'a> Play<'a> {
    fn begin(scenario: &'a Scenario, fleet: &'a mut Fleet, slack: f64) -> Outcome<Self> {
        fleet.wait_until_well()?;
        fleet.envoy.reopen_logs()?;
        let log_begins = fleet.folder.read(envoy::LOG).len();
        let stats = fleet.envoy.stats("")?;
        let metrics =
            fleet.members.iter().map(|(name, member)| (*name, member.metrics())).collect();
        let processes = { fleet.members.iter_mut() }
            .filter_map(|(name, member)| Some((*name, member.process()?.id())))
            .collect();
        let load = Load { per_second: scenario.per_second, clients: CLIENTS };
        let traffic = Traffic::start(fleet.proxy, load)?;
        Ok(Self {
            scenario,
            slack,
            rows: rows(),
            traffic,
            jitter: Jitter::start(),
            phases: vec![(Duration::ZERO, Phase::default())],
            done: Instant::now(),
            stats_at_start: stats.clone(),
            stats_at_phase: stats,
            metrics_at_start: metrics,
            log_begins,
            impostors: BTreeMap::new(),
            flood: Vec::new(),
            memory: BTreeMap::new(),
            processes,
            epoch: 0,
            verdict: Verdict { name: scenario.name.clone(), ..Verdict::default() },
            fleet,
        })
    }

    fn play(mut self) -> Outcome<Verdict> {
        let scenario = self.scenario;
        self.steps(&scenario.steps)?;
        self.fleet.envoy.reopen_logs()?;
        self.judge();
        self.restore()?;
        Ok(self.verdict)
    }

    fn steps(&mut self, steps: &[Step]) -> Outcome<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Outcome<()> {
        match step {
            Step::Run(span) => sleep(span.0),
            Step::Phase(phase) => {
                self.stats_at_phase = self.fleet.envoy.stats("")?;
                self.phases.push((self.traffic.now(), phase.clone()));
            }
            Step::Until(until) => self.until(until)?,
            Step::P99 { route, below } => self.p99(*route, below.0),
            Step::Unmoved(names) => self.unmoved(names)?,
            Step::Moved(wanted) => self.moved(wanted)?,
            Step::Metric(metric) => self.metric(metric)?,
            Step::Status(wanted) => self.status(wanted)?,
            Step::RememberMemory(names) => {
                for name in names {
                    let bytes = self.resident(name)?;
                    self.memory.insert(name.clone(), bytes);
                }
            }
            Step::MemoryBelow(most) => self.memory_below(most)?,
            Step::MemoryGrewBelow(percent) => self.memory_grew_below(*percent)?,
            Step::NeverEnded(names) => self.never_ended(names)?,
            Step::Ended(names) => self.ended(names)?,
            Step::Repeat { times, steps } => {
                for _ in 0..*times {
                    self.steps(steps)?;
                }
            }
            _ => {
                self.act(step)?;
                self.done = Instant::now();
            }
        }
        Ok(())
    }

    /// What is done to the fleet.
    fn act(&mut self, step: &Step) -> Outcome<()> {
        match step {
            Step::Kill(name) => self.fleet.member(name)?.kill(),
            Step::Stop(name) => self.fleet.member(name)?.stop(),
            Step::Freeze(name) => self.process(name)?.freeze()?,
            Step::Thaw(name) => self.process(name)?.thaw()?,
            Step::Start(name) => {
                self.impostors.remove(name);
                let ended = |it: &mut crate::process::Process| it.ended();
                let ended = self.fleet.member(name)?.process().and_then(ended);
                let note = |how| format!("{name} had ended by itself: {how}");
                self.verdict.notes.extend(ended.map(note));
                self.fleet.member(name)?.start()?;
            }
            Step::Impostor { at, plays } => {
                let member = self.fleet.member(at)?;
                member.kill();
                self.impostors.insert(at.clone(), Impostor::start(member.port, *plays)?);
            }
            Step::HalfClose {} => {
                for name in ["ext-proc-1", "ext-proc-2"] {
                    let member = self.fleet.member(name)?;
                    member.kill();
                    Scripted::start(member.port)?.play(Script::CloseAtHeaders);
                }
            }
            Step::Delay(by) => self.fleet.gates.iter().for_each(|gate| gate.delay(by.0)),
            Step::Redis(command) => self.redis(command)?,
            Step::Keys { of, yaml } => self.fleet.member(of)?.set_keys(yaml)?,
            Step::HangUp { of, times } => {
                for _ in 0..*times {
                    self.process(of)?.hang_up()?;
                    sleep(Duration::from_millis(10));
                }
            }
            Step::Flood { connections, says, per_second } => {
                self.flood(*connections, says, *per_second)?;
            }
            Step::Certificates(certificates) => self.fleet.certify(*certificates)?,
            Step::Clock(seconds) => self.fleet.set_clock(*seconds)?,
            Step::Bodies { kib, at_once, times } => self.bodies(*kib, *at_once, *times),
            Step::HotRestart {} => self.hot_restart()?,
            Step::Admin(path) => {
                let post = Request::new("POST", path).header("content-length", "0");
                http::send(None, self.fleet.admin, &post)?;
            }
            // The others only look, and are done by `step`.
            _ => {}
        }
        Ok(())
    }

    fn process(&mut self, name: &str) -> Outcome<&mut crate::process::Process> {
        let process = self.fleet.member(name)?.process();
        process.ok_or_else(|| Failure::new(format!("{name} does not run")))
    }

    fn fault(&mut self, text: String) {
        self.verdict.faults.push(text);
    }

    fn until(&mut self, until: &Until) -> Outcome<()> {
        let Until { cluster, healthy, within, column } = until;
        let mut seen = self.fleet.healthy(cluster)?;
        let patience = within.0.mul_f64(self.slack).max(Duration::from_secs(20));
        while seen != *healthy && self.done.elapsed() < patience {
            sleep(PAUSE);
            seen = self.fleet.healthy(cluster)?;
        }
        let took = self.done.elapsed();
        let limit = self.limit(within.0, self.done);
        if seen != *healthy {
            return Err(Failure::new(format!(
                "{cluster} has {seen} healthy hosts, not {healthy}, after {took:.1?}"
            )));
        }
        if took > limit {
            self.fault(format!(
                "{cluster} had {healthy} healthy hosts after {took:.2?}, not {limit:.2?}"
            ));
        }
        let place = match column {
            Some(Column::Detected) => &mut self.verdict.detected,
            Some(Column::Recovered) => &mut self.verdict.recovered,
            None => return Ok(()),
        };
        *place = (*place).max(Some(took));
        Ok(())
    }

    /// What a time may be: what the scenario says, and what the machine has made everybody wait since then.
    fn limit(&self, wanted: Duration, since: Instant) -> Duration {
        wanted.mul_f64(self.slack) + self.jitter.since(since)
    }

    fn p99(&mut self, route: Route, below: Duration) {
        let begun = self.phases.last().map_or(Duration::ZERO, |(begun, _)| *begun);
        let records = self.traffic.since(begun);
        let mut paid: Vec<Duration> =
            { records.iter() }.filter(|record| record.route == route).map(Record::paid).collect();
        paid.sort_unstable();
        let place = (paid.len() * 99).div_ceil(100).saturating_sub(1);
        let age = self.traffic.now().saturating_sub(begun);
        let since = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        let limit = self.limit(below, since);
        if let Some(p99) = paid.get(place) {
            let name = self.phases.last().map_or("", |(_, phase)| phase.name.as_str());
            let (p99, limit) = (p99.as_secs_f64() * 1e3, limit.as_secs_f64() * 1e3);
            let count = paid.len();
            self.verdict.notes.push(format!(
                "{name}: p99 of {count} requests on {route:?} {p99:.1} ms (at most {limit:.1})"
            ));
        }
        match paid.get(place) {
            Some(p99) if *p99 <= limit => {}
            p99 => {
                self.fault(format!("p99 of {} requests was {p99:.2?}, not {limit:.2?}", paid.len()))
            }
        }
    }

    fn unmoved(&mut self, names: &[String]) -> Outcome<()> {
        let now = self.fleet.envoy.stats("")?;
        for name in names {
            let (before, now) = (self.stats_at_phase.get(name), now.get(name));
            if now.is_none() || before != now {
                self.fault(format!("{name} was {before:?} and is {now:?}"));
            }
        }
        Ok(())
    }

    fn moved(&mut self, wanted: &BTreeMap<String, u64>) -> Outcome<()> {
        let now = self.fleet.envoy.stats("")?;
        for (name, least) in wanted {
            let before = self.stats_at_start.get(name).copied().unwrap_or(0);
            let grown = now.get(name).copied().unwrap_or(0).saturating_sub(before);
            if grown < *least {
                self.fault(format!("{name} has grown by {grown}, not by {least}"));
            }
        }
        Ok(())
    }

    fn status(&mut self, wanted: &BTreeMap<String, String>) -> Outcome<()> {
        let mut command = Command::new(settings::cli()?);
        command.args(["status", "--json", "--admin", &self.fleet.admin.to_string()]);
        let output = command.output().map_err(doing("run glacis status"))?;
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        for (cluster, state) in wanted {
            let breakers = told["breakers"].as_array().into_iter().flatten();
            let found = { breakers }.find(|breaker| breaker["cluster"] == **cluster);
            let said = found.and_then(|breaker| breaker["state"].as_str()).unwrap_or_default();
            if said != state {
                self.fault(format!("glacis status says {said:?} of {cluster}, not {state:?}"));
            }
        }
        Ok(())
    }

    fn metric(&mut self, metric: &Metric) -> Outcome<()> {
        let sum = |metrics: &BTreeMap<String, f64>| -> f64 {
            { metrics.iter() }
                .filter(|(name, _)| name.starts_with(&metric.name))
                .map(|(_, value)| value)
                .sum()
        };
        let now = sum(&self.fleet.member(&metric.of)?.metrics());
        let before = self.metrics_at_start.get(metric.of.as_str()).map_or(0.0, sum);
        // A process that has been started anew counts from nothing.
        let before = if now < before { 0.0 } else { before };
        let grown = now - before;
        if grown < metric.at_least || grown > metric.at_most {
            let Metric { of, name, at_least, at_most } = metric;
            self.fault(format!("{name} of {of} has grown by {grown}, not {at_least} to {at_most}"));
        }
        Ok(())
    }

    /// Bytes of a process in memory.
    fn resident(&mut self, name: &str) -> Outcome<u64> {
        let id = match name {
            "envoy" => self.fleet.envoy.process().id(),
            name => self.process(name)?.id(),
        };
        crate::soak::resident_bytes(id)
    }

    fn memory_below(&mut self, most: &BTreeMap<String, u64>) -> Outcome<()> {
        for (name, most) in most {
            let mib = self.resident(name)? >> 20;
            self.verdict.notes.push(format!("{name} holds {mib} MiB (at most {most})"));
            if mib > *most {
                self.fault(format!("{name} holds {mib} MiB, not {most}"));
            }
        }
        Ok(())
    }

    fn never_ended(&mut self, names: &[String]) -> Outcome<()> {
        for name in names {
            let before = self.processes.get(name.as_str()).copied();
            let process = self.process(name)?;
            let now = process.ended().is_none().then(|| process.id());
            if before != now {
                self.fault(format!("{name} was process {before:?} and is {now:?}"));
            }
        }
        Ok(())
    }

    fn ended(&mut self, names: &[String]) -> Outcome<()> {
        for name in names {
            if self.process(name)?.ended().is_none() {
                self.fault(format!("{name} still runs"));
            }
        }
        Ok(())
    }

    fn memory_grew_below(&mut self, percent: u32) -> Outcome<()> {
        for (name, before) in self.memory.clone() {
            let now = self.resident(&name)?;
            let most = before + before * u64::from(percent) / 100;
            let (is_more, before, now) = (now > most, before >> 20, now >> 20);
            self.verdict.notes.push(format!("{name} held {before} MiB and holds {now}"));
            if is_more {
                self.fault(format!(
                    "{name} has grown from {before} MiB to {now}: over {percent} %"
                ));
            }
        }
        Ok(())
    }

    fn redis(&mut self, command: &str) -> Outcome<()> {
        let port = self.fleet.member("redis")?.port;
        crate::redis::command(port, command).map(|_| ())
    }

    fn flood(&mut self, connections: u32, says: &str, per_second: u32) -> Outcome<()> {
        let begun = Instant::now();
        for number in 0..connections {
            if per_second > 0 {
                let due = Duration::from_secs_f64(f64::from(number) / f64::from(per_second));
                sleep(due.saturating_sub(begun.elapsed()));
            }
            let [_, _, _, address] = (number % FLOODERS).to_be_bytes();
            let from = Ipv4Addr::new(127, 4, 0, address.saturating_add(1));
            let mut connection = Connection::open(Some(from), self.fleet.proxy)?;
            connection.write(says.as_bytes())?;
            self.flood.push(connection);
        }
        Ok(())
    }

    /// What is answered does not matter here; what others see meanwhile does.
    fn bodies(&self, kib: usize, at_once: u32, times: u32) {
        let proxy = self.fleet.proxy;
        // Of a file more may be sent than of a form.
        let line = "glacis and ice\n";
        let file = line.repeat((kib << 10) / line.len());
        let body = format!(
            "--b0undary\r\ncontent-disposition: form-data; name=\"file\"; filename=\"report.txt\"\r\n\
             content-type: text/plain\r\n\r\n{file}\r\n--b0undary--\r\n"
        );
        let request =
            Request::post("/upload", "multipart/form-data; boundary=b0undary", body).browser();
        for _ in 0..times {
            scope(|scope| {
                for _ in 0..at_once {
                    scope.spawn(|| http::send(None, proxy, &request));
                }
            });
        }
    }

    fn hot_restart(&mut self) -> Outcome<()> {
        self.epoch += 1;
        let config = self.fleet.folder.read(envoy::CONFIG);
        let new = Envoy::start_replaceable(
            &settings::envoy()?,
            &settings::root(),
            &config,
            self.fleet.admin.port(),
            &self.fleet.folder,
            self.epoch,
        )?;
        // The old one ends by itself; it is waited for, so that nothing of it outlives the scenario.
        let mut old = std::mem::replace(&mut self.fleet.envoy, new);
        let begun = Instant::now();
        while old.process().ended().is_none() && begun.elapsed() < Duration::from_secs(20) {
            sleep(PAUSE);
        }
        if old.process().ended().is_none() {
            self.fault("the Envoy that was replaced does not end".to_owned());
        }
        Ok(())
    }

    /// Holds what clients have seen, and what the access log says, against the phases.
    fn judge(&mut self) {
        let records = self.traffic.finish();
        self.verdict.requests = records.len();
        let mut wrong = Vec::new();
        for record in &records {
            let Some(row) = self.rows.get(record.row) else { continue };
            if row.kind == Kind::Clean {
                self.verdict.failed += usize::from(record.status == 0 || record.status >= 500);
                self.verdict.blocked_wrongly += usize::from((400..500).contains(&record.status));
            }
            if let Err(phases) = self.allowed(record, row) {
                let (Record { status, .. }, at) = (record, record.sent);
                let (route, name) = (record.route, row.name);
                wrong.push(format!(
                    "{at:.2?}: {name} on {route:?} was answered {status} ({phases})"
                ));
            }
        }
        self.tell(wrong, "requests were not answered as they should have been");
        self.verdict.uninspected = 0;
        let (mut closed, mut open) = (0, 0);
        let _ = self.fleet.envoy.reopen_logs();
        sleep(Duration::from_millis(100));
        for line in self.log() {
            let inspected = line["glacis"]["verdict"] == "allow";
            let from_us =
                line["client"].as_str().is_some_and(|client| client.starts_with("127.3."));
            if line["details"] != "via_upstream" || inspected || !from_us {
                continue;
            }
            let is_open = line["route"].as_str().is_some_and(|route| route.starts_with("open"));
            *(if is_open { &mut open } else { &mut closed }) += 1;
        }
        self.verdict.uninspected = open + closed;
        if closed > 0 {
            self.fault(format!(
                "{closed} requests without a verdict reached an upstream by the closed route"
            ));
        }
        if open > 0 && !self.scenario.fails_open {
            self.fault(format!(
                "{open} requests without a verdict reached an upstream by the open route"
            ));
        }
        if self.verdict.blocked_wrongly > 0 {
            self.fault(format!("{} clean requests were refused", self.verdict.blocked_wrongly));
        }
    }

    fn tell(&mut self, mut wrong: Vec<String>, what: &str) {
        let count = wrong.len();
        wrong.truncate(TOLD);
        if count > 0 {
            self.fault(format!("{count} {what}:\n    {}", wrong.join("\n    ")));
        }
    }

    fn log(&self) -> Vec<Value> {
        let log = self.fleet.folder.read(envoy::LOG);
        let new = log.get(self.log_begins..).unwrap_or_default();
        new.lines().flat_map(serde_json::from_str).collect()
    }

    /// Whether a request may have ended so; otherwise the names of the phases it lay in.
    fn allowed(&self, record: &Record, row: &Row) -> Result<(), String> {
        let ends = self.phases.iter().skip(1).map(|(begun, _)| *begun);
        let ends = ends.chain(std::iter::once(Duration::MAX));
        let within: Vec<&Phase> = { self.phases.iter().zip(ends) }
            .filter(|((begun, _), end)| *begun <= record.done && record.sent <= *end)
            .map(|((_, phase), _)| phase)
            .collect();
        let names =
            || within.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>().join(", ");
        if let ([phase], Kind::Clean) = (within.as_slice(), row.kind)
            && let Some(must) = phase.must.get(&record.route)
        {
            return if record.status == *must { Ok(()) } else { Err(names()) };
        }
        let also = |phase: &&&Phase| match record.route {
            Route::Closed => phase.closed.contains(&record.status),
            Route::Open => phase.open.contains(&record.status),
        };
        match record.status == row.status || within.iter().any(|phase| also(&phase)) {
            true => Ok(()),
            false => Err(names()),
        }
    }

    /// Makes the fleet whole again.
    fn restore(&mut self) -> Outcome<()> {
        self.impostors.clear();
        self.flood.clear();
        self.fleet.gates.iter().for_each(|gate| gate.delay(Duration::ZERO));
        if self.scenario.setup.is_some() {
            return Ok(());
        }
        for member in self.fleet.members.values_mut() {
            if let Some(process) = member.process() {
                let _ = process.thaw();
            }
            member.start()?;
        }
        self.fleet.wait_until_well()
    }
}
