//! The table of checks. Ids are permanent: a check that is removed leaves its id unused.

use core::fmt;

/// How bad a finding is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests pass uninspected, or are blocked although nothing is wrong with them.
    Error,
    /// Protection is weaker than it looks, or will be.
    Warning,
    /// Worth to know.
    Note,
}

impl Severity {
    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where a check finds its evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The configuration of ext-proc.
    Configuration,
    /// The rules, compiled.
    Rules,
    /// Envoy's configuration.
    Envoy,
    /// A running service: `/status` and `/metrics`.
    Service,
    /// Several running services.
    Replicas,
}

impl Source {
    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Rules => "rules",
            Self::Envoy => "Envoy's configuration",
            Self::Service => "running service",
            Self::Replicas => "several running services",
        }
    }

    /// Whether a service can run the check on itself.
    #[must_use]
    pub const fn is_of_service(self) -> bool {
        match self {
            Self::Configuration | Self::Rules | Self::Service => true,
            Self::Envoy | Self::Replicas => false,
        }
    }
}

/// A check.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    /// Its permanent id.
    pub id: &'static str,
    /// A few words.
    pub name: &'static str,
    /// How bad its findings are.
    pub severity: Severity,
    /// Where it finds its evidence.
    pub source: Source,
    /// What a finding means.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Days in detection mode after which it looks forgotten.
pub(crate) const DETECTION_DAYS: u64 = 14;
/// Days before the end of an exclusion at which it is named.
pub(crate) const EXCLUSION_DAYS: u64 = 14;
/// Days without a request to which an exclusion applies, after which it looks unused.
pub(crate) const UNAPPLIED_DAYS: u64 = 7;
/// Days before the end of a certificate at which it is named: rotation happens at two thirds of 90 days, or earlier.
pub(crate) const CERTIFICATE_DAYS: u64 = 21;
/// The anomaly score from which on a threshold is called high: four critical rules.
pub(crate) const HIGH_THRESHOLD: i64 = 20;
/// The paranoia level from which on ordinary traffic needs exclusions.
pub(crate) const HIGH_PARANOIA: u64 = 3;
/// Requests below which shares of them say nothing.
pub(crate) const REQUESTS_MIN: f64 = 100.0;
/// The share of requests above which a limit is reached often.
pub(crate) const SHARE_MAX: f64 = 0.01;
/// Requests with a match of one rule below which its evidence says nothing.
pub(crate) const MATCHES_MIN: f64 = 50.0;
/// The share of requests with a match that were answered with 2xx, above which the rule looks wrong.
pub(crate) const SERVED_SHARE: f64 = 0.9;
/// Seconds without a request after which a service looks detached.
pub(crate) const IDLE_SECONDS: u64 = 3_600;
/// The share of the limit of open files that is nearly all.
pub(crate) const FILES_SHARE: f64 = 0.8;

macro_rules! checks {
    ($($constant:ident: $id:literal, $name:literal, $severity:ident, $source:ident, $meaning:literal, $remedy:literal;)*) => {
        $(
            pub(crate) const $constant: &Check = &Check {
                id: $id,
                name: $name,
                severity: Severity::$severity,
                source: Source::$source,
                meaning: $meaning,
                remedy: $remedy,
            };
        )*

        /// All checks, by id.
        pub const CHECKS: &[&Check] = &[$($constant),*];
    };
}

