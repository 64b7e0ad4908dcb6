//! What happened, from the trace of a transaction.

use std::collections::{BTreeMap, BTreeSet};

use glacis_engine::{
    Excerpt, Phase, RuleEngine, RuleId, TraceEvent, TraceStep, TracedChange, TracedMatch,
    TracedRule, Transaction,
};
use serde::Serialize;

use crate::request::Request;

/// A request's way through the rules.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    /// Method, URI and protocol.
    pub(crate) request: String,
    pub(crate) mode: &'static str,
    pub(crate) refusal: Option<Refused>,
    pub(crate) rules: Vec<RuleStory>,
    /// Rules that matched and are not shown.
    pub(crate) rules_left_out: usize,
    pub(crate) scores: Vec<ScoreChange>,
    pub(crate) thresholds: Vec<Threshold>,
    /// Whether more happened than the trace holds.
    pub(crate) cut: bool,
    /// Whether the text has bookkeeping in full.
    #[serde(skip)]
    pub(crate) all: bool,
}

/// A refusal, or what would be one where rules may not block.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Refused {
    pub(crate) action: &'static str,
    pub(crate) status: u16,
    pub(crate) phase: u8,
    /// `None` when a limit refused.
    pub(crate) rule: Option<u32>,
    /// Whether rules may block: otherwise the request passes all the same.
    pub(crate) enforced: bool,
}

/// A rule that matched.
#[derive(Debug, Serialize)]
pub(crate) struct RuleStory {
    pub(crate) id: u32,
    pub(crate) phase: u8,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) msg: String,
    pub(crate) logdata: String,
    pub(crate) log: bool,
    /// Whether its whole chain matched. Otherwise only its actions at each value were done.
    pub(crate) complete: bool,
    /// `pass`, `deny` and so on.
    pub(crate) action: &'static str,
    pub(crate) matches: Vec<ValueStory>,
    pub(crate) changes: Vec<ScoreChange>,
    /// Whether it takes rules or targets away, or changes the mode.
    pub(crate) excludes: bool,
    /// The rules that log and have set the members of `TX` that it matched: it counts what those have found.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) counts_for: BTreeSet<u32>,
}

/// A value that matched.
#[derive(Debug, Serialize)]
pub(crate) struct ValueStory {
    /// Which link of the chain it matched, 0 for the starter.
    pub(crate) link: u32,
    pub(crate) variable: String,
    /// Before transformation.
    pub(crate) value: Text,
    /// After each transformation that changed it.
    pub(crate) transformed: Vec<Stage>,
    pub(crate) operator: String,
    pub(crate) parameter: Option<Text>,
    pub(crate) found: Vec<Found>,
    pub(crate) fingerprint: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Stage {
    pub(crate) transformation: &'static str,
    pub(crate) value: Text,
}

/// A part of the transformed value, `start` and `end` in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) group: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: Text,
}

/// A text, and its length where it is cut.
#[derive(Debug, Serialize)]
pub(crate) struct Text {
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) length: Option<usize>,
}

/// A change of a score.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ScoreChange {
    pub(crate) rule: u32,
    pub(crate) member: String,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// What a refusing rule compared a score with, or the limit that rules set for a score.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Threshold {
    pub(crate) member: String,
    pub(crate) value: i64,
}

impl Story {
    /// The story of what `transaction` has just evaluated.
    pub(crate) fn of(transaction: &Transaction, request: &Request, all: bool) -> Self {
        let mut teller = Teller::default();
        for step in transaction.trace() {
            teller.take(&step);
        }
        teller.give_up();
        let refusal = refusal(transaction);
        let refusing = refusal.as_ref().and_then(|refused| refused.rule);
        let matched = teller.rules.len();
        let shown = |rule: &RuleStory| {
            all || rule.log && rule.complete
                || !rule.changes.is_empty()
                || rule.complete && (rule.excludes || rule.action == "allow")
                || refusing == Some(rule.id)
        };
        let rules: Vec<RuleStory> = teller.rules.into_iter().filter(shown).collect();
        let line = [&request.method, &request.uri, &request.protocol];
        Self {
            request: line.map(|part| String::from_utf8_lossy(&part.0).into_owned()).join(" "),
            mode: match transaction.rule_engine() {
                RuleEngine::On => "On",
                RuleEngine::DetectionOnly => "DetectionOnly",
                RuleEngine::Off => "Off",
            },
            refusal,
            rules_left_out: matched - rules.len(),
            scores: rules.iter().flat_map(|rule| rule.changes.clone()).collect(),
            rules,
            thresholds: teller.thresholds,
            cut: transaction.flags().trace_cut,
            all,
        }
    }

