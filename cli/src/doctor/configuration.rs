//! The configuration of ext-proc, and the rules that it names, compiled.

use std::{fs::File, io::Read as _, path::Path, sync::Arc, time::UNIX_EPOCH};

use glacis_doctor::{LoadedRules, Refused, Settings};
use glacis_engine::{Limits, Parts, Program, RuleEngine};
use glacis_explain::Blocking;
use glacis_inspector::{
    Settings as Applied,
    canary::{CRS_CANARY, refuses},
};
use glacis_rules::{
    Assembly, CrsSettings, Date, Defaults, Exclusion, ExclusionConfig, RecordingSource,
    exclusion_rules,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    inspect::now,
    output::Fault,
    progress,
    ruleset::{self, Rules},
};

/// Bytes of a configuration, and of a file with certificates.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The profile of rules that no configuration names.
const NO_PROFILE: &str = "default";

/// A configuration with its rules.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    pub(super) settings: Option<Settings>,
    pub(super) rules: Vec<LoadedRules>,
    /// The first profile whose rules do not load.
    pub(super) refused: Option<Refused>,
}

impl Configuration {
    /// Reads a configuration file, its certificates and its rules.
    pub(super) fn load(path: &Path) -> Result<Self, Fault> {
        let settings = settings(path)?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let mut found = Self::default();
        let mut parts = Parts::default();
        let profiles = settings.profiles();
        progress::stage("loading profiles", Some(profiles.len()));
        for name in profiles {
            let profile = Profile { settings: &settings, name, folder };
            match profile.load(&mut parts) {
                Ok(loaded) => found.rules.push(loaded),
                Err(error) if found.refused.is_none() => {
                    found.refused = Some(Refused { profile: name.to_owned(), error });
                }
                Err(_) => {}
            }
            progress::count();
        }
        Ok(Self { settings: Some(settings), ..found })
    }

    /// Rules that the command line names, or none.
    pub(super) fn of_rules(rules: &[Rules]) -> Result<Self, Fault> {
        if !rules.iter().any(Rules::are_named) {
            return Ok(Self::default());
        }
        Ok(match ruleset::build(rules)? {
            Ok(program) => {
                let has_crs = rules.iter().any(|rules| matches!(rules, Rules::Crs(_)));
                let canary = has_crs.then_some(CRS_CANARY);
                let loaded = loaded(NO_PROFILE, &Arc::new(program), None, canary);
                Self { rules: vec![loaded], ..Self::default() }
            }
            Err(errors) => {
                let (profile, error) = (NO_PROFILE.to_owned(), errors.to_string());
                Self { refused: Some(Refused { profile, error }), ..Self::default() }
            }
        })
    }
}

fn settings(path: &Path) -> Result<Settings, Fault> {
    let fault = |error: String| Fault::Input(format!("{}: {error}", path.display()));
    let text = read(path).map_err(|error| fault(error.to_string()))?;
    let blank = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    let document: Map<String, Value> = match text.lines().all(blank) {
        true => Map::new(),
        false => serde_saphyr::from_str_with_options(
            &text,
            serde_saphyr::options! { strict_booleans: true },
        )
        .map_err(|error| fault(error.to_string()))?,
    };
    let changed = path.metadata().and_then(|file| file.modified()).ok();
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let mut settings = Settings::new(document, changed.map(|time| time.as_secs()));
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let files: Vec<String> = settings.certificate_files().into_iter().map(str::to_owned).collect();
    for file in files {
        // A file that is not on this machine says nothing of the one where the service runs.
        if let Ok(pem) = read(&folder.join(&file)) {
            settings.add_certificate(&file, &pem);
        }
    }
    Ok(settings)
}

/// The text of a file of bounded size.
pub(super) fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    if file.metadata()?.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// A profile whose rules are loaded as the service does.
struct Profile<'s> {
    settings: &'s Settings,
    name: &'s str,
    folder: &'s Path,
}

