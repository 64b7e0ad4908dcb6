//! How often each typed exclusion of a profile has applied: those that never do can go.
//!
//! Counted are exclusions with a condition (`path`, `hosts`, `values`), by requests in which their condition holds: whether
//! a rule would have matched without them is not known without evaluating it. One without a condition has no run time
//! trace, as it changes the rules when they are compiled; GD106 and GD211 look at those.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use glacis_engine::RuleId;
use glacis_rules::{EXCLUSION_ID_MIN, EXCLUSION_VALUES_ID_MIN, Exclusion};
use serde::Serialize;

/// Exclusions that have never applied and are listed for one profile; the others are counted.
const LISTED_MAX: usize = 16;

/// Characters of the description of one.
const ABOUT_MAX: usize = 200;

/// The counters of one profile.
#[derive(Debug, Default)]
pub(crate) struct ExclusionCounts(Vec<Counted>);

#[derive(Debug)]
struct Counted {
    exclusion: Exclusion,
    /// Since when it is counted, in seconds since 1970.
    since: AtomicU64,
    count: AtomicU64,
}

/// Exclusions that have never applied.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Unapplied {
    /// All of them.
    count: usize,
    /// The first ones.
    listed: Vec<UnappliedExclusion>,
}

/// An exclusion that has never applied.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct UnappliedExclusion {
    about: String,
    /// Since when it is counted, in seconds since 1970.
    since: u64,
}

impl ExclusionCounts {
    /// Zero for each exclusion, in the order in which they were made rules.
    pub(crate) fn new(exclusions: &[Exclusion], now: Duration) -> Self {
        let counted = |exclusion: &Exclusion| Counted {
            exclusion: exclusion.clone(),
            since: AtomicU64::new(now.as_secs()),
            count: AtomicU64::new(0),
        };
        Self(exclusions.iter().map(counted).collect())
    }

    /// Counts a request in which these rules have taken rules or targets from others. A rule may be named several times.
    pub(crate) fn count(&self, rules: impl Iterator<Item = RuleId>) {
        let mut last = None;
        for rule in
            rules.filter(|rule| (EXCLUSION_ID_MIN..EXCLUSION_VALUES_ID_MIN).contains(&rule.0))
        {
            let position = usize::try_from(rule.0 - EXCLUSION_ID_MIN).unwrap_or(usize::MAX);
            if last != Some(position)
                && let Some(counted) = self.0.get(position)
            {
                counted.count.fetch_add(1, Ordering::Relaxed);
            }
            last = Some(position);
        }
    }

    /// Goes on with what was counted for the same exclusions before a reload.
    pub(crate) fn continue_from(&self, before: &Self) {
        for counted in &self.0 {
            if let Some(same) = before.0.iter().find(|it| it.exclusion == counted.exclusion) {
                counted.since.store(same.since.load(Ordering::Relaxed), Ordering::Relaxed);
                counted.count.store(same.count.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// The exclusions that have never applied.
    pub(crate) fn unapplied(&self) -> Unapplied {
        let never = |counted: &&Counted| {
            counted.exclusion.has_condition() && counted.count.load(Ordering::Relaxed) == 0
        };
        let listed = self.0.iter().filter(never).take(LISTED_MAX).map(|counted| {
            let about = about(&counted.exclusion).chars().take(ABOUT_MAX).collect();
            UnappliedExclusion { about, since: counted.since.load(Ordering::Relaxed) }
        });
        Unapplied { count: self.0.iter().filter(never).count(), listed: listed.collect() }
    }
}

/// The rules, targets and condition of an exclusion, for people.
fn about(exclusion: &Exclusion) -> String {
    let mut text = exclusion.subject();
    for (name, values) in [("targets", &exclusion.targets), ("hosts", &exclusion.hosts)] {
        if !values.is_empty() {
            text += &format!("; {name} {}", values.join(", "));
        }
    }
    for (name, value) in [("path", &exclusion.path), ("values", &exclusion.values)] {
        if let Some(value) = value {
            text += &format!("; {name} {value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exclusion(rule: &str, path: Option<&str>) -> Exclusion {
        Exclusion {
            rules: vec![rule.to_owned()],
            targets: vec!["ARGS:a".to_owned()],
            path: path.map(str::to_owned),
            ..Exclusion::default()
        }
    }

    fn never(counts: &ExclusionCounts) -> Vec<(String, u64)> {
        let unapplied = counts.unapplied();
        assert_eq!(unapplied.count, unapplied.listed.len());
        unapplied.listed.into_iter().map(|it| (it.about, it.since)).collect()
    }

    #[test]
    fn what_never_applied_is_known_across_reloads() {
        let (wiki, pay) = (exclusion("1", Some("/wiki/")), exclusion("2", Some("/pay")));
        let everywhere = exclusion("3", None);
        let at = Duration::from_secs;
        let counts = ExclusionCounts::new(&[everywhere.clone(), wiki.clone(), pay.clone()], at(10));
        let about = |rule: u32, path: &str| format!("{rule}; targets ARGS:a; path {path}");
        let expected = [(about(1, "/wiki/"), 10), (about(2, "/pay"), 10)];
        assert_eq!(never(&counts), expected);
        // Rules of others, and guards of `values`.
        counts.count([9, 942_100, 105_101, 100_103, 109_100].map(RuleId).into_iter());
        assert_eq!(never(&counts), expected);
        counts.count([100_101, 100_101].map(RuleId).into_iter());
        assert_eq!(never(&counts), [(about(2, "/pay"), 10)]);
        assert_eq!(counts.0[1].count.load(Ordering::Relaxed), 1, "once for each request");
        // One is new, and positions differ.
        let later =
            ExclusionCounts::new(&[pay, exclusion("4", Some("/new")), wiki, everywhere], at(20));
        later.continue_from(&counts);
        assert_eq!(never(&later), [(about(2, "/pay"), 10), (about(4, "/new"), 20)]);
    }

    #[test]
    fn lists_are_bounded() {
        let many: Vec<Exclusion> = (0..LISTED_MAX + 1)
            .map(|number| exclusion(&number.to_string(), Some(&"/a".repeat(ABOUT_MAX))))
            .collect();
        for (length, listed) in [(LISTED_MAX, LISTED_MAX), (LISTED_MAX + 1, LISTED_MAX)] {
            let unapplied = ExclusionCounts::new(&many[..length], Duration::ZERO).unapplied();
            assert_eq!((unapplied.count, unapplied.listed.len()), (length, listed));
            assert!(unapplied.listed.iter().all(|it| it.about.chars().count() == ABOUT_MAX));
        }
    }
}
