//! The sum of weights, and what it consists of.

use core::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use crate::{Evidence, Milli, Weights};

/// A part of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The rule.
    pub rule: u32,
    /// Its weight.
    pub weight: Milli,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.weight.saturating_abs() + 50) / 100;
        let sign = if self.weight < 0 { '-' } else { '+' };
        write!(f, "{} {sign}{}.{}", self.rule, tenths / 10, tenths % 10)
    }
}

/// What the weights say of a request: the highest sum of any of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opinion {
    /// The sum of the weights.
    pub score: Milli,
    /// The score from which the opinion is that the request is an attack.
    pub threshold: Milli,
    /// The value with this score, such as `ARGS:q`; empty where rules matched on no single value.
    pub value: String,
    /// The parts of the score, the heaviest first; rules without weight are left out.
    pub reasons: Vec<Reason>,
}

impl Opinion {
    /// Whether the opinion is that the request is an attack.
    #[must_use]
    pub const fn is_attack(&self) -> bool {
        self.score >= self.threshold
    }

    /// The sum as text: `942100 +2.1, 942190 +1.3`.
    #[must_use]
    pub fn sum(&self) -> String {
        let reasons: Vec<String> = self.reasons.iter().map(Reason::to_string).collect();
        reasons.join(", ")
    }
}

/// Scores and weights as decimals, the sum also as text.
impl Serialize for Opinion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Opinion", 6)?;
        fields.serialize_field("attack", &self.is_attack())?;
        fields.serialize_field("score", &decimal(self.score))?;
        fields.serialize_field("threshold", &decimal(self.threshold))?;
        fields.serialize_field("value", &self.value)?;
        fields.serialize_field("sum", &self.sum())?;
        fields.serialize_field("reasons", &self.reasons)?;
        fields.end()
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Reason", 2)?;
        fields.serialize_field("rule", &self.rule)?;
        fields.serialize_field("weight", &decimal(self.weight))?;
        fields.end()
    }
}

fn decimal(milli: Milli) -> f64 {
    f64::from(milli) / 1_000.0
}

impl Weights {
    /// Returns the opinion on a request.
    #[must_use]
    pub fn opinion(&self, evidence: &Evidence<'_>) -> Opinion {
        let threshold = self.threshold;
        if evidence.is_empty() {
            return Opinion { threshold, ..Opinion::default() };
        }
        let common: Milli = evidence.shared().iter().map(|rule| self.weight(*rule)).sum();
        let mut worst = (common, None);
        for (number, (_, rules)) in evidence.values().enumerate() {
            let own = rules.filter(|rule| evidence.shared().binary_search(rule).is_err());
            let score = common + own.map(|rule| self.weight(rule)).sum::<Milli>();
            if score > worst.0 {
                worst = (score, Some(number));
            }
        }
        let (score, number) = worst;
        let worst = number.and_then(|number| evidence.values().nth(number));
        let (value, own) = worst.map(|(name, rules)| (name, rules.collect::<Vec<u32>>())).unzip();
        let mut rules = own.unwrap_or_default();
        rules.extend(evidence.shared());
        rules.sort_unstable();
        rules.dedup();
        let mut reasons: Vec<Reason> = rules
            .into_iter()
            .map(|rule| Reason { rule, weight: self.weight(rule) })
            .filter(|reason| reason.weight != 0)
            .collect();
        reasons.sort_by_key(|reason| (-reason.weight, reason.rule));
        Opinion { score, threshold, value: value.unwrap_or_default(), reasons }
    }
}
