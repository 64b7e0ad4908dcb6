//! A scenario as it stands in a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize as Derived;
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::failure::{Failure, Outcome, io};
use crate::fleet::Certificates;
use crate::greedy::Greed;
use crate::impostor::Part;
use crate::traffic::Route;

/// What is broken, how, and what must be seen.
#[derive(Clone, Debug, Derived)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// How it is called on the command line.
    pub name: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// Whether it is one of those that `--quick` plays.
    #[serde(default)]
    pub core: bool,
    /// What the fleet has to have for it; those without share one.
    #[serde(default)]
    pub setup: Option<Setup>,
    /// Requests in a second.
    #[serde(default = "per_second")]
    pub per_second: u32,
    /// Whether requests without a verdict may reach an upstream by the route that fails open.
    #[serde(default)]
    pub fails_open: bool,
    /// One after the other.
    pub steps: Vec<Step>,
}

fn per_second() -> u32 {
    80
}

/// What differs in the fleet of a scenario. See [`crate::fleet::Setup`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Derived)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Setup {
    /// Whether scenarios with this setup share a fleet: each leaves it as it found it.
    pub reusable: bool,
    /// Texts of Envoy's configuration and what is to stand there instead.
    pub envoy: BTreeMap<String, String>,
    /// Keys of both ext-procs, in YAML.
    pub ext_proc: String,
    /// A gate before the ext-procs.
    pub gate: bool,
    /// KiB that the first ext-proc may have of the address space.
    pub address_space_kib: u64,
    /// An Envoy that can be replaced.
    pub hot_restart: bool,
    /// Audit logs for which there is no room.
    pub disk_full: bool,
    /// TLS between Envoy and the ext-procs, with certificates that are read anew each second.
    pub tls: bool,
    /// Our services have a clock that can be set. Without libfaketime such a scenario is left out.
    pub clock: bool,
    /// The wasm-filter is replaced by one that traps at every third request.
    pub trapping_filter: bool,
}

impl Scenario {
    /// Whether the fleet is whole again after it, and may be another one's.
    pub fn spares_the_fleet(&self) -> bool {
        self.setup.as_ref().is_none_or(|setup| setup.reusable)
    }
}

/// One step of a scenario.
#[derive(Clone, Debug, Derived)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Lets traffic go on.
    Run(Span),
    /// From here on something else is expected.
    Phase(Phase),
    /// Ends a member at once.
    Kill(String),
    /// Asks a member to end, and waits until it has.
    Stop(String),
    /// Stops the execution of a member.
    Freeze(String),
    /// Lets it go on.
    Thaw(String),
    /// Starts a member and waits until it is ready.
    Start(String),
    /// Has somebody else answer in place of a member.
    Impostor {
        /// The member, which is killed.
        at: String,
        /// What is answered.
        plays: Part,
    },
    /// Has both ext-procs replaced by a processor that ends every stream properly, without a verdict.
    HalfClose {},
    /// Holds up what goes to the ext-procs and comes from them.
    Delay(Span),
    /// Waits until so many hosts of a cluster are in service.
    Until(Until),
    /// The 99th percentile of what requests on a route have paid since the phase began.
    P99 {
        /// The route.
        route: Route,
        /// What is allowed.
        below: Span,
    },
    /// Statistics of Envoy that must not have moved since the phase began.
    Unmoved(Vec<String>),
    /// Statistics of Envoy that must have grown by so much since the scenario began.
    Moved(BTreeMap<String, u64>),
    /// What `glacis status` says of a cluster: `closed`, `open` or `half-open`.
    Status(BTreeMap<String, String>),
    /// A metric of one of our services, summed over all samples whose name begins so.
    Metric(Metric),
    /// Gives both ext-procs other certificates, and waits until they have read them.
    Certificates(Certificates),
    /// Sets the clocks of our services so many seconds ahead of the machine's (behind it, if negative), and
    /// waits until all say so. Redis keeps its own.
    Clock(i64),
    /// A command for Redis.
    Redis(String),
    /// Gives a member further keys, in YAML, in place of those it was given before.
    Keys {
        /// The member.
        of: String,
        /// The keys.
        yaml: String,
    },
    /// Has a member read its configuration anew, so often.
    HangUp {
        /// The member.
        of: String,
        /// How often, with a hundredth of a second between.
        times: u32,
    },
    /// Opens so many connections that say so much and no more, and keeps them to the end of the scenario.
    Flood {
        /// How many.
        connections: u32,
        /// Bytes that each sends at once: the beginning of a request.
        says: String,
        /// How many are opened in a second; 0 for as many as can be.
        #[serde(default)]
        per_second: u32,
    },
    /// Has one client, with one address, take more than its share until the scenario ends.
    Greedy(Greed),
    /// From here on no ext-proc may say that it is not ready.
    StaysReady {},
    /// What requests have paid since the phase began is what [`Step::NearBaseline`] compares with.
    Baseline {},
    /// What requests may pay on both routes, beside the baseline.
    NearBaseline(NearBaseline),
    /// Sends bodies of this size on the closed route, so many at once, so often.
    Bodies {
        /// KiB of each.
        kib: usize,
        /// How many at once.
        at_once: u32,
        /// How often.
        times: u32,
    },
    /// Replaces Envoy by a new one that takes over its sockets.
    HotRestart {},
    /// Tells Envoy to drain its listeners (`POST` on its admin port).
    Admin(String),
    /// Remembers how large these processes are: members, or `envoy`.
    RememberMemory(Vec<String>),
    /// The most MiB that a process may hold now: members, or `envoy`.
    MemoryBelow(BTreeMap<String, u64>),
    /// They may have grown by so many percent since.
    MemoryGrewBelow(u32),
    /// Members that must be the processes that they were when the scenario began.
    NeverEnded(Vec<String>),
    /// Members whose processes must have ended by themselves.
    Ended(Vec<String>),
    /// Does these steps so often.
    Repeat {
        /// How often.
        times: u32,
        /// The steps.
        steps: Vec<Self>,
    },
}

