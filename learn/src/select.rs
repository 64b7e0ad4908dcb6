//! Which candidates are accepted, and the fewest of them with which requests pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use glacis_engine::{Program, Transaction};
use glacis_explain::{Rebuild, inspect};
use glacis_rules::{EXCLUSIONS_MAX, Exclusion, exclusion_rules};

use crate::{
    candidate::{Candidates, Evidence, Key, candidates},
    check::{Checker, Left},
    inject::Place,
    learner::{Learner, occasion},
    observation::Observation,
    observe::refused,
    report::{Declined, Learned},
    target::Target,
    values::Values,
};

/// Rulesets that are built: each shows what still blocks.
const ROUNDS_MAX: usize = 6;

/// Rules that may be left out as a whole: about the protocol, not about attacks.
const PROTOCOL_RULES: [core::ops::RangeInclusive<u32>; 2] = [911_000..=911_999, 920_000..=922_999];

/// What has been decided so far.
#[derive(Default)]
struct Decisions {
    accepted: BTreeMap<Key, Values>,
    declined: BTreeMap<Key, String>,
    /// Declined for good, also in further rounds.
    banned: BTreeMap<Key, String>,
    selected: BTreeSet<Key>,
    /// Observations that pass with what is selected.
    passing: BTreeSet<usize>,
}

impl Learner {
    /// The exclusions that follow from what was observed; `rules` builds the same rules with more before or behind them.
    ///
    /// # Errors
    /// When the rules cannot be built again.
    pub fn learn<R: Rebuild>(mut self, rules: &mut R) -> Result<Learned, R::Fault> {
        self.finish();
        select(self, rules)
    }
}

fn select<R: Rebuild>(mut learner: Learner, rules: &mut R) -> Result<Learned, R::Fault> {
    let mut checker = Checker::new(Arc::clone(&learner.program), Rc::clone(&learner.attacks));
    let mut decisions = Decisions::default();
    let mut found = Candidates::default();
    for _ in 0..ROUNDS_MAX {
        found = candidates(&learner);
        decisions = Decisions { banned: decisions.banned, ..Decisions::default() };
        decisions.judge(&learner, &found, &mut checker);
        decisions.cover(&learner, &found);
        let Some(program) = build(&learner, &decisions, rules)? else { break };
        let changed = replay(&mut learner, &decisions, &program);
        let banned = decisions.try_attacks(&learner, &found, &mut checker, &program);
        if !changed && !banned {
            break;
        }
    }
    Ok(learned(&learner, &decisions, &found))
}

/// The rules with all that is selected; `None` when they cannot be built, or nothing is selected.
fn build<R: Rebuild>(
    learner: &Learner,
    decisions: &Decisions,
    rules: &mut R,
) -> Result<Option<Arc<Program>>, R::Fault> {
    let any = Values::Any;
    let one = |key: &Key| key.exclusion(learner, decisions.accepted.get(key).unwrap_or(&any));
    let exclusions: Vec<Exclusion> = decisions.selected.iter().map(one).collect();
    let Ok(text) = exclusion_rules(&exclusions) else { return Ok(None) };
    if exclusions.is_empty() {
        return Ok(None);
    }
    let program = rules.build(Some(&text.before), Some(&text.after))?;
    Ok(program.ok().map(Arc::new))
}

/// Evaluates what should pass again. What still blocks is another round of the request; where that is nothing new,
/// exclusions do not take effect for it.
fn replay(learner: &mut Learner, decisions: &Decisions, program: &Arc<Program>) -> bool {
    let mut transaction = Transaction::new(Arc::clone(program)).with_trace();
    let mut changed = false;
    for &index in &decisions.passing {
        let Some(observation) = learner.observations.get_mut(index) else { continue };
        inspect(&mut transaction, &observation.request, "", &occasion(&observation.request));
        let known = |rule: u32, target: &Target| {
            let units = observation.rounds.iter().flat_map(|round| &round.units);
            units
                .filter(|unit| unit.rule == rule)
                .any(|unit| unit.places.iter().any(|(known, _)| known == target))
        };
        match refused(&transaction) {
            None => continue,
            Some(Ok(refused))
                if refused.units.iter().any(|unit| {
                    unit.places.iter().any(|(target, _)| !known(unit.rule, target))
                }) =>
            {
                observation.rounds.push(refused);
            }
            Some(Ok(_)) => {
                observation.hopeless =
                    Some("the exclusion does not take effect: the path could mean another one");
            }
            Some(Err(why)) => observation.hopeless = Some(why.text()),
        }
        changed = true;
    }
    changed
}

