//! A bucket: what Envoy has used of it becomes a question to the lender, and what was lent an assignment.
//!
//! Time is a parameter, in milliseconds of any clock.
//!
//! # Why it adds up
//!
//! An assignment is a token bucket that starts full and refills evenly; all that it can let through until it
//! expires is what was lent, not more. With each report what Envoy has not used goes back to the limit and
//! another assignment takes the place of the last. Requests beyond what was lent (the first ones of a bucket
//! have no assignment) are collected from the limit before more is lent.

use std::collections::HashMap;

use glacis_limits::lease::{Ask, Key};
use ring::digest;

/// The first assignment, before anything is known of the demand, is such a part of what may be outstanding.
const FIRST_PART: u32 = 2;
/// A bucket that is in use holds such a part of it at least, for what may come until the next report.
const LEAST_PART: u32 = 16;
/// Of what was lent such a part can be used at once, the rest comes evenly.
const BURST_PART: u32 = 2;

/// Reports nearer to each other do not tell a rate.
const RATE_MS_MIN: u64 = 1_000;

/// A token bucket that practically does not refill. Where Envoy compares how buckets refill by the part of a
/// second only, it must not be that of others.
const NEVER: (i64, i32) = (86_400, 2);

/// What Envoy says that a bucket has had since it said so last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) allowed: u64,
    pub(super) denied: u64,
}

/// How assignments of a limit are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measure {
    pub(super) lifetime_seconds: u32,
    /// What all assignments of one bucket may hold.
    pub(super) outstanding_max: u32,
}

/// What a bucket of one Envoy holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    granted: u32,
    granted_ms: u64,
    reported_ms: u64,
    used_ms: u64,
    /// Whether the next assignment is an odd one.
    odd: bool,
}

/// A token bucket, as Envoy is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenBucket {
    pub(super) max_tokens: u32,
    pub(super) tokens_per_fill: u32,
    /// Seconds and nanoseconds.
    pub(super) fill_interval: (i64, i32),
}

impl Usage {
    pub(super) const fn total(self) -> u64 {
        self.allowed.saturating_add(self.denied)
    }
}

impl Holding {
    /// A bucket that was never heard of, and the question for its first assignment.
    pub(super) fn first(usage: Usage, measure: Measure, now_ms: u64) -> (Self, Ask) {
        let new = Self {
            granted: 0,
            granted_ms: now_ms,
            reported_ms: now_ms,
            used_ms: now_ms,
            odd: false,
        };
        let want = measure.outstanding_max.div_ceil(FIRST_PART);
        (new, Ask { want, left: 0, returned: 0, spent: clamped(usage.allowed) })
    }

    /// The question for the next assignment. What was granted last is accounted for with it.
    pub(super) fn next(&mut self, usage: Usage, measure: Measure, now_ms: u64) -> Ask {
        let elapsed_ms = now_ms.saturating_sub(self.reported_ms).max(RATE_MS_MIN);
        self.reported_ms = now_ms;
        if usage.total() > 0 {
            self.used_ms = now_ms;
        }
        let demand = usage.total().saturating_mul(measure.lifetime_ms()) / elapsed_ms;
        // A quarter more, for what grows.
        let want = clamped(demand.saturating_add(demand / 4));
        let least = (measure.outstanding_max / LEAST_PART).max(1);
        let (returned, spent) = self.account(usage, measure, now_ms);
        let want = want.max(least).min(measure.outstanding_max);
        Ask { want, left: 0, returned, spent }
    }

    /// Whether nobody has used it for so long.
    pub(super) const fn is_idle(&self, idle_ms: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.used_ms) >= idle_ms
    }

    /// What was granted last and not used, and what was used without having been granted.
    fn account(&mut self, usage: Usage, measure: Measure, now_ms: u64) -> (u32, u32) {
        let allowed = clamped(usage.allowed);
        let granted = core::mem::take(&mut self.granted);
        // What has expired counts as used: the lender has written it off.
        let expired = now_ms.saturating_sub(self.granted_ms) >= measure.lifetime_ms();
        let returned = if expired { 0 } else { granted.saturating_sub(allowed) };
        (returned, allowed.saturating_sub(granted))
    }

    /// Takes what was lent, and says what Envoy is told; nothing if all is to be refused.
    pub(super) fn grant(
        &mut self,
        granted: u32,
        measure: Measure,
        now_ms: u64,
    ) -> Option<TokenBucket> {
        (self.granted, self.granted_ms) = (granted, now_ms);
        self.odd = !self.odd;
        if granted == 0 {
            return None;
        }
        // Envoy goes on with a bucket that is like the last one, and would not get what it was lent anew. What it
        // compares differs with its version (of the interval seconds, or the part of a second), so one token
        // that is there at once, or comes later, makes another bucket of it.
        let at_once = granted.div_ceil(BURST_PART).saturating_add(u32::from(self.odd));
        let max_tokens = at_once.min(granted);
        let rest = granted - max_tokens;
        if rest == 0 {
            let (seconds, nanos) = NEVER;
            let fill_interval = (seconds + i64::from(self.odd), nanos + i32::from(self.odd));
            return Some(TokenBucket { max_tokens, tokens_per_fill: 1, fill_interval });
        }
        let fill_interval = (measure.lifetime_seconds.into(), 0);
        Some(TokenBucket { max_tokens, tokens_per_fill: rest, fill_interval })
    }
}

