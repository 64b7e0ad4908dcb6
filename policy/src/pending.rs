//! Requests whose bodies are still awaited, and what has come of them, counted for each client over all workers.
//!
//! Whoever waits for a body holds something for it: ext_proc a stream, Envoy a buffer. A client that sends
//! heads and no bodies would hold all of the streams, and one whose bodies have no end all of Envoy's memory.
//! Bodies are counted in whole MiB, so that small ones cost nothing: the first MiB of each is free.
//!
//! Shared data forgets nothing, and a VM may die with requests under way, so that one number for each client
//! would leak. Each worker writes down how many requests of a client are pending *with it*, and confirms that
//! while it lasts. What nobody has confirmed for [`STALE_NS`] does not count. The table has a fixed size; a
//! client without a place in it is counted by each worker alone.

use crate::shared::{HostError, SharedData};
use crate::table::key_of_set;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most numbers in a set: one for each client and worker.
pub(crate) const WAYS: usize = 64;
/// Sets of the table: 2 MiB in all when each is full.
pub(crate) const SETS: u64 = 1_024;
/// A number that has not been confirmed for so long does not count.
pub(crate) const STALE_NS: u64 = 30_000_000_000;
/// A number is confirmed so often.
const CONFIRM_NS: u64 = 10_000_000_000;
/// The most numbers that a worker confirms at a tick.
const CONFIRMED_MAX: usize = 256;
const KEY_PREFIX: &str = "glacis.wasm/3/p/";
const ENTRY_BYTES: usize = 32;

/// How many a client may have, as the configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) per_client: u32,
    /// MiB of their bodies, without the first of each.
    pub(crate) mib_per_client: u32,
    /// Only count and note what would be rejected.
    pub(crate) shadow: bool,
}

/// The pending requests of a worker, and what it knows of the others'.
#[derive(Debug)]
pub(crate) struct PendingBodies {
    settings: Settings,
    /// A number that no other worker has.
    worker: u64,
    /// By client.
    own: Mutex<BTreeMap<u64, Own>>,
}

/// A request whose body is awaited.
#[derive(Clone, Copy, Debug)]
pub struct PendingBody {
    /// The client under which it is counted.
    client: u64,
    /// Bytes that have come.
    bytes: u64,
    /// MiB of them that are counted.
    mib: u32,
    /// It has gone beyond what its client may hold, in shadow mode.
    is_beyond: bool,
}

impl PendingBody {
    pub(crate) const fn of(client: u64) -> Self {
        Self { client, bytes: 0, mib: 0, is_beyond: false }
    }

    pub(crate) const fn client(&self) -> u64 {
        self.client
    }

    pub(crate) const fn mib(&self) -> u32 {
        self.mib
    }

    /// Takes further bytes. Returns how many MiB more are to be counted.
    pub(crate) fn take(&mut self, bytes: usize) -> u32 {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let whole = u32::try_from(self.bytes >> 20).unwrap_or(u32::MAX);
        whole.saturating_sub(self.mib)
    }

    /// So many MiB more are counted.
    pub(crate) const fn counted(&mut self, mib: u32) {
        self.mib = self.mib.saturating_add(mib);
    }

    /// Whether it had gone beyond before; from now on it has.
    pub(crate) const fn was_beyond(&mut self) -> bool {
        std::mem::replace(&mut self.is_beyond, true)
    }
}

/// What a client holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Requests whose bodies are awaited.
    pub(crate) requests: u32,
    /// MiB of them, without the first of each.
    pub(crate) mib: u32,
}

impl Held {
    const NOTHING: Self = Self { requests: 0, mib: 0 };

    const fn and(self, more: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(more.requests),
            mib: self.mib.saturating_add(more.mib),
        }
    }

    const fn without(self, less: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(less.requests),
            mib: self.mib.saturating_sub(less.mib),
        }
    }
}

/// What this worker has of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    held: Held,
    confirmed_ns: u64,
}

/// What a worker has written down of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    client: u64,
    worker: u64,
    held: Held,
    confirmed_ns: u64,
}

