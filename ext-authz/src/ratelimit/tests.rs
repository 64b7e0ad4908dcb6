//! Files, requests and answers, as tables.

use std::{
    fmt::Write as _,
    path::Path,
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
use glacis_service::reload::Reload as _;
use prometheus_client::registry::Registry;
use tonic::Request;

use super::{
    compile::{Bounds, Compiler, parse},
    config::RatelimitConfig,
    metrics::RatelimitMetrics,
    rules::{Entry, Rules},
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

fn compile(text: &str, bounds: Bounds) -> Result<(Rules, Vec<String>), String> {
    let mut compiler = Compiler::new(bounds, false);
    let mapping = parse(text).map_err(|error| error.to_string())?;
    compiler.add(Path::new("a.yaml"), &mapping).map_err(|error| error.to_string())?;
    Ok(compiler.finish())
}

const SMALL: Bounds =
    Bounds { files_max: 2, descriptors_max: 3, depth_max: 2, wildcards_max: 1, text_bytes_max: 8 };

#[test]
fn wrong_files_are_refused_with_place_and_advice() {
    let all = Bounds::default();
    for (text, bounds, words) in [
        ("", all, &["a.yaml: line 1, domain", "write the domain"][..]),
        ("domain: ''\n", all, &["line 1, domain", "write the domain"]),
        ("domains: d\n", all, &["line 1", "unknown field `domains`", "domain"]),
        ("- domain: d\n", all, &["line 1", "mapping"]),
        ("domain: d\ndescriptors: {key: a}\n", all, &["line 2", "sequence"]),
        ("domain: d\ndescriptors:\n- ke: a\n", all, &["line 3", "unknown field `ke`", "key"]),
        (
            "domain: d\ndescriptors:\n- value: a\n",
            all,
            &["line 3, descriptors[0]: ", "it has no key"],
        ),
        ("domain: d\ndescriptors: [{key: a}, {key: ''}]\n", all, &["descriptors[1]", "no key"]),
        ("domain: d\ndescriptors: [{key: 'a*'}]\n", all, &["descriptors[0]", "into its value"]),
        (
            "domain: d\ndescriptors:\n- key: a\n- key: b\n- key: a\n",
            all,
            &["line 5, descriptors[2]", "`a`", "remove one"],
        ),
        (
            "domain: d\ndescriptors:\n- {key: a, value: x*}\n- {key: a, value: x*}\n",
            all,
            &["line 4", "remove one"],
        ),
        (
            "domain: d\ndescriptors:\n- {key: a, value: x}\n- {key: a, value: x}\n",
            all,
            &["line 4", "remove one"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit:\n    unit: fortnight\n",
            all,
            &["line 5, descriptors[0].rate_limit.unit", "`fortnight`", "second, minute"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {requests_per_unit: 1}\n",
            all,
            &["line 4, descriptors[0].rate_limit.unit", "`` is no unit", "unlimited: true"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: -1}\n",
            all,
            &["line 4", "u32"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unlimited: true, unit: day}\n",
            all,
            &["line 4, descriptors[0].rate_limit.unit", "unlimited has no unit"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, replaces: [{}]}\n",
            all,
            &["line 4, descriptors[0].rate_limit.replaces[0]", "no name"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, name: n, replaces: \
             [{name: m}, {name: n}]}\n",
            all,
            &["rate_limit.replaces[1]", "does not replace itself"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, value: b, share_threshold: true}]\n",
            all,
            &["share_threshold", "files/*"],
        ),
        ("domain: d\n---\ndomain: e\n", all, &["line 3", "multiple"]),
        ("domain: d\ndomain: e\n", all, &["line 2", "duplicate"]),
        ("domain: d23456789\n", SMALL, &["domain", "more than 8 bytes"]),
        (
            "domain: d\ndescriptors: [{key: a, value: '234567890'}]\n",
            SMALL,
            &["descriptors[0]", "more than 8 bytes"],
        ),
        (
            "domain: d\ndescriptors: [{key: a}, {key: b}, {key: c}, {key: e}]\n",
            SMALL,
            &["descriptors[3]", "at most 3"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, descriptors: [{key: b, descriptors: [{key: c}]}]}]\n",
            SMALL,
            &["descriptors[0].descriptors[0].descriptors[0]", "at most 2 in each other"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, value: b*}, {key: a, value: c*}]\n",
            SMALL,
            &["descriptors[1]", "wildcards", "at most 1"],
        ),
    ] {
        let error = compile(text, bounds).map(|_| ()).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{text}: no {word} in {error}");
        }
    }
    let deep = format!("domain: d\n{}", "{descriptors: [".repeat(500));
    assert!(compile(&deep, all).is_err());
}

