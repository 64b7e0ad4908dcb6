//! The store that all workers of a process see, as its host implements it.
//!
//! The wasm-filter implements it over proxy-wasm's shared data, the native module and the tests in memory.

/// How often [`SharedData::change`] reads a value again when another worker has changed it meanwhile.
///
/// A worker loses only against one that has won, so with `n` workers on one key a request waits
/// for at most that many others.
pub const ATTEMPTS_MAX: u32 = 8;

/// A value and the mark by which a change of it is noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The value; empty if there is none.
    pub value: Vec<u8>,
    /// The state of its key.
    pub mark: Mark,
}

/// The state of a key: its number for compare-and-swap, or that there was no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// There is no value.
    Absent,
    /// The number of the write that made the value.
    Version(u32),
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Somebody else wrote since the mark was read. To read again is worth it.
    Changed,
    /// The host refused.
    Host,
}

/// The host refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostError;

/// A store of small values with compare-and-swap.
pub trait SharedData {
    /// The value of a key; an absent one is an empty value.
    ///
    /// # Errors
    /// The host refuses.
    fn read(&self, key: &str) -> Result<Stored, HostError>;

    /// Writes if the key is still as it was when `mark` was read.
    ///
    /// # Errors
    /// It is not, or the host refuses.
    fn write(&self, key: &str, value: &[u8], mark: Mark) -> Result<(), WriteError>;

    /// Writes, whatever is there.
    ///
    /// # Errors
    /// The host refuses.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), HostError>;

    /// Changes the value of a key. `change` gets the value, and returns the one to write, if it is another; hosts with
    /// compare-and-swap alone may call it several times. Returns its last result, and whether the value is written:
    /// after [`ATTEMPTS_MAX`] lost races it is not.
    ///
    /// # Errors
    /// The host refuses.
    fn change<T>(
        &self,
        key: &str,
        mut change: impl FnMut(&[u8]) -> (Option<Vec<u8>>, T),
    ) -> Result<(T, bool), HostError> {
        let mut attempts_left = ATTEMPTS_MAX;
        loop {
            let stored = self.read(key)?;
            let (value, result) = change(&stored.value);
            let Some(value) = value else { return Ok((result, true)) };
            attempts_left -= 1;
            match self.write(key, &value, stored.mark) {
                Ok(()) => return Ok((result, true)),
                Err(WriteError::Changed) if attempts_left > 0 => {}
                Err(WriteError::Changed) => return Ok((result, false)),
                Err(WriteError::Host) => return Err(HostError),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod memory {
    //! The store of the tests, which can be told to misbehave.

    use super::{HostError, Mark, SharedData, Stored, WriteError};
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    /// Keys and values in memory.
    #[derive(Debug, Default)]
    pub(crate) struct Memory {
        values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
        writes: Cell<u32>,
        /// How many of the next writes lose against somebody else.
        pub(crate) lost_writes: Cell<u32>,
        /// Whether every call is refused.
        pub(crate) broken: Cell<bool>,
    }

    impl Memory {
        pub(crate) fn bytes(&self) -> usize {
            self.values.borrow().iter().map(|(key, (value, _))| key.len() + value.len()).sum()
        }

        pub(crate) fn keys(&self) -> usize {
            self.values.borrow().len()
        }

        fn insert(&self, key: &str, value: &[u8]) {
            self.writes.set(self.writes.get() + 1);
            self.values.borrow_mut().insert(key.to_owned(), (value.to_vec(), self.writes.get()));
        }
    }

    impl SharedData for Memory {
        fn read(&self, key: &str) -> Result<Stored, HostError> {
            if self.broken.get() {
                return Err(HostError);
            }
            Ok(match self.values.borrow().get(key) {
                Some((value, version)) => {
                    Stored { value: value.clone(), mark: Mark::Version(*version) }
                }
                None => Stored { value: Vec::new(), mark: Mark::Absent },
            })
        }

        fn write(&self, key: &str, value: &[u8], mark: Mark) -> Result<(), WriteError> {
            if self.broken.get() {
                return Err(WriteError::Host);
            }
            if let Some(left) = self.lost_writes.get().checked_sub(1) {
                self.lost_writes.set(left);
                return Err(WriteError::Changed);
            }
            let now = match self.values.borrow().get(key) {
                Some((_, version)) => Mark::Version(*version),
                None => Mark::Absent,
            };
            if now != mark {
                return Err(WriteError::Changed);
            }
            self.insert(key, value);
            Ok(())
        }

        fn put(&self, key: &str, value: &[u8]) -> Result<(), HostError> {
            if self.broken.get() {
                return Err(HostError);
            }
            self.insert(key, value);
            Ok(())
        }
    }
}
