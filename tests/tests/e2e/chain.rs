//! The module, ext-authz and ext-proc in one chain: what each of them tells the upstream reaches it through the others,
//! and no copy of it that a client has made up does.

use std::fs;
use std::time::Duration;

use glacis_tests::http::Request;
use glacis_tests::lender::Lender;
use glacis_tests::settings;
use glacis_tests::stack::{Ports, Processor, Stack, quickstart};
use serde_json::{Value, json};

use crate::headers::{FORGED, is_ours, of_type, seen};
use crate::support::{Own, access_log, client, eventually, folder};

/// `acme-key`, as in the shipped configurations.
const CLIENTS: &str = r#"
otherwise: allow
api_keys:
  clients:
  - name: acme
    keys: [{hash: "sha256:afacab3575137afa4e00d9cbcafcb14c9ae25f779d964eb0ea5b2c4eb5dfd163"}]
rate_limits: [{name: all, requests: 1000, per_seconds: 1, key: [api_key]}]
"#;

/// The quickstart with ext-authz between the module and the rules, where docs and chart have it, and with a module
/// that tells the upstream a score and a country.
fn all_three(ports: &Ports, ext_authz: u16) -> String {
    let text = fs::read_to_string(settings::root().join("envoy-configs/ext-authz/envoy.yaml"));
    let theirs: Value = serde_saphyr::from_str(&text.unwrap()).unwrap();
    let mut filters = Vec::new();
    of_type(&theirs, "ext_authz.v3.ExtAuthz", &mut filters);
    let filter = json!({"name": "envoy.filters.http.ext_authz", "typed_config": filters[0]});
    let clusters = theirs["static_resources"]["clusters"].as_array().unwrap();
    let cluster = clusters.iter().find(|cluster| cluster["name"] == "glacis-ext-authz").unwrap();
    let cluster = cluster.to_string();
    let port = r#""port_value":9002"#;
    assert!(cluster.contains(port), "{cluster}");
    let cluster = cluster.replace(port, &format!(r#""port_value":{ext_authz}"#));
    let plugin = r#""trusted_hops": 0, "bots": {"header": true}, "geo": {"from_header": "x-country", "header": true}"#;
    let edits = [
        ("          # 2. The rules.", format!("          - {filter}\n\n          # 2. The rules.")),
        ("  clusters:\n", format!("  clusters:\n  - {cluster}\n")),
        (r#""trusted_hops": 0"#, plugin.to_owned()),
    ];
    let edits: Vec<(&str, &str)> = edits.iter().map(|(old, new)| (*old, new.as_str())).collect();
    quickstart(ports, &edits).unwrap()
}

#[test]
fn headers_of_each_component_reach_the_upstream_through_the_others() {
    let ports = Ports::free().unwrap();
    let ext_authz = Lender::start(&folder("headers-ext-authz"), CLIENTS).unwrap();
    let config = all_three(&ports, ext_authz.port);
    let stack = Stack::start_config(&folder("headers"), ports, Processor::ExtProc, &config);
    let own = Own(stack.unwrap());
    eventually("Envoy finds ext-authz healthy", Duration::from_secs(15), || {
        own.0.envoy.stat("cluster.glacis-ext-authz.membership_healthy").unwrap() == 1
    });
    let from = client();
    let mut request = Request::get("/echo").browser().header("x-api-key", "acme-key");
    request = request.header("x-country", "DE");
    for name in FORGED {
        request = request.header(name, "forged");
    }
    let answer = own.0.send(from, &request).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let echoed = answer.json();
    let fields = echoed["headers"].as_array().unwrap().iter();
    let fields = fields.map(|field| (field[0].as_str().unwrap(), field[1].as_str().unwrap()));
    let mut ours: Vec<(&str, &str)> = fields.filter(|(name, _)| is_ours(name)).collect();
    ours.sort_unstable();
    let expected =
        [("x-glacis-bot-score", "0"), ("x-glacis-client", "acme"), ("x-glacis-country", "DE")];
    assert_eq!(ours, expected, "{echoed:#}");
    let line = &access_log(&own.0, &[from])[0];
    assert_eq!(line["glacis"]["verdict"], "allow", "{line:#}");

    // Without a key, and with an attack, everything is as it was.
    let attack = Request::get("/echo?q=%27%20or%201%3D1%20--%20").browser();
    assert_eq!(own.0.send(client(), &attack).unwrap().status, 403);
    let anonymous = own.0.send(client(), &Request::get("/echo").browser()).unwrap();
    let names = seen(&anonymous, &[]);
    assert!(!names.iter().any(|name| name == "x-glacis-client"), "{names:?}");
}
