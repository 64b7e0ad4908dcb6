//! Buckets of many clients in a store that forgets nothing: a table of a fixed size.
//!
//! Shared data has neither expiry nor a way to remove a key, so a key for each client would be a
//! leak that any client can open. Here a keyed hash of the client picks one of a fixed number of
//! *sets*; a set is one value of the store and holds up to [`WAYS`] buckets.
//!
//! # When a set is full
//!
//! A bucket that has become full again says nothing that its absence does not say, so it is
//! dropped first. If all buckets of the set are in use, the newcomer takes over the one that owes
//! the least, *with its debt*. No debt is ever forgiven by pushing a bucket out, so a flood of
//! addresses gains nothing: each place in the table obeys the law of one bucket, whoever uses it,
//! and a table of `n` places lets through `n * burst` requests and then `n` times the rate, at the
//! very most. The busiest clients keep their own buckets. The price is that a newcomer to a set of
//! eight busy clients can be refused for what the least busy of them did; for that an attacker has
//! to keep eight addresses busy in *every* set, for the hash is secret.
//!
//! Nor can anybody wash off its own debt by pushing itself out. Who is pushed out owed the least of
//! its set, all debts of a set are repaid at the same rate, and a place is given away without its
//! debt only when that is nothing: so whoever comes back is held to no less than it owed.

use crate::shared::{HostError, SharedData};
use glacis_limits::gcra::Gcra;
use glacis_limits::meter::Meter;
use glacis_limits::token_bucket::{Decision, TokenBucket};

/// Buckets in a set.
pub(crate) const WAYS: usize = 8;

/// Units of a token of the meter that wrote the set: eight bytes, little-endian.
const HEADER_BYTES: usize = 8;

/// Eight bytes, little-endian, before the state of each client.
const FINGERPRINT_BYTES: usize = 8;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    TokenBucket(TokenBucket),
    Gcra(Gcra),
}

/// The table of one limit.
#[derive(Debug)]
pub(crate) struct Table {
    key_prefix: String,
    sets: u64,
    algorithm: Algorithm,
}

/// What the table says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) decision: Decision,
    /// Whether it was written down. If not, other workers were faster every time, and the
    /// decision stands without having cost the client anything.
    pub(crate) recorded: bool,
    /// Whether the client was new to a full set, and so was held to the debt of another.
    pub(crate) crowded: bool,
}

impl Table {
    /// A table with room for `entries` clients, rounded up to whole sets.
    ///
    /// Tables of the same name share their clients, if they count by the same algorithm.
    pub(crate) fn new(name: &str, entries: u32, algorithm: Algorithm) -> Self {
        let sets = u64::from(entries).div_ceil(WAYS as u64).max(1);
        let kind = match algorithm {
            Algorithm::TokenBucket(_) => "b",
            Algorithm::Gcra(_) => "g",
        };
        Self { key_prefix: format!("glacis.wasm/2/{kind}/{name}/"), sets, algorithm }
    }

    /// Takes what a request of the client with this fingerprint costs.
    pub(crate) fn take(
        &self,
        shared: &impl SharedData,
        fingerprint: u64,
        now_ns: u64,
        cost: u32,
    ) -> Result<Taken, HostError> {
        match &self.algorithm {
            Algorithm::TokenBucket(meter) => self.take_by(meter, shared, fingerprint, now_ns, cost),
            Algorithm::Gcra(meter) => self.take_by(meter, shared, fingerprint, now_ns, cost),
        }
    }

    fn take_by<M: Meter>(
        &self,
        meter: &M,
        shared: &impl SharedData,
        fingerprint: u64,
        now_ns: u64,
        cost: u32,
    ) -> Result<Taken, HostError> {
        let key = key_of_set(&self.key_prefix, fingerprint % self.sets);
        let (taken, recorded) = shared.change(&key, |value| {
            let (value, taken) = take_from_set(meter, value, fingerprint, now_ns, cost);
            (Some(value), taken)
        })?;
        Ok(Taken { recorded, ..taken })
    }
}

/// The key of a set: its number in hexadecimal. Without the machinery of formatting, which takes as long as
/// the rest of a check.
pub(crate) fn key_of_set(prefix: &str, set: u64) -> String {
    const DIGITS: u32 = u64::BITS / 4;
    let mut key = String::with_capacity(prefix.len() + DIGITS as usize);
    key.push_str(prefix);
    let zeroes = (set | 1).leading_zeros() / 4;
    for digit in (0..DIGITS - zeroes).rev() {
        key.extend(char::from_digit((set >> (4 * digit)) as u32 & 0xF, 16));
    }
    key
}

