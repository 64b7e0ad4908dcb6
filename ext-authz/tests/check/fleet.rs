//! Two services on one Redis: one limit, and bans that both see.

use std::{
    env, fs,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::harness::{Asked, Service, eventually};
use crate::policies::verdict;

/// A real Redis on a Unix socket, without persistence.
struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Redis {
    fn start() -> Self {
        // Short: the path of a socket has 107 bytes at most.
        let folder = env::temp_dir().join(format!("glacis-authz-{}", std::process::id()));
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
    let store = format!(
        "store: {{replicas: 2, redis: {{nodes: [\"unix:{}\"], deadline_ms: 500}}}}\n{CONFIG}",
        redis.socket.display()
    );
    let services = [Service::start(&store, &[]), Service::start(&store, &[])];
    for service in &services {
        // Before Redis is there `strict` refuses, and takes nothing.
        until(service, &Asked::get("/strict").from("192.0.2.99"), "allow").await;
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
}
