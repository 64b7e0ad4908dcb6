//! The report of a run: what was seen, in words and pictures.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::plot::plot;
use super::{Judgement, Plan, Seen, Trend, trend};
use crate::failure::{Outcome, io};
use crate::machine::{date, machine};

/// Writes the report and its plots into a folder; returns whether all is well, and the report.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(folder: &Path, plan: &Plan, seen: &Seen) -> Outcome<(bool, String)> {
    fs::create_dir_all(folder).map_err(io("make", folder))?;
    let mut names: BTreeSet<&String> = BTreeSet::new();
    seen.looks.iter().for_each(|look| names.extend(look.values.keys()));
    let mut series = Vec::new();
    for name in names {
        let values: Vec<(f64, f64)> = { seen.looks.iter() }
            .filter_map(|look| Some((look.seconds, *look.values.get(name)?)))
            .collect();
        let file = format!("{}.svg", name.replace(' ', "-"));
        let path = folder.join(&file);
        fs::write(&path, plot(name, &values)).map_err(io("write", &path))?;
        series.push((name.clone(), file, values));
    }
    let judged: Vec<_> = { series.iter() }
        .map(|(name, file, values)| (name.as_str(), file.as_str(), trend(values)))
        .collect();
    // Latency has its own limit, and no leak: what is judged by growth is what a process holds.
    let leaks = judged.iter().filter(|(name, ..)| !name.starts_with("latency"));
    let fails = |trend: &Option<Trend>| trend.is_some_and(|t| t.judgement == Judgement::Fail);
    let leaks = leaks.filter(|(.., trend)| fails(trend)).count();
    let good = leaks == 0 && seen.wrong_count == 0 && seen.uninspected == 0 && seen.requests > 0;
    let text = told(plan, seen, &judged, good);
    let path = folder.join("README.md");
    fs::write(&path, &text).map_err(io("write", &path))?;
    Ok((good, text))
}

fn told(plan: &Plan, seen: &Seen, judged: &[(&str, &str, Option<Trend>)], good: bool) -> String {
    let ms = seen.latency.map(|seconds| seconds * 1e3);
    let share = seen.right as f64 / (seen.requests.max(1)) as f64 * 100.0;
    let mut text = format!(
        "# Soak\n\nMixed traffic with attacks through Envoy, two ext-procs, ext-authz and Redis \
         (`envoy-configs/resilience/`), at {} requests a second whatever the answers, for {:.0} s after {:.0} s \
         of warming up.\nMeasured on {}: {}.\n\n| | |\n|---|---|\n| result | {} |\n| requests | {} ({:.0} a second) |\n\
         | answered as they had to be | {} ({share:.4} %) |\n| wrong verdicts, failures, missing answers | {} |\n\
         | passed uninspected | {} |\n\
         | latency from when a request was due: 50, 95, 99, 99.9 %, worst | {:.1}, {:.1}, {:.1}, {:.1}, {:.1} ms |\n",
        plan.per_second,
        seen.seconds,
        plan.warm_up.as_secs_f64(),
        date(),
        machine(),
        if good { "pass" } else { "FAILED" },
        seen.requests,
        seen.requests as f64 / seen.seconds.max(1e-9),
        seen.right,
        seen.wrong_count,
        seen.uninspected,
        ms[0],
        ms[1],
        ms[2],
        ms[3],
        ms[4],
    );
    if !seen.wrong.is_empty() {
        text.push_str("\nThe first wrong answers:\n\n");
        seen.wrong.iter().for_each(|wrong| text.push_str(&format!("- {wrong}\n")));
    }
    text.push_str(
        "\n## What grows\n\nA straight line through each series: its growth over the run (under 10 % passes, up to \
         20 % is a warning, more fails; up to 2 MiB, files or threads are nothing), how well it fits (R²), and the \
         share of looks that were higher than the one before.\n\n\
         | series | growth | an hour | R² | rising | |\n|---|---|---|---|---|---|\n",
    );
    for (name, _, trend) in judged {
        let Some(trend) = trend else { continue };
        let Trend { slope_per_hour, growth_percent, r_squared, rising, judgement } = trend;
        let judgement = match judgement {
            _ if name.starts_with("latency") => "–",
            Judgement::Pass => "pass",
            Judgement::Warn => "warn",
            Judgement::Fail => "FAIL",
        };
        text.push_str(&format!(
            "| {name} | {growth_percent:.1} % | {slope_per_hour:.1} | {r_squared:.2} | {:.0} % | {judgement} |\n",
            rising * 100.0
        ));
    }
    text.push('\n');
    judged.iter().for_each(|(name, file, _)| text.push_str(&format!("![{name}]({file})\n")));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::soak::Look;

    fn seen(growth: f64, wrong: u64, uninspected: u64) -> Seen {
        let look = |at: u32| {
            let value = 100.0 + growth * f64::from(at);
            let values = [("ext-proc-1 memory MiB".to_owned(), value)].into();
            Look { seconds: f64::from(at), values }
        };
        Seen {
            requests: 10,
            right: 10 - wrong,
            wrong_count: wrong,
            uninspected,
            looks: (0..10).map(look).collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn growth_wrong_answers_and_what_passes_uninspected_fail() -> Outcome<()> {
        let folder = std::env::temp_dir().join(format!("glacis-report-{}", std::process::id()));
        let second = Duration::from_secs(1);
        let plan = Plan { time: second, warm_up: second, per_second: 1 };
        for (seen, good) in [
            (seen(0.0, 0, 0), true),
            (seen(5.0, 0, 0), false),
            (seen(0.0, 1, 0), false),
            (seen(0.0, 0, 1), false),
            (Seen::default(), false),
        ] {
            let (told, text) = write(&folder, &plan, &seen)?;
            assert_eq!(told, good, "{text}");
            assert_eq!(text.contains("FAILED"), !good, "{text}");
        }
        fs::remove_dir_all(&folder).map_err(io("remove", &folder))
    }
}
