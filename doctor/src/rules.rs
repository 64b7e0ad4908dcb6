//! Rules that are loaded: what checks need of a program.

use std::collections::BTreeSet;

use glacis_engine::{Program, RuleEngine};

/// The tag of the rules of CRS.
const CRS_TAG: &str = "OWASP_CRS";

/// What rules of CRS write before its version in `ver`.
const CRS_VERSION: &str = "OWASP_CRS/";

/// Names of inputs that Glacis writes: they hold no rule that finds an attack.
const OURS: [&str; 2] = ["glacis:", "exclusions"];

/// Whether the rules of a profile run, and may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// They run and may block.
    Blocking,
    /// They run and block nothing.
    Detection,
    /// They do not run.
    Off,
}

impl From<RuleEngine> for Engine {
    fn from(engine: RuleEngine) -> Self {
        match engine {
            RuleEngine::On => Self::Blocking,
            RuleEngine::DetectionOnly => Self::Detection,
            RuleEngine::Off => Self::Off,
        }
    }
}

/// The rules of one profile.
#[derive(Clone, Debug)]
pub struct LoadedRules {
    /// The profile.
    pub profile: String,
    /// Whether they run, and may block.
    pub engine: Engine,
    /// Rules that are not Glacis's own bookkeeping.
    pub rules: usize,
    /// The tags of all rules.
    pub tags: BTreeSet<String>,
    /// The versions of CRS that its rules name.
    pub crs_versions: BTreeSet<String>,
    /// Warnings of the compiler.
    pub warnings: Vec<String>,
    /// The anomaly score from which requests are blocked, where the rules set one.
    pub threshold: Option<i64>,
    /// Whether a known attack passes.
    pub canary_passes: bool,
}

impl LoadedRules {
    /// Those of `program`. `engine` is that of the profile, or `None` for that of the rules.
    #[must_use]
    pub fn of(profile: &str, program: &Program, engine: Option<RuleEngine>) -> Self {
        let mut loaded = Self {
            profile: profile.to_owned(),
            engine: engine.unwrap_or_else(|| program.rule_engine()).into(),
            rules: 0,
            tags: BTreeSet::new(),
            crs_versions: BTreeSet::new(),
            warnings: program.warnings().to_vec(),
            threshold: None,
            canary_passes: false,
        };
        for rule in program.rules() {
            loaded.rules += usize::from(!OURS.iter().any(|ours| rule.file.starts_with(ours)));
            for tag in rule.tags {
                // Thousands of rules share a few dozen tags.
                if !loaded.tags.contains(&**tag) {
                    loaded.tags.insert(tag.to_string());
                }
            }
            let version = rule.ver.strip_prefix(CRS_VERSION);
            if let Some(version) = version.filter(|known| !loaded.crs_versions.contains(*known)) {
                loaded.crs_versions.insert(version.to_owned());
            }
        }
        loaded
    }

    /// Whether there are rules of CRS among them.
    pub(crate) fn has_crs(&self) -> bool {
        self.tags.contains(CRS_TAG)
    }
}

/// Rules that do not load.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The profile.
    pub profile: String,
    /// The first error.
    pub error: String,
}
