//! Candidates: a rule at a target on a path of a site, and the requests that speak for it.

use std::collections::{BTreeMap, BTreeSet};

use glacis_rules::{Exclusion, ExclusionEvidence, exclusion_rules};

use crate::{
    learner::Learner,
    paths::widened,
    target::{Reach, Target},
    template::Templates,
    values::Values,
};

/// Different names on one path from which on a rule leaves out the whole collection there.
const NAMES_MIN: usize = 4;

/// Names of which is known what varies in them.
const NAMES_MAX: usize = 100_000;

/// Different values of a candidate that are kept.
const VALUES_MAX: usize = 1_024;

/// What a candidate is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) host: String,
    pub(crate) rule: u32,
    /// `None` for the rule as a whole.
    pub(crate) target: Option<Target>,
    /// `None` for every path of the site.
    pub(crate) path: Option<String>,
}

/// What speaks for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) observations: BTreeSet<usize>,
    pub(crate) clients: BTreeSet<Option<u64>>,
    pub(crate) days: BTreeSet<u64>,
    pub(crate) values: BTreeSet<Vec<u8>>,
    /// Whether there were more values than are kept, or longer ones.
    pub(crate) values_cut: bool,
    pub(crate) msg: String,
    /// A name as it was sent.
    pub(crate) name: Option<String>,
}

/// Candidates, and which of them each matching place of a request belongs to.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) all: BTreeMap<Key, Evidence>,
    /// By observation, round and unit: the candidates that all have to be accepted for the unit to go.
    pub(crate) of_unit: BTreeMap<(usize, usize, usize), BTreeSet<Key>>,
}

/// A place where a rule matched in an observation.
struct Occurrence<'l> {
    at: (usize, usize, usize),
    path: String,
    target: Option<Target>,
    raw: Option<&'l (Target, Vec<u8>)>,
}

/// Puts together what speaks for the same exclusion.
pub(crate) fn candidates<'l>(learner: &'l Learner) -> Candidates {
    let mut names = Templates::new(NAMES_MAX);
    for observation in learner.observations.iter().filter(|observation| observation.counts()) {
        let units = observation.rounds.iter().flat_map(|round| &round.units);
        for (target, _) in units.flat_map(|unit| &unit.places) {
            if let Some(name) = &target.name {
                names.add(&format!("{} {}", observation.host, target.collection), name);
            }
        }
    }
    let mut groups: BTreeMap<(String, u32, String), Vec<Occurrence<'l>>> = BTreeMap::new();
    for (index, observation) in learner.observations.iter().enumerate() {
        if !observation.counts() {
            continue;
        }
        let host = &observation.host;
        let path = writable_path(&learner.paths.text(host, &observation.path));
        for (round, refused) in observation.rounds.iter().enumerate() {
            for (position, unit) in refused.units.iter().enumerate() {
                let at = (index, round, position);
                let mut push = |target: Option<Target>, raw: Option<&'l (Target, Vec<u8>)>| {
                    let collection = target.as_ref().map_or("", |target| &target.collection);
                    let key = (host.clone(), unit.rule, collection.to_owned());
                    let occurrence = Occurrence { at, path: path.clone(), target, raw };
                    groups.entry(key).or_default().push(occurrence);
                };
                if unit.places.is_empty() {
                    push(None, None);
                }
                for place in &unit.places {
                    let owner = format!("{host} {}", place.0.collection);
                    let name = place.0.name.as_ref().map(|name| names.text(&owner, name));
                    push(Some(writable(Target { name, ..place.0.clone() })), Some(place));
                }
            }
        }
    }
    let mut candidates = Candidates::default();
    for ((host, rule, _), occurrences) in groups {
        candidates.add_group(learner, &host, rule, occurrences);
    }
    candidates
}

