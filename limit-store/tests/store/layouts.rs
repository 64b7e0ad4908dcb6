//! Redis as it is laid out elsewhere: behind TLS, behind users, behind sentinels, in a cluster.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use glacis_limit_store::{
    Guarded, MemoryStore, RedisConfig, RedisStore, RedisTls, Store, Topology,
};

use crate::asks::check_table;
use crate::redis_server::{PATIENCE, RedisServer, free_port};
use crate::{ALL, EACH, T0_US, ask, config, fixed, gcra, redis, told};

/// A certificate of 127.0.0.1, its key and its authority, as files in PEM.
struct Certificates {
    folder: PathBuf,
}

fn pem(label: &str, der: &[u8]) -> String {
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

impl Certificates {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("glacis-redis-tls-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        // One name for both would make the other one look like its own authority.
        ca.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = leaf.signed_by(&key, &issuer).unwrap();
        for (name, pem) in [
            ("ca.pem", pem("CERTIFICATE", ca_certificate.der())),
            ("cert.pem", pem("CERTIFICATE", certificate.der())),
            ("key.pem", pem("PRIVATE KEY", &key.serialize_der())),
        ] {
            fs::write(folder.join(name), pem).unwrap();
        }
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What makes a server speak TLS, and to the other servers as well.
    fn arguments(&self) -> Vec<String> {
        let path = |name: &str| self.file(name).display().to_string();
        let pairs = [
            ("--tls-auth-clients", "optional".to_owned()),
            ("--tls-cert-file", path("cert.pem")),
            ("--tls-key-file", path("key.pem")),
            ("--tls-ca-cert-file", path("ca.pem")),
            ("--tls-replication", "yes".to_owned()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    /// How such servers are known.
    fn tls(&self) -> RedisTls {
        RedisTls { ca: Some(self.file("ca.pem")), ..RedisTls::default() }
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn a_user_and_a_certificate_on_both_sides() {
    let files = Certificates::new();
    let path = |name: &str| files.file(name).display().to_string();
    let server = RedisServer::start(&[
        "--tls-auth-clients",
        "yes",
        "--tls-cert-file",
        &path("cert.pem"),
        "--tls-key-file",
        &path("key.pem"),
        "--tls-ca-cert-file",
        &path("ca.pem"),
    ]);
    // What a user has to be allowed, and no more: `limit-store/README.md` says so.
    let user = "ACL SETUSER glacis on >secret ~glacis:* +evalsha +eval +get +set +time";
    assert!(server.answers(user, "+OK"));
    let password_file = files.file("password");
    fs::write(&password_file, "secret\n").unwrap();
    let tls = RedisTls {
        ca: Some(files.file("ca.pem")),
        certificate: Some(files.file("cert.pem")),
        key: Some(files.file("key.pem")),
    };
    let good = RedisConfig {
        username: Some("glacis".to_owned()),
        password_file: Some(password_file.clone()),
        tls: Some(tls.clone()),
        ..config(&server.address())
    };
    let now_us = Arc::new(AtomicU64::new(T0_US));
    check_table(&redis(good.clone(), &now_us).await, &now_us).await;
    let stranger = RedisTls { certificate: None, key: None, ..tls.clone() };
    let unknown = RedisTls { ca: None, ..tls };
    fs::write(files.file("wrong"), "wrong").unwrap();
    let wrong_password = Some(files.file("wrong"));
    for bad in [
        RedisConfig { tls: None, ..good.clone() },
        RedisConfig { tls: Some(stranger), ..good.clone() },
        RedisConfig { tls: Some(unknown), ..good.clone() },
        RedisConfig { password_file: wrong_password, ..good.clone() },
        RedisConfig { prefix: "other:".to_owned(), ..good },
    ] {
        let store = RedisStore::new(bad).unwrap();
        assert!(!store.redis().ready(Duration::from_millis(500)).await, "{store:?}");
        assert!(store.redis().counters().connects_failed.load(Ordering::Relaxed) > 0);
    }
}

/// Three masters, each with a third of the slots, with these further arguments.
fn cluster(more: &[&str]) -> [RedisServer; 3] {
    let servers: [RedisServer; 3] = std::array::from_fn(|_| {
        let bus = free_port().to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        RedisServer::start(&[&own, more].concat())
    });
    let [first, others @ ..] = &servers;
    for (server, slots) in servers.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        assert!(server.answers(&format!("CLUSTER ADDSLOTSRANGE {slots}"), "+OK"));
    }
    for other in others {
        let bus = other.command("CONFIG GET cluster-port");
        let bus = bus.lines().nth(4).unwrap().to_owned();
        assert!(first.answers(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", other.port()), "+OK"));
    }
    for server in &servers {
        server.wait_until("the cluster is one", || {
            let info = server.command("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        });
    }
    servers
}

#[tokio::test]
async fn a_cluster_of_three_masters() {
    let servers = cluster(&[]);
    let now_us = Arc::new(AtomicU64::new(T0_US));
    // One address is enough: the others are learnt.
    let config = RedisConfig { kind: Topology::Cluster, ..config(&servers[0].address()) };
    let store = redis(config, &now_us).await;
    check_table(&store, &now_us).await;
    let asks: Vec<_> =
        (0..60).map(|client| ask("many", &client.to_string(), gcra(1, 1_000, 3), 2)).collect();
    let answers = store.take(&asks, EACH).await.unwrap();
    assert!(answers.iter().all(|answer| answer.taken == 2 && answer.remaining == 1));
    for server in &servers {
        assert!(!server.answers("DBSIZE", ":0"), "every node has a part");
    }
    // One of sixty refuses: what the others took is given back.
    let answers = store.take(&asks[..59], ALL).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.allowed && answer.remaining == 1));
    let mut asks: Vec<_> = asks
        .into_iter()
        .map(|mut ask| {
            ask.cost = 1;
            ask
        })
        .collect();
    asks[7].cost = 2;
    let answers = store.take(&asks, ALL).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| answer.allowed).count(), 59);
    assert!(answers.iter().all(|answer| answer.taken == 0 && answer.remaining == 1));
    asks[7].cost = 1;
    let answers = store.take(&asks, ALL).await.unwrap();
    assert!(answers.iter().all(|answer| answer.taken == 1 && answer.remaining == 0));
    check_moving(&servers, &store).await;
}

/// A slot goes to another master. The keys in it are lost: nobody moves them along here.
async fn check_moving(servers: &[RedisServer; 3], store: &RedisStore) {
    let limit = fixed(10, 60_000);
    let asks = [ask("login", "moving", limit, 1)];
    assert_eq!(store.take(&asks, ALL).await.unwrap()[0].remaining, 9);
    let slot = servers[0].command("CLUSTER KEYSLOT {moving}");
    let slot = slot.lines().next().unwrap().trim_start_matches(':').to_owned();
    let owner = servers.iter().position(|server| !server.answers("GET {moving}", "MOVED")).unwrap();
    let to = (owner + 1) % servers.len();
    let id = servers[to].command("CLUSTER MYID");
    let id = id.lines().nth(1).unwrap().to_owned();
    servers[owner].command("FLUSHALL");
    for server in servers {
        assert!(server.answers(&format!("CLUSTER SETSLOT {slot} NODE {id}"), "+OK"));
    }
    assert_eq!(store.take(&asks, ALL).await.unwrap()[0].remaining, 9);
    assert_eq!(store.take(&asks, ALL).await.unwrap()[0].remaining, 8);
    assert!(servers[to].answers("EXISTS glacis:f60000:{moving}login", ":1"));
}

#[tokio::test]
async fn a_cluster_behind_tls() {
    let files = Certificates::new();
    let arguments = files.arguments();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--tls-cluster", "yes"]);
    let servers = cluster(&arguments);
    let now_us = Arc::new(AtomicU64::new(T0_US));
    let plain = RedisConfig { kind: Topology::Cluster, ..config(&servers[0].address()) };
    let config = RedisConfig { tls: Some(files.tls()), ..plain.clone() };
    let store = redis(config, &now_us).await;
    let asks: Vec<_> =
        (0..60).map(|client| ask("many", &client.to_string(), gcra(1, 1_000, 3), 1)).collect();
    assert!(store.take(&asks, ALL).await.unwrap().iter().all(|answer| answer.taken == 1));
    for server in &servers {
        assert!(!server.answers("DBSIZE", ":0"), "every node has a part");
    }
    let plain = RedisStore::new(plain).unwrap();
    assert!(!plain.redis().ready(Duration::from_millis(500)).await, "{plain:?}");
}

/// A sentinel that asks for a password of its own, and a server that asks for another.
#[tokio::test]
async fn a_sentinel_behind_tls() {
    let files = Certificates::new();
    let arguments = files.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = RedisServer::start(&arguments);
    let sentinel = RedisServer::start(&[&arguments[..], &["--sentinel"]].concat());
    for command in [
        format!("SENTINEL MONITOR m 127.0.0.1 {} 1", server.port()),
        "SENTINEL SET m auth-pass one".to_owned(),
        "ACL SETUSER default resetpass >other".to_owned(),
    ] {
        assert!(sentinel.answers(&command, "+OK"), "{command}: {}", sentinel.command(&command));
    }
    assert!(server.answers("CONFIG SET requirepass one", "+OK"));
    let [one, other] = ["one", "other"].map(|word| {
        fs::write(files.file(word), word).unwrap();
        Some(files.file(word))
    });
    let good = RedisConfig {
        kind: Topology::Sentinel,
        master: Some("m".to_owned()),
        tls: Some(files.tls()),
        password_file: one.clone(),
        sentinel_password_file: other.clone(),
        ..config(&sentinel.address())
    };
    let now_us = Arc::new(AtomicU64::new(T0_US));
    let store = redis(good.clone(), &now_us).await;
    let asks = [ask("login", "a", gcra(1, 60_000, 9), 1)];
    assert_eq!(store.take(&asks, ALL).await.unwrap()[0].remaining, 8);
    for bad in [
        RedisConfig { tls: None, ..good.clone() },
        RedisConfig { sentinel_password_file: one, ..good.clone() },
        RedisConfig { password_file: other, ..good },
    ] {
        let store = RedisStore::new(bad).unwrap();
        assert!(!store.redis().ready(Duration::from_millis(500)).await, "{store:?}");
    }
}

#[tokio::test]
async fn a_master_that_fails_over() {
    // A master waits five seconds for more replicas before it serves the first.
    let mut master = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    replica
        .wait_until("it follows", || replica.answers("INFO replication", "master_link_status:up"));
    let sentinel = RedisServer::start(&["--sentinel"]);
    for command in [
        format!("SENTINEL MONITOR m 127.0.0.1 {} 1", master.port()),
        "SENTINEL SET m down-after-milliseconds 500".to_owned(),
        "SENTINEL SET m failover-timeout 2000".to_owned(),
    ] {
        assert!(sentinel.answers(&command, "+OK"), "{command}");
    }
    sentinel.wait_until("it knows the replica", || {
        sentinel.answers("SENTINEL REPLICAS m", &replica.port().to_string())
    });
    let config = RedisConfig {
        kind: Topology::Sentinel,
        master: Some("m".to_owned()),
        deadline_ms: 500,
        retry_max_ms: 200,
        ..config(&sentinel.address())
    };
    let now_us = Arc::new(AtomicU64::new(T0_US));
    let store = Guarded::new(redis(config, &now_us).await, 1, MemoryStore::new(100));
    let asks = [ask("login", "a", gcra(1, 60_000, 9), 1)];
    assert_eq!(told(&store.take(&asks, ALL).await.unwrap()), "+1/8 0 60000000");
    replica.wait_until("it has the key", || !replica.answers("DBSIZE", ":0"));
    master.kill();
    assert_eq!(store.take(&asks, ALL).await.unwrap()[0].remaining, 8, "decided alone");
    replica.wait_until("it is the master", || replica.answers("ROLE", "master"));
    assert!(store.store().redis().ready(PATIENCE).await);
    assert_eq!(told(&store.take(&asks, ALL).await.unwrap()), "+1/7 0 120000000");
    assert_eq!(store.counters().local.load(Ordering::Relaxed), 1);
}
