//! From Envoy's statistics to the state of a breaker. Pure: text in, text out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The three states; the numbers are those of the metric `glacis_circuit_breaker_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A host is in service.
    Closed = 0,
    /// None is: each request is decided by the failure mode at once.
    Open = 1,
    /// None is, and probes begin to succeed.
    HalfOpen = 2,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// A cluster with health checks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Breaker {
    cluster: String,
    pub(super) state: State,
    healthy: u64,
    total: u64,
    /// Hosts that outlier detection has taken out of service.
    ejected: u64,
    /// Requests in it now, and how many more it takes.
    active: u64,
    remaining: Option<u64>,
    /// Each with its address and what is wrong with it.
    hosts: Vec<(String, String)>,
}

type Stats<'a> = BTreeMap<&'a str, u64>;

fn read(text: &str) -> Stats<'_> {
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(": ")?;
        Some((name, value.parse().ok()?))
    });
    pairs.collect()
}

/// The breakers that two looks at the statistics show, and the hosts that `/clusters` tells of.
pub(super) fn breakers(before: &str, after: &str, hosts: &str) -> Vec<Breaker> {
    let (before, after) = (read(before), read(after));
    let hosts: Value = serde_json::from_str(hosts).unwrap_or_default();
    let clusters = after
        .keys()
        .filter_map(|name| name.strip_prefix("cluster.")?.strip_suffix(".health_check.attempt"));
    clusters.map(|cluster| breaker(cluster, &before, &after, &hosts)).collect()
}

fn breaker(cluster: &str, before: &Stats<'_>, after: &Stats<'_>, hosts: &Value) -> Breaker {
    let find = |stats: &Stats<'_>, name: &str| {
        stats.get(format!("cluster.{cluster}.{name}").as_str()).copied()
    };
    let now = |name: &str| find(after, name).unwrap_or(0);
    let probes = "health_check.success";
    let healthy = now("membership_healthy");
    let state = match healthy {
        1.. => State::Closed,
        0 if find(after, probes) > find(before, probes) => State::HalfOpen,
        0 => State::Open,
    };
    Breaker {
        cluster: cluster.to_owned(),
        state,
        healthy,
        total: now("membership_total"),
        ejected: now("outlier_detection.ejections_active"),
        active: now("upstream_rq_active"),
        remaining: find(after, "circuit_breakers.default.remaining_rq"),
        hosts: conditions(cluster, hosts),
    }
}

/// The hosts of a cluster, each with what is wrong with it.
fn conditions(cluster: &str, hosts: &Value) -> Vec<(String, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let found =
        list(&hosts["cluster_statuses"]).into_iter().find(|status| status["name"] == *cluster);
    let found = found.map(|status| list(&status["host_statuses"])).unwrap_or_default();
    let told = found.iter().map(|host| {
        let health = &host["health_status"];
        let flags = [
            ("failed_active_health_check", "its probes fail"),
            ("failed_outlier_check", "its requests have failed"),
            ("pending_active_hc", "not probed yet"),
        ];
        let wrong = flags.iter().filter(|(flag, _)| health[*flag] == true).map(|(_, words)| *words);
        let wrong: Vec<_> = wrong.collect();
        let condition = if wrong.is_empty() { "in service".to_owned() } else { wrong.join(", ") };
        (address(&host["address"]), condition)
    });
    told.collect()
}

fn address(address: &Value) -> String {
    let socket = &address["socket_address"];
    match (socket["address"].as_str(), &socket["port_value"], address["pipe"]["path"].as_str()) {
        (Some(host), port, _) => format!("{host}:{port}"),
        (None, _, Some(path)) => path.to_owned(),
        (None, _, None) => address.to_string(),
    }
}

/// What has happened to requests since Envoy started, by our words for it.
pub(super) fn passes(stats: &str) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for (name, value) in read(stats) {
        if let Some((_, key, _)) = COUNTERS.iter().find(|(end, ..)| name.ends_with(end)) {
            *sums.entry(*key).or_default() += value;
        }
    }
    sums
}

/// Counters of Envoy: the end of the name, the key in JSON, and the words for people.
const COUNTERS: [(&str, &str, &str); 6] = [
    (".ext_proc.streams_started", "streams_started", "streams to ext-proc"),
    (".ext_proc.streams_failed", "streams_failed", "streams that failed"),
    (".ext_proc.message_timeouts", "message_timeouts", "messages without an answer in time"),
    (".ext_proc.failure_mode_allowed", "failure_mode_allowed", "failures that a route let pass"),
    (".rbac.glacis_receipt.denied", "receipt_denied", "blocked by the guard for want of a receipt"),
    (".rbac.glacis_receipt.shadow_denied", "receipt_shadow_denied", "passed uninspected"),
];

