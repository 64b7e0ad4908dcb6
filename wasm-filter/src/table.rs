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

use crate::shared::{HostError, SharedData, WriteError};
use glacis_limits::token_bucket::{BucketState, Decision, TokenBucket};

/// Buckets in a set.
pub(crate) const WAYS: usize = 8;

/// How often a set is read again when another worker has changed it meanwhile.
///
/// A worker loses only against one that has won, so with `n` workers on one set a request waits
/// for at most that many others.
const ATTEMPTS_MAX: u32 = 8;

/// Units of a token of the bucket that wrote the set: eight bytes, little-endian.
const HEADER_BYTES: usize = 8;

/// Fingerprint (eight bytes, little-endian) and state of a bucket.
const ENTRY_BYTES: usize = 8 + BucketState::BYTES;

/// The table of one limit.
#[derive(Debug)]
pub(crate) struct Table {
    key_prefix: String,
    sets: u64,
    bucket: TokenBucket,
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
    /// A table with room for `entries` buckets, rounded up to whole sets.
    ///
    /// Tables of the same name share their buckets.
    pub(crate) fn new(name: &str, entries: u32, bucket: TokenBucket) -> Self {
        let sets = u64::from(entries).div_ceil(WAYS as u64).max(1);
        Self { key_prefix: format!("glacis.wasm/1/{name}/"), sets, bucket }
    }

