//! Files, requests and answers, as tables.

mod files;
mod metadata;

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use envoy_types::pb::{
    envoy::{
        extensions::common::ratelimit::v3::{
            RateLimitDescriptor,
            rate_limit_descriptor::{Entry as WireEntry, RateLimitOverride},
        },
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse, rate_limit_service_server::RateLimitService as _,
        },
    },
    google::protobuf::UInt64Value,
};
use glacis_limit_store::{Clock, MemoryStore};
use glacis_service::reload::Reloads;
use prometheus_client::registry::Registry;
use tonic::Request;

use super::{
    config::RatelimitConfig,
    metrics::RatelimitMetrics,
    rules::Entry,
    service::{Limits, RateLimiter, Reloader},
    unit::Unit,
};

/// A folder of files that is gone at the end.
struct Files(std::path::PathBuf);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("glacis-ratelimit-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// The configuration with further keys, in YAML.
    fn config(&self, keys: &str) -> RatelimitConfig {
        let text = format!("config: {}\n{keys}", self.0.display());
        let config: RatelimitConfig = glacis_service::config::parse(&text).unwrap();
        assert_eq!(config.check(), Ok(()));
        config
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `a=1,b=2` as entries.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(key, value)| Entry { key, value }).collect()
}

/// A service in memory whose clock stands still.
struct Service {
    limiter: RateLimiter,
    reloader: Reloader,
    reloads: Reloads,
    clock: Arc<AtomicU64>,
    registry: Registry,
    runtime: tokio::runtime::Runtime,
}

/// Twelve seconds into a minute.
const NOW_SECONDS: u64 = 1_700_015_172;