/// Everything for people.
pub(super) fn table(breakers: &[Breaker], passes: &BTreeMap<&'static str, u64>) -> String {
    let mut text = String::new();
    for breaker in breakers {
        let Breaker { cluster, state, healthy, total, ejected, active, .. } = breaker;
        let room = breaker.remaining.map(|room| format!(" of {}", room.saturating_add(*active)));
        text.push_str(&format!(
            "{cluster}: {} ({healthy} of {total} hosts in service, {ejected} ejected, {active}{} requests now)\n",
            state.word(),
            room.unwrap_or_default(),
        ));
        for (host, condition) in &breaker.hosts {
            text.push_str(&format!("  {host}: {condition}\n"));
        }
    }
    if !passes.is_empty() {
        text.push_str("since Envoy started:\n");
    }
    for (key, count) in passes {
        let known = COUNTERS.iter().find(|(_, known, _)| known == key);
        let words = known.map_or(*key, |(.., words)| words);
        text.push_str(&format!("  {words}: {count}\n"));
    }
    text
}

impl Breaker {
    /// For programs.
    pub(super) fn json(&self) -> Value {
        let hosts = self.hosts.iter();
        json!({
            "cluster": self.cluster,
            "state": self.state.word(),
            "glacis_circuit_breaker_state": self.state as u8,
            "healthy": self.healthy,
            "total": self.total,
            "ejected": self.ejected,
            "active": self.active,
            "remaining": self.remaining,
            "hosts": hosts.map(|(host, condition)| json!({"host": host, "condition": condition})).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(healthy: u64, success: u64) -> String {
        format!(
            "cluster.a.health_check.attempt: 9\ncluster.a.health_check.success: {success}\n\
             cluster.a.membership_healthy: {healthy}\ncluster.a.membership_total: 2\n\
             cluster.a.upstream_rq_active: 3\ncluster.a.circuit_breakers.default.remaining_rq: 509\n\
             cluster.without.membership_healthy: 0\nhttp.x.ext_proc.streams_started: 7\n\
             http.y.ext_proc.streams_started: 5\ncluster.a.upstream_cx_connect_ms: No recorded values\n"
        )
    }

    #[test]
    fn states_come_from_two_looks() {
        for (healthy, before, after, state) in [
            (2, 5, 5, State::Closed),
            (1, 5, 6, State::Closed),
            (0, 5, 5, State::Open),
            (0, 5, 6, State::HalfOpen),
        ] {
            let found = breakers(&stats(healthy, before), &stats(healthy, after), "");
            assert_eq!(found.len(), 1, "a cluster without probes has no breaker");
            assert_eq!(found[0].state, state, "{healthy} {before} {after}");
        }
    }

    #[test]
    fn hosts_say_what_is_wrong_with_them() {
        let hosts = r#"{"cluster_statuses": [{"name": "a", "host_statuses": [
            {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}, "health_status": {}},
            {"address": {"pipe": {"path": "/run/g"}},
             "health_status": {"failed_active_health_check": true, "failed_outlier_check": true}}]}]}"#;
        let text = table(&breakers(&stats(1, 1), &stats(1, 1), hosts), &passes(&stats(1, 1)));
        assert_eq!(
            text,
            "a: closed (1 of 2 hosts in service, 0 ejected, 3 of 512 requests now)\n  \
             127.0.0.1:1: in service\n  /run/g: its probes fail, its requests have failed\n\
             since Envoy started:\n  streams to ext-proc: 12\n"
        );
    }

    /// Programs read them: keys are no sentences.
    #[test]
    fn keys_of_counters_are_identifiers() {
        for (_, key, _) in COUNTERS {
            assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{key}");
        }
        assert_eq!(passes(&stats(1, 1)), BTreeMap::from([("streams_started", 12)]));
    }

    #[test]
    fn nonsense_is_no_breaker() {
        for text in ["", "x", "cluster..health_check.attempt: 1", "a: b: c"] {
            let found = breakers(text, text, "{");
            assert!(found.iter().all(|breaker| breaker.state == State::Open), "{text:?}");
        }
    }
}
