//! The second opinion on a request, beside the verdict of the rules.

use glacis_engine::{Phase, Refusal, RuleId};
use glacis_second_opinion::{Evidence, Opinion};

use super::Inspector;
use crate::{
    decision::{Mode, Opined},
    settings::OpinionAction,
};

/// The id under which the second opinion refuses: no rule has it.
pub const SECOND_OPINION_RULE: RuleId = RuleId(100_950);

/// The status of such a refusal.
const STATUS: u16 = 403;

impl Inspector {
    /// The second opinion on the request. `None` before the request has been evaluated, where rules do not run, and
    /// where there is none.
    #[must_use]
    pub const fn opinion(&self) -> Option<&Opinion> {
        self.opinion.as_ref()
    }

    /// What receipts hold of the opinion.
    pub(super) fn opined(&self) -> Option<Opined> {
        let opinion = self.opinion.as_ref()?;
        Some(Opined {
            score: opinion.score,
            attack: opinion.is_attack(),
            refused_by_rules: self.transaction.verdict().refusal().is_some(),
        })
    }

    /// Forms the opinion, all rules about the request having run.
    pub(super) fn form_opinion(&mut self) {
        let wanted = self.settings.second_opinion.as_ref();
        let wanted = wanted.filter(|_| self.mode() != Mode::Off);
        let opinion = wanted.map(|wanted| wanted.weights.opinion(&Evidence::of(&self.transaction)));
        self.opinion = opinion;
    }

    /// The refusal by the second opinion, if it refuses.
    pub(super) fn refused_by_opinion(&self) -> Option<Refusal> {
        (self.mode() == Mode::Blocking).then(|| self.opinion_refusal()).flatten()
    }

    /// The refusal by the second opinion, as if it might block.
    pub(super) fn opinion_refusal(&self) -> Option<Refusal> {
        let is_attack = self.opinion.as_ref().is_some_and(Opinion::is_attack);
        let settings = self.settings.second_opinion.as_ref();
        let blocks = settings.is_some_and(|settings| settings.action == OpinionAction::Block);
        (is_attack && blocks).then_some(Refusal {
            status: STATUS,
            rule: Some(SECOND_OPINION_RULE),
            phase: Phase::RequestBody,
        })
    }
}
