//! What a client is told: the module's own answers, and the fields it adds to others.
//!
//! A body is `application/problem+json` (RFC 9457). It carries the request id, so that an operator
//! can find the request in the logs, and nothing about how the decision came about.

use crate::config::FailureMode;
use crate::guard::Found;
use crate::policy::{Judgement, Standing, Verdict};
use crate::rate_limit::RateLimit;
use glacis_limits::rate_headers::{rate_limit, rate_limit_policy, retry_after};

/// The longest request id that is repeated, in bytes. Envoy's own are 36 long.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// A field of a header.
pub type Field = (&'static str, String);

/// A response of the module's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u32,
    /// The header fields.
    pub fields: Vec<Field>,
    /// The body, JSON.
    pub body: String,
}

impl Answer {
    /// The answer to a request with this verdict; `None` if the request goes on.
    ///
    /// The request id is asked for only if there is an answer: most requests have none.
    pub(crate) fn new(
        judgement: &Judgement,
        limits: &[RateLimit],
        request_id: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let (status, title, detail, fields) = match judgement.verdict {
            Verdict::DeniedByList | Verdict::DeniedByCountry | Verdict::DeniedByAsn => {
                (403, "Forbidden", "Requests from this address are not accepted.", Vec::new())
            }
            Verdict::DeniedAsBot(_) | Verdict::DeniedByPatch(_) => {
                (403, "Forbidden", "This request is not accepted.", Vec::new())
            }
            Verdict::TooLong => {
                (414, "URI Too Long", "The path or the query is too long.", Vec::new())
            }
            Verdict::Limited(limit) => (
                429,
                "Too Many Requests",
                "There were too many requests like this. Try again later.",
                limited_fields(judgement, limit, limits),
            ),
            Verdict::TooManyBodies => (
                429,
                "Too Many Requests",
                "Too many requests of this client are waiting for their bodies. Try again later.",
                vec![("retry-after", "1".to_owned())],
            ),
            Verdict::Undecided(_, FailureMode::Closed) => (
                503,
                "Service Unavailable",
                "The request could not be checked. Try again later.",
                vec![("retry-after", "1".to_owned())],
            ),
            Verdict::Undecided(_, FailureMode::Open)
            | Verdict::AllowedByList
            | Verdict::Passed
            | Verdict::ShadowDeniedByList
            | Verdict::ShadowDeniedByCountry
            | Verdict::ShadowDeniedByAsn
            | Verdict::ShadowDeniedAsBot(_)
            | Verdict::ShadowDeniedByPatch(_)
            | Verdict::ShadowTooLong
            | Verdict::ShadowLimited(_)
            | Verdict::ShadowTooManyBodies => return None,
        };
        Some(Self::problem(status, title, detail, fields, request_id().as_deref()))
    }

    /// The answer to a request in which the guard has found this; `None` if the request goes on.
    pub fn of_guard(found: Found, request_id: impl FnOnce() -> Option<Vec<u8>>) -> Option<Self> {
        (found == Found::MissingDenied).then(|| Self::unavailable(request_id))
    }

    /// The answer to a request that cannot be checked at all: its host has no configuration.
    pub fn unavailable(request_id: impl FnOnce() -> Option<Vec<u8>>) -> Self {
        let detail = "The request could not be checked. Try again later.";
        let fields = vec![("retry-after", "1".to_owned())];
        Self::problem(503, "Service Unavailable", detail, fields, request_id().as_deref())
    }

    fn problem(
        status: u32,
        title: &str,
        detail: &str,
        mut fields: Vec<Field>,
        request_id: Option<&[u8]>,
    ) -> Self {
        fields.push(("content-type", "application/problem+json".to_owned()));
        // What one client may not do must not be answered to another from a cache.
        fields.push(("cache-control", "no-store".to_owned()));
        Self { status, fields, body: body(status, title, detail, request_id) }
    }
}

/// The fields that an answer of the upstream gets, if the operator wants them there: one item for
/// each such limit.
pub(crate) fn fields_on_allowed(judgement: &Judgement, limits: &[RateLimit]) -> Vec<Field> {
    let told = judgement.standings.iter().filter(|standing| {
        let limit = limits.get(standing.limit);
        limit.is_some_and(|limit| limit.headers_on_allowed && !limit.shadow)
    });
    limit_fields(told, limits)
}

fn limited_fields(judgement: &Judgement, refused: usize, limits: &[RateLimit]) -> Vec<Field> {
    let of_refusal = judgement.standings.iter().filter(|standing| standing.limit == refused);
    let wait_ns = of_refusal.clone().map(|standing| standing.decision.retry_after_ns).max();
    let mut fields = limit_fields(of_refusal, limits);
    fields.push(("retry-after", retry_after(wait_ns.unwrap_or(0))));
    fields
}

fn limit_fields<'a>(
    standings: impl Iterator<Item = &'a Standing>,
    limits: &[RateLimit],
) -> Vec<Field> {
    let item = |standing: &Standing| {
        let (limit, decision) = (limits.get(standing.limit)?, standing.decision);
        // What is left counts in requests, not in tokens.
        let remaining = u64::from(decision.remaining / limit.cost.max(1));
        let policy = rate_limit_policy(&limit.name, limit.requests, limit.per_seconds);
        Some((policy, rate_limit(&limit.name, remaining, decision.reset_ns)))
    };
    let (policies, limits): (Vec<_>, Vec<_>) = standings.filter_map(item).unzip();
    match policies.is_empty() {
        true => Vec::new(),
        false => vec![("ratelimit-policy", policies.join(", ")), ("ratelimit", limits.join(", "))],
    }
}

