//! What the checks cost a request in Envoy, in WASM and in the native module: `cargo xtask bench filter`.
//!
//! One Envoy with one worker has six listeners that differ in their filters. The same requests go to them in turn,
//! in short slices, so that what else the machine does falls on all of them.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::geo::{Country, CountryTable};
use serde_json::json;

use crate::bench::measure::{cpu_seconds, resident_bytes};
use crate::bench::stack::bundle;
use crate::decisions::{Seen, load, open, summary};
use crate::envoy::Envoy;
use crate::ext_proc::edited;
use crate::failure::{Outcome, io};
use crate::http::Request;
use crate::log::Folder;
use crate::{ports, settings};

/// The listeners, in the order of all results.
pub const TARGETS: [&str; 6] = ["none", "empty", "native", "filter", "first-verdict", "checks"];

/// What was seen of one listener.
#[derive(Clone, Debug)]
pub struct Row {
    /// How long answers took.
    pub seen: Seen,
    /// CPU time of Envoy for a request, in µs.
    pub cpu_us: f64,
}

/// Networks on the deny list, in ours and in Envoy's own.
const NETWORKS: u32 = 1_000;

/// Networks of the table of countries: about as many as a whole one has.
const COUNTRIES: u32 = 250_000;

/// Everything that is measured, running; stopped when dropped.
#[derive(Debug)]
pub struct Bench {
    envoy: Envoy,
    ports: [u16; 6],
}

impl Bench {
    /// Starts everything in `folder`.
    ///
    /// # Errors
    ///
    /// If something is missing or does not start.
    pub fn start(folder: &Path) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let [admin, a, b, c, d, e, f] = ports::free()?;
        let ports = [a, b, c, d, e, f];
        settings::envoy_module()?;
        let empty = folder.file("empty.wasm");
        std::fs::write(&empty, empty_module()).map_err(io("write", &empty))?;
        let port = |port: u16| format!("port_value: {port}}}");
        let plugin = plugin();
        let mut first = plugin.clone();
        first["first_verdict"] = json!({"rules": bundle()?});
        let config = edited(
            "bench/filter/envoy.yaml",
            &[
                ("port_value: 9901}", port(admin)),
                ("port_value: 10011}", port(a)),
                ("port_value: 10012}", port(b)),
                ("port_value: 10013}", port(c)),
                ("port_value: 10014}", port(d)),
                ("port_value: 10015}", port(e)),
                ("port_value: 10016}", port(f)),
                ("EMPTY", empty.display().to_string()),
                ("FILTER", settings::wasm()?.display().to_string()),
                ("ENGINE", settings::wasm_with_engine()?.display().to_string()),
                ("PLUGIN", json!(plugin.to_string()).to_string()),
                ("FIRST", json!(first.to_string()).to_string()),
                ("NETWORKS", principals()),
            ],
        )?;
        let (program, root) = (settings::envoy()?, settings::root());
        let envoy = Envoy::start_with_workers(&program, &root, &config, admin, &folder, 1)?;
        Ok(Self { envoy, ports })
    }

    /// Sends requests over so many connections to each listener in turn, `slice` at a time.
    ///
    /// # Errors
    ///
    /// If an answer is another than 200, or there is none.
    pub fn run(&mut self, connections: usize, rounds: usize, slice: Duration) -> Outcome<[Row; 6]> {
        let request = Request::get("/products/42?page=2&q=winter%20coat").browser();
        let requests = [(request.bytes(), 200)];
        let mut clients = Vec::new();
        for port in self.ports {
            clients.push(open(port, connections)?);
        }
        let process = self.envoy.process().id();
        let (mut times, mut cpu): ([Vec<u32>; 6], [f64; 6]) = Default::default();
        for round in 0..=rounds {
            for ((clients, times), cpu) in clients.iter_mut().zip(&mut times).zip(&mut cpu) {
                let before = cpu_seconds(process)?;
                let seen = load(clients, &requests, slice)?;
                // The first round warms up.
                if round > 0 {
                    times.extend(seen);
                    *cpu += cpu_seconds(process)? - before;
                }
            }
        }
        let seconds = slice.as_secs_f64() * rounds as f64;
        let mut cpu = cpu.into_iter();
        Ok(times.map(|times| {
            let seen = summary(times, 0.0, seconds);
            let cpu_us = cpu.next().unwrap_or(f64::NAN) * 1e6 / seen.count.max(1) as f64;
            Row { seen, cpu_us }
        }))
    }

    /// Bytes of Envoy in memory, with everything loaded. Of each module it has three VMs: one for the worker and two of the
    /// main thread.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn memory(&mut self) -> Outcome<u64> {
        resident_bytes(self.envoy.process().id())
    }
}

