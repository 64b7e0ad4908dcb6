//! Pass 4, continued: for each rule that starts a chain, a cheap test that can say that it cannot match.
//!
//! See [`crate::scan`] for the law. A gate is a matter of speed alone: a rule without one is run.

use std::sync::Arc;

use regex_syntax::hir::Hir;

use super::{Compiler, operators::Needs};
use crate::{
    id::{LaneId, Phase, RuleIndex, RuleSet},
    operator::{Operator, leading_integer},
    parts::SharedSieve,
    plan::{Cell, PhasePlan},
    program::{Asks, CellId, Ctl, Gate, Lane, MatchAction, Rule, Select, Source, SourceId, Target},
    recall::may_be_recalled,
    scan::sieve::{self, Letters, Sieve},
    transaction::{is_short, is_stable, lists},
    transform::Transformation,
    variable::Variable,
};

/// A rule for which a gate is looked for.
pub(super) struct Gated<'r> {
    pub(super) index: RuleIndex,
    pub(super) phase: Phase,
    pub(super) targets: &'r [Target],
    pub(super) operator: &'r Operator,
    pub(super) negated: bool,
    pub(super) lane: LaneId,
    pub(super) tags: &'r [Arc<str>],
}

/// Patterns that are to be one sieve.
#[derive(Debug)]
pub(super) struct SieveDraft {
    phase: Phase,
    /// Rules with the same tag for their paranoia level are evaluated together, or not at all.
    level: Box<str>,
    patterns: Vec<Hir>,
    /// The chain of transformations of each, if it changes nearly every text; 0 for those that see the same text.
    chains: Vec<u16>,
}

/// Sources that have gates: as many as a [`SourceId`] can number. Rules that look at more are run.
const SOURCES_MAX: usize = 1 << 16;

/// The tags by which CRS says at which paranoia level a rule is evaluated.
const LEVEL_TAGS: &str = "paranoia-level/";

