//! Where the counters of limits are kept: in the memory of this process, or in Redis for a whole
//! fleet.
//!
//! A [`Limit`] is what is allowed, a [`Key`] names whose counter it is, an [`Ask`] takes tokens,
//! and a [`Store`] answers several asks in one call: each for itself, or all or nothing
//! ([`Taking`]). The arithmetic is that of `glacis-limits`, in every store the same. [`Bans`] are
//! addresses of which too much was refused, by limits in a store.
//!
//! ```
//! use glacis_limit_store::{Ask, Key, Limit, MemoryStore, Store, Taking};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = MemoryStore::new(10_000);
//! let limit = Limit::gcra(2, Duration::from_secs(1), 3)?;
//! let ask = Ask::new(Key::new(b"login", b"192.0.2.1"), limit, 1);
//! let answers = store.take(&[ask], Taking::AllOrNothing).await?;
//! assert_eq!((answers[0].allowed, answers[0].remaining), (true, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

mod bans;
mod clock;
mod guarded;
mod key;
mod limit;
mod memory;
mod over_limit;
mod redis;
mod state;
mod store;

pub use self::redis::{
    Call, Redis, RedisConfig, RedisConfigError, RedisCounters, RedisStore, RedisTls, Reply, Script,
    Topology,
};
pub use bans::{
    BAN_SECONDS_MAX, BANS_MAX, BanScenario, Bans, IPV6_PREFIX, IPV6_PREFIXES, WIDEST_BANS,
};
pub use clock::Clock;
pub use guarded::{Guarded, GuardedCounters};
pub use key::Key;
pub use limit::{Algorithm, Limit, LimitError};
pub use memory::MemoryStore;
pub use over_limit::OverLimitCache;
pub use store::{
    ASKS_MAX, Answer, Ask, DecidedBy, OnStoreFailure, Pending, Return, Store, StoreError, Taking,
};
