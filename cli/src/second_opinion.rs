//! The weights that the command line names.

use std::fs;

use glacis_second_opinion::Weights;

use crate::{arguments::WeightsFile, output::Fault, ruleset::Rules};

/// The rules with those of all levels that the weights are about, and the weights.
///
/// # Errors
/// When the file cannot be read, or is no file of weights.
pub(crate) fn rules(
    rules: &[Rules],
    file: Option<&WeightsFile>,
) -> Result<(Vec<Rules>, Option<Weights>), Fault> {
    let weights = file.map(load).transpose()?;
    let level = weights.as_ref().map(|weights| Rules::DetectionLevel(weights.paranoia_level));
    Ok((rules.iter().cloned().chain(level).collect(), weights))
}

fn load(file: &WeightsFile) -> Result<Weights, Fault> {
    let (name, text) = match file {
        WeightsFile::BuiltIn => ("weights".to_owned(), glacis_rules::WEIGHTS.to_owned()),
        WeightsFile::File(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path);
            (name.clone(), text.map_err(|error| Fault::Input(format!("{name}: {error}")))?)
        }
    };
    Weights::parse(&text).map_err(|error| Fault::Input(format!("{name}: {error}")))
}
