//! What asking an external processor adds to a request: `cargo xtask bench decisions`.
//!
//! One Envoy has three listeners that differ in one filter: without ext_proc, with one that looks at nothing, and with
//! ours. The same requests go to them in turn, in short slices, so that what else the machine does falls on all three.

pub(crate) mod ghz;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::measure::{Account, cpu_seconds, resident_bytes};
use crate::envoy::Envoy;
use crate::ext_proc::{ExtProc, edited};
use crate::failure::{Failure, Outcome, doing};
use crate::http::{Connection, Request};
use crate::log::Folder;
use crate::process::Process;
use crate::{ports, settings};
use ghz::Ghz;

/// The listeners, in the order of all results.
pub const TARGETS: [&str; 3] = ["plain", "empty", "glacis"];

/// Enough for a connection each; there are hundreds of these threads.
const STACK_BYTES: usize = 256 << 10;

/// Everything that is measured, running; stopped when dropped.
#[derive(Debug)]
pub struct Bench {
    // Envoy goes first.
    envoy: Envoy,
    ext_proc: ExtProc,
    empty: Process,
    ports: [u16; 3],
    tcp: u16,
    folder: Folder,
}

/// What was seen of one listener.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Requests.
    pub count: usize,
    /// Microseconds that one took, by the client's clock.
    pub mean_us: f64,
    /// The median of them.
    pub p50_us: f64,
    /// What ninety-nine of a hundred did not exceed.
    pub p99_us: f64,
    /// Requests in a second, of all connections together.
    pub per_second: f64,
    /// Microseconds of CPU time that the processor took for one; 0 where there is none.
    pub cpu_us: f64,
}

