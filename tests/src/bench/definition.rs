//! What `bench/http/NAME.yaml` says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Failure, Outcome, io};
use crate::http::Request;
use crate::load::{KEY_FIELD, Shot};
use crate::settings;

/// Where definitions are, from the top folder.
pub const FOLDER: &str = "bench/http";

/// All definitions.
pub const NAMES: [&str; 6] = ["barbacana", "boundary", "crowdsec", "proxies", "curves", "profiles"];

/// The status of a request that is to be refused, until it is known who refuses it.
pub const REFUSED: u16 = 403;

/// A bench.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What it is.
    pub title: String,
    /// Requests of its own, by name.
    #[serde(default)]
    requests: BTreeMap<String, Vec<Own>>,
    /// What is measured.
    pub parts: Vec<Part>,
    /// What is done of it in seconds.
    pub short: Short,
}

/// A set of requests, on some stacks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name in tables.
    pub name: String,
    requests: Vec<Source>,
    /// The stacks that get them, by their names in `stacks.yaml`; ratios are to the first.
    pub stacks: Vec<String>,
    /// One after the other.
    pub loads: Vec<Load>,
    /// The curve that this part is a point of, and where on it.
    #[serde(default)]
    pub curve: Option<String>,
    /// See `curve`.
    #[serde(default)]
    pub at: Option<f64>,
    /// Seconds that a start of a stack takes, where it is more than usual.
    #[serde(default = "start_seconds")]
    start_seconds: f64,
    /// So many clients send the requests, told apart by a field of the head.
    #[serde(default)]
    pub keys: u32,
}

/// Where requests are from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    /// A file of the workload, or a name in `requests`.
    from: String,
    /// Of all requests, so many are of this kind for each part of the others.
    #[serde(default)]
    parts: Option<usize>,
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// Requests a second, whatever becomes of them; without it each connection waits for its answer.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Rates one after the other.
    #[serde(default)]
    pub climb: Option<Climb>,
    /// So many times the highest rate that the climb before has held: what becomes of more than can be done.
    #[serde(default)]
    pub beyond: Option<f64>,
    /// Other load generators send it as well, where they are there.
    #[serde(default)]
    pub by_tools: bool,
    /// For how long, at the most.
    #[serde(default = "a_minute")]
    pub seconds: f64,
    /// How many requests, at the most.
    #[serde(default)]
    pub count: Option<usize>,
}

const fn a_minute() -> f64 {
    60.0
}

/// A rate that grows until it is not held.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Climb {
    /// The first rate.
    pub from: f64,
    /// The next one is so many times the last.
    pub factor: f64,
    /// What ninety-nine of a hundred requests may take, in milliseconds.
    pub p99_ms: f64,
}

/// The short form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Short {
    /// The part of it.
    pub part: String,
    /// The stacks of it.
    pub stacks: Vec<String>,
    /// Requests a second.
    pub rate: f64,
    /// For how long.
    pub seconds: f64,
}

/// A request that is written down in a definition; a patch refuses it, unless it passes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    method: String,
    uri: String,
    #[serde(default)]
    body: Option<String>,
    /// Its headers; without them those of a browser.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Whether no stack refuses it.
    #[serde(default)]
    passes: bool,
}

impl Definition {
    /// Reads a definition.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it is not in order.
    pub fn read(name: &str) -> Outcome<Self> {
        yaml(&format!("{FOLDER}/{name}.yaml"))
    }

    /// The requests of a part, mixed as it says. The same definition and workload give the same order.
    ///
    /// # Errors
    ///
    /// If the workload has not been written.
    pub fn requests_of(&self, part: &Part, workload: &Path) -> Outcome<Vec<Shot>> {
        let mut sources = Vec::new();
        for source in &part.requests {
            let shots = match self.requests.get(&source.from) {
                Some(own) => own.iter().map(Own::shot).collect(),
                None => lines(&workload.join(format!("{}.jsonl", source.from)))?,
            };
            if shots.is_empty() {
                return Err(Failure::new(format!("there are no requests `{}`", source.from)));
            }
            sources.push((source.parts.unwrap_or(1), shots));
        }
        let mut shots = mixed(&sources);
        if part.keys > 0 {
            shots.iter_mut().for_each(with_key);
        }
        Ok(shots)
    }

    /// Seconds that the long form takes at the most, as planned here, with all stacks there: what is sent, and
    /// the starts of the stacks.
    pub fn planned_seconds(&self) -> f64 {
        let parts = self.parts.iter().map(|part| {
            let loads: f64 = part.loads.iter().map(Load::planned_seconds).sum();
            (loads + part.start_seconds) * part.stacks.len() as f64
        });
        parts.sum()
    }
}

/// Seconds for a start of a stack, the requests that do not count, and its end: Envoys with CRS in their workers take six.
const fn start_seconds() -> f64 {
    4.0
}

/// Rates of a climb that are reckoned with; and requests of a second where a load is a number of requests.
const CLIMB_STEPS: f64 = 7.0;
const COUNTED_PER_SECOND: f64 = 250.0;

impl Load {
    fn planned_seconds(&self) -> f64 {
        let steps = if self.climb.is_some() { CLIMB_STEPS } else { 1.0 };
        let counted = self.count.map_or(f64::MAX, |count| count as f64 / COUNTED_PER_SECOND);
        let tools = if self.by_tools { 3.0 } else { 1.0 };
        self.seconds.min(counted) * steps * tools
    }
}

/// Puts the field behind the first line that tells clients apart.
fn with_key(shot: &mut Shot) {
    let line = shot.bytes.windows(2).position(|window| window == b"\r\n").map_or(0, |at| at + 2);
    let rest = shot.bytes.split_off(line);
    shot.bytes.extend_from_slice(format!("{KEY_FIELD}\r\n").as_bytes());
    shot.bytes.extend_from_slice(&rest);
}

