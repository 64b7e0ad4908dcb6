//! `glacis train`, and the option that names weights.

use std::path::PathBuf;

use glacis_rules::Date;
use lexopt::{Arg, Parser, ValueExt as _};

use super::{Command, RulesOption, TrainOptions, WeightsFile, help::TRAIN_HELP, values::jobs};

/// The value of `--second-opinion`, which stands behind `=`.
pub(super) fn weights(parser: &mut Parser) -> WeightsFile {
    parser.optional_value().map_or(WeightsFile::BuiltIn, |file| WeightsFile::File(file.into()))
}

pub(super) fn train(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let name = "CRS".to_owned();
    let mut options =
        TrainOptions { name, l2: 1e-5, false_alarms: 0.001, jobs: 1, ..TrainOptions::default() };
    let mut requests = None;
    while let Some(argument) = parser.next()? {
        if let Some(option) = RulesOption::of(&argument) {
            options.rules.push(option.rules(parser)?);
            continue;
        }
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(TRAIN_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Short('j') | Arg::Long("jobs") => options.jobs = jobs(parser)?,
            Arg::Long("name") => options.name = parser.value()?.string()?,
            Arg::Long("date") => options.date = date(&parser.value()?.string()?)?,
            Arg::Long("l2") => options.l2 = between(parser, "--l2", 1e-9, 10.0)?,
            Arg::Long("false-alarms") => {
                options.false_alarms = between(parser, "--false-alarms", 0.0, 50.0)? / 100.0;
            }
            Arg::Value(file) if requests.is_none() => requests = Some(file),
            other => return Err(other.unexpected()),
        }
    }
    if options.date.is_empty() {
        return Err("train needs --date YYYY-MM-DD: the file of weights carries it".into());
    }
    options.requests = requests.filter(|file| file != "-").map(PathBuf::from);
    Ok(Command::Train(options))
}

fn date(text: &str) -> Result<String, lexopt::Error> {
    match text.parse::<Date>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("--date {text}: write it as YYYY-MM-DD").into()),
    }
}

fn between(parser: &mut Parser, option: &str, min: f64, max: f64) -> Result<f64, lexopt::Error> {
    let number: f64 = parser.value()?.parse()?;
    match (min..=max).contains(&number) {
        true => Ok(number),
        false => Err(format!("{option} takes a number from {min} to {max}").into()),
    }
}
