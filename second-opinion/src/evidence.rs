//! Which rules matched, and on which value of the request.

use glacis_engine::{Match, MatchedRule, Phase, Transaction};

/// The name of a value: its collection, and its name there with the colon before it.
type Place<'t> = (&'static str, &'t [u8]);

/// The rules that matched, grouped by the value that they matched on.
///
/// A value is an argument, a cookie, a header or a file name. Rules that matched on the whole of something (the URI,
/// the query, the body) are shared by all values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence<'t> {
    /// Sorted, each once.
    on_values: Vec<(Place<'t>, u32)>,
    /// Sorted, each once.
    shared: Vec<u32>,
}

/// Whether a rule has no part in opinions: it describes the client, the protocol or the test harness rather than an
/// attack, or it is one of CRS's sums. Training on such rules would recognise the data set.
///
/// Those are CRS's 901 to 929 (setup, exceptions, methods, scanners, protocol), 949, 959 and 980 (sums), and all ids
/// outside of CRS's range but 100070 to 100079 and 100040 to 100049, the attacks that the defaults of Glacis find: other
/// people's rules have no learned weight.
#[must_use]
pub const fn is_excluded(rule: u32) -> bool {
    !matches!(rule / 1_000, 930..=948 | 950..=958) && !matches!(rule / 10, 10_007 | 10_004)
}

impl<'t> Evidence<'t> {
    /// Returns the evidence of a transaction whose request has been evaluated.
    #[must_use]
    pub fn of(transaction: &'t Transaction) -> Self {
        let matches_max = transaction.program().limits().matches_per_rule_max;
        let mut evidence = Self::default();
        for rule in transaction.matched_rules().filter(is_of_request) {
            evidence.add(rule.id.0, rule.matches, matches_max);
        }
        evidence.on_values.sort_unstable();
        evidence.on_values.dedup();
        evidence.shared.sort_unstable();
        evidence.shared.dedup();
        evidence
    }

    /// Adds a rule with the values that it matched on.
    fn add(&mut self, rule: u32, matches: &'t [Match], matches_max: usize) {
        let before = self.on_values.len();
        // Of a rule that reached the limit not all values are recorded: it may have matched on any.
        if matches.len() < matches_max {
            let places = matches.iter().filter_map(|found| place_of(&found.variable));
            self.on_values.extend(places.map(|place| (place, rule)));
        }
        if self.on_values.len() == before {
            self.shared.push(rule);
        }
    }

    /// Whether nothing has matched that an opinion could be about.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.on_values.is_empty() && self.shared.is_empty()
    }

    /// The rules that are shared by all values: sorted, each once.
    #[must_use]
    pub fn shared(&self) -> &[u32] {
        &self.shared
    }

    /// The values that rules matched on, each with its name and its rules: sorted, each once.
    pub fn values(&self) -> impl Iterator<Item = (String, impl Iterator<Item = u32>)> {
        let values = self.on_values.chunk_by(|(one, _), (other, _)| one == other);
        values.filter_map(|value| {
            let ((collection, name), _) = value.first()?;
            let name = format!("{collection}{}", String::from_utf8_lossy(name));
            Some((name, value.iter().map(|(_, rule)| *rule)))
        })
    }
}

fn is_of_request(rule: &MatchedRule<'_>) -> bool {
    matches!(rule.phase, Phase::RequestHeaders | Phase::RequestBody) && !is_excluded(rule.id.0)
}

/// Names a value: `ARGS:q`, `ARGS_GET:q` and `ARGS_NAMES:q` are one. `None` for the whole of something, and for what is
/// no part of the request.
fn place_of(variable: &[u8]) -> Option<Place<'_>> {
    let colon = variable.iter().position(|byte| *byte == b':')?;
    let (collection, name) = variable.split_at_checked(colon)?;
    let known = ["ARGS", "REQUEST_COOKIES", "REQUEST_HEADERS", "FILES"];
    let of = known.into_iter().find(|known| collection.starts_with(known.as_bytes()))?;
    Some((of, name))
}