    /// Takes one token of the client with this fingerprint.
    pub(crate) fn take(
        &self,
        shared: &impl SharedData,
        fingerprint: u64,
        now_ns: u64,
    ) -> Result<Taken, HostError> {
        let key = format!("{}{:x}", self.key_prefix, fingerprint % self.sets);
        let mut attempts_left = ATTEMPTS_MAX;
        loop {
            let stored = shared.read(&key)?;
            let (value, taken) = take_from_set(&self.bucket, &stored.value, fingerprint, now_ns);
            attempts_left -= 1;
            match shared.write(&key, &value, stored.mark) {
                Ok(()) => return Ok(taken),
                Err(WriteError::Changed) if attempts_left > 0 => {}
                Err(WriteError::Changed) => return Ok(Taken { recorded: false, ..taken }),
                Err(WriteError::Host) => return Err(HostError),
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    fingerprint: u64,
    state: BucketState,
}

/// The set after one token was taken from it, and what that says to the client.
fn take_from_set(
    bucket: &TokenBucket,
    value: &[u8],
    fingerprint: u64,
    now_ns: u64,
) -> (Vec<u8>, Taken) {
    let mut entries = unpack(bucket, value);
    for entry in &mut entries {
        entry.state = bucket.settle(entry.state, now_ns);
    }
    entries.retain(|entry| entry.state.debt_units() > 0);
    let before = withdraw(&mut entries, fingerprint);
    let state = before.map_or(BucketState::FULL, |entry| entry.state);
    let (state, decision) = bucket.take(state, now_ns, 1);
    entries.push(Entry { fingerprint, state });
    let crowded = before.is_some_and(|entry| entry.fingerprint != fingerprint);
    (pack(bucket, &entries), Taken { decision, recorded: true, crowded })
}

/// Removes the client's own bucket; in a full set without it, the one that owes the least.
fn withdraw(entries: &mut Vec<Entry>, fingerprint: u64) -> Option<Entry> {
    let own = entries.iter().position(|entry| entry.fingerprint == fingerprint);
    let place = own.or_else(|| (entries.len() >= WAYS).then(|| least_debt(entries)).flatten());
    place.map(|place| entries.swap_remove(place))
}

fn least_debt(entries: &[Entry]) -> Option<usize> {
    let debts = entries.iter().map(|entry| entry.state.debt_units());
    debts.enumerate().min_by_key(|(_, debt)| *debt).map(|(place, _)| place)
}

/// Reads a set. A value that this module did not write is an empty set.
fn unpack(bucket: &TokenBucket, value: &[u8]) -> Vec<Entry> {
    let Some((header, rest)) = value.split_first_chunk::<HEADER_BYTES>() else {
        return Vec::new();
    };
    let (chunks, []) = rest.as_chunks::<ENTRY_BYTES>() else {
        return Vec::new();
    };
    if chunks.len() > WAYS {
        return Vec::new();
    }
    // A reload may have changed the numbers of the limit since; what is owed is kept.
    let written_in = u64::from_le_bytes(*header);
    let rescaled = |state: BucketState| state.rescaled(written_in, bucket.units_per_token());
    let entry = |chunk: &[u8; ENTRY_BYTES]| {
        let (fingerprint, state) = chunk.split_first_chunk::<8>()?;
        let state = rescaled(BucketState::from_bytes(state)?);
        Some(Entry { fingerprint: u64::from_le_bytes(*fingerprint), state })
    };
    chunks.iter().filter_map(entry).collect()
}

fn pack(bucket: &TokenBucket, entries: &[Entry]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    value.extend_from_slice(&bucket.units_per_token().to_le_bytes());
    for entry in entries {
        value.extend_from_slice(&entry.fingerprint.to_le_bytes());
        value.extend_from_slice(&entry.state.to_bytes());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::memory::Memory;

    const SECOND_NS: u64 = 1_000_000_000;
    const T0: u64 = 1_700_000_000 * SECOND_NS;

    fn table(entries: u32, burst: u32) -> Table {
        Table::new("t", entries, TokenBucket::new(burst, 1, SECOND_NS).unwrap())
    }

    /// One request of a client, and whether it is allowed with how many tokens left.
    type Row = (u64, u64, bool, u32);

    #[track_caller]
    fn check(table: &Table, shared: &Memory, rows: &[Row]) {
        for (i, (fingerprint, at_ns, allowed, remaining)) in rows.iter().enumerate() {
            let taken = table.take(shared, *fingerprint, T0 + at_ns).unwrap();
            let decision = taken.decision;
            assert!(taken.recorded);
            assert_eq!((decision.allowed, decision.remaining), (*allowed, *remaining), "row {i}");
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
                assert!(!table.take(&shared, fingerprint, T0).unwrap().crowded);
            }
        }
        let before = Memory::default();
        before.put("glacis.wasm/1/t/0", &shared.read("glacis.wasm/1/t/0").unwrap().value);
        let crowded = |fingerprint, at_ns| {
            let later = table.take(&before, fingerprint, at_ns).unwrap();
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
            allowed += u64::from(table.take(&shared, fingerprint, at_ns).unwrap().decision.allowed);
        }
        let most = 64 * (3 + seconds);
        assert!((64 * 3..=most).contains(&allowed), "{allowed} of at most {most}");
        assert_eq!(shared.keys(), 8);
        let set_bytes = HEADER_BYTES + WAYS * ENTRY_BYTES + "glacis.wasm/1/t/7".len();
        assert!(shared.bytes() <= 8 * set_bytes, "{} bytes", shared.bytes());
    }

    #[test]
    fn values_of_somebody_else_are_an_empty_set() {
        let one_entry_more = vec![0xFF; HEADER_BYTES + (WAYS + 1) * ENTRY_BYTES];
        let rows: [&[u8]; 5] = [b"", b"x", &[0xFF; 8], &[0xFF; 31], &one_entry_more];
        for value in rows {
            let (table, shared) = (table(8, 2), Memory::default());
            shared.put("glacis.wasm/1/t/0", value);
            check(&table, &shared, &[(1, 0, true, 1), (1, 0, true, 0), (1, 0, false, 0)]);
        }
        // One that looks like a set: the worst is that its places are taken for a while.
        let (table, shared) = (table(8, 2), Memory::default());
        let mut forged = SECOND_NS.to_le_bytes().to_vec();
        forged.resize(HEADER_BYTES + WAYS * ENTRY_BYTES, 0xFF);
        shared.put("glacis.wasm/1/t/0", &forged);
        check(&table, &shared, &[(1, 0, false, 0), (1, 2 * SECOND_NS, true, 1)]);
    }

    #[test]
    fn a_reload_keeps_the_debt() {
        let shared = Memory::default();
        let old = table(8, 4);
        check(&old, &shared, &[(1, 0, true, 3), (1, 0, true, 2), (1, 0, true, 1)]);
        let new = Table::new("t", 8, TokenBucket::new(5, 7, 3 * SECOND_NS).unwrap());
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
            let result = table.take(&shared, 1, T0).map(|taken| taken.recorded);
            assert_eq!(result, expected, "{lost_writes} lost writes");
        }
        let (table, shared) = (table(8, 1), Memory::default());
        shared.broken.set(true);
        assert_eq!(table.take(&shared, 1, T0), Err(HostError));
    }
}
