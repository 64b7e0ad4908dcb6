//! What the chart makes of each file of values, on file.

use std::fs;
use std::path::PathBuf;

use super::{Helm, compare as compare_file};
use crate::failure::{self, Outcome};

/// Compares `tests/golden/NAME.yaml`, or writes it.
pub(super) fn compare(helm: &Helm, values: &[PathBuf], write: bool) -> Outcome<Vec<String>> {
    let mut differences = Vec::new();
    for file in values {
        let name = file.file_name().unwrap_or_default().to_string_lossy().replace(".values", "");
        let rendered = helm.template(&["--values", &file.to_string_lossy()])?;
        let text = without_files(helm, &tidy(&rendered))?;
        differences.extend(compare_file(
            &helm.chart.join("tests/golden").join(name),
            &text,
            write,
        )?);
    }
    Ok(differences)
}

/// Without white space at the ends of lines and without empty lines.
pub(super) fn tidy(rendered: &str) -> String {
    let lines = rendered.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

/// With the name of a dashboard instead of its text: that is a file of its own.
fn without_files(helm: &Helm, rendered: &str) -> Outcome<String> {
    let folder = helm.chart.join("dashboards");
    let mut text = rendered.to_owned();
    for entry in fs::read_dir(&folder).map_err(failure::io("list", &folder))? {
        let path = entry.map_err(failure::io("list", &folder))?.path();
        let dashboard = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
        let indented: String = dashboard.lines().map(|line| format!("    {line}\n")).collect();
        let name = path.file_name().unwrap_or_default().display();
        text = text.replace(&indented, &format!("    (the file dashboards/{name})\n"));
    }
    Ok(text)
}