#[test]
fn what_has_no_effect_is_said() {
    for (text, expected) in [
        ("domain: d\ndescriptors:\n", &[][..]),
        ("domain: d\nkey: a\n", &["line 2, key: it has no effect here"]),
        (
            "domain: d\ndescriptors:\n- key: a\n  name: n\n  rate_limit:\n    unit: day\n    \
             requests_per_unit: 1\n    shadow_mode: true\n",
            &[
                "line 4, descriptors[0].name",
                "line 8, descriptors[0].rate_limit.shadow_mode: it has no effect here",
            ],
        ),
        (
            "domain: d\ndescriptors: [{key: a, shadow_mode: true, detailed_metric: true}]\n",
            &["shadow_mode has no effect", "detailed_metric has no effect"],
        ),
        ("domain: d\ndescriptors: [{key: a, shadow_mode: false, value_to_metric: true}]\n", &[]),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, requests_per_unit: 1}}]\n",
            &["requests_per_unit has no effect beside unlimited"],
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day}}]\n",
            &["it is 0, and nothing is allowed"],
        ),
        (
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: 1, \
             replaces: [{name: m}, {name: n}]}\n- key: b\n  rate_limit: {unit: day, name: n, \
             requests_per_unit: 1}\n",
            &["rate_limit.replaces[0]: no limit of this domain has this name"],
        ),
    ] {
        let (_, warnings) = compile(text, Bounds::default()).unwrap();
        assert_eq!(warnings.len(), expected.len(), "{text}: {warnings:#?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.starts_with("a.yaml: line "), "{warning}");
            assert!(warning.contains(expected), "{text}: no {expected} in {warning}");
        }
    }
}

/// YAML as envoyproxy/ratelimit reads it: plain scalars are texts where texts are asked for.
const SHOP: &str = "
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: MINUTE, requests_per_unit: 10}
  - key: tenant
    value: 42
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: tenant
    value: yes
  - key: tenant
    value: ''   # refused were it not within a list of its own
    descriptors: []
";