impl Bench {
    /// Starts everything in `folder`, whose path has to be short: a socket's may have 107 bytes. `keys` are further ones
    /// of ext-proc's configuration, in YAML.
    ///
    /// # Errors
    ///
    /// If something is missing or does not start.
    pub fn start(folder: &Path, keys: &str) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let [admin, ext_proc_admin, tcp, plain, empty_port, glacis] = ports::free()?;
        let ports = [plain, empty_port, glacis];
        let socket = |name: &str| folder.file(name).display().to_string();
        let mut empty = Command::new(settings::empty_ext_proc()?);
        empty.arg(socket("empty.sock")).env("TOKIO_WORKER_THREADS", "2");
        let empty = Process::start("empty-ext-proc", &mut empty, &folder.file("empty.log"))?;
        let config = edited(
            "bench/decisions/ext-proc.yaml",
            &[
                ("127.0.0.1:9001", format!("127.0.0.1:{tcp}")),
                ("127.0.0.1:9101", format!("127.0.0.1:{ext_proc_admin}")),
                ("glacis.sock", socket("glacis.sock")),
                (".fetched/crs-4.25.0", settings::crs()?.display().to_string()),
            ],
        )?;
        let ext_proc = ExtProc::start_with(&format!("{config}{keys}"), ext_proc_admin, &folder)?;
        let port = |port: u16| format!("port_value: {port}}}");
        let config = edited(
            "bench/decisions/envoy.yaml",
            &[
                ("port_value: 9901}", port(admin)),
                ("port_value: 10001}", port(plain)),
                ("port_value: 10002}", port(empty_port)),
                ("port_value: 10003}", port(glacis)),
                ("path: empty.sock", format!("path: {}", socket("empty.sock"))),
                ("path: glacis.sock", format!("path: {}", socket("glacis.sock"))),
            ],
        )?;
        let envoy = Envoy::start(&settings::envoy()?, &settings::root(), &config, admin, &folder)?;
        Ok(Self { envoy, ext_proc, empty, ports, tcp, folder })
    }

    /// Sends requests with headers only over so many connections to each listener in turn, `slice` at a time.
    ///
    /// # Errors
    ///
    /// If an answer is another than 200, or there is none.
    pub fn headers_only(
        &mut self,
        connections: usize,
        rounds: usize,
        slice: Duration,
    ) -> Outcome<[Seen; 3]> {
        let request = Request::get("/products/42?page=2&q=winter%20coat").browser();
        let requests = [(request.bytes(), 200)];
        let mut clients = Vec::new();
        for port in self.ports {
            clients.push(open(port, connections)?);
        }
        let mut times: [Vec<u32>; 3] = Default::default();
        let mut cpu = [0.0; 3];
        for round in 0..=rounds {
            for (target, clients) in clients.iter_mut().enumerate() {
                let before = self.cpu_seconds(target)?;
                let seen = load(clients, &requests, slice)?;
                // The first round warms up.
                if round > 0 {
                    cpu[target] += self.cpu_seconds(target)? - before;
                    times[target].extend(seen);
                }
            }
        }
        let slices = slice.as_secs_f64() * rounds as f64;
        let mut seen = [Seen::default(); 3];
        for (seen, (times, cpu)) in seen.iter_mut().zip(times.into_iter().zip(cpu)) {
            *seen = summary(times, cpu, slices);
        }
        Ok(seen)
    }

    /// Sends requests of all kinds over so many connections to ext-proc, and says how large it became: the most, and
    /// at the end, in bytes.
    ///
    /// # Errors
    ///
    /// As [`Bench::headers_only`].
    pub fn mixed(&mut self, connections: usize, time: Duration) -> Outcome<(usize, u64, u64)> {
        let mut clients = open(self.ports[2], connections)?;
        let count = load(&mut clients, &mixture(), time)?.len();
        let Account { rss, rss_peak, .. } = Account::of("ext-proc", self.ext_proc.process().id())?;
        Ok((count, rss_peak, rss))
    }

    /// Asks ext-proc without Envoy, by ghz: over a Unix socket, or TCP.
    ///
    /// # Errors
    ///
    /// If ghz does not run, or one of a hundred calls has failed.
    pub fn ghz(&mut self, ghz: &str, unix: bool, seconds: u32) -> Outcome<Seen> {
        let to = if unix { self.address("glacis") } else { format!("127.0.0.1:{}", self.tcp) };
        let asked = Ghz {
            program: ghz,
            proto: "bench/decisions/ext_proc.proto",
            call: "envoy.service.ext_proc.v3.ExternalProcessor.Process",
            message: &message(),
            to: &to,
            seconds,
        };
        asked.ask(self.ext_proc.process().id())
    }

    /// Where the processor behind a listener of [`TARGETS`] is to be reached without Envoy.
    pub fn address(&self, target: &str) -> String {
        format!("unix://{}", self.folder.file(&format!("{target}.sock")).display())
    }

    /// Bytes in memory of Envoy, of the processor that looks at nothing, and of ours.
    ///
    /// # Errors
    ///
    /// If one has ended.
    pub fn memory(&mut self) -> Outcome<[u64; 3]> {
        let [envoy, empty, ext_proc] =
            [self.envoy.process().id(), self.empty.id(), self.ext_proc.process().id()];
        Ok([resident_bytes(envoy)?, resident_bytes(empty)?, resident_bytes(ext_proc)?])
    }

    /// Requests that ext-proc has let pass so far.
    ///
    /// # Errors
    ///
    /// If it does not say.
    pub fn decisions(&self) -> Outcome<usize> {
        let allowed = self
            .ext_proc
            .metrics()?
            .remove(r#"glacis_requests_total{profile="default",verdict="allow"}"#);
        Ok(allowed.unwrap_or(0.0) as usize)
    }

    /// CPU time of the processor behind a listener.
    fn cpu_seconds(&mut self, target: usize) -> Outcome<f64> {
        let id = match target {
            1 => self.empty.id(),
            2 => self.ext_proc.process().id(),
            _ => return Ok(0.0),
        };
        cpu_seconds(id)
    }
}

/// How much more `seen` adds to a request than the processor that looks at nothing; by `of`.
pub fn ratio(seen: &[Seen; 3], of: impl Fn(&Seen) -> f64) -> f64 {
    let [plain, empty, glacis] = seen;
    (of(glacis) - of(plain)) / (of(empty) - of(plain))
}

pub(crate) fn open(port: u16, connections: usize) -> Outcome<Vec<Connection>> {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    (0..connections).map(|_| Connection::open(None, to)).collect()
}

