//! The ruleset of a configuration.

use core::fmt;
use std::{path::Path, sync::Arc};

use glacis_engine::{
    BuildErrors, CollectionStore, Input, Limits, MemoryStore, Program, SourceError,
};
use glacis_inspector::Settings;
use glacis_rules::FileSource;

use crate::config::Config;

/// Compiled rules and the settings that go with them.
#[derive(Clone, Debug)]
pub struct Ruleset {
    /// The rules.
    pub program: Arc<Program>,
    /// How they are applied.
    pub settings: Arc<Settings>,
}

/// A ruleset that was refused.
#[derive(Debug)]
pub enum RulesetError {
    /// The folder of the Core Rule Set is not usable.
    Crs(SourceError),
    /// Something is wrong in the rules.
    Rules(BuildErrors),
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crs(error) => write!(f, "crs: {error}"),
            Self::Rules(errors) => errors.fmt(f),
        }
    }
}

impl core::error::Error for RulesetError {}

impl Ruleset {
    /// Reads and compiles the rules that `config` names.
    ///
    /// # Errors
    /// Everything wrong in the rules, each with file and line.
    pub fn build(config: &Config) -> Result<Self, RulesetError> {
        let inputs = inputs(config).map_err(RulesetError::Crs)?;
        let limits = Limits::from(&config.limits);
        let collections = (config.collections_max > 0).then(|| {
            let store = MemoryStore::new(config.collections_max, limits.collections());
            Arc::new(store) as Arc<dyn CollectionStore>
        });
        let program = Program::build(&inputs, &FileSource::new(), limits);
        let page = config.block.body.clone().map(|body| {
            let content_type = config.block.content_type.as_deref();
            (content_type.unwrap_or("text/plain; charset=utf-8").to_owned(), body)
        });
        let settings = Settings {
            profile: config.profile.clone(),
            response: config.response.into(),
            truncated_body: config.oversized_body.into(),
            trusted_hops: config.trusted_hops,
            redaction: config.redaction(),
            audit_format: config.audit.format.into(),
            block_status: config.block.status,
            block_page: page,
            lookup: None,
            collections,
        };
        let program = Arc::new(program.map_err(RulesetError::Rules)?);
        Ok(Self { program, settings: Arc::new(settings) })
    }
}

/// What the program is built from: base, `setup`, CRS, files, `directives`. Later directives override
/// earlier ones, but CRS's initialisation keeps what `setup` has set.
fn inputs(config: &Config) -> Result<Vec<Input>, SourceError> {
    let text =
        |name: &str, text: &str| Input::Text { name: name.to_owned(), text: text.to_owned() };
    let mut inputs = match &config.crs {
        Some(folder) => glacis_rules::crs(Path::new(folder))?,
        None if config.base => vec![glacis_rules::base()],
        None => Vec::new(),
    };
    // The first input is the base configuration, if there is one.
    inputs.insert(usize::from(config.base), text("setup", &config.setup));
    inputs.extend(config.rules.iter().cloned().map(Input::File));
    inputs.push(text("directives", &config.directives));
    Ok(inputs)
}
