//! The page of results.

use std::fmt::Write as _;

use super::case::Case;
use super::expectations::{Entry, Expectations};
use super::judge::Judged;

/// How many cases there are of each kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// As ModSecurity has it.
    pub passes: usize,
    /// So, with another pattern for a log.
    pub reworded: usize,
    /// Otherwise, for a reason on file.
    pub differs: usize,
    /// Otherwise, or on file for nothing.
    pub wrong: usize,
}

impl Counts {
    /// Counts them.
    #[must_use]
    pub fn of(judged: &[(Case, Judged)]) -> Self {
        let mut counts = Self::default();
        for (_, judged) in judged {
            *match judged {
                Judged::Passes => &mut counts.passes,
                Judged::PassesReworded => &mut counts.reworded,
                Judged::Differs => &mut counts.differs,
                Judged::Wrong(_) => &mut counts.wrong,
            } += 1;
        }
        counts
    }
}

/// The page, in Markdown.
#[must_use]
pub fn page(version: &str, judged: &[(Case, Judged)], expectations: &Expectations) -> String {
    let Counts { passes, reworded, differs, wrong } = Counts::of(judged);
    let all = judged.len();
    let mut page = format!(
        "# ModSecurity's regression suite\n\n\
         `cargo xtask modsecurity-suite --write-report` makes this page; do not edit it.\n\
         The command plays the regression suite of ModSecurity {version} through the engine in one process, \
         and compares status, redirect, rejected rules and logs.\n\
         [`tests/src/modsecurity.rs`](../../tests/src/modsecurity.rs) says how, and \
         [`tests/modsecurity/expectations.yaml`](../../tests/modsecurity/expectations.yaml) lists each difference.\n\n\
         | cases | count |\n|---|---:|\n\
         | pass | {passes} |\n\
         | pass, with another pattern in place of a message of ModSecurity's logs | {reworded} |\n\
         | differ, for a reason below | {differs} |\n"
    );
    if wrong > 0 {
        let _ = writeln!(page, "| wrong | {wrong} |");
    }
    let _ = writeln!(page, "| **all** | {all} |");
    let is_reworded = |entry: &&Entry| entry.is_reworded();
    let (reworded, differ): (Vec<_>, Vec<_>) = expectations.entries().iter().partition(is_reworded);
    page.push_str("\n## Cases that differ\n\n");
    table(&mut page, &differ);
    page.push_str(
        "\n## Cases that pass with another pattern\n\n\
         These cases look for messages of ModSecurity's debug log. The state that a message is about is compared instead.\n\n",
    );
    table(&mut page, &reworded);
    page
}

fn table(page: &mut String, entries: &[&Entry]) {
    page.push_str("| reason | cases |\n|---|---|\n");
    for entry in entries {
        let mut cases = entry.cases.clone();
        cases.sort();
        let _ = writeln!(page, "| {} | {} |", entry.reason.trim(), cases.join(", "));
    }
}
