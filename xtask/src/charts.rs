//! `cargo xtask charts`: what can be said of the chart, its dashboards and its alerts without a cluster.
//!
//! The chart is rendered with each file of values in `charts/glacis/tests/` and compared with what is on file there;
//! `envoy-configs/` has the same objects for people without Helm. `--write` renews both, and the chart's README.

mod attach;
pub(crate) mod commands;
mod incidents;
mod metrics;
mod notes;
mod readme;
mod refusals;
mod render;
mod schema;
mod stored;
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, output};
use crate::failure::{self, Failure, Outcome};
use crate::fetch;

/// The chart, from the top folder.
const CHART: &str = "charts/glacis";

/// The tests of the alerts for promtool, from the chart.
const ALERT_TESTS: [&str; 2] = ["tests/alerts_test.yaml", "tests/breaker_test.yaml"];

/// `cargo xtask charts`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--write"])?;
    let remark = check(flags.contains(&"--write"))?;
    remark.iter().for_each(|remark| println!("{remark}"));
    Ok(())
}

/// Returns what was left out, if anything was.
pub(crate) fn check(write: bool) -> Outcome<Option<String>> {
    metrics::check(&cargo::root())?;
    incidents::check(&cargo::root())?;
    let promtool = fetch::debian::program("promtool", "prometheus")?;
    let left_out = match &promtool {
        Ok(promtool) => alerts(promtool).map(|()| None)?,
        Err(why) => Some(format!("SKIPPED: the alerts were not tried with promtool ({why})")),
    };
    let programs = match fetch::helm::ensure()? {
        Ok(programs) => programs,
        Err(why) => return Ok(Some(format!("SKIPPED: the chart was not rendered ({why})"))),
    };
    let helm = Helm { program: programs.join("helm"), chart: cargo::root().join(CHART) };
    if write {
        schema::renew(&helm.chart)?;
    }
    let values = values::test_files(&helm.chart)?;
    for file in &values {
        helm.lint(file)?;
    }
    refusals::check(&helm)?;
    notes::check(&helm)?;
    let commands = commands::check(&helm)?;
    values::check(&helm.chart, &values)?;
    let mut differences = readme::compare(&helm.chart, write)?;
    differences.extend(render::compare(&helm, &values, write)?);
    differences.extend(attach::compare(&helm, write)?);
    if differences.is_empty() {
        println!(
            "{CHART}: {} files of values, {commands} commands and values of documents",
            values.len()
        );
        return Ok(left_out);
    }
    let told = differences.join("\n");
    Err(Failure::new(format!(
        "{told}\n`cargo xtask charts --write` renews them; read the difference"
    )))
}

/// Whether Helm takes an archive for a chart that can be rendered; returns what was left out, if Helm is not there.
pub(crate) fn is_a_package(archive: &Path) -> Outcome<Option<String>> {
    let programs = match fetch::helm::ensure()? {
        Ok(programs) => programs,
        Err(why) => return Ok(Some(format!("SKIPPED: the chart's package was not tried ({why})"))),
    };
    let mut helm = Command::new(programs.join("helm"));
    output(helm.args(["template", "glacis", "--namespace", "glacis"]).arg(archive))?;
    Ok(None)
}

fn alerts(promtool: &Path) -> Outcome<()> {
    let chart = cargo::root().join(CHART);
    for entry in fs::read_dir(chart.join("alerts")).map_err(failure::io("list", &chart))? {
        let file = entry.map_err(failure::io("list", &chart))?.path();
        output(Command::new(promtool).args(["check", "rules"]).arg(file))?;
    }
    for tests in ALERT_TESTS {
        output(Command::new(promtool).args(["test", "rules"]).arg(chart.join(tests)))?;
    }
    Ok(())
}

/// Helm, and the chart that it renders.
struct Helm {
    program: PathBuf,
    chart: PathBuf,
}

impl Helm {
    fn lint(&self, values: &Path) -> Outcome<()> {
        let mut helm = Command::new(&self.program);
        helm.args(["lint", "--strict", "--quiet", "--values"]).arg(values).arg(&self.chart);
        output(&mut helm).map(|_| ())
    }

    /// The objects as `helm template` prints them, with further arguments.
    fn template(&self, arguments: &[&str]) -> Outcome<String> {
        let mut helm = Command::new(&self.program);
        helm.args(["template", "glacis"]).arg(&self.chart).current_dir(cargo::root());
        output(helm.args(["--namespace", "glacis"]).args(arguments))
    }
}

/// Compares a text with a file that is made of it, or writes the file.
fn compare(path: &Path, text: &str, write: bool) -> Outcome<Option<String>> {
    let there = fs::read_to_string(path).unwrap_or_default();
    if there == text {
        return Ok(None);
    }
    if write {
        let folder = path.parent().unwrap_or(path);
        fs::create_dir_all(folder).map_err(failure::io("create", folder))?;
        fs::write(path, text).map_err(failure::io("write", path))?;
        println!("{} is renewed", path.display());
        return Ok(None);
    }
    let line = there.lines().zip(text.lines()).take_while(|(old, new)| old == new).count() + 1;
    Ok(Some(format!("{}: not what is made of it now, from line {line} on", path.display())))
}
