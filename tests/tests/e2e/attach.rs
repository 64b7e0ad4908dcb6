//! The steps of README.md from a clone to a blocked attack, on an Envoy that has never heard of us.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use glacis_tests::http::{self, Request};
use glacis_tests::log::Folder;
use glacis_tests::stack::{Ports, Processor, Stack, quickstart};
use glacis_tests::{envoy, settings};
use serde_json::{Value, json};

use crate::support::{Own, eventually, folder};

/// Where the connection manager is, in the quickstart and in the configuration that it is added to.
const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
/// What is copied of it beside the filters.
const OF_THE_MANAGER: [&str; 3] =
    ["early_header_mutation_extensions", "local_reply_config", "use_remote_address"];
/// What each route is given.
const OF_EACH_ROUTE: &str = "request_body_buffer_limit";
const CLUSTER: &str = "glacis-ext-proc";
/// With this line behind the configuration of ext-proc rules refuse nothing.
const DETECTION: &str = "mode: detection";

/// The section of a document that begins with these words.
fn section(document: &str, heading: &str) -> String {
    let text = fs::read_to_string(settings::root().join(document)).unwrap();
    let (_, rest) = text.split_once(&format!("\n## {heading}")).unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    section.to_owned()
}

/// A configuration that runs without us: a listener, routes, a router and a cluster of its own.
fn foreign(ports: &Ports) -> Value {
    let socket =
        |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let route = |prefix: &str| json!({"match": {"prefix": prefix}, "route": {"cluster": "shop"}});
    let endpoint = json!({"endpoint": {"address": socket(ports.upstream)}});
    let kind = "type.googleapis.com/envoy.extensions.filters";
    let manager = json!({
        "@type": format!("{kind}.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "shop",
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": format!("{kind}.http.router.v3.Router")},
        }],
        "route_config": {"virtual_hosts": [{
            "name": "shop",
            "domains": ["*"],
            "routes": [route("/size/"), route("/")],
        }]},
    });
    json!({
        "admin": {"address": socket(ports.admin)},
        "static_resources": {
            "listeners": [{
                "address": socket(ports.proxy),
                "filter_chains": [{"filters": [{
                    "name": "envoy.filters.network.http_connection_manager",
                    "typed_config": manager,
                }]}],
            }],
            "clusters": [{
                "name": "shop",
                "load_assignment": {
                    "cluster_name": "shop",
                    "endpoints": [{"lb_endpoints": [endpoint]}],
                },
            }],
        },
    })
}

/// The same with what step 3 says to copy from the quickstart, as it stands there, but for so many of the filters.
fn attached(ports: &Ports, left_out: usize) -> String {
    let ours: Value = serde_saphyr::from_str(&quickstart(ports, &[]).unwrap()).unwrap();
    let from = ours.pointer(MANAGER).unwrap();
    let mut config = foreign(ports);
    let manager = config.pointer_mut(MANAGER).unwrap();
    for key in OF_THE_MANAGER {
        manager[key] = from[key].clone();
        assert!(!manager[key].is_null(), "the quickstart has no {key}");
    }
    let (last, filters) = from["http_filters"].as_array().unwrap().split_last().unwrap();
    assert_eq!((filters.len(), &last["name"]), (3, &json!("envoy.filters.http.router")));
    let own = manager["http_filters"].as_array_mut().unwrap();
    let router = own.pop().unwrap();
    own.extend(filters.iter().skip(left_out).cloned());
    own.push(router);
    let limit = &from["route_config"]["virtual_hosts"][0]["routes"][0][OF_EACH_ROUTE];
    assert!(limit.is_u64(), "the first route of the quickstart has no {OF_EACH_ROUTE}");
    let routes = manager.pointer_mut("/route_config/virtual_hosts/0/routes").unwrap();
    for route in routes.as_array_mut().unwrap() {
        route[OF_EACH_ROUTE] = limit.clone();
    }
    let mut clusters = ours["static_resources"]["clusters"].as_array().unwrap().iter();
    let cluster = clusters.find(|cluster| cluster["name"] == CLUSTER).unwrap();
    config["static_resources"]["clusters"].as_array_mut().unwrap().push(cluster.clone());
    config.to_string()
}