impl Compiler<'_> {
    /// The gate of a rule.
    pub(super) fn gate(&mut self, rule: &Gated<'_>, needs: Needs) -> Gate {
        if let Some(gate) = number_gate(rule.targets, rule.operator, rule.negated, rule.lane) {
            return gate;
        }
        // The steps of its selectors are charged whatever is known of values, so that it always runs.
        if rule.targets.iter().any(Target::backtracks) {
            return Gate::Open;
        }
        // Each target may be a source of its own, and of more than these none has a number.
        if self.sources.len() + rule.targets.len() > SOURCES_MAX {
            return Gate::Open;
        }
        if let Some(gate) = self.values_gate(rule) {
            return gate;
        }
        if let Some(gate) = scalar_gate(rule) {
            return gate;
        }
        let gateable = |target: &Target| !target.count && is_stable(target.variable);
        if !rule.targets.iter().all(gateable) {
            return Gate::Open;
        }
        // It matches where what its operator needs is missing.
        if rule.negated {
            return self.unknown_gate(rule);
        }
        match needs {
            Needs::Nothing => self.unknown_gate(rule),
            Needs::OneOf(texts) if self.index.add(rule.index, rule.lane, &texts) => {
                let shortest = texts.iter().map(Vec::len).min().unwrap_or_default();
                self.asks(rule.lane, |asks| asks.add_text(shortest));
                Gate::Texts { cells: self.cells_of(rule) }
            }
            Needs::OneOf(_) => self.unknown_gate(rule),
            Needs::OneByteOf(bytes) => {
                self.asks(rule.lane, Asks::add_bytes);
                Gate::Bytes { bytes, cells: self.cells_of(rule) }
            }
            Needs::Pattern(pattern) => self.sieve_gate(rule, &pattern).unwrap_or_default(),
        }
    }

    /// Of a rule of which only [`crate::recall`] can say that it does not match. Whatever its chain of
    /// transformations is, the values as they are tell.
    fn unknown_gate(&mut self, rule: &Gated<'_>) -> Gate {
        let known = rule.targets.iter().any(|target| may_be_recalled(target.variable));
        match known && rule.operator.looks_at_the_value_alone() {
            true => Gate::Unknown { cells: self.cells_in(rule, LaneId::NONE) },
            false => Gate::Open,
        }
    }

    fn asks(&mut self, lane: LaneId, add: impl FnOnce(&mut Asks)) {
        if let Some(lane) = self.lanes.get_mut(lane.get()) {
            add(&mut lane.asks);
        }
    }

    /// `&REQUEST_HEADERS:Host @eq 0`.
    fn values_gate(&mut self, rule: &Gated<'_>) -> Option<Gate> {
        let ([target], Operator::Number(comparison, parameter)) = (rule.targets, rule.operator)
        else {
            return None;
        };
        let number = leading_integer(parameter.literal()?);
        let countable = target.count
            && is_stable(target.variable)
            && lists(target.variable).is_some()
            && matches!(target.select, Select::All | Select::Key(_))
            && target.except.is_empty()
            && rule.lane == LaneId::NONE;
        countable.then(|| Gate::Values {
            source: self.source_id(target),
            comparison: *comparison,
            number,
            negated: rule.negated,
        })
    }

    fn sieve_gate(&mut self, rule: &Gated<'_>, pattern: &Hir) -> Option<Gate> {
        let letters = letters(self.lanes.get(rule.lane.get())?)?;
        let pattern = sieve::sieveable(pattern, letters)?;
        let sieve = self.sieve(rule);
        let changes_words = self.lanes.get(rule.lane.get())?.triggers.contains(b' ');
        let chain = if changes_words { u16::try_from(rule.lane.get()).ok()? } else { 0 };
        let draft = self.sieves.get_mut(sieve)?;
        let number = u8::try_from(draft.patterns.len()).ok()?;
        draft.patterns.push(pattern);
        draft.chains.push(chain);
        let sieve = u16::try_from(sieve).ok()?;
        self.asks(rule.lane, Asks::add_pattern);
        Some(Gate::Sieve { sieve, pattern: number, cells: self.cells_of(rule) })
    }

    /// One for each target, as the rule sees it.
    fn cells_of(&mut self, rule: &Gated<'_>) -> Box<[CellId]> {
        self.cells_in(rule, rule.lane)
    }

    fn cells_in(&mut self, rule: &Gated<'_>, lane: LaneId) -> Box<[CellId]> {
        let cells = rule.targets.iter().map(|target| {
            let source = self.source_id(target);
            self.cell_id(source, lane)
        });
        cells.collect()
    }

    /// The sieve that takes the rule's pattern.
    fn sieve(&mut self, rule: &Gated<'_>) -> usize {
        let tag = rule.tags.iter().find(|tag| tag.starts_with(LEVEL_TAGS));
        let level = tag.map_or("", |tag| tag);
        let known = self.sieves.iter().position(|sieve| {
            sieve.phase == rule.phase
                && *sieve.level == *level
                && sieve.patterns.len() < sieve::PATTERNS_MAX
        });
        known.unwrap_or_else(|| {
            let (phase, level) = (rule.phase, level.into());
            self.sieves.push(SieveDraft { phase, level, patterns: Vec::new(), chains: Vec::new() });
            self.sieves.len() - 1
        })
    }

    fn cell_id(&mut self, source: SourceId, lane: LaneId) -> CellId {
        let is_it = |cell: &Cell| cell.source == source && cell.lane == lane;
        if let Some(known) = self.cells.iter().position(is_it) {
            return CellId::from_usize(known);
        }
        let plain = (lane != LaneId::NONE).then(|| self.cell_id(source, LaneId::NONE));
        let id = CellId::from_usize(self.cells.len());
        self.cells.push(Cell { source, lane, plain: plain.unwrap_or(id) });
        id
    }

    /// Compiles the sieves. A rule whose sieve would be too large has no gate.
    pub(super) fn build_sieves(&mut self, rules: &mut [Rule]) -> Vec<Arc<Sieve>> {
        let drafts = core::mem::take(&mut self.sieves);
        let built: Option<Vec<SharedSieve>> =
            drafts.iter().map(|draft| self.parts.sieve(&draft.patterns, &draft.chains)).collect();
        let built = built.unwrap_or_default();
        for rule in rules {
            if let Gate::Sieve { sieve, pattern, .. } = &mut rule.gate {
                let shared = built.get(usize::from(*sieve));
                match shared.and_then(|shared| shared.patterns.get(usize::from(*pattern))) {
                    Some(place) => *pattern = *place,
                    None => rule.gate = Gate::Open,
                }
            }
        }
        built.into_iter().map(|shared| shared.sieve).collect()
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

/// Has the sieves of rules that are evaluated divide their patterns into groups. Without plans all may be.
pub(super) fn group_patterns(
    rules: &[Rule],
    plans: Option<&[PhasePlan; 5]>,
    sieves: &[Arc<Sieve>],
) {
    let is_evaluated = |rule| {
        plans.is_none_or(|plans| plans.iter().any(|plan: &PhasePlan| plan.rules.contains(rule)))
    };
    for (index, rule) in rules.iter().enumerate() {
        if let Gate::Sieve { sieve, .. } = rule.gate
            && let Some(sieve) = sieves.get(usize::from(sieve))
            && is_evaluated(RuleIndex::from_usize(index))
        {
            sieve.groups();
        }
    }
}

/// Opens the gates of rules from which a `ctl` takes targets away by a pattern that needs back-tracking: its steps are
/// charged whatever is known of values, so that these rules always run.
pub(super) fn open_where_removals_backtrack(rules: &mut [Rule]) {
    let mut removed = RuleSet::default();
    for action in rules.iter().flat_map(|rule| &rule.on_match) {
        if let MatchAction::Ctl(Ctl::RemoveTargets(rules, _, select)) = action
            && select.backtracks()
        {
            removed.extend(rules);
        }
    }
    for (index, rule) in rules.iter_mut().enumerate() {
        if removed.contains(RuleIndex::from_usize(index)) && rule.gate.cells().is_some() {
            rule.gate = Gate::Open;
        }
    }
}

/// What a lane makes of the case of letters; `None` for one that raises it.
fn letters(lane: &Lane) -> Option<Letters> {
    let mut letters = Letters::Kept;
    for transformation in lane.steps.iter().map(|step| step.transformation) {
        letters = match transformation {
            Transformation::Uppercase => return None,
            _ if transformation.lowers() => Letters::Lowered,
            _ if letters == Letters::Kept || transformation.keeps_bytes() => letters,
            // What is decoded may be in upper case.
            _ => Letters::Either,
        };
    }
    let looks_before = lane.each_stage && letters == Letters::Lowered;
    Some(if looks_before { Letters::Either } else { letters })
}

fn same_select(left: &Select, right: &Select) -> bool {
    match (left, right) {
        (Select::Key(left), Select::Key(right)) | (Select::Prefix(left), Select::Prefix(right)) => {
            left == right
        }
        (Select::All, Select::All)
        | (Select::XmlText, Select::XmlText)
        | (Select::XmlAttributes, Select::XmlAttributes) => true,
        _ => false,
    }
}

/// `REQBODY_ERROR !@eq 0`: numbers and names that a request has one of.
fn scalar_gate(rule: &Gated<'_>) -> Option<Gate> {
    let [target] = rule.targets else { return None };
    let costs_little = matches!(rule.operator, Operator::Number(..) | Operator::Text(..))
        && rule.operator.looks_at_the_value_alone();
    let has_one = is_short(target.variable)
        && matches!(target.select, Select::All)
        && !target.count
        && target.except.is_empty()
        && rule.lane == LaneId::NONE;
    (costs_little && has_one).then_some(Gate::Scalar { variable: target.variable })
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

#[cfg(test)]
mod tests {
    use crate::{Input, Limits, NoFiles, Program, program::Gate, scan::sieve};

    fn build(text: String) -> Program {
        let input = Input::Text { name: "rules".to_owned(), text };
        Program::build(&[input], &NoFiles, Limits::default()).unwrap()
    }

    /// The gate of another rule would not be asked, and its texts would be looked for all the same.
    #[test]
    fn only_starters_that_run_have_gates() {
        let text = r#"
            SecRule ARGS "@rx union" "id:1,phase:1,pass,chain"
            SecRule ARGS "@rx select"
            SecRule ARGS "@rx insert" "id:2,phase:1,pass"
            SecRuleRemoveById 2"#;
        let program = build(text.to_owned());
        let gates = program.rules.iter().map(|rule| !matches!(rule.gate, Gate::Open));
        assert_eq!(gates.collect::<Vec<_>>(), [true, false, false]);
    }

    /// Rules that are not evaluated together would only make the sieve larger.
    #[test]
    fn sieves_are_of_one_phase_and_level() {
        const FIRST: (u8, &str) = (1, "paranoia-level/1");
        const SECOND: (u8, &str) = (1, "paranoia-level/2");
        const LATER: (u8, &str) = (2, "paranoia-level/1");
        for (rules, sieves) in [
            (vec![FIRST, FIRST], 1),
            (vec![FIRST, SECOND], 2),
            (vec![FIRST, LATER], 2),
            (vec![FIRST, SECOND, LATER, FIRST, SECOND, LATER], 3),
            (vec![(1, "a"), (1, "b")], 1),
            (vec![(1, "a"), FIRST], 2),
            (vec![FIRST; sieve::PATTERNS_MAX], 1),
            (vec![FIRST; sieve::PATTERNS_MAX + 1], 2),
        ] {
            let rule = |(at, (phase, tag)): (usize, &(u8, &str))| {
                let id = at + 1;
                format!(
                    "SecRule ARGS \"@rx ^{id}+x$\" \"id:{id},phase:{phase},pass,tag:'{tag}'\"\n"
                )
            };
            let program = build(rules.iter().enumerate().map(rule).collect());
            assert_eq!(program.sieves.len(), sieves, "{rules:?}");
        }
    }
}