impl Decisions {
    /// Accepts or declines each candidate, those with most evidence first.
    fn judge(&mut self, learner: &Learner, found: &Candidates, checker: &mut Checker) {
        let mut order: Vec<(&Key, &Evidence)> = found.all.iter().collect();
        order.sort_by_key(|(key, evidence)| {
            (core::cmp::Reverse(evidence.observations.len()), (*key).clone())
        });
        for (key, evidence) in order {
            let verdict = match self.banned.get(key) {
                Some(why) => Err(why.clone()),
                None => self.form(learner, key, evidence, checker),
            };
            match verdict {
                Ok(values) => {
                    self.accepted.insert(key.clone(), values);
                }
                Err(why) => {
                    self.declined.insert(key.clone(), why);
                }
            }
        }
    }

    /// The widest form in which a candidate may be proposed.
    fn form(
        &self,
        learner: &Learner,
        key: &Key,
        evidence: &Evidence,
        checker: &mut Checker,
    ) -> Result<Values, String> {
        enough(learner, evidence)?;
        if let Err(error) = exclusion_rules(&[key.exclusion(learner, &Values::Any)]) {
            return Err(format!("it cannot be written: {error}"));
        }
        let Some(target) = &key.target else {
            let is_protocol = PROTOCOL_RULES.iter().any(|rules| rules.contains(&key.rule));
            return match (is_protocol, &key.path) {
                (true, Some(_)) => Ok(Values::Any),
                (true, None) => Err("the whole rule on every path is too much".to_owned()),
                (false, _) => {
                    Err("no target can be named, and the rule looks for attacks".to_owned())
                }
            };
        };
        let mut forms = Vec::new();
        if !target.is_word() {
            forms.push(Some(Values::Any));
        }
        if !evidence.values_cut && !target.is_name() {
            if !target.is_word() {
                forms.push(Values::characters(&evidence.values, true));
                forms.push(Values::characters(&evidence.values, false));
            }
            forms.push(Values::templates(&evidence.values));
        }
        let Some(place) = Place::of(&named(target, evidence), &content_type(learner, evidence))
        else {
            // A client cannot put an attack there, or only the one word that was seen.
            return forms.into_iter().flatten().next().ok_or_else(|| "no form fits".to_owned());
        };
        let mut worst = None;
        for values in forms.into_iter().flatten() {
            let left = self.left_at(key, target, &values);
            let loss = checker.estimate(&place, &left);
            if loss.is_small() {
                return Ok(values);
            }
            worst.get_or_insert_with(|| (loss.lost(), loss.found()));
        }
        let (lost, of) = worst.unwrap_or_default();
        Err(format!("{lost} of {of} known attacks would no longer be found there"))
    }

    /// What is left out where the candidate applies, with the candidate.
    fn left_at<'v>(&'v self, key: &Key, target: &Target, values: &'v Values) -> Vec<Left<'v>> {
        let applies = |(other, _): &(&Key, &Values)| {
            let same_page = other.path == key.path || other.path.is_none() || key.path.is_none();
            let same_target = other.target.as_ref().is_some_and(|other| {
                other.collection == target.collection
                    && (other.name == target.name || other.name.is_none() || target.name.is_none())
            });
            other.host == key.host && same_page && same_target
        };
        let others = self.accepted.iter().filter(applies);
        let left = |rule: u32, values: &'v Values| Left { rule, target: target.clone(), values };
        let mut all: Vec<Left<'v>> =
            others.map(|(other, values)| left(other.rule, values)).collect();
        all.push(left(key.rule, values));
        all
    }

