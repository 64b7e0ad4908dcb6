//! Values of options, within their bounds.

use std::time::Duration;

use lexopt::{Parser, ValueExt as _};

/// Threads at most: more are a slip of the finger.
const JOBS_MAX: usize = 1_024;

/// Passes over the requests at most.
const PASSES_MAX: usize = 100_000;

/// Numbers with commas between them.
pub(super) fn numbers(parser: &mut Parser) -> Result<Vec<u32>, lexopt::Error> {
    let text = parser.value()?.string()?;
    let number = |text: &str| text.trim().trim_start_matches("AS").parse::<u32>();
    let numbers: Result<_, _> = text.split(',').map(number).collect();
    numbers.map_err(|_| "--only takes numbers of autonomous systems, as 64496,64497".into())
}

pub(super) fn jobs(parser: &mut Parser) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        jobs @ 1..=JOBS_MAX => Ok(jobs),
        _ => Err(format!("--jobs takes a number from 1 to {JOBS_MAX}").into()),
    }
}

pub(super) fn passes(parser: &mut Parser) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        passes @ 1..=PASSES_MAX => Ok(passes),
        _ => Err(format!("--passes takes a number from 1 to {PASSES_MAX}").into()),
    }
}

pub(super) fn chunk(parser: &mut Parser) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        0 => Err("--body-chunk takes a number from 1".into()),
        chunk => Ok(chunk),
    }
}

pub(super) fn seconds(parser: &mut Parser) -> Result<Duration, lexopt::Error> {
    let seconds: f64 = parser.value()?.parse()?;
    if !(seconds > 0.0 && seconds <= 86_400.0) {
        return Err("--bench takes a number of seconds above 0, at most 86400".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `host:port` of a URL; the port is 80 when not given.
pub(super) fn authority(url: &str) -> Result<String, lexopt::Error> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(format!("--url takes an address that begins with http://, not {url}").into());
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return Err(format!("--url {url} names no host").into());
    }
    // In an IPv6 address colons stand within brackets.
    let after_host = authority.rsplit(']').next().unwrap_or_default();
    if after_host.contains(':') {
        return Ok(authority.to_owned());
    }
    Ok(format!("{authority}:80"))
}
