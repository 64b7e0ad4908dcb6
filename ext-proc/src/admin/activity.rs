//! `/activity`: what the page for people shows. Series of the last hour, and blocked requests, filtered, listed and
//! counted.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use glacis_inspector::SECOND_OPINION_RULE;
use serde::Serialize;

use crate::{
    category,
    event::{Event, Verdict},
    history::{SLOT_SECONDS, SLOTS, Series},
    recent::EVENTS_MAX,
    ruleset::Rulesets,
    shared::Shared,
};

/// Values in each list of the most frequent ones.
const TOP: usize = 10;

/// Different values that are counted for such a list.
const VALUES_MAX: usize = 10_000;

/// Requests in the answer at most, and where no number is given.
pub(super) const REQUESTS_MAX: usize = 500;
pub(super) const REQUESTS: usize = 100;

/// Which requests are asked for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Of the last minutes; all that are kept without one.
    pub(super) minutes: Option<u64>,
    pub(super) verdict: Option<Verdict>,
    pub(super) category: Option<u8>,
    pub(super) rule: Option<u32>,
    pub(super) client: Option<String>,
    pub(super) host: Option<String>,
    pub(super) path: Option<String>,
    pub(super) user_agent: Option<String>,
    pub(super) profile: Option<String>,
    /// In lower case; in URI, host, client, request id or the number of a rule.
    pub(super) text: Option<String>,
    pub(super) limit: usize,
}

impl Wanted {
    fn has(&self, event: &Event, since: u64) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        event.kept_at >= since
            && self.verdict.is_none_or(|verdict| verdict == event.verdict)
            && self.category.is_none_or(|category| event.categories.contains(&category))
            && self.rule.is_none_or(|rule| event.rules.contains(&rule))
            && is(&self.client, &event.client)
            && is(&self.host, &event.host)
            && is(&self.path, event.path())
            && is(&self.user_agent, &event.user_agent)
            && is(&self.profile, &event.profile)
            && self.text.as_ref().is_none_or(|text| contains(event, text))
    }
}

fn contains(event: &Event, text: &str) -> bool {
    let Event { uri, host, client, request_id, method, user_agent, .. } = event;
    let texts = [uri, host, client, request_id, method, user_agent];
    texts.iter().any(|found| found.to_lowercase().contains(text))
        || event.rules.iter().any(|rule| rule.to_string().contains(text))
}

#[derive(Debug, Serialize)]
pub(super) struct Activity<'a> {
    /// In seconds since 1970: now, and when the process began to count.
    now: u64,
    started: u64,
    series: Series,
    /// Blocked requests of each slot that match the filter.
    matching_series: Vec<u32>,
    /// The score at which the default profile blocks, where its rules say so.
    threshold: Option<i64>,
    kept: Counts,
    top: Top,
    /// The newest first.
    requests: Vec<Listed<'a>>,
}

/// How many blocked requests there are to choose from.
#[derive(Debug, Default, Serialize)]
struct Counts {
    /// Those that match the filter.
    matching: usize,
    all: usize,
    max: usize,
    /// When the oldest of them was kept, in seconds since 1970.
    since: Option<u64>,
}

/// The most frequent values among the requests that match the filter.
#[derive(Debug, Serialize)]
struct Top {
    categories: Vec<Frequent>,
    rules: Vec<Frequent>,
    clients: Vec<Frequent>,
    hosts: Vec<Frequent>,
    paths: Vec<Frequent>,
    user_agents: Vec<Frequent>,
}

#[derive(Debug, Serialize)]
struct Frequent {
    /// For a filter.
    value: String,
    /// For people.
    label: String,
    count: u64,
}

/// A request in a list.
#[derive(Debug, Serialize)]
pub(super) struct Listed<'a> {
    number: u64,
    time: String,
    request_id: String,
    client: String,
    method: String,
    uri: String,
    host: String,
    profile: String,
    verdict: Verdict,
    action: String,
    reason: Option<String>,
    status: u16,
    /// The rule that refused, or would have.
    rule: Option<u32>,
    score_inbound: i64,
    score_outbound: i64,
    /// The rule that found most, in words.
    attack_rule: Option<u32>,
    attack: String,
    rules: Vec<u32>,
    categories: Vec<&'a str>,
    /// Whether there is a record to explain.
    has_record: bool,
}