/// What clients may see from some moment on. A request that lies in several phases may end as any of them says.
#[derive(Clone, Debug, Default, Derived)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Phase {
    /// For messages.
    pub name: String,
    /// Statuses on the closed route besides the usual ones; 0 is a connection that ends without an answer.
    #[serde(default)]
    pub closed: Vec<u16>,
    /// The same for the open route. 200 means that attacks may pass.
    #[serde(default)]
    pub open: Vec<u16>,
    /// The status that every clean request which lies in this phase alone has to have, by route.
    #[serde(default)]
    pub must: BTreeMap<Route, u16>,
}

/// The 99th percentile of what requests have paid since the phase began, at most.
#[derive(Clone, Copy, Debug, Derived)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NearBaseline {
    /// So many times that of the baseline,
    pub factor: f64,
    /// and so much more.
    pub plus: Span,
}

/// Waiting for Envoy to notice.
#[derive(Clone, Debug, Derived)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Until {
    /// The cluster.
    pub cluster: String,
    /// Hosts that are in service.
    pub healthy: u64,
    /// The time for it, counted from the last thing that was done.
    pub within: Span,
    /// The column of the table in which the time is told.
    #[serde(rename = "as", default)]
    pub column: Option<Column>,
}

/// A column of the table.
#[derive(Clone, Copy, Debug, Derived, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// From the failure to the breaker that opens.
    Detected,
    /// From health to the breaker that closes.
    Recovered,
}

/// What a metric must have grown by since the scenario began.
#[derive(Clone, Debug, Derived)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Metric {
    /// The member.
    pub of: String,
    /// How the names of the samples begin.
    pub name: String,
    /// The least.
    #[serde(default)]
    pub at_least: f64,
    /// The most.
    #[serde(default = "infinity")]
    pub at_most: f64,
}

fn infinity() -> f64 {
    f64::INFINITY
}

/// A time, written as `250ms` or `1.5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| *n >= 0.0);
        let seconds = match text.strip_suffix("ms") {
            Some(text) => number(text).map(|number| number / 1e3),
            None => text.strip_suffix('s').and_then(number),
        };
        let wrong = || D::Error::custom(format!("{text:?} is no time; write 250ms or 1.5s"));
        seconds.map(Duration::from_secs_f64).map(Self).ok_or_else(wrong)
    }
}

/// Reads every scenario of a folder, file by file in the order of their names.
///
/// # Errors
///
/// If a file cannot be read or is none of scenarios, or two have one name.
pub fn read(folder: &Path) -> Outcome<Vec<Scenario>> {
    let entries = fs::read_dir(folder).map_err(io("read", folder))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut scenarios: Vec<Scenario> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(io("read", &file))?;
        let more: Vec<Scenario> = serde_saphyr::from_str(&text)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        scenarios.extend(more);
    }
    let mut names: Vec<_> = scenarios.iter().map(|scenario| &scenario.name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::new(format!("two scenarios are called {}", pair[0]))),
        None => Ok(scenarios),
    }
}
