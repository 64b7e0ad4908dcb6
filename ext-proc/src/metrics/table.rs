//! Every family of metrics, once: registration and `docs/reference/metrics.md` are made from here.

use glacis_service::metrics::{
    BUILD, CERTIFICATES, Described, HANDSHAKES, LAG, RELOADS, TOKENS, UNAUTHENTICATED,
};

pub(crate) const REQUESTS: Described = Described::counter(
    "glacis_requests",
    "requests",
    &["profile", "verdict"],
    "Requests by verdict; none: ended before there was one",
);
pub(crate) const WOULD_DENY: Described = Described::counter(
    "glacis_would_deny",
    "requests",
    &["profile"],
    "Requests that passed in detection mode and would be blocked if rules might; their verdict is allow or observed",
);
pub(crate) const SECONDS: Described = Described::histogram(
    "glacis_inspection_seconds",
    "seconds",
    &["profile", "phase"],
    "Time spent on one message, by the part of the exchange it carried; waiting is not in it",
);
pub(crate) const SCORES: Described = Described::histogram(
    "glacis_anomaly_score",
    "points",
    &["profile", "direction"],
    "Anomaly score of requests at their end, of the request (inbound) and of its response (outbound)",
);
pub(crate) const OPINIONS: Described = Described::counter(
    "glacis_second_opinions",
    "requests",
    &["profile", "opinion", "rules"],
    "Requests by second opinion (attack, ordinary) and by what the rules do (refused, passed)",
);
pub(crate) const RULE_MATCHES: Described = Described::counter(
    "glacis_rule_matches",
    "requests",
    &["rule_id"],
    "Requests in which a rule that logs has matched; 200 rules by id, the rest as other",
);
pub(crate) const RULE_EVIDENCE: Described = Described::counter(
    "glacis_rule_evidence",
    "requests",
    &["rule_id", "of"],
    "For 200 rules, requests with a match that were answered with 2xx (served), and clients with one that were banned (banned)",
);
pub(crate) const RECEIPTS: Described = Described::counter(
    "glacis_receipts",
    "answers",
    &["verdict"],
    "Answers to Envoy that carry a receipt, by its verdict; pending while a body is awaited",
);
pub(crate) const UNINSPECTED: Described = Described::counter(
    "glacis_uninspected",
    "requests",
    &["reason"],
    "Requests of which something passed without inspection, by reason",
);
pub(crate) const REJECTED: Described = Described::counter(
    "glacis_rejected",
    "requests",
    &["reason"],
    "Requests rejected for a limit and not by a rule, by reason",
);
pub(crate) const SOCKET_MESSAGES: Described = Described::counter(
    "glacis_websocket_messages",
    "messages",
    &["from", "verdict"],
    "Messages of WebSockets that were inspected, by sender (client, server) and verdict; refused ones, and those that \
     detection mode lets pass, count as requests as well",
);
pub(crate) const STREAM_EVENTS: Described = Described::counter(
    "glacis_stream_events",
    "events",
    &["verdict"],
    "Server-sent events that were inspected, by verdict; refused ones, and those that detection mode lets pass, count as \
     requests as well",
);
pub(crate) const TRUNCATED: Described = Described::counter(
    "glacis_truncated_bodies",
    "bodies",
    &["message"],
    "Bodies of which only the beginning could be inspected, or nothing for their size, whatever became of \
     the request",
);
pub(crate) const LIMITS: Described = Described::counter(
    "glacis_limits_hit",
    "requests",
    &["limit"],
    "Requests that reached a limit of the engine, by the limit's name in audit records",
);
pub(crate) const ALARMS: Described = Described::counter(
    "glacis_alarms",
    "requests",
    &["kind"],
    "Requests by which a setting of Envoy's was seen that leaves something uninspected, by kind",
);
pub(crate) const ERRORS: Described = Described::counter(
    "glacis_errors",
    "errors",
    &["kind"],
    "Streams that ended with an error, by kind; deadline and overload: with late: fail, or twice max_streams",
);
pub(crate) const UNKNOWN_PROFILES: Described = Described::counter(
    "glacis_unknown_profiles",
    "requests",
    &[],
    "Requests that named a profile which is not there",
);
pub(crate) const STREAMS: Described =
    Described::gauge("glacis_streams_open", "exchanges", &[], "Exchanges under inspection");
