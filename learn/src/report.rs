//! What was learned, and what was not.

use std::{collections::BTreeMap, fmt::Write as _};

use glacis_rules::{Exclusion, ExclusionEvidence, write_exclusions};

use crate::{
    candidate::{Candidates, Evidence, Key},
    learner::{Learner, Totals},
    values::Values,
};

/// Rules, targets or hosts that one exclusion names at most when several are put together.
const MERGED_MAX: usize = 32;

/// Characters of a rule's message in a reason.
const MSG_CHARS_MAX: usize = 120;

/// Lines on what was declined.
const LINES_MAX: usize = 1_000;

/// What is not learned, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// What it is about.
    pub subject: String,
    /// Requests that it concerns.
    pub requests: u64,
    /// Why.
    pub reason: String,
}

/// Proposed exclusions, and what was declined.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// With what each rests on. Owners are empty.
    pub exclusions: Vec<(Exclusion, ExclusionEvidence)>,
    /// Most requests first.
    pub declined: Vec<Declined>,
    /// What there is to know about the input as a whole.
    pub remarks: Vec<String>,
    /// Requests of the input.
    pub totals: Totals,
}

impl Learned {
    /// As a file for `--exclusions`.
    #[must_use]
    pub fn yaml(&self) -> String {
        let Totals { requests, blocked, passing, hosts, clients, days, .. } = self.totals;
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            out,
            "# Proposed by `glacis learn` from {requests} requests to {hosts} hosts, of {clients} clients on {days} days.\n\
             # {blocked} were blocked; {passing} of those pass with these exclusions. Review each, and fill in its owner."
        );
        for remark in &self.remarks {
            let _ = writeln!(out, "# {remark}");
        }
        out += &write_exclusions(self.exclusions.iter().map(|(one, seen)| (one, Some(*seen))));
        out
    }

    /// What was declined, a line each, without what could command a terminal.
    #[must_use]
    pub fn report(&self) -> String {
        let mut out = String::new();
        for Declined { subject, requests, reason } in self.declined.iter().take(LINES_MAX) {
            let line = format!("{requests} requests: {subject}: {reason}");
            let _ = writeln!(out, "{}", shown(&line));
        }
        if let Some(more) = self.declined.len().checked_sub(LINES_MAX).filter(|&more| more > 0) {
            let _ = writeln!(out, "and {more} more");
        }
        out
    }
}

fn shown(text: &str) -> String {
    let one = |character: char| -> String {
        if character.is_ascii_graphic() || character == ' ' {
            character.to_string()
        } else {
            character.escape_default().to_string()
        }
    };
    text.chars().map(one).collect()
}

/// Exclusions that say the same of several rules, targets or hosts as one.
pub(crate) fn merged(
    learner: &Learner,
    selected: &[(&Key, Option<&Values>)],
    found: &Candidates,
) -> Vec<(Exclusion, ExclusionEvidence)> {
    let any = Values::Any;
    let one = |(key, values): &(&Key, Option<&Values>)| {
        let seen = found.all.get(*key).cloned().unwrap_or_default();
        (key.exclusion(learner, values.unwrap_or(&any)), seen)
    };
    let all: Vec<(Exclusion, Evidence)> = selected.iter().map(one).collect();
    let all = joined(
        all,
        |exclusion| core::mem::take(&mut exclusion.rules),
        |exclusion, rules| {
            exclusion.rules = rules;
        },
    );
    let all = joined(
        all,
        |exclusion| core::mem::take(&mut exclusion.targets),
        |exclusion, targets| {
            exclusion.targets = targets;
        },
    );
    let all = joined(
        all,
        |exclusion| core::mem::take(&mut exclusion.hosts),
        |exclusion, hosts| {
            exclusion.hosts = hosts;
        },
    );
    all.into_iter()
        .map(|(mut exclusion, evidence)| {
            let seen = evidence.counted();
            exclusion.owner = String::new();
            exclusion.reason = reason(&evidence, seen);
            (exclusion, seen)
        })
        .collect()
}

/// Puts exclusions together that differ in one list only, which `take` empties and `give` sets.
fn joined(
    all: Vec<(Exclusion, Evidence)>,
    take: impl Fn(&mut Exclusion) -> Vec<String>,
    give: impl Fn(&mut Exclusion, Vec<String>),
) -> Vec<(Exclusion, Evidence)> {
    let mut out: Vec<(Exclusion, Vec<String>, Evidence)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (mut exclusion, evidence) in all {
        let list = take(&mut exclusion);
        let mut key = format!("{exclusion:?} {}", list.is_empty());
        // A pattern of values is for all values of all targets: targets with one are kept apart.
        if exclusion.targets.is_empty() && exclusion.values.is_some() {
            key = format!("{key} {list:?}");
        }
        let known = places.get(&key).and_then(|&at| out.get_mut(at));
        match known.filter(|(_, known, _)| known.len() + list.len() <= MERGED_MAX) {
            Some((_, known, seen)) => {
                known.extend(
                    list.into_iter().filter(|text| !known.contains(text)).collect::<Vec<_>>(),
                );
                seen.observations.extend(evidence.observations);
                seen.clients.extend(evidence.clients);
                seen.days.extend(evidence.days);
            }
            None => {
                places.insert(key, out.len());
                out.push((exclusion, list, evidence));
            }
        }
    }
    let whole = |(mut exclusion, list, evidence): (Exclusion, Vec<String>, Evidence)| {
        give(&mut exclusion, list);
        (exclusion, evidence)
    };
    out.into_iter().map(whole).collect()
}

fn reason(evidence: &Evidence, seen: ExclusionEvidence) -> String {
    let msg: String = shown(&evidence.msg).chars().take(MSG_CHARS_MAX).collect();
    let requests = seen.requests;
    format!("learned: {requests} ordinary requests were blocked ({msg})")
}
