//! What asking ext-authz costs: `cargo xtask bench authz`.
//!
//! Clients of our own ask over a few connections, each as soon as it has its answer, so that what is measured is
//! the service and gRPC; ghz asks the same from outside. `bench/authz.md` says what the numbers mean.

use std::fs;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, HeaderMap, HeaderValue, SocketAddress, address,
};
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use envoy_types::pb::envoy::service::auth::v3::authorization_client::AuthorizationClient;
use envoy_types::pb::envoy::service::auth::v3::{AttributeContext, CheckRequest};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, rate_limit_response::Code};
use serde_json::{Value, json};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::bench::measure::{cpu_seconds, resident_bytes};
use crate::decisions::ghz::{CALLS, CONNECTIONS, Ghz};
use crate::decisions::{Seen, summary};
use crate::failure::{Failure, Outcome, doing, io};
use crate::filter::{Filter, Setup};
use crate::http::{self, Connection};
use crate::lender::Lender;
use crate::log::Folder;
use crate::ports;
use crate::rate_limit::{ExtAuthz, Theirs, descriptor};
use crate::redis::Redis;

/// Before anything counts.
const WARM_UP: Duration = Duration::from_millis(300);

/// `acme-key`; more may be asked than anybody can.
const CONFIG: &str = r#"
otherwise: allow
api_keys:
  clients:
  - name: acme
    keys: [{hash: "sha256:afacab3575137afa4e00d9cbcafcb14c9ae25f779d964eb0ea5b2c4eb5dfd163"}]
policies: [{name: orders, match: {paths: ["/orders/{id}"]}, require: {api_key: {}}}]
rate_limits: [{name: per-client, requests: 1000000000, per_seconds: 1, key: [api_key]}]
rate_limit_service: {config: limits}
"#;

/// The same for Envoy's rate limit protocol.
const LIMITS: &str = "domain: bench\ndescriptors:\n- key: client\n  rate_limit: {unit: second, \
    requests_per_unit: 1000000000}\n";

/// Where counters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In the memory of the service.
    InMemory,
    /// In a Redis on a Unix socket.
    InRedis,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// A Check with an API key and a limit.
    Check,
    /// `ShouldRateLimit` with one descriptor.
    RateLimit,
}

/// How the service is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A Unix socket.
    Unix,
    /// TCP on loopback.
    Tcp,
}

/// An ext-authz to be asked, and perhaps envoyproxy/ratelimit beside it; stopped when dropped.
#[derive(Debug)]
pub struct Bench {
    ext_authz: ExtAuthz,
    theirs: Option<Theirs>,
    redis: Option<Redis>,
    folder: Folder,
    tcp: u16,
}

impl Bench {
    /// Starts the service in `folder`, whose path has to be short: a socket's may have 107 bytes. `peer` is the
    /// program of envoyproxy/ratelimit; it counts in the same Redis.
    ///
    /// # Errors
    ///
    /// If something is missing or does not start.
    pub fn start(folder: &Path, kept: Kept, peer: Option<&Path>) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let [tcp, admin] = ports::free()?;
        let redis = (kept == Kept::InRedis).then(|| Redis::start(&folder)).transpose()?;
        let store = redis.as_ref().map(Redis::store).unwrap_or_default();
        let limits = folder.file("limits");
        fs::create_dir_all(&limits).map_err(io("make", &limits))?;
        folder.write("limits/bench.yaml", LIMITS)?;
        let socket = folder.file("authz.sock");
        let config = format!(
            "listen: {{tcp: \"127.0.0.1:{tcp}\", unix: {{path: {}}}}}\nadmin: {{address: \"127.0.0.1:{admin}\"}}\n\
             {store}{CONFIG}",
            socket.display()
        );
        let config = folder.write("ext-authz.yaml", &config)?;
        let ext_authz = ExtAuthz::start(&config, admin, &folder)?;
        let theirs = match (peer, &redis) {
            (Some(program), Some(redis)) => {
                Some(Theirs::start(program, &folder, &limits, ("unix", redis.socket()), &[])?)
            }
            _ => None,
        };
        Ok(Self { ext_authz, theirs, redis, folder, tcp })
    }

    /// Asks for some time.
    ///
    /// # Errors
    ///
    /// If an answer is another than yes, or there is none.
    pub fn ask(&mut self, question: Question, over: Over, time: Duration) -> Outcome<Seen> {
        let to = self.address(over);
        let process = self.ext_authz.process().id();
        asked(&to, question, process, time)
    }

    /// Asks envoyproxy/ratelimit, if it is there, over TCP.
    ///
    /// # Errors
    ///
    /// As [`Bench::ask`].
    pub fn ask_theirs(&mut self, time: Duration) -> Outcome<Option<Seen>> {
        let Some(theirs) = &mut self.theirs else { return Ok(None) };
        let to = format!("http://127.0.0.1:{}", theirs.port);
        asked(&to, Question::RateLimit, theirs.process().id(), time).map(Some)
    }

    /// Asks Checks by ghz.
    ///
    /// # Errors
    ///
    /// If ghz does not run, or one of a hundred calls has failed.
    pub fn ghz(&mut self, ghz: &str, over: Over, seconds: u32) -> Outcome<Seen> {
        let to = match over {
            Over::Unix => self.address(over),
            Over::Tcp => format!("127.0.0.1:{}", self.tcp),
        };
        let asked = Ghz {
            program: ghz,
            proto: "bench/authz/authz.proto",
            call: "envoy.service.auth.v3.Authorization.Check",
            message: &message(),
            to: &to,
            seconds,
        };
        asked.ask(self.ext_authz.process().id())
    }

    /// Round trips to Redis so far; 0 without it.
    ///
    /// # Errors
    ///
    /// If Redis does not answer.
    pub fn round_trips(&self) -> Outcome<u64> {
        self.redis.as_ref().map_or(Ok(0), Redis::scripts)
    }

    /// Bytes in memory of the service.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub(crate) fn memory(&mut self) -> Outcome<u64> {
        resident_bytes(self.ext_authz.process().id())
    }

    pub(crate) fn address(&self, over: Over) -> String {
        match over {
            Over::Unix => format!("unix://{}", self.folder.file("authz.sock").display()),
            Over::Tcp => format!("http://127.0.0.1:{}", self.tcp),
        }
    }
}

