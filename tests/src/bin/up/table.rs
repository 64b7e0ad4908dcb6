//! The results as a table for a terminal.

use crate::rows::Finding;

const HEAD: [&str; 5] = ["request", "sent", "answer", "by", "why"];

/// A line for each result; one that was not expected begins with `!`.
pub(crate) fn of(results: &[Finding]) -> String {
    let mut lines = vec![(' ', HEAD.map(str::to_owned))];
    lines.extend(results.iter().map(|result| (mark(result), cells(result))));
    let mut widths = [0; HEAD.len()];
    for (_, cells) in &lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    lines.iter().map(|(mark, cells)| format!("{mark} {}\n", line(cells, &widths))).collect()
}

fn mark(result: &Finding) -> char {
    if result.is_good() { ' ' } else { '!' }
}

fn cells(result: &Finding) -> [String; HEAD.len()] {
    [
        result.name.to_owned(),
        result.sent.to_owned(),
        result.answer.clone(),
        result.by.to_owned(),
        result.why.clone(),
    ]
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}
