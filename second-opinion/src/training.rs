//! Learns weights: logistic regression with L2, by coordinate descent, without randomness.
//!
//! A request is judged by its worst value, in training as in use: the weights are fitted to the value of each request
//! that has the highest score, the choice is repeated with the new weights, and so on (`ROUNDS`). Weights of rules are
//! not negative, since a client can make any rule match.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Evidence, Milli, is_excluded};

/// How often the worst value of each request is chosen again.
const ROUNDS: usize = 6;

/// Passes over all weights in each round.
const SWEEPS: usize = 60;

/// Sources in which a rule has to match attacks.
const SOURCES_MIN: usize = 2;

/// The change of a weight in one step, at most.
const STEP_MAX: f64 = 1.0;

/// What a request is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// An attack.
    Attack,
    /// Ordinary traffic.
    Benign,
    /// No attack, but of a kind that few sites see: code, commands and SQL that people write about. Weights are
    /// learned from it as from ordinary traffic, and thresholds are not.
    Technical,
}

impl Label {
    /// Every label.
    pub const ALL: [Self; 3] = [Self::Attack, Self::Benign, Self::Technical];

    /// `attack`, `benign` or `technical`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attack => "attack",
            Self::Benign => "benign",
            Self::Technical => "technical",
        }
    }

    const fn is_attack(self) -> bool {
        matches!(self, Self::Attack)
    }
}

/// A labelled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The number of its source.
    pub source: usize,
    /// What it is.
    pub label: Label,
    /// The rules that matched on each of its values, sorted; one empty set where none did.
    pub sets: Vec<Vec<u32>>,
}

impl Example {
    /// A request with its evidence.
    #[must_use]
    pub fn new(source: usize, label: Label, evidence: &Evidence<'_>) -> Self {
        let with_shared = |rules: Vec<u32>| {
            let mut rules = rules;
            rules.extend(evidence.shared());
            rules.sort_unstable();
            rules.dedup();
            rules
        };
        let mut sets: Vec<Vec<u32>> =
            evidence.values().map(|(_, rules)| with_shared(rules.collect())).collect();
        if sets.is_empty() {
            sets.push(with_shared(Vec::new()));
        }
        sets.sort_unstable();
        sets.dedup();
        Self { source, label, sets }
    }

    /// Whether any rule matched.
    #[must_use]
    pub fn matches_any(&self) -> bool {
        self.sets.iter().any(|set| !set.is_empty())
    }
}

/// What has been learned: weights of rules in natural logarithms of odds, by rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    weights: BTreeMap<u32, f64>,
}

impl Model {
    /// The score of a request: that of its worst value, without the intercept.
    #[must_use]
    pub fn score(&self, example: &Example) -> f64 {
        let sum = |set: &Vec<u32>| -> f64 { set.iter().map(|rule| self.weight(*rule)).sum() };
        example.sets.iter().map(sum).fold(0.0, f64::max)
    }

    fn weight(&self, rule: u32) -> f64 {
        self.weights.get(&rule).copied().unwrap_or_default()
    }

    /// The weights in thousandths, those of 0 left out.
    #[expect(clippy::cast_possible_truncation, reason = "a weight beyond 100 is cut to 100")]
    pub fn rules(&self) -> impl Iterator<Item = (u32, Milli)> {
        let milli = |weight: &f64| (weight.clamp(0.0, 100.0) * 1_000.0).round() as Milli;
        let rules = self.weights.iter().map(move |(rule, weight)| (*rule, milli(weight)));
        rules.filter(|(_, weight)| *weight > 0)
    }
}

/// Learns from the examples for which `is_in` holds. `l2` is the strength of the regularisation: the penalty on a
/// squared weight of 1, where all attacks together weigh 1 and so do all others.
///
/// Each source weighs as the square root of its requests, so that one large source does not decide alone. A rule has a
/// weight if it matches attacks of two sources: what a single one shows may be its way of writing. Of examples with one
/// source of attacks, that source is enough.
#[must_use]
pub fn train(examples: &[Example], l2: f64, is_in: impl Fn(&Example) -> bool) -> Model {
    let examples: Vec<&Example> = examples.iter().filter(|example| is_in(example)).collect();
    let costs = costs(&examples);
    let confirmed = confirmed(&examples);
    let mut model = Model::default();
    let mut intercept = 0.0;
    for round in 0..ROUNDS {
        let chosen = examples.iter().map(|example| worst(&model, example, round == 0));
        let mut patterns: BTreeMap<(&[u32], bool), f64> = BTreeMap::new();
        for ((example, set), cost) in examples.iter().zip(chosen).zip(&costs) {
            *patterns.entry((set, example.label.is_attack())).or_default() += cost;
        }
        let mut descent = Descent::new(&patterns, &confirmed, &model, intercept);
        for _ in 0..SWEEPS {
            descent.sweep(l2);
        }
        (model, intercept) = descent.finish();
    }
    model
}

/// The rules that match attacks of two sources, or of the only one.
fn confirmed(examples: &[&Example]) -> BTreeSet<u32> {
    let attacks = || examples.iter().filter(|example| example.label.is_attack());
    let all: BTreeSet<usize> = attacks().map(|example| example.source).collect();
    let mut sources: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for example in attacks() {
        for rule in example.sets.iter().flatten() {
            sources.entry(*rule).or_default().insert(example.source);
        }
    }
    let sources_min = all.len().min(SOURCES_MIN);
    sources.retain(|_, sources| sources.len() >= sources_min);
    sources.into_keys().collect()
}

