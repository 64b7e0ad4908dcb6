//! What each part takes by itself: `cargo xtask bench components`.
//!
//! Parts without I/O are called in batches; round trips are made one at a time over a connection that is open, so that
//! nothing waits for anything but the other process. `bench/components.md` says what the numbers mean.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpHeaders, ProcessingRequest, ProtocolConfiguration,
};
use glacis_limit_store::{Ask, Key, Limit, MemoryStore, RedisConfig, RedisStore, Store, Taking};
use glacis_limits::gcra::Gcra;
use glacis_limits::geo::{Country, CountryTable};
use glacis_limits::network_list::NetworkList;
use glacis_limits::token_bucket::{BucketState, TokenBucket};
use tonic::transport::{Channel, Endpoint};

use crate::bench::measure::resident_bytes;
use crate::decisions;
use crate::failure::{Failure, Outcome, doing};
use crate::log::Folder;
use crate::redis::Redis;

/// Calls of one sample of what takes nanoseconds.
const BATCH: u32 = 1_000;
/// Networks of the list, and of the table of countries.
const LISTED: u32 = 100_000;
const COUNTRIES: u32 = 250_000;
/// Counters that are there already.
const COUNTERS: u64 = 100_000;
/// How long connecting to Redis may take.
const CONNECTS: Duration = Duration::from_secs(10);
/// Before anything counts.
const WARM_UP: Duration = Duration::from_millis(200);

/// How long something took, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Took {
    /// What it is.
    pub name: String,
    /// How often it was measured.
    pub count: usize,
    /// The mean.
    pub mean_ns: f64,
    /// The median, and what 95 and 99 of a hundred did not exceed. Of what is called in batches, that of batches.
    pub percentiles_ns: [f64; 3],
}

impl Took {
    fn of(name: &str, mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let last = times.len().saturating_sub(1);
        let at = |share: f64| {
            times.get(((times.len() as f64 * share) as usize).min(last)).copied().unwrap_or(0.0)
        };
        Self {
            name: name.to_owned(),
            count: times.len(),
            mean_ns: times.iter().sum::<f64>() / times.len().max(1) as f64,
            percentiles_ns: [0.5, 0.95, 0.99].map(at),
        }
    }
}

/// What is called without I/O, so many batches each.
///
/// # Errors
///
/// If a limit or a table cannot be made.
pub fn calls(batches: usize) -> Outcome<Vec<Took>> {
    const SECOND_NS: u64 = 1_000_000_000;
    let mut rows = Vec::new();
    let bucket = TokenBucket::new(u32::MAX, 1_000, SECOND_NS).map_err(doing("make a bucket"))?;
    let mut state = BucketState::default();
    rows.push(batched("token bucket", batches, |call| {
        state = bucket.take(state, u64::from(call), 1).0;
    }));
    let gcra = Gcra::new(1_000_000, 1_000, SECOND_NS).map_err(doing("make a limit"))?;
    let mut arrival = 0;
    rows.push(batched("GCRA", batches, |call| {
        arrival = gcra.take(arrival, SECOND_NS + u64::from(call), 1).0;
    }));
    let store = MemoryStore::new(2 * COUNTERS as usize);
    let limit = Limit::gcra(1_000_000, Duration::from_secs(1), 1_000_000);
    let limit = limit.map_err(doing("make a limit"))?;
    let mut next = 0;
    let mut failed = 0;
    rows.push(batched("limit in memory, 100,000 clients", batches, |_| {
        next = (next + 7_919) % COUNTERS;
        let ask = Ask::new(Key::new(b"limit", &next.to_le_bytes()), limit, 1);
        failed += usize::from(store.take_now(&[ask], Taking::AllOrNothing).is_err());
    }));
    if failed > 0 {
        return Err(Failure::new(format!("{failed} asks of the store in memory failed")));
    }
    let text: String = (0..LISTED).map(|at| format!("{}/26 deny\n", network(at << 6))).collect();
    let list = NetworkList::parse(&text, LISTED as usize).map_err(doing("read a list"))?;
    rows.push(batched("address in a list of 100,000 networks", batches, |call| {
        black_box(list.find(IpAddr::V4(network(spread(call))), 0));
    }));
    let countries =
        ["DE", "FR", "BR", "JP"].map(|code| Country::parse(code).unwrap_or(Country::UNKNOWN));
    let networks = (0..COUNTRIES).zip(countries.into_iter().cycle());
    let networks = networks.map(|(at, country)| {
        (IpAddr::V4(network(at << 4)), IpAddr::V4(network((at << 4) | 15)), country)
    });
    let table = CountryTable::new(networks.collect());
    rows.push(batched("country, of 250,000 networks", batches, |call| {
        black_box(table.country(IpAddr::V4(network(spread(call)))));
    }));
    Ok(rows)
}

fn network(at: u32) -> Ipv4Addr {
    Ipv4Addr::from((10 << 24) | at)
}

/// Addresses in an order that no cache knows.
const fn spread(call: u32) -> u32 {
    call.wrapping_mul(2_654_435_761) >> 10
}

fn batched(name: &str, batches: usize, mut call: impl FnMut(u32)) -> Took {
    let mut number = 0;
    let mut batch = || {
        let begun = Instant::now();
        for _ in 0..BATCH {
            number += 1;
            call(black_box(number));
        }
        begun.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        batch();
    }
    Took::of(name, (0..batches).map(|_| batch()).collect())
}

