//! What the chart writes down, in the hands of those for whom it is: the services, and an Envoy that reads files. The
//! services are given what docker-compose.yaml mounts as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use glacis_tests::certificates::Authority;
use glacis_tests::http::{self, Request};
use glacis_tests::log::Folder;
use glacis_tests::settings;
use glacis_tests::stack::{Ports, Processor, Stack};
use serde_json::Value;

use crate::support::{client, eventually, folder, shared};

/// What the chart makes of each file of values, from the top folder.
const GOLDEN: &str = "charts/glacis/tests/golden";

/// The ConfigMaps of a golden file: names, and their files.
fn config_maps(file: &Path) -> Vec<(String, BTreeMap<String, String>)> {
    let text = fs::read_to_string(file).unwrap();
    let documents = text.split("---\n").filter(|text| text.contains("\nkind: ConfigMap\n"));
    let read = |text: &str| {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let files = object["data"].as_object().unwrap().iter();
        let files = files.map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned()));
        (name, files.collect())
    };
    documents.map(read).collect()
}

/// The volumes that the Job before an upgrade mounts.
const OF_THE_CHECK: [&str; 4] = ["secrets/", "rules/", "rules-of/", "rules-image/"];

/// Writes the files of the volumes whose names begin so; an empty start is all of them.
fn mounted(folder: &Folder, starts: &[&str]) {
    let authority = Authority::new().unwrap();
    let pair = authority.issue("glacis-ext-proc").unwrap();
    let rule = |id| format!("SecRule ARGS:a \"@streq {id}\" \"id:{id},phase:2,pass\"\n");
    for (name, text) in [
        ("tls/tls.crt", pair.certificate),
        ("tls/tls.key", pair.key),
        ("tls/ca.crt", authority.certificate),
        ("redis/password", "password".to_owned()),
        ("tokens/admin", "a-token-for-the-admin-port".to_owned()),
        ("tokens/grpc", "a-token-for-calls-of-envoy".to_owned()),
        ("secrets/pepper", "0123456789abcdef0123456789abcdef".to_owned()),
        ("rules/own.conf", rule(1)),
        ("rules-of/team-rules/team.conf", rule(2)),
        ("rules-image/image.conf", rule(3)),
    ] {
        if !starts.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        fs::create_dir_all(folder.file(name).parent().unwrap()).unwrap();
        folder.write(name, &text).unwrap();
    }
}

#[test]
fn services_accept_what_the_chart_configures() {
    let [folder, check] =
        ["charts", "charts-check"].map(|name| Folder::new(&folder(name)).unwrap());
    mounted(&folder, &[""]);
    mounted(&check, &OF_THE_CHECK);
    let [crs, module] = [settings::crs().unwrap(), settings::wasm().unwrap()];
    let mut tried = BTreeSet::new();
    for entry in fs::read_dir(settings::root().join(GOLDEN)).unwrap() {
        let golden = entry.unwrap().path();
        for (name, files) in config_maps(&golden) {
            let (of_whom, folder) = match name.strip_suffix("-check") {
                Some(of_whom) => (of_whom, &check),
                None => (name.as_str(), &folder),
            };
            let (program, file) = match of_whom {
                name if name.ends_with("-ext-proc") => (settings::ext_proc(), "ext-proc.yaml"),
                name if name.ends_with("-ext-authz") => (settings::ext_authz(), "ext-authz.yaml"),
                _ => continue,
            };
            let config = files[file]
                .replace("/usr/share/glacis/crs", &crs.display().to_string())
                .replace("/usr/share/glacis/glacis_wasm_filter.wasm", &module.display().to_string())
                .replace("/etc/glacis", &folder.path().display().to_string());
            if !tried.insert(config.clone()) {
                continue;
            }
            accepts(&program.unwrap(), folder, file, &config, &golden);
        }
    }
    assert!(tried.len() >= 16, "{}", tried.len());
}

/// Has a service look at a configuration, which comes `from` a file of the repository.
#[track_caller]
fn accepts(program: &Path, folder: &Folder, file: &str, config: &str, from: &Path) {
    let config = folder.write(file, config).unwrap();
    let told = Command::new(program).arg("--config").arg(config).arg("--check").output().unwrap();
    let error = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{}: {file}: {error}", from.display());
}