/// What each example costs when it is judged wrongly.
fn costs(examples: &[&Example]) -> Vec<f64> {
    let mut requests: BTreeMap<(bool, usize), usize> = BTreeMap::new();
    for example in examples {
        *requests.entry((example.label.is_attack(), example.source)).or_default() += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 requests")]
    let root = |requests: usize| (requests as f64).sqrt();
    let of_class = |attack: bool| -> f64 {
        let sources = requests.iter().filter(|((label, _), _)| *label == attack);
        sources.map(|(_, requests)| root(*requests)).sum()
    };
    let totals = [of_class(false), of_class(true)];
    let cost = |example: &&Example| {
        let attack = example.label.is_attack();
        let of_source = requests.get(&(attack, example.source)).copied().unwrap_or(1);
        let total = if attack { totals[1] } else { totals[0] };
        1.0 / (root(of_source) * total)
    };
    examples.iter().map(cost).collect()
}

/// The set of rules by which an example is judged. In the first round there are no weights yet, and the set with the
/// most rules is taken.
fn worst<'e>(model: &Model, example: &'e Example, by_size: bool) -> &'e [u32] {
    let mut worst: (&[u32], f64) = (&[], f64::NEG_INFINITY);
    for set in &example.sets {
        #[expect(clippy::cast_precision_loss, reason = "sets are small")]
        let score = match by_size {
            true => set.len() as f64,
            false => set.iter().map(|rule| model.weight(*rule)).sum(),
        };
        if score > worst.1 {
            worst = (set, score);
        }
    }
    worst.0
}

/// Coordinate descent over patterns: sets of rules with a label and a cost.
struct Descent {
    labels: Vec<f64>,
    costs: Vec<f64>,
    margins: Vec<f64>,
    /// Of each rule: its weight, and the patterns with it.
    columns: BTreeMap<u32, (f64, Vec<usize>)>,
    intercept: f64,
}

impl Descent {
    fn new(
        patterns: &BTreeMap<(&[u32], bool), f64>,
        confirmed: &BTreeSet<u32>,
        model: &Model,
        intercept: f64,
    ) -> Self {
        let mut columns: BTreeMap<u32, (f64, Vec<usize>)> = BTreeMap::new();
        let mut margins = Vec::new();
        for (number, (set, _)) in patterns.keys().enumerate() {
            let mut margin = intercept;
            let rules = set.iter().copied();
            for rule in rules.filter(|rule| !is_excluded(*rule) && confirmed.contains(rule)) {
                let column =
                    columns.entry(rule).or_insert_with(|| (model.weight(rule), Vec::new()));
                column.1.push(number);
                margin += column.0;
            }
            margins.push(margin);
        }
        let labels = patterns.keys().map(|(_, attack)| f64::from(u8::from(*attack))).collect();
        Self { labels, costs: patterns.values().copied().collect(), margins, columns, intercept }
    }

    fn sweep(&mut self, l2: f64) {
        let all: Vec<usize> = (0..self.margins.len()).collect();
        let step = self.step(&all, 0.0, 0.0);
        self.intercept += step;
        self.margins.iter_mut().for_each(|margin| *margin += step);
        let mut columns = core::mem::take(&mut self.columns);
        for (weight, patterns) in columns.values_mut() {
            let step = self.step(patterns, l2, *weight).max(-*weight);
            *weight += step;
            for pattern in patterns.iter() {
                if let Some(margin) = self.margins.get_mut(*pattern) {
                    *margin += step;
                }
            }
        }
        self.columns = columns;
    }

    /// Newton's step for one weight, given the patterns that it has a part in.
    fn step(&self, patterns: &[usize], l2: f64, weight: f64) -> f64 {
        let (mut gradient, mut curvature) = (l2 * weight, l2);
        for pattern in patterns {
            let (Some(margin), Some(label), Some(cost)) =
                (self.margins.get(*pattern), self.labels.get(*pattern), self.costs.get(*pattern))
            else {
                continue;
            };
            let attack = 1.0 / (1.0 + (-margin).exp());
            gradient += cost * (attack - label);
            curvature += cost * attack * (1.0 - attack);
        }
        (-gradient / curvature.max(1e-12)).clamp(-STEP_MAX, STEP_MAX)
    }

    fn finish(self) -> (Model, f64) {
        let weights = self.columns.into_iter().map(|(rule, (weight, _))| (rule, weight));
        (Model { weights: weights.filter(|(_, weight)| *weight > 0.0).collect() }, self.intercept)
    }
}

/// The lowest threshold at which at most `share` of these scores, of requests that are no attacks, reach it; a
/// thousandth above zero at least.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share of a number of requests is a number of requests"
)]
pub fn threshold(mut benign: Vec<f64>, share: f64) -> f64 {
    benign.sort_unstable_by(|one, other| other.total_cmp(one));
    let alarms = (benign.len() as f64 * share).floor() as usize;
    let first_below = benign.get(alarms).copied().unwrap_or_default();
    // Scores in use are rounded to thousandths, each of their parts by half a one.
    ((first_below * 1_000.0).floor() + 1.0) / 1_000.0
}
