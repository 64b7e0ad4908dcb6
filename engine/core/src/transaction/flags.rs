//! Limits that were hit.

/// Which limits a transaction has hit. Nothing is dropped without one of these being set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The request body was longer than inspected.
    pub request_body_truncated: bool,
    /// The response body was longer than inspected.
    pub response_body_truncated: bool,
    /// The response body was compressed and not decoded, or not to its end: in a coding that is not known, malformed,
    /// too much for its size, or with `SecResponseBodyDecompression Off`. Rules have seen what could be decoded, or the
    /// body as it is.
    pub response_body_encoded: bool,
    /// The body processor stopped at a limit: depth, nodes, parts, names, bytes without files, or what a
    /// compressed body may decode to (`REQBODY_ERROR`, with the reason in `REQBODY_ERROR_MSG`).
    pub body_limit_reached: bool,
    /// There were more arguments than are kept.
    pub arguments_dropped: bool,
    /// There were more headers than are kept.
    pub headers_dropped: bool,
    /// There were more cookies than are kept.
    pub cookies_dropped: bool,
    /// Rules created more members of `TX` than are kept.
    pub tx_members_dropped: bool,
    /// Rules put more into a persistent collection than it may hold.
    pub collection_members_dropped: bool,
    /// A transformation or a macro grew beyond its limit and was cut, or arguments and cookies hold more than is looked
    /// into.
    pub values_cut: bool,
    /// A pattern with look-around reached its limit of steps and counts as not having matched
    /// (`MSC_PCRE_LIMITS_EXCEEDED`).
    pub patterns_gave_up: bool,
    /// A pattern with macros did not compile, or there were too many of them. It counts as not having
    /// matched (`MSC_PCRE_ERROR`).
    pub patterns_failed: bool,
    /// Rules asked for more look-ups than the host is asked for; the others count as not known.
    pub lookups_dropped: bool,
    /// More values were looked at, or more was made of them, than is kept: from then on every rule was run
    /// on each further value. Nothing was left out; it took more steps.
    pub views_dropped: bool,
    /// More rules matched, or more and longer values, than are recorded for logs, or more values in one
    /// chain than `MATCHED_VARS` holds.
    pub matches_dropped: bool,
    /// Rules took more steps than they may: the rest of them did not run
    /// (`MSC_STEPS_LIMIT_EXCEEDED`).
    pub rules_cut_off: bool,
    /// The host's [`Deadline`](crate::Deadline) passed: the rest of the rules did not run.
    pub deadline_passed: bool,
    /// More happened than a trace may hold.
    pub trace_cut: bool,
}

impl Flags {
    /// The names of the limits that were hit, as they stand in audit records and metrics.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (self.request_body_truncated, "request_body"),
            (self.response_body_truncated, "response_body"),
            (self.body_limit_reached, "body_processor"),
            (self.arguments_dropped, "arguments"),
            (self.headers_dropped, "headers"),
            (self.cookies_dropped, "cookies"),
            (self.tx_members_dropped, "tx_members"),
            (self.collection_members_dropped, "collection_members"),
            (self.values_cut, "values"),
            (self.patterns_gave_up || self.patterns_failed, "patterns"),
            (self.lookups_dropped, "lookups"),
            (self.views_dropped, "views"),
            (self.matches_dropped, "matches"),
            (self.rules_cut_off, "rule_steps"),
            (self.deadline_passed, "deadline"),
            (self.trace_cut, "trace"),
        ]
        .into_iter()
        .filter_map(|(hit, name)| hit.then_some(name))
    }
}