fn body(status: u32, title: &str, detail: &str, request_id: Option<&[u8]>) -> String {
    let request_id = match request_id.and_then(plain_id) {
        Some(id) => format!(",\"request_id\":\"{id}\""),
        None => String::new(),
    };
    format!(
        "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status},\
         \"detail\":\"{detail}\"{request_id}}}\n"
    )
}

/// The id, if it needs no escaping anywhere. A client may have made it up, and so may write what
/// it likes: into a page, a terminal or a log.
fn plain_id(id: &[u8]) -> Option<&str> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let fits = (1..=REQUEST_ID_BYTES_MAX).contains(&id.len());
    (fits && id.iter().all(plain)).then(|| str::from_utf8(id).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::policy::Reason;
    use glacis_limits::token_bucket::Decision;

    fn standing(limit: usize, allowed: bool) -> Standing {
        let decision = Decision {
            allowed,
            remaining: if allowed { 9 } else { 0 },
            retry_after_ns: 1_200_000_000,
            reset_ns: 20_000_000_001,
        };
        Standing { limit, decision }
    }

    fn judged(verdict: Verdict, standings: &[Standing]) -> Judgement {
        Judgement { standings: standings.to_vec(), ..verdict.into() }
    }

    fn limits() -> Vec<RateLimit> {
        let text = br#"{"rate_limits": [
            {"requests": 100, "per_seconds": 60, "headers_on_allowed": true},
            {"name": "silent", "requests": 7},
            {"name": "costly", "requests": 30, "cost": 3, "headers_on_allowed": true},
            {"name": "shadow", "requests": 1, "headers_on_allowed": true, "shadow": true}
        ]}"#;
        Config::parse(text).unwrap().rate_limits
    }

    fn shown(fields: &[Field]) -> String {
        let mut fields: Vec<_> = fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        fields.sort();
        fields.join("\n")
    }

    /// The answer as text: status, fields sorted, body.
    fn told(judgement: &Judgement, request_id: Option<&[u8]>) -> Option<(u32, String, String)> {
        let answer = Answer::new(judgement, &limits(), || request_id.map(<[u8]>::to_vec))?;
        // Whatever it says, it is JSON.
        crate::json::parse(answer.body.as_bytes()).unwrap();
        Some((answer.status, shown(&answer.fields), answer.body))
    }

    #[test]
    fn answers() {
        let always = "cache-control: no-store\ncontent-type: application/problem+json";
        let rows = [
            (judged(Verdict::DeniedByList, &[]), 403, always.to_owned(), "Forbidden"),
            (judged(Verdict::TooLong, &[]), 414, always.to_owned(), "URI Too Long"),
            (
                judged(Verdict::Limited(0), &[standing(1, true), standing(0, false)]),
                429,
                format!(
                    "{always}\nratelimit-policy: \"per-address\";q=100;w=60\n\
                     ratelimit: \"per-address\";r=0;t=21\nretry-after: 2"
                ),
                "Too Many Requests",
            ),
            (
                judged(Verdict::Undecided(Reason::SharedData, FailureMode::Closed), &[]),
                503,
                format!("{always}\nretry-after: 1"),
                "Service Unavailable",
            ),
        ];
        for (judgement, status, fields, title) in rows {
            let (actual_status, actual_fields, body) = told(&judgement, Some(b"a-1")).unwrap();
            assert_eq!((actual_status, actual_fields), (status, fields));
            let start = format!(
                "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status},\"detail\":"
            );
            assert!(body.starts_with(&start), "{body}");
            assert!(body.ends_with(",\"request_id\":\"a-1\"}\n"), "{body}");
        }
    }

    #[test]
    fn what_goes_on_has_no_answer() {
        let verdicts = [
            Verdict::AllowedByList,
            Verdict::Passed,
            Verdict::ShadowLimited(3),
            Verdict::ShadowDeniedAsBot(0),
            Verdict::ShadowDeniedByList,
            Verdict::ShadowDeniedByCountry,
            Verdict::ShadowDeniedByAsn,
            Verdict::ShadowDeniedByPatch(0),
            Verdict::ShadowTooLong,
            Verdict::Undecided(Reason::NoAddress, FailureMode::Open),
        ];
        for verdict in verdicts {
            assert_eq!(told(&judged(verdict, &[standing(0, true)]), None), None, "{verdict:?}");
        }
        let asked = [standing(0, true), standing(1, true), standing(2, true), standing(3, false)];
        let fields = fields_on_allowed(&judged(Verdict::ShadowLimited(3), &asked), &limits());
        assert_eq!(
            shown(&fields),
            "ratelimit-policy: \"per-address\";q=100;w=60, \"costly\";q=30;w=1\n\
             ratelimit: \"per-address\";r=9;t=21, \"costly\";r=3;t=21"
        );
        let silent = judged(Verdict::Passed, &[standing(1, true), standing(3, true)]);
        assert!(fields_on_allowed(&silent, &limits()).is_empty());
    }

    #[test]
    fn a_forged_request_id_is_left_out() {
        let long = [b'a'; REQUEST_ID_BYTES_MAX + 1];
        let forged: [&[u8]; 6] = [b"", b"a\"b", b"a\\", b"<script>", b"a\r\nb", b"\xFF"];
        for id in forged.into_iter().chain([&long[..]]) {
            let (_, _, body) = told(&judged(Verdict::DeniedByList, &[]), Some(id)).unwrap();
            assert!(!body.contains("request_id"), "{body}");
        }
        let (_, _, body) = told(&judged(Verdict::DeniedByList, &[]), Some(&long[1..])).unwrap();
        assert!(body.contains("request_id"), "{body}");
        assert!(!told(&judged(Verdict::DeniedByList, &[]), None).unwrap().2.contains("request_id"));
    }
}
