//! Headers that only Glacis may set: no copy that a client has made up reaches an upstream, in whatever spelling, with
//! any configuration that the repository ships.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use glacis_tests::envoy::Envoy;
use glacis_tests::http::{self, Request, Response};
use glacis_tests::log::Folder;
use glacis_tests::stack::Processor;
use glacis_tests::{http2, ports, settings, upstream};
use serde_json::{Value, json};

use crate::configs::shipped;
use crate::support::{Own, client, folder};

const MANAGER: &str = "HttpConnectionManager";
const MUTATIONS: &str = "early_header_mutation_extensions";
const GOLDEN: &str = "charts/glacis/tests/golden";
/// What the chart makes for a gateway of Istio, with responses.
const ISTIO: &str = "envoy-configs/istio/gateway.yaml";

/// Spellings that servers turn into the variable `HTTP_X_GLACIS_CLIENT`, and other names that begin so.
pub(crate) const FORGED: &[&str] = &[
    "x-glacis-client",
    "X-GLACIS-Client",
    "x_glacis_client",
    "X_Glacis_Client",
    "X_Glacis-Client",
    "x-glacis_client",
    "x.glacis.client",
    "x~glacis!client",
    "x-glacis-",
    "x_glacis_",
    "x-glacis-bot-score",
    "x_glacis_country",
];
/// Names that are not ours, which reach the upstream.
const FOREIGN: &[&str] = &["x-glacial", "x_shop_id", "x-glacis", "glacis-x", "x-my-glacis-client"];

/// Whether a server that folds names would take this one for ours.
pub(crate) fn is_ours(name: &str) -> bool {
    let folded = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    folded.to_ascii_lowercase().starts_with("x-glacis-")
}

/// All objects of a configuration whose type ends so.
pub(crate) fn of_type<'v>(value: &'v Value, kind: &str, found: &mut Vec<&'v Value>) {
    if value["@type"].as_str().is_some_and(|name| name.ends_with(kind)) {
        found.push(value);
    }
    match value {
        Value::Object(members) => members.values().for_each(|value| of_type(value, kind, found)),
        Value::Array(items) => items.iter().for_each(|value| of_type(value, kind, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What Envoy Gateway makes of a ClientTrafficPolicy's `earlyRequestHeaders`.
fn as_mutation(policy: &Value) -> Value {
    let removed = policy["spec"]["headers"]["earlyRequestHeaders"]["removeOnMatch"].as_array();
    let matcher = |matcher: &Value| {
        assert_eq!(matcher["type"], "RegularExpression");
        json!({"remove_on_match": {"key_matcher": {"safe_regex": {"regex": matcher["value"]}}}})
    };
    let mutations: Vec<Value> = removed.into_iter().flatten().map(matcher).collect();
    if mutations.is_empty() {
        return Value::Null;
    }
    json!([{
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": mutations,
        },
    }])
}

/// What a file of the chart's does to headers of clients: for each way of attaching in it.
fn of_chart(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let documents = text.split("\n---\n").filter(|text| text.contains("\nkind: "));
    let documents: Vec<Value> =
        documents.map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let of_kind = |kind| documents.iter().filter(move |document| document["kind"] == kind);
    let mut found = Vec::new();
    for filter in of_kind("EnvoyFilter") {
        let mut managers = Vec::new();
        of_type(filter, MANAGER, &mut managers);
        assert!(!managers.is_empty(), "{}: {}", file.display(), filter["metadata"]["name"]);
        found.extend(managers.into_iter().map(|manager| manager[MUTATIONS].clone()));
    }
    for map in of_kind("ConfigMap").filter(|map| !map["data"]["clusters.yaml"].is_null()) {
        let manager = map["data"]["connection-manager.yaml"].as_str().unwrap_or("{}");
        let manager: Value = serde_saphyr::from_str(manager).unwrap();
        found.push(manager[MUTATIONS].clone());
    }
    if of_kind("EnvoyExtensionPolicy").next().is_some() {
        let policies: Vec<Value> = of_kind("ClientTrafficPolicy").map(as_mutation).collect();
        found.extend(if policies.is_empty() { vec![Value::Null] } else { policies });
    }
    found
}

/// The same of every configuration in the repository, with the files that have it.
fn of_everything() -> Vec<(Value, Vec<PathBuf>)> {
    let mut all: Vec<(Value, Vec<PathBuf>)> = Vec::new();
    let mut add =
        |mutations: Value, file: &Path| match all.iter_mut().find(|(there, _)| *there == mutations)
        {
            Some((_, files)) => files.push(file.to_owned()),
            None => all.push((mutations, vec![file.to_owned()])),
        };
    for file in shipped() {
        let config: Value = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let mut managers = Vec::new();
        of_type(&config, MANAGER, &mut managers);
        assert!(!managers.is_empty(), "{}", file.display());
        managers.iter().for_each(|manager| add(manager[MUTATIONS].clone(), &file));
    }
    for entry in fs::read_dir(settings::root().join(GOLDEN)).unwrap() {
        let file = entry.unwrap().path();
        of_chart(&file).into_iter().for_each(|mutations| add(mutations, &file));
    }
    all
}

/// An Envoy that does this to headers of clients, and nothing else.
fn only(mutations: &Value, [proxy, admin, upstream]: [u16; 3]) -> String {
    let socket =
        |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let kind = "type.googleapis.com/envoy.extensions.filters";
    let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "shop"}});
    let mut manager = json!({
        "@type": format!("{kind}.network.http_connection_manager.v3.{MANAGER}"),
        "stat_prefix": "shop",
        "route_config": {"virtual_hosts": [{"name": "shop", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": format!("{kind}.http.router.v3.Router")},
        }],
    });
    if !mutations.is_null() {
        manager[MUTATIONS] = mutations.clone();
    }
    let filter = json!({"name": "manager", "typed_config": manager});
    let endpoint = json!({"endpoint": {"address": socket(upstream)}});
    json!({
        "admin": {"address": socket(admin)},
        "static_resources": {
            "listeners": [{"address": socket(proxy), "filter_chains": [{"filters": [filter]}]}],
            "clusters": [{
                "name": "shop",
                "load_assignment": {
                    "cluster_name": "shop",
                    "endpoints": [{"lb_endpoints": [endpoint]}],
                },
            }],
        },
    })
    .to_string()
}