    /// Selects the fewest candidates with which requests pass, those that are needed anyway and those with most evidence
    /// first.
    fn cover(&mut self, learner: &Learner, found: &Candidates) {
        let weight = |keys: &BTreeSet<Key>| {
            let count = |key: &Key| found.all.get(key).map_or(0, |seen| seen.observations.len());
            keys.iter().map(count).min().unwrap_or(0)
        };
        for (index, observation) in learner.observations.iter().enumerate() {
            if !observation.counts() {
                continue;
            }
            let mut chosen: BTreeSet<Key> = BTreeSet::new();
            let passes = observation.rounds.iter().enumerate().all(|(round, refused)| {
                let mut excess = refused.excess();
                let mut units: Vec<(&BTreeSet<Key>, i64)> = refused
                    .units
                    .iter()
                    .enumerate()
                    .filter_map(|(unit, seen)| {
                        let keys = found.of_unit.get(&(index, round, unit))?;
                        let accepted = keys.iter().all(|key| self.accepted.contains_key(key));
                        accepted.then_some((keys, seen.amount))
                    })
                    .collect();
                units.sort_by_key(|(keys, _)| {
                    let new = keys.iter().filter(|key| !self.selected.contains(*key)).count();
                    (new, core::cmp::Reverse(weight(keys)))
                });
                for (keys, amount) in units {
                    if excess > 0 {
                        excess -= amount;
                        chosen.extend(keys.iter().cloned());
                    }
                }
                excess <= 0
            });
            if passes && self.selected.union(&chosen).count() <= EXCLUSIONS_MAX {
                self.selected.extend(chosen);
                self.passing.insert(index);
            }
        }
    }

    /// Puts attacks where exclusions apply, with all of them. Where too many are lost, the candidate with the least
    /// evidence goes for good.
    fn try_attacks(
        &mut self,
        learner: &Learner,
        found: &Candidates,
        checker: &mut Checker,
        program: &Arc<Program>,
    ) -> bool {
        let mut places: BTreeMap<(&str, &str, Place), BTreeSet<&Key>> = BTreeMap::new();
        for key in &self.selected {
            let (Some(target), Some(evidence)) = (&key.target, found.all.get(key)) else {
                continue;
            };
            let first = evidence.observations.first();
            let Some(seen) = first.and_then(|&index| learner.observations.get(index)) else {
                continue;
            };
            let place = Place::of(&named(target, evidence), &content_type(learner, evidence));
            if let Some(place) = place {
                let raw = raw_path(seen);
                places.entry((&key.host, raw, place)).or_default().insert(key);
            }
        }
        let mut banned = Vec::new();
        for ((host, path, place), keys) in places {
            let of_site = self.selected.iter().filter(|key| key.host == host);
            let rules: Vec<u32> = of_site.map(|key| key.rule).collect();
            let loss = checker.try_out(program, &place, host, path, &rules);
            let weakest = keys.into_iter().min_by_key(|key| {
                found.all.get(*key).map_or(0, |evidence| evidence.observations.len())
            });
            if let Some(key) = weakest.filter(|_| !loss.is_small()) {
                let (lost, of) = (loss.lost(), loss.found());
                let why =
                    format!("{lost} of {of} known attacks were no longer found there (tried)");
                banned.push((key.clone(), why));
            }
        }
        let any = !banned.is_empty();
        self.banned.extend(banned);
        any
    }
}

/// The target with a name as it was sent.
fn named(target: &Target, evidence: &Evidence) -> Target {
    let name = target.name.as_ref().and_then(|_| evidence.name.clone());
    Target { collection: target.collection.clone(), name }
}

fn raw_path(observation: &Observation) -> &str {
    let uri = core::str::from_utf8(&observation.request.uri.0).unwrap_or("/");
    uri.split(['?', '#']).next().unwrap_or("/")
}

