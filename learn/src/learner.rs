//! What is kept of the input.

use core::{net::IpAddr, time::Duration};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use glacis_engine::{BuildErrors, Program, RuleEngine, Transaction};
use glacis_explain::{Bytes, Occasion, Request, inspect};
use glacis_rules::Date;

use crate::{
    attacks::Attacks,
    observation::{Observation, Sign},
    observe::{Unlearnable, refused},
    poison::{ORDINARY_MIN, mark_clients, sign_of},
    template::Templates,
    view::{View, Viewer},
};

/// Different kinds of paths, and parameters, of which something is known.
const KNOWN_MAX: usize = 100_000;

/// Clients that are told apart, and sites times clients.
const CLIENTS_MAX: usize = 100_000;

/// Bytes of an identifier.
const IDENTIFIER_BYTES_MAX: usize = 64;

const SECONDS_A_DAY: u64 = 86_400;

/// What an exclusion needs, and what may be kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests that an exclusion needs.
    pub requests_min: u64,
    /// Clients that it needs; `None` for two, where the input names clients.
    pub clients_min: Option<u64>,
    /// Days that it needs, where the input has times; `None` for two.
    pub days_min: Option<u64>,
    /// Attacks to check with, besides the shipped ones.
    pub attacks: Vec<Vec<u8>>,
    /// The last day of what is proposed.
    pub expires: Date,
    /// Blocked requests that are kept; more are counted.
    pub observations_max: usize,
    /// Bytes of them.
    pub bytes_max: usize,
}

impl Options {
    /// Defaults for the traffic of one site.
    #[must_use]
    pub const fn until(expires: Date) -> Self {
        Self {
            requests_min: 3,
            clients_min: None,
            days_min: None,
            attacks: Vec::new(),
            expires,
            observations_max: 100_000,
            bytes_max: 512 << 20,
        }
    }
}

/// Requests of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All.
    pub requests: u64,
    /// Those that the rules block.
    pub blocked: u64,
    /// Blocked ones that pass with what is proposed.
    pub passing: u64,
    /// Blocked ones that were counted and not kept.
    pub dropped: u64,
    /// Sites, by `Host`.
    pub hosts: u64,
    /// Clients; 0 when no request names one.
    pub clients: u64,
    /// Days; 0 when no request has a time.
    pub days: u64,
}

/// Values of a parameter in requests that are not blocked.
#[derive(Clone, Copy, Debug, Default)]
struct Ordinary {
    values: u64,
    identifiers: u64,
}

/// Learns from one request after the other.
#[derive(Debug)]
pub struct Learner {
    pub(crate) options: Options,
    pub(crate) attacks: Rc<Attacks>,
    pub(crate) program: Arc<Program>,
    plain: Transaction,
    traced: Transaction,
    viewer: Viewer,
    pub(crate) observations: Vec<Observation>,
    bytes: usize,
    pub(crate) totals: Totals,
    pub(crate) unlearnable: BTreeMap<Unlearnable, u64>,
    pub(crate) paths: Templates,
    ordinary: BTreeMap<(String, Vec<u8>), Ordinary>,
    names: BTreeMap<String, u64>,
    days: BTreeSet<u64>,
    pub(crate) clients: BTreeMap<String, BTreeSet<u64>>,
}