impl Service {
    fn new(config: &RatelimitConfig) -> Self {
        let clock = Arc::new(AtomicU64::new(NOW_SECONDS * 1_000_000));
        let given = Clock::Given(Arc::clone(&clock));
        let store = Arc::new(MemoryStore::with_clock(10_000, given.clone()));
        let mut registry = Registry::default();
        let metrics = RatelimitMetrics::register(&mut registry);
        let limits = Limits::read(config).unwrap();
        let reloads = Reloads::default();
        let (limiter, reloader) = RateLimiter::new(limits, store, given, metrics, reloads.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { limiter, reloader, reloads, clock, registry, runtime }
    }

    fn send(&self, request: &str) -> Result<RateLimitResponse, tonic::Status> {
        let answer = self.limiter.should_rate_limit(Request::new(wire(request)));
        self.runtime.block_on(answer).map(tonic::Response::into_inner)
    }

    /// The answer to a request as text.
    fn ask(&self, request: &str) -> String {
        match self.send(request) {
            Ok(response) => told(&response),
            Err(status) => format!("error: {}", status.message()),
        }
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

/// A request as text: `DOMAIN[*HITS] DESCRIPTOR…`, where a descriptor is `a=1,b=2[*HITS][@REQUESTS/UNIT]`.
fn wire(text: &str) -> RateLimitRequest {
    let mut words = text.split(' ');
    let (domain, hits) = hits_of(words.next().unwrap());
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: words.map(descriptor).collect(),
        hits_addend: u32::try_from(hits.unwrap_or(0)).unwrap(),
    }
}

fn hits_of(text: &str) -> (&str, Option<u64>) {
    text.rsplit_once("**").map_or((text, None), |(text, hits)| (text, Some(hits.parse().unwrap())))
}

fn descriptor(text: &str) -> RateLimitDescriptor {
    let (text, limit) = match text.split_once('@') {
        None => (text, None),
        Some((text, limit)) => {
            let (requests, unit) = limit.split_once('/').unwrap();
            let unit = Unit::named(unit).map_or(0, Unit::number);
            let requests_per_unit = requests.parse().unwrap();
            (text, Some(RateLimitOverride { requests_per_unit, unit }))
        }
    };
    let (text, hits) = hits_of(text);
    let entry = |Entry { key, value }| WireEntry { key: key.to_owned(), value: value.to_owned() };
    RateLimitDescriptor {
        entries: entries(text).into_iter().map(entry).collect(),
        limit,
        hits_addend: hits.map(|value| UInt64Value { value }),
        ..RateLimitDescriptor::default()
    }
}

/// `OK [OK 9 of 10/minute, 48 s] [OK]`, and headers behind it.
fn told(response: &RateLimitResponse) -> String {
    let mut text = response.overall_code().as_str_name().to_owned();
    for status in &response.statuses {
        let _ = write!(text, " [{}", status.code().as_str_name());
        if let Some(limit) = &status.current_limit {
            let unit = Unit::numbered(limit.unit).unwrap();
            let (left, of) = (status.limit_remaining, limit.requests_per_unit);
            let _ = write!(text, " {left} of {of}/{unit}");
            if !limit.name.is_empty() {
                let _ = write!(text, " {}", limit.name);
            }
        } else if status.limit_remaining > 0 {
            let _ = write!(text, " {}", status.limit_remaining);
        }
        if let Some(reset) = &status.duration_until_reset {
            let _ = write!(text, ", {} s", reset.seconds);
        }
        text.push(']');
    }
    for header in &response.response_headers_to_add {
        let _ = write!(text, " {}: {}", header.key, header.value);
    }
    text
}

const LIMITS: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2, name: per_user}
  - key: user
    value: banned
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: user
    value: root
    rate_limit: {unlimited: true}
  - key: vip
    rate_limit: {unit: minute, requests_per_unit: 3, replaces: [{name: per_user}, {name: other}]}
  - key: free_vip
    rate_limit: {unlimited: true, replaces: [{name: per_user}]}
  - key: try
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: files
    value: files/*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: alone
    value: files/*
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: quota_a
    quota_mode: true
    rate_limit: {unit: week, requests_per_unit: 1}
  - key: quota_b
    quota_mode: true
    rate_limit: {unit: month, requests_per_unit: 2}
  - key: tokens
    rate_limit: {unit: year, requests_per_unit: 4000000000}
";

/// Requests one after the other, each with its answer.
#[track_caller]
fn check(service: &Service, steps: &[(&str, &str)]) {
    for (index, (request, expected)) in steps.iter().enumerate() {
        assert_eq!(service.ask(request), *expected, "step {index}: {request}");
    }
}

#[test]
fn requests_are_counted_and_answered() {
    let files = Files::new(&[("edge.yaml", LIMITS)]);
    let scripts: &[&[(&str, &str)]] = &[
        &[
            ("edge user=a", "OK [OK 1 of 2/minute per_user, 48 s]"),
            ("edge user=a", "OK [OK 0 of 2/minute per_user, 48 s]"),
            // A look at a limit that is used up, but not passed.
            ("edge user=a**0", "OK [OK 0 of 2/minute per_user, 48 s]"),
            ("edge user=a", "OVER_LIMIT [OVER_LIMIT 0 of 2/minute per_user, 48 s]"),
            ("edge user=a**0", "OVER_LIMIT [OVER_LIMIT 0 of 2/minute per_user, 48 s]"),
            ("edge user=b", "OK [OK 1 of 2/minute per_user, 48 s]"),
        ],
        // Nothing is said of it.
        &[
            ("edge other=a", "OK [OK]"),
            ("nowhere user=a", "OK [OK]"),
            ("nowhere user=a@0/second", "OK [OK]"),
            ("edge user=root", "OK [OK 4294967295]"),
        ],
        // Nothing is allowed; a look passes nothing.
        &[
            ("edge user=banned**0", "OK [OK 0 of 0/second, 1 s]"),
            ("edge user=banned", "OVER_LIMIT [OVER_LIMIT 0 of 0/second, 1 s]"),
            ("edge user=banned**0", "OVER_LIMIT [OVER_LIMIT 0 of 0/second, 1 s]"),
        ],
        // Of the request, of the descriptor, and of more than there is.
        &[
            ("edge**2 user=a", "OK [OK 0 of 2/minute per_user, 48 s]"),
            ("edge**2 user=b**1", "OK [OK 1 of 2/minute per_user, 48 s]"),
            ("edge**2 user=b", "OVER_LIMIT [OVER_LIMIT 0 of 2/minute per_user, 48 s]"),
            ("edge user=b", "OVER_LIMIT [OVER_LIMIT 0 of 2/minute per_user, 48 s]"),
            (
                "edge user=c**18446744073709551615",
                "OVER_LIMIT [OVER_LIMIT 0 of 2/minute per_user, 48 s]",
            ),
        ],
        // One that refuses does not save the others from being counted.
        &[
            (
                "edge user=banned vip=a",
                "OVER_LIMIT [OVER_LIMIT 0 of 0/second, 1 s] [OK 2 of 3/minute, 48 s]",
            ),
            ("edge vip=a", "OK [OK 1 of 3/minute, 48 s]"),
        ],
        // The same descriptor twice in one request.
        &[("edge vip=a vip=a", "OK [OK 2 of 3/minute, 48 s] [OK 1 of 3/minute, 48 s]")],
        // Replaced limits are not counted.
        &[
            ("edge user=a vip=a", "OK [OK] [OK 2 of 3/minute, 48 s]"),
            ("edge free_vip=a user=a", "OK [OK 4294967295] [OK]"),
            ("edge user=a", "OK [OK 1 of 2/minute per_user, 48 s]"),
        ],
        &[
            ("edge try=a", "OK [OK 0 of 1/hour, 2028 s]"),
            ("edge try=a", "OK [OK 0 of 1/hour, 2028 s]"),
        ],
        // Counted together, and each for itself.
        &[
            ("edge files=files/a", "OK [OK 2 of 3/day, 77628 s]"),
            ("edge files=files/b", "OK [OK 1 of 3/day, 77628 s]"),
            ("edge files=files/*", "OK [OK 0 of 3/day, 77628 s]"),
            ("edge files=files/c", "OVER_LIMIT [OVER_LIMIT 0 of 3/day, 77628 s]"),
            ("edge alone=files/a", "OK [OK 0 of 1/day, 77628 s]"),
            ("edge alone=files/b", "OK [OK 0 of 1/day, 77628 s]"),
        ],
        // Quotas refuse when all of them are used up.
        &[
            (
                "edge quota_a=x quota_b=x",
                "OK [OK 0 of 1/week, 77628 s] [OK 1 of 2/month, 336828 s]",
            ),
            (
                "edge quota_a=x quota_b=x",
                "OK [OVER_LIMIT 0 of 1/week, 77628 s] [OK 0 of 2/month, 336828 s]",
            ),
            (
                "edge quota_a=x quota_b=x",
                "OVER_LIMIT [OVER_LIMIT 0 of 1/week, 77628 s] [OVER_LIMIT 0 of 2/month, 336828 s]",
            ),
            (
                "edge quota_a=x user=a",
                "OVER_LIMIT [OVER_LIMIT 0 of 1/week, 77628 s] [OK 1 of 2/minute per_user, 48 s]",
            ),
        ],
        // The limit comes with the request, and is counted apart for each unit.
        &[
            ("edge user=root@2/second", "OK [OK 1 of 2/second, 1 s]"),
            ("edge user=root@2/minute", "OK [OK 1 of 2/minute, 48 s]"),
            ("edge user=root@1/second", "OVER_LIMIT [OVER_LIMIT 0 of 1/second, 1 s]"),
            ("edge user=root@5/second", "OK [OK 2 of 5/second, 1 s]"),
            ("edge unknown=x,y=z@1/year", "OK [OK 0 of 1/year, 2928828 s]"),
            ("edge user=a@1/fortnight", "error: the limit of a descriptor has no unit of time"),
        ],
        // Amounts as large as the protocol has them.
        &[
            ("edge tokens=x**3999999999", "OK [OK 1 of 4000000000/year, 2928828 s]"),
            ("edge tokens=x**2", "OVER_LIMIT [OVER_LIMIT 0 of 4000000000/year, 2928828 s]"),
            (
                "edge any=x**4294967295@4294967295/year",
                "OVER_LIMIT [OVER_LIMIT 0 of 4294967295/year, 2928828 s]",
            ),
        ],
        &[
            (" user=a", "error: rate limit domain must not be empty"),
            ("edge", "error: rate limit descriptor list must not be empty"),
            ("edge ", "OK [OK]"),
        ],
    ];
    for steps in scripts {
        check(&Service::new(&files.config("")), steps);
    }
    let many = |count: usize| format!("edge{}", " user=a".repeat(count));
    let service = Service::new(&files.config(""));
    assert!(service.ask(&many(64)).starts_with("OVER_LIMIT [OK 1 of 2"));
    assert_eq!(service.ask(&many(65)), "error: more than 64 descriptors in one request");
}

#[test]
fn windows_end_with_the_clock() {
    let files = Files::new(&[("edge.yaml", LIMITS)]);
    let service = Service::new(&files.config(""));
    check(
        &service,
        &[
            ("edge**2 user=a", "OK [OK 0 of 2/minute per_user, 48 s]"),
            ("edge user=a", "OVER_LIMIT [OVER_LIMIT 0 of 2/minute per_user, 48 s]"),
        ],
    );
    service.clock.fetch_add(47_500_000, Ordering::Relaxed);
    check(&service, &[("edge user=a", "OVER_LIMIT [OVER_LIMIT 0 of 2/minute per_user, 1 s]")]);
    service.clock.fetch_add(500_000, Ordering::Relaxed);
    check(&service, &[("edge user=a", "OK [OK 1 of 2/minute per_user, 60 s]")]);
}

#[test]
fn settings_of_the_whole_service() {
    let files = Files::new(&[("edge.yaml", LIMITS)]);
    let headers = "response_headers: {}\n";
    let scripts: &[(&str, &[(&str, &str)])] = &[
        ("shadow_mode: true\n", &[("edge user=banned", "OK [OVER_LIMIT 0 of 0/second, 1 s]")]),
        // With quotas alone, a descriptor without a limit is one that is never used up.
        (
            "quota_mode: true\n",
            &[
                ("edge user=banned other=a", "OK [OVER_LIMIT 0 of 0/second, 1 s] [OK]"),
                ("edge user=banned", "OVER_LIMIT [OVER_LIMIT 0 of 0/second, 1 s]"),
                (
                    "edge user=banned user=root",
                    "OVER_LIMIT [OVER_LIMIT 0 of 0/second, 1 s] [OK 4294967295]",
                ),
            ],
        ),
        (
            headers,
            &[
                (
                    "edge user=a vip=a",
                    "OK [OK] [OK 2 of 3/minute, 48 s] RateLimit-Limit: 3 RateLimit-Remaining: 2 \
                     RateLimit-Reset: 48",
                ),
                // The least is left of the first.
                (
                    "edge user=a try=x",
                    "OK [OK 1 of 2/minute per_user, 48 s] [OK 0 of 1/hour, 2028 s] RateLimit-Limit: 1 \
                     RateLimit-Remaining: 0 RateLimit-Reset: 2028",
                ),
                // One that refuses comes before one of which nothing is left.
                (
                    "edge try=x user=banned",
                    "OVER_LIMIT [OK 0 of 1/hour, 2028 s] [OVER_LIMIT 0 of 0/second, 1 s] \
                     RateLimit-Limit: 0 RateLimit-Remaining: 0 RateLimit-Reset: 1",
                ),
                ("edge user=root", "OK [OK 4294967295]"),
                ("edge other=a", "OK [OK]"),
            ],
        ),
        (
            "response_headers: {limit: X-Limit, remaining: X-Left, reset: X-Reset}\n",
            &[(
                "edge user=a",
                "OK [OK 1 of 2/minute per_user, 48 s] X-Limit: 2 X-Left: 1 X-Reset: 48",
            )],
        ),
    ];
    for (keys, steps) in scripts {
        check(&Service::new(&files.config(keys)), steps);
    }
    for (keys, key) in [
        ("near_limit_percent: 101\n", "rate_limit_service.near_limit_percent"),
        ("max_calls: 0\n", "rate_limit_service.max_calls"),
        ("response_headers: {limit: 'a b'}\n", "rate_limit_service.response_headers"),
    ] {
        let text = format!("config: a\n{keys}");
        let config: RatelimitConfig = glacis_service::config::parse(&text).unwrap();
        assert_eq!(config.check().unwrap_err().0, key);
    }
}

#[test]
fn hits_are_counted_in_metrics() {
    let files = Files::new(&[("edge.yaml", LIMITS)]);
    let service = Service::new(&files.config(""));
    for request in [
        "edge user=a",
        "edge**2 user=a",
        "edge user=a",
        "edge user=root",
        "edge**3 try=x",
        "nowhere x=y",
        "edge",
    ] {
        let _ = service.ask(request);
    }
    let text = service.metrics();
    for line in [
        r#"hits_total{domain="edge",descriptor="user",result="within"} 2"#,
        r#"hits_total{domain="edge",descriptor="user",result="over"} 2"#,
        r#"hits_total{domain="edge",descriptor="user_root",result="unlimited"} 1"#,
        r#"hits_total{domain="edge",descriptor="try",result="within"} 1"#,
        r#"hits_total{domain="edge",descriptor="try",result="shadowed"} 2"#,
        r#"near_limit_hits_total{domain="edge",descriptor="user"} 1"#,
        r#"requests_total{verdict="ok"} 4"#,
        r#"requests_total{verdict="over_limit"} 2"#,
        r#"errors_total{kind="bad_request"} 1"#,
        "unknown_domains_total 1",
    ] {
        assert!(text.contains(&format!("glacis_ratelimit_{line}\n")), "no {line} in\n{text}");
    }
}

/// Values are the client's: however long or strange, they find a limit, and no other's counter.
#[test]
fn hostile_values() {
    let files = Files::new(&[("edge.yaml", LIMITS)]);
    let service = Service::new(&files.config(""));
    let long = "x".repeat(1 << 20);
    let values = [
        "",
        "\0",
        "|",
        "\\",
        "\\|",
        "a|b",
        "a\\|b",
        "*",
        "{a}",
        "é",
        "a\r\nb",
        "#",
        "..",
        &long,
        &long[1..],
    ];
    for value in values {
        let entry = WireEntry { key: "user".to_owned(), value: value.to_owned() };
        let request = RateLimitRequest {
            domain: "edge".to_owned(),
            descriptors: vec![RateLimitDescriptor { entries: vec![entry], ..Default::default() }],
            hits_addend: 0,
        };
        let answer = service.limiter.should_rate_limit(Request::new(request));
        let answer = told(service.runtime.block_on(answer).unwrap().get_ref());
        assert_eq!(answer, "OK [OK 1 of 2/minute per_user, 48 s]", "{value:?}");
    }
    // Other keys with the same texts one after the other have counters of their own.
    for descriptor in ["a=b,c=d", "a=b|c,=d", "a|b=c,d=", "a=,b=,c=d", "a_b=c_d", "a=b_c_d"] {
        let request = format!("edge {descriptor}@1/minute");
        assert_eq!(service.ask(&request), "OK [OK 0 of 1/minute, 48 s]", "{descriptor}");
    }
}
