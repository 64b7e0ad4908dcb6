//! Limits that are leased: what the workers of this Envoy have been lent, in shared data, and the
//! calls to the lender, one at a time in each worker.
//!
//! The arithmetic is in [`glacis_limits::lease`]; docs/leases.md says how it works and what holds.
//! Requests never wait for a lender: they spend what is there, and leave a wish on the desk of
//! their worker, which asks at its next tick.

use crate::rate_limit::RateLimit;
use crate::seed::Seed;
use crate::shared::{HostError, SharedData};
use crate::table::key_of_set;
use glacis_limits::keyed_hash::sip_hash_24;
use glacis_limits::lease::Ask;
use glacis_limits::lease::borrower::{Borrowed, Borrower, RETRY_NS, Wish};
use glacis_limits::lease::desk::{Desk, Slot};
use glacis_limits::lease::set::{self, Taken};
use glacis_limits::lease::wire::{KeyAsk, LeaseRequest, LeaseResponse};
use prost::Message as _;
use std::time::Duration;

/// The longest answer that is read: that to the most questions has less than a tenth of it.
pub const RESPONSE_BYTES_MAX: usize = 65_536;

/// A wish of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wished {
    pub(crate) slot: Slot,
    pub(crate) wish: Wish,
}

/// What this Envoy has been lent of one limit.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    key_prefix: String,
    sets: u64,
    borrower: Borrower,
    /// The limit, as the lender calls it.
    limit: String,
    timeout_ns: u64,
}

impl LeaseTable {
    /// The table of a limit with room for its `table_entries`, if it is leased.
    pub(crate) fn new(limit: &RateLimit) -> Option<Self> {
        let lease = limit.lease.as_ref()?;
        Some(Self {
            key_prefix: format!("glacis.wasm/2/l/{}/", limit.name.as_str()),
            sets: u64::from(limit.table_entries).div_ceil(set::WAYS as u64).max(1),
            borrower: lease.borrower,
            limit: lease.limit.clone(),
            timeout_ns: nanos(lease.timeout),
        })
    }

    /// Spends what a request costs; also whether that was written down.
    pub(crate) fn spend(
        &self,
        shared: &impl SharedData,
        fingerprint: u64,
        now_ns: u64,
        cost: u32,
    ) -> Result<(Taken, bool), HostError> {
        let key = self.key_of(fingerprint);
        let (taken, recorded) = shared.change(&key, |value| {
            let (value, taken) = set::spend(
                &self.borrower,
                value,
                fingerprint,
                now_ns,
                cost,
                self.asked_within_ns(),
            );
            (Some(value), taken)
        })?;
        // What is not written down is not asked for either.
        let wish = if recorded { taken.wish } else { Wish::None };
        Ok((Taken { wish, ..taken }, recorded))
    }

    /// How long a wish keeps others from wishing the same: until it would have been answered.
    fn asked_within_ns(&self) -> u64 {
        self.timeout_ns.saturating_add(self.borrower.patience_ns()).saturating_mul(2)
    }

    /// Changes what is known of a key, if it is still known.
    fn change<T>(
        &self,
        shared: &impl SharedData,
        fingerprint: u64,
        now_ns: u64,
        change: impl Fn(Borrowed) -> (Borrowed, T),
    ) -> Option<T> {
        let key = self.key_of(fingerprint);
        let changed = shared.change(&key, |value| {
            match set::change(&self.borrower, value, fingerprint, now_ns, &change) {
                Some((value, result)) => (Some(value), Some(result)),
                None => (None, None),
            }
        });
        let (result, is_written) = changed.ok()?;
        result.filter(|_| is_written)
    }

    fn key_of(&self, fingerprint: u64) -> String {
        key_of_set(&self.key_prefix, fingerprint % self.sets)
    }
}

/// The lender of one cluster, asked with one token, as one worker knows it.
#[derive(Debug)]
pub(crate) struct Lending {
    pub(crate) cluster: String,
    pub(crate) token: Option<String>,
    pub(crate) timeout: Duration,
    borrower: u64,
    desk: Desk,
    call: Option<Call>,
    /// Whether it is in the log that the lender does not answer.
    logged: bool,
}

