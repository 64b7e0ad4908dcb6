//! Exclusions that detection mode proposes: the requests that they rest on are collected here, and learned from when
//! somebody asks.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use glacis_engine::Parts;
use glacis_explain::read;
use glacis_learn::{Learned, Learner, Options};
use glacis_rules::{Date, write_exclusions};
use glacis_service::now;
use serde::{Deserialize, Serialize};

use crate::{
    profile::Profile,
    proposal::HOLDS,
    recipe::{TimeOver, Timed},
};

/// Bytes of records that are kept, whatever their number.
const BYTES_MAX: usize = 16 << 20;

/// Records of one kind: the same profile, host, path but for digits, and rules.
const OF_KIND_MAX: usize = 64;

/// Requests in detection mode that would be blocked.
#[derive(Debug)]
pub(crate) struct Evidence {
    requests_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    records: VecDeque<Record>,
    /// Clients and days of each kind: one record of each is enough.
    kinds: BTreeMap<Arc<str>, BTreeSet<String>>,
}

#[derive(Clone, Debug)]
struct Record {
    kind: Arc<str>,
    sender: String,
    profile: String,
    line: Arc<str>,
}

/// The fields of an audit record that say what kind it is.
#[derive(Deserialize)]
struct Head {
    profile: String,
    #[serde(default)]
    host: String,
    uri: String,
    client: String,
    time: String,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    id: u32,
}

impl Evidence {
    /// Room for so many.
    pub(crate) fn new(requests_max: usize) -> Self {
        Self { requests_max, kept: Mutex::default() }
    }

    /// Keeps a record of a request that would be blocked; one is enough of each client, day and kind.
    pub(crate) fn push(&self, line: &str) {
        if self.requests_max == 0 || line.len() > BYTES_MAX {
            return;
        }
        let Ok(head) = serde_json::from_str::<Head>(line) else { return };
        let rules: Vec<String> = head.rules.iter().map(|rule| rule.id.to_string()).collect();
        let path: String = head
            .uri
            .chars()
            .take_while(|&character| character != '?')
            .filter(|character| !character.is_ascii_digit())
            .collect();
        let kind = format!("{} {} {path} {}", head.profile, head.host, rules.join(" "));
        let day = head.time.get(..10).unwrap_or_default();
        let sender = format!("{} {day}", head.client);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(kind.into(), sender, head.profile, line);
        while kept.records.len() > self.requests_max || kept.bytes > BYTES_MAX {
            kept.drop_oldest();
        }
    }

    /// The records of a profile, the oldest first.
    fn of(&self, profile: &str) -> Vec<Arc<str>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let records = kept.records.iter().filter(|record| record.profile == profile);
        records.map(|record| Arc::clone(&record.line)).collect()
    }
}

impl Kept {
    fn push(&mut self, kind: Arc<str>, sender: String, profile: String, line: &str) {
        let senders = self.kinds.entry(Arc::clone(&kind)).or_default();
        if senders.len() >= OF_KIND_MAX || !senders.insert(sender.clone()) {
            return;
        }
        self.bytes += line.len();
        self.records.push_back(Record { kind, sender, profile, line: line.into() });
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.records.pop_front() else { return };
        self.bytes = self.bytes.saturating_sub(oldest.line.len());
        if let Some(senders) = self.kinds.get_mut(&oldest.kind) {
            senders.remove(&oldest.sender);
            if senders.is_empty() {
                self.kinds.remove(&oldest.kind);
            }
        }
    }
}

/// What is proposed, as the admin port answers it.
#[derive(Debug, Serialize)]
pub(crate) struct ProposalsAnswer<'p> {
    profile: &'p str,
    ruleset: &'p str,
    /// Requests that were learned from: one of each client, day and kind.
    requests: u64,
    /// Those that the rules in use block.
    blocked: u64,
    /// Those that pass with the proposals: each was evaluated again.
    passing: u64,
    exclusions: usize,
    /// For the key `exclusions`. Owners are empty, which is rejected until somebody fills them in.
    yaml: String,
    declined: Vec<DeclinedAnswer>,
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DeclinedAnswer {
    subject: String,
    requests: u64,
    reason: String,
}

/// What an exclusion needs, where the defaults do not suit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) requests: Option<u64>,
    pub(crate) clients: Option<u64>,
    pub(crate) days: Option<u64>,
}

