//! Envoy's rate limit filter in front of ext-authz: `envoy-configs/ratelimit/`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use glacis_tests::envoy::Envoy;
use glacis_tests::http::{self, Request, Response};
use glacis_tests::log::Folder;
use glacis_tests::rate_limit::ExtAuthz;
use glacis_tests::{ports, settings, upstream};

use crate::support::{client, folder};

const CONFIGS: &str = "envoy-configs/ratelimit";

/// Envoy, ext-authz and the upstream.
struct Stack {
    envoy: Envoy,
    ext_authz: ExtAuthz,
    proxy: SocketAddr,
}

impl Stack {
    fn start(name: &str, edits: &[(&str, &str)]) -> Self {
        let folder = Folder::new(&folder(name)).unwrap();
        let [proxy, admin, authz, authz_admin, upstream] = ports::free().unwrap();
        let read = |file: &str| fs::read_to_string(settings::root().join(CONFIGS).join(file));
        let port = |text: String, old: u16, new: u16| {
            assert!(text.contains(&old.to_string()), "no {old} in {text}");
            text.replace(&old.to_string(), &new.to_string())
        };
        let mut config = read("envoy.yaml").unwrap();
        for (old, new) in [(10_000, proxy), (9_901, admin), (9_002, authz), (8_080, upstream)] {
            config = port(config, old, new);
        }
        for (old, new) in edits {
            assert!(config.contains(old), "no {old} in {config}");
            config = config.replace(old, new);
        }
        let mut service = read("ext-authz.yaml").unwrap();
        for (old, new) in [(9_002, authz), (9_102, authz_admin)] {
            service = port(service, old, new);
        }
        fs::create_dir(folder.file("limits")).unwrap();
        fs::write(folder.file("limits/edge.yaml"), read("limits/edge.yaml").unwrap()).unwrap();
        let service = folder.write("ext-authz.yaml", &service).unwrap();
        upstream::spawn(upstream).unwrap();
        let ext_authz = ExtAuthz::start(&service, authz_admin, &folder).unwrap();
        let envoy = settings::envoy().unwrap();
        let envoy = Envoy::start(&envoy, &settings::root(), &config, admin, &folder).unwrap();
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, proxy));
        Self { envoy, ext_authz, proxy }
    }

    fn get(&self, from: Ipv4Addr, path: &str, headers: &[(&str, &str)]) -> Response {
        let request =
            headers.iter().fold(Request::get(path).browser(), |request, (name, value)| {
                request.header(name, value)
            });
        http::send(Some(from), self.proxy, &request).unwrap()
    }

    fn statuses(&self, from: Ipv4Addr, path: &str, headers: &[(&str, &str)], n: usize) -> Vec<u16> {
        (0..n).map(|_| self.get(from, path, headers).status).collect()
    }
}

#[test]
fn actions_of_envoy_find_their_limits() {
    let stack = Stack::start("ratelimit", &[]);
    let (ann, bob) = (client(), client());
    // By action and address: three in a minute, which may end meanwhile.
    let first = stack.get(ann, "/login", &[]);
    assert_eq!(first.status, 200);
    let header = |answer: &Response, name: &str| {
        answer.header(name).unwrap_or_else(|| panic!("no {name} in {answer:?}")).to_owned()
    };
    assert_eq!(header(&first, "ratelimit-limit"), "3");
    assert_eq!(header(&first, "ratelimit-remaining"), "2");
    assert!((1..=60).contains(&header(&first, "ratelimit-reset").parse::<u32>().unwrap()));
    // Envoy makes these of the statuses.
    assert_eq!(header(&first, "x-ratelimit-limit"), "3, 3;w=60");
    assert_eq!(header(&first, "x-ratelimit-remaining"), "2");
    let mut refused = None;
    for _ in 0..8 {
        let answer = stack.get(ann, "/login", &[]);
        if answer.status == 429 {
            refused = Some(answer);
        }
    }
    let refused = refused.expect("eight requests in no time, of which three are allowed");
    assert_eq!(header(&refused, "ratelimit-remaining"), "0");
    assert!(refused.header("x-envoy-ratelimited").is_some(), "{refused:?}");
    assert_eq!(stack.get(bob, "/login", &[]).status, 200);
    // Unlimited, and nothing at all.
    let (scanner, banned) = (Ipv4Addr::new(127, 77, 0, 1), Ipv4Addr::new(127, 77, 0, 2));
    assert_eq!(stack.statuses(scanner, "/login", &[], 10), [200; 10]);
    assert_eq!(stack.get(banned, "/login", &[]).status, 429);

    // By the route's metadata and a header; without the header there is no descriptor.
    let plan = |tenant| [("x-tenant", tenant)];
    assert_eq!(stack.statuses(ann, "/api", &plan("a"), 3), [200, 200, 429]);
    assert_eq!(stack.statuses(ann, "/api", &plan("b"), 1), [200]);
    assert_eq!(stack.statuses(ann, "/api", &[], 5), [200; 5]);
    // What the tool is allowed replaces the plan.
    let tool = |tenant| [("x-tenant", tenant), ("x-tool", "batch")];
    assert_eq!(stack.statuses(ann, "/api", &tool("c"), 6), [200, 200, 200, 200, 200, 429]);
    assert_eq!(stack.statuses(ann, "/api", &plan("c"), 3), [200, 200, 429]);

    // Wildcards: together, and only looked at.
    let paths = ["/files/a", "/files/b?x=1", "/files/", "/other"];
    assert_eq!(paths.map(|path| stack.get(bob, path, &[]).status), [200, 200, 429, 200]);
    assert_eq!(stack.statuses(bob, "/new/a", &[], 3), [200; 3]);
    let metrics = stack.ext_authz.metrics().unwrap();
    for line in [
        r#"hits_total{domain="edge",descriptor="path_/new/*",result="shadowed"} 2"#,
        r#"hits_total{domain="edge",descriptor="path_/files/*",result="over"} 1"#,
        r#"hits_total{domain="edge",descriptor="tool.tenant",result="within"} 5"#,
        r#"hits_total{domain="edge",descriptor="action_login.remote_address_127.77.0.1",result="unlimited"} 10"#,
    ] {
        assert!(metrics.contains(&format!("glacis_ratelimit_{line}\n")), "no {line} in\n{metrics}");
    }
    let over = stack.envoy.stat("cluster.sample-upstream.ratelimit.over_limit").unwrap();
    assert!(over >= 6, "{over}");
}

/// Envoy decides when the service is away, as its `failure_mode_deny` says.
#[test]
fn without_the_service_the_failure_mode_decides() {
    for (name, edits, status) in [
        ("ratelimit-closed", &[][..], 500),
        ("ratelimit-open", &[("failure_mode_deny: true", "failure_mode_deny: false")], 200),
    ] {
        let mut stack = Stack::start(name, edits);
        let from = client();
        assert_eq!(stack.get(from, "/files/a", &[]).status, 200, "{name}");
        stack.ext_authz.process().kill();
        assert_eq!(stack.statuses(from, "/files/a", &[], 5), [status; 5], "{name}");
        // A route without limits asks nobody.
        let errors = stack.envoy.stat("cluster.sample-upstream.ratelimit.error").unwrap();
        assert_eq!(errors, 5, "{name}");
    }
}
