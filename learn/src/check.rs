//! Whether known attacks are still found where an exclusion applies.

use core::time::Duration;
use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use glacis_engine::{Program, RuleEngine, Transaction};
use glacis_explain::{Occasion, inspect};

use crate::{
    attacks::{Attack, Attacks},
    inject::Place,
    observe::{Unit, refused},
    target::Target,
    values::Values,
};

/// Attacks that may be lost of those that were found before, in percent.
const LOST_PERCENT_MAX: usize = 1;

/// The same for each category, where more than one is lost.
const CATEGORY_LOST_PERCENT_MAX: usize = 5;

/// A host that no exclusion names.
const NEUTRAL_HOST: &str = "learn.invalid";

/// How a request with one attack is judged without exclusions.
#[derive(Clone, Debug)]
struct Baseline {
    /// `None` when it passes.
    caught: Option<Caught>,
}

#[derive(Clone, Debug)]
struct Caught {
    excess: i64,
    /// Whether more than the points refuse it: an exclusion changes nothing then.
    beyond: bool,
    units: Vec<Unit>,
}

/// Attacks found without and with exclusions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Found and lost, by category.
    categories: BTreeMap<String, (usize, usize)>,
}

impl Loss {
    fn count(&mut self, category: &str, lost: bool) {
        let counts = self.categories.entry(category.to_owned()).or_default();
        counts.0 += 1;
        counts.1 += usize::from(lost);
    }

    pub(crate) fn found(&self) -> usize {
        self.categories.values().map(|(found, _)| found).sum()
    }

    pub(crate) fn lost(&self) -> usize {
        self.categories.values().map(|(_, lost)| lost).sum()
    }

    /// Whether so few are lost that the exclusion may be proposed.
    pub(crate) fn is_small(&self) -> bool {
        let within = |found: usize, lost: usize, percent: usize| lost * 100 <= found * percent;
        within(self.found(), self.lost(), LOST_PERCENT_MAX)
            && self
                .categories
                .values()
                .all(|&(found, lost)| lost <= 1 || within(found, lost, CATEGORY_LOST_PERCENT_MAX))
    }
}

/// What a rule leaves out at a place.
#[derive(Clone, Debug)]
pub(crate) struct Left<'v> {
    pub(crate) rule: u32,
    pub(crate) target: Target,
    pub(crate) values: &'v Values,
}

impl Left<'_> {
    /// The points of the unit that the exclusion takes away for this payload.
    fn takes(&self, unit: &Unit, payload: &[u8]) -> i64 {
        if unit.rule != self.rule || unit.places.is_empty() || !self.values.holds(payload) {
            return 0;
        }
        let header = |target: &Target| target.collection == "REQUEST_HEADERS";
        let here = |target: &Target| {
            target.collection == self.target.collection
                && (!header(target) || target.name == self.target.name)
        };
        let here = unit.places.iter().filter(|(target, _)| here(target)).count();
        let (here, all) = (i64::try_from(here).unwrap_or(0), i64::try_from(unit.places.len()));
        // A part of a point is a point: what is in doubt counts as lost.
        unit.amount * here / all.unwrap_or(1).max(1) + i64::from(here > 0 && unit.amount == 0)
    }
}

/// Compares what is found of known attacks, with exclusions and without.
#[derive(Debug)]
pub(crate) struct Checker {
    traced: Transaction,
    attacks: Rc<Attacks>,
    baselines: BTreeMap<Place, Rc<Vec<Baseline>>>,
}

fn occasion() -> Occasion {
    Occasion { rule_engine: Some(RuleEngine::On), ..Occasion::at(Duration::from_secs(1)) }
}

impl Checker {
    pub(crate) fn new(program: Arc<Program>, attacks: Rc<Attacks>) -> Self {
        let traced = Transaction::new(program).with_trace();
        Self { traced, attacks, baselines: BTreeMap::new() }
    }

    /// What would be lost at a place, by the points that rules gave.
    pub(crate) fn estimate(&mut self, place: &Place, left: &[Left<'_>]) -> Loss {
        let baselines = self.baselines(place);
        let mut loss = Loss::default();
        for (attack, baseline) in self.attacks.list.iter().zip(baselines.iter()) {
            let Some(caught) = &baseline.caught else { continue };
            let taken: i64 = caught
                .units
                .iter()
                .flat_map(|unit| left.iter().map(move |left| left.takes(unit, &attack.payload)))
                .sum();
            loss.count(&attack.category, !caught.beyond && taken >= caught.excess);
        }
        loss
    }

    /// What is lost at a place of a page with the rules of `program`, by trying.
    pub(crate) fn try_out(
        &mut self,
        program: &Arc<Program>,
        place: &Place,
        host: &str,
        path: &str,
        rules: &[u32],
    ) -> Loss {
        let baselines = self.baselines(place);
        let mut transaction = Transaction::new(Arc::clone(program));
        let mut loss = Loss::default();
        for (attack, baseline) in self.attacks.list.iter().zip(baselines.iter()) {
            let Some(caught) = &baseline.caught else { continue };
            let concerned = caught.units.iter().any(|unit| rules.contains(&unit.rule));
            let lost = concerned && {
                let request = place.request(host, path, &attack.payload);
                inspect(&mut transaction, &request, "", &occasion());
                transaction.verdict().refusal().is_none()
            };
            loss.count(&attack.category, lost);
        }
        loss
    }

    fn baselines(&mut self, place: &Place) -> Rc<Vec<Baseline>> {
        // The name of an argument or of a cookie changes nothing: one stands for all.
        let key = match place {
            Place::Argument(_) => Place::Argument("q".to_owned()),
            Place::Cookie(_) => Place::Cookie("q".to_owned()),
            other => other.clone(),
        };
        if let Some(known) = self.baselines.get(&key) {
            return Rc::clone(known);
        }
        let attacks = Rc::clone(&self.attacks);
        let judged = attacks.list.iter().map(|attack| self.judge(&key, attack)).collect();
        let judged = Rc::new(judged);
        self.baselines.insert(key, Rc::clone(&judged));
        judged
    }

    fn judge(&mut self, place: &Place, attack: &Attack) -> Baseline {
        let request = place.request(NEUTRAL_HOST, "/", &attack.payload);
        inspect(&mut self.traced, &request, "", &occasion());
        let caught = refused(&self.traced).map(|refused| match refused {
            Ok(refused) => Caught { excess: refused.excess(), beyond: false, units: refused.units },
            Err(_) => Caught { excess: 1, beyond: true, units: Vec::new() },
        });
        Baseline { caught }
    }
}