#[derive(Clone, Copy, Debug)]
struct Entry<S> {
    fingerprint: u64,
    state: S,
}

/// The set after a request has taken its cost from it, and what that says to the client.
fn take_from_set<M: Meter>(
    meter: &M,
    value: &[u8],
    fingerprint: u64,
    now_ns: u64,
    cost: u32,
) -> (Vec<u8>, Taken) {
    let mut entries = unpack(meter, value, now_ns);
    for entry in &mut entries {
        entry.state = meter.settled(entry.state, now_ns);
    }
    entries.retain(|entry| meter.debt(entry.state, now_ns) > 0);
    let before = withdraw(meter, &mut entries, fingerprint, now_ns);
    let state = before.map_or(M::FULL, |entry| entry.state);
    let (state, decision) = meter.take(state, now_ns, cost);
    entries.push(Entry { fingerprint, state });
    let crowded = before.is_some_and(|entry| entry.fingerprint != fingerprint);
    (pack(meter, &entries), Taken { decision, recorded: true, crowded })
}

/// Removes the client's own entry; in a full set without it, the one that owes the least.
fn withdraw<M: Meter>(
    meter: &M,
    entries: &mut Vec<Entry<M::State>>,
    fingerprint: u64,
    now_ns: u64,
) -> Option<Entry<M::State>> {
    let own = entries.iter().position(|entry| entry.fingerprint == fingerprint);
    let least = || {
        let debts = entries.iter().map(|entry| meter.debt(entry.state, now_ns));
        debts.enumerate().min_by_key(|(_, debt)| *debt).map(|(place, _)| place)
    };
    let place = own.or_else(|| (entries.len() >= WAYS).then(least).flatten());
    place.map(|place| entries.swap_remove(place))
}

/// Reads a set. A value that this module did not write is an empty set.
fn unpack<M: Meter>(meter: &M, value: &[u8], now_ns: u64) -> Vec<Entry<M::State>> {
    let Some((header, rest)) = value.split_first_chunk::<HEADER_BYTES>() else {
        return Vec::new();
    };
    let entry_bytes = FINGERPRINT_BYTES + M::STATE_BYTES;
    if rest.len() % entry_bytes != 0 || rest.len() > WAYS * entry_bytes {
        return Vec::new();
    }
    // A reload may have changed the numbers of the limit since; what is owed is kept.
    let written_in = u64::from_le_bytes(*header);
    let entry = |chunk: &[u8]| {
        let (fingerprint, state) = chunk.split_first_chunk::<FINGERPRINT_BYTES>()?;
        let state = meter.rescaled(M::read(state)?, written_in, now_ns);
        Some(Entry { fingerprint: u64::from_le_bytes(*fingerprint), state })
    };
    rest.chunks_exact(entry_bytes).filter_map(entry).collect()
}

