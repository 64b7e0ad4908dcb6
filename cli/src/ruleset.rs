//! From the rules that the command line names to a program.

mod exclusions;

use std::path::PathBuf;

use glacis_engine::{BuildErrors, Input, Limits, Parts, Program};
use glacis_explain::Rebuild;
use glacis_rules::{CrsSettings, Defaults, FileSource, OpenApiAction, OpenApiRules};

use crate::{
    output::{self, Fault},
    progress,
};

/// Rules as named on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Rules {
    /// `--rules FILE`.
    File(PathBuf),
    /// `--base`.
    Base,
    /// `--crs DIR`.
    Crs(PathBuf),
    /// `--defaults NAME`: whose defaults CRS has, wherever it stands.
    Defaults(Defaults),
    /// `--exclusions FILE`: what rules do not look at.
    Exclusions(PathBuf),
    /// `--openapi FILE`: a document that requests are compared with.
    OpenApi(PathBuf),
    /// Rules of CRS up to this level are run, those above the blocking level without a part in the verdict.
    DetectionLevel(u8),
    /// The paranoia level of CRS.
    Paranoia(u8),
    /// `--every-rule`, for tests: no rule is left out because it cannot match.
    EveryRule,
    /// `--no-recall`, for measuring: every text costs what it costs when it comes for the first time.
    NoRecall,
}

impl Rules {
    /// Whether rules are named, and not only how they are run.
    pub(crate) const fn are_named(&self) -> bool {
        matches!(self, Self::File(_) | Self::Base | Self::Crs(_) | Self::OpenApi(_))
    }
}

/// Builds a program of `rules`, in order.
///
/// # Errors
/// What is wrong with them; a fault when the names on the command line do not lead to files at all.
pub(crate) fn build(rules: &[Rules]) -> Result<Result<Program, BuildErrors>, Fault> {
    build_between(None, rules, None, &mut Parts::default())
}

/// As [`build`], with SecLang text before the rules and behind them.
pub(crate) fn build_between(
    before: Option<&str>,
    rules: &[Rules],
    behind: Option<&str>,
    parts: &mut Parts,
) -> Result<Result<Program, BuildErrors>, Fault> {
    build_within(before, rules, behind, parts, Limits::default())
}

/// As [`build_between`], with limits other than the default ones.
fn build_within(
    before: Option<&str>,
    rules: &[Rules],
    behind: Option<&str>,
    parts: &mut Parts,
    limits: Limits,
) -> Result<Result<Program, BuildErrors>, Fault> {
    let text = |text: &str| Input::Text { name: "exclusion".to_owned(), text: text.to_owned() };
    let mut inputs: Vec<Input> = before.map(text).into_iter().collect();
    inputs.extend(self::inputs(rules)?);
    inputs.extend(behind.map(text));
    progress::stage("compiling rules", None);
    let program = Program::build_with(&inputs, &FileSource::new(), limits, parts);
    progress::stage("evaluating", None);
    let has = |wanted: fn(&Rules) -> bool| rules.iter().any(wanted);
    let every_rule = has(|rules| matches!(rules, Rules::EveryRule));
    let program = if every_rule { program.map(Program::without_gates) } else { program };
    let no_recall = has(|rules| matches!(rules, Rules::NoRecall));
    Ok(if no_recall { program.map(Program::without_recall) } else { program })
}

/// The rules that the command line names, to be built again and again with others before and behind them.
pub(crate) struct Rebuilt<'r> {
    rules: &'r [Rules],
    limits: Limits,
    /// Automata that the programs share.
    parts: Parts,
}

impl<'r> Rebuilt<'r> {
    pub(crate) fn new(rules: &'r [Rules], limits: Limits) -> Self {
        Self { rules, limits, parts: Parts::default() }
    }
}

impl Rebuild for Rebuilt<'_> {
    type Fault = Fault;

    fn build(
        &mut self,
        before: Option<&str>,
        behind: Option<&str>,
    ) -> Result<Result<Program, BuildErrors>, Fault> {
        build_within(before, self.rules, behind, &mut self.parts, self.limits.clone())
    }
}

/// What the rules are read from, in order.
///
/// # Errors
/// When the names on the command line do not lead to files at all.
pub(crate) fn inputs(rules: &[Rules]) -> Result<Vec<Input>, Fault> {
    let mut inputs = Vec::new();
    let mut named = rules.iter().rev().filter_map(|rules| match rules {
        Rules::Defaults(defaults) => Some(*defaults),
        _ => None,
    });
    let defaults = named.next().unwrap_or_default();
    let exclusions = exclusions::read(rules)?;
    let paranoia = rules.iter().rev().find_map(|rules| match rules {
        Rules::Paranoia(level) => Some(*level),
        _ => None,
    });
    let detection = rules.iter().find_map(|rules| match rules {
        Rules::DetectionLevel(level) => Some(*level),
        _ => None,
    });
    let detection_paranoia = detection.max(paranoia);
    let settings = CrsSettings { paranoia, detection_paranoia, ..CrsSettings::default() };
    for rules in rules {
        match rules {
            Rules::File(path) => match path.to_str() {
                Some(path) => inputs.push(Input::File(path.to_owned())),
                None => {
                    let message = format!("{}: the name is not UTF-8", path.display());
                    return Err(Fault::Input(message));
                }
            },
            Rules::Exclusions(_)
            | Rules::Defaults(_)
            | Rules::DetectionLevel(_)
            | Rules::Paranoia(_)
            | Rules::EveryRule
            | Rules::NoRecall => {}
            Rules::OpenApi(document) => {
                let base = glacis_rules::base();
                if !inputs.contains(&base) {
                    inputs.push(base);
                }
                let actions = [OpenApiAction::Block; 7];
                let rules = OpenApiRules { document, base_path: None, actions };
                inputs.extend(text("openapi", &rules.directives()));
            }
            Rules::Base => inputs.push(glacis_rules::base()),
            Rules::Crs(dir) => {
                let found = glacis_rules::crs(dir);
                let mut found = found.map_err(|error| Fault::Input(error.to_string()))?;
                // Behind the base configuration and crs-setup.conf.
                defaults.weigh(&mut found);
                let set = settings.input().into_iter().chain(defaults.inputs());
                let before = set.chain(text("exclusions", &exclusions.before));
                found.splice(2..2, before.collect::<Vec<_>>());
                // The base configuration comes with CRS, unless it was given a place before.
                let base = glacis_rules::base();
                let given = inputs.contains(&base);
                inputs.extend(found.into_iter().filter(|input| !given || *input != base));
            }
        }
    }
    if !rules.iter().any(|rules| matches!(rules, Rules::Crs(_))) {
        inputs.splice(0..0, text("exclusions", &exclusions.before));
    }
    inputs.extend(text("exclusions", &exclusions.after));
    Ok(inputs)
}

fn text(name: &str, text: &str) -> Option<Input> {
    let input = || Input::Text { name: name.to_owned(), text: text.to_owned() };
    (!text.is_empty()).then(input)
}

/// Builds a program to run: errors are a fault, warnings are remarked unless `quiet`.
pub(crate) fn load(rules: &[Rules], quiet: bool) -> Result<Program, Fault> {
    let program = build(rules)?.map_err(|errors| Fault::Input(errors.to_string()))?;
    if !quiet {
        for warning in program.warnings() {
            output::remark(format_args!("warning: {warning}"));
        }
    }
    Ok(program)
}