const PATHS: &str = "
domain: paths
descriptors:
  - key: path
    value: /api/*/orders
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: path
    value: /api/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 2}
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 3}
        detailed_metric: true
  - key: path
    value: /api/v1/health
    rate_limit: {unlimited: true}
  - key: path
    value_to_metric: true
    rate_limit: {unit: hour, requests_per_unit: 4}
  - key: host
    value: a*
    value_to_metric: true
    descriptors:
      - key: method
        value: GET
        rate_limit: {unit: hour, requests_per_unit: 5}
      - key: method
        detailed_metric: true
        rate_limit: {unit: hour, requests_per_unit: 6}
  - key: host
    value: b*
    share_threshold: true
    value_to_metric: true
    descriptors:
      - key: method
        rate_limit: {unit: hour, requests_per_unit: 7}
  - key: host
    value: free
  - key: host
    rate_limit: {unit: hour, requests_per_unit: 8}
";

/// `a=1,b=2` as entries.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(key, value)| Entry { key, value }).collect()
}

#[test]
fn descriptors_find_their_limit() {
    assert!(compile(SHOP, Bounds::default()).unwrap_err().contains("line 11, descriptors[3]"));
    let shop = SHOP.replace("value: ''", "value: other");
    // The file, a descriptor; requests, name in metrics, and what is counted together.
    for (file, descriptor, expected) in [
        (shop.as_str(), "tenant=7", Some((10, "shop.tenant", ""))),
        (&shop, "tenant=42", Some((20, "shop.tenant_42", ""))),
        (&shop, "tenant=042", Some((10, "shop.tenant", ""))),
        (&shop, "tenant=", Some((10, "shop.tenant", ""))),
        // It is named, and nothing is said of it.
        (&shop, "tenant=yes", None),
        (&shop, "tenant=true", Some((10, "shop.tenant", ""))),
        (&shop, "tenant=7,path=/", None),
        (&shop, "user=7", None),
        (&shop, "", None),
        // Keys and values are not one text: this is no way to `tenant`, `42`.
        (&shop, "tenant_42=", None),
        (PATHS, "path=/api/v1/orders", Some((1, "paths.path_/api/*/orders", ""))),
        (PATHS, "path=/api/v1/items", Some((2, "paths.path_/api/*", "/api/*"))),
        (PATHS, "path=/api/v1/health", Some((0, "paths.path_/api/v1/health", ""))),
        (PATHS, "path=/shop", Some((4, "paths.path_/shop", ""))),
        (PATHS, "path=", Some((4, "paths.path", ""))),
        (PATHS, "path=/api/v1/items,user=ann", Some((3, "paths.path_/api/*.user_ann", "/api/*"))),
        // The first wildcard that matches is followed, and there is no way back.
        (PATHS, "path=/api/v1/orders,user=ann", None),
        (PATHS, "host=abc,method=GET", Some((5, "paths.host_abc.method_GET", ""))),
        (PATHS, "host=abc,method=PUT", Some((6, "paths.host_abc.method_PUT", ""))),
        (PATHS, "host=bcd,method=PUT", Some((7, "paths.host_b*.method", "b*"))),
        (PATHS, "host=free", None),
        (PATHS, "host=other", Some((8, "paths.host", ""))),
        (PATHS, "host=other,method=GET", None),
    ] {
        let (rules, warnings) = compile(file, Bounds::default()).unwrap();
        assert_eq!(warnings, [""; 0]);
        let domain = if file == PATHS { "paths" } else { "shop" };
        let found = rules.find(domain, &entries(descriptor)).map(|matched| {
            let shared: Vec<_> = matched.shared.iter().flatten().copied().collect();
            let requests = match matched.limit.quantity {
                super::rules::Quantity::Unlimited => 0,
                super::rules::Quantity::Requests { per_unit, .. } => per_unit,
            };
            (requests, matched.path.to_string(), shared.join(" "))
        });
        let expected =
            expected.map(|(number, path, shared)| (number, path.to_owned(), shared.to_owned()));
        assert_eq!(found, expected, "{descriptor}");
    }
}

/// A service in memory whose clock stands still.
struct Service {
    limiter: RateLimiter,
    reloader: Reloader,
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
        let (limiter, reloader) = RateLimiter::new(limits, store, given, metrics);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { limiter, reloader, clock, registry, runtime }
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

#[test]
fn dynamic_metadata_tells_of_descriptors_and_limits() {
    let file = "
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1}
    metadata: {plan: {name: small, seats: 3}, tags: [a, true, null]}
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 9}
    metadata: {plan: {name: large, region: eu}}
