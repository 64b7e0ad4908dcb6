//! A blocked request, or one that would be blocked, in a few hundred bytes: what lists, filters and counts need of its
//! record.

use core::mem::size_of;
use std::borrow::Cow;

use glacis_inspector::REJECT;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::category;

/// Rules that are kept of one request, the severest first.
const RULES_MAX: usize = 8;

/// Bytes of a text that are kept: the beginning.
const URI_BYTES_MAX: usize = 512;
const HOST_BYTES_MAX: usize = 128;
const TEXT_BYTES_MAX: usize = 64;
const AGENT_BYTES_MAX: usize = 128;

/// What became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It was denied, redirected or dropped.
    Blocked,
    /// It passed in detection mode, and rules would have blocked it.
    WouldBlock,
    /// It reached a limit.
    Rejected,
}

impl Verdict {
    pub(crate) const ALL: [(Self, &'static str); 3] = [
        (Self::Blocked, "blocked"),
        (Self::WouldBlock, "would_block"),
        (Self::Rejected, "rejected"),
    ];
}

/// What is kept of a record.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// That of the record.
    pub(crate) number: u64,
    /// When it was kept, in seconds since 1970.
    pub(crate) kept_at: u64,
    pub(crate) time: String,
    pub(crate) request_id: String,
    pub(crate) client: String,
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) host: String,
    /// `User-Agent`; empty where the record has no headers, or the request none of this name.
    pub(crate) user_agent: String,
    pub(crate) profile: String,
    /// The action of the record.
    pub(crate) action: String,
    pub(crate) verdict: Verdict,
    /// The limit, where it reached one.
    pub(crate) reason: Option<String>,
    pub(crate) status: u16,
    /// The rule that refused, or would have.
    pub(crate) rule: Option<u32>,
    pub(crate) score_inbound: i64,
    pub(crate) score_outbound: i64,
    /// The rules that found something in the request, without those that only add up.
    pub(crate) rules: Vec<u32>,
    /// Of the first of them, then of the others.
    pub(crate) categories: Vec<u8>,
}

/// The fields of a record that matter here.
#[derive(Deserialize)]
struct Record<'r> {
    #[serde(borrow)]
    time: Cow<'r, str>,
    #[serde(borrow)]
    request_id: Cow<'r, str>,
    #[serde(borrow)]
    client: Cow<'r, str>,
    #[serde(borrow)]
    method: Cow<'r, str>,
    #[serde(borrow)]
    uri: Cow<'r, str>,
    #[serde(borrow)]
    host: Cow<'r, str>,
    #[serde(borrow)]
    profile: Cow<'r, str>,
    #[serde(borrow)]
    action: Cow<'r, str>,
    #[serde(borrow, default)]
    reason: Option<Cow<'r, str>>,
    #[serde(default)]
    status: u16,
    #[serde(default)]
    rule: Option<u32>,
    #[serde(default)]
    would_deny: Option<WouldDeny>,
    score_inbound: i64,
    score_outbound: i64,
    #[serde(borrow, default)]
    rules: Vec<Rule<'r>>,
    #[serde(borrow, default)]
    request: Option<Part<'r>>,
}

/// The request in a record with its headers.
#[derive(Deserialize)]
struct Part<'r> {
    /// Read apart, so that a header that is no text costs no event.
    #[serde(borrow, default)]
    headers: Option<&'r RawValue>,
}

impl Part<'_> {
    fn user_agent(&self) -> Option<String> {
        let headers: Vec<(Value, Value)> = serde_json::from_str(self.headers?.get()).ok()?;
        let is_agent = |name: &Value| {
            name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("user-agent"))
        };
        let found = headers.iter().find(|(name, _)| is_agent(name));
        found.and_then(|(_, value)| value.as_str()).map(|agent| cut(agent, AGENT_BYTES_MAX))
    }
}

#[derive(Deserialize)]
struct WouldDeny {
    rule: u32,
}

#[derive(Deserialize)]
struct Rule<'r> {
    id: u32,
    phase: u8,
    #[serde(borrow, default)]
    severity: Cow<'r, str>,
    #[serde(borrow, default)]
    tags: Vec<Cow<'r, str>>,
    #[serde(borrow, default)]
    matches: Vec<Match<'r>>,
}

#[derive(Deserialize)]
struct Match<'r> {
    #[serde(borrow)]
    variable: Cow<'r, str>,
}