pub(crate) const WAITING: Described = Described::gauge(
    "glacis_evaluations_waiting",
    "evaluations",
    &[],
    "Evaluations that wait for a thread for long work",
);
pub(crate) const WAIT: Described = Described::histogram(
    "glacis_evaluation_wait_seconds",
    "seconds",
    &[],
    "How long evaluations have waited for a thread for long work",
);
pub(crate) const BODY_BYTES: Described = Described::gauge(
    "glacis_body_bytes_held",
    "bytes",
    &[],
    "Bytes set aside for bodies under inspection",
);
pub(crate) const RULESETS: Described = Described::gauge(
    "glacis_ruleset_info",
    "1",
    &["hash", "rules", "profile"],
    "The ruleset in use, by profile; always 1",
);
pub(crate) const RULES: Described =
    Described::gauge("glacis_rules", "rules", &["profile"], "Rules that are loaded");
pub(crate) const LOADED_AT: Described = Described::gauge(
    "glacis_rulesets_loaded_timestamp_seconds",
    "seconds",
    &[],
    "When the rulesets in use were loaded, since 1970; their age is time() less this",
);
pub(crate) const EXCLUSIONS: Described = Described::gauge(
    "glacis_exclusions",
    "exclusions",
    &["profile", "state"],
    "Typed exclusions by profile and state: valid, or expired",
);
pub(crate) const CANARY: Described = Described::gauge(
    "glacis_canary_refused",
    "0 or 1",
    &["profile"],
    "Whether the profile refuses its canary: 1, or 0 if a known attack passes",
);

pub(crate) const CANARY_ENVOY: Described = Described::counter(
    "glacis_canary_envoy",
    "requests",
    &["result"],
    "Known attacks sent through Envoy: refused; passed; unknown, as nobody or somebody else answered",
);
pub(crate) const OUT_OF_BAND_WAITING: Described = Described::gauge(
    "glacis_out_of_band_waiting",
    "exchanges",
    &[],
    "Exchanges that wait to be evaluated out of band, or in a shadow",
);
pub(crate) const OUT_OF_BAND_BYTES: Described = Described::gauge(
    "glacis_out_of_band_bytes_held",
    "bytes",
    &[],
    "Bytes of recordings for evaluation out of band, or in a shadow",
);
pub(crate) const OUT_OF_BAND_DROPPED: Described = Described::counter(
    "glacis_out_of_band_dropped",
    "exchanges",
    &["reason"],
    "Exchanges that were not evaluated out of band, or in a shadow: the queue was full, or no room",
);
pub(crate) const SHADOW_REQUESTS: Described = Described::counter(
    "glacis_shadow_requests",
    "exchanges",
    &["profile", "shadow", "result"],
    "Exchanges evaluated by a profile's rules and by its shadow's: agreed, would_block, would_pass, \
     incomplete",
);
pub(crate) const SHADOW_RULES: Described = Described::counter(
    "glacis_shadow_rule_differences",
    "exchanges",
    &["profile", "only", "rule_id"],
    "Exchanges in which a rule matched in one ruleset only: in that in use (current) or in the shadow",
);
pub(crate) const SHADOW_DROPPED: Described = Described::counter(
    "glacis_shadow_dropped",
    "exchanges",
    &["profile"],
    "Exchanges in the sample of a shadow that were left out, as the queue was full or there was no room",
);

