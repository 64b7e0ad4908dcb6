//! `glacis train`: labelled requests in, weights out.

use std::{collections::BTreeMap, io::Write as _, sync::Arc};

use glacis_engine::{RuleEngine, Transaction};
use glacis_explain::{Malformed, Occasion, Request};
use glacis_second_opinion::{
    Evidence, Figures, PROVENANCE_MAX, Provenance, Source, Weights,
    training::{Example, Label, threshold, train},
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::{
    arguments::TrainOptions,
    eval::evaluate,
    inspect::now,
    lines::{Line, Lines},
    output::{self, Fault, Outcome},
    progress,
    ruleset::{self, Rules},
};

/// Requests at most: what matched in each of them is held in memory.
const REQUESTS_MAX: usize = 1_000_000;

/// Lines that are evaluated at a time, for each thread.
const BATCH_LINES: usize = 64;

/// Rules of all levels have a part.
const LEVEL: u8 = 4;

/// The fields of a line beside the request.
#[derive(Deserialize)]
struct Labels {
    label: Label,
    source: String,
}

/// A labelled request after its evaluation.
struct Labelled {
    source: String,
    example: Example,
}

/// All that training looks at.
#[derive(Default)]
struct Corpus {
    examples: Vec<Example>,
    sources: Vec<Source>,
    digests: Vec<Sha256>,
    numbers: BTreeMap<String, usize>,
}

/// Learns, and prints the file of weights.
pub(crate) fn run(options: &TrainOptions) -> Result<Outcome, Fault> {
    let mut rules = options.rules.to_vec();
    rules.push(Rules::DetectionLevel(LEVEL));
    let program = Arc::new(ruleset::load(&rules, options.quiet)?);
    let mut workers: Vec<Transaction> =
        (0..options.jobs).map(|_| Transaction::new(Arc::clone(&program))).collect();
    let mut lines = Lines::open(options.requests.as_deref())?;
    let mut corpus = Corpus::default();
    loop {
        let batch = lines.batch(BATCH_LINES * workers.len())?;
        if batch.is_empty() {
            break;
        }
        let labelled = evaluate(&batch, &mut workers, example);
        for (line, labelled) in batch.iter().zip(labelled) {
            let labelled = labelled.map_err(|malformed| lines.malformed(&malformed))?;
            corpus.add(line, labelled)?;
        }
    }
    let weights = learn(options, &corpus.finish()?, program.hash())?;
    if !options.quiet {
        remark(&weights);
    }
    let mut out = output::results();
    out.write_all(weights.text().as_bytes())?;
    out.flush()?;
    Ok(Outcome::Clean)
}

fn example(transaction: &mut Transaction, line: &Line) -> Result<Labelled, Malformed> {
    let request = line.parse()?;
    let Labels { label, source } = line.read(|text| {
        serde_json::from_slice(text)
            .map_err(|error| Malformed { id: None, message: error.to_string() })
    })?;
    look_at(transaction, &request);
    let example = Example::new(0, label, &Evidence::of(transaction));
    Ok(Labelled { source, example })
}

/// Evaluates a request so that no verdict keeps later rules from being run.
fn look_at(transaction: &mut Transaction, request: &Request) {
    let rule_engine = Some(RuleEngine::DetectionOnly);
    let occasion = Occasion { rule_engine, ..Occasion::at(now()) };
    glacis_explain::inspect(transaction, request, &request.id.text(), &occasion);
}

impl Corpus {
    fn add(&mut self, line: &Line, labelled: Labelled) -> Result<(), Fault> {
        if self.examples.len() == REQUESTS_MAX {
            return Err(Fault::Input(format!("more than {REQUESTS_MAX} requests")));
        }
        let Labelled { source: name, example } = labelled;
        let number = *self.numbers.entry(name.clone()).or_insert_with(|| {
            self.sources.push(Source { name, ..Source::default() });
            self.digests.push(Sha256::new());
            self.sources.len() - 1
        });
        if let Some(digest) = self.digests.get_mut(number) {
            digest.update(line.bytes());
            digest.update(b"\n");
        }
        if let Some(source) = self.sources.get_mut(number) {
            let count = match example.label {
                Label::Attack => &mut source.attacks,
                Label::Benign => &mut source.benign,
                Label::Technical => &mut source.technical,
            };
            *count += 1;
        }
        self.examples.push(Example { source: number, ..example });
        Ok(())
    }

    /// The corpus with hashes.
    fn finish(mut self) -> Result<Self, Fault> {
        for (source, digest) in self.sources.iter_mut().zip(&self.digests) {
            let digest = digest.clone().finalize();
            source.sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        }
        let has = |count: fn(&Source) -> usize| {
            self.sources.iter().filter(|source| count(source) > 0).count() >= 2
        };
        if self.sources.len() > PROVENANCE_MAX {
            return Err(Fault::Input(format!("more than {PROVENANCE_MAX} sources")));
        }
        if !has(|source| source.attacks) || !has(|source| source.benign) {
            let message = "attacks and benign requests of two sources each are needed: weights \
                           are tried on sources that they were not learned from";
            return Err(Fault::Input(message.to_owned()));
        }
        Ok(self)
    }
}

fn learn(options: &TrainOptions, corpus: &Corpus, ruleset: &str) -> Result<Weights, Fault> {
    progress::stage("learning weights", None);
    let held_out = scores_held_out(corpus, options.l2);
    let benign: Vec<f64> = held_out
        .iter()
        .zip(&corpus.examples)
        .filter(|(_, example)| example.label == Label::Benign)
        .map(|(score, _)| *score)
        .collect();
    let bars = [threshold(benign.clone(), 0.001), threshold(benign.clone(), 0.01)];
    let figures = figures(corpus, &held_out, bars);
    let model = train(&corpus.examples, options.l2, |_| true);
    let rules = model.rules().collect();
    let name = options.name.clone();
    // Bounded by what a file of weights may hold.
    #[expect(clippy::cast_possible_truncation, reason = "thresholds are sums of a few weights")]
    let bar = (threshold(benign, options.false_alarms) * 1_000.0).round() as i32;
    let weights = Weights::new(name, LEVEL, bar, rules);
    let mut weights = weights.map_err(|error| Fault::Input(error.to_string()))?;
    weights.provenance = Provenance {
        date: options.date.clone(),
        ruleset: ruleset.to_owned(),
        sources: corpus.sources.clone(),
        held_out: figures,
    };
    Ok(weights)
}

/// The score of each request by weights that were learned without its source.
fn scores_held_out(corpus: &Corpus, l2: f64) -> Vec<f64> {
    let mut scores = vec![0.0; corpus.examples.len()];
    for source in 0..corpus.sources.len() {
        let model = train(&corpus.examples, l2, |example| example.source != source);
        for (score, example) in scores.iter_mut().zip(&corpus.examples) {
            if example.source == source {
                *score = model.score(example);
            }
        }
    }
    scores
}

fn figures(corpus: &Corpus, scores: &[f64], [low, high]: [f64; 2]) -> Vec<Figures> {
    let mut figures = Vec::new();
    for (number, source) in corpus.sources.iter().enumerate() {
        for label in Label::ALL {
            let own = corpus.examples.iter().zip(scores);
            let own: Vec<_> = own
                .filter(|(example, _)| example.source == number && example.label == label)
                .collect();
            if own.is_empty() {
                continue;
            }
            let percent = |holds: &dyn Fn(&Example, f64) -> bool| {
                let count = own.iter().filter(|(example, score)| holds(example, **score)).count();
                (count as f64 / own.len() as f64 * 1e5).round() / 1e3
            };
            figures.push(Figures {
                source: source.name.clone(),
                requests: own.len(),
                label,
                at_0_1_percent: percent(&|_, score| score >= low),
                at_1_percent: percent(&|_, score| score >= high),
                any_rule: percent(&|example, _| example.matches_any()),
            });
        }
    }
    figures
}

fn remark(weights: &Weights) {
    let threshold = f64::from(weights.threshold) / 1_000.0;
    output::remark(format_args!("{} weights, threshold {threshold}", weights.rules().count()));
    output::remark("percent of held-out requests             at 0.1 %   at 1 %   any rule");
    for figure in &weights.provenance.held_out {
        let Figures { source, requests, at_0_1_percent, at_1_percent, any_rule, label } = figure;
        let label = label.name();
        output::remark(format_args!(
            "{label:9} {source:24} {requests:6} {at_0_1_percent:8.2} {at_1_percent:8.2} {any_rule:8.2}"
        ));
    }
}
