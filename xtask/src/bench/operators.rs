//! `cargo xtask bench operators`: what a rule with one operator or one transformation costs, beside the peers.
//!
//! Each section of `bench/operators.json` is so many rules that do the same. What a request costs without rules is
//! subtracted, and what is left is divided. That the rules run is proven before they are measured: where they
//! match, every engine has to name all of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::engine::{self, Built, Engine, OURS, RULE_BY_RULE};
use super::prepare::Rules;
use super::report::{self, Answer};
use crate::cargo;
use crate::failure::{self, Failure, Outcome};
use crate::machine;

const DEFINITIONS: &str = "bench/operators.json";

/// Rules of one section.
const RULES: usize = 64;

/// CPU seconds that one run measures.
const SECONDS: f64 = 1.0;
const SECONDS_SHORT: f64 = 0.1;
/// To see that they match takes no time worth mentioning.
const SECONDS_PROOF: f64 = 0.001;

/// Those that are compared; the others that can be measured are ours.
const PEERS: [&str; 3] = ["coraza", "modsecurity", "zentinel"];

/// `bench operators [--short]`.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--short"])?;
    let short = flags.contains(&"--short");
    let bench = Bench::new(if short { SECONDS_SHORT } else { SECONDS })?;
    let engines = engines(&super::folder(), short)?;
    let without = times(&engines, |engine| bench.time(engine, &Section::default()))?;
    let mut table = head(&engines);
    for section in sections()? {
        println!("{}", section.name);
        let with = times(&engines, |engine| {
            bench.prove(engine, &section)?;
            bench.time(engine, &section)
        })?;
        let each = with.iter().zip(&without).map(|(with, without)| (with - without) / RULES as f64);
        line(&mut table, &section.name, &each.collect::<Vec<f64>>());
    }
    let path = super::folder().join("operators.md");
    fs::write(&path, &table).map_err(failure::io("write", &path))?;
    println!("wrote {}\n\n{table}", path.display());
    Ok(())
}

/// Ours as it is used, ours with every rule run, and the peers that can be had.
fn engines(folder: &Path, short: bool) -> Outcome<Vec<Built>> {
    let mut engines = vec![OURS.build(folder)?, RULE_BY_RULE.build(folder)?];
    let wanted = |engine: &&Engine| PEERS.contains(&engine.name);
    for peer in engine::PEERS.iter().filter(wanted) {
        match if short { peer.built(folder) } else { peer.build(folder) } {
            Ok(built) => engines.push(built),
            Err(failure) => println!("without {}: {failure}", peer.name),
        }
    }
    Ok(engines)
}

fn times(engines: &[Built], time: impl Fn(&Built) -> Outcome<f64>) -> Outcome<Vec<f64>> {
    engines.iter().map(time).collect()
}

/// Rules that all do the same, and the value that they look at.
#[derive(Debug, Default)]
struct Section {
    name: String,
    /// `SecRule` with its variable and operator; none without rules.
    rule: Option<String>,
    transformations: String,
    value: String,
    matches: bool,
}

fn sections() -> Outcome<Vec<Section>> {
    let path = cargo::root().join(DEFINITIONS);
    let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let definitions: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{DEFINITIONS}: {error}")))?;
    let list = |name: &str| definitions[name].as_array().cloned().unwrap_or_default();
    let mut sections = Vec::new();
    for entry in list("operators") {
        let (name, operator) = (field(&entry, "name")?, field(&entry, "operator")?);
        let values = [(&definitions, "clean", "no match"), (&entry, "matches", "match")];
        for (holder, of, kind) in values {
            sections.push(Section {
                name: format!("`{name}`, {kind}"),
                rule: Some(format!("SecRule REQUEST_HEADERS:X-Value \"{operator}\"")),
                transformations: "t:none".to_owned(),
                value: field(holder, of)?,
                matches: of == "matches",
            });
        }
    }
    for entry in list("transformations") {
        let (name, becomes) = (field(&entry, "name")?, field(&entry, "becomes")?);
        sections.push(Section {
            name: format!("`t:{name}` and `@streq`, match"),
            rule: Some(format!("SecRule REQUEST_HEADERS:X-Value \"@streq {becomes}\"")),
            transformations: format!("t:none,t:{name}"),
            value: field(&entry, "matches")?,
            matches: true,
        });
    }
    Ok(sections)
}

fn field(of: &Value, name: &str) -> Outcome<String> {
    let missing = || Failure::new(format!("{DEFINITIONS}: a text `{name}` is missing in {of}"));
    of[name].as_str().map(str::to_owned).ok_or_else(missing)
}