checks! {
    DETECTION_FORGOTTEN: "GD101", "detection mode for weeks", Warning, Configuration,
        "The profile has been in detection mode for 14 days or longer. It blocks nothing.",
        "Resolve the false alarms that the admin page lists (docs/tuning.md), then set `mode: on`.";
    RULES_OFF: "GD102", "rules do not run", Warning, Configuration,
        "The profile has `mode: off`: its requests pass uninspected.",
        "Set `mode: detection` or `mode: on`, or remove the profile.";
    SAMPLED: "GD103", "only a sample is inspected", Warning, Configuration,
        "`sample_percent` is below 100: the other requests pass uninspected.",
        "Set `sample_percent: 100` after the trial.";
    EXCLUSION_EXPIRED: "GD104", "exclusion expired", Warning, Configuration,
        "The last day of an exclusion is over. By default the rules inspect again what it excused.",
        "Ask its owner. Remove the exclusion, or renew `expires` with a new reason.";
    EXCLUSION_EXPIRES: "GD105", "exclusion expires soon", Note, Configuration,
        "An exclusion ends within 14 days. The requests that it excuses may then be blocked.",
        "Ask its owner. Mend the application, or renew `expires`.";
    EXCLUSION_BROAD: "GD106", "exclusion turns rules off everywhere", Warning, Configuration,
        "An exclusion that never expires names neither targets nor a path: its rules do not run for any request.",
        "Name `targets` or a `path`; `glacis explain` and the admin page propose the narrowest form.";
    PARANOIA_HIGH: "GD107", "high paranoia without exclusions", Warning, Configuration,
        "The profile blocks at paranoia level 3 or 4 and has no exclusions. Ordinary requests are blocked at these levels.",
        "Run the level in detection mode first (`detection_paranoia`), and add exclusions for what it finds.";
    OVERSIZED_PASS: "GD108", "large bodies pass", Warning, Configuration,
        "`oversized_body` is `pass` or `partial`: an attack after the inspected part of a body reaches the application.",
        "Set `oversized_body: reject`, and raise `request_body_bytes_max` where uploads need it.";
    OVERFLOW_PASS: "GD109", "bodies pass under load", Warning, Configuration,
        "`body_overflow: pass`: while memory for bodies is short, bodies pass uninspected. A client can cause this.",
        "Set `body_overflow: reject`, and raise `body_bytes_max` if bodies are rejected.";
    LATE_FAIL: "GD110", "late requests are left to Envoy", Warning, Configuration,
        "`late: fail`: on a route that fails open, a client can choose a body that takes too long, and pass uninspected.",
        "Set `late: reject`.";
    ADMIN_OPEN: "GD111", "admin port without authentication", Error, Configuration,
        "Other machines reach the admin port, and nobody authenticates there. It shows blocked requests with their bodies.",
        "Set `admin.token_file`, or `admin.tls` with a `client_ca`; or bind it to 127.0.0.1.";
    ADMIN_PLAIN: "GD112", "admin token in plain text", Warning, Configuration,
        "Other machines reach the admin port without TLS: whoever sees the traffic can read the token.",
        "Set `admin.tls`.";
    GRPC_OPEN: "GD113", "gRPC port without authentication", Note, Configuration,
        "Other machines reach the gRPC port without a token or a client certificate: each can hold places and memory there.",
        "Set `listen.token_file` or `listen.tls.client_ca`, or let only Envoy reach the port (the chart's NetworkPolicy).";
    CERTIFICATE_EXPIRED: "GD114", "certificate expired", Error, Configuration,
        "Clients that verify the certificate reject the connection: Envoy cannot reach ext-proc.",
        "Replace the file; it is reloaded without a restart.";
    CERTIFICATE_EXPIRES: "GD115", "certificate expires soon", Warning, Configuration,
        "A certificate ends within 21 days.",
        "Renew it, or check why its rotation has stopped. The file is reloaded without a restart.";
    AUDIT_NONE: "GD116", "no audit records", Warning, Configuration,
        "Audit records go nowhere: after an incident there is no record of blocked requests.",
        "Set `audit.stdout`, `audit.file` or `audit.otlp`.";
    AUDIT_SECRETS: "GD117", "audit records with secrets", Warning, Configuration,
        "`audit.redact` is off: credentials, cookies and tokens of clients are written to records and shown on the page.",
        "Set `audit.redact: true`; name further secrets in `redact_names`.";
    CANARY_OFF: "GD118", "no canary", Warning, Configuration,
        "`canary_seconds: 0`: nobody notices when the rules stop blocking a known attack.",
        "Remove `canary_seconds`, or set it to 10.";
    RELOAD_OFF: "GD119", "no reload", Note, Configuration,
        "`reload_seconds: 0`: changed rules, rotated certificates and the end of exclusions wait for SIGHUP.",
        "Remove `reload_seconds`, or send SIGHUP after each change, and once a day.";
    BODY_BUDGET: "GD120", "body memory below one body", Error, Configuration,
        "One client's share of `body_bytes_max` is smaller than the largest body: such a body is always rejected or passes \
         uninspected.",
        "Raise `body_bytes_max`, or lower `request_body_bytes_max`.";
    DEADLINE_NONE: "GD121", "no deadline", Warning, Configuration,
        "`deadline_ms: 0`: Envoy's message_timeout ends slow requests, and its failure mode decides about them.",
        "Set `deadline_ms` below Envoy's `message_timeout`.";

    RULES_REFUSED: "GD201", "rules do not load", Error, Rules,
        "The service does not start with these rules; a running one goes on with the rules before.",
        "Mend the error; `glacis lint` and `glacis-ext-proc --check` show all of them with file and line.";
    NO_RULES: "GD202", "profile without rules", Error, Rules,
        "The profile loads no rule besides the base configuration: no attack is found.",
        "Set `crs`, or name files in `rules`. Check that the files are not empty.";
    CRS_MISSING: "GD203", "CRS not loaded", Warning, Rules,
        "The profile has no rules of the OWASP Core Rule Set: it finds only what its own rules describe.",
        "Set `crs` to an unpacked release; keep the profile without it only where that is meant.";
    CRS_OLD: "GD204", "CRS older than tested", Warning, Rules,
        "The rules of CRS are older than those that this version of Glacis is tested with. Later releases close bypasses.",
        "Upgrade CRS (docs/upgrade-crs.md).";
    CRS_NEW: "GD205", "CRS newer than tested", Note, Rules,
        "The rules of CRS are newer than those that this version of Glacis is tested with.",
        "Run `glacis ftw` with the tests of this release, or upgrade Glacis.";
    CRS_MIXED: "GD206", "several versions of CRS", Warning, Rules,
        "Rules of one profile come from different releases of CRS: some files were not replaced in an upgrade.",
        "Replace the whole folder by one release, and add your own files after it.";
    SETTING_LATE: "GD207", "CRS setting after CRS", Warning, Rules,
        "A rule sets a variable of CRS after CRS has read it: the setting has no effect.",
        "Move it to `setup`, or use the key `paranoia`, `detection_paranoia`, `inbound_threshold` or `outbound_threshold`.";
    RULE_WARNINGS: "GD208", "rules without effect", Note, Rules,
        "The compiler has warnings: a directive or an action does not do what its author means.",
        "Read them: `glacis lint`, or `/warnings` on the admin port.";
    THRESHOLD_HIGH: "GD209", "anomaly threshold too high", Warning, Rules,
        "Requests are blocked from a score of 20 or more: four critical rules have to match. Most attacks match fewer.",
        "Set `inbound_threshold: 5`, and add exclusions for false alarms instead.";
    CANARY_PASSES: "GD210", "known attack passes", Error, Rules,
        "The profile may block, and a known attack passes its rules.",
        "Look for an exclusion, a removed rule or a changed threshold. `glacis explain` with the canary shows the rules.";
    EXCLUSION_UNMATCHED: "GD211", "exclusion that never matches", Warning, Rules,
        "An exclusion names a rule or a tag that is not loaded: this part of it does nothing.",
        "Remove it, or correct the id. Ids change between releases of CRS.";

    NO_FILTER: "GD301", "no ext_proc filter", Error, Envoy,
        "No HTTP connection manager of this Envoy has an ext_proc filter or Glacis's native module: nothing is inspected.",
        "Attach Glacis (docs/attach.md), and check that the EnvoyFilter's selector matches this workload.";
    NO_HEALTH_CHECK: "GD302", "ext_proc without health check", Warning, Envoy,
        "The cluster of ext_proc has no health check: while ext-proc hangs, each request waits for message_timeout.",
        "Add `health_checks` with `grpc_health_check`, as in envoy-configs/quickstart/envoy.yaml.";
    NO_OUTLIER_DETECTION: "GD303", "ext_proc without outlier detection", Note, Envoy,
        "The cluster of ext_proc has no outlier detection: requests go to a pod that has crashed until a health check fails.",
        "Add `outlier_detection`, as in envoy-configs/quickstart/envoy.yaml.";
    PANIC_THRESHOLD: "GD304", "requests to unhealthy ext-proc", Warning, Envoy,
        "The panic threshold is not 0: when half of the pods are unhealthy, Envoy sends requests to all of them.",
        "Set `common_lb_config: {healthy_panic_threshold: {value: 0}}`.";
    NOT_HTTP2: "GD305", "ext_proc cluster without HTTP/2", Error, Envoy,
        "gRPC needs HTTP/2, and the cluster of ext_proc speaks HTTP/1.1: every call fails.",
        "Add `http2_protocol_options` to the cluster's HttpProtocolOptions.";
    NO_MODE_OVERRIDE: "GD306", "mode_override not allowed", Error, Envoy,
        "ext-proc requests bodies by mode_override, and Envoy ignores it: bodies pass uninspected.",
        "Set `allow_mode_override: true`, and leave `allowed_override_modes` out.";
    BODY_MODE: "GD307", "fixed body mode", Warning, Envoy,
        "Envoy sends each body in a fixed mode. STREAMED pieces reach the application before the verdict; with BUFFERED, \
         Envoy rejects large bodies before any rule runs.",
        "Set `request_body_mode: NONE` and `response_body_mode: NONE`; ext-proc requests bodies where rules need them.";
    OBSERVABILITY_MODE: "GD308", "observability mode", Error, Envoy,
        "Envoy does not wait for verdicts: nothing is blocked.",
        "Set `observability_mode: false`, or `evaluation: out_of_band` in the profile if that is meant.";
    TIMEOUT_SHORT: "GD309", "deadline above message_timeout", Warning, Envoy,
        "Envoy's `message_timeout` is not above ext-proc's `deadline_ms`: Envoy gives up first, and its failure mode decides \
         instead of the profile.",
        "Raise `message_timeout` to 1s, or lower `deadline_ms`.";
    NO_GUARD: "GD310", "no guard", Warning, Envoy,
        "No filter after ext_proc looks for a receipt. When a stream merely ends, Envoy lets its request pass, also with \
         failure_mode_allow: false.",
        "Add the guard, as in envoy-configs/quickstart/envoy.yaml (docs/resilience.md).";
    FAIL_OPEN_UNGUARDED: "GD311", "fail-open without guard", Error, Envoy,
        "`failure_mode_allow: true` for all routes, and no guard: while ext-proc is down everything passes uninspected, and \
         nothing counts it.",
        "Set `failure_mode_allow: false`, and allow it for single routes; add the guard, which counts what passes.";
    RECEIPTS_DROPPED: "GD312", "receipts dropped", Error, Envoy,
        "Envoy drops the receipts of ext-proc: access logs have no verdicts, and a guard blocks all requests.",
        "Set `metadata_options: {receiving_namespaces: {untyped: [glacis]}}`.";
    NO_CLIENT_ADDRESS: "GD313", "no client address", Warning, Envoy,
        "Envoy does not send the client's address: rules, bans and records have none.",
        "Set `request_attributes: [source.address, destination.address, request.protocol]`.";
    GUARD_ORDER: "GD314", "guard before ext_proc", Error, Envoy,
        "The guard is before ext_proc, where no request has a receipt yet: it blocks all requests.",
        "Put the guard after ext_proc, and the router last.";
    BUFFER_BELOW_BODY: "GD315", "Envoy's buffer below the body limit", Warning, Envoy,
        "Envoy buffers less of a body than the profile inspects: larger bodies are rejected with 413, or inspected in part.",
        "Raise the route's `request_body_buffer_limit`, or lower `request_body_bytes_max`.";
    BUFFER_OVERSTATED: "GD316", "envoy_buffer_bytes above Envoy's buffer", Warning, Envoy,
        "ext-proc expects Envoy to buffer more than it does: it cannot tell a body that is cut off.",
        "Set `envoy_buffer_bytes` to the smallest buffer of all routes.";
    BULKHEAD_SMALL: "GD317", "circuit breaker below max_streams", Note, Envoy,
        "Envoy opens fewer streams than ext-proc serves. Under load its failure mode decides, before ext-proc shares its \
         places among clients.",
        "Set `max_requests` of the cluster's circuit breaker to twice `max_streams`.";
    ROUTE_DISABLED: "GD318", "route without inspection", Note, Envoy,
        "A route turns ext_proc off: its requests pass uninspected.",
        "Remove the override where it is not meant.";
    ENVOY_ADMIN_OPEN: "GD319", "Envoy's admin port open", Warning, Envoy,
        "Other machines reach Envoy's admin port, which can stop Envoy and shows its configuration.",
        "Bind it to 127.0.0.1.";
    NATIVE_UNTESTED: "GD320", "native module in an untested Envoy", Warning, Envoy,
        "The native module is tested with Envoy 1.38 to 1.40. Envoy promises the ABI of one release for the next one only.",
        "Run a tested Envoy, or an upgraded module; `cargo xtask test` tries the module in each.";
    RULES_TWICE: "GD321", "rules run twice", Warning, Envoy,
        "A listener has the native module and ext_proc, and no route turns one of them off: each request is inspected twice.",
        "Remove one of them, or divide the requests among them as envoy-configs/hybrid does (docs/choose.md).";

    NOT_READY: "GD401", "service not ready", Error, Service,
        "The service holds its readiness back: Envoy sends it no requests.",
        "The cause is in the detail, in /readyz and in the log.";
    RELOAD_FAILED: "GD402", "reload failed", Error, Service,
        "The last configuration was not put to use: the service runs with the one before, and will not start with this one.",
        "Mend the error; `glacis-ext-proc --check` shows it before a reload.";
    RULES_DIFFER: "GD403", "rules on disk differ", Note, Service,
        "Files of the rules differ from those that are loaded: a reload is due, failed, or is turned off.",
        "Wait for the next reload, send SIGHUP, or mend the error of the last reload.";
    RESTART_NEEDED: "GD404", "restart needed", Warning, Service,
        "Keys have changed that are read at the start only.",
        "Restart the service.";
    ENVOY_ALARM: "GD405", "Envoy leaves something out", Error, Service,
        "A setting of Envoy leaves something uninspected, seen in its requests (glacis_alarms_total).",
        "docs/ext-proc.md has the setting for each alarm; the log names it.";
    INSPECTION_PARTIAL: "GD406", "partial inspections", Warning, Service,
        "More than 1 of 100 requests passed with a part that was not inspected (glacis_uninspected_total).",
        "The reasons are in the detail; docs/ext-proc.md has a remedy for each.";
    LIMITS_OFTEN: "GD407", "limits reached often", Warning, Service,
        "More than 1 of 100 requests reach a limit of the engine (glacis_limits_hit_total).",
        "Raise the limit in `limits`, or find the client that causes it.";
    UPLOADS_REJECTED: "GD408", "body limit below uploads", Warning, Service,
        "More than 1 of 100 requests have a body above the limit: uploads are rejected with 413, or inspected in part.",
        "Raise `request_body_bytes_max`, for one profile and its routes, and Envoy's buffer with it.";
    RECORDS_LOST: "GD409", "audit records lost", Warning, Service,
        "Audit records or spans were dropped (glacis_records_lost_total): the sink is slower than the traffic, or down.",
        "Check the disk or the collector; record a sample (`audit.sample_percent`).";
    STORE_DOWN: "GD410", "Redis unreachable", Error, Service,
        "The breaker to Redis is open: bans and collections hold in this process only.",
        "Check Redis and the network policy to it; the breaker closes by itself.";
    STORE_LOSES: "GD411", "changes lost on the way to Redis", Warning, Service,
        "Counts for bans or collections were dropped before they reached Redis.",
        "Check the latency of Redis; raise `bans.queue_max` or the queue of collections.";
    DEADLINES: "GD412", "requests without a place or too late", Warning, Service,
        "More than 1 of 100 requests were rejected since they took too long, or found no place to be evaluated.",
        "Add replicas or cores; `glacis profile` shows rules that are expensive.";
    PANICS: "GD413", "evaluation failed", Error, Service,
        "A defect of Glacis: an evaluation panicked. The request was rejected, or passed where its route fails open.",
        "Report it with the log line; it holds no request data.";
    PROFILE_UNKNOWN: "GD414", "unknown profile", Warning, Service,
        "Routes name a profile that does not exist. Such requests are inspected by the default profile, or rejected.",
        "Correct the name in the route's metadata, or add the profile.";
    RULE_SERVED: "GD415", "rule matches ordinary traffic", Note, Service,
        "Nine of ten requests that the rule matches are answered with 2xx: it most likely finds ordinary traffic.",
        "Run `glacis learn` on the audit records, or look at the proposals on the admin page, and add an exclusion.";
    SECRETS_NOT_RELOADED: "GD416", "certificate or token not reloaded", Error, Service,
        "A certificate or token file has changed and could not be used: the one before stays in use until it ends.",
        "The log has the error: most often certificate and key do not belong together.";
    NO_TRAFFIC: "GD417", "no requests", Warning, Service,
        "The service has run for an hour or longer and has inspected no request: Envoy is not attached to it.",
        "Check the attachment (docs/attach.md): `glacis doctor --envoy-admin` looks at Envoy's side.";
    CANARY_PASSED_ENVOY: "GD418", "known attack passed Envoy", Error, Service,
        "A known attack that was sent through Envoy reached the application (glacis_canary_envoy_total).",
        "Check Envoy's side: `glacis doctor --envoy-admin`.";
    FILES_SHORT: "GD419", "open files near the limit", Warning, Service,
        "The process has more than 80 of 100 file descriptors open that it may have: connections will fail.",
        "Raise the limit (`ulimit -n`, LimitNOFILE), or find out who holds connections.";
    UNAUTHENTICATED: "GD420", "rejected tokens", Note, Service,
        "Requests came to a port without its token (glacis_unauthenticated_total): a client is not set up, or is not yours.",
        "Compare the token of Envoy (`initial_metadata`) or of the scraper with the file.";
    EXCLUSION_UNAPPLIED: "GD421", "exclusion never applies", Note, Service,
        "An exclusion with a condition (`path`, `hosts`, `values`) has applied to no request for 7 days or longer, in no replica.",
        "Ask its owner whether the path or host still exists. Remove the exclusion: it weakens the rules for nothing.";
    REPLICAS_DIFFER: "GD501", "replicas with different rules", Error, Replicas,
        "Replicas have different rulesets for the same profile: a request's verdict depends on which replica gets it.",
        "Wait for a rollout to finish; then look for GD402 and GD403 on the replicas with the older hash.";
    VERSIONS_DIFFER: "GD502", "replicas with different versions", Note, Replicas,
        "Replicas run different versions of Glacis.",
        "Wait for the rollout to finish, or finish it.";
}
