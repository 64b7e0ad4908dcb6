//! Plays a scenario: does its steps while clients send requests. Steps that only look are in [`look`], what is
//! thought of all that clients have seen in [`judge`].

mod fair;
mod judge;
mod look;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use self::fair::Watch;
use super::jitter::Jitter;
use super::scenario::{Phase, Scenario, Setup, Step};
use crate::envoy::{self, Envoy};
use crate::failure::{Failure, Outcome, doing};
use crate::fleet::{self, Fleet};
use crate::greedy::{Greed, Greedy};
use crate::http::{self, Connection, Request};
use crate::impostor::Impostor;
use crate::scripted::{Script, Scripted};
use crate::traffic::{Load, Route, Row, Traffic, rows};
use crate::{settings, trap};

/// Clients of the traffic.
const CLIENTS: u16 = 8;
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
                if !scenario.spares_the_fleet() {
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
    /// Of the one client that is greedy.
    greedy_address: Ipv4Addr,
    greedy: Vec<(Greed, Greedy)>,
    /// Looks whether services stay ready.
    watch: Option<Watch>,
    /// The 99th percentile of what requests paid before somebody was greedy, by route.
    baseline: BTreeMap<Route, Duration>,
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
            greedy_address: fair::new_address(),
            greedy: Vec::new(),
            watch: None,
            baseline: BTreeMap::new(),
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
        self.judge_greed();
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
            Step::Baseline {} => self.baseline(),
            Step::NearBaseline(wanted) => self.near_baseline(wanted),
            Step::StaysReady {} => self.stays_ready(),
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
            Step::Greedy(greed) => self.greedy(greed)?,
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

    /// Makes the fleet whole again.
    fn restore(&mut self) -> Outcome<()> {
        self.impostors.clear();
        self.flood.clear();
        self.greedy.clear();
        self.fleet.gates.iter().for_each(|gate| gate.delay(Duration::ZERO));
        if !self.scenario.spares_the_fleet() {
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
