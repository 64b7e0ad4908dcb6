//! Tables, CSV and plots of what was seen.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Results;
use super::measure::Row;
use super::plot;
use crate::failure::{Outcome, io};

/// Writes `NAME.md`, `NAME.csv` and the plots into a folder, and returns the table.
///
/// # Errors
///
/// If they cannot be written.
pub fn write(folder: &Path, name: &str, results: &Results, about: &str) -> Outcome<String> {
    fs::create_dir_all(folder).map_err(io("make", folder))?;
    let table = markdown(results, about);
    let rows = &results.rows;
    let mut files = vec![(format!("{name}.md"), table.clone()), (format!("{name}.csv"), csv(rows))];
    for (number, part) in results.definition.parts.iter().enumerate() {
        let of_part: Vec<&Row> = rows.iter().filter(|row| row.part == part.name).collect();
        // A point of a curve is in the plot of its curve.
        if !of_part.is_empty() && part.curve.is_none() {
            let title = format!("{}: {}", results.definition.title, part.name);
            files.push((format!("{name}-{number}-latency.svg"), plot::latency(&title, &of_part)));
            files.push((format!("{name}-{number}-cpu.svg"), plot::cpu(&title, &of_part)));
        }
    }
    for (curve, points) in curves(rows) {
        let file = curve.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        files.push((format!("{name}-curve-{file}.svg"), plot::curve(&curve, &points)));
    }
    for (file, text) in files {
        let path = folder.join(file);
        fs::write(&path, text).map_err(io("write", &path))?;
    }
    Ok(table)
}

/// The points of each curve.
fn curves(rows: &[Row]) -> BTreeMap<String, Vec<(f64, &Row)>> {
    let mut curves: BTreeMap<String, Vec<(f64, &Row)>> = BTreeMap::new();
    for row in rows {
        if let Some((curve, at)) = &row.curve {
            curves.entry(curve.clone()).or_default().push((*at, row));
        }
    }
    curves
}

fn markdown(results: &Results, about: &str) -> String {
    let Results { definition, rows, without } = results;
    let mut text = format!("# {}\n\n{about}\n", definition.title);
    for part in &definition.parts {
        let of_part: Vec<&Row> = rows.iter().filter(|row| row.part == part.name).collect();
        if of_part.is_empty() {
            continue;
        }
        text.push_str(&format!("\n## {}\n\n{HEAD}", part.name));
        for row in &of_part {
            // Ratios are to the first stack under the same load.
            let first = of_part.iter().find(|other| other.load() == row.load()).unwrap_or(row);
            text.push_str(&line(row, first));
        }
    }
    text.push_str(NOTES);
    let wrong: Vec<String> = rows.iter().filter_map(wrong).collect();
    text.push_str(&list("Wrong answers", &wrong));
    text.push_str(&list("Not measured", without));
    text
}

fn list(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "\n{title}:\n\n{}\n",
        lines.iter().map(|line| format!("- {line}\n")).collect::<String>()
    )
}

/// What was answered wrongly, by kind of request.
fn wrong(row: &Row) -> Option<String> {
    let kinds = row.wrong.iter().map(|((class, expected, seen), count)| {
        format!("{count} of `{class}` with {seen} (not {expected})")
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let (stack, part, load) = (&row.stack, &row.part, row.load());
    (!kinds.is_empty()).then(|| format!("{stack}, {part}, {load}, by {}: {kinds}", row.tool))
}

const HEAD: &str = "| stack | load | by | req/s | mean ms | p50 ms | p99 ms | max ms | CPU us each | req/s per CPU | \
                    CPU us, most RSS MiB | mean, CPU to the first | turned away (p99 ms) | wrong, broken, unsent | client us |\n\
                    |---|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|\n";

const NOTES: &str = "\nWhat a request took is counted from when it was due; without those that were turned away (503, 504), which \
                     are counted apart. CPU time and memory (the most so far) are those of the proxy and of what it asks, without \
                     upstream and client; the client's CPU time has its own column. A rate that was not held has a star.\n";

fn line(row: &Row, first: &Row) -> String {
    let processes = row
        .measured()
        .map(|it| format!("{} {:.0}, {}", it.process, row.us_each(it), it.rss_peak >> 20));
    let shed = match row.shed {
        0 => "–".to_owned(),
        shed => format!("{shed} ({:.1})", row.shed_p99_ms),
    };
    let known = |number: Option<String>| number.unwrap_or_else(|| "–".to_owned());
    let cpu_ratio = first.per_cpu().map(|first| format!("{:.2}", row.cpu_us() * first / 1e6));
    format!(
        "| {} | {}{} | {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} | {} | {} | {:.2}, {} | {shed} | {}, {}, {} | {:.0} |\n",
        row.stack,
        row.load(),
        if row.held { "" } else { " *" },
        row.tool,
        row.per_second,
        row.mean_ms,
        row.p50_ms,
        row.p99_ms,
        row.max_ms,
        row.cpu_us(),
        known(row.per_cpu().map(|requests| format!("{requests:.0}"))),
        processes.collect::<Vec<_>>().join("; "),
        row.mean_ms / first.mean_ms.max(1e-6),
        known(cpu_ratio),
        row.wrong.values().sum::<u64>(),
        row.broken,
        row.unsent,
        row.client_us,
    )
}

/// The names of the columns, which [`super::sizing`] reads.
pub(super) const COLUMNS: &str = "part,curve,at,stack,tool,connections,rate,held,answered,per_second,mean_ms,p50_ms,p90_ms,\
                                  p99_ms,max_ms,cpu_us,client_us,shed,shed_p99_ms,wrong,broken,unsent,start_seconds,processes";

pub(super) fn csv(rows: &[Row]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for row in rows {
        let processes = row
            .used
            .iter()
            .map(|it| format!("{}:{:.1}us:{}KiB", it.process, row.us_each(it), it.rss_peak >> 10));
        let (curve, at) = row.curve.clone().unzip();
        let fields = [
            format!("\"{}\"", row.part),
            curve.unwrap_or_default(),
            at.map(|at| at.to_string()).unwrap_or_default(),
            row.stack.clone(),
            row.tool.to_owned(),
            row.connections.to_string(),
            row.rate.map(|rate| format!("{rate:.1}")).unwrap_or_default(),
            row.held.to_string(),
            row.answered.to_string(),
            format!("{:.1}", row.per_second),
            format!("{:.3}", row.mean_ms),
            format!("{:.3}", row.p50_ms),
            format!("{:.3}", row.p90_ms),
            format!("{:.3}", row.p99_ms),
            format!("{:.3}", row.max_ms),
            format!("{:.1}", row.cpu_us()),
            format!("{:.1}", row.client_us),
            row.shed.to_string(),
            format!("{:.3}", row.shed_p99_ms),
            row.wrong.values().sum::<u64>().to_string(),
            row.broken.to_string(),
            row.unsent.to_string(),
            format!("{:.2}", row.start_seconds),
            processes.collect::<Vec<_>>().join(" "),
        ];
        text.push_str(&(fields.join(",") + "\n"));
    }
    text
}
