//! `--defaults`: what CRS blocks with its own defaults and with those of Glacis, by source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo;
use crate::failure::{Failure, Outcome, io};

/// Where the table goes.
const PAGE: &str = "docs/results/defaults.md";

/// The sources whose requests were recorded, so that their hosts mean something.
const RECORDED: [&str; 5] = ["har-files", "pagexray", "perfcascade", "top-sites", "tracker-urls"];

/// Counts of the requests of a source, by verdict.
#[derive(Clone, Default)]
struct Counts {
    requests: usize,
    /// Blocked with the defaults of CRS, and with those of Glacis.
    crs: usize,
    glacis: usize,
    /// Blocked with one kind of defaults only.
    only_crs: usize,
    only_glacis: usize,
    /// Hosts, and those with a blocked request.
    hosts: BTreeSet<String>,
    hosts_crs: BTreeSet<String>,
    hosts_glacis: BTreeSet<String>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.crs += other.crs;
        self.glacis += other.glacis;
        self.only_crs += other.only_crs;
        self.only_glacis += other.only_glacis;
        self.hosts.extend(other.hosts.iter().cloned());
        self.hosts_crs.extend(other.hosts_crs.iter().cloned());
        self.hosts_glacis.extend(other.hosts_glacis.iter().cloned());
    }
}

/// Evaluates the requests of all files with both kinds of defaults, and writes the page.
pub(super) fn compare(files: &[PathBuf]) -> Outcome<()> {
    let mut sources: BTreeMap<(String, String), Counts> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(file).map_err(io("read", file))?;
        let (crs, glacis) = (blocked(file, "crs")?, blocked(file, "glacis")?);
        for ((line, crs), glacis) in text.lines().zip(crs).zip(glacis) {
            let request: Value = serde_json::from_str(line)
                .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
            let name = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
            let counts = sources.entry((name("label"), name("source"))).or_default();
            counts.requests += 1;
            counts.crs += usize::from(crs);
            counts.glacis += usize::from(glacis);
            counts.only_crs += usize::from(crs && !glacis);
            counts.only_glacis += usize::from(glacis && !crs);
            let host = host(&request);
            if crs {
                counts.hosts_crs.insert(host.clone());
            }
            if glacis {
                counts.hosts_glacis.insert(host.clone());
            }
            counts.hosts.insert(host);
        }
    }
    let page = cargo::root().join(PAGE);
    fs::write(&page, render(&sources)).map_err(io("write", &page))
}

/// Whether each request of a file is blocked.
fn blocked(file: &Path, defaults: &str) -> Outcome<Vec<bool>> {
    let crs = crate::fetch::ensure()?.crs;
    let mut eval = cargo::cargo(["run", "--release", "-q", "-p", "glacis-cli", "--", "eval", "-q"]);
    eval.args(["-j", "2", "--defaults", defaults, "--crs"]).arg(crs).arg(file);
    let answers = cargo::output(&mut eval)?;
    let is_blocked = |line: &str| {
        let answer: Value = serde_json::from_str(line)
            .map_err(|error| Failure::new(format!("an answer is not JSON: {error}")))?;
        Ok(answer["action"] != "allow")
    };
    answers.lines().map(is_blocked).collect()
}

/// The value of the request's Host field.
fn host(request: &Value) -> String {
    let fields = request["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let field = fields
        .iter()
        .find(|field| field[0].as_str().is_some_and(|name| name.eq_ignore_ascii_case("host")));
    field.and_then(|field| field[1].as_str()).unwrap_or_default().to_owned()
}

fn render(sources: &BTreeMap<(String, String), Counts>) -> String {
    let mut page = "# The defaults of Glacis on public requests

CRS 4.25 at paranoia level 1, in process: with its own defaults (`--defaults crs`) and with [those of Glacis](../reference/defaults.md).
`cargo xtask second-opinion --data DIR --defaults` writes this page from the requests that [the second opinion](../second-opinion.md) is trained and tested with; that page names the data sets.
The rules of the defaults were chosen with these requests at hand, so that other traffic has more false alarms and other attacks pass more often.
The attacks of public lists hold lines that are no attack (headings, single words), so that no ruleset reaches 100 %.

"
    .to_owned();
    let sum = |wanted: &dyn Fn(&str, &str) -> bool| {
        let mut sum = Counts::default();
        for ((label, source), counts) in sources {
            if wanted(label, source) {
                sum.add(counts);
            }
        }
        sum
    };
    let recorded = sum(&|label, source| label != "attack" && RECORDED.contains(&source));
    page += &format!(
        "Recorded requests of browsers ({}) go to {} hosts.\nWith the defaults of CRS {} hosts have a blocked request, with those of Glacis {}.\n\n",
        RECORDED.join(", "),
        recorded.hosts.len(),
        recorded.hosts_crs.len(),
        recorded.hosts_glacis.len()
    );
    page += "| requests | | blocked, CRS | blocked, Glacis | by CRS only | by Glacis only |\n|---|---:|---:|---:|---:|---:|\n";
    page += &row("**recorded requests**", &recorded);
    page += &row(
        "**made of ordinary texts**",
        &sum(&|label, source| label == "benign" && !RECORDED.contains(&source)),
    );
    page += &row("**made of technical texts**", &sum(&|label, _| label == "technical"));
    page += &row("**attacks**", &sum(&|label, _| label == "attack"));
    for ((label, source), counts) in sources {
        page += &row(&format!("{label}: {source}"), counts);
    }
    page
}

fn row(name: &str, counts: &Counts) -> String {
    let share = |blocked: usize| 100.0 * blocked as f64 / counts.requests.max(1) as f64;
    format!(
        "| {name} | {} | {:.2} % | {:.2} % | {} | {} |\n",
        counts.requests,
        share(counts.crs),
        share(counts.glacis),
        counts.only_crs,
        counts.only_glacis
    )
}
