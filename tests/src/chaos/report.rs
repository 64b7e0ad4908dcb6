//! The table at the end.

use std::time::Duration;

use super::Verdict;

/// All verdicts as a table in Markdown, and what else was measured.
pub fn report(verdicts: &[Verdict]) -> String {
    let mut text = table(verdicts);
    let mut told = |name: &str, line: &str| text.push_str(&format!("- {name}: {line}\n"));
    verdicts.iter().for_each(|verdict| {
        let lines = verdict.notes.iter().chain(&verdict.faults).chain(&verdict.left_out);
        lines.for_each(|line| told(&verdict.name, line));
    });
    // Between table and list there has to be a line.
    text.replacen("|\n- ", "|\n\n- ", 1)
}

/// All verdicts as a table in Markdown.
fn table(verdicts: &[Verdict]) -> String {
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
        result(verdict).to_owned(),
    ]
}

/// How a scenario ended, in a word.
pub fn result(verdict: &Verdict) -> &'static str {
    match (&verdict.left_out, verdict.faults.is_empty()) {
        (Some(_), _) => "SKIPPED",
        (None, true) => "ok",
        (None, false) => "FAILED",
    }
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

    #[test]
    fn what_was_measured_stands_below() {
        let held =
            Verdict { name: "held".into(), notes: vec!["a MiB".into()], ..Verdict::default() };
        let left_out = Some("no clock".into());
        let out = Verdict { name: "out".into(), left_out, ..Verdict::default() };
        let text = report(&[held, out]);
        assert!(text.ends_with("|\n\n- held: a MiB\n- out: no clock\n"), "{text}");
        assert!(text.contains("SKIPPED"), "{text}");
    }
}
