//! ghz, which asks services of gRPC from outside: a second opinion on what our own clients have seen.

use std::process::Command;

use serde_json::Value;

use super::Seen;
use crate::bench::measure::cpu_seconds;
use crate::failure::{Failure, Outcome, io};
use crate::settings;

/// Calls at once, and the connections that they share.
pub(crate) const CALLS: usize = 16;
pub(crate) const CONNECTIONS: usize = 4;

/// What ghz is to ask.
#[derive(Debug)]
pub(crate) struct Ghz<'a> {
    /// Its program.
    pub(crate) program: &'a str,
    /// The protocol, a file from the top folder.
    pub(crate) proto: &'a str,
    /// The call, with the names of its package and service.
    pub(crate) call: &'a str,
    /// What is sent, in JSON.
    pub(crate) message: &'a str,
    /// `unix://PATH` or `HOST:PORT`.
    pub(crate) to: &'a str,
    /// For how long.
    pub(crate) seconds: u32,
}

impl Ghz<'_> {
    /// Asks; `process` is the one that answers.
    ///
    /// # Errors
    ///
    /// If ghz does not run, or one of a hundred calls has failed.
    pub(crate) fn ask(&self, process: u32) -> Outcome<Seen> {
        let Self { program, proto, call, message, to, seconds } = *self;
        let mut command = Command::new(program);
        command.current_dir(settings::root()).args(["--insecure", "-O", "json"]);
        // The first hundred calls open the connections.
        command.args(["--skipFirst", "100", "-c", &CALLS.to_string()]);
        command.args(["--connections", &CONNECTIONS.to_string(), "-z", &format!("{seconds}s")]);
        command.args(["--proto", proto, "--call", call, "-d", message, to]);
        let before = cpu_seconds(process)?;
        let output = command.output().map_err(io("run", program.as_ref()))?;
        let cpu = cpu_seconds(process)? - before;
        let told: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            Failure::new(format!("ghz: {error}: {}", String::from_utf8_lossy(&output.stderr)))
        })?;
        seen(&told, cpu)
    }
}

/// Reads its JSON, in which times are nanoseconds; the service has taken so much CPU time.
fn seen(told: &Value, cpu_seconds: f64) -> Outcome<Seen> {
    let good = told["statusCodeDistribution"]["OK"].as_f64().unwrap_or(0.0);
    let count = told["count"].as_f64().unwrap_or(0.0);
    if good < count * 0.99 || good < 1.0 {
        let errors = &told["errorDistribution"];
        return Err(Failure::new(format!("ghz: {good} of {count}: {errors}")));
    }
    let percentile = |percent: u64| {
        let latencies = told["latencyDistribution"].as_array().into_iter().flatten();
        let found = { latencies }.find(|row| row["percentage"] == percent);
        found.and_then(|row| row["latency"].as_f64()).unwrap_or(0.0) / 1e3
    };
    Ok(Seen {
        count: count as usize,
        mean_us: told["average"].as_f64().unwrap_or(0.0) / 1e3,
        p50_us: percentile(50),
        p99_us: percentile(99),
        per_second: told["rps"].as_f64().unwrap_or(0.0),
        cpu_us: cpu_seconds * 1e6 / count,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn its_json_is_read() {
        let told = |good: u32| {
            json!({"count": 200, "average": 1_500_000, "rps": 20.5,
                "statusCodeDistribution": {"OK": good, "Unavailable": 200 - good},
                "latencyDistribution": [{"percentage": 50, "latency": 1_000_000},
                    {"percentage": 99, "latency": 4_000_000}]})
        };
        let seen_of = |good| seen(&told(good), 0.1).map_err(|failure| failure.to_string());
        let seen = seen_of(198).unwrap();
        assert_eq!(seen.count, 200);
        let times = [seen.mean_us, seen.p50_us, seen.p99_us, seen.per_second, seen.cpu_us];
        let expected = [1_500.0, 1_000.0, 4_000.0, 20.5, 500.0];
        let is_close = |(one, other): (f64, f64)| (one - other).abs() < 1e-6;
        assert!(times.into_iter().zip(expected).all(is_close), "{seen:?}");
        assert!(seen_of(197).is_err());
        assert!(super::seen(&json!({}), 0.1).is_err());
    }
}
