//! Pass 4, continued: for each rule that starts a chain, a cheap test that can say that it cannot match.
//!
//! See [`crate::scan`] for the law. A gate is a matter of speed alone: a rule without one is run.

use super::Compiler;
use crate::{
    id::LaneId,
    operator::{Operator, leading_integer},
    program::{Gate, Select, Source, SourceId, Target},
    transaction::is_stable,
    variable::Variable,
};

impl Compiler<'_> {
    /// The gate of a rule with these targets. `texts` are those of which a matching value holds one.
    pub(super) fn gate(
        &mut self,
        targets: &[Target],
        operator: &Operator,
        negated: bool,
        lane: LaneId,
        texts: Option<&[Vec<u8>]>,
    ) -> Gate {
        if let Some(gate) = number_gate(targets, operator, negated, lane) {
            return gate;
        }
        // A rule with a negated operator matches where its texts are missing.
        let gateable = |target: &Target| !target.count && is_stable(target.variable);
        let Some(texts) = texts.filter(|_| !negated && targets.iter().all(gateable)) else {
            return Gate::Open;
        };
        let Some(pattern) = self.index.add(texts) else { return Gate::Open };
        let sources = targets.iter().map(|target| self.source_id(target)).collect();
        Gate::Scan { pattern, sources }
    }

    fn source_id(&mut self, target: &Target) -> SourceId {
        let variable = target.variable;
        // Members selected by a pattern are not told apart: all of them are looked at.
        let select = match &target.select {
            Select::Pattern(_) => Select::All,
            select => select.clone(),
        };
        let known = self
            .sources
            .iter()
            .position(|source| source.variable == variable && same_select(&source.select, &select));
        let position = known.unwrap_or_else(|| {
            self.sources.push(Source { variable, select });
            self.sources.len() - 1
        });
        SourceId(u16::try_from(position).unwrap_or(u16::MAX))
    }
}

fn same_select(left: &Select, right: &Select) -> bool {
    match (left, right) {
        (Select::Key(left), Select::Key(right)) => left == right,
        (Select::All, Select::All)
        | (Select::XmlText, Select::XmlText)
        | (Select::XmlAttributes, Select::XmlAttributes) => true,
        _ => false,
    }
}

/// `TX:name @lt 3` and `&TX:name @eq 0`: most rules of CRS that are no patterns.
fn number_gate(
    targets: &[Target],
    operator: &Operator,
    negated: bool,
    lane: LaneId,
) -> Option<Gate> {
    let ([target], Operator::Number(comparison, parameter)) = (targets, operator) else {
        return None;
    };
    let Select::Slot(slot) = target.select else { return None };
    if target.variable != Variable::Tx || lane != LaneId::NONE || !target.except.is_empty() {
        return None;
    }
    let number = leading_integer(parameter.literal()?);
    let comparison = *comparison;
    Some(if target.count {
        Gate::Count { slot, comparison, number, negated }
    } else {
        Gate::Number { slot, comparison, number, negated }
    })
}
