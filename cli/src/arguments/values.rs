//! Values of options, within their bounds.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use glacis_doctor::CHECKS;
use glacis_rules::Date;

/// Threads at most: more are a slip of the finger.
const JOBS_MAX: usize = 1_024;

/// Passes over the requests at most.
const PASSES_MAX: usize = 100_000;

/// Which weights a second opinion has.
#[derive(Clone, Debug)]
pub(crate) enum WeightsFile {
    /// Those that Glacis ships.
    BuiltIn,
    /// Those of this file.
    File(PathBuf),
}

/// The number of an autonomous system.
pub(super) fn system(text: &str) -> Result<u32, String> {
    let number = text.trim().trim_start_matches("AS").parse();
    number.map_err(|_| "numbers of autonomous systems are written 64496,64497".to_owned())
}

pub(super) fn jobs(text: &str) -> Result<usize, String> {
    within(text, 1..=JOBS_MAX)
}

pub(super) fn passes(text: &str) -> Result<usize, String> {
    within(text, 1..=PASSES_MAX)
}

pub(super) fn chunk(text: &str) -> Result<usize, String> {
    within(text, 1..=usize::MAX)
}

pub(super) fn l2(text: &str) -> Result<f64, String> {
    within(text, 1e-9..=10.0)
}

/// Percent, as a share.
pub(super) fn false_alarms(text: &str) -> Result<f64, String> {
    within(text, 0.0..=50.0).map(|percent: f64| percent / 100.0)
}

fn within<T>(text: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: Copy + PartialOrd + std::fmt::Display + std::str::FromStr,
{
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("write a number from {} to {}", range.start(), range.end()))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= 86_400.0);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "write a number of seconds above 0, at most 86400".to_owned())
}

pub(super) fn date(text: &str) -> Result<String, String> {
    let read = text.parse::<Date>();
    read.map(|_| text.to_owned()).map_err(|_| "write it as YYYY-MM-DD".to_owned())
}

/// Which weights: those that Glacis ships where no file is named.
pub(super) fn weights(text: &str) -> Result<WeightsFile, String> {
    Ok(match text {
        "" => WeightsFile::BuiltIn,
        file => WeightsFile::File(PathBuf::from(file)),
    })
}

/// A check's id, as it is written on the command line.
pub(super) fn check(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_uppercase();
    let known = CHECKS.iter().any(|check| check.id == text);
    known.then_some(text).ok_or_else(|| "there is no check of this id".to_owned())
}

/// `host:port`, also with the scheme before it and a slash after it.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers may fail")]
pub(super) fn port(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").unwrap_or(text);
    Ok(rest.strip_suffix('/').unwrap_or(rest).to_owned())
}

/// `host:port` of a URL; the port is 80 when not given.
pub(super) fn authority(url: &str) -> Result<String, String> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err("write an address that begins with http://".to_owned());
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return Err("it names no host".to_owned());
    }
    // In an IPv6 address colons are within brackets.
    let after_host = authority.rsplit(']').next().unwrap_or_default();
    if after_host.contains(':') {
        return Ok(authority.to_owned());
    }
    Ok(format!("{authority}:80"))
}
