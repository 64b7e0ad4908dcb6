//! Limits: token buckets, GCRA and windows, leases of their tokens, and the header fields that tell
//! a client about them; networks as sets, lists and maps; hosts, paths and header fields in one form;
//! and virtual patches.
//!
//! Everything here is arithmetic or a lookup. There is no I/O, no clock, no environment and no
//! logging: time is a parameter (nanoseconds since an epoch the caller picks), state is a value the
//! caller keeps, and each function ends after a number of steps that its documentation names. The
//! crate builds for `wasm32-wasip1`, where the proxy-wasm filter uses it, and natively, where the
//! services do.
//!
//! ```
//! use glacis_limits::token_bucket::{BucketState, TokenBucket};
//!
//! // Two requests a second on average, at most three at once.
//! let bucket = TokenBucket::new(3, 2, 1_000_000_000)?;
//! let now_ns = 1_700_000_000_000_000_000;
//! let (state, decision) = bucket.take(BucketState::FULL, now_ns, 1);
//! assert!(decision.allowed);
//! assert_eq!(decision.remaining, 2);
//! assert_eq!(BucketState::from_bytes(&state.to_bytes()), Some(state));
//! # Ok::<(), glacis_limits::token_bucket::BucketError>(())
//! ```

pub mod asn;
pub mod authority;
pub mod cidr;
pub mod day;
#[cfg(feature = "feed")]
pub mod feed;
pub mod field;
pub mod gcra;
pub mod geo;
pub mod keyed_hash;
pub mod lease;
pub mod meter;
pub mod network_list;
pub mod network_map;
pub mod patch;
pub mod path;
pub mod rate_headers;
pub mod token_bucket;
pub mod window;

#[cfg(test)]
mod xorshift;
