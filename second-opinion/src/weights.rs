//! The file of weights: JSON, written by training and read by hosts.

use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Milli, is_excluded, training::Label};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// Bytes of a file at most.
pub const WEIGHTS_BYTES_MAX: usize = 1 << 20;

/// Rules with a weight at most.
pub const RULES_MAX: usize = 4_096;

/// Sources and figures at most, of each kind.
pub const PROVENANCE_MAX: usize = 1_024;

/// The highest weight, and a thousandth of the highest threshold.
const WEIGHT_MAX: Milli = 100_000;

/// Learned weights with their threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// What they are for, such as `CRS 4.25.0`.
    pub name: String,
    /// The paranoia level whose rules have weights: rules up to it must run for the scores to mean what they meant in
    /// training.
    pub paranoia_level: u8,
    /// The score from which the opinion is that a request is an attack.
    pub threshold: Milli,
    /// By rule, sorted; none is negative.
    rules: Vec<(u32, Milli)>,
    /// Where they come from.
    pub provenance: Provenance,
}

/// Where weights come from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The day of training, as given to it.
    pub date: String,
    /// The hash of the ruleset.
    pub ruleset: String,
    /// What it was trained on.
    pub sources: Vec<Source>,
    /// What it does on sources that it was not trained on: each in turn left out.
    pub held_out: Vec<Figures>,
}

/// Requests of one origin.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Of its lines, in their order, in hexadecimal.
    pub sha256: String,
    /// Requests that are attacks.
    pub attacks: usize,
    /// Requests of ordinary traffic.
    pub benign: usize,
    /// Requests that are no attacks, and have no part in thresholds.
    pub technical: usize,
}

/// Shares of requests of a source whose score reaches the threshold, in percent, with weights that were learned without
/// that source.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Its name.
    pub source: String,
    /// Requests.
    pub requests: usize,
    /// What they are.
    pub label: Label,
    /// At the threshold for one false alarm in 1,000 held-out requests.
    pub at_0_1_percent: f64,
    /// At the threshold for one false alarm in 100 held-out requests.
    pub at_1_percent: f64,
    /// Requests on which any rule of training matched.
    pub any_rule: f64,
}

/// The file as it is written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    name: String,
    paranoia_level: u8,
    threshold: f64,
    rules: BTreeMap<u32, f64>,
    provenance: Provenance,
}

/// Why a file of weights is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightsError(String);

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for WeightsError {}

impl Weights {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is too long, no JSON of this format, or has weights or a threshold out of bounds.
    pub fn parse(text: &str) -> Result<Self, WeightsError> {
        if text.len() > WEIGHTS_BYTES_MAX {
            return Err(WeightsError(format!("longer than {WEIGHTS_BYTES_MAX} bytes")));
        }
        let file: File =
            serde_json::from_str(text).map_err(|error| WeightsError(error.to_string()))?;
        if file.format != FORMAT {
            let format = file.format;
            return Err(WeightsError(format!("format is {format}; this version reads {FORMAT}")));
        }
        if !(1..=4).contains(&file.paranoia_level) {
            return Err(WeightsError("paranoia_level is not a level from 1 to 4".to_owned()));
        }
        let provenance = &file.provenance;
        if provenance.sources.len().max(provenance.held_out.len()) > PROVENANCE_MAX {
            return Err(WeightsError(format!("more than {PROVENANCE_MAX} sources or figures")));
        }
        let rules = file.rules.into_iter().map(|(rule, weight)| {
            if is_excluded(rule) {
                return Err(WeightsError(format!("rule {rule} may not have a weight")));
            }
            Ok((rule, milli(weight).ok_or_else(|| out_of_bounds(&format!("rule {rule}")))?))
        });
        let threshold = milli(file.threshold).ok_or_else(|| out_of_bounds("threshold"))?;
        Self::new(file.name, file.paranoia_level, threshold, rules.collect::<Result<_, _>>()?)
            .map(|weights| Self { provenance: file.provenance, ..weights })
    }

    /// Weights of rules, without provenance.
    ///
    /// # Errors
    /// When there are too many, or one or the threshold is out of bounds.
    pub fn new(
        name: String,
        paranoia_level: u8,
        threshold: Milli,
        mut rules: Vec<(u32, Milli)>,
    ) -> Result<Self, WeightsError> {
        rules.sort_unstable();
        if rules.len() > RULES_MAX {
            return Err(WeightsError(format!("more than {RULES_MAX} rules")));
        }
        if let Some((rule, _)) = rules.iter().find(|(_, weight)| !(0..=WEIGHT_MAX).contains(weight))
        {
            return Err(out_of_bounds(&format!("rule {rule}")));
        }
        // At a threshold of 0 a request without any match would be an attack.
        if !(1..=WEIGHT_MAX).contains(&threshold) {
            return Err(out_of_bounds("threshold"));
        }
        Ok(Self { name, paranoia_level, threshold, rules, provenance: Provenance::default() })
    }

    /// The same weights with another threshold.
    ///
    /// # Errors
    /// When the threshold is out of bounds.
    pub fn with_threshold(self, threshold: f64) -> Result<Self, WeightsError> {
        let threshold = milli(threshold).filter(|threshold| *threshold > 0);
        let threshold = threshold.ok_or_else(|| out_of_bounds("threshold"))?;
        Ok(Self { threshold, ..self })
    }

    /// Writes the file.
    #[must_use]
    pub fn text(&self) -> String {
        let file = File {
            format: FORMAT,
            name: self.name.clone(),
            paranoia_level: self.paranoia_level,
            threshold: decimal(self.threshold),
            rules: self.rules.iter().map(|(rule, weight)| (*rule, decimal(*weight))).collect(),
            provenance: self.provenance.clone(),
        };
        // Plain data is always serialised.
        serde_json::to_string_pretty(&file).map(|text| text + "\n").unwrap_or_default()
    }

    /// The weight of a rule, 0 where it has none.
    #[must_use]
    pub fn weight(&self, rule: u32) -> Milli {
        let at = self.rules.binary_search_by_key(&rule, |(known, _)| *known);
        at.ok().and_then(|at| self.rules.get(at)).map_or(0, |(_, weight)| *weight)
    }

    /// The rules that have a weight, sorted.
    pub fn rules(&self) -> impl Iterator<Item = (u32, Milli)> {
        self.rules.iter().copied()
    }
}

fn out_of_bounds(what: &str) -> WeightsError {
    WeightsError(format!("{what}: write a number from 0 to 100, a threshold above 0"))
}

/// A number of the file in thousandths; `None` outside of 0 to 100.
fn milli(number: f64) -> Option<Milli> {
    let bounds = 0.0..=f64::from(WEIGHT_MAX) / 1_000.0;
    // In bounds, so that nothing is cut off.
    #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
    bounds.contains(&number).then(|| (number * 1_000.0).round() as Milli)
}

fn decimal(milli: Milli) -> f64 {
    f64::from(milli) / 1_000.0
}