/// How sections are run.
struct Bench {
    folder: PathBuf,
    seconds: f64,
}

impl Bench {
    fn new(seconds: f64) -> Outcome<Self> {
        let folder = super::folder().join("operators");
        fs::create_dir_all(&folder).map_err(failure::io("create", &folder))?;
        Ok(Self { folder, seconds })
    }

    /// Fails unless all rules match, or none.
    fn prove(&self, engine: &Built, section: &Section) -> Outcome<()> {
        // libmodsecurity tells of rules that log only.
        let answer = self.run(engine, section, "log", SECONDS_PROOF)?;
        let matched = answer.matched.iter().filter(|id| (1..=RULES as u64).contains(id)).count();
        let expected = if section.matches { RULES } else { 0 };
        if matched == expected {
            return Ok(());
        }
        let (engine, name) = (engine.name, &section.name);
        Err(Failure::new(format!("{engine}: {matched} of {RULES} rules matched: {name}")))
    }

    /// Nanoseconds of a request.
    fn time(&self, engine: &Built, section: &Section) -> Outcome<f64> {
        self.run(engine, section, "nolog", self.seconds).map(|answer| answer.median_ns)
    }

    fn run(&self, engine: &Built, section: &Section, log: &str, seconds: f64) -> Outcome<Answer> {
        let mut rules = "SecRuleEngine On\n".to_owned();
        for (rule, id) in section.rule.iter().cycle().zip(1..=RULES) {
            let transformations = &section.transformations;
            let actions = format!("id:{id},phase:1,pass,{log},{transformations}");
            // The blank line is for libmodsecurity, as in the rules of CRS.
            rules.push_str(&format!("\n{rule} \"{actions}\"\n"));
        }
        let write = |name: &str, text: String| {
            let path = self.folder.join(name);
            fs::write(&path, text).map_err(failure::io("write", &path)).map(|()| path)
        };
        let rules = {
            let main = write("main.conf", rules)?;
            Rules { shipped: main.clone(), main }
        };
        let requests = write("requests.jsonl", request(&section.value))?;
        let wrong = |message: &str| Failure::new(format!("{}: {message}", engine.name));
        let told = engine.run(&rules, &requests, seconds)?;
        let told = told.ok_or_else(|| wrong("took too long"))?;
        let (_, answers) = report::parse(&told).map_err(|message| wrong(&message))?;
        answers.into_values().next().ok_or_else(|| wrong("told of no request"))
    }
}

/// As the workload writes requests.
fn request(value: &str) -> String {
    let request = json!({
        "id": "value", "class": "operators", "expect": "allow", "method": "GET", "uri": "/", "protocol": "HTTP/1.1",
        "client": {"ip": "192.0.2.10", "port": 40001}, "server": {"ip": "192.0.2.80", "port": 80},
        "headers": [["Host", "shop.example.com"], ["X-Value", value]],
    });
    format!("{request}\n")
}

fn head(engines: &[Built]) -> String {
    let names: Vec<&str> = engines.iter().map(|engine| engine.name).collect();
    format!(
        "# CPU time of a rule\n\n{}, {}. Nanoseconds of one of {RULES} rules that do the same; in brackets how many times \
         {}.\n\n| rule | {} |\n|---|{}\n",
        machine::name(),
        machine::date(),
        RULE_BY_RULE.name,
        names.join(" | "),
        "---:|".repeat(names.len()),
    )
}

/// The second engine is the one that the others are compared with.
fn line(table: &mut String, name: &str, times: &[f64]) {
    let ours = times.get(1).copied().unwrap_or_default().max(1.0);
    let mut row = format!("| {name} |");
    for (at, &time) in times.iter().enumerate() {
        // Less than a request without rules: more precise than this it cannot be told.
        let time = time.max(0.0);
        let _ = match at {
            0 | 1 => write!(row, " {time:.0} |"),
            _ => write!(row, " {time:.0} ({:.1}×) |", time / ours),
        };
    }
    table.push_str(&row);
    table.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_read() {
        let sections = sections().unwrap();
        assert_eq!(sections.iter().filter(|section| !section.matches).count(), 5);
        assert_eq!(sections.len(), 16);
    }

    #[test]
    fn lines_compare_with_every_rule_run() {
        let mut table = String::new();
        line(&mut table, "`@pm`", &[-1.0, 50.0, 100.4]);
        assert_eq!(table, "| `@pm` | 0 | 50 | 100 (2.0×) |\n");
    }
}