/// The throughput of a listener as a share of another's.
pub fn share(rows: &[Row; 6], of: usize, beside: usize) -> f64 {
    let per_second = |target: usize| rows.get(target).map_or(f64::NAN, |row| row.seen.per_second);
    per_second(of) / per_second(beside)
}

/// Documentation networks of RFC 2544 and beyond, none of which is a client's here.
fn networks() -> impl Iterator<Item = String> {
    (0..NETWORKS).map(|i| format!("198.{}.{}.0/24", 18 + i / 256, i % 256))
}

fn principals() -> String {
    let one = |network: String| {
        let (address, prefix) = network.split_once('/').unwrap_or((&network, "32"));
        format!("{{remote_ip: {{address_prefix: {address}, prefix_len: {prefix}}}}}")
    };
    networks().map(one).collect::<Vec<_>>().join(", ")
}

/// Limits, lists, countries and bots.
fn plugin() -> serde_json::Value {
    let country = |text: &str| Country::parse(text).unwrap_or(Country::UNKNOWN);
    let network = |i: u32| {
        let first = i * 16_384;
        let address = |bits: u32| IpAddr::V4(Ipv4Addr::from_bits(bits));
        (
            address(first),
            address(first + 16_383),
            country(["DE", "FR", "PL", "IT"][(i % 4) as usize]),
        )
    };
    let table = CountryTable::new((0..COUNTRIES).map(network).collect());
    json!({
        "address_lists": {"deny": networks().collect::<Vec<_>>()},
        "geo": {"table": STANDARD.encode(table.to_bytes()), "deny": ["KP"]},
        "bots": {},
        "rate_limits": [{"name": "per-address", "requests": 1_000_000_000, "per_seconds": 1}],
    })
}

/// The smallest module that Envoy takes: it is told of each request and each response, and lets them go on.
fn empty_module() -> Vec<u8> {
    // Types: () → (); (i32) → i32; (i32, i32) → (); (i32, i32, i32) → i32.
    const TYPES: &[&[u8]] = &[
        &[0x60, 0, 0],
        &[0x60, 1, 0x7f, 1, 0x7f],
        &[0x60, 2, 0x7f, 0x7f, 0],
        &[0x60, 3, 0x7f, 0x7f, 0x7f, 1, 0x7f],
    ];
    // Functions: a name, a type, and whether it has a result, which is then 0.
    const FUNCTIONS: &[(&str, u8, bool)] = &[
        ("proxy_abi_version_0_2_1", 0, false),
        ("proxy_on_memory_allocate", 1, true),
        ("proxy_on_context_create", 2, false),
        ("proxy_on_request_headers", 3, true),
        ("proxy_on_response_headers", 3, true),
    ];
    let byte = |length: usize| u8::try_from(length).unwrap_or(0);
    let list = |items: Vec<Vec<u8>>| [vec![byte(items.len())], items.concat()].concat();
    // Sections are longer than 127 bytes at times: two bytes of a variable-length number always do.
    let section = |id: u8, content: Vec<u8>| {
        let length = [byte(content.len() & 0x7f) | 0x80, byte(content.len() >> 7)];
        [vec![id], length.to_vec(), content].concat()
    };
    let export = |name: &str, kind: u8, index: usize| {
        [&[byte(name.len())], name.as_bytes(), &[kind, byte(index)]].concat()
    };
    let mut exports = vec![export("memory", 2, 0)];
    exports.extend(FUNCTIONS.iter().enumerate().map(|(i, (name, _, _))| export(name, 0, i)));
    let code = |result: bool| match result {
        true => vec![4, 0, 0x41, 0, 0x0b],
        false => vec![2, 0, 0x0b],
    };
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, list(TYPES.iter().map(|kind| kind.to_vec()).collect())),
        section(3, list(FUNCTIONS.iter().map(|(_, kind, _)| vec![*kind]).collect())),
        section(5, vec![1, 0, 1]),
        section(7, list(exports)),
        section(10, list(FUNCTIONS.iter().map(|(_, _, result)| code(*result)).collect())),
    ]
    .concat()
}