    /// Whether a rule is one of those that the text lists by id only.
    pub(crate) fn is_collapsed(&self, rule: &RuleStory) -> bool {
        let refuses = self.refusal.as_ref().is_some_and(|refused| refused.rule == Some(rule.id));
        !self.all && !refuses && rule.is_bookkeeping()
    }
}

/// The refusal; where rules may not block, that of the first rule that would have refused.
pub(crate) fn refusal(transaction: &Transaction) -> Option<Refused> {
    let verdict = transaction.verdict();
    if let Some(refusal) = verdict.refusal() {
        let (phase, rule) = (refusal.phase.number(), refusal.rule.map(|RuleId(id)| id));
        let (action, status) = (verdict.name(), refusal.status);
        return Some(Refused { action, status, phase, rule, enforced: true });
    }
    let would = |step: &TraceStep<'_>| {
        matches!(step.event, TraceEvent::Rule(_)) && step.rule.phase != Phase::Logging
    };
    transaction.trace().filter(would).find_map(|step| {
        let TracedRule { id, phase, disruptive, status, .. } = step.rule;
        let (phase, rule) = (phase.number(), Some(id.0));
        Some(Refused { action: disruptive, status: status?, phase, rule, enforced: false })
    })
}

/// Puts the steps of each rule together.
#[derive(Debug, Default)]
struct Teller {
    rules: Vec<RuleStory>,
    /// The rule that is being evaluated.
    current: Option<RuleStory>,
    thresholds: Vec<Threshold>,
    /// For each member of `TX`, the rules that log and have set it.
    setters: BTreeMap<Vec<u8>, BTreeSet<u32>>,
}

impl Teller {
    fn take(&mut self, step: &TraceStep<'_>) {
        let rule = &step.rule;
        if self.current.as_ref().is_none_or(|current| current.id != rule.id.0) {
            self.give_up();
            self.current = Some(RuleStory::begin(rule));
        }
        self.threshold(match step.event {
            TraceEvent::Match(found) => compared(rule, found),
            TraceEvent::Change(change) => limit_set(change),
            TraceEvent::Miss(_) | TraceEvent::Rule(_) => None,
        });
        let Some(current) = &mut self.current else { return };
        match step.event {
            TraceEvent::Match(found) => {
                current.matches.push(ValueStory::new(rule, found));
                // A score is the sum of all rules, and no finding.
                let member = found.variable.strip_prefix(b"TX:").map(<[u8]>::to_ascii_lowercase);
                let is_sum = |member: &Vec<u8>| is_score(&String::from_utf8_lossy(member));
                if let Some(member) = member.filter(|member| !is_sum(member)) {
                    let setters = self.setters.get(&member);
                    current.counts_for.extend(setters.into_iter().flatten());
                }
            }
            // Stories are of what matched; their transactions record nothing else.
            TraceEvent::Miss(_) => {}
            TraceEvent::Change(change) => {
                let setters = self.setters.entry(change.member.clone()).or_default();
                if current.looks_at_members_only() {
                    setters.extend(&current.counts_for);
                } else if rule.log {
                    setters.insert(rule.id.0);
                }
                // Rules that only prepare the ground give scores their first value.
                if change.before.is_some() || rule.log {
                    current.changes.extend(score_change(rule.id, change));
                }
            }
            TraceEvent::Rule(said) => {
                current.msg = said.msg.text().into_owned();
                current.logdata = said.logdata.text().into_owned();
                current.complete = true;
                self.rules.extend(self.current.take());
            }
        }
    }

    fn threshold(&mut self, threshold: Option<Threshold>) {
        self.thresholds.extend(threshold.filter(|threshold| !self.thresholds.contains(threshold)));
    }

