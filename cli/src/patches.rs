//! `glacis patches`: virtual patches as rules, or for the wasm-filter.

use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use glacis_limits::patch::Patch;
use serde_json::Value;

use crate::arguments::{PatchForm, PatchesOptions};
use crate::output::{self, Fault, Outcome};

/// Prints the patches of all files; those that have expired are named and left out.
pub(crate) fn run(options: &PatchesOptions) -> Result<Outcome, Fault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let (mut rules, mut values) = (String::new(), Vec::new());
    for file in &options.files {
        for mut value in read(file)? {
            let patch = Patch::read(&value)
                .map_err(|error| fault(file, format_args!("{}: {error}", value["id"])))?;
            if !patch.holds(now) {
                output::remark(format_args!("{} has expired and is left out", patch.id));
                continue;
            }
            rules.push_str(&patch.to_seclang());
            // What is only for people and tests is no use to the filter.
            if let Some(fields) = value.as_object_mut() {
                fields.retain(|name, _| name != "tests" && name != "note");
            }
            values.push(value);
        }
    }
    let mut out = output::results();
    match options.form {
        PatchForm::Seclang => out.write_all(rules.as_bytes())?,
        PatchForm::Filter => writeln!(out, "{}", Value::Array(values))?,
    }
    out.flush()?;
    Ok(Outcome::Clean)
}

fn read(file: &Path) -> Result<Vec<Value>, Fault> {
    let text = std::fs::read_to_string(file).map_err(|error| fault(file, error))?;
    serde_saphyr::from_str(&text).map_err(|error| fault(file, error))
}

fn fault(file: &Path, problem: impl std::fmt::Display) -> Fault {
    Fault::Input(format!("{}: {problem}", file.display()))
}