#[test]
fn services_accept_what_compose_mounts() {
    let folder = Folder::new(&folder("compose")).unwrap();
    let crs = settings::crs().unwrap().display().to_string();
    for (program, file) in
        [(settings::ext_proc(), "ext-proc.yaml"), (settings::ext_authz(), "ext-authz.yaml")]
    {
        let mounted = settings::root().join("images/compose").join(file);
        let config = fs::read_to_string(&mounted).unwrap();
        let config = config.replace("/usr/share/glacis/crs", &crs);
        accepts(&program.unwrap(), &folder, file, &config, &mounted);
    }
}

/// A named volume is filled from an image only while it is empty: after an upgrade it would keep the old module. So the
/// service that fills it copies, and no other service writes to it.
#[test]
fn compose_copies_the_module_at_each_start() {
    let read = |file: &str| fs::read_to_string(settings::root().join(file)).unwrap();
    let compose: Value = serde_saphyr::from_str(&read("docker-compose.yaml")).unwrap();
    let services = compose["services"].as_object().unwrap();
    let volumes = |service: &Value| service["volumes"].as_array().cloned().unwrap_or_default();
    let mounts = services.iter().flat_map(|(name, service)| {
        volumes(service).into_iter().map(move |volume| (name, volume.as_str().unwrap().to_owned()))
    });
    let named: Vec<_> = mounts.filter(|(_, volume)| volume.starts_with("module:")).collect();
    let writers: Vec<_> = named.iter().filter(|(_, volume)| !volume.ends_with(":ro")).collect();
    assert_eq!(writers, [&(&"module".to_owned(), "module:/shared".to_owned())], "{named:?}");
    let target = services["module"]["build"]["target"].as_str().unwrap();
    let dockerfile = read("Dockerfile");
    let (_, stage) = dockerfile.split_once(&format!(" AS {target}\n")).unwrap();
    let stage = stage.split("\nFROM ").next().unwrap();
    assert!(
        stage.contains("CMD ") && stage.contains("cp /module/") && stage.contains("/shared"),
        "{stage}"
    );
    for (name, service) in services.iter().filter(|(name, _)| *name != "module") {
        assert_eq!(service["restart"], "unless-stopped", "{name}");
    }
}

/// The keys that a service reads at its start only, as its source lists them.
fn read_at_the_start(service: &str) -> BTreeSet<String> {
    let source = settings::root().join(service).join("src/config.rs");
    let text = fs::read_to_string(source).unwrap();
    let (_, rest) = text.split_once("differing!(self, other;").unwrap();
    let (keys, _) = rest.split_once(')').unwrap();
    keys.split(',').map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect()
}

/// The keys for which the chart exchanges pods, as a template of it lists them.
fn exchanged_for(template: &str) -> BTreeSet<String> {
    let templates = settings::root().join("charts/glacis/templates/_config.tpl");
    let text = fs::read_to_string(templates).unwrap();
    let (_, rest) = text.split_once(&format!("define \"{template}\"")).unwrap();
    let (_, rest) = rest.split_once("range $key := list ").unwrap();
    let (keys, _) = rest.split_once(" -}}").unwrap();
    keys.split(' ').map(|key| key.trim_matches('"').to_owned()).collect()
}

/// A change that pods do not notice would take effect some day, when somebody restarts them.
#[test]
fn pods_are_exchanged_for_what_is_read_at_the_start_only() {
    // Of these a part is read at the start only, which the service and the chart say in other ways.
    for (service, template, in_part) in [
        ("ext-proc", "glacis.extProcStart", &["audit", "limits", "proposals", "recent"][..]),
        ("ext-authz", "glacis.extAuthzStart", &["store"]),
    ] {
        let (mut read, mut exchanged) = (read_at_the_start(service), exchanged_for(template));
        assert!(read.len() > 10, "{service}: {read:?}");
        for key in in_part {
            read.remove(*key);
            // The chart writes the store of ext-authz without the number of replicas.
            assert_eq!(exchanged.remove(*key), *key != "store", "{service}: {key}");
        }
        assert_eq!(read, exchanged, "{service}");
    }
}

