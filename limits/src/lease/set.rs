//! The borrower's memory: sets of a fixed size, each one value of a store that forgets nothing.
//!
//! A keyed hash of the client picks the set, as in the tables of limits that are not leased. In a
//! full set a newcomer takes over the place of a key without a lease that owes the least, *with
//! its debt*; only where all eight hold a lease it takes one of those, the smallest, whose tokens
//! are lost (the lender counts them as spent). To push out the lease of another a stranger needs
//! eight hot keys in its set, so, not knowing the hash, eight for every set of the table, and each
//! of them has to be hot at the same time: that is as many requests as the lease is worth many
//! times over, and the key that was pushed out asks again with its next requests.

use super::borrower::{Borrowed, Borrower, Spent, Wish};

/// Keys in a set.
pub const WAYS: usize = 8;

/// Eight bytes, little-endian, before the state of each key.
const FINGERPRINT_BYTES: usize = 8;

const ENTRY_BYTES: usize = FINGERPRINT_BYTES + Borrowed::BYTES;

/// The longest value of a set.
pub const SET_BYTES_MAX: usize = WAYS * ENTRY_BYTES;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Whether it passes.
    pub spent: Spent,
    /// Whether the lender should be asked.
    pub wish: Wish,
    /// Whether the key was new to a full set.
    pub crowded: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    fingerprint: u64,
    state: Borrowed,
}

/// The set after a request has spent its cost, and what that says to it.
#[must_use]
pub fn spend(
    borrower: &Borrower,
    value: &[u8],
    fingerprint: u64,
    now_ns: u64,
    cost: u32,
    asks_within_ns: u64,
) -> (Vec<u8>, Taken) {
    let mut entries = unpack(borrower, value, now_ns);
    let own = entries.iter().position(|entry| entry.fingerprint == fingerprint);
    let crowded = own.is_none() && entries.len() >= WAYS;
    let before = match own {
        Some(place) => entries.swap_remove(place).state,
        None if crowded => pushed_out(&mut entries).debt_alone(),
        None => Borrowed::default(),
    };
    let (state, spent, wish) = borrower.spend(before, now_ns, cost, asks_within_ns);
    entries.push(Entry { fingerprint, state });
    (pack(&entries), Taken { spent, wish, crowded })
}

/// The set after `change` was made to the state of a key; `None` if the key is not in it.
pub fn change<T>(
    borrower: &Borrower,
    value: &[u8],
    fingerprint: u64,
    now_ns: u64,
    change: impl FnOnce(Borrowed) -> (Borrowed, T),
) -> Option<(Vec<u8>, T)> {
    let mut entries = unpack(borrower, value, now_ns);
    let own = entries.iter_mut().find(|entry| entry.fingerprint == fingerprint)?;
    let (state, result) = change(own.state);
    own.state = state;
    Some((pack(&entries), result))
}

/// The state of a key, settled; `None` if it is not in the set.
#[must_use]
pub fn find(borrower: &Borrower, value: &[u8], fingerprint: u64, now_ns: u64) -> Option<Borrowed> {
    let entries = unpack(borrower, value, now_ns);
    entries.iter().find(|entry| entry.fingerprint == fingerprint).map(|entry| entry.state)
}

fn pushed_out(entries: &mut Vec<Entry>) -> Borrowed {
    let least = entries.iter().enumerate().min_by_key(|(_, entry)| entry.state.worth());
    let place = least.map(|(place, _)| place);
    place.map(|place| entries.swap_remove(place).state).unwrap_or_default()
}

/// Reads a set. A value that was not written here is an empty set.
fn unpack(borrower: &Borrower, value: &[u8], now_ns: u64) -> Vec<Entry> {
    if !value.len().is_multiple_of(ENTRY_BYTES) || value.len() > SET_BYTES_MAX {
        return Vec::new();
    }
    let entry = |chunk: &[u8]| {
        let (fingerprint, state) = chunk.split_first_chunk::<FINGERPRINT_BYTES>()?;
        let state = borrower.settled(Borrowed::read(state)?, now_ns);
        Some(Entry { fingerprint: u64::from_le_bytes(*fingerprint), state })
    };
    let mut entries = Vec::with_capacity(WAYS);
    entries.extend(value.chunks_exact(ENTRY_BYTES).filter_map(entry));
    entries.retain(|entry: &Entry| !borrower.is_blank(&entry.state, now_ns));
    entries
}