/// A call that is under way.
#[derive(Debug)]
struct Call {
    number: u64,
    asked_ns: u64,
    asks: Vec<(Slot, Ask)>,
}

/// All tables of a configuration, in its order; those of limits that are not leased are `None`.
pub(crate) type LeaseTables = [Option<LeaseTable>];

impl Lending {
    /// A lender for each cluster that a limit names, and each token.
    pub(crate) fn all(limits: &[RateLimit], seed: Seed) -> Vec<Self> {
        let mut lendings: Vec<Self> = Vec::new();
        for lease in limits.iter().filter_map(|limit| limit.lease.as_ref()) {
            let is_known =
                |known: &&mut Self| known.cluster == lease.cluster && known.token == lease.token;
            let known = lendings.iter_mut().find(is_known);
            match known {
                Some(known) => known.timeout = known.timeout.max(lease.timeout),
                None => lendings.push(Self {
                    cluster: lease.cluster.clone(),
                    token: lease.token.clone(),
                    timeout: lease.timeout,
                    // One for all workers of a process: they share what is lent.
                    borrower: sip_hash_24(seed, b"borrower"),
                    desk: Desk::default(),
                    call: None,
                    logged: false,
                }),
            }
        }
        lendings
    }

    /// Notes a wish about a key of one of its limits.
    pub(crate) fn wish(&mut self, wished: &Wished, now_ns: u64, tables: &LeaseTables) {
        let table = tables.get(wished.slot.limit).and_then(Option::as_ref);
        let patience_ns = table.map_or(0, |table| table.borrower.patience_ns());
        self.desk.wish(wished.slot, wished.wish, now_ns, patience_ns);
    }

    /// What to ask now, as a message; `None` if there is nothing to ask.
    pub(crate) fn question(
        &mut self,
        tables: &LeaseTables,
        shared: &impl SharedData,
        now_ns: u64,
    ) -> Option<Vec<u8>> {
        let patience = |table: &LeaseTable| table.borrower.patience_ns();
        let patience_ns = tables.iter().flatten().map(patience).min().unwrap_or(0);
        let due = self.desk.due(now_ns, patience_ns);
        if due.is_empty() {
            return None;
        }
        // A call without an answer for so long has none.
        self.failed(tables, shared, now_ns);
        let until_ns = now_ns.saturating_add(nanos(self.timeout));
        let mut request = LeaseRequest { borrower: self.borrower, asks: Vec::new() };
        let mut asks = Vec::new();
        for slot in due {
            let Some(table) = tables.get(slot.limit).and_then(Option::as_ref) else { continue };
            let ask = table.change(shared, slot.fingerprint, now_ns, |state| {
                table.borrower.ask(state, now_ns, until_ns)
            });
            if let Some(ask) = ask.filter(|ask| *ask != Ask::default()) {
                request.asks.push(KeyAsk::new(&table.limit, slot.key, &ask));
                asks.push((slot, ask));
            }
        }
        if asks.is_empty() {
            return None;
        }
        self.call = Some(Call { number: 0, asked_ns: now_ns, asks });
        Some(request.encode_to_vec())
    }

    /// The question is under way as a call with this number, or could not be put.
    pub(crate) fn called(
        &mut self,
        number: Option<u64>,
        tables: &LeaseTables,
        shared: &impl SharedData,
        now_ns: u64,
    ) {
        match (number, self.call.as_mut()) {
            (Some(number), Some(call)) => {
                call.number = number;
                // Envoy ends a call at its timeout; should its answer be lost, others are put.
                self.desk.called(now_ns.saturating_add(nanos(self.timeout).saturating_mul(2)));
            }
            _ => self.failed(tables, shared, now_ns),
        }
    }

    /// What to log now that the lender has answered, or has not: a failure once, until there is an answer.
    pub(crate) fn news(&mut self, answered: bool) -> Option<String> {
        let was_logged = std::mem::replace(&mut self.logged, !answered);
        let is_news = !answered && !was_logged;
        let cluster = &self.cluster;
        is_news.then(|| {
            format!(
                "the lender of the cluster {cluster:?} does not answer, and `away` decides about its limits once \
                 their leases are spent; check that Envoy has that cluster, that it speaks HTTP/2, and that \
                 ext-authz serves leases there"
            )
        })
    }

