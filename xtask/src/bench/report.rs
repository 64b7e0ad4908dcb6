//! What the drivers told, checked and put into tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::engine::{OURS, PEERS};
use super::prepare::{Difference, Request, Set};
use crate::failure::{self, Failure, Outcome};
use crate::machine;

/// The class that is made of all requests of the mix.
const MIX: &str = "mix";

/// Wrong answers that are shown in full.
const SHOWN_MAX: usize = 20;

/// A line of a driver.
#[derive(Debug, Default)]
pub(super) struct Answer {
    verdict: String,
    pub(super) matched: BTreeSet<u64>,
    pub(super) median_ns: f64,
    mean_ns: f64,
}

/// One class in one round.
#[derive(Debug, Default)]
struct Sample {
    requests: usize,
    /// Sums over the requests.
    mean_ns: f64,
    median_ns: f64,
}

/// What is known of an engine.
#[derive(Debug, Default)]
pub(super) struct About {
    version: String,
    load_ms: f64,
    rss_bytes: u64,
    /// Requests that ended wrongly but are listed, by reason.
    excused: BTreeMap<String, BTreeSet<String>>,
    /// Requests for which other detection rules matched than for ours.
    other_rules: BTreeSet<String>,
    answered: BTreeSet<String>,
}

pub(super) struct Report {
    classes: Vec<String>,
    differences: Vec<Difference>,
    /// By engine and class, one for each round.
    samples: BTreeMap<(&'static str, String), Vec<Sample>>,
    about: BTreeMap<&'static str, About>,
    /// Rules that matched in ours, by request.
    ours: BTreeMap<String, BTreeSet<u64>>,
    wrong: BTreeSet<String>,
    /// Engine and set.
    too_slow: BTreeSet<(&'static str, String)>,
    rounds: usize,
}

impl Report {
    pub(super) fn new(sets: &[Set], differences: Vec<Difference>) -> Self {
        let mut classes: Vec<String> = Vec::new();
        for set in sets {
            let mut of_set: Vec<&str> =
                set.requests.values().map(|request| request.class.as_str()).collect();
            if set.requests.values().any(|request| request.in_mix) {
                of_set.push(MIX);
            }
            of_set.sort_unstable_by_key(|class| (position(class), class.to_string()));
            of_set.dedup();
            classes.extend(of_set.into_iter().map(str::to_owned));
        }
        Self {
            classes,
            differences,
            samples: BTreeMap::new(),
            about: BTreeMap::new(),
            ours: BTreeMap::new(),
            wrong: BTreeSet::new(),
            too_slow: BTreeSet::new(),
            rounds: 0,
        }
    }

    /// Takes in what a driver told of `set`; `None` when it took too long.
    pub(super) fn add(
        &mut self,
        engine: &'static str,
        set: &Set,
        round: usize,
        told: Option<String>,
    ) -> Outcome<()> {
        self.rounds = self.rounds.max(round);
        let Some(told) = told else {
            self.too_slow.insert((engine, set.name.clone()));
            return Ok(());
        };
        let (about, answers) = parse(&told)
            .map_err(|message| Failure::new(format!("{engine}, {}: {message}", set.name)))?;
        let known = self.about.entry(engine).or_default();
        known.version = about.version;
        known.load_ms = about.load_ms;
        known.rss_bytes = known.rss_bytes.max(about.rss_bytes);
        let mut samples: BTreeMap<&str, Sample> = BTreeMap::new();
        for (id, request) in &set.requests {
            let Some(answer) = answers.get(id) else {
                return Err(Failure::new(format!("{engine} told nothing of {id}")));
            };
            self.check(engine, set, id, request, answer);
            let mix = request.in_mix.then_some(MIX);
            for class in [Some(request.class.as_str()), mix].into_iter().flatten() {
                let sample = samples.entry(class).or_default();
                sample.requests += 1;
                sample.mean_ns += answer.mean_ns;
                sample.median_ns += answer.median_ns;
            }
        }
        for (class, sample) in samples {
            self.samples.entry((engine, class.to_owned())).or_default().push(sample);
        }
        Ok(())
    }

    fn check(
        &mut self,
        engine: &'static str,
        set: &Set,
        id: &str,
        request: &Request,
        answer: &Answer,
    ) {
        // Requests of the mix appear again with responses, and may then end otherwise.
        let key = format!("{}/{id}", set.name);
        if engine == OURS.name {
            self.ours.insert(key.clone(), detections(&answer.matched));
        }
        let about = self.about.entry(engine).or_default();
        about.answered.insert(key.clone());
        if self.ours.get(&key).is_some_and(|ours| *ours != detections(&answer.matched)) {
            about.other_rules.insert(key.clone());
        }
        let Some(wrong) = wrong(request, answer) else { return };
        let excuse = self.differences.iter().find(|difference| {
            difference.engine == engine
                && id.starts_with(&difference.id)
                && difference.rule.is_none_or(|rule| answer.matched.contains(&rule))
        });
        match excuse {
            Some(Difference { reason, .. }) => {
                about.excused.entry(reason.clone()).or_default().insert(key);
            }
            None => {
                self.wrong.insert(format!("{engine}: {key}: {wrong}"));
            }
        }
    }

    /// Writes the tables, prints the Markdown one, and fails when an answer was wrong.
    pub(super) fn finish(&self, path: &Path, level: u8) -> Outcome<()> {
        let markdown = self.markdown(level);
        for (extension, text) in [("md", &markdown), ("csv", &self.csv(level))] {
            let path = path.with_extension(extension);
            fs::write(&path, text).map_err(failure::io("write", &path))?;
            println!("wrote {}", path.display());
        }
        println!("\n{markdown}");
        if self.wrong.is_empty() {
            return Ok(());
        }
        let shown: Vec<&str> = self.wrong.iter().map(String::as_str).take(SHOWN_MAX).collect();
        let count = self.wrong.len();
        Err(Failure::new(format!("{count} wrong answers, among them:\n{}", shown.join("\n"))))
    }

    /// In the order of the list of engines.
    fn engines(&self) -> Vec<&'static str> {
        let all = std::iter::once(OURS.name).chain(PEERS.iter().map(|peer| peer.name));
        all.filter(|name| self.about.contains_key(name)).collect()
    }

    fn markdown(&self, level: u8) -> String {
        let engines = self.engines();
        let mut text = format!(
            "# CPU time per request\n\n{}, {}, paranoia level {level} (blocking level 1), {} rounds.\n\
             Microseconds, median of the rounds; in brackets how many times ours.\n\n",
            machine::name(),
            machine::date(),
            self.rounds,
        );
        text.push_str(&format!("| class | requests | {} |\n", engines.join(" | ")));
        text.push_str(&format!("|---|---:|{}\n", "---:|".repeat(engines.len())));
        for class in &self.classes {
            let ours = self.median(OURS.name, class);
            let requests = self.requests(class);
            let cells = engines.iter().map(|engine| self.cell(engine, class, ours));
            let cells: Vec<String> = cells.collect();
            text.push_str(&format!("| {class} | {requests} | {} |\n", cells.join(" | ")));
        }
        text.push_str("\n| engine | version | rules loaded in | memory | answers | wrong, listed | other rules than ours |\n|---|---|---:|---:|---:|---:|---:|\n");
        for engine in &engines {
            let Some(about) = self.about.get(engine) else { continue };
            let excused: usize = about.excused.values().map(BTreeSet::len).sum();
            text.push_str(&format!(
                "| {engine} | {} | {:.0} ms | {} MiB | {} | {excused} | {} |\n",
                about.version,
                about.load_ms,
                about.rss_bytes >> 20,
                about.answered.len(),
                about.other_rules.len(),
            ));
        }
        for (engine, about) in &self.about {
            for (reason, requests) in &about.excused {
                text.push_str(&format!("\n- {engine}, {} requests: {reason}", requests.len()));
            }
        }
        for (engine, set) in &self.too_slow {
            text.push_str(&format!("\n- {engine} took too long on {set} and was ended"));
        }
        text.push('\n');
        text
    }

    fn cell(&self, engine: &'static str, class: &str, ours: Option<f64>) -> String {
        match (self.median(engine, class), ours) {
            (None, _) => "–".to_owned(),
            (Some(time), Some(ours)) if engine != OURS.name && ours > 0.0 => {
                format!("{} ({:.1}×)", microseconds(time), time / ours)
            }
            (Some(time), _) => microseconds(time),
        }
    }

    /// Nanoseconds of one request: the mean over requests and repetitions, the median of rounds.
    fn median(&self, engine: &'static str, class: &str) -> Option<f64> {
        let samples = self.samples.get(&(engine, class.to_owned()))?;
        let mut means: Vec<f64> =
            samples.iter().map(|sample| sample.mean_ns / sample.requests as f64).collect();
        means.sort_by(f64::total_cmp);
        means.get(means.len() / 2).copied()
    }

    fn requests(&self, class: &str) -> usize {
        let of_class = self.samples.iter().find(|((_, name), _)| name == class);
        of_class.and_then(|(_, samples)| samples.first()).map_or(0, |sample| sample.requests)
    }

    fn csv(&self, level: u8) -> String {
        let mut text =
            "engine,version,level,class,round,requests,mean_ns,mean_of_medians_ns\n".to_owned();
        for ((engine, class), samples) in &self.samples {
            let version = self.about.get(engine).map_or("", |about| &about.version);
            for (index, sample) in samples.iter().enumerate() {
                let requests = sample.requests as f64;
                text.push_str(&format!(
                    "{engine},{version},{level},{class},{},{},{:.0},{:.0}\n",
                    index + 1,
                    sample.requests,
                    sample.mean_ns / requests,
                    sample.median_ns / requests,
                ));
            }
        }
        text
    }
}

/// Why the answer is wrong, if it is.
fn wrong(request: &Request, answer: &Answer) -> Option<String> {
    if answer.verdict != request.expect {
        let rules = detections(&answer.matched);
        let (got, expected) = (&answer.verdict, &request.expect);
        return Some(format!("{got} instead of {expected}; rules that matched: {rules:?}"));
    }
    let rule = request.expect_rule.filter(|rule| !answer.matched.contains(rule))?;
    let rules = detections(&answer.matched);
    Some(format!("refused, but not because of rule {rule}; rules that matched: {rules:?}"))
}

/// The rules that detect something. Peers also name rules that only set or skip something, the
/// smallest numbers of each CRS file, and those that add up scores, which are not compared.
fn detections(matched: &BTreeSet<u64>) -> BTreeSet<u64> {
    let is_detection = |id: &u64| (911_000..980_000).contains(id) && id % 1_000 >= 100;
    let is_score = |id: &u64| (949_000..950_000).contains(id) || (959_000..960_000).contains(id);
    matched.iter().copied().filter(|id| is_detection(id) && !is_score(id)).collect()
}

pub(super) fn parse(told: &str) -> Result<(About, BTreeMap<String, Answer>), String> {
    let mut lines = told.lines();
    let read = |line: &str| -> Result<Value, String> {
        serde_json::from_str(line).map_err(|error| format!("not JSON: {error}: {line}"))
    };
    let first = read(lines.next().ok_or("the driver printed nothing")?)?;
    let about = About {
        version: first["version"].as_str().ok_or("no version")?.to_owned(),
        load_ms: first["load_ms"].as_f64().unwrap_or_default(),
        rss_bytes: first["rss_bytes"].as_u64().unwrap_or_default(),
        ..About::default()
    };
    let mut answers = BTreeMap::new();
    for line in lines {
        let value = read(line)?;
        let time = |name: &str| value[name].as_f64().ok_or_else(|| format!("no {name}: {line}"));
        let answer = Answer {
            verdict: value["verdict"].as_str().unwrap_or_default().to_owned(),
            matched: value["matched"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_u64)
                .collect(),
            median_ns: time("median_ns")?,
            mean_ns: time("mean_ns")?,
        };
        answers.insert(value["id"].as_str().unwrap_or_default().to_owned(), answer);
    }
    Ok((about, answers))
}

/// The mix first, attacks last, curves by kind and size.
fn position(class: &str) -> (usize, usize) {
    const ORDER: [&str; 8] =
        [MIX, "get_page", "get_static", "login_form", "json", "upload", "attack", "mix_response"];
    let known = ORDER.iter().position(|known| *known == class);
    (known.unwrap_or(ORDER.len()), class.len())
}

fn microseconds(nanoseconds: f64) -> String {
    let microseconds = nanoseconds / 1e3;
    match microseconds {
        ..100.0 => format!("{microseconds:.1}"),
        _ => format!("{microseconds:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Set {
        let request = |expect: &str, rule| Request {
            class: "json".to_owned(),
            in_mix: true,
            expect: expect.to_owned(),
            expect_rule: rule,
        };
        let requests = [("a", request("allow", None)), ("b", request("deny", Some(942_100)))];
        let requests = requests.map(|(id, request)| (id.to_owned(), request));
        Set { name: "all".to_owned(), path: "x".into(), requests: requests.into() }
    }

    fn told(a: &str, b: &str, rule: u64) -> Option<String> {
        let line = |id, verdict, rule, time| {
            format!(
                r#"{{"id":"{id}","verdict":"{verdict}","matched":[{rule},900990],"median_ns":{time},"mean_ns":{time}}}"#
            )
        };
        let about = r#"{"engine":"e","version":"1.0","load_ms":5.0,"rss_bytes":1048576}"#;
        Some(format!("{about}\n{}\n{}\n", line("a", a, 0, 1000), line("b", b, rule, 3000)))
    }

    fn report(differences: Vec<Difference>) -> Report {
        Report::new(&[set()], differences)
    }

    #[test]
    fn times_are_means_of_requests_and_medians_of_rounds() {
        let mut report = report(Vec::new());
        for (round, engine) in [(1, "glacis"), (1, "coraza"), (2, "glacis")] {
            report.add(engine, &set(), round, told("allow", "deny", 942_100)).unwrap();
        }
        assert!(report.wrong.is_empty());
        assert_eq!(report.median("glacis", "mix"), Some(2000.0));
        let text = report.markdown(1);
        assert!(text.contains("| mix | 2 | 2.0 | 2.0 (1.0×) |"), "{text}");
        assert!(report.csv(1).contains("glacis,1.0,1,json,2,2,2000,2000\n"));
    }

    #[test]
    fn wrong_answers_are_found_and_excused_only_by_the_list() {
        let listed = || Difference {
            engine: "coraza".to_owned(),
            id: "a".to_owned(),
            rule: None,
            reason: "r".to_owned(),
        };
        let rows: &[(&str, Option<String>, Vec<Difference>, usize)] = &[
            ("glacis", told("allow", "deny", 942_100), vec![], 0),
            ("glacis", told("deny", "deny", 942_100), vec![], 1),
            ("glacis", told("allow", "deny", 930_100), vec![], 1),
            ("coraza", told("deny", "deny", 942_100), vec![listed()], 0),
            ("zentinel", told("deny", "allow", 942_100), vec![listed()], 2),
        ];
        for (engine, told, differences, expected) in rows {
            let differences = differences.iter().map(|_| listed()).collect();
            let mut report = report(differences);
            report.add(engine, &set(), 1, told.clone()).unwrap();
            assert_eq!(report.wrong.len(), *expected, "{engine} {told:?}");
        }
    }

    #[test]
    fn what_a_driver_must_not_do_is_refused() {
        let mut report = report(Vec::new());
        for told in ["", "nonsense", r#"{"version":"1"}"#] {
            assert!(report.add("coraza", &set(), 1, Some(told.to_owned())).is_err(), "{told}");
        }
        report.add("coraza", &set(), 1, None).unwrap();
        assert!(report.markdown(1).contains("coraza took too long on all"));
    }

    #[test]
    fn only_detections_are_compared() {
        let matched = [900_990, 911_011, 920_014, 942_100, 949_110, 959_100, 980_170];
        assert_eq!(detections(&matched.into()), BTreeSet::from([942_100]));
    }
}
