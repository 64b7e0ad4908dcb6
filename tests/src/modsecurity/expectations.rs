//! The expectations file: each case that does not pass, with the decision behind the difference.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::case::Case;
use crate::failure::{Failure, Outcome, doing, io};

/// Cases that differ for one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Why they differ, as a sentence.
    pub reason: String,
    /// A pattern for the log of [`super::log`] in place of those for ModSecurity's logs. With it the cases must pass.
    pub log: Option<String>,
    /// A pattern that this log must not have; as [`Self::log`] otherwise.
    pub without: Option<String>,
    /// Ids of cases: `FILE.json#1`, `FILE.json#1-3`.
    pub cases: Vec<String>,
}

/// The file.
#[derive(Debug)]
pub struct Expectations {
    entries: Vec<Entry>,
    by_case: BTreeMap<String, usize>,
}

impl Entry {
    /// Whether the cases pass by other patterns.
    #[must_use]
    pub const fn is_reworded(&self) -> bool {
        self.log.is_some() || self.without.is_some()
    }
}

impl Expectations {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or lists a case twice.
    pub fn read(path: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(path).map_err(io("read", path))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Outcome<Self> {
        let entries: Vec<Entry> =
            serde_saphyr::from_str(text).map_err(doing("read the expectations"))?;
        let mut by_case = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            for case in entry.cases.iter().flat_map(|written| ids(written)) {
                if let Some(case) = by_case.insert(case.clone(), at).map(|_| case) {
                    return Err(Failure::new(format!("the expectations list {case} twice")));
                }
            }
        }
        Ok(Self { entries, by_case })
    }

    /// What is on file of a case.
    #[must_use]
    pub fn of(&self, case: &str) -> Option<&Entry> {
        self.entries.get(*self.by_case.get(case)?)
    }

    /// All entries, in their order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Cases that are listed and not in the suite.
    pub fn unknown<'e>(&'e self, cases: &'e [&Case]) -> impl Iterator<Item = &'e str> {
        let listed = self.by_case.keys().map(String::as_str);
        listed.filter(|id| !cases.iter().any(|case| case.id == *id))
    }
}

/// The cases that `FILE.json#1-3` names.
fn ids(written: &str) -> Vec<String> {
    let range = written.rsplit_once('#').and_then(|(file, numbers)| {
        let (first, last) = numbers.split_once('-')?;
        Some((file, first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    match range {
        Some((file, first, last)) => (first..=last).map(|at| format!("{file}#{at}")).collect(),
        None => vec![written.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cases_and_none_is_listed_twice() {
        let read = |cases: &str| {
            Expectations::parse(&format!("- reason: It is so.\n  cases: [{cases}]\n"))
        };
        let listed = read("a.json#2-4, b.json#1").unwrap();
        let ids: Vec<&str> = listed.unknown(&[]).collect();
        assert_eq!(ids, ["a.json#2", "a.json#3", "a.json#4", "b.json#1"]);
        assert!(listed.of("a.json#3").is_some());
        assert!(listed.of("a.json#5").is_none());
        assert!(read("a.json#1-3, a.json#2").is_err());
    }
}
