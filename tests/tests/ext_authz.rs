//! ext-authz behind a real Envoy: what it is asked, what its answers do, and what becomes of requests when it is
//! not there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests fail loudly"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

use glacis_tests::envoy::{self, Envoy};
use glacis_tests::ext_proc::edited;
use glacis_tests::http::{self, Request, Response};
use glacis_tests::log::Folder;
use glacis_tests::rate_limit::ExtAuthz;
use glacis_tests::{ports, settings, upstream};
use serde_json::Value;

const SHIPPED: &str = "envoy-configs/ext-authz/envoy.yaml";

/// Keys: `acme-key`.
const CONFIG: &str = r#"
networks: {entries: ["127.66.0.0/16 deny", "127.7.0.0/16 tag=office"]}
api_keys:
  from: [{header: x-api-key}, {query: key}, {cookie: key}]
  clients:
  - name: acme
    keys: [{hash: "sha256:afacab3575137afa4e00d9cbcafcb14c9ae25f779d964eb0ea5b2c4eb5dfd163"}]
otherwise: allow
max_message_bytes: 1048576
policies:
- {name: inner, match: {hosts: [inner.example]}, require: {api_key: {}}}
- {name: admin, match: {paths: ["/admin/**"]}, require: {tags: [office]}}
- {name: orders, match: {paths: ["/orders/**"]}, require: {api_key: {}}}
- {name: token, match: {paths: ["/token/**"]}, require: {jwt: {scopes: [write], claims: {roles: [admin]}}}}
rate_limits:
- {name: few, requests: 2, per_seconds: 3600, headers_on_allowed: true, match: {paths: ["/few"]}}
profiles:
  api:
    directives: |
      SecRule ARGS "@contains attack" "id:1001,phase:2,deny,status:403,log"
      SecRule REQUEST_HEADERS:x-bytes "@rx \xff" "id:1002,phase:1,deny,status:406,log"
"#;

/// A filter that checks tokens with a key that everybody knows.
const JWT: &str = r#"http_filters:
          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers:
                test:
                  issuer: https://issuer.example
                  payload_in_metadata: jwt_payload
                  local_jwks: {inline_string: '{"keys":[{"kty":"oct","alg":"HS256","kid":"k","k":"YSBrZXkgdGhhdCBldmVyeWJvZHkga25vd3M6IDMyKyBieXRlcw"}]}'}
              rules:
              - match: {prefix: /}
                requires: {requires_any: {requirements: [{provider_name: test}, {allow_missing: {}}]}}
"#;

/// Tokens of that key: of an admin who may write, and of somebody else.
const ADMIN: &str = "Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6ImsiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoiYWxpY2UiLCJzY29wZSI6InJlYWQgd3JpdGUiLCJyb2xlcyI6WyJhZG1pbiJdfQ.w6Dp5oP0bdLteqraNeXztMOLv6YFljyZExzmu3FTjp4";
const OTHER: &str = "Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6ImsiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoiYm9iIiwic2NvcGUiOiJyZWFkIn0.0YL7Eh2dUqQ_NxXzhq4YZzxwBzvrJDF2eq3jK4RvUaI";