/// A configuration that leaves filters and clusters to files, as docs/attach.md has it.
fn reading_files(ports: &Ports, place: &Path) -> String {
    let Ports { proxy, admin, upstream, .. } = ports;
    let place = place.display();
    let discovered = |name: &str, file: &str, kind: &str| {
        format!(
            "          - name: {name}\n            config_discovery:\n              \
             config_source: {{path_config_source: {{path: {place}/{file}, watched_directory: {{path: {place}}}}}}}\n              \
             type_urls: [type.googleapis.com/envoy.extensions.filters.http.{kind}]\n"
        )
    };
    let ext_proc = discovered("glacis.ext_proc", "ext-proc.yaml", "ext_proc.v3.ExternalProcessor");
    let guard = discovered("glacis.guard", "guard.yaml", "rbac.v3.RBAC");
    format!(
        "node: {{id: files, cluster: files}}
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
dynamic_resources:
  cds_config: {{path_config_source: {{path: {place}/clusters.yaml, watched_directory: {{path: {place}}}}}}}
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {proxy}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: files
          route_config:
            virtual_hosts: [{{name: all, domains: [\"*\"], routes: [{{match: {{prefix: /}}, route: {{cluster: upstream}}}}]}}]
          http_filters:
{ext_proc}{guard}          - name: envoy.filters.http.router
            typed_config: {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: upstream
    load_assignment: {{cluster_name: upstream, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {upstream}}}}}}}}}]}}]}}
"
    )
}

#[test]
fn an_envoy_that_reads_files() {
    let ports = Ports::free().unwrap();
    let place = Folder::new(&folder("charts-files")).unwrap();
    let golden = settings::root().join(GOLDEN).join("files.yaml");
    let (_, files) =
        config_maps(&golden).into_iter().find(|(name, _)| name == "glacis-envoy").unwrap();
    for (name, text) in files {
        let text = text
            .replace("glacis-ext-proc.glacis.svc.cluster.local", "127.0.0.1")
            .replace("glacis-ext-authz.glacis.svc.cluster.local", "127.0.0.1")
            .replace("port_value: 9001", &format!("port_value: {}", ports.ext_proc));
        place.write(&name, &text).unwrap();
    }
    let config = reading_files(&ports, place.path());
    let logs = folder("charts-files-logs");
    let stack = Stack::start_config(&logs, ports, Processor::ExtProc, &config).unwrap();
    assert_eq!(stack.send(client(), &Request::get("/").browser()).unwrap().status, 200);
    let attack = Request::get("/?q=%27+or+1%3D1+--+").browser();
    assert_eq!(stack.send(client(), &attack).unwrap().status, 403);
    // A file that is exchanged, as Kubernetes does it with a ConfigMap, takes effect: here the failure mode.
    let open = place
        .read("ext-proc.yaml")
        .replace("failure_mode_allow: false", "failure_mode_allow: true");
    fs::write(place.file("new"), open).unwrap();
    fs::rename(place.file("new"), place.file("ext-proc.yaml")).unwrap();
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.admin));
    eventually("the new filter is in use", Duration::from_secs(20), || {
        let dump = http::fetch(admin, "/config_dump?resource=ecds_filters").unwrap().text();
        dump.contains("\"failure_mode_allow\": true")
    });
}

/// Names of Envoy's metrics in expressions: what stands before labels or a range.
fn asked_of_envoy(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut names = BTreeSet::new();
    for (start, _) in text.match_indices("envoy_") {
        let rest = &text[start..];
        let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let is_whole = !text[..start].ends_with(is_part);
        if is_whole && rest[end..].starts_with(['{', '[']) {
            names.insert(rest[..end].to_owned());
        }
    }
    names
}

/// Alerts and dashboards that ask for nothing are silent for ever. What the proxies of Istio and Envoy Gateway call
/// otherwise is asked by `cargo xtask mesh`.
#[test]
fn envoy_tells_what_alerts_and_dashboards_ask_for() {
    let chart = settings::root().join("charts/glacis");
    let mut asked = BTreeSet::new();
    for folder in ["alerts", "dashboards"] {
        for file in fs::read_dir(chart.join(folder)).unwrap() {
            asked.extend(asked_of_envoy(&fs::read_to_string(file.unwrap().path()).unwrap()));
        }
    }
    asked.retain(|name| {
        !name.contains("glacis_receipt") && name != "envoy_cluster_circuit_breakers_rq_open"
    });
    assert!(asked.len() >= 10, "{asked:?}");
    let told = shared().envoy.scrape().unwrap();
    let is_told = |name: &String| {
        let mut lines = told.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.any(|line| {
            !name.starts_with("envoy_cluster_") || line.contains("cluster_name=\"glacis-")
        })
    };
    let missing: Vec<_> = asked.iter().filter(|name| !is_told(name)).collect();
    assert!(missing.is_empty(), "Envoy does not tell {missing:?}");
    assert!(told.contains("envoy_rbac_http_prefix=\"glacis_receipt\""), "{told}");
    let reloads =
        told.lines().any(|line| line.starts_with("envoy_wasm_") && line.contains("vm_reload"));
    assert!(reloads, "{told}");
}