/// What is asked of another process, for some time each, and how large those processes are, in bytes.
#[derive(Clone, Debug)]
pub struct Asked {
    /// How long it took.
    pub rows: Vec<Took>,
    /// Bytes in memory, by name.
    pub memory: Vec<(&'static str, u64)>,
}

/// Asks Redis, ext-authz and ext-proc, one call at a time, over Unix sockets. The path of `folder` has to be short.
///
/// # Errors
///
/// If something does not start, or an answer is another than yes.
pub fn round_trips(folder: &Path, time: Duration) -> Outcome<Asked> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(doing("make a runtime"))?;
    let mut asked = Asked { rows: Vec::new(), memory: Vec::new() };
    let redis_folder = Folder::new(&folder.join("redis"))?;
    let mut redis = Redis::start(&redis_folder)?;
    let nodes = vec![format!("unix:{}", redis.socket().display())];
    runtime.block_on(async {
        let config = RedisConfig { nodes, deadline_ms: 500, ..RedisConfig::default() };
        let store = RedisStore::new(config).map_err(doing("use Redis"))?;
        let limit = Limit::gcra(1_000_000, Duration::from_secs(1), 1_000_000);
        let limit = limit.map_err(doing("make a limit"))?;
        let take = async || {
            let ask = Ask::new(Key::new(b"limit", b"192.0.2.1"), limit, 1);
            store.take(&[ask], Taking::AllOrNothing).await.map(drop).map_err(doing("ask Redis"))
        };
        // The store connects by itself, and says no until it has.
        let begun = Instant::now();
        while take().await.is_err() && begun.elapsed() < CONNECTS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        asked.rows.push(repeated("limit in Redis", time, take).await?);
        Outcome::Ok(())
    })?;
    asked.memory.push(("Redis", resident_bytes(redis.process().id())?));
    drop(redis);
    let mut authz =
        crate::authz::Bench::start(&folder.join("authz"), crate::authz::Kept::InMemory, None)?;
    let address = authz.address(crate::authz::Over::Unix);
    runtime.block_on(async {
        let channel = connect(&address).await?;
        let check = async || match crate::authz::check(channel.clone()).await {
            Ok(true) => Ok(()),
            other => Err(Failure::new(format!("ext-authz says {other:?}"))),
        };
        asked.rows.push(repeated("Check of ext-authz, limit in memory", time, check).await?);
        Outcome::Ok(())
    })?;
    asked.memory.push(("ext-authz", authz.memory()?));
    drop(authz);
    for (keys, name) in [("", "ext-proc, rules of CRS"), ("mode: off\n", "ext-proc, no rules")] {
        let mut bench = decisions::Bench::start(&folder.join("ext-proc"), keys)?;
        let targets = [("empty", "ext_proc that looks at nothing"), ("glacis", name)];
        // What looks at nothing is asked once.
        for (target, name) in targets.into_iter().skip(usize::from(keys.is_empty())) {
            let address = bench.address(target);
            asked.rows.push(runtime.block_on(decided(&address, name, time))?);
        }
        if keys.is_empty() {
            let [envoy, empty, ext_proc] = bench.memory()?;
            asked.memory.extend([
                ("Envoy", envoy),
                ("ext_proc that looks at nothing", empty),
                ("ext-proc, rules of CRS", ext_proc),
            ]);
        }
    }
    Ok(asked)
}

async fn connect(address: &str) -> Outcome<Channel> {
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(doing("name an endpoint"))?;
    endpoint.connect().await.map_err(doing("connect"))
}

/// A stream for each request, as Envoy opens them: its head, and the answer to it.
async fn decided(address: &str, name: &str, time: Duration) -> Outcome<Took> {
    let channel = connect(address).await?;
    let field = |(key, raw_value)| HeaderValue { key, raw_value, ..HeaderValue::default() };
    let headers = decisions::fields().into_iter().map(field).collect();
    let head = HttpHeaders {
        headers: Some(HeaderMap { headers }),
        end_of_stream: true,
        ..HttpHeaders::default()
    };
    let message = ProcessingRequest {
        request: Some(Request::RequestHeaders(head)),
        protocol_config: Some(ProtocolConfiguration::default()),
        ..ProcessingRequest::default()
    };
    let decide = async || {
        let mut client = ExternalProcessorClient::new(channel.clone());
        let stream = client.process(tokio_stream::once(message.clone())).await;
        let mut answers = stream.map_err(doing("open a stream"))?.into_inner();
        let mut count = 0;
        // To its end: a server takes many streams that are dropped before for an attack.
        while answers.message().await.map_err(doing("read an answer"))?.is_some() {
            count += 1;
        }
        (count == 1).then_some(()).ok_or_else(|| Failure::new(format!("{count} answers, not one")))
    };
    repeated(name, time, decide).await
}

async fn repeated(
    name: &str,
    time: Duration,
    mut call: impl AsyncFnMut() -> Outcome<()>,
) -> Outcome<Took> {
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        call().await?;
    }
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < time {
        let asked = Instant::now();
        call().await?;
        times.push(asked.elapsed().as_nanos() as f64);
    }
    Ok(Took::of(name, times))
}