impl PendingBodies {
    pub(crate) fn new(settings: Settings, worker: u64) -> Self {
        Self { settings, worker, own: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// Counts a request of this client, unless it has as many as it may; whether that was so. In shadow mode a request
    /// beyond is counted, too.
    pub(crate) fn begin(&self, shared: &impl SharedData, client: u64, now_ns: u64) -> bool {
        self.add(shared, client, Held { requests: 1, mib: 0 }, now_ns)
    }

    /// Counts so many further MiB of a body, unless the client has as many as it may; whether that was so.
    pub(crate) fn grow(
        &self,
        shared: &impl SharedData,
        client: u64,
        mib: u32,
        now_ns: u64,
    ) -> bool {
        self.add(shared, client, Held { requests: 0, mib }, now_ns)
    }

    fn add(&self, shared: &impl SharedData, client: u64, more: Held, now_ns: u64) -> bool {
        let Settings { per_client, mib_per_client, shadow } = self.settings;
        // Locked to the end: two threads that add to one client at a time count both.
        let mut known = self.own();
        let own = known.get(&client).map(|own| own.held);
        let own = own.unwrap_or_default().and(more);
        let is_beyond = |others: Held| {
            let all = own.and(others);
            all.requests > per_client || all.mib > mib_per_client
        };
        // The worker counts alone where the host fails, or others write all the time.
        let mut beyond = is_beyond(Held::NOTHING);
        let _ = change(shared, client, now_ns, |entries| {
            let others = entries.iter().filter(|entry| entry.is_of_another(client, self.worker));
            beyond = is_beyond(others.fold(Held::NOTHING, |all, entry| all.and(entry.held)));
            if !beyond || shadow {
                self.write_down(entries, client, own, now_ns);
            }
            !beyond || shadow
        });
        if !beyond || shadow {
            known.insert(client, Own { held: own, confirmed_ns: now_ns });
        }
        beyond
    }

    /// A counted request of this client is pending no more, nor are so many MiB of its body.
    pub(crate) fn end(&self, shared: &impl SharedData, client: u64, mib: u32, now_ns: u64) {
        let mut own = self.own();
        let Some(before) = own.get(&client).copied() else { return };
        let left = before.held.without(Held { requests: 1, mib });
        match left.requests {
            0 => own.remove(&client),
            _ => own.insert(client, Own { held: left, confirmed_ns: now_ns }),
        };
        // What cannot be taken back is stale soon, or right again with the client's next request.
        let _ = change(shared, client, now_ns, |entries| {
            self.write_down(entries, client, left, now_ns);
            true
        });
    }

    /// Confirms what is still pending. For ticks.
    pub(crate) fn confirm(&self, shared: &impl SharedData, now_ns: u64) {
        let mut own = self.own();
        let is_due = |own: &Own| now_ns.abs_diff(own.confirmed_ns) >= CONFIRM_NS;
        let due = own.iter_mut().filter(|(_, own)| is_due(own));
        for (client, own) in due.take(CONFIRMED_MAX) {
            own.confirmed_ns = now_ns;
            let held = own.held;
            let _ = change(shared, *client, now_ns, |entries| {
                self.write_down(entries, *client, held, now_ns);
                true
            });
        }
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<u64, Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts this worker's numbers of a client in the place of those before, if there is room for them.
    fn write_down(&self, entries: &mut Vec<Entry>, client: u64, held: Held, confirmed_ns: u64) {
        entries.retain(|entry| entry.client != client || entry.worker != self.worker);
        if held.requests > 0 && entries.len() < WAYS {
            entries.push(Entry { client, worker: self.worker, held, confirmed_ns });
        }
    }
}

impl Entry {
    fn is_of_another(&self, client: u64, worker: u64) -> bool {
        self.client == client && self.worker != worker
    }

    fn is_fresh(&self, now_ns: u64) -> bool {
        self.held.requests > 0 && now_ns.abs_diff(self.confirmed_ns) < STALE_NS
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (client, rest) = bytes.split_first_chunk()?;
        let (worker, rest) = rest.split_first_chunk()?;
        let (requests, rest) = rest.split_first_chunk()?;
        let (mib, rest) = rest.split_first_chunk()?;
        Some(Self {
            client: u64::from_le_bytes(*client),
            worker: u64::from_le_bytes(*worker),
            held: Held { requests: u32::from_le_bytes(*requests), mib: u32::from_le_bytes(*mib) },
            confirmed_ns: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.client.to_le_bytes());
        out.extend_from_slice(&self.worker.to_le_bytes());
        out.extend_from_slice(&self.held.requests.to_le_bytes());
        out.extend_from_slice(&self.held.mib.to_le_bytes());
        out.extend_from_slice(&self.confirmed_ns.to_le_bytes());
    }
}

/// Changes the set in which a client is, if `change` says so. A value that this module did not write is an empty set.
fn change(
    shared: &impl SharedData,
    client: u64,
    now_ns: u64,
    mut change: impl FnMut(&mut Vec<Entry>) -> bool,
) -> Result<(), HostError> {
    let key = key_of_set(KEY_PREFIX, client % SETS);
    let ((), is_written) = shared.change(&key, |value| {
        let known = value.len() % ENTRY_BYTES == 0;
        let chunks = value.chunks_exact(ENTRY_BYTES).take(if known { WAYS } else { 0 });
        let mut entries: Vec<Entry> = chunks.filter_map(Entry::read).collect();
        entries.retain(|entry| entry.is_fresh(now_ns));
        if !change(&mut entries) {
            return (None, ());
        }
        let mut value = Vec::with_capacity(entries.len() * ENTRY_BYTES);
        entries.iter().for_each(|entry| entry.write(&mut value));
        (Some(value), ())
    })?;
    if is_written { Ok(()) } else { Err(HostError) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::ATTEMPTS_MAX;
    use crate::shared::memory::Memory;

    const T0: u64 = 1_700_000_000_000_000_000;

    fn worker(per_client: u32, worker: u64) -> PendingBodies {
        PendingBodies::new(Settings { per_client, mib_per_client: 4, shadow: false }, worker)
    }

    fn bytes_of(shared: &Memory, set: u64) -> usize {
        shared.read(&key_of_set(KEY_PREFIX, set)).unwrap().value.len()
    }

    #[test]
    fn as_many_as_a_client_may_have_and_one_more() {
        let (shared, one) = (Memory::default(), worker(3, 1));
        for _ in 0..3 {
            assert!(!one.begin(&shared, 7, T0));
        }
        assert!(one.begin(&shared, 7, T0) && one.begin(&shared, 7, T0));
        assert!(!one.begin(&shared, 8, T0), "another client");
        one.end(&shared, 7, 0, T0);
        assert!(!one.begin(&shared, 7, T0) && one.begin(&shared, 7, T0));
        // Nothing is left of what has ended, however often it ends.
        (0..5).for_each(|_| one.end(&shared, 7, 0, T0));
        one.end(&shared, 8, 0, T0);
        assert_eq!((bytes_of(&shared, 7), bytes_of(&shared, 8)), (0, 0));
        assert!(one.own().is_empty());
    }

    #[test]
    fn as_many_bytes_as_a_client_may_have_and_one_more_mib() {
        let shared = Memory::default();
        let (one, other) = (worker(9, 1), worker(9, 2));
        assert!(!one.begin(&shared, 7, T0) && !other.begin(&shared, 7, T0));
        assert!(!one.grow(&shared, 7, 1, T0) && !other.grow(&shared, 7, 3, T0));
        assert!(one.grow(&shared, 7, 1, T0) && other.grow(&shared, 7, 1, T0));
        assert!(!one.begin(&shared, 7, T0), "a small body");
        assert!(!one.begin(&shared, 8, T0) && !one.grow(&shared, 8, 4, T0), "another client");
        // What was not counted is not taken back.
        other.end(&shared, 7, 3, T0);
        assert!(!one.grow(&shared, 7, 3, T0) && one.grow(&shared, 7, 1, T0));
        one.end(&shared, 7, 4, T0);
        one.end(&shared, 7, 0, T0);
        one.end(&shared, 8, 4, T0);
        assert!(one.own().is_empty() && bytes_of(&shared, 7) == 0);
    }

    #[test]
    fn workers_count_together() {
        let shared = Memory::default();
        let (one, other) = (worker(3, 1), worker(3, 2));
        assert!(!one.begin(&shared, 7, T0) && !other.begin(&shared, 7, T0));
        assert!(!one.begin(&shared, 7, T0));
        assert!(one.begin(&shared, 7, T0) && other.begin(&shared, 7, T0));
        one.end(&shared, 7, 0, T0);
        assert!(!other.begin(&shared, 7, T0) && one.begin(&shared, 7, T0));
    }

    /// A VM that dies takes its requests with it: they count no longer than it takes to notice.
    #[test]
    fn what_is_not_confirmed_does_not_count() {
        let shared = Memory::default();
        let (dead, other) = (worker(2, 1), worker(2, 2));
        assert!(!dead.begin(&shared, 7, T0) && !dead.begin(&shared, 7, T0));
        assert!(other.begin(&shared, 7, T0 + STALE_NS - 1));
        // A worker that lives confirms.
        dead.confirm(&shared, T0 + CONFIRM_NS - 1);
        dead.confirm(&shared, T0 + CONFIRM_NS);
        assert!(other.begin(&shared, 7, T0 + CONFIRM_NS + STALE_NS - 1));
        assert!(!other.begin(&shared, 7, T0 + CONFIRM_NS + STALE_NS));
        // The clock is set back: what is far ahead is stale, too.
        assert!(!worker(1, 3).begin(&shared, 7, T0 - STALE_NS));
    }

    #[test]
    fn the_table_is_bounded_and_a_client_without_a_place_is_counted_here() {
        let (shared, one) = (Memory::default(), worker(1, 1));
        for client in 0..WAYS as u64 + 10 {
            assert!(!one.begin(&shared, client * SETS, T0));
            assert!(one.begin(&shared, client * SETS, T0), "client {client}");
        }
        assert_eq!((shared.keys(), bytes_of(&shared, 0)), (1, WAYS * ENTRY_BYTES));
        let crowded = worker(1, 2);
        assert!(crowded.begin(&shared, 0, T0), "it has a place");
        assert!(!crowded.begin(&shared, (WAYS as u64 + 5) * SETS, T0), "it has none");
    }

    #[test]
    fn races_and_refusals_of_the_host() {
        for lost_writes in [ATTEMPTS_MAX - 1, ATTEMPTS_MAX, u32::MAX] {
            let (shared, one) = (Memory::default(), worker(2, 1));
            shared.lost_writes.set(lost_writes);
            assert!(!one.begin(&shared, 7, T0) && !one.begin(&shared, 7, T0));
            assert!(one.begin(&shared, 7, T0), "{lost_writes} lost writes");
            one.end(&shared, 7, 0, T0);
            assert!(!one.begin(&shared, 7, T0));
        }
        let (shared, one) = (Memory::default(), worker(1, 1));
        shared.broken.set(true);
        assert!(!one.begin(&shared, 7, T0) && one.begin(&shared, 7, T0));
        one.end(&shared, 7, 0, T0);
        shared.broken.set(false);
        for value in [&b"x"[..], &[0xFF; ENTRY_BYTES * 2], &[0xFF; ENTRY_BYTES * (WAYS + 1)]] {
            shared.put(&key_of_set(KEY_PREFIX, 7), value).unwrap();
            assert!(!one.begin(&shared, 7, T0) && one.begin(&shared, 7, T0));
            one.end(&shared, 7, 0, T0);
        }
    }

    #[test]
    fn shadow_counts_on() {
        let shared = Memory::default();
        let one =
            PendingBodies::new(Settings { per_client: 1, mib_per_client: 0, shadow: true }, 1);
        assert!(!one.begin(&shared, 7, T0));
        assert!(one.begin(&shared, 7, T0) && one.begin(&shared, 7, T0));
        assert!(one.grow(&shared, 7, 1, T0));
        (0..2).for_each(|_| one.end(&shared, 7, 0, T0));
        assert!(one.begin(&shared, 7, T0), "one is left");
    }

    /// Ticks confirm all clients in turn, a bounded number at once.
    #[test]
    fn a_tick_is_bounded() {
        let (shared, one) = (Memory::default(), worker(1, 1));
        let clients = CONFIRMED_MAX as u64 + 1;
        (0..clients).for_each(|client| assert!(!one.begin(&shared, client, T0)));
        let later = T0 + CONFIRM_NS;
        let confirmed = || one.own().values().filter(|own| own.confirmed_ns == later).count();
        one.confirm(&shared, later);
        assert_eq!(confirmed(), CONFIRMED_MAX);
        one.confirm(&shared, later);
        assert_eq!(confirmed() as u64, clients);
    }
}
