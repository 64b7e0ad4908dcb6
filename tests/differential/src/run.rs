//! A run: cases to one parser, what it returns to the judge.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::case::{Case, Kind, Place};
use crate::failure::Outcome;
use crate::grammar;
use crate::judge::{Judge, Judgement};
use crate::parser::{Parser, Process};
use crate::recorded::Recorded;

/// Cases that go to a parser at a time.
const BATCH: usize = 256;

/// Bypasses whose cases are kept; more are only counted.
const KEPT_MAX: usize = 200;

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// Cases for one parser.
    pub cases: u64,
    /// The time.
    pub time: Option<Instant>,
}

/// What a run has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Cases sent.
    pub cases: u64,
    /// Cases in which the parser returned the mark.
    pub returned: u64,
    /// Of those: rules see it.
    pub exposed: u64,
    /// Of those: blocked, by rule of the base configuration.
    pub blocked: BTreeMap<u64, u64>,
    /// Of those: blocked by CRS only, by the first of its rules.
    pub blocked_by_crs: BTreeMap<u64, u64>,
    /// Of those: neither.
    pub silent: u64,
    /// The first of the silent ones, with their kinds and numbers.
    pub bypasses: Vec<(Kind, u64, Recorded)>,
    /// A sample of cases in which the parser returned the mark.
    pub sample: Vec<Recorded>,
}

/// A case that is to be judged: kind, number, case, place.
type Returned = (Kind, u64, Case, Place);

/// Runs cases of a seed, beginning with the number `first`, until the end that `until` names.
///
/// # Errors
/// If the parser ends.
pub fn run(
    parser: &Parser,
    process: &mut Process,
    judge: &mut Judge,
    seed: u64,
    first: u64,
    until: Until,
) -> Outcome<Seen> {
    let mut seen = Seen::default();
    while seen.cases < until.cases && until.time.is_none_or(|time| Instant::now() < time) {
        let numbers = first + seen.cases..first + (seen.cases + BATCH as u64).min(until.cases);
        let cases: Vec<(Kind, u64, Case)> =
            numbers.map(|number| numbered(parser, seed, number)).collect();
        let requests: Vec<Case> = cases.iter().map(|(_, _, case)| case.clone()).collect();
        let found = process.parse(&requests)?;
        seen.cases += cases.len() as u64;
        for ((kind, number, case), found) in cases.into_iter().zip(found) {
            // An application that reads XML whatever its type says so in its rules, too.
            let is_read = kind != Kind::Xml || case.content_type.windows(3).any(is_xml);
            if let Some(place) = found.place_of(case.mark()).filter(|_| is_read) {
                seen.add(judge, (kind, number, case, place));
            }
        }
    }
    Ok(seen)
}

fn is_xml(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"xml")
}

/// The case of a number: kinds take turns.
fn numbered(parser: &Parser, seed: u64, number: u64) -> (Kind, u64, Case) {
    let kinds = parser.kinds.len() as u64;
    let kind = usize::try_from(number % kinds).unwrap_or_default();
    let kind = parser.kinds.get(kind).copied().unwrap_or(Kind::Query);
    (kind, number, grammar::case(seed, kind, number))
}

impl Seen {
    fn add(&mut self, judge: &mut Judge, (kind, number, case, place): Returned) {
        self.returned += 1;
        let judgement = judge.judge(&case, place);
        let recorded = Recorded { case, place };
        // The earliest are all kept, later ones the less often the more there are.
        if self.returned.is_power_of_two() || self.returned.is_multiple_of(SAMPLE_EVERY) {
            self.sample.push(recorded.clone());
        }
        match judgement {
            Judgement::Exposed => self.exposed += 1,
            Judgement::Blocked(rule) => *self.blocked.entry(rule).or_default() += 1,
            Judgement::BlockedByCrs(rule) => *self.blocked_by_crs.entry(rule).or_default() += 1,
            Judgement::Silent => {
                self.silent += 1;
                if self.bypasses.len() < KEPT_MAX {
                    self.bypasses.push((kind, number, recorded));
                }
            }
        }
    }
}

/// One of so many returned cases is in the sample.
const SAMPLE_EVERY: u64 = 40;