/// What rules are called.
pub(super) struct Messages(BTreeMap<u32, String>);

impl Messages {
    /// Those of these rules.
    pub(super) fn of(rulesets: &Rulesets, mut wanted: BTreeSet<u32>) -> Self {
        let mut found = BTreeMap::new();
        if wanted.remove(&SECOND_OPINION_RULE.0) {
            found.insert(SECOND_OPINION_RULE.0, "Second opinion".to_owned());
        }
        for loaded in rulesets.loaded() {
            if wanted.is_empty() {
                break;
            }
            for rule in loaded.program.rules() {
                if wanted.remove(&rule.id.0) {
                    found.insert(rule.id.0, plain(rule.msg).to_owned());
                }
            }
        }
        Self(found)
    }

    fn get(&self, rule: u32) -> String {
        self.0.get(&rule).cloned().unwrap_or_default()
    }
}

/// A message up to its first macro.
fn plain(message: &str) -> &str {
    let text = message.split("%{").next().unwrap_or_default();
    text.trim_end_matches(|character: char| !character.is_alphanumeric() && character != ')')
}

impl<'a> Listed<'a> {
    pub(super) fn new(event: &Event, messages: &Messages, has_record: bool) -> Self {
        let attack_rule = event.rules.first().copied();
        Self {
            number: event.number,
            time: event.time.clone(),
            request_id: event.request_id.clone(),
            client: event.client.clone(),
            method: event.method.clone(),
            uri: event.uri.clone(),
            host: event.host.clone(),
            profile: event.profile.clone(),
            verdict: event.verdict,
            action: event.action.clone(),
            reason: event.reason.clone(),
            status: event.status,
            rule: event.rule,
            score_inbound: event.score_inbound,
            score_outbound: event.score_outbound,
            attack_rule,
            attack: attack_rule.map(|rule| messages.get(rule)).unwrap_or_default(),
            rules: event.rules.clone(),
            categories: event
                .categories
                .iter()
                .map(|category| category::words(*category).1)
                .collect(),
            has_record,
        }
    }
}

/// Counts values, up to a number of different ones.
#[derive(Default)]
struct Tally(BTreeMap<String, u64>);

impl Tally {
    fn add(&mut self, value: &str) {
        if let Some(count) = self.0.get_mut(value) {
            *count += 1;
        } else if self.0.len() < VALUES_MAX {
            self.0.insert(value.to_owned(), 1);
        }
    }

    fn top(self, label: impl Fn(&str) -> String) -> Vec<Frequent> {
        let mut all: Vec<(String, u64)> = self.0.into_iter().collect();
        all.sort_by(|(a, count), (b, other)| (Reverse(count), a).cmp(&(Reverse(other), b)));
        all.truncate(TOP);
        let frequent = |(value, count): (String, u64)| {
            let label = label(&value);
            Frequent { value, label, count }
        };
        all.into_iter().map(frequent).collect()
    }
}

#[derive(Default)]
struct Tallies {
    categories: Tally,
    rules: Tally,
    clients: Tally,
    hosts: Tally,
    paths: Tally,
    user_agents: Tally,
}

impl Tallies {
    fn add(&mut self, event: &Event) {
        for category in &event.categories {
            self.categories.add(category::words(*category).0);
        }
        for rule in &event.rules {
            self.rules.add(&rule.to_string());
        }
        self.clients.add(&event.client);
        self.hosts.add(&event.host);
        self.paths.add(event.path());
        if !event.user_agent.is_empty() {
            self.user_agents.add(&event.user_agent);
        }
    }
}

