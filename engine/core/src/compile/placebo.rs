//! Warnings of configuration that looks as if it did something and does not.
//!
//! Nothing here changes the program. Only plain cases are named: no warning is no promise.

use seclang::{Selector, Span, Target as Written};

use super::{Compiler, is, value_text};
use crate::{
    id::{Phase, RuleIndex},
    program::{Ctl, Disruptive, Flow, MatchAction, Rule, RuleEngine, Select, Target},
};

/// The rules of CRS that refuse a request, or a response, for its score.
const BLOCKING: [u32; 2] = [949_110, 959_100];

/// The rules of CRS, by their ids: 900000 to 999999, of which the first thousand are the set-up.
const CRS_IDS: core::ops::RangeInclusive<u32> = 901_000..=999_999;

/// The member of `TX` that CRS's set-up file sets.
const CRS_SETUP: &str = "crs_setup_version";

/// A CRS with fewer rules is not all there.
const CRS_RULES_MIN: usize = 50;

impl Compiler<'_> {
    /// Looks at the finished rules. `phases` are the starters of each phase, `markers` as in the
    /// program.
    pub(super) fn placebo(
        &mut self,
        rules: &[Rule],
        phases: &[Vec<RuleIndex>; 5],
        markers: &[[u32; 5]],
    ) {
        self.engine_off(phases);
        self.body_not_read(rules);
        self.blocking_rules(rules, phases);
        self.late_settings();
        self.opened_collections(rules);
        for index in 0..rules.len() {
            if self.runs(index) {
                self.excluded_by_ctl(rules, index);
                self.early_targets(rules, index);
            }
        }
        for (phase, list) in Phase::ALL.into_iter().zip(phases) {
            self.never_run(rules, phase, list, markers);
        }
    }

    /// Whether the chain of a gathered rule is not removed.
    pub(super) fn runs(&self, index: usize) -> bool {
        let starter = self.drafts.get(index).and_then(|draft| self.drafts.get(draft.starter));
        starter.is_some_and(|starter| !starter.removed)
    }

    fn engine_off(&mut self, phases: &[Vec<RuleIndex>; 5]) {
        let rules: usize = phases.iter().map(Vec::len).sum();
        if rules > 0 && self.settings.rule_engine == RuleEngine::Off {
            self.warnings.push(format!(
                "SecRuleEngine is Off, which is its default: none of the {rules} rules runs"
            ));
        }
        let setup = self.tx_slots.contains_key(CRS_SETUP);
        if setup && rules < CRS_RULES_MIN {
            self.warnings.push(format!(
                "the set-up of the Core Rule Set is loaded, and only {rules} rules with it; are \
                 rules/*.conf included?"
            ));
        }
    }

    /// Rules that look at request bodies where none is read.
    fn body_not_read(&mut self, rules: &[Rule]) {
        let turned_on = |rule: &Rule| {
            let mut actions = rule.on_match.iter();
            actions.any(|action| matches!(action, MatchAction::Ctl(Ctl::RequestBodyAccess(true))))
        };
        if self.settings.request_body_access || rules.iter().any(turned_on) {
            return;
        }
        let looks = |rule: &Rule| {
            let first = |target: &Target| target.variable.first_phase();
            rule.targets.iter().any(|target| first(target) == Phase::RequestBody.number())
        };
        let all = rules.iter().enumerate();
        let idle = all.filter(|(index, rule)| self.runs(*index) && looks(rule)).count();
        if idle > 0 {
            self.warnings.push(format!(
                "SecRequestBodyAccess is Off, which is its default: {idle} rules look at request \
                 bodies, and see none"
            ));
        }
    }

    /// Whether what refuses for a score is there, and does refuse.
    fn blocking_rules(&mut self, rules: &[Rule], phases: &[Vec<RuleIndex>; 5]) {
        let counted: usize = phases.iter().map(Vec::len).sum();
        let crs = self.drafts.iter().any(|draft| CRS_IDS.contains(&draft.id));
        for id in BLOCKING {
            let draft = self.ids.get(&id).copied();
            let Some(index) = draft else {
                if crs && counted >= CRS_RULES_MIN {
                    self.warnings.push(format!(
                        "rules of the Core Rule Set are loaded without rule {id}: nothing is \
                         refused for its score"
                    ));
                }
                continue;
            };
            let passes = rules.get(index).is_some_and(|rule| {
                matches!(rule.disruptive, Disruptive::Pass | Disruptive::Allow(_))
            });
            let what = match self.runs(index) {
                false => "is removed",
                true if passes => "refuses nothing",
                true => continue,
            };
            if let Some(span) = self.drafts.get(index).map(|draft| draft.span) {
                self.warn(span, &format!("rule {id} {what}: scores are counted to no effect"));
            }
        }
    }

    /// `ctl` actions that take away what is not there.
    fn excluded_by_ctl(&mut self, rules: &[Rule], index: usize) {
        let Some(rule) = rules.get(index) else { return };
        let lowered = rule.on_match.iter().filter_map(|action| match action {
            MatchAction::Ctl(ctl) => Some(ctl),
            _ => None,
        });
        // They stand in the order in which they are written.
        let drafts = self.drafts.get(index);
        let written = drafts.iter().flat_map(|draft| &draft.actions).filter(|a| is(a, "ctl"));
        let idle: Vec<(Span, String)> = written
            .zip(lowered)
            .filter_map(|(written, ctl)| {
                let why = self.idle(rules, ctl)?;
                Some((written.span, format!("ctl:{} {why}", value_text(written))))
            })
            .collect();
        for (span, message) in idle {
            self.warn(span, &message);
        }
    }

    /// Why a `ctl` does nothing, if it does not.
    fn idle(&self, rules: &[Rule], ctl: &Ctl) -> Option<&'static str> {
        let (set, target) = match ctl {
            Ctl::RemoveRules(set) => (set, None),
            Ctl::RemoveTargets(set, variable, select) => (set, Some((variable, select))),
            _ => return None,
        };
        if !self.any_rule(|index| set.contains(index)) {
            return Some("selects no rule");
        }
        let (variable, select) = target?;
        let looks = |index: RuleIndex| {
            let targets = rules.get(index.get()).map_or(&[][..], |rule| &rule.targets);
            let same =
                |target: &Target| target.variable == *variable && overlap(&target.select, select);
            set.contains(index) && targets.iter().any(same)
        };
        (!self.any_rule(looks)).then_some("takes away what none of the rules selected looks at")
    }

    fn any_rule(&self, wanted: impl Fn(RuleIndex) -> bool) -> bool {
        (0..self.drafts.len()).any(|index| self.runs(index) && wanted(RuleIndex::from_usize(index)))
    }

    fn span(&self, index: usize) -> Option<Span> {
        self.drafts.get(index).map(|draft| draft.span)
    }

    /// Targets that have no value yet when the rule runs.
    fn early_targets(&mut self, rules: &[Rule], index: usize) {
        let (Some(rule), Some(span)) = (rules.get(index), self.span(index)) else { return };
        for target in &rule.targets {
            let first = target.variable.first_phase();
            if first > rule.phase.number() {
                let (name, phase) = (target.variable.name(), rule.phase.number());
                let message = format!(
                    "{name} has its value from phase {first} on; this rule runs in {phase}"
                );
                self.warn(span, &message);
            }
        }
    }

    /// Rules behind one that always skips them, or always ends the transaction.
    fn never_run(
        &mut self,
        rules: &[Rule],
        phase: Phase,
        list: &[RuleIndex],
        markers: &[[u32; 5]],
    ) {
        let mut at = 0;
        while let Some(&index) = list.get(at) {
            at += 1;
            let Some(rule) = rules.get(index.get()) else { continue };
            // A SecAction without a chain always matches.
            if rule.operator.is_some() || rule.links > 0 {
                continue;
            }
            let refuses = self.settings.rule_engine == RuleEngine::On
                && phase != Phase::Logging
                && matches!(
                    rule.disruptive,
                    Disruptive::Deny(_) | Disruptive::Drop | Disruptive::Redirect(..)
                );
            let next = match rule.flow {
                _ if refuses => list.len(),
                Flow::Next => continue,
                Flow::Skip(count) => at.saturating_add(count as usize),
                Flow::SkipAfter(marker) => {
                    let positions = markers.get(marker as usize);
                    let position = positions.and_then(|positions| positions.get(phase.index()));
                    position.map_or(list.len(), |&position| position as usize)
                }
                Flow::SkipPhase => list.len(),
            };
            let next = next.clamp(at, list.len());
            if next > at
                && let Some(span) = self.span(index.get())
            {
                let message = format!(
                    "this action always matches: {} rules behind it never run in phase {}",
                    next - at,
                    phase.number()
                );
                self.warn(span, &message);
            }
            at = next;
        }
    }

    /// Exclusions of `SecRuleUpdateTarget…` at which none of the rules looks.
    pub(super) fn excluded_by_update(&mut self, span: Span, rules: &[usize], targets: &[Written]) {
        let exclusions = targets.iter().filter(|target| target.exclude);
        let idle: Vec<&Written> = exclusions
            .filter(|exclusion| {
                let drafts = rules.iter().filter_map(|&index| self.drafts.get(index));
                let mut looked_at =
                    drafts.flat_map(|draft| &draft.targets).filter(|target| !target.exclude);
                !looked_at.any(|target| covers(target, exclusion))
            })
            .collect();
        // Without rules there is a warning already.
        for exclusion in idle.into_iter().filter(|_| !rules.is_empty()) {
            let name = &exclusion.variable.text;
            let message =
                format!("{name} is taken away, and none of the rules selected looks at it");
            self.warn(span, &message);
        }
    }
}

