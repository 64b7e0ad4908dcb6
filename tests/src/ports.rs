//! Ports of the loopback interface.

use std::hash::{BuildHasher as _, RandomState};
use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::{Failure, Outcome};

/// Below the ports that Linux gives to clients (32768 to 60999 by default): none of our own
/// connections can take a port between the choice of it and its use.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// `N` ports that nobody listens on, all different, and different in each call.
///
/// Between this call and the use of a port another process could take it. Each process begins
/// somewhere else, so that this happens about never.
///
/// # Errors
///
/// If there are no more.
pub fn free<const N: usize>() -> Outcome<[u16; N]> {
    let mut ports = [0; N];
    for port in &mut ports {
        let mut tried = (0..COUNT).map(|_| next()).filter(|port| is_free(*port));
        *port = tried.next().ok_or_else(|| Failure::new("there are no free ports"))?;
    }
    Ok(ports)
}

/// Whether nobody listens on the port.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

fn next() -> u16 {
    static START: OnceLock<u64> = OnceLock::new();
    static STEPS: AtomicU64 = AtomicU64::new(0);
    // The standard library draws the keys of a hasher at random.
    let start = START.get_or_init(|| RandomState::new().hash_one(()) >> 1);
    let step = start + STEPS.fetch_add(1, Ordering::Relaxed);
    FIRST + u16::try_from(step % u64::from(COUNT)).unwrap_or(0)
}
