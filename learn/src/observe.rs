//! Why a request is blocked: the rules that count, where they matched, and how much each gives.

use std::collections::BTreeMap;

use glacis_engine::{TraceEvent, TraceStep, TracedMatch, Transaction};

use crate::target::Target;

/// The rules of the base configuration: a body that cannot be read is no false alarm of a rule.
const BASE_RULES: core::ops::RangeInclusive<u32> = 100_000..=100_099;

/// Rules for tools that look for weaknesses.
const SCANNER_RULES: core::ops::RangeInclusive<u32> = 913_000..=913_999;

/// Bytes of a value that are kept.
pub(crate) const VALUE_BYTES_MAX: usize = 8_192;

/// A rule that gave points, or refused by itself.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) rule: u32,
    pub(crate) amount: i64,
    /// Where it matched, with the values; none when one of the places cannot be named.
    pub(crate) places: Vec<(Target, Vec<u8>)>,
    /// Whether a value was longer than what is known of it.
    pub(crate) is_cut: bool,
    pub(crate) msg: String,
    /// Kinds of attacks by its tags, such as `attack-sqli`.
    pub(crate) families: Vec<String>,
}

/// Why one evaluation ended with a refusal.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The score, and the threshold that it reached; 1 and 1 where a rule refused by itself.
    pub(crate) score: i64,
    pub(crate) threshold: i64,
    pub(crate) units: Vec<Unit>,
}

impl Refused {
    /// How many points have to go for the request to pass.
    pub(crate) const fn excess(&self) -> i64 {
        self.score.saturating_sub(self.threshold).saturating_add(1)
    }

    /// The kinds of attacks that its rules look for.
    pub(crate) fn families(&self) -> usize {
        let families = self.units.iter().flat_map(|unit| &unit.families);
        families.collect::<std::collections::BTreeSet<_>>().len()
    }

    pub(crate) fn is_scanner(&self) -> bool {
        self.units.iter().any(|unit| SCANNER_RULES.contains(&unit.rule))
    }
}

/// Why a refusal can never be learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unlearnable {
    Limit,
    Malformed,
    Response,
    Cut,
    NoReason,
}

impl Unlearnable {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Limit => "the request is beyond a limit of the engine",
            Self::Malformed => {
                "the request is malformed or ambiguous (a rule of the base configuration)"
            }
            Self::Response => {
                "the response was blocked, and exclusions for responses are not learned"
            }
            Self::Cut => "more matched than a trace holds",
            Self::NoReason => "no rule gives the points that the refusal counts",
        }
    }
}

/// Reads the trace of a refused request; `None` when it was not refused.
pub(crate) fn refused(transaction: &Transaction) -> Option<Result<Refused, Unlearnable>> {
    let refusal = transaction.verdict().refusal()?;
    Some(match refusal.rule {
        None => Err(Unlearnable::Limit),
        Some(_) if refusal.phase.number() > 2 => Err(Unlearnable::Response),
        Some(_) if transaction.flags().trace_cut => Err(Unlearnable::Cut),
        Some(rule) if BASE_RULES.contains(&rule.0) => Err(Unlearnable::Malformed),
        Some(rule) => read(transaction, rule.0),
    })
}

fn read(transaction: &Transaction, refusing: u32) -> Result<Refused, Unlearnable> {
    let compared = transaction.trace().filter(|step| step.rule.id.0 == refusing);
    let score = compared.filter_map(|step| compared_score(&step)).last();
    let mut units = units(transaction);
    match score {
        Some((score, threshold)) => {
            units.retain(|unit| unit.amount > 0 && unit.rule != refusing);
            let sum: i64 = units.iter().map(|unit| unit.amount).sum();
            let refused = Refused { score, threshold, units };
            if sum < refused.excess() { Err(Unlearnable::NoReason) } else { Ok(refused) }
        }
        None => {
            units.retain(|unit| unit.rule == refusing);
            units.iter_mut().for_each(|unit| unit.amount = 1);
            Ok(Refused { score: 1, threshold: 1, units })
        }
    }
}

