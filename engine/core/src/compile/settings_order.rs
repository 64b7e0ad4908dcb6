//! Warnings that depend on what other rules set: settings of CRS that come too late, and collections that are opened only
//! where somebody asks for them.
//!
//! As in `placebo`, nothing here changes the program, and only plain cases are named.

use seclang::Span;

use super::{Compiler, is, value_text};
use crate::{
    operator::{Operator, leading_integer},
    program::{MatchAction, Rule, Select, Target},
    variable::Variable,
};

/// The rules of CRS that initialise its variables from its settings.
const INITIALISATION: core::ops::RangeInclusive<u32> = 901_000..=901_999;

/// Rules of CRS, its set-up included.
const CRS: core::ops::RangeInclusive<u32> = 900_000..=999_999;

/// Members of `TX` that CRS reads while it initialises itself, or in rules of phase 1 only: set later, they do not do
/// what their author means.
const READ_EARLY: &[&str] = &[
    "allowed_http_versions",
    "allowed_methods",
    "allowed_request_content_type",
    "blocking_paranoia_level",
    "crs_setup_version",
    "detection_paranoia_level",
    "enable_default_collections",
    "enforce_bodyproc_urlencoded",
    "paranoia_level",
    "sampling_percentage",
];

/// Actions that open a collection.
const OPENING: [&str; 4] = ["initcol", "setrsc", "setsid", "setuid"];

impl Compiler<'_> {
    /// Settings of CRS in rules after CRS: CRS has copied or compared them by then.
    pub(super) fn late_settings(&mut self) {
        let drafts = self.drafts.iter().enumerate();
        let mut initialising = drafts.filter(|(_, draft)| INITIALISATION.contains(&draft.id));
        let Some((first, of_crs)) = initialising.next() else { return };
        let phase = of_crs.phase;
        let drafts = self.drafts.iter().enumerate();
        let late: Vec<(Span, String)> = drafts
            .filter(|(index, draft)| {
                let is_later = (draft.phase, *index) > (phase, first);
                is_later && !CRS.contains(&draft.id) && self.runs(*index)
            })
            .flat_map(|(_, draft)| draft.actions.iter().filter(|action| is(action, "setvar")))
            .filter_map(|action| {
                let name = set_member(value_text(action))?;
                let name = name.split(['=', '+', '-']).next()?.trim().to_owned();
                READ_EARLY.contains(&name.as_str()).then_some((action.span, name))
            })
            .collect();
        for (span, name) in late {
            self.warn(
                span,
                &format!(
                    "tx.{name} is a setting of CRS, which has read it before this rule runs: set it before CRS, in phase 1"
                ),
            );
        }
    }

    /// Collections that outlive their transaction only where a host keeps them. A chain that begins with a member of
    /// `TX` that no rule sets never opens one: that is how CRS has them until they are turned on.
    pub(super) fn opened_collections(&mut self, rules: &[Rule]) {
        let mut opened: Vec<(Span, String)> = Vec::new();
        for (index, rule) in rules.iter().enumerate().filter(|(index, _)| self.runs(*index)) {
            let Some(draft) = self.drafts.get(index) else { continue };
            if rules.get(draft.starter).is_some_and(|starter| self.never_matches(starter)) {
                continue;
            }
            let written =
                draft.actions.iter().filter(|action| OPENING.iter().any(|name| is(action, name)));
            let lowered = rule.on_match.iter().filter_map(|action| match action {
                MatchAction::InitCol(collection, _) => Some(collection.name()),
                _ => None,
            });
            opened
                .extend(written.zip(lowered).map(|(action, name)| (action.span, name.to_owned())));
        }
        for (span, name) in opened {
            let message =
                format!("{name} outlives its transaction only where the host keeps collections");
            self.warn(span, &message);
        }
    }

    /// Whether a rule looks only at members of `TX` that no rule sets, and does not match for that.
    fn never_matches(&self, rule: &Rule) -> bool {
        // The count of what is not set is 0.
        let matches_none = match &rule.operator {
            Some(Operator::Number(comparison, parameter)) => {
                let number = parameter.literal().map(leading_integer);
                number.is_none_or(|number| comparison.holds(0, number) != rule.negated)
            }
            _ => true,
        };
        let is_unset = |target: &Target| {
            let Select::Slot(slot) = target.select else { return false };
            let name = self.tx_names.get(slot.get());
            target.variable == Variable::Tx
                && !(target.count && matches_none)
                && name.is_some_and(|name| !self.sets(name))
        };
        !rule.targets.is_empty() && rule.targets.iter().all(is_unset)
    }

    /// Whether a rule that runs may set this member of `TX`.
    fn sets(&self, wanted: &str) -> bool {
        let drafts = self.drafts.iter().enumerate().filter(|(index, _)| self.runs(*index));
        let mut actions = drafts.flat_map(|(_, draft)| &draft.actions);
        actions.any(|action| {
            let name = set_member(value_text(action)).filter(|_| is(action, "setvar"));
            let Some(name) = name else { return false };
            match name.split_once("%{") {
                Some((begin, _)) if !begin.contains('=') => wanted.starts_with(begin),
                _ => name.split('=').next().is_some_and(|name| name.trim() == wanted),
            }
        })
    }
}

/// The member of `TX` that a `setvar` names, in lower case, with what follows it.
fn set_member(value: &str) -> Option<String> {
    let value = value.trim_matches('\'').to_ascii_lowercase();
    let name = value.strip_prefix("tx.").or_else(|| value.strip_prefix("tx:"))?;
    Some(name.to_owned())
}