/// Asks who listens at `to`, which is the process `process`.
fn asked(to: &str, question: Question, process: u32, time: Duration) -> Outcome<Seen> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(doing("make a runtime"))?;
    runtime.block_on(async {
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            let endpoint =
                Endpoint::from_shared(to.to_owned()).map_err(doing("name an endpoint"))?;
            channels.push(endpoint.connect().await.map_err(doing("connect"))?);
        }
        all(&channels, question, WARM_UP).await?;
        let before = cpu_seconds(process)?;
        let times = all(&channels, question, time).await?;
        let cpu = cpu_seconds(process)? - before;
        Ok(summary(times, cpu, time.as_secs_f64()))
    })
}

/// All calls for some time; what each took, in nanoseconds.
async fn all(channels: &[Channel], question: Question, time: Duration) -> Outcome<Vec<u32>> {
    let until = Instant::now() + time;
    let mut tasks = Vec::new();
    for channel in channels.iter().cycle().take(CALLS) {
        let channel = channel.clone();
        tasks.push(tokio::spawn(async move {
            match question {
                Question::Check => repeat(until, || check(channel.clone())).await,
                Question::RateLimit => {
                    let client = RateLimitServiceClient::new(channel);
                    repeat(until, || limit(client.clone())).await
                }
            }
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.map_err(doing("ask"))??);
    }
    Ok(times)
}

async fn repeat<F: Future<Output = Result<bool, Status>>>(
    until: Instant,
    mut call: impl FnMut() -> F,
) -> Outcome<Vec<u32>> {
    let mut times = Vec::new();
    loop {
        let begun = Instant::now();
        if begun >= until {
            return Ok(times);
        }
        if !call().await.map_err(doing("ask"))? {
            return Err(Failure::new("it says no"));
        }
        times.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
}

pub(crate) async fn check(channel: Channel) -> Result<bool, Status> {
    let mut client = AuthorizationClient::new(channel);
    let answer = client.check(check_request()).await?.into_inner();
    Ok(answer.status.is_some_and(|status| status.code == 0))
}

async fn limit(mut client: RateLimitServiceClient<Channel>) -> Result<bool, Status> {
    let request = RateLimitRequest {
        domain: "bench".to_owned(),
        descriptors: vec![descriptor(&[("client", "acme")])],
        hits_addend: 1,
    };
    let answer = client.should_rate_limit(request).await?.into_inner();
    Ok(answer.overall_code() == Code::Ok)
}

/// The header fields of the request that is asked about.
fn headers() -> Vec<(String, Vec<u8>)> {
    let own = [
        (":method", "GET"),
        (":path", "/orders/42?page=2"),
        (":authority", http::HOST),
        (":scheme", "https"),
        ("x-request-id", "7f9c2ba4-e88f-4b3e-8f2e-0c1b5d0a9b11"),
        ("x-api-key", "acme-key"),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    own.into_iter().chain(http::Request::get("/").browser().headers).collect()
}

fn check_request() -> CheckRequest {
    let header = |(key, raw_value)| HeaderValue { key, raw_value, ..HeaderValue::default() };
    let http = HttpRequest {
        id: "7".to_owned(),
        method: "GET".to_owned(),
        path: "/orders/42?page=2".to_owned(),
        host: http::HOST.to_owned(),
        scheme: "https".to_owned(),
        header_map: Some(HeaderMap { headers: headers().into_iter().map(header).collect() }),
        ..HttpRequest::default()
    };
    let socket = SocketAddress {
        address: "192.0.2.1".to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(4711)),
        ..SocketAddress::default()
    };
    let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
    let attributes = AttributeContext {
        source: Some(Peer { address, ..Peer::default() }),
        request: Some(Request { http: Some(http), ..Request::default() }),
        ..AttributeContext::default()
    };
    CheckRequest { attributes: Some(attributes) }
}

/// The same as ghz reads it.
fn message() -> String {
    let header =
        |(key, value): (String, Vec<u8>)| json!({"key": key, "raw_value": STANDARD.encode(value)});
    let headers: Vec<Value> = headers().into_iter().map(header).collect();
    let http = json!({"id": "7", "method": "GET", "path": "/orders/42?page=2", "host": http::HOST,
        "scheme": "https", "header_map": {"headers": headers}});
    let address = json!({"socket_address": {"address": "192.0.2.1", "port_value": 4711}});
    json!({"attributes": {"source": {"address": address}, "request": {"http": http}}}).to_string()
}

/// What leases of a limit cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leased {
    /// Requests that were sent, for one key.
    pub requests: u64,
    /// Requests in a second, of all Envoys.
    pub per_second: f64,
    /// Those that passed.
    pub passed: u64,
    /// What the limit allows in that time, burst included.
    pub allowed: f64,
    /// What may pass at most: what is outstanding, and the unleased tokens of each Envoy, are on top.
    pub bound: f64,
    /// Calls of the lender.
    pub calls: u64,
    /// Round trips of the lender to Redis.
    pub round_trips: u64,
}

const ENVOYS: u32 = 3;
const UNLEASED: u32 = 20;
/// The window of the limit, ten lifetimes of a lease.
const WINDOW_SECONDS: u32 = 60;

/// Three Envoys with the filter send so many requests in a second for one key, whose limit allows `limit` of them; their
/// tokens are lent by one ext-authz that counts in Redis.
///
/// # Errors
///
/// If something is missing or does not start, or an answer is neither 200 nor 429.
pub fn leased(folder: &Path, rate: u32, limit: u32, time: Duration) -> Outcome<Leased> {
    let redis = Redis::start(&Folder::new(&folder.join("redis"))?)?;
    let requests = limit * WINDOW_SECONDS;
    let shape = format!("requests: {requests}, per_seconds: {WINDOW_SECONDS}, burst: {limit}");
    let config = format!("leases: {{limits: [{{name: api, {shape}}}]}}\n{}", redis.store());
    let lender = Lender::start(&folder.join("lender"), &config)?;
    let plugin = format!(
        r#"{{"rate_limits": [{{"name": "api", "requests": {requests}, "per_seconds": {WINDOW_SECONDS},
            "burst": {limit}, "key": [{{"header": "x-key"}}],
            "lease": {{"cluster": "lender", "unleased": {UNLEASED}, "away": "deny"}}}}]}}"#
    );
    let start = |i: u32| {
        let setup = Setup { plugin: &plugin, ..Setup::default() };
        Filter::start_leasing(&folder.join(format!("envoy-{i}")), setup, lender.port)
    };
    let envoys = (0..ENVOYS).map(start).collect::<Outcome<Vec<_>>>()?;
    let before = redis.scripts()?;
    let begun = Instant::now();
    let pause = Duration::from_secs(1) * ENVOYS / rate;
    let sent = thread::scope(|scope| {
        let spawn = |envoy| scope.spawn(move || paced(envoy, pause, time));
        let threads: Vec<_> = envoys.iter().map(|envoy| spawn(envoy.proxy())).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Outcome<(u64, u64)>>| {
            thread.join().map_err(|_| Failure::new("a client panicked"))?
        };
        threads.into_iter().map(join).collect::<Outcome<Vec<_>>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut calls = 0;
    for envoy in &envoys {
        calls += envoy.envoy.stat("wasmcustom.glacis_wasm_lease_calls_total")?;
    }
    let (requests, passed) = sent.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let allowed = f64::from(limit) * (seconds + 1.0);
    let outstanding = f64::from(limit * WINDOW_SECONDS / 10);
    Ok(Leased {
        requests,
        per_second: requests as f64 / seconds,
        passed,
        allowed,
        bound: allowed + outstanding + f64::from(ENVOYS * UNLEASED),
        calls,
        round_trips: redis.scripts()? - before,
    })
}

/// A request after each pause; how many there were, and how many passed.
fn paced(to: SocketAddr, pause: Duration, time: Duration) -> Outcome<(u64, u64)> {
    let mut client = Connection::open(Some(Ipv4Addr::LOCALHOST), to)?;
    let request = http::Request::get("/").header("x-key", "busy");
    let (begun, mut sent, mut passed) = (Instant::now(), 0, 0);
    let mut due = begun;
    while begun.elapsed() < time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due += pause;
        match client.send(&request)?.status {
            200 => passed += 1,
            429 => {}
            other => return Err(Failure::new(format!("{other} instead of 200 or 429"))),
        }
        sent += 1;
    }
    Ok((sent, passed))
}
