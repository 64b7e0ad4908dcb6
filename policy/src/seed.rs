//! The secret that all workers hash addresses with.
//!
//! It is drawn once for a process and lives in shared data. Without it a client could choose
//! addresses that all fall into one set of the table, and push a victim's bucket out of it.

use crate::shared::{HostError, SharedData, WriteError};

const KEY: &str = "glacis.wasm/1/seed";

/// How often the seed is read again when workers start together and race to write it.
const ATTEMPTS_MAX: u32 = 8;

/// A key of [`glacis_limits::keyed_hash`].
pub(crate) type Seed = [u8; 16];

/// The seed of this process: what another worker has stored, or else `fresh`, which is stored.
pub(crate) fn agreed(shared: &impl SharedData, fresh: Seed) -> Result<Seed, HostError> {
    for _ in 0..ATTEMPTS_MAX {
        let stored = shared.read(KEY)?;
        if let Ok(seed) = Seed::try_from(stored.value.as_slice()) {
            return Ok(seed);
        }
        // Written or lost to another worker, the next reading tells which seed it is.
        match shared.write(KEY, &fresh, stored.mark) {
            Ok(()) | Err(WriteError::Changed) => {}
            Err(WriteError::Host) => return Err(HostError),
        }
    }
    Err(HostError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::memory::Memory;

    #[test]
    fn the_first_seed_stays() {
        let shared = Memory::default();
        assert_eq!(agreed(&shared, [1; 16]), Ok([1; 16]));
        assert_eq!(agreed(&shared, [2; 16]), Ok([1; 16]));
    }

    #[test]
    fn what_goes_wrong() {
        let shared = Memory::default();
        shared.put(KEY, b"of somebody else").unwrap();
        shared.put(KEY, b"short").unwrap();
        assert_eq!(agreed(&shared, [1; 16]), Ok([1; 16]), "a value of no use is replaced");

        let shared = Memory::default();
        shared.lost_writes.set(3);
        assert_eq!(agreed(&shared, [1; 16]), Ok([1; 16]), "a lost race is run again");
        let shared = Memory::default();
        shared.lost_writes.set(u32::MAX);
        assert_eq!(agreed(&shared, [1; 16]), Err(HostError), "but not for ever");
        let shared = Memory::default();
        shared.broken.set(true);
        assert_eq!(agreed(&shared, [1; 16]), Err(HostError));
    }
}
