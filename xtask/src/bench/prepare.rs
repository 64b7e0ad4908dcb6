//! Requests and rules, made below `target/bench`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo;
use crate::failure::{self, Failure, Outcome};

const DEFINITIONS: &str = "bench/definitions.yaml";
const DIFFERENCES: &str = "bench/differences.json";
const ENGINE_CONFIGURATION: &str = "bench/rules/engine.conf";
/// What Glacis adds to a ruleset, in `rules/base`.
const SHIPPED: [&str; 4] = ["glacis.conf", "defaults.conf", "attacks.conf", "weak.conf"];

/// A short run takes one request of so many from large sets, and of the curves only short bodies.
const SHORT_STEP: usize = 10;
const SHORT_LARGE: usize = 100;
const SHORT_CURVES: &[&str] = &["curve_1k", "curve_10k"];

/// A file of requests that one run of a driver measures.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// By id.
    pub(super) requests: BTreeMap<String, Request>,
}

impl Set {
    /// Bodies of one size. What they show are orders of magnitude, which one round does, and with a peer that
    /// takes minutes for a body, three rounds would take the afternoon.
    pub(super) fn is_curve(&self) -> bool {
        self.name.starts_with("curve_")
    }
}

/// What the report has to know of a request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) class: String,
    pub(super) in_mix: bool,
    pub(super) expect: String,
    pub(super) expect_rule: Option<u64>,
}

/// Builds the engine alone, as it is measured from outside.
pub(super) fn probe() -> Outcome<PathBuf> {
    let artifacts = cargo::build(&["--quiet", "--release", "-p", "glacis-bench-probe"])?;
    artifacts.program("glacis-bench-probe").cloned()
}

/// Has the workload written, and returns the folder of its files.
pub(super) fn workload(folder: &Path) -> Outcome<PathBuf> {
    let workload = folder.join("workload");
    let artifacts = cargo::build(&["--quiet", "-p", "glacis-bench-workload"])?;
    let program = artifacts.program("glacis-bench-workload")?;
    let definitions = cargo::root().join(DEFINITIONS);
    cargo::run(Command::new(program).arg(definitions).arg(&workload))?;
    Ok(workload)
}

/// Has the workload written, and selects what is to be measured.
pub(super) fn sets(folder: &Path, short: bool, only: Option<&str>) -> Outcome<Vec<Set>> {
    let workload = workload(folder)?;

    let selected = folder.join("selected");
    fs::create_dir_all(&selected).map_err(failure::io("create", &selected))?;
    let mut sets = Vec::new();
    for (name, files) in groups(&workload)? {
        if short && name.starts_with("curve") && !SHORT_CURVES.contains(&name.as_str()) {
            continue;
        }
        let mut lines = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).map_err(failure::io("read", &file))?;
            lines.extend(text.lines().map(str::to_owned));
        }
        let (text, requests) = select(&lines, short, only)?;
        if !requests.is_empty() {
            let path = selected.join(format!("{name}.jsonl"));
            fs::write(&path, text).map_err(failure::io("write", &path))?;
            sets.push(Set { name, path, requests });
        }
    }
    match sets.is_empty() {
        true => Err(Failure::usage(format!("no class begins with `{}`", only.unwrap_or_default()))),
        false => Ok(sets),
    }
}

/// Files that one run measures together: all classes; the mix with responses; the curves, by size,
/// so that a run of small bodies is not mostly one of large ones.
fn groups(workload: &Path) -> Outcome<Vec<(String, Vec<PathBuf>)>> {
    let mut groups = vec![
        ("all".to_owned(), vec![workload.join("all.jsonl")]),
        ("mix_response".to_owned(), vec![workload.join("mix_response.jsonl")]),
    ];
    let entries = fs::read_dir(workload).map_err(failure::io("list", workload))?;
    let mut curves: BTreeMap<(usize, String), Vec<PathBuf>> = BTreeMap::new();
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((_, size)) = stem.strip_prefix("curve_").and_then(|rest| rest.rsplit_once('_'))
        {
            curves.entry((size.len(), size.to_owned())).or_default().push(path);
        }
    }
    for ((_, size), mut paths) in curves {
        paths.sort();
        groups.push((format!("curve_{size}"), paths));
    }
    Ok(groups)
}

fn select(
    lines: &[String],
    short: bool,
    only: Option<&str>,
) -> Outcome<(String, BTreeMap<String, Request>)> {
    let mut wanted = Vec::new();
    for line in lines {
        let (id, mut request) = request(line)?;
        // A part of the mix is not the mix.
        request.in_mix &= only.is_none();
        if only.is_none_or(|only| request.class.starts_with(only)) {
            wanted.push((line, id, request));
        }
    }
    let step = if short && wanted.len() > SHORT_LARGE { SHORT_STEP } else { 1 };
    let mut text = String::new();
    let mut requests = BTreeMap::new();
    for (line, id, request) in wanted.into_iter().step_by(step) {
        text.push_str(line);
        text.push('\n');
        requests.insert(id, request);
    }
    Ok((text, requests))
}

/// The id of the request in that line, and what the report has to know of it.
pub(super) fn request(line: &str) -> Outcome<(String, Request)> {
    let value: Value = serde_json::from_str(line)
        .map_err(|error| Failure::new(format!("a line of the workload is not JSON: {error}")))?;
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let request = Request {
        class: text("class"),
        in_mix: value["in_mix"] == true,
        expect: text("expect"),
        expect_rule: value["expect_rule"].as_u64(),
    };
    Ok((text("id"), request))
}

