//! The section `scoring`: what judges requests besides the anomaly score.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use glacis_engine::Source as _;
use glacis_inspector::SecondOpinion;
use glacis_rules::{RecordingSource, WEIGHTS};
use glacis_second_opinion::Weights;
use serde::Deserialize;

use crate::{ProfileKeys, RulesetError, RulesetErrorKind};

/// What judges requests besides the anomaly score.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct ScoringConfig {
    pub second_opinion: Option<SecondOpinionConfig>,
}

/// Learned weights over the rules that matched.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct SecondOpinionConfig {
    pub weights: Option<PathBuf>,
    pub threshold: Option<f64>,
    pub action: OpinionAction,
}

/// What a second opinion does when its score reaches the threshold.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum OpinionAction {
    #[default]
    Shadow,
    Block,
}

impl From<OpinionAction> for glacis_inspector::OpinionAction {
    fn from(action: OpinionAction) -> Self {
        match action {
            OpinionAction::Shadow => Self::Shadow,
            OpinionAction::Block => Self::Block,
        }
    }
}

impl ScoringConfig {
    /// Makes paths relative to `folder`.
    pub(crate) fn resolve(&mut self, folder: &Path) {
        if let Some(SecondOpinionConfig { weights: Some(weights), .. }) = &mut self.second_opinion {
            *weights = folder.join(&*weights);
        }
    }
}

impl SecondOpinionConfig {
    /// Whether the threshold is none, or one that a file of weights may have.
    pub(crate) fn has_threshold(&self) -> bool {
        self.threshold.is_none_or(|threshold| (0.001..=100.0).contains(&threshold))
    }
}

/// Reads the second opinion of a profile through `source`.
///
/// # Errors
/// When the file of weights cannot be read, or is none.
pub fn second_opinion(
    keys: &ProfileKeys,
    source: &RecordingSource,
) -> Result<Option<SecondOpinion>, RulesetError> {
    let Some(config) = &keys.scoring.second_opinion else { return Ok(None) };
    let refuse = |problem: String| {
        let kind = RulesetErrorKind::Weights(problem);
        RulesetError { profile: keys.profile.clone(), kind }
    };
    let (name, text) = match &config.weights {
        None => ("those that Glacis ships".to_owned(), WEIGHTS.to_owned()),
        Some(path) => {
            let name = path.display().to_string();
            let file =
                source.read(&name, "").map_err(|error| refuse(format!("{name}: {error}")))?;
            (name, String::from_utf8_lossy(&file.bytes).into_owned())
        }
    };
    let weights = Weights::parse(&text);
    let weights = weights.and_then(|weights| match config.threshold {
        Some(threshold) => weights.with_threshold(threshold),
        None => Ok(weights),
    });
    let weights = weights.map_err(|error| refuse(format!("{name}: {error}")))?;
    Ok(Some(SecondOpinion { weights: Arc::new(weights), action: config.action.into() }))
}
