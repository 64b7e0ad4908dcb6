//! `glacis learn`: exclusions for what ordinary requests trip over, from recorded requests.

use std::{fs, io::Write as _, path::Path, sync::Arc, time::Duration};

use glacis_engine::Limits;
use glacis_explain::{Rebuild, Request, read};
use glacis_learn::{Learned, Learner, Options};
use glacis_rules::Date;

use crate::{
    arguments::{LearnFormat, LearnOptions},
    input::har,
    inspect::now,
    lines::Lines,
    output::{self, Fault, Outcome},
    ruleset::Rebuilt,
};

/// Lines that are no request and are named.
const NAMED_MAX: usize = 10;

/// Bytes of a file that is read as a whole: HAR, and attacks.
const FILE_BYTES_MAX: u64 = 512 << 20;

const SECONDS_A_DAY: u64 = 86_400;

/// How much of a request is looked at: values as a whole, since an exclusion may be limited to those that were seen.
fn limits() -> Limits {
    Limits {
        match_value_bytes_max: 65_536,
        matches_per_rule_max: 256,
        trace_bytes_max: 64 << 20,
        ..Limits::default()
    }
}

/// Learns from every request of the input, and prints exclusions.
pub(crate) fn run(options: &LearnOptions) -> Result<Outcome, Fault> {
    let mut given = Rebuilt::new(&options.rules, limits());
    let program = given.build(None, None)?.map_err(|errors| Fault::Input(errors.to_string()))?;
    let lasts = Duration::from_secs(options.expires_days.saturating_mul(SECONDS_A_DAY));
    let mut wanted = Options::until(Date::at(now().saturating_add(lasts)));
    wanted.requests_min = options.min_requests.unwrap_or(wanted.requests_min);
    wanted.clients_min = options.min_clients;
    wanted.days_min = options.min_days;
    if let Some(path) = &options.attacks {
        let text = whole(path)?;
        wanted.attacks = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    }
    let learner = Learner::new(Arc::new(program), wanted);
    let mut learner = learner.map_err(|errors| Fault::Input(errors.to_string()))?;
    let mut malformed = 0;
    match options.files.as_slice() {
        [] => malformed += lines(&mut learner, None, options.format)?,
        files => {
            for file in files {
                let path = Some(file.as_path()).filter(|path| path.as_os_str() != "-");
                malformed += lines(&mut learner, path, options.format)?;
            }
        }
    }
    let learned = learner.learn(&mut given)?;
    print(options, &learned)?;
    Ok(if malformed > 0 { Outcome::Findings } else { Outcome::Clean })
}

fn print(options: &LearnOptions, learned: &Learned) -> Result<(), Fault> {
    let mut out = output::results();
    out.write_all(learned.yaml().as_bytes())?;
    out.flush()?;
    let report = learned.report();
    match &options.report {
        Some(path) => fs::write(path, report)
            .map_err(|error| Fault::Input(format!("{}: {error}", path.display())))?,
        None if options.quiet => {}
        None => {
            for line in report.lines() {
                output::remark(format_args!("declined: {line}"));
            }
        }
    }
    if !options.quiet {
        let glacis_learn::Totals { requests, blocked, passing, .. } = learned.totals;
        let exclusions = learned.exclusions.len();
        output::remark(format_args!(
            "{requests} requests, {blocked} blocked, {passing} of those pass with {exclusions} exclusions"
        ));
        learned.remarks.iter().for_each(output::remark);
    }
    Ok(())
}

/// Reads a file, or standard input; the number of what is no request.
fn lines(learner: &mut Learner, path: Option<&Path>, format: LearnFormat) -> Result<usize, Fault> {
    let ends_har = path.is_some_and(|path| path.extension().is_some_and(|end| end == "har"));
    if let Some(path) = path.filter(|_| format == LearnFormat::Har || ends_har) {
        return from_har(learner, path);
    }
    let mut lines = Lines::open(path)?;
    let (mut malformed, mut first) = (0, true);
    while let Some(line) = lines.batch(1)?.pop() {
        match line.read(read) {
            Ok((request, _)) => learner.observe(request, None),
            Err(error) => {
                // A file that does not begin with a request may be one document.
                if let Some(path) = path.filter(|_| first && format == LearnFormat::Auto)
                    && let Ok(count) = from_har(learner, path)
                {
                    return Ok(count);
                }
                malformed += 1;
                if malformed <= NAMED_MAX {
                    output::remark(error.message);
                }
            }
        }
        first = false;
    }
    Ok(malformed)
}

/// All requests of a HAR file are of one client.
fn from_har(learner: &mut Learner, path: &Path) -> Result<usize, Fault> {
    let name = path.display().to_string();
    let fault = |error: String| Fault::Input(format!("{name}: {error}"));
    let entries = har::requests(&whole(path)?).map_err(fault)?;
    let mut malformed = 0;
    for (at, entry) in entries.into_iter().enumerate() {
        match entry.and_then(|line| Request::parse(&line).map_err(|error| error.message)) {
            Ok(request) => learner.observe(request, Some(&name)),
            Err(error) => {
                malformed += 1;
                output::remark(format_args!("{name}: entry {}: {error}", at + 1));
            }
        }
    }
    Ok(malformed)
}

fn whole(path: &Path) -> Result<Vec<u8>, Fault> {
    let fault = |error: String| Fault::Input(format!("{}: {error}", path.display()));
    let size = fs::metadata(path).map_err(|error| fault(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fault(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    fs::read(path).map_err(|error| fault(error.to_string()))
}