    /// A rule whose chain did not match to its end.
    fn give_up(&mut self) {
        self.rules.extend(self.current.take());
    }
}

/// Whether a member of `TX` is a score, by its name.
pub(crate) fn is_score(member: &str) -> bool {
    member.contains("score") && !member.contains("threshold")
}

fn number(text: &Excerpt) -> Option<i64> {
    text.text().trim().parse().ok()
}

fn score_change(rule: RuleId, change: &TracedChange) -> Option<ScoreChange> {
    let member = String::from_utf8_lossy(&change.member).into_owned();
    let (from, to) = (change.before.as_ref(), number(change.after.as_ref()?)?);
    let from = from.map_or(Some(0), number)?;
    (is_score(&member) && from != to).then_some(ScoreChange { rule: rule.0, member, from, to })
}

/// `tx.inbound_anomaly_score_threshold` and its like.
fn limit_set(change: &TracedChange) -> Option<Threshold> {
    let member = String::from_utf8_lossy(&change.member).into_owned();
    let value = number(change.after.as_ref()?)?;
    member.ends_with("score_threshold").then(|| Threshold { member: format!("tx.{member}"), value })
}

/// The number that a refusing rule compared a score with.
fn compared(rule: &TracedRule<'_>, found: &TracedMatch) -> Option<Threshold> {
    let variable = String::from_utf8_lossy(&found.variable);
    let member = variable.strip_prefix("TX:").filter(|member| is_score(member))?;
    let value = number(found.parameter.as_ref()?)?;
    rule.status.is_some().then(|| {
        let member = format!("rule {} for tx.{}", rule.id, member.to_ascii_lowercase());
        Threshold { member, value }
    })
}

/// The ids of rules of CRS.
const CRS_IDS: core::ops::RangeInclusive<u32> = 901_000..=999_999;

impl RuleStory {
    /// Whether it only counts, compares or prepares: it looked at nothing of the request, or is one of CRS's own
    /// exceptions.
    fn is_bookkeeping(&self) -> bool {
        let of_rules =
            |found: &ValueStory| found.variable.trim_start_matches('&').starts_with("TX");
        let is_exception = self.excludes && !self.log && CRS_IDS.contains(&self.id);
        let decides = self.action == "allow" || self.excludes;
        is_exception || self.matches.iter().all(of_rules) && !decides && CRS_IDS.contains(&self.id)
    }

    /// Whether it looks at nothing of the request, only at what other rules have set.
    pub(crate) fn looks_at_members_only(&self) -> bool {
        self.matches.iter().all(|found| found.variable.starts_with("TX:"))
    }

    fn begin(rule: &TracedRule<'_>) -> Self {
        Self {
            id: rule.id.0,
            phase: rule.phase.number(),
            file: rule.file.to_owned(),
            line: rule.line,
            msg: String::new(),
            logdata: String::new(),
            log: rule.log,
            complete: false,
            action: rule.disruptive,
            matches: Vec::new(),
            changes: Vec::new(),
            excludes: rule.excludes,
            counts_for: BTreeSet::new(),
        }
    }
}

impl ValueStory {
    fn new(rule: &TracedRule<'_>, found: &TracedMatch) -> Self {
        let stages = found.stages.iter().map(|stage| Stage {
            transformation: stage.transformation,
            value: Text::new(&stage.value),
        });
        let captures = found.found.iter().map(|part| Found {
            group: part.group,
            start: part.range.start,
            end: part.range.end,
            text: Text::new(&part.text),
        });
        let negation = if rule.negated { "!" } else { "" };
        Self {
            link: rule.link,
            variable: String::from_utf8_lossy(&found.variable).into_owned(),
            value: Text::new(&found.value),
            transformed: stages.collect(),
            operator: format!("{negation}@{}", rule.operator),
            parameter: found.parameter.as_ref().map(Text::new),
            found: captures.collect(),
            fingerprint: String::from_utf8_lossy(&found.fingerprint).into_owned(),
        }
    }
}

impl Text {
    fn new(excerpt: &Excerpt) -> Self {
        Self {
            text: excerpt.text().into_owned(),
            length: excerpt.is_cut().then_some(excerpt.length),
        }
    }
}