impl Rule<'_> {
    /// Whether it only adds up or reports what others have found.
    fn is_bookkeeping(&self) -> bool {
        let tagged = |tag: &Cow<'_, str>| ["anomaly-evaluation", "reporting"].contains(&&**tag);
        let of_scores = |found: &Match<'_>| found.variable.starts_with("TX:");
        self.phase == 5
            || self.tags.iter().any(tagged)
            || !self.matches.is_empty() && self.matches.iter().all(of_scores)
    }

    /// Its paranoia level: rules above that which blocks are evidence only.
    fn paranoia(&self) -> u8 {
        let levels = self.tags.iter().filter_map(|tag| tag.strip_prefix("paranoia-level/"));
        levels.filter_map(|level| level.parse().ok()).next().unwrap_or(1)
    }

    /// Whether it says how a request is written, and not what it is after.
    fn is_of_protocol(&self) -> bool {
        self.tags.iter().any(|tag| *tag == "attack-protocol")
    }

    /// 0 for the severest.
    fn severity(&self) -> usize {
        let order = ["EMERGENCY", "ALERT", "CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO"];
        order.iter().position(|known| *known == self.severity).unwrap_or(order.len())
    }
}

fn cut(text: &str, bytes_max: usize) -> String {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default().to_owned()
}

impl Event {
    /// What a record says; `None` when it is none. Rules above the paranoia level `level` do not count towards a score:
    /// they are named only where no other rule found anything.
    pub(crate) fn read(line: &str, number: u64, kept_at: u64, level: u8) -> Option<Self> {
        let record: Record<'_> = serde_json::from_str(line).ok()?;
        let verdict = match &*record.action {
            _ if record.would_deny.is_some() => Verdict::WouldBlock,
            REJECT => Verdict::Rejected,
            _ => Verdict::Blocked,
        };
        let rule = record.rule.or_else(|| record.would_deny.map(|withheld| withheld.rule));
        let mut found: Vec<&Rule<'_>> =
            record.rules.iter().filter(|rule| !rule.is_bookkeeping()).collect();
        found.sort_by_key(|rule| (rule.paranoia(), rule.severity(), rule.is_of_protocol()));
        if found.first().is_some_and(|rule| rule.paranoia() <= level) {
            found.retain(|rule| rule.paranoia() <= level);
        }
        found.truncate(RULES_MAX);
        let mut categories: Vec<u8> = Vec::new();
        for tag in found.iter().flat_map(|rule| &rule.tags) {
            let category = category::of_tag(tag);
            categories.extend(category.filter(|category| !categories.contains(category)));
        }
        if categories.is_empty() {
            let limit = verdict == Verdict::Rejected;
            categories.push(if limit { category::LIMIT } else { category::OTHER });
        }
        let mut rules: Vec<u32> = found.iter().map(|rule| rule.id).collect();
        if rules.is_empty() {
            rules.extend(rule);
        }
        Some(Self {
            number,
            kept_at,
            time: cut(&record.time, TEXT_BYTES_MAX),
            request_id: cut(&record.request_id, TEXT_BYTES_MAX),
            client: cut(&record.client, TEXT_BYTES_MAX),
            method: cut(&record.method, TEXT_BYTES_MAX),
            uri: cut(&record.uri, URI_BYTES_MAX),
            host: cut(&record.host, HOST_BYTES_MAX),
            user_agent: record.request.and_then(|part| part.user_agent()).unwrap_or_default(),
            profile: cut(&record.profile, HOST_BYTES_MAX),
            action: cut(&record.action, TEXT_BYTES_MAX),
            verdict,
            reason: record.reason.map(|reason| cut(&reason, TEXT_BYTES_MAX)),
            status: record.status,
            rule,
            score_inbound: record.score_inbound,
            score_outbound: record.score_outbound,
            rules,
            categories,
        })
    }

