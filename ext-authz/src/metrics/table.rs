//! Every family of metrics, once: registration and `docs/reference/metrics-ext-authz.md` are made from here.

use glacis_service::metrics::{
    BUILD, CERTIFICATES, Described, HANDSHAKES, LAG, RELOADS, TOKENS, UNAUTHENTICATED,
};

pub(crate) const CHECKS: Described = Described::counter(
    "glacis_authz_checks",
    "requests",
    &["verdict"],
    "Requests that were answered, by verdict",
);
pub(crate) const SECONDS: Described = Described::histogram(
    "glacis_authz_check_seconds",
    "seconds",
    &[],
    "How long Checks took to be answered, the store included",
);
pub(crate) const REFUSED: Described = Described::counter(
    "glacis_authz_refused",
    "requests",
    &["reason"],
    "Requests that were refused, by reason",
);
pub(crate) const LIMITS: Described = Described::counter(
    "glacis_authz_limits",
    "requests",
    &["limit", "result"],
    "What each limit said of requests that it applies to; shadow: it would have refused",
);
pub(crate) const UNINSPECTED: Described = Described::counter(
    "glacis_authz_uninspected",
    "requests",
    &["reason"],
    "Requests of which rules have not seen all, by reason; body_not_sent: Envoy sends no bodies",
);
pub(crate) const BANS: Described =
    Described::gauge("glacis_authz_bans", "addresses", &[], "Addresses that are banned for a time");
pub(crate) const ERRORS: Described = Described::counter(
    "glacis_authz_errors",
    "errors",
    &["kind"],
    "Checks that were answered with an error, so that Envoy's failure mode decides; a Redis that is away is none",
);
pub(crate) const ALARMS: Described = Described::counter(
    "glacis_authz_alarms",
    "requests",
    &["kind"],
    "Requests by which a setting of Envoy's was seen that hides something",
);

/// All of them, in the order of the documentation.
pub(crate) const FAMILIES: [Described; 15] = [
    CHECKS,
    SECONDS,
    REFUSED,
    LIMITS,
    UNINSPECTED,
    BANS,
    ERRORS,
    ALARMS,
    RELOADS,
    LAG,
    HANDSHAKES,
    CERTIFICATES,
    UNAUTHENTICATED,
    TOKENS,
    BUILD,
];