/// The names that the upstream saw of these headers, in lower case.
pub(crate) fn seen(answer: &Response, of: &[&str]) -> Vec<String> {
    let echoed = answer.json();
    let fields = echoed["headers"].as_array().unwrap_or_else(|| panic!("{}", answer.text()));
    let names = fields.iter().map(|field| field[0].as_str().unwrap().to_owned());
    names.filter(|name| is_ours(name) || of.contains(&name.as_str())).collect()
}

#[test]
fn forged_headers_reach_no_upstream_in_any_spelling() {
    let mut wrong = Vec::new();
    let everything = of_everything();
    let files: usize = everything.iter().map(|(_, files)| files.len()).sum();
    assert!(files >= 14, "{everything:#?}");
    for (number, (mutations, files)) in everything.iter().enumerate() {
        let ports: [u16; 3] = ports::free().unwrap();
        let [proxy, admin, shop] = ports;
        upstream::spawn(shop).unwrap();
        let place = Folder::new(&folder(&format!("headers-{number}"))).unwrap();
        let config = only(mutations, ports);
        let program = settings::envoy().unwrap();
        let _envoy = Envoy::start(&program, &settings::root(), &config, admin, &place).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], proxy));
        let mut request = Request::get("/echo");
        for name in FORGED.iter().chain(FOREIGN) {
            request = request.header(name, "forged");
        }
        for (protocol, answer) in [
            ("HTTP/1.1", http::send(None, to, &request).unwrap()),
            ("HTTP/2", http2::send(client(), to, &request).unwrap()),
        ] {
            let mut seen = seen(&answer, FOREIGN);
            seen.sort();
            let mut expected: Vec<&str> = FOREIGN.to_vec();
            expected.sort_unstable();
            if seen != expected {
                wrong.push(format!("{protocol}: {seen:?}, by\n{files:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the documents say where rules see responses, and the chart writes for Istio.
const PLAIN: &str = "request_headers_to_remove: [accept-encoding]";

#[test]
fn clients_do_not_ask_for_compressed_responses() {
    for file in ["docs/attach.md", "envoy-configs/quickstart/README.md", ISTIO] {
        let text = fs::read_to_string(settings::root().join(file)).unwrap();
        assert!(text.contains(PLAIN), "{file}");
    }
    let domains = r#"domains: ["*"]"#;
    let plain = format!("{domains}\n              {PLAIN}");
    let edits = [
        (domains, plain.as_str()),
        ("response_header_mode: SKIP", "response_header_mode: SEND"),
        ("response_body_mode: NONE", "response_body_mode: BUFFERED"),
    ];
    let own = Own::start("plain", Processor::ExtProc, &edits);
    let request = Request::get("/echo").browser();
    assert!(request.headers.iter().any(|(name, _)| name == "accept-encoding"));
    let answer = own.0.send(client(), &request).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(seen(&answer, &["accept-encoding", "accept-language"]), ["accept-language"]);
}
