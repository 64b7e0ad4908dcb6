//! Tables and CSV of what was seen.

use std::fs;
use std::path::Path;

use super::definition::Definition;
use super::measure::Row;
use super::plot;
use crate::failure::{Outcome, io};

/// Writes `NAME.md`, `NAME.csv` and the plots into a folder, and returns the table.
///
/// # Errors
///
/// If they cannot be written.
pub fn write(
    folder: &Path,
    name: &str,
    definition: &Definition,
    rows: &[Row],
    about: &str,
) -> Outcome<String> {
    fs::create_dir_all(folder).map_err(io("make", folder))?;
    let table = markdown(definition, rows, about);
    let mut files = vec![(format!("{name}.md"), table.clone()), (format!("{name}.csv"), csv(rows))];
    for (number, part) in definition.parts.iter().enumerate() {
        let of_part: Vec<&Row> = rows.iter().filter(|row| row.part == part.name).collect();
        if !of_part.is_empty() {
            let title = format!("{}: {}", definition.title, part.name);
            files.push((format!("{name}-{number}-latency.svg"), plot::latency(&title, &of_part)));
            files.push((format!("{name}-{number}-cpu.svg"), plot::cpu(&title, &of_part)));
        }
    }
    for (file, text) in files {
        let path = folder.join(file);
        fs::write(&path, text).map_err(io("write", &path))?;
    }
    Ok(table)
}

fn markdown(definition: &Definition, rows: &[Row], about: &str) -> String {
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
    text
}

const HEAD: &str = "| stack | load | req/s | mean ms | p50 ms | p99 ms | max ms | CPU us each | req/s per CPU | \
                    RSS MiB | mean, CPU to the first | wrong, broken, unsent | client us |\n\
                    |---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|\n";

const NOTES: &str = "\nWhat a request took is counted from when it was due. CPU time and memory (the most so far) are those of the \
                     proxy and of what it asks, without upstream and client; the client's CPU time has its own column. \
                     A rate that was not held has a star.\n";

fn line(row: &Row, first: &Row) -> String {
    let memory = row.measured().map(|it| format!("{} {}", it.process, it.rss_peak >> 20));
    format!(
        "| {} | {}{} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} | {:.0} | {} | {:.2}, {:.2} | {}, {}, {} | {:.0} |\n",
        row.stack,
        row.load(),
        if row.held { "" } else { " *" },
        row.per_second,
        row.mean_ms,
        row.p50_ms,
        row.p99_ms,
        row.max_ms,
        row.cpu_us(),
        row.per_cpu(),
        memory.collect::<Vec<_>>().join(", "),
        row.mean_ms / first.mean_ms.max(1e-6),
        row.cpu_us() / first.cpu_us().max(1e-6),
        row.wrong.values().sum::<u64>(),
        row.broken,
        row.unsent,
        row.client_us,
    )
}

fn csv(rows: &[Row]) -> String {
    let mut text = "part,stack,connections,rate,held,answered,per_second,mean_ms,p50_ms,p90_ms,p99_ms,max_ms,cpu_us,\
                    client_us,wrong,broken,unsent,processes\n"
        .to_owned();
    for row in rows {
        let processes = row.used.iter().map(|it| {
            let us = it.cpu_seconds * 1e6 / row.answered.max(1) as f64;
            format!("{}:{us:.1}us:{}KiB", it.process, it.rss_peak >> 10)
        });
        text.push_str(&format!(
            "\"{}\",{},{},{},{},{},{:.1},{:.3},{:.3},{:.3},{:.3},{:.3},{:.1},{:.1},{},{},{},{}\n",
            row.part,
            row.stack,
            row.connections,
            row.rate.map(|rate| rate.to_string()).unwrap_or_default(),
            row.held,
            row.answered,
            row.per_second,
            row.mean_ms,
            row.p50_ms,
            row.p90_ms,
            row.p99_ms,
            row.max_ms,
            row.cpu_us(),
            row.client_us,
            row.wrong.values().sum::<u64>(),
            row.broken,
            row.unsent,
            processes.collect::<Vec<_>>().join(" "),
        ));
    }
    text
}