/// Step 4 before Envoy is started.
#[track_caller]
fn fits_together(name: &str, config: &str) {
    let place = Folder::new(&folder(&format!("{name}-config"))).unwrap();
    let file = place.write("envoy.yaml", config).unwrap();
    envoy::validate(&settings::envoy().unwrap(), &settings::root(), &file).unwrap();
}

/// What curl shows, asked as README.md has it, at the port of this Envoy.
fn shown(command: &str, stack: &Stack) -> String {
    let command = command.replace(":10000/", &format!(":{}/", stack.ports.proxy));
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The answers of an Envoy to which we are attached.
#[track_caller]
fn check(stack: &Stack, attack: &str, harmless: &str) {
    let refused = shown(attack, stack);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let answered = shown(harmless, stack);
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    assert!(answered.contains("You have reached the upstream."), "{answered}");
    let made_up = Request::get("/echo").header("x-glacis-user", "root").browser();
    let echoed = http::send(None, stack.proxy(), &made_up).unwrap();
    assert_eq!(echoed.status, 200, "{}", echoed.text());
    assert!(!echoed.text().contains("x-glacis-user"), "{}", echoed.text());
}

#[test]
fn an_envoy_of_ones_own_refuses_the_attack_of_the_readme() {
    let steps = section("README.md", "Attach your own Envoy");
    let beside = section("envoy-configs/quickstart/README.md", "To put it in front of your own");
    for word in OF_THE_MANAGER.into_iter().chain([OF_EACH_ROUTE, CLUSTER]) {
        for text in [&steps, &beside] {
            assert!(text.contains(&format!("`{word}")), "{word} is not named in\n{text}");
        }
    }
    assert!(steps.contains(&format!("`{DETECTION}`")), "{steps}");
    let mut lines = steps.lines().map(str::trim);
    let attack = lines.find(|line| line.starts_with("curl -i ")).unwrap();
    let (harmless, _) = attack.split_once('?').unwrap();
    let harmless = format!("{harmless}'");

    let ports = Ports::free().unwrap();
    let config = attached(&ports, 0);
    fits_together("attach", &config);
    let begun = Instant::now();
    let started = Stack::start_config(&folder("attach"), ports, Processor::ExtProc, &config);
    let mut own = Own(started.unwrap());
    assert!(shown(attack, &own.0).starts_with("HTTP/1.1 403 "));
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{seconds:.1} s from the start of the services to the first refusal");
    check(&own.0, attack, &harmless);

    // The module may be left out at first; the processor is the same.
    let Ports { ext_proc, ext_proc_admin, .. } = ports;
    let ports = Ports { ext_proc, ext_proc_admin, ..Ports::free().unwrap() };
    let config = attached(&ports, 1);
    fits_together("attach-without-module", &config);
    let logs = folder("attach-without-module");
    let beside = Own(Stack::start_config(&logs, ports, Processor::Other, &config).unwrap());
    check(&beside.0, attack, &harmless);

    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, ext_proc_admin));
    eventually("the page tells of the refused requests", Duration::from_secs(5), || {
        let recent = http::fetch(admin, "/recent").unwrap().json();
        recent["last"].as_u64().is_some_and(|last| last >= 2)
    });

    let processor = own.0.ext_proc.as_ref().unwrap();
    processor.set_keys(&format!("{DETECTION}\n")).unwrap();
    eventually("rules refuse nothing", Duration::from_secs(60), || {
        shown(attack, &own.0).starts_with("HTTP/1.1 200 ")
    });

    // Nobody passes without a verdict, and everybody is told the same.
    own.0.ext_proc.as_mut().unwrap().process().kill();
    let unchecked = shown(&harmless, &beside.0);
    assert!(unchecked.starts_with("HTTP/1.1 503 "), "{unchecked}");
    assert!(unchecked.contains("retry-after: 1"), "{unchecked}");
}