/// One source alone as it is; several so that each has its share of every round.
fn mixed(sources: &[(usize, Vec<Shot>)]) -> Vec<Shot> {
    if let [(_, alone)] = sources {
        return alone.clone();
    }
    let longest =
        sources.iter().map(|(parts, shots)| shots.len().div_ceil(*parts)).max().unwrap_or(0);
    // Enough rounds for each request to come, and no more than a hundred.
    let rounds = longest.min(100);
    let mut cycles: Vec<_> =
        sources.iter().map(|(parts, shots)| (*parts, shots.iter().cycle())).collect();
    let mut all = Vec::new();
    for _ in 0..rounds {
        for (parts, cycle) in &mut cycles {
            all.extend(cycle.by_ref().take(*parts).cloned());
        }
    }
    all
}

impl Own {
    fn shot(&self) -> Shot {
        let form = "application/x-www-form-urlencoded";
        let mut request = Request::new(&self.method, &self.uri);
        for (name, value) in &self.headers {
            request = request.header(name, value.as_bytes());
        }
        if self.headers.is_empty() {
            request = request.browser();
        }
        if let Some(body) = &self.body {
            if !self.headers.contains_key("content-type") {
                request = request.header("content-type", form);
            }
            request.body = body.clone().into_bytes();
        }
        let (class, status) = if self.passes { ("clean", 200) } else { ("patched", REFUSED) };
        Shot { bytes: request.bytes(), class: class.to_owned(), status }
    }
}

/// Reads a file of the workload.
fn lines(path: &Path) -> Outcome<Vec<Shot>> {
    let text = fs::read_to_string(path).map_err(io("read", path))?;
    text.lines()
        .map(|line| shot(line).ok_or_else(|| Failure::new(format!("not a request: {line:.200}"))))
        .collect()
}

/// A request of the workload, which is in the format of `glacis eval`.
fn shot(line: &str) -> Option<Shot> {
    let value: Value = serde_json::from_str(line).ok()?;
    let mut request = Request::new(value["method"].as_str()?, value["uri"].as_str()?);
    for pair in value["headers"].as_array()? {
        let (name, field) = (pair[0].as_str()?, pair[1].as_str()?);
        // What is kept open is the client's affair, and how long the body is, is told by the body.
        if !["connection", "content-length"].contains(&name.to_ascii_lowercase().as_str()) {
            request = request.header(name, field);
        }
    }
    if let Some(body) = value["body_base64"].as_str() {
        request.body = STANDARD.decode(body).ok()?;
    }
    let refused = value["expect"] == "deny";
    let class = if refused { "attack" } else { value["class"].as_str()? };
    let status = if refused { REFUSED } else { 200 };
    Some(Shot { bytes: request.bytes(), class: class.to_owned(), status })
}

/// Reads a file of the repository.
pub(super) fn yaml<T: DeserializeOwned>(file: &str) -> Outcome<T> {
    let path = settings::root().join(file);
    let text = fs::read_to_string(&path).map_err(io("read", &path))?;
    serde_saphyr::from_str(&text).map_err(|error| Failure::new(format!("{file}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_in_every_round() {
        let shots = |class: &str, count: usize| {
            vec![Shot { bytes: Vec::new(), class: class.to_owned(), status: 200 }; count]
        };
        let all = mixed(&[(9, shots("a", 30)), (1, shots("b", 1))]);
        assert_eq!(all.len(), 40);
        for round in all.chunks(10) {
            assert_eq!(round.iter().filter(|shot| shot.class == "b").count(), 1);
        }
    }

    /// What is too long is not run, and what is never run is never true.
    #[test]
    fn every_bench_ends_within_ten_minutes_and_all_within_thirty_six() {
        let stacks = crate::bench::stack::Stacks::read().unwrap();
        let mut all = 0.0;
        for name in NAMES {
            let definition = Definition::read(name).unwrap();
            let seconds = definition.planned_seconds();
            println!("{name}: {seconds:.0} s");
            assert!(seconds <= 600.0, "{name} takes {seconds} s");
            all += seconds;
            for part in &definition.parts {
                assert_eq!(part.curve.is_some(), part.at.is_some(), "{name}: {}", part.name);
                for stack in part.stacks.iter().chain(&definition.short.stacks) {
                    assert!(stacks.has(stack), "{name}: {stack}");
                }
            }
            assert!(definition.parts.iter().any(|part| part.name == definition.short.part));
        }
        assert!(all <= 36.0 * 60.0, "{all} s");
    }

    #[test]
    fn clients_are_told_apart_by_a_field() {
        let bytes = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec();
        let mut shot = Shot { bytes, class: String::new(), status: 200 };
        with_key(&mut shot);
        let text = String::from_utf8_lossy(&shot.bytes);
        assert_eq!(text, "GET / HTTP/1.1\r\nx-key: 00000000\r\nhost: a\r\n\r\n");
    }

    #[test]
    fn a_line_of_the_workload_is_a_request() {
        let line = r#"{"class":"json","expect":"deny","headers":[["Host","a"],["Connection","close"]],
            "method":"POST","uri":"/x","body_base64":"aGk="}"#;
        let shot = shot(line).unwrap();
        assert_eq!(shot.class, "attack");
        assert_eq!(shot.status, 403);
        assert_eq!(
            String::from_utf8_lossy(&shot.bytes),
            "POST /x HTTP/1.1\r\nHost: a\r\ncontent-length: 2\r\n\r\nhi"
        );
    }
}