";
    let files = Files::new(&[("edge.yaml", file)]);
    let service = Service::new(&files.config("dynamic_metadata: true\n"));
    let metadata = |request: &str| {
        let metadata = service.send(request).unwrap().dynamic_metadata.unwrap();
        format!("{:?}", json(&metadata))
    };
    let first = metadata("edge user=a path=/**2");
    assert!(first.contains(r#""domain": "edge""#), "{first}");
    assert!(first.contains(r#""entries": ["user=a"]"#), "{first}");
    assert!(first.contains(r#""hitsAddend": 2"#), "{first}");
    assert!(first.contains(r#""name": "small""#) && first.contains(r#""region": "eu""#), "{first}");
    // A limit that refuses adds nothing.
    let second = metadata("edge user=a path=/");
    assert!(second.contains(r#""name": "large""#) && !second.contains("seats"), "{second}");
    let third = metadata("edge other=a");
    assert!(!third.contains("metadata"), "{third}");
    let without = Service::new(&files.config(""));
    assert_eq!(without.send("edge user=a").unwrap().dynamic_metadata, None);
}

/// A struct as maps that are in order.
fn json(fields: &envoy_types::pb::google::protobuf::Struct) -> Debugged {
    let fields = fields.fields.iter().map(|(key, value)| (key.clone(), value_of(value)));
    Debugged::Map(fields.collect())
}

fn value_of(value: &envoy_types::pb::google::protobuf::Value) -> Debugged {
    use envoy_types::pb::google::protobuf::value::Kind;
    match value.kind.as_ref().unwrap() {
        Kind::StructValue(fields) => json(fields),
        Kind::ListValue(list) => Debugged::List(list.values.iter().map(value_of).collect()),
        Kind::StringValue(text) => Debugged::Plain(format!("{text:?}")),
        Kind::NumberValue(number) => Debugged::Plain(number.to_string()),
        Kind::BoolValue(value) => Debugged::Plain(value.to_string()),
        Kind::NullValue(_) => Debugged::Plain("null".to_owned()),
    }
}

enum Debugged {
    Plain(String),
    List(Vec<Self>),
    Map(std::collections::BTreeMap<String, Self>),
}

impl std::fmt::Debug for Debugged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::List(values) => f.debug_list().entries(values).finish(),
            Self::Map(fields) => f.debug_map().entries(fields).finish(),
        }
    }
}

#[test]
fn folders() {
    let one = "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n";
    let more =
        "domain: a\ndescriptors: [{key: l, rate_limit: {unit: day, requests_per_unit: 2}}]\n";
    let other =
        "domain: b\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 3}}]\n";
    // Several domains; what is hidden or no YAML is left out.
    let files = Files::new(&[
        ("a.yaml", one),
        ("b.yml", other),
        (".c.yaml", "no: 1"),
        ("README.md", "no: 1"),
    ]);
    let service = Service::new(&files.config(""));
    check(
        &service,
        &[("a k=x", "OK [OK 0 of 1/day, 77628 s]"), ("b k=x", "OK [OK 2 of 3/day, 77628 s]")],
    );
    // Two files about one domain.
    let files = Files::new(&[("a.yaml", one), ("b.yaml", more)]);
    let refused = Limits::read(&files.config("")).unwrap_err().to_string();
    for word in ["b.yaml: line 1, domain", "another file", "merge_domains: true"] {
        assert!(refused.contains(word), "no {word} in {refused}");
    }
    let service = Service::new(&files.config("merge_domains: true\n"));
    check(&service, &[("a k=x l=x", "OK [OK 0 of 1/day, 77628 s] [OK 1 of 2/day, 77628 s]")]);
    // No folder, and nothing in it.
    let empty = Files::new(&[("a.txt", one)]);
    for (config, words) in [
        (empty.config(""), ["rate_limit_service.config", "no .yaml file"]),
        (RatelimitConfig { config: "/nowhere".into(), ..empty.config("") }, ["/nowhere", "write"]),
    ] {
        let refused = Limits::read(&config).unwrap_err().to_string();
        for word in words {
            assert!(refused.contains(word), "no {word} in {refused}");
        }
    }
    let files = Files::new(&[("a.yaml", one), ("b.yaml", more), ("c.yaml", other)]);
    let refused = super::folder::read(&files.0, true, SMALL).unwrap_err().to_string();
    assert!(refused.contains("too many files: at most 2"), "{refused}");
}

#[test]
fn a_folder_is_read_anew_and_the_last_good_one_stays() {
    let text = |number: u32| {
        format!(
            "domain: a\ndescriptors: [{{key: k, rate_limit: {{unit: day, requests_per_unit: {number}}}}}]\n"
        )
    };
    let files = Files::new(&[("a.yaml", &text(5))]);
    let mut service = Service::new(&files.config(""));
    check(&service, &[("a k=x", "OK [OK 4 of 5/day, 77628 s]")]);
    assert_eq!(service.reloader.as_read(), service.reloader.now());
    files.write("a.yaml", &text(7));
    assert_ne!(service.reloader.as_read(), service.reloader.now());
    service.reloader.reload();
    assert_eq!(service.reloader.as_read(), service.reloader.now());
    // What was counted stays counted.
    check(&service, &[("a k=x", "OK [OK 5 of 7/day, 77628 s]")]);
    files.write("b.yaml", "domain: b\ndescriptors: [{}]\n");
    service.reloader.reload();
    assert_eq!(service.reloader.as_read(), service.reloader.now());
    check(&service, &[("a k=x", "OK [OK 4 of 7/day, 77628 s]")]);
    let metrics = service.metrics();
    for line in [r#"{result="success"} 1"#, r#"{result="failure"} 1"#] {
        assert!(metrics.contains(&format!("glacis_ratelimit_reloads_total{line}\n")), "{metrics}");
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
