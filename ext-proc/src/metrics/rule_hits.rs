//! In how many requests each rule has matched, for a bounded number of rules.
//!
//! There are [`PLACES`] places for rules with counters of their own; the others count as `other`. A rule
//! gets a free place when it first matches. When there is none, it takes the place of the rule with the
//! fewest matches of those that have one, as soon as it has matched at least twice as often: a ruleset of
//! thousands of rules cannot make as many time series, and rules that matter are not kept out by those
//! that came first. The factor keeps two rules from taking a place from each other again and again.
//! Nothing that was counted is moved: every counter only rises. A rule that comes back goes on where
//! it was.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use glacis_service::metrics::Described;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::counter::ConstCounter,
};

use super::{
    label::{Outcome, Severity},
    table,
};

/// Rules that have counters of their own.
pub(crate) const PLACES: usize = 200;

/// How many times as often as another a rule has to match to take its place.
const FACTOR: u64 = 2;

type Counts = [AtomicU64; Outcome::RULE.len()];

/// What is known of one rule.
#[derive(Debug)]
struct Row {
    severity: Severity,
    /// All requests in which it matched.
    hits: AtomicU64,
    has_place: AtomicBool,
    /// Those counted in its own name.
    counted: Counts,
}

/// The counters. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleHits(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rows: RwLock<BTreeMap<u32, Arc<Row>>>,
    places: Mutex<Vec<Arc<Row>>>,
    other: [Counts; Severity::ALL.len()],
}