impl Measure {
    fn lifetime_ms(self) -> u64 {
        u64::from(self.lifetime_seconds) * 1_000
    }
}

/// What a bucket is called in the store, so that a client that chooses values chooses neither its length nor
/// another bucket.
pub(super) fn key(domain: &str, bucket: &HashMap<String, String>) -> Key {
    let mut pairs: Vec<(&String, &String)> = bucket.iter().collect();
    pairs.sort_unstable();
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut add = |text: &str| {
        hash.update(&text.len().to_be_bytes());
        hash.update(text.as_bytes());
    };
    add(domain);
    for (name, value) in pairs {
        add(name);
        add(value);
    }
    let hash = hash.finish();
    let mut key = Key::default();
    key.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
    key
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten in a second.
    const MEASURE: Measure = Measure { lifetime_seconds: 10, outstanding_max: 100 };

    const fn usage(allowed: u64, denied: u64) -> Usage {
        Usage { allowed, denied }
    }

    const fn ask(want: u32, returned: u32, spent: u32) -> Ask {
        Ask { want, left: 0, returned, spent }
    }

    #[test]
    fn questions() {
        let (mut holding, first) = Holding::first(usage(1, 0), MEASURE, 0);
        assert_eq!(first, ask(50, 0, 1));
        // Seconds since the start, usage, the question, what is granted to it.
        for (seconds, used, expected, granted) in [
            // Nothing was granted to the first question.
            (5, usage(10, 0), ask(25, 0, 10), 20),
            (10, usage(10, 10), ask(50, 10, 0), 50),
            // More than was granted: some of it had passed before.
            (15, usage(60, 0), ask(100, 0, 10), 100),
            // Reports that follow each other at once do not make a rate.
            (15, usage(1, 0), ask(12, 99, 0), 12),
            (20, usage(0, 0), ask(6, 12, 0), 6),
            // It was over before.
            (30, usage(2, 0), ask(6, 0, 0), 6),
            (35, usage(u64::MAX, u64::MAX), ask(100, 0, u32::MAX - 6), 0),
        ] {
            let now_ms = seconds * 1_000;
            assert_eq!(holding.next(used, MEASURE, now_ms), expected, "at {seconds}");
            holding.grant(granted, MEASURE, now_ms);
        }
        // A report of nothing is no use.
        holding.next(usage(0, 0), MEASURE, 90_000);
        assert!(!holding.is_idle(60_000, 94_999) && holding.is_idle(60_000, 95_000));
    }

    /// What Envoy is told lets through no more than what was lent, and is never what it was told before.
    #[test]
    fn assignments() {
        let (mut holding, _) = Holding::first(Usage::default(), MEASURE, 0);
        assert_eq!(holding.grant(0, MEASURE, 0), None);
        for granted in (1..200).chain([u32::MAX - 1, u32::MAX]) {
            let told: Vec<_> =
                (0..2).map(|_| holding.grant(granted, MEASURE, 0).unwrap()).collect();
            for bucket in &told {
                let (seconds, _) = bucket.fill_interval;
                let refilled = u64::from(bucket.tokens_per_fill) * 10 / seconds as u64;
                assert!(u64::from(bucket.max_tokens) + refilled <= granted.into(), "{bucket:?}");
            }
            assert_ne!(told[0], told[1]);
        }
    }

    #[test]
    fn keys() {
        let bucket = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let one = key("d", &bucket(&[("a", "b"), ("c", "d")]));
        assert_eq!(one, key("d", &bucket(&[("c", "d"), ("a", "b")])));
        for (domain, pairs) in
            [("e", &[("a", "b"), ("c", "d")][..]), ("d", &[("a", "bcd")]), ("d", &[("ab", "cd")])]
        {
            assert_ne!(one, key(domain, &bucket(pairs)), "{domain} {pairs:?}");
        }
    }
}