    /// The path of its URI, as far as that is kept.
    pub(crate) fn path(&self) -> &str {
        self.uri.split(['?', '#']).next().unwrap_or_default()
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [
            &self.time,
            &self.request_id,
            &self.client,
            &self.method,
            &self.uri,
            &self.host,
            &self.user_agent,
            &self.profile,
            &self.action,
        ];
        let texts: usize = texts.iter().map(|text| text.capacity()).sum();
        let reason = self.reason.as_ref().map_or(0, String::capacity);
        let rules = self.rules.capacity() * size_of::<u32>() + self.categories.capacity();
        size_of::<Self>() + texts + reason + rules
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(more: &Value) -> Event {
        let mut record = json!({
            "time": "2026-11-23T00:00:00Z", "request_id": "r", "client": "192.0.2.1", "method": "GET",
            "uri": "/a?b=c", "host": "h", "profile": "p", "action": "deny", "status": 403,
            "score_inbound": 5, "score_outbound": 0,
        });
        let fields = more.as_object().unwrap().clone();
        record.as_object_mut().unwrap().extend(fields);
        Event::read(&record.to_string(), 1, 2, 1).unwrap()
    }

    fn rule(id: u32, severity: &str, tags: &[&str], variable: &str) -> Value {
        let matches = json!([{"variable": variable, "value": "v"}]);
        json!({"id": id, "phase": 2, "severity": severity, "tags": tags, "matches": matches})
    }

    #[test]
    fn attacks_are_named_and_bookkeeping_is_not() {
        let scoring = "TX:BLOCKING_INBOUND_ANOMALY_SCORE";
        for (more, rules, categories, verdict) in [
            (
                json!({"rule": 949_110, "rules": [
                    rule(920_280, "WARNING", &["attack-protocol"], "REQUEST_HEADERS:Host"),
                    rule(942_100, "CRITICAL", &["attack-sqli", "attack-xss"], "ARGS:q"),
                    rule(949_110, "EMERGENCY", &["anomaly-evaluation"], scoring),
                    rule(980_170, "", &["reporting"], scoring),
                ]}),
                &[942_100, 920_280][..],
                &["sqli", "xss", "protocol"][..],
                Verdict::Blocked,
            ),
            // What counts comes first: lower levels of paranoia, the severest, attacks before their form.
            (
                json!({"rule": 949_110, "rules": [
                    rule(920_273, "CRITICAL", &["attack-protocol", "paranoia-level/4"], "ARGS:q"),
                    rule(920_100, "CRITICAL", &["attack-protocol", "paranoia-level/1"], "ARGS:q"),
                    rule(932_100, "CRITICAL", &["attack-rce", "paranoia-level/1"], "ARGS:q"),
                ]}),
                &[932_100, 920_100],
                &["rce", "protocol"],
                Verdict::Blocked,
            ),
            // Nothing counts: what there is is named.
            (
                json!({"rules": [rule(920_273, "CRITICAL", &["attack-protocol", "paranoia-level/4"], "ARGS:q")]}),
                &[920_273],
                &["protocol"],
                Verdict::Blocked,
            ),
            // Only bookkeeping is left: what refused is named.
            (
                json!({"rule": 949_110, "rules": [rule(949_110, "", &[], scoring)]}),
                &[949_110],
                &["other"],
                Verdict::Blocked,
            ),
            (
                json!({"action": "allow", "would_deny": {"rule": 9, "phase": 2}}),
                &[9],
                &["other"],
                Verdict::WouldBlock,
            ),
            (
                json!({"action": "reject", "reason": "queue_full"}),
                &[],
                &["limit"],
                Verdict::Rejected,
            ),
        ] {
            let event = read(&more);
            let named: Vec<&str> =
                event.categories.iter().map(|category| category::words(*category).0).collect();
            assert_eq!((&*event.rules, &*named), (rules, categories), "{more}");
            assert_eq!(event.verdict, verdict, "{more}");
        }
    }

    #[test]
    fn user_agents() {
        for (request, expected) in [
            (
                json!({"headers": [["host", "h"], ["User-Agent", "curl/8"], ["user-agent", "b"]]}),
                "curl/8",
            ),
            (json!({"headers": [["host", "h"]]}), ""),
            (json!({"headers": [["user-agent", {"base64": "/w=="}]]}), ""),
            (json!({"headers": "no list"}), ""),
            (json!({}), ""),
        ] {
            assert_eq!(read(&json!({"request": request})).user_agent, expected, "{request}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let long = "ü".repeat(10_000);
        let many: Vec<_> = (0..100).map(|id| rule(id, "", &[], "ARGS:q")).collect();
        let event = read(&json!({
            "uri": long, "host": long, "method": long, "request_id": long, "client": long, "time": long,
            "profile": long, "action": long, "reason": long, "rules": many,
            "request": {"headers": [["user-agent", long]]},
        }));
        assert_eq!(event.user_agent.len(), AGENT_BYTES_MAX);
        assert_eq!((event.uri.len(), event.rules.len()), (512, 8));
        assert!(event.bytes() < 2_048, "{}", event.bytes());
        assert!(Event::read("no record", 1, 2, 1).is_none());
        assert_eq!(read(&json!({"uri": "/a/b?c=/d"})).path(), "/a/b");
    }
}
