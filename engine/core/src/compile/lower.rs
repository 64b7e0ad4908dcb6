//! Pass 4: each gathered rule → plain data.

use super::{Compiler, Draft, gates::Gated, operators::Needs};
use crate::{
    id::{Phase, RuleId, RuleIndex},
    program::{Gate, Rule},
    variable::Variable,
};

impl Compiler<'_> {
    pub(super) fn lower_rules(&mut self) -> Vec<Rule> {
        // Rules are selected by tag, message and id while others are lowered, so the drafts stay in
        // place, with their actions.
        let count = self.drafts.len();
        let mut rules: Vec<Rule> = (0..count).filter_map(|index| self.lower_rule(index)).collect();
        rules.shrink_to_fit();
        rules
    }

    fn lower_rule(&mut self, index: usize) -> Option<Rule> {
        let draft = self.drafts.get_mut(index)?;
        let is_starter = draft.starter == index;
        let (id, phase, span, removed) = (draft.id, draft.phase, draft.span, draft.removed);
        let written = core::mem::take(&mut draft.targets);
        let operator = draft.operator.take();
        let defaults = core::mem::take(&mut draft.defaults);
        let own = draft.actions.clone();
        let links = if is_starter { self.link_count(index) } else { 0 };

        let lowered = self.lower_actions(&defaults, &own, !is_starter);
        let targets = self.lower_targets(&written);
        let negated = operator.as_ref().is_some_and(|operator| operator.negated);
        let (operator, needs) = match operator {
            Some(operator) => {
                let (operator, needs) = self.lower_operator(&operator);
                (Some(operator), needs)
            }
            None => (None, Needs::Nothing),
        };
        let lane = self.lane(&lowered.transformations, lowered.multi_match);
        let gate = match &operator {
            Some(operator) if is_starter && !removed => self.gate(
                &Gated {
                    index: RuleIndex::from_usize(index),
                    phase,
                    targets: &targets,
                    operator,
                    negated,
                    lane,
                    tags: &lowered.meta.tags,
                },
                needs,
            ),
            _ => Gate::Open,
        };
        let mut meta = lowered.meta;
        if let Some(file) = self.files.get(span.source.0 as usize) {
            meta.file = file.name.clone();
            (meta.line, _) = file.lines.line_column(span.start);
        }
        let mut rule = Rule {
            id: RuleId(id),
            phase,
            links,
            targets: targets.into(),
            lane,
            gate,
            only_flows: false,
            capture: lowered.capture,
            negated,
            operator,
            on_match: lowered.on_match.into(),
            disruptive: lowered.disruptive,
            flow: lowered.flow,
            log: lowered.log,
            audit_log: lowered.audit_log,
            meta,
        };
        rule.only_flows = rule.finds_only_flow();
        Some(rule)
    }

    fn link_count(&self, starter: usize) -> u32 {
        let links = self.drafts.iter().skip(starter + 1);
        let count = links.take_while(|draft: &&Draft| draft.starter == starter).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// Whether any rule needs response bodies to be collected.
pub(super) fn looks_at_response_body(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| {
        rule.phase >= Phase::ResponseBody
            && rule.targets.iter().any(|target| target.variable == Variable::ResponseBody)
    })
}
