//! `docs/reference/metrics-ext-authz.md`, made from the table.

use glacis_service::{
    metrics::{RESULTS, TABLE_HEAD, listed, rows},
    process, store as stores,
    tls::TlsMetrics,
};

use super::{CLIENTS, ErrorKind, LIMIT_RESULTS, VERDICTS, table};
use crate::{
    alarm::Alarm, answer::Reason, leases::metrics as leases, quota::metrics as quota,
    ratelimit::metrics as ratelimit, store,
};
use glacis_inspector::Uninspected;
use glacis_limit_store::{GuardedCounters, RedisCounters};

const HEAD: &str = "\
# Metrics of ext-authz

What `/metrics` on the admin port of glacis-ext-authz tells, as OpenMetrics text.
This file is made from the table that the families are registered from (`ext-authz/src/metrics/table.rs`), and a \
test compares it with a scrape; `UPDATE_EXPECT=1 cargo test -p glacis-ext-authz --test check` renews it.

A counter is asked for with `_total`; a histogram has `_bucket`, `_sum` and `_count`.
Counters whose labels are known beforehand are there from the start, at 0.
Those of Redis (`glacis_store_…`), rate limits, leases and quota are there where the configuration has such.

";

const LABELS: &str = "
## Labels

No label has a value that a client chooses, but `descriptor` where the configuration of a limit asks for it (`detailed_metric`, `value_to_metric`); there are at most `metric_paths_max` of them.

| label | values |
|---|---|
";

const PROCESS: &str = "
## The process

";

/// The whole document.
#[must_use]
pub fn metrics_reference() -> String {
    [
        HEAD,
        TABLE_HEAD,
        &rows(&table::FAMILIES),
        &rows(&stores::FAMILIES),
        &stores::RETURNS_LOST.row(),
        &store::CACHE_HITS.row(),
        &rows(ratelimit::FAMILIES),
        &rows(leases::FAMILIES),
        &rows(quota::FAMILIES),
        LABELS,
        &labels(),
        PROCESS,
        TABLE_HEAD,
        &rows(&process::FAMILIES),
    ]
    .concat()
}

/// The rows of the table of labels.
fn labels() -> String {
    let rows = [
        (
            "verdict",
            format!(
                "of Checks: {}; of rate limits: {}",
                listed(&VERDICTS),
                listed(&ratelimit::Verdict::ALL.map(ratelimit::Verdict::name))
            ),
        ),
        ("domain", "those of the files of rate limits".to_owned()),
        ("descriptor", "keys and values as in the files of rate limits, or other".to_owned()),
        (
            "reason",
            format!(
                "of refusals: {}; of what is uninspected: {}",
                listed(&Reason::ALL.map(Reason::name)),
                listed(&Uninspected::ALL.map(Uninspected::name))
            ),
        ),
        (
            "limit",
            format!("the names of limits in the configuration, and `{CLIENTS}` for all of clients"),
        ),
        (
            "kind",
            format!(
                "of errors: {}; of alarms: {}; of rate limits: {}",
                listed(&ErrorKind::ALL.map(ErrorKind::name)),
                listed(&Alarm::ALL.map(Alarm::name)),
                listed(&ratelimit::ErrorKind::ALL.map(ratelimit::ErrorKind::name))
            ),
        ),
        ("listener", listed(&TlsMetrics::LISTENERS)),
        (
            "result",
            format!(
                "of limits: {}; of reloads: {}; of TLS handshakes: {}; of requests to Redis: {}; \
                 of hits: {}",
                listed(&LIMIT_RESULTS),
                listed(&RESULTS),
                listed(&TlsMetrics::RESULTS),
                listed(&RedisCounters::results()),
                listed(&ratelimit::HitResult::ALL.map(ratelimit::HitResult::name))
            ),
        ),
        ("store", listed(&[store::NAME])),
        ("policy", listed(&GuardedCounters::policies())),
        ("outcome", "of calls of borrowers: answered, unavailable, malformed, overload".to_owned()),
        (
            "answer",
            format!(
                "to borrowers: granted, nothing, full, unavailable; to reports of buckets: {}",
                listed(&quota::Told::ALL.map(quota::Told::name))
            ),
        ),
        ("what", "of tokens: granted, returned, unleased".to_owned()),
        ("version", "one".to_owned()),
    ];
    rows.map(|(label, values)| format!("| {label} | {values} |\n")).concat()
}
