//! An attacker who knows the weights: spellings of the same attack, searched greedily for the lowest score.
//!
//! Mutations keep the meaning for the usual database or browser, as far as that can be done without a parser. What is
//! measured is an upper bound of what such an attacker gains: some mutants would no longer work.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::carriers;
use crate::cargo;
use crate::failure::{Failure, Outcome, io};

/// Attacks of each kind.
const ATTACKS_MAX: usize = 300;

/// Steps of the search: mutations on top of each other.
const STEPS_MAX: usize = 8;

/// A way to write something else that means the same.
type Mutation = fn(&str) -> String;

const SQL: [Mutation; 12] = [
    mixed_case,
    |text| text.replace(' ', "/**/"),
    |text| text.replace(' ', "\t"),
    |text| text.replace(' ', "\n"),
    |text| text.replace(' ', "/*x*/ "),
    |text| text.replace(" or ", " || ").replace(" OR ", " || "),
    |text| text.replace(" and ", " && ").replace(" AND ", " && "),
    |text| text.replace('=', " like "),
    |text| text.replace("1=1", "2>1").replace("'1'='1", "'2'>'1"),
    |text| text.replace("union", "/*!50000union*/").replace("select", "/*!50000select*/"),
    |text| text.trim_end_matches(['-', ' ', '#']).to_owned() + "#",
    |text| {
        text.replace("concat(", "concat (").replace("sleep(", "sleep (").replace("char(", "char (")
    },
];

const XSS: [Mutation; 12] = [
    mixed_case,
    |text| text.replace(' ', "/"),
    |text| text.replace(' ', "\n"),
    |text| text.replace(' ', "\x0c"),
    |text| text.replace("alert(", "(alert)("),
    |text| text.replace("alert(", "top['al'+'ert']("),
    |text| text.replace("alert(", "confirm("),
    |text| text.replace("(1)", "`1`").replace("('XSS')", "`XSS`"),
    |text| text.replace("javascript:", "java&Tab;script:"),
    |text| text.replace("<script>", "<svg/onload=").replace("</script>", ">"),
    |text| text.replace("<img src=x onerror=", "<details open ontoggle="),
    |text| text.replace('"', "").replace('\'', "`"),
];

/// Every second letter large.
fn mixed_case(text: &str) -> String {
    let mut upper = false;
    text.chars()
        .map(|letter| {
            upper ^= letter.is_ascii_alphabetic();
            if upper { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
        })
        .collect()
}

/// What became of a request.
struct Judged {
    score: f64,
    attack: bool,
    refused: bool,
    inbound: f64,
}

/// What the attacker lowers.
#[derive(Clone, Copy)]
enum Aim {
    Opinion,
    AnomalyScore,
}

impl Aim {
    const fn name(self) -> &'static str {
        match self {
            Self::Opinion => "the second opinion",
            Self::AnomalyScore => "the anomaly score",
        }
    }

    const fn of(self, judged: &Judged) -> f64 {
        match self {
            Self::Opinion => judged.score,
            Self::AnomalyScore => judged.inbound,
        }
    }

    const fn detects(self, judged: &Judged) -> bool {
        match self {
            Self::Opinion => judged.attack,
            Self::AnomalyScore => judged.refused,
        }
    }
}

/// Prints how many attacks are still found after the search, for an attacker who lowers each of both scores.
pub(super) fn measure(kinds: &[(&str, Vec<String>)], folder: &Path) -> Outcome<()> {
    println!("attacks  the attacker lowers  steps  second opinion finds  CRS level 1 refuses");
    for (kind, texts) in kinds {
        let mutations = if *kind == "sql" { &SQL } else { &XSS };
        for aim in [Aim::Opinion, Aim::AnomalyScore] {
            search(kind, texts, mutations, aim, folder)?;
        }
    }
    Ok(())
}

fn search(
    kind: &str,
    texts: &[String],
    mutations: &[Mutation],
    aim: Aim,
    folder: &Path,
) -> Outcome<()> {
    let judged = judge(texts, folder)?;
    let found = texts.iter().zip(judged).filter(|(_, judged)| aim.detects(judged));
    let mut best: Vec<(String, Judged)> =
        found.map(|(text, judged)| (text.clone(), judged)).take(ATTACKS_MAX).collect();
    for step in 0..=STEPS_MAX {
        if step % 4 == 0 || step == 1 {
            report(kind, aim, step, &best);
        }
        let mutants = best.iter().enumerate().flat_map(|(number, (text, _))| {
            mutations.iter().map(move |mutation| (number, mutation(text)))
        });
        let (numbers, mutants): (Vec<usize>, Vec<String>) = mutants.unzip();
        let judged = judge(&mutants, folder)?;
        for ((number, text), judged) in numbers.into_iter().zip(mutants).zip(judged) {
            let Some(current) = best.get_mut(number) else { continue };
            if aim.of(&judged) < aim.of(&current.1) {
                *current = (text, judged);
            }
        }
    }
    Ok(())
}

fn report(kind: &str, aim: Aim, step: usize, best: &[(String, Judged)]) {
    let share = |holds: fn(&Judged) -> bool| {
        let count = best.iter().filter(|(_, judged)| holds(judged)).count();
        100.0 * count as f64 / best.len().max(1) as f64
    };
    let (opinion, crs) = (share(|judged| judged.attack), share(|judged| judged.refused));
    let (count, aim) = (best.len(), aim.name());
    println!("{kind:4} {count:3}  {aim:18}  {step:5}  {opinion:18.1} %  {crs:18.1} %");
}

/// Evaluates requests with these texts, each once.
fn judge(texts: &[String], folder: &Path) -> Outcome<Vec<Judged>> {
    let requests = folder.join("mutants.jsonl");
    let lines: Vec<String> =
        texts.iter().map(|text| carriers::in_query(text).to_string()).collect();
    fs::write(&requests, lines.join("\n")).map_err(io("write", &requests))?;
    let crs = crate::fetch::ensure()?.crs;
    let mut eval = cargo::cargo(["run", "--release", "-q", "-p", "glacis-cli", "--", "eval", "-q"]);
    let weights = cargo::root().join(super::WEIGHTS);
    eval.arg(format!("--second-opinion={}", weights.display()));
    eval.args(["-j", "2", "--crs"]).arg(crs).arg(&requests);
    let answers = cargo::output(&mut eval)?;
    let judged: Vec<Judged> = answers.lines().filter_map(answer).collect();
    match judged.len() == texts.len() {
        true => Ok(judged),
        false => Err(Failure::new("not every request was answered")),
    }
}

fn answer(line: &str) -> Option<Judged> {
    let answer: BTreeMap<String, Value> = serde_json::from_str(line).ok()?;
    let opinion = answer.get("second_opinion")?;
    Some(Judged {
        score: opinion["score"].as_f64()?,
        attack: opinion["attack"].as_bool()?,
        refused: *answer.get("action")? != json!("allow"),
        inbound: answer.get("scores")?["inbound"].as_f64()?,
    })
}