const OFFICE: Ipv4Addr = Ipv4Addr::new(127, 7, 0, 1);
const DENIED: Ipv4Addr = Ipv4Addr::new(127, 66, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

/// Envoy, the service and an upstream; stopped when dropped, Envoy first.
struct Stack {
    envoy: Envoy,
    service: ExtAuthz,
    folder: Folder,
    proxy: SocketAddr,
}

impl Stack {
    /// The service listens on a Unix socket or on TCP; `edits` change Envoy's configuration.
    fn start(name: &str, over_unix: bool, edits: &[(&str, &str)]) -> Self {
        Self::start_with(name, over_unix, None, edits)
    }

    /// With a `token` the service wants it for every call.
    fn start_with(
        name: &str,
        over_unix: bool,
        token: Option<&str>,
        edits: &[(&str, &str)],
    ) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ext-authz").join(name);
        let folder = Folder::new(&path).unwrap();
        let [proxy, envoy_admin, grpc, admin, upstream_port] = ports::free().unwrap();
        upstream::spawn(upstream_port).unwrap();
        let socket = folder.file("authz.sock");
        let port =
            |old: u16, new: u16| (format!("port_value: {old}}}"), format!("port_value: {new}}}"));
        let mut all = vec![port(10000, proxy), port(9901, envoy_admin), port(8080, upstream_port)];
        let wanted = token.map(|token| {
            folder.write("token", token).unwrap();
            ", token_file: token"
        });
        let wanted = wanted.unwrap_or_default();
        let (listen, place) = match over_unix {
            true => (
                format!("{{tcp: null, unix: {{path: {}}}{wanted}}}", socket.display()),
                format!("{{pipe: {{path: {}}}}}", socket.display()),
            ),
            false => (
                format!("{{tcp: 127.0.0.1:{grpc}{wanted}}}"),
                format!("{{socket_address: {{address: 127.0.0.1, port_value: {grpc}}}}}"),
            ),
        };
        all.push(("{socket_address: {address: 127.0.0.1, port_value: 9002}}".to_owned(), place));
        all.extend(edits.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())));
        let all: Vec<(&str, String)> =
            all.iter().map(|(old, new)| (old.as_str(), new.clone())).collect();
        let config = format!("listen: {listen}\nadmin: {{address: 127.0.0.1:{admin}}}\n{CONFIG}");
        let config = folder.write("ext-authz.yaml", &config).unwrap();
        let service = ExtAuthz::start(&config, admin, &folder).unwrap();
        let envoy = Envoy::start(
            &settings::envoy().unwrap(),
            &settings::root(),
            &edited(SHIPPED, &all).unwrap(),
            envoy_admin,
            &folder,
        );
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, proxy));
        let stack = Self { envoy: envoy.unwrap(), service, folder, proxy };
        stack.wait_for_health(1);
        stack
    }

    fn wait_for_health(&self, members: u64) {
        let begun = Instant::now();
        while self.envoy.stat("cluster.glacis-ext-authz.membership_healthy").unwrap() != members {
            assert!(begun.elapsed() < Duration::from_secs(15), "never {members} healthy services");
            sleep(Duration::from_millis(20));
        }
    }

    fn send(&self, from: Ipv4Addr, request: &Request) -> Response {
        http::send(Some(from), self.proxy, request).unwrap()
    }

    /// A sample of a metric of the service.
    fn metric(&self, sample: &str) -> f64 {
        let text = self.service.metrics().unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {sample} in {text}"))
    }

    /// What the access log says of the first request for this path.
    fn logged(&self, path: &str) -> Value {
        for _ in 0..200 {
            self.envoy.reopen_logs().unwrap();
            let log = self.folder.read(envoy::LOG);
            let mut lines = log.lines().flat_map(serde_json::from_str::<Value>);
            if let Some(line) = lines.find(|line| line["path"] == path) {
                return line;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("{path} is not in the access log");
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if panicking() {
            eprintln!("{}", self.folder.story());
        }
        self.envoy.process().stop();
    }
}

fn requests_over(stack: &Stack) {
    let get = Request::get;
    for (from, request, status) in [
        (CLIENT, get("/"), 200),
        (DENIED, get("/"), 403),
        (CLIENT, get("/admin/x"), 403),
        (OFFICE, get("/admin/x"), 200),
        (CLIENT, get("/orders/1"), 401),
        (CLIENT, get("/orders/1").header("x-api-key", "nobody"), 401),
        (CLIENT, get("/orders/1").header("x-api-key", "acme-key"), 200),
        // Ways to write a host, or a path, that servers may take for the closed one.
        (CLIENT, get("/").header("host", "inner.example"), 401),
        (CLIENT, get("/").header("host", "inner.example.:443"), 401),
        (CLIENT, get("/").header("host", "inner.example.."), 400),
        (CLIENT, get("/").header("host", "x@inner.example"), 400),
        (CLIENT, get("/").header("host", "inner.example:80:80"), 400),
        (CLIENT, get("/").header("host", "[inner.example]"), 400),
        (CLIENT, get("/admin%20/x"), 400),
        (CLIENT, get("/admin./x"), 400),
        (CLIENT, get("//admin;a=b/x"), 400),
        (CLIENT, get("/token/x"), 401),
        (CLIENT, get("/token/x").header("authorization", ADMIN), 200),
        (CLIENT, get("/token/x").header("authorization", OTHER), 403),
        (CLIENT, get("/api/?q=plain"), 200),
        (CLIENT, get("/api/?q=attack"), 403),
        // Rules are those of the route.
        (CLIENT, get("/?q=attack"), 200),
        (CLIENT, get("/api/").header("x-bytes", b"a\xffb"), 406),
        (CLIENT, get("/few"), 200),
        (CLIENT, get("/few?again"), 200),
        (CLIENT, get("/few"), 429),
    ] {
        let answer = stack.send(from, &request);
        assert_eq!(answer.status, status, "{} {:?}", request.target, answer.text());
    }
    let form = "application/x-www-form-urlencoded";
    for (body, status) in [
        (b"q=plain".to_vec(), 200),
        (b"q=attack".to_vec(), 403),
        // More than Envoy sends.
        ([b"q=".to_vec(), vec![b'a'; 100_000]].concat(), 413),
    ] {
        let answer = stack.send(CLIENT, &Request::post("/api/", form, body));
        assert_eq!(answer.status, status, "{:?}", answer.text());
    }
}

#[test]
fn requests_over_tcp_and_over_a_unix_socket() {
    for (name, over_unix) in [("tcp", false), ("unix", true)] {
        let stack = Stack::start(name, over_unix, &[("http_filters:\n", JWT)]);
        requests_over(&stack);
        let limited = stack.send(CLIENT, &Request::get("/few"));
        assert_eq!(limited.header("ratelimit-policy"), Some("\"few\";q=2;w=3600"));
        assert!(limited.header("retry-after").is_some());
        let refused =
            stack.send(CLIENT, &Request::get("/admin/x").header("accept", "application/json"));
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        let id = refused.json()["request_id"].as_str().unwrap().to_owned();
        let logged = stack.logged("/admin/x");
        assert_eq!(
            (&logged["authz"]["verdict"], &logged["authz"]["reason"]),
            (&"deny".into(), &"wrong_network".into())
        );
        assert!(!id.is_empty() && !refused.text().contains("office"));
        assert_eq!(stack.logged("/orders/1")["authz"]["policy"], "orders");
        // Nothing is wrong with the shipped configuration.
        for kind in ["no_raw_headers", "no_client_address"] {
            assert!(
                stack.metric(&format!("glacis_authz_alarms_total{{kind=\"{kind}\"}}")) < 0.5,
                "{kind}"
            );
        }
    }
}

#[test]
fn the_upstream_learns_who_it_is() {
    let stack = Stack::start("upstream", false, &[]);
    let request = Request::get("/echo")
        .header("x-api-key", "acme-key")
        .header("x-glacis-client", "forged")
        .header("x_glacis_client", "forged");
    let seen = stack.send(CLIENT, &request).text();
    assert!(
        seen.contains("acme") && !seen.contains("acme-key") && !seen.contains("forged"),
        "{seen}"
    );
    let anonymous =
        stack.send(CLIENT, &Request::get("/echo").header("x-glacis-client", "forged")).text();
    assert!(anonymous.contains(":path") || anonymous.contains("/echo"), "{anonymous}");
    assert!(!anonymous.contains("forged"), "{anonymous}");
    let allowed = stack.send(CLIENT, &Request::get("/few"));
    assert_eq!(allowed.header("ratelimit"), Some("\"few\";r=1;t=1800"));
}

/// However the name of its parameter is spelled, and wherever else the key is.
#[test]
fn the_upstream_never_sees_a_key() {
    let stack = Stack::start("keys", false, &[]);
    let own = ("x-api-key", "acme-key");
    for (target, headers, status) in [
        ("/echo?key=acme-key&a=1", &[][..], 200),
        ("/echo?a=1&key=acme-key&key=acme-key", &[], 200),
        ("/echo?key=acme%2Dkey", &[], 200),
        (
            "/echo?key=acme-key",
            &[own, ("cookie", "a=1; key=acme-key"), ("cookie", "key=acme-key")],
            200,
        ),
        ("/echo?%6bey=acme-key", &[], 400),
        ("/echo?k%65y=acme-key", &[own], 400),
        ("/echo?key=acme-key&%6B%65%79=acme-key", &[], 400),
        ("/orders/1?%6bey=acme-key", &[], 400),
        // Other names, of which none is ours: nobody is let in by them.
        ("/orders/1?k+ey=acme-key", &[], 401),
        ("/orders/1?+key=acme-key", &[], 401),
        ("/orders/1?%256bey=acme-key", &[], 401),
        ("/orders/1?a;key=acme-key", &[], 401),
        ("/orders/1?KEY=acme-key", &[], 401),
    ] {
        let request = headers
            .iter()
            .fold(Request::get(target), |request, (name, value)| request.header(name, value));
        let answer = stack.send(CLIENT, &request);
        assert_eq!(answer.status, status, "{target} {headers:?}: {}", answer.text());
        let seen = answer.text();
        assert!(!seen.contains("acme-key") && !seen.contains("acme%2D"), "{target}: {seen}");
        if status == 200 {
            // It counts as that of its client.
            assert!(seen.contains("x-glacis-client"), "{target}: {seen}");
        }
    }
}

/// An Envoy with the token is answered; the calls of one without it, or with another, fail, and its failure mode
/// decides. Health checks need no token.
#[test]
fn only_an_envoy_with_the_token_is_answered() {
    const TOKEN: &str = "e2e-0123456789abcdef";
    const SERVICE: &str = "envoy_grpc: {cluster_name: glacis-ext-authz}\n";
    let metadata = |token: &str| {
        format!(
            "{SERVICE}                initial_metadata: [{{key: authorization, value: \"Bearer {token}\"}}]\n"
        )
    };
    let (good, bad) = (metadata(TOKEN), metadata("another-0123456789abcdef"));
    for (name, over_unix, edits, statuses, rejected) in [
        ("token", false, &[(SERVICE, good.as_str())][..], [200, 403], 0.0),
        ("token-unix", true, &[(SERVICE, good.as_str())], [200, 403], 0.0),
        ("no-token", false, &[], [503, 503], 2.0),
        ("no-token-unix", true, &[], [503, 503], 2.0),
        ("other-token", false, &[(SERVICE, bad.as_str())], [503, 503], 2.0),
    ] {
        let stack = Stack::start_with(name, over_unix, Some(TOKEN), edits);
        let found = [CLIENT, DENIED].map(|from| stack.send(from, &Request::get("/")).status);
        assert_eq!(found, statuses, "{name}");
        let counted = stack.metric("glacis_unauthenticated_total{listener=\"grpc\"}");
        assert!((counted - rejected).abs() < 0.5, "{name}: {counted}");
    }
}

#[test]
fn without_raw_headers_there_is_an_alarm() {
    let stack =
        Stack::start("joined", false, &[("encode_raw_headers: true", "encode_raw_headers: false")]);
    assert_eq!(stack.send(CLIENT, &Request::get("/")).status, 200);
    assert_eq!(stack.send(DENIED, &Request::get("/")).status, 403);
    assert!(stack.metric("glacis_authz_alarms_total{kind=\"no_raw_headers\"}") > 1.5);
}

/// Bytes that are no text, in places that Envoy sends as text, and bodies that are too large: where the failure mode lets
/// requests pass, they must not fail.
#[test]
fn content_does_not_choose_the_failure_mode() {
    let open = [
        ("failure_mode_allow: false", "failure_mode_allow: true"),
        ("max_request_bytes: 65536", "max_request_bytes: 4194304"),
        ("pack_as_bytes: true", "pack_as_bytes: false"),
    ];
    let stack = Stack::start_with("content", false, None, &open);
    let post = |body: &[u8]| {
        let mut request =
            b"POST /orders/1 HTTP/1.1\r\nhost: shop.example\r\ncontent-type: text/plain\r\n"
                .to_vec();
        request.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
        request.extend_from_slice(body);
        request
    };
    let get = |head: &[u8]| [head, b"\r\nhost: shop.example\r\n\r\n"].concat();
    for (name, request, statuses) in [
        ("a path", get(b"GET /orders/\xff HTTP/1.1"), &[400, 401][..]),
        ("a query", get(b"GET /orders/1?a=\xff\xfe HTTP/1.1"), &[400, 401]),
        ("a field", get(b"GET /orders/1 HTTP/1.1\r\nx-bytes: \xff"), &[400, 401]),
        ("a host", b"GET /orders/1 HTTP/1.1\r\nhost: \xff.example\r\n\r\n".to_vec(), &[400, 401]),
        ("a body", post(b"a=\xff\xfe"), &[400, 401]),
        // With its headers more than the service reads of a message, and no more than Envoy holds.
        ("a large body", post(&vec![b'a'; 1_048_300]), &[413]),
    ] {
        let mut connection = http::Connection::open(Some(CLIENT), stack.proxy).unwrap();
        let answer = connection.exchange(&request, "GET").unwrap();
        assert!(statuses.contains(&answer.status), "{name}: {} {}", answer.status, answer.text());
    }
    assert!(stack.metric("glacis_authz_refused_total{reason=\"unreadable\"}") > 0.5);
    for kind in ["protocol", "store", "overload", "panic"] {
        let errors = stack.metric(&format!("glacis_authz_errors_total{{kind=\"{kind}\"}}"));
        assert!(errors < 0.5, "{kind}: {errors}");
    }
    let failed = stack.envoy.stat("http.glacis.ext_authz.error").unwrap();
    assert_eq!(failed, 0, "no Check has failed");
}

/// Envoy decides, as its configuration says: at once when nobody listens, and after the timeout when the service
/// stands still.
#[test]
fn when_the_service_is_away() {
    for (name, edits, away) in [
        ("closed", &[][..], 503),
        ("open", &[("failure_mode_allow: false", "failure_mode_allow: true")], 200),
    ] {
        let mut stack = Stack::start(name, false, edits);
        stack.service.process().freeze().unwrap();
        assert_eq!(stack.send(CLIENT, &Request::get("/")).status, away, "{name}, frozen");
        stack.service.process().thaw().unwrap();
        stack.wait_for_health(1);
        assert_eq!(stack.send(DENIED, &Request::get("/")).status, 403, "{name}, back");
        stack.service.process().kill();
        assert_eq!(stack.send(DENIED, &Request::get("/")).status, away, "{name}, killed");
        stack.wait_for_health(0);
        let begun = Instant::now();
        assert_eq!(stack.send(CLIENT, &Request::get("/")).status, away, "{name}, known to be away");
        assert!(begun.elapsed() < Duration::from_millis(200), "{name}: {:?}", begun.elapsed());
    }
}
