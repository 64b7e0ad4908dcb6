//! The rules of a configuration: each profile's, compiled.

use core::{fmt, time::Duration};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use glacis_engine::{
    BuildErrors, CollectionStore, Limits, MemoryStore, Parts, Program, RuleEngine, SourceError,
};
use glacis_inspector::{BlockPage, Profiles, Sample, Settings, canary::CRS_CANARY};
use glacis_rules::{
    Assembled, Assembly, CrsSettings, Date, Exclusion, ExclusionError, ExclusionRules, Record,
    RecordingSource, exclusion_rules,
};
use glacis_service::store::Stores;
use prometheus_client::registry::Registry;

use crate::{
    canary,
    collections::{CollectionMetrics, SharedCollections},
    config::{Config, Evaluation, ExpiredExclusions, OversizedBody},
    out_of_band::Watch,
    profile::Profile,
    recipe::Recipe,
    rule_costs::RuleCosts,
    shadow::Shadow,
};

/// What outlives the rules: the same for every configuration that this process loads.
#[derive(Clone, Debug)]
pub struct Host {
    collections: Option<Arc<dyn CollectionStore>>,
    metrics: CollectionMetrics,
    /// What profiles have in common, and rules with those that take their place.
    parts: Arc<Mutex<Parts>>,
}

impl Host {
    /// That of a process which starts with `config`.
    ///
    /// # Errors
    /// When collections are to be shared and the thread for that cannot be started.
    pub fn new(config: &Config) -> io::Result<Self> {
        let Some(redis) = &config.collections.redis else { return Ok(Self::alone(config)) };
        let limits = Limits::from(&config.limits).collections();
        let (max, metrics) = (config.collections_max, CollectionMetrics::default());
        let (config, counted) = (&config.collections, metrics.clone());
        let shared = SharedCollections::start(redis, config, max, limits, counted)?;
        Ok(Self { collections: Some(Arc::new(shared)), metrics, parts: Arc::default() })
    }

    /// That of a process which shares no collections, whatever `config` says: it asks nobody.
    #[must_use]
    pub fn alone(config: &Config) -> Self {
        let limits = Limits::from(&config.limits).collections();
        let collections: Option<Arc<dyn CollectionStore>> = match config.collections_max {
            0 => None,
            max => Some(Arc::new(MemoryStore::new(max, limits))),
        };
        Self { collections, metrics: CollectionMetrics::default(), parts: Arc::default() }
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the memory of rules that no exchange is evaluated by any more.
    pub(crate) fn forget_unused_rules(&self) {
        self.parts().forget_unused();
    }

    /// Registers what is counted of collections; `stores` learns of the Redis that they are in.
    pub fn register(&self, registry: &mut Registry, stores: &Stores) {
        self.metrics.register(registry, stores);
    }
}

/// All profiles of a configuration, ready to be used.
#[derive(Debug)]
pub struct Rulesets {
    pub(crate) profiles: Profiles<Arc<Profile>>,
    exclusions: Vec<LoadedExclusion>,
    /// What was read for them, where that is known.
    record: Option<Record>,
}

/// An exclusion, and what became of it.
#[derive(Clone, Debug)]
pub struct LoadedExclusion {
    /// The name of the profile.
    pub profile: String,
    /// What it says.
    pub exclusion: Exclusion,
    /// Whether its last day is over.
    pub expired: bool,
    /// Whether it is in force.
    pub applied: bool,
}

impl fmt::Display for LoadedExclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, exclusion, expired, applied } = self;
        let state = match (expired, applied) {
            (false, _) => "holds",
            (true, true) => "has expired and is still applied",
            (true, false) => "has expired and is no longer applied",
        };
        let (subject, owner, reason) = (exclusion.subject(), &exclusion.owner, &exclusion.reason);
        write!(
            f,
            "profile {profile}: the exclusion of {subject} {state}; owner: {owner}, reason: {reason}"
        )
    }
}

/// A profile whose rules were refused.
#[derive(Debug)]
pub struct RulesetError {
    pub(crate) profile: String,
    pub(crate) kind: RulesetErrorKind,
}

#[derive(Debug)]
pub(crate) enum RulesetErrorKind {
    Crs(SourceError),
    Exclusions(ExclusionError),
    Rules(BuildErrors),
    Bundle(String),
    NoProfile,
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "profile {}: ", self.profile)?;
        match &self.kind {
            RulesetErrorKind::Crs(error) => write!(f, "crs: {error}"),
            RulesetErrorKind::Exclusions(error) => error.fmt(f),
            RulesetErrorKind::Rules(errors) => errors.fmt(f),
            RulesetErrorKind::Bundle(problem) => f.write_str(problem),
            RulesetErrorKind::NoProfile => f.write_str("there is no profile of this name"),
        }
    }
}

impl core::error::Error for RulesetError {}

impl RulesetError {
    pub(crate) fn no_profile(name: &str) -> Self {
        Self { profile: name.to_owned(), kind: RulesetErrorKind::NoProfile }
    }
}

/// Of one loaded profile, what is to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// Its name.
    pub profile: &'a str,
    /// Its rules.
    pub program: &'a Program,
    /// The mode in which they run.
    pub rule_engine: RuleEngine,
}