/// A copy of CRS that every engine reads, and the files that include it all.
pub(super) struct Rules {
    /// What each engine reads.
    pub(super) main: PathBuf,
    /// The same with the base configuration and the defaults of Glacis, as it is shipped: what Glacis reads.
    pub(super) shipped: PathBuf,
}

/// Copies CRS, with `level` set.
pub(super) fn rules(folder: &Path, crs: &Path, level: u8) -> Outcome<Rules> {
    let rules = folder.join(format!("rules-pl{level}"));
    fs::create_dir_all(&rules).map_err(failure::io("create", &rules))?;
    let write = |name: &str, text: String| {
        let path = rules.join(name);
        fs::write(&path, text).map_err(failure::io("write", &path)).map(|()| path)
    };
    let read = |path: &Path| fs::read_to_string(path).map_err(failure::io("read", path));

    write("engine.conf", read(&cargo::root().join(ENGINE_CONFIGURATION))?)?;
    let setup = read(&crs.join("crs-setup.conf.example"))?;
    write("crs-setup.conf", format!("{setup}\n{}", level_rule(level)))?;
    let mut main = "Include engine.conf\nInclude crs-setup.conf\n".to_owned();
    let mut shipped =
        format!("Include glacis.conf\n{main}Include defaults.conf\nInclude attacks.conf\n");
    let source = crs.join("rules");
    let entries = fs::read_dir(&source).map_err(failure::io("list", &source))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        let path = source.join(&name);
        if name.ends_with(".conf") {
            write(&name, separated(&read(&path)?))?;
            main.push_str(&format!("Include {name}\n"));
            if name.starts_with("REQUEST-949-") {
                shipped.push_str("Include weak.conf\n");
            }
            shipped.push_str(&format!("Include {name}\n"));
        } else {
            let copy = rules.join(&name);
            fs::copy(&path, &copy).map_err(failure::io("write", &copy))?;
        }
    }
    for name in SHIPPED {
        write(name, read(&cargo::root().join("rules/base").join(name))?)?;
    }
    Ok(Rules { main: write("main.conf", main)?, shipped: write("main-shipped.conf", shipped)? })
}

/// Rules of higher levels run, but do not block: otherwise strict levels would refuse what the
/// workload expects to pass, each engine at its own point, and none would do the whole work.
fn level_rule(level: u8) -> String {
    format!(
        "SecAction \"id:900001,phase:1,pass,t:none,nolog,setvar:tx.detection_paranoia_level={level}\"\n"
    )
}

/// A blank line before each directive. CRS as the Go module has it has none, and libmodsecurity does
/// not find the end of a chain whose last rule has no actions without one.
fn separated(text: &str) -> String {
    let mut separated = String::with_capacity(text.len() + text.len() / 64);
    for line in text.lines() {
        if line.starts_with("Sec") {
            separated.push('\n');
        }
        separated.push_str(line);
        separated.push('\n');
    }
    separated
}

/// A wrong answer of a peer that is known.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) engine: String,
    /// Ids of requests begin so.
    pub(super) id: String,
    /// This rule is among those that matched.
    pub(super) rule: Option<u64>,
    pub(super) reason: String,
}

/// What `bench/differences.json` lists.
pub(super) fn differences() -> Outcome<Vec<Difference>> {
    let path = cargo::root().join(DIFFERENCES);
    let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let list: Vec<Value> = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{DIFFERENCES}: {error}")))?;
    list.iter().map(difference).collect()
}

fn difference(value: &Value) -> Outcome<Difference> {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let difference = Difference {
        engine: text("engine"),
        id: text("id"),
        rule: value["rule"].as_u64(),
        reason: text("reason"),
    };
    if difference.engine.is_empty() || difference.reason.is_empty() || difference.engine == "glacis"
    {
        return Err(Failure::new(format!(
            "{DIFFERENCES}: a peer and a reason are missing: {value}"
        )));
    }
    Ok(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_line_is_put_before_each_directive() {
        let text = "SecRule A \"b\" \\\n    \"id:1\"\nSecMarker X\n";
        assert_eq!(separated(text), "\nSecRule A \"b\" \\\n    \"id:1\"\n\nSecMarker X\n");
    }

    #[test]
    fn a_short_selection_takes_one_of_many() {
        let lines: Vec<String> = (0..240)
            .map(|number| {
                let class = if number % 2 == 0 { "json" } else { "upload" };
                format!(r#"{{"id":"{number}","class":"{class}","in_mix":true,"expect":"allow"}}"#)
            })
            .collect();
        let count = |short, only| select(&lines, short, only).map(|(_, requests)| requests.len());
        assert_eq!(count(false, None).unwrap(), 240);
        assert_eq!(count(true, None).unwrap(), 24);
        assert_eq!(count(false, Some("js")).unwrap(), 120);
        assert_eq!(select(&lines[..9], true, None).unwrap().1.len(), 9);
        assert!(select(&["nonsense".to_owned()], false, None).is_err());
    }

    #[test]
    fn our_own_wrong_answers_are_never_excused() {
        let of = |text: &str| difference(&serde_json::from_str(text).unwrap());
        assert!(of(r#"{"engine": "coraza", "id": "a", "reason": "r"}"#).is_ok());
        assert!(of(r#"{"engine": "coraza", "id": "a"}"#).is_err());
        assert!(of(r#"{"engine": "glacis", "id": "a", "reason": "r"}"#).is_err());
    }

    #[test]
    fn the_list_of_differences_can_be_read() {
        differences().map_err(|failure| failure.to_string()).unwrap();
    }
}