/// The score that a refusing rule looked at, and its threshold.
fn compared_score(step: &TraceStep<'_>) -> Option<(i64, i64)> {
    let TraceEvent::Match(found) = step.event else { return None };
    let member = found.variable.strip_prefix(b"TX:")?.to_ascii_lowercase();
    let is_score = member.windows(5).any(|part| part == b"score");
    let number = |text: &glacis_engine::Excerpt| text.text().trim().parse::<i64>().ok();
    is_score.then(|| Some((number(&found.value)?, number(found.parameter.as_ref()?)?)))?
}

/// What is known of a rule while its steps are read.
#[derive(Default)]
struct Reading<'t> {
    rule: u32,
    starters: Vec<&'t TracedMatch>,
    links: Vec<&'t TracedMatch>,
    amount: i64,
    families: Vec<String>,
}

/// Every rule that matched to its end, with the points that it gave.
fn units(transaction: &Transaction) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut reading = Reading::default();
    for step in transaction.trace() {
        if step.rule.id.0 != reading.rule {
            reading = Reading { rule: step.rule.id.0, ..Reading::default() };
        }
        match step.event {
            TraceEvent::Match(found) if step.rule.link == 0 => reading.starters.push(found),
            TraceEvent::Match(found) => reading.links.push(found),
            TraceEvent::Miss(_) => {}
            TraceEvent::Change(change) => {
                let member = String::from_utf8_lossy(&change.member);
                let counts = member.contains("score") && member.contains("_pl") && step.rule.log;
                let number = |text: &glacis_engine::Excerpt| text.text().trim().parse::<i64>().ok();
                let before = change.before.as_ref().and_then(number).unwrap_or(0);
                let after = change.after.as_ref().and_then(number);
                if let Some(after) = after.filter(|_| counts && member.contains("inbound")) {
                    reading.amount += after - before;
                }
            }
            TraceEvent::Rule(said) => {
                let tags = step.rule.tags.iter().filter(|tag| is_family(tag));
                reading.families = tags.map(ToString::to_string).collect();
                units.push(reading.unit(said.msg.text().into_owned()));
                reading = Reading::default();
            }
        }
    }
    units
}

/// Whether a tag says which kind of attack a rule looks for.
fn is_family(tag: &str) -> bool {
    tag.starts_with("attack-") && !["attack-protocol", "attack-generic"].contains(&tag)
}

impl Reading<'_> {
    fn unit(&self, msg: String) -> Unit {
        let places: Option<Vec<(Target, Vec<u8>)>> = self
            .starters()
            .map(|found| Some((Target::read(&found.variable)?, value(found))))
            .collect();
        // A value that matched twice is one place.
        let mut distinct: BTreeMap<Target, Vec<u8>> = BTreeMap::new();
        distinct.extend(places.unwrap_or_default());
        Unit {
            rule: self.rule,
            amount: self.amount,
            places: distinct.into_iter().collect(),
            is_cut: self
                .starters()
                .any(|found| found.value.is_cut() || found.value.bytes.len() > VALUE_BYTES_MAX),
            msg,
            families: self.families.clone(),
        }
    }

    /// The values that the starter of a chain matched, and a later link did, too.
    ///
    /// CRS lists all names of headers in `TX`, and compares those in the next link: only a name that is found
    /// there counts.
    fn starters(&self) -> impl Iterator<Item = &TracedMatch> {
        let later: Vec<Vec<u8>> = self
            .links
            .iter()
            .filter(|link| link.variable.starts_with(b"TX:"))
            .map(|link| link.value.bytes.to_ascii_lowercase())
            .collect();
        let found = move |starter: &&&TracedMatch| {
            let value = starter.value.bytes.to_ascii_lowercase();
            let contains = |later: &Vec<u8>| {
                !value.is_empty() && later.windows(value.len()).any(|part| part == value)
            };
            later.iter().any(contains)
        };
        let narrowed: Vec<&TracedMatch> = self.starters.iter().filter(found).copied().collect();
        if narrowed.is_empty() { self.starters.clone().into_iter() } else { narrowed.into_iter() }
    }
}

fn value(found: &TracedMatch) -> Vec<u8> {
    let bytes = &found.value.bytes;
    bytes.get(..bytes.len().min(VALUE_BYTES_MAX)).unwrap_or_default().to_vec()
}