impl Rulesets {
    /// Reads, through `source`, and compiles the rules that `config` names. `now`, since 1970, decides
    /// which exclusions are over.
    ///
    /// Profiles that differ only in how rules are applied share the compiled rules; others share what large
    /// parts they have in common.
    ///
    /// # Errors
    /// Everything wrong in the rules of a profile, each with file and line.
    pub fn build(
        config: &Config,
        host: &Host,
        source: &RecordingSource,
        now: Duration,
    ) -> Result<Self, RulesetError> {
        host.forget_unused_rules();
        let mut builder = Builder {
            host,
            source,
            today: Date::at(now),
            compiled: Vec::new(),
            exclusions: Vec::new(),
        };
        let built = builder.profiles(config)?;
        let default = built.get(&config.profile).map(Arc::clone);
        // It is among them: `profile_names` begins with it.
        let default = default.ok_or_else(|| RulesetError::no_profile(&config.profile))?;
        let policy = config.unknown_profile.into();
        let mut profiles = Profiles::new(&config.profile, default, policy);
        for (name, profile) in &built {
            profiles.insert(name, Arc::clone(profile));
        }
        for (route, name) in &config.routes {
            // The configuration has been checked: an unknown name is not among them.
            if profiles.insert_route(route, name).is_err() {
                tracing::error!(route, name, "a route of an unknown profile");
            }
        }
        Ok(Self { profiles, exclusions: builder.exclusions, record: None })
    }

    /// Remembers what was read for them.
    pub(crate) fn read_from(&mut self, record: Record) {
        self.record = Some(record);
    }

    /// Whether reading it all again would give something else.
    pub(crate) fn have_changed_on_disk(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.as_read() != record.now())
    }

    /// What is loaded, by profile.
    pub fn loaded(&self) -> impl Iterator<Item = Loaded<'_>> {
        self.profiles.iter().map(|(name, profile)| Loaded {
            profile: name,
            program: &profile.program,
            rule_engine: match profile.is_out_of_band() {
                true => RuleEngine::DetectionOnly,
                false => profile.rule_engine(),
            },
        })
    }

    /// The profiles that may block and let their canary pass, by name.
    #[must_use]
    pub fn silent(&self) -> Vec<&str> {
        canary::silent(self)
    }

    /// Says in the log what is loaded.
    pub fn log(&self) {
        for Loaded { profile, program, rule_engine } in self.loaded() {
            for warning in program.warnings() {
                tracing::warn!(profile, warning, "in the rules");
            }
            let (rules, ruleset) = (program.rule_count(), program.hash());
            tracing::info!(profile, rules, ruleset, mode = ?rule_engine, "loaded");
        }
        for expired in self.exclusions.iter().filter(|loaded| loaded.expired) {
            tracing::warn!("{expired}");
        }
    }

    /// The exclusions of all profiles.
    #[must_use]
    pub fn exclusions(&self) -> &[LoadedExclusion] {
        &self.exclusions
    }
}

/// Rules that were compiled, with what they were compiled from.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) recipe: Arc<Recipe>,
    pub(crate) program: Arc<Program>,
}

/// What is needed while profiles are compiled one after the other.
struct Builder<'h> {
    host: &'h Host,
    source: &'h RecordingSource,
    today: Date,
    compiled: Vec<Compiled>,
    exclusions: Vec<LoadedExclusion>,
}

impl Builder<'_> {
    /// All profiles, each with what is evaluated besides.
    fn profiles(
        &mut self,
        config: &Config,
    ) -> Result<BTreeMap<String, Arc<Profile>>, RulesetError> {
        let count = config.profiles.len() + 1;
        let mut built = BTreeMap::new();
        for name in config.profile_names() {
            built.insert(name.to_owned(), self.profile(&config.of_profile(name), count)?);
        }
        let watches = config.profile_names().map(|name| {
            let watch = watch(&config.of_profile(name), &built)?;
            Ok((name.to_owned(), Arc::new(watch)))
        });
        let watches: BTreeMap<String, Arc<Watch>> = watches.collect::<Result<_, _>>()?;
        let with_watch = |(name, mut profile): (String, Profile)| {
            profile.watch = watches.get(&name).map(Arc::clone).unwrap_or_default();
            (name, Arc::new(profile))
        };
        Ok(built.into_iter().map(with_watch).collect())
    }

    fn profile(&mut self, config: &Config, count: usize) -> Result<Profile, RulesetError> {
        let refuse = |kind| RulesetError { profile: config.profile.clone(), kind };
        let applied = self.applied(config);
        let rules = exclusion_rules(&applied)
            .map_err(|error| refuse(RulesetErrorKind::Exclusions(error)))?;
        let recipe = recipe(config, &rules, self.source)
            .map_err(|error| refuse(RulesetErrorKind::Crs(error)))?;
        let compiled =
            self.compile(recipe).map_err(|errors| refuse(RulesetErrorKind::Rules(errors)))?;
        let mut settings = settings(config, self.host);
        // Where no rules run there is nothing to be evaluated later.
        let engine = settings.rule_engine.unwrap_or_else(|| compiled.program.rule_engine());
        settings.out_of_band &= engine != RuleEngine::Off;
        let costs = Arc::new(RuleCosts::new(&compiled.program, config.cost_sample));
        Ok(Profile::new(compiled, settings, canary_of(config), costs, count))
    }

    /// The exclusions of a profile that are in force; those that are not are remembered.
    fn applied(&mut self, config: &Config) -> Vec<Exclusion> {
        let late = config.expired_exclusions == ExpiredExclusions::Apply;
        let loaded = config.exclusions.iter().map(Exclusion::from).map(|exclusion| {
            let expired = !exclusion.holds_on(self.today);
            let profile = config.profile.clone();
            LoadedExclusion { profile, exclusion, expired, applied: !expired || late }
        });
        let loaded: Vec<_> = loaded.collect();
        let applied = loaded.iter().filter(|loaded| loaded.applied);
        let applied = applied.map(|loaded| loaded.exclusion.clone()).collect();
        self.exclusions.extend(loaded);
        applied
    }

    fn compile(&mut self, recipe: Recipe) -> Result<Compiled, BuildErrors> {
        if let Some(same) = self.compiled.iter().find(|compiled| *compiled.recipe == recipe) {
            return Ok(same.clone());
        }
        let mut parts = self.host.parts();
        let limits = recipe.limits.clone();
        let program = Program::build_with(&recipe.inputs, self.source, limits, &mut parts)?;
        drop(parts);
        let compiled = Compiled { recipe: Arc::new(recipe), program: Arc::new(program) };
        self.compiled.push(compiled.clone());
        Ok(compiled)
    }
}

