//! `docs/reference/metrics.md`, made from the table.

use glacis_service::{
    Losses,
    metrics::{RESULTS, TABLE_HEAD, listed, rows},
    process, store,
    tls::TlsMetrics,
};

use super::{
    DIRECTIONS, ErrorKind, MESSAGES, PHASES, SOCKET_PEERS, STATES, VERDICTS,
    coraza::CATEGORIES,
    label::{Outcome, Severity},
    rule_hits::PLACES,
    table,
};
use crate::{
    alarm::Alarm,
    bans,
    collections::{self, EVENTS},
    envoy_canary::Seen,
    out_of_band::Dropped,
    rule_evidence,
    shadow::{Comparison, ONLY},
};
use glacis_inspector::{Peer, Rejection, Uninspected};
use glacis_limit_store::{GuardedCounters, RedisCounters};

const HEAD: &str = "\
# Metrics

What `/metrics` on the admin port tells, as OpenMetrics text.
This file is made from the table that the families are registered from (`ext-proc/src/metrics/table.rs`), and a \
test compares it with a scrape; `UPDATE_EXPECT=1 cargo test -p glacis-ext-proc --test metrics` renews it.

A counter is asked for with `_total`; a histogram has `_bucket`, `_sum` and `_count`.
Counters whose labels are known beforehand are there from the start, at 0. A family without a single sample is \
left out of a scrape.

## Ours

";

const LABELS: &str = "
## Labels

No label has a value that a client chooses. What they can be, and how many of them there are:

| label | values |
|---|---|
";

const PLACES_TEXT: &str = "
A rule gets one of the PLACES places when it first matches, while there are free ones.
When there are none, it takes the place of the rule with the fewest matches of those that have one, as soon as it \
has matched at least twice as often.
Its counter then begins at 0, or goes on where it was: what was counted as `other` stays there, so that every \
counter only rises.
The sum over all `rule_id` is the number of matches, whoever has a place.
Rules that are no longer loaded leave their places.
How often each rule of a profile has matched since it was loaded, all rules, is told by `/rules`.

Scores are counted in buckets up to 0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50 and above; times in buckets from 50 µs to 1 s.

## The contract of coraza-kubernetes-operator

Dashboards and alerts that were made for its drivers find these families (`docs/driver-metrics-contract.md` of that \
project). One process is one engine: all its profiles together. `engine` and `namespace` are what `metrics` in the \
configuration says, `driver_type` is `ext_proc`.

";

const CONTRACT: &str = "
What does not fit:

- `driver_type` knows `wasm` and `dynamic_module`; this driver is neither.
- `coraza_waf_rule_overrides` is not there: a compiled ruleset no longer knows what `SecRuleRemoveById` and its like \
took away. Typed exclusions are counted in `glacis_exclusions`, and what is loaded is told by `/rules`.
- The buckets of `coraza_waf_request_anomaly_score` are finer up to 10 and end at 50, since thresholds are small \
numbers: those of the contract up to 30, and 50, are among them; 40, 75 and 100 are not.
- `outcome` is `detect` where rules may not block and one that logs has matched, and `error` where an exchange ended \
without a verdict.
- `severity` of rules without one is `INFO`; EMERGENCY and ALERT count as `CRITICAL`, DEBUG as `INFO`.
- A refused request counts in `coraza_waf_blocked_requests_total` once for each category that a matched rule's tags \
name, with the highest severity in it; with none of them as `other`. \
A request that was rejected for a limit is no block: its `outcome` is `error`.
- `coraza_waf_plugin_rule_count` is that of the default profile.
- Counters of rules go on over a reload; those of rules that are no longer loaded end.

## The process

";

/// The whole document.
#[must_use]
pub fn metrics_reference() -> String {
    let places = PLACES_TEXT.replace("PLACES", &PLACES.to_string());
    [
        HEAD,
        TABLE_HEAD,
        &rows(&table::OURS),
        &rows(&store::FAMILIES),
        LABELS,
        &labels(),
        &places,
        TABLE_HEAD,
        &rows(&table::CORAZA),
        CONTRACT,
        TABLE_HEAD,
        &rows(&process::FAMILIES),
    ]
    .concat()
}

/// The rows of the table of labels.
fn labels() -> String {
    let names = |names: Vec<&'static str>| listed(&names);
    let rows = [
        ("profile, shadow", "the names of the profiles: at most 1,024".to_owned()),
        ("verdict", names([&VERDICTS[..], &["pending"]].concat())),
        ("phase", listed(&PHASES)),
        ("direction", listed(&DIRECTIONS)),
        ("message", listed(&MESSAGES)),
        ("from", names(SOCKET_PEERS.map(Peer::name).to_vec())),
        ("rule_id", format!("ids of at most {PLACES} rules, and `other`")),
        (
            "reason",
            format!(
                "of what is uninspected: {}; of what is rejected: {}; out of band: {}; of what is lost: {}",
                names(Uninspected::ALL.map(Uninspected::name).to_vec()),
                names(Rejection::ALL.map(Rejection::name).to_vec()),
                listed(&Dropped::ALL.map(Dropped::name)),
                listed(&Losses::REASONS)
            ),
        ),
        ("id", "the checks that the service runs on itself ([doctor.md](doctor.md))".to_owned()),
        ("of", listed(&rule_evidence::OUTCOMES)),
        ("only", listed(&ONLY)),
        ("event", listed(&EVENTS)),
        ("store", listed(&[bans::STORE, collections::STORE])),
        ("policy", listed(&GuardedCounters::policies())),
        ("scenario", "the names of `bans.scenarios`".to_owned()),
        ("sink", listed(&Losses::SINKS)),
        ("listener", listed(&TlsMetrics::LISTENERS)),
        ("limit", "the limits of the engine, as in audit records (`limits_hit`)".to_owned()),
        (
            "kind",
            format!(
                "of errors: {}; of alarms: {}",
                names(ErrorKind::ALL.map(ErrorKind::name).to_vec()),
                names(Alarm::ALL.map(Alarm::name).to_vec())
            ),
        ),
        ("status", listed(&RESULTS)),
        (
            "result",
            format!(
                "of reloads: {}; of shadows: {}; of the canary through Envoy: {}; of TLS handshakes: {}; \
                 of requests to Redis: {}",
                listed(&RESULTS),
                listed(&Comparison::ALL.map(Comparison::name)),
                listed(&Seen::NAMES),
                listed(&TlsMetrics::RESULTS),
                listed(&RedisCounters::results())
            ),
        ),
        ("state", listed(&STATES)),
        ("hash, rules, version", "one for each profile, or one".to_owned()),
        ("engine, namespace, driver_type", "one each".to_owned()),
        ("outcome", names(Outcome::ALL.map(Outcome::name).to_vec())),
        ("severity", names(Severity::ALL.map(Severity::name).to_vec())),
        ("category", names(CATEGORIES.map(|(_, category)| category).to_vec())),
    ];
    rows.map(|(label, values)| format!("| {label} | {values} |\n")).concat()
}