/// Sends requests over all connections for some time; returns what each took, in nanoseconds.
pub(crate) fn load(
    clients: &mut [Connection],
    requests: &[(Vec<u8>, u16)],
    time: Duration,
) -> Outcome<Vec<u32>> {
    let over = AtomicBool::new(false);
    let over = &over;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, client) in clients.iter_mut().enumerate() {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let run = move || talk(client, requests, number, over);
            threads.push(thread.spawn_scoped(scope, run).map_err(doing("start a thread"))?);
        }
        thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for thread in threads {
            let done = thread.join().map_err(|_| Failure::new("a client panicked"))?;
            times.extend(done?);
        }
        Ok(times)
    })
}

/// One client: request after request, beginning with another one each.
fn talk(
    client: &mut Connection,
    requests: &[(Vec<u8>, u16)],
    number: usize,
    over: &AtomicBool,
) -> Outcome<Vec<u32>> {
    let mut times = Vec::new();
    for (request, status) in requests.iter().cycle().skip(number % requests.len()) {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        client.write(request)?;
        let head = client.read_head()?;
        let length = head.header("content-length").and_then(|length| length.parse().ok());
        client.read_exact(length.unwrap_or(0))?;
        if head.status != *status {
            return Err(Failure::new(format!("{} instead of {status}", head.status)));
        }
        times.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(times)
}

pub(crate) fn summary(mut times: Vec<u32>, cpu_seconds: f64, seconds: f64) -> Seen {
    times.sort_unstable();
    let count = times.len();
    let at = |share: f64| {
        let place = (count as f64 * share) as usize;
        f64::from(times.get(place.min(count.saturating_sub(1))).copied().unwrap_or(0)) / 1e3
    };
    let sum: f64 = times.iter().map(|time| f64::from(*time)).sum();
    Seen {
        count,
        mean_us: sum / count as f64 / 1e3,
        p50_us: at(0.5),
        p99_us: at(0.99),
        per_second: count as f64 / seconds,
        cpu_us: cpu_seconds * 1e6 / count as f64,
    }
}

/// Requests of all kinds, with the status that each is answered with: pages, forms, JSON, uploads, attacks.
fn mixture() -> Vec<(Vec<u8>, u16)> {
    let form = "application/x-www-form-urlencoded";
    let upload = format!(
        "--b0undary\r\ncontent-disposition: form-data; name=\"file\"; filename=\"report.txt\"\r\n\
         content-type: text/plain\r\n\r\n{}\r\n--b0undary--\r\n",
        "glacis and ice ".repeat(8_000)
    );
    let items: Vec<String> =
        (0..200).map(|item| format!(r#"{{"sku": "A-{item}", "note": "at the door"}}"#)).collect();
    let json = format!(r#"{{"items": [{}]}}"#, items.join(","));
    let get = |target: &str| Request::get(target);
    [
        (get("/products/42?page=2&q=winter%20coat"), 200),
        (get("/"), 200),
        (Request::post("/cart", form, "name=J%C3%BCrgen&city=K%C3%B6ln&note=see+you"), 200),
        (get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E"), 403),
        (Request::post("/api/orders", "application/json", json), 200),
        (get("/style.css?v=3"), 200),
        (Request::post("/files", "multipart/form-data; boundary=b0undary", upload), 200),
        (Request::post("/login", form, "user=1'+UNION+SELECT+password+FROM+users--"), 403),
    ]
    .map(|(request, status)| (request.browser().bytes(), status))
    .to_vec()
}

/// The header fields of such a request, as Envoy sends them.
pub(crate) fn fields() -> Vec<(String, Vec<u8>)> {
    let request = Request::get("/").browser();
    let pseudo = [
        (":method", "GET"),
        (":path", "/products/42?page=2&q=winter%20coat"),
        (":authority", crate::http::HOST),
        (":scheme", "http"),
        ("x-request-id", "7f9c2ba4-e88f-4b3e-8f2e-0c1b5d0a9b11"),
    ];
    let pseudo = pseudo.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    pseudo.into_iter().chain(request.headers).collect()
}

/// What Envoy would send of such a request, as ghz reads it.
fn message() -> String {
    let headers = fields().into_iter().map(
        |(name, value)| serde_json::json!({"key": name, "value": String::from_utf8_lossy(&value)}),
    );
    let headers = headers.collect::<Vec<_>>();
    let head = serde_json::json!({"headers": {"headers": headers}, "end_of_stream": true});
    serde_json::json!([{"request_headers": head, "protocol_config": {}}]).to_string()
}
