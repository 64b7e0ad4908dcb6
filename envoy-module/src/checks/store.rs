//! The state that all workers of the process share: what shared data of proxy-wasm is to the wasm-filter.

use core::hash::BuildHasher as _;
use std::{
    collections::{HashMap, hash_map::RandomState},
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use glacis_policy::{HostError, Mark, SharedData, Stored, WriteError};

/// Keys and values of all configurations, in bytes. A limit with the default table takes at most 0.7 MiB of it.
pub(super) const BYTES_MAX: usize = 256 << 20;

/// What an entry takes beside its key and its value: about that.
const ENTRY_BYTES: usize = 96;

/// Locks, so that workers seldom wait for each other.
const SHARDS: usize = 64;

/// The one store of the process. Limits outlive a configuration, as in the wasm-filter.
pub(super) static STORE: LazyLock<Store> = LazyLock::new(|| Store::new(BYTES_MAX));

/// Keys and values, spread over locks.
#[derive(Debug)]
pub(super) struct Store {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// Of all entries.
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// Values with the number of the write that made them.
#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Box<str>, (Vec<u8>, u32)>,
    writes: u32,
}

impl Store {
    fn new(bytes_max: usize) -> Self {
        let shards = core::array::from_fn(|_| Mutex::default());
        Self { shards, hasher: RandomState::new(), bytes: AtomicUsize::new(0), bytes_max }
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, Shard> {
        let place = self.hasher.hash_one(key) % SHARDS as u64;
        let place = usize::try_from(place).unwrap_or_default();
        // What a panic has left is whole: an entry is changed by one assignment.
        let [first, ..] = &self.shards;
        self.shards.get(place).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a value in the place of another, if there is room for it. An empty value is none.
    fn set(&self, shard: &mut Shard, key: &str, value: Vec<u8>) -> Result<(), HostError> {
        let size = |value: &[u8]| key.len() + value.len() + ENTRY_BYTES;
        let before = shard.entries.get(key).map_or(0, |(value, _)| size(value));
        let after = if value.is_empty() { 0 } else { size(&value) };
        let more = after.saturating_sub(before);
        let held = self.bytes.fetch_add(more, Ordering::Relaxed);
        if more > 0 && held.saturating_add(more) > self.bytes_max {
            self.bytes.fetch_sub(more, Ordering::Relaxed);
            return Err(HostError);
        }
        self.bytes.fetch_sub(before.saturating_sub(after), Ordering::Relaxed);
        shard.writes = shard.writes.wrapping_add(1);
        let version = shard.writes;
        if value.is_empty() {
            shard.entries.remove(key);
        } else if let Some(entry) = shard.entries.get_mut(key) {
            *entry = (value, version);
        } else {
            shard.entries.insert(key.into(), (value, version));
        }
        Ok(())
    }
}

impl SharedData for Store {
    fn read(&self, key: &str) -> Result<Stored, HostError> {
        Ok(match self.shard(key).entries.get(key) {
            Some((value, version)) => {
                Stored { value: value.clone(), mark: Mark::Version(*version) }
            }
            None => Stored { value: Vec::new(), mark: Mark::Absent },
        })
    }

    fn write(&self, key: &str, value: &[u8], mark: Mark) -> Result<(), WriteError> {
        let mut shard = self.shard(key);
        let known = shard.entries.get(key);
        if known.map_or(Mark::Absent, |(_, version)| Mark::Version(*version)) != mark {
            return Err(WriteError::Changed);
        }
        self.set(&mut shard, key, value.to_vec()).map_err(|HostError| WriteError::Host)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), HostError> {
        self.set(&mut self.shard(key), key, value.to_vec())
    }

    /// Within the lock: no race is ever lost.
    fn change<T>(
        &self,
        key: &str,
        mut change: impl FnMut(&[u8]) -> (Option<Vec<u8>>, T),
    ) -> Result<(T, bool), HostError> {
        let mut shard = self.shard(key);
        let value = shard.entries.get(key).map_or(&[][..], |(value, _)| value);
        let (value, result) = change(value);
        if let Some(value) = value {
            self.set(&mut shard, key, value)?;
        }
        Ok((result, true))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const KEY: &str = "key";

    #[test]
    fn a_write_needs_the_last_mark() {
        let store = Store::new(BYTES_MAX);
        let absent = store.read(KEY).unwrap();
        assert_eq!(absent, Stored { value: Vec::new(), mark: Mark::Absent });
        store.write(KEY, b"one", absent.mark).unwrap();
        assert_eq!(store.write(KEY, b"two", absent.mark), Err(WriteError::Changed));
        let one = store.read(KEY).unwrap();
        assert_eq!(one.value, b"one");
        store.write(KEY, b"two", one.mark).unwrap();
        assert_eq!(store.write(KEY, b"three", one.mark), Err(WriteError::Changed));
        store.put(KEY, b"four").unwrap();
        let changed = store.change(KEY, |value| (Some([value, b"!"].concat()), value.len()));
        assert_eq!(changed, Ok((4, true)));
        assert_eq!(store.read(KEY).unwrap().value, b"four!");
        assert_eq!(store.change(KEY, |_| (None, ())), Ok(((), true)));
        assert_eq!(store.read(KEY).unwrap().value, b"four!");
    }

    /// As many bytes as there may be, and one more.
    #[test]
    fn it_is_bounded() {
        let bytes = |value: usize| KEY.len() + value + ENTRY_BYTES;
        let store = Store::new(bytes(10));
        store.put(KEY, &[1; 10]).unwrap();
        assert_eq!(store.put(KEY, &[2; 11]), Err(HostError));
        assert_eq!(store.change(KEY, |_| (Some(vec![2; 11]), ())), Err(HostError));
        let mark = store.read(KEY).unwrap().mark;
        assert_eq!(store.write(KEY, &[2; 11], mark), Err(WriteError::Host));
        assert_eq!(store.put("b", b"1"), Err(HostError));
        assert_eq!(store.read(KEY).unwrap().value, [1; 10], "what is there stays");
        // What is there can change, shrink and go.
        store.put(KEY, &[3; 10]).unwrap();
        store.put(KEY, &[3; 9]).unwrap();
        assert_eq!(store.bytes.load(Ordering::Relaxed), bytes(9));
        store.put(KEY, &[]).unwrap();
        assert_eq!(store.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(store.read(KEY).unwrap().mark, Mark::Absent);
        store.put("b", b"1").unwrap();
    }

    /// No change of any thread is lost.
    #[test]
    fn threads_change_one_key() {
        const THREADS: usize = 4;
        const TIMES: u64 = 2_000;
        let store = Arc::new(Store::new(BYTES_MAX));
        let add = |value: &[u8]| {
            let before = value.first_chunk().copied().map_or(0, u64::from_le_bytes);
            (Some((before + 1).to_le_bytes().to_vec()), before)
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let store = Arc::clone(&store);
                std::thread::spawn(move || {
                    (0..TIMES).for_each(|_| assert!(store.change(KEY, add).unwrap().1));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (count, _) = store.change(KEY, add).unwrap();
        assert_eq!(count, THREADS as u64 * TIMES);
    }
}