fn content_type(learner: &Learner, evidence: &Evidence) -> String {
    let first = evidence.observations.first();
    let seen = first.and_then(|&index| learner.observations.get(index));
    let headers = seen.into_iter().flat_map(|seen| &seen.request.headers);
    let mut types = headers.filter(|(name, _)| name.0.eq_ignore_ascii_case(b"content-type"));
    types
        .next()
        .map(|(_, value)| String::from_utf8_lossy(&value.0).into_owned())
        .unwrap_or_default()
}

/// Whether enough requests, clients and days speak for a candidate.
fn enough(learner: &Learner, evidence: &Evidence) -> Result<(), String> {
    let (requests, clients, days) = learner.needs();
    let count = |set: usize| u64::try_from(set).unwrap_or(u64::MAX);
    for (name, seen, needed) in [
        ("requests", count(evidence.observations.len()), requests),
        ("clients", count(evidence.clients.len()), clients),
        ("days", count(evidence.days.len()), days),
    ] {
        if seen < needed {
            return Err(format!("{seen} {name}, and {needed} are needed"));
        }
    }
    Ok(())
}

/// Puts the result together.
fn learned(learner: &Learner, decisions: &Decisions, found: &Candidates) -> Learned {
    let mut learned = Learned { totals: learner.totals, ..Learned::default() };
    learned.totals.passing = u64::try_from(decisions.passing.len()).unwrap_or(u64::MAX);
    learned.exclusions = crate::report::merged(learner, &decisions_parts(decisions), found);
    learned.declined = declined(learner, decisions, found);
    learned.remarks = remarks(learner);
    learned
}

fn decisions_parts(decisions: &Decisions) -> Vec<(&Key, Option<&Values>)> {
    decisions.selected.iter().map(|key| (key, decisions.accepted.get(key))).collect()
}

fn remarks(learner: &Learner) -> Vec<String> {
    let mut remarks = Vec::new();
    let (requests, clients, days) = learner.needs();
    remarks.push(format!(
        "Each exclusion rests on at least {requests} requests, {clients} clients and {days} days."
    ));
    if learner.totals.clients == 0 {
        remarks.push(
            "No request names its client: one client alone can have brought all of this about."
                .to_owned(),
        );
    }
    if learner.totals.days == 0 {
        remarks.push("No request has a time: days do not count.".to_owned());
    } else if learner.totals.days < days {
        remarks.push(format!("The input has requests of {} days only.", learner.totals.days));
    }
    if learner.totals.dropped > 0 {
        let dropped = learner.totals.dropped;
        remarks.push(format!("{dropped} blocked requests were not kept: a limit was reached."));
    }
    remarks
}

fn declined(learner: &Learner, decisions: &Decisions, found: &Candidates) -> Vec<Declined> {
    let mut all: Vec<Declined> = Vec::new();
    for (why, &requests) in &learner.unlearnable {
        let subject = "blocked requests".to_owned();
        all.push(Declined { subject, requests, reason: why.text().to_owned() });
    }
    let mut reasons: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    for observation in &learner.observations {
        let why = observation.sign.map(|sign| sign.text()).or(observation.hopeless);
        if let Some(why) = why {
            let (count, _) =
                reasons.entry(why).or_insert_with(|| (0, observation.request.id.text()));
            *count += 1;
        }
    }
    for (why, (requests, first)) in reasons {
        let subject = format!("requests such as {first}");
        all.push(Declined { subject, requests, reason: why.to_owned() });
    }
    for (key, why) in &decisions.declined {
        let evidence = found.all.get(key);
        let blocked = evidence.map_or(0, |evidence| {
            evidence.observations.iter().filter(|index| !decisions.passing.contains(index)).count()
        });
        if blocked > 0 {
            let requests = u64::try_from(blocked).unwrap_or(u64::MAX);
            all.push(Declined { subject: key.text(), requests, reason: why.clone() });
        }
    }
    all.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.subject.cmp(&b.subject)));
    all
}
