//! Pass 3: directives that change or remove rules, and the selection of rules they share with `ctl`.

use seclang::{Action, Directive, DirectiveKind, IdRange, Span, Target};

use super::{Compiler, Draft, actions::is_disruptive, is, value_text};
use crate::{
    id::{RuleIndex, RuleSet},
    pattern::Pattern,
    settings::MovedSetvar,
};

impl Compiler<'_> {
    pub(super) fn apply_updates(&mut self) {
        let directives = core::mem::take(&mut self.directives);
        for directive in &directives {
            if let Err(message) = self.update(directive) {
                self.error(directive.span, &message);
            }
        }
        for moved in core::mem::take(&mut self.settings.moved_setvars) {
            self.move_setvar(&moved);
        }
    }

    /// Has a rule set another variable, in the same way. Nothing happens where no rule sets the first one.
    fn move_setvar(&mut self, moved: &MovedSetvar) {
        let drafts = self.drafts.iter_mut().filter(|draft| draft.id == moved.rule);
        for action in drafts.flat_map(|draft| &mut draft.actions) {
            let is_setvar = is(action, "setvar");
            let Some(value) = action.value.as_mut().filter(|_| is_setvar) else { continue };
            let Some((variable, change)) = value.text.split_once('=') else { continue };
            if variable.trim().eq_ignore_ascii_case(&moved.from) {
                value.text = format!("{}={change}", moved.to);
            }
        }
    }

    fn update(&mut self, directive: &Directive) -> Result<(), String> {
        let span = directive.span;
        match &directive.kind {
            DirectiveKind::RemoveById(ids) => {
                let rules = self.starters(span, |draft| in_ranges(ids, draft.id));
                self.remove(&rules);
            }
            DirectiveKind::RemoveByTag(text) => {
                let pattern = Pattern::new(&text.text)?;
                let rules = self.starters(span, |draft| has_tag(draft, &pattern));
                self.remove(&rules);
            }
            DirectiveKind::RemoveByMsg(text) => {
                let pattern = Pattern::new(&text.text)?;
                let rules = self.starters(span, |draft| has_msg(draft, &pattern));
                self.remove(&rules);
            }
            DirectiveKind::UpdateTargetById { ids, targets } => {
                let rules = self.starters(span, |draft| in_ranges(ids, draft.id));
                self.update_targets(span, &rules, targets);
            }
            DirectiveKind::UpdateTargetByTag { pattern, targets } => {
                let pattern = Pattern::new(&pattern.text)?;
                let rules = self.starters(span, |draft| has_tag(draft, &pattern));
                self.update_targets(span, &rules, targets);
            }
            DirectiveKind::UpdateTargetByMsg { pattern, targets } => {
                let pattern = Pattern::new(&pattern.text)?;
                let rules = self.starters(span, |draft| has_msg(draft, &pattern));
                self.update_targets(span, &rules, targets);
            }
            DirectiveKind::UpdateActionById { id, offset, actions } => {
                self.update_actions(span, *id, *offset, actions)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The starters that `wanted` selects. None is worth a warning: such a directive does nothing.
    fn starters(&mut self, span: Span, wanted: impl Fn(&Draft) -> bool) -> Vec<usize> {
        let drafts = self.drafts.iter().enumerate();
        let found: Vec<usize> = drafts
            .filter(|(index, draft)| draft.starter == *index && wanted(draft))
            .map(|(index, _)| index)
            .collect();
        if found.is_empty() {
            self.warn(span, "no rule is selected, so nothing is changed");
        }
        found
    }

    fn remove(&mut self, rules: &[usize]) {
        for &index in rules {
            if let Some(draft) = self.drafts.get_mut(index) {
                draft.removed = true;
            }
        }
    }

    fn update_targets(&mut self, span: Span, rules: &[usize], targets: &[Target]) {
        self.excluded_by_update(span, rules, targets);
        for &index in rules {
            if let Some(draft) = self.drafts.get_mut(index).filter(|draft| draft.operator.is_some())
            {
                draft.targets.extend_from_slice(targets);
            }
        }
    }

    fn update_actions(
        &mut self,
        span: Span,
        id: IdRange,
        offset: u32,
        actions: &[Action],
    ) -> Result<(), String> {
        if let Some(fixed) =
            actions.iter().find(|a| ["id", "phase", "chain"].iter().any(|n| is(a, n)))
        {
            return Err(format!("SecRuleUpdateActionById cannot change {}", fixed.name.text));
        }
        for starter in self.starters(span, |draft| in_ranges(&[id], draft.id)) {
            let index = starter + offset as usize;
            let Some(draft) = self.drafts.get_mut(index).filter(|draft| draft.starter == starter)
            else {
                return Err(format!("the chain has no rule number {offset}"));
            };
            for action in actions {
                replace_action(&mut draft.actions, action);
            }
        }
        Ok(())
    }

    pub(super) fn rules_by_ids(&mut self, list: &str) -> Result<RuleSet, String> {
        let mut ranges = Vec::new();
        for range in list.split([' ', ',']).filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last => ranges.push((first, last)),
                _ => return Err(format!("`{range}` is neither a rule id nor a range such as 1-5")),
            }
        }
        Ok(self.rule_set(|draft| ranges.iter().any(|(a, b)| (*a..=*b).contains(&draft.id))))
    }

    pub(super) fn rules_by_tag(&mut self, pattern: &str) -> Result<RuleSet, String> {
        let pattern = Pattern::new(pattern)?;
        Ok(self.rule_set(|draft| has_tag(draft, &pattern)))
    }

    pub(super) fn rules_by_msg(&mut self, pattern: &str) -> Result<RuleSet, String> {
        let pattern = Pattern::new(pattern)?;
        Ok(self.rule_set(|draft| has_msg(draft, &pattern)))
    }

    /// The chains whose starter is wanted, with all their links.
    fn rule_set(&self, wanted: impl Fn(&Draft) -> bool) -> RuleSet {
        let mut rules = RuleSet::default();
        for (index, draft) in self.drafts.iter().enumerate() {
            if self.drafts.get(draft.starter).is_some_and(&wanted) {
                rules.insert(RuleIndex::from_usize(index));
            }
        }
        rules
    }
}

