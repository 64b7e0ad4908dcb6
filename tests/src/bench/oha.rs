//! oha, where it is there: a second opinion on rates that ours has sent. It is open-loop with latencies corrected for
//! coordinated omission; it sends the paths of all requests with the header fields of the first one.

use std::path::Path;

use serde_json::Value;

use super::told::{Generator, Told};
use crate::load::Plan;

/// It is told of the paths of requests, one a line.
pub const GENERATOR: Generator =
    Generator { name: "oha", program: "oha", file: "oha.urls", requests: urls, arguments, told };

fn arguments(plan: &Plan<'_>, rate: f64, file: &Path) -> Vec<String> {
    let flags =
        ["--no-tui", "--latency-correction", "-w", "--urls-from-file", "--output-format", "json"];
    let pairs = [
        ("-q", format!("{rate:.0}")),
        ("-c", plan.connections.to_string()),
        ("-z", format!("{}ms", plan.time.as_millis())),
        ("-t", "10s".to_owned()),
    ];
    let pairs = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    let fields = fields(plan).into_iter().flat_map(|(name, value)| match name.as_str() {
        "host" => ["--host".to_owned(), value],
        _ => ["-H".to_owned(), format!("{name}: {value}")],
    });
    let file = file.display().to_string();
    flags.map(str::to_owned).into_iter().chain(pairs).chain(fields).chain([file]).collect()
}

/// The paths of all requests, one a line; `None` if one has a body.
fn urls(plan: &Plan<'_>) -> Option<String> {
    let mut text = String::new();
    for shot in plan.shots {
        let head = core::str::from_utf8(&shot.bytes).ok()?.strip_suffix("\r\n\r\n")?;
        let path = head.strip_prefix("GET ")?.split_once(" HTTP/1.1\r\n")?.0;
        text.push_str(&format!("http://{}{path}\n", plan.to));
    }
    Some(text)
}

/// The header fields of the first request, in small letters.
fn fields(plan: &Plan<'_>) -> Vec<(String, String)> {
    let first = plan.shots.first().map_or(&[][..], |shot| &shot.bytes);
    let head = String::from_utf8_lossy(first);
    let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect()
}

/// Reads its JSON: times are seconds.
fn told(text: &str) -> Option<Told> {
    let value: Value = serde_json::from_str(text).ok()?;
    let summary = &value["summary"];
    let percentiles = &value["latencyPercentiles"];
    let ms = |value: &Value| value.as_f64().map(|seconds| seconds * 1e3);
    let mut answers = [0; 5];
    for (status, count) in value["statusCodeDistribution"].as_object()? {
        let digit: usize = status.get(..1)?.parse().ok()?;
        *answers.get_mut(digit.checked_sub(1)?)? += count.as_u64()?;
    }
    let broken = value["errorDistribution"].as_object()?.values().filter_map(Value::as_u64).sum();
    Some(Told {
        answers,
        broken,
        unsent: 0,
        seconds: summary["total"].as_f64()?,
        mean_ms: ms(&summary["average"])?,
        p50_ms: ms(&percentiles["p50"])?,
        p90_ms: ms(&percentiles["p90"])?,
        p99_ms: ms(&percentiles["p99"])?,
        max_ms: ms(&summary["slowest"])?,
        cpu_seconds: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::{Pace, Shot};

    fn shot(text: &str) -> Shot {
        Shot { bytes: text.into(), class: String::new(), status: 200 }
    }

    fn plan(shots: &[Shot]) -> Plan<'_> {
        let (to, time) = (([127, 0, 0, 1], 80).into(), Duration::from_secs(3));
        let pace = Pace::Open(5.0);
        Plan { to, connections: 7, pace, time, count: None, shots, shed: &[], keys: 0 }
    }

    #[test]
    fn its_json_is_read() {
        let expected = Told {
            answers: [0, 3990, 0, 10, 0],
            broken: 2,
            unsent: 0,
            seconds: 4.0,
            mean_ms: 0.75,
            p50_ms: 0.5,
            p90_ms: 1.25,
            p99_ms: 3.0,
            max_ms: 9.0,
            cpu_seconds: 0.0,
        };
        assert_eq!(told(include_str!("fixtures/oha.json")), Some(expected));
        for bad in ["", "{}", r#"{"statusCodeDistribution": {"99": 1}}"#, "error: bad flag"] {
            assert_eq!(told(bad), None, "{bad}");
        }
    }

    #[test]
    fn requests_become_paths_and_fields() {
        let shots = [
            shot("GET /a?b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"),
            shot("GET /c HTTP/1.1\r\nHost: x\r\n\r\n"),
        ];
        let plan = plan(&shots);
        assert_eq!(urls(&plan).unwrap(), "http://127.0.0.1:80/a?b\nhttp://127.0.0.1:80/c\n");
        let arguments = arguments(&plan, 5.0, Path::new("/f/urls")).join(" ");
        assert!(arguments.contains("-q 5 -c 7 -z 3000ms"), "{arguments}");
        assert!(arguments.ends_with("--host x -H accept: */* /f/urls"), "{arguments}");
        assert!(arguments.contains("--latency-correction"), "{arguments}");
    }

    #[test]
    fn requests_with_bodies_are_not_for_it() {
        let shots = [shot("POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\nx")];
        assert_eq!(urls(&plan(&shots)), None);
    }
}