pub(crate) const CORAZA_REQUESTS: Described = Described::counter(
    "coraza_waf_requests",
    "requests",
    &["engine", "namespace", "driver_type", "outcome"],
    "Requests by outcome",
);
pub(crate) const CORAZA_RULE_HITS: Described = Described::counter(
    "coraza_waf_rule_hits",
    "requests",
    &["engine", "namespace", "driver_type", "rule_id", "severity", "outcome"],
    "Requests in which a rule that logs has matched; the same 200 rules as in glacis_rule_matches_total",
);
pub(crate) const CORAZA_SCORE: Described = Described::histogram(
    "coraza_waf_request_anomaly_score",
    "points",
    &["engine", "namespace", "driver_type"],
    "Inbound anomaly score of requests at their end",
);
pub(crate) const CORAZA_BLOCKED: Described = Described::counter(
    "coraza_waf_blocked_requests",
    "requests",
    &["engine", "namespace", "driver_type", "category", "severity"],
    "Refused requests, once for each attack category of their matched rules",
);
pub(crate) const CORAZA_LOADS: Described = Described::counter(
    "coraza_waf_plugin_loads",
    "loads",
    &["engine", "namespace", "driver_type", "status"],
    "Attempts to load rules, that of the start included",
);
pub(crate) const CORAZA_RULES: Described = Described::gauge(
    "coraza_waf_plugin_rule_count",
    "rules",
    &["engine", "namespace", "driver_type"],
    "Rules of the default profile",
);
pub(crate) const COLLECTIONS: Described = Described::counter(
    "glacis_collections",
    "collections",
    &["event"],
    "Persistent collections shared in Redis: fetched; stale, as Redis did not answer in time; written; \
     lost, changes that Redis has not got",
);
pub(crate) const COLLECTIONS_QUEUED: Described = Described::gauge(
    "glacis_collections_queued",
    "requests",
    &[],
    "Changes, and questions, that wait to be sent to Redis",
);
pub(crate) const BANS: Described = Described::counter(
    "glacis_bans",
    "addresses",
    &["scenario"],
    "Addresses that were banned for a time, since too many of their requests were refused",
);
pub(crate) const BAN_REFUSALS_LOST: Described = Described::counter(
    "glacis_ban_refusals_lost",
    "requests",
    &[],
    "Refused requests that did not count for a ban, as bans.queue_max of them waited",
);
pub(crate) const FINDINGS: Described = Described::gauge(
    "glacis_doctor_finding",
    "findings",
    &["id", "severity"],
    "Findings of the checks that the service runs on itself once a minute, by the check's id and severity (error, warning, \
     note); docs/reference/doctor.md",
);
pub(super) const LOST: Described = Described::counter(
    "glacis_records_lost",
    "records",
    &["sink", "reason"],
    "Audit records and spans that were lost, by sink and reason",
);

/// Ours, in the order of the documentation.
pub(crate) const OURS: [Described; 46] = [
    REQUESTS,
    WOULD_DENY,
    SECONDS,
    SCORES,
    OPINIONS,
    RULE_MATCHES,
    RULE_EVIDENCE,
    RECEIPTS,
    UNINSPECTED,
    REJECTED,
    SOCKET_MESSAGES,
    STREAM_EVENTS,
    TRUNCATED,
    LIMITS,
    ALARMS,
    ERRORS,
    UNKNOWN_PROFILES,
    STREAMS,
    WAITING,
    WAIT,
    BODY_BYTES,
    LAG,
    RULESETS,
    RULES,
    LOADED_AT,
    RELOADS,
    EXCLUSIONS,
    CANARY,
    CANARY_ENVOY,
    OUT_OF_BAND_WAITING,
    OUT_OF_BAND_BYTES,
    OUT_OF_BAND_DROPPED,
    SHADOW_REQUESTS,
    SHADOW_RULES,
    SHADOW_DROPPED,
    COLLECTIONS,
    COLLECTIONS_QUEUED,
    BANS,
    BAN_REFUSALS_LOST,
    LOST,
    FINDINGS,
    HANDSHAKES,
    CERTIFICATES,
    UNAUTHENTICATED,
    TOKENS,
    BUILD,
];

/// Those of the contract of coraza-kubernetes-operator.
pub(crate) const CORAZA: [Described; 6] =
    [CORAZA_REQUESTS, CORAZA_RULE_HITS, CORAZA_SCORE, CORAZA_BLOCKED, CORAZA_LOADS, CORAZA_RULES];