fn pack(entries: &[Entry]) -> Vec<u8> {
    let mut value = Vec::with_capacity(entries.len() * ENTRY_BYTES);
    for entry in entries {
        value.extend_from_slice(&entry.fingerprint.to_le_bytes());
        entry.state.write(&mut value);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Ask};
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const T0: u64 = 1_700_000_000 * SECOND_NS;

    fn borrower() -> Borrower {
        Borrower::new(4, 60 * SECOND_NS).unwrap()
    }

    fn take(value: &mut Vec<u8>, fingerprint: u64, now_ns: u64) -> Taken {
        let (next, taken) = spend(&borrower(), value, fingerprint, now_ns, 1, SECOND_NS);
        *value = next;
        taken
    }

    fn lend(value: &mut Vec<u8>, fingerprint: u64, tokens: u32, now_ns: u64) {
        let asked = Ask { want: tokens, ..Ask::default() };
        let told = Answer { granted: tokens, lifetime_ns: 6 * SECOND_NS, retry_after_ns: 0 };
        let answered = |state| (borrower().answered(state, now_ns, now_ns, &asked, &told), ());
        *value = change(&borrower(), value, fingerprint, now_ns, answered).unwrap().0;
    }

    fn allowed(taken: Taken) -> bool {
        matches!(taken.spent, Spent::Allowed { .. })
    }

    /// A flood of newcomers gets what eight places have without a lease, and moves no lease.
    #[test]
    fn newcomers_neither_gain_nor_push_out_a_lease() {
        let mut value = Vec::new();
        take(&mut value, 1, T0);
        lend(&mut value, 1, 50, T0);
        let strangers = (10..1_000).filter(|key| allowed(take(&mut value, *key, T0))).count();
        assert_eq!(strangers, 7 * 4, "seven places of four tokens each");
        assert!(value.len() <= SET_BYTES_MAX);
        let taken = take(&mut value, 1, T0);
        assert_eq!(taken.spent, Spent::Allowed { remaining: 49 });
        assert!(!taken.crowded && take(&mut value, 5_000, T0).crowded);
    }

    /// Who has used up its tokens, and floods the table to be forgotten, has gained nothing.
    #[test]
    fn nobody_is_rid_of_its_debt() {
        let mut value = Vec::new();
        assert_eq!((0..9).filter(|_| allowed(take(&mut value, 1, T0))).count(), 4);
        for round in 0..20 {
            for stranger in 0..200 {
                take(&mut value, 100 + round * 200 + stranger, T0);
            }
            assert!(!allowed(take(&mut value, 1, T0)), "round {round}");
        }
    }

    #[test]
    fn where_all_hold_a_lease_the_smallest_goes() {
        let mut value = Vec::new();
        for key in 1..=8 {
            take(&mut value, key, T0);
            lend(&mut value, key, 10 * u32::try_from(key).unwrap(), T0);
        }
        assert!(take(&mut value, 9, T0).crowded);
        assert!(find(&borrower(), &value, 1, T0).is_none());
        assert!((2..=9).all(|key| find(&borrower(), &value, key, T0).is_some()));
    }

    #[test]
    fn what_expired_makes_room() {
        let mut value = Vec::new();
        for key in 1..=8 {
            take(&mut value, key, T0);
        }
        assert!(!take(&mut value, 9, T0 + 61 * SECOND_NS).crowded);
        assert_eq!(value.len(), ENTRY_BYTES, "the others say nothing any more");
    }

    #[test]
    fn values_of_somebody_else_are_an_empty_set() {
        for value in
            [vec![1; 7], vec![0xFF; ENTRY_BYTES - 1], vec![0xFF; SET_BYTES_MAX + ENTRY_BYTES]]
        {
            let mut value = value;
            assert!(allowed(take(&mut value, 1, T0)));
        }
        let mut forged = vec![0xFF; SET_BYTES_MAX];
        assert!(!allowed(take(&mut forged, 1, T0)), "it looks like a set of debtors");
        assert!(change(&borrower(), &[], 1, T0, |state| (state, ())).is_none());
    }
}
