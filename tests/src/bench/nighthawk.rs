//! Envoy's own load generator, where it is on the path: a second opinion on rates that ours has sent.
//!
//! Its default predicates end a run at the first 4xx, and `--concurrency` multiplies the rate, so both are set. It reads requests
//! from a file, which has none with a body here. It is not packaged, and what is tested is that its JSON is read.

use std::path::Path;

use serde_json::{Value, json};

use super::told::{Generator, Told};
use crate::load::Plan;

/// The most bytes of a file of requests that it reads.
const FILE_BYTES_MAX: usize = 1_000_000;

/// It is told of requests in JSON.
pub const GENERATOR: Generator = Generator {
    name: "nighthawk",
    program: "nighthawk_client",
    file: "nighthawk.json",
    requests,
    arguments,
    told,
};

fn arguments(plan: &Plan<'_>, rate: f64, file: &Path) -> Vec<String> {
    let source = json!({
        "name": "nighthawk.file-based-request-source-plugin",
        "typed_config": {
            "@type": "type.googleapis.com/nighthawk.request_source.FileBasedOptionsListRequestSourceConfig",
            "file_path": file,
        },
    });
    let pairs = [
        ("--rps", (rate as u64).max(1).to_string()),
        ("--concurrency", "1".to_owned()),
        ("--connections", plan.connections.to_string()),
        ("--duration", plan.time.as_secs().max(1).to_string()),
        ("--output-format", "json".to_owned()),
        ("--request-source-plugin-config", source.to_string()),
    ];
    let pairs = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    let flags = ["--open-loop", "--no-default-failure-predicates"].map(str::to_owned);
    pairs.chain(flags).chain([format!("http://{}/", plan.to)]).collect()
}

/// The requests as it reads them, as many as fit; `None` if one has a body.
fn requests(plan: &Plan<'_>) -> Option<String> {
    let mut options = Vec::new();
    let mut bytes = 0;
    for shot in plan.shots {
        let text = core::str::from_utf8(&shot.bytes).ok()?.strip_suffix("\r\n\r\n")?;
        let mut lines = text.split("\r\n");
        let path = lines.next()?.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
        let pair = |name: &str, value: &str| json!({"header": {"key": name, "value": value}});
        let fields = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            pair(if name == "host" { ":authority" } else { &name }, value)
        });
        let headers: Vec<Value> = [pair(":path", path)].into_iter().chain(fields).collect();
        let option = json!({"request_method": 1, "request_headers": headers});
        bytes += option.to_string().len() + 2;
        if bytes > FILE_BYTES_MAX {
            break;
        }
        options.push(option);
    }
    Some(json!({ "options": options }).to_string())
}

/// Reads its JSON: numbers are texts there, and durations have an `s` behind them.
fn told(text: &str) -> Option<Told> {
    let value: Value = serde_json::from_str(text).ok()?;
    let results = value["results"].as_array()?;
    let global = results.iter().find(|result| result["name"] == "global")?;
    let counter = |name: &str| -> u64 {
        let counters = global["counters"].as_array().into_iter().flatten();
        let found = { counters }.find(|counter| counter["name"] == name);
        found.and_then(|counter| counter["value"].as_str()?.parse().ok()).unwrap_or(0)
    };
    let statistics = global["statistics"].as_array()?;
    let latency = "benchmark_http_client.request_to_response";
    let latency = statistics.iter().find(|statistic| statistic["id"] == latency)?;
    let at = |share: f64| -> Option<f64> {
        let points = latency["percentiles"].as_array()?;
        let point = points
            .iter()
            .find(|point| point["percentile"].as_f64().is_some_and(|it| it >= share))?;
        milliseconds(&point["duration"])
    };
    Some(Told {
        answers: [1, 2, 3, 4, 5].map(|digit| counter(&format!("benchmark.http_{digit}xx"))),
        broken: counter("benchmark.stream_resets") + counter("benchmark.pool_connection_failure"),
        unsent: counter("benchmark.pool_overflow"),
        seconds: milliseconds(&global["execution_duration"])? / 1e3,
        mean_ms: milliseconds(&latency["mean"])?,
        p50_ms: at(0.5)?,
        p90_ms: at(0.9)?,
        p99_ms: at(0.99)?,
        max_ms: milliseconds(&latency["max"])?,
        cpu_seconds: 0.0,
    })
}

fn milliseconds(duration: &Value) -> Option<f64> {
    let seconds: f64 = duration.as_str()?.strip_suffix('s')?.parse().ok()?;
    Some(seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::{Pace, Shot};

    #[test]
    fn its_json_is_read() {
        let expected = Told {
            answers: [0, 990, 0, 10, 0],
            broken: 3,
            unsent: 5,
            seconds: 10.0,
            mean_ms: 0.5,
            p50_ms: 0.4,
            p90_ms: 0.9,
            p99_ms: 2.5,
            max_ms: 7.0,
            cpu_seconds: 0.0,
        };
        assert_eq!(told(include_str!("fixtures/nighthawk.json")), Some(expected));
        assert_eq!(told("{}"), None);
        assert_eq!(told("bad flags"), None);
    }

    #[test]
    fn requests_are_handed_over_without_bodies() {
        let shot = |text: &str| Shot { bytes: text.into(), class: String::new(), status: 200 };
        let plan = |shots: &[Shot]| {
            let to = ([127, 0, 0, 1], 80).into();
            let (pace, time) = (Pace::Open(5.0), Duration::from_secs(3));
            requests(&Plan {
                to,
                connections: 7,
                pace,
                time,
                count: None,
                shots,
                shed: &[],
                keys: 0,
            })
        };
        let get = shot("GET /a?b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
        let read: Value = serde_json::from_str(&plan(&[get]).unwrap()).unwrap();
        let pair = |name: &str, value: &str| json!({"header": {"key": name, "value": value}});
        let headers = [pair(":path", "/a?b"), pair(":authority", "x"), pair("accept", "*/*")];
        assert_eq!(read, json!({"options": [{"request_method": 1, "request_headers": headers}]}));
        assert_eq!(plan(&[shot("POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\nx")]), None);
    }
}
