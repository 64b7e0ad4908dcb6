//! Persistent collections (`IP`, `SESSION`, …): what outlives a transaction, and where it is kept.
//!
//! A transaction reads a collection once, when a rule opens it (`initcol`), works on its own copy, and
//! hands the store its changes when it is finished. Changes are what rules did ("add 1"), not what came
//! of it, so that two transactions that count at the same time are both counted.
//!
//! Source: ModSecurity reference manual, `initcol`, `setvar`, `expirevar`, `deprecatevar`,
//! `SecCollectionTimeout`.

use core::{fmt::Debug, mem, time::Duration};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{operator::leading_integer, variable::Variable};

/// How large one collection may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionLimits {
    /// Members.
    pub members_max: usize,
    /// Bytes in all names and values.
    pub bytes_max: usize,
}

/// A member of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name, in lower case.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// When it goes (`expirevar`), as time since 1970.
    pub expires: Option<Duration>,
    /// From when on `deprecatevar` counts: when it was made, or last made smaller.
    pub since: Duration,
}

/// What a rule did to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its value is replaced; it is made if it is not there.
    Set(Vec<u8>),
    /// A number is added to it; one that is not there counts as 0.
    Add(i64),
    /// It is taken away.
    Unset,
    /// It goes at this time.
    ExpireAt(Duration),
    /// It loses `amount` for every whole `period` that has passed, and does not fall below 0.
    Decay {
        /// What is taken off.
        amount: i64,
        /// How often.
        period: Duration,
    },
}

/// A change of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The member's name, in lower case.
    pub member: Vec<u8>,
    /// What becomes of it.
    pub step: Step,
}

/// The members of one collection under one key.
///
/// A store of one's own need not know what a [`Step`] means:
///
/// ```
/// use std::time::Duration;
/// use glacis_engine::{Change, Collection, CollectionLimits, Step};
///
/// let limits = CollectionLimits { members_max: 1, bytes_max: 64 };
/// let change = |member: &str, step| Change { member: member.as_bytes().to_vec(), step };
/// let at = Duration::from_secs;
/// let mut session = Collection::default();
/// session.apply(&change("score", Step::Add(5)), limits, at(100));
/// session.apply(&change("score", Step::Add(5)), limits, at(110));
/// assert_eq!(session.value(b"score"), Some(&b"10"[..]));
/// // Three less for each minute: two whole ones have passed since it was made.
/// let decay = Step::Decay { amount: 3, period: at(60) };
/// session.apply(&change("score", decay), limits, at(230));
/// assert_eq!(session.value(b"score"), Some(&b"4"[..]));
/// // There is room for one member.
/// assert!(!session.apply(&change("other", Step::Set(b"1".to_vec())), limits, at(230)));
/// assert_eq!(session.members().len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    members: Vec<Member>,
}

impl Collection {
    /// A collection of these members.
    #[must_use]
    pub const fn new(members: Vec<Member>) -> Self {
        Self { members }
    }

    /// The members in the order in which they were made.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The value of a member.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.members.iter().find(|member| member.name == name).map(|member| &*member.value)
    }

    /// Takes away what has expired.
    pub fn expire(&mut self, now: Duration) {
        self.members.retain(|member| member.expires.is_none_or(|expires| expires > now));
    }

    /// Applies a change. Gives `false` when the limits did not allow for it; nothing is changed then.
    pub fn apply(&mut self, change: &Change, limits: CollectionLimits, now: Duration) -> bool {
        match &change.step {
            Step::Set(value) => self.set(&change.member, value, limits, now),
            Step::Add(number) => {
                let current = self.value(&change.member).map_or(0, leading_integer);
                let sum = current.saturating_add(*number).to_string();
                self.set(&change.member, sum.as_bytes(), limits, now)
            }
            Step::Unset => {
                self.members.retain(|member| member.name != change.member);
                true
            }
            Step::ExpireAt(time) => {
                if let Some(member) = self.member(&change.member) {
                    member.expires = Some(*time);
                }
                true
            }
            Step::Decay { amount, period } => {
                if let Some(member) = self.member(&change.member) {
                    decay(member, *amount, *period, now);
                }
                true
            }
        }
    }

    fn member(&mut self, name: &[u8]) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.name == name)
    }

    fn set(&mut self, name: &[u8], value: &[u8], limits: CollectionLimits, now: Duration) -> bool {
        let others = self.members.iter().filter(|member| member.name != name);
        let bytes: usize = others.map(|member| member.name.len() + member.value.len()).sum();
        if bytes + name.len() + value.len() > limits.bytes_max {
            return false;
        }
        if let Some(member) = self.member(name) {
            value.clone_into(&mut member.value);
            return true;
        }
        if self.members.len() >= limits.members_max {
            return false;
        }
        let (name, value) = (name.to_vec(), value.to_vec());
        self.members.push(Member { name, value, expires: None, since: now });
        true
    }
}