impl Activity<'_> {
    /// What happened, at `now` in time since 1970.
    pub(super) fn of(shared: &Shared, wanted: &Wanted, now: core::time::Duration) -> Self {
        let seconds = now.as_secs();
        let since = wanted.minutes.map_or(0, |minutes| seconds.saturating_sub(minutes * 60));
        let slots = wanted.minutes.map_or(SLOTS, |minutes| minutes * 60 / SLOT_SECONDS);
        let series = shared.history.series(slots, now);
        let mut matching_series = vec![0_u32; series.allowed.len()];
        let (mut tallies, mut listed) = (Tallies::default(), Vec::new());
        let mut kept = Counts { max: EVENTS_MAX, ..Counts::default() };
        let first_record = shared.recent.events(|events, first_record| {
            for event in events {
                kept.all += 1;
                kept.since = Some(event.kept_at);
                if !wanted.has(event, since) {
                    continue;
                }
                kept.matching += 1;
                let slot = event.kept_at.checked_sub(series.start).map(|ago| ago / SLOT_SECONDS);
                let slot = slot.and_then(|slot| usize::try_from(slot).ok());
                if let Some(count) = slot.and_then(|slot| matching_series.get_mut(slot)) {
                    *count += 1;
                }
                tallies.add(event);
                if listed.len() < wanted.limit {
                    listed.push(event.clone());
                }
            }
            first_record
        });
        let rulesets = shared.rulesets();
        let Tallies { categories, rules, clients, hosts, paths, user_agents } = tallies;
        let mut named: BTreeSet<u32> =
            listed.iter().filter_map(|event| event.rules.first().copied()).collect();
        let rules = rules.top(str::to_owned);
        named.extend(rules.iter().filter_map(|rule| rule.value.parse::<u32>().ok()));
        let messages = Messages::of(&rulesets, named);
        let said = |rule: Frequent| Frequent {
            label: rule.value.parse().map(|id| messages.get(id)).unwrap_or_default(),
            ..rule
        };
        let of_category = |name: &str| {
            category::named(name).map(category::words).unwrap_or_default().1.to_owned()
        };
        Self {
            now: seconds,
            started: shared.started.as_secs(),
            series,
            matching_series,
            threshold: rulesets.profiles.default_profile().blocking().threshold,
            kept,
            top: Top {
                categories: categories.top(of_category),
                rules: rules.into_iter().map(said).collect(),
                clients: clients.top(str::to_owned),
                hosts: hosts.top(str::to_owned),
                paths: paths.top(str::to_owned),
                user_agents: user_agents.top(str::to_owned),
            },
            requests: listed
                .iter()
                .map(|event| Listed::new(event, &messages, event.number >= first_record))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_before_their_macros() {
        for (message, expected) in [
            ("SQL Injection (%{TX.0} found)", "SQL Injection"),
            (
                "Inbound Anomaly Score Exceeded (Total Score: %{TX.X})",
                "Inbound Anomaly Score Exceeded (Total Score",
            ),
            ("XSS via libinjection", "XSS via libinjection"),
            ("%{TX.0}", ""),
        ] {
            assert_eq!(plain(message), expected);
        }
    }

    #[test]
    fn a_time_includes_its_first_second() {
        let record = serde_json::json!({
            "time": "t", "request_id": "r", "client": "c", "method": "GET", "uri": "/", "host": "h",
            "profile": "p", "action": "deny", "score_inbound": 5, "score_outbound": 0,
        });
        let event = Event::read(&record.to_string(), 1, 100, 1).unwrap();
        let wanted = Wanted::default();
        assert_eq!([99, 100, 101].map(|since| wanted.has(&event, since)), [true, true, false]);
    }

    #[test]
    fn the_most_frequent_first_and_bounded() {
        let mut tally = Tally::default();
        for number in 0..=VALUES_MAX {
            tally.add(&number.to_string());
        }
        assert_eq!(tally.0.len(), VALUES_MAX);
        tally.add("7");
        let top = tally.top(str::to_owned);
        assert_eq!((top.len(), &*top[0].value, top[0].count), (TOP, "7", 2));
    }
}
