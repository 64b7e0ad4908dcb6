//! The chart's README: a text of ours around a table of the values.

use std::fs;
use std::path::Path;

use super::{compare as compare_file, values};
use crate::failure::{self, Failure, Outcome};

const BEGIN: &str = "<!-- values: made of values.yaml -->\n";
const END: &str = "<!-- end of values -->\n";

pub(super) fn compare(chart: &Path, write: bool) -> Outcome<Vec<String>> {
    let path = chart.join("README.md");
    let there = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let cut =
        there.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = cut else {
        return Err(Failure::new(format!("{}: the marks of the table are gone", path.display())));
    };
    let table = table(chart)?;
    let text = format!("{before}{BEGIN}{table}{END}{after}");
    Ok(compare_file(&path, &text, write)?.into_iter().collect())
}

fn table(chart: &Path) -> Outcome<String> {
    let values = values::read(&chart.join("values.yaml"))?;
    let mut table = String::from("| value | default | meaning |\n|---|---|---|\n");
    for value in values.iter().filter(|value| value.about.is_some()) {
        let default = if value.is_group {
            "see `values.yaml`".to_owned()
        } else {
            format!("`{}`", value.default)
        };
        let about = value.about.as_deref().unwrap_or_default();
        table.push_str(&format!("| `{}` | {default} | {about} |\n", value.path));
    }
    Ok(table)
}
