//! What the fast path knows of each rule, for those who write rules and for tests of how many it covers.

use crate::{
    id::{Phase, RuleId, RuleIndex},
    program::{Gate, Program, Rule},
};

/// What is asked before a rule is run, to leave out one that cannot match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GateKind {
    /// One of the texts that it needs must be in one of its values: told by one scan of each value for the
    /// texts of all rules.
    Texts,
    /// One of the bytes that it needs must be in one of its values.
    Bytes,
    /// Its pattern, which needs no text, must match one of its values: told by one scan for all such
    /// patterns of a phase and paranoia level.
    Sieve,
    /// A number in `TX` must compare as it asks.
    Number,
    /// A member of `TX` must be there, or not be there.
    Count,
    /// A number or a name that a request has one of (`REQBODY_ERROR`) must be as it asks.
    Scalar,
    /// It counts values (`&ARGS`), and their number must compare as it asks.
    Values,
    /// Nothing: it is run for every request.
    Open,
    /// Nothing, since there is no condition: `SecAction`.
    Always,
}

impl GateKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Texts,
        Self::Bytes,
        Self::Sieve,
        Self::Number,
        Self::Count,
        Self::Scalar,
        Self::Values,
        Self::Open,
        Self::Always,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Texts => "texts",
            Self::Bytes => "bytes",
            Self::Sieve => "sieve",
            Self::Number => "number",
            Self::Count => "count",
            Self::Scalar => "scalar",
            Self::Values => "values",
            Self::Open => "open",
            Self::Always => "always",
        }
    }

    /// Whether it can leave a rule out.
    #[must_use]
    pub const fn can_say_no(self) -> bool {
        !matches!(self, Self::Open | Self::Always)
    }

    pub(crate) const fn of(rule: &Rule) -> Self {
        match &rule.gate {
            Gate::Open if rule.operator.is_none() => Self::Always,
            Gate::Open | Gate::Unknown { .. } => Self::Open,
            Gate::Texts { .. } => Self::Texts,
            Gate::Bytes { .. } => Self::Bytes,
            Gate::Sieve { .. } => Self::Sieve,
            Gate::Number { .. } => Self::Number,
            Gate::Count { .. } => Self::Count,
            Gate::Values { .. } => Self::Values,
            Gate::Scalar { .. } => Self::Scalar,
        }
    }
}

/// A rule alone, or a chain as a whole, as the fast path sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedRule {
    /// Its id.
    pub id: RuleId,
    /// The phase in which it runs.
    pub phase: Phase,
    /// What is asked before it is run.
    pub gate: GateKind,
    /// Whether its outcome is the same for every request, and so was found when rules were loaded, or such a
    /// rule always skips it: it does not run at all then, unless every match is recorded (a trace, audit log
    /// part `K`).
    pub folded: bool,
}

impl Program {
    /// Which rules the fast path covers, and how: one for each rule, links of chains not counted, phase by
    /// phase in the order written.
    pub fn fast_path(&self) -> impl Iterator<Item = GatedRule> + '_ {
        self.phases.iter().flatten().filter_map(|&index| {
            let rule = self.rules.get(index.get())?;
            let (gate, folded) = (GateKind::of(rule), self.is_folded(index, rule.phase));
            Some(GatedRule { id: rule.id, phase: rule.phase, gate, folded })
        })
    }

    /// Whether the rule, a starter, was evaluated when rules were loaded.
    pub(crate) fn is_folded(&self, index: RuleIndex, phase: Phase) -> bool {
        let plan = self.folded.as_ref().and_then(|folded| folded.plans.get(phase.index()));
        plan.is_some_and(|plan| !plan.rules.contains(index))
    }
}
