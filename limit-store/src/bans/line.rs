//! The list of bans in Redis.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glacis_limits::cidr::Cidr;

use crate::guarded::Guarded;
use crate::redis::{Call, RedisStore, Reply, Script};
use crate::store::StoreError;

use super::BANS_MAX;
use super::known::{Ends, insert, text};

/// Bans that Redis is told of at once.
const TOLD_MAX: usize = 256;

/// By how many seconds two ends of one ban may differ: clocks are read one after the other, in whole seconds.
const SLACK_SECONDS: u64 = 2;

/// Where bans are kept for all.
#[derive(Debug)]
pub(super) struct Line {
    store: Arc<Guarded<RedisStore>>,
    script: Script,
    /// The list, its version, and which list it is: in one slot of a cluster.
    keys: [String; 3],
    /// Bans that Redis has not been told of, and their ends.
    untold: Mutex<Ends>,
}

/// What was seen of the list in Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// When a ban was last added, by the clock of Redis, in seconds and microseconds; `0` for never.
    pub(super) version: String,
    /// Which list it is: when there was none before, in the same form.
    list: String,
}

impl Seen {
    /// Whether Redis, which says `now`, has lost what was seen: it has been emptied, or has come back as it was before.
    pub(super) fn is_lost(&self, now: &Self) -> bool {
        let differs = self.list != now.list || moment(&now.version) < moment(&self.version);
        !self.list.is_empty() && differs
    }
}

/// Seconds and microseconds; nothing is before all of them.
fn moment(version: &str) -> Option<(u64, u64)> {
    let (seconds, microseconds) = version.split_once('.')?;
    Some((seconds.parse().ok()?, microseconds.parse().ok()?))
}

/// What Redis has answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) seen: Seen,
    /// All bans that hold, if the version is not the one that was known.
    pub(super) bans: Ends,
}

impl Line {
    pub(super) fn new(store: Arc<Guarded<RedisStore>>) -> Self {
        let prefix = &store.store().redis().config().prefix;
        let keys = ["", "/version", "/list"].map(|more| format!("{prefix}{{bans}}{more}"));
        let script = Script::new(include_str!("list.lua"));
        Self { keys, script, store, untold: Mutex::default() }
    }

    pub(super) fn untold(&self) -> MutexGuard<'_, Ends> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has Redis told what is `known` here and not among the bans `there`.
    pub(super) fn tell_again(&self, known: Vec<(Cidr, u64)>, there: &Ends, now_seconds: u64) {
        let mut untold = self.untold();
        for (network, end) in known {
            let kept = there.get(&network).copied().unwrap_or(0);
            if kept.saturating_add(SLACK_SECONDS) < end {
                insert(&mut untold, network, end, now_seconds);
            }
        }
    }

    /// What is in the list, if its version is not the one that is `known`.
    pub(super) async fn look(&self, known: &str, now_seconds: u64) -> Option<Answered> {
        self.exchange(&[], known, now_seconds).await
    }

    /// Tells Redis of what it has not been told yet, and returns whether it knows all of it.
    pub(super) async fn tell(&self, now_seconds: u64) -> bool {
        loop {
            let bans = self.next_untold();
            if bans.is_empty() {
                return true;
            }
            if self.exchange(&bans, "-", now_seconds).await.is_none() {
                return false;
            }
            let mut untold = self.untold();
            for (network, end) in bans {
                // It may have been banned for longer meanwhile.
                if untold.get(&network).is_some_and(|now| *now <= end) {
                    untold.remove(&network);
                }
            }
        }
    }

    /// Takes a ban out of the list in Redis.
    ///
    /// # Errors
    /// When Redis does not answer: then it still has the ban, and so have all others.
    pub(super) async fn remove(&self, network: Cidr) -> Result<(), StoreError> {
        let mut call = self.call("-");
        call.push("-");
        call.push(text(network));
        self.store.store().redis().run(&self.script, &call).await.map(|_| ())
    }

    fn call(&self, known: &str) -> Call {
        let mut call = Call::new(self.keys.iter().map(String::as_str));
        call.push_number(BANS_MAX);
        call.push(known);
        call
    }

    fn next_untold(&self) -> Vec<(Cidr, u64)> {
        self.untold().iter().take(TOLD_MAX).map(|(network, end)| (*network, *end)).collect()
    }