    /// Whether the answer with this number is to its question.
    pub(crate) fn awaits(&self, number: u64) -> bool {
        self.call.as_ref().is_some_and(|call| call.number == number)
    }

    /// Takes the answer; `None` is a failure. Returns whether it was one of use.
    pub(crate) fn answered(
        &mut self,
        response: Option<&[u8]>,
        tables: &LeaseTables,
        shared: &impl SharedData,
        now_ns: u64,
    ) -> bool {
        let decoded = response.and_then(|bytes| LeaseResponse::decode(bytes).ok());
        let asked = self.call.as_ref().map_or(0, |call| call.asks.len());
        let Some(response) = decoded.filter(|response| response.answers.len() == asked) else {
            self.failed(tables, shared, now_ns);
            return false;
        };
        self.desk.answered();
        let Some(call) = self.call.take() else { return false };
        let mut is_whole = true;
        for ((slot, ask), answer) in call.asks.iter().zip(&response.answers) {
            let Some(table) = tables.get(slot.limit).and_then(Option::as_ref) else { continue };
            let (borrower, answer) = (table.borrower, answer.answer());
            is_whole &= answer.is_some();
            let renewal_ns = table.change(shared, slot.fingerprint, now_ns, |state| {
                let state = match &answer {
                    Some(answer) => borrower.answered(state, now_ns, call.asked_ns, ask, answer),
                    None => borrower.failed(state, now_ns),
                };
                (state, borrower.renewal_ns(&state))
            });
            if let Some(renewal_ns) = renewal_ns.flatten() {
                self.desk.book(*slot, renewal_ns);
            }
        }
        is_whole
    }

