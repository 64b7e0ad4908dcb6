//! How far a rule can be believed on this site, from what became of the requests in which it matched.
//!
//! A request that an application answered with success (2xx) speaks against the rule: most likely it was ordinary. One of
//! a client that was banned, before or afterwards, speaks for it. Neither is a proof: an attack may succeed, and a client may
//! be banned wrongly. Rules with much of the first and nothing of the second are those to look at first when
//! exclusions are written.

use core::net::IpAddr;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Rules that have counters. Further ones that match have none.
pub(crate) const RULES_MAX: usize = 200;

/// Clients whose matches are remembered until they are banned; the one that came first goes.
const CLIENTS_MAX: usize = 4_096;

/// Different rules that are remembered of a client.
const CLIENT_RULES_MAX: usize = 16;

/// What the requests of a rule came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Requests in which it matched that were answered with 2xx.
    pub(crate) served: u64,
    /// Clients in whose requests it matched that were banned.
    pub(crate) banned: u64,
}

/// The names of the two, as labels.
pub(crate) const OUTCOMES: [&str; 2] = ["served", "banned"];

/// The counters. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleEvidence(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    rules: BTreeMap<u32, Evidence>,
    clients: HashMap<IpAddr, Vec<u32>>,
    /// In the order in which they came.
    order: VecDeque<IpAddr>,
}

impl RuleEvidence {
    /// Takes note of the rules that matched in a request, and of the status of its response, or 0 where that is not known.
    pub(crate) fn matched(
        &self,
        client: Option<IpAddr>,
        status: u16,
        rules: impl Iterator<Item = u32>,
    ) {
        let mut rules = rules.peekable();
        // Most requests match nothing.
        if rules.peek().is_none() {
            return;
        }
        let mut inner = self.lock();
        let is_served = (200..300).contains(&status);
        for rule in rules {
            if is_served && let Some(evidence) = inner.of(rule) {
                evidence.served = evidence.served.saturating_add(1);
            }
            if let Some(client) = client {
                inner.remember(client, rule);
            }
        }
    }

    /// Takes note of a client that was banned.
    pub(crate) fn banned(&self, client: IpAddr) {
        let mut inner = self.lock();
        let Some(rules) = inner.clients.remove(&client) else { return };
        inner.order.retain(|other| *other != client);
        for rule in rules {
            if let Some(evidence) = inner.of(rule) {
                evidence.banned = evidence.banned.saturating_add(1);
            }
        }
    }

    /// Of one rule; zeros where nothing was counted.
    pub(crate) fn of(&self, rule: u32) -> Evidence {
        self.lock().rules.get(&rule).copied().unwrap_or_default()
    }

    /// Of all rules that were counted.
    pub(crate) fn all(&self) -> Vec<(u32, Evidence)> {
        self.lock().rules.iter().map(|(rule, evidence)| (*rule, *evidence)).collect()
    }

    /// Forgets rules that are no longer loaded.
    pub(crate) fn keep(&self, is_loaded: impl Fn(u32) -> bool) {
        self.lock().rules.retain(|rule, _| is_loaded(*rule));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn of(&mut self, rule: u32) -> Option<&mut Evidence> {
        if self.rules.len() >= RULES_MAX && !self.rules.contains_key(&rule) {
            return None;
        }
        Some(self.rules.entry(rule).or_default())
    }

    fn remember(&mut self, client: IpAddr, rule: u32) {
        if !self.clients.contains_key(&client) {
            if self.clients.len() >= CLIENTS_MAX
                && let Some(first) = self.order.pop_front()
            {
                self.clients.remove(&first);
            }
            self.order.push_back(client);
        }
        let rules = self.clients.entry(client).or_default();
        if rules.len() < CLIENT_RULES_MAX && !rules.contains(&rule) {
            rules.push(rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn client(number: usize) -> Option<IpAddr> {
        Some(Ipv4Addr::from_bits(u32::try_from(number).unwrap()).into())
    }

    #[test]
    fn success_speaks_against_a_rule_and_a_ban_for_it() {
        let evidence = RuleEvidence::default();
        evidence.matched(client(1), 200, [7, 8].into_iter());
        evidence.matched(client(1), 299, [7].into_iter());
        for status in [0, 199, 300, 404, 503] {
            evidence.matched(client(2), status, [7].into_iter());
        }
        evidence.matched(None, 204, [9].into_iter());
        assert_eq!(evidence.of(7), Evidence { served: 2, banned: 0 });
        for _ in 0..2 {
            // A client that is banned once more brings nothing that was not counted.
            evidence.banned(client(1).unwrap());
        }
        evidence.banned(client(3).unwrap());
        let served_and_banned = |rule| {
            let Evidence { served, banned } = evidence.of(rule);
            (served, banned)
        };
        assert_eq!([7, 8, 9, 10].map(served_and_banned), [(2, 1), (1, 1), (1, 0), (0, 0)]);
        evidence.keep(|rule| rule == 8);
        assert_eq!([7, 8].map(served_and_banned), [(0, 0), (1, 1)]);
    }

    #[test]
    fn rules_and_clients_are_bounded() {
        let evidence = RuleEvidence::default();
        let last = u32::try_from(RULES_MAX).unwrap();
        evidence.matched(None, 200, 0..=last);
        assert_eq!((evidence.of(last - 1).served, evidence.of(last).served), (1, 0));

        let evidence = RuleEvidence::default();
        let last = u32::try_from(CLIENT_RULES_MAX).unwrap();
        evidence.matched(client(0), 0, 0..=last);
        evidence.banned(client(0).unwrap());
        assert_eq!((evidence.of(last - 1).banned, evidence.of(last).banned), (1, 0));

        for (clients, banned) in [(CLIENTS_MAX, 1), (CLIENTS_MAX + 1, 0)] {
            let evidence = RuleEvidence::default();
            for number in 0..clients {
                evidence.matched(client(number), 0, [1].into_iter());
            }
            assert!(evidence.lock().order.len() <= CLIENTS_MAX);
            evidence.banned(client(0).unwrap());
            assert_eq!(evidence.of(1).banned, banned, "{clients}");
        }
    }
}
