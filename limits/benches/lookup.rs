//! Nanoseconds of CPU time for a look-up in a list of 100,000 networks, and the memory of it:
//! `cargo bench -p glacis-limits`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a program that measures"
)]

use glacis_limits::network_list::NetworkList;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const ENTRIES: u32 = 100_000;
const ROUNDS: u32 = 5_000_000;

/// A name, addresses of a kind, and the prefix that they are listed with.
type Kind<'a> = (&'a str, &'a dyn Fn(u32) -> IpAddr, u8);

/// The CPU time of this thread: others may be busy.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

fn main() {
    let scattered = |i: u32| i.wrapping_mul(2_654_435_761);
    let v4 = |i: u32| IpAddr::V4(Ipv4Addr::from(scattered(i)));
    let v6 = |i: u32| {
        let block = u128::from(scattered(i)) << 64 | 0x2001 << 112;
        IpAddr::V6(Ipv6Addr::from(block))
    };
    let of: [Kind<'_>; 2] = [("IPv4 /32", &v4, 32), ("IPv6 /64", &v6, 64)];
    for (name, address, prefix) in of {
        let text: String =
            (0..ENTRIES).map(|i| format!("{}/{prefix} deny\n", address(i))).collect();
        let begun = now();
        let list = NetworkList::parse(&text, 200_000).unwrap();
        let parse_ms = (now() - begun).as_millis();
        // Half of the addresses are on the list.
        let asked: Vec<_> =
            (0..2 * ENTRIES).map(|i| address(scattered(i) % (2 * ENTRIES))).collect();
        let begun = now();
        let mut found = 0u32;
        for address in asked.iter().cycle().take(ROUNDS as usize) {
            found += u32::from(list.find(black_box(*address), 1).action.is_some());
        }
        let ns = (now() - begun).as_nanos() / u128::from(ROUNDS);
        let kib = list.memory_bytes() / 1024;
        println!("{name}: {ns} ns a look-up ({found} found), {kib} KiB, read in {parse_ms} ms");
    }
}