    /// Nothing came of the call, if there is one.
    fn failed(&mut self, tables: &LeaseTables, shared: &impl SharedData, now_ns: u64) {
        self.desk.answered();
        let Some(call) = self.call.take() else { return };
        for (slot, _) in &call.asks {
            let Some(table) = tables.get(slot.limit).and_then(Option::as_ref) else { continue };
            let borrower = table.borrower;
            let renewal_ns = table.change(shared, slot.fingerprint, now_ns, |state| {
                let state = borrower.failed(state, now_ns);
                (state, borrower.renewal_ns(&state))
            });
            if let Some(renewal_ns) = renewal_ns.flatten() {
                self.desk.book(*slot, renewal_ns.max(now_ns.saturating_add(RETRY_NS)));
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::facts::Facts;
    use crate::facts::fake::Fake;
    use crate::policy::Policy;
    use crate::shared::memory::Memory;
    use glacis_limits::lease::wire::KeyAnswer;

    const T0: u64 = 1_700_000_000_000_000_000;
    const MS_NS: u64 = 1_000_000;

    /// A worker of an Envoy: several of them may share a store.
    struct Worker {
        policy: Policy,
        lendings: Vec<Lending>,
    }

    impl Worker {
        /// Ten in ten seconds, a lease lives one; two unleased.
        fn new(away: &str) -> Self {
            let config = format!(
                r#"{{"rate_limits": [{{"name": "api", "requests": 10, "per_seconds": 10, "lease": {{
                    "cluster": "authz", "limit": "global", "unleased": 2, "away": "{away}",
                    "local_requests": 3}}}}]}}"#
            );
            let policy = Policy::new(Config::parse(config.as_bytes()).unwrap(), [7; 16], 1);
            let lendings = policy.lendings();
            assert_eq!(lendings.len(), 1);
            Self { policy, lendings }
        }

        /// Requests of a client in a row, and what becomes of them.
        fn requests(&mut self, client: &str, count: usize, at_ms: u64, shared: &Memory) -> String {
            let now_ns = T0 + at_ms * MS_NS;
            let verdicts = (0..count).map(|_| {
                let fake = Fake::default();
                let mut facts = Facts::new(&fake, Some(client.parse().unwrap()));
                let judgement = self.policy.judge(&mut facts, &[], now_ns, shared);
                for wished in &judgement.wishes {
                    self.lendings[0].wish(wished, now_ns, self.policy.lease_tables());
                }
                let property = self.policy.property(judgement.verdict, &[]);
                match (property.as_ref(), judgement.away) {
                    ("passed", false) => '+',
                    ("passed", true) => 'a',
                    ("limited:api", false) => '-',
                    ("limited:api", true) => 'r',
                    other => panic!("{other:?}"),
                }
            });
            verdicts.collect()
        }

        fn question(&mut self, at_ms: u64, shared: &Memory) -> Option<LeaseRequest> {
            let tables = self.policy.lease_tables();
            let bytes = self.lendings[0].question(tables, shared, T0 + at_ms * MS_NS)?;
            self.lendings[0].called(Some(9), tables, shared, T0 + at_ms * MS_NS);
            Some(LeaseRequest::decode(bytes.as_slice()).unwrap())
        }

        fn answer(&mut self, response: Option<&[u8]>, at_ms: u64, shared: &Memory) -> bool {
            assert!(self.lendings[0].awaits(9) && !self.lendings[0].awaits(8));
            let tables = self.policy.lease_tables();
            self.lendings[0].answered(response, tables, shared, T0 + at_ms * MS_NS)
        }
    }

    fn granting(tokens: &[u32]) -> Vec<u8> {
        let answer = |granted: &u32| KeyAnswer {
            granted: *granted,
            lifetime_ms: 1_000,
            retry_after_ms: 30,
            unavailable: false,
        };
        LeaseResponse { answers: tokens.iter().map(answer).collect() }.encode_to_vec()
    }

    #[test]
    fn workers_share_what_is_lent() {
        let (mut one, mut two) = (Worker::new("local"), Worker::new("local"));
        let shared = Memory::default();
        assert_eq!(one.requests("192.0.2.1", 1, 0, &shared), "+");
        assert_eq!(two.requests("192.0.2.1", 1, 1, &shared), "+");
        assert_eq!(two.question(500, &shared), None, "the other asks");
        assert_eq!(one.question(90, &shared), None, "others may want to ask, too");
        let question = one.question(110, &shared).unwrap();
        assert_eq!(question.asks.len(), 1);
        let ask = &question.asks[0];
        assert_eq!((ask.limit.as_str(), ask.spent, ask.left), ("global", 2, 0));
        assert!(ask.want > 2 && question.borrower != 0, "{ask:?}");
        assert!(one.answer(Some(&granting(&[6])), 120, &shared));
        assert_eq!(two.requests("192.0.2.1", 4, 130, &shared), "++++");
        assert_eq!(one.requests("192.0.2.1", 3, 140, &shared), "++-");
        // The limit is dry; that is no reason to ask the policy.
        assert_eq!(one.question(250, &shared).unwrap().asks[0].key, ask.key);
        assert!(one.answer(Some(&granting(&[0])), 251, &shared));
        assert_eq!(two.requests("192.0.2.1", 2, 260, &shared), "--");
        assert_eq!(two.requests("192.0.2.2", 3, 260, &shared), "++-", "of another client");
        let other = two.question(400, &shared).unwrap();
        assert_eq!(other.borrower, question.borrower, "they are one borrower");
        assert!(other.asks.iter().any(|other| other.key != ask.key));
    }

    #[test]
    fn what_is_left_is_given_back() {
        let (mut worker, shared) = (Worker::new("deny"), Memory::default());
        worker.requests("192.0.2.1", 1, 0, &shared);
        assert!(worker.question(100, &shared).is_some());
        assert!(worker.answer(Some(&granting(&[6])), 110, &shared));
        assert_eq!(worker.requests("192.0.2.1", 1, 200, &shared), "+");
        // A quarter of its life before its end: two requests so far, so three would do.
        assert_eq!(worker.question(840, &shared), None);
        let ask = worker.question(860, &shared).unwrap().asks[0].clone();
        assert_eq!((ask.want, ask.left, ask.returned), (3, 3, 2));
        assert!(worker.answer(Some(&granting(&[0])), 861, &shared));
        assert_eq!(worker.requests("192.0.2.1", 5, 862, &shared), "++++-");
    }

    /// However a lender fails, the policy decides, and the lender is asked again a second later.
    #[test]
    fn a_lender_that_does_not_answer_is_news_once() {
        let config = br#"{"rate_limits": [{"requests": 9, "lease": {"cluster": "lender-typo"}}]}"#;
        let limits = Config::parse(config).unwrap().rate_limits;
        let mut lendings = Lending::all(&limits, [7; 16]);
        let lending = &mut lendings[0];
        let told: Vec<_> = [false, false, true, true, false, false]
            .map(|answered| lending.news(answered).is_some())
            .to_vec();
        assert_eq!(told, [true, false, false, false, true, false]);
        lending.news(true);
        assert!(lending.news(false).unwrap().contains("\"lender-typo\""));
    }

    #[test]
    fn a_lender_that_is_away() {
        let unavailable = LeaseResponse { answers: vec![KeyAnswer::UNAVAILABLE] }.encode_to_vec();
        let too_many = granting(&[1, 2]);
        let failures: [Option<&[u8]>; 5] =
            [None, Some(b"\xff"), Some(b""), Some(&too_many), Some(&unavailable)];
        for (away, expected) in [("local", "aaarr"), ("allow", "aaaaa"), ("deny", "rrrrr")] {
            for failure in failures {
                let (mut worker, shared) = (Worker::new(away), Memory::default());
                assert_eq!(worker.requests("192.0.2.1", 3, 0, &shared), "++-");
                assert!(worker.question(120, &shared).is_some());
                assert!(!worker.answer(failure, 121, &shared));
                assert_eq!(worker.requests("192.0.2.1", 5, 122, &shared), expected);
                assert_eq!(worker.question(500, &shared), None);
                worker.requests("192.0.2.1", 1, 1_130, &shared);
                let ask = worker.question(1_240, &shared).unwrap().asks[0].clone();
                assert_eq!(ask.spent, 2, "what was not told is told now");
                assert!(worker.answer(Some(&granting(&[2])), 1_241, &shared));
                assert_eq!(worker.requests("192.0.2.1", 2, 1_242, &shared), "++");
            }
        }
    }

    /// Where no call can be made, or its answer never comes.
    #[test]
    fn calls_that_are_lost() {
        let (mut worker, shared) = (Worker::new("deny"), Memory::default());
        worker.requests("192.0.2.1", 3, 0, &shared);
        let tables = worker.policy.lease_tables();
        assert!(worker.lendings[0].question(tables, &shared, T0 + 120 * MS_NS).is_some());
        worker.lendings[0].called(None, tables, &shared, T0 + 120 * MS_NS);
        assert_eq!(worker.requests("192.0.2.1", 1, 121, &shared), "r");
        worker.requests("192.0.2.1", 1, 1_130, &shared);
        assert!(worker.question(1_240, &shared).is_some());
        worker.requests("192.0.2.2", 3, 1_250, &shared);
        assert_eq!(worker.question(1_500, &shared), None, "a call is under way");
        assert!(worker.question(2_250, &shared).is_some());
        assert_eq!(worker.requests("192.0.2.1", 1, 2_251, &shared), "r");
    }

    #[test]
    fn the_host_fails() {
        let (mut worker, shared) = (Worker::new("deny"), Memory::default());
        worker.requests("192.0.2.1", 2, 0, &shared);
        shared.lost_writes.set(u32::MAX);
        assert_eq!(worker.question(120, &shared), None);
        let key = worker.policy.lease_tables()[0].as_ref().unwrap();
        let taken = key.spend(&shared, 1, T0, 1).map(|(taken, recorded)| (taken.wish, recorded));
        assert_eq!(taken, Ok((Wish::None, false)));
        shared.broken.set(true);
        assert_eq!(key.spend(&shared, 1, T0, 1).map(|_| ()), Err(HostError));
    }
}
