//! The proxy-wasm module of Glacis: what can be answered inside Envoy, in microseconds, from state
//! that the proxy itself holds. Address lists, countries and autonomous systems, signs of bots, virtual patches, and
//! rate limits that all workers of an Envoy share; first verdicts, if the engine is in it; and, as another filter,
//! the guard behind ext_proc.
//!
//! `glacis_policy` has the checks, which the native module makes, too. `host` is the only file that calls the proxy; `root`
//! and `http` are the callbacks, `plugin` and `counters` what these share. README.md documents the configuration.
//!
//! # Laws
//!
//! 1. No request can make the module panic: the VM of that worker would be gone, and a policy of
//!    `FAIL_OPEN` would then let everything through.
//! 2. Memory does not grow with the number of clients.
//! 3. Every request is counted once, by its verdict, and one that was decided without what the
//!    decision needs is counted as an error too.

// The first law; `unwrap`, `expect` and `panic!` are denied in the whole workspace.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod counters;
mod first_verdict;
mod host;
mod http;
mod plugin;
mod root;

/// What the host calls once, before anything else. In a module of its own because the macro makes
/// a public function that cannot be documented.
mod start {
    proxy_wasm::main! {{
        proxy_wasm::set_root_context(|_| Box::new(crate::root::Root::default()));
    }}
}