fn pack<M: Meter>(meter: &M, entries: &[Entry<M::State>]) -> Vec<u8> {
    let entry_bytes = FINGERPRINT_BYTES + M::STATE_BYTES;
    let mut value = Vec::with_capacity(HEADER_BYTES + entries.len() * entry_bytes);
    value.extend_from_slice(&meter.units_per_token().to_le_bytes());
    for entry in entries {
        value.extend_from_slice(&entry.fingerprint.to_le_bytes());
        M::write(entry.state, &mut value);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::memory::Memory;

    const SECOND_NS: u64 = 1_000_000_000;
    const T0: u64 = 1_700_000_000 * SECOND_NS;

    const ENTRY_BYTES: usize = FINGERPRINT_BYTES + TokenBucket::STATE_BYTES;

    fn table(entries: u32, burst: u32) -> Table {
        bucket_table(entries, burst, 1, SECOND_NS)
    }

    fn bucket_table(entries: u32, burst: u32, tokens: u32, period_ns: u64) -> Table {
        let bucket = TokenBucket::new(burst, tokens, period_ns).unwrap();
        Table::new("t", entries, Algorithm::TokenBucket(bucket))
    }

    fn gcra_table(entries: u32, burst: u32) -> Table {
        Table::new("t", entries, Algorithm::Gcra(Gcra::new(burst, 1, SECOND_NS).unwrap()))
    }

    /// One request of a client, and whether it is allowed with how many tokens left.
    type Row = (u64, u64, bool, u32);

    #[track_caller]
    fn check(table: &Table, shared: &Memory, rows: &[Row]) {
        for (i, (fingerprint, at_ns, allowed, remaining)) in rows.iter().enumerate() {
            let taken = table.take(shared, *fingerprint, T0 + at_ns, 1).unwrap();
            let decision = taken.decision;
            assert!(taken.recorded);
            assert_eq!((decision.allowed, decision.remaining), (*allowed, *remaining), "row {i}");
        }
    }

    #[test]
    fn keys_of_sets() {
        for set in [0, 1, 9, 15, 16, 0x1F0, 0xABC_DEF0, u64::MAX] {
            assert_eq!(key_of_set("glacis.wasm/2/b/t/", set), format!("glacis.wasm/2/b/t/{set:x}"));
        }
    }

    #[test]
    fn clients_have_their_own_buckets() {
        let (table, shared) = (table(8, 2), Memory::default());
        check(
            &table,
            &shared,
            &[
                (1, 0, true, 1),
                (1, 0, true, 0),
                (1, 0, false, 0),
                (2, 0, true, 1),
                (1, SECOND_NS, true, 0),
                (2, SECOND_NS, true, 1),
            ],
        );
        assert_eq!(shared.keys(), 1);
    }

    /// Nine clients in a set of eight: the newcomer takes over the smallest debt.
    #[test]
    fn a_full_set() {
        let (table, shared) = (table(8, 4), Memory::default());
        for fingerprint in 1..=8 {
            for _ in 0..4.min(fingerprint + 1) {
                assert!(!table.take(&shared, fingerprint, T0, 1).unwrap().crowded);
            }
        }
        let before = Memory::default();
        before
            .put("glacis.wasm/2/b/t/0", &shared.read("glacis.wasm/2/b/t/0").unwrap().value)
            .unwrap();
        let crowded = |fingerprint, at_ns| {
            let later = table.take(&before, fingerprint, at_ns, 1).unwrap();
            later.crowded
        };
        assert!(crowded(9, T0), "a newcomer to a full set");
        assert!(!crowded(9, T0), "then it has a place of its own");
        assert!(!crowded(10, T0 + 3 * SECOND_NS), "a place that has refilled is free");
        check(
            &table,
            &shared,
            &[
                // Client 1 owes 2, the least; 9 inherits that, pays, and then owes 3.
                (9, 0, true, 1),
                // An offender has kept its place, and its debt.
                (8, 0, false, 0),
                // The place that owes least now is that of 2 or 9, with 3.
                (10, 0, true, 0),
                (11, 0, true, 0),
                // All eight owe everything now: a newcomer is refused.
                (12, 0, false, 0),
                (1, 0, false, 0),
                // Those that refilled are given away first, and whole.
                (12, 5 * SECOND_NS, true, 3),
            ],
        );
        assert_eq!(shared.keys(), 1);
    }

    /// No debt is laundered: whatever the addresses, a set lets through what its places allow.
    #[test]
    fn a_flood_of_addresses_gains_nothing() {
        let (table, shared) = (table(64, 3), Memory::default());
        let mut allowed = 0u64;
        let seconds = 5;
        for i in 0..100_000u64 {
            let at_ns = T0 + i * seconds * SECOND_NS / 100_000;
            let fingerprint = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            allowed +=
                u64::from(table.take(&shared, fingerprint, at_ns, 1).unwrap().decision.allowed);
        }
        let most = 64 * (3 + seconds);
        assert!((64 * 3..=most).contains(&allowed), "{allowed} of at most {most}");
        assert_eq!(shared.keys(), 8);
        let set_bytes = HEADER_BYTES + WAYS * ENTRY_BYTES + "glacis.wasm/2/b/t/7".len();
        assert!(shared.bytes() <= 8 * set_bytes, "{} bytes", shared.bytes());
    }

    /// Whoever is pushed out of a set and comes back is held to no less than it owed: whatever
    /// strangers do, and in whatever order, the table allows a client nothing that a bucket of its
    /// own, which nobody can push out, would not have allowed it.
    #[test]
    fn nobody_resets_its_own_bucket() {
        let (burst, tokens, period_ns) = (5, 1, SECOND_NS);
        let own = TokenBucket::new(burst, tokens, period_ns).unwrap();
        for (name, table) in [("bucket", table(16, burst)), ("gcra", gcra_table(16, burst))] {
            let mut crowded = 0;
            for seed in 1..=20u64 {
                let shared = Memory::default();
                let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut states = std::collections::HashMap::new();
                let mut now_ns = T0;
                for step in 0..2_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Few clients that come back often, among floods of new ones.
                    let fingerprint = match (random >> 40) % 4 {
                        0 => (random >> 50) % 6,
                        _ => (random >> 33) % 100,
                    };
                    let cost = 1 + u32::try_from((random >> 60) % 3).unwrap();
                    now_ns += (random >> 20) % 100_000_000;
                    let taken = table.take(&shared, fingerprint, now_ns, cost).unwrap();
                    crowded += u32::from(taken.crowded);
                    let state = states.entry(fingerprint).or_insert(TokenBucket::FULL);
                    if taken.decision.allowed {
                        let alone = own.take(*state, now_ns, cost);
                        assert!(alone.1.allowed, "{name}, seed {seed}, step {step}");
                        *state = alone.0;
                    }
                }
            }
            assert!(crowded > 5_000, "{name}: clients have to be pushed out, {crowded} were");
        }
    }

    /// The attack as it would be made: an address that has used up its limit floods the table from
    /// as many others as it takes, to find its own bucket full again. It pays for every one of
    /// them, and gains nothing.
    #[test]
    fn a_flood_does_not_reset_the_flooder() {
        for table in [table(64, 3), gcra_table(64, 3)] {
            let shared = Memory::default();
            let allowed = |fingerprint, at_ns| {
                table.take(&shared, fingerprint, at_ns, 1).unwrap().decision.allowed
            };
            let used_up = (0..10).filter(|_| allowed(1, T0)).count();
            assert_eq!(used_up, 3);
            for round in 0..10u64 {
                for stranger in 0..2_000u64 {
                    let hash = (round * 2_000 + stranger + 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    allowed(hash, T0);
                }
                assert!(!allowed(1, T0), "round {round}");
            }
        }
    }

    /// A table of GCRA takes sixteen bytes for each client, one of buckets 24.
    #[test]
    fn memory_of_a_full_table() {
        for (table, entry_bytes) in [(table(64, 3), 24), (gcra_table(64, 3), 16)] {
            let shared = Memory::default();
            for i in 0..10_000u64 {
                table.take(&shared, i.wrapping_mul(0x9E37_79B9_7F4A_7C15), T0, 1).unwrap();
            }
            let set_bytes = HEADER_BYTES + WAYS * entry_bytes + "glacis.wasm/2/b/t/7".len();
            assert_eq!(shared.bytes(), 8 * set_bytes);
        }
    }

    #[test]
    fn values_of_somebody_else_are_an_empty_set() {
        let one_entry_more = vec![0xFF; HEADER_BYTES + (WAYS + 1) * ENTRY_BYTES];
        let rows: [&[u8]; 5] = [b"", b"x", &[0xFF; 8], &[0xFF; 31], &one_entry_more];
        for value in rows {
            let (table, shared) = (table(8, 2), Memory::default());
            shared.put("glacis.wasm/2/b/t/0", value).unwrap();
            check(&table, &shared, &[(1, 0, true, 1), (1, 0, true, 0), (1, 0, false, 0)]);
        }
        // One that looks like a set: the worst is that its places are taken for a while.
        let (table, shared) = (table(8, 2), Memory::default());
        let mut forged = SECOND_NS.to_le_bytes().to_vec();
        forged.resize(HEADER_BYTES + WAYS * ENTRY_BYTES, 0xFF);
        shared.put("glacis.wasm/2/b/t/0", &forged).unwrap();
        check(&table, &shared, &[(1, 0, false, 0), (1, 2 * SECOND_NS, true, 1)]);
    }

    #[test]
    fn a_reload_keeps_the_debt() {
        let shared = Memory::default();
        let old = table(8, 4);
        check(&old, &shared, &[(1, 0, true, 3), (1, 0, true, 2), (1, 0, true, 1)]);
        let new = bucket_table(8, 5, 7, 3 * SECOND_NS);
        check(&new, &shared, &[(1, 0, true, 1)]);
        // While both are in use, neither loses anything but the fraction of a unit.
        check(&old, &shared, &[(1, 0, false, 0)]);
        check(&new, &shared, &[(1, 0, true, 0)]);
    }

    #[test]
    fn races_and_refusals_of_the_host() {
        let rows = [(0, Ok(true)), (7, Ok(true)), (8, Ok(false)), (u32::MAX, Ok(false))];
        for (lost_writes, expected) in rows {
            let (table, shared) = (table(8, 1), Memory::default());
            shared.lost_writes.set(lost_writes);
            let result = table.take(&shared, 1, T0, 1).map(|taken| taken.recorded);
            assert_eq!(result, expected, "{lost_writes} lost writes");
        }
        let (table, shared) = (table(8, 1), Memory::default());
        shared.broken.set(true);
        assert_eq!(table.take(&shared, 1, T0, 1), Err(HostError));
    }
}