/// What is evaluated of a profile's exchanges without being waited for.
fn watch(config: &Config, built: &BTreeMap<String, Profile>) -> Result<Watch, RulesetError> {
    let of = |name: &str| built.get(name).ok_or_else(|| RulesetError::no_profile(name));
    let own = of(&config.profile)?;
    let mut watch = Watch::default();
    if own.is_out_of_band() {
        watch.profiles.push(own.looking_on());
    }
    if let Some(name) = &config.out_of_band_profile {
        watch.profiles.push(of(name)?.looking_on());
    }
    if let Some(shadow) = &config.shadow {
        watch.shadow = Some(Shadow {
            current: own.compared(),
            shadow: of(&shadow.profile)?.compared(),
            sample: Sample::percent(shadow.percent).unwrap_or_default(),
        });
    }
    Ok(watch)
}

/// The canary of a profile: its own, or that of CRS.
fn canary_of(config: &Config) -> Option<String> {
    config.canary.clone().or_else(|| config.crs.is_some().then(|| CRS_CANARY.to_owned()))
}

fn settings(config: &Config, host: &Host) -> Settings {
    let other = config.block.body.clone().map(|body| {
        let content_type = config.block.content_type.as_deref();
        (content_type.unwrap_or("text/plain; charset=utf-8").to_owned(), body)
    });
    Settings {
        profile: config.profile.clone(),
        rule_engine: config.mode.map(RuleEngine::from),
        sample: Sample::percent(config.sample_percent).unwrap_or_default(),
        response: config.response.into(),
        truncated_body: config.oversized_body.into(),
        body_overflow: config.body_overflow.into(),
        late: config.late.into(),
        grpc: config.grpc.into(),
        trusted_hops: config.trusted_hops,
        redaction: config.redaction(),
        audit_format: config.audit.format.into(),
        refused_parts: config.recent.parts(),
        audit_sample: Sample::percent(config.audit.sample_percent).unwrap_or_default(),
        block_status: config.block.status,
        block_page: BlockPage { html: config.block.html.clone(), other },
        lookup: None,
        collections: host.collections.clone(),
        out_of_band: config.evaluation == Evaluation::OutOfBand,
    }
}

/// What the program is built from.
pub(crate) fn recipe(
    config: &Config,
    exclusions: &ExclusionRules,
    source: &RecordingSource,
) -> Result<Recipe, SourceError> {
    let assembly = Assembly {
        base: config.base,
        crs: config.crs.as_deref(),
        setup: &config.setup,
        settings: CrsSettings {
            paranoia: config.paranoia,
            detection_paranoia: config.detection_paranoia,
            inbound_threshold: config.inbound_threshold,
            outbound_threshold: config.outbound_threshold,
        },
        exclusions,
        files: &config.rules,
        directives: &config.directives,
        limits: &limit_directives(config),
    };
    let Assembled { inputs, setup_end, directives_end } = assembly.assemble(source)?;
    Ok(Recipe { inputs, setup_end, directives_end, limits: Limits::from(&config.limits) })
}

/// The typed limit of request bodies, and what becomes of longer ones, as SecLang.
fn limit_directives(config: &Config) -> String {
    let mut directives = String::new();
    if let Some(bytes) = config.request_body_bytes_max {
        directives += &format!("SecRequestBodyLimit {bytes}\n");
    }
    if config.oversized_body != OversizedBody::Reject {
        directives += "SecRequestBodyLimitAction ProcessPartial\n";
    }
    directives
}