/// Whether a target as written looks at what an exclusion takes away.
fn covers(target: &Written, exclusion: &Written) -> bool {
    if !target.variable.text.eq_ignore_ascii_case(&exclusion.variable.text) {
        return false;
    }
    match (&target.selector, &exclusion.selector) {
        (Some(Selector::Key(looked_at)), Some(Selector::Key(excluded))) => {
            looked_at.text.eq_ignore_ascii_case(&excluded.text)
        }
        _ => true,
    }
}

/// Whether two selections of one variable can have a member in common.
fn overlap(left: &Select, right: &Select) -> bool {
    match (left, right) {
        (Select::Key(left), Select::Key(right)) => left == right,
        (Select::Slot(left), Select::Slot(right)) => left == right,
        (Select::Key(key), Select::Pattern(pattern))
        | (Select::Pattern(pattern), Select::Key(key)) => pattern.may_select(key),
        (Select::Key(key), Select::Prefix(prefix)) | (Select::Prefix(prefix), Select::Key(key)) => {
            key.starts_with(prefix)
        }
        (
            Select::XmlText | Select::XmlAttributes | Select::XPath(_),
            Select::XmlText | Select::XmlAttributes | Select::XPath(_),
        ) => match (left, right) {
            (Select::XPath(left), Select::XPath(right)) => left == right,
            _ => core::mem::discriminant(left) == core::mem::discriminant(right),
        },
        _ => true,
    }
}
