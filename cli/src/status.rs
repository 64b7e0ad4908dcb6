//! `glacis status`: the breakers of a running Envoy and the native module in it, as its admin port shows them.
//!
//! Envoy has no breaker of three states for external services; its health checks, its outlier detection and its
//! panic threshold of 0 are one. This says in which state each is:
//! closed while a host is in service; open when none is; half-open when none is and probes begin to succeed.

mod breaker;
mod native;

use std::io::Write as _;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::admin::{Admin, encoded};
use crate::arguments::StatusOptions;
use crate::output::{self, Fault, Outcome};
use breaker::{Breaker, State};
use native::Native;

/// Between two looks: more than one probe of the shipped configuration (0.2 s), so that one that succeeds while the
/// breaker is open is seen.
const BETWEEN: Duration = Duration::from_millis(300);

/// Which of Envoy's statistics are read: clusters, ext_proc, the guard and the native module.
const FILTER: &str = "^cluster\\.|ext_proc|rbac|glacis_(build_info|ruleset_info|requests|errors)";

/// Prints the state of each breaker; one that is not closed is a finding.
pub(crate) fn run(options: &StatusOptions) -> Result<Outcome, Fault> {
    let admin = Admin::new(&options.admin, options.token_file.as_deref()).map_err(Fault::Input)?;
    let ask = |path: &str| admin.get(path).map_err(|error| error.fault(&options.admin));
    let stats = format!("/stats?filter={}", encoded(FILTER));
    let before = ask(&stats)?;
    let mut after = before.clone();
    if breaker::breakers(&before, &before, "").iter().any(|breaker| breaker.state != State::Closed)
    {
        sleep(BETWEEN);
        after = ask(&stats)?;
    }
    let hosts = ask("/clusters?format=json")?;
    let breakers = breaker::breakers(&before, &after, &hosts);
    let native = Native::read(&ask("/config_dump")?, &after);
    if breakers.is_empty() && native.is_absent() {
        let none = "no cluster of this Envoy has health checks, so none has a breaker, and no listener has the native module";
        return Err(Fault::Input(format!("{}: {none}", options.admin)));
    }
    let passes = breaker::passes(&after);
    let mut out = output::results();
    match options.json {
        true => {
            let told: Vec<_> = breakers.iter().map(Breaker::json).collect();
            let native = native.json();
            writeln!(out, "{}", json!({"breakers": told, "counters": passes, "native": native}))?;
        }
        false => write!(out, "{}{}", breaker::table(&breakers, &passes), native.table())?,
    }
    out.flush()?;
    match breakers.iter().all(|breaker| breaker.state == State::Closed) {
        true => Ok(Outcome::Clean),
        false => Ok(Outcome::Findings),
    }
}