    /// Adds bans to the list, and says what it is, and all that is in it if its version is not the one that is `known`.
    async fn exchange(
        &self,
        bans: &[(Cidr, u64)],
        known: &str,
        now_seconds: u64,
    ) -> Option<Answered> {
        let mut call = self.call(known);
        for (network, end) in bans {
            call.push_number(end.saturating_sub(now_seconds));
            call.push(text(*network));
        }
        let reply = self.store.store().redis().run(&self.script, &call).await.ok()?;
        read(&reply, now_seconds)
    }
}

/// An answer of the script, with ends by the clock of this process: that of Redis may be set to another time.
fn read(reply: &Reply, now_seconds: u64) -> Option<Answered> {
    let Reply::List(items) = reply else { return None };
    let told = |item: &Reply| match item {
        Reply::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        Reply::Number(number) => Some(number.to_string()),
        Reply::List(_) | Reply::Nothing => None,
    };
    let ([version, list, redis_seconds], items) = items.split_first_chunk::<3>()?;
    let redis_seconds: u64 = told(redis_seconds)?.parse().ok()?;
    let (pairs, _) = items.as_chunks::<2>();
    let ban = |[network, end]: &[Reply; 2]| {
        let end: u64 = told(end)?.parse().ok()?;
        let left = end.saturating_sub(redis_seconds);
        Some((Cidr::parse(&told(network)?).ok()?, now_seconds.saturating_add(left)))
    };
    let bans: HashMap<Cidr, u64> = pairs.iter().filter_map(ban).collect();
    Some(Answered { seen: Seen { version: told(version)?, list: told(list)? }, bans })
}

#[cfg(test)]
mod tests {
    use crate::memory::MemoryStore;
    use crate::redis::RedisConfig;

    use super::*;

    #[test]
    fn what_redis_has_lost() {
        let seen =
            |version: &str, list: &str| Seen { version: version.to_owned(), list: list.to_owned() };
        for (before, now, expected) in [
            // At the start nothing is known of Redis.
            (seen("", ""), seen("0", "7.1"), false),
            (seen("", ""), seen("9.1", "7.1"), false),
            (seen("0", "7.1"), seen("8.1", "7.1"), false),
            (seen("8.1", "7.1"), seen("8.1", "7.1"), false),
            // Microseconds are a number, not digits behind a point.
            (seen("8.9", "7.1"), seen("8.10", "7.1"), false),
            (seen("8.10", "7.1"), seen("8.9", "7.1"), true),
            (seen("8.1", "7.1"), seen("0", "9.1"), true),
            // Somebody else has told it something since it was emptied.
            (seen("8.1", "7.1"), seen("9.2", "9.1"), true),
            (seen("8.1", "7.1"), seen("0", "7.1"), true),
        ] {
            assert_eq!(before.is_lost(&now), expected, "{before:?} {now:?}");
        }
    }

    /// A ban of which Redis says nearly the same is not told again: there would be no end to it.
    #[tokio::test]
    async fn what_is_told_again() {
        // Nobody listens there, and nobody has to.
        let config =
            RedisConfig { nodes: vec!["127.0.0.1:1".to_owned()], ..RedisConfig::default() };
        let redis = RedisStore::new(config).unwrap();
        let line = Line::new(Arc::new(Guarded::new(redis, 1, MemoryStore::new(1))));
        let network = Cidr::parse("192.0.2.1").unwrap();
        for (known, there, expected) in [
            (1_010, None, Some(1_010)),
            (1_010, Some(1_010), None),
            (1_010, Some(1_008), None),
            (1_010, Some(1_007), Some(1_010)),
            (1_010, Some(2_000), None),
        ] {
            let there: Ends = there.map(|end| (network, end)).into_iter().collect();
            line.untold().clear();
            line.tell_again(vec![(network, known)], &there, 1_000);
            assert_eq!(line.untold().get(&network).copied(), expected, "{known} {there:?}");
        }
    }

    #[test]
    fn ends_are_those_of_this_clock() {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let head = [bytes("8.1"), bytes("7.1"), bytes("5000")];
        let answer = |more: &[Reply]| Reply::List([&head[..], more].concat());
        let ban = [bytes("192.0.2.1"), bytes("5060")];
        let told = read(&answer(&ban), 1_000).unwrap();
        assert_eq!(told.bans, HashMap::from([(Cidr::parse("192.0.2.1").unwrap(), 1_060)]));
        assert_eq!(told.seen, Seen { version: "8.1".to_owned(), list: "7.1".to_owned() });
        let told = read(&answer(&[]), 1_000).unwrap();
        assert!(told.bans.is_empty());
        assert_eq!(read(&Reply::List(head[..2].to_vec()), 1_000), None);
    }
}
