//! What came of the tests, for people and as JSON.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Serialize;

use super::{
    Log, Observed,
    check::Judgement,
    overrides::Override,
    suite::{Suite, Test},
};

/// What came of a test.
#[derive(Debug)]
pub(crate) enum Verdict {
    Passed,
    Failed(Failure),
    /// With the reason.
    Skipped(String),
}

/// A test that failed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Failure {
    test: String,
    file: String,
    /// Counted from 1.
    pub(crate) stage: usize,
    expected: String,
    status: u16,
    matched: Vec<u32>,
}

/// A test that was skipped.
#[derive(Debug, Serialize)]
struct Skip {
    test: String,
    reason: String,
}

/// Counts of a file.
#[derive(Debug, Default, Serialize)]
struct Counts {
    total: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
    overridden: usize,
}

/// All that came of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    total: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
    overridden: usize,
    failures: Vec<Failure>,
    skips: Vec<Skip>,
    files: BTreeMap<String, Counts>,
}

/// The verdict over a stage.
pub(crate) fn verdict(judgement: Judgement, observed: &Observed) -> Verdict {
    match judgement {
        Judgement::Right => Verdict::Passed,
        Judgement::Unknown(reason) => Verdict::Skipped(reason),
        Judgement::Wrong(expected) => Verdict::Failed(Failure {
            expected,
            status: observed.status,
            matched: match &observed.log {
                Log::Entries(entries) => entries.iter().map(|entry| entry.id).collect(),
                Log::Unknown | Log::Missing => Vec::new(),
            },
            ..Failure::default()
        }),
    }
}

/// The verdict over a test that passes as it is written, although there is an override of it.
pub(crate) fn needless(stages: usize) -> Verdict {
    let expected = "no override: the test passes as it is written".to_owned();
    Verdict::Failed(Failure { stage: stages, expected, ..Failure::default() })
}

impl Report {
    /// Counts a test.
    pub(crate) fn add(
        &mut self,
        suite: &Suite,
        test: &Test,
        exception: Option<&Override>,
        verdict: Verdict,
    ) {
        let counts = self.files.entry(suite.file.clone()).or_default();
        self.total += 1;
        counts.total += 1;
        self.overridden += usize::from(exception.is_some());
        counts.overridden += usize::from(exception.is_some());
        match verdict {
            Verdict::Passed => {
                counts.passed += 1;
                self.passed += 1;
            }
            Verdict::Failed(mut failure) => {
                counts.failed += 1;
                self.failed += 1;
                failure.test.clone_from(&test.name);
                failure.file.clone_from(&suite.file);
                self.failures.push(failure);
            }
            Verdict::Skipped(reason) => {
                counts.skipped += 1;
                self.skipped += 1;
                self.skips.push(Skip { test: test.name.clone(), reason });
            }
        }
    }

    /// Whether any test failed.
    pub(crate) const fn failed(&self) -> bool {
        self.failed > 0
    }

    /// Writes the report.
    pub(crate) fn write(&self, out: &mut impl Write, json: bool) -> io::Result<()> {
        if json {
            serde_json::to_writer(&mut *out, self)?;
            return writeln!(out);
        }
        for skip in &self.skips {
            writeln!(out, "skipped {}: {}", skip.test, skip.reason)?;
        }
        for failure in &self.failures {
            let Failure { test, file, stage, expected, status, matched } = failure;
            writeln!(out, "FAILED {test} ({file}, stage {stage})")?;
            writeln!(out, "    expected {expected}")?;
            writeln!(out, "    status {status}, matched {matched:?}")?;
        }
        let Self { total, passed, failed, skipped, overridden, .. } = self;
        writeln!(
            out,
            "{passed} of {total} passed, {failed} failed, {skipped} skipped; {overridden} overridden"
        )
    }
}