impl<'p> ProposalsAnswer<'p> {
    /// Learns from what was collected of a profile.
    ///
    /// # Errors
    /// When `until` is over before the proposals have been tried, or the base configuration does not compile.
    pub(crate) fn learn(
        evidence: &Evidence,
        profile: &'p Profile,
        needs: Needs,
        until: Instant,
    ) -> Result<Self, TimeOver> {
        let name = profile.settings.profile.as_str();
        let mut options = Options::until(Date::at(now().saturating_add(HOLDS)));
        options.requests_min = needs.requests.unwrap_or(options.requests_min);
        options.clients_min = needs.clients;
        options.days_min = needs.days;
        let mut learner =
            Learner::new(Arc::clone(&profile.program), options).map_err(|_| TimeOver)?;
        for line in evidence.of(name) {
            if Instant::now() > until {
                return Err(TimeOver);
            }
            if let Ok((request, _)) = read(line.as_bytes()) {
                learner.observe(request, None);
            }
        }
        let mut rules = Timed { recipe: &profile.recipe, until, parts: Parts::default() };
        Ok(Self::of(profile, learner.learn(&mut rules)?))
    }

    fn of(profile: &'p Profile, learned: Learned) -> Self {
        let declined = learned.declined.into_iter().map(|declined| DeclinedAnswer {
            subject: declined.subject,
            requests: declined.requests,
            reason: declined.reason,
        });
        Self {
            profile: &profile.settings.profile,
            ruleset: profile.program.hash(),
            requests: learned.totals.requests,
            blocked: learned.totals.blocked,
            passing: learned.totals.passing,
            exclusions: learned.exclusions.len(),
            yaml: write_exclusions(learned.exclusions.iter().map(|(one, seen)| (one, Some(*seen)))),
            declined: declined.collect(),
            remarks: learned.remarks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(client: &str, day: u8, uri: &str) -> String {
        serde_json::json!({
            "profile": "a", "host": "h", "uri": uri, "client": client,
            "time": format!("2026-11-{day:02}T00:00:00Z"), "rules": [{"id": 1}],
        })
        .to_string()
    }

    #[test]
    fn one_of_each_client_day_and_kind_is_kept() {
        let evidence = Evidence::new(1_000);
        let count = || evidence.of("a").len();
        evidence.push(&line("192.0.2.1", 1, "/a/1?x=1"));
        evidence.push(&line("192.0.2.1", 1, "/a/2?x=2"));
        assert_eq!(count(), 1);
        evidence.push(&line("192.0.2.2", 1, "/a/1"));
        evidence.push(&line("192.0.2.1", 2, "/a/1"));
        evidence.push(&line("192.0.2.1", 1, "/b"));
        assert_eq!(count(), 4);
        evidence.push("no record");
        assert_eq!(count(), 4);
        assert!(evidence.of("b").is_empty());
        for client in 0..OF_KIND_MAX {
            evidence.push(&line(&format!("198.51.100.{client}"), 1, "/c"));
        }
        assert_eq!(count(), 4 + OF_KIND_MAX);
        evidence.push(&line("203.0.113.1", 1, "/c"));
        assert_eq!(count(), 4 + OF_KIND_MAX);
    }

    #[test]
    fn the_oldest_goes_first() {
        let evidence = Evidence::new(2);
        for day in 1..=3 {
            evidence.push(&line("192.0.2.1", day, "/a"));
        }
        let kept = evidence.of("a");
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().all(|line| !line.contains("2026-11-01")));
        // What was forgotten is taken again.
        evidence.push(&line("192.0.2.1", 1, "/a"));
        assert!(evidence.of("a").iter().any(|line| line.contains("2026-11-01")));
        let long = format!("/{}", "a".repeat(BYTES_MAX - 200));
        evidence.push(&line("192.0.2.1", 4, &long));
        assert_eq!(evidence.of("a").len(), 1);
        evidence.push(&line("192.0.2.1", 5, &"a".repeat(BYTES_MAX)));
        assert_eq!(evidence.of("a").len(), 1);
        let none = Evidence::new(0);
        none.push(&line("192.0.2.1", 1, "/a"));
        assert!(none.of("a").is_empty());
    }
}
