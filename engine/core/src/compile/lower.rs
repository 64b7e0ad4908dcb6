//! Pass 4: each gathered rule → plain data.

use super::{Compiler, Draft, actions, gates::Gated, is, operators::Needs, value_text};
use crate::{
    id::{LaneId, Phase, RuleId, RuleIndex},
    program::{Gate, Rule, Target},
    variable::Variable,
};

/// How `ver` of the rules of CRS begins: `OWASP_CRS/4.25.0`.
const CRS_VERSION: &str = "OWASP_CRS/";

impl Compiler<'_> {
    pub(super) fn lower_rules(&mut self) -> Vec<Rule> {
        // Rules are selected by tag, message and id while others are lowered, so the drafts stay in
        // place, with their actions.
        let count = self.drafts.len();
        let mut rules: Vec<Rule> = (0..count).filter_map(|index| self.lower_rule(index)).collect();
        self.statuses_of_links(&mut rules);
        rules.shrink_to_fit();
        rules
    }

    /// A status that a link of a chain names is that of the chain: of several the last, since all have matched.
    fn statuses_of_links(&self, rules: &mut [Rule]) {
        for (index, draft) in self.drafts.iter().enumerate() {
            let status = draft.actions.iter().rev().find_map(actions::status_of);
            if draft.starter != index
                && let Some(starter) = rules.get_mut(draft.starter)
            {
                actions::with_status(&mut starter.disruptive, status);
            }
        }
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

        let lowered = self.lower_actions(index, &defaults, &own, !is_starter);
        let mut targets = self.lower_targets(&written);
        self.show_body_as_sent(index, &mut targets);
        let negated = operator.as_ref().is_some_and(|operator| operator.negated);
        let (operator, needs) = match operator {
            Some(operator) => {
                let (operator, needs) = self.lower_operator(&operator);
                (Some(operator), needs)
            }
            None => (None, Needs::Nothing),
        };
        let lane = self.lane(&lowered.transformations, lowered.multi_match).unwrap_or_else(|why| {
            self.error(span, &why);
            LaneId::NONE
        });
        let gate = match &operator {
            Some(operator) if is_starter && !removed && !self.checks_only => self.gate(
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

    /// Has a rule look at the body as it was sent, if it is one that does.
    fn show_body_as_sent(&self, index: usize, targets: &mut [Target]) {
        if !self.sees_body_as_sent(index, targets) {
            return;
        }
        for target in targets {
            if target.variable == Variable::RequestBody {
                target.variable = Variable::RequestBodyAsSent;
            }
        }
    }

    /// Whether `REQUEST_BODY` in this rule is that of JSON and XML bodies, too, as in ModSecurity.
    ///
    /// Rules of CRS look at their texts by `ARGS` and `XML`, and are tested so: a second look at the bytes, with their
    /// quotes and line ends, is what blocks ordinary JSON at paranoia levels 3 and 4. An exception are rules of CRS that
    /// look for the names of arguments and not for their values (934210): a name whose value is an array or an object is
    /// nowhere else.
    fn sees_body_as_sent(&self, index: usize, targets: &[Target]) -> bool {
        let starter = self.drafts.get(index).and_then(|draft| self.drafts.get(draft.starter));
        let version = starter.and_then(|draft| draft.actions.iter().find(|it| is(it, "ver")));
        let is_of_crs = version.is_some_and(|version| value_text(version).starts_with(CRS_VERSION));
        let has = |variable| targets.iter().any(|target| target.variable == variable);
        !is_of_crs || (has(Variable::ArgsNames) && !has(Variable::Args))
    }

    fn link_count(&self, starter: usize) -> u32 {
        let links = self.drafts.iter().skip(starter + 1);
        let count = links.take_while(|draft: &&Draft| draft.starter == starter).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Whether any rule that runs needs response bodies to be collected.
    pub(super) fn looks_at_response_body(&self, rules: &[Rule]) -> bool {
        self.looks_from(Phase::ResponseBody, rules, |variable| variable == Variable::ResponseBody)
    }

    /// Whether any rule behind phase 2 that runs looks at what the request's body brings.
    pub(super) fn looks_at_request_body_later(&self, rules: &[Rule]) -> bool {
        let brings = |variable: Variable| match variable {
            Variable::Args | Variable::ArgsNames | Variable::ArgsCombinedSize => true,
            other => other.first_phase() == Phase::RequestBody.number(),
        };
        self.looks_from(Phase::ResponseHeaders, rules, brings)
    }

    /// Whether any rule of the last phase that runs looks at what only a response brings.
    pub(super) fn logs_response(&self, rules: &[Rule]) -> bool {
        self.looks_from(Phase::Logging, rules, |variable| matches!(variable.first_phase(), 3 | 4))
    }

    /// Whether any rule of this phase or a later one that runs looks at such a variable.
    fn looks_from(&self, phase: Phase, rules: &[Rule], wanted: fn(Variable) -> bool) -> bool {
        let looks = |rule: &Rule| {
            rule.phase >= phase && rule.targets.iter().any(|target| wanted(target.variable))
        };
        rules.iter().enumerate().any(|(index, rule)| self.runs(index) && looks(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::super::LANES_MAX;
    use crate::{Input, Limits, NoFiles, Program, transform::TABLE};

    /// Rules with so many different chains of three transformations.
    fn build(chains: usize) -> Result<Program, String> {
        let names: Vec<&str> = TABLE
            .iter()
            .filter(|(name, transformation)| *name == transformation.name())
            .map(|(name, _)| *name)
            .collect();
        let base = names.len();
        let rule = |n: usize| {
            let [a, b, c] = [n / base / base, n / base % base, n % base].map(|at| names[at]);
            let id = n + 1;
            format!("SecRule ARGS \"@unconditionalMatch\" \"id:{id},phase:1,t:{a},t:{b},t:{c}\"\n")
        };
        let text = (0..chains).map(rule).collect();
        let input = Input::Text { name: "rules".to_owned(), text };
        Program::build(&[input], &NoFiles, Limits::default()).map_err(|errors| errors.to_string())
    }

    #[test]
    fn chains_of_transformations_have_a_limit() {
        // The empty chain is one of them.
        assert_eq!(build(LANES_MAX - 1).map(|program| program.lanes.len()), Ok(LANES_MAX));
        let refused = build(LANES_MAX).map(|program| program.lanes.len());
        assert!(refused.is_err_and(|why| why.contains("chains of transformations")));
    }
}
