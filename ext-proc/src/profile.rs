//! A profile that is loaded: its rules, how they are applied, and inspectors to be used again.

use std::sync::{Arc, Mutex, OnceLock};

use glacis_engine::{Program, RuleEngine};
use glacis_inspector::{Inspector, ResponseInspection, Sample, Settings};

use crate::{
    metrics::ProfileMetrics, out_of_band::Watch, recipe::Recipe, recording::Wanted,
    rule_costs::RuleCosts, rule_counts::RuleCounts, ruleset::Compiled,
};

/// Inspectors kept for reuse, of all profiles together, each with some hundred kilobytes: more are in use at once only
/// while bodies are awaited, and making one takes less time than evaluating a request.
const POOLED_MAX: usize = 8;

/// Inspectors that each profile may keep, however many profiles there are.
const POOLED_MIN: usize = 4;

/// An inspector that has taken more body bytes than this is not kept: a few uploads must not leave
/// their memory behind for good.
const POOLED_BODY_BYTES_MAX: usize = 1 << 20;

/// A profile that is loaded.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) program: Arc<Program>,
    pub(crate) recipe: Arc<Recipe>,
    pub(crate) settings: Arc<Settings>,
    /// Path and query of a request that its rules refuse.
    pub(crate) canary: Option<String>,
    /// What is evaluated besides, or instead, without being waited for.
    pub(crate) watch: Arc<Watch>,
    /// In how many requests each rule has matched since it was loaded.
    pub(crate) counts: Arc<RuleCounts>,
    /// What they cost, in a sample.
    pub(crate) costs: Arc<RuleCosts>,
    metrics: OnceLock<ProfileMetrics>,
    pool: Mutex<Vec<Inspector>>,
    pooled_max: usize,
}

impl Profile {
    /// One of `count` profiles.
    pub(crate) fn new(
        compiled: Compiled,
        settings: Settings,
        canary: Option<String>,
        costs: Arc<RuleCosts>,
        count: usize,
    ) -> Self {
        let Compiled { recipe, program } = compiled;
        Self {
            counts: Arc::new(RuleCounts::new(&program)),
            costs,
            metrics: OnceLock::new(),
            program,
            recipe,
            settings: Arc::new(settings),
            canary,
            watch: Arc::default(),
            pool: Mutex::default(),
            pooled_max: (POOLED_MAX / count.max(1)).max(POOLED_MIN),
        }
    }

    /// The same rules, applied as these settings say to exchanges that have been answered.
    pub(crate) fn applied_as(&self, settings: Settings) -> Arc<Self> {
        let settings = Settings { out_of_band: true, ..settings };
        let (recipe, program) = (Arc::clone(&self.recipe), Arc::clone(&self.program));
        let costs = Arc::clone(&self.costs);
        let mut profile = Self::new(Compiled { recipe, program }, settings, None, costs, 1);
        profile.counts = Arc::clone(&self.counts);
        // Few are evaluated at once: as many as there are threads for it.
        profile.pooled_max = POOLED_MIN;
        Arc::new(profile)
    }

    /// The same rules for exchanges that have been answered: they look on.
    pub(crate) fn looking_on(&self) -> Arc<Self> {
        let off = self.rule_engine() == RuleEngine::Off;
        let rule_engine = (!off).then_some(RuleEngine::DetectionOnly);
        let settings = Settings::clone(&self.settings);
        self.applied_as(Settings { rule_engine: rule_engine.or(settings.rule_engine), ..settings })
    }

    /// The same rules for comparison: whatever they may do otherwise, they come to a verdict, and leave nothing.
    pub(crate) fn compared(&self) -> Arc<Self> {
        let settings = Settings::clone(&self.settings);
        let (rule_engine, sample) = (Some(RuleEngine::On), Sample::default());
        let (collections, refused_parts) = (None, None);
        self.applied_as(Settings { rule_engine, sample, collections, refused_parts, ..settings })
    }

    /// What its rules have to see of an exchange that has drawn `lot`.
    pub(crate) fn wanted(&self, lot: u8) -> Wanted {
        if self.rule_engine() == RuleEngine::Off || !self.settings.sample.has(lot) {
            return Wanted::default();
        }
        let (program, limits) = (&self.program, self.program.limits());
        let response = self.settings.response != ResponseInspection::Off;
        let full = self.settings.response == ResponseInspection::Full;
        let body = |wanted: bool, bytes_max: usize| if wanted { bytes_max } else { 0 };
        Wanted {
            request_body_bytes: body(
                program.inspects_request_body(),
                limits.request_body_bytes_max,
            ),
            response: response && program.inspects_response(),
            response_body_bytes: body(
                full && program.inspects_response_body(),
                limits.response_body_bytes_max,
            ),
        }
    }

    /// Whether it is answered without being evaluated.
    pub(crate) fn is_out_of_band(&self) -> bool {
        self.settings.out_of_band
    }

    /// Gives it its metrics, once.
    pub(crate) fn measure(&self, metrics: ProfileMetrics) {
        // Those it has been given before are the same.
        let _ = self.metrics.set(metrics);
    }

    /// Its metrics; none before it is in use.
    pub(crate) fn metrics(&self) -> Option<&ProfileMetrics> {
        self.metrics.get()
    }

    /// Whether rules run, and may block, as an exchange begins.
    pub(crate) fn rule_engine(&self) -> RuleEngine {
        self.settings.rule_engine.unwrap_or_else(|| self.program.rule_engine())
    }

    /// An inspector for one exchange; to be given back with [`Self::keep`].
    pub(crate) fn inspector(&self) -> Inspector {
        let pooled = self.pool.lock().ok().and_then(|mut pool| pool.pop());
        let inspector = pooled.unwrap_or_else(|| {
            Inspector::new(Arc::clone(&self.program), Arc::clone(&self.settings))
        });
        self.costs.draw(inspector)
    }

    /// Keeps an inspector for the next exchange, if there is room.
    pub(crate) fn keep(&self, mut inspector: Inspector) {
        self.costs.take(&mut inspector);
        if inspector.body_bytes() > POOLED_BODY_BYTES_MAX {
            return;
        }
        if let Ok(mut pool) = self.pool.lock()
            && pool.len() < self.pooled_max
        {
            pool.push(inspector);
        }
    }
}
