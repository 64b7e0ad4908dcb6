//! Two services on one Redis: one limit, and bans that both see.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::harness::{Asked, Service, eventually};
use crate::policies::verdict;

/// A real Redis on a Unix socket, without persistence.
pub(crate) struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Redis {
    pub(crate) fn start() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Short: the path of a socket has 107 bytes at most.
        let folder = env::temp_dir().join(format!("glacis-authz-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("redis.sock");
        let program = env::var_os("GLACIS_REDIS").unwrap_or_else(|| "redis-server".into());
        let child = Command::new(program)
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("Redis listens", || UnixStream::connect(&socket).is_ok());
        Self { child, socket }
    }

    /// The section of the configuration for one of two services that count in it.
    pub(crate) fn section(&self) -> String {
        let socket = self.socket.display();
        format!("store: {{replicas: 2, redis: {{nodes: [\"unix:{socket}\"], deadline_ms: 500}}}}\n")
    }
}

impl Redis {
    /// How many scripts it has run that count. Those that look for bans, four times a second whatever is asked, are
    /// not among them: each of these calls `ZREMRANGEBYSCORE` once.
    fn scripts(&self) -> u64 {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(b"INFO commandstats\r\nQUIT\r\n").unwrap();
        let mut stats = String::new();
        stream.read_to_string(&mut stats).unwrap();
        let count = |command: &str| {
            let name = format!("cmdstat_{command}:calls=");
            let calls = |line: &str| line.strip_prefix(&name)?.split(',').next()?.parse().ok();
            stats.lines().find_map(calls).unwrap_or(0_u64)
        };
        count("evalsha").saturating_sub(count("zremrangebyscore"))
    }
}

/// The sample that says whether a service asks its Redis.
const CONNECTED: &str = "glacis_store_connected{store=\"limits\"}";

/// Waits until a service has found its Redis.
#[track_caller]
pub(crate) fn until_connected(service: &Service) {
    eventually("Redis is there", || service.metric(CONNECTED) > 0.5);
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(folder) = self.socket.parent() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

const CONFIG: &str = r#"
otherwise: allow
policies: [{name: closed, match: {paths: ["/closed"]}, action: deny}]
bans: [{name: knocking, reasons: [policy], capacity: 1, leak_seconds: 3600, ban_seconds: 60}]
rate_limits:
- {name: few, requests: 4, per_seconds: 3600, match: {paths: [/few]}}
- {name: strict, requests: 4, per_seconds: 3600, match: {paths: [/strict]}, on_store_failure: deny}
- {name: mild, requests: 4, per_seconds: 3600, match: {paths: [/mild]}, on_store_failure: allow}
lists: {listen: "127.0.0.1:0"}
"#;

/// Asks until the answer is this: whether Redis is there is found out in the background.
async fn until(service: &Service, asked: &Asked, expected: &str) {
    let begun = Instant::now();
    loop {
        let found = verdict(&service.check(asked).await.unwrap());
        if found == expected {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{found}, not {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn one_limit_and_one_list_of_bans_for_all() {
    let redis = Redis::start();
    let store = format!("{}{CONFIG}", redis.section());
    let services = [Service::start(&store, &[]), Service::start(&store, &[])];
    for service in &services {
        // Before Redis is there `strict` refuses, and takes nothing.
        until(service, &Asked::get("/strict").from("192.0.2.99"), "allow").await;
        until_connected(service);
        assert!(service.get("/status").1.contains("\"store\":{\"connected\":true}"));
    }
    // Each may take two of the four: it is one limit.
    let few = Asked::get("/few");
    for expected in ["allow", "allow", "deny rate_limit"] {
        for service in &services {
            assert_eq!(verdict(&service.check(&few).await.unwrap()), expected);
        }
    }
    let [one, other] = &services;
    let knock = Asked::get("/closed").from("192.0.2.66");
    // One drop on each service: the second is one too many.
    one.check(&knock).await.unwrap();
    other.check(&knock).await.unwrap();
    let begun = Instant::now();
    eventually("both have it in their lists", || {
        services.iter().all(|service| service.list("bans", "").1.contains("192.0.2.66 deny"))
    });
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    for service in &services {
        let answer = service.check(&Asked::get("/").from("192.0.2.66")).await.unwrap();
        assert_eq!(verdict(&answer), "deny banned");
    }
    let alone = |policy: &str| {
        let labels = format!("store=\"limits\",policy=\"{policy}\"");
        one.metric(&format!("glacis_store_decided_alone_total{{{labels}}}"))
    };
    let ended = |result: &str| {
        let labels = format!("store=\"limits\",result=\"{result}\"");
        one.metric(&format!("glacis_store_requests_total{{{labels}}}"))
    };
    assert!(ended("answered") > 3.5);
    let before = ["allow", "deny", "local"].map(alone);
    drop(redis);
    // Each policy for itself; what is counted alone is half of it. Bans stay.
    until(one, &Asked::get("/strict").from("192.0.2.50"), "deny rate_limit").await;
    for _ in 0..6 {
        assert_eq!(verdict(&one.check(&Asked::get("/mild")).await.unwrap()), "allow");
    }
    for expected in ["allow", "allow", "deny rate_limit"] {
        let answer = one.check(&Asked::get("/few").from("192.0.2.51")).await.unwrap();
        assert_eq!(verdict(&answer), expected);
    }
    let answer = one.check(&Asked::get("/").from("192.0.2.66")).await.unwrap();
    assert_eq!(verdict(&answer), "deny banned");
    // Each Check had a verdict, so that only metrics tell of the outage.
    let [allow, deny, local] = ["allow", "deny", "local"].map(alone);
    let since = [allow - before[0], deny - before[1], local - before[2]];
    assert_eq!(since, [6.0, 1.0, 3.0]);
    assert!(one.metric(CONNECTED) < 0.5);
    assert!(one.get("/status").1.contains("\"store\":{\"connected\":false}"));
    assert!(ended("unavailable") > 8.5);
    assert!(one.metric("glacis_authz_errors_total{kind=\"store\"}") < 0.5);
}

/// A flood over a limit reaches Redis once in ten seconds, by Checks and by the rate limit protocol; who passes is the
/// same without the cache.
#[tokio::test]
async fn a_flood_over_a_limit_does_not_reach_redis() {
    const FLOOD: u64 = 150;
    const LIMITS: &str = "domain: flood\ndescriptors:\n- key: client\n  rate_limit: {unit: day, requests_per_unit: 3}\n";
    let config = "otherwise: allow\nrate_limit_service: {config: limits}\n\
        rate_limits: [{name: few, requests: 4, per_seconds: 36000, headers_on_allowed: true}]\n";
    for (cache, asked) in [("{}", 4 + 1 + 3 + 1 + 1), ("{entries_max: 0}", 2 * FLOOD)] {
        let redis = Redis::start();
        let store = redis.section().replace("replicas: 2", &format!("over_limit_cache: {cache}"));
        let service = Service::start(&format!("{store}{config}"), &[("limits/a.yaml", LIMITS)]);
        until_connected(&service);
        let (before, begun) = (redis.scripts(), Instant::now());
        let (mut allowed, mut within) = (0, 0);
        for _ in 0..FLOOD {
            let answer = service.check(&Asked::get("/")).await.unwrap();
            allowed += u64::from(verdict(&answer) == "allow");
            let answer = service.limit("flood", "client", "a").await;
            within += u64::from(answer.overall_code == 1);
        }
        assert_eq!((allowed, within), (4, 3), "{cache}");
        // One more for each entry that has ended, and for a connection that began anew.
        let ended = 2 * (begun.elapsed().as_secs() / 10 + 1);
        let scripts = redis.scripts() - before;
        assert!((asked - 1..=asked + ended).contains(&scripts), "{cache}: {scripts}, not {asked}");
        if cache == "{}" {
            let hits = service.metric("glacis_over_limit_cache_hits_total");
            let expected = (2 * FLOOD - scripts) as f64;
            assert!((hits - expected).abs() < 2.5, "{hits}, not {expected}");
            // What a client is told is what Redis would say.
            let answer = service.check(&Asked::get("/")).await.unwrap();
            let told = format!("{:?}", answer.http_response);
            assert!(
                told.contains("\\\"few\\\";q=4;w=36000") && told.contains("retry-after"),
                "{told}"
            );
        }
        assert!(service.metric("glacis_authz_errors_total{kind=\"store\"}") < 0.5);
    }
}