impl Profile<'_> {
    fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        let Some(value) = self.settings.of_profile(self.name, key) else { return Ok(None) };
        let read = serde_json::from_value(value.clone());
        read.map(Some).map_err(|error| format!("{key}: {error}"))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        Ok(self.get(key)?.unwrap_or_default())
    }

    fn load(&self, parts: &mut Parts) -> Result<LoadedRules, String> {
        let crs = self.get::<String>("crs")?.map(|crs| self.folder.join(crs));
        let files: Vec<String> = self.get::<Vec<String>>("rules")?.unwrap_or_default();
        let in_folder = |file: &String| self.folder.join(file).display().to_string();
        let exclusions = exclusion_rules(&self.exclusions()?).map_err(|error| error.to_string())?;
        let defaults = self.get::<String>("defaults")?;
        let of_crs = defaults.as_deref() == Some(Defaults::Crs.name());
        let assembly = Assembly {
            base: self.get("base")?.unwrap_or(true),
            crs: crs.as_deref(),
            defaults: if of_crs { Defaults::Crs } else { Defaults::Glacis },
            setup: &self.text("setup")?,
            settings: CrsSettings {
                paranoia: self.get("paranoia")?,
                detection_paranoia: self.get("detection_paranoia")?,
                inbound_threshold: self.get("inbound_threshold")?,
                outbound_threshold: self.get("outbound_threshold")?,
            },
            graphql: "",
            openapi: "",
            exclusions: &exclusions,
            files: &files.iter().map(in_folder).collect::<Vec<_>>(),
            directives: &self.text("directives")?,
            limits: "",
        };
        let source = RecordingSource::new();
        let assembled = assembly.assemble(&source).map_err(|error| error.to_string())?;
        let built = Program::build_with(&assembled.inputs, &source, Limits::default(), parts);
        let program = Arc::new(built.map_err(|errors| errors.to_string())?);
        let canary = self.get::<String>("canary")?;
        let canary = canary.as_deref().or_else(|| crs.as_ref().map(|_| CRS_CANARY));
        Ok(loaded(self.name, &program, self.engine(), canary))
    }

    fn exclusions(&self) -> Result<Vec<Exclusion>, String> {
        let today = Date::at(now());
        let applies = self.settings.of_profile(self.name, "expired_exclusions");
        let for_ever = applies.is_some_and(|word| word == "apply");
        let mut found = Vec::new();
        for value in self.settings.exclusions(self.name) {
            let read = serde_json::from_value::<ExclusionConfig>(value.clone());
            let exclusion = Exclusion::from(&read.map_err(|error| format!("exclusions: {error}"))?);
            if for_ever || exclusion.holds_on(today) {
                found.push(exclusion);
            }
        }
        Ok(found)
    }

    /// The mode, or `None` for what the rules say.
    fn engine(&self) -> Option<RuleEngine> {
        match self.settings.of_profile(self.name, "mode")? {
            Value::String(word) if word == "on" => Some(RuleEngine::On),
            Value::String(word) if word == "detection" => Some(RuleEngine::DetectionOnly),
            Value::String(word) if word == "off" => Some(RuleEngine::Off),
            Value::Bool(on) => Some(if *on { RuleEngine::On } else { RuleEngine::Off }),
            _ => None,
        }
    }
}

fn loaded(
    name: &str,
    program: &Arc<Program>,
    engine: Option<RuleEngine>,
    canary: Option<&str>,
) -> LoadedRules {
    let blocks = engine.unwrap_or_else(|| program.rule_engine()) == RuleEngine::On;
    let applied = Applied { rule_engine: engine, ..Applied::default() };
    let passes = |uri: &str| blocks && !refuses(program, &applied, uri, now());
    LoadedRules {
        threshold: Blocking::of(program).threshold,
        canary_passes: canary.is_some_and(passes),
        ..LoadedRules::of(name, program, engine)
    }
}
