//! The table at the end.

use std::time::Duration;

use super::Verdict;

/// All verdicts as a table in Markdown.
pub fn table(verdicts: &[Verdict]) -> String {
    let heading = [
        "scenario",
        "detected in",
        "recovered in",
        "requests",
        "failed",
        "uninspected",
        "blocked wrongly",
        "result",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(verdicts.iter().map(cells));
    let mut widths = [0; 8];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            { row.iter().zip(widths) }.map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        if number == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            text.push_str(&format!("| {} |\n", lines.join(" | ")));
        }
    }
    text
}

fn cells(verdict: &Verdict) -> [String; 8] {
    let time = |time: Option<Duration>| match time {
        Some(time) => format!("{:.2} s", time.as_secs_f64()),
        None => "–".to_owned(),
    };
    [
        verdict.name.clone(),
        time(verdict.detected),
        time(verdict.recovered),
        verdict.requests.to_string(),
        verdict.failed.to_string(),
        verdict.uninspected.to_string(),
        verdict.blocked_wrongly.to_string(),
        if verdict.faults.is_empty() { "ok".to_owned() } else { "FAILED".to_owned() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_a_fault_is_seen() {
        let good = Verdict { name: "good".into(), requests: 7, ..Verdict::default() };
        let detected = Some(Duration::from_millis(640));
        let bad = Verdict {
            name: "a longer name".into(),
            detected,
            faults: vec!["it broke".into()],
            ..Verdict::default()
        };
        let text = table(&[good, bad]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(
            lines.iter().all(|line| line.chars().count() == lines[0].chars().count()),
            "{text}"
        );
        assert!(lines[2].contains("ok") && !lines[2].contains("FAILED"), "{text}");
        assert!(lines[3].contains("0.64 s") && lines[3].contains("FAILED"), "{text}");
    }
}