impl Learner {
    /// Learns exclusions for the rules of `program`, whose limits decide how much of a value is looked at.
    ///
    /// # Errors
    /// When the base configuration does not compile.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Self, BuildErrors> {
        Ok(Self {
            attacks: Rc::new(Attacks::with(&options.attacks)),
            plain: Transaction::new(Arc::clone(&program)),
            traced: Transaction::new(Arc::clone(&program)).with_trace(),
            viewer: Viewer::new()?,
            program,
            options,
            observations: Vec::new(),
            bytes: 0,
            totals: Totals::default(),
            unlearnable: BTreeMap::new(),
            paths: Templates::new(KNOWN_MAX),
            ordinary: BTreeMap::new(),
            names: BTreeMap::new(),
            days: BTreeSet::new(),
            clients: BTreeMap::new(),
        })
    }

    /// Takes a request into account. `source` names its client where the request does not.
    pub fn observe(&mut self, request: Request, source: Option<&str>) {
        self.totals.requests += 1;
        let host = host_of(&request);
        let client = self.client(&request, source, &host);
        let day = request.time.map(|time| time.0.as_secs() / SECONDS_A_DAY);
        self.days.extend(day.filter(|_| self.days.len() < KNOWN_MAX));
        let view = self.viewer.view(&request);
        self.paths.add(&host, &view.path);
        let signed = view.values.iter().any(|(_, value)| self.attacks.sign(value))
            || self.attacks.sign(view.path.as_bytes());
        inspect(&mut self.plain, &request, "", &occasion(&request));
        if self.plain.verdict().refusal().is_none() {
            if !signed {
                self.count_ordinary(&host, view);
            }
            return;
        }
        self.totals.blocked += 1;
        inspect(&mut self.traced, &request, "", &occasion(&request));
        match refused(&self.traced) {
            Some(Ok(found)) => {
                let observation = Observation {
                    request,
                    host,
                    path: view.path,
                    client,
                    day,
                    rounds: vec![found],
                    sign: None,
                    hopeless: None,
                };
                self.keep(observation, signed);
            }
            Some(Err(why)) => *self.unlearnable.entry(why).or_default() += 1,
            None => *self.unlearnable.entry(Unlearnable::NoReason).or_default() += 1,
        }
    }

    fn keep(&mut self, mut observation: Observation, signed: bool) {
        let in_places = |observation: &Observation| {
            let units = observation.rounds.iter().flat_map(|round| &round.units);
            units.flat_map(|unit| &unit.places).any(|(_, value)| self.attacks.sign(value))
        };
        let signed = signed || in_places(&observation);
        observation.sign = sign_of(&observation, signed);
        let bytes = observation.request.bytes();
        let is_full = self.observations.len() >= self.options.observations_max
            || self.bytes.saturating_add(bytes) > self.options.bytes_max;
        if is_full {
            self.totals.dropped += 1;
            return;
        }
        self.bytes += bytes;
        self.observations.push(observation);
    }

    /// Adds up the input, and marks the requests that are no evidence beside all others.
    pub(crate) fn finish(&mut self) {
        self.totals.hosts = u64::try_from(self.clients.len()).unwrap_or(u64::MAX);
        self.totals.clients = u64::try_from(self.names.len()).unwrap_or(u64::MAX);
        self.totals.days = u64::try_from(self.days.len()).unwrap_or(u64::MAX);
        for observation in &mut self.observations {
            let places = || observation.rounds.iter().flat_map(|round| &round.units);
            let is_outlier = places().flat_map(|unit| &unit.places).any(|(target, value)| {
                let key = (observation.host.clone(), target.text().into_bytes());
                self.ordinary.get(&key).is_some_and(|ordinary| {
                    ordinary.values >= ORDINARY_MIN
                        && ordinary.identifiers == ordinary.values
                        && !is_identifier(value)
                })
            });
            if observation.sign.is_none() && is_outlier {
                observation.sign = Some(Sign::Outlier);
            }
        }
        mark_clients(&mut self.observations, &self.clients);
    }

    /// The least that an exclusion needs: requests, clients, days.
    pub(crate) fn needs(&self) -> (u64, u64, u64) {
        const SEVERAL: u64 = 2;
        let needed = |known: u64, wanted: Option<u64>| {
            if known == 0 && wanted.is_none() { 0 } else { wanted.unwrap_or(SEVERAL) }
        };
        let days = if self.totals.days == 0 { 0 } else { self.options.days_min.unwrap_or(SEVERAL) };
        (self.options.requests_min, needed(self.totals.clients, self.options.clients_min), days)
    }

    fn client(&mut self, request: &Request, source: Option<&str>, host: &str) -> Option<u64> {
        let name = request.client.map(|peer| client_name(peer.ip()));
        let name = name.or_else(|| source.map(str::to_owned));
        let next = u64::try_from(self.names.len()).unwrap_or(u64::MAX);
        let client = name.and_then(|name| match self.names.get(&name) {
            Some(&client) => Some(client),
            None if self.names.len() >= CLIENTS_MAX => None,
            None => {
                self.names.insert(name, next);
                Some(next)
            }
        });
        if self.clients.len() < CLIENTS_MAX || self.clients.contains_key(host) {
            let known = self.clients.entry(host.to_owned()).or_default();
            known.extend(client.filter(|_| known.len() < CLIENTS_MAX));
        }
        client
    }

    fn count_ordinary(&mut self, host: &str, view: View) {
        for (variable, value) in view.values {
            let key = (host.to_owned(), variable);
            if self.ordinary.len() < KNOWN_MAX || self.ordinary.contains_key(&key) {
                let ordinary = self.ordinary.entry(key).or_default();
                ordinary.values += 1;
                ordinary.identifiers += u64::from(is_identifier(&value));
            }
        }
    }
}

/// Rules run and block, whatever they say: what would be blocked counts.
pub(crate) fn occasion(request: &Request) -> Occasion {
    let time = request.time.map_or(Duration::from_secs(1), |time| time.0);
    Occasion { rule_engine: Some(RuleEngine::On), ..Occasion::at(time) }
}

/// A client of IPv6 has a network of its own.
fn client_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => ip.to_string(),
            None => {
                let [a, b, c, d, ..] = ip.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        },
    }
}

/// `Host` in lower case without its port; empty where there is none.
fn host_of(request: &Request) -> String {
    let is_host = |(Bytes(name), _): &&(Bytes, Bytes)| name.eq_ignore_ascii_case(b"host");
    let host = request.headers.iter().find(is_host).map(|(_, Bytes(value))| value.as_slice());
    let host = String::from_utf8_lossy(host.unwrap_or_default()).to_ascii_lowercase();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name.to_owned(),
        _ => host,
    }
}

fn is_identifier(value: &[u8]) -> bool {
    value.len() <= IDENTIFIER_BYTES_MAX
        && value.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
