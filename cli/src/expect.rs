//! `glacis eval --expect`: verdicts compared with those that are wanted.

use std::{fs, path::Path};

use serde::Deserialize;

use crate::output::{self, Fault};

/// Bytes of a file of expectations.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Differences that are printed.
const NAMED_MAX: usize = 20;

/// Whether a request is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Blocked,
    Passed,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Passed => "passed",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        [Self::Blocked, Self::Passed].into_iter().find(|verdict| verdict.name() == name)
    }
}

/// The fields of an answer that expectations compare.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    id: serde_json::Value,
    #[serde(default)]
    action: Option<String>,
    #[serde(default)]
    matched: Vec<Matched>,
}

#[derive(Deserialize)]
struct Matched {
    id: u32,
}

impl Answer {
    fn verdict(&self) -> Option<Verdict> {
        match self.action.as_deref() {
            Some("allow") => Some(Verdict::Passed),
            Some(_) => Some(Verdict::Blocked),
            None => None,
        }
    }
}

/// The expected verdicts, and how many answers differ from them so far.
#[derive(Debug)]
pub(crate) struct Expected {
    /// One for each request; a single one is for all.
    wanted: Vec<Verdict>,
    is_for_all: bool,
    seen: usize,
    differences: usize,
}

impl Expected {
    /// Reads the value of `--expect`.
    ///
    /// # Errors
    /// When the file cannot be read, or a line in it is no verdict.
    pub(crate) fn read(value: &str) -> Result<Self, Fault> {
        let (wanted, is_for_all) = match Verdict::of_name(value) {
            Some(verdict) => (vec![verdict], true),
            None => (of_file(Path::new(value))?, false),
        };
        Ok(Self { wanted, is_for_all, seen: 0, differences: 0 })
    }

    /// Compares one answer with what is wanted.
    pub(crate) fn compare(&mut self, answer: &[u8]) {
        let index = if self.is_for_all { 0 } else { self.seen };
        self.seen += 1;
        let Some(wanted) = self.wanted.get(index) else { return };
        let Ok(answer) = serde_json::from_slice::<Answer>(answer) else { return };
        let found = answer.verdict();
        if found == Some(*wanted) {
            return;
        }
        self.differences += 1;
        if self.differences <= NAMED_MAX {
            let rules: Vec<String> =
                answer.matched.iter().map(|rule| rule.id.to_string()).collect();
            let rules = if rules.is_empty() { "none".to_owned() } else { rules.join(" ") };
            output::remark(format_args!(
                "request {} (id {}): expected {}, is {}; matched rules: {rules}",
                self.seen,
                answer.id,
                wanted.name(),
                found.map_or("no request", Verdict::name),
            ));
        }
    }

    /// Whether anything differs; prints how much.
    pub(crate) fn finish(mut self) -> bool {
        if !self.is_for_all && self.wanted.len() != self.seen {
            let (wanted, seen) = (self.wanted.len(), self.seen);
            output::remark(format_args!("{wanted} verdicts are expected, of {seen} requests"));
            self.differences += 1;
        } else if self.differences > 0 {
            let (differences, seen) = (self.differences, self.seen);
            output::remark(format_args!("{differences} of {seen} verdicts differ"));
        }
        self.differences > 0 || self.seen == 0
    }
}

fn of_file(path: &Path) -> Result<Vec<Verdict>, Fault> {
    let fault = |error: String| Fault::Input(format!("{}: {error}", path.display()));
    let size = fs::metadata(path).map_err(|error| fault(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fault(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let verdict = |(index, line): (usize, &str)| {
        let line = line.trim();
        let answer = || serde_json::from_str::<Answer>(line).ok()?.verdict();
        let wrong = || {
            fault(format!(
                "line {}: write blocked, passed, or an answer of `glacis eval`",
                index + 1
            ))
        };
        Verdict::of_name(line).or_else(answer).ok_or_else(wrong)
    };
    lines.map(verdict).collect()
}
