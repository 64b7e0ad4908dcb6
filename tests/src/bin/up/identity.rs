//! What ext-authz adds, in an Envoy of its own: `envoy-configs/ext-authz/`, with a client's key and a limit to look at.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use glacis_tests::envoy::{self, Envoy};
use glacis_tests::ext_proc::edited;
use glacis_tests::failure::{Failure, Outcome};
use glacis_tests::http::{self, Request};
use glacis_tests::log::Folder;
use glacis_tests::rate_limit::ExtAuthz;
use glacis_tests::{ports, settings};
use serde_json::Value;

use crate::rows::Finding;

const EXT_AUTHZ: &str = "ext-authz";
const LOGS: Duration = Duration::from_secs(15);

/// A key for whoever tries this, and no one else: its hash is that of `demo-key`.
const KEY: &str = "demo-key";

/// What is added to the shipped configuration.
const POLICIES: &str =
    "policies:\n- {name: orders, match: {paths: [\"/orders/**\"]}, require: {api_key: {}}}\n";
const LIMITS: &str = "rate_limits:\n- {name: reports, requests: 3, per_seconds: 3600, key: [api_key], match: {paths: [/orders/report]}}\n";

/// Envoy and the service; stopped when dropped, Envoy first.
#[derive(Debug)]
pub(crate) struct Identity {
    envoy: Envoy,
    service: ExtAuthz,
    folder: Folder,
    /// Where clients ask.
    pub(crate) proxy: u16,
    /// The service, for operators.
    pub(crate) admin: u16,
}

impl Identity {
    /// Starts both on free ports, in front of the upstream on this port.
    pub(crate) fn start(path: &std::path::Path, upstream: u16) -> Outcome<Self> {
        let folder = Folder::new(path)?;
        let [proxy, envoy_admin, grpc, admin] = ports::free()?;
        let clients =
            format!("api_keys: {{clients: [{{name: acme, keys: [{{hash: \"{}\"}}]}}]}}\n", hash());
        let config = edited(
            "envoy-configs/ext-authz/ext-authz.yaml",
            &[
                ("127.0.0.1:9002", format!("127.0.0.1:{grpc}")),
                ("127.0.0.1:9102", format!("127.0.0.1:{admin}")),
                ("policies:\n", POLICIES.to_owned()),
                ("rate_limits:\n", format!("{clients}{LIMITS}")),
            ],
        )?;
        let service = ExtAuthz::start(&folder.write("ext-authz.yaml", &config)?, admin, &folder)?;
        let port = |port: u16| format!("port_value: {port}}}");
        let config = edited(
            "envoy-configs/ext-authz/envoy.yaml",
            &[
                ("port_value: 10000}", port(proxy)),
                ("port_value: 9901}", port(envoy_admin)),
                ("port_value: 9002}", port(grpc)),
                ("port_value: 8080}", port(upstream)),
            ],
        )?;
        let envoy = settings::envoy()?;
        let envoy = Envoy::start(&envoy, &settings::root(), &config, envoy_admin, &folder)?;
        let identity = Self { envoy, service, folder, proxy, admin };
        identity.wait_for_service()?;
        Ok(identity)
    }

    /// Envoy may be live before its first probe of the service is answered.
    fn wait_for_service(&self) -> Outcome<()> {
        let begun = Instant::now();
        while self.envoy.stat("cluster.glacis-ext-authz.membership_healthy")? == 0 {
            if begun.elapsed() > LOGS {
                return Err(Failure::new("Envoy finds no healthy ext-authz"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Stops both in order.
    pub(crate) fn stop(&mut self) {
        self.envoy.process().stop();
        self.service.process().stop();
    }

    /// Sends a few requests, and looks up in the log what became of each.
    pub(crate) fn send_all(&self) -> Outcome<Vec<Finding>> {
        let order = || Request::get("/orders/42").browser();
        let report = || Request::get("/orders/report").browser().header("x-api-key", KEY);
        let rows = [
            ("a client's key", "x-api-key: demo-key", order().header("x-api-key", KEY), 200, ""),
            ("no key", "GET /orders/42", order(), 401, "no_key"),
            (
                "a key of nobody",
                "x-api-key: guess",
                order().header("x-api-key", "guess"),
                401,
                "wrong_key",
            ),
            (
                "a closed path",
                "GET /internal/",
                Request::get("/internal/").browser(),
                403,
                "policy",
            ),
            ("a client's limit", "the 4th report in an hour", report(), 429, "rate_limit"),
        ];
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, self.proxy));
        let from = |number: u8| Ipv4Addr::new(127, 0, 3, number);
        for _ in 0..3 {
            http::send(Some(from(0)), proxy, &report())?;
        }
        let mut findings = Vec::new();
        for ((name, sent, request, status, reason), number) in rows.into_iter().zip(1..) {
            let found = http::send(Some(from(number)), proxy, &request)?.status;
            let line = self.logged(from(number))?;
            let told = line["authz"]["reason"].as_str().unwrap_or_default();
            let by = if told.is_empty() { "upstream" } else { EXT_AUTHZ };
            let good = (found, told) == (status, reason);
            let client = line["authz"]["client"].as_str().unwrap_or_default();
            let why = if told.is_empty() { format!("client {client}") } else { told.to_owned() };
            findings.push(Finding::new(name, sent, found, by, why, good));
        }
        Ok(findings)
    }

    /// The line of the access log about this client.
    fn logged(&self, client: Ipv4Addr) -> Outcome<Value> {
        let begun = Instant::now();
        loop {
            self.envoy.reopen_logs()?;
            let log = self.folder.read(envoy::LOG);
            let mut lines = log.lines().flat_map(serde_json::from_str::<Value>);
            if let Some(line) = lines.find(|line| line["client"] == client.to_string()) {
                return Ok(line);
            }
            if begun.elapsed() > LOGS {
                return Err(Failure::new(
                    "a request is missing in the access log of ext-authz's Envoy",
                ));
            }
            sleep(Duration::from_millis(20));
        }
    }
}

/// The hash of [`KEY`], as `glacis-ext-authz hash-key` says it.
fn hash() -> String {
    use sha2::{Digest as _, Sha256};
    let digits =
        Sha256::digest(KEY.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{digits}")
}