impl Candidates {
    fn add_group(
        &mut self,
        learner: &Learner,
        host: &str,
        rule: u32,
        mut occurrences: Vec<Occurrence<'_>>,
    ) {
        join_names(&mut occurrences);
        let mut paths: BTreeMap<Option<Target>, BTreeSet<String>> = BTreeMap::new();
        for occurrence in &occurrences {
            paths.entry(occurrence.target.clone()).or_default().insert(occurrence.path.clone());
        }
        let wide: BTreeMap<Option<Target>, BTreeMap<String, Option<String>>> = paths
            .into_iter()
            .map(|(target, paths)| {
                let reach = target.as_ref().map_or(Reach::Page, Target::reach);
                let reach = match &target {
                    // A whole collection is left out on single pages only.
                    Some(target) if target.name.is_none() => Reach::Path,
                    _ => reach,
                };
                let wide = widened(&paths, reach);
                (target, wide)
            })
            .collect();
        for Occurrence { at, path, target, raw } in occurrences {
            let found = wide.get(&target).and_then(|paths| paths.get(&path));
            let path = found.cloned().unwrap_or(Some(path));
            let key = Key { host: host.to_owned(), rule, target, path };
            self.of_unit.entry(at).or_default().insert(key.clone());
            self.all.entry(key).or_default().add(learner, at, raw);
        }
    }
}

impl Evidence {
    /// How much of it there is.
    pub(crate) fn counted(&self) -> ExclusionEvidence {
        let count = |set: usize| u64::try_from(set).unwrap_or(u64::MAX);
        ExclusionEvidence {
            requests: count(self.observations.len()),
            clients: count(self.clients.iter().flatten().count()),
            days: count(self.days.len()),
        }
    }

    fn add(
        &mut self,
        learner: &Learner,
        at: (usize, usize, usize),
        raw: Option<&(Target, Vec<u8>)>,
    ) {
        let Some(observation) = learner.observations.get(at.0) else { return };
        self.observations.insert(at.0);
        self.clients.insert(observation.client);
        self.days.extend(observation.day);
        let unit = observation.rounds.get(at.1).and_then(|round| round.units.get(at.2));
        if let Some(unit) = unit {
            self.msg.clone_from(&unit.msg);
        }
        if let Some((target, value)) = raw {
            self.values_cut |= unit.is_some_and(|unit| unit.is_cut)
                || self.values.len() >= VALUES_MAX && !self.values.contains(value);
            if !self.values_cut {
                self.values.insert(value.clone());
            }
            self.name.clone_from(&target.name);
        }
    }
}

/// Where the names on one path are of no use, because there are too many or they cannot be written, the whole
/// collection stands for them.
fn join_names(occurrences: &mut [Occurrence<'_>]) {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for occurrence in occurrences.iter() {
        if let Some(name) = occurrence.target.as_ref().and_then(|target| target.name.clone()) {
            names.entry(occurrence.path.clone()).or_default().insert(name);
        }
    }
    for occurrence in occurrences {
        let many = names.get(&occurrence.path).is_some_and(|names| names.len() >= NAMES_MIN);
        if let Some(target) = occurrence.target.as_mut()
            && target.collection.starts_with("ARGS")
            && many
        {
            target.name = None;
        }
    }
}

/// A target whose name cannot be written stands for all of its collection.
fn writable(target: Target) -> Target {
    let exclusion = Exclusion {
        rules: vec!["1".to_owned()],
        targets: vec![target.text()],
        owner: "-".to_owned(),
        reason: "-".to_owned(),
        ..Exclusion::default()
    };
    let is_named = exclusion_rules(&[exclusion]).is_ok();
    let is_argument = target.collection.starts_with("ARGS");
    if is_named || !is_argument { target } else { Target { name: None, ..target } }
}

/// Segments that cannot be written stand for any.
fn writable_path(path: &str) -> String {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~@:+,=!*()&".contains(&byte);
    let segment = |segment: &str| {
        if glacis_rules::is_template_text(segment, good) && !segment.starts_with('.') {
            segment.to_owned()
        } else {
            "{segment}".to_owned()
        }
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

impl Key {
    /// The exclusion for it.
    pub(crate) fn exclusion(&self, learner: &Learner, values: &Values) -> Exclusion {
        let is_one_site = learner.totals.hosts <= 1 || self.host.is_empty();
        Exclusion {
            rules: vec![self.rule.to_string()],
            tags: Vec::new(),
            targets: self.target.iter().map(Target::text).collect(),
            path: self.path.clone(),
            hosts: if is_one_site { Vec::new() } else { vec![self.host.clone()] },
            values: values.text(),
            owner: "-".to_owned(),
            reason: "-".to_owned(),
            expires: Some(learner.options.expires),
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let target = self.target.as_ref().map_or_else(|| "as a whole".to_owned(), Target::text);
        let path = self.path.as_deref().unwrap_or("every path");
        let host = if self.host.is_empty() { "no host" } else { &self.host };
        format!("rule {} {target} on {path} of {host}", self.rule)
    }
}