fn decay(member: &mut Member, amount: i64, period: Duration, now: Duration) {
    let passed = now.saturating_sub(member.since).as_secs();
    let Some(periods) = passed.checked_div(period.as_secs()) else { return };
    if periods == 0 {
        return;
    }
    member.since += Duration::from_secs(periods * period.as_secs());
    let lost = amount.saturating_mul(i64::try_from(periods).unwrap_or(i64::MAX));
    let value = leading_integer(&member.value);
    let left = value.saturating_sub(lost).max(value.min(0));
    member.value = left.to_string().into_bytes();
}

/// Where collections are kept between transactions: the host's.
///
/// It is asked while rules run and must answer at once, from memory.
///
/// It is told what rules did, not what came of it: nothing is lost where two transactions count at
/// the same time.
///
/// ```
/// use std::time::Duration;
/// use glacis_engine::{Change, CollectionLimits, CollectionStore, MemoryStore, Step, Variable};
///
/// let store = MemoryStore::new(1_000, CollectionLimits { members_max: 64, bytes_max: 4_096 });
/// let (now, timeout) = (Duration::from_secs(100), Duration::from_secs(3_600));
/// let seen = [Change { member: b"seen".to_vec(), step: Step::Add(1) }];
/// for _transaction in 0..2 {
///     store.apply(Variable::Ip, b"192.0.2.7", &seen, now, timeout);
/// }
/// let found = store.load(Variable::Ip, b"192.0.2.7", now);
/// assert_eq!(found.value(b"seen"), Some(&b"2"[..]));
/// // After the timeout nothing is left of it.
/// let later = store.load(Variable::Ip, b"192.0.2.7", now + timeout);
/// assert!(later.members().is_empty());
/// ```
pub trait CollectionStore: Debug + Send + Sync {
    /// What is kept in `collection` (`IP`, `SESSION`, …) under `key`, without what has expired at
    /// `now`; empty when nothing is.
    fn load(&self, collection: Variable, key: &[u8], now: Duration) -> Collection;

    /// Applies `changes`, in their order and all at once, to what is kept under `key`, and keeps it for
    /// `timeout` from `now` on (`SecCollectionTimeout`).
    fn apply(
        &self,
        collection: Variable,
        key: &[u8],
        changes: &[Change],
        now: Duration,
        timeout: Duration,
    );
}

/// Collections in the memory of this process.
///
/// It holds at most twice as many as it promises, each within its [`CollectionLimits`]. When more are
/// made, those are forgotten that were not used for longest; a client that makes many can thus have
/// others forgotten, which is the price of a bound.
///
/// ```
/// # use glacis_engine::{Endpoint, Input, Limits, MemoryStore, NoFiles, Program, Start};
/// # use glacis_engine::Transaction;
/// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
/// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
/// # let time = Duration::from_secs(1_700_000_000);
/// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
/// let text = r#"SecRuleEngine On
///     SecAction "id:1,phase:1,pass,nolog,initcol:ip=%{REMOTE_ADDR},setvar:ip.seen=+1"
///     SecRule IP:seen "@gt 2" "id:2,phase:1,deny,status:429""#;
/// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
/// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
/// let store = Arc::new(MemoryStore::new(1_000, program.limits().collections()));
/// let mut transaction = Transaction::new(Arc::new(program)).with_collections(store);
/// for expected in ["allow", "allow", "deny"] {
///     transaction.start(&start);
///     transaction.request_line(b"GET", b"/", b"HTTP/1.1");
///     assert_eq!(transaction.evaluate_request_headers().name(), expected);
///     // Only now the store is told.
///     transaction.finish(start.time);
/// }
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    limits: CollectionLimits,
    collections_max: usize,
    generations: Mutex<Generations>,
}

type Key = (Variable, Box<[u8]>);

#[derive(Debug)]
struct Kept {
    collection: Collection,
    expires: Duration,
}

/// What was used lately, and what was used before. When the young are as many as there may be, they
/// become the old, and the old are forgotten: no list of uses has to be kept.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Key, Kept>,
    old: HashMap<Key, Kept>,
}

impl Generations {
    fn take(&mut self, key: &Key, now: Duration) -> Option<Kept> {
        let kept = self.young.remove(key).or_else(|| self.old.remove(key));
        kept.filter(|kept| kept.expires > now)
    }

