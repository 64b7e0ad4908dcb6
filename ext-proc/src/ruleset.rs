//! The rules of a configuration: each profile's, compiled.

use core::time::Duration;
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use glacis_engine::{
    BuildErrors, CollectionStore, Limits, MemoryStore, Parts, Program, RuleEngine,
};
pub(crate) use glacis_host::RulesetErrorKind;
pub use glacis_host::{LoadedExclusion, RulesetError};
use glacis_host::{
    ProfileKeys, Recipe, Records, canary_of, load_exclusions, recipe, second_opinion, settings,
};
use glacis_inspector::{Profiles, Sample};
use glacis_rules::{Date, Exclusion, Record, RecordingSource, exclusion_rules};
use glacis_service::store::Stores;
use prometheus_client::registry::Registry;

use crate::{
    canary,
    collections::{CollectionMetrics, SharedCollections},
    config::Config,
    exclusion_counts::ExclusionCounts,
    out_of_band::Watch,
    profile::Profile,
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
            now,
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
    now: Duration,
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
        let keys = config.keys();
        let applied = self.applied(&keys);
        let rules = exclusion_rules(&applied)
            .map_err(|error| refuse(RulesetErrorKind::Exclusions(error)))?;
        let opinion = second_opinion(&keys, self.source)?;
        let recipe = recipe(&keys, &rules, opinion.as_ref(), self.source)
            .map_err(|error| refuse(RulesetErrorKind::Crs(error)))?;
        let compiled =
            self.compile(recipe).map_err(|errors| refuse(RulesetErrorKind::Rules(errors)))?;
        let mut settings =
            settings(&keys, &records(config), opinion, self.host.collections.clone());
        // Where no rules run there is nothing to be evaluated later.
        let engine = settings.rule_engine.unwrap_or_else(|| compiled.program.rule_engine());
        settings.out_of_band &= engine != RuleEngine::Off;
        let costs = Arc::new(RuleCosts::new(&compiled.program, config.cost_sample));
        let mut profile = Profile::new(compiled, settings, canary_of(&keys), costs, count);
        profile.exclusions = Arc::new(ExclusionCounts::new(&applied, self.now));
        Ok(profile)
    }

    /// The exclusions of a profile that are in force; those that are not are remembered.
    fn applied(&mut self, keys: &ProfileKeys) -> Vec<Exclusion> {
        let loaded = load_exclusions(keys, self.today);
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

/// What is recorded of exchanges.
fn records(config: &Config) -> Records {
    Records { refused_parts: config.recent.parts(), ..config.audit.records() }
}