/// Actions of which a rule may have several (ModSecurity 2, `re_actions.c`).
const REPEATABLE: [&str; 18] = [
    "ctl",
    "deprecatevar",
    "expirevar",
    "initcol",
    "sanitisearg",
    "sanitisematched",
    "sanitisematchedbytes",
    "sanitiserequestheader",
    "sanitiseresponseheader",
    "sanitizearg",
    "sanitizematched",
    "sanitizematchedbytes",
    "sanitizerequestheader",
    "sanitizeresponseheader",
    "setenv",
    "setvar",
    "t",
    "tag",
];

/// A disruptive action replaces the disruptive one, those of which there may be several are added, all
/// others replace those of their name (ModSecurity reference manual, `SecRuleUpdateActionById`).
fn replace_action(actions: &mut Vec<Action>, new: &Action) {
    if is_disruptive(new) {
        actions.retain(|action| !is_disruptive(action));
    } else if !REPEATABLE.iter().any(|name| is(new, name)) {
        actions.retain(|action| !action.name.text.eq_ignore_ascii_case(&new.name.text));
    }
    actions.push(new.clone());
}

fn in_ranges(ranges: &[IdRange], id: u32) -> bool {
    ranges.iter().any(|range| (range.first..=range.last).contains(&id))
}

fn has_tag(draft: &Draft, pattern: &Pattern) -> bool {
    let mut tags = draft.actions.iter().filter(|action| is(action, "tag"));
    tags.any(|tag| pattern.may_match(value_text(tag).as_bytes()))
}

fn has_msg(draft: &Draft, pattern: &Pattern) -> bool {
    let mut messages = draft.actions.iter().filter(|action| is(action, "msg"));
    messages.any(|msg| pattern.may_match(value_text(msg).as_bytes()))
}
