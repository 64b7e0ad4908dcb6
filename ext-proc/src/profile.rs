//! A profile that is loaded: its rules, how they are applied, and inspectors to be used again.

use std::sync::{Arc, OnceLock};

use glacis_engine::{Program, RuleEngine};
use glacis_explain::Blocking;
use glacis_host::Recipe;
use glacis_inspector::{Inspector, Pool, ResponseInspection, Sample, Settings};

use crate::{
    exclusion_counts::ExclusionCounts, metrics::ProfileMetrics, out_of_band::Watch,
    recording::Wanted, rule_costs::RuleCosts, rule_counts::RuleCounts, ruleset::Compiled,
};

/// Inspectors kept for reuse, of all profiles together, each with some hundred kilobytes: more are in use at once only
/// while bodies are awaited, and making one takes less time than evaluating a request.
const POOLED_MAX: usize = 8;

/// Inspectors that each profile may keep, however many profiles there are.
const POOLED_MIN: usize = 4;

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
    /// In how many requests each exclusion has applied.
    pub(crate) exclusions: Arc<ExclusionCounts>,
    /// What they cost, in a sample.
    pub(crate) costs: Arc<RuleCosts>,
    metrics: OnceLock<ProfileMetrics>,
    blocking: OnceLock<Blocking>,
    pool: Pool,
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
        let pooled_max = (POOLED_MAX / count.max(1)).max(POOLED_MIN);
        Self::pooled(compiled, settings, canary, costs, pooled_max)
    }

    /// One that keeps so many inspectors.
    fn pooled(
        compiled: Compiled,
        settings: Settings,
        canary: Option<String>,
        costs: Arc<RuleCosts>,
        pooled_max: usize,
    ) -> Self {
        let (Compiled { recipe, program }, settings) = (compiled, Arc::new(settings));
        Self {
            pool: Pool::new(Arc::clone(&program), Arc::clone(&settings), pooled_max),
            counts: Arc::new(RuleCounts::new(&program)),
            exclusions: Arc::default(),
            costs,
            metrics: OnceLock::new(),
            blocking: OnceLock::new(),
            program,
            recipe,
            settings,
            canary,
            watch: Arc::default(),
        }
    }

    /// From where on its rules block. The first call evaluates a request.
    pub(crate) fn blocking(&self) -> Blocking {
        *self.blocking.get_or_init(|| Blocking::of(&self.program))
    }

    /// The same rules, applied as these settings say to exchanges that have been answered.
    pub(crate) fn applied_as(&self, settings: Settings) -> Arc<Self> {
        let settings = Settings { out_of_band: true, ..settings };
        let (recipe, program) = (Arc::clone(&self.recipe), Arc::clone(&self.program));
        let (compiled, costs) = (Compiled { recipe, program }, Arc::clone(&self.costs));
        // Few are evaluated at once: as many as there are threads for it.
        let mut profile = Self::pooled(compiled, settings, None, costs, POOLED_MIN);
        profile.counts = Arc::clone(&self.counts);
        profile.exclusions = Arc::clone(&self.exclusions);
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
        self.costs.draw(self.pool.take())
    }

    /// Keeps an inspector for the next exchange, if there is room.
    pub(crate) fn keep(&self, mut inspector: Inspector) {
        self.costs.take(&mut inspector);
        self.pool.keep(inspector);
    }
}
