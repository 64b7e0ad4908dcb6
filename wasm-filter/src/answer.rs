//! What a client is told: the module's own answers, and the fields it adds to others.
//!
//! A body is `application/problem+json` (RFC 9457). It carries the request id, so that an operator
//! can find the request in the logs, and nothing about how the decision came about.

use crate::config::{FailureMode, RateLimit};
use crate::policy::Verdict;
use glacis_limits::rate_headers::{rate_limit, rate_limit_policy, retry_after};
use glacis_limits::token_bucket::Decision;

/// The longest request id that is repeated, in bytes. Envoy's own are 36 long.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// A field of a header.
pub(crate) type Field = (&'static str, String);

/// A response of the module's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u32,
    pub(crate) fields: Vec<Field>,
    pub(crate) body: String,
}

impl Answer {
    /// The answer to a request with this verdict; `None` if the request goes on.
    ///
    /// The request id is asked for only if there is an answer: most requests have none.
    pub(crate) fn new(
        verdict: &Verdict,
        limit: Option<&RateLimit>,
        request_id: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let (status, title, detail, mut fields) = match verdict {
            Verdict::DeniedByList => {
                (403, "Forbidden", "Requests from this address are not accepted.", Vec::new())
            }
            Verdict::Limited(decision) => (
                429,
                "Too Many Requests",
                "This address has sent too many requests. Try again later.",
                limited_fields(decision, limit),
            ),
            Verdict::Undecided(_, FailureMode::Closed) => (
                503,
                "Service Unavailable",
                "The request could not be checked. Try again later.",
                vec![("retry-after", "1".to_owned())],
            ),
            Verdict::Undecided(_, FailureMode::Open)
            | Verdict::AllowedByList
            | Verdict::Passed(_)
            | Verdict::ShadowLimited(_) => return None,
        };
        fields.push(("content-type", "application/problem+json".to_owned()));
        // What one client may not do must not be answered to another from a cache.
        fields.push(("cache-control", "no-store".to_owned()));
        Some(Self { status, fields, body: body(status, title, detail, request_id().as_deref()) })
    }
}

/// The fields that an answer of the upstream gets, if the operator wants them there.
pub(crate) fn fields_on_allowed(verdict: &Verdict, limit: Option<&RateLimit>) -> Vec<Field> {
    match (verdict, limit) {
        (Verdict::Passed(Some(decision)), Some(limit)) if limit.headers_on_allowed => {
            limit_fields(decision, limit)
        }
        _ => Vec::new(),
    }
}

fn limited_fields(decision: &Decision, limit: Option<&RateLimit>) -> Vec<Field> {
    let mut fields = limit.map_or_else(Vec::new, |limit| limit_fields(decision, limit));
    fields.push(("retry-after", retry_after(decision.retry_after_ns)));
    fields
}

fn limit_fields(decision: &Decision, limit: &RateLimit) -> Vec<Field> {
    let remaining = u64::from(decision.remaining);
    vec![
        ("ratelimit-policy", rate_limit_policy(&limit.name, limit.requests, limit.per_seconds)),
        ("ratelimit", rate_limit(&limit.name, remaining, decision.reset_ns)),
    ]
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

    const DECISION: Decision = Decision {
        allowed: false,
        remaining: 0,
        retry_after_ns: 1_200_000_000,
        reset_ns: 20_000_000_001,
    };

    fn limit() -> RateLimit {
        let text =
            br#"{"rate_limit": {"requests": 100, "per_seconds": 60, "headers_on_allowed": true}}"#;
        Config::parse(text).unwrap().rate_limit.unwrap()
    }

    /// The answer as text: status, fields sorted, body.
    fn told(verdict: Verdict, request_id: Option<&[u8]>) -> Option<(u32, String, String)> {
        let mut answer = Answer::new(&verdict, Some(&limit()), || request_id.map(<[u8]>::to_vec))?;
        answer.fields.sort();
        let fields: Vec<_> = answer.fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        // Whatever it says, it is JSON.
        crate::json::parse(answer.body.as_bytes()).unwrap();
        Some((answer.status, fields.join("\n"), answer.body))
    }

    #[test]
    fn answers() {
        let always = "cache-control: no-store\ncontent-type: application/problem+json";
        let rows = [
            (Verdict::DeniedByList, 403, always.to_owned(), "Forbidden"),
            (
                Verdict::Limited(DECISION),
                429,
                format!(
                    "{always}\nratelimit: \"per-address\";r=0;t=21\n\
                     ratelimit-policy: \"per-address\";q=100;w=60\nretry-after: 2"
                ),
                "Too Many Requests",
            ),
            (
                Verdict::Undecided(Reason::SharedData, FailureMode::Closed),
                503,
                format!("{always}\nretry-after: 1"),
                "Service Unavailable",
            ),
        ];
        for (verdict, status, fields, title) in rows {
            let (actual_status, actual_fields, body) = told(verdict, Some(b"a-1")).unwrap();
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
        let rows = [
            Verdict::AllowedByList,
            Verdict::Passed(None),
            Verdict::Passed(Some(DECISION)),
            Verdict::ShadowLimited(DECISION),
            Verdict::Undecided(Reason::NoAddress, FailureMode::Open),
        ];
        for verdict in rows {
            assert_eq!(told(verdict, None), None, "{verdict:?}");
            let fields = fields_on_allowed(&verdict, Some(&limit())).len();
            let expected = if verdict == Verdict::Passed(Some(DECISION)) { 2 } else { 0 };
            assert_eq!(fields, expected, "{verdict:?}");
        }
        let silent = RateLimit { headers_on_allowed: false, ..limit() };
        assert!(fields_on_allowed(&Verdict::Passed(Some(DECISION)), Some(&silent)).is_empty());
        assert!(fields_on_allowed(&Verdict::Passed(Some(DECISION)), None).is_empty());
    }

    #[test]
    fn a_forged_request_id_is_left_out() {
        let long = [b'a'; REQUEST_ID_BYTES_MAX + 1];
        let forged: [&[u8]; 6] = [b"", b"a\"b", b"a\\", b"<script>", b"a\r\nb", b"\xFF"];
        for id in forged.into_iter().chain([&long[..]]) {
            let (_, _, body) = told(Verdict::DeniedByList, Some(id)).unwrap();
            assert!(!body.contains("request_id"), "{body}");
        }
        let (_, _, body) = told(Verdict::DeniedByList, Some(&long[1..])).unwrap();
        assert!(body.contains("request_id"), "{body}");
        assert!(!told(Verdict::DeniedByList, None).unwrap().2.contains("request_id"));
    }
}
