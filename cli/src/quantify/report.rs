//! The report: as text, and in the JSON of go-ftw's quantitative tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde::Serialize;

use super::{Counts, LEVELS};

/// One ruleset, or two.
pub(super) struct Report<'c> {
    pub(super) counts: &'c [Counts],
    pub(super) seconds: f64,
}

/// The fields of go-ftw, and one more: `blockedPerParanoiaLevel`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    count: u64,
    /// Matches of all rules.
    false_positives: u64,
    false_positives_per_paranoia_level: BTreeMap<usize, u64>,
    false_positives_per_rule: BTreeMap<u32, OfRule>,
    /// Requests that are blocked with the rules of a level and those below it.
    blocked_per_paranoia_level: BTreeMap<usize, u64>,
    skipped: u64,
    total_time_seconds: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfRule {
    paranoia_level: usize,
    false_positives: u64,
}

/// Two runs, and what the second has more.
#[derive(Serialize)]
struct Comparison {
    rules: Run,
    against: Run,
    difference: BTreeMap<u32, i64>,
}

impl Report<'_> {
    pub(super) fn json(&self) -> String {
        let text = match self.counts {
            [rules, against] => serde_json::to_string(&Comparison {
                rules: self.run(rules),
                against: self.run(against),
                difference: rows(self.counts)
                    .into_iter()
                    .map(|(rule, row)| (rule, row.difference()))
                    .filter(|(_, difference)| *difference != 0)
                    .collect(),
            }),
            [rules, ..] => serde_json::to_string(&self.run(rules)),
            [] => Ok("{}".to_owned()),
        };
        // Writing plain data to memory does not fail.
        text.unwrap_or_default() + "\n"
    }

    fn run(&self, counts: &Counts) -> Run {
        let levels = |sums: [u64; LEVELS]| (1..).zip(sums).collect();
        let rule = |(&id, count): (&u32, &super::RuleCount)| {
            (id, OfRule { paranoia_level: count.level, false_positives: count.requests })
        };
        Run {
            count: counts.lines,
            false_positives: counts.by_level().iter().sum(),
            false_positives_per_paranoia_level: levels(counts.by_level()),
            false_positives_per_rule: counts.rules.iter().map(rule).collect(),
            blocked_per_paranoia_level: levels(counts.blocked),
            skipped: counts.skipped,
            total_time_seconds: self.seconds,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let Some(first) = self.counts.first() else { return out };
        let requests = first.lines - first.skipped;
        let _ = writeln!(out, "{requests} requests ({} skipped)", first.skipped);
        let two = self.counts.len() > 1;
        let _ = writeln!(
            out,
            "\n{:<16}{}",
            "",
            if two { "     rules   against" } else { "  requests" }
        );
        for level in 0..LEVELS {
            let name = format!("blocked at PL{}", level + 1);
            let cells = self.cells(|counts| counts.blocked.get(level).copied().unwrap_or(0));
            let _ = writeln!(out, "{name:<16}{cells}");
        }
        for level in 0..LEVELS {
            let name = format!("matches of PL{}", level + 1);
            let cells = self.cells(|counts| counts.by_level().get(level).copied().unwrap_or(0));
            let _ = writeln!(out, "{name:<16}{cells}");
        }
        let _ = writeln!(
            out,
            "\nrule    level   {}",
            if two { "     rules   against  difference" } else { "  requests" }
        );
        let mut rows: Vec<(u32, Row)> = rows(self.counts).into_iter().collect();
        rows.sort_by_key(|(rule, row)| {
            (row.level, core::cmp::Reverse(row.first.max(row.second)), *rule)
        });
        for (rule, row) in rows {
            let (first, second) = (row.first, row.second);
            let more =
                if two { format!("{second:>10}{:>+12}", row.difference()) } else { String::new() };
            let _ = writeln!(out, "{rule}  {:<6}  {first:>10}{more}", row.level);
        }
        out
    }

    fn cells(&self, count: impl Fn(&Counts) -> u64) -> String {
        self.counts.iter().map(|counts| format!("{:>10}", count(counts))).collect()
    }
}

/// A rule in one ruleset, or in both.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    level: usize,
    first: u64,
    second: u64,
}

impl Row {
    fn difference(self) -> i64 {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        number(self.second).saturating_sub(number(self.first))
    }
}

fn rows(counts: &[Counts]) -> BTreeMap<u32, Row> {
    let ids: BTreeSet<u32> =
        counts.iter().flat_map(|counts| counts.rules.keys().copied()).collect();
    let row = |id: u32| {
        let of = |at: usize| counts.get(at).and_then(|counts| counts.rules.get(&id));
        let requests = |at: usize| of(at).map_or(0, |count| count.requests);
        let level = of(0).or_else(|| of(1)).map_or(0, |count| count.level);
        (id, Row { level, first: requests(0), second: requests(1) })
    };
    ids.into_iter().map(row).collect()
}