fn add(counts: &Counts, outcome: Outcome) {
    if let Some(count) = outcome.of_rule().and_then(|index| counts.get(index)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn sum(counts: &Counts) -> u64 {
    counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

impl RuleHits {
    /// Counts a request in which the rule has matched.
    pub(crate) fn count(&self, rule: u32, severity: Severity, outcome: Outcome) {
        let row = self.row(rule, severity);
        let hits = row.hits.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if row.has_place.load(Ordering::Relaxed) || self.take_place(&row, hits) {
            add(&row.counted, outcome);
        } else if let Some(counts) = self.0.other.get(severity as usize) {
            add(counts, outcome);
        }
    }

    /// Forgets rules that are no longer loaded.
    pub(crate) fn keep(&self, is_loaded: impl Fn(u32) -> bool) {
        let mut rows = self.0.rows.write().unwrap_or_else(PoisonError::into_inner);
        rows.retain(|rule, _| is_loaded(*rule));
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        // A row that is not in the map any more is held by its place alone.
        places.retain(|row| Arc::strong_count(row) > 1);
    }

    fn row(&self, rule: u32, severity: Severity) -> Arc<Row> {
        let rows = self.0.rows.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.get(&rule) {
            return Arc::clone(row);
        }
        drop(rows);
        let mut rows = self.0.rows.write().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(Row {
                severity,
                hits: AtomicU64::new(0),
                has_place: AtomicBool::new(false),
                counted: Counts::default(),
            })
        };
        Arc::clone(rows.entry(rule).or_insert_with(new))
    }

    fn take_place(&self, row: &Arc<Row>, hits: u64) -> bool {
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        if row.has_place.load(Ordering::Relaxed) {
            return true;
        }
        if places.len() < PLACES {
            places.push(Arc::clone(row));
        } else {
            let fewest = places.iter_mut().min_by_key(|row| row.hits.load(Ordering::Relaxed));
            let Some(fewest) = fewest else { return false };
            if hits < fewest.hits.load(Ordering::Relaxed).saturating_mul(FACTOR) {
                return false;
            }
            fewest.has_place.store(false, Ordering::Relaxed);
            *fewest = Arc::clone(row);
        }
        row.has_place.store(true, Ordering::Relaxed);
        true
    }

    /// The rules that have a place, with their ids, by id.
    fn placed(&self) -> Vec<(u32, Arc<Row>)> {
        let rows = self.0.rows.read().unwrap_or_else(PoisonError::into_inner);
        let placed = rows.iter().filter(|(_, row)| row.has_place.load(Ordering::Relaxed));
        placed.map(|(rule, row)| (*rule, Arc::clone(row))).collect()
    }
}

/// The family `glacis_rule_matches`.
#[derive(Debug)]
pub(super) struct ByRule(pub(super) RuleHits);

/// The family `coraza_waf_rule_hits`.
#[derive(Debug)]
pub(super) struct BySeverity(pub(super) RuleHits);

#[derive(Debug, EncodeLabelSet)]
struct RuleLabel {
    rule_id: String,
}

#[derive(Debug, EncodeLabelSet)]
struct HitLabel {
    rule_id: String,
    severity: &'static str,
    outcome: &'static str,
}

/// Writes a family of counters, none of them where there is none.
fn encode<L: EncodeLabelSet>(
    described: &Described,
    encoder: &mut DescriptorEncoder<'_>,
    counts: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut family = described.descriptor(encoder)?;
    for (label, count) in counts {
        ConstCounter::new(count).encode(family.encode_family(&label)?)?;
    }
    Ok(())
}

impl Collector for ByRule {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let placed = self.0.placed();
        let own = placed.iter().map(|(rule, row)| (rule.to_string(), sum(&row.counted)));
        let other = self.0.0.other.iter().map(sum).sum();
        let counts = own.chain([("other".to_owned(), other)]);
        let counts = counts.map(|(rule_id, count)| (RuleLabel { rule_id }, count));
        encode(&table::RULE_MATCHES, &mut encoder, counts)
    }
}

impl Collector for BySeverity {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let placed = self.0.placed();
        let own = placed.iter().map(|(rule, row)| (rule.to_string(), row.severity, &row.counted));
        let other = Severity::ALL.iter().zip(&self.0.0.other);
        let other = other.map(|(severity, counts)| ("other".to_owned(), *severity, counts));
        let counts = own.chain(other).flat_map(|(rule_id, severity, counts)| {
            Outcome::RULE.iter().zip(counts).filter_map(move |(outcome, count)| {
                let count = count.load(Ordering::Relaxed);
                let (rule_id, severity) = (rule_id.clone(), severity.name());
                let outcome = outcome.name();
                (count > 0).then_some((HitLabel { rule_id, severity, outcome }, count))
            })
        });
        encode(&table::CORAZA_RULE_HITS, &mut encoder, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the rules of a script, each as often as said, and tells what a scrape has of these.
    fn counted(script: &[(u32, u64)], asked: &[u32]) -> (Vec<Option<u64>>, u64) {
        let hits = RuleHits::default();
        for &(rule, times) in script {
            for _ in 0..times {
                hits.count(rule, Severity::Critical, Outcome::Block);
            }
        }
        let placed = hits.placed();
        assert!(placed.len() <= PLACES);
        let find =
            |rule: &u32| placed.iter().find(|(id, _)| id == rule).map(|(_, row)| sum(&row.counted));
        (asked.iter().map(find).collect(), hits.0.other.iter().map(sum).sum())
    }

    #[test]
    fn a_place_goes_to_whom_it_belongs() {
        let full: Vec<(u32, u64)> = (1..=200).map(|rule| (rule, 10)).collect();
        let but = |fewer: u32| {
            full.iter().map(move |&(rule, times)| (rule, if rule == fewer { 9 } else { times }))
        };
        let with = |more: &[(u32, u64)]| but(7).chain(more.iter().copied()).collect::<Vec<_>>();
        for (script, asked, own, other) in [
            // There is room.
            (full.clone(), &[1, 200][..], &[Some(10), Some(10)][..], 0),
            // There is none, and the newcomer has not matched twice as often as any.
            (with(&[(201, 17)]), &[7, 201], &[Some(9), None], 17),
            // It has: it takes the place of the one with the fewest, and counts from there on.
            (with(&[(201, 20)]), &[7, 8, 201], &[None, Some(10), Some(3)], 17),
            // Who lost it counts as other, and gets another back with twice as many as the fewest.
            (with(&[(201, 18), (7, 10)]), &[7, 201], &[None, Some(1)], 17 + 10),
            (with(&[(201, 18), (7, 11)]), &[7, 201], &[Some(10), Some(1)], 17 + 10),
        ] {
            assert_eq!(counted(&script, asked), (own.to_vec(), other), "{:?}", &script[200..]);
        }
    }

    #[test]
    fn rules_that_are_gone_leave_their_places() {
        let hits = RuleHits::default();
        for rule in 1..=300 {
            hits.count(rule, Severity::Notice, Outcome::Detect);
        }
        hits.keep(|rule| rule > 150);
        assert_eq!(hits.placed().len(), 50);
        for rule in 1001..=1160 {
            hits.count(rule, Severity::Notice, Outcome::Detect);
        }
        assert_eq!(hits.placed().len(), 200, "150 places were free");
    }
}
