//! Persistent collections in Redis: two replicas, one count.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;
#[path = "../../limit-store/tests/store/redis_server.rs"]
#[allow(dead_code, reason = "the tests of limit-store use more of it")]
mod redis_server;

use core::time::Duration;
use std::time::Instant;

use harness::{Sent, Service, Stream, counted, eventually, get};
use redis_server::{PATIENCE, RedisServer, free_port};
use rustix::process::{Signal, kill_process};

/// What is done to a client's collection, by path, and what it holds then.
const RULES: &str = r#"
    SecCollectionTimeout 600
    SecAction "id:1,phase:1,pass,nolog,initcol:ip=%{REQUEST_HEADERS.x-client}"
    SecRule REQUEST_URI "@streq /count" "id:2,phase:1,pass,nolog,setvar:ip.seen=+1"
    SecRule REQUEST_URI "@streq /less" "id:3,phase:1,pass,nolog,setvar:ip.seen=-1"
    SecRule REQUEST_URI "@streq /forget" "id:4,phase:1,pass,nolog,setvar:!ip.seen"
    SecRule REQUEST_URI "@streq /soon" "id:5,phase:1,pass,nolog,expirevar:ip.seen=1"
    SecRule REQUEST_URI "@streq /name" "id:6,phase:1,pass,nolog,setvar:ip.name=a:b%{REQUEST_HEADERS.x-client}"
    SecRule IP:name "@streq a:bnamed" "id:7,phase:1,deny,status:451,nolog"
    SecRule IP:seen "@ge 3" "id:8,phase:1,deny,status:429,nolog"
    SecRule IP:seen "@eq 2" "id:9,phase:1,deny,status:402,nolog"
    SecRule IP:seen "@eq 1" "id:10,phase:1,deny,status:401,nolog"
"#;

/// What `service` answers `client`: the status that says what is in its collection, 200 for nothing.
async fn ask(service: &Service, client: &str, path: &str) -> u16 {
    let header = format!("x-client: {client}");
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get(path, &[&header])).await;
    let answer = stream.answer().await;
    match answer.strip_prefix("immediate ") {
        Some(denied) => denied.split(' ').next().unwrap().parse().unwrap(),
        None => 200,
    }
}

/// An exchange counts when it is over, shortly after its answer; and what another replica has written
/// is seen when a copy is older than `fresh_ms`.
async fn settled() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

fn config(server: &RedisServer, rest: &str) -> String {
    let socket = server.socket().display().to_string();
    format!("collections: {{fresh_ms: 100, redis: {{nodes: ['unix:{socket}'], {rest}}}}}\n")
}

async fn replica(server: &RedisServer, rest: &str) -> Service {
    let service = Service::start(&config(server, rest), RULES).await;
    // The line opens in the background.
    let first = format!("ready-{}", service.address.port());
    eventually(async || {
        let before = get(service.admin, "/metrics").await.1;
        ask(&service, &first, "/").await;
        let fetched = |text: &str| {
            let name = "glacis_collections_total{event=\"fetched\"} ";
            let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            line.unwrap_or_default()
        };
        fetched(&before) != fetched(&get(service.admin, "/metrics").await.1)
    })
    .await;
    service
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_see_each_others_counts() {
    let server = RedisServer::start(&[]);
    let patient = "deadline_ms: 2000";
    let (a, b) = (replica(&server, patient).await, replica(&server, patient).await);
    let steps = [
        // Nobody has seen this client: the other one asks Redis.
        (&a, "/count", 401),
        (&b, "/", 401),
        (&b, "/count", 402),
        (&a, "/count", 429),
        (&b, "/less", 402),
        (&a, "/forget", 200),
        (&b, "/", 200),
        (&a, "/name", 200),
        (&a, "/count", 401),
        (&b, "/soon", 401),
    ];
    for (service, path, expected) in steps {
        settled().await;
        assert_eq!(ask(service, "client", path).await, expected, "{path}");
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(ask(&a, "client", "/").await, 200, "it has expired");
    // The name is taken as it is, whatever is in it; other clients have collections of their own.
    assert_eq!(ask(&a, "named", "/name").await, 451);
    settled().await;
    assert_eq!(ask(&b, "named", "/").await, 451);
    assert_eq!(ask(&b, "stranger", "/").await, 200);
    assert!(
        server.answers("TTL glacis:c:{named}ip", ":600")
            || server.answers("TTL glacis:c:{named}ip", ":59")
    );
}

/// Both count at the same time: no count is lost, as what goes to Redis is "add 1".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_both_are_added() {
    let server = RedisServer::start(&[]);
    let patient = "deadline_ms: 2000";
    let (a, b) = (replica(&server, patient).await, replica(&server, patient).await);
    let count = async |service: &Service| {
        for _ in 0..30 {
            ask(service, "busy", "/count").await;
        }
    };
    tokio::join!(count(&a), count(&b));
    server
        .wait_until("all is written", || server.answers("HGET glacis:c:{busy}ip seen", ":60\r\n"));
    counted(&a, "glacis_collections_total{event=\"lost\"} 0").await;
    counted(&b, "glacis_collections_queued 0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_each_counts_alone_and_nobody_waits() {
    let mut server = RedisServer::start(&[]);
    let quick = "deadline_ms: 100, failures_max: 2, retry_max_ms: 100";
    let a = replica(&server, quick).await;
    assert_eq!(ask(&a, "client", "/count").await, 401);
    server
        .wait_until("it is written", || server.answers("HGET glacis:c:{client}ip seen", ":1\r\n"));
    kill_process(server.process(), Signal::STOP).unwrap();
    let frozen = Instant::now();
    for client in 0..40 {
        ask(&a, &format!("other-{client}"), "/count").await;
    }
    // Two waited for the deadline, the others not at all.
    assert!(frozen.elapsed() < Duration::from_secs(4), "{:?}", frozen.elapsed());
    assert_eq!(ask(&a, "client", "/count").await, 402, "what was known is still known");
    kill_process(server.process(), Signal::CONT).unwrap();
    server.kill();
    settled().await;
    assert_eq!(ask(&a, "client", "/count").await, 429);
    counted(&a, "glacis_store_connected{store=\"collections\"} 0").await;
    // What was counted meanwhile comes to a Redis that is there again.
    server.start_again(&[]);
    ask(&a, "client", "/count").await;
    server.wait_until("it is written", || server.answers("EXISTS glacis:c:{client}ip", ":1"));
    assert!(get(a.admin, "/metrics").await.1.contains("glacis_collections_total{event=\"stale\"}"));
    counted(&a, "glacis_store_connected{store=\"collections\"} 1").await;
}

/// A service starts without Redis, and counts alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_redis() {
    let config = format!("collections: {{redis: {{nodes: ['127.0.0.1:{}']}}}}\n", free_port());
    let service = Service::start(&config, RULES).await;
    let start = Instant::now();
    assert_eq!(ask(&service, "client", "/count").await, 401);
    settled().await;
    assert_eq!(ask(&service, "client", "/count").await, 402);
    assert!(start.elapsed() < PATIENCE);
    counted(&service, "glacis_collections_total{event=\"stale\"} 2").await;
}
