//! The profiles of a configuration, with their rules compiled.

use core::time::Duration;
use std::{sync::Arc, time::Instant};

use glacis_engine::{CollectionStore, Program, RuleEngine};
use glacis_host::{
    LoadedExclusion, Recipe, Records, RulesetError, RulesetErrorKind, load_exclusions, recipe,
    second_opinion, settings,
};
use glacis_inspector::{Pool, Profiles, SecondOpinion, Settings, TruncatedBody};
use glacis_rules::{Date, Record, RecordingSource, exclusion_rules};
use glacis_service::now;

use crate::{config::Config, log, metrics::RulesetInfo, programs::program, stream::Level};

/// Inspectors that a profile keeps for reuse, each with some hundred kilobytes.
const POOLED_MAX: usize = 16;

/// After this time of checks no further profile is checked: Envoy's main thread waits.
const CHECK_TIME: Duration = Duration::from_millis(10);

/// All profiles of a configuration, ready to be used.
#[derive(Debug)]
pub(crate) struct Rulesets {
    pub(crate) profiles: Profiles<Arc<Profile>>,
    /// Whether names of routes choose profiles.
    pub(crate) has_routes: bool,
    pub(crate) exclusions: Vec<LoadedExclusion>,
    /// What was read for them.
    records: Vec<Record>,
}

/// A profile that is loaded.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) pool: Pool,
    settings: Arc<Settings>,
}

impl Profile {
    fn new(program: Arc<Program>, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        Self { pool: Pool::new(program, Arc::clone(&settings), POOLED_MAX), settings }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.settings.profile
    }

    /// Whether rules may block, as an exchange begins.
    pub(crate) fn may_block(&self) -> bool {
        self.engine() == RuleEngine::On
    }

    /// The word of the key `mode`.
    fn mode(&self) -> &'static str {
        match self.engine() {
            RuleEngine::On => "on",
            RuleEngine::DetectionOnly => "detection",
            RuleEngine::Off => "off",
        }
    }

    fn engine(&self) -> RuleEngine {
        self.settings.rule_engine.unwrap_or_else(|| self.pool.program().rule_engine())
    }

    /// Proxies before Envoy that append to `x-forwarded-for`.
    pub(crate) fn trusted_hops(&self) -> usize {
        self.settings.trusted_hops
    }

    /// Whether bodies that are too large pass without a look at them.
    pub(crate) fn passes_too_large(&self) -> bool {
        self.settings.truncated_body == TruncatedBody::Pass
    }
}

impl Rulesets {
    /// Reads and compiles the rules of all profiles.
    pub(crate) fn build(
        config: &Config,
        collections: Option<&Arc<dyn CollectionStore>>,
    ) -> Result<Self, RulesetError> {
        let source = RecordingSource::new();
        if let Some(file) = &config.file {
            source.note(file);
        }
        let (mut exclusions, mut records) = (Vec::new(), Vec::new());
        let mut named = Vec::new();
        for name in config.profile_names() {
            let keys = config.keys_of(name);
            let refuse = |kind| RulesetError { profile: keys.profile.clone(), kind };
            let Read { recipe, exclusions: loaded, opinion } = read(config, name, &source)?;
            let (program, record) =
                program(&recipe).map_err(|errors| refuse(RulesetErrorKind::Rules(errors)))?;
            let recorded = Records { refused_parts: None, ..config.audit.records() };
            let settings = settings(&keys, &recorded, opinion, collections.cloned());
            named.push((name.to_owned(), Arc::new(Profile::new(program, settings))));
            exclusions.extend(loaded);
            records.push(record);
        }
        records.push(source.into_record());
        let Some((name, default)) = named.first() else {
            return Err(RulesetError::no_profile(&config.profile));
        };
        let mut profiles = Profiles::new(name, Arc::clone(default), config.unknown_profile.into());
        for (name, profile) in &named {
            profiles.insert(name, Arc::clone(profile));
        }
        for (route, name) in &config.routes {
            // The configuration has been checked: an unknown name is not among them.
            let _ = profiles.insert_route(route, name);
        }
        Ok(Self { profiles, has_routes: !config.routes.is_empty(), exclusions, records })
    }

    /// Finds errors in the rules of the profiles, one after the other while that takes little time: the default profile
    /// at least. What it does not find is found when they are built.
    ///
    /// # Errors
    /// What is malformed, unknown or not supported, with its place.
    pub(crate) fn check(config: &Config) -> Result<(), RulesetError> {
        let began = Instant::now();
        for name in config.profile_names() {
            let source = RecordingSource::new();
            let Read { recipe, .. } = read(config, name, &source)?;
            Program::check(&recipe.inputs, &source, recipe.limits.clone()).map_err(|errors| {
                RulesetError { profile: name.to_owned(), kind: RulesetErrorKind::Rules(errors) }
            })?;
            if began.elapsed() >= CHECK_TIME {
                break;
            }
        }
        Ok(())
    }

    /// Logs what is loaded.
    pub(crate) fn log(&self) {
        for (name, profile) in self.profiles.iter() {
            let program = profile.pool.program();
            for warning in program.warnings() {
                log::line(Level::Warn, &format!("glacis: profile {name}: {warning}"));
            }
            let (rules, hash) = (program.rule_count(), program.hash());
            let text = format!("glacis: profile {name}: {rules} rules are loaded, ruleset {hash}");
            log::line(Level::Info, &text);
        }
        for expired in self.exclusions.iter().filter(|loaded| loaded.expired) {
            log::line(Level::Warn, &format!("glacis: {expired}"));
        }
    }

    /// What Envoy's statistics show of them.
    pub(crate) fn infos(&self) -> Vec<RulesetInfo> {
        let info = |(name, profile): (&str, &Arc<Profile>)| {
            let program = profile.pool.program();
            RulesetInfo {
                hash: program.hash().to_string(),
                rules: program.rule_count().to_string(),
                profile: name.to_owned(),
                mode: profile.mode(),
            }
        };
        self.profiles.iter().map(info).collect()
    }

    pub(crate) fn as_read(&self) -> Vec<u64> {
        self.records.iter().map(Record::as_read).collect()
    }

    pub(crate) fn as_now(&self) -> Vec<u64> {
        self.records.iter().map(Record::now).collect()
    }
}

/// What the rules of a profile are built from, and what is used beside them.
struct Read {
    recipe: Recipe,
    exclusions: Vec<LoadedExclusion>,
    opinion: Option<SecondOpinion>,
}

/// Reads the files of a profile.
fn read(config: &Config, name: &str, source: &RecordingSource) -> Result<Read, RulesetError> {
    let keys = config.keys_of(name);
    let refuse = |kind| RulesetError { profile: keys.profile.clone(), kind };
    let loaded = load_exclusions(&keys, Date::at(now()));
    let applied = loaded.iter().filter(|loaded| loaded.applied);
    let applied: Vec<_> = applied.map(|loaded| loaded.exclusion.clone()).collect();
    let rules =
        exclusion_rules(&applied).map_err(|error| refuse(RulesetErrorKind::Exclusions(error)))?;
    let opinion = second_opinion(&keys, source)?;
    let recipe = recipe(&keys, &rules, opinion.as_ref(), source)
        .map_err(|error| refuse(RulesetErrorKind::Crs(error)))?;
    Ok(Read { recipe, exclusions: loaded, opinion })
}