    fn put(&mut self, key: Key, kept: Kept, collections_max: usize) {
        if self.young.len() >= collections_max {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, kept);
    }
}

impl MemoryStore {
    /// A store that keeps at least the `collections_max` collections used last.
    #[must_use]
    pub fn new(collections_max: usize, limits: CollectionLimits) -> Self {
        Self { limits, collections_max, generations: Mutex::default() }
    }

    /// The number of collections that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        let generations = self.generations();
        generations.young.len() + generations.old.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        // Nothing that holds the lock can panic half-way through a change.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CollectionStore for MemoryStore {
    fn load(&self, collection: Variable, key: &[u8], now: Duration) -> Collection {
        let key = (collection, key.into());
        let mut generations = self.generations();
        let Some(mut kept) = generations.take(&key, now) else { return Collection::default() };
        kept.collection.expire(now);
        let found = kept.collection.clone();
        generations.put(key, kept, self.collections_max);
        found
    }

    fn apply(
        &self,
        collection: Variable,
        key: &[u8],
        changes: &[Change],
        now: Duration,
        timeout: Duration,
    ) {
        let key = (collection, key.into());
        let mut generations = self.generations();
        let mut collection =
            generations.take(&key, now).map_or_else(Collection::default, |kept| kept.collection);
        collection.expire(now);
        for change in changes {
            collection.apply(change, self.limits, now);
        }
        if !collection.members.is_empty() {
            let expires = now.saturating_add(timeout);
            generations.put(key, Kept { collection, expires }, self.collections_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CollectionLimits = CollectionLimits { members_max: 2, bytes_max: 8 };

    fn change(member: &str, step: Step) -> Change {
        Change { member: member.as_bytes().to_vec(), step }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn text(collection: &Collection) -> String {
        let members = collection.members.iter();
        let pairs = members.map(|member| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            format!("{}={}", text(&member.name), text(&member.value))
        });
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// Each row: when, what is done to a collection, and what is then in it.
    #[test]
    fn steps_change_members() {
        let set = |value: &str| Step::Set(value.as_bytes().to_vec());
        let decay = |amount, period| Step::Decay { amount, period: at(period) };
        let mut collection = Collection::default();
        for (now, member, step, expected, kept) in [
            (0, "a", Step::Add(5), "a=5", true),
            (0, "a", Step::Add(-2), "a=3", true),
            (0, "b", set("xy"), "a=3 b=xy", true),
            (0, "c", set(""), "a=3 b=xy", false),
            (0, "b", set("xyz"), "a=3 b=xyz", true),
            (0, "b", set("xyzxyz"), "a=3 b=xyz", false),
            (0, "b", Step::Unset, "a=3", true),
            (9, "a", decay(2, 10), "a=3", true),
            (19, "a", decay(2, 10), "a=1", true),
            (20, "a", decay(2, 10), "a=0", true),
            (21, "a", decay(2, 0), "a=0", true),
            (21, "a", Step::Add(-3), "a=-3", true),
            (90, "a", decay(2, 10), "a=-3", true),
            (90, "a", Step::ExpireAt(at(95)), "a=-3", true),
            (90, "x", Step::ExpireAt(at(95)), "a=-3", true),
            (94, "x", Step::Unset, "a=-3", true),
            (95, "x", Step::Unset, "", true),
        ] {
            collection.expire(at(now));
            assert_eq!(collection.apply(&change(member, step), LIMITS, at(now)), kept, "{now}");
            assert_eq!(text(&collection), expected, "{now} {member}");
        }
    }

    #[test]
    fn a_store_keeps_what_was_used_last_and_no_more() {
        let store = MemoryStore::new(2, LIMITS);
        let count = |key: &str, now| {
            let changes = [change("n", Step::Add(1))];
            store.apply(Variable::Ip, key.as_bytes(), &changes, at(now), at(10));
        };
        let seen = |key: &str, now| text(&store.load(Variable::Ip, key.as_bytes(), at(now)));
        count("a", 0);
        count("a", 1);
        assert_eq!(seen("a", 2), "n=2");
        assert!(store.load(Variable::Session, b"a", at(2)).members().is_empty());
        for key in 0..100 {
            count(&key.to_string(), 3);
            assert_eq!(seen("a", 3), "n=2", "what is used is kept");
            assert!(store.len() <= 4);
        }
        assert_eq!(seen("a", 10), "n=2");
        assert_eq!(seen("a", 11), "", "ten seconds after the last change it is gone");
        assert_eq!(seen("0", 3), "");
        store.apply(Variable::Ip, b"99", &[change("n", Step::Unset)], at(4), at(10));
        assert_eq!(seen("99", 4), "");
    }
}
